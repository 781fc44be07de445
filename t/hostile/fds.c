/* SPDX-License-Identifier: MIT */
/*
 * fds.c - descriptors that a message has no room for, and files of a FUSE server that never answers.
 */
#include "t/suite.h"

#include "fuse.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>

#define FDS_MANY 16u /* more than any message may have */

/* ---- the attacker ----------------------------------------------------------------------- */

static void send_fuse(void *)
{
	static const uint32_t ops[] = { MSG_HOLD,      MSG_DEVICE_LIST, MSG_MR_REG,
					MSG_XRCD_OPEN, MSG_QP_CREATE,   MSG_RAW_STEER };
	struct msg_req req;
	struct cx c;
	int file = fuse_file(), fds[3] = { file, file, file };

	ck_assert_int_ge(file, 0);
	note_set(0, 1);
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		for (unsigned n = 1; n <= 3; n += 2) {
			cx_open(&c); /* is answered, too */
			req = (struct msg_req){ .op = ops[i] };
			if (ops[i] == MSG_MR_REG)
				req = (struct msg_req){ .op = MSG_MR_REG,
							.mr = { .pd = c.pd, .kind = MR_DMABUF, .len = 4096 } };
			if (ops[i] == MSG_XRCD_OPEN) {
				req.xrcd.shared = 1;
				req.xrcd.oflags = O_CREAT;
			}
			say(c.fd, &req, msg_req_len(req.op), fds, n, 0);
		}
	note_set(1, 1);
	for (;;)
		pause();
}

START_TEST(fuse)
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, send_fuse, NULL);
	note_wait(0, 1);
	stage_goes_on(100);
	note_wait(1, 1);
	stage_goes_on(100);
	ck_assert_uint_ge(note->n[2], 1); /* somebody does wait for the server */
	kill((pid_t)note->n[3], SIGKILL); /* before its clients: they wait for it */
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}
END_TEST

/* Descriptors of any kind with messages of any kind: nothing of them is kept. */
static void send_kinds(void *)
{
	int p[2], kinds[6], n = 0;
	struct msg_req req;
	struct msg_rep rep;
	struct cx c;
	int fds[CALL_FDS];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	kinds[n++] = p[0];
	kinds[n++] = epoll_create1(EPOLL_CLOEXEC);
	kinds[n++] = memfd_create("plain", MFD_CLOEXEC);
	kinds[n++] = open("/tmp", O_PATH | O_CLOEXEC);
	kinds[n++] = open("/dev/null", O_RDWR | O_CLOEXEC);
	cx_open(&c);
	kinds[n++] = c.fd;
	for (uint32_t op = 1; op < MSG_OPS; op++) {
		for (int i = 0; i < n; i++) {
			req = (struct msg_req){ .op = op };
			ck_assert(say(c.fd, &req, msg_req_len(op), &kinds[i], 1, 0));
			ck_assert(hear(c.fd, &rep, fds));
			for (unsigned k = 0; k < CALL_FDS; k++)
				if (fds[k] >= 0)
					close(fds[k]);
			if (op == MSG_MR_DEREG || op == MSG_DUMP || op == MSG_PD_ALLOC)
				ck_assert_int_eq(rep.err, EINVAL);
		}
	}
	cx_close(&c);
}

START_TEST(kinds)
{
	stage_open("--shards=1");
	part_end(part_begin(UID_ATTACKER, send_kinds, NULL));
	stage_goes_on(20);
	stage_close();
}
END_TEST

/* ---- connections that take their time to end --------------------------------------------------- */

#define LINGER_S 30

/* A TCP socket: who closes it last waits so long, as what it has sent is never read. */
static int lingering(void)
{
	static const char data[65536];
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger how = { .l_onoff = 1, .l_linger = LINGER_S };
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	ck_assert(!bind(door, (struct sockaddr *)&sa, len) && !listen(door, 1) &&
		  !getsockname(door, (struct sockaddr *)&sa, &len));
	ck_assert(!connect(fd, (struct sockaddr *)&sa, len));
	ck_assert_int_ge(accept4(door, NULL, NULL, SOCK_CLOEXEC), 0); /* open till the end of this process */
	close(door);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how)), 0);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	return fd;
}

