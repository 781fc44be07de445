/* SPDX-License-Identifier: MIT */
/* ladder.c - `rdmactl ladder`: a capture as a sequence diagram, a page or a picture. */
#include "ladder.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "captures.h"
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
	uint64_t span;        /* --last, in ns; 0: all */
	uint64_t until;       /* --until, in ns; 0: to the end */
	struct ladder_style style;
	bool json;
	const char *count, *seconds; /* of a live one */
	const struct ask *ask;
};

static void usage(void)
{
	fputs("usage: rdmactl ladder [options] -o OUT.html|OUT.svg FILE...|live\n"
	      "Draw a capture (pcapng, pcap; - is standard input) of RoCEv2 traffic as a sequence diagram; live:\n"
	      "the packets that pass the daemon from now on, until ^C. Captures of several hosts become one\n"
	      "diagram; their clocks are told apart by packets that both have.\n"
	      "  -o, --output FILE      write to FILE, - is standard output; its ending says what: a page (.html)\n"
	      "                         or a picture (.svg)\n"
	      "  -f, --format KIND      make html or svg, whatever the name\n"
	      "  -q, --qp QPN,...       show only connections of these queue pairs, of either end\n"
	      "  -p, --packets A[-B]    show only these packets of the file\n"
	      "  -l, --last S           show only the last so many seconds\n"
	      "  -U, --until TIME       show nothing after this time, in seconds since 1970 (1795416734.128)\n"
	      "  -u, --unfold           give each packet a line of its own in the picture\n"
	      "  -m, --max N            stop after N packets (default: 200000)\n"
	      "  -c, --count N          live: stop after N packets\n"
	      "  -T, --seconds S        live: stop after so many seconds\n"
	      "  -t, --title TEXT       use this title instead of the file's name\n"
	      "      --theme KIND       auto (as the viewer prefers), light or dark\n"
	      "With --json the diagram goes to standard output as JSON, without -o.\n"
	      "Exit status: 0; 1 no daemon, or nothing could be written; 2 wrong arguments, or a file that cannot\n"
	      "be read or has no RoCE packet.\n",
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

static void take(struct ladder *l, const struct source *s, const struct pcapng_item *it, enum capture_dir dir,
		 uint64_t no, const struct options *o)
{
	char comment[512];
	struct taken t = { .no = no,
			   .ns = it->ns,
			   .link = (int)s->reader.iface[it->iface].link,
			   .data = it->data,
			   .len = it->caplen };

	if (no < o->first || no > o->last)
		return;
	if (!frame_link_known(t.link))
		l->odd_link = t.link;
	t.where = (uint64_t)frame_index(t.link, t.data, t.len) << 32 | it->iface;
	t.dir = dir == CAPTURE_LEAVES ? TAKEN_OUT : dir == CAPTURE_ARRIVES ? TAKEN_IN : TAKEN_ANYWHERE;
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
	uint32_t dir = it->flags & PCAPNG_DIR;

	take(a->l, s, it,
	     dir == PCAPNG_OUT  ? CAPTURE_LEAVES
	     : dir == PCAPNG_IN ? CAPTURE_ARRIVES
				: CAPTURE_ANYWHERE,
	     no, a->o);
}

/* False: said why.  Of a file that is cut what is there is drawn. */
static bool read_all(struct ladder *l, struct captures *c, const struct options *o)
{
	const uint64_t end = o->until ? o->until : clocks_last(&c->clocks), from = o->span < end ? end - o->span : 0;
	struct capture_frame f;
	uint64_t no = 0;

	l->early_ns = clocks_uneven(&c->clocks);
	while (captures_next(c, &f)) {
		no++;
		if (o->until && f.item->ns > o->until)
			continue;
		if (!o->span || f.item->ns >= from)
			take(l, f.source, f.item, f.dir, no, o);
	}
	for (unsigned i = 0; i < c->n; i++)
		l->drops += c->source[i].drops;
	return !c->broken; /* told there */
}

/* ---- clocks of several files ------------------------------------------------------------ */

static void clock_tell(const struct captures *c, unsigned i)
{
	const struct clock *k = &c->clocks.clock[i];
	const char *name = c->source[i].name, *other = c->source[k->against].name;
	const double off_s = (double)(k->ahead_ns < 0 ? -k->ahead_ns : k->ahead_ns) / 1e9;
	const double within_us = (double)(k->within_ns < 0 ? -2 * k->within_ns : k->within_ns) / 1e3;

	if (k->link == CLOCK_NONE)
		fprintf(stderr,
			"rdmactl: %s has no packet that another file has, too, so how far its clock is from theirs is "
			"not known: times are as they stand in the file\n",
			name);
	if (k->link != CLOCK_PACKETS)
		return;
	fprintf(stderr, "rdmactl: %s: its clock is %.6f s %s that of %s", name, off_s,
		k->ahead_ns < 0 ? "behind" : "ahead of", other);
	if (k->rate != 0)
		fprintf(stderr, " and gains %.2f us a second", k->rate * 1e6);
	fprintf(stderr, ", by %u packets that both have ", k->packets);
	if (k->one_way)
		fputs("(of one direction only: their time on the way is not known, and taken for 0)\n", stderr);
	else if (k->within_ns < 0)
		fprintf(stderr, "(but not evenly: times are wrong by up to %.1f us)\n", within_us);
	else
		fprintf(stderr, "(within %.1f us)\n", within_us);
}

static json_t *clocks_json(const struct captures *c)
{
	json_t *list = json_array();

	for (unsigned i = 1; i < c->n; i++) {
		const struct clock *k = &c->clocks.clock[i];

		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:I, s:f, s:I, s:I}", "file", show_text(c->source[i].name),
						"against", show_text(c->source[k->against].name), "ahead_ns",
						(json_int_t)k->ahead_ns, "gains_ppm", k->rate * 1e6, "within_ns",
						(json_int_t)k->within_ns, "packets", (json_int_t)k->packets));
	}
	return list;
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

