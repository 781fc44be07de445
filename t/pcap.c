/* SPDX-License-Identifier: MIT */
#include "pcap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCAP_MAGIC    0xa1b2c3d4u
#define PCAP_ETHERNET 1u
#define ROCE_PORT     4791u

static void die(const char *name, const char *why)
{
	fprintf(stderr, "%s: %s\n", name, why);
	exit(99);
}

static void *must(void *p)
{
	if (!p)
		die("memory", "none left");
	return p;
}

static unsigned be16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }

static uint32_t le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint8_t *data_read(const char *name, size_t *len)
{
	const char *src = getenv("srcdir");
	char path[4096];
	uint8_t *data;
	long end = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/t/data/%s", src ? src : ".", name);
	f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0)
		die(path, "cannot be read (is $srcdir right?)");
	rewind(f);
	data = must(malloc((size_t)end + 1));
	if (fread(data, 1, (size_t)end, f) != (size_t)end)
		die(path, "cannot be read");
	fclose(f);
	data[end] = 0;
	*len = (size_t)end;
	return data;
}

static void frame_add(struct pcap *p, const uint8_t *frame, size_t len)
{
	size_t at = p->start[p->n];

	p->data = must(realloc(p->data, at + len + 1));
	p->start = must(realloc(p->start, (p->n + 2) * sizeof(*p->start)));
	memcpy(p->data + at, frame, len);
	p->start[++p->n] = at + len;
}

static void read_pcap(struct pcap *p, const char *name, const uint8_t *d, size_t len)
{
	size_t at = 24;

	if (len < at || le32(d) != PCAP_MAGIC || le32(d + 20) != PCAP_ETHERNET)
		die(name, "not a pcap of Ethernet");
	while (at < len) {
		size_t n;

		if (len - at < 16)
			die(name, "ends in a header");
		n = le32(d + at + 8);
		at += 16;
		if (len - at < n)
			die(name, "ends in a frame");
		frame_add(p, d + at, n);
		at += n;
	}
}

static void read_hex(struct pcap *p, const char *name, const char *text)
{
	static uint8_t frame[65536];
	size_t n = 0;
	unsigned v;

	for (; *text; text++) {
		if (*text == '#')
			text += strcspn(text, "\n");
		if (*text == '\n' && n) {
			frame_add(p, frame, n);
			n = 0;
		}
		if (*text == '\n' || *text == ' ')
			continue;
		if (n == sizeof(frame) || !text[1] || sscanf(text, "%2x", &v) != 1)
			die(name, "bad hex");
		frame[n++] = (uint8_t)v;
		text++;
	}
	if (n)
		die(name, "the last line has no end");
}

void pcap_read(struct pcap *p, const char *name)
{
	size_t len, name_len = strlen(name);
	uint8_t *d = data_read(name, &len);

	memset(p, 0, sizeof(*p));
	p->data = must(malloc(1));
	p->start = must(calloc(1, sizeof(*p->start)));
	if (name_len > 4 && !strcmp(name + name_len - 4, ".txt"))
		read_hex(p, name, (char *)d);
	else
		read_pcap(p, name, d, len);
	free(d);
}

void pcap_free(struct pcap *p)
{
	free(p->data);
	free(p->start);
}

static void mapped(uint8_t *gid, const uint8_t *ip)
{
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ip, 4);
}

bool pcap_roce(const struct pcap *p, size_t i, struct roce *r)
{
	uint8_t *eth = p->data + p->start[i], *ip = eth + 14, *udp;
	size_t len = p->start[i + 1] - p->start[i], head;

	memset(r, 0, sizeof(*r));
	if (len >= 42 && be16(eth + 12) == 0x0800 && ip[0] == 0x45 && ip[9] == 17) {
		r->ip_id = (uint16_t)be16(ip + 4);
		r->df = ip[6] & 0x40;
		mapped(r->sgid, ip + 12);
		mapped(r->dgid, ip + 16);
		udp = ip + 20;
	} else if (len >= 62 && be16(eth + 12) == 0x86dd && ip[6] == 17) {
		r->ipv6 = true;
		memcpy(r->sgid, ip + 8, 16);
		memcpy(r->dgid, ip + 24, 16);
		udp = ip + 40;
	} else {
		return false;
	}
	r->sport = (uint16_t)be16(udp);
	r->dport = (uint16_t)be16(udp + 2);
	r->pkt = udp + 8;
	r->len = be16(udp + 4) - 8u;
	head = (size_t)(r->pkt - eth);
	return r->dport == ROCE_PORT && be16(udp + 4) >= 8 && r->len <= len - head;
}
