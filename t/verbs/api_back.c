/* SPDX-License-Identifier: MIT */
/*
 * api_back.c - pages become those of a memfd, and private again, only where nothing is lost by that: not while the kernel writes into
 * the old ones, not by a child that has them from its parent, not with a file that is not the one.
 */
#include "fixture.h"

#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <pthread.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../maps.h"

#define LEN       ((size_t)1 << 20)
#define RIGHTS    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define NR_MSEAL  462 /* Linux 6.10 */
#define MAPS_MOST 70000u
#define INODES    400000u

static void skipped(const char *why) { fprintf(stderr, "# skipped: %s\n", why); }

/* ---- the kernel has pages of the program ------------------------------------------ */

static bool uring_open(struct io_uring *u)
{
	int err = io_uring_queue_init(4, u, 0);

	if (err)
		skipped("no io_uring");
	return !err;
}

/* Pages that are registered with io_uring meanwhile are pinned: a read into them arrives. */
START_TEST(pinned)
{
	unsigned char *p = fix_pages(LEN, 1), got[64];
	struct iovec iov = { p, LEN };
	struct io_uring_cqe *cqe;
	struct io_uring u;
	struct ibv_mr *m;
	struct fix f;
	int pipe_fd[2];

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	ck_assert(fix_is_mapped(p));
	if (uring_open(&u)) {
		ck_assert_int_eq(io_uring_register_buffers(&u, &iov, 1), 0);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		memset(got, 0xee, sizeof(got));
		ck_assert_int_eq(pipe(pipe_fd), 0);
		ck_assert_int_eq(write(pipe_fd[1], got, sizeof(got)), sizeof(got));
		io_uring_prep_read_fixed(io_uring_get_sqe(&u), pipe_fd[0], p + 5000, sizeof(got), 0, 0);
		ck_assert_int_eq(io_uring_submit(&u), 1);
		ck_assert_int_eq(io_uring_wait_cqe(&u, &cqe), 0);
		ck_assert_int_eq(cqe->res, sizeof(got));
		ck_assert_int_eq(memcmp(p + 5000, got, sizeof(got)), 0);
		io_uring_queue_exit(&u);
		m = fix_reg(&f, p, LEN); /* and from now on as ever */
		close(pipe_fd[0]);
		close(pipe_fd[1]);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

/* The open memfd of p. */
static int file_of(const void *p, struct stat *st)
{
	struct mapping m;

	ck_assert(maps_at(p, &m));
	for (int fd = 3; fd < 1024; fd++)
		if (!fstat(fd, st) && st->st_ino == m.ino)
			return fd;
	ck_abort_msg("no file has inode %lu", m.ino);
}

/* ---- children --------------------------------------------------------------------- */

/* It is made without handlers of fork(), as by _Fork(), and cleans up what it takes for its own. */
START_TEST(child_cleans)
{
	unsigned char *p = fix_pages(LEN, 1), *kept = fix_pages(LEN, 2);
	struct ibv_mr *m;
	struct fix f;
	pid_t pid;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_dereg_mr(fix_reg(&f, kept, LEN)), 0);
	ck_assert(fix_is_mapped(p) && fix_is_mapped(kept));
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		ibv_dereg_mr(m);
		ibv_close_device(f.ctx);
		_exit(0);
	}
	fix_ended_well(pid);
	ck_assert(fix_filled(p, LEN, 1) && fix_filled(kept, LEN, 2));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
	ck_assert(fix_filled(p, LEN, 1) && fix_filled(kept, LEN, 2));
}
END_TEST

/* fork() where all descriptors are in use. */
static pid_t fork_full(void)
{
	struct rlimit was, full;
	int next = dup(0);
	pid_t pid;

	ck_assert_int_ge(next, 0);
	close(next);
	getrlimit(RLIMIT_NOFILE, &was);
	full = was;
	full.rlim_cur = (rlim_t)next;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &full), 0);
	pid = fork();
	if (pid)
		setrlimit(RLIMIT_NOFILE, &was);
	return pid;
}

