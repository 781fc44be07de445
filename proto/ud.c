/* SPDX-License-Identifier: MIT */
/*
 * ud.c - the UD receiver (rules 1.6, 4.11): Q_Key, receive WR, and the 40 bytes of GRH in front.
 *
 *	receive buffer   | GRH 40 ............................ | payload
 *	IPv4             | 20 of zero | the IPv4 header, 20    |
 *	IPv6             | the IPv6 header                     |
 *
 * Sockets do not show the IP header; it is made again from the route.  Its checksum must be right:
 * that is how programs (ibv_init_ah_from_wc) tell the two apart.
 */
#include <string.h>

#include <rdmad/gid.h>

#include "cqe.h"
#include "hca_in.h"
#include "resp.h"

#define IP_UDP  17
#define IPV4_DF 0x4000

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* udp_len: with the UDP header. */
/*
 * RoCE has no service level on the wire.  ConnectX adapters say there what kind of packet it was, and
 * UCX up to 1.13 looks at that to find the addresses in the GRH.
 */
enum { SL_IPV6 = 1, SL_IPV4 = 2 };

static void grh_v4(uint8_t *g, const struct route *r, uint32_t udp_len)
{
	uint8_t *ip = g + 20;
	uint32_t sum = 0;

	memset(g, 0, GRH_LEN);
	ip[0] = 0x45;
	ip[1] = r->tclass;
	put16(ip + 2, 20 + udp_len);
	put16(ip + 6, IPV4_DF);
	ip[8] = r->hop_limit;
	ip[9] = IP_UDP;
	memcpy(ip + 12, r->sgid + 12, 4);
	memcpy(ip + 16, r->dgid + 12, 4);
	for (unsigned i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~sum & 0xffff);
}

static void grh_v6(uint8_t *g, const struct route *r, uint32_t udp_len)
{
	put16(g, 0x6000u | (uint32_t)r->tclass << 4 | (r->flow_label >> 16 & 0xf));
	put16(g + 2, r->flow_label & 0xffff);
	put16(g + 4, udp_len);
	g[6] = IP_UDP;
	g[7] = r->hop_limit;
	memcpy(g + 8, r->sgid, 16);
	memcpy(g + 24, r->dgid, 16);
}

static void grh_make(uint8_t *g, const struct burst *b)
{
	uint32_t udp_len = 8 + opcode_get(b->op_first)->hdr_len + (((uint32_t)b->payload_len + 3) & ~3u) + 4;

	if (gid_is_v4(b->route.sgid))
		grh_v4(g, &b->route, udp_len);
	else
		grh_v6(g, &b->route, udp_len);
}

/* *lost: as if it had not arrived; the receive WR waits for the next one. */
static enum fault store(struct hca *h, struct qp *qp, const struct burst *b, const struct rwqe *w, bool *lost)
{
	const struct mem_ops *m = h->cfg.mem;
	struct span grh = { NULL, (uint64_t)(uintptr_t)h->grh, GRH_LEN };
	int n, err;

	if (GRH_LEN + b->payload_len > w->len)
		return FAULT_UD_RECV_LEN;
	n = sge_spans(&h->keys, w->sge, w->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, GRH_LEN, b->payload_len, h->dst);
	if (n < 0)
		return FAULT_UD_RECV_PROT;
	err = n ? rx_copy(h, h->dst, (unsigned)n, b) : 0;
	*lost = mem_lost(err);
	if (*lost)
		return FAULT_NONE;
	if (err)
		return FAULT_UD_RECV_MEM;
	n = sge_spans(&h->keys, w->sge, w->sge_n, recv_pd(qp), ACC_LOCAL_WRITE, 0, GRH_LEN, h->dst);
	if (n < 0)
		return FAULT_UD_RECV_PROT;
	grh_make(h->grh, b);
	if (m->copy(h->cfg.mem_host, h->dst, (unsigned)n, &grh, 1, 0))
		return FAULT_UD_RECV_MEM;
	return FAULT_NONE;
}

/* On a port with LIDs one that is known by its LID has no GRH, as there. */
static void source_tell(const struct hca *h, const struct burst *b, struct cqe *c)
{
	const bool v4 = gid_is_v4(b->route.sgid);

	c->src_qp = b->sqpn;
	if (h->cfg.lids && v4)
		c->slid = gid_lid(b->route.sgid);
	else
		c->flags = WC_GRH;
	if (!h->cfg.lids)
		c->sl = v4 ? SL_IPV4 : SL_IPV6;
}

void ud_rx(struct hca *h, struct qp *qp, const struct burst *b)
{
	enum fault f = FAULT_NONE;
	bool lost = false;
	struct rwqe *w;
	struct cqe c;

	if (b->qkey != qp->attr.qkey)
		f = FAULT_UD_QKEY;
	else if (b->n != 1 || b->payload_len > mtu_bytes(h->cfg.mtu))
		f = FAULT_UD_LEN;
	else if (!recv_peek(qp))
		f = FAULT_UD_NO_RECV;
	if (!f) {
		w = recv_take(h, qp);
		f = store(h, qp, b, w, &lost);
	}
	if (f) {
		fault_act(h, qp, f);
		return;
	}
	if (lost)
		return;
	c = recv_cqe(qp, w);
	c.byte_len = (uint32_t)(GRH_LEN + b->payload_len);
	c.solicited = b->se;
	source_tell(h, b, &c);
	c.pkey_index = qp->attr.pkey_index;
	if (opcode_get(b->op_first)->hdrs & HDR_IMM) {
		c.flags |= WC_WITH_IMM;
		c.imm = b->imm;
	}
	recv_complete(h, qp, &c);
	count(h, HCA_STAT_RDMA_RECVS, 1);
}
