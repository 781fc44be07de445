/* SPDX-License-Identifier: MIT */
/* sandbox.c - what an intruder in the daemon would try next, tried in the daemon's own sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/landlock.h>
#include <netinet/in.h>

#include "config.h"
#include "daemon/base/sandbox.h"
#include "t/suite.h"

#define SKIPPED 77

static char dir[] = "/tmp/rdmad-sandbox.XXXXXX", ours[64];

/* ---- attempts: 0, or errno --------------------------------------------------------- */

static int result(long ret) { return ret < 0 ? errno : 0; }

static int open_try(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void *nothing(void *arg) { return arg; }

static int try_shadow(void)
{
	return open_try("/etc/passwd", O_RDONLY);
} /* who is not root may not read the other anyway */
static int try_dir(void) { return open_try("/", O_RDONLY | O_DIRECTORY); }
static int try_write(void) { return open_try("/proc/self/mem", O_RDWR); }
static int try_create(void) { return open_try(ours, O_RDONLY | O_CREAT); }
static int try_maps(void) { return open_try("/proc/self/maps", O_RDONLY); }
static int try_sysctl(void) { return open_try("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY); }
static int try_unlink(void) { return result(unlink(ours)); }
static int try_exec(void) { return result(execl("/bin/true", "true", (char *)NULL)); }
static int try_ptrace(void) { return result(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)); }
static int try_fork(void) { return result(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int try_unshare(void) { return result(unshare(CLONE_NEWUSER)); }
static int try_setuid(void) { return result(syscall(SYS_setresuid, -1, -1, -1)); }
static int try_mount(void) { return result(syscall(SYS_mount, "none", "/", NULL, 0, NULL)); }
static int try_uring(void) { return result(syscall(SYS_io_uring_setup, 1, NULL)); }
static int try_bpf(void) { return result(syscall(SYS_bpf, 0, NULL, 0)); }
static int try_handle(void) { return result(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0)); }
static int try_kexec(void) { return result(syscall(SYS_kexec_load, 0, 0, NULL, 0)); }
static int try_packet(void) { return result(socket(AF_PACKET, SOCK_RAW, 0)); }
static int try_inet(void) { return result(socket(AF_INET, SOCK_DGRAM, 0)); }
static int try_tcp(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? errno : result(bind(fd, (struct sockaddr *)&at, sizeof(at)));
}
static int try_kill(void) { return result(kill(getppid(), 0)); }
static int try_unknown(void) { return result(syscall(SYS_acct, NULL)); }
static int try_traced(void) { return result(syscall(-2)); } /* as proot leaves it */
static int try_prctl(void) { return result(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); }
static int try_dupfd(void) { return result(fcntl(0, F_SETOWN, getppid())); }
static int try_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? errno : 0;
}

static int try_code_later(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? 0 : result(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int try_vm(void)
{
	char here, there;
	struct iovec to = { &here, 1 }, from = { &there, 1 };

	there = 1;
	return result(process_vm_readv(getpid(), &to, 1, &from, 1, 0));
}

static int try_shm_look(void)
{
	struct shmid_ds ds;

	return result(shmctl(-1, IPC_STAT, &ds));
}
static int try_shm_remove(void) { return result(shmctl(-1, IPC_RMID, NULL)); }
static int try_shm_make(void) { return result(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)); }
static int try_shm(void) { return result((long)shmat(-1, NULL, 0)); }

static int try_thread(void)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, nothing, NULL);

	return err ? err : pthread_join(t, NULL);
}

/* ---- what is to come of them ------------------------------------------------------------- */

enum { FINE = 0, KILLED = -1, ANYTHING = -2 };

static const struct attempt {
	const char *name;
	int (*attempt)(void);
	int system, own; /* in a daemon for all users, and for one: an errno, or one of these */
} attempts[] = {
	{ "read /proc/self/maps", try_maps, FINE, FINE },
	{ "read a sysctl", try_sysctl, FINE, FINE },
	{ "a thread", try_thread, FINE, FINE },
	{ "a socket of IP", try_inet, FINE, FINE },
	{ "a socket of TCP", try_tcp, EACCES, FINE },
	{ "read /etc/passwd", try_shadow, EACCES, FINE },
	{ "read a directory", try_dir, EACCES, FINE },
	{ "unlink where the socket is", try_unlink, FINE, FINE },
	{ "open to write", try_write, ENOSYS, ENOSYS },
	{ "make a file", try_create, ENOSYS, ENOSYS },
	{ "a packet socket", try_packet, ENOSYS, ENOSYS },
	{ "another process", try_fork, ENOSYS, ENOSYS },
	{ "a signal to another process", try_kill, ENOSYS, ENOSYS },
	{ "a call that nobody makes", try_unknown, ENOSYS, ENOSYS },
	{ "a call that a tracer has done", try_traced, KILLED, ENOSYS },
	{ "prctl", try_prctl, ENOSYS, ENOSYS },
	{ "fcntl", try_dupfd, ENOSYS, ENOSYS },
	{ "map code", try_code, ENOSYS, ENOSYS },
	{ "make code", try_code_later, ENOSYS, ENOSYS },
	{ "process_vm_readv", try_vm, KILLED, FINE },
	{ "look at a SysV segment", try_shm_look, EINVAL, EINVAL },
	{ "remove a SysV segment", try_shm_remove, ENOSYS, ENOSYS },
	{ "make a SysV segment", try_shm_make, ENOSYS, ENOSYS },
	{ "attach a SysV segment", try_shm, KILLED, EINVAL },
	{ "another program", try_exec, KILLED, KILLED },
	{ "ptrace", try_ptrace, KILLED, KILLED },
	{ "unshare", try_unshare, KILLED, KILLED },
	{ "setresuid", try_setuid, KILLED, KILLED },
	{ "mount", try_mount, KILLED, KILLED },
	{ "io_uring_setup", try_uring, KILLED, KILLED },
	{ "bpf", try_bpf, KILLED, KILLED },
	{ "open_by_handle_at", try_handle, KILLED, KILLED },
	{ "kexec", try_kexec, KILLED, KILLED },
};

/* It knows TCP from version 4 on. */
static bool has_landlock(const struct attempt *a)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >=
	       (a->attempt == try_tcp ? 4 : 1);
}

