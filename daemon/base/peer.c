/* SPDX-License-Identifier: MIT */
/* peer.c - opening a client's memory with the client's rights, not with ours. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#define CAP_WORDS 2 /* of _LINUX_CAPABILITY_VERSION_3 */

/* The calling thread alone gives up, or takes back, its right to trace every process. */
static int trace_all(bool on)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[CAP_WORDS];
	uint32_t bit = CAP_TO_MASK(CAP_SYS_PTRACE);

	if (syscall(SYS_capget, &head, data))
		return errno;
	if (on)
		data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective |= bit & data[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted;
	else
		data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~bit;
	return syscall(SYS_capset, &head, data) ? errno : 0;
}

static int mem_open(const char *path, uid_t uid, gid_t gid)
{
	uid_t our_uid = (uid_t)setfsuid((uid_t)-1);
	gid_t our_gid = (gid_t)setfsgid((gid_t)-1);
	int fd;

	setfsgid(gid);
	setfsuid(uid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	setfsuid(our_uid);
	setfsgid(our_gid);
	return fd;
}

int peer_open(struct peer *p, pid_t pid, uid_t uid, gid_t gid)
{
	char path[64];
	int err;

	*p = (struct peer){ .pid = pid, .mem_fd = -1 };
	if (geteuid() != 0 || uid == 0 || pid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	err = trace_all(false);
	if (err)
		return err;
	p->mem_fd = mem_open(path, uid, gid);
	err = trace_all(true);
	if (p->mem_fd < 0) {
		err = p->mem_fd == -EACCES ? EPERM : -p->mem_fd;
		p->mem_fd = -1;
	}
	return err;
}

void peer_close(struct peer *p)
{
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	p->mem_fd = -1;
}

int peer_make(struct peer **out, pid_t pid, uid_t uid, gid_t gid)
{
	struct peer *p = malloc(sizeof(*p));
	int err = p ? peer_open(p, pid, uid, gid) : ENOMEM;

	if (err) {
		free(p);
		return err;
	}
	p->users = 1;
	*out = p;
	return 0;
}

struct peer *peer_take(struct peer *p)
{
	p->users++;
	return p;
}

void peer_drop(struct peer *p)
{
	if (!p || --p->users)
		return;
	peer_close(p);
	free(p);
}