/* The last of it is in the message, if that could be sent; fd_n of them. */
static void post(int to, const void *p, size_t len, unsigned fd_n)
{
	int fds[FDS_MANY];

	for (unsigned i = 0; i < fd_n; i++)
		fds[i] = lingering();
	if (!say(to, p, len, fds, fd_n, MSG_DONTWAIT))
		return;
	for (unsigned i = 0; i < fd_n; i++)
		close(fds[i]);
}

/* The attacker's: open() before, play() while the daemon stands still. */
struct scene {
	int session, fd[8];
	unsigned fd_n;
};

static void open_nothing(struct scene *s) { s->session = hail(); }
static void open_none(struct scene *) {}

static void behind_the_end(struct scene *s)
{
	struct msg_req req = { .op = MSG_HOLD };

	say(s->session, "", 0, NULL, 0, 0);
	post(s->session, &req, msg_req_len(req.op), 1);
}

static void at_the_end(struct scene *s)
{
	post(s->session, "", 0, 1);
	post(s->session, "", 0, 1);
	close(s->session);
}

static void in_a_row(struct scene *s)
{
	struct msg_req req = { .op = MSG_HOLD };

	for (unsigned i = 0; i < 40; i++)
		post(s->session, &req, msg_req_len(req.op), 1);
}

static void at_once(struct scene *s)
{
	struct msg_req req = { .op = MSG_HOLD };

	post(s->session, &req, msg_req_len(req.op), FDS_MANY);
}

static int channel_end(int session)
{
	struct cmm_req req = { .op = CMM_OPEN };
	char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(size_t))));
	struct cmm_rep rep;
	struct iovec iov = { &rep, sizeof(rep) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	int fd;

	ck_assert(say(session, &req, cmm_req_len(req.op), NULL, 0, 0));
	ck_assert_int_eq(recvmsg(session, &mh, 0), sizeof(rep));
	ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&mh));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(fd));
	return fd;
}

/* His ends of all that is the daemon's to write to. */
static void open_ends(struct scene *s)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	int fds[CALL_FDS], other;

	s->session = hail();
	other = hail();
	ck_assert_int_eq(call(s->session, &req, &rep, NULL), 0);
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	ck_assert_int_eq(call(s->session, &req, &rep, fds), 0);
	s->fd[s->fd_n++] = fds[2];
	s->fd[s->fd_n++] = fds[3];
	req = (struct msg_req){ .op = MSG_CHANNEL_CREATE };
	ck_assert_int_eq(call(s->session, &req, &rep, fds), 0);
	s->fd[s->fd_n++] = fds[0];
	req = (struct msg_req){ .op = MSG_DUMP, .dump.what = DUMP_STATS };
	ck_assert_int_eq(call(s->session, &req, &rep, fds), 0);
	s->fd[s->fd_n++] = fds[0];
	s->fd[s->fd_n++] = channel_end(other);
	s->fd[s->fd_n++] = other;
}

static void into_the_ends(struct scene *s)
{
	for (unsigned i = 0; i < s->fd_n; i++) {
		post(s->fd[i], "", 1, 1);
		close(s->fd[i]);
	}
	close(s->session);
}

/* He is not served. */
static void uninvited(struct scene *s)
{
	struct msg_req req = { .op = MSG_HOLD };

	s->session = dial();
	post(s->session, &req, msg_req_len(req.op), 1);
}

static const struct {
	void (*open)(struct scene *);
	void (*play)(struct scene *);
} lingers[] = {
	{ open_nothing, behind_the_end }, { open_nothing, at_the_end }, { open_nothing, in_a_row },
	{ open_nothing, at_once },        { open_ends, into_the_ends }, { open_none, uninvited },
};

/* Notes 0 and 2: he is ready, he has done it; 1: the daemon stands still. */
static void let_linger(void *arg)
{
	unsigned i = *(const unsigned *)arg;
	struct scene s = { .session = -1 };

	lingers[i].open(&s);
	note_set(0, 1);
	note_wait(1, 1);
	lingers[i].play(&s);
	note_set(2, 1);
	for (;;)
		pause();
}

static char conf[] = "/tmp/rdmad-fds.XXXXXX";

static void stage_open_with(const char *text)
{
	char option[64];
	int fd = mkstemp(conf);

	ck_assert_int_ge(fd, 0);
	dprintf(fd, "shards = 1\n%s\n", text);
	close(fd);
	snprintf(option, sizeof(option), "--config=%s", conf);
	stage_open(option);
	unlink(conf);
}

