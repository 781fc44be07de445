/* SPDX-License-Identifier: MIT */
/* api_objects.c - devices, queries, PD, MR, AH, CQ, QP: what is granted and what is refused, with which
 * errno. */
#include "fixture.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(device)
{
	struct ibv_device **list;
	int n = -1;
	void *vendor;

	list = ibv_get_device_list(&n);
	ck_assert(list != NULL);
	ck_assert_int_ge(n, 1);
	ck_assert_ptr_eq(list[n], NULL);
	ck_assert_int_eq(list[0]->node_type, IBV_NODE_CA);
	ck_assert_int_eq(list[0]->transport_type, IBV_TRANSPORT_IB);
	ck_assert_str_eq(ibv_get_device_name(list[0]), list[0]->name);
	ck_assert(ibv_get_device_guid(list[0]) != 0);
	ck_assert_int_eq(ibv_get_device_index(list[0]), -1);
	/* Vendor libraries read the word behind the struct. */
	memcpy(&vendor, list[0] + 1, sizeof(vendor));
	ck_assert_ptr_eq(vendor, NULL);
	ibv_free_device_list(list);
}
END_TEST

/* A verb of rdma-core 62, which the headers need not have. */
START_TEST(port_speed)
{
	int (*ask)(struct ibv_context *, uint32_t, uint64_t *);
	uint64_t speed = 0;
	struct ibv_gid_entry e = { 0 };
	char name[IF_NAMESIZE];
	struct fix f;

	fix_open(&f);
	*(void **)&ask = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	ck_assert(ask != NULL);
	ck_assert_int_eq(ask(f.ctx, 1, &speed), 0);
	ck_assert_uint_ge(speed, 1);
	for (uint32_t i = 0; i < 64 && memcmp(&e.gid, &f.gid, sizeof(e.gid)); i++)
		ibv_query_gid_ex(f.ctx, 1, i, &e, 0);
	if (if_indextoname(e.ndev_ifindex, name) && !strcmp(name, "lo"))
		ck_assert_uint_eq(speed, 2000); /* of 100 Mb/s: a port of loopback alone has 200 Gb/s */
	speed = 7;
	ck_assert_int_eq(ask(f.ctx, 2, &speed), EINVAL);
	ck_assert_uint_eq(speed, 7);
	fix_close(&f);
}
END_TEST

START_TEST(query) /* conf: CA17-26, rule 1.3, rule 1.7 */
{
	struct fix f;
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;
	struct ibv_gid_entry e, table[64];
	char name[IF_NAMESIZE];
	ssize_t n;
	__be16 pkey;
	int empty = 0;

	fix_open(&f);
	ck_assert(f.attr.max_qp && f.attr.max_mr_size && f.attr.page_size_cap && f.attr.vendor_id && f.attr.max_sge &&
		  f.attr.max_pkeys && f.attr.max_cqe);
	ck_assert_int_eq(ibv_query_device_ex(f.ctx, NULL, &ex), 0);
	ck_assert_int_eq(ex.orig_attr.max_qp, f.attr.max_qp);
	ck_assert_int_eq(ibv_query_port(f.ctx, 1, &port), 0);
	ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_int_ne(ibv_query_port(f.ctx, 2, &port), 0);

	for (int i = 0; i < port.gid_tbl_len; i++) {
		int err = ibv_query_gid_ex(f.ctx, 1, (uint32_t)i, &e, 0);

		ck_assert(err == 0 || err == ENODATA);
		empty += err == ENODATA;
		if (!err)
			ck_assert_int_eq(e.gid_type, IBV_GID_TYPE_ROCE_V2);
		if (!err) /* the one of the GUID, too: programs look for an address there */
			ck_assert_ptr_nonnull(if_indextoname(e.ndev_ifindex, name));
	}
	ck_assert_int_eq(ibv_query_gid_ex(f.ctx, 1, (uint32_t)port.gid_tbl_len, &e, 0), EINVAL);
	ck_assert_int_eq(ibv_query_gid_ex(f.ctx, 1, 0, &e, 1), EINVAL);
	ck_assert_int_eq(ibv_query_gid_table(f.ctx, table, 64, 1), -EINVAL);
	n = ibv_query_gid_table(f.ctx, table, 64, 0);
	ck_assert_int_eq(n, port.gid_tbl_len - empty);
	ck_assert_int_eq(ibv_query_gid_table(f.ctx, table, (size_t)n - 1, 0), -EINVAL);

	ck_assert_int_eq(ibv_query_pkey(f.ctx, 1, 0, &pkey), 0);
	ck_assert_int_eq(ntohs(pkey), 0xffff);
	ck_assert_int_eq(ibv_get_pkey_index(f.ctx, 1, pkey), 0);
	ck_assert_int_eq(ibv_query_pkey(f.ctx, 1, 1, &pkey), -1);
	fix_close(&f);
}
END_TEST

