/* SPDX-License-Identifier: MIT */
/*
 * net_rx.c - from a socket to the HCAs.
 *
 *	recvmsg (UDP_GRO)	| pkt | pkt | pkt | pk |	equal sizes, the last may be shorter
 *	icrc_check, burst_parse	  b     b     b    b
 *	burst_join		 [----- burst ---] [--]		to hca_rx_burst()
 *
 * A packet that does not parse goes to hca_rx() alone, which knows how to count it.
 */
#include "net_rx.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "../../proto/hdr.h"
#include "inbox.h"
#include "net_late.h"
#include "net_priv.h"
#include "tap.h"

/*
 * What one turn takes from one socket: system calls, and bytes; then ACKs go out, so that the sender does not wait for all of his
 * window to be worked on.  RUNS_TURN is the third limit.
 */
#define READS_TURN 16u
#define READ_LEN   (192u << 10)

#define JOIN_PKTS 128u /* packets that the kernel couples together, at most */

/* A burst that grows. */
struct join {
	struct hca *hca; /* NULL: empty */
	bool open;       /* its message goes on: it may take another packet */
	struct burst b;
	const uint8_t *last; /* its last packet */
	struct span span[JOIN_PKTS];
};

static void join_end(struct join *j, mono_t now)
{
	if (j->hca)
		hca_rx_burst(j->hca, &j->b, now);
	j->hca = NULL;
	j->open = false;
}

/* Is a packet (without its ICRC) another shard's?  Then it is on its way there.  One to a group goes to all, and is ours, too. */
static bool pkt_forward(struct net *net, struct net_sock *s, const struct route *route, const uint8_t *data, size_t len)
{
	uint32_t qpn = be24_get(data + BTH_DQPN);
	unsigned owner = qpn_owner(qpn);

	if (owner != net->shard->index) {
		if (owner < shards_n && shards[owner])
			inbox_put(shards[owner], s->dev, route, data, len);
		return true;
	}
	for (unsigned i = 1; i < shards_n && qpn == QPN_MCAST; i++)
		if (shards[i])
			inbox_put(shards[i], s->dev, route, data, len);
	return false;
}

/* From one of our own addresses it must have come from one of our shards; its token goes. */
static bool source_ok(const struct net_sock *s, const uint8_t *data, size_t *len)
{
	uint64_t token;

	if (!s->sender->own)
		return true;
	if (*len < TOKEN_LEN)
		return false;
	*len -= TOKEN_LEN;
	memcpy(&token, data + *len, sizeof(token));
	return token == net_token;
}

/* The headers may be wrong, too: they are good for a hint. */
static void pkt_damaged(struct net *net, const struct net_sock *s, const struct route *route, const uint8_t *data,
			size_t len)
{
	struct burst *p = &net->pkt;
	struct span span;

	p->route = *route;
	hca_damaged(net->shard->hca[s->dev->index],
		    len > ICRC_LEN && !burst_parse(p, &span, data, len - ICRC_LEN) ? p : NULL);
}

static void pkt_rx(struct net *net, struct net_sock *s, struct join *j, const struct route *route, const uint8_t *data,
		   size_t len, mono_t now)
{
	struct hca *hca = net->shard->hca[s->dev->index];
	struct burst *p = &net->pkt;
	struct span span;
	uint16_t id;

	if (!source_ok(s, data, &len)) {
		hca_count(hca, HCA_STAT_BAD_SOURCE, 1);
		return;
	}
	if (!icrc_check(&net->icrc, &s->sender->flow, data, len, &id)) {
		pkt_damaged(net, s, route, data, len);
		return;
	}
	len -= ICRC_LEN;
	if (j->open && burst_continue(&j->b, j->last, data, len, j->span, JOIN_PKTS))
		return;
	if (shards_n > 1 && pkt_forward(net, s, route, data, len))
		return;
	p->route = *route;
	if (burst_parse(p, &span, data, len)) {
		join_end(j, now);
		hca_rx(hca, route, data, len, now);
		return;
	}
	if (j->open && burst_join(&j->b, p, j->span, JOIN_PKTS)) {
		j->last = data;
		j->open = burst_open(&j->b);
		return;
	}
	join_end(j, now);
	if (!burst_open(p)) { /* all of a small message: nothing will be coupled with it */
		hca_rx_burst(hca, p, now);
		return;
	}
	j->open = true;
	j->last = data;
	j->hca = hca;
	j->b = *p;
	j->span[0] = span;
	j->b.span = j->span;
}

