/* SPDX-License-Identifier: MIT */
/*
 * table.c - from descriptors to rsockets, and the calls on descriptors as such.
 *
 * An rsocket belongs to the process that made it: a child, by fork() or vfork(), sees only the TCP sockets (heir.c, will.c).
 */
#include "pre.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <rdmad/own.h>

/* Headers of Linux 5.8 and before have neither. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
enum { RANGE_UNSHARE = 2 }; /* with any other flag nothing is closed */

static struct conn *table[FD_MAX];
static int top; /* atomic: from here on there never was one */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static uint8_t *ours; /* a page that every child but one of vfork() has empty; NULL: there is none */

/* ---- fork ------------------------------------------------------------------------------------------- */

static void fork_before(void) { pthread_mutex_lock(&table_lock); }
static void fork_parent(void) { pthread_mutex_unlock(&table_lock); }

static void fork_child(void)
{
	heir_child();
	bridges_forget();
	names_child();
	will_child();
	for (int i = 0; i < top; i++)
		if (table[i]) { /* pages that nothing is written to stay the parent's */
			heir_note(i, table[i]);
			table[i] = NULL;
		}
	owner = getpid();
	if (ours)
		*ours = 1;
	pthread_mutex_unlock(&table_lock);
}

/* For what is said of descriptors: a child of vfork() has our memory, and its descriptors are its own. */
static bool is_owner(void) { return getpid() == owner; }

/* For all else: this costs no system call, until such a child has made a number of ours its own (forget). */
static bool is_ours(void) { return (ours && __atomic_load_n(ours, __ATOMIC_RELAXED)) || is_owner(); }

static void ours_make(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	if (madvise(p, page, MADV_WIPEONFORK)) {
		munmap(p, page);
		return;
	}
	ours = p;
	*ours = 1;
}

__attribute__((constructor)) static void table_open(void)
{
	owner = getpid();
	ours_make();
	pthread_atfork(fork_before, fork_parent, fork_child);
}

/* ---- conns ------------------------------------------------------------------------------------------ */

static struct conn *peek(int fd)
{
	if (fd < 0 || fd >= FD_MAX)
		return NULL;
	return __atomic_load_n(&table[fd], __ATOMIC_ACQUIRE);
}

struct conn *conn_at(int fd) { return peek(fd); }

struct conn *conn_own(int fd) { return peek(fd) ? conn_get(fd) : NULL; }

int conn_top(void) { return __atomic_load_n(&top, __ATOMIC_RELAXED); }

struct conn *conn_get(int fd)
{
	struct conn *c = peek(fd);

	if (!c)
		will_take(fd);
	if (!c || !is_ours())
		return NULL;
	pthread_mutex_lock(&table_lock);
	c = table[fd];
	if (c && conn_state(c) == CONN_TCP)
		c = NULL;
	if (c)
		conn_hold(c);
	pthread_mutex_unlock(&table_lock);
	return c;
}

/* Locked.  The last one that may hand it out has gone. */
static void end_close(struct conn *c)
{
	if (c->end < 0 || c->fds || c->wills)
		return;
	heir_close(c->end);
	c->end = -1;
}

struct conn *conn_will(int fd)
{
	struct conn *c;

	if (!peek(fd))
		return NULL;
	pthread_mutex_lock(&table_lock);
	c = table[fd];
	c = c && conn_state(c) == CONN_RDMA ? c : NULL;
	if (c) {
		conn_hold(c);
		c->wills++;
	}
	pthread_mutex_unlock(&table_lock);
	return c;
}

void conn_unwill(struct conn *c)
{
	pthread_mutex_lock(&table_lock);
	c->wills--;
	end_close(c);
	pthread_mutex_unlock(&table_lock);
	conn_put(c);
}

