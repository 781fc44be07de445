/* SPDX-License-Identifier: MIT */
/*
 * rawsend DEVICE - sends by a RAW_PACKET QP what raw.test expects on the other host: TCP in segments, over IPv4 and IPv6,
 * with and without a VLAN tag, and UDP with checksums made.  The payload is bytes that count up.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN 60000u
#define MSS 1400u

struct send {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buf;
};

static void die(const char *what)
{
	fprintf(stderr, "rawsend: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_qp(struct send *s)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 4, 1, 1, 1, 0 },
					 .max_tso_header = 128,
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER };
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	s->pd = a.pd = ibv_alloc_pd(s->ctx);
	s->cq = a.send_cq = a.recv_cq = ibv_create_cq(s->ctx, 4, NULL, NULL, 0);
	s->qp = s->pd && s->cq ? ibv_create_qp_ex(s->ctx, &a) : NULL;
	s->buf = malloc(LEN);
	s->mr = s->qp && s->buf ? ibv_reg_mr(s->pd, s->buf, LEN, 0) : NULL;
	if (!s->mr)
		die("no QP");
	if (ibv_modify_qp(s->qp, &at, IBV_QP_STATE | IBV_QP_PORT))
		die("INIT");
	at.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(s->qp, &at, IBV_QP_STATE))
		die("RTR");
	at.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(s->qp, &at, IBV_QP_STATE))
		die("RTS");
}

static unsigned char *put(unsigned char *p, unsigned bytes, unsigned v)
{
	while (bytes--)
		*p++ = (unsigned char)(v >> 8 * bytes);
	return p;
}

/* Ethernet, perhaps a tag, and IP, without lengths and checksums; behind them. */
static unsigned char *headers(unsigned char *p, int ip, int vlan, int proto, unsigned len)
{
	p = put(put(put(p, 2, 0x0200), 4, 0x99), 4, 0x02000000);
	p = put(p, 2, 0x88);
	if (vlan)
		p = put(put(p, 2, 0x8100), 2, 0x6005);
	p = put(p, 2, ip == 4 ? 0x0800 : 0x86dd);
	if (ip == 4) {
		p = put(put(put(p, 2, 0x4500), 2, len + 20), 4, 0x12344000);
		p = put(put(p, 2, 0x4000 | (unsigned)proto), 2, 0);
		return put(put(p, 4, 0xc0000201), 4, 0xc0000202);
	}
	p = put(put(put(p, 4, 0x60000000), 2, len), 2, (unsigned)proto << 8 | 64);
	for (int i = 1; i <= 2; i++)
		p = put(put(put(put(p, 4, 0xfd770000), 4, 0), 4, 0), 4, (unsigned)i);
	return p;
}

static void post(struct send *s, struct ibv_send_wr *wr, const void *at, unsigned len)
{
	struct ibv_sge sge = { (uintptr_t)at, len, s->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_SIGNALED;
	errno = ibv_post_send(s->qp, wr, &bad);
	if (errno)
		die("post");
	while (!(n = ibv_poll_cq(s->cq, 1, &wc)))
		;
	if (n < 0 || wc.status) {
		fprintf(stderr, "rawsend: %s\n", n < 0 ? "poll" : ibv_wc_status_str(wc.status));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct send s = { 0 };

	for (int i = 0; list && list[i]; i++)
		if (argc > 1 && !strcmp(ibv_get_device_name(list[i]), argv[1]))
			s.ctx = ibv_open_device(list[i]);
	if (!s.ctx)
		die("no such device");
	open_qp(&s);
	for (unsigned i = 0; i < LEN; i++)
		s.buf[i] = (unsigned char)(i + i / 256);
	for (int i = 0; i < 4; i++) {
		unsigned char hdr[128], *p = headers(hdr, i & 1 ? 4 : 6, i & 2, 6, 0);
		struct ibv_send_wr wr = { .opcode = IBV_WR_TSO };

		p = put(put(put(p, 4, 0x10002000), 4, 0xfffff000), 4, 7);
		p = put(put(p, 4, 0x50191000), 4, 0); /* ACK PSH FIN */
		wr.tso.hdr = hdr;
		wr.tso.hdr_sz = (uint16_t)(p - hdr);
		wr.tso.mss = MSS;
		post(&s, &wr, s.buf, LEN);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM };
		unsigned char *p = headers(s.buf, i ? 4 : 6, 0, 17, 8 + 501);

		p = put(put(p, 4, 0x10002000), 2, 8 + 501);
		p = put(p, 2, 0);
		for (unsigned k = 0; k < 501; k++)
			p[k] = (unsigned char)(k + k / 256);
		post(&s, &wr, s.buf, (unsigned)(p - s.buf) + 501);
	}
	return 0;
}
