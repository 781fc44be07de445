/* SPDX-License-Identifier: MIT */
/*
 * rail.c - a program that lives through what happens to its device, and prints what it has seen.
 *
 *	rail moves	the rows of the GID table, before and after IBV_EVENT_GID_CHANGE
 *	rail removal	IBV_EVENT_DEVICE_FATAL; what works then; and the device that is back
 *	rail waits	the events that threads get which wait when it is removed, and what they get then
 *	rail cm		an id of the connection manager, RDMA_CM_EVENT_DEVICE_REMOVAL, and an id on the device that is back
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 120000 /* what hangs is ended by the test */
#define TRIES       2000

static struct ibv_context *ctx;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "rail: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void said(const char *what, int err) { printf("%s: %s\n", what, err ? strerrorname_np(err) : "done"); }

static int devices(void)
{
	int n = 0;

	ibv_free_device_list(ibv_get_device_list(&n));
	return n;
}

static struct ibv_context *device_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return c;
}

static void event_wait(enum ibv_event_type type)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	do {
		if (poll(&p, 1, PATIENCE_MS) != 1 || ibv_get_async_event(ctx, &e))
			die("no event came");
		ibv_ack_async_event(&e);
		printf("event: %s\n", ibv_event_type_str(e.event_type));
	} while (e.event_type != type);
	fflush(stdout);
}

static void rows(void)
{
	char text[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	for (int i = 1; i < 16 && !ibv_query_gid(ctx, 1, i, &gid); i++)
		if (gid.raw[15])
			printf("row %d: %s\n", i, inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text)));
	fflush(stdout);
}

static void moves(void)
{
	rows();
	puts("ready");
	fflush(stdout);
	event_wait(IBV_EVENT_GID_CHANGE);
	rows();
}

static void until_back(void)
{
	struct timespec pause = { .tv_nsec = 10000000 };

	fflush(stdout);
	for (unsigned i = 0; i < TRIES && !devices(); i++)
		nanosleep(&pause, NULL);
	printf("devices: %d\n", devices());
}

static void removal(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx), *more;
	struct ibv_cq *cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }
	};
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;
	struct ibv_port_attr port;
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!qp || !list)
		die("objects");
	puts("ready");
	fflush(stdout);
	event_wait(IBV_EVENT_DEVICE_FATAL);
	printf("devices: %d\n", devices());
	errno = 0;
	said("open", ibv_open_device(list[0]) ? 0 : errno);
	said("query", ibv_query_port(ctx, 1, &port));
	more = ibv_alloc_pd(ctx);
	said("pd", more ? 0 : errno);
	until_back();
	said("old query", ibv_query_port(ctx, 1, &port));
	said("destroy", ibv_destroy_qp(qp) | ibv_destroy_cq(cq) | ibv_dealloc_pd(pd));
	said("close", ibv_close_device(ctx));
	ctx = device_open();
	if (!ctx)
		die("the device that is back");
	said("new query", ibv_query_port(ctx, 1, &port));
	printf("port: %s\n", ibv_port_state_str(port.state));
	more = ibv_alloc_pd(ctx);
	said("new pd", more ? ibv_dealloc_pd(more) : errno);
}

/* ---- threads that wait --------------------------------------------------------------- */

struct waiter {
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	unsigned n;
	int err;
	pthread_t thread;
};

static void *cq_events(void *arg)
{
	struct waiter *w = arg;
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(w->ch, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		w->n++;
	}
	w->err = errno;
	return NULL;
}

static void waiter_begin(struct waiter *w)
{
	w->ch = ibv_create_comp_channel(ctx);
	w->cq = w->ch ? ibv_create_cq(ctx, 8, NULL, w->ch, 0) : NULL;
	if (!w->cq || ibv_req_notify_cq(w->cq, 0) || pthread_create(&w->thread, NULL, cq_events, w))
		die("waiter");
}

static void waiter_end(struct waiter *w, const char *name)
{
	struct pollfd p = { .fd = w->ch->fd, .events = POLLIN };

	pthread_join(w->thread, NULL);
	printf("%s: %u events, then %s%s\n", name, w->n, strerrorname_np(w->err),
	       poll(&p, 1, 0) == 1 && p.revents & POLLHUP ? ", POLLHUP" : "");
	if (ibv_destroy_cq(w->cq) || ibv_destroy_comp_channel(w->ch))
		die("destroy");
}

/* Some have work that is flushed, and some have none. */
static void waits(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 4, 1, 1, 0 } };
	struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct waiter idle = { 0 }, busy = { 0 };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_async_event e;
	unsigned fatal = 0;
	struct ibv_qp *qp;

	alarm(PATIENCE_MS / 1000);
	waiter_begin(&idle);
	waiter_begin(&busy);
	init.send_cq = init.recv_cq = busy.cq;
	qp = pd ? ibv_create_qp(pd, &init) : NULL;
	if (!qp || ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_post_recv(qp, &wr, &bad) || ibv_post_recv(qp, &wr, &bad))
		die("queue pair");
	puts("ready");
	fflush(stdout);
	while (!ibv_get_async_event(ctx, &e)) {
		fatal += e.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&e);
	}
	printf("async: %u fatal, then %s\n", fatal, strerrorname_np(errno));
	waiter_end(&idle, "idle");
	said("destroy", ibv_destroy_qp(qp) | ibv_dealloc_pd(pd));
	waiter_end(&busy, "busy");
}

/* ---- the connection manager ------------------------------------------------------------ */

/* The device that is back, with ids and lists that the removed one was in. */
static void cm_anew(struct sockaddr_in *at)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_context **list = rdma_get_devices(NULL);
	struct ibv_pd *pd = list ? ibv_alloc_pd(list[0]) : NULL;
	struct rdma_cm_id *id;

	said("listed pd", pd ? ibv_dealloc_pd(pd) : errno);
	rdma_free_devices(list);
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		die("another id");
	said("bind anew", rdma_bind_addr(id, (struct sockaddr *)at) ? errno : 0);
	said("QP anew", rdma_create_qp(id, NULL, &init) ? errno : 0);
	if (id->qp)
		rdma_destroy_qp(id);
	said("destroy anew", rdma_destroy_id(id) ? errno : 0);
}

static void cm(const char *address)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct rdma_cm_event *e;
	struct rdma_cm_id *id, *other;
	struct pollfd p;

	inet_pton(AF_INET, address, &at.sin_addr);
	if (!ch || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&at))
		die("id");
	puts("ready");
	fflush(stdout);
	p = (struct pollfd){ .fd = ch->fd, .events = POLLIN };
	if (poll(&p, 1, PATIENCE_MS) != 1 || rdma_get_cm_event(ch, &e))
		die("no event came");
	printf("event: %s\n", rdma_event_str(e->event));
	rdma_ack_cm_event(e);
	if (rdma_create_id(ch, &other, NULL, RDMA_PS_TCP))
		die("other id");
	said("bind", rdma_bind_addr(other, (struct sockaddr *)&at) ? errno : 0);
	rdma_destroy_id(other);
	puts("unplugged");
	until_back();
	cm_anew(&at);
	said("destroy", rdma_destroy_id(id) ? errno : 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	ctx = device_open();
	if (!ctx)
		die("device");
	if (!strcmp(what, "moves"))
		moves();
	else if (!strcmp(what, "removal"))
		removal();
	else if (!strcmp(what, "waits"))
		waits();
	else if (!strcmp(what, "cm") && argc > 2)
		cm(argv[2]);
	else
		return fprintf(stderr, "rail moves|removal|waits|cm ADDRESS\n"), 2;
	return ctx ? ibv_close_device(ctx) != 0 : 0;
}
