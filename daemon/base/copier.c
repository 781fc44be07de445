/* SPDX-License-Identifier: MIT */
/*
 * copier.c - one thread for each context whose memory is reached so; it takes one job at a time.
 *
 *	IDLE --- caller fills stage ---> POSTED --- thread: pread, pwrite ---> DONE --- caller empties stage ---> IDLE
 *	                                   |
 *	                                   `-- no patience left: late for good, nobody looks at the stage any more
 *
 * A user has half a second of our patience, and gets a twentieth of the time that passes.  What counts is the time for which the thread was
 * blocked, not that in which it had no processor.  To ask the kernel for both costs as much as a tenth of a
 * copy: so that is done for each job only for a while after one that took longer than copies do.  For that one itself it counts how
 * long it took, less what the thread waited for a processor since at most a millisecond before it.
 */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/apart.h>
#include <rdmad/clock.h>

#include "log.h"

#define STAGE_LEN   (128u * 1024)
#define PIECES      64u
#define COPIERS_MAX 2048u /* of a user: as many as he has sessions, unless they were set higher */

#define MS           1000000ll /* in ns */
#define PATIENCE_MAX (500 * MS)
#define PATIENCE_MIN (2 * MS)  /* without any left */
#define PATIENCE_NEW (10 * MS) /* without so much nobody gets a new copier */
#define REFILL       20
#define QUICK        (MS / 40) /* what copies take */
#define CLOSE        (20 * MS) /* each job is looked at for so long */
#define QUEUED_AGE   MS        /* before: how old may it be, for how long the thread had no processor? */

enum state { IDLE, POSTED, DONE };

/* Stays for ever: there are no more than users. */
struct user {
	struct user *next;
	uid_t uid;
	unsigned n;              /* copiers */
	int64_t patience, since; /* ns; as it was then */
	pthread_mutex_t atomics; /* held by copiers of this user only, across system calls */
};

struct copier {
	pthread_mutex_t lock; /* of all below, but what belongs to the thread while POSTED */
	pthread_cond_t todo, changed;
	enum state state;
	bool late, quit;
	bool working; /* in the program's memory.  Of the thread, read with or without the lock */
	pid_t tid;
	int sched_fd; /* of the thread; -1: the kernel does not say for how long it waited for a processor */
	int64_t queued, queued_at; /* of the thread: queued(), and when */
	int64_t close_until;       /* of the thread */
	struct user *user;
	int fd;
	/* the job */
	bool write;
	struct iovec piece[PIECES];
	unsigned piece_n;
	size_t len;
	uint64_t addr, a, b, old;
	mem_next *next; /* NULL: copy */
	int err;
	uint8_t stage[STAGE_LEN] __attribute__((aligned(64)));
};

static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static struct user *users;

/* ---- users --------------------------------------------------------------------------- */

static int64_t now(void) { return (int64_t)clock_ns(CLOCK_MONOTONIC); }

/* How much is left after that. */
static int64_t patience_take(struct user *u, int64_t cost)
{
	int64_t t = now(), left;

	pthread_mutex_lock(&users_lock);
	left = u->patience + (t - u->since) / REFILL;
	left = (left < PATIENCE_MAX ? left : PATIENCE_MAX) - cost;
	u->patience = left > 0 ? left : 0;
	u->since = t;
	pthread_mutex_unlock(&users_lock);
	return left;
}

/* One more copier of that user, or one less: n -1. */
static int user_count(struct user *u, int n)
{
	int err = 0;

	pthread_mutex_lock(&users_lock);
	if (n > 0 && u->n >= COPIERS_MAX)
		err = EAGAIN;
	else
		u->n += (unsigned)n;
	pthread_mutex_unlock(&users_lock);
	return err;
}

static struct user *user_get(uid_t uid)
{
	struct user *u;

	pthread_mutex_lock(&users_lock);
	for (u = users; u && u->uid != uid; u = u->next)
		;
	if (!u && (u = calloc(1, sizeof(*u)))) {
		u->uid = uid;
		u->patience = PATIENCE_MAX;
		u->since = now();
		pthread_mutex_init(&u->atomics, NULL);
		u->next = users;
		users = u;
	}
	pthread_mutex_unlock(&users_lock);
	return u;
}

