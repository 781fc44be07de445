/* SPDX-License-Identifier: MIT */
/* fixture.c - see fixture.h.  Also main(). */
#include "fixture.h"

#include <stdio.h>
#include <unistd.h>

struct sockaddr *lo(uint16_t port)
{
	static struct sockaddr_in sin;

	sin = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return (struct sockaddr *)&sin;
}

struct rdma_event_channel *channel_new(void)
{
	struct rdma_event_channel *c = rdma_create_event_channel();

	ck_assert_msg(c != NULL, "rdma_create_event_channel: %s", strerror(errno));
	return c;
}

int event_waits(struct rdma_event_channel *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

struct rdma_cm_event *event_get(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	struct rdma_cm_event *e;

	ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "no event in 50 s, wanted %s", rdma_event_str(type));
	ok(rdma_get_cm_event(c, &e));
	ck_assert_msg(e->event == type, "%s, status %d; wanted %s", rdma_event_str(e->event), e->status,
		      rdma_event_str(type));
	return e;
}

void event_eat(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e = event_get(c, type);

	ck_assert_int_eq(e->status, 0);
	ok(rdma_ack_cm_event(e));
}

struct ibv_qp_init_attr qp_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
}

void qp_to(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };
	int mask;

	ok(rdma_init_qp_attr(id, &a, &mask));
	ck_assert_int_eq(a.qp_state, state);
	ok(ibv_modify_qp(qp, &a, mask));
}

void pair_open(struct pair *p, enum rdma_port_space ps)
{
	memset(p, 0, sizeof(*p));
	p->sch = channel_new();
	p->cch = channel_new();
	ok(rdma_create_id(p->sch, &p->listen, "listen", ps));
	ok(rdma_bind_addr(p->listen, lo(0)));
	p->port = ntohs(rdma_get_src_port(p->listen));
	ck_assert_uint_ne(p->port, 0);
	ok(rdma_listen(p->listen, 4));
	ok(rdma_create_id(p->cch, &p->client, "client", ps));
	ok(rdma_resolve_addr(p->client, NULL, lo(p->port), 2000));
	event_eat(p->cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert(p->client->verbs != NULL && p->client->pd != NULL);
	ok(rdma_resolve_route(p->client, 2000));
	event_eat(p->cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(p->client->route.num_paths, 1);
}

void pair_connect(struct pair *p, int qps)
{
	struct ibv_qp_init_attr a = qp_attr(p->client->qp_type), b = a;
	struct rdma_cm_event *e;

	if (qps)
		ok(rdma_create_qp(p->client, NULL, &a));
	ok(rdma_connect(p->client, NULL));
	e = event_get(p->sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p->server = e->id;
	if (qps)
		ok(rdma_create_qp(p->server, NULL, &b));
	ok(rdma_accept(p->server, NULL));
	ok(rdma_ack_cm_event(e));
	event_eat(p->cch, RDMA_CM_EVENT_ESTABLISHED);
	if (p->client->qp_type != IBV_QPT_UD)
		event_eat(p->sch, RDMA_CM_EVENT_ESTABLISHED);
}

static void id_close(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	ok(rdma_destroy_id(id));
}

void pair_close(struct pair *p)
{
	id_close(p->client);
	id_close(p->server);
	id_close(p->listen);
	rdma_destroy_event_channel(p->cch);
	rdma_destroy_event_channel(p->sch);
}

void message_move(struct rdma_cm_id *a, struct rdma_cm_id *b, size_t len)
{
	unsigned char *from = malloc(len), *to = calloc(1, len);
	struct ibv_mr *ma = rdma_reg_msgs(a, from, len), *mb = rdma_reg_msgs(b, to, len);
	struct ibv_wc wc;

	ck_assert(ma && mb);
	for (size_t i = 0; i < len; i++)
		from[i] = (unsigned char)(i * 7 + len);
	ok(rdma_post_recv(b, to, to, len, mb));
	ok(rdma_post_send(a, from, from, len, ma, 0));
	ck_assert_int_eq(rdma_get_send_comp(a, &wc), 1);
	ck_assert_msg(wc.status == IBV_WC_SUCCESS, "send: %s", ibv_wc_status_str(wc.status));
	ck_assert_int_eq(rdma_get_recv_comp(b, &wc), 1);
	ck_assert_msg(wc.status == IBV_WC_SUCCESS, "receive: %s", ibv_wc_status_str(wc.status));
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_mem_eq(from, to, len);
	ok(rdma_dereg_mr(ma));
	ok(rdma_dereg_mr(mb));
	free(from);
	free(to);
}

void why_says(const char *pattern)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "./rdmactl why -a | grep -q '%s'", pattern);
	ck_assert_msg(system(cmd) == 0, "rdmactl why does not say: %s", pattern);
}

unsigned long stats_of(const char *counter)
{
	unsigned long n = 0;
	char cmd[256];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "./rdmactl stats | awk '$1 == \"%s\" { n += $2 } END { print n + 0 }'", counter);
	f = popen(cmd, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu", &n), 1);
	ck_assert_int_eq(pclose(f), 0);
	return n;
}

int main(void)
{
	Suite *s = suite_create("rdmacm");

	api_conn(s);
	api_sync(s);
	api_ud(s);
	api_misc(s);
	api_rs(s);
	api_rs_accept(s);
	api_rs_early(s);
	api_rs_grow(s);
	api_rsd(s);
	api_end(s);
	api_order(s);
	api_sleep(s);
	api_stream(s);
	api_signal(s);
	api_close(s);
	return suite_run(s);
}
