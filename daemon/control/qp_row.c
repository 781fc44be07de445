/* SPDX-License-Identifier: MIT */
/* qp_row.c - a queue pair as the core and its context know it. */
#include "qp_row.h"

#include <string.h>

#include <rdmad/gid_text.h>

#include "why_text.h"

void qp_row_fill(struct qp_row *r, struct shard *s, unsigned device, uint32_t qpn)
{
	struct obj *o = obj_find(s, OBJ_QP, device, qpn);

	*r = (struct qp_row){ .device = device };
	hca_qp_info(s->hca[device], qpn, &r->info);
	if (!o)
		return;
	r->ctx = o->ctx->id;
	r->pid = o->ctx->pid;
	r->uid = o->ctx->uid;
	r->runs = o->ctx->runs;
	memcpy(r->prog, o->ctx->prog, sizeof(r->prog));
}

static const char *state_name(uint8_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

json_t *runs_json(const struct msg_runs *runs)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < MSG_RUNS && runs->id[i]; i++)
		json_array_append_new(list, json_integer((json_int_t)runs->id[i]));
	return list;
}

json_t *qp_json(const struct qp_row *r)
{
	const struct qp_info *i = &r->info;
	char peer[INET6_ADDRSTRLEN] = "";
	json_t *j;

	if (i->type != QPT_UD && i->state >= QPS_RTR)
		gid_text(i->attr.av.dgid, peer);
	j = json_pack("{s:s s:I s:s s:s s:i s:s s:i s:i}", "device", devices[r->device].name, "qpn", (json_int_t)i->qpn,
		      "type", type_name(i->type), "state", state_name(i->state), "pid", (int)r->pid, "program", r->prog,
		      "uid", (int)r->uid, "context", (int)r->ctx);
	json_object_set_new(j, "runs", runs_json(&r->runs));
	json_object_set_new(j, "peer", json_string(peer));
	json_object_set_new(j, "dest_qpn", json_integer(i->attr.dest_qpn));
	json_object_set_new(j, "sgid_index", json_integer(i->attr.av.sgid_index));
	json_object_set_new(j, "pkey_index", json_integer(i->attr.pkey_index));
	json_object_set_new(j, "path_mtu", json_integer(i->attr.path_mtu ? 128 << i->attr.path_mtu : 0));
	json_object_set_new(j, "pd", json_integer(i->pdn));
	json_object_set_new(j, "send_cq", json_integer(i->send_cqn));
	json_object_set_new(j, "recv_cq", json_integer(i->recv_cqn));
	json_object_set_new(j, "srq", json_integer(i->srqn));
	json_object_set_new(j, "sq_len", json_integer(i->sq_len));
	json_object_set_new(j, "rq_len", json_integer(i->rq_len));
	json_object_set_new(j, "sq_psn_next", json_integer(i->sq_psn_next));
	json_object_set_new(j, "sq_psn_acked", json_integer(i->sq_psn_acked));
	json_object_set_new(j, "rq_psn", json_integer(i->rq_psn));
	json_object_set_new(j, "rnrs", json_integer((json_int_t)i->rnrs));
	json_object_set_new(j, "window", json_integer((json_int_t)i->window));
	json_object_set_new(j, "inflight", json_integer((json_int_t)i->inflight));
	json_object_set_new(j, "retry_cnt", json_integer(i->attr.retry_cnt));
	json_object_set_new(j, "rnr_retry", json_integer(i->attr.rnr_retry));
	json_object_set_new(j, "retry_left", json_integer(i->retry_left));
	json_object_set_new(j, "rnr_left", json_integer(i->rnr_left));
	json_object_set_new(j, "tx_bytes", json_integer((json_int_t)i->tx_bytes));
	json_object_set_new(j, "rx_bytes", json_integer((json_int_t)i->rx_bytes));
	json_object_set_new(j, "tx_pkts", json_integer((json_int_t)i->tx_pkts));
	json_object_set_new(j, "rx_pkts", json_integer((json_int_t)i->rx_pkts));
	json_object_set_new(j, "retrans", json_integer((json_int_t)i->retrans));
	return j;
}
