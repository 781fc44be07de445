/* SPDX-License-Identifier: MIT */
/* rights.c - a daemon of root reaches into its clients with their rights, not with its own. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "daemon/base/mem_vm.h"
#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "t/suite.h"

#define SKIPPED 77

enum { NOBODY = 65534, WORDS = 4 };

static uint8_t *mem;
static int talk[2], over[2]; /* the child holds a copy of over[1] until it executes something */

static void fd_send(int fd)
{
	char c = 0;
	struct iovec iov = { &c, 1 };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl) };

	*CMSG_FIRSTHDR(&mh) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						.cmsg_type = SCM_RIGHTS,
						.cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&mh)), &fd, sizeof(fd));
	if (fd < 0 || sendmsg(talk[1], &mh, 0) != 1)
		_exit(1);
}

static int fd_receive(void)
{
	char c;
	struct iovec iov = { &c, 1 };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl) };
	int fd;

	ck_assert_int_eq(recvmsg(talk[0], &mh, 0), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(fd));
	return fd;
}

/* A client: opens path, sends the descriptor, and runs another program when it is told to. */
static pid_t client(uid_t uid, bool apart, const char *path)
{
	char c;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) | pipe2(over, O_CLOEXEC), 0);
	pid = fork();
	if (pid) {
		close(talk[1]);
		return pid;
	}
	close(talk[0]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* As in a container. */
	if (apart && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		      mount("proc", "/mnt", "proc", 0, NULL)))
		_exit(1);
	if (setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1))
		_exit(1);
	fd_send(open(path, O_RDWR | O_CLOEXEC));
	if (read(talk[1], &c, 1) != 1)
		_exit(1);
	execlp("sleep", "sleep", "60", NULL);
	_exit(1);
}

static void client_exec(void)
{
	char c;

	close(over[1]);
	ck_assert_int_eq(write(talk[0], "", 1), 1);
	ck_assert_int_eq(read(over[0], &c, 1), 0);
}

static void client_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(talk[0]);
	close(over[0]);
}

/*
 * Memory that the client may reach is reached, by its own rights; and once another program runs in its place (which
 * might be set-user-ID) nothing is, though the pid is the same.
 */
static void reach(struct peer *p)
{
	uint64_t word[WORDS] = { 1, 2, 3, 4 }, old;
	struct span there, here = { .addr = (uintptr_t)word, .len = sizeof(word) };
	struct region *r = NULL;

	ck_assert_int_eq(region_new(&r, p, (uintptr_t)mem, 4096, -1, NULL), 0);
	there = (struct span){ .region = r, .addr = (uintptr_t)mem + 8, .len = sizeof(word) };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	memset(word, 0, sizeof(word));
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	ck_assert_uint_eq(word[3], 4);
	there.len = 8;
	ck_assert_int_eq(region_mem_ops.fetch_add(NULL, &there, 5, &old), 0);
	ck_assert_uint_eq(old, 1);
	client_exec();
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), ESRCH);
	ck_assert_int_ne(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	region_free(r);
}

static struct ucred who(pid_t pid, uid_t uid) { return (struct ucred){ .pid = pid, .uid = uid, .gid = uid }; }

/* That of the daemon, when a program opens a device. */
static uid_t daemon_uid;

static void reached(uid_t uid, bool apart, const char *path)
{
	struct ucred cred;
	struct peer p;
	pid_t pid;

	ck_assert_int_eq(peer_begin(false), 0);
	mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = client(uid, apart, path);
	cred = who(pid, uid);
	ck_assert_int_eq(seteuid(daemon_uid), 0);
	ck_assert_int_eq(peer_open(&p, &cred, fd_receive()), 0);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_ge(p.mem_fd, 0);
	ck_assert_int_eq(p.pid, 0);
	reach(&p);
	peer_close(&p);
	client_end(pid);
	munmap(mem, 4096);
}

START_TEST(of_a_user) { reached(NOBODY, false, "/proc/self/mem"); }
END_TEST
START_TEST(of_root) { reached(0, false, "/proc/self/mem"); }
END_TEST
/* With a /proc of its own. */
START_TEST(of_a_container) { reached(NOBODY, true, "/mnt/self/mem"); }
END_TEST
/* /proc hides from the daemon, which is another user, that the client is there at all. */
START_TEST(of_the_hidden)
{
	ck_assert_int_eq(unshare(CLONE_NEWNS) | mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) |
				 mount("proc", "/proc", "proc", 0, "hidepid=2"),
			 0);
	ck_assert_int_eq(setgroups(0, NULL) | setegid(NOBODY), 0);
	daemon_uid = NOBODY;
	reached(NOBODY - 1, false, "/proc/self/mem");
	/* LeakSanitizer wants to see itself in there. */
	ck_assert_int_eq(setegid(0) | prctl(PR_SET_DUMPABLE, 1), 0);
}
END_TEST

