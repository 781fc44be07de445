/* SPDX-License-Identifier: MIT */
/*
 * rs_stub.c - the names of rsockets: there are none yet, and each call says so (ENOSYS).
 */
#include "cma.h"

#include <rdma/rsocket.h>

#define NONE(type, name, ...)                                  \
	EXPORT type name(__VA_ARGS__)                          \
	{                                                      \
		errno = ENOSYS;                                \
		return (type)-1;                               \
	}

NONE(int, rsocket, int domain, int type, int protocol)
NONE(int, rbind, int fd, const struct sockaddr *addr, socklen_t len)
NONE(int, rlisten, int fd, int backlog)
NONE(int, raccept, int fd, struct sockaddr *addr, socklen_t *len)
NONE(int, rconnect, int fd, const struct sockaddr *addr, socklen_t len)
NONE(int, rshutdown, int fd, int how)
NONE(int, rclose, int fd)
NONE(ssize_t, rrecv, int fd, void *buf, size_t len, int flags)
NONE(ssize_t, rrecvfrom, int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
NONE(ssize_t, rrecvmsg, int fd, struct msghdr *msg, int flags)
NONE(ssize_t, rsend, int fd, const void *buf, size_t len, int flags)
NONE(ssize_t, rsendto, int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
NONE(ssize_t, rsendmsg, int fd, const struct msghdr *msg, int flags)
NONE(ssize_t, rread, int fd, void *buf, size_t len)
NONE(ssize_t, rreadv, int fd, const struct iovec *iov, int n)
NONE(ssize_t, rwrite, int fd, const void *buf, size_t len)
NONE(ssize_t, rwritev, int fd, const struct iovec *iov, int n)
NONE(int, rpoll, struct pollfd *fds, nfds_t n, int timeout)
NONE(int, rselect, int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
NONE(int, rgetpeername, int fd, struct sockaddr *addr, socklen_t *len)
NONE(int, rgetsockname, int fd, struct sockaddr *addr, socklen_t *len)
NONE(int, rsetsockopt, int fd, int level, int name, const void *val, socklen_t len)
NONE(int, rgetsockopt, int fd, int level, int name, void *val, socklen_t *len)
NONE(int, rfcntl, int fd, int cmd, ...)
NONE(off_t, riomap, int fd, void *buf, size_t len, int prot, int flags, off_t offset)
NONE(int, riounmap, int fd, void *buf, size_t len)
NONE(size_t, riowrite, int fd, const void *buf, size_t n, off_t offset, int flags)
