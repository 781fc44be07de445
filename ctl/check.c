/* SPDX-License-Identifier: MIT */
/* check.c - files, frames, packets; which rule each is for. */
#include "command.h"
#include "source.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid_text.h>

#include "../proto/gsi.h"
#include "../proto/icrc.h"
#include "check_in.h"
#include "show.h"

struct options {
	unsigned path;
	bool has_from, verbose;
	uint8_t from[16];
	json_t *json; /* the array of files; NULL: text */
};

static void usage(void)
{
	fputs("usage: rdmactl [-j] check [options] FILE...\n"
	      "Read captures (pcap, pcapng; - is standard input) of RoCEv2 traffic and say what breaks the rules.\n"
	      "  -p, --path LIST   what the path may do to packets before they are captured: loss, dup, reorder\n"
	      "  -f, --from ADDR   judge only the packets of this sender\n"
	      "  -r, --rules       print the rules\n"
	      "  -v, --verbose     print notes, too\n"
	      "  -j, --json        print JSON\n"
	      "Exit status: 0 no finding; 1 findings; 2 wrong arguments, or a file that cannot be read or has\n"
	      "no RoCE packet (with -f: none of that sender).\n",
	      stdout);
}

/* ---- one packet ---------------------------------------------------------------------- */

static const char *const parse_text[] = {
	[PARSE_SHORT] = "shorter than its headers",
	[PARSE_TVER] = "transport version is not 0",
	[PARSE_OPCODE] = "no such opcode",
	[PARSE_PAD] = "PadCnt and length do not go together",
	[PARSE_PAYLOAD] = "its opcode allows no such payload",
	[PARSE_QPN0] = "QP 0 does not exist on RoCE",
};

static void cnp(struct check *c, const struct packet *p)
{
	static const uint8_t zeros[16];

	if (p->len != BTH_LEN + sizeof(zeros) || !(p->data[BTH_ECN] & BTH_BECN) || p->at.psn ||
	    memcmp(p->data + BTH_LEN, zeros, sizeof(zeros)))
		find_breach(&c->find, &p->at, CHECK_CNP, "%zu bytes, byte 4 of the BTH is %#x", p->len,
			    p->data[BTH_ECN]);
}

static void connected(struct check *c, const struct packet *p)
{
	uint8_t svc = SVC_OF(p->b.op_first);
	struct stream *s = conv_stream(c->conv, p->frame, svc, p->b.dqpn);

	if (!s) {
		c->no_memory = true;
		return;
	}
	if (svc == SVC_UC)
		check_uc(c, s, p);
	else if (op_answers(p->op))
		check_answer(c, s, p);
	else
		check_request(c, s, p);
}

/* p: all but what its headers say. */
static void headers(struct check *c, struct packet *p)
{
	struct span span;
	enum parse_err err;

	if (p->data[BTH_OPCODE] == OPCODE_CNP) {
		p->at.op = "CNP";
		cnp(c, p);
		return;
	}
	err = burst_parse(&p->b, &span, p->data, p->len);
	if (err != PARSE_OK)
		find_breach(&c->find, &p->at, CHECK_HEADER, "opcode %#x, %zu bytes: %s", p->data[BTH_OPCODE],
			    p->len + ICRC_LEN, parse_text[err]);
	else if (SVC_OF(p->data[BTH_OPCODE]) == SVC_UD)
		check_ud(c, p, (const uint8_t *)(uintptr_t)span.addr);
	else
		connected(c, p);
}

static struct packet packet_of(const struct frame *f, const uint8_t *data, size_t len)
{
	struct packet p = { .frame = f, .at.frame = f, .data = data, .len = len - ICRC_LEN };

	p.op = opcode_get(data[BTH_OPCODE]);
	p.at.op = p.op->name ? p.op->name : "";
	p.at.qpn = be24_get(data + BTH_DQPN);
	p.at.psn = be24_get(data + BTH_PSN);
	return p;
}

static void count(struct check *c, const struct frame *f)
{
	c->packets++;
	c->judged += !c->find.has_from || gid_same(c->find.from, f->sgid);
}

