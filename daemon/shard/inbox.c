/* SPDX-License-Identifier: MIT */
/* inbox.c - two lists behind a lock, and a descriptor that wakes the shard; who called waits on a futex of its own. */
#include "inbox.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdmad/ring.h>

#include "../base/clock.h"
#include "../base/log.h"
#include "spin.h"

#define LETTERS_LEN (8u << 20)

/* How often who called looks before it sleeps: each look gives the core away, which may be the one that the shard waits for. */
#define LOOKS 16u

static _Thread_local struct spin spin; /* looks that took long, as a neighbour keeps the core: none for a while */

enum done { DONE_NO, DONE_YES, DONE_SLEEPS /* not done, and the caller must be woken */ };

struct errand {
	void (*fn)(struct shard *, void *);
	void *arg;
	uint32_t done; /* atomic; the futex: enum done */
	struct errand *next;
};

struct inbox {
	pthread_mutex_t lock; /* of all but wanted and asleep */
	bool stop;
	struct errand *call, **call_end;
	struct letter *mail, **mail_end;
	size_t mail_len;
	bool wanted;         /* atomic: there are calls, mail, or the thread is to stop */
	bool asleep;         /* atomic: it must be kicked */
	pthread_mutex_t own; /* of all that is the shard's: its thread has it but while it sleeps */
};

struct inbox *inbox_new(void)
{
	struct inbox *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->call_end = &in->call;
	in->mail_end = &in->mail;
	pthread_mutex_init(&in->lock, NULL);
	pthread_mutex_init(&in->own, NULL);
	return in;
}

void inbox_free(struct inbox *in)
{
	struct letter *m;

	if (!in)
		return;
	while ((m = in->mail)) {
		in->mail = m->next;
		free(m);
	}
	pthread_mutex_destroy(&in->lock);
	pthread_mutex_destroy(&in->own);
	free(in);
}

/* ---- other threads --------------------------------------------------------- */

static void want(struct inbox *in) { RING_SAY(&in->wanted, true); }

/*
 * want() was said.  Without the lock: nothing that the kernel does is waited for in it.  A shard that is about to sleep says
 * so first, and then looks whether it is wanted.
 */
static bool kick(struct shard *s)
{
	uint64_t one = 1;

	if (!__atomic_load_n(&s->inbox->asleep, __ATOMIC_SEQ_CST))
		return false;
	if (write(s->kick_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) /* EAGAIN: as readable as it can be */
		log_err("cannot wake a shard: %s", strerror(errno));
	return true;
}

static bool is_done(struct errand *c) { return __atomic_load_n(&c->done, __ATOMIC_ACQUIRE) == DONE_YES; }

/* A shard that is awake is about to be done: to sleep until then costs two changes of threads, and it a system call. */
static void done_wait(struct errand *c, bool slept)
{
	uint32_t no = DONE_NO;
	mono_t now = clock_now();

	for (unsigned i = 0; !slept && i < LOOKS && !is_done(c) && mono_reached(now, spin.sleep_until); i++)
		now = spin_turn(&spin, now);
	if (!__atomic_compare_exchange_n(&c->done, &no, DONE_SLEEPS, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	while (!is_done(c))
		syscall(SYS_futex, &c->done, FUTEX_WAIT_PRIVATE, DONE_SLEEPS, NULL, NULL, 0);
}

void shard_call(struct shard *s, void (*fn)(struct shard *, void *), void *arg)
{
	struct inbox *in = s->inbox;
	struct errand c = { .fn = fn, .arg = arg };

	pthread_mutex_lock(&in->lock);
	*in->call_end = &c;
	in->call_end = &c.next;
	want(in);
	pthread_mutex_unlock(&in->lock);
	done_wait(&c, kick(s));
}

void inbox_wake(struct shard *s)
{
	want(s->inbox);
	kick(s);
}

void inbox_put(struct shard *to, struct device *dev, const struct route *route, const uint8_t *data, size_t len)
{
	struct inbox *in = to->inbox;
	struct letter *m = malloc(sizeof(*m) + len);
	bool fits;

	if (!m)
		return;
	*m = (struct letter){ .device = dev, .route = *route, .len = len };
	memcpy(m->data, data, len);
	pthread_mutex_lock(&in->lock);
	fits = in->mail_len + len <= LETTERS_LEN;
	if (fits) {
		*in->mail_end = m;
		in->mail_end = &m->next;
		in->mail_len += len;
		want(in);
	}
	pthread_mutex_unlock(&in->lock);
	if (fits)
		kick(to);
	else
		free(m);
}

void inbox_stop(struct shard *s)
{
	pthread_mutex_lock(&s->inbox->lock);
	s->inbox->stop = true;
	want(s->inbox);
	pthread_mutex_unlock(&s->inbox->lock);
	kick(s);
}

/* ---- the shard ------------------------------------------------------------- */

bool inbox_wanted(const struct inbox *in) { return __atomic_load_n(&in->wanted, __ATOMIC_SEQ_CST); }

void inbox_asleep(struct inbox *in, bool asleep) { RING_SAY(&in->asleep, asleep); }

void inbox_take(struct inbox *in) { pthread_mutex_lock(&in->own); }

bool inbox_borrow(struct inbox *in) { return !pthread_mutex_trylock(&in->own); }

void inbox_lend(struct inbox *in) { pthread_mutex_unlock(&in->own); }

/* When done is set the caller goes on, and c is gone: of its address, that of a stack, only waiters are woken. */
static void calls_run(struct shard *s, struct errand *c)
{
	for (struct errand *next; c; c = next) {
		next = c->next;
		c->fn(s, c->arg);
		if (__atomic_exchange_n(&c->done, DONE_YES, __ATOMIC_ACQ_REL) == DONE_SLEEPS)
			syscall(SYS_futex, &c->done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

struct letter *inbox_open(struct shard *s, bool *stop)
{
	struct inbox *in = s->inbox;
	struct letter *mail;
	struct errand *calls;

	(void)__atomic_exchange_n(&in->wanted, false, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&in->lock);
	calls = in->call;
	in->call = NULL;
	in->call_end = &in->call;
	*stop = in->stop;
	pthread_mutex_unlock(&in->lock);
	calls_run(s, calls);
	pthread_mutex_lock(&in->lock);
	mail = in->mail;
	in->mail = NULL;
	in->mail_end = &in->mail;
	in->mail_len = 0;
	pthread_mutex_unlock(&in->lock);
	return mail;
}
