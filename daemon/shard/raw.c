/* SPDX-License-Identifier: MIT */
/*
 * raw.c - frames between packet sockets and RAW_PACKET QPs.
 *
 * A frame that the socket has no room for when it is sent is kept and tried again in later turns, and its QP sends nothing else
 * meanwhile; after a while it is lost, as any frame may be.  One that the interface does not take (too long, link down) is lost
 * at once.  Of a request that becomes many segments a turn sends some, and the rest waits in the same way.  Nothing here waits.
 */
#include "raw.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proto/bytes.h"
#include "../../proto/frame.h"
#include "../base/rights.h"
#include "../base/foreign.h"
#include "io.h"
#include "steer.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define RAW_MTU     65535u
#define TAG_LEN     4u
#define MACS_LEN    12
#define SEGMENTS    64u        /* in one call, and of one QP in one turn */
#define RETRY_NS    1000000u   /* a frame that there is no room for is tried again after so long */
#define PATIENCE_NS 100000000u /* and given up after so long */
#define LATE_TURN   4u         /* QPs of which late frames are sent in one turn */
#define FRAME_COST  16384u     /* a system call */
#define RX_TURN     64u        /* frames of one QP, then the others' */

struct raw {
	int fd;
	uid_t uid;
	unsigned slot;
	bool hot; /* there may be frames */
	struct ctx_qp *qp;
	struct steer_set *rules; /* or NULL */
	struct late *late;       /* the frame that there was no room for; NULL: none */
};

static void late_drop(struct raw *);

static _Thread_local uint8_t frame[RD_MAX_TSO + RD_TSO_HDR + TAG_LEN];