/* data: from the BTH, with the ICRC. */
static void packet(struct check *c, const struct frame *f, unsigned i, const uint8_t *data, size_t len)
{
	struct packet p;

	count(c, f);
	if (len < BTH_LEN + ICRC_LEN) {
		find_breach(&c->find, &(struct find_at){ .frame = f }, CHECK_HEADER, "%zu bytes behind the UDP header",
			    len);
		return;
	}
	p = packet_of(f, data, len);
	if (frame_icrc_good(f, i, data, len)) {
		c->good = true;
	} else {
		find_breach(&c->find, &p.at, CHECK_ICRC, "%08x, computed %08x", le32_get(data + len - ICRC_LEN),
			    frame_icrc(f, i, data, len));
		/* Rule 1.5: who receives it drops it, and its headers may be others than those that were sent. */
		if (c->good) {
			c->find.path |= PATH_LOSS;
			return;
		}
	}
	headers(c, &p);
}

/* ---- frames --------------------------------------------------------------------------- */

/* Is it one packet, whose end a snap length has cut off, or may it be a train? */
static enum piece { PIECE_TRAIN, PIECE_VAGUE, PIECE_PACKET } piece_of(const struct frame *f, const struct packet *p)
{
	struct burst b;
	struct span span;
	enum parse_err err;

	if (p->data[BTH_OPCODE] == OPCODE_CNP)
		return PIECE_PACKET;
	err = burst_parse(&b, &span, p->data, p->len);
	if (err == PARSE_SHORT || err == PARSE_PAD || err == PARSE_PAYLOAD)
		return PIECE_TRAIN;
	if (err != PARSE_OK || p->op->pay == PAY_NONE || p->op->pay == PAY_8)
		return PIECE_PACKET;
	if (p->op->pay == PAY_FULL)
		return b.payload_len < 256 || (b.payload_len & (b.payload_len - 1)) ? PIECE_TRAIN : PIECE_PACKET;
	/* The first of a train ends behind what is there. */
	if (((p->op->hdrs & HDR_RETH) && b.dma_len == b.payload_len) || f->whole <= f->len + BTH_LEN + ICRC_LEN)
		return PIECE_PACKET;
	return PIECE_VAGUE;
}

/* Bytes that were cut off are taken for zeros, if the headers are there, and all of a datagram to QP 1. */
static void cut(struct check *c, struct frame *f)
{
	const struct opcode *op = f->len >= BTH_LEN ? opcode_get(f->data[BTH_OPCODE]) : NULL;
	uint8_t whole[PKT_HDR_MAX + 4096u + ICRC_LEN] = { 0 };
	struct find_at at = { .frame = f };
	enum piece piece = PIECE_TRAIN;
	struct packet p;

	if (op && f->len >= op->hdr_len && f->whole >= BTH_LEN + ICRC_LEN && f->whole <= sizeof(whole) &&
	    (be24_get(f->data + BTH_DQPN) != QPN_GSI || f->len + ICRC_LEN >= f->whole) && frame_segment(f) == f->len) {
		memcpy(whole, f->data, f->len);
		p = packet_of(f, whole, f->whole);
		piece = piece_of(f, &p);
	}
	if (piece != PIECE_PACKET) {
		find_note(&c->find, &at, "not whole, and may be several packets: capture with -s 0");
		c->find.path |= PATH_LOSS | PATH_DUP | PATH_REORDER;
	}
	if (piece == PIECE_TRAIN) {
		c->cut++;
		return;
	}
	p.vague = piece == PIECE_VAGUE;
	count(c, f);
	headers(c, &p);
}

static void frame(struct check *c, struct frame *f, int link, const uint8_t *data, size_t len)
{
	struct find_at at = { .frame = f };
	size_t seg, off = 0;
	unsigned i = 0;

	switch (frame_get(f, link, data, len)) {
	case FRAME_OTHER: return;
	case FRAME_CUT: cut(c, f); return;
	case FRAME_FRAGMENT:
		count(c, f);
		find_breach(&c->find, &at, CHECK_FRAGMENT, "an IP fragment");
		return;
	case FRAME_LENGTHS:
		count(c, f);
		find_breach(&c->find, &at, CHECK_HEADER, "its UDP length and that of its IP packet do not fit");
		return;
	case FRAME_ROCE: break;
	}
	seg = frame_segment(f);
	do {
		packet(c, f, i++, f->data + off, f->len - off < seg ? f->len - off : seg);
		off += seg;
	} while (off < f->len);
}

/* ---- one file ------------------------------------------------------------------------- */

#define VIEWS 256u /* further interfaces of the host are one */

