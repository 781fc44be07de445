/* SPDX-License-Identifier: MIT */
/*
 * foreign.c - a thread for each user who has something to be closed; it ends a while after nothing is left.
 *
 *	control thread --- foreign_close() ---> user 1001: fd fd map --- close(), munmap() ...
 *	                   foreign_unmap()      user 1002: fd ---------- close(), and its FUSE server does not answer
 */
#include "foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <rdmad/apart.h>

#include "clock.h"
#include "held.h"
#include "log.h"
#include "quota.h"
#include "rights.h"

#define WAITING_MAX 32u
#define UNREAD_MOST 512u /* messages: more than a socket has room for, if its buffer is not made larger */
#define STUCK_NS    UINT64_C(500000000)
#define SMALL       (16u << 20) /* bytes of memory that are given back in no time */
#define IDLE_S      1           /* who registers and deregisters in a row needs no thread for each time */

struct waiting {
	struct waiting *next;
	int fd;            /* or */
	struct held *held; /* if it is not NULL */
	struct bill bill;  /* all zero: nobody is charged */
};

struct user {
	struct user *next;
	uid_t uid;
	bool runs;             /* he has a thread, */
	pthread_cond_t more;   /* which waits for something, */
	mono_t since;          /* or closes the first of these since then */
	unsigned n;            /* descriptors that nobody is charged with */
	struct waiting *first; /* is being closed */
	struct waiting **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct user *users;
static struct waiting *done; /* closed, but for their bills */
static void (*is_due)(void);

/* ---- questions ------------------------------------------------------------------- */

bool foreign_is_memfd(int fd, int *seals)
{
	int got = fcntl(fd, F_GET_SEALS);

	if (seals)
		*seals = got;
	return got >= 0;
}

/* From the kernel's cache: the numbers of an open file do not change. */
int foreign_inode(int fd, dev_t *dev, ino_t *ino)
{
	struct statx st;

	if (fd < 0)
		return EBADF;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st))
		return errno;
	*dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	*ino = st.stx_ino;
	return 0;
}

/* 0: not known. */
static dev_t dev_of(int fd, mode_t *mode)
{
	struct statx st;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st))
		return 0;
	*mode = st.stx_mode & S_IFMT;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

static int anon_make(void) { return eventfd(0, EFD_CLOEXEC); }
static int memfd_make(void) { return memfd_create("rdmad", MFD_CLOEXEC); }

/* Where what make() makes is: *known, atomic, once it was asked for.  0: not known. */
static dev_t dev_of_kind(dev_t *known, int (*make)(void))
{
	dev_t dev = __atomic_load_n(known, __ATOMIC_RELAXED);
	mode_t mode;
	int fd;

	if (dev)
		return dev;
	fd = make();
	dev = dev_of(fd, &mode);
	if (fd >= 0)
		close(fd);
	__atomic_store_n(known, dev, __ATOMIC_RELAXED);
	return dev;
}

/* Where eventfds, epolls and the like are. */
static dev_t dev_of_anon(void)
{
	static dev_t known;

	return dev_of_kind(&known, anon_make);
}

static dev_t dev_of_memfd(void)
{
	static dev_t known;

	return dev_of_kind(&known, memfd_make);
}

/* To be told more about an epoll or a device is to wait for who holds its lock; a dma-buf is on a file system of its own. */
static bool may_be_dmabuf(int fd)
{
	dev_t anon = dev_of_anon();
	mode_t mode = 0;
	dev_t dev = dev_of(fd, &mode);

	return anon && dev && dev != anon && (!mode || mode == S_IFREG);
}

/* Only a dma-buf says of itself who exported it. */
bool foreign_is_dmabuf(int fd)
{
	char path[64], line[256];
	bool is = false;
	FILE *f;

	if (!may_be_dmabuf(fd))
		return false;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!is && fgets(line, sizeof(line), f))
		is = !strncmp(line, "exp_name:", 9);
	fclose(f);
	return is;
}

