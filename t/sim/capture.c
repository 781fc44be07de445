/* SPDX-License-Identifier: MIT */
/*
 * capture.c - a run's packets as pcapng, in virtual time: the same seed, the same bytes.
 *
 * Each packet stands where it leaves its node, also one that is lost on its way.
 */
#include <stdio.h>
#include <string.h>

#include "lab/dress.h"
#include "lab/pcapng.h"

#include "sim.h"

FILE *capture_file;

void capture_begin(struct sim *s)
{
	uint8_t out[256];
	char name[16];

	if (!capture_file)
		return;
	fwrite(out, pcapng_put_section(out, sizeof out, "t/sim/replay", NULL), 1, capture_file);
	for (unsigned i = 0; i < s->node_n; i++) {
		snprintf(name, sizeof name, "node%u", i);
		fwrite(out, pcapng_put_iface(out, sizeof out, name, NULL), 1, capture_file);
	}
}

void capture_pkt(struct sim *s, const struct pkt *p, const char *what)
{
	uint8_t frame[DRESS_MAX + SIM_PKT_MAX], out[sizeof frame + 1024];
	struct dress d = {
		.route = &p->route, .sport = 4791, .ip_id = p->ip_id, .data = p->data, .caplen = p->len, .len = p->len
	};
	struct pcapng_item it = { .iface = p->from->i, .ns = s->now, .flags = PCAPNG_OUT, .data = frame };

	if (!capture_file)
		return;
	it.caplen = it.len = dress_put(frame, &d);
	it.comment[0] = (struct pcapng_text){ what, strlen(what) };
	it.comments = *what != '\0';
	fwrite(out, pcapng_put_packet(out, sizeof out, &it), 1, capture_file);
}
