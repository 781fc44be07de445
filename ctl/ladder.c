/* SPDX-License-Identifier: MIT */
/* ladder.c - `rdmactl ladder`: a capture as a sequence diagram, a page or a picture. */
#include "ladder.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ladder_live.h"
#include "show.h"
#include "source.h"

#define QPS_MAX     64u
#define PACKETS_MAX 200000u

enum format { FORMAT_NONE, FORMAT_SVG, FORMAT_HTML };

struct options {
	enum format format;
	const char *out;
	const char *title;
	uint32_t qpn[QPS_MAX];
	unsigned qpns;
	uint64_t first, last; /* packets of the file */
	struct ladder_style style;
	bool json;
	const char *count, *seconds; /* of a live one */
	const struct ask *ask;
};

static void usage(void)
{
	fputs("usage: rdmactl ladder [options] -o OUT.html|OUT.svg FILE|live\n"
	      "Draw a capture (pcapng, pcap; - is standard input) of RoCEv2 traffic as a sequence diagram; live: the\n"
	      "packets that pass the daemon from now on, until ^C.\n"
	      "  -o, --output FILE      write to FILE; its ending says what: a page (.html) or a picture (.svg)\n"
	      "  -f, --format KIND      make html or svg, whatever the name; - is standard output\n"
	      "  -q, --qp QPN,...       show only connections of these queue pairs, of either end\n"
	      "  -p, --packets A[-B]    show only these packets of the file\n"
	      "  -u, --unfold           give each packet a line of its own in the picture\n"
	      "  -m, --max N            stop after N packets (default: 200000)\n"
	      "  -c, --count N          live: stop after N packets\n"
	      "  -T, --seconds S        live: stop after so many seconds\n"
	      "  -t, --title TEXT       use this title instead of the file's name\n"
	      "      --theme KIND       auto (as the viewer prefers), light or dark\n"
	      "With rdmactl --json the findings go to standard output; no -o is needed.\n"
	      "Exit status: 0; 1 nothing could be written; 2 wrong arguments, or a file that cannot be read or has no "
	      "RoCE packet.\n",
	      stdout);
}

/* ---- reading --------------------------------------------------------------------------- */

/* All comments of a packet, a line each. */
static const char *comment_of(const struct pcapng_item *it, char *buf, size_t room)
{
	size_t n = 0;

	for (unsigned i = 0; i < it->comments; i++) {
		if (i && n + 2 < room)
			buf[n++] = '\n';
		for (size_t k = 0; k < it->comment[i].len && n + 1 < room; k++)
			buf[n++] = (unsigned char)it->comment[i].s[k] < ' ' ? ' ' : it->comment[i].s[k];
	}
	buf[n] = 0;
	return n ? buf : NULL;
}

static void take(struct ladder *l, const struct source *s, const struct pcapng_item *it, uint64_t no,
		 const struct options *o)
{
	char comment[512];
	uint32_t dir = it->flags & PCAPNG_DIR;
	struct taken t = { .no = no,
			   .ns = it->ns,
			   .link = (int)s->reader.iface[it->iface].link,
			   .data = it->data,
			   .len = it->caplen };

	if (no < o->first || no > o->last)
		return;
	t.dir = dir == PCAPNG_OUT ? TAKEN_OUT : dir == PCAPNG_IN ? TAKEN_IN : TAKEN_ANYWHERE;
	t.comment = comment_of(it, comment, sizeof(comment));
	ladder_frame(l, &t);
}

struct live_arg {
	struct ladder *l;
	const struct options *o;
};

static void take_live(void *arg, const struct source *s, const struct pcapng_item *it, uint64_t no)
{
	const struct live_arg *a = arg;

	take(a->l, s, it, no, a->o);
}

/* false: it is no capture; a file that is cut is told of, and what is there is drawn. */
static bool read_all(struct ladder *l, struct source *s, const struct options *o)
{
	struct pcapng_item it;
	enum source_what w;
	uint64_t no = 0;

	while ((w = source_next(s, &it)) == SOURCE_PACKET || w == SOURCE_WAIT)
		if (w == SOURCE_PACKET)
			take(l, s, &it, ++no, o);
	l->drops = s->drops;
	if (w == SOURCE_ERROR)
		fprintf(stderr, "rdmactl: %s: %s\n", s->name, s->error);
	return w == SOURCE_END || no;
}