/* The packets of one interface; another one may have seen the same packets, before or after it. */
struct view {
	struct view *next;
	unsigned iface; /* of the file */
	uint32_t index; /* of the host, if one of the file is all of them */
	struct conv conv;
	struct cm *cm;
};

struct reading {
	struct check check;
	unsigned streams;
	struct view *now; /* the check's */
	struct source source;
	struct view *views;
	unsigned view_n;
	struct frame frame;
};

static bool begins(const struct pcapng_text *t, const char *with)
{
	return t->len >= strlen(with) && !memcmp(t->s, with, strlen(with));
}

/*
 * Captures of rdmad (rdmactl-capture(8)) tell what was done to packets: those that a rule has dropped or damaged count as
 * lost, and are not judged.  true: it is one.
 */
static bool disturbed(struct reading *r, const struct pcapng_item *it)
{
	if (it->drops)
		r->check.find.path |= PATH_LOSS;
	for (unsigned i = 0; i < it->comments; i++) {
		const struct pcapng_text *t = &it->comment[i];

		if (memmem(t->s, t->len, " by rule ", 9) || memmem(t->s, t->len, " by a rule", 10)) {
			r->check.find.path |= PATH_LOSS | PATH_DUP | PATH_REORDER;
			if (begins(t, "dropped") || memmem(t->s, t->len, " damaged", 8) ||
			    begins(t, "the ICRC is wrong"))
				return true;
		}
	}
	return false;
}

/* NULL: its link type is not known, or there is no memory. */
static struct view *view_of(struct reading *r, unsigned iface, uint32_t index)
{
	int link = (int)r->source.reader.iface[iface].link;
	struct view **at = &r->views;

	for (; *at; at = &(*at)->next)
		if ((*at)->iface == iface && (*at)->index == index)
			return *at;
	if (index && r->view_n >= VIEWS)
		return view_of(r, iface, 0);
	if (!frame_link_known(link)) {
		fprintf(stderr, "rdmactl: %s: " FRAME_LINK_UNKNOWN "\n", r->check.find.file, link);
		return NULL;
	}
	*at = calloc(1, sizeof(**at));
	if (!*at) {
		fprintf(stderr, "rdmactl: %s: no memory\n", r->check.find.file);
		return NULL;
	}
	(*at)->iface = iface;
	(*at)->index = index;
	r->view_n++;
	return *at;
}

/* It becomes the check's. */
static void view_take(struct reading *r, struct view *v)
{
	if (r->now)
		r->now->cm = r->check.cm;
	r->check.conv = &v->conv;
	r->check.cm = v->cm;
	r->now = v;
}

static void views_end(struct reading *r)
{
	struct check *c = &r->check;
	struct view *v;

	while ((v = r->views)) {
		r->views = v->next;
		view_take(r, v);
		for (unsigned k = 0; k < CONV_BUCKETS; k++)
			for (struct stream *s = c->conv->bucket[k]; s; s = s->next)
				check_stream_end(c, s);
		r->streams += c->conv->streams;
		conv_free(c->conv);
		check_cm_free(c);
		free(v);
		r->now = NULL;
	}
}

static bool frames(struct reading *r)
{
	struct check *c = &r->check;
	struct frame *f = &r->frame;
	struct pcapng_item it;
	enum source_what w;
	struct view *v;
	bool good = true;
	int link;

	while (good && ((w = source_next(&r->source, &it)) == SOURCE_PACKET || w == SOURCE_WAIT)) {
		if (w == SOURCE_WAIT)
			continue;
		f->no++;
		f->ns = it.ns;
		if (f->no == 1)
			c->find.begin_ns = f->ns;
		link = (int)r->source.reader.iface[it.iface].link;
		v = view_of(r, it.iface, frame_index(link, it.data, it.caplen));
		good = v;
		if (good)
			view_take(r, v);
		if (good && disturbed(r, &it))
			c->disturbed++;
		else if (good)
			frame(c, f, link, it.data, it.caplen);
	}
	c->frames = f->no;
	views_end(r);
	if (good && w == SOURCE_ERROR) {
		fprintf(stderr, "rdmactl: %s: packet %llu: %s\n", c->find.file, (unsigned long long)f->no + 1,
			r->source.error);
		good = false;
	}
	return good;
}