void conn_bridged(struct conn *c, int end)
{
	pthread_mutex_lock(&table_lock);
	c->end = end;
	__atomic_store_n(&c->state, CONN_TCP, __ATOMIC_RELEASE);
	for (int fd = 0; fd < top; fd++)
		if (table[fd] == c)
			real()->dup3(end, fd, real()->fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
	end_close(c);
	pthread_mutex_unlock(&table_lock);
	reg_dropped(c);
}

bool conn_alone(struct conn *c)
{
	bool alone;

	pthread_mutex_lock(&table_lock);
	alone = __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == c->fds + c->wills + 1;
	pthread_mutex_unlock(&table_lock);
	return alone;
}

/* Takes what is at fd; the caller puts it. */
static struct conn *table_take(int fd, bool *last)
{
	struct conn *c;

	pthread_mutex_lock(&table_lock);
	c = table[fd];
	__atomic_store_n(&table[fd], NULL, __ATOMIC_RELEASE);
	*last = c && !--c->fds;
	if (*last)
		end_close(c);
	pthread_mutex_unlock(&table_lock);
	return c;
}

static void table_put(int fd, struct conn *c)
{
	conn_forget(fd);
	conn_hold(c);
	pthread_mutex_lock(&table_lock);
	c->fds++;
	if (fd >= top)
		__atomic_store_n(&top, fd + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&table[fd], c, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&table_lock);
}

struct conn *conn_add(int fd, int rfd, int domain, enum conn_state state)
{
	struct conn *c = fd < FD_MAX ? conn_new(rfd, domain, state) : NULL;

	if (!c)
		return NULL;
	table_put(fd, c);
	conn_put(c); /* the descriptor has it */
	return c;
}

void conn_drop(struct conn *c)
{
	int rfd;

	reg_dropped(c);
	rfd = __atomic_exchange_n(&c->rfd, -1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&c->state, CONN_TCP, __ATOMIC_RELEASE);
	if (rfd >= 0)
		rclose(rfd);
}

/* Handlers of pthread_atfork() are too late: other libraries have their locks then. */
EXPORT pid_t fork(void)
{
	for (int fd = 0; fd < conn_top(); fd++) {
		struct conn *c = conn_own(fd);

		if (c) {
			listener_leave(fd, c);
			conn_put(c);
		}
	}
	return will_fork();
}

/* ---- close and dup ------------------------------------------------------------------------------------ */

/* Of all other numbers it takes no lock: the libraries below close theirs while threads stand still that may have it. */
void conn_forget(int fd)
{
	struct conn *c;
	bool last;

	if (!peek(fd) && !reg_is_ep(fd) && heir_kind(fd) == HEIR_NONE)
		return;
	if (!is_owner()) {
		if (ours && peek(fd))
			__atomic_store_n(ours, 0, __ATOMIC_RELAXED);
		return;
	}
	reg_close_ep(fd);
	heir_forget(fd);
	if (!peek(fd))
		return;
	c = table_take(fd, &last);
	if (!c)
		return;
	if (last) {
		reg_close(c);
		if (c->there_ns)
			peer_lived(&c->peer, c->there_ns - c->asked_ns, now_ns() - c->there_ns, c->sends);
	}
	conn_put(c);
}

EXPORT int close(int fd)
{
	conn_forget(fd);
	return real()->close(fd);
}

static void forget_range(unsigned first, unsigned last, unsigned flags)
{
	for (unsigned fd = first; fd <= last && fd < FD_MAX && !(flags & ~(unsigned)RANGE_UNSHARE); fd++)
		conn_forget((int)fd);
}

int close_range(unsigned first, unsigned last, int flags);
void closefrom(int low);

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	forget_range(first, last, (unsigned)flags);
	return (int)real()->syscall(SYS_close_range, first, last, flags);
}

EXPORT void closefrom(int low)
{
	int max = (int)sysconf(_SC_OPEN_MAX), first = low < 0 ? 0 : low;

	if (!close_range((unsigned)first, UINT32_MAX, 0))
		return;
	for (int fd = first; fd < max; fd++)
		close(fd);
}

/* Some programs, as Node.js, close by number, where no thread is cancelled.  (To have six arguments at hand it is not variadic.) */
EXPORT long by_number(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");

long by_number(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == SYS_close)
		conn_forget((int)a);
	else if (nr == SYS_close_range)
		forget_range((unsigned)a, (unsigned)b, (unsigned)c);
	return real()->syscall(nr, a, b, c, d, e, f);
}

static void bridge_at(int fd)
{
	struct conn *c = conn_get(fd);

	if (!c)
		return;
	if (conn_state(c) == CONN_RDMA)
		bridge_open(c);
	conn_put(c);
}

/* By the numbers of standard streams the C library reads and writes, and programs that are executed. */
void conn_standard(int fd)
{
	if (fd <= STDERR_FILENO)
		bridge_at(fd);
}

