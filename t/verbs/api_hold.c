/* SPDX-License-Identifier: MIT */
/*
 * api_hold.c - memory becomes pages of a memfd, and private again, while other threads use it.
 *
 *	page 0..	each writer has every WRITERSth line of 64 bytes: all of it holds what it wrote last
 *	then		words that all writers add to
 *	then		pages that read(2) fills, from a pipe that is empty when the call begins
 *	then		pages that nobody writes: a forked child finds them as they were, and keeps what it writes for itself
 *	then		pages that RDMA writes
 *
 * Others look at the helper that holds them (spy.h).
 *
 * $RDMAD_TURNS: how often (60): a region with all, or a part, of it is registered, written and deregistered. A line each
 * 100,000 tells how far it is.
 */
#include "fixture.h"
#include "spy.h"

#include "../proc_state.h"

#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#define WRITERS 3u
#define LINE    64u
#define PAGE    4096u
#define LINES   (64u * PAGE)
#define WORDS   (2u * PAGE)
#define READS   (4u * PAGE)
#define QUIET   (4u * PAGE)
#define REMOTE  (16u * PAGE)
#define ALL     (LINES + WORDS + READS + QUIET + REMOTE)

static struct ground {
	unsigned char *mem, *words, *reads, *quiet, *remote;
	bool end;
	unsigned long added[WRITERS], wrong, eintr, reads_done, forks;
	int pipe[2];
} g;

static bool ended(void) { return __atomic_load_n(&g.end, __ATOMIC_ACQUIRE); }
static void count_wrong(void) { __atomic_fetch_add(&g.wrong, 1, __ATOMIC_RELAXED); }