/* The same, looked at one by one. */
static void pkt_rx_tap(struct net *net, struct net_sock *s, const struct route *route, const uint8_t *data, size_t len)
{
	struct tap_wire w = { .sport = s->sender->port };

	if (!source_ok(s, data, &len)) {
		hca_count(net->shard->hca[s->dev->index], HCA_STAT_BAD_SOURCE, 1);
		return;
	}
	w.good = icrc_check(&net->icrc, &s->sender->flow, data, len, &w.ip_id);
	if (!w.good)
		pkt_damaged(net, s, route, data, len);
	else if (shards_n > 1 && pkt_forward(net, s, route, data, len - ICRC_LEN))
		return;
	tap_rx(net->shard, s->dev, route, data, len, &w);
}

/* ---- one system call ------------------------------------------------------ */

static size_t cmsgs_read(struct msghdr *msg, struct route *route, size_t len)
{
	size_t seg = len;
	int v;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS) {
			route->tclass = *CMSG_DATA(c);
			continue;
		}
		if (c->cmsg_len < CMSG_LEN(sizeof(v)))
			continue;
		memcpy(&v, CMSG_DATA(c), sizeof(v));
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			seg = v > 0 ? (size_t)v : len;
		else if (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS)
			route->tclass = (uint8_t)v;
		else if ((c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) ||
			 (c->cmsg_level == SOL_IP && c->cmsg_type == IP_TTL))
			route->hop_limit = (uint8_t)v;
	}
	return seg;
}

static uint16_t sender_get(const struct net_sock *s, const struct sockaddr_storage *from, uint8_t gid[16])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

	if (s->ipv6) {
		memcpy(gid, &in6->sin6_addr, 16);
		return ntohs(in6->sin6_port);
	}
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &in->sin_addr, 4);
	return ntohs(in->sin_port);
}

/* Facts about a sender are found out once, not for each packet. */
static void sender_set(struct net *net, struct net_sock *s, const uint8_t gid[16], uint16_t port)
{
	struct sender *from = &s->senders[(port ^ gid[15]) % SENDERS];

	s->sender = from;
	net_hear(net, gid);
	if (from->flow.len && from->port == port && gid_same(from->gid, gid))
		return;
	memcpy(from->gid, gid, 16);
	from->port = port;
	from->own = !s->group && net_device(net, gid); /* a group's come back from the host that sent them */
	icrc_flow_init(&from->flow, gid, s->gid, port, ROCE_PORT, true);
}

/* Ready to be read into, again. */
static void room_make(struct net_vec *v, unsigned i)
{
	v->iov[i] = (struct iovec){ v->buf[i], RUN_LEN };
	v->msg[i].msg_hdr = (struct msghdr){
		.msg_name = &v->from[i],
		.msg_namelen = sizeof(v->from[i]),
		.msg_iov = &v->iov[i],
		.msg_iovlen = 1,
		.msg_control = &v->cmsg[i],
		.msg_controllen = sizeof(v->cmsg[i]),
	};
}

int net_rx_init(struct net *net)
{
	if (posix_memalign((void **)&net->vec, 64, sizeof(*net->vec)))
		return ENOMEM;
	for (unsigned i = 0; i < RUNS_READ; i++)
		room_make(net->vec, i);
	return 0;
}

void net_rx_free(struct net *net) { free(net->vec); }