static int summary(const struct ladder *l, const struct options *o)
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
	if (!strcmp(o->out, "-"))
		return 0;
	printf("%s: %u connections, %u packets: %llu sent again, %llu %s, %llu NAKs\n", o->out, l->conns, l->n,
	       (unsigned long long)again, (unsigned long long)gone, ladder_gone(l), (unsigned long long)naks);
	return show_end();
}

static int draw(struct ladder *l, const struct captures *c, const struct options *o)
{
	const bool chosen = o->first > 1 || o->last < UINT64_MAX;
	int status;
	json_t *j;

	ladder_end(l, o->qpn, o->qpns);
	if (l->no_memory) {
		fprintf(stderr, "rdmactl: %s: no memory\n", l->name);
		return 1;
	}
	if (l->cut)
		fprintf(stderr,
			"rdmactl: %s: %llu packets are not whole, and left out: capture all of their headers, and of "
			"messages of the connection manager all (a snaplen of 320)\n",
			l->name, (unsigned long long)l->cut);
	if (!l->n && l->odd_link) {
		fprintf(stderr, "rdmactl: %s: " FRAME_LINK_UNKNOWN "\n", l->name, l->odd_link);
		return 2;
	}
	if (!l->n) {
		fprintf(stderr, "rdmactl: %s: %s\n", l->name,
			l->check.packets      ? "no packet of these queue pairs in it"
			: o->span || o->until ? "no RoCEv2 packet in this time"
			: chosen              ? "none of these packets is one of RoCEv2"
					      : "no RoCEv2 packet in it (UDP port 4791)");
		return 2;
	}
	if (o->json) {
		j = ladder_json(l);
		if (c && c->n > 1)
			json_object_set_new(j, "clocks", clocks_json(c));
		return show_json(j);
	}
	status = put(l, o);
	return status ? status : summary(l, o);
}

/* The names of all files, without their directories; the caller frees it. */
static char *title_of(char *const *names, unsigned n)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (unsigned i = 0; f && i < n; i++) {
		const char *slash = strrchr(names[i], '/');

		fprintf(f, "%s%s", i ? " + " : "", slash ? slash + 1 : names[i]);
	}
	if (!f || fclose(f))
		return NULL;
	return text;
}

static int files(struct ladder *l, char *const *names, unsigned n, const struct options *o)
{
	struct captures *c = calloc(1, sizeof(*c));
	int status = 2;

	if (!c) {
		fprintf(stderr, "rdmactl: no memory\n");
		return 1;
	}
	if (captures_open(c, names, n, o->span && !o->until)) {
		for (unsigned i = 1; i < n; i++)
			clock_tell(c, i);
		if (read_all(l, c, o))
			status = draw(l, c, o);
	}
	captures_close(c);
	free(c);
	return status;
}

static int ladder(char *const *names, unsigned n, struct options *o, uint32_t max)
{
	struct ladder *l = calloc(1, sizeof(*l));
	char *title = title_of(names, n);
	int status;

	if (!l || !title) {
		fprintf(stderr, "rdmactl: no memory\n");
		free(l);
		free(title);
		return 1;
	}
	l->max = max;
	l->name = n == 1 ? names[0] : title;
	l->title = o->title ? o->title : title;
	l->check.conv = &l->conv;
	l->check.find.has_from = true; /* nobody's: nothing is a finding, and nothing is told */
	if (!strcmp(names[0], "live")) {
		status = ladder_live(l, o->ask, o->count, o->seconds, take_live, &(struct live_arg){ l, o });
		status = status ? status : draw(l, NULL, o);
	} else {
		status = files(l, names, n, o);
	}
	ladder_free(l);
	free(l);
	free(title);
	return status;
}

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool qps_get(struct options *o, const char *list)
{
	if (show_qpns(list, o->qpn, &o->qpns, QPS_MAX))
		return true;
	fprintf(stderr, "rdmactl: --qp %s: numbers of queue pairs, with commas, %u at most\n", list, QPS_MAX);
	return false;
}