/* ---- writing ------------------------------------------------------------------------------ */

static int put(const struct ladder *l, const struct options *o)
{
	FILE *f = strcmp(o->out, "-") ? fopen(o->out, "we") : stdout;
	bool good;

	if (!f) {
		fprintf(stderr, "rdmactl: %s: %s\n", o->out, strerror(errno));
		return 1;
	}
	good = o->format == FORMAT_SVG ? ladder_svg(l, &o->style, f) : ladder_html(l, &o->style, f);
	if (!good)
		fprintf(stderr, "rdmactl: %s: no memory\n", o->out);
	if (f == stdout)
		return show_end() || !good;
	if (ferror(f) | fclose(f)) {
		fprintf(stderr, "rdmactl: cannot write %s: %s\n", o->out, strerror(errno));
		return 1;
	}
	return !good;
}

static void summary(const struct ladder *l, const struct options *o)
{
	uint64_t again = 0, gone = 0, naks = 0;

	for (uint32_t i = 0; i < l->conns; i++) {
		again += l->conn[i].again;
		gone += l->conn[i].lost + l->conn[i].missing;
		naks += l->conn[i].nak + l->conn[i].rnr;
	}
	if (l->skipped)
		fprintf(stderr, "rdmactl: %s: the last %llu packets are left out; see --packets, --qp and --max\n",
			l->name, (unsigned long long)l->skipped);
	if (strcmp(o->out, "-"))
		printf("%s: %u connections, %u packets: %llu sent again, %llu lost, %llu NAKs\n", o->out, l->conns,
		       l->n, (unsigned long long)again, (unsigned long long)gone, (unsigned long long)naks);
}

static int draw(struct ladder *l, const struct options *o)
{
	ladder_end(l, o->qpn, o->qpns);
	if (l->no_memory) {
		fprintf(stderr, "rdmactl: %s: no memory\n", l->name);
		return 1;
	}
	if (l->cut)
		fprintf(stderr,
			"rdmactl: %s: %llu packets are not whole, and left out: capture all of each (no snaplen)\n",
			l->name, (unsigned long long)l->cut);
	if (!l->n) {
		fprintf(stderr, "rdmactl: %s: %s\n", l->name,
			l->check.packets ? "no packet of these queue pairs in it"
					 : "no RoCEv2 packet in it (UDP port 4791)");
		return 2;
	}
	if (o->json)
		return show_json(ladder_json(l));
	summary(l, o);
	return put(l, o);
}

static int file(const char *name, struct options *o, uint32_t max)
{
	struct ladder *l = calloc(1, sizeof(*l));
	const char *slash = strrchr(name, '/');
	struct source s;
	int status = 2;

	if (!l) {
		fprintf(stderr, "rdmactl: no memory\n");
		return 1;
	}
	l->max = max;
	l->name = name;
	l->title = o->title ? o->title : slash ? slash + 1 : name;
	l->check.find.has_from = true; /* nobody's: nothing is a finding, and nothing is told */
	if (!strcmp(name, "live")) {
		status = ladder_live(l, o->ask, o->count, o->seconds, take_live, &(struct live_arg){ l, o });
		status = status ? status : draw(l, o);
	} else {
		if (!source_open(&s, name))
			fprintf(stderr, "rdmactl: %s: %s\n", name, s.error);
		else if (read_all(l, &s, o))
			status = draw(l, o);
		source_close(&s);
	}
	ladder_free(l);
	free(l);
	return status;
}

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool qps_get(struct options *o, const char *list)
{
	char *end;

	for (;; list = end + 1) {
		unsigned long q = strtoul(list, &end, 0);

		if (end == list || (*end && *end != ',') || !q || q > 0xffffff || o->qpns == QPS_MAX) {
			fprintf(stderr, "rdmactl: --qp %s: numbers of queue pairs, with commas, %u at most\n", list,
				QPS_MAX);
			return false;
		}
		o->qpn[o->qpns++] = (uint32_t)q;
		if (!*end)
			return true;
	}
}