START_TEST(linger)
{
	unsigned i = (unsigned)_i;
	pid_t attacker;

	if (lingers[i].play == uninvited)
		stage_open_with("users = {1001}"); /* the bystander */
	else
		stage_open("--shards=1");
	attacker = part_begin(UID_ATTACKER, let_linger, &i);
	note_wait(0, 1);
	kill(daemon_process(), SIGSTOP);
	note_set(1, 1);
	note_wait(2, 1);
	kill(daemon_process(), SIGCONT);
	stage_goes_on(200);
	part_kill(attacker);
	stage_goes_on(20);
	stage_close(); /* all of them are closed */
}
END_TEST

/* ---- connections that are refused while one of them lingers ------------------------------------- */

#define MAY_HAVE 8u /* sessions */
#define COME     300u

/* Notes 0 and 2: he has all that he may, and they came and went; 1: they may. */
static void come_and_go(void *)
{
	struct msg_req req = { .op = MSG_HOLD }, hello = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI } };
	int fd[MAY_HAVE];
	char rest[4096];

	for (unsigned i = 0; i < MAY_HAVE; i++)
		fd[i] = hail();
	post(fd[0], &req, msg_req_len(req.op), 1);
	note_set(0, 1);
	note_wait(1, 1);
	for (unsigned i = 0; i < COME; i++) {
		int s = dial();

		for (unsigned k = 0; k < 3; k++)
			say(s, &hello, msg_req_len(hello.op), NULL, 0, 0);
		while (recv(s, rest, sizeof(rest), 0) > 0)
			;
		close(s);
	}
	note_set(2, 1);
	for (;;)
		pause();
}

START_TEST(refused)
{
	pid_t attacker;
	long before;

	stage_open_with("quota { sessions = 8 }");
	attacker = part_begin(UID_ATTACKER, come_and_go, NULL);
	note_wait(0, 1);
	before = daemon_counts().fds;
	note_set(1, 1);
	note_wait(2, 1);
	ck_assert_int_lt(daemon_counts().fds, before + (long)COME / 4); /* the bystander opens and closes some */
	stage_goes_on(50);
	part_kill(attacker);
	stage_close();
}
END_TEST

/* ---- descriptors that the daemon keeps: they count until they are closed ------------------------- */

#define DOMAINS 500u

static void keep_many(void *)
{
	struct msg_req req = { .op = MSG_XRCD_OPEN, .xrcd = { .shared = 1, .oflags = O_CREAT } };
	struct msg_rep rep;
	struct cx c;
	int fds[CALL_FDS];

	cx_open(&c);
	for (unsigned i = 0; i < DOMAINS; i++) {
		int fd = i % 100 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : lingering();

		ck_assert(say(c.fd, &req, msg_req_len(req.op), &fd, 1, 0));
		ck_assert(hear(c.fd, &rep, fds));
		ck_assert_int_eq(rep.err, 0);
		close(fd);
	}
	cx_close(&c);
	note_set(0, 1);
	for (;;)
		pause();
}

START_TEST(kept)
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(UID_ATTACKER, keep_many, NULL);
	note_wait(0, 1);
	while (user_has(-1, UID_ATTACKER, "use", "sessions") > 0)
		;
	ck_assert_int_ge(user_has(-1, UID_ATTACKER, "use", "descriptors"), 4); /* that linger */
	stage_goes_on(50);
	part_kill(attacker);
	stage_close(); /* not one was forgotten */
}
END_TEST

/* ---- descriptors of replies that nobody reads ------------------------------------------------------ */

#define FEW      1024u /* descriptors of the daemon */
#define HOARDERS 60u
#define UNREAD   64u

static void hoard(void *)
{
	struct msg_req req;
	struct msg_rep rep;
	struct cx c;

	for (unsigned i = 0; i < HOARDERS; i++) {
		cx_open(&c);
		req = (struct msg_req){ .op = MSG_DM_ALLOC, .dm.len = 4096 };
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
		req = (struct msg_req){ .op = MSG_DM_IMPORT, .id.handle = rep.dm.handle };
		for (unsigned k = 0; k < UNREAD; k++)
			say(c.fd, &req, msg_req_len(req.op), NULL, 0, MSG_DONTWAIT);
	}
	note_set(0, 1);
	for (;;)
		pause();
}

