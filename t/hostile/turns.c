/* SPDX-License-Identifier: MIT */
/*
 * turns.c - a user with hundreds of sessions, in all of which requests wait: another one's request comes after a few of them.
 *
 * The daemon stands still until all requests are there, the other one's last.  His asks what the user has: so it says itself how
 * many were served before it.
 */
#include "t/suite.h"

#include "stage.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>

#include "proto/cm_msg.h"

#define SESSIONS 400u
#define EACH     12u
#define BEFORE   768u /* of 4800: 64 in each turn of the loop, which sees the last session in its third or fourth */

enum { OPEN, STOPPED, ASKED, SERVED };

static void hear_all(int fd, unsigned n)
{
	struct cmm_rep rep;

	while (n--) {
		ck_assert_int_eq(recv(fd, &rep, sizeof(rep), 0),
				 sizeof(rep)); /* a descriptor that comes with it is gone */
		ck_assert_int_eq(rep.err, 0);
	}
}

static void crowd(void *)
{
	struct cmm_req open = { .op = CMM_OPEN };
	struct cmm_req id = { .op = CMM_CREATE_ID, .create = { .ps = CM_PS_TCP, .cookie = 1 } };
	static int fd[SESSIONS];

	for (unsigned i = 0; i < SESSIONS; i++) {
		fd[i] = hail();
		ck_assert(say(fd[i], &open, cmm_req_len(open.op), NULL, 0, 0));
		hear_all(fd[i], 1);
	}
	note_set(OPEN, 1);
	note_wait(STOPPED, 1);
	for (unsigned i = 0; i < SESSIONS; i++)
		for (unsigned k = 0; k < EACH; k++)
			ck_assert(say(fd[i], &id, cmm_req_len(id.op), NULL, 0, MSG_DONTWAIT));
	note_set(ASKED, 1);
	for (unsigned i = 0; i < SESSIONS; i++)
		hear_all(fd[i], EACH);
	note_set(SERVED, 1);
}

static long ids_of(json_t *j, uid_t uid)
{
	json_t *u;
	size_t i;

	json_array_foreach(json_object_get(j, "users"), i, u)
	{
		if (json_integer_value(json_object_get(u, "uid")) == (json_int_t)uid)
			return (long)json_integer_value(json_object_get(json_object_get(u, "use"), "cm-ids"));
	}
	return -1;
}

START_TEST(sessions)
{
	struct msg_req ask = { .op = MSG_DUMP, .dump = { .what = DUMP_USERS } };
	int fd, fds[CALL_FDS];
	struct msg_rep rep;
	siginfo_t stop;
	pid_t user;
	json_t *j;
	long ids;

	stage_open("--shards=1");
	fd = hail();
	user = part_begin(UID_ATTACKER, crowd, NULL);
	note_wait(OPEN, 1);
	ck_assert_int_eq(kill(daemon_process(), SIGSTOP), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)daemon_process(), &stop, WSTOPPED), 0);
	note_set(STOPPED, 1);
	note_wait(ASKED, 1);
	ck_assert(say(fd, &ask, msg_req_len(ask.op), NULL, 0, 0));
	ck_assert_int_eq(kill(daemon_process(), SIGCONT), 0);
	ck_assert(hear(fd, &rep, fds));
	ck_assert_int_eq(rep.err, 0);
	j = dump_read(fds[0]);
	ids = ids_of(j, UID_ATTACKER);
	json_decref(j);
	ck_assert_msg(ids >= 0 && ids <= (long)BEFORE, "%ld requests of one user came before another one's, %u may",
		      ids, BEFORE);
	note_wait(SERVED, 1); /* and all of his are served */
	part_end(user);
	close(fd);
	stage_goes_on(20);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: turns", sessions)