/*
 * Trains are read one by one, into memory that stays in the cache.  Packets that come alone are read as many at once as have
 * come so in a row (1, 1, 2, 4, 8 ...): a call that finds trains instead goes past READ_LEN by that many, and the next one
 * reads one again.
 */
static int runs_read(const struct net_sock *s, struct net_vec *v, unsigned most)
{
	unsigned n = s->lone < most ? s->lone : most;
	ssize_t got;

	if (s->flows && n > 1)
		return recvmmsg(s->fd, v->msg, n, MSG_DONTWAIT, NULL);
	got = recvmsg(s->fd, &v->msg[0].msg_hdr, MSG_DONTWAIT);
	if (got < 0)
		return -1;
	v->msg[0].msg_len = (unsigned)got;
	return 1;
}

/* The next runs of datagrams of this socket; false: there is none. */
static bool sock_read(struct net *net, struct net_sock *s)
{
	struct net_run *r = &net->run;
	int n = runs_read(s, net->vec, RUNS_TURN - r->runs);

	if (n <= 0)
		return false;
	r->n = (unsigned)n;
	r->reads++;
	r->runs += r->n;
	for (unsigned i = 0; i < r->n; i++)
		r->sum += net->vec->msg[i].msg_len;
	return true;
}

void net_rx_begin(struct net *net) { net->run = (struct net_run){ 0 }; }

/* A datagram that comes alone is carried out, and told, before the next turn asks the socket again: that is a system call. */
static bool sock_more(const struct net_sock *s, const struct net_run *r, mono_t now)
{
	return !mono_reached(now, s->hot_until) && r->reads < (s->flows ? READS_TURN : 1) && r->runs < RUNS_TURN &&
	       r->sum < READ_LEN;
}

bool net_read(struct net *net, mono_t now)
{
	struct net_run *r = &net->run;

	while (r->at < net->sock_n) {
		struct net_sock *s = net->sock[r->at];

		if (sock_more(s, r, now) && sock_read(net, s)) {
			s->hot_until = mono_add(now, NET_HOT_NS);
			return true;
		}
		s->flows = r->reads != 0;
		r->at++;
		r->reads = 0;
		r->runs = 0;
		r->sum = 0;
	}
	return false;
}

/* Of one host and marked alike: only then one burst. */
static bool route_same(const struct route *a, const struct route *b)
{
	return a->tclass == b->tclass && a->hop_limit == b->hop_limit && gid_same(a->sgid, b->sgid);
}

static void run_give(struct net *net, struct net_sock *s, struct join *join, unsigned i, bool tapped, mono_t now)
{
	struct mmsghdr *m = &net->vec->msg[i];
	const uint8_t *data = net->vec->buf[i];
	struct route route = { .hop_limit = NET_TTL };
	size_t len = m->msg_len, seg = cmsgs_read(&m->msg_hdr, &route, len);

	memcpy(route.dgid, s->gid, 16);
	sender_set(net, s, route.sgid, sender_get(s, &net->vec->from[i], route.sgid));
	room_make(net->vec, i);
	if (seg < len)
		s->lone = 0;
	else if (s->lone < RUNS_READ)
		s->lone++;
	if (join->hca && !route_same(&join->b.route, &route))
		join_end(join, now);
	for (size_t off = 0; tapped && off < len; off += seg)
		pkt_rx_tap(net, s, &route, data + off, len - off < seg ? len - off : seg);
	for (size_t off = 0; !tapped && off < len; off += seg)
		pkt_rx(net, s, join, &route, data + off, len - off < seg ? len - off : seg, now);
}

void net_give(struct net *net, mono_t now)
{
	struct net_sock *s = net->sock[net->run.at];
	bool tapped = tap_on(net->shard, s->dev->index);
	struct join join;

	join.hca = NULL;
	join.open = false;
	for (unsigned i = 0; i < net->run.n; i++)
		run_give(net, s, &join, i, tapped, now);
	join_end(&join, now);
}
