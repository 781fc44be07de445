/* SPDX-License-Identifier: MIT */
/*
 * net_sock.c - sockets come and go.  Those that only send are net_out.c's.
 *
 * A socket is bound to one address, so a packet's addresses are known without asking; it is not
 * connected, and path MTU discovery is PROBE: then the kernel sets DF and writes identification 0,
 * which the ICRC needs to know (protocol section 2.1).
 *
 * With several shards the sockets of an address form a reuseport group, and a classic BPF
 * program picks the one whose number is in the low bits of the destination QPN.
 */
#include "net_sock.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "net.h"
#include "net_out.h"
#include "net_tx.h"
#include "spare.h"

#define RCVBUF (32 << 20) /* RC has its window; UC and UD messages wait here while this thread has no core */
#ifndef IPV6_FLOWINFO_SEND
#define IPV6_FLOWINFO_SEND 33 /* linux/in6.h, which the C library's headers do not get along with */
#endif
#define WINDOW_MIN (64u << 10)
#define WINDOW_MAX (1u << 20) /* more does not fill the wire better, and leaves the cache */

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? errno : 0;
}

uint32_t net_rcvbuf = RCVBUF;

uint32_t net_room(void)
{
	static int room; /* what one socket has, all have */
	socklen_t len = sizeof(room);
	int fd;

	if (!room && (fd = spare_take(false, true)) >= 0) {
		spare_buffers(fd, net_rcvbuf);
		getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len);
		close(fd);
	}
	return room > 0 ? (uint32_t)room : 2 * WINDOW_MIN;
}

uint32_t net_window(uint32_t room)
{
	uint32_t window = room / 2;

	if (window < WINDOW_MIN)
		return WINDOW_MIN;
	return window < WINDOW_MAX ? window : WINDOW_MAX;
}

/* The socket of shard n is number n of its group.  QP 1 and multicast are shard 0's. */
static int steer(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MCAST),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QPN_MCAST, 2, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (1u << shard_bits()) - 1),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)) < 0 ? errno : 0;
}

/* A packet that is too long is to be told, not cut into fragments.  A network stack that cannot (gVisor's) cuts none that fit. */
static int uncut(int fd, int level, int name, int how)
{
	int err = set(fd, level, name, how);

	return err == EOPNOTSUPP ? 0 : err;
}

/*
 * A GSO send needs the UDP checksum (the kernel refuses UDP_SEGMENT without), so only sockets that do
 * without GSO leave it out as other RoCE senders do.
 */
int sock_options_out(const struct net *net, const struct net_sock *s, int fd)
{
	int err;

	spare_buffers(fd, net_rcvbuf);
	if (s->ipv6) {
		err = set(fd, SOL_IPV6, IPV6_V6ONLY, 1);
		err = err ? err : uncut(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
		set(fd, SOL_IPV6, IPV6_UNICAST_HOPS, NET_TTL);
		set(fd, SOL_IPV6, IPV6_MULTICAST_HOPS, NET_TTL);
		set(fd, SOL_IPV6, IPV6_MULTICAST_IF, (int)s->ifindex);
		set(fd, SOL_IPV6, IPV6_FLOWINFO_SEND, 1);
	} else {
		err = uncut(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
		set(fd, SOL_IP, IP_TTL, NET_TTL);
		set(fd, SOL_IP, IP_MULTICAST_TTL, NET_TTL);
		if (!net->gso4)
			set(fd, SOL_SOCKET, SO_NO_CHECK, 1);
	}
	return err;
}

/* It may have to send, too: net_out.c. */
int sock_options(const struct net *net, const struct net_sock *s)
{
	int err = sock_options_out(net, s, s->fd);

	set(s->fd, SOL_UDP, UDP_GRO, 1);
	if (!err && shards_n > 1 && !s->group)
		err = set(s->fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (s->ipv6) {
		set(s->fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
		set(s->fd, SOL_IPV6, IPV6_RECVTCLASS, 1);
		set(s->fd, SOL_IPV6, IPV6_RECVHOPLIMIT, 1);
	} else {
		set(s->fd, SOL_IP, IP_RECVTOS, 1);
		set(s->fd, SOL_IP, IP_RECVTTL, 1);
	}
	return err;
}

int sock_bind(const struct net_sock *s, int fd, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	if (!s->ipv6) {
		memcpy(&in.sin_addr, s->gid + 12, 4);
		return bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 ? errno : 0;
	}
	memcpy(&in6.sin6_addr, s->gid, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = s->ifindex;
	return bind(fd, (struct sockaddr *)&in6, sizeof(in6)) < 0 ? errno : 0;
}

void sock_close(struct net *net, struct net_sock *s)
{
	net_tx_drop(net, s);
	if (net->by_slot[s->slot] == s) {
		io_del(net->io, s->slot, s->fd);
		net->by_slot[s->slot] = NULL;
		for (unsigned i = 0; i < net->sock_n; i++)
			if (net->sock[i] == s)
				net->sock[i] = net->sock[--net->sock_n];
	}
	net_out_close(s);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

int sock_add(struct net *net, struct net_sock *s)
{
	int err = io_add(net->io, s->slot, s->fd);

	if (err)
		return err;
	net->by_slot[s->slot] = s;
	net->sock[net->sock_n++] = s;
	return 0;
}

int sock_open(struct net *net, struct device *dev, unsigned row)
{
	struct net_sock *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return ENOMEM;
	s->slot = dev->index * RDMAD_GIDS + row;
	s->dev = dev;
	memcpy(s->gid, dev->gid[row].gid, 16);
	s->ifindex = dev->gid[row].ifindex;
	s->ipv6 = !gid_is_v4(s->gid);
	s->fd = spare_take(s->ipv6, true);
	err = s->fd < 0 ? errno : sock_options(net, s);
	if (!err) {
		err = sock_bind(s, s->fd, ROCE_PORT);
		if (err) { /* it will be tried again */
			spare_give(s->ipv6, s->fd);
			s->fd = -1;
		}
	}
	if (!err && shards_n > 1 && net->shard->index == 0)
		err = steer(s->fd);
	if (!err)
		err = net_out_open(net, s);
	if (!err)
		err = sock_add(net, s);
	if (err)
		sock_close(net, s);
	return err;
}
