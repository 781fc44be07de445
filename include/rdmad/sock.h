/* SPDX-License-Identifier: MIT */
/*
 * sock.h - the address of the daemon's socket, and a connection to a daemon that may be trusted (msg.h has the rules).
 */
#ifndef RDMAD_SOCK_H
#define RDMAD_SOCK_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* A name is a path, or begins with @ and is abstract.  The length of the address; 0: it does not fit. */
static inline socklen_t sock_addr(const char *name, struct sockaddr_un *sa)
{
	size_t len = strlen(name);

	if (!len || len >= sizeof(sa->sun_path))
		return 0;
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path, name, len);
	if (name[0] == '@')
		sa->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] != '@'));
}

/*
 * A connected socket, or -errno.  who: the process behind it.  -EPERM, with who set: it belongs to neither root nor
 * us; an abstract name can be taken by anyone in the namespace.  patience_s: of each call on the socket, 0: no bound.
 */
static inline int sock_connect(const char *name, unsigned patience_s, struct ucred *who)
{
	const struct timeval patience = { .tv_sec = patience_s };
	struct sockaddr_un sa;
	socklen_t len = sock_addr(name, &sa), who_len = sizeof(*who);
	int fd, err = 0;

	if (!len)
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (patience_s && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
			   setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience))))
		err = errno;
	else if (connect(fd, (const struct sockaddr *)&sa, len) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &who_len))
		err = errno == EPERM ? EACCES : errno;
	else if (who->uid != 0 && who->uid != geteuid())
		err = EPERM;
	if (!err)
		return fd;
	close(fd);
	return -err;
}

#endif
