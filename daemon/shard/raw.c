/* SPDX-License-Identifier: MIT */
/*
 * raw.c - frames between packet sockets and RAW_PACKET QPs.
 *
 * A frame that the socket has no room for - in a millisecond, when it is sent - is lost, as any frame may be; one
 * that the interface does not take (too long, link down) as well.
 */
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proto/bytes.h"
#include "../../proto/frame.h"
#include "../base/foreign.h"
#include "io.h"
#include "steer.h"

#define RAW_MTU  65535u
#define TAG_LEN  4u
#define MACS_LEN 12
#define SEGMENTS 64u /* in one call */
#define ROOM_MS  1
#define RX_TURN  64u /* frames of one QP, then the others' */

struct raw {
	int fd;
	uid_t uid;
	unsigned slot;
	bool hot; /* there may be frames */
	struct ctx_qp *qp;
	struct steer_set *rules; /* or NULL */
};

static _Thread_local uint8_t frame[RD_MAX_TSO + RD_TSO_HDR + TAG_LEN];

int raw_new(struct raw **out, int fd, uid_t uid)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
	    domain != AF_PACKET || type != SOCK_RAW)
		return EINVAL;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ENOMEM;
	(*out)->fd = fd;
	(*out)->uid = uid;
	return 0;
}

void raw_free(struct raw *r)
{
	if (!r)
		return;
	foreign_close(r->fd, r->uid);
	steer_free(r->rules);
	free(r);
}

struct steer_set *raw_steer(struct raw *r, struct steer_set *rules)
{
	struct steer_set *old = r->rules;

	r->rules = rules;
	return old;
}

int raw_begin(struct ctx_qp *qp)
{
	struct shard *s = qp->obj.ctx->shard;
	unsigned i = 0;

	while (i < RAW_SLOTS && s->raw[i])
		i++;
	if (i == RAW_SLOTS)
		return ENOMEM;
	qp->raw->slot = RAW_SLOT + i;
	qp->raw->qp = qp;
	qp->raw->hot = true;
	s->raw[i] = qp->raw;
	if (s->raw_n < i + 1)
		s->raw_n = i + 1;
	return io_add(s->io, qp->raw->slot, qp->raw->fd);
}

void raw_end(struct ctx_qp *qp)
{
	struct shard *s = qp->obj.ctx->shard;

	if (!qp->raw || !qp->raw->qp)
		return;
	io_del(s->io, qp->raw->slot, qp->raw->fd);
	s->raw[qp->raw->slot - RAW_SLOT] = NULL;
	qp->raw->qp = NULL;
}

void raw_ready(struct shard *s, unsigned slot)
{
	struct raw *r = s->raw[slot - RAW_SLOT];

	if (r)
		r->hot = true;
}

/* Kept by the kernel beside the frame: the VLAN tag, and whether a sender of this host has left the checksums to us. */
struct meta {
	struct steer_meta rules;
	bool unsummed, good;
};

static void meta_get(struct meta *m, struct msghdr *msg)
{
	*m = (struct meta){ 0 };
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct tpacket_auxdata aux;

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA ||
		    c->cmsg_len < CMSG_LEN(sizeof(aux)))
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		m->rules.vlan = aux.tp_status & TP_STATUS_VLAN_VALID;
		m->rules.tci = aux.tp_vlan_tci;
		m->unsummed = aux.tp_status & TP_STATUS_CSUMNOTREADY;
	}
}

