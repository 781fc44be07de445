/* SPDX-License-Identifier: MIT */
/*
 * context.c - an open device: its connection, its bell page, its table of operations.
 *
 *	| ... ours ... | NULLs | ops, newest first | sz | struct ibv_context |
 *	                                                  ^ the program's pointer
 *
 * Programs look for an operation at a negative offset from their pointer and compare sz, which is the size
 * in the header that we were built with, to know how far up they may look.
 */
#include "objects.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Yama (ptrace_scope 1) lets only our descendants reach our memory, unless we name the daemon. */
static void ptracer_set(pid_t daemon)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (!f)
		return;
	if (fscanf(f, "%d", &scope) == 1 && scope == 1)
		prctl(PR_SET_PTRACER, daemon > 0 ? (unsigned long)daemon : PR_SET_PTRACER_ANY, 0, 0, 0);
	fclose(f);
}

void *ctx_map(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

void ctx_ring(struct rd_ctx *c, uint32_t q)
{
	static const uint64_t one = 1;
	ssize_t n;

	uint32_t how = bell_ring(c->bell, q);

	if (how == BELL_AWAKE)
		return;
	if (how == BELL_FUTEX) {
		syscall(SYS_futex, &c->bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
		return;
	}
	do
		n = write(c->kick_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

int ctx_call_id(struct rd_ctx *c, enum msg_op op, uint32_t handle)
{
	struct msg_req req = { .op = op, .id.handle = handle };
	struct msg_rep rep;

	int err = c->opener == getpid() ? ctx_call(c, &req, &rep) : 0;

	return err == EIO && conn_gone(&c->conn) ? 0 : err;
}

void ctx_turn(struct rd_ctx *c)
{
	for (int i = 0; i < 2; i++)
		ctx_call_id(c, MSG_QP_QUERY, 0);
}

/* ---- objects by cookie ------------------------------------------------------ */

uint64_t map_add(struct rd_ctx *c, struct map_node *n, enum map_kind kind)
{
	struct map_node **head;

	pthread_mutex_lock(&c->map_lock);
	n->cookie = ++c->cookie_last;
	n->kind = kind;
	head = &c->map[n->cookie % MAP_BUCKETS];
	n->next = *head;
	*head = n;
	pthread_mutex_unlock(&c->map_lock);
	return n->cookie;
}

void map_del(struct rd_ctx *c, struct map_node *n)
{
	struct map_node **p;

	pthread_mutex_lock(&c->map_lock);
	for (p = &c->map[n->cookie % MAP_BUCKETS]; *p; p = &(*p)->next) {
		if (*p == n) {
			*p = n->next;
			break;
		}
	}
	pthread_mutex_unlock(&c->map_lock);
}

/* ---- open and close ---------------------------------------------------------- */

typedef void *(*compat_fn)(void);
#define COMPAT(fn) ((compat_fn)(void (*)(void))(fn))

static void ops_fill(struct ibv_context_ops *o)
{
	*o = (struct ibv_context_ops){
		._compat_query_device = ibv_query_device,
		._compat_query_port = ibv_query_port,
		._compat_alloc_pd = COMPAT(ibv_alloc_pd),
		._compat_dealloc_pd = COMPAT(ibv_dealloc_pd),
		._compat_reg_mr = COMPAT(ibv_reg_mr),
		._compat_rereg_mr = COMPAT(ibv_rereg_mr),
		._compat_dereg_mr = COMPAT(ibv_dereg_mr),
		.alloc_mw = mw_alloc,
		.bind_mw = mw_bind,
		.dealloc_mw = mw_dealloc,
		._compat_create_cq = COMPAT(ibv_create_cq),
		.poll_cq = cq_poll,
		.req_notify_cq = cq_req_notify,
		._compat_cq_event = COMPAT(ibv_get_cq_event),
		._compat_resize_cq = COMPAT(ibv_resize_cq),
		._compat_destroy_cq = COMPAT(ibv_destroy_cq),
		._compat_create_srq = COMPAT(ibv_create_srq),
		._compat_modify_srq = COMPAT(ibv_modify_srq),
		._compat_query_srq = COMPAT(ibv_query_srq),
		._compat_destroy_srq = COMPAT(ibv_destroy_srq),
		.post_srq_recv = post_srq_recv,
		._compat_create_qp = COMPAT(ibv_create_qp),
		._compat_query_qp = COMPAT(ibv_query_qp),
		._compat_modify_qp = COMPAT(ibv_modify_qp),
		._compat_destroy_qp = COMPAT(ibv_destroy_qp),
		.post_send = post_send,
		.post_recv = post_recv,
		._compat_create_ah = COMPAT(ibv_create_ah),
		._compat_destroy_ah = COMPAT(ibv_destroy_ah),
		._compat_attach_mcast = COMPAT(ibv_attach_mcast),
		._compat_detach_mcast = COMPAT(ibv_detach_mcast),
		._compat_async_event = COMPAT(ibv_get_async_event),
	};
}

static void ctx_fill(struct rd_ctx *c, struct ibv_device *dev, int async_fd, int cmd_fd)
{
	struct verbs_context *v = &c->v;

	v->sz = sizeof(*v);
	stub_ops(v);
	v->query_port = port_query;
	v->query_device_ex = device_query_ex;
	v->query_rt_values = rt_values_query;
	v->create_cq_ex = cq_create_ex;
	v->modify_cq = cq_modify;
	v->modify_qp_rate_limit = rate_modify;
	v->create_wq = wq_create;
	v->modify_wq = wq_modify;
	v->destroy_wq = wq_destroy;
	v->create_rwq_ind_table = table_create;
	v->destroy_rwq_ind_table = table_destroy;
	v->create_counters = counters_create;
	v->destroy_counters = counters_destroy;
	v->attach_counters_point_flow = counters_attach;
	v->read_counters = counters_read;
	v->create_qp_ex = qp_create_ex;
	v->create_srq_ex = srq_create_ex;
	v->get_srq_num = srq_get_num;
	v->open_xrcd = xrcd_open;
	v->close_xrcd = xrcd_close;
	v->open_qp = qp_open;
	v->ibv_create_flow = flow_create;
	v->ibv_destroy_flow = flow_destroy;
	/* Programs of rdma-core 1.1.8 look for these two here. */
	v->ABI_placeholder1 = (void (*)(void))flow_create;
	v->ABI_placeholder2 = (void (*)(void))flow_destroy;
	v->alloc_null_mr = mr_null;
	v->advise_mr = mr_advise;
	v->alloc_dm = dm_alloc;
	v->free_dm = dm_free;
	v->reg_dm_mr = dm_reg_mr;
	v->alloc_td = td_alloc;
	v->dealloc_td = td_dealloc;
	v->alloc_parent_domain = parent_domain_alloc;
	ops_fill(&v->context.ops);
	v->context.device = dev;
	v->context.cmd_fd = cmd_fd;
	v->context.async_fd = async_fd;
	c->opener = getpid();
	v->context.num_comp_vectors = c->attr.comp_vectors ? (int)c->attr.comp_vectors : 1;
	pthread_mutex_init(&v->context.mutex, NULL);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->map_lock, NULL);
}

int ctx_begin(struct rd_ctx *c, struct ibv_device *dev, const struct msg_rep *opened, const int *fds)
{
	struct msg_req ask = { .op = MSG_QUERY_DEVICE };
	struct msg_rep rep;
	int err;

	ptracer_set(c->conn.daemon);
	c->bell_len = opened->open.bell_len;
	c->kick_fd = fds[1];
	c->bell = c->bell_len < sizeof(struct bell) ? err_null(EPROTO) : ctx_map(fds[0], c->bell_len);
	err = c->bell ? ctx_call(c, &ask, &rep) : errno;
	if (!err) {
		c->attr = rep.device;
		ctx_fill(c, dev, fds[2], fds[3]);
		bye_add(c);
		return 0;
	}
	if (c->bell)
		munmap(c->bell, c->bell_len);
	for (unsigned i = 1; i < 4; i++)
		close(fds[i]);
	return err;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct msg_req req = { .op = MSG_OPEN };
	struct rd_ctx *c = calloc(1, sizeof(*c));
	struct msg_rep rep;
	int fds[4], err;

	if (!c)
		return err_null(ENOMEM);
	err = conn_open(&c->conn);
	if (err) {
		free(c);
		return err_null(err);
	}
	snprintf(req.open.name, sizeof(req.open.name), "%.*s", RDMAD_NAME_LEN - 1, dev->name);
	err = conn_call(&c->conn, &req, &rep, -1, fds, 4);
	if (!err)
		err = ctx_begin(c, dev, &rep, fds);
	if (err) {
		conn_close(&c->conn);
		free(c);
		return err_null(err);
	}
	return &c->v.context;
}

/* What the program did not destroy goes with the connection. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct rd_ctx *c = to_ctx(context);

	bye_del(c);
	munmap(c->bell, c->bell_len);
	close(c->kick_fd);
	close(context->async_fd);
	close(context->cmd_fd);
	conn_close(&c->conn);
	pthread_mutex_destroy(&c->map_lock);
	pthread_mutex_destroy(&context->mutex);
	free(c);
	return 0;
}
