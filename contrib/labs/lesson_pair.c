/* SPDX-License-Identifier: MIT */
/* lesson_pair.c - two ends made and connected, posts and completions with a word about each. */
#include "lesson.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 20000 /* a machine may be busy */

int unexpected;

void tell(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("  ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
}

void expect(bool good, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs(good ? "  " : "  not as the page has it - ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
	unexpected += !good;
}

void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "lesson: %s: %s\n", what, strerror(err > 0 ? err : errno));
	exit(2);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- making ------------------------------------------------------------------------- */

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			c = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!c)
		fprintf(stderr, "lesson: no device named %s: run it as rdmad-run --lesson does\n", name);
	must(!c ? ENODEV : 0, "open");
	return c;
}

/* The row of the GID table that is an IPv4 address. */
static void gid_find(struct end *e)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };

	for (e->gid_index = 0; e->gid_index < 16; e->gid_index++)
		if (!ibv_query_gid(e->ctx, 1, e->gid_index, &e->gid) && !memcmp(e->gid.raw, v4, sizeof(v4)))
			return;
	must(ENOENT, "no IPv4 address");
}

static void end_open(struct end *e, const char *name, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (type == IBV_QPT_RC ? IBV_ACCESS_REMOTE_READ : 0),
	};

	e->name = name;
	e->ctx = device_open(name);
	gid_find(e);
	e->mem = aligned_alloc(4096, MEM);
	must(!e->mem, "memory");
	memset(e->mem, 0, MEM);
	e->pd = ibv_alloc_pd(e->ctx);
	must(!e->pd ? -1 : 0, "PD");
	e->mr = ibv_reg_mr(e->pd, e->mem, MEM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	must(!e->mr ? -1 : 0, "MR");
	e->cq = ibv_create_cq(e->ctx, 64, NULL, NULL, 0);
	must(!e->cq ? -1 : 0, "CQ");
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->pd, &init);
	must(!e->qp ? -1 : 0, "QP");
	must(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
}

static void end_connect(struct end *e, const struct end *peer, const struct setup *s, uint32_t sq_psn, uint32_t rq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = s->min_rnr ? s->min_rnr : 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = (uint8_t)e->gid_index, .hop_limit = 64 } },
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	bool rc = s->type != IBV_QPT_UC;

	must(ibv_modify_qp(e->qp, &attr, mask | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)), "to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = s->timeout ? s->timeout : 14,
		.retry_cnt = s->retry ? s->retry : 7,
		.rnr_retry = s->rnr_retry_1 ? s->rnr_retry_1 - 1 : 7,
		.max_rd_atomic = 4,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	must(ibv_modify_qp(
		     e->qp, &attr,
		     mask | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)),
	     "to RTS");
}

void pair_open(struct pair *p, const struct setup *s)
{
	enum ibv_qp_type type = s->type ? s->type : IBV_QPT_RC;
	uint32_t psn = s->client_psn ? s->client_psn : CLIENT_PSN;

	end_open(&p->client, "client", type);
	end_open(&p->server, "server", type);
	end_connect(&p->server, &p->client, s, SERVER_PSN, psn);
	end_connect(&p->client, &p->server, s, psn, SERVER_PSN);
	tell("%s queue pairs: client %#x sends from PSN %u (0x%06x) on, server %#x; path MTU %d",
	     type == IBV_QPT_RC ? "RC" : "UC", p->client.qp->qp_num, psn, psn, p->server.qp->qp_num, MTU);
}

static void end_close(struct end *e)
{
	must(ibv_destroy_qp(e->qp), "destroy QP");
	must(ibv_destroy_cq(e->cq), "destroy CQ");
	must(ibv_dereg_mr(e->mr), "deregister MR");
	must(ibv_dealloc_pd(e->pd), "PD");
	must(ibv_close_device(e->ctx), "close");
	free(e->mem);
}

void pair_close(struct pair *p)
{
	end_close(&p->client);
	end_close(&p->server);
}

/* ---- working ---------------------------------------------------------------------------- */

void post_recv(struct end *e, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->mem, .length = MEM, .lkey = e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(e->qp, &wr, &bad), "post a receive");
}

void post(struct end *e, enum ibv_wr_opcode op, uint64_t id, uint32_t len, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->mem, .length = len, .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .opcode = op, .sg_list = &sge, .num_sge = 1 }, *bad;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	tell("%s posts request %llu: %s of %u bytes, %u packet%s", e->name, (unsigned long long)id,
	     op == IBV_WR_SEND        ? "SEND"
	     : op == IBV_WR_RDMA_READ ? "RDMA READ"
				      : "RDMA WRITE",
	     len, (len + MTU - 1) / MTU, len > MTU ? "s" : "");
	must(ibv_post_send(e->qp, &wr, &bad), "post a send");
}

static void pause_us(long us) { nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL); }

bool completion(struct end *e, struct ibv_wc *wc, int ms)
{
	const int64_t end = now_ms() + ms;

	do {
		int n = ibv_poll_cq(e->cq, 1, wc);

		must(n < 0 ? EIO : 0, "poll");
		if (n)
			return true;
		pause_us(200);
	} while (now_ms() < end);
	return false;
}

void expect_wc(struct end *e, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	if (!completion(e, &wc, PATIENCE_MS)) {
		expect(false, "%s: request %llu completes", e->name, (unsigned long long)id);
		return;
	}
	expect(wc.wr_id == id && wc.status == status, "%s: request %llu completes: %s", e->name,
	       (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

void expect_none(struct end *e, const char *why)
{
	struct ibv_wc wc;

	expect(!completion(e, &wc, 20), "%s: no further completion: %s", e->name, why);
}

void expect_state(struct end *e, enum ibv_qp_state state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	const int64_t end = now_ms() + PATIENCE_MS;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (;;) {
		must(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), "query");
		if (attr.qp_state == state || now_ms() >= end)
			break;
		pause_us(5000);
	}
	expect(attr.qp_state == state, "%s: its queue pair is in %s", e->name, names[attr.qp_state]);
}

void fill(unsigned char *mem, uint32_t len, unsigned seed)
{
	for (uint32_t i = 0; i < len; i++)
		mem[i] = (unsigned char)(i * 7 + i / MTU + seed);
}

void expect_data(const struct end *e, uint32_t len, unsigned seed)
{
	bool good = true;

	for (uint32_t i = 0; i < len; i++)
		good &= e->mem[i] == (unsigned char)(i * 7 + i / MTU + seed);
	expect(good, "%s: all %u bytes are right", e->name, len);
}