START_TEST(unread)
{
	struct rlimit few = { FEW, FEW };
	pid_t attacker;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	stage_open("--shards=1");
	attacker = part_begin(UID_ATTACKER, hoard, NULL);
	note_wait(0, 1);
	stage_goes_on(100);
	part_kill(attacker);
	stage_close();
}
END_TEST

/* ---- questions that wait for a lock ---------------------------------------------------------------- */

/* A thread that holds the lock of the epoll, as its memory does not come. */
static void *look_long(void *arg)
{
	const int *fds = arg; /* the epoll, the file that its events are to go to */
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);

	ck_assert(p != MAP_FAILED);
	epoll_wait(fds[0], p, 1, -1);
	return NULL;
}

static void send_epoll(void *)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	struct msg_req req;
	struct cx c;
	pthread_t t;
	int fds[2], out = eventfd(0, EFD_CLOEXEC);

	fds[1] = fuse_file();
	ck_assert_int_ge(fds[1], 0);
	fds[0] = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_eq(epoll_ctl(fds[0], EPOLL_CTL_ADD, out, &ev), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, look_long, fds), 0);
	note_wait(4, 1);
	cx_open(&c);
	req = (struct msg_req){ .op = MSG_MR_REG, .mr = { .pd = c.pd, .kind = MR_DMABUF, .len = 4096 } };
	say(c.fd, &req, msg_req_len(req.op), fds, 1, 0);
	note_set(0, 1);
	for (;;)
		pause();
}

static void goes_on_beside(void (*play)(void *))
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, play, NULL);
	note_wait(0, 1);
	stage_goes_on(200);
	kill((pid_t)note->n[3], SIGKILL);
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}

START_TEST(locked) { goes_on_beside(send_epoll); }
END_TEST

/* ---- a memory whose lock is not to be had ---------------------------------------------------- */

struct page {
	int mem; /* of the process that has it */
	void *at;
};

/* Waits for the file's server, and has the lock meanwhile. */
static void *read_page(void *arg)
{
	const struct page *p = arg;
	char byte;

	(void)!pread(p->mem, &byte, 1, (off_t)(uintptr_t)p->at);
	return NULL;
}

/* Waits for the lock, and lets nobody else have it. */
static void change_maps(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	note_wait(4, 1);
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	_exit(0);
}

static bool is_waiting(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	ck_assert(f && fscanf(f, "%*d %*s %c", &state) == 1);
	fclose(f);
	return state == 'D';
}

/* As its own it sends the memory of its child. */
static void send_locked_memory(void *)
{
	int file = fuse_file(), fd, fds[CALL_FDS];
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	struct page p;
	char path[64];
	pthread_t t;
	pid_t child;

	ck_assert_int_ge(file, 0);
	p.at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ck_assert(p.at != MAP_FAILED);
	child = fork();
	if (!child)
		change_maps();
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
	p.mem = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(p.mem, 0);
	ck_assert_int_eq(pthread_create(&t, NULL, read_page, &p), 0);
	while (!is_waiting(child))
		usleep(1000);
	fd = hail();
	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	ck_assert(say(fd, &req, msg_req_len(req.op), &p.mem, 1, 0));
	ck_assert(hear(fd, &rep, fds));
	ck_assert_int_eq(rep.err, 0); /* it is a memory all the same */
	note_set(0, 1);
	for (;;)
		pause();
}

START_TEST(locked_memory) { goes_on_beside(send_locked_memory); }
END_TEST

int main(void)
{
	Suite *s = suite_create("hostile: descriptors");
	TCase *t = tcase_create("descriptors");
	SRunner *r = srunner_create(s);
	int failed;

	stage_needs_root();
	tcase_set_timeout(t, 120);
	if (fuse_is_here()) {
		tcase_add_test(t, fuse);
		tcase_add_test(t, locked);
		tcase_add_test(t, locked_memory);
	} else {
		printf("ok - fuse # SKIP no FUSE file system can be mounted here\n");
	}
	tcase_add_test(t, kinds);
	tcase_add_test(t, kept);
	tcase_add_test(t, unread);
	tcase_add_test(t, refused);
	tcase_add_loop_test(t, linger, 0, sizeof(lingers) / sizeof(*lingers));
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