START_TEST(mr_limits)
{
	struct fix f;
	struct ibv_mr *m;
	uint32_t old;

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_reg_mr(f.pd, f.buf, 64, IBV_ACCESS_REMOTE_WRITE), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(ibv_reg_mr(f.pd, f.buf, 64, IBV_ACCESS_REMOTE_ATOMIC), NULL);
	ck_assert_ptr_eq(ibv_reg_mr(f.pd, f.buf, 64, 1 << 15), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(ibv_reg_mr(f.pd, (void *)8, 4096, 0), NULL); /* nothing is there */
	m = ibv_reg_mr(f.pd, f.buf, 64, IBV_ACCESS_RELAXED_ORDERING);
	ck_assert(m != NULL);
	ck_assert(m->lkey != f.mr->lkey && m->addr == f.buf && m->length == 64);

	errno = 0;
	ck_assert_int_eq(ibv_rereg_mr(m, 0, f.pd, f.buf, 64, 0), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	old = m->lkey;
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, f.buf + 64, 128, 0), 0);
	ck_assert(m->addr == f.buf + 64 && m->length == 128 && m->lkey == old);
	errno = 0; /* rights, where none are to change */
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, f.buf, 64, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert(m->addr == f.buf + 64 && m->length == 128);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_PD, f.pd, NULL, 0, 0), 0);
	errno = 0;
	ck_assert_int_eq(ibv_dealloc_pd(f.pd), EBUSY);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	fix_close(&f);
}
END_TEST

START_TEST(ah_limits)
{
	struct fix f;
	struct ibv_ah_attr a = { .port_num = 1 };
	struct ibv_ah *h;

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_create_ah(f.pd, &a), NULL); /* RoCE: no address without a GRH */
	ck_assert_int_eq(errno, EINVAL);
	a.is_global = 1;
	a.grh.dgid = f.gid;
	a.grh.sgid_index = 255;
	ck_assert_ptr_eq(ibv_create_ah(f.pd, &a), NULL);
	a.grh.sgid_index = 0;
	a.port_num = 2;
	ck_assert_ptr_eq(ibv_create_ah(f.pd, &a), NULL);
	a.port_num = 1;
	h = ibv_create_ah(f.pd, &a);
	ck_assert(h != NULL);
	ck_assert_int_eq(ibv_destroy_ah(h), 0);
	fix_close(&f);
}
END_TEST