/* Of the network namespace; 0: it cannot be told (before Linux 5.14). */
static uint64_t netns(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

/* A user can be root of a namespace of his own, with an interface as slow as he likes.  Root and our own user cannot be others. */
static int netns_check(int fd, uid_t uid)
{
	int own = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t ours = own < 0 ? 0 : netns(own), theirs = netns(fd);

	if (own >= 0)
		close(own);
	if (!ours || !theirs)
		return uid == 0 || uid == rights_owner() ? 0 : EXDEV;
	return ours == theirs ? 0 : EXDEV;
}

int raw_new(struct raw **out, int fd, uid_t uid)
{
	int domain = 0, type = 0, err;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
	    domain != AF_PACKET || type != SOCK_RAW)
		return EINVAL;
	err = netns_check(fd, uid);
	if (err)
		return err;
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
	late_drop(qp->raw);
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
	uint16_t tpid; /* of the tag */
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
		m->tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETH_P_8021Q;
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
			be16_put(frame + MACS_LEN, m.tpid);
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

/* A frame, or with mss the segments that are made of it. */
struct late {
	uint32_t hdr, mss;
	size_t len;
	uint32_t off, number; /* the segment that is next, and where it begins behind the headers */
	mono_t retry, until;  /* when it is tried again, and till when */
	uint8_t data[];
};

/* The socket's buffer, or the queue of its interface. */
static bool full(void) { return errno == EAGAIN || errno == ENOBUFS; }

static unsigned segments_left(const struct late *l)
{
	size_t rest = l->len - l->hdr - l->off;

	return !l->mss ? 1 : rest ? (unsigned)((rest + l->mss - 1) / l->mss) : 1;
}

/* The rest of a frame: nothing (sent, or lost), what a later turn sends, or what there is no room for. */
enum left { LEFT_NONE, LEFT_MORE, LEFT_FULL };

/* The next segments become messages; how many. */
static unsigned segments_fill(const struct late *l, uint8_t *data, struct iovec (*iov)[2], struct mmsghdr *msg)
{
	static _Thread_local uint8_t heads[SEGMENTS][RD_TSO_HDR];
	uint32_t rest = (uint32_t)l->len - l->hdr, off = l->off;
	bool more = true;
	unsigned n = 0;

	for (; more && n < SEGMENTS; n++) {
		uint32_t part = rest - off < l->mss ? rest - off : l->mss;

		more = off + part < rest;
		frame_segment(heads[n], data, l->hdr, l->number + n, off, data + l->hdr + off, part, !more);
		iov[n][0] = (struct iovec){ heads[n], l->hdr };
		iov[n][1] = (struct iovec){ data + l->hdr + off, part };
		msg[n] = (struct mmsghdr){ .msg_hdr = { .msg_iov = iov[n], .msg_iovlen = 2 } };
		off += part;
	}
	return n;
}

static enum left segments_send(const struct raw *r, struct hca *hca, struct late *l, uint8_t *data)
{
	struct iovec iov[SEGMENTS][2];
	struct mmsghdr msg[SEGMENTS];
	unsigned left = segments_left(l), n = segments_fill(l, data, iov, msg);

	for (unsigned done = 0; done < n;) {
		int k = sendmmsg(r->fd, msg + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && full())
			return LEFT_FULL;
		if (k < 0) { /* this one is lost, and the others are tried */
			hca_count(hca, HCA_STAT_SEND_ERR, 1);
			k = 1;
		}
		done += (unsigned)k;
		l->number += (unsigned)k;
		l->off += (uint32_t)k * l->mss;
	}
	return n < left ? LEFT_MORE : LEFT_NONE;
}

static enum left late_send(const struct raw *r, struct hca *hca, struct late *l, uint8_t *data)
{
	ssize_t n;

	if (l->mss)
		return segments_send(r, hca, l, data);
	do
		n = send(r->fd, data, l->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && full())
		return LEFT_FULL;
	if (n < 0)
		hca_count(hca, HCA_STAT_SEND_ERR, 1);
	return LEFT_NONE;
}

/* Some of it is sent in the next turn; or there is no room, which there may be after a while. */
static void late_time(struct late *l, enum left left, mono_t now)
{
	l->retry = left == LEFT_MORE ? now : mono_add(now, RETRY_NS);
	if (left == LEFT_MORE)
		l->until = mono_add(now, PATIENCE_NS);
}

/* The frame is kept, and the QP sends no other one until it is gone. */
static void late_keep(struct raw *r, struct hca *hca, const struct late *l, enum left left, mono_t now)
{
	r->late = malloc(sizeof(*l) + l->len);
	if (!r->late) {
		hca_count(hca, HCA_STAT_SEND_ERR, segments_left(l));
		return;
	}
	*r->late = *l;
	memcpy(r->late->data, frame, l->len);
	r->late->until = mono_add(now, PATIENCE_NS);
	late_time(r->late, left, now);
	hca_qp_hold(hca, r->qp->obj.number, true);
}

static void late_drop(struct raw *r)
{
	if (r->late && r->qp)
		hca_qp_hold(r->qp->obj.ctx->hca, r->qp->obj.number, false);
	free(r->late);
	r->late = NULL;
}

static void late_again(struct raw *r, mono_t now)
{
	struct hca *hca = r->qp->obj.ctx->hca;
	struct late *l = r->late;
	enum left left = late_send(r, hca, l, l->data);

	if (left != LEFT_NONE) {
		late_time(l, left, now);
		if (!mono_reached(now, l->until))
			return;
		hca_count(hca, HCA_STAT_SEND_ERR, segments_left(l));
	}
	late_drop(r);
}

/* A few in each turn, the others in the next ones. */
bool raw_again(struct shard *s, mono_t now)
{
	unsigned done = 0, at = s->raw_next;

	for (unsigned i = 0; i < s->raw_n && done < LATE_TURN; i++, at++) {
		struct raw *r = s->raw[at % s->raw_n];

		if (r && r->late && mono_reached(now, r->late->retry)) {
			late_again(r, now);
			done++;
		}
	}
	s->raw_next = s->raw_n ? at % s->raw_n : 0;
	return done;
}

mono_t raw_deadline(const struct shard *s)
{
	mono_t t = MONO_NEVER;

	for (unsigned i = 0; i < s->raw_n; i++)
		if (s->raw[i] && s->raw[i]->late)
			t = mono_min(t, s->raw[i]->late->retry);
	return t;
}

uint64_t raw_cost(const struct burst *b)
{
	uint64_t n = b->raw_mss ? b->payload_len / b->raw_mss + 1 : 1;

	return (n < SEGMENTS ? n : SEGMENTS) * FRAME_COST;
}

void raw_tx(struct shard *s, struct hca *hca, unsigned device, const struct burst *b, mono_t now)
{
	struct span to = { NULL, (uint64_t)(uintptr_t)frame, (uint32_t)b->payload_len };
	struct ctx_qp *qp = (struct ctx_qp *)obj_find(s, OBJ_QP, device, b->sqpn);
	struct late l = { .hdr = b->raw_hdr, .mss = b->raw_mss, .len = b->payload_len };
	enum left left;

	if (!qp || !qp->raw || b->payload_len > sizeof(frame))
		return;
	if (region_mem_ops.copy(NULL, &to, 1, b->span, b->span_n, 0)) {
		hca_tx_fault(hca, b, 0, now);
		return;
	}
	if (!l.mss && b->raw_sum)
		frame_sum(frame, b->payload_len);
	left = late_send(qp->raw, hca, &l, frame);
	if (left != LEFT_NONE)
		late_keep(qp->raw, hca, &l, left, now);
}