static void *writer(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	uint64_t last = 0;

	if (getenv("RDMAD_TURNS")) /* more turns in the time; on a busy machine it would be held too late, so not else */
		setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
	for (uint64_t now = 1; !ended(); last = now++) {
		for (size_t at = self * LINE; at < LINES; at += WRITERS * LINE) {
			volatile uint64_t *w = (volatile uint64_t *)(void *)(g.mem + at);

			for (unsigned i = 0; i < LINE / 8; i++) {
				if (w[i] != last)
					count_wrong();
				w[i] = now;
			}
		}
		for (size_t at = 0; at < WORDS; at += 512, g.added[self]++)
			__atomic_fetch_add((uint64_t *)(void *)(g.words + at), 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The call begins before the bytes are there, and may end in a page that has been replaced meanwhile. */
static void *reader(void *)
{
	for (unsigned char want = 1; !ended(); want++) {
		for (size_t got = 0; got < READS;) {
			ssize_t n = read(g.pipe[0], g.reads + got, READS - got);

			if (n == 0)
				return NULL;
			if (n < 0)
				count_wrong();
			got += n > 0 ? (size_t)n : 0;
		}
		for (size_t i = 0; i < READS; i++)
			if (g.reads[i] != want) {
				count_wrong();
				break;
			}
		g.reads_done++;
	}
	return NULL;
}

static void *feeder(void *)
{
	unsigned char some[1000];

	for (unsigned char byte = 1; !ended(); byte++) {
		memset(some, byte, sizeof(some));
		for (size_t put = 0, n; put < READS; put += n) {
			n = READS - put < sizeof(some) ? READS - put : sizeof(some);
			if (write(g.pipe[1], some, n) != (ssize_t)n)
				count_wrong();
			if (put % 5000 == 0)
				usleep(100);
		}
	}
	close(g.pipe[1]);
	return NULL;
}

static void *forker(void *)
{
	while (!ended()) {
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			if (!fix_filled(g.quiet, QUIET, 7))
				_exit(1);
			memset(g.quiet, 0xee, QUIET);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status || !fix_filled(g.quiet, QUIET, 7))
			count_wrong();
		g.forks++;
		usleep(2000);
	}
	return NULL;
}

/* A thread that waits is not to find out; and mappings beside come and go. */
static void *waiter(void *)
{
	int ep = epoll_create1(0);
	struct epoll_event e;

	while (!ended()) {
		unsigned char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(p, 1, 16 * PAGE);
		if (epoll_wait(ep, &e, 1, 5) < 0)
			g.eintr++;
		if (p[5 * PAGE] != 1 || munmap(p, 16 * PAGE))
			count_wrong();
	}
	close(ep);
	return NULL;
}

static void write_to(struct fix *f, struct ibv_qp *qp, struct ibv_mr *to, size_t off, unsigned seed)
{
	fix_fill(f->buf, BUF_LEN, seed);
	ck_assert_int_eq(fix_write_to(f, qp, 0, (uintptr_t)g.remote + off, to->rkey, BUF_LEN), 0);
	fix_wait_ok(f->cq);
	ck_assert_msg(fix_filled(g.remote + off, BUF_LEN, seed), "turn %u", seed);
}

/* *mapped: how many regions were. */
static void turns(struct fix *f, unsigned n, unsigned *mapped)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_qp *a, *b;

	fix_pair(f, &a, &b);
	for (unsigned i = 0; i < n; i++) {
		size_t from = i % 3 ? (size_t)(i * 7919 % (LINES + WORDS)) : 0, off = i * 4096 % (REMOTE - BUF_LEN);
		struct ibv_mr *m = ibv_reg_mr(f->pd, g.mem + from, ALL - from, rights), *again;

		ck_assert_msg(m != NULL, "%s", strerror(errno));
		*mapped += fix_is_mapped(g.remote);
		write_to(f, a, m, off, i);
		if (i % 2) { /* the same memory once more, and the first goes */
			again = ibv_reg_mr(f->pd, g.mem + from, ALL - from, rights);
			ck_assert(again != NULL);
			ck_assert_int_eq(ibv_dereg_mr(m), 0);
			m = again;
			write_to(f, a, m, off, i + 1);
		}
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(fix_filled(g.remote + off, BUF_LEN, i + i % 2));
		ck_assert_msg(!__atomic_load_n(&g.wrong, __ATOMIC_RELAXED), "turn %u: %lu times", i, g.wrong);
		if (i && i % 100000 == 0)
			fprintf(stderr, "torture: %u turns, %u mapped\n", i, *mapped);
	}
	fix_pair_end(a, b);
}

START_TEST(torture)
{
	static void *(*const run[])(void *) = { writer, writer, writer, reader, feeder, forker, waiter };
	const unsigned n = sizeof(run) / sizeof(*run);
	const char *env = getenv("RDMAD_TURNS");
	const time_t until = time(NULL) + PATIENCE_S / 2;
	unsigned mapped = 0;
	uint64_t sum = 0, added = 0;
	pthread_t t[sizeof(run) / sizeof(*run)];
	struct fix f;

	fix_open(&f);
	g.mem = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(g.mem != MAP_FAILED);
	g.words = g.mem + LINES;
	g.reads = g.words + WORDS;
	g.quiet = g.reads + READS;
	g.remote = g.quiet + QUIET;
	fix_fill(g.quiet, QUIET, 7);
	ck_assert_int_eq(pipe(g.pipe), 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, run[i], (void *)(uintptr_t)i), 0);
	do /* on a busy machine threads do not stand in time, and it is not tried again at once */
		turns(&f, env ? (unsigned)atoi(env) : 60, &mapped);
	while (!mapped && time(NULL) < until);
	__atomic_store_n(&g.end, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
	for (size_t at = 0; at < WORDS; at += 512)
		sum += *(uint64_t *)(void *)(g.words + at);
	for (unsigned i = 0; i < WRITERS; i++)
		added += g.added[i];
	printf("torture: %u mapped, %lu reads, %lu forks, %lu additions\n", mapped, g.reads_done, g.forks, added);
	ck_assert_uint_eq(sum, added);
	ck_assert_uint_eq(g.wrong, 0);
#if defined(__x86_64__)
	ck_assert_uint_eq(g.eintr, 0);
#endif
	ck_assert_uint_gt(mapped, 0);
	ck_assert(!fix_is_mapped(g.remote) || mapped);
	close(g.pipe[0]);
	munmap(g.mem, ALL);
	fix_close(&f);
}
END_TEST

/* ---- the helper ------------------------------------------------------------------------ */

static void *sleeper(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1) < 0 ? arg : NULL;
}

/* A second thread, until it is told to end. */
static pthread_t second_begin(int fds[2])
{
	pthread_t t;

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, sleeper, &fds[0]), 0);
	return t;
}