static bool packets_get(struct options *o, const char *range)
{
	char *end;
	bool digits = *range >= '0' && *range <= '9';

	o->first = o->last = strtoull(range, &end, 10);
	if (*end == '-') {
		range = end + 1;
		o->last = *range ? strtoull(range, &end, 10) : UINT64_MAX;
		digits &= !*range || (*range >= '0' && *range <= '9');
		if (!*range)
			end++;
	}
	if (!digits)
		o->first = 0;
	if (*end || !o->first || o->last < o->first)
		fprintf(stderr, "rdmactl: --packets: numbers as 17, 17-99 or 17-, from 1\n");
	return !*end && o->first && o->last >= o->first;
}

/* Seconds, to *ns. */
static bool seconds_get(uint64_t *ns, const char *option, const char *text)
{
	unsigned long long s, part = 0;
	char digits[10] = "000000000", *end;

	errno = 0;
	s = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9')
		end = (char *)text;
	if (end != text && *end == '.') {
		size_t n = strspn(end + 1, "0123456789");

		memcpy(digits, end + 1, n < 9 ? n : 9); /* a double has too few of them */
		part = strtoull(digits, NULL, 10);
		end += 1 + n;
	}
	*ns = s * 1000000000u + part;
	if (end != text && !*end && !errno && *ns && s < 10000000000u)
		return true;
	fprintf(stderr, "rdmactl: %s %s: give seconds, such as 1.5\n", option, text);
	return false;
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
	switch (c) {
	case 'o': o->out = optarg; return true;
	case 'f':
		o->format = format_named(optarg);
		if (!o->format)
			fprintf(stderr, "rdmactl: --format %s: say html or svg\n", optarg);
		return o->format;
	case 'q': return qps_get(o, optarg);
	case 'p': return packets_get(o, optarg);
	case 'l': return seconds_get(&o->span, "--last", optarg);
	case 'U': return seconds_get(&o->until, "--until", optarg);
	case 'u': o->style.unfold = true; return true;
	case 'm':
		if (show_number(optarg, max) && *max)
			return true;
		fprintf(stderr, "rdmactl: --max %s: a number of packets\n", optarg);
		return false;
	case 'c': o->count = optarg; return true;
	case 'T': o->seconds = optarg; return true;
	case 't': o->title = optarg; return true;
	case 'k': return theme_get(o, optarg);
	case 'j': o->json = true; return true;
	}
	rdmactl_wrong("rdmactl ladder", NULL);
	return false;
}

/* The captures that are named, and options that are not for them; false: said why. */
static bool names_check(const struct options *o, const char *command, char *const *names, unsigned n)
{
	bool live = n && !strcmp(names[0], "live");
	struct stat st, out;
	bool there = o->out && !stat(o->out, &out);

	if (!n || n > CAPTURES_MAX)
		return rdmactl_wrong(command, "name a capture, or up to %u, or live, not %u", CAPTURES_MAX, n), false;
	for (unsigned i = 0; i < n; i++) {
		if (there && !stat(names[i], &st) && S_ISREG(st.st_mode) && st.st_dev == out.st_dev &&
		    st.st_ino == out.st_ino)
			return rdmactl_wrong(command, "-o %s is the capture itself: name another file", o->out), false;
		if (n > 1 && !strcmp(names[i], "live"))
			return rdmactl_wrong(command, "live cannot be drawn together with files"), false;
		if ((n > 1 || (o->span && !o->until)) && !strcmp(names[i], "-"))
			return rdmactl_wrong(command, "%s: a capture is read twice for that, so name a file, not -",
					     n > 1 ? "several captures" : "--last"),
			       false;
		if ((n > 1 || (o->span && !o->until)) && !stat(names[i], &st) && !S_ISREG(st.st_mode))
			return rdmactl_wrong(command, "%s: it is read twice for that, so it must be a file, no pipe",
					     names[i]),
			       false;
	}
	if ((o->count || o->seconds) && !live)
		return rdmactl_wrong(command,
				     "--count and --seconds are for live; of a file: --packets, --max, --last"),
		       false;
	if ((o->span || o->until) && live)
		return rdmactl_wrong(command, "--last and --until are for files; of live: --seconds"), false;
	return true;
}

int ladder_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "format", required_argument, NULL, 'f' },
		{ "qp", required_argument, NULL, 'q' },
		{ "packets", required_argument, NULL, 'p' },
		{ "last", required_argument, NULL, 'l' },
		{ "until", required_argument, NULL, 'U' },
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

	while ((c = getopt_long(argc, argv, "o:f:q:p:l:U:um:t:c:T:jh", longs, NULL)) >= 0) {
		if (c == 'h') {
			usage();
			return 0;
		}
		if (!option(&o, c, &max))
			return 2;
	}
	if (!names_check(&o, argv[0], argv + optind, (unsigned)(argc - optind)))
		return 2;
	if (o.json && (o.out || o.format))
		return rdmactl_wrong(argv[0], "--json is for standard output; --output and --format are for a page or "
					      "a picture");
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
	if (o.out)
		o.out = show_out(o.out);
	return ladder(argv + optind, (unsigned)(argc - optind), &o, max);
}
