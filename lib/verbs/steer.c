/* SPDX-License-Identifier: MIT */
/*
 * steer.c - flow counters, and the rules that the daemon needs to count a RAW_PACKET QP's flows; see rdmad/steer.h.
 *
 * The kernel's filter does not tell which flow took a frame, so the daemon runs the filter again, with other return
 * values. It counts into the memfd of the rules in force; when they change, the counts so far are added to the
 * counters' past.
 */
#include "flow.h"
#include "slots.h"

#include <rdmad/keep.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <fcntl.h>
#include <unistd.h>

pthread_mutex_t flow_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the rules of a QP --------------------------------------------------------------- */

static void code_put(struct steer_insn *to, const struct sock_filter *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct steer_insn){ from[i].code, from[i].jt, from[i].jf, from[i].k };
}

static void steer_fill(const struct rd_qp *qp, struct steer *r)
{
	struct steer_insn *code = (struct steer_insn *)(void *)((struct steer_hit *)(void *)(r + 1) + r->flow_n);
	uint32_t number = 0;

	if (r->code_n) {
		for (const struct rd_flow *f = qp->flows; f; f = f->next) {
			code_put(code, f->code, f->code_n);
			code[f->code_n - 1].k = (f->drop ? 0 : RULE_TAKE) | ++number;
			code += f->code_n;
		}
		*code = (struct steer_insn){ BPF_RET | BPF_K, 0, 0, 0 };
	}
	if (!qp->table)
		return;
	r->wq_n = qp->table->n;
	r->fields = qp->hash_fields;
	memcpy(r->key, qp->hash_key, sizeof(r->key));
	for (uint32_t i = 0; i < r->wq_n; i++)
		r->wq[i] = qp->table->wq[i]->wq.wq_num;
}

/* A sealed memfd, mapped; or an errno. */
static int steer_make(const struct rd_qp *qp, uint32_t flow_n, uint32_t code_n, struct steer **out, size_t *len)
{
	struct steer *r = MAP_FAILED;
	struct rlimit rl;
	int fd, err;

	*len = sizeof(*r) + flow_n * sizeof(struct steer_hit) + code_n * sizeof(struct steer_insn);
	/* Beyond the limit ftruncate() sends a signal. */
	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur < *len)
		return -EFBIG;
	fd = memfd_create("rdmad-steer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)*len) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		r = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = errno;
	if (r == MAP_FAILED) {
		close(fd);
		return -err;
	}
	r->flow_n = flow_n;
	r->code_n = code_n;
	steer_fill(qp, r);
	*out = r;
	return fd;
}

static void past_add(struct rd_flow *f)
{
	if (!f->hit)
		return;
	f->counters->past.packets += f->hit->packets;
	f->counters->past.bytes += f->hit->bytes;
	f->hit = NULL;
}

/* Nothing of the old ones is written any more. */
static void steer_swap(struct rd_qp *qp, struct rd_flow *gone, struct steer *fresh, size_t len)
{
	struct steer_hit *hit = fresh ? (struct steer_hit *)(void *)(fresh + 1) : NULL;

	if (gone)
		past_add(gone);
	for (struct rd_flow *f = qp->flows; f; f = f->next) {
		past_add(f);
		f->hit = f->counters && hit ? hit : NULL;
		if (hit)
			hit++;
	}
	if (qp->rules)
		munmap(qp->rules, qp->steer_len);
	qp->rules = fresh;
	qp->steer_len = len;
}

int steer_update(struct rd_qp *qp, struct rd_flow *gone)
{
	struct msg_req req = { .op = MSG_RAW_STEER, .id.handle = qp->qpn };
	uint32_t flow_n = 0, code_n = 1;
	struct steer *fresh = NULL;
	bool counted = false;
	struct msg_rep rep;
	size_t len = 0;
	int fd = -1, err;

	for (const struct rd_flow *f = qp->flows; f; f = f->next) {
		flow_n++;
		code_n += f->code_n;
		counted |= f->counters != NULL;
	}
	if (!counted)
		flow_n = code_n = 0;
	if (flow_n > STEER_FLOWS || code_n > STEER_CODE)
		return ENOMEM;
	if (!counted && !qp->table && !qp->rules)
		return 0;
	if (counted || qp->table) {
		fd = steer_make(qp, flow_n, code_n, &fresh, &len);
		if (fd < 0)
			return -fd;
	}
	err = conn_call(&qp->ctx->conn, &req, &rep, fd, NULL, 0);
	if (fd >= 0)
		close(fd);
	if (err) {
		if (fresh)
			munmap(fresh, len);
		return err;
	}
	steer_swap(qp, gone, fresh, len);
	return 0;
}

void steer_end(struct rd_qp *qp)
{
	if (qp->rules)
		munmap(qp->rules, qp->steer_len);
	qp->rules = NULL;
}

/* ---- counters -------------------------------------------------------------------------- */

static struct rd_counters *to_counters(struct ibv_counters *c) { return (struct rd_counters *)c; }

struct ibv_counters *counters_create(struct ibv_context *context, struct ibv_counters_init_attr *a)
{
	struct rd_counters *c = a->comp_mask ? err_null(EOPNOTSUPP) : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->counters.context = context;
	return &c->counters;
}

int counters_destroy(struct ibv_counters *counters)
{
	struct rd_counters *c = to_counters(counters);
	bool busy;

	pthread_mutex_lock(&flow_lock);
	busy = c->flows;
	pthread_mutex_unlock(&flow_lock);
	if (busy)
		return EBUSY;
	free(c->point);
	keep_free(c);
	return 0;
}

int counters_attach(struct ibv_counters *counters, struct ibv_counter_attach_attr *a, struct ibv_flow *flow)
{
	struct rd_counters *c = to_counters(counters);
	struct count_point *p;
	int err = ENOMEM;

	if (a->comp_mask)
		return EOPNOTSUPP;
	if (flow || (a->counter_desc != IBV_COUNTER_PACKETS && a->counter_desc != IBV_COUNTER_BYTES))
		return ENOTSUP;
	pthread_mutex_lock(&flow_lock);
	if (c->flows) {
		err = EBUSY;
	} else {
		p = realloc(c->point, (c->point_n + 1) * sizeof(*p));
		if (p) {
			c->point = p;
			c->point[c->point_n++] = (struct count_point){ a->index, a->counter_desc };
			err = 0;
		}
	}
	pthread_mutex_unlock(&flow_lock);
	return err;
}

/* Always those of now: IBV_READ_COUNTERS_ATTR_PREFER_CACHED is no faster. */
int counters_read(struct ibv_counters *counters, uint64_t *value, uint32_t n, uint32_t flags)
{
	struct rd_counters *c = to_counters(counters);
	struct steer_hit sum;

	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return EINVAL;
	for (uint32_t i = 0; i < c->point_n; i++)
		if (c->point[i].index >= n)
			return EINVAL;
	pthread_mutex_lock(&flow_lock);
	sum = c->past;
	for (const struct rd_flow *f = c->flows; f; f = f->counted_next) {
		if (!f->hit)
			continue;
		sum.packets += __atomic_load_n(&f->hit->packets, __ATOMIC_RELAXED);
		sum.bytes += __atomic_load_n(&f->hit->bytes, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&flow_lock);
	memset(value, 0, n * sizeof(*value));
	for (uint32_t i = 0; i < c->point_n; i++)
		value[c->point[i].index] += c->point[i].what == IBV_COUNTER_PACKETS ? sum.packets : sum.bytes;
	return 0;
}