/* A file of tmpfs, too, is a memfd here; that may be the last of a mount that a user has made, and end with all that is in there. */
bool foreign_ends_alone(int fd, uid_t uid)
{
	mode_t mode;
	dev_t dev;

	if (!foreign_is_memfd(fd, NULL))
		return false;
	dev = dev_of(fd, &mode);
	return (dev && dev == dev_of_memfd()) || rights_trusted(uid);
}

/* When a memfd ends so do its pages, and if there are millions that takes a second. */
static bool is_small(int fd, uid_t uid)
{
	struct stat st;

	return foreign_ends_alone(fd, uid) && !fstat(fd, &st) && st.st_blocks <= SMALL / S_BLKSIZE;
}

/* ---- the end of one ------------------------------------------------------------------ */

static struct user **user_find(uid_t uid)
{
	struct user **p = &users;

	while (*p && (*p)->uid != uid)
		p = &(*p)->next;
	return p;
}

static void tell(void)
{
	if (is_due)
		is_due();
}

/* The user's first has been closed. */
static void first_done(struct user *u)
{
	struct waiting *w = u->first;

	u->first = w->next;
	if (w->bill.user) {
		w->next = done;
		done = w;
		tell();
		return;
	}
	if (!w->held && u->n-- == WAITING_MAX)
		tell();
	free(w);
}

/* With the lock.  false: nothing has come for a while. */
static bool first_wait(struct user *u)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += IDLE_S;
	while (!u->first)
		if (pthread_cond_timedwait(&u->more, &lock, &end))
			break;
	return u->first;
}

static void user_free(struct user *u)
{
	pthread_cond_destroy(&u->more);
	free(u);
}

static void *close_all(void *arg)
{
	struct user *u = arg;

	pthread_mutex_lock(&lock);
	while (first_wait(u)) {
		const struct waiting *w = u->first;

		u->since = clock_now();
		pthread_mutex_unlock(&lock);
		if (w->held)
			held_unmap(w->held);
		else
			close(w->fd);
		pthread_mutex_lock(&lock);
		first_done(u);
	}
	*user_find(u->uid) = u->next;
	pthread_mutex_unlock(&lock);
	user_free(u);
	return NULL;
}

static struct user *user_get(uid_t uid)
{
	struct user *u = *user_find(uid);
	pthread_condattr_t attr;

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&u->more, &attr);
	pthread_condattr_destroy(&attr);
	u->uid = uid;
	u->since = clock_now();
	u->last = &u->first;
	u->next = users;
	users = u;
	return u;
}

/* false: later. */
static bool user_run(struct user *u)
{
	if (!u->runs)
		u->runs = !apart_run(close_all, u); /* it waits for the lock before it looks */
	return u->runs;
}

/* fd, or held.  false: no memory. */
static bool add(int fd, struct held *held, uid_t uid, struct bill *bill)
{
	struct waiting *w = calloc(1, sizeof(*w));
	struct user *u = w ? user_get(uid) : NULL;

	if (!u) {
		free(w);
		return false;
	}
	if (!u->first)
		u->last = &u->first;
	w->fd = fd;
	w->held = held;
	if (bill)
		w->bill = *bill;
	u->n += !held && !w->bill.user;
	*u->last = w;
	u->last = &w->next;
	if (!user_run(u))
		tell();
	pthread_cond_signal(&u->more);
	return true;
}

static void close_apart(int fd, uid_t uid, struct bill *bill)
{
	bool added;

	pthread_mutex_lock(&lock);
	added = add(fd, NULL, uid, bill);
	pthread_mutex_unlock(&lock);
	if (!added) /* better one descriptor less, and a bill, than a daemon that stands still */
		log_warn("no memory: a descriptor of user %u stays open", (unsigned)uid);
	if (bill)
		*bill = (struct bill){ 0 };
}

static void close_here(int fd, struct bill *bill)
{
	close(fd);
	if (bill)
		bill_close(bill);
}

