/* SPDX-License-Identifier: MIT */
/*
 * net.c - the sockets of a shard and the GIDs that they stand for.
 *
 * A socket is bound to one address, so a packet's addresses are known without asking; it is not
 * connected, and path MTU discovery is PROBE: then the kernel sets DF and writes identification 0,
 * which the ICRC needs to know (protocol section 2.1).
 *
 * With several shards the sockets of an address form a reuseport group, and a classic BPF
 * program picks the one whose number is in the low bits of the destination QPN.
 */
#include "net_priv.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "log.h"

#define RCVBUF		(32 << 20)	/* RC has its window; UC and UD messages wait here while this thread has no core */
#define SNDBUF		(4 << 20)
#define WINDOW_MIN	(64u << 10)
#define WINDOW_MAX	(1u << 20)	/* more does not fill the wire better, and leaves the cache */
#define HOT_NS		200000u

/* ---- GIDs ---------------------------------------------------------------- */

static unsigned gid_hash(const uint8_t gid[16])
{
	uint64_t a, b;

	memcpy(&a, gid, 8);
	memcpy(&b, gid + 8, 8);
	return (unsigned)(((a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u) >> 40) & (GIDS_HASH - 1);
}

const struct gid_slot *net_gid_find(const struct net *net, const uint8_t gid[16])
{
	unsigned i = gid_hash(gid);

	for (; net->gids[i].dev; i = (i + 1) & (GIDS_HASH - 1))
		if (!memcmp(net->gids[i].gid, gid, 16))
			return &net->gids[i];
	return NULL;
}

struct device *net_device(const struct net *net, const uint8_t gid[16])
{
	const struct gid_slot *g = net_gid_find(net, gid);

	return g ? g->dev : NULL;
}

static bool gid_is_empty(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return !memcmp(gid, zero, 16);
}

/* A GID that two rows have is that of the one with a socket. */
static void gid_insert(struct net *net, struct device *dev, unsigned row)
{
	struct net_sock *sock = net->by_slot[dev->index * RDMAD_GIDS + row];
	const uint8_t *gid = dev->gid[row].gid;
	unsigned i = gid_hash(gid);

	while (net->gids[i].dev && memcmp(net->gids[i].gid, gid, 16))
		i = (i + 1) & (GIDS_HASH - 1);
	if (net->gids[i].sock)
		return;
	memcpy(net->gids[i].gid, gid, 16);
	net->gids[i].dev = dev;
	net->gids[i].sock = sock;
}

static void gids_rebuild(struct net *net)
{
	memset(net->gids, 0, sizeof(net->gids));
	for (unsigned d = 0; d < devices_n; d++)
		for (unsigned row = 0; row < RDMAD_GIDS; row++)
			if (!gid_is_empty(devices[d].gid[row].gid))
				gid_insert(net, &devices[d], row);
}

/* ---- sockets ------------------------------------------------------------- */

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? errno : 0;
}

uint32_t net_rcvbuf = RCVBUF;

/* Beyond net.core.[rw]mem_max for those who may. */
static void buffers_set(int fd)
{
	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)net_rcvbuf))
		set(fd, SOL_SOCKET, SO_RCVBUF, (int)net_rcvbuf);
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, SNDBUF))
		set(fd, SOL_SOCKET, SO_SNDBUF, SNDBUF);
}

uint32_t net_room(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 0;
	socklen_t len = sizeof(room);

	if (fd < 0)
		return 2 * WINDOW_MIN;
	buffers_set(fd);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len);
	close(fd);
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

/*
 * A GSO send needs the UDP checksum (the kernel refuses UDP_SEGMENT without), so only sockets that do
 * without GSO leave it out as other RoCE senders do.
 */