static void second_end(pthread_t t, int fds[2])
{
	void *failed;

	close(fds[1]);
	ck_assert_int_eq(pthread_join(t, &failed), 0);
	ck_assert(failed == NULL);
	close(fds[0]);
}

#define TRIES 30u
#define LATE  77 /* the second thread did not stand in time, which is no mistake on a busy machine */

/* Each in a process of its own: in one that was late the library does not try again at once. */
static void in_time(int (*test)(void))
{
	int status = LATE << 8;

	for (unsigned i = 0; i < TRIES && status == LATE << 8; i++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (!pid)
			exit(test());
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	}
	ck_assert_int_eq(status, 0);
}

static int doomed(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };

	syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
	return spy.body(arg);
}

/* A filter ends it: the program goes on, its core is not dumped, and no second one is made. */
START_TEST(killed)
{
	unsigned char *p = fix_pages(ALL, 3);
	struct rlimit rl;
	struct ibv_mr *m;
	struct fix f;
	pthread_t t;
	int fds[2];

	fix_open(&f);
	t = second_begin(fds);
	getrlimit(RLIMIT_CORE, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_CORE, &rl);
	spy.first = doomed;
	for (unsigned i = 0; i < 2; i++) {
		m = ibv_reg_mr(f.pd, p, ALL, IBV_ACCESS_LOCAL_WRITE);
		ck_assert(m != NULL);
		ck_assert(!fix_is_mapped(p) && fix_filled(p, ALL, 3));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert_uint_eq(spy.made, 1);
	}
	ck_assert(WIFSIGNALED(spy.status) && !WCOREDUMP(spy.status));
	second_end(t, fds);
	fix_close(&f);
	munmap(p, ALL);
}
END_TEST

#define PIECES ((size_t)4 << 20)

static struct {
	unsigned char *old, *view;
	int fd;
} other;

/* As another thread might, at that very moment. */
static void replace_half(void)
{
	if (mmap(other.old + PIECES / 2, PIECES / 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other.fd, 0) ==
	    MAP_FAILED)
		count_wrong();
}

/* Pages that are kept are turned back, while the program maps a file of its own over a part of them: that stays. */
static int replace_late(void)
{
	unsigned char *p = fix_pages(PIECES, 3);
	unsigned converted;
	struct fix f;
	pthread_t t;
	int fds[2];

	fix_open(&f);
	/* No page of the buffer is to be the first that is turned back. */
	ck_assert_int_eq(ibv_dereg_mr(f.mr), 0);
	f.mr = ibv_reg_mr(f.pd, f.buf, 1, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(f.mr != NULL);
	other.old = p;
	other.fd = memfd_create("t-other", MFD_CLOEXEC);
	ck_assert(other.fd >= 0 && !ftruncate(other.fd, (off_t)PIECES / 2));
	other.view = mmap(NULL, PIECES / 2, PROT_READ | PROT_WRITE, MAP_SHARED, other.fd, 0);
	ck_assert(other.view != MAP_FAILED);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_dereg_mr(ibv_reg_mr(f.pd, p, PIECES, IBV_ACCESS_LOCAL_WRITE)), 0);
	ck_assert(fix_is_mapped(p));
	t = second_begin(fds);
	spy.before = replace_half;
	fix_close(&f);
	ck_assert_uint_ge(spy.made, 1); /* in pieces, where time is short */
	ck_assert_uint_eq(g.wrong, 0);
	second_end(t, fds);
	ck_assert(fix_filled(p, PIECES / 2, 3));
	fix_mappings(p, PIECES, &converted);
	if (converted)
		return LATE;
	fix_fill(p + PIECES / 2, PIECES / 2, 5);
	ck_assert(fix_filled(other.view, PIECES / 2, 5));
	munmap(p, PIECES);
	munmap(other.view, PIECES / 2);
	close(other.fd);
	return 0;
}

START_TEST(replaced_late) { in_time(replace_late); }
END_TEST

#define LONG ((size_t)64 << 20)

static struct {
	struct io_uring u;
	bool tried, open;
} pins;

