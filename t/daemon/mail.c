/* SPDX-License-Identifier: MIT */
/* mail.c - mailboxes: requests and replies by memory that a client shares with the daemon, by good clients and by bad ones. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>
#include <rdmad/mail.h>

#include "client.h"
#include "t/suite.h"
#include "t/turn.h"
#include "t/xorshift.h"

#define TRIES_S 20
#define CROWD   20u /* more than are looked at */
#define ROUNDS  3000u

struct box {
	int fd;
	struct mail *mail;
};

static struct mail *mail_map(int fd)
{
	struct msg_req req = { .op = MSG_MAIL };
	struct msg_rep rep;
	int fds[CALL_FDS];
	void *m;

	ck_assert_int_eq(call(fd, &req, &rep, fds), 0);
	ck_assert_int_ge(fds[0], 0);
	m = mmap(NULL, sizeof(struct mail), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	ck_assert_ptr_ne(m, MAP_FAILED);
	ck_assert_int_ne(ftruncate(fds[0], 0), 0); /* no page can be taken away under the daemon */
	close(fds[0]);
	return m;
}

static struct box box_open(void)
{
	struct box b = { .fd = hail() };

	b.mail = mail_map(b.fd);
	return b;
}

static void box_close(struct box *b)
{
	munmap(b->mail, sizeof(*b->mail));
	close(b->fd);
}

static bool in_time(time_t since) { return time(NULL) < since + TRIES_S; }

/* Put there while the daemon looks, which it does behind a request; it need not, where a neighbour keeps the core. */
static void post(const struct box *b, const void *req, size_t len)
{
	struct msg_req first = { .op = MSG_DEVICE_LIST };
	time_t since = time(NULL);
	struct msg_rep rep;

	for (;;) {
		ck_assert_msg(in_time(since), "the daemon never looks into a mailbox");
		ck_assert_int_eq(call(b->fd, &first, &rep, NULL), 0);
		if (!mail_is_looked_at(b->mail))
			continue;
		memcpy(b->mail->req, req, len);
		if (mail_ask(b->mail))
			return;
	}
}

static void collect(const struct box *b, struct msg_rep *rep)
{
	time_t since = time(NULL);

	while (!mail_is_done(b->mail)) {
		ck_assert_msg(in_time(since), "no reply");
		turn_away();
	}
	memcpy(rep, b->mail->rep, sizeof(*rep));
	mail_clear(b->mail);
}

static int hear_err(int fd, int *fds)
{
	struct msg_rep rep;

	ck_assert(hear(fd, &rep, fds));
	return rep.err;
}

START_TEST(there_as_by_the_socket)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST, .seq = 7 };
	struct msg_rep rep, same;
	int fds[CALL_FDS];
	struct box b;

	daemon_start();
	b = box_open();
	ck_assert_int_eq(call(b.fd, &req, &same, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		post(&b, &req, msg_req_len(req.op));
		collect(&b, &rep);
		ck_assert_mem_eq(&rep, &same, sizeof(rep));
	}
	post(&b, &req, msg_req_len(req.op)); /* its reply by the socket, if it is not there before */
	if (mail_sleep(b.mail)) {
		ck_assert_int_eq(hear_err(b.fd, fds), 0);
		mail_clear(b.mail);
	} else {
		collect(&b, &rep);
	}
	req.op = MSG_MAIL;
	ck_assert_int_eq(call(b.fd, &req, &rep, NULL), EBUSY);
	box_close(&b);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* A descriptor comes by the socket, whoever asked how. */
START_TEST(descriptors)
{
	struct msg_req req = { .op = MSG_CHANNEL_CREATE };
	int fds[CALL_FDS];
	struct box b;
	struct cx c;

	daemon_start();
	cx_open(&c);
	b = (struct box){ c.fd, mail_map(c.fd) };
	post(&b, &req, msg_req_len(req.op));
	ck_assert_int_eq(hear_err(c.fd, fds), 0);
	ck_assert_int_ge(fds[0], 0);
	close(fds[0]);
	munmap(b.mail, sizeof(*b.mail));
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Of many only the last are looked at, and a connection may end with a request in its box. */
START_TEST(many)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	struct box b[CROWD];

	daemon_start();
	for (unsigned i = 0; i < CROWD; i++)
		b[i] = box_open();
	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = 0; i < CROWD; i++) {
			post(&b[i], &req, msg_req_len(req.op));
			if (round < 4 || i % 2)
				collect(&b[i], &rep);
		}
	for (unsigned i = 0; i < CROWD; i++)
		box_close(&b[i]);
	daemon_clean();
	daemon_stop();
}
END_TEST

static void nonsense_op(const struct box *b, uint32_t op)
{
	struct msg_req req = { .op = op };
	struct msg_rep rep;

	post(b, &req, sizeof(req));
	collect(b, &rep);
	ck_assert_uint_eq(rep.op, op);
	ck_assert_int_eq(rep.err, EINVAL);
}

/* All of it changes all the time. */
static void scribble(const struct box *b, uint64_t *seed)
{
	uint8_t *p = (uint8_t *)b->mail;

	for (unsigned i = 0; i < 64; i++)
		p[xorshift(seed) % sizeof(struct mail)] = (uint8_t)xorshift(seed);
	memcpy(b->mail->req, &(uint32_t){ (uint32_t)(xorshift(seed) % (CMM_OPS + 2)) }, sizeof(uint32_t));
	b->mail->state = (uint32_t)(xorshift(seed) % 10);
}

START_TEST(nonsense)
{
	uint64_t seed = 362436069;
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	struct box good, b;
	struct cx c;

	daemon_start();
	cx_open(&c);
	cx_connect(&c, &c);
	good = box_open();
	nonsense_op(&good, 0);
	nonsense_op(&good, MSG_OPS);
	nonsense_op(&good, CMM_OPS);
	nonsense_op(&good, UINT32_MAX);
	for (unsigned n = 0; n < 8; n++) {
		b = box_open();
		post(&b, &req, msg_req_len(req.op));
		for (unsigned i = 0; i < ROUNDS; i++)
			scribble(&b, &seed);
		box_close(&b);
		post(&good, &req, msg_req_len(req.op));
		collect(&good, &rep);
		ck_assert_int_eq(rep.err, 0);
		cx_ping(&c);
	}
	box_close(&good);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

TEST_MAIN("mail", there_as_by_the_socket, descriptors, many, nonsense)
