/* SPDX-License-Identifier: MIT */
/*
 * net_out.c - source ports: a few sockets for each GID, which only send.
 *
 * The flow of a packet (proto/entropy.h) decides by which of them it goes, so packets of two queue pairs can take different
 * ways, and those of one do not overtake each other.  They are bound without SO_REUSEPORT: while they are, nobody else on the
 * host sends from these ports of the address.  Answers go to port 4791, so what comes in here is nothing of ours: a filter drops
 * it before it takes memory.
 *
 *	shard 0: 0xc000 ... 0xc000 + n - 1	shard 1: 0xc000 + n ...		those that are taken are skipped
 */
#include "net_out.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../proto/entropy.h"
#include "../base/conf.h"
#include "../base/log.h"
#include "net_refusal.h"
#include "net_sock.h"
#include "spare.h"

#define SKIPS_MAX 256u /* ports that others have */

unsigned net_ports = CONF_PORTS;

static unsigned opened; /* of all shards */

static bool fd_may(void)
{
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_NOFILE, &lim);
	if (__atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED) <= lim.rlim_cur / NET_FDS_PART)
		return true;
	__atomic_sub_fetch(&opened, 1, __ATOMIC_RELAXED);
	return false;
}

/* Nothing is received. */
static int deaf(int fd)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	struct sock_fprog prog = { .len = 1, .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? errno : 0;
}

/* A port from *port on, which goes to the next one.  0 or errno. */
static int out_bind(const struct net_sock *s, int fd, unsigned *port, unsigned end)
{
	int err = EADDRINUSE;

	while (err == EADDRINUSE && *port < end)
		err = sock_bind(s, fd, (uint16_t)(*port)++);
	return err;
}

static int out_open(const struct net *net, struct net_sock *s, unsigned *port, unsigned end)
{
	struct net_out *o = &s->out[s->out_n];
	int err = 0;

	if (!fd_may())
		return EMFILE;
	*o = (struct net_out){ .fd = spare_take(s->ipv6, false), .slot = SEND_SLOT };
	if (o->fd < 0)
		err = errno;
	err = err ? err : sock_options_out(net, s, o->fd);
	err = err ? err : deaf(o->fd);
	refusal_wanted(o->fd, s->ipv6);
	err = err ? err : out_bind(s, o->fd, port, end);
	if (!err) {
		o->port = (uint16_t)(*port - 1);
		s->out_n++;
		return 0;
	}
	if (o->fd >= 0)
		close(o->fd);
	__atomic_sub_fetch(&opened, 1, __ATOMIC_RELAXED);
	return err;
}

/* Once for the daemon: what one address lacks, all do, or it is seen which one by the ports. */
static void tell(const struct net_sock *s, int err)
{
	static bool told;
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(s->ipv6 ? AF_INET6 : AF_INET, s->ipv6 ? s->gid : s->gid + 12, text, sizeof(text));
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		log_warn("no UDP source port from %u on can be had at %s (%s): its packets go from port %u",
			 ENTROPY_PORT, text, strerror(err), ROCE_PORT);
}

int net_out_open(const struct net *net, struct net_sock *s)
{
	unsigned port = ENTROPY_PORT + net->shard->index * net_ports, end = port + net_ports + SKIPS_MAX;
	int err = 0;

	s->out = calloc(net_ports ? net_ports : 1, sizeof(*s->out));
	if (!s->out)
		return ENOMEM;
	while (!err && s->out_n < net_ports)
		err = out_open(net, s, &port, end);
	if (s->out_n)
		return 0;
	if (err)
		tell(s, err);
	s->out[s->out_n++] = (struct net_out){ .fd = s->fd, .port = ROCE_PORT, .slot = s->slot };
	return 0;
}

void net_out_close(struct net_sock *s)
{
	for (unsigned i = 0; i < s->out_n; i++) {
		if (s->out[i].slot != SEND_SLOT)
			continue;
		close(s->out[i].fd);
		__atomic_sub_fetch(&opened, 1, __ATOMIC_RELAXED);
	}
	free(s->out);
	s->out = NULL;
	s->out_n = 0;
}

unsigned net_out_of(const struct net_sock *s, uint32_t flow_label, uint32_t sqpn, uint32_t dqpn)
{
	return s->out_n > 1 ? entropy(flow_label, sqpn, dqpn) * s->out_n >> ENTROPY_BITS : 0;
}

unsigned net_out_at(const struct net_sock *s, uint16_t port)
{
	unsigned i = 0;

	while (i < s->out_n && s->out[i].port != port)
		i++;
	return i;
}

uint32_t net_out_label(const struct net_sock *s, const struct net_out *o, uint32_t flow_label)
{
	if (!s->ipv6 || s->unlabelled)
		return 0;
	if (flow_label)
		return flow_label & 0xfffff;
	return o->slot == SEND_SLOT && !s->bare ? o->port : 0;
}