/* Any other descriptor of a client is no memory, even one under another name that is written with the writer's rights. */
static void refused(bool apart, const char *path)
{
	struct ucred cred;
	struct peer p;
	pid_t pid = client(NOBODY, apart, path);
	int fd = fd_receive();

	cred = who(pid, NOBODY);
	ck_assert_int_eq(peer_open(&p, &cred, fd), EINVAL);
	ck_assert_int_eq(p.mem_fd, -1);
	close(fd);
	client_end(pid);
}

START_TEST(no_memory)
{
	refused(false, "/dev/zero");
	refused(false, "/proc/self/oom_score_adj");
	refused(false, "/proc/self/timerslack_ns");
	refused(true, "/mnt/self/oom_score_adj");
	refused(true, "/mnt/self/attr/current");
}
END_TEST

/* Not the other way round: whose pid it is does not make it his, and one that may only be read is none. */
START_TEST(no_rights)
{
	struct ucred cred = who(getpid(), NOBODY);
	struct peer p;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(peer_open(&p, &cred, fd), EINVAL);
	close(fd);
	ck_assert_int_eq(peer_open(&p, &cred, -1), 0);
	ck_assert_int_eq(p.pid, 0);
	ck_assert_int_eq(region_new_lazy(&(struct region *){ NULL }, &p, (uintptr_t)&p, 1), EPERM);
}
END_TEST

/* A daemon for one user reaches who may do what it may do by the pid, and others not. */
START_TEST(private)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct ucred cred;
	struct peer p;
	int go[2];
	char c;
	pid_t pid;

	ck_assert_int_eq(peer_begin(true), 0);
	cred = who(getpid(), 0);
	ck_assert_int_eq(peer_open(&p, &cred, open("/proc/self/mem", O_RDWR | O_CLOEXEC)), 0);
	ck_assert_int_eq(p.pid, getpid());
	peer_close(&p);
	ck_assert_int_eq(pipe(go) | pipe(over) | socketpair(AF_UNIX, SOCK_SEQPACKET, 0, talk), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (syscall(SYS_capget, &head, data))
			_exit(1);
		data[0].permitted = data[0].effective &= ~(uint32_t)CAP_TO_MASK(CAP_NET_ADMIN);
		if (syscall(SYS_capset, &head, data) || prctl(PR_SET_DUMPABLE, 1))
			_exit(1);
		fd_send(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
		_exit(read(go[0], &c, 1) != 1);
	}
	cred = who(pid, 0);
	ck_assert_int_eq(peer_open(&p, &cred, fd_receive()), 0);
	ck_assert_int_eq(p.pid, 0);
	ck_assert_int_ge(p.mem_fd, 0);
	peer_close(&p);
	client_end(pid);
}
END_TEST

/* The kernel lets us no more, as Yama may: then by the descriptor. */
START_TEST(refused_later)
{
	static uint64_t word = 5, got;
	struct vm_batch b = { 0 };
	struct ucred cred;
	struct peer p;
	int go[2];
	char c;
	pid_t pid;

	ck_assert_int_eq(peer_begin(true), 0);
	ck_assert_int_eq(pipe(go) | pipe(over) | socketpair(AF_UNIX, SOCK_SEQPACKET, 0, talk), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd_send(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
		if (read(go[0], &c, 1) != 1 || prctl(PR_SET_DUMPABLE, 0))
			_exit(1);
		fd_send(go[0]);
		_exit(read(go[0], &c, 1) != 1);
	}
	cred = who(pid, 0);
	ck_assert_int_eq(peer_open(&p, &cred, fd_receive()), 0);
	ck_assert_int_eq(p.pid, pid);
	ck_assert_int_eq(vm_probe(&p, (uintptr_t)&word), 0);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	close(fd_receive());
	ck_assert(process_vm_readv(pid, &(struct iovec){ &got, 8 }, 1, &(struct iovec){ &word, 8 }, 1, 0) < 0);
	ck_assert_int_eq(errno, EPERM);
	word = 6; /* ours */
	ck_assert_int_eq(vm_batch_add(&b, &p, (uintptr_t)&word, NULL, (uintptr_t)&word, 8), 0);
	ck_assert_int_eq(vm_batch_flush(&b), 0);
	ck_assert_int_eq(vm_batch_add(&b, NULL, (uintptr_t)&got, &p, (uintptr_t)&word, 8), 0);
	ck_assert_int_eq(vm_batch_flush(&b), 0);
	ck_assert_uint_eq(got, 6);
	peer_close(&p);
	client_end(pid);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rights");

	if (geteuid() != 0) {
		puts("rights: SKIP: not root, and an ordinary user's daemon has no more rights than its clients");
		return SKIPPED;
	}
	SUITE_ADD(suite, of_a_user, of_root, of_a_container, of_the_hidden, no_memory, no_rights, private,
		  refused_later);
	return suite_run(suite);
}
