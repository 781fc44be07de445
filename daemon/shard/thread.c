/* SPDX-License-Identifier: MIT */
/* thread.c - a shard is made with all it has, its thread takes turns until it is told to end. */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../proto/hca.h"
#include "../base/log.h"
#include "../base/region.h"
#include "bells.h"
#include "inbox.h"
#include "io.h"
#include "net.h"
#include "obj.h"
#include "tap.h"
#include "turn.h"

#define BURST_LEN       61440u /* 15 packets of 4096: the most that one GSO send takes */
#define LOCAL_BURST_LEN (1u << 20)
#define LEAST_TIMEOUT   8u /* 1 ms; rxe has a tick of 1 to 4 ms, ConnectX 268 or 500 ms */

struct thread {
	struct shard *shard;
	enum io_kind kind;
	pthread_t id;
	pthread_mutex_t lock; /* of started and err */
	pthread_cond_t cond;
	bool started;
	int err;
};

/* A row whose socket cannot be opened stays without: programs of this daemon still meet there. */
static void rows_set(struct shard *s)
{
	int err;

	for (unsigned i = 0; i < devices_n; i++) {
		for (unsigned row = 0; row < RDMAD_GIDS; row++) {
			err = net_row_set(s->net, &devices[i], row);
			if (err)
				log_warn("%s: GID %u is not on the network: %s", devices[i].name, row, strerror(err));
		}
	}
}

static int thread_begin(struct shard *s, enum io_kind kind)
{
	char name[16];
	int err;

	snprintf(name, sizeof(name), "shard%u", s->index);
	pthread_setname_np(pthread_self(), name);
	prctl(PR_SET_TIMERSLACK, 1000); /* timers of the transport are as short as 10 us */
	err = io_new(&s->io, kind);
	if (!err)
		s->io_name = io_name(s->io);
	if (!err)
		err = io_add(s->io, KICK_SLOT, s->kick_fd);
	if (!err)
		err = bells_begin(s);
	if (!err)
		err = net_new(&s->net, s, s->io);
	if (!err)
		rows_set(s);
	return err;
}

static void *thread_main(void *arg)
{
	struct thread *th = arg;
	struct shard *s = th->shard;
	struct turn t;
	int err;

	turn_init(&t);
	inbox_take(s->inbox);
	pthread_mutex_lock(&th->lock);
	err = thread_begin(s, th->kind);
	th->err = err;
	th->started = true;
	pthread_cond_broadcast(&th->cond);
	pthread_mutex_unlock(&th->lock);
	while (!err && turn(s, &t))
		;
	net_free(s->net);
	bells_end(s);
	io_free(s->io);
	inbox_lend(s->inbox);
	turn_end(&t);
	return NULL;
}

static int hcas_new(struct shard *s)
{
	struct hca_cfg cfg = {
		.mem = &region_mem_ops,
		.qpn_low_bits = device_bits() + shard_bits(),
		.burst_len = BURST_LEN,
		.local_burst_len = LOCAL_BURST_LEN,
		.early_retrans = true,
		.least_timeout = LEAST_TIMEOUT,
		.selective = true,
		.marks = net_marks,
	};

	cfg.peer_room = net_room();
	cfg.window_len = net_window(cfg.peer_room);
	for (unsigned i = 0; i < devices_n; i++) {
		cfg.qpn_low = i << shard_bits() | s->index;
		cfg.mtu = devices[i].mtu ? devices[i].mtu : 5;
		cfg.lids = profile_has_lids(devices[i].profile);
		cfg.no_kinds = profile_no_kinds(devices[i].profile);
		memcpy(cfg.pkey, &devices[i].pkey[1], sizeof(cfg.pkey));
		if (getentropy(&cfg.seed, sizeof(cfg.seed)) || getentropy(&cfg.seed_hi, sizeof(cfg.seed_hi)))
			return EIO;
		s->hca[i] = hca_new(&cfg);
		if (!s->hca[i])
			return ENOMEM;
		devices[i].hca[s->index] = s->hca[i];
	}
	return 0;
}

/* Signals are the control thread's, but what an access of this one raises (held.h). */
static int thread_start(struct thread *th)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&th->id, NULL, thread_main, th);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	pthread_mutex_lock(&th->lock);
	while (!th->started)
		pthread_cond_wait(&th->cond, &th->lock);
	err = th->err;
	pthread_mutex_unlock(&th->lock);
	if (err)
		pthread_join(th->id, NULL);
	return err;
}

static void shard_free(struct shard *s)
{
	for (unsigned i = 0; i < devices_n; i++) {
		devices[i].hca[s->index] = NULL;
		if (s->hca[i])
			hca_free(s->hca[i]);
	}
	objs_end(s);
	heap_fini(&s->moderated);
	tap_end(s);
	if (s->kick_fd >= 0)
		close(s->kick_fd);
	inbox_free(s->inbox);
	if (s->thread) {
		pthread_mutex_destroy(&s->thread->lock);
		pthread_cond_destroy(&s->thread->cond);
	}
	free(s->thread);
	free(s);
}

int shard_start(unsigned index, enum io_kind kind)
{
	struct shard *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return ENOMEM;
	s->index = index;
	s->bells_fd = -1;
	s->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = s->kick_fd < 0 ? errno : 0;
	s->inbox = inbox_new();
	s->thread = calloc(1, sizeof(*s->thread));
	if (s->thread) {
		*s->thread = (struct thread){ .shard = s, .kind = kind };
		pthread_mutex_init(&s->thread->lock, NULL);
		pthread_cond_init(&s->thread->cond, NULL);
	}
	if (!err)
		err = s->inbox && s->thread ? hcas_new(s) : ENOMEM;
	if (!err)
		err = thread_start(s->thread);
	if (err) {
		shard_free(s);
		return err;
	}
	shards[index] = s;
	return 0;
}

/* The others may still have a packet for it. */
void shards_stop(void)
{
	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			inbox_stop(shards[i]);
	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			pthread_join(shards[i]->thread->id, NULL);
	for (unsigned i = shards_n; i-- > 0; shards[i] = NULL)
		if (shards[i])
			shard_free(shards[i]);
}
