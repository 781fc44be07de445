/* SPDX-License-Identifier: MIT */
/*
 * rpma.c - librpma at work: one end offers memory, the other writes to it, flushes, reads it back and compares.
 *
 *	rpma server ADDRESS PORT	prints "ready", and "ok" when the client has gone and its bytes are there
 *	rpma client ADDRESS PORT	prints "ok" if what it read is what it wrote
 * Built by the test with -lrpma -libverbs.
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN (1u << 20)

static _Alignas(4096) unsigned char mem[LEN], back[LEN];

static void must(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

static void require(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void fill(unsigned char *p)
{
	for (unsigned i = 0; i < LEN; i++)
		p[i] = (unsigned char)((i * 2654435761u) >> 11);
}

static struct rpma_peer *peer_of(const char *addr, enum rpma_util_ibv_context_type type)
{
	struct rpma_peer *peer;
	struct ibv_context *ctx;

	must(rpma_utils_get_ibv_context(addr, type, &ctx), "rpma_utils_get_ibv_context");
	must(rpma_peer_new(ctx, &peer), "rpma_peer_new");
	return peer;
}

static void event(struct rpma_conn *conn, enum rpma_conn_event due)
{
	enum rpma_conn_event got;

	must(rpma_conn_next_event(conn, &got), "rpma_conn_next_event");
	require(got == due, rpma_utils_conn_event_2str(got));
}

static void server(const char *addr, const char *port)
{
	struct rpma_peer *peer = peer_of(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_conn_private_data data;
	struct rpma_conn_req *req;
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	unsigned char desc[64];
	struct rpma_ep *ep;
	size_t len;

	must(rpma_ep_listen(peer, addr, port, &ep), "rpma_ep_listen");
	must(rpma_mr_reg(peer, mem, LEN,
			 RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr),
	     "rpma_mr_reg");
	must(rpma_mr_get_descriptor_size(mr, &len), "rpma_mr_get_descriptor_size");
	require(len <= sizeof(desc), "a longer descriptor than expected");
	must(rpma_mr_get_descriptor(mr, desc), "rpma_mr_get_descriptor");
	puts("ready");
	fflush(stdout);
	must(rpma_ep_next_conn_req(ep, NULL, &req), "rpma_ep_next_conn_req");
	data = (struct rpma_conn_private_data){ desc, (uint8_t)len };
	must(rpma_conn_req_connect(&req, &data, &conn), "rpma_conn_req_connect");
	event(conn, RPMA_CONN_ESTABLISHED);
	event(conn, RPMA_CONN_CLOSED);
	fill(back);
	require(!memcmp(mem, back, LEN), "what the client wrote is not there");
	must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
	must(rpma_conn_delete(&conn), "rpma_conn_delete");
	must(rpma_mr_dereg(&mr), "rpma_mr_dereg");
	must(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
	must(rpma_peer_delete(&peer), "rpma_peer_delete");
}

static void completion(struct rpma_cq *cq)
{
	struct ibv_wc wc;

	must(rpma_cq_wait(cq), "rpma_cq_wait");
	must(rpma_cq_get_wc(cq, 1, &wc, NULL), "rpma_cq_get_wc");
	require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

static void client(const char *addr, const char *port)
{
	struct rpma_peer *peer = peer_of(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_conn_private_data data;
	struct rpma_mr_local *out, *in;
	struct rpma_mr_remote *there;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_cq *cq;

	fill(mem);
	must(rpma_mr_reg(peer, mem, LEN, RPMA_MR_USAGE_WRITE_SRC, &out), "rpma_mr_reg");
	must(rpma_mr_reg(peer, back, LEN, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &in),
	     "rpma_mr_reg");
	must(rpma_conn_req_new(peer, addr, port, NULL, &req), "rpma_conn_req_new");
	must(rpma_conn_req_connect(&req, NULL, &conn), "rpma_conn_req_connect");
	event(conn, RPMA_CONN_ESTABLISHED);
	must(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
	must(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
	must(rpma_mr_remote_from_descriptor(data.ptr, data.len, &there), "rpma_mr_remote_from_descriptor");
	must(rpma_write(conn, there, 0, out, 0, LEN, RPMA_F_COMPLETION_ON_ERROR, NULL), "rpma_write");
	must(rpma_flush(conn, there, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL), "rpma_flush");
	completion(cq);
	must(rpma_read(conn, in, 0, there, 0, LEN, RPMA_F_COMPLETION_ALWAYS, NULL), "rpma_read");
	completion(cq);
	require(!memcmp(mem, back, LEN), "what was read is not what was written");
	must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
	event(conn, RPMA_CONN_CLOSED);
	must(rpma_mr_remote_delete(&there), "rpma_mr_remote_delete");
	must(rpma_conn_delete(&conn), "rpma_conn_delete");
	must(rpma_mr_dereg(&out), "rpma_mr_dereg");
	must(rpma_mr_dereg(&in), "rpma_mr_dereg");
	must(rpma_peer_delete(&peer), "rpma_peer_delete");
}

int main(int argc, char **argv)
{
	require(argc == 4, "rpma server|client ADDRESS PORT");
	if (!strcmp(argv[1], "server"))
		server(argv[2], argv[3]);
	else
		client(argv[2], argv[3]);
	puts("ok");
	return 0;
}