void foreign_close_billed(int fd, uid_t uid, struct bill *bill)
{
	if (is_small(fd, uid))
		close_here(fd, bill);
	else
		close_apart(fd, uid, bill);
}

void foreign_close(int fd, uid_t uid) { foreign_close_billed(fd, uid, NULL); }

void foreign_unmap(struct held *held, uid_t uid, struct bill *bill)
{
	bool added = false;

	if (!held)
		return;
	if (held->len > SMALL || held->more) { /* else to wake a thread for it takes longer */
		pthread_mutex_lock(&lock);
		added = add(-1, held, uid, bill);
		pthread_mutex_unlock(&lock);
	}
	if (!added)
		held_unmap(held);
	if (added && bill)
		*bill = (struct bill){ 0 };
}

/*
 * Reads what a connection to which nothing more can be sent still has, as long as no descriptors are with it.  true: nothing is left.
 * Each message has credentials then, which there is room for, and for nothing else; an end has none.  With gVisor it looks like empty
 * messages, one behind the other, and a reset, of a client that left a reply unread, is not told once but always.
 */
static bool drained(int fd)
{
	for (unsigned i = 0; i < UNREAD_MOST; i++) {
		char room[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(sizeof(size_t))));
		struct msghdr mh = { .msg_control = room, .msg_controllen = sizeof(room) };

		if (recvmsg(fd, &mh, MSG_PEEK | MSG_DONTWAIT) < 0) {
			if (errno != ECONNRESET)
				return false;
			continue;
		}
		if (!mh.msg_controllen)
			return true;
		if (mh.msg_flags & MSG_CTRUNC)
			return false;
		recv(fd, NULL, 0, MSG_DONTWAIT);
	}
	return false;
}

bool foreign_hang_up(int fd, uid_t uid, struct bill *bill)
{
	static const struct cost one = { .n = { [QUOTA_FDS] = 1 } };
	struct bill own = { 0 };
	int other;

	if (!setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) && !shutdown(fd, SHUT_RD) &&
	    drained(fd)) {
		close_here(fd, bill);
		return true;
	}
	shutdown(fd, SHUT_RDWR);
	if (!bill || !bill->user)
		bill_open(bill ? bill : &own, uid, &one);
	if (!bill && !own.user && !foreign_room(uid))
		return false;
	/* Its number is this thread's, whose loop may still know it. */
	other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (other >= 0)
		close(fd);
	close_apart(other < 0 ? fd : other, uid, bill ? bill : &own);
	return true;
}

bool foreign_room(uid_t uid)
{
	const struct user *u;
	bool room;

	pthread_mutex_lock(&lock);
	u = *user_find(uid);
	room = !u || u->n < WAITING_MAX;
	pthread_mutex_unlock(&lock);
	return room;
}

bool foreign_stuck(uid_t uid)
{
	const struct user *u;
	bool stuck;

	pthread_mutex_lock(&lock);
	u = *user_find(uid);
	stuck = u && u->first && mono_since(clock_now(), u->since) >= STUCK_NS;
	pthread_mutex_unlock(&lock);
	return stuck;
}

/* ---- bills ----------------------------------------------------------------------------- */

void foreign_begin(void (*due)(void))
{
	pthread_mutex_lock(&lock);
	is_due = due;
	pthread_mutex_unlock(&lock);
}

bool foreign_settle(void)
{
	bool all = true;

	pthread_mutex_lock(&lock);
	while (done) {
		struct waiting *w = done;

		done = w->next;
		bill_close(&w->bill);
		free(w);
	}
	for (struct user *u = users; u; u = u->next)
		all &= user_run(u);
	pthread_mutex_unlock(&lock);
	return all;
}

void foreign_end(void)
{
	foreign_begin(NULL);
	foreign_settle();
	pthread_mutex_lock(&lock);
	for (struct user *u = users; u; u = u->next)
		for (struct waiting *w = u->first; w; w = w->next) {
			u->n += w->bill.user != NULL;
			bill_close(&w->bill);
		}
	pthread_mutex_unlock(&lock);
}