/* It holds its PD, and serves the queue pairs of that one only. */
START_TEST(ah_of_another_pd)
{
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr *bad, wr = { .wr_id = 5,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.ud = { .remote_qkey = 0x1111 } };
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	struct ibv_pd *pd;
	struct ibv_qp *qp, *peer;
	struct ibv_wc wc;
	struct fix f;

	fix_open(&f);
	a.grh.dgid = f.gid;
	sge.addr = (uintptr_t)f.buf;
	sge.lkey = f.mr->lkey;
	pd = ibv_alloc_pd(f.ctx);
	ck_assert(pd != NULL);
	wr.wr.ud.ah = ibv_create_ah(pd, &a);
	ck_assert(wr.wr.ud.ah != NULL);
	qp = fix_qp(&f, IBV_QPT_UD, 16, NULL);
	peer = fix_qp(&f, IBV_QPT_UD, 16, NULL);
	fix_connect(&f, qp, peer);
	wr.wr.ud.remote_qpn = peer->qp_num;
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	wc = fix_wait(f.cq);
	ck_assert(wc.wr_id == 5 && wc.status == IBV_WC_LOC_QP_OP_ERR);
	errno = 0;
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(ibv_destroy_ah(wr.wr.ud.ah), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fix_pair_end(qp, peer);
	fix_close(&f);
}
END_TEST

/* A datagram from the row of the first QP's GID table to a group is there at the second one, and not at the first. */
static void group_reached(struct fix *f, struct ibv_qp *qp[2], uint8_t row, union ibv_gid group)
{
	struct ibv_ah_attr to = { .port_num = 1,
				  .is_global = 1,
				  .grh = { .dgid = group, .sgid_index = row, .hop_limit = 1 } };
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf, .lkey = f->mr->lkey, .length = 256 };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	unsigned seen = 0;

	for (int i = 0; i < 2; i++) {
		recv.wr_id = (uint64_t)i;
		ck_assert_int_eq(ibv_attach_mcast(qp[i], &group, 0), 0);
		ck_assert_int_eq(ibv_destroy_qp(qp[i]), EBUSY);
		ck_assert_int_eq(ibv_post_recv(qp[i], &recv, &bad_recv), 0);
	}
	send.wr.ud.ah = ibv_create_ah(f->pd, &to);
	ck_assert(send.wr.ud.ah != NULL);
	send.wr.ud.remote_qpn = 0xffffff;
	send.wr.ud.remote_qkey = 0x1111;
	sge.length = 16;
	ck_assert_int_eq(ibv_post_send(qp[0], &send, &bad), 0);
	while (seen != (1u << 9 | 1u << 1)) {
		wc = fix_wait(f->cq);
		ck_assert(wc.status == IBV_WC_SUCCESS && wc.wr_id != 0);
		seen |= 1u << wc.wr_id;
	}
	ck_assert_int_eq(ibv_poll_cq(f->cq, 1, &wc), 0);
	ck_assert_int_eq(ibv_destroy_ah(send.wr.ud.ah), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_detach_mcast(qp[i], &group, 0), 0);
}

/*
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: a datagram to a group goes to all of it but the QP that has sent it.  By the wire, and
 * without: the GID of row 0 is made of the GUID, and no address of the host's; from ::1 hosts have no route to a group.
 */
