/* SPDX-License-Identifier: MIT */
/*
 * cntr.c - completion counters: numbers that a queue pair adds to when its work is done, signaled or not.
 *
 * They lie in a page of device memory, which the daemon writes to: one for each context, from its first counter to its last.
 * A forked child sees the page, and has a copy of the list of places, taken when it was forked: it may not take or give back any.
 */
#include "cntr.h"
#include "symbol.h"

#include <rdmad/feature.h>
#include <rdmad/keep.h>

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "newer.h"

#define PAGE_LEN  4096u
#define PAGE_N    (PAGE_LEN / (uint32_t)sizeof(struct comp_cntr))
#define SAME_MOST 64u /* reads in a row that find nothing new, before the core is given away */

/* Both atomic. */
struct look {
	uint64_t seen; /* at the last read, */
	uint32_t same; /* and how often since then */
};

struct rd_cntr {
	struct newer_cntr cntr; /* its handle is the place in the page */
	struct comp_cntr *at;
	bool bytes;
	unsigned users;           /* of QPs, one for each kind of work; under the context's cntr_lock */
	struct look done, failed; /* of each number's readers */
};

struct cntr_page {
	struct comp_cntr *v;
	uint32_t dm, n;
	bool taken[PAGE_N];
};

static struct rd_cntr *to_cntr(struct newer_cntr *c) { return (struct rd_cntr *)c; }

void cntr_begin(struct rd_ctx *c) { pthread_mutex_init(&c->cntr_lock, NULL); }

static void page_free(struct rd_ctx *c)
{
	munmap(c->cntrs->v, PAGE_LEN);
	free(c->cntrs);
	c->cntrs = NULL;
}

void cntr_end(struct rd_ctx *c)
{
	if (c->cntrs)
		page_free(c);
	pthread_mutex_destroy(&c->cntr_lock);
}

static int page_make(struct rd_ctx *c)
{
	struct msg_req req = { .op = MSG_DM_ALLOC, .dm.len = PAGE_LEN };
	struct cntr_page *p = calloc(1, sizeof(*p));
	struct msg_rep rep;
	int fd, err;

	if (!p)
		return ENOMEM;
	err = ctx_call_fd(c, &req, &rep, &fd, MSG_DM_FREE);
	if (!err && !(p->v = ctx_map(fd, PAGE_LEN))) {
		ctx_call_id(c, MSG_DM_FREE, rep.dm.handle);
		err = ENOMEM;
	}
	if (err) {
		free(p);
		return err;
	}
	p->dm = rep.dm.handle;
	c->cntrs = p;
	__atomic_store_n(&c->cntr_owner, getpid(), __ATOMIC_RELAXED);
	return 0;
}

/* Not so in a forked child, whose lock may be held for ever.  Without the lock. */
static bool mine(const struct rd_ctx *c)
{
	pid_t owner = __atomic_load_n(&c->cntr_owner, __ATOMIC_RELAXED);

	return conn_mine(&c->conn) && (!owner || owner == getpid());
}

/* With the lock held. */
static int place_take(struct rd_ctx *c, struct rd_cntr *n)
{
	int err = c->cntrs ? 0 : page_make(c);
	uint32_t i = 0;

	if (err)
		return err;
	while (i < PAGE_N && c->cntrs->taken[i])
		i++;
	if (i == PAGE_N)
		return ENOMEM;
	c->cntrs->taken[i] = true;
	c->cntrs->n++;
	c->cntrs->v[i] = (struct comp_cntr){ 0 };
	n->at = &c->cntrs->v[i];
	n->cntr.handle = i;
	return 0;
}

/* Counters lie in device memory: where there is none, they are missing, too. */
static unsigned missing(const struct rd_ctx *c)
{
	return c->attr.no & NO(COMP_CNTR) ? FEATURE_COMP_CNTR : c->attr.no & NO(DM) ? FEATURE_DM : FEATURES;
}

/* The caller says how long it is: its header may be newer. */
SYMBOL(int, _ibv_query_comp_cntr_caps, (struct ibv_context * context, void *to, size_t len), {
	struct newer_cntr_caps caps = { UINT64_MAX, PAGE_N, CNTR_HAS };

	if (len < sizeof(caps))
		return EINVAL;
	memset(to, 0, len);
	if (missing(to_ctx(context)) != FEATURES)
		return EOPNOTSUPP;
	memcpy(to, &caps, sizeof(caps));
	return 0;
})

