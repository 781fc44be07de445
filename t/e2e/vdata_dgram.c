/* SPDX-License-Identifier: MIT */
/*
 * vdata_dgram.c - messages that may be lost: UD, and UC over a path with loss.
 *
 * Batches of messages both ways. Each carries its number as immediate data, from which the receiver
 * knows length and content. Without -l all must come, in order; with it those that come must be right.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vdata.h"

#define BATCH    32u
#define SLOTS    (4 * BATCH)
#define GRH_LEN  40u
#define QUIET_MS 100 /* with loss: so long without a message, and the rest of the batch is lost */

struct dgram {
	struct vd_qp q;
	unsigned lane;
	bool client, ud;
	size_t max, stride;
	uint8_t *slots, *out;
	struct ibv_mr *slots_mr, *out_mr;
	unsigned next, arrived; /* next: the number that must come, without loss */
	unsigned sent;
};

static size_t message_len(const struct dgram *d, unsigned n, unsigned side)
{
	struct vd_rng r = { vd_key(d->q.node->opt->seed, d->lane, n, 8 + side) };
	size_t len = vd_size(&r, d->max, d->q.mtu);

	return len;
}

static void slot_post(struct dgram *d, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)(d->slots + slot * d->stride), (uint32_t)d->stride, d->slots_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	memset(d->slots + slot * d->stride, 0x5a, d->stride);
	vd_recv(&d->q, &wr);
}

static bool gid_is_v4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, 12);
}

/* The first 40 bytes of a UD receive: the IPv6 header, or 20 bytes of nothing and the IPv4 header. */
static void grh_check(struct dgram *d, uint8_t *p, struct ibv_wc *wc)
{
	const uint8_t *gid = d->q.peer.gid;
	struct ibv_ah *ah;

	if (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != d->q.peer.qpn)
		vd_die("UD: flags %x, from QP %u, not %u", wc->wc_flags, wc->src_qp, d->q.peer.qpn);
	if (gid_is_v4(gid) ? p[20] != 0x45 || memcmp(p + 32, gid + 12, 4) : p[0] >> 4 != 6 || memcmp(p + 8, gid, 16))
		vd_die("UD: the GRH does not hold the sender's address");
	if (d->arrived)
		return;
	ah = ibv_create_ah_from_wc(d->q.node->pd, wc, (struct ibv_grh *)p, 1);
	if (!ah)
		vd_die("ibv_create_ah_from_wc: %s", strerror(errno));
	if (ibv_destroy_ah(d->q.ah))
		vd_die("ibv_destroy_ah");
	d->q.ah = ah; /* from here on everything goes back to where it came from */
}

static void message_check(struct dgram *d, struct ibv_wc *wc)
{
	uint8_t *p = d->slots + wc->wr_id * d->stride, *want;
	size_t skip = d->ud ? GRH_LEN : 0, len;
	unsigned n = wc->imm_data, i;
	bool lossy = d->q.node->opt->lossy;

	if (wc->opcode != IBV_WC_RECV || !(wc->wc_flags & IBV_WC_WITH_IMM))
		vd_die("lane %u: receive: opcode %d, flags %x", d->lane, wc->opcode, wc->wc_flags);
	if (!lossy && n != d->next)
		vd_die("lane %u: message %u came instead of %u", d->lane, n, d->next);
	if (n >= d->sent + BATCH)
		vd_die("lane %u: message %u was never sent", d->lane, n);
	len = message_len(d, n, !d->client);
	if (wc->byte_len != len + skip)
		vd_die("lane %u: message %u has %u bytes instead of %zu", d->lane, n, wc->byte_len, len + skip);
	if (d->ud)
		grh_check(d, p, wc);
	want = malloc(len + 1);
	vd_fill(want, len, vd_key(d->q.node->opt->seed, d->lane, n, !d->client));
	if (memcmp(want, p + skip, len))
		vd_die("lane %u: message %u is not what was sent", d->lane, n);
	/* A UC message that broke off may have left bytes in the slot that the next one took. */
	for (i = 0; (d->ud || !lossy) && i < 64 && skip + len + i < d->stride; i++)
		if (p[skip + len + i] != 0x5a)
			vd_die("lane %u: message %u: bytes written behind its end", d->lane, n);
	free(want);
	d->next = n + 1;
	d->arrived++;
	slot_post(d, (unsigned)wc->wr_id);
}

