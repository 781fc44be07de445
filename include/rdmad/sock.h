/* SPDX-License-Identifier: MIT */
/*
 * sock.h - the address of the daemon's socket, a connection to a daemon that may be trusted, and a request on it (msg.h has the rules).
 */
#ifndef RDMAD_SOCK_H
#define RDMAD_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rdmad/msg.h>

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

/* Is it the system's socket, where root has given the place to this user?  Then the daemon of a service listens there. */
static inline int sock_is_systems(const char *name, uid_t uid)
{
	const mode_t others = S_IWGRP | S_IWOTH;
	struct stat dir, above;

	return !strcmp(name, RDMAD_SYSTEM_SOCKET) && !stat(RDMAD_SYSTEM_DIR, &dir) &&
	       !stat(RDMAD_SYSTEM_DIR "/..", &above) && dir.st_uid == uid && !(dir.st_mode & others) &&
	       above.st_uid == 0 && !(above.st_mode & others);
}

/* Where many wait to be let in so does connect(), and a stop of ours (Ctrl-Z) may end it: then nothing has come of it yet. */
static inline int sock_enter(int fd, const struct sockaddr_un *sa, socklen_t len, bool again)
{
	int ret;

	do
		ret = connect(fd, (const struct sockaddr *)sa, len);
	while (ret && errno == EINTR && again);
	return ret;
}

/*
 * A connected socket, or -errno.  who: the process behind it.  -EPERM, with who set: it belongs to neither root nor
 * us, and it is not the system's; an abstract name can be taken by anyone in the namespace.  patience_s: of each call on the socket; 0: no bound, and -EINTR.
 */
static inline int sock_connect(const char *name, unsigned patience_s, struct ucred *who)
{
	const struct timeval patience = { .tv_sec = patience_s };
	struct sockaddr_un sa;
	socklen_t len = sock_addr(name, &sa), who_len = sizeof(*who);
	int fd, err = 0;

	if (!len)
		return *name ? -ENAMETOOLONG : -EINVAL;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (patience_s && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
			   setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience))))
		err = errno;
	else if (sock_enter(fd, &sa, len, patience_s) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &who_len))
		err = errno == EPERM ? EACCES : errno;
	else if (who->uid != 0 && who->uid != geteuid() && !sock_is_systems(name, who->uid))
		err = EPERM;
	if (!err)
		return fd;
	close(fd);
	return -err;
}

#define SOCK_FDS 4u

/* sendmsg(), whatever signals come: it does not wait long. */
static inline ssize_t sock_say(int fd, const struct msghdr *mh)
{
	ssize_t n;

	do
		n = sendmsg(fd, mh, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

static inline bool sock_is_limited(int fd)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);

	return !getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &len) && (t.tv_sec || t.tv_usec);
}

/* Of a connection that the daemon has ended, with what we said unread or before we said it: what it said before can still be read. */
static inline bool sock_is_over(int err) { return err == EPIPE || err == ECONNRESET; }

/*
 * recvmsg().  Where the socket has a limit of time the kernel ends it with EINTR for who was stopped meanwhile (Ctrl-Z, a debugger):
 * the time begins anew then.  Where it has none it is a signal that the caller wants to hear of, or else wait for ever.  That the
 * connection is over comes before the last words, once.
 */
static inline ssize_t sock_hear(int fd, struct msghdr *mh)
{
	bool over = false, again;
	ssize_t n;

	do {
		n = recvmsg(fd, mh, MSG_CMSG_CLOEXEC);
		again = n < 0 && ((errno == EINTR && sock_is_limited(fd)) || (sock_is_over(errno) && !over));
		over = over || (n < 0 && sock_is_over(errno));
	} while (again);
	return n;
}

/*
 * The whole of an answer: the bytes received, or -1 and errno.  fds: the n (SOCK_FDS at most) first descriptors that came with it,
 * the caller's to close, -1 where none came; further ones are closed.
 */
static inline ssize_t sock_take_fds(int fd, void *rep, size_t rep_len, int *fds, unsigned n)
{
	struct iovec iov = { rep, rep_len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(SOCK_FDS * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;
	ssize_t got = sock_hear(fd, &mh);
	int one;

	for (unsigned i = 0; i < n; i++)
		fds[i] = -1;
	cm = got > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	if (!cm || cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
		return got;
	for (unsigned i = 0; i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
		memcpy(&one, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
		if (i < n)
			fds[i] = one;
		else
			close(one);
	}
	return got;
}

/* A request; false: nothing will be heard of it. */
static inline bool sock_request(int fd, const void *req, size_t req_len)
{
	struct iovec out = { .iov_base = (void *)(uintptr_t)req, .iov_len = req_len };

	return sock_say(fd, &(struct msghdr){ .msg_iov = &out, .msg_iovlen = 1 }) >= 0 || sock_is_over(errno);
}

/* A request and its answer, with one descriptor, or NULL. */
static inline ssize_t sock_swap(int fd, const void *req, size_t req_len, void *rep, size_t rep_len, int *fd_back)
{
	if (fd_back)
		*fd_back = -1;
	return sock_request(fd, req, req_len) ? sock_take_fds(fd, rep, rep_len, fd_back, fd_back ? 1 : 0) : -1;
}

/* sock_swap() with a descriptor that goes with the request (-1: none) and none that comes back. */
static inline ssize_t sock_swap_fd(int fd, const void *req, size_t req_len, int with, void *rep, size_t rep_len)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)req, .iov_len = req_len }, in = { rep, rep_len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { .align = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};

	if (with < 0)
		return sock_swap(fd, req, req_len, rep, rep_len, NULL);
	memcpy(CMSG_DATA(&ctl.align), &with, sizeof(with));
	if (sock_say(fd, &mh) < 0)
		return -1;
	return sock_hear(fd, &(struct msghdr){ .msg_iov = &in, .msg_iovlen = 1 });
}

#endif