/* The child's copies are its own all the same, and of that moment; the program has closed the file of one. */
START_TEST(child_of_full)
{
	const size_t len = 16 * LEN;
	unsigned char *p = fix_pages(len, 1), *q = fix_pages(LEN, 2);
	struct ibv_mr *m, *n;
	struct stat st;
	struct fix f;
	pid_t pid;

	fix_open(&f);
	m = fix_reg(&f, p, len);
	n = fix_reg(&f, q, LEN);
	ck_assert(fix_is_mapped(p) && fix_is_mapped(q));
	ck_assert_int_ge(dup2(0, file_of(q, &st)), 0);
	pid = fork_full();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		if (!fix_filled(p, len, 1) || !fix_filled(q, LEN, 2))
			_exit(1);
		memset(p, 0xee, len);
		_exit(0);
	}
	memset(q, 0xdd, LEN);
	fix_fill(p, len, 3);
	fix_ended_well(pid);
	ck_assert(fix_filled(p, len, 3));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
	fix_close(&f);
}
END_TEST

static void full_forks(void)
{
	pid_t pid = fork_full();

	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(0);
	fix_ended_well(pid);
}

/* Nothing that was registered is there any more: that a child has nothing to copy is seen without a descriptor. */
START_TEST(child_of_none)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2);
	struct ibv_mr *m;
	struct fix f;
	pid_t pid;

	setenv("RDMAD_MAP", "1048576", 1); /* not the fixture's */
	fix_open(&f);
	ck_assert(!fix_is_mapped(f.buf));
	m = fix_reg(&f, p, LEN);
	ck_assert(fix_is_mapped(p));
	munmap(p, LEN);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	full_forks();
	m = fix_reg(&f, q, LEN);
	ck_assert(fix_is_mapped(q));
	munmap(q, LEN / 2);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	munmap(q + LEN / 2, LEN / 2); /* now: seen by the next fork() that can look */
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(0);
	fix_ended_well(pid);
	full_forks();
	fix_close(&f);
}
END_TEST

/* Handlers of fork() that are older than the library's, so they run inside. */
static struct {
	void (*prepare)(void), (*parent)(void), (*child)(void);
} inside;

static void run(void (*f)(void))
{
	if (f)
		f();
}

static void inside_prepare(void) { run(inside.prepare); }
static void inside_parent(void) { run(inside.parent); }
static void inside_child(void) { run(inside.child); }
static void inside_begin(void) { pthread_atfork(inside_prepare, inside_parent, inside_child); }

/* Before the constructors of libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const inside_first)(void) = inside_begin;

static struct {
	struct fix f;
	struct ibv_mr *m, *given; /* the parent gives that one back while the child copies it */
	unsigned char *more;
} handled;

static void in_child(void) { ibv_dereg_mr(handled.m); }
static void before(void) { ck_assert_int_eq(ibv_dereg_mr(fix_reg(&handled.f, handled.more, LEN)), 0); }

static void in_parent(void)
{
	before();
	ck_assert_int_eq(ibv_dereg_mr(handled.given), 0);
}

/* Handlers call verbs. */
static void handlers_run(void)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(4 * LEN, 3);
	pid_t pid;

	fix_open(&handled.f);
	handled.more = fix_pages(LEN, 2);
	handled.m = fix_reg(&handled.f, p, LEN);
	handled.given = fix_reg(&handled.f, q, 4 * LEN);
	ck_assert(fix_is_mapped(p) && fix_is_mapped(q));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(fix_filled(p, LEN, 1) && fix_filled(q, 4 * LEN, 3) ? 0 : 1);
	fix_ended_well(pid);
	ck_assert(fix_filled(q, 4 * LEN, 3));
	ck_assert_int_eq(ibv_dereg_mr(handled.m), 0);
	ck_assert(fix_filled(p, LEN, 1));
	fix_close(&handled.f);
}