/* In a process of its own, which has ended then: the sandbox, then the attempt. */
static pid_t alone(int (*attempt)(void), bool own, int *status)
{
	pid_t pid = fork();
	int fd;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		fd = open(ours, O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
		sandbox_files(own, dir);
		sandbox_calls(own);
		_exit(attempt());
	}
	ck_assert_int_eq(waitpid(pid, status, 0), pid);
	unlink(ours);
	return pid;
}

static int outcome(const struct attempt *a, bool own)
{
	int status = 0;

	alone(a->attempt, own, &status);
	if (WIFSIGNALED(status)) {
		ck_assert_msg(WTERMSIG(status) == SIGSYS, "%s: signal %d", a->name, WTERMSIG(status));
		return KILLED;
	}
	return WEXITSTATUS(status);
}

static void all_tried(bool own)
{
	for (unsigned i = 0; i < sizeof(attempts) / sizeof(*attempts); i++) {
		const struct attempt *a = &attempts[i];
		int want = own ? a->own : a->system, got = outcome(a, own);

		if (want == EACCES && !has_landlock(a))
			continue;
		ck_assert_msg(got == want, "%s: %d (%s), not %d", a->name, got, got > 0 ? strerror(got) : "-", want);
	}
}

START_TEST(for_all) { all_tried(false); }
END_TEST

START_TEST(for_one) { all_tried(true); }
END_TEST

/* ---- the kernel's log ---------------------------------------------------------------------- */

#define LOG_TRIES 100 /* 0.1 s each: the kernel writes ten of these lines in five seconds, and no more */

/* Has a process of the second attempt a line by now?  A line of the first is a failure. */
static bool logged(int log, pid_t first, pid_t second)
{
	char line[8192], of_first[32], of_second[32];
	ssize_t n;

	snprintf(of_first, sizeof(of_first), " pid=%d ", (int)first);
	snprintf(of_second, sizeof(of_second), " pid=%d ", (int)second);
	while ((n = read(log, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		line[n > 0 ? n : 0] = '\0';
		if (!strstr(line, "type=1326"))
			continue;
		ck_assert_msg(!strstr(line, of_first), "a thread is not quiet: %s", line);
		if (strstr(line, of_second))
			return true;
	}
	return false;
}

/* A thread, of which a daemon has made many, leaves no line; a call that nobody makes does. */
START_TEST(quiet)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	pid_t first, second;
	bool seen = false;
	int status;

	if (log < 0 || lseek(log, 0, SEEK_END) < 0) {
		printf("skipped: the kernel's log cannot be read here\n");
		return;
	}
	for (int i = 0; i < LOG_TRIES && !seen; i++) {
		first = alone(try_thread, true, &status);
		second = alone(try_unknown, true, &status);
		usleep(100000);
		seen = logged(log, first, second);
	}
	if (!seen)
		printf("skipped: the kernel says elsewhere what it refuses\n");
	close(log);
}
END_TEST

int main(void)
{
	Suite *suite;
	int failed;

#ifdef WITHOUT_SANDBOX
	printf("skipped: a build for a sanitizer has no sandbox\n");
	return SKIPPED;
#endif
	suite = suite_create("hostile: sandbox");
	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	snprintf(ours, sizeof(ours), "%s/file", dir);
	SUITE_ADD(suite, for_all, for_one, quiet);
	failed = suite_run(suite);
	rmdir(dir);
	return failed;
}