START_TEST(block_self_mcast)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct ibv_qp *qp[2];
	union ibv_gid g;
	struct fix f;

	fix_open(&f);
	a.pd = f.pd;
	a.send_cq = a.recv_cq = f.cq;
	for (int i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp_ex(f.ctx, &a);
		ck_assert(qp[i] != NULL);
	}
	fix_connect(&f, qp[0], qp[1]);
	group_reached(&f, qp, 1, (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 239, 7, 7, 7 } });
	group_reached(&f, qp, 0, (union ibv_gid){ .raw = { 0xff, 1, [15] = 7 } });
	for (uint8_t row = 1; !ibv_query_gid(f.ctx, 1, row, &g) && g.raw[15]; row++)
		if (!memcmp(&g, &in6addr_loopback, sizeof(g)))
			group_reached(&f, qp, row, (union ibv_gid){ .raw = { 0xff, 2, [15] = 7 } });
	fix_pair_end(qp[0], qp[1]);

	a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	ck_assert_ptr_eq(ibv_create_qp_ex(f.ctx, &a), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	a.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	a.qp_type = IBV_QPT_RC;
	ck_assert_ptr_eq(ibv_create_qp_ex(f.ctx, &a), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	fix_close(&f);
}
END_TEST

/* The 40 bytes in front of a datagram, as they are for IPv4: 20 of nothing, then the header. */
START_TEST(ah_from_wc) /* conf: rule 1.6 */
{
	static const uint8_t lo4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	uint8_t grh[40] = { [20] = 0x45, [28] = 61, 17, [32] = 10, 1, 2, 3, 127, 0, 0, 1 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .src_qp = 5 };
	struct ibv_ah_attr a;
	uint32_t sum = 0;
	union ibv_gid g;
	struct fix f;

	fix_open(&f);
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)grh[i] << 8 | grh[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	grh[30] = (uint8_t)(~sum >> 8);
	grh[31] = (uint8_t)~sum;
	ck_assert_int_eq(ibv_init_ah_from_wc(f.ctx, 1, &wc, (struct ibv_grh *)grh, &a), 0);
	ck_assert(a.is_global && a.grh.hop_limit == 61);
	ck_assert_int_eq(memcmp(a.grh.dgid.raw + 10, "\xff\xff\x0a\x01\x02\x03", 6), 0);
	ck_assert_int_eq(ibv_query_gid(f.ctx, 1, a.grh.sgid_index, &g), 0);
	ck_assert_int_eq(memcmp(g.raw, lo4, 16), 0);
	grh[31] ^= 1; /* a wrong checksum: it is not IPv4, and not IPv6 either */
	ck_assert_int_ne(ibv_init_ah_from_wc(f.ctx, 1, &wc, (struct ibv_grh *)grh, &a), 0);

	memset(grh, 0, sizeof(grh));
	grh[0] = 0x61;
	grh[1] = 0x23;
	grh[3] = 0x45;
	grh[6] = 17;
	grh[7] = 33;
	grh[8] = 0xfe;
	memcpy(grh + 24, f.gid.raw, 16);
	ck_assert_int_eq(ibv_init_ah_from_wc(f.ctx, 1, &wc, (struct ibv_grh *)grh, &a), 0);
	ck_assert(a.grh.traffic_class == 0x12 && a.grh.flow_label == 0x30045 && a.grh.hop_limit == 33 &&
		  a.grh.sgid_index == 0 && a.grh.dgid.raw[0] == 0xfe);
	fix_close(&f);
}
END_TEST

START_TEST(cq_limits)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct fix f;

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_create_cq(f.ctx, f.attr.max_cqe + 1, NULL, NULL, 0), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(ibv_create_cq(f.ctx, 0, NULL, NULL, 0), NULL);
	ck_assert_ptr_eq(ibv_create_cq(f.ctx, 1, NULL, NULL, f.ctx->num_comp_vectors), NULL);
	ch = ibv_create_comp_channel(f.ctx);
	ck_assert(ch && ch->fd >= 0);
	cq = ibv_create_cq(f.ctx, 10, &f, ch, f.ctx->num_comp_vectors - 1);
	ck_assert(cq && cq->cqe >= 10 && cq->cq_context == &f && cq->channel == ch);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), EBUSY);
	ck_assert_int_eq(ibv_resize_cq(cq, 1000), 0);
	ck_assert_int_ge(cq->cqe, 1000);
	ck_assert_int_ne(ibv_resize_cq(cq, f.attr.max_cqe + 1), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	fix_close(&f);
}
END_TEST

