/* SPDX-License-Identifier: MIT */
/* top.c - `rdmactl top`: the queue pairs of a running rdmad, live in a terminal or a number of rounds for a pipe. */
#include "top.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "show.h"
#include "term.h"

struct options {
	struct ask ask;
	long rounds;  /* 0: without end */
	double every; /* seconds */
	enum top_sort sort;
};

static void usage(void)
{
	fputs("usage: rdmactl [-s SOCKET] top [options]\n"
	      "Show the queue pairs of a running rdmad, the busiest first; q quits.\n"
	      "  -d, --delay SECONDS   time between two rounds (default: 1)\n"
	      "  -n, --rounds N        print N rounds of plain text, for pipes; without a terminal and -n\n"
	      "                        it prints rounds without end\n"
	      "  -o, --sort KEY        sort by rate, again, flight, qpn or program\n"
	      "Exit status: 0; 1 no daemon answered in the last round; 2 wrong arguments.\n",
	      stdout);
}

/* ---- plain text ----------------------------------------------------------------- */

static void nap(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };

	nanosleep(&t, NULL);
}

/* Rates need two samples: the first round waits for the second. */
static int batch(const struct options *o)
{
	struct top_sample old = { 0 }, now;
	bool good = true;
	int fd = -1;

	if (top_take(&now, &fd, &o->ask, &old))
		old = now;
	for (long i = 0; !o->rounds || i < o->rounds; i++) {
		nap(o->every);
		good = top_take(&now, &fd, &o->ask, &old);
		if (good) {
			struct top_sample shown = now;

			shown.qp = calloc(now.n + 1, sizeof(*now.qp));
			if (shown.qp) {
				memcpy(shown.qp, now.qp, now.n * sizeof(*now.qp));
				top_order(&shown, o->sort);
				printf("%s", i ? "\n" : "");
				top_text(&shown, stdout, 1000, 0, o->sort, false);
			}
			free(shown.qp);
			top_free(&old);
			old = now;
		}
		if (fflush(stdout) || ferror(stdout))
			break;
	}
	top_free(&old);
	if (fd >= 0)
		close(fd);
	return good ? show_end() : 1;
}

/* ---- a terminal --------------------------------------------------------------------- */

/* Messages of daemon_open() and its like go into a string while the screen is ours. */
struct said {
	char *text;
	size_t len;
	FILE *f, *real;
};

static bool said_begin(struct said *s)
{
	s->real = stderr;
	s->f = open_memstream(&s->text, &s->len);
	if (s->f)
		stderr = s->f;
	return s->f;
}

static void said_end(struct said *s)
{
	if (!s->f)
		return;
	stderr = s->real;
	fclose(s->f);
	free(s->text);
}

static void screen(const struct options *o, const struct top_sample *s, bool good, bool paused, const struct said *said)
{
	int columns, lines;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	term_size(&columns, &lines);
	if (good) {
		top_text(s, f, columns, lines, o->sort, true);
		fprintf(f, "\4q quit  s sort  p pause  + - delay %.3g s%s\2", o->every, paused ? "  (paused)" : "");
	} else {
		fflush(said->f);
		fprintf(f, "\3no rdmad answers; trying again every %.3g s, q quits\2\n\n", o->every);
		for (size_t i = 0, at = 0; i < said->len; i++) { /* long lines are wrapped */
			at = said->text[i] == '\n' ? 0 : at + 1;
			if (at > (size_t)columns) {
				putc('\n', f);
				at = 1;
			}
			putc(said->text[i], f);
		}
	}
	if (!fclose(f))
		term_draw(text);
	free(text);
}

static bool key(struct options *o, int c, bool *paused)
{
	switch (c) {
	case 'q':
	case 'Q':
	case 27: return false;
	case 's': o->sort = (o->sort + 1) % SORTS; break;
	case 'p':
	case ' ': *paused = !*paused; break;
	case '+': o->every = o->every < 30 ? o->every * 2 : o->every; break;
	case '-': o->every = o->every > 0.2 ? o->every / 2 : o->every; break;
	}
	return true;
}

