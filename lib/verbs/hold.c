/* SPDX-License-Identifier: MIT */
/*
 * hold.c - other threads are stopped by ptrace.
 *
 *	this thread		helper: a process with the same memory, and a copy of the descriptors
 *	  clone --------------->  each other thread: PTRACE_SEIZE, PTRACE_INTERRUPT, wait until it stands
 *	  waits			  the step
 *	  goes on <-------------  detaches all, ends
 *
 * A thread stands when it has left the system call that it was in: what the kernel copies for read() is in memory by then, and it
 * starts again without the program seeing it (for those calls that the kernel would end with EINTR: restart()).  A call that
 * has moved a part of what it was asked for ends with that, as when the machine is suspended to disk or a debugger attaches.
 *
 * To stop and release eight threads that sleep takes 0.3 ms on a busy machine of two cores, 1 MiB of pages one more.
 *
 * Other ways were looked at.  Write protection by mprotect() or userfaultfd without privileges makes read() into the page
 * fail with EFAULT.  A signal to each thread can be blocked by it, and makes many more calls fail with EINTR.
 *
 * It is a process since a thread cannot trace its own process, and nothing of the program runs in it: no fork handler, no signal
 * handler.  It has no signal for its end, so no wait() of the program finds it.
 */
#include "hold.h"
#include "direct.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include <rdmad/high.h>

#define STOP_US     100000u  /* for all to stand; on a busy machine each must get a CPU first */
#define LATE_US     1000000u /* for those that did not, while the others go on */
#define HOLD_US     3000u
#define BETWEEN_US  500u
#define THREADS_MAX 512u
#define REST_US     1000000u /* after it has failed; twice as long each time */
#define REST_MAX_US 64000000u
#define INSIST_US   3000000u
#define STACK_LEN   ((size_t)64 << 10)

/* The helper is another process to a sanitizer, and a stack that it does not know. */
#define HELPER __attribute__((no_sanitize("address", "thread", "undefined")))

enum result { RESULT_NONE, RESULT_REFUSED, RESULT_KILLED, RESULT_LATE, RESULT_MORE, RESULT_DONE };

static struct hold {
	hold_step *step;
	void *arg;
	pid_t pid, tid;              /* the thread that asked */
	int tasks;                   /* /proc/self/task */
	volatile enum result result; /* the helper's: to a compiler clone() changes nothing here */
	unsigned turn;
	unsigned n;
	struct {
		pid_t tid;
		bool stands, gone;
		int sig; /* was about to be delivered */
	} thread[THREADS_MAX];
} hold;

/* ---- the helper -------------------------------------------------------------------- */