/* Queues are a power of two long, as adapters give them: a program that posts one more than it asked for (Kite) has room for it. */
START_TEST(qp_depth)
{
	struct fix f;
	struct ibv_qp_attr q;
	struct ibv_qp_init_attr a, init;
	struct ibv_qp *qp;
	unsigned n = 0, most;

	fix_open(&f);
	most = (unsigned)f.attr.max_qp_wr;
	a = (struct ibv_qp_init_attr){
		.send_cq = f.cq, .recv_cq = f.cq, .qp_type = IBV_QPT_UD, .cap = { 5, 21, 1, 1, 0 }
	};
	qp = ibv_create_qp(f.pd, &a);
	ck_assert_ptr_nonnull(qp);
	ck_assert(a.cap.max_send_wr == 8 && a.cap.max_recv_wr == 32);
	ck_assert_int_eq(ibv_query_qp(qp, &q, IBV_QP_CAP, &init), 0);
	ck_assert(q.cap.max_send_wr == 8 && init.cap.max_recv_wr == 32);
	fix_init(qp);
	while (!fix_recv(&f, qp, n, 4096, 64))
		ck_assert_uint_le(++n, 32);
	ck_assert_uint_eq(n, 32);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	/* Those that have none keep none, and no queue becomes longer than it may be. */
	a.cap = (struct ibv_qp_cap){ most - 1, 0, 1, 0, 0 };
	qp = ibv_create_qp(f.pd, &a);
	ck_assert_ptr_nonnull(qp);
	ck_assert(a.cap.max_send_wr >= most - 1 && a.cap.max_send_wr <= most && !a.cap.max_recv_wr);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	fix_close(&f);
}
END_TEST

START_TEST(qp_limits)
{
	struct fix f;
	struct ibv_qp_init_attr a, init;
	struct ibv_qp_attr q;
	struct ibv_qp *qp;

	fix_open(&f);
	a = (struct ibv_qp_init_attr){
		.send_cq = f.cq, .recv_cq = f.cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 1u << 30 }
	};
	errno = 0;
	ck_assert_ptr_eq(ibv_create_qp(f.pd, &a), NULL);
	ck_assert_int_eq(errno, EINVAL);
	a.cap = (struct ibv_qp_cap){ (uint32_t)f.attr.max_qp_wr + 1, 1, 1, 1, 0 };
	ck_assert_ptr_eq(ibv_create_qp(f.pd, &a), NULL);
	a.cap = (struct ibv_qp_cap){ 1, 1, (uint32_t)f.attr.max_sge + 1, 1, 0 };
	ck_assert_ptr_eq(ibv_create_qp(f.pd, &a), NULL);
	a.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
	a.qp_type = IBV_QPT_DRIVER;
	ck_assert_ptr_eq(ibv_create_qp(f.pd, &a), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	/* As libfabric does: the largest inline size is found by trying. */
	a.qp_type = IBV_QPT_UD;
	for (a.cap.max_inline_data = 2; (qp = ibv_create_qp(f.pd, &a)); a.cap.max_inline_data *= 2)
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_uint_gt(a.cap.max_inline_data, 64);
	qp = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	ck_assert_uint_ge(qp->qp_num, 2);
	ck_assert_int_eq(ibv_destroy_cq(f.cq), EBUSY);
	ck_assert_int_eq(ibv_query_qp(qp, &q, IBV_QP_STATE, &init), 0);
	ck_assert(q.qp_state == IBV_QPS_RESET && init.send_cq == f.cq && init.qp_type == IBV_QPT_RC);
	ck_assert_int_eq(fix_state(qp, IBV_QPS_RTS), EINVAL);
	fix_init(qp);
	q = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT };
	for (int bit = 21; bit < 31; bit++) /* 25 is the rate limit, which INIT does not take */
		ck_assert_int_eq(ibv_modify_qp(qp, &q, IBV_QP_STATE | 1 << bit), bit == 25 ? EINVAL : EOPNOTSUPP);
	/* An address without GRH on RoCE. */
	q = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .ah_attr.port_num = 1 };
	ck_assert_int_eq(ibv_modify_qp(qp, &q,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 EINVAL);
	fix_rtr(&f, qp, qp);
	ck_assert_int_eq(ibv_query_qp(qp, &q, IBV_QP_STATE, &init), 0);
	ck_assert(q.qp_state == IBV_QPS_RTR && q.ah_attr.is_global && q.path_mtu == IBV_MTU_1024 &&
		  q.dest_qp_num == qp->qp_num && q.rq_psn == 0xfffff0);
	ck_assert_int_eq(memcmp(q.ah_attr.grh.dgid.raw, f.gid.raw, 16), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	fix_close(&f);
}
END_TEST

/* Operations that are not there say so. */
START_TEST(refused)
{
	struct ibv_flow_attr flow = { 0 };
	struct ibv_qp *qp;
	struct fix f;

	fix_open(&f);
	qp = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	errno = 0;
	ck_assert_ptr_eq(ibv_create_flow(qp, &flow), NULL);
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_fork_init(), 0);
	ck_assert_int_eq(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	fix_close(&f);
}
END_TEST

/* All that was posted goes out, though nobody will hear of it: a datagram that says goodbye has no second try. */
START_TEST(last_words)
{
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_qp *a = fix_qp(&f, IBV_QPT_UC, 4, NULL), *b = fix_qp(&f, IBV_QPT_UC, 4, NULL);

		fix_connect(&f, a, b);
		ck_assert_int_eq(fix_recv(&f, b, i, 2000, 1000), 0);
		fix_fill(f.buf, 1000, i);
		ck_assert_int_eq(fix_send(&f, a, 0, 0, 1000, 0), 0);
		ck_assert_int_eq(ibv_destroy_qp(a), 0);
		fix_wait_ok(f.cq);
		ck_assert(fix_filled(f.buf + 2000, 1000, i));
		ck_assert_int_eq(ibv_destroy_qp(b), 0);
	}
	fix_close(&f);
}
END_TEST

