/* SPDX-License-Identifier: MIT */
/* net_refusal.c - the error queues of the sockets that send. */
#include "net_refusal.h"

#include <errno.h>
#include <string.h>

#include <rdmad/icmp.h>

#include "../../proto/bytes.h"
#include "../../proto/hdr.h"
#include "../../proto/opcode.h"
#include "../base/clock.h"
#include "net_gid.h"
#include "net_priv.h"

#define HDRS_LEN ((size_t)BTH_LEN + DETH_LEN)
#define READ_MAX 64u /* in one go: anybody can make more */

void refusal_wanted(int fd, bool ipv6)
{
	const int on = 1;

	/* Where it cannot be had nothing is said. */
	setsockopt(fd, ipv6 ? SOL_IPV6 : SOL_IP, ipv6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
}

static void gid_put_v4(uint8_t gid[16], const struct in_addr *a)
{
	memcpy(gid, gid_v4_prefix, GID_V4_AT);
	memcpy(gid + GID_V4_AT, a, 4);
}

static void gid_of(uint8_t gid[16], const struct sockaddr *sa)
{
	memset(gid, 0, 16);
	if (sa->sa_family == AF_INET6)
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	else if (sa->sa_family == AF_INET)
		gid_put_v4(gid, &((const struct sockaddr_in *)(const void *)sa)->sin_addr);
}

/* NULL: there is none of that peer. */
static struct refusal *known(struct net *net, const uint8_t dgid[16], uint32_t dqpn)
{
	for (unsigned i = 0; i < REFUSALS; i++) {
		struct refusal *r = &net->refusals[i];

		if (r->err && gid_same(r->dgid, dgid) && r->dqpn == dqpn)
			return r;
	}
	return NULL;
}

static struct refusal *oldest(struct net *net)
{
	struct refusal *r = &net->refusals[0];

	for (unsigned i = 1; i < REFUSALS; i++)
		if (mono_before(net->refusals[i].at, r->at))
			r = &net->refusals[i];
	return r;
}

static void datagram_refused(const struct net *net, const struct net_sock *s, const struct refusal *r, uint32_t sqpn)
{
	struct route way = { 0 };

	memcpy(way.sgid, s->gid, 16);
	memcpy(way.dgid, r->dgid, 16);
	hca_refused(net->shard->hca[s->dev->index], sqpn, &way, r->dqpn, r->at);
}

/* false: the call itself has failed with it.  hdrs: len bytes of the packet. */
static bool note(struct net *net, const struct net_sock *s, const struct sock_extended_err *e,
		 const struct sockaddr *to, const uint8_t *hdrs, size_t len)
{
	struct refusal r = { .err = (int)e->ee_errno, .at = clock_now() }, *old;

	if (!icmp_is(e))
		return false;
	if (len >= BTH_LEN)
		r.dqpn = be24_get(hdrs + BTH_DQPN);
	gid_of(r.dgid, to);
	gid_of(r.by, SO_EE_OFFENDER(e));
	r.here = net_gid_find(net, r.by);
	r.prohibited = icmp_prohibits(e) || (r.err == ECONNREFUSED && !r.here && !gid_same(r.by, r.dgid));
	if (r.err == EMSGSIZE)
		r.mtu = e->ee_info;
	old = known(net, r.dgid, r.dqpn);
	*(old ? old : oldest(net)) = r;
	if (len == HDRS_LEN && SVC_OF(hdrs[BTH_OPCODE]) == SVC_UD)
		datagram_refused(net, s, &r, be24_get(hdrs + BTH_LEN + DETH_SQPN));
	return true;
}

/* false: there was none; *n: of ICMP messages. */
static bool read_one(struct net *net, const struct net_sock *s, int fd, unsigned *n)
{
	_Alignas(struct cmsghdr) uint8_t cmsg[512];
	union {
		struct sockaddr sa;
		struct sockaddr_in6 in6;
	} to = { 0 };
	uint8_t hdrs[HDRS_LEN];
	struct iovec iov = { hdrs, sizeof(hdrs) };
	ssize_t len;
	struct msghdr msg = { .msg_name = &to,
			      .msg_namelen = sizeof(to),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = cmsg,
			      .msg_controllen = sizeof(cmsg) };

	len = recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (len < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR))
			*n += note(net, s, (const void *)CMSG_DATA(c), &to.sa, hdrs, (size_t)len);
	return true;
}

bool refusals_read(struct net *net, const struct net_sock *s, const struct net_out *o)
{
	unsigned n = 0;

	if (o->fd == s->fd) /* receives, too, and is told nothing */
		return false;
	for (unsigned i = 0; i < READ_MAX && read_one(net, s, o->fd, &n); i++)
		;
	return n;
}

static void all_read(struct net *net, const struct net_sock *s)
{
	for (unsigned i = 0; i < s->out_n; i++)
		refusals_read(net, s, &s->out[i]);
}

void refusals_look(struct net *net)
{
	for (unsigned i = 0; i < net->sock_n; i++)
		all_read(net, net->sock[i]);
}

bool refusal_find(struct net *net, const uint8_t sgid[16], const uint8_t dgid[16], uint32_t dqpn, mono_t since,
		  struct refusal *found)
{
	const struct gid_slot *from = net_gid_find(net, sgid);
	const struct net_sock *s = from ? from->sock : NULL;
	const struct refusal *r;

	if (s)
		all_read(net, s);
	r = known(net, dgid, dqpn);
	r = r ? r : known(net, dgid, 0);
	if (!r || mono_before(r->at, since))
		return false;
	*found = *r;
	return true;
}
