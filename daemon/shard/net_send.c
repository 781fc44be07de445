/* SPDX-License-Identifier: MIT */
/*
 * net_send.c - datagrams that are ready to be sent: many in one system call.
 */
#include "net_send.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "../../proto/hdr.h"
#include "../base/log.h"
#include "net_late.h"
#include "net_priv.h"

#define SENDS     4u /* of the same, if others' errors come up */
#define CMSG_ROOM (CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int)))

/* ---- one system call ----------------------------------------------------- */

static void cmsg_put(struct msghdr *msg, int level, int type, const void *value, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), value, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

struct marks net_marks;

int net_priority(const struct route *r) { return net_marks.priority[r->sl % SLS]; }

/* Over IPv4 a traffic class that comes with the packet would set a priority of its own: so the socket has both. */
static void out_mark(struct net_out *o, bool ipv6, const struct route *r)
{
	int tos = r->tclass, priority = net_priority(r);

	if (!net_marks.prioritized || (o->priority == priority && (ipv6 || o->tos == tos)))
		return;
	if (!ipv6)
		setsockopt(o->fd, SOL_IP, IP_TOS, &tos, sizeof(tos));
	setsockopt(o->fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
	o->tos = tos;
	o->priority = priority;
}

static void msg_fill(struct msghdr *msg, struct batch *b, uint8_t *cmsg)
{
	int tclass = b->route.tclass, hops = b->route.hop_limit;
	bool v6 = b->sock->ipv6;

	memset(cmsg, 0, CMSG_ROOM);
	*msg = (struct msghdr){ .msg_name = &b->to, .msg_namelen = b->to_len, .msg_control = cmsg };
	if (b->gso && b->n > 1)
		cmsg_put(msg, SOL_UDP, UDP_SEGMENT, &b->pkt_len[0], sizeof(uint16_t));
	if (tclass && (v6 || !net_marks.prioritized))
		cmsg_put(msg, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TCLASS : IP_TOS, &tclass, sizeof(int));
	if (hops && hops != NET_TTL)
		cmsg_put(msg, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_HOPLIMIT : IP_TTL, &hops, sizeof(int));
	if (!msg->msg_controllen)
		msg->msg_control = NULL;
}

/* Takes k packets off the front. */
static void batch_cut(struct batch *b, unsigned k, uint8_t **data)
{
	size_t gone = 0;

	for (unsigned i = 0; i < k; i++)
		gone += b->pkt_len[i];
	memmove(b->pkt_len, b->pkt_len + k, (b->n - k) * sizeof(*b->pkt_len));
	b->n -= k;
	b->len -= gone;
	*data += gone;
}

static int send_gso(struct batch *b, uint8_t *data)
{
	_Alignas(struct cmsghdr) uint8_t cmsg[CMSG_ROOM];
	struct iovec iov = { data, b->len };
	struct msghdr msg;

	msg_fill(&msg, b, cmsg);
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	return sendmsg(b->out->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* On return *b and *data are what was not sent. */
static int send_each(struct batch *b, uint8_t **data)
{
	_Alignas(struct cmsghdr) uint8_t cmsg[CMSG_ROOM];
	struct mmsghdr mm[TRAIN_PKTS];
	struct iovec iov[TRAIN_PKTS];
	struct msghdr msg;
	size_t off = 0;
	int sent;

	msg_fill(&msg, b, cmsg);
	for (unsigned i = 0; i < b->n; i++) {
		iov[i] = (struct iovec){ *data + off, b->pkt_len[i] };
		off += b->pkt_len[i];
		mm[i].msg_hdr = msg;
		mm[i].msg_hdr.msg_iov = &iov[i];
		mm[i].msg_hdr.msg_iovlen = 1;
	}
	while (b->n) {
		sent = sendmmsg(b->out->fd, mm, b->n, MSG_DONTWAIT);
		if (sent <= 0)
			return errno;
		batch_cut(b, (unsigned)sent, data);
		memmove(mm, mm + sent, b->n * sizeof(*mm));
	}
	return 0;
}

/* The packets of a GSO train, each to be sent on its own: their identification will be 0. */
static void gso_undo(struct batch *b, struct icrc_flow *flow, uint8_t *data)
{
	for (unsigned i = 0; i < b->n; i++) {
		size_t len = b->pkt_len[i] - ICRC_LEN - (size_t)b->tail;

		if (i && !b->sock->ipv6)
			icrc_put(data + len, icrc_pkt(flow, 0, data, len));
		data += b->pkt_len[i];
	}
	b->gso = false;
}

static bool is_full(int err) { return err == EAGAIN || err == ENOBUFS; }

/* An error may be that of a packet which went before, to anybody: an ICMP message came since. */
static int send_all(struct net *net, struct batch *b, uint8_t **data)
{
	int err = 0;

	for (unsigned i = 0; i < SENDS; i++) {
		err = b->gso ? send_gso(b, *data) : send_each(b, data);
		if (!err || is_full(err) || !refusals_read(net, b->sock, b->out))
			break;
	}
	return err;
}

/*
 * Flow labels belong to all until one user of the host leases one: from then on those that were not leased are EINVAL.
 * If it is the label that EINVAL is about, it is not without one.
 */
static int send_labelled(struct net *net, struct batch *b, uint8_t **data)
{
	int err = send_all(net, b, data);
	uint32_t label = b->sock->ipv6 ? b->to.in6.sin6_flowinfo : 0;

	if (err != EINVAL || !label)
		return err;
	b->to.in6.sin6_flowinfo = 0;
	err = send_all(net, b, data);
	if (err == EINVAL) {
		b->to.in6.sin6_flowinfo = label;
	} else if (label == htonl(b->out->port)) { /* ours: nobody asked */
		b->sock->bare = true;
	} else if (!b->sock->unlabelled) {
		log_note("IPv6 flow labels are leased on this host: packets go without those that programs ask for");
		b->sock->unlabelled = true;
	}
	return err;
}

/* It may be that the device, or the way, does not take a train. */
static bool is_segmented(int err) { return err == EIO || err == EINVAL || err == EMSGSIZE; }

/* Those behind it may be shorter, or not be what a firewall looks for. */
static bool is_of_one(int err) { return err == EMSGSIZE || err == EPERM; }

static void refused(const struct batch *b, unsigned n, int err)
{
	log_debug("cannot send to the network: %s", strerror(err));
	hca_unsent(b->hca, b->qpn, &b->route, n, err);
}

int batch_send(struct net *net, struct batch *b, uint8_t **data)
{
	struct icrc_flow flow;
	int err;

	if (!late_may(net, b))
		return EAGAIN;
	out_mark(b->out, b->sock->ipv6, &b->route);
	err = send_labelled(net, b, data);
	if (b->gso && is_segmented(err)) {
		icrc_flow_init(&flow, b->route.sgid, b->route.dgid, b->out->port, ROCE_PORT, true);
		gso_undo(b, &flow, *data);
		err = send_labelled(net, b, data);
	}
	while (!b->gso && b->n > 1 && is_of_one(err)) {
		refused(b, 1, err);
		batch_cut(b, 1, data);
		err = send_labelled(net, b, data);
	}
	if (is_full(err))
		return EAGAIN;
	if (err)
		refused(b, b->n, err);
	return err;
}

void net_send(struct net *net, struct batch *b, uint8_t *data)
{
	if (late_before(net, b) || batch_send(net, b, &data) == EAGAIN)
		late_put(net, b, data);
}