/* A child must not be able to speak in its parent's name; what it destroys is only its own copy. */
START_TEST(forked)
{
	struct fix f;
	struct ibv_qp *a, *b;
	int status;
	pid_t pid;

	fix_open(&f);
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_connect(&f, a, b);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct ibv_pd *pd = ibv_alloc_pd(f.ctx);
		struct ibv_context *own;

		if (pd || errno != EIO || fix_state(a, IBV_QPS_ERR) != EIO)
			_exit(1);
		if (ibv_destroy_qp(a) || ibv_dereg_mr(f.mr) || ibv_close_device(f.ctx))
			_exit(2);
		own = fix_device();
		_exit(ibv_close_device(own) ? 3 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fix_fill(f.buf, 1000, 1);
	ck_assert_int_eq(fix_recv(&f, b, 1, 2000, 1000), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 1000, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert(fix_filled(f.buf + 2000, 1000, 1));
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	fix_close(&f);
}
END_TEST

#define MANY 1000u

static void *pds_make(void *ctx)
{
	for (unsigned i = 0; i < MANY; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(ctx);

		if (!pd || ibv_dealloc_pd(pd))
			return ctx;
	}
	return NULL;
}

/* Many requests go by memory in the end; a child, which has that, too, asks nothing. */
START_TEST(asked_by_mail)
{
	pthread_t t[4];
	struct fix f;
	void *failed;
	int status;
	pid_t pid;

	fix_open(&f);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, pds_make, f.ctx), 0);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(t[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	ck_assert_ptr_nonnull(fix_mail());
	pid = fork();
	if (!pid)
		_exit(ibv_alloc_pd(f.ctx) || errno != EIO || ibv_close_device(f.ctx));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_ptr_null(pds_make(f.ctx));
	fix_close(&f);
	ck_assert_ptr_null(fix_mail());
}
END_TEST

void api_objects(Suite *s)
{
	SUITE_ADD(s, device, query, port_speed, mr_limits, ah_limits, ah_of_another_pd, block_self_mcast, ah_from_wc,
		  cq_limits, qp_depth, qp_limits, refused, last_words, forked, asked_by_mail);
}
