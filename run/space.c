/* SPDX-License-Identifier: MIT */
/* space.c - namespaces of our own: root may, others in a user namespace, if the machine lets them. */
#include "config.h"

#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static char why[160];

static const char *wrong(const char *fmt)
{
	snprintf(why, sizeof(why), fmt, strerror(errno));
	return why;
}

static bool line_write(const char *path, const char *fmt, unsigned id)
{
	char text[64];
	int fd = open(path, O_WRONLY | O_CLOEXEC), n = snprintf(text, sizeof(text), fmt, id, id);
	bool good = fd >= 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		close(fd);
	return good;
}

const char *space_new(int flags)
{
	unsigned uid = geteuid(), gid = getegid();

	if (!unshare(flags))
		return NULL;
	if (errno != EPERM || unshare(CLONE_NEWUSER | flags))
		return wrong("%s: that needs unprivileged user namespaces, or root");
	if (!line_write("/proc/self/setgroups", "deny", 0) || !line_write("/proc/self/uid_map", "%u %u 1", uid) ||
	    !line_write("/proc/self/gid_map", "%u %u 1", gid))
		return wrong("the user number cannot be kept in a user namespace: %s");
	return NULL;
}

const char *space_loopback(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &r);

	if (good) {
		r.ifr_flags |= IFF_UP | IFF_RUNNING;
		good = !ioctl(fd, SIOCSIFFLAGS, &r);
	}
	if (fd >= 0)
		close(fd);
	return good ? NULL : wrong("its loopback does not come up: %s");
}
