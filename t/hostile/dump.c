/* SPDX-License-Identifier: MIT */
/* dump.c - dumps that are long, and dumps that nobody reads: they come in pieces, and wait at their reader's cost. */
#include "t/suite.h"

#include "stage.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define QPS      3000u
#define SESSIONS 40u

static void qps_make(struct cx *c, unsigned n)
{
	struct msg_req req = { .op = MSG_QP_CREATE };
	struct msg_rep rep;

	req.qp.pd = c->pd;
	req.qp.send_cq = req.qp.recv_cq = c->cq;
	req.qp.cap = (struct qp_cap){ 1, 1, 1, 1, 0 };
	req.qp.type = QPT_RC;
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
}

/* Note 0: nothing is read yet; note 1: it may be; note 2: the heap that is charged to him meanwhile. */
static void ask_and_wait(void *)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = DUMP_QPS },
		       stats = { .op = MSG_DUMP, .dump.what = DUMP_STATS };
	struct msg_rep rep;
	int fd[SESSIONS], from[SESSIONS][CALL_FDS];
	struct cx c;
	json_t *j;

	cx_open(&c);
	qps_make(&c, QPS);
	note_set(3, (uint32_t)user_has(c.fd, UID_ATTACKER, "use", "heap-mib"));
	for (unsigned i = 0; i < SESSIONS; i++) {
		fd[i] = hail();
		ck_assert_int_eq(call(fd[i], &req, &rep, from[i]), 0);
		/* Not another one before this is read. */
		ck_assert_int_eq(call(fd[i], &stats, &rep, NULL), EBUSY);
	}
	note_set(2, (uint32_t)user_has(c.fd, UID_ATTACKER, "use", "heap-mib"));
	note_set(0, 1);
	note_wait(1, 1);
	for (unsigned i = 0; i < SESSIONS; i++) {
		if (i) { /* these are never read */
			close(from[i][0]);
			close(fd[i]);
			continue;
		}
		j = dump_read(from[0][0]);
		ck_assert_uint_eq(json_array_size(json_object_get(j, "qps")), QPS + 1);
		json_decref(j);
		json_decref(dump(fd[0], DUMP_STATS));
	}
	cx_close(&c);
}

START_TEST(unread)
{
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(UID_ATTACKER, ask_and_wait, NULL);
	note_wait(0, 1);
	/* Less than the text of one: pieces, and numbers. */
	ck_assert_uint_le(note->n[2] - note->n[3], SESSIONS * (QPS * 8 + 131072) / 1048576 + 2);
	stage_goes_on(100);
	note_set(1, 1);
	part_end(attacker);
	stage_close();
}
END_TEST

/* All the time, in many sessions at once: a bystander's request is one of the next. */
static void ask_on(void *)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = DUMP_QPS };
	int fd[SESSIONS], fds[CALL_FDS];
	struct msg_rep rep;
	struct cx c;
	char text[4096];

	cx_open(&c);
	qps_make(&c, QPS);
	for (unsigned i = 0; i < SESSIONS; i++)
		fd[i] = hail();
	note_set(0, 1);
	while (!__atomic_load_n(&note->n[1], __ATOMIC_SEQ_CST)) {
		for (unsigned i = 0; i < SESSIONS; i++)
			ck_assert(say(fd[i], &req, msg_req_len(req.op), NULL, 0, 0));
		for (unsigned i = 0; i < SESSIONS; i++) {
			ck_assert(hear(fd[i], &rep, fds));
			ck_assert_int_eq(rep.err, 0);
			while (read(fds[0], text, sizeof(text)) > 0)
				;
			close(fds[0]);
		}
	}
	for (unsigned i = 0; i < SESSIONS; i++)
		close(fd[i]);
	cx_close(&c);
}

START_TEST(flood)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	double start, longest = 0;
	pid_t attacker;
	int fd;

	stage_open("--shards=1");
	attacker = part_begin(UID_ATTACKER, ask_on, NULL);
	note_wait(0, 1);
	fd = hail();
	for (unsigned i = 0; i < 200; i++) {
		start = stage_seconds();
		ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
		if (stage_seconds() - start > longest)
			longest = stage_seconds() - start;
	}
	close(fd);
	printf("# a request takes %.1f ms at most\n", longest * 1e3);
	ck_assert_msg(longest < 2, "a request takes %.3f s", longest);
	stage_goes_on(50);
	note_set(1, 1);
	part_end(attacker);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: dumps", unread, flood)
