/* SPDX-License-Identifier: MIT */
/* text.c - arguments of verbs, as text. */
#include "text.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdarg.h>

#include <rdmad/wr.h>

#define TEXT_LEN 600
#define LIST_MAX 4 /* of a list, so many are shown */

static _Thread_local char texts[8][TEXT_LEN];
static _Thread_local unsigned text_turn;

struct line {
	char *at;
	size_t n;
};

static struct line line_new(void)
{
	struct line l = { texts[text_turn++ % ARRAY_N(texts)], 0 };

	l.at[0] = 0;
	return l;
}

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->at + l->n, TEXT_LEN - l->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->n = l->n + (size_t)n < TEXT_LEN ? l->n + (size_t)n : TEXT_LEN - 1;
}

const char *text(const char *fmt, ...)
{
	struct line l = line_new();
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l.at, TEXT_LEN, fmt, ap);
	va_end(ap);
	return l.at;
}

const char *errno_text(int err)
{
#define NAME(e)       \
	{             \
		e, #e \
	}
	static const struct {
		int err;
		const char *name;
	} names[] = {
		NAME(EPERM),        NAME(ENOENT),       NAME(EINTR),      NAME(EIO),           NAME(ENXIO),
		NAME(EBADF),        NAME(EAGAIN),       NAME(ENOMEM),     NAME(EACCES),        NAME(EFAULT),
		NAME(EBUSY),        NAME(EEXIST),       NAME(ENODEV),     NAME(EINVAL),        NAME(ENFILE),
		NAME(EMFILE),       NAME(ENOSPC),       NAME(EPIPE),      NAME(ERANGE),        NAME(ENOSYS),
		NAME(ENODATA),      NAME(ETIME),        NAME(EPROTO),     NAME(EOVERFLOW),     NAME(EDESTADDRREQ),
		NAME(EMSGSIZE),     NAME(EOPNOTSUPP),   NAME(EADDRINUSE), NAME(EADDRNOTAVAIL), NAME(ENETUNREACH),
		NAME(ECONNRESET),   NAME(ENOBUFS),      NAME(EISCONN),    NAME(ENOTCONN),      NAME(ETIMEDOUT),
		NAME(ECONNREFUSED), NAME(EHOSTUNREACH), NAME(EALREADY),   NAME(EINPROGRESS),   NAME(ECANCELED),
	};
#undef NAME

	for (size_t i = 0; i < ARRAY_N(names); i++)
		if (names[i].err == err)
			return names[i].name;
	return text("errno %d", err);
}

const char *gid_text(const union ibv_gid *gid)
{
	struct line l = line_new();

	return gid && inet_ntop(AF_INET6, gid->raw, l.at, TEXT_LEN) ? l.at : "NULL";
}