/* ---- the thread ------------------------------------------------------------------------ */

static long blocked_n(void)
{
	struct rusage use;

	return getrusage(RUSAGE_THREAD, &use) ? 0 : use.ru_nvcsw;
}

/* ns for which this thread could have run so far, and had no processor. */
static int64_t queued(const struct copier *c)
{
	unsigned long long ran, wait;
	char text[96];
	ssize_t n = c->sched_fd < 0 ? -1 : pread(c->sched_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = 0;
	return sscanf(text, "%llu %llu", &ran, &wait) == 2 ? (int64_t)wait : 0;
}

struct look {
	int64_t start;
	bool close;
	long blocked;
};

static void look_begin(struct copier *c, struct look *l)
{
	l->start = now();
	l->close = l->start < c->close_until;
	if (l->close || l->start - c->queued_at > QUEUED_AGE) {
		c->queued = queued(c);
		c->queued_at = l->start;
	}
	l->blocked = l->close ? blocked_n() : 0;
}

static void look_end(struct copier *c, const struct look *l)
{
	int64_t took = now() - l->start, cost;

	if (took < QUICK)
		return;
	if (!l->close || blocked_n() != l->blocked) {
		cost = took - (queued(c) - c->queued);
		if (cost > 0)
			patience_take(c->user, cost);
	}
	c->close_until = l->start + took + CLOSE;
}

static int job_do(struct copier *c)
{
	struct iovec stage = { c->stage, c->len };
	int err;

	if (!c->next)
		return mem_fd_move(c->fd, c->write, &stage, 1, c->piece, c->piece_n) < 0 ? errno : 0;
	pthread_mutex_lock(&c->user->atomics);
	err = mem_fd_update(c->fd, c->addr, c->next, c->a, c->b, &c->old);
	pthread_mutex_unlock(&c->user->atomics);
	return err;
}

size_t copier_len(void) { return sizeof(struct copier); }

static void copier_free(struct copier *c)
{
	user_count(c->user, -1);
	if (c->sched_fd >= 0)
		close(c->sched_fd);
	close(c->fd);
	pthread_cond_destroy(&c->todo);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *serve(void *arg)
{
	struct copier *c = arg;
	struct look look;

	pthread_mutex_lock(&c->lock);
	c->tid = gettid();
	c->sched_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	while (!c->quit) {
		if (c->state != POSTED) {
			pthread_cond_wait(&c->todo, &c->lock);
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		look_begin(c, &look);
		__atomic_store_n(&c->working, true, __ATOMIC_SEQ_CST);
		c->err = job_do(c);
		__atomic_store_n(&c->working, false, __ATOMIC_SEQ_CST);
		look_end(c, &look);
		pthread_mutex_lock(&c->lock);
		c->state = c->late ? IDLE : DONE;
		pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	copier_free(c);
	return NULL;
}

int copier_new(struct copier **out, uid_t uid, int mem_fd)
{
	struct user *u = user_get(uid);
	struct copier *c;
	pthread_condattr_t attr;
	int err = u ? user_count(u, 1) : ENOMEM;

	if (err)
		return err;
	if (patience_take(u, 0) < PATIENCE_NEW) {
		user_count(u, -1);
		return EAGAIN;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		user_count(u, -1);
		return ENOMEM;
	}
	c->user = u;
	c->fd = c->sched_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->todo, NULL);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_lock(&c->lock); /* it waits until it has its descriptor */
	err = apart_run(serve, c);
	if (!err)
		c->fd = mem_fd;
	pthread_mutex_unlock(&c->lock);
	if (err)
		copier_free(c);
	else
		*out = c;
	return err;
}

void copier_end(struct copier *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_signal(&c->todo);
	pthread_mutex_unlock(&c->lock);
}

/* ---- callers ----------------------------------------------------------------------------- */

static struct timespec end_of(int64_t ns)
{
	int64_t end = now() + ns;

	return (struct timespec){ .tv_sec = end / (1000 * MS), .tv_nsec = end % (1000 * MS) };
}

/*
 * The thread waits for memory: it neither runs nor could if it had a processor.  That it works is asked after its state:
 * one that has just done its job waits, too, for the lock that is held here.
 */
static bool is_blocked(const struct copier *c)
{
	char path[64], stat[256], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)c->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	if (!__atomic_load_n(&c->working, __ATOMIC_SEQ_CST))
		return false;
	if (n <= 0)
		return true;
	stat[n] = 0;
	p = strrchr(stat, ')');
	return !p || strlen(p) < 3 || p[2] != 'R';
}

static void give_up(struct copier *c)
{
	c->late = true;
	pthread_cond_broadcast(&c->changed);
	patience_take(c->user, PATIENCE_MAX);
	log_warn("memory of a program of user %u does not answer (a file of FUSE or NFS?): it is out of reach from now "
		 "on",
		 (unsigned)c->user->uid);
}

/* Waits until the state is that.  false: never.  With the lock. */
static bool state_wait(struct copier *c, enum state want)
{
	int64_t patience;
	struct timespec end;

	if (c->state == want && !c->late)
		return true;
	patience = patience_take(c->user, 0);
	if (patience < PATIENCE_MIN)
		patience = PATIENCE_MIN;
	end = end_of(patience);
	while (c->state != want && !c->late) {
		if (!pthread_cond_timedwait(&c->changed, &c->lock, &end) || c->state == want)
			continue;
		if (is_blocked(c))
			give_up(c);
		else
			end = end_of(patience);
	}
	return !c->late;
}

/* The job that was filled in.  With the lock. */
static int job_run(struct copier *c)
{
	c->state = POSTED;
	pthread_cond_signal(&c->todo);
	return state_wait(c, DONE) ? c->err : EFAULT;
}

static void job_over(struct copier *c)
{
	if (c->late)
		return;
	c->state = IDLE;
	pthread_cond_broadcast(&c->changed);
}

/* As much of a list as fits into the job. */
static size_t pieces_take(struct copier *c, const struct iovec *v, unsigned n, size_t off)
{
	size_t len;

	c->len = c->piece_n = 0;
	for (; n && c->len < STAGE_LEN && c->piece_n < PIECES; v++, n--, off = 0) {
		len = v->iov_len - off < STAGE_LEN - c->len ? v->iov_len - off : STAGE_LEN - c->len;
		c->piece[c->piece_n++] = (struct iovec){ (char *)v->iov_base + off, len };
		c->len += len;
	}
	return c->len;
}

/* len bytes between the stage and where the caller wants them. */
static void stage_swap(struct copier *c, struct iov_at *here, size_t len)
{
	size_t done = 0, part;

	for (; done < len && here->n; done += part) {
		char *p = (char *)here->v->iov_base + here->off;

		part = here->v->iov_len - here->off < len - done ? here->v->iov_len - here->off : len - done;
		if (c->write)
			memcpy(c->stage + done, p, part);
		else
			memcpy(p, c->stage + done, part);
		iov_at_on(here, part);
	}
}

ssize_t copier_move(struct copier *c, bool write, const struct iovec *here, unsigned here_n, const struct iovec *there,
		    unsigned there_n)
{
	struct iov_at h = { here, here_n, 0 }, t = { there, there_n, 0 };
	ssize_t done = 0;
	size_t len;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	while (!err && h.n && t.n) {
		if (!state_wait(c, IDLE)) {
			err = EFAULT;
			break;
		}
		c->write = write;
		c->next = NULL;
		len = pieces_take(c, t.v, t.n, t.off);
		if (write)
			stage_swap(c, &h, len);
		err = job_run(c);
		if (!err && !write)
			stage_swap(c, &h, len);
		job_over(c);
		iov_at_on(&t, len);
		done += (ssize_t)len;
	}
	pthread_mutex_unlock(&c->lock);
	errno = err;
	return err ? -1 : done;
}

int copier_atomic(struct copier *c, uint64_t addr, mem_next *next, uint64_t a, uint64_t b, uint64_t *old)
{
	int err = EFAULT;

	pthread_mutex_lock(&c->lock);
	if (state_wait(c, IDLE)) {
		c->next = next;
		c->addr = addr;
		c->a = a;
		c->b = b;
		err = job_run(c);
		if (!err)
			*old = c->old;
		job_over(c);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}
