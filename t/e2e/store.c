/* SPDX-License-Identifier: MIT */
/* store.c - options, and what both ends need; see store.h. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options opt = { .port = 4420, .conns = 4, .threads = 1, .seconds = 5, .patience = 2000, .gap = 300, .seed = 1 };
_Atomic bool stop;
static _Atomic unsigned wrongs;

/* ---- complaints ------------------------------------------------------------- */

static void say(const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	printf("%s: %s\n", opt.target ? "target" : "initiator", text);
	fflush(stdout);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	_exit(1);
}

void wrong(const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&wrongs, 1) > 20)
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

/* ---- time, numbers, data ------------------------------------------------------ */

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rnd(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t word(uint64_t key, unsigned i) { return (key + i) * 0x9e3779b97f4a7c15u ^ key >> 7; }

void block_fill(uint64_t *b, uint64_t key)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		b[i] = word(key, i);
}

bool block_right(const uint64_t *b, uint64_t key)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		if (b[i] != word(key, i))
			return false;
	return true;
}

/* ---- durations ------------------------------------------------------------------ */

static unsigned bucket(uint64_t ns)
{
	unsigned top = ns < 8 ? 3 : 63 - (unsigned)__builtin_clzll(ns);

	return ns < 8 ? (unsigned)ns : (top - 2) * 8 + (unsigned)(ns >> (top - 3) & 7);
}

static uint64_t bucket_end(unsigned i) { return i < 8 ? i : ((8ull + i % 8 + 1) << (i / 8 - 1)) - 1; }

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->n[bucket(ns)]++;
	h->all++;
	if (ns > h->max)
		h->max = ns;
}

void histogram_join(struct histogram *to, const struct histogram *h)
{
	for (unsigned i = 0; i < 512; i++)
		to->n[i] += h->n[i];
	to->all += h->all;
	to->max = h->max > to->max ? h->max : to->max;
}

uint64_t histogram_at(const struct histogram *h, double permille)
{
	uint64_t left = (uint64_t)((double)h->all * permille / 1000);

	for (unsigned i = 0; i < 512; i++) {
		if (left < h->n[i])
			return bucket_end(i) < h->max ? bucket_end(i) : h->max;
		left -= h->n[i];
	}
	return h->max;
}

/* ---- waiting ---------------------------------------------------------------------- */

void nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		die("fcntl: %s", strerror(errno));
}

void wait_fds(int a, int b, int ms)
{
	struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };

	poll(p, 2, ms);
}

/* Completions between the last look and ibv_req_notify_cq() are looked at by the caller first: two rounds. */
void wait_cq(struct ibv_comp_channel *ch, struct ibv_cq *cq, int other, unsigned *unacked)
{
	struct ibv_cq *got;
	void *context;

	wait_fds(ch->fd, other, 10);
	while (!ibv_get_cq_event(ch, &got, &context))
		++*unacked;
	if (*unacked > 100) {
		ibv_ack_cq_events(cq, *unacked);
		*unacked = 0;
	}
	if (ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
}

/* ---- main ---------------------------------------------------------------------------- */

static void on_signal(int) { stop = true; }

static void usage(void)
{
	die("usage: store -t|-i -a ADDRESS [-p PORT] [-n CONNECTIONS] [-T THREADS] [-s SECONDS] [-N SETUPS] "
	    "[-k COMMANDS] [-w MS] [-g MS] [-S SEED] [-e] [-q] [-m]");
}

static void options(int argc, char **argv)
{
	bool role = false;
	int c;

	while ((c = getopt(argc, argv, "tia:p:n:T:s:N:k:w:g:S:eqm")) != -1)
		switch (c) {
		case 't': opt.target = role = true; break;
		case 'i': role = true; break;
		case 'a': opt.address = optarg; break;
		case 'p': opt.port = atoi(optarg); break;
		case 'n': opt.conns = (unsigned)atoi(optarg); break;
		case 'T': opt.threads = (unsigned)atoi(optarg); break;
		case 's': opt.seconds = (unsigned)atoi(optarg); break;
		case 'N': opt.setups = (unsigned)atoi(optarg); break;
		case 'k': opt.stay = (unsigned)atoi(optarg); break;
		case 'w': opt.patience = (unsigned)atoi(optarg); break;
		case 'g': opt.gap = (unsigned)atoi(optarg); break;
		case 'S': opt.seed = strtoull(optarg, NULL, 0); break;
		case 'e': opt.events = true; break;
		case 'q': opt.own_queue = true; break;
		case 'm': opt.windows = true; break;
		default: usage();
		}
	if (!role || !opt.address || optind < argc || !opt.conns || opt.conns > CONNS || !opt.threads)
		usage();
}

int main(int argc, char **argv)
{
	options(argc, argv);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	if (opt.target)
		target_run();
	else
		initiator_run();
	if (wrongs)
		printf("%u things were wrong\n", wrongs);
	return wrongs ? 1 : 0;
}
