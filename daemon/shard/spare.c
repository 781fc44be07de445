/* SPDX-License-Identifier: MIT */
/* spare.c - two stacks of sockets. */
#include "spare.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/log.h"

#define SNDBUF (4 << 20)

static struct {
	pthread_mutex_t lock;
	int *fd[2]; /* IPv4, IPv6 */
	unsigned n[2], max[2];
	bool made;
} spare = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool set(int fd, int name, int value) { return !setsockopt(fd, SOL_SOCKET, name, &value, sizeof(value)); }

/* The kernel counts twice what was asked for. */
static bool is_as_large(int fd, int name, int value)
{
	int now = 0;
	socklen_t len = sizeof(now);

	return !getsockopt(fd, SOL_SOCKET, name, &now, &len) && now / 2 >= value;
}

/* Beyond net.core.[rw]mem_max for those who may. */
void spare_buffers(int fd, uint32_t rcvbuf)
{
	if (!is_as_large(fd, SO_RCVBUF, (int)rcvbuf) && !set(fd, SO_RCVBUFFORCE, (int)rcvbuf))
		set(fd, SO_RCVBUF, (int)rcvbuf);
	if (!is_as_large(fd, SO_SNDBUF, SNDBUF) && !set(fd, SO_SNDBUFFORCE, SNDBUF))
		set(fd, SO_SNDBUF, SNDBUF);
}

static int udp(bool ipv6) { return socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

static void make(bool ipv6, unsigned n, uid_t uid, uint32_t rcvbuf)
{
	int fd;

	spare.fd[ipv6] = calloc(n, sizeof(int));
	if (!spare.fd[ipv6])
		return;
	spare.max[ipv6] = n;
	while (spare.n[ipv6] < n) {
		fd = udp(ipv6);
		if (fd < 0)
			break;
		spare_buffers(fd, rcvbuf);
		/* Shards share a port only with sockets of the same user. */
		if (uid != geteuid() && fchown(fd, uid, (gid_t)-1)) {
			close(fd);
			break;
		}
		spare.fd[ipv6][spare.n[ipv6]++] = fd;
	}
}

bool spare_may(uint32_t rcvbuf)
{
	int fd = udp(false);
	bool may = fd >= 0 && set(fd, SO_RCVBUFFORCE, (int)rcvbuf);

	if (fd >= 0)
		close(fd);
	return may;
}

void spare_begin(unsigned v4, unsigned v6, uid_t uid, uint32_t rcvbuf)
{
	spare.made = true;
	make(false, v4, uid, rcvbuf);
	make(true, v6, uid, rcvbuf);
}

void spare_end(void)
{
	for (unsigned i = 0; i < 2; i++) {
		while (spare.n[i])
			close(spare.fd[i][--spare.n[i]]);
		free(spare.fd[i]);
		spare.fd[i] = NULL;
	}
}

int spare_take(bool ipv6, bool receives)
{
	int fd = -1;

	pthread_mutex_lock(&spare.lock);
	if (spare.n[ipv6])
		fd = spare.fd[ipv6][--spare.n[ipv6]];
	pthread_mutex_unlock(&spare.lock);
	if (fd < 0 && spare.made && receives)
		log_warn(
			"no socket with a large buffer is left for a new address; restart rdmad to have it there, too");
	return fd >= 0 ? fd : udp(ipv6);
}

void spare_give(bool ipv6, int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	set(fd, SO_REUSEPORT, 0); /* the next one may want its port alone */
	connect(fd, &none,
		sizeof(none)); /* a link-local address that it could not have has tied it to that interface */
	pthread_mutex_lock(&spare.lock);
	if (spare.made && spare.fd[ipv6] && spare.n[ipv6] < spare.max[ipv6]) {
		spare.fd[ipv6][spare.n[ipv6]++] = fd;
		fd = -1;
	}
	pthread_mutex_unlock(&spare.lock);
	if (fd >= 0)
		close(fd);
}

unsigned spare_n(void) { return spare.n[0] + spare.n[1]; }
