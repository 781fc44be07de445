/* SPDX-License-Identifier: MIT */
/*
 * memory.c - memory that never answers, and memory of somebody else: who names it fails, and nobody else waits.
 */
#include "t/suite.h"

#include "fuse.h"
#include "stage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>

#include "daemon/cma/cma.h"
#include "proto/cm_msg.h"

#define BAD_AT 32768u /* in the buffer */

/* A message out of the bad half.  The receive fails, too: with the QP. */
static void bad_messages(struct cx *c)
{
	struct cqe e;

	cx_recv(c, 1, 0, 4096);
	cx_send(c, 2, BAD_AT, 4096);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_msg(cx_poll(c, &e), "no completion");
		ck_assert_uint_ne(e.status, WC_SUCCESS);
	}
	note_set(0, note->n[0] + 1);
	ck_assert_int_eq(cx_state(c, QPS_RESET), 0);
	cx_connect(c, c);
}

/* The second one fails without another look. */
static void bad_part(struct cx *c)
{
	bad_messages(c);
	bad_messages(c);
	for (;;)
		pause();
}

/* The file takes the place of memory that was good when it was registered. */
static void use_fuse(void *)
{
	int file = fuse_file();
	struct cx c;

	ck_assert_int_ge(file, 0);
	cx_open(&c);
	cx_connect(&c, &c);
	cx_ping(&c);
	ck_assert(mmap(c.buf + BAD_AT, CX_BUF - BAD_AT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
		  MAP_FAILED);
	bad_part(&c);
}

static void fuse_memory(bool early)
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, use_fuse, NULL);
	note_wait(4, 1); /* somebody waits for the server */
	if (!early) {
		stage_goes_on(100);
		note_wait(0, 2);
		stage_goes_on(100);
		ck_assert_uint_eq(note->n[4], 1);
	}
	kill((pid_t)note->n[3], SIGKILL); /* before its clients: they wait for it */
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}

START_TEST(fuse) { fuse_memory(false); }
END_TEST
/* Killed while it is waited for. */
START_TEST(fuse_killed) { fuse_memory(true); }
END_TEST

/* Can port 4791 be had?  So another daemon could serve. */
static bool port_free(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(4791) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	is = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
	close(fd);
	return is;
}