const char *addr_text(const struct sockaddr *a)
{
	const void *ip = a && a->sa_family == AF_INET
				 ? (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr
			 : a && a->sa_family == AF_INET6
				 ? (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
				 : NULL;
	struct line l = line_new();

	if (!ip)
		return a ? "(no IP address)" : "NULL";
	inet_ntop(a->sa_family, ip, l.at, TEXT_LEN);
	l.n = strlen(l.at);
	add(&l, " port %u", ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port)); /* in both at that place */
	return l.at;
}

const char *access_text(unsigned int access)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} bits[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE" },
		{ IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE" },
		{ IBV_ACCESS_REMOTE_READ, "REMOTE_READ" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC" },
		{ IBV_ACCESS_MW_BIND, "MW_BIND" },
		{ IBV_ACCESS_ZERO_BASED, "ZERO_BASED" },
		{ IBV_ACCESS_ON_DEMAND, "ON_DEMAND" },
		{ IBV_ACCESS_HUGETLB, "HUGETLB" },
		{ IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING" },
	};
	struct line l = line_new();

	for (size_t i = 0; i < ARRAY_N(bits); i++) {
		if (access & bits[i].bit)
			add(&l, "%s%s", l.n ? "|" : "", bits[i].name);
		access &= ~bits[i].bit;
	}
	if (access || !l.n)
		add(&l, "%s%#x", l.n ? "|" : "", access);
	return l.at;
}

const char *state_text(enum ibv_qp_state s)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return (unsigned)s < ARRAY_N(names) ? names[s] : text("state %u", (unsigned)s);
}

const char *attr_text(const struct ibv_qp_attr *a, int mask)
{
	struct line l = line_new();

	if (mask & IBV_QP_STATE)
		add(&l, "%s, ", state_text(a->qp_state));
	if (mask & IBV_QP_ACCESS_FLAGS)
		add(&l, "access %s, ", access_text(a->qp_access_flags));
	if (mask & IBV_QP_PATH_MTU)
		add(&l, "mtu %u, ", a->path_mtu <= IBV_MTU_4096 ? 128u << a->path_mtu : 0u);
	if (mask & IBV_QP_DEST_QPN)
		add(&l, "dest %#x, ", a->dest_qp_num);
	if (mask & IBV_QP_RQ_PSN)
		add(&l, "rq_psn %#x, ", a->rq_psn);
	if (mask & IBV_QP_SQ_PSN)
		add(&l, "sq_psn %#x, ", a->sq_psn);
	if (mask & IBV_QP_AV)
		add(&l, "to %s by GID index %u, ", gid_text(&a->ah_attr.grh.dgid), a->ah_attr.grh.sgid_index);
	if (mask & IBV_QP_TIMEOUT)
		add(&l, "timeout %u, ", a->timeout);
	if (mask & IBV_QP_RETRY_CNT)
		add(&l, "retry_cnt %u, ", a->retry_cnt);
	if (mask & IBV_QP_RNR_RETRY)
		add(&l, "rnr_retry %u, ", a->rnr_retry);
	add(&l, "mask %#x", (unsigned int)mask);
	return l.at;
}

const char *init_text(enum ibv_qp_type type, const struct ibv_qp_cap *c, const struct ibv_cq *send,
		      const struct ibv_cq *recv, const struct ibv_srq *srq, const struct ibv_qp *qp)
{
	static const char *const names[] = { [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD" };
	struct line l = line_new();

	if ((unsigned)type < ARRAY_N(names) && names[type])
		add(&l, "%s", names[type]);
	else
		add(&l, "type %u", (unsigned)type);
	add(&l, ", %u sends of %u sge, %u receives of %u sge, inline %u, CQs %p %p", c->max_send_wr, c->max_send_sge,
	    c->max_recv_wr, c->max_recv_sge, c->max_inline_data, (const void *)send, (const void *)recv);
	if (srq)
		add(&l, ", SRQ %p", (const void *)srq);
	if (qp)
		add(&l, ": QP %#x", qp->qp_num);
	return l.at;
}

const char *ece_text(const struct ibv_ece *e)
{
	return e ? text("vendor %#x, options %#x", e->vendor_id, e->options) : "NULL";
}

const char *param_text(const struct rdma_conn_param *p)
{
	if (!p)
		return "";
	return text(", %u bytes, retry_count %u, rnr_retry_count %u, QP %#x", p->private_data_len, p->retry_count,
		    p->rnr_retry_count, p->qp_num);
}

static void sges_add(struct line *l, const struct ibv_sge *s, int n)
{
	add(l, "[");
	for (int i = 0; i < n && i < LIST_MAX; i++)
		add(l, "%s%#jx+%u lkey %#x", i ? ", " : "", (uintmax_t)s[i].addr, s[i].length, s[i].lkey);
	add(l, n > LIST_MAX ? ", %d in all]" : "]", n);
}

const char *sges_text(const struct ibv_sge *s, int n)
{
	struct line l = line_new();

	sges_add(&l, s, n);
	return l.at;
}

static void op_add(struct line *l, const struct ibv_send_wr *w)
{
	static const char *const names[] = {
#define WR(name, code, ...) [code] = #name,
#define WC(...)
#include <rdmad/wr.def>
#undef WR
#undef WC
	};
	const struct wr_row *row = wr_row((unsigned)w->opcode);
	bool atomic = row && row->data == WR_DATA_IN && row->len;
	bool far = row && row->right && !atomic;

	if (row)
		add(l, "%s", names[w->opcode]);
	else
		add(l, "opcode %u", (unsigned)w->opcode);
	if (far)
		add(l, " to %#jx rkey %#x", (uintmax_t)w->wr.rdma.remote_addr, w->wr.rdma.rkey);
	if (atomic)
		add(l, " to %#jx rkey %#x", (uintmax_t)w->wr.atomic.remote_addr, w->wr.atomic.rkey);
	if (w->send_flags & IBV_SEND_SIGNALED)
		add(l, " SIGNALED");
	if (w->send_flags & IBV_SEND_INLINE)
		add(l, " INLINE");
	if (w->send_flags & IBV_SEND_FENCE)
		add(l, " FENCE");
	if (w->send_flags & IBV_SEND_SOLICITED)
		add(l, " SOLICITED");
}

/* Begins the next request; false: it is not shown. */
static bool request_add(struct line *l, int *n, uint64_t wr_id)
{
	if (++*n > LIST_MAX)
		return false;
	add(l, "%s{wr_id %#jx ", *n > 1 ? ", " : "", (uintmax_t)wr_id);
	return true;
}

static const char *requests_end(struct line *l, int n)
{
	if (n > LIST_MAX)
		add(l, ", %d in all", n);
	return l->at;
}

const char *sends_text(const struct ibv_send_wr *w)
{
	struct line l = line_new();
	int n = 0;

	for (; w; w = w->next) {
		if (!request_add(&l, &n, w->wr_id))
			continue;
		op_add(&l, w);
		add(&l, " ");
		sges_add(&l, w->sg_list, wr_is(w->opcode, WR_DATA_NONE) ? 0 : w->num_sge);
		add(&l, "}");
	}
	return requests_end(&l, n);
}

const char *recvs_text(const struct ibv_recv_wr *w)
{
	struct line l = line_new();
	int n = 0;

	for (; w; w = w->next) {
		if (!request_add(&l, &n, w->wr_id))
			continue;
		sges_add(&l, w->sg_list, w->num_sge);
		add(&l, "}");
	}
	return requests_end(&l, n);
}

static void wc_add(struct line *l, const struct ibv_wc *w)
{
	add(l, "{wr_id %#jx QP %#x ", (uintmax_t)w->wr_id, w->qp_num);
	if (w->status != IBV_WC_SUCCESS)
		add(l, "%s (%u)}", ibv_wc_status_str(w->status), (unsigned)w->status);
	else if (w->opcode & IBV_WC_RECV)
		add(l, "received %u bytes%s}", w->byte_len, w->wc_flags & IBV_WC_WITH_IMM ? " and an immediate" : "");
	else
		add(l, "opcode %u done}", (unsigned)w->opcode);
}

const char *wc_text(const struct ibv_wc *w)
{
	struct line l = line_new();

	wc_add(&l, w);
	return l.at;
}

const char *wcs_text(int n, const struct ibv_wc *w)
{
	struct line l = line_new();

	for (int i = 0; i < n && i < LIST_MAX; i++) {
		add(&l, i ? ", " : ": ");
		wc_add(&l, &w[i]);
	}
	if (n > LIST_MAX)
		add(&l, ", ...");
	return l.at;
}
