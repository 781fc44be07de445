/* SPDX-License-Identifier: MIT */
/*
 * seen.c - what a user is shown of other users' queue pairs: nothing.  Numbers, PSNs and peers are what it takes to send in
 * another one's name.
 */
#include "t/suite.h"

#include "stage.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { VICTIM_QPN, VICTIM_PEER, VICTIM_READY, ATTACKER_DONE, VICTIM_END, ATTACKER_QPN, VICTIM_LOST };

static long number(const json_t *j, const char *key) { return (long)json_integer_value(json_object_get(j, key)); }

/* Two connected queue pairs, and one that fails; later, one that is left behind. */
static void victim(void *)
{
	static struct cx a, b, c, foe;

	cx_open(&a);
	cx_open(&b);
	cx_connect(&a, &b);
	cx_connect(&b, &a);
	note_set(VICTIM_QPN, a.qpn);
	note_set(VICTIM_PEER, b.qpn);
	note_wait(ATTACKER_QPN, 1);
	foe.qpn = note->n[ATTACKER_QPN];
	cx_open(&c);
	cx_connect(&c, &foe);
	ck_assert_int_eq(cx_state(&c, QPS_ERR), 0);
	note_set(VICTIM_LOST, c.qpn);
	note_set(VICTIM_READY, 1);
	note_wait(VICTIM_END, 1);
	cx_close(&c);
	cx_close(&b);
	note_set(VICTIM_READY, 2);
	note_wait(VICTIM_END, 2);
	cx_close(&a);
}

static void rows_of(json_t *rows, uid_t uid, bool all)
{
	size_t i, own = 0;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		ck_assert_msg(all || number(row, "uid") == (long)uid, "user %u is shown a row of user %ld",
			      (unsigned)uid, number(row, "uid"));
		own += number(row, "uid") == (long)uid;
	}
	ck_assert_uint_ge(own, !all);
}

/* Asking by the back door: why does that queue pair not answer? */
static void asks(struct cx *c, uint32_t qpn, const char *text)
{
	static struct cx other;
	const char *there = "";
	struct cqe e;
	json_t *j, *cause;
	size_t i;

	other.qpn = qpn;
	cx_connect(c, &other);
	cx_send(c, 1, 0, 8);
	ck_assert(cx_poll(c, &e));
	ck_assert_uint_eq(e.status, WC_RETRY_EXC_ERR);
	ck_assert_int_eq(cx_state(c, QPS_RESET), 0);
	j = dump(c->fd, DUMP_WHY);
	json_array_foreach(json_object_get(j, "causes"), i, cause)
	{
		if (number(cause, "dest_qpn") == (long)qpn)
			there = json_string_value(json_object_get(cause, "there"));
	}
	ck_assert_str_eq(there, text);
	json_decref(j);
}

#define OURS "rdmad0 is a device of this daemon"

static void attacker(void *)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = DUMP_IMPAIR };
	struct msg_rep rep;
	static struct cx c;
	json_t *j, *live;
	char text[80];
	size_t i;

	cx_open(&c);
	note_set(ATTACKER_QPN, c.qpn);
	note_wait(VICTIM_READY, 1);
	j = dump(c.fd, DUMP_QPS);
	rows_of(json_object_get(j, "qps"), UID_ATTACKER, false);
	json_decref(j);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EPERM);
	asks(&c, note->n[VICTIM_QPN], OURS);
	asks(&c, note->n[VICTIM_QPN] ^ 0x400000, OURS); /* there is none */
	/* The other end of his own connection is another matter: it does not answer. */
	snprintf(text, sizeof(text), OURS "; QP 0x%x is in ERR", (unsigned)note->n[VICTIM_LOST]);
	asks(&c, note->n[VICTIM_LOST], text);
	note_set(ATTACKER_DONE, 1);
	note_wait(ATTACKER_DONE, 2);
	j = dump(c.fd, DUMP_ENDS);
	ck_assert_uint_eq(json_array_size(json_object_get(j, "qps")), 0);
	ck_assert_uint_eq(json_array_size(json_object_get(j, "contexts")), 0);
	json_array_foreach(json_object_get(j, "live"), i, live) ck_assert_int_eq(number(live, "pid"), getpid());
	ck_assert_uint_eq(i, 1);
	json_decref(j);
	cx_close(&c);
}

START_TEST(others)
{
	pid_t v, a;
	json_t *j;
	int fd;

	stage_open(NULL);
	v = part_begin(UID_VICTIM, victim, NULL);
	a = part_begin(UID_ATTACKER, attacker, NULL);
	note_wait(ATTACKER_DONE, 1);
	fd = hail();
	j = dump(fd, DUMP_QPS);
	rows_of(json_object_get(j, "qps"), UID_VICTIM, true);
	ck_assert_uint_ge(json_array_size(json_object_get(j, "qps")), 4); /* all that there are */
	json_decref(j);
	note_set(VICTIM_END, 1);
	note_wait(VICTIM_READY, 2);
	do { /* until the daemon has noticed */
		j = dump(fd, DUMP_ENDS);
		rows_of(json_object_get(j, "qps"), UID_VICTIM, true);
		if (json_array_size(json_object_get(j, "qps")))
			note_set(ATTACKER_DONE, 2);
		json_decref(j);
	} while (note->n[ATTACKER_DONE] != 2);
	close(fd);
	part_end(a);
	note_set(VICTIM_END, 2);
	part_end(v);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: seen", others)