int sock_options(const struct net *net, const struct net_sock *s)
{
	int err = 0;

	buffers_set(s->fd);
	set(s->fd, SOL_UDP, UDP_GRO, 1);
	if (shards_n > 1 && !s->group)
		err = set(s->fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (s->ipv6) {
		err = err ? err : set(s->fd, SOL_IPV6, IPV6_V6ONLY, 1);
		err = err ? err : set(s->fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
		set(s->fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
		set(s->fd, SOL_IPV6, IPV6_UNICAST_HOPS, NET_TTL);
		set(s->fd, SOL_IPV6, IPV6_MULTICAST_HOPS, NET_TTL);
		set(s->fd, SOL_IPV6, IPV6_MULTICAST_IF, (int)s->ifindex);
		set(s->fd, SOL_IPV6, IPV6_RECVTCLASS, 1);
		set(s->fd, SOL_IPV6, IPV6_RECVHOPLIMIT, 1);
	} else {
		err = err ? err : set(s->fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
		set(s->fd, SOL_IP, IP_TTL, NET_TTL);
		set(s->fd, SOL_IP, IP_MULTICAST_TTL, NET_TTL);
		set(s->fd, SOL_IP, IP_RECVTOS, 1);
		set(s->fd, SOL_IP, IP_RECVTTL, 1);
		if (!net->gso4)
			set(s->fd, SOL_SOCKET, SO_NO_CHECK, 1);
	}
	return err;
}

static int sock_bind(const struct net_sock *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };

	if (!s->ipv6) {
		memcpy(&in.sin_addr, s->gid + 12, 4);
		return bind(s->fd, (struct sockaddr *)&in, sizeof(in)) < 0 ? errno : 0;
	}
	memcpy(&in6.sin6_addr, s->gid, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = s->ifindex;
	return bind(s->fd, (struct sockaddr *)&in6, sizeof(in6)) < 0 ? errno : 0;
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

static int sock_open(struct net *net, struct device *dev, unsigned row)
{
	struct net_sock *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return ENOMEM;
	s->slot = dev->index * RDMAD_GIDS + row;
	s->dev = dev;
	s->row = row;
	memcpy(s->gid, dev->gid[row].gid, 16);
	s->ifindex = dev->gid[row].ifindex;
	s->ipv6 = !gid_is_v4(s->gid);
	s->fd = socket(s->ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = s->fd < 0 ? errno : sock_options(net, s);
	if (!err)
		err = sock_bind(s);
	if (!err && shards_n > 1 && net->shard->index == 0)
		err = steer(s->fd);
	if (!err)
		err = sock_add(net, s);
	if (err)
		sock_close(net, s);
	return err;
}

/*
 * Between devices of one shard a burst is handed over and cannot get lost.  With several shards the peer QP may
 * be another's, reached through UDP: there the window stays.
 */
static void hcas_tell(struct net *net, const uint8_t gid[16], bool local)
{
	for (unsigned d = 0; d < devices_n && shards_n == 1; d++)
		hca_local_set(net->shard->hca[d], gid, local);
}

int net_row_set(struct net *net, struct device *dev, unsigned row)
{
	struct gid_row *r = &dev->gid[row];
	struct net_sock *s = net->by_slot[dev->index * RDMAD_GIDS + row];
	struct hca *hca = net->shard->hca[dev->index];
	int err = 0;

	if (s && (!r->wire || memcmp(s->gid, r->gid, 16) || s->ifindex != r->ifindex)) {
		hcas_tell(net, s->gid, false);
		sock_close(net, s);
		s = NULL;
	}
	if (gid_is_empty(r->gid)) {
		hca_gid_set(hca, row, NULL);
	} else {
		if (r->wire && !s)
			err = sock_open(net, dev, row);
		hca_gid_set(hca, row, r->gid);
	}
	gids_rebuild(net);
	if (!gid_is_empty(r->gid))
		hcas_tell(net, r->gid, true);
	return err;
}

/* ---- all of them --------------------------------------------------------- */

bool net_rx(struct net *net, bool all, mono_t now)
{
	bool any = false;

	for (unsigned i = 0; i < net->sock_n; i++) {
		if (!all && mono_reached(now, net->sock[i]->hot_until))
			continue;
		if (sock_rx(net, net->sock[i], now)) {
			net->sock[i]->hot_until = mono_add(now, HOT_NS);
			any = true;
		}
	}
	return any;
}

bool net_hot(const struct net *net, mono_t now)
{
	for (unsigned i = 0; i < net->sock_n; i++)
		if (mono_before(now, net->sock[i]->hot_until))
			return true;
	return false;
}

void net_ready(struct net *net, unsigned slot)
{
	struct net_sock *s = slot < NET_SOCKS ? net->by_slot[slot] : NULL;

	if (!s)
		return;
	s->hot_until = mono_add(shard_now(), HOT_NS);
	net_tx_writable(net, s);
}

int net_new(struct net **out, struct shard *shard, struct io *io)
{
	struct net *net;

	if (posix_memalign((void **)&net, 64, sizeof(*net)))
		return ENOMEM;
	memset(net, 0, sizeof(*net));
	net->shard = shard;
	net->io = io;
	net->gso4 = id_rule_holds();
	icrc_rx_init(&net->icrc);
	net_tx_init(net);
	*out = net;
	return 0;
}

void net_free(struct net *net)
{
	if (!net)
		return;
	net_groups_free(net);
	while (net->sock_n)
		sock_close(net, net->sock[0]);
	free(net);
}
