/* SPDX-License-Identifier: MIT */
#include "fuse.h"

#include "t/suite.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage.h"

#define FILE_LEN 65536

static int dev; /* /dev/fuse */

static void answer(uint64_t unique, int err, const void *p, size_t len)
{
	struct {
		struct fuse_out_header h;
		char data[256];
	} out = { .h = { .len = (uint32_t)(sizeof(out.h) + len), .error = err, .unique = unique } };

	if (len)
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
	case FUSE_FLUSH: /* of the user's own processes, so that they can end; of others none */
		if (h->uid == UID_ATTACKER)
			answer(h->unique, 0, NULL, 0);
		else
			note_set(2, note->n[2] + 1);
		break;
	case FUSE_READ: note_set(4, note->n[4] + 1); break;
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
int fuse_file(void)
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
bool fuse_is_here(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(fuse_mount() ? 0 : 1);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}