SYMBOL(struct newer_cntr *, ibv_create_comp_cntr, (struct ibv_context * context, const struct newer_cntr_attr *a), {
	struct rd_ctx *c = to_ctx(context);
	unsigned f = missing(c);
	struct rd_cntr *n;
	int err;

	if (f != FEATURES)
		return err_null(refuse_feature(c, 0, "ibv_create_comp_cntr", EOPNOTSUPP, f));
	if (a->comp_mask || a->flags || a->type > CNTR_TYPE_BYTES)
		return err_null(EINVAL);
	if (!mine(c))
		return err_null(EIO);
	n = calloc(1, sizeof(*n));
	if (!n)
		return err_null(ENOMEM);
	n->cntr.context = context;
	n->bytes = a->type == CNTR_TYPE_BYTES;
	pthread_mutex_lock(&c->cntr_lock);
	err = place_take(c, n);
	pthread_mutex_unlock(&c->cntr_lock);
	if (err) {
		free(n);
		return err_null(err);
	}
	return &n->cntr;
})

SYMBOL(int, ibv_destroy_comp_cntr, (struct newer_cntr * cntr), {
	struct rd_ctx *c = to_ctx(cntr->context);
	struct rd_cntr *n = to_cntr(cntr);
	int err;

	if (!mine(c)) {
		keep_free(n);
		return 0;
	}
	pthread_mutex_lock(&c->cntr_lock);
	err = n->users ? EBUSY : 0;
	if (!err) {
		c->cntrs->taken[n->at - c->cntrs->v] = false;
		if (!--c->cntrs->n) {
			ctx_call_id(c, MSG_DM_FREE, c->cntrs->dm);
			page_free(c);
		}
	}
	pthread_mutex_unlock(&c->cntr_lock);
	if (!err)
		keep_free(n);
	return err;
})

SYMBOL(int, ibv_qp_attach_comp_cntr, (struct ibv_qp * ibqp, struct newer_cntr *cntr, const struct newer_cntr_attach *a),
       {
	       struct msg_req req = { .op = MSG_QP_COUNT };
	       struct rd_ctx *c = to_ctx(cntr->context);
	       struct rd_cntr *n = to_cntr(cntr);
	       struct rd_qp *qp = to_qp(ibqp);
	       struct msg_rep rep;
	       int err;

	       if (a->comp_mask || qp->ctx != c)
		       return EINVAL;
	       if (!mine(c))
		       return EIO;
	       req.count.qpn = ibqp->handle;
	       req.count.ops = a->ops;
	       req.count.bytes = n->bytes;
	       pthread_mutex_lock(&c->cntr_lock);
	       req.count.dm = c->cntrs->dm;
	       req.count.off = (uint64_t)((char *)n->at - (char *)c->cntrs->v);
	       err = ctx_call(c, &req, &rep);
	       for (unsigned op = 0; !err && op < CNTR_OPS; op++) {
		       if (!(a->ops >> op & 1))
			       continue;
		       qp->cntr[op] = n;
		       n->users++;
	       }
	       pthread_mutex_unlock(&c->cntr_lock);
	       return err;
       })

void cntr_detach(struct rd_qp *qp)
{
	if (!mine(qp->ctx))
		return;
	pthread_mutex_lock(&qp->ctx->cntr_lock);
	for (unsigned op = 0; op < CNTR_OPS; op++)
		if (qp->cntr[op])
			qp->cntr[op]->users--;
	pthread_mutex_unlock(&qp->ctx->cntr_lock);
}

/* ---- the numbers ------------------------------------------------------------------------ */

/* Its reader waits for the daemon, which may wait for this core. */
static int cntr_read(struct look *l, const uint64_t *from, uint64_t *to)
{
	uint64_t v = __atomic_load_n(from, __ATOMIC_ACQUIRE);

	if (__atomic_exchange_n(&l->seen, v, __ATOMIC_RELAXED) != v)
		__atomic_store_n(&l->same, 0, __ATOMIC_RELAXED);
	else if (!(__atomic_add_fetch(&l->same, 1, __ATOMIC_RELAXED) % SAME_MOST))
		sched_yield();
	*to = v;
	return 0;
}

static int cntr_set(uint64_t *at, uint64_t v)
{
	__atomic_store_n(at, v, __ATOMIC_RELEASE);
	return 0;
}

static int cntr_inc(uint64_t *at, uint64_t v)
{
	__atomic_add_fetch(at, v, __ATOMIC_RELEASE);
	return 0;
}

#define NUMBER(name, field)                                                            \
	SYMBOL(int, ibv_read_##name##comp_cntr, (struct newer_cntr * c, uint64_t * v), \
	       { return cntr_read(&to_cntr(c)->field, &to_cntr(c)->at->field, v); })   \
	SYMBOL(int, ibv_set_##name##comp_cntr, (struct newer_cntr * c, uint64_t v),    \
	       { return cntr_set(&to_cntr(c)->at->field, v); })                        \
	SYMBOL(int, ibv_inc_##name##comp_cntr, (struct newer_cntr * c, uint64_t v),    \
	       { return cntr_inc(&to_cntr(c)->at->field, v); })
NUMBER(, done)
NUMBER(err_, failed)
