/* SPDX-License-Identifier: MIT */
/*
 * shard.c - the thread and its turn.
 *
 *	calls -> ctx_drain -> UDP in -> ticks -> CM -> bursts out (wire, local) -> ctx_publish
 *	  ^                                                                       |
 *	  +----------------- spin a little, or sleep <----------------------------+
 *
 * When to spin and when to sleep: spin.h.
 */
#include "shard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <openssl/rand.h>

#include <rdmad/ring.h>

#include "../proto/hca.h"
#include "cma_agent.h"
#include "io.h"
#include "log.h"
#include "net.h"
#include "place.h"
#include "raw.h"
#include "region.h"
#include "spin.h"
#include "tap.h"

#define LOOK_NS		50000u		/* how often files are looked at while there is no time to sleep */
#define LIGHT_NS	5000u		/* how long only bells are looked at while spinning */
#define TX_TURN_LEN	(4u << 20)	/* bytes, before rings are looked at again */
#define TX_HCA_BURSTS	64u		/* from one HCA, before it is the next one's turn */
#define TRAIN_LEN	61440u		/* 15 packets of 4096: the most that one GSO send takes */
#define LOCAL_TRAIN_LEN	(1u << 20)
#define INBOX_LEN	(8u << 20)
#define KICK_SLOT	(IO_FILES - 1)

struct shard *shards[SHARDS_MAX];
unsigned shards_n;

struct call {
	void (*fn)(struct shard *, void *);
	void *arg;
	bool done;
	struct call *next;
};

/* A datagram that came to the wrong shard. */
struct letter {
	struct letter *next;
	struct device *device;
	struct route route;
	size_t len;
	uint8_t data[];
};

struct shard_io {
	struct shard *shard;
	pthread_t thread;
	enum io_kind kind;
	struct io *io;
	struct net *net;

	pthread_mutex_t lock;		/* from here to mail_len */
	pthread_cond_t cond;
	bool started, stop;
	int err;
	struct call *call, **call_end;
	struct letter *mail, **mail_end;
	size_t mail_len;
	bool wanted;			/* atomic: there are calls, mail, or it is to stop */

	bool stopping;			/* the thread's own from here on */
	struct spin spin;
	struct place place;
	mono_t look_at;
};

mono_t shard_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (mono_t){ (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec };
}

static unsigned log2_up(unsigned n)
{
	unsigned bits = 0;

	while (1u << bits < n)
		bits++;
	return bits;
}

struct io *shard_files(const struct shard *s) { return s->io->io; }

struct net *shard_net(const struct shard *s) { return s->io->net; }

unsigned shard_bits(void) { return log2_up(shards_n); }
unsigned device_bits(void) { return log2_up(devices_n); }

/* ---- what other threads ask for ------------------------------------------ */

