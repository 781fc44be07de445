/* SPDX-License-Identifier: MIT */
/*
 * fds.c - descriptors that a message has no room for, and files of a FUSE server that never answers.
 */
#include <check.h>

#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LEN 65536

static int dev; /* /dev/fuse */

/* ---- the server: it opens its one file, and answers nothing that comes later ------------------------- */

static void answer(uint64_t unique, int err, const void *p, size_t len)
{
	struct {
		struct fuse_out_header h;
		char data[256];
	} out = { .h = { .len = (uint32_t)(sizeof(out.h) + len), .error = err, .unique = unique } };

	memcpy(out.data, p, len);
	ck_assert_int_eq(write(dev, &out, out.h.len), out.h.len);
}

static struct fuse_attr attr_of(uint64_t ino)
{
	bool root = ino == FUSE_ROOT_ID;

	return (struct fuse_attr){
		.ino = ino, .size = root ? 0 : FILE_LEN, .mode = root ? S_IFDIR | 0755 : S_IFREG | 0666, .nlink = 1
	};
}

static void serve_one(const struct fuse_in_header *h)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = FILE_LEN };
	struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 1000, .entry_valid = 1000, .attr = attr_of(2) };
	struct fuse_attr_out attr = { .attr_valid = 1000, .attr = attr_of(h->nodeid) };
	struct fuse_open_out open = { .fh = 1 };

	switch (h->opcode) {
	case FUSE_INIT: answer(h->unique, 0, &init, sizeof(init)); break;
	case FUSE_LOOKUP: answer(h->unique, 0, &entry, sizeof(entry)); break;
	case FUSE_GETATTR: answer(h->unique, 0, &attr, sizeof(attr)); break;
	case FUSE_OPEN: answer(h->unique, 0, &open, sizeof(open)); break;
	case FUSE_FLUSH: note_set(2, note->n[2] + 1); break;
	default: break;
	}
}

static void serve(void)
{
	static char buf[1 << 18];

	while (read(dev, buf, sizeof(buf)) > 0)
		serve_one((const void *)buf);
	_exit(0);
}

/* In a mount namespace of this process.  What the set-user-ID program fusermount does for any user: by root, in his name. */
static bool fuse_mount(void)
{
	char options[128];

	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (dev < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d", dev, UID_ATTACKER,
		 UID_ATTACKER);
	return !mount("hostile", "/mnt", "fuse", MS_NOSUID | MS_NODEV, options);
}

/* The server is a process of its own, without the file: one that has both, and is killed, waits for itself for ever. */
static int fuse_file(void)
{
	pid_t server;

	if (!fuse_mount())
		return -1;
	if (setresgid(UID_ATTACKER, UID_ATTACKER, UID_ATTACKER) || setresuid(UID_ATTACKER, UID_ATTACKER, UID_ATTACKER))
		return -1;
	prctl(PR_SET_DUMPABLE, 1);
	server = fork();
	if (!server)
		serve();
	close(dev);
	note_set(3, (uint32_t)server);
	return server < 0 ? -1 : open("/mnt/file", O_RDWR | O_CLOEXEC);
}

/* Asked in a child, whose mount goes with it. */
static bool fuse_is_here(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(fuse_mount() ? 0 : 1);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

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