START_TEST(handlers)
{
	ck_assert_int_eq(pthread_atfork(before, in_parent, in_child), 0);
	handlers_run();
}
END_TEST

START_TEST(handlers_inside)
{
	inside.prepare = before;
	inside.parent = in_parent;
	inside.child = in_child;
	handlers_run();
}
END_TEST

/* Pages that are turned back are not there twice: nobody else needs the file any more. */
static void is_emptied(struct fix *f, unsigned char *p)
{
	struct ibv_mr *m = fix_reg(f, p, LEN);
	struct stat st;
	int fd;

	ck_assert(fix_is_mapped(p));
	fd = dup(file_of(p, &st));
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(st.st_blocks, 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_blocks, 0);
	close(fd);
}

static void give_all(void) { ck_assert_int_eq(ibv_dereg_mr(handled.m), 0); }

/* Nothing is left to be copied when the child begins. */
START_TEST(nothing_left)
{
	pid_t pid;

	setenv("RDMAD_MAP", "1048576", 1); /* not the fixture's */
	fix_open(&handled.f);
	handled.m = fix_reg(&handled.f, fix_pages(LEN, 1), LEN);
	inside.prepare = give_all;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(0);
	fix_ended_well(pid);
	is_emptied(&handled.f, fix_pages(LEN, 2));
	fix_close(&handled.f);
}
END_TEST

static bool no_forks(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 1, 0), /* a sanitizer's */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* And there is no child. */
START_TEST(fork_fails)
{
	struct ibv_mr *m;
	struct fix f;

	fix_open(&f);
	m = fix_reg(&f, fix_pages(LEN, 1), LEN);
	if (!no_forks()) {
		skipped("no seccomp()");
	} else {
		ck_assert_int_eq(fork(), -1);
		ck_assert_int_eq(errno, EAGAIN);
		ck_assert_int_eq(fork_full(), -1);
		ck_assert_int_eq(errno, EAGAIN);
		is_emptied(&f, fix_pages(LEN, 2));
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

static struct {
	struct fix f;
	pthread_mutex_t lock;
	bool held, wanted; /* atomic; by a thread; by the one that forks */
} locked = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void own_lock(void)
{
	__atomic_store_n(&locked.wanted, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&locked.lock);
}

static void own_unlock(void) { pthread_mutex_unlock(&locked.lock); }

static void wait_for(bool *what)
{
	while (!__atomic_load_n(what, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void *registers(void *p)
{
	pthread_mutex_lock(&locked.lock);
	__atomic_store_n(&locked.held, true, __ATOMIC_RELEASE);
	wait_for(&locked.wanted);
	ck_assert_int_eq(ibv_dereg_mr(fix_reg(&locked.f, p, LEN)), 0);
	pthread_mutex_unlock(&locked.lock);
	return NULL;
}

/* A lock of the program that is held around verbs, and in fork(). */
START_TEST(fork_lock)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2);
	pthread_t other;
	struct ibv_mr *m;
	pid_t pid;

	ck_assert_int_eq(pthread_atfork(own_lock, own_unlock, own_unlock), 0); /* before there is a region */
	fix_open(&locked.f);
	m = fix_reg(&locked.f, p, LEN);
	ck_assert_int_eq(pthread_create(&other, NULL, registers, q), 0);
	wait_for(&locked.held);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(fix_filled(p, LEN, 1) && fix_filled(q, LEN, 2) ? 0 : 1);
	fix_ended_well(pid);
	pthread_join(other, NULL);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&locked.f);
}
END_TEST

/* ---- the kernel refuses ------------------------------------------------------------ */

/* Memory that is sealed stays what it is, before and behind. */
START_TEST(sealed)
{
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2);
	struct ibv_mr *m, *n;
	struct fix f;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	if (syscall(NR_MSEAL, p, LEN, 0) || syscall(NR_MSEAL, q, LEN, 0)) {
		skipped("no mseal()");
	} else {
		n = fix_reg(&f, q, LEN);
		ck_assert(!fix_is_mapped(q) && fix_filled(q, LEN, 2));
		ck_assert_int_eq(ibv_dereg_mr(n), 0);
	}
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(p, LEN, 1) && fix_filled(q, LEN, 2));
	fix_close(&f);
}
END_TEST

