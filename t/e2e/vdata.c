/* SPDX-License-Identifier: MIT */
/*
 * vdata.c - moves data by verbs and compares every byte, or provokes an error and checks its status.
 *
 *	vdata [options] -p PORT			the server
 *	vdata [options] -p PORT HOST		the client; the options of both must agree
 *
 * Exit status 0: all was right.  1: something was not, and stderr says what.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vdata.h"

/* ---- numbers and bytes that both ends can make ---------------------------- */

uint64_t vd_rand(struct vd_rng *r) /* splitmix64 */
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t vd_key(uint64_t seed, unsigned lane, unsigned round, unsigned side)
{
	struct vd_rng r = { seed ^ ((uint64_t)lane << 40) ^ ((uint64_t)round << 4) ^ side };

	return vd_rand(&r);
}

void vd_fill(uint8_t *p, size_t len, uint64_t key)
{
	struct vd_rng r = { key };
	uint64_t v;

	for (; len >= 8; p += 8, len -= 8) {
		v = vd_rand(&r);
		memcpy(p, &v, 8);
	}
	v = vd_rand(&r);
	memcpy(p, &v, len);
}

size_t vd_size(struct vd_rng *r, size_t max, unsigned mtu)
{
	static const unsigned edge[] = { 0,  1,   2,   3,   4,    5,    7,    8,     63,   64,
					 65, 127, 128, 129, 4095, 4096, 4097, 65535, 65536 };
	size_t n;

	switch (vd_below(r, 4)) {
	case 0: n = edge[vd_below(r, sizeof(edge) / sizeof(edge[0]))]; break;
	case 1: /* whole packets, one byte more or less */ n = mtu * (1 + vd_below(r, 40)) + vd_below(r, 3) - 1; break;
	case 2: /* whole words, so that nothing is padded */ n = vd_rand(r) >> (40 + vd_below(r, 24)) << 2; break;
	default: /* every order of magnitude is as likely */ n = vd_rand(r) >> (40 + vd_below(r, 24));
	}
	return n > max ? max - vd_below(r, max < 8 ? max + 1 : 8) : n;
}

/* ---- threads ---------------------------------------------------------------- */

struct lane {
	struct vd_node *node;
	pthread_t thread;
	unsigned n;
	int fd;
};

static void *lane_run(void *arg)
{
	struct lane *l = arg;
	const struct vd_opt *opt = l->node->opt;
	bool client = opt->peer != NULL;

	if (opt->type == IBV_QPT_UD || (opt->type == IBV_QPT_UC && opt->lossy))
		vd_dgram(l->node, l->fd, l->n, client);
	else
		vd_move(l->node, l->fd, l->n, client);
	return NULL;
}

static void lanes_run(struct vd_node *node)
{
	const struct vd_opt *opt = node->opt;
	struct lane *lane = calloc(opt->threads, sizeof(*lane));
	int listener = opt->peer ? -1 : vd_listen(opt);
	unsigned i, theirs;

	for (i = 0; i < opt->threads; i++) {
		lane[i].node = node;
		lane[i].n = i;
		lane[i].fd = opt->peer ? vd_connect(opt) : vd_accept(listener);
		vd_swap(lane[i].fd, &i, &theirs, sizeof(i));
		if (theirs != i)
			vd_die("lane %u met lane %u", i, theirs);
	}
	for (i = 0; i < opt->threads; i++)
		if (pthread_create(&lane[i].thread, NULL, lane_run, &lane[i]))
			vd_die("pthread_create");
	for (i = 0; i < opt->threads; i++)
		pthread_join(lane[i].thread, NULL);
	for (i = 0; i < opt->threads; i++) {
		vd_barrier(lane[i].fd); /* so nobody's QP goes while the other still waits for an ACK */
		close(lane[i].fd);
	}
	if (*node->counter != node->counter_want)
		vd_die("the counter says %llu, the peer's threads added %llu", (unsigned long long)*node->counter,
		       (unsigned long long)node->counter_want);
	if (listener >= 0)
		close(listener);
	free(lane);
}

static void error_run(struct vd_node *node)
{
	const struct vd_opt *opt = node->opt;
	int listener = opt->peer ? -1 : vd_listen(opt);
	int fd = opt->peer ? vd_connect(opt) : vd_accept(listener);

	if (!vd_err(node, fd, opt->peer != NULL))
		vd_die("no case %s", opt->err);
	vd_barrier(fd);
	close(fd);
	if (listener >= 0)
		close(listener);
	printf("%s: as specified\n", opt->err);
}

/* ---- the command line ---------------------------------------------------------- */

static _Noreturn void usage(FILE *f)
{
	fputs("usage: vdata [-d DEV] [-g GID-INDEX] [-t rc|uc|ud] [-T THREADS] [-n ROUNDS] [-s MAX] [-S SEED] [-m "
	      "MTU]\n"
	      "             [-u TIMEOUT] [-e events] [-l loss allowed] [-q shared receive queue] [-E ERROR-CASE [-k]] "
	      "-p PORT [HOST]\n"
	      "             [-x LETTERS: leave out e(xtended posting), i(nline), f(ences), s(catter lists), c(hains)]\n"
	      "             (-k: what goes otherwise than specified is printed as a difference, and the case goes on)\n"
	      "       vdata -L     lists the error cases\n",
	      f);
	exit(f == stdout ? 0 : 2);
}

static void opt_take(struct vd_opt *opt, int c)
{
	switch (c) {
	case 'd': opt->dev = optarg; break;
	case 'g': opt->gid_index = atoi(optarg); break;
	case 't':
		opt->type = !strcmp(optarg, "uc") ? IBV_QPT_UC : !strcmp(optarg, "ud") ? IBV_QPT_UD : IBV_QPT_RC;
		break;
	case 'T': opt->threads = (unsigned)atoi(optarg); break;
	case 'n': opt->rounds = (unsigned)atoi(optarg); break;
	case 's': opt->max = strtoul(optarg, NULL, 0); break;
	case 'S': opt->seed = strtoull(optarg, NULL, 0); break;
	case 'm': opt->mtu = (unsigned)atoi(optarg); break;
	case 'u': opt->timeout = (unsigned)atoi(optarg); break;
	case 'p': opt->tcp_port = atoi(optarg); break;
	case 'e': opt->events = true; break;
	case 'l': opt->lossy = true; break;
	case 'q': opt->srq = true; break;
	case 'x': opt->without = optarg; break;
	case 'k': opt->lenient = true; break;
	case 'E': opt->err = optarg; break;
	case 'L': vd_err_list(); exit(0);
	case 'h': usage(stdout);
	default: usage(stderr);
	}
}

int main(int argc, char **argv)
{
	struct vd_opt opt = {
		.type = IBV_QPT_RC, .threads = 1, .rounds = 100, .max = 1 << 20, .seed = 1, .timeout = 14, .without = ""
	};
	struct vd_node node;
	int c;

	while ((c = getopt(argc, argv, "d:g:t:T:n:s:S:m:u:p:E:x:elqkLh")) != -1)
		opt_take(&opt, c);
	if (optind < argc)
		opt.peer = argv[optind];
	if (!opt.tcp_port || !opt.threads)
		usage(stderr);
	vd_node_open(&node, &opt);
	if (opt.err)
		error_run(&node);
	else
		lanes_run(&node);
	vd_node_close(&node);
	return 0;
}
