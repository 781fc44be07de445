/* SPDX-License-Identifier: MIT */
/*
 * raw.c - frames between packet sockets and RAW_PACKET QPs.
 *
 * A frame that the socket has no room for is lost, as any frame may be; one that the interface does not take (too
 * long, link down) as well.
 */
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"

#define FRAME_MAX	65536u
#define RX_TURN		64u	/* frames of one QP, then the others' */

struct raw {
	int fd;
	unsigned slot;
	bool hot;		/* there may be frames */
	struct qp *qp;
};

static _Thread_local uint8_t frame[FRAME_MAX];

int raw_new(struct raw **out, int fd)
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
	return 0;
}

void raw_free(struct raw *r)
{
	if (!r)
		return;
	close(r->fd);
	free(r);
}

int raw_begin(struct qp *qp)
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
	return io_add(shard_files(s), qp->raw->slot, qp->raw->fd);
}

void raw_end(struct qp *qp)
{
	struct shard *s = qp->obj.ctx->shard;

	if (!qp->raw || !qp->raw->qp)
		return;
	io_del(shard_files(s), qp->raw->slot, qp->raw->fd);
	s->raw[qp->raw->slot - RAW_SLOT] = NULL;
	qp->raw->qp = NULL;
}

void raw_ready(struct shard *s, unsigned slot)
{
	struct raw *r = s->raw[slot - RAW_SLOT];

	if (r)
		r->hot = true;
}

static void rx_qp(struct raw *r, mono_t now)
{
	const struct obj *o = &r->qp->obj;

	for (unsigned i = 0; i < RX_TURN; i++) {
		ssize_t n = recv(r->fd, frame, sizeof(frame), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			/* ENETDOWN and the like are told once; what comes later makes the socket ready again. */
			r->hot = errno != EAGAIN;
			return;
		}
		hca_rx_raw(o->ctx->hca, o->number, frame, (size_t)n, now);
	}
}

bool raw_rx(struct shard *s, mono_t now)
{
	bool any = false, recvs = false;

	for (unsigned i = 0; i < s->raw_n; i++) {
		if (!s->raw[i] || !s->raw[i]->hot)
			continue;
		if (!recvs)
			ctx_drain_recvs(s, now);
		any = recvs = true;
		rx_qp(s->raw[i], now);
	}
	return any;
}

void raw_tx(struct shard *s, struct hca *hca, unsigned device, const struct burst *b, mono_t now)
{
	struct span to = { NULL, (uint64_t)(uintptr_t)frame, (uint32_t)b->payload_len };
	struct qp *qp = (struct qp *)obj_find(s, OBJ_QP, device, b->sqpn);
	ssize_t n;

	if (!qp || !qp->raw || b->payload_len > FRAME_MAX)
		return;
	if (region_mem_ops.copy(NULL, &to, 1, b->span, b->span_n, 0)) {
		hca_tx_fault(hca, b, now);
		return;
	}
	do
		n = send(qp->raw->fd, frame, b->payload_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		hca_count(hca, HCA_STAT_SEND_ERR, 1);
}