static unsigned maps_most(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	unsigned n = UINT_MAX;

	if (!f || fscanf(f, "%u", &n) != 1)
		n = UINT_MAX;
	if (f)
		fclose(f);
	return n;
}

/* There are as many mappings as there may be: what would make more fails, and nothing else. */
START_TEST(maps_full)
{
	const size_t page = 4096, all = (size_t)2 * MAPS_MOST * page;
	unsigned char *p = fix_pages(2 * LEN, 1), *q = fix_pages(2 * LEN, 2), *many;
	struct ibv_mr *m, *n;
	struct fix f;
	size_t at;

	fix_open(&f);
	m = fix_reg(&f, p + LEN / 2, LEN);
	ck_assert(fix_is_mapped(p + LEN));
	if (maps_most() > MAPS_MOST) {
		skipped("vm.max_map_count is too high");
	} else {
		many = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ck_assert(many != MAP_FAILED);
		for (at = 0; at < all && !mprotect(many + at, page, PROT_READ); at += 2 * page)
			;
		ck_assert_uint_lt(at, all);
		n = ibv_reg_mr(f.pd, q + LEN / 2, LEN, RIGHTS);
		ck_assert(fix_filled(q, 2 * LEN, 2) && fix_filled(p, 2 * LEN, 1));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(fix_filled(q, 2 * LEN, 2) && fix_filled(p, 2 * LEN, 1));
		ck_assert_int_eq(munmap(many, all), 0);
		m = n;
	}
	if (m)
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(q, 2 * LEN, 2) && fix_filled(p, 2 * LEN, 1));
	fix_close(&f);
}
END_TEST

/* ---- another file -------------------------------------------------------------------- */

static int file_below(const char *dir, unsigned i, struct stat *st)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s/%u", dir, i);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, st), 0);
	ck_assert_int_eq(unlink(name), 0);
	return fd;
}

/* The program closes what it does not know, and a file of its own gets the number, and has the inode's, on another file system. */
START_TEST(same_inode)
{
	char dir[] = "/tmp/t-back-XXXXXX";
	unsigned char *p = fix_pages(LEN, 1), *q = fix_pages(LEN, 2), *out = fix_pages(LEN, 0);
	struct stat memfd, own = { 0 };
	struct ibv_mr *m;
	struct fix f;
	int fd, other = -1;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	fd = file_of(p, &memfd);
	ck_assert(mkdtemp(dir) != NULL);
	if (memfd.st_ino > INODES || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("t-back", dir, "tmpfs", 0, NULL)) {
		skipped("no file system of our own, or inodes that are too many");
	} else {
		for (unsigned i = 0; i < INODES && own.st_ino < memfd.st_ino; i++) {
			if (other >= 0)
				close(other);
			other = file_below(dir, i, &own);
		}
		ck_assert_uint_eq(own.st_ino, memfd.st_ino);
		ck_assert_int_eq(write(other, q, LEN), LEN);
		ck_assert_int_eq(dup2(other, fd), fd);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(fix_filled(p, LEN, 1));
		ck_assert_int_eq(pread(fd, out, LEN, 0), LEN);
		ck_assert(fix_filled(out, LEN, 2));
		close(fd);
		close(other);
		m = NULL;
		umount2(dir, MNT_DETACH);
	}
	rmdir(dir);
	if (m)
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

void api_back(Suite *s)
{
	SUITE_ADD(s, pinned, child_cleans, child_of_full, child_of_none, handlers, handlers_inside, nothing_left,
		  fork_fails, fork_lock, sealed, maps_full, same_inode);
}