static void message_send(struct dgram *d, unsigned n)
{
	uint8_t *at = d->out + n % BATCH * d->stride;
	size_t len = message_len(d, n, d->client);
	struct ibv_sge sge = { (uintptr_t)at, (uint32_t)len, d->out_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1000000 + n, .sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | (len <= d->q.inline_max && n % 2 ? IBV_SEND_INLINE : 0u), .imm_data = n,
	}, *bad;
	int err;

	if (d->ud) {
		wr.wr.ud.ah = d->q.ah;
		wr.wr.ud.remote_qpn = d->q.peer.qpn;
		wr.wr.ud.remote_qkey = d->q.peer.qkey;
	}
	vd_fill(at, len, vd_key(d->q.node->opt->seed, d->lane, n, d->client));
	err = ibv_post_send(d->q.qp, &wr, &bad);
	if (err)
		vd_die("ibv_post_send: %s", strerror(err));
}

/* One completion if there is one within ms; whether there was. */
static bool step(struct dgram *d, unsigned *sends, int ms)
{
	struct ibv_wc wc;

	if (!vd_poll(&d->q, &wc, ms))
		return false;
	if (wc.status != IBV_WC_SUCCESS)
		vd_die("lane %u: wr_id %llu: %s", d->lane, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	if (wc.wr_id >= 1000000) {
		if (wc.wr_id != 1000000 + d->sent + *sends)
			vd_die("lane %u: send completions out of order", d->lane);
		++*sends;
	} else {
		message_check(d, &wc);
	}
	return true;
}

static void batch(struct dgram *d)
{
	unsigned i, sends = 0;

	for (i = 0; i < BATCH; i++)
		message_send(d, d->sent + i);
	while (sends < BATCH)
		if (!step(d, &sends, 10000))
			vd_die("lane %u: a send does not complete", d->lane);
	vd_barrier(d->q.fd); /* all of the peer's messages have left it */
	if (d->q.node->opt->lossy)
		while (d->next != d->sent + BATCH && step(d, &sends, QUIET_MS))
			;
	else
		while (d->next != d->sent + BATCH)
			if (!step(d, &sends, 10000))
				vd_die("lane %u: message %u does not come", d->lane, d->next);
	d->sent += BATCH;
	vd_barrier(d->q.fd);
}

static void memory_open(struct dgram *d)
{
	unsigned i;

	d->stride = (d->max + GRH_LEN + 64 + 63) & ~(size_t)63;
	d->slots = malloc(SLOTS * d->stride);
	d->out = malloc(BATCH * d->stride);
	d->slots_mr = ibv_reg_mr(d->q.node->pd, d->slots, SLOTS * d->stride, IBV_ACCESS_LOCAL_WRITE);
	d->out_mr = ibv_reg_mr(d->q.node->pd, d->out, BATCH * d->stride, 0);
	if (!d->slots_mr || !d->out_mr)
		vd_die("ibv_reg_mr: %s", strerror(errno));
	for (i = 0; i < SLOTS; i++)
		slot_post(d, i);
}

void vd_dgram(struct vd_node *node, int fd, unsigned lane, bool client)
{
	struct vd_want want = { .type = node->opt->type, .srq = node->opt->srq, .depth = SLOTS };
	struct dgram *d = calloc(1, sizeof(*d));
	unsigned round;

	d->lane = lane;
	d->client = client;
	d->ud = want.type == IBV_QPT_UD;
	vd_qp_open(&d->q, node, fd, &want);
	d->max = node->opt->max < 65536 ? node->opt->max : 65536;
	if (d->ud && d->max > d->q.mine.mtu)
		d->max = d->q.mine.mtu;
	memory_open(d);
	vd_qp_connect(&d->q);
	if (d->max > d->q.mtu && d->ud)
		d->max = d->q.mtu;
	for (round = 0; round < node->opt->rounds; round++)
		batch(d);
	printf("lane %u: %u of %u messages arrived\n", lane, d->arrived, d->sent);
	if (d->arrived < d->sent / 2)
		vd_die("lane %u: too few", lane);
	vd_qp_close(&d->q);
	if (ibv_dereg_mr(d->slots_mr) || ibv_dereg_mr(d->out_mr))
		vd_die("ibv_dereg_mr");
	free(d->slots);
	free(d->out);
	free(d);
}
