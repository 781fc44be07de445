/* SPDX-License-Identifier: MIT */
/*
 * fds.c - descriptors that a message has no room for, and files of a FUSE server that never answers.
 */
#include "t/suite.h"

#include "fuse.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

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

int main(void)
{
	if (fuse_is_here())
		return stage_main("hostile: descriptors", (const TTest *const[]){ fuse, kinds, NULL });
	printf("ok - fuse # SKIP no FUSE file system can be mounted here\n");
	return stage_main("hostile: descriptors", (const TTest *const[]){ kinds, NULL });
}