/* A frame into frame[TAG_LEN ...]; its length, or -1. */
static ssize_t rx_frame(const struct raw *r, struct meta *m)
{
	char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	struct iovec iov = { frame + TAG_LEN, RAW_MTU };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t n;

	do
		n = recvmsg(r->fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		meta_get(m, &msg);
	return n;
}

static void rx_give(struct raw *r, const uint8_t *p, size_t len, bool good, mono_t now)
{
	struct ctx *c = r->qp->obj.ctx;
	uint32_t wq = r->rules ? steer_wq(r->rules, p, len) : 0;

	/* The number of a WQ may be somebody else's by now. */
	if (!wq)
		hca_rx_raw(c->hca, r->qp->obj.number, p, len, good, now);
	else if (obj_get(c, OBJ_QP, wq))
		hca_rx_raw(c->hca, wq, p, len, good, now);
}

static void rx_qp(struct raw *r, mono_t now)
{
	uint8_t *p = frame + TAG_LEN;
	struct meta m;

	for (unsigned i = 0; i < RX_TURN; i++) {
		ssize_t n = rx_frame(r, &m);

		if (n < 0) {
			/* ENETDOWN and the like are told once; what comes later makes the socket ready again. */
			r->hot = errno != EAGAIN;
			return;
		}
		if (r->rules && !steer_take(r->rules, p, (size_t)n, &m.rules))
			continue;
		if (m.unsummed)
			frame_sum(p, (size_t)n);
		m.good = frame_sum_ok(p, (size_t)n);
		if (m.rules.vlan && n >= MACS_LEN) {
			memmove(frame, p, MACS_LEN);
			be16_put(frame + MACS_LEN, ETH_P_8021Q);
			be16_put(frame + MACS_LEN + 2, m.rules.tci);
			rx_give(r, frame, (size_t)n + TAG_LEN, m.good, now);
		} else {
			rx_give(r, p, (size_t)n, m.good, now);
		}
	}
}

bool raw_hot(const struct shard *s)
{
	for (unsigned i = 0; i < s->raw_n; i++)
		if (s->raw[i] && s->raw[i]->hot)
			return true;
	return false;
}

void raw_rx(struct shard *s, mono_t now)
{
	for (unsigned i = 0; i < s->raw_n; i++)
		if (s->raw[i] && s->raw[i]->hot)
			rx_qp(s->raw[i], now);
}

/* ---- sending --------------------------------------------------------------- */

/* The socket's buffer may be full for as long as the interface needs for some frames. */
static bool room(const struct raw *r)
{
	struct pollfd p = { .fd = r->fd, .events = POLLOUT };

	return (errno == EAGAIN || errno == ENOBUFS) && poll(&p, 1, ROOM_MS) == 1 && p.revents & POLLOUT;
}

static void tx_one(const struct raw *r, struct hca *hca, size_t len)
{
	ssize_t n;

	do
		n = send(r->fd, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && (errno == EINTR || room(r)));
	if (n < 0)
		hca_count(hca, HCA_STAT_SEND_ERR, 1);
}

/* The headers and n segments of what lies behind them. */
static void tx_segments(const struct raw *r, struct hca *hca, uint32_t hdr, uint32_t mss, size_t len)
{
	static _Thread_local uint8_t heads[SEGMENTS][RD_TSO_HDR];
	struct iovec iov[SEGMENTS][2];
	struct mmsghdr msg[SEGMENTS];
	uint32_t off = 0, rest = (uint32_t)len - hdr;
	unsigned number = 0;
	bool more = true;

	while (more) {
		unsigned n = 0, sent = 0;

		while (more && n < SEGMENTS) {
			uint32_t part = rest - off < mss ? rest - off : mss;
			uint8_t *data = frame + hdr + off;

			more = off + part < rest;
			frame_segment(heads[n], frame, hdr, number++, off, data, part, !more);
			iov[n][0] = (struct iovec){ heads[n], hdr };
			iov[n][1] = (struct iovec){ data, part };
			msg[n] = (struct mmsghdr){ .msg_hdr = { .msg_iov = iov[n], .msg_iovlen = 2 } };
			n++;
			off += part;
		}
		while (sent < n) {
			int k = sendmmsg(r->fd, msg + sent, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

			if (k > 0)
				sent += (unsigned)k;
			else if (errno != EINTR && !room(r))
				break;
		}
		hca_count(hca, HCA_STAT_SEND_ERR, n - sent);
	}
}

void raw_tx(struct shard *s, struct hca *hca, unsigned device, const struct burst *b, mono_t now)
{
	struct span to = { NULL, (uint64_t)(uintptr_t)frame, (uint32_t)b->payload_len };
	struct ctx_qp *qp = (struct ctx_qp *)obj_find(s, OBJ_QP, device, b->sqpn);

	if (!qp || !qp->raw || b->payload_len > sizeof(frame))
		return;
	if (region_mem_ops.copy(NULL, &to, 1, b->span, b->span_n, 0)) {
		hca_tx_fault(hca, b, now);
		return;
	}
	if (b->raw_mss) {
		tx_segments(qp->raw, hca, b->raw_hdr, b->raw_mss, b->payload_len);
		return;
	}
	if (b->raw_sum)
		frame_sum(frame, b->payload_len);
	tx_one(qp->raw, hca, b->payload_len);
}
