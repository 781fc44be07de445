/* SPDX-License-Identifier: MIT */
/* api_sync.c - endpoints and ids without a channel: calls that wait. */
#include "fixture.h"

#include <stdio.h>

struct server {
	struct rdma_cm_id *listen;
	size_t len;
	int refuse;
};

/* Takes one connection and sends back what it gets. */
static void *server_run(void *arg)
{
	struct server *s = arg;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char *buf;

	ok(rdma_get_request(s->listen, &id));
	ck_assert(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (s->refuse) {
		ok(rdma_reject(id, NULL, 0));
		rdma_destroy_ep(id);
		return NULL;
	}
	ck_assert(id->qp && id->recv_cq_channel);
	buf = malloc(s->len);
	mr = rdma_reg_msgs(id, buf, s->len);
	ok(rdma_post_recv(id, NULL, buf, s->len, mr));
	ok(rdma_accept(id, NULL));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_int_eq(rdma_get_recv_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ok(rdma_post_send(id, NULL, buf, s->len, mr, 0));
	ck_assert_int_eq(rdma_get_send_comp(id, &wc), 1);
	ok(rdma_disconnect(id));
	ok(rdma_dereg_mr(mr));
	free(buf);
	rdma_destroy_ep(id);
	return NULL;
}

static struct rdma_cm_id *server_start(struct server *s, pthread_t *t, char *port, size_t size)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr a = qp_attr(0);

	ok(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res));
	ok(rdma_create_ep(&s->listen, res, NULL, &a));
	rdma_freeaddrinfo(res);
	ck_assert(s->listen->qp == NULL);
	ok(rdma_listen(s->listen, 0));
	snprintf(port, size, "%u", ntohs(rdma_get_src_port(s->listen)));
	ck_assert_int_eq(pthread_create(t, NULL, server_run, s), 0);
	return s->listen;
}

static struct rdma_cm_id *client_ep(const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr a = qp_attr(0);
	struct rdma_cm_id *id;

	ok(rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	ok(rdma_create_ep(&id, res, NULL, &a));
	rdma_freeaddrinfo(res);
	ck_assert(id->qp && id->verbs && id->send_cq);
	return id;
}

START_TEST(echo)
{
	struct server s = { .len = 3000 };
	struct rdma_cm_id *id;
	struct ibv_mr *mr, *back_mr;
	struct ibv_wc wc;
	char buf[3000], back[3000], port[8];
	pthread_t t;

	server_start(&s, &t, port, sizeof(port));
	id = client_ep(port);
	memset(buf, 'x', sizeof(buf));
	memset(back, 0, sizeof(back));
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	back_mr = rdma_reg_msgs(id, back, sizeof(back));
	ok(rdma_post_recv(id, back, back, sizeof(back), back_mr));
	ok(rdma_connect(id, NULL));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	ok(rdma_post_send(id, buf, buf, sizeof(buf), mr, 0));
	ck_assert_int_eq(rdma_get_send_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(rdma_get_recv_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_mem_eq(buf, back, sizeof(buf));
	ok(rdma_disconnect(id));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	pthread_join(t, NULL);
	ok(rdma_dereg_mr(mr));
	ok(rdma_dereg_mr(back_mr));
	rdma_destroy_ep(id);
	rdma_destroy_ep(s.listen);
}
END_TEST

/* Its own, or the device's: also without attributes of QPs, and never none. */
START_TEST(passive_pd)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr a = qp_attr(0);
	struct rdma_cm_id *id, *other;
	struct ibv_pd *pd;

	ok(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res));
	ok(rdma_create_ep(&id, res, NULL, &a));
	ck_assert(id->verbs && id->pd);
	pd = ibv_alloc_pd(id->verbs);
	ck_assert_ptr_nonnull(pd);
	ok(rdma_create_ep(&other, res, pd, NULL));
	ck_assert_ptr_eq(other->pd, pd);
	rdma_destroy_ep(other);
	ok(rdma_create_ep(&other, res, pd, &a));
	ck_assert_ptr_eq(other->pd, pd);
	rdma_destroy_ep(other);
	rdma_freeaddrinfo(res);
	ok(ibv_dealloc_pd(pd));
	rdma_destroy_ep(id);
}
END_TEST

START_TEST(refused)
{
	struct server s = { .refuse = 1 };
	struct rdma_cm_id *id;
	char port[8];
	pthread_t t;

	server_start(&s, &t, port, sizeof(port));
	id = client_ep(port);
	fails(rdma_connect(id, NULL), ECONNREFUSED);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_REJECTED);
	pthread_join(t, NULL);
	rdma_destroy_ep(id);
	rdma_destroy_ep(s.listen);
	id = client_ep(port); /* nobody listens any more */
	fails(rdma_connect(id, NULL), ECONNREFUSED);
	rdma_destroy_ep(id);
}
END_TEST

START_TEST(not_reached)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xf0000001) };
	struct rdma_cm_id *id, *other;

	ok(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	ck_assert(id->channel != NULL);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 500), -1);
	ck_assert_int_ne(errno, 0);
	ck_assert_int_eq(fcntl(id->channel->fd, F_SETFL, O_NONBLOCK), 0);
	fails(rdma_get_request(id, &other), EAGAIN);
	ok(rdma_destroy_id(id));
}
END_TEST

/* A path of the program's own: its event is there to be fetched. */
START_TEST(own_path)
{
	struct ibv_path_data path = { .flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY };
	struct rdma_cm_id *id;

	ok(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), EINVAL);
	ok(rdma_resolve_addr(id, NULL, lo(7), 2000));
	fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 1), EINVAL);
	ok(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	event_eat(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(id->route.num_paths, 1);
	ok(rdma_destroy_id(id));
}
END_TEST

/* Synchronous, then with a channel, then synchronous again. */
START_TEST(migrated)
{
	struct rdma_event_channel *ch = channel_new();
	struct pair p;
	struct rdma_cm_id *id;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(id, NULL, lo(p.port), 2000));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_migrate_id(id, ch));
	ck_assert_ptr_eq(id->channel, ch);
	ck_assert_ptr_null(id->event);
	ok(rdma_resolve_route(id, 2000));
	ck_assert_ptr_null(id->event);
	ok(rdma_migrate_id(id, p.cch)); /* the event goes with it */
	event_eat(p.cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert(!event_waits(ch));
	ok(rdma_migrate_id(id, NULL));
	fails(rdma_migrate_id(id, NULL), EINVAL);
	rdma_destroy_event_channel(ch);
	ok(rdma_destroy_id(id));
	pair_close(&p);
}
END_TEST

void api_sync(Suite *s) { SUITE_ADD(s, echo, passive_pd, refused, not_reached, own_path, migrated); }