/* The others run between two pieces, and may do this. */
static void pin_late(void)
{
	if (spy.made == 2) {
		pins.tried = true;
		pins.open = !io_uring_queue_init(4, &pins.u, 0);
	}
}

/* An io_uring comes while a long range is moved: the rest of it stays. */
static int pinned(void)
{
	unsigned char *p = fix_pages(LONG, 3);
	struct ibv_mr *m;
	struct fix f;
	pthread_t t;
	int fds[2];

	fix_open(&f);
	t = second_begin(fds);
	spy.made = 0;
	spy.before = pin_late;
	m = ibv_reg_mr(f.pd, p, LONG, IBV_ACCESS_LOCAL_WRITE);
	spy.before = NULL;
	ck_assert(m != NULL && fix_filled(p, LONG, 3));
	if (!pins.tried)
		return LATE;
	ck_assert(fix_is_mapped(p));
	ck_assert_int_eq(fix_is_mapped(p + LONG - PAGE), !pins.open);
	ck_assert(fix_filled(p, LONG, 3));
	if (pins.open)
		io_uring_queue_exit(&pins.u);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(p, LONG, 3));
	second_end(t, fds);
	fix_close(&f);
	munmap(p, LONG);
	return 0;
}

START_TEST(pinned_late) { in_time(pinned); }
END_TEST

#ifdef __x86_64__

#define RANGE ((size_t)8 << 20)

static struct {
	int fd, p[2];
	pid_t tid; /* atomic */
} full;

static long send_many(void)
{
	struct iovec v = { full.p, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

	return sendmmsg(full.fd, &m, 1, 0);
}

static long send_file(void)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	long n = sendfile(full.fd, file, NULL, 1);

	close(file);
	return n;
}

static long send_piped(void) { return splice(full.p[0], NULL, full.fd, NULL, 1, 0); }

/* The result, or -errno. */
static void *full_send(void *call)
{
	long n;

	__atomic_store_n(&full.tid, gettid(), __ATOMIC_RELEASE);
	n = (*(long (**)(void))call)();
	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

/* A thread waits for room in a socket with a limit of time, where the kernel makes EINTR of a stop, while another one registers. */
START_TEST(sends_limited)
{
	static long (*const calls[])(void) = { send_many, send_file, send_piped };
	const struct timeval limit = { .tv_sec = 60 };
	struct fix f;

	fix_open(&f);
	ck_assert_int_eq(pipe(full.p), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		unsigned char *p = fix_pages(RANGE, 1), some[1000] = { 0 };
		struct ibv_mr *m;
		pthread_t t;
		void *sent;
		int sv[2];

		ck_assert_int_eq(write(full.p[1], "x", 1), 1);
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
		ck_assert_int_eq(setsockopt(sv[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
		while (send(sv[0], some, sizeof(some), MSG_DONTWAIT) > 0 || send(sv[0], some, 1, MSG_DONTWAIT) > 0)
			;
		full.fd = sv[0];
		full.tid = 0;
		ck_assert_int_eq(pthread_create(&t, NULL, full_send, (void *)(uintptr_t)&calls[i]), 0);
		while (!__atomic_load_n(&full.tid, __ATOMIC_ACQUIRE) || proc_state(full.tid) != 'S')
			usleep(1000); /* the test has a limit of time */
		m = ibv_reg_mr(f.pd, p, RANGE, IBV_ACCESS_LOCAL_WRITE);
		ck_assert(m != NULL);
		while (pthread_tryjoin_np(t, &sent))
			while (recv(sv[1], some, sizeof(some), MSG_DONTWAIT) > 0)
				;
		ck_assert_msg((intptr_t)sent == 1, "call %zu: %ld", i, (long)(intptr_t)sent);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		munmap(p, RANGE);
		close(sv[0]);
		close(sv[1]);
	}
	fix_close(&f);
}
END_TEST

#endif

void api_hold(Suite *s)
{
	SUITE_ADD(s, torture, killed, replaced_late);
#ifdef __x86_64__
	SUITE_ADD(s, sends_limited);
#endif
#ifndef __SANITIZE_ADDRESS__ /* whose own mappings take other steps: the second one moves nothing yet */
	SUITE_ADD(s, pinned_late);
#else
	(void)pinned_late;
#endif
}
