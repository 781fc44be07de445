/* SPDX-License-Identifier: MIT */
/* dead_flood.c - datagrams (UD) without end to 500 addresses of the network that ADDRESS, "10.9.0.1", is in: nobody has them. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define DEAD  500u
#define DEPTH 64u
#define LEN   1024u

static void need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "dead_flood: %s\n", what);
	exit(1);
}

static int gid_find(struct ibv_context *c, const union ibv_gid *of)
{
	union ibv_gid gid;

	for (int i = 0; !ibv_query_gid(c, 1, i, &gid); i++)
		if (!memcmp(&gid, of, sizeof(gid)))
			return i;
	return -1;
}

static void rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };

	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	a.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTR");
	a.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

int main(int argc, char **argv)
{
	static char buf[LEN];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, LEN, 0) : NULL;
	struct ibv_cq *cq = c ? ibv_create_cq(c, DEPTH, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { DEPTH, 1, 1, 1, 0 }, .qp_type = IBV_QPT_UD
	};
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };
	struct ibv_ah *ah[DEAD];
	struct ibv_send_wr *bad;
	unsigned in = 0, next = 0;
	struct ibv_wc wc[DEPTH];
	struct ibv_qp *qp;
	int row, n;

	need(argc == 2 && inet_pton(AF_INET, argv[1], gid.raw + 12) == 1 && mr && cq, "no device, or no ADDRESS");
	row = gid_find(c, &gid);
	need(row >= 0, "no GID of that address");
	qp = ibv_create_qp(pd, &init);
	need(qp, "no QP");
	rts(qp);
	for (unsigned i = 0; i < DEAD; i++) {
		struct ibv_ah_attr a = { .is_global = 1,
					 .port_num = 1,
					 .grh = { .sgid_index = (uint8_t)row, .hop_limit = 64 } };

		gid.raw[14] = (uint8_t)(77 + i / 250);
		gid.raw[15] = (uint8_t)(1 + i % 250);
		a.grh.dgid = gid;
		ah[i] = ibv_create_ah(pd, &a);
		need(ah[i], "no AH");
	}
	puts("floods");
	fflush(stdout);
	for (;;) {
		struct ibv_sge sge = { (uintptr_t)buf, LEN, mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
		};

		wr.wr.ud.ah = ah[next % DEAD];
		wr.wr.ud.remote_qpn = 2 + next / DEAD % 64; /* by each of the sockets */
		wr.wr.ud.remote_qkey = 1;
		if (in < DEPTH && !ibv_post_send(qp, &wr, &bad)) {
			in++;
			next++;
			continue;
		}
		n = ibv_poll_cq(cq, DEPTH, wc);
		need(n >= 0, "poll");
		in -= (unsigned)n;
	}
}