static double seconds(void) { return (double)clock_ns(CLOCK_MONOTONIC) / 1e9; }

/* Of a sample, in the order that is shown; the sample itself stays in that of numbers. */
static void ordered(const struct options *o, const struct top_sample *s, bool good, bool paused,
		    const struct said *said)
{
	struct top_sample shown = *s;

	shown.qp = calloc(s->n + 1, sizeof(*s->qp));
	if (!shown.qp)
		return;
	if (s->n) /* else there may be no sample yet */
		memcpy(shown.qp, s->qp, s->n * sizeof(*s->qp));
	top_order(&shown, o->sort);
	screen(o, &shown, good, paused, said);
	free(shown.qp);
}

static int live(struct options *o, struct said *said)
{
	struct top_sample old = { 0 }, now;
	bool paused = false, good = false;
	double next = 0, t;
	int fd = -1, c = 0;

	while (c >= 0 && key(o, c, &paused)) {
		t = seconds();
		if (t >= next && !paused) {
			rewind(said->f);
			good = top_take(&now, &fd, &o->ask, &old);
			if (good) {
				top_free(&old);
				old = now;
			}
			next = t + (old.at > 0 && good && next <= 0 ? 0.2 : o->every); /* rates soon */
		}
		ordered(o, &old, good, paused, said);
		c = term_key((int)((next > t ? next - t : 0.5) * 1000) + 1);
	}
	top_free(&old);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------ */

static bool sort_get(struct options *o, const char *name)
{
	static const char *const names[SORTS] = { "rate", "again", "flight", "qpn", "program" };

	for (unsigned i = 0; i < SORTS; i++)
		if (!strcmp(name, names[i])) {
			o->sort = i;
			return true;
		}
	fprintf(stderr, "rdmactl: --sort %s: say rate, again, flight, qpn or program\n", name);
	return false;
}

static bool option(struct options *o, int c)
{
	char *end;

	switch (c) {
	case 's': o->ask.socket = optarg; return true;
	case 'o': return sort_get(o, optarg);
	case 'n':
		o->rounds = strtol(optarg, &end, 10);
		if (*end || o->rounds < 1)
			fprintf(stderr, "rdmactl: --rounds %s: a number from 1\n", optarg);
		return !*end && o->rounds >= 1;
	case 'd':
		o->every = strtod(optarg, &end);
		if (*end || !(o->every >= 0.1 && o->every <= 3600))
			fprintf(stderr, "rdmactl: --delay %s: seconds, from 0.1 to 3600\n", optarg);
		return !*end && o->every >= 0.1 && o->every <= 3600;
	}
	rdmactl_wrong("rdmactl top", NULL);
	return false;
}

/* One that can be drawn on? */
static bool is_screen(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && !(term && !strcmp(term, "dumb"));
}

int top_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "socket", required_argument, NULL, 's' }, { "delay", required_argument, NULL, 'd' },
		{ "rounds", required_argument, NULL, 'n' }, { "sort", required_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' },         { 0 },
	};
	struct options o = { .ask = *ask, .every = 1 };
	struct said said = { 0 };
	int c, status;

	while ((c = getopt_long(argc, argv, "s:d:n:o:h", longs, NULL)) >= 0) {
		if (c == 'h') {
			usage();
			return 0;
		}
		if (!option(&o, c))
			return 2;
	}
	if (optind != argc)
		return rdmactl_wrong(argv[0], "\"%s\" is too many; it takes no arguments", argv[optind]);
	if (ask->json) {
		fputs("rdmactl: top has no JSON; rdmactl --json qps has the counters that it shows\n", stderr);
		return 2;
	}
	if (o.rounds || !is_screen())
		return batch(&o);
	if (!said_begin(&said) || !term_begin()) {
		said_end(&said);
		fprintf(stderr, "rdmactl: cannot use the terminal: %s; see --rounds\n", strerror(errno));
		return 1;
	}
	status = live(&o, &said);
	term_end();
	said_end(&said);
	return status;
}