HELPER static uint64_t now_us(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

HELPER static long trace(long request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	return syscall(SYS_ptrace, request, tid, addr, data);
}

/*
 * Some calls end with EINTR where others are restarted if there is no handler.  The program has asked for no signal: they
 * are restarted, too.  (Where registers are named otherwise it sees the EINTR.)
 */
HELPER static void restart(pid_t tid)
{
#if defined(__x86_64__)
	static const int calls[] = { SYS_epoll_wait, SYS_epoll_pwait,  SYS_epoll_pwait2,  SYS_semop,
				     SYS_semtimedop, SYS_io_getevents, SYS_io_pgetevents, SYS_rt_sigtimedwait,
				     SYS_recvfrom,   SYS_recvmsg,      SYS_accept,        SYS_accept4,
				     SYS_read,       SYS_readv,        SYS_recvmmsg,      SYS_write,
				     SYS_writev,     SYS_sendto,       SYS_sendmsg,       SYS_sendmmsg,
				     SYS_sendfile,   SYS_splice,       SYS_connect,       SYS_msgrcv,
				     SYS_msgsnd };
	const long restart_no_handler = -514; /* ERESTARTNOHAND of the kernel: with a handler it is EINTR */
	const uintptr_t ax = offsetof(struct user_regs_struct, rax), nr = offsetof(struct user_regs_struct, orig_rax);
	long got = 0, call = -1;

	if (trace(PTRACE_PEEKUSER, tid, ax, (uintptr_t)&got) || got != -EINTR ||
	    trace(PTRACE_PEEKUSER, tid, nr, (uintptr_t)&call))
		return;
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (call == calls[i])
			trace(PTRACE_POKEUSER, tid, ax, (uintptr_t)restart_no_handler);
#else
	(void)tid;
#endif
}

/* It has ended, and only its number is left. */
HELPER static bool is_over(pid_t tid)
{
	char path[32], buf[256], *p, *end = path + sizeof(path);
	long n;
	int fd;

	for (*--end = 0, p = end - 5, memcpy(p, "/stat", 5); tid; tid /= 10)
		*--p = (char)('0' + tid % 10);
	fd = (int)syscall(SYS_openat, hold.tasks, p, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = syscall(SYS_read, fd, buf, sizeof(buf) - 1);
	syscall(SYS_close, fd);
	if (n <= 0)
		return true;
	buf[n] = 0;
	p = strrchr(buf, ')');
	return p && (p[2] == 'Z' || p[2] == 'X');
}

/* false: it cannot be. */
HELPER static bool seize(pid_t tid)
{
	for (unsigned i = 0; i < hold.n; i++)
		if (hold.thread[i].tid == tid && !hold.thread[i].gone)
			return true;
	if (hold.n == THREADS_MAX)
		return false;
	/* Of a /proc of other PIDs the number would be a stranger's. */
	if (syscall(SYS_tgkill, hold.pid, tid, 0) || trace(PTRACE_SEIZE, tid, 0, 0) ||
	    trace(PTRACE_INTERRUPT, tid, 0, 0))
		return is_over(tid);
	hold.thread[hold.n].tid = tid;
	hold.thread[hold.n].stands = hold.thread[hold.n].gone = false;
	hold.thread[hold.n++].sig = 0;
	return true;
}

/* Those of the list that are not held yet.  false: one cannot be. */
HELPER static bool seize_new(void)
{
	static char buf[4096] __attribute__((aligned(8)));
	bool self = false;
	long len;

	syscall(SYS_lseek, hold.tasks, 0L, SEEK_SET);
	while ((len = syscall(SYS_getdents64, hold.tasks, buf, sizeof(buf))) > 0)
		for (char *p = buf; p < buf + len; p += ((struct dirent64 *)(void *)p)->d_reclen) {
			pid_t tid = 0;

			for (const char *c = ((struct dirent64 *)(void *)p)->d_name; *c >= '0' && *c <= '9'; c++)
				tid = tid * 10 + (*c - '0');
			self = self || tid == hold.tid;
			if (tid && tid != hold.tid && !seize(tid))
				return false;
		}
	return self && !len;
}

HELPER static void let_go(unsigned i)
{
	if (hold.thread[i].stands && !hold.thread[i].gone)
		trace(PTRACE_DETACH, hold.thread[i].tid, 0, (uintptr_t)hold.thread[i].sig);
	hold.thread[i].gone = hold.thread[i].gone || hold.thread[i].stands;
}

/* keep: they stand until release().  false: not in time. */
HELPER static bool wait_all(uint64_t until, bool keep)
{
	unsigned left, before = 0;

	for (;; before = left) {
		left = 0;
		for (unsigned i = 0; i < hold.n; i++) {
			long got;
			int status;

			if (hold.thread[i].stands || hold.thread[i].gone)
				continue;
			got = syscall(SYS_wait4, hold.thread[i].tid, &status, __WALL | WNOHANG, NULL);
			if (!got) {
				left++;
			} else if (got < 0 || !WIFSTOPPED(status)) {
				hold.thread[i].gone = true;
			} else {
				hold.thread[i].stands = true;
				hold.thread[i].sig = status >> 16 ? 0 : WSTOPSIG(status);
				restart(hold.thread[i].tid);
				if (!keep)
					let_go(i);
			}
		}
		if (!left)
			return true;
		if (now_us() > until)
			return false;
		if (left == before)
			syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

/* A thread that stands makes no other, so the list is whole when it has nothing new. */
HELPER static enum result stop_all(void)
{
	uint64_t until = now_us() + STOP_US;
	unsigned n;

	do {
		n = hold.n;
		if (!seize_new())
			return RESULT_REFUSED;
		if (!wait_all(until, true))
			return RESULT_LATE;
	} while (hold.n > n);
	return RESULT_NONE;
}

HELPER static void release(void)
{
	for (unsigned i = 0; i < hold.n; i++)
		let_go(i);
}

/*
 * If it is killed (by a filter of system calls) that is no reason for a core of the program: 1 stops those that go to a
 * pipe, too.  And no signal for the program's process group is one for the helper.
 */
HELPER static void apart(void)
{
	const uint64_t all = UINT64_MAX;
	uint64_t core[2]; /* soft, hard */

	if (!syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, core)) {
		core[0] = core[1] ? 1 : 0;
		syscall(SYS_prlimit64, 0, RLIMIT_CORE, core, NULL);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	syscall(SYS_setpgid, 0, 0);
}

HELPER static int helper(void *arg)
{
	enum result result;
	uint64_t until;

	(void)arg;
	apart();
	result = stop_all();
	until = now_us() + HOLD_US;
	if (result == RESULT_NONE) {
		do
			result = hold.step(hold.arg) ? RESULT_MORE : RESULT_DONE;
		while (result == RESULT_MORE && now_us() < until);
	} else {
		/* The rest has been told to stop, and may be about to: its calls want restart(), too. */
		release();
		wait_all(now_us() + LATE_US, false);
	}
	release();
	hold.result = result;
	return 0;
}

/* ---- the thread that asks ------------------------------------------------------------ */

unsigned long hold_status(const char *name, unsigned long otherwise)
{
	int fd = direct_open("/proc/self/status", O_RDONLY);
	const char *p;
	static char buf[4096]; /* one call at a time, as of hold_run(); too large for small stacks */
	long n;

	if (fd < 0)
		return otherwise;
	n = direct_read(fd, buf, sizeof(buf) - 1);
	direct_close(fd);
	buf[n > 0 ? n : 0] = 0;
	p = strstr(buf, name);
	return p ? strtoul(p + strlen(name), NULL, 10) : otherwise;
}

static unsigned long filters; /* of system calls, when the program began */

static bool watched; /* ThreadSanitizer's clone() takes the helper for a fork, and forgets what threads hold */

__attribute__((constructor)) static void begin(void)
{
	filters = hold_status("\nSeccomp_filters:", 0);
	watched = dlsym(RTLD_DEFAULT, "__tsan_init") != NULL;
}

/*
 * A filter may end who calls ptrace().  One of the program's own is taken for such, one of a container's is not: then it is
 * the helper that ends, which takes its memory with it (as it dumps core) before Linux 5.16.
 */
static bool filter_allows(void)
{
	unsigned long now = hold_status("\nSeccomp_filters:", 0);
	unsigned major = 0, minor = 0;
	struct utsname u;

	if (!now)
		return true;
	return now == filters && !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 16));
}

/* One helper's life. */
static enum result hold_once(char *stack)
{
	const int flags = CLONE_VM | CLONE_VFORK | CLONE_UNTRACED;
	int status = 0;
	pid_t pid;

	hold.n = 0;
	hold.turn++;
	hold.result = RESULT_REFUSED;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pid = clone(helper, stack + STACK_LEN, flags, NULL);
	if (pid < 0)
		return RESULT_REFUSED;
	while (waitpid(pid, &status, (int)__WCLONE) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? RESULT_KILLED : hold.result;
}

unsigned hold_turn(void) { return hold.turn; }

static pid_t tracer; /* of the program's, or 0 */

void hold_tracer(pid_t pid)
{
	__atomic_store_n(&tracer, pid, __ATOMIC_RELAXED);
	prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
}

static enum result work(char *stack, uint64_t until)
{
	bool allowed = false;
	enum result r;

	while ((r = hold_once(stack)) == RESULT_MORE || (r == RESULT_REFUSED && !allowed) ||
	       (r == RESULT_LATE && now_us() < until)) {
		if (r == RESULT_LATE)
			continue;
		if (r == RESULT_MORE) {
			syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = BETWEEN_US * 1000 }, NULL);
			continue;
		}
		/* Where Yama lets only ancestors trace: now children of this process, too. */
		allowed = true;
		if (prctl(PR_SET_PTRACER, getpid(), 0, 0, 0))
			break;
	}
	/* There is one such name; the other is gone if it has ended. */
	if (allowed && prctl(PR_SET_PTRACER, (unsigned long)__atomic_load_n(&tracer, __ATOMIC_RELAXED), 0, 0, 0))
		prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	return r;
}

static bool hold_others(hold_step *step, void *arg, bool insist)
{
	static uint64_t not_before, rest = REST_US;
	static bool never;
	enum result r = RESULT_REFUSED;
	char *stack;

	if (never || watched || (!insist && now_us() < not_before) || hold_status("\nTracerPid:", 0) ||
	    !filter_allows())
		return false;
	stack = (char *)syscall(SYS_mmap, NULL, STACK_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	if (stack == MAP_FAILED)
		return false;
	hold.tasks = fd_high(direct_open("/proc/self/task", O_RDONLY | O_DIRECTORY));
	if (hold.tasks >= 0) {
		hold.step = step;
		hold.arg = arg;
		hold.pid = getpid();
		hold.tid = (pid_t)syscall(SYS_gettid);
		r = work(stack, insist ? now_us() + INSIST_US : 0);
		direct_close(hold.tasks);
	}
	syscall(SYS_munmap, stack, STACK_LEN);
	never = r == RESULT_KILLED; /* and would be again */
	if (r == RESULT_DONE) {
		rest = REST_US;
	} else {
		not_before = now_us() + rest;
		rest = rest < REST_MAX_US ? 2 * rest : rest;
	}
	return r == RESULT_DONE;
}

/*
 * All but those that are ignored.  Such a one, blocked in the first thread, is none that is ignored any more: SIGCHLD would
 * wake another thread, and end its epoll_wait() with EINTR.
 */
static void signals_block(sigset_t *old)
{
	struct sigaction sa;
	sigset_t set;

	sigfillset(&set);
	for (int sig = 1; sig < NSIG; sig++)
		if (!sigaction(sig, NULL, &sa) &&
		    (sa.sa_handler == SIG_IGN || (sa.sa_handler == SIG_DFL && (sig == SIGCHLD || sig == SIGCONT ||
									       sig == SIGURG || sig == SIGWINCH))))
			sigdelset(&set, sig);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

void hold_alone(hold_step *step, void *arg)
{
	sigset_t old;

	signals_block(&old);
	while (step(arg))
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static bool run(hold_step *step, void *arg, bool insist)
{
	sigset_t old;
	bool ok;

	if (hold_status("\nThreads:", 2) == 1) {
		hold_alone(step, arg);
		return true;
	}
	signals_block(&old);
	ok = hold_others(step, arg, insist);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

bool hold_run(hold_step *step, void *arg) { return run(step, arg, false); }

bool hold_insist(hold_step *step, void *arg) { return run(step, arg, true); }
