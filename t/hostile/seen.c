/* SPDX-License-Identifier: MIT */
/*
 * seen.c - what a user is shown of other users' queue pairs: nothing.  Numbers, PSNs and peers are what it takes to send in
 * another one's name.
 */
#include <check.h>

#include "stage.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { VICTIM_QPN, VICTIM_PEER, VICTIM_READY, ATTACKER_DONE, VICTIM_END };

static long number(const json_t *j, const char *key) { return (long)json_integer_value(json_object_get(j, key)); }

/* Two connected queue pairs; later, one that is left behind. */
static void victim(void *)
{
	static struct cx a, b;

	cx_open(&a);
	cx_open(&b);
	cx_connect(&a, &b);
	cx_connect(&b, &a);
	note_set(VICTIM_QPN, a.qpn);
	note_set(VICTIM_PEER, b.qpn);
	note_set(VICTIM_READY, 1);
	note_wait(VICTIM_END, 1);
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

static void attacker(void *)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = DUMP_IMPAIR };
	struct msg_rep rep;
	static struct cx c, other;
	struct cqe e;
	char *text, peer[16];
	json_t *j, *live;
	size_t i;

	cx_open(&c);
	note_wait(VICTIM_READY, 1);
	j = dump(c.fd, DUMP_QPS);
	rows_of(json_object_get(j, "qps"), UID_ATTACKER, false);
	json_decref(j);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EPERM);
	/* Asking by the back door: why does that queue pair not answer? */
	other.qpn = note->n[VICTIM_QPN];
	cx_connect(&c, &other);
	cx_send(&c, 1, 0, 8);
	ck_assert(cx_poll(&c, &e));
	ck_assert_uint_eq(e.status, WC_RETRY_EXC_ERR);
	j = dump(c.fd, DUMP_WHY);
	text = json_dumps(j, 0);
	snprintf(peer, sizeof(peer), "0x%x,", (unsigned)note->n[VICTIM_PEER]);
	ck_assert_ptr_nonnull(strstr(text, "is not connected to this one"));
	ck_assert_ptr_null(strstr(text, peer));
	free(text);
	json_decref(j);
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