/* The new descriptor is what the old one is. */
static int follow(int fd, int new)
{
	struct conn *c;

	conn_forget(new);
	c = new >= 0 && new < FD_MAX &&is_owner() ? conn_get(fd) : NULL;
	if (!c) {
		if (is_owner()) {
			heir_follow(fd, new);
			reg_follow(fd, new);
		}
		return new;
	}
	table_put(new, c);
	conn_put(c);
	conn_standard(new);
	return new;
}

EXPORT int dup(int fd)
{
	will_take(fd);
	return follow(fd, real()->dup(fd));
}

EXPORT int dup2(int fd, int new)
{
	int ret;

	will_take(fd);
	ret = real()->dup2(fd, new);
	return fd == new ? ret : follow(fd, ret);
}

EXPORT int dup3(int fd, int new, int flags)
{
	will_take(fd);
	return follow(fd, real()->dup3(fd, new, flags));
}

/* ---- flags --------------------------------------------------------------------------------------------- */

/* A listener waits for both kinds, so its sockets never do. */
static void nonblock_set(int fd, struct conn *c, bool on)
{
	pthread_mutex_lock(&c->lock);
	c->nonblock = on;
	pthread_mutex_unlock(&c->lock);
	if (conn_state(c) == CONN_LISTEN)
		return;
	rfcntl(conn_rfd(c), F_SETFL, on ? O_NONBLOCK : 0);
	real()->fcntl(fd, F_SETFL,
		      on ? real()->fcntl(fd, F_GETFL) | O_NONBLOCK : real()->fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static int conn_fcntl(int fd, struct conn *c, int cmd, void *arg)
{
	int ret;

	switch (cmd) {
	case F_GETFL:
		ret = real()->fcntl(fd, F_GETFL);
		return ret < 0 ? ret : c->nonblock ? ret | O_NONBLOCK : ret & ~O_NONBLOCK;
	case F_SETFL: nonblock_set(fd, c, (intptr_t)arg & O_NONBLOCK); return 0;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC: return follow(fd, real()->fcntl(fd, cmd, arg));
	default: return real()->fcntl(fd, cmd, arg);
	}
}

/* It shall not be closed on exec any more: then it is for a program that is to be executed. */
static void exec_keeps(int fd)
{
	will_take(fd);
	if (conn_at(fd) && real()->fcntl(fd, F_GETFD) == FD_CLOEXEC)
		bridge_at(fd);
}

static int any_fcntl(int fd, int cmd, void *arg)
{
	struct conn *c;
	int ret;

	if (cmd == F_SETFD && !((intptr_t)arg & FD_CLOEXEC))
		exec_keeps(fd);
	/* Of the number, as some programs set them all before they execute others. */
	if (cmd == F_GETFD || cmd == F_SETFD)
		return real()->fcntl(fd, cmd, arg);
	c = conn_get(fd);
	if (!c && reg_is_ep(fd) && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
		return follow(fd, real()->fcntl(fd, cmd, arg));
	if (!c)
		return heir_is(fd) ? heir_fcntl(fd, cmd, arg) : real()->fcntl(fd, cmd, arg);
	ret = conn_fcntl(fd, c, cmd, arg);
	conn_put(c);
	return ret;
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return any_fcntl(fd, cmd, arg);
}

EXPORT int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

static int queued(const struct conn *c, unsigned long request)
{
	int n = request == FIONREAD ? rdmad_rs_unread(conn_rfd(c)) : rdmad_rs_unacked(conn_rfd(c));

	return n < 0 ? 0 : n;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct conn *c = conn_get(fd);
	va_list ap;
	void *arg;
	int ret = 0;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == FIONCLEX)
		exec_keeps(fd);
	if (c && request == FIONBIO)
		nonblock_set(fd, c, *(int *)arg);
	else if (c && (request == FIONREAD || request == SIOCOUTQ) && conn_state(c) == CONN_RDMA)
		*(int *)arg = queued(c, request);
	else if (!c && request == FIONBIO && heir_is(fd))
		heir_nonblock_set(fd, *(int *)arg);
	else
		ret = real()->ioctl(fd, request, arg);
	if (c)
		conn_put(c);
	return ret;
}