static void summary(const struct reading *r, const struct options *o)
{
	const struct check *c = &r->check;

	if (!o->json) {
		printf("%s: %llu RoCE packets in %llu frames, %u streams: %llu findings, %llu notes\n", c->find.file,
		       (unsigned long long)c->packets, (unsigned long long)c->frames, r->streams,
		       (unsigned long long)c->find.findings, (unsigned long long)c->find.notes);
		return;
	}
	json_array_append_new(o->json, json_pack("{s:o, s:I, s:I, s:i, s:I, s:I, s:o}", "file", show_text(c->find.file),
						 "frames", (json_int_t)c->frames, "packets", (json_int_t)c->packets,
						 "streams", (int)r->streams, "findings", (json_int_t)c->find.findings,
						 "notes", (json_int_t)c->find.notes, "list", c->find.json));
}

static int file(const char *name, const struct options *o)
{
	struct reading *r = calloc(1, sizeof(*r));
	struct check *c = &r->check;
	int status = 2;

	if (!r || !source_open(&r->source, name)) {
		fprintf(stderr, "rdmactl: %s: %s\n", name, r ? r->source.error : "no memory");
		free(r);
		return 2;
	}
	c->find = (struct find){ .file = name,
				 .path = o->path,
				 .has_from = o->has_from,
				 .verbose = o->verbose,
				 .json = o->json ? json_array() : NULL };
	memcpy(c->find.from, o->from, sizeof(o->from));
	if (frames(r))
		status = c->find.findings > 0;
	summary(r, o);
	if (c->no_memory || !c->judged) {
		fprintf(stderr, "rdmactl: %s: %s\n", name,
			c->no_memory   ? "not all could be checked: no memory"
			: c->packets   ? "no packet of the sender of --from in it"
			: c->cut       ? "its RoCEv2 packets are cut off too early: capture with -s 0"
			: c->disturbed ? "a rule dropped or damaged its packets: of these none is judged"
				       : "no RoCEv2 packet in it (UDP port 4791)");
		status = 2;
	}
	source_close(&r->source);
	free(r);
	return status;
}

/* ---- arguments -------------------------------------------------------------------------- */

static bool path_get(unsigned *path, const char *list)
{
	static const struct {
		const char *name;
		unsigned bit;
	} kinds[] = {
		{ "loss", PATH_LOSS },
		{ "dup", PATH_DUP },
		{ "reorder", PATH_REORDER },
	};

	while (*list) {
		size_t len = strcspn(list, ","), i = 0;

		while (i < 3 && (strlen(kinds[i].name) != len || memcmp(kinds[i].name, list, len)))
			i++;
		if (i == 3) {
			fprintf(stderr, "rdmactl: --path %.*s: say loss, dup or reorder, or several with commas\n",
				(int)len, list);
			return false;
		}
		*path |= kinds[i].bit;
		list += len + (list[len] == ',');
	}
	return true;
}

static bool addr_get(uint8_t gid[16], const char *text)
{
	if (gid_read(text, gid))
		return true;
	fprintf(stderr, "rdmactl: --from %s: not an IPv4 or IPv6 address\n", text);
	return false;
}

static int rules(void)
{
	for (unsigned i = 0; i < CHECKS; i++)
		printf("%-11s %s\n", check_name(i), check_text(i));
	return show_end() ? 2 : 0;
}

/* The exit status: 0 no finding, 1 findings, 2 wrong arguments or a file that cannot be read. */
int check_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "path", required_argument, NULL, 'p' },
		{ "from", required_argument, NULL, 'f' },
		{ "rules", no_argument, NULL, 'r' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { 0 };
	bool as_json = ask->json;
	int c, status = 0, one;

	while ((c = getopt_long(argc, argv, "p:f:rvjh", longs, NULL)) >= 0) {
		switch (c) {
		case 'p':
			if (!path_get(&o.path, optarg))
				return 2;
			break;
		case 'f':
			if (!addr_get(o.from, optarg))
				return 2;
			o.has_from = true;
			break;
		case 'r': return rules();
		case 'v': o.verbose = true; break;
		case 'j': as_json = true; break;
		case 'h': usage(); return 0;
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (optind == argc)
		return rdmactl_wrong(argv[0], "name a capture; - is standard input");
	o.json = as_json ? json_array() : NULL;
	for (int i = optind; i < argc; i++) {
		one = file(argv[i], &o);
		status = one > status ? one : status;
	}
	if (o.json) {
		json_dumpf(o.json, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(o.json);
	}
	if (fflush(stdout) || ferror(stdout)) {
		perror("rdmactl: cannot write");
		return 2;
	}
	return status;
}