static bool packets_get(struct options *o, const char *range)
{
	char *end;

	o->first = o->last = strtoull(range, &end, 10);
	if (*end == '-') {
		range = end + 1;
		o->last = *range ? strtoull(range, &end, 10) : UINT64_MAX;
		if (!*range)
			end++;
	}
	if (*end || !o->first || o->last < o->first)
		fprintf(stderr, "rdmactl: --packets: numbers as 17, 17-99 or 17-, from 1\n");
	return !*end && o->first && o->last >= o->first;
}

static enum format format_named(const char *name)
{
	return !strcasecmp(name, "svg")                                ? FORMAT_SVG
	       : !strcasecmp(name, "html") || !strcasecmp(name, "htm") ? FORMAT_HTML
								       : FORMAT_NONE;
}

static bool theme_get(struct options *o, const char *name)
{
	static const char *const names[] = { [THEME_AUTO] = "auto", [THEME_LIGHT] = "light", [THEME_DARK] = "dark" };

	for (unsigned i = 0; i < 3; i++)
		if (!strcmp(name, names[i])) {
			o->style.theme = i;
			return true;
		}
	fprintf(stderr, "rdmactl: --theme %s: say auto, light or dark\n", name);
	return false;
}

/* One option; false: it is wrong, and that was said. */
static bool option(struct options *o, int c, uint32_t *max)
{
	char *end;

	switch (c) {
	case 'o': o->out = optarg; return true;
	case 'f':
		o->format = format_named(optarg);
		if (!o->format)
			fprintf(stderr, "rdmactl: --format %s: say html or svg\n", optarg);
		return o->format;
	case 'q': return qps_get(o, optarg);
	case 'p': return packets_get(o, optarg);
	case 'u': o->style.unfold = true; return true;
	case 'm':
		*max = (uint32_t)strtoul(optarg, &end, 10);
		if (*end || !*max)
			fprintf(stderr, "rdmactl: --max %s: a number of packets\n", optarg);
		return !*end && *max;
	case 'c': o->count = optarg; return true;
	case 'T': o->seconds = optarg; return true;
	case 't': o->title = optarg; return true;
	case 'k': return theme_get(o, optarg);
	case 'j': o->json = true; return true;
	}
	rdmactl_wrong("rdmactl ladder", NULL);
	return false;
}

int ladder_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "format", required_argument, NULL, 'f' },
		{ "qp", required_argument, NULL, 'q' },
		{ "packets", required_argument, NULL, 'p' },
		{ "unfold", no_argument, NULL, 'u' },
		{ "max", required_argument, NULL, 'm' },
		{ "title", required_argument, NULL, 't' },
		{ "theme", required_argument, NULL, 'k' },
		{ "count", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 'T' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .ask = ask, .json = ask->json, .first = 1, .last = UINT64_MAX };
	uint32_t max = PACKETS_MAX;
	const char *dot;
	int c;

	while ((c = getopt_long(argc, argv, "o:f:q:p:um:t:c:T:jh", longs, NULL)) >= 0) {
		if (c == 'h') {
			usage();
			return 0;
		}
		if (!option(&o, c, &max))
			return 2;
	}
	if (optind + 1 != argc)
		return rdmactl_wrong(argv[0], "name one capture, or live, not %d", argc - optind);
	if ((o.count || o.seconds) && strcmp(argv[optind], "live") != 0)
		return rdmactl_wrong(argv[0], "--count and --seconds are for live; of a file: --packets, --max");
	if (!o.out && !o.json)
		return rdmactl_wrong(argv[0], "--output FILE is missing: a page (.html) or a picture (.svg)");
	dot = o.out ? strrchr(o.out, '.') : NULL;
	if (!o.format && dot)
		o.format = format_named(dot + 1);
	if (!o.format && !o.json) {
		fprintf(stderr,
			"rdmactl: -o %s: is it to be a page or a picture? End it in .html or .svg, or say --format\n",
			o.out);
		return 2;
	}
	return file(argv[optind], &o, max);
}