static bool served(void)
{
	int fd = dial_once();

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* It is told to end while a thread of it waits: the kernel keeps the process, but it serves nobody, and leaves the network. */
START_TEST(fuse_ended)
{
	double end;
	pid_t attacker, daemon;
	int status = 0;

	stage_network();
	daemon_start_with("--shards=1");
	daemon = daemon_process();
	ck_assert(!port_free());
	attacker = part_begin(0, use_fuse, NULL);
	note_wait(4, 1);
	kill(daemon, SIGTERM);
	for (end = stage_seconds() + 20; served() || !port_free(); usleep(10000))
		ck_assert_msg(stage_seconds() < end, "it still serves");
	kill((pid_t)note->n[3], SIGKILL);
	ck_assert_int_eq(waitpid(daemon, &status, 0), daemon);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rdmad: status %#x", status);
	part_kill(attacker);
}
END_TEST

/* ---- descriptors that are read into such memory -------------------------------------------- */

struct reader {
	int fd;
	void *page;
};

static void *read_for_ever(void *arg)
{
	struct reader *r = arg;

	(void)!read(r->fd, r->page, 64);
	return NULL;
}

/* A thread waits for what comes, and then for the memory that it goes to. */
static void read_into_fuse(struct reader *r, int file)
{
	pthread_t t;

	r->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ck_assert(r->page != MAP_FAILED);
	ck_assert_int_eq(pthread_create(&t, NULL, read_for_ever, r), 0);
}

/* A message whose receive makes an event. */
static void event_make(struct cx *c)
{
	cq_arm(c->cq_ring.hdr, CQ_ARM_ANY);
	cx_recv(c, 1, 0, 64);
	cx_send(c, 2, 1024, 5);
}

static void two_completions(struct cx *c)
{
	struct cqe e;

	for (unsigned i = 0; i < 2; i++)
		ck_assert(cx_poll(c, &e));
}

static void use_channel(void *)
{
	int file = fuse_file();
	struct reader r;
	struct cx c;

	ck_assert_int_ge(file, 0);
	cx_open(&c);
	cx_connect(&c, &c);
	r.fd = c.channel_fd;
	read_into_fuse(&r, file);
	event_make(&c);
	two_completions(&c);
	note_wait(4, 1);
	for (unsigned i = 0; i < 300; i++) { /* more than the channel has room for */
		event_make(&c);
		note_set(0, i + 1);
		two_completions(&c);
	}
	note_set(1, 1);
	for (;;)
		pause();
}

static void use_events(void *)
{
	int file = fuse_file();
	struct msg_req req = { .op = MSG_QP_DESTROY };
	struct msg_rep rep;
	struct reader r;
	struct cx c;

	ck_assert_int_ge(file, 0);
	cx_open(&c);
	cx_connect(&c, &c);
	r.fd = c.event;
	read_into_fuse(&r, file);
	RING_STORE(&c.sq.hdr->prod, c.sq.pos + 1000); /* nonsense: the QP fails, and an event says so */
	cx_ring(&c, c.qp_bell);
	note_wait(4, 1);
	note_set(0, 1);
	req.id.handle = c.qpn;
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	note_set(1, 1);
	for (;;)
		pause();
}

/* *got: the descriptor that comes with the reply, or -1. */
static void cm_ask(int fd, struct cmm_req *req, struct cmm_rep *rep, int *got)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { rep, sizeof(*rep) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c;

	ck_assert(say(fd, req, cmm_req_len(req->op), NULL, 0, 0));
	ck_assert_int_eq(recvmsg(fd, &msg, MSG_CMSG_CLOEXEC), sizeof(*rep));
	ck_assert_int_eq(rep->err, 0);
	c = CMSG_FIRSTHDR(&msg);
	*got = -1;
	if (c)
		memcpy(got, CMSG_DATA(c), sizeof(*got));
}

static void use_cm(void *)
{
	int file = fuse_file(), fd = hail(), none;
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	struct reader r;

	ck_assert_int_ge(file, 0);
	cm_ask(fd, &req, &rep, &r.fd);
	ck_assert_int_ge(r.fd, 0);
	read_into_fuse(&r, file);
	req = (struct cmm_req){ .op = CMM_CREATE_ID, .create = { .ps = CM_PS_TCP, .qp_type = QPT_RC, .cookie = 1 } };
	cm_ask(fd, &req, &rep, &none);
	req = (struct cmm_req){ .op = CMM_RESOLVE_ADDR, .id = rep.create.id, .resolve.timeout_ms = 1000 };
	req.resolve.dst.in = (struct sockaddr_in){ .sin_family = AF_INET,
						   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
						   .sin_port = 1 };
	cm_ask(fd, &req, &rep, &none);
	note_wait(4, 1);
	note_set(0, 1);
	/* One more of which the descriptor tells. */
	req = (struct cmm_req){ .op = CMM_PUT_EVENT, .id = req.id, .put.type = CMA_EV_USER };
	cm_ask(fd, &req, &rep, &none);
	req = (struct cmm_req){ .op = CMM_DESTROY_ID, .id = req.id }; /* with the event that is being read */
	cm_ask(fd, &req, &rep, &none);
	note_set(1, 1);
	for (;;)
		pause();
}

/* ---- queue memory that is written to from such memory ----------------------------------- */

#define CQS 6u

struct writer {
	int fd; /* of queue memory */
	void *page;
};

static void *write_for_ever(void *arg)
{
	struct writer *w = arg;

	(void)!pwrite(w->fd, w->page, 64, 0);
	return NULL;
}

/* CQs that are too large for their pages to be kept end while the file that they lie in is being written to. */
static void use_queues(void *)
{
	int file = fuse_file(), fds[CALL_FDS];
	struct writer w = { .fd = -1 };
	uint32_t cq[CQS];
	struct msg_req req;
	struct msg_rep rep;
	pthread_t t;
	struct cx c;

	ck_assert_int_ge(file, 0);
	w.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ck_assert(w.page != MAP_FAILED);
	cx_open(&c);
	for (unsigned i = 0; i < CQS; i++) {
		req = (struct msg_req){ .op = MSG_CQ_CREATE, .cq.cqe = 4096 };
		ck_assert_int_eq(call(c.fd, &req, &rep, fds), 0);
		cq[i] = rep.cq.handle;
		w.fd = fds[0] < 0 ? w.fd : fds[0];
	}
	ck_assert_int_eq(pthread_create(&t, NULL, write_for_ever, &w), 0);
	note_wait(4, 1);
	note_set(0, 1);
	for (unsigned i = CQS; i--;) {
		req = (struct msg_req){ .op = MSG_CQ_DESTROY, .id.handle = cq[i] };
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	}
	note_set(1, 1);
	for (;;)
		pause();
}

static void descriptor_used(void (*play)(void *))
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, play, NULL);
	note_wait(0, 1);
	stage_goes_on(100);
	note_wait(1, 1); /* and the reader's program is served, too */
	ck_assert_uint_eq(note->n[4], 1);
	kill((pid_t)note->n[3], SIGKILL);
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}

START_TEST(channel_read) { descriptor_used(use_channel); }
END_TEST
START_TEST(events_read) { descriptor_used(use_events); }
END_TEST
START_TEST(cm_read) { descriptor_used(use_cm); }
END_TEST
START_TEST(queues_written) { descriptor_used(use_queues); }
END_TEST

/* ---- pages that the program itself should fill ------------------------------------------- */

static int uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