static void shard_kick(struct shard *s)
{
	uint64_t one = 1;

	__atomic_store_n(&s->io->wanted, true, __ATOMIC_RELEASE);
	if (write(s->kick_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)	/* EAGAIN: as readable as it can be */
		log_err("cannot wake a shard: %s", strerror(errno));
}

void shard_call(struct shard *s, void (*fn)(struct shard *, void *), void *arg)
{
	struct shard_io *io = s->io;
	struct call c = { .fn = fn, .arg = arg };

	pthread_mutex_lock(&io->lock);
	*io->call_end = &c;
	io->call_end = &c.next;
	shard_kick(s);
	while (!c.done)
		pthread_cond_wait(&io->cond, &io->lock);
	pthread_mutex_unlock(&io->lock);
}

void shard_inbox_put(struct shard *to, struct device *dev, const struct route *route, const uint8_t *data, size_t len)
{
	struct shard_io *io = to->io;
	struct letter *m = malloc(sizeof(*m) + len);

	if (!m)
		return;
	*m = (struct letter){ .device = dev, .route = *route, .len = len };
	memcpy(m->data, data, len);
	pthread_mutex_lock(&io->lock);
	if (io->mail_len + len > INBOX_LEN) {
		free(m);
	} else {
		*io->mail_end = m;
		io->mail_end = &m->next;
		io->mail_len += len;
		shard_kick(to);
	}
	pthread_mutex_unlock(&io->lock);
}

static void calls_run(struct shard_io *io)
{
	struct call *c, *next;

	pthread_mutex_lock(&io->lock);
	c = io->call;
	io->call = NULL;
	io->call_end = &io->call;
	io->stopping = io->stop;
	pthread_mutex_unlock(&io->lock);
	for (; c; c = next) {
		c->fn(io->shard, c->arg);
		pthread_mutex_lock(&io->lock);
		next = c->next;
		c->done = true;			/* c is gone with the lock */
		pthread_cond_broadcast(&io->cond);
		pthread_mutex_unlock(&io->lock);
	}
}

static void mail_read(struct shard_io *io, mono_t now)
{
	struct letter *m, *next;
	struct hca *hca;

	pthread_mutex_lock(&io->lock);
	m = io->mail;
	io->mail = NULL;
	io->mail_end = &io->mail;
	io->mail_len = 0;
	pthread_mutex_unlock(&io->lock);
	if (m)
		ctx_drain_recvs(io->shard, now);
	for (; m; m = next) {
		next = m->next;
		hca = io->shard->hca[m->device->index];
		hca_count(hca, HCA_STAT_STRANGERS, 1);
		if (tap_on(io->shard, m->device->index))
			tap_rx_mail(io->shard, m->device, &m->route, m->data, m->len, now);
		else
			hca_rx(hca, &m->route, m->data, m->len, now);
		free(m);
	}
}

static bool wants_run(struct shard_io *io, mono_t now)
{
	if (!__atomic_load_n(&io->wanted, __ATOMIC_ACQUIRE))
		return false;
	__atomic_store_n(&io->wanted, false, __ATOMIC_SEQ_CST);
	calls_run(io);
	mail_read(io, now);
	return true;
}

/* ---- the turn ------------------------------------------------------------ */

/* The device whose HCA of this shard a burst goes to without a wire; NULL: there is none. */
static struct device *local_device(const struct shard *s, const struct burst *b)
{
	struct device *dev = net_device(s->io->net, b->route.dgid);

	if (!dev || b->dqpn == QPN_MCAST)
		return NULL;
	if (shards_n > 1 && (b->dqpn <= 1 ? 0 : qpn_shard(b->dqpn, shard_bits())) != s->index)
		return NULL;
	return dev;
}

static uint64_t tx_hca(struct shard *s, unsigned device, mono_t now)
{
	struct hca *hca = s->hca[device];
	struct net *net = s->io->net;
	struct device *local;
	struct burst b;
	uint64_t len = 0;

	for (unsigned i = 0; i < TX_HCA_BURSTS && len < TX_TURN_LEN && !net_blocked(net) && hca_tx(hca, &b, now); i++) {
		len += b.payload_len + 1;
		local = b.raw ? NULL : local_device(s, &b);
		if (local)
			hca_count(hca, HCA_STAT_LOCAL_TRAINS, 1);
		if (b.raw) {
			raw_tx(s, hca, device, &b, now);
		} else if (tap_on(s, device) || (local && tap_on(s, local->index))) {
			tap_tx(s, device, hca, &b, local, now);
		} else if (local) {
			region_src_failed = false;
			hca_rx_burst(s->hca[local->index], &b, now);
			if (region_src_failed)
				hca_tx_fault(hca, &b, now);
		} else {
			net_tx(net, hca, &b, now);
		}
	}
	return len;
}

/* A local burst may make its receiver want to send: round and round, until all are silent.  Bytes, at least 1 a burst. */
static uint64_t turn_tx(struct shard *s, mono_t now)
{
	uint64_t sum = 0, round;

	do {
		round = 0;
		for (unsigned i = 0; i < devices_n; i++)
			round += tx_hca(s, i, now);
		sum += round;
	} while (round && sum < TX_TURN_LEN);
	net_flush(s->io->net);
	return sum;
}

static bool turn_tick(struct shard *s, mono_t now)
{
	bool any = false;

	for (unsigned i = 0; i < devices_n; i++) {
		if (mono_reached(now, hca_deadline(s->hca[i]))) {
			hca_tick(s->hca[i], now);
			any = true;
		}
	}
	if (mono_reached(now, tap_deadline(s))) {
		tap_late(s, now);
		any = true;
	}
	return any;
}

/* ---- waiting ------------------------------------------------------------- */

static mono_t shard_deadline(const struct shard *s)
{
	mono_t t = mono_min(tap_deadline(s), ctx_deadline(s));

	if (s->index == 0)
		t = mono_min(t, agents_deadline());
	for (unsigned i = 0; i < devices_n; i++)
		t = mono_min(t, hca_deadline(s->hca[i]));
	return t;
}

static void files_look(struct shard_io *io, uint64_t timeout_ns)
{
	unsigned ready[64], n = io_wait(io->io, timeout_ns, ready, 64);
	uint64_t count;

	for (unsigned i = 0; i < n; i++) {
		if (ready[i] >= IO_FILES)
			io->shard->count.kicks++;
		else if (ready[i] != KICK_SLOT && ready[i] >= RAW_SLOT)
			raw_ready(io->shard, ready[i]);
		else if (ready[i] != KICK_SLOT)
			net_ready(io->net, ready[i]);
		else if (read(io->shard->kick_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
			io->shard->count.kicks += count;
		else if (errno != EAGAIN)
			log_err("cannot read the kicks of a shard: %s", strerror(errno));
	}
}

unsigned shard_bell_add(struct shard *s, struct bell *b) { return io_word_add(s->io->io, &b->idle, BELL_FUTEX); }
void shard_bell_del(struct shard *s, unsigned slot) { io_word_del(s->io->io, slot); }

static void shard_sleep(struct shard *s)
{
	struct shard_io *io = s->io;
	mono_t now, until, woken;

	ctx_sleep(s);
	if (!ctx_pending(s) && !__atomic_load_n(&io->wanted, __ATOMIC_SEQ_CST)) {
		until = shard_deadline(s);
		now = shard_now();
		s->count.sleeps++;
		if (mono_is_never(until))
			files_look(io, UINT64_MAX);
		else
			files_look(io, mono_reached(now, until) ? 0 : until.ns - now.ns);
		woken = shard_now();
		io->look_at = mono_add(woken, LOOK_NS);
		spin_slept(&io->spin, now, woken, ctx_pending(s));
	}
	ctx_wake(s);
}

/* Gives the core away until a program rings, or something else may be due. */
static void shard_spin(struct shard *s, mono_t now)
{
	struct shard_io *io = s->io;
	mono_t until = mono_min(mono_add(now, LIGHT_NS), shard_deadline(s));

	while (!__atomic_load_n(&io->wanted, __ATOMIC_RELAXED)) {
		if (ctx_pending(s)) {
			spin_found(&io->spin);
			break;
		}
		now = spin_turn(&io->spin, now);
		if (mono_reached(now, until) || !spin_may(&io->spin, now) || net_hot(io->net, now))
			break;
	}
}

static void turn(struct shard *s)
{
	struct shard_io *io = s->io;
	mono_t now = shard_now();
	bool again = wants_run(io, now), busy;
	unsigned posted;
	uint64_t sent;

	s->count.turns++;
	ctx_core(s);
	if (mono_reached(now, io->look_at)) {
		io->look_at = mono_add(now, LOOK_NS);
		files_look(io, 0);
	}
	busy = ctx_drain(s, &posted, now);
	again |= net_rx(io->net, false, now);
	again |= raw_rx(s, now);
	again |= turn_tick(s, now);
	if (s->index == 0)
		again |= agents_turn(s, now);
	region_defer(posted > 1);
	sent = turn_tx(s, now);
	region_defer(false);
	busy |= ctx_publish(s, now) || sent;
	if (busy || again) {
		spin_busy(&io->spin, now);
		place_busy(&io->place, now);
	}
	/* What was only posted has been carried out; the rest may have made more to do. */
	if (again || sent >= TX_TURN_LEN || (busy && ctx_waits(s)))
		return;
	if (spin_may(&io->spin, now))
		shard_spin(s, now);
	else
		shard_sleep(s);
}

/* ---- beginning and end --------------------------------------------------- */

/* A row whose socket cannot be opened stays without: programs of this daemon still meet there. */
static void rows_set(struct shard *s)
{
	int err;

	for (unsigned i = 0; i < devices_n; i++) {
		for (unsigned row = 0; row < RDMAD_GIDS; row++) {
			err = net_row_set(s->io->net, &devices[i], row);
			if (err)
				log_warn("%s: GID %u is not on the network: %s", devices[i].name, row, strerror(err));
		}
	}
}

static int thread_begin(struct shard *s)
{
	struct shard_io *io = s->io;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "shard%u", s->index);
	pthread_setname_np(pthread_self(), name);
	prctl(PR_SET_TIMERSLACK, 1000);		/* timers of the transport are as short as 10 us */
	err = io_new(&io->io, io->kind);
	if (!err)
		s->io_name = io_name(io->io);
	if (!err)
		err = io_add(io->io, KICK_SLOT, s->kick_fd);
	if (!err)
		err = net_new(&io->net, s, io->io);
	if (!err)
		rows_set(s);
	return err;
}

static void *thread_main(void *arg)
{
	struct shard *s = arg;
	struct shard_io *io = s->io;

	spin_init(&io->spin);
	place_init(&io->place);
	pthread_mutex_lock(&io->lock);
	io->err = thread_begin(s);
	io->started = true;
	io->stopping = io->err;
	pthread_cond_broadcast(&io->cond);
	pthread_mutex_unlock(&io->lock);

	while (!io->stopping)
		turn(s);
	net_free(io->net);
	io_free(io->io);
	place_end(&io->place);
	return NULL;
}

static int hcas_new(struct shard *s)
{
	struct hca_cfg cfg = {
		.mem = &region_mem_ops,
		.qpn_low_bits = device_bits() + shard_bits(),
		.train_len = TRAIN_LEN,
		.local_train_len = LOCAL_TRAIN_LEN,
		.early_retrans = true,
	};

	cfg.peer_room = net_room();
	cfg.window_len = net_window(cfg.peer_room);
	for (unsigned i = 0; i < devices_n; i++) {
		cfg.qpn_low = i << shard_bits() | s->index;
		cfg.mtu = devices[i].mtu ? devices[i].mtu : 5;
		if (RAND_bytes((uint8_t *)&cfg.seed, sizeof(cfg.seed)) != 1)
			return EIO;
		s->hca[i] = hca_new(&cfg);
		if (!s->hca[i])
			return ENOMEM;
		devices[i].hca[s->index] = s->hca[i];
	}
	return 0;
}

/* Signals are the control thread's. */
static int thread_start(struct shard *s)
{
	struct shard_io *io = s->io;
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&io->thread, NULL, thread_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	pthread_mutex_lock(&io->lock);
	while (!io->started)
		pthread_cond_wait(&io->cond, &io->lock);
	err = io->err;
	pthread_mutex_unlock(&io->lock);
	if (err)
		pthread_join(io->thread, NULL);
	return err;
}

static void shard_free(struct shard *s)
{
	struct letter *m;

	for (unsigned i = 0; i < devices_n; i++) {
		devices[i].hca[s->index] = NULL;
		if (s->hca[i])
			hca_free(s->hca[i]);
	}
	while ((m = s->io->mail)) {
		s->io->mail = m->next;
		free(m);
	}
	ctx_end(s);
	tap_end(s);
	if (s->kick_fd >= 0)
		close(s->kick_fd);
	pthread_mutex_destroy(&s->io->lock);
	pthread_cond_destroy(&s->io->cond);
	free(s->io);
	free(s);
}

int shard_start(unsigned index, enum io_kind kind)
{
	struct shard *s = calloc(1, sizeof(*s));
	struct shard_io *io = calloc(1, sizeof(*io));
	int err;

	if (!s || !io) {
		free(s);
		free(io);
		return ENOMEM;
	}
	s->index = index;
	s->io = io;
	*io = (struct shard_io){ .shard = s, .kind = kind, .call_end = &io->call, .mail_end = &io->mail };
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->cond, NULL);
	s->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = s->kick_fd < 0 ? errno : hcas_new(s);
	if (!err)
		err = thread_start(s);
	if (err) {
		shard_free(s);
		return err;
	}
	shards[index] = s;
	return 0;
}

void shard_stop(struct shard *s)
{
	struct shard_io *io = s->io;

	pthread_mutex_lock(&io->lock);
	io->stop = true;
	shard_kick(s);
	pthread_mutex_unlock(&io->lock);
	pthread_join(io->thread, NULL);
	shards[s->index] = NULL;
	shard_free(s);
}

struct row_arg {
	struct device *dev;
	unsigned row;
	int err;
};

static void row_call(struct shard *s, void *arg)
{
	struct row_arg *r = arg;

	r->err = net_row_set(s->io->net, r->dev, r->row);
}

/*
 * In the order of the shards: the n-th socket bound to an address is number n of its reuseport
 * group, which the program that picks one by QPN relies on.
 */
int net_gid_changed(struct device *dev, unsigned row)
{
	struct row_arg r = { .dev = dev, .row = row };
	int err = 0;

	for (unsigned i = 0; i < shards_n; i++) {
		if (!shards[i])
			continue;
		shard_call(shards[i], row_call, &r);
		err = err ? err : r.err;
	}
	return err;
}
