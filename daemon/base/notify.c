/* SPDX-License-Identifier: MIT */
/* notify.c - a datagram for each state. */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "log.h"

static int notify_fd = -1;

/* A path, or @ and the name of an abstract socket; 0 or errno. */
static int connect_to(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int err = 0;

	if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(sa.sun_path))
		return EINVAL;
	memcpy(sa.sun_path, name, len);
	if (name[0] == '@')
		sa.sun_path[0] = '\0';
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (notify_fd < 0)
		return errno;
	if (connect(notify_fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))) {
		err = errno;
		close(notify_fd);
		notify_fd = -1;
	}
	return err;
}

void notify_begin(bool private)
{
	const char *name = private ? NULL : getenv("NOTIFY_SOCKET");
	int err = name ? connect_to(name) : 0;

	if (err)
		log_warn("NOTIFY_SOCKET=%s cannot be told that the daemon is ready: %s", name, strerror(err));
	unsetenv("NOTIFY_SOCKET");
}

static void tell(const char *text)
{
	if (notify_fd >= 0 && send(notify_fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		log_info("the service manager does not listen: %s", strerror(errno));
}

void notify_ready(const char *status)
{
	char text[256];

	snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
	tell(text);
}

void notify_reloading(void)
{
	char text[96];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=reads its configuration",
		 clock_ns(CLOCK_MONOTONIC) / 1000);
	tell(text);
}

void notify_stopping(void) { tell("STOPPING=1\nSTATUS=ends"); }