static void use_uffd(void *uid)
{
	int fd = uffd_open();
	struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct cx c;
	uid_t u = (uid_t)(uintptr_t)uid;

	ck_assert_int_eq(setresgid(u, u, u) | setresuid(u, u, u) | prctl(PR_SET_DUMPABLE, 1), 0);
	cx_open(&c);
	cx_connect(&c, &c);
	cx_ping(&c);
	ck_assert_int_eq(madvise(c.buf + BAD_AT, CX_BUF - BAD_AT, MADV_DONTNEED), 0);
	r.range = (struct uffdio_range){ (uintptr_t)c.buf + BAD_AT, CX_BUF - BAD_AT };
	ck_assert_int_eq(ioctl(fd, UFFDIO_REGISTER, &r), 0);
	bad_part(&c);
}

static void uffd_memory(uid_t uid)
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, use_uffd, (void *)(uintptr_t)uid);
	note_wait(0, 2);
	stage_goes_on(100);
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}

START_TEST(uffd) { uffd_memory(UID_ATTACKER); }
END_TEST
/* As the root of a container is. */
START_TEST(uffd_root) { uffd_memory(0); }
END_TEST

/* ---- a number that is another process's ------------------------------------------------------ */

#define SECRET ((void *)0x123450000000)

static void caps_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	ck_assert_int_eq((int)syscall(SYS_capset, &head, none), 0);
}

/* false: refused, or the session is over. */
static bool granted(int fd, struct msg_req *req, struct msg_rep *rep)
{
	int fds[CALL_FDS];

	return say(fd, req, msg_req_len(req->op), NULL, 0, 0) && hear(fd, rep, fds) && !rep->err;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Since Linux 6.5 the daemon can tell the process that connected from another one of its number: then the session is over. */
static bool is_told_apart(void)
{
	socklen_t len = sizeof(int);
	int sv[2], fd = -1;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	if (!getsockopt(sv[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		close(fd);
	close(sv[0]);
	close(sv[1]);
	return fd >= 0;
}

/* The child of the process that connected, which is over, and whose number the victim has.  Note 4: and it is served on. */
static void ask_for_secret(int fd)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct pollfd over = { .fd = fd };
	struct msg_rep rep;

	note_wait(2, 1);
	ck_assert(granted(fd, &req, &rep));
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	if (granted(fd, &req, &rep)) {
		req = (struct msg_req){ .op = MSG_PD_ALLOC };
		if (granted(fd, &req, &rep)) {
			req = (struct msg_req){ .op = MSG_MR_REG,
						.mr = { .pd = rep.obj.handle,
							.addr = (uintptr_t)SECRET,
							.len = 64,
							.iova = (uintptr_t)SECRET } };
			ck_assert_msg(!granted(fd, &req, &rep), "the victim's memory can be registered");
		}
		if (is_told_apart()) {
			double begun = stage_seconds();
			int ended;

			while ((ended = poll(&over, 1, 20)) == 0 && !stage_late(begun, 15))
				;
			note_set(4, ended != 1);
		}
	}
	note_set(3, 1);
	_exit(0);
}

/* uid 0 without any capability. */
static void use_pid(void *)
{
	pid_t first;

	caps_drop();
	first = fork();
	if (!first) {
		int fd = hail();

		note_set(0, (uint32_t)getpid());
		if (!fork())
			ask_for_secret(fd);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(first, NULL, 0), first);
	note_set(1, 1);
	note_wait(3, 1);
}

static pid_t fork_as(pid_t pid)
{
	struct clone_args a = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

START_TEST(pid_reused)
{
	pid_t attacker, victim;

	stage_open("--shards=1");
	attacker = part_begin(0, use_pid, NULL);
	note_wait(1, 1);
	victim = fork_as((pid_t)note->n[0]);
	if (!victim) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		mmap(SECRET, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		strcpy(SECRET, "the victim's secret key");
		note_set(2, 1);
		for (;;)
			pause();
	}
	ck_assert_msg(victim > 0, "no process of that number: %s", strerror(errno));
	part_end(attacker);
	part_kill(victim);
	ck_assert_msg(!note->n[4], "the session outlives its process");
	stage_goes_on(20);
	stage_close();
}
END_TEST

int main(void)
{
	const TTest *test[11] = { 0 };
	unsigned n = 0;
	int fd;

	stage_needs_root();
	if (fuse_is_here()) {
		test[n++] = fuse;
		test[n++] = fuse_killed;
		test[n++] = fuse_ended;
		test[n++] = channel_read;
		test[n++] = events_read;
		test[n++] = cm_read;
		test[n++] = queues_written;
	} else {
		printf("# no FUSE file system can be mounted here: those who use one are left out\n");
	}
	fd = uffd_open();
	if (fd >= 0) {
		close(fd);
		test[n++] = uffd;
		test[n++] = uffd_root;
	} else {
		printf("# no userfaultfd here: uffd and uffd_root are left out\n");
	}
	test[n++] = pid_reused;
	return stage_main("hostile: memory", test);
}
