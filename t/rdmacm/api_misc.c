/* SPDX-License-Identifier: MIT */
/* api_misc.c - addresses and ports, descriptors, counts of events, devices, names. */
#include "fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

START_TEST(ports)
{
	struct rdma_event_channel *ch = channel_new();
	struct rdma_cm_id *a, *b;
	int one = 1;
	uint16_t port;

	ok(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP));
	ok(rdma_create_id(ch, &b, NULL, RDMA_PS_TCP));
	ok(rdma_bind_addr(a, lo(0)));
	port = ntohs(rdma_get_src_port(a));
	ck_assert_int_eq(rdma_get_peer_addr(a)->sa_family, AF_INET); /* of nobody yet */
	ck_assert_uint_eq(rdma_get_dst_port(a), 0);
	fails(rdma_bind_addr(a, lo(0)), EINVAL);
	fails(rdma_bind_addr(b, lo(port)), EADDRINUSE);
	ok(rdma_destroy_id(a));
	ok(rdma_bind_addr(b, lo(port))); /* free at once */
	ck_assert_uint_eq(ntohs(rdma_get_src_port(b)), port);
	ok(rdma_listen(b, 1));
	fails(rdma_resolve_route(b, 100), EINVAL);
	ok(rdma_create_id(ch, &a, NULL, RDMA_PS_UDP));
	ok(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)));
	fails(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, 1), EINVAL);
	ok(rdma_bind_addr(a, lo(port))); /* another port space */
	ok(rdma_destroy_id(a));
	ok(rdma_destroy_id(b));
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(wrong_addresses)
{
	struct sockaddr un = { .sa_family = AF_UNIX }, none = { 0 }, ib = { .sa_family = 27 /* AF_IB */ };
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201) }; /* 192.0.2.1 */
	struct rdma_event_channel *ch = channel_new();
	struct rdma_cm_id *id;

	ok(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	fails(rdma_bind_addr(id, &un), EINVAL);
	fails(rdma_bind_addr(id, &none), EINVAL);
	fails(rdma_bind_addr(id, &ib), EAFNOSUPPORT);
	fails(rdma_resolve_addr(id, NULL, &un, 1), EINVAL);
	fails(rdma_resolve_addr(id, &un, lo(7), 1), EINVAL);
	fails(rdma_resolve_addr(id, NULL, &ib, 1), EAFNOSUPPORT);
	fails(rdma_bind_addr(id, NULL), EINVAL);
	fails(rdma_bind_addr(id, (struct sockaddr *)&far), EADDRNOTAVAIL);
	fails(rdma_connect(id, NULL), EINVAL);
	fails(rdma_accept(id, NULL), EINVAL);
	ck_assert_int_eq(rdma_disconnect(id), -1);
	ck_assert_ptr_null(id->verbs);
	/* Where it goes is there as soon as the call has succeeded. */
	ok(rdma_resolve_addr(id, NULL, lo(7), 2000));
	ck_assert_mem_eq(&id->route.addr.dst_sin, lo(7), sizeof(struct sockaddr_in));
	ck_assert_uint_eq(rdma_get_dst_port(id), htons(7));
	event_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(descriptor)
{
	struct rdma_cm_event *e;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ck_assert(!event_waits(p.cch));
	ck_assert_int_eq(fcntl(p.cch->fd, F_SETFL, O_NONBLOCK), 0);
	fails(rdma_get_cm_event(p.cch, &e), EAGAIN);
	fails(rdma_get_cm_event(p.cch, NULL), EINVAL);
	fails(rdma_ack_cm_event(NULL), EINVAL);
	pair_connect(&p, 1);
	fails(rdma_get_cm_event(p.cch, &e), EAGAIN);
	ck_assert(!event_waits(p.cch) && !event_waits(p.sch));
	pair_close(&p);
}
END_TEST

/* Each event is news, also to who has not fetched the one before. */
START_TEST(edges)
{
	struct rdma_event_channel *ch = channel_new(), *to = channel_new();
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct rdma_cm_id *id[3];

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, ch->fd, &e));
	for (int i = 0; i < 3; i++) {
		ok(rdma_create_id(ch, &id[i], NULL, RDMA_PS_TCP));
		ok(rdma_resolve_addr(id[i], NULL, lo(7), 2000));
		ck_assert_int_eq(epoll_wait(ep, &e, 1, PATIENCE_MS), 1);
		ck_assert_int_eq(epoll_wait(ep, &e, 1, 0), 0);
	}
	event_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_migrate_id(id[1], to));
	ck_assert(event_waits(ch) && event_waits(to));
	event_eat(to, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_destroy_id(id[2])); /* and its event with it */
	ck_assert(!event_waits(ch) && !event_waits(to));
	ck_assert_int_eq(epoll_wait(ep, &e, 1, 0), 0);
	ok(rdma_destroy_id(id[0]));
	ok(rdma_destroy_id(id[1]));
	close(ep);
	rdma_destroy_event_channel(to);
	rdma_destroy_event_channel(ch);
}
END_TEST

struct destroyer {
	struct rdma_cm_id *id;
	int done;
};

static void *destroy_run(void *arg)
{
	struct destroyer *d = arg;

	ok(rdma_destroy_id(d->id));
	__atomic_store_n(&d->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* An id goes when all its events were given back, not before. */
START_TEST(acks)
{
	struct rdma_event_channel *ch = channel_new();
	struct destroyer d = { 0 };
	struct rdma_cm_event *e;
	struct pair p;
	pthread_t t;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_create_id(ch, &d.id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(d.id, NULL, lo(p.port), 2000));
	e = event_get(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(pthread_create(&t, NULL, destroy_run, &d), 0);
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	ck_assert_int_eq(__atomic_load_n(&d.done, __ATOMIC_SEQ_CST), 0);
	ok(rdma_ack_cm_event(e));
	pthread_join(t, NULL);
	rdma_destroy_event_channel(ch);
	pair_close(&p);
}
END_TEST

START_TEST(devices)
{
	struct ibv_context **list;
	struct pair p;
	int n = 0, found = 0;

	list = rdma_get_devices(&n);
	ck_assert(list && n >= 1 && !list[n]);
	pair_open(&p, RDMA_PS_TCP);
	for (int i = 0; i < n; i++)
		found += list[i] == p.client->verbs;
	ck_assert_int_eq(found, 1);
	rdma_free_devices(list);
	pair_close(&p);
}
END_TEST

/* Too few descriptors to open a device: which is not as if there were none. */
START_TEST(devices_shut)
{
	const struct rlimit few = { .rlim_cur = 64, .rlim_max = 64 };
	int fd, n = 7;

	ok(setrlimit(RLIMIT_NOFILE, &few));
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n = fd;
	for (int i = 0; i < 3; i++)
		ok(close(n - i));
	ck_assert(!rdma_get_devices(&n) && errno == EMFILE && !n);
}
END_TEST

START_TEST(names)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *r;

	ck_assert_str_eq(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	ck_assert_str_eq(rdma_event_str(99), "UNKNOWN EVENT");
	fails(rdma_getaddrinfo(NULL, NULL, NULL, &r), EINVAL);
	ck_assert_int_ne(rdma_getaddrinfo("no.such.name", "1", &hints, &r), 0);
	ok(rdma_getaddrinfo("127.0.0.1", "7471", NULL, &r));
	ck_assert_int_eq(r->ai_port_space, RDMA_PS_TCP);
	ck_assert_int_eq(r->ai_qp_type, IBV_QPT_RC);
	ck_assert_uint_eq(r->ai_dst_len, sizeof(struct sockaddr_in));
	ck_assert_uint_eq(((struct sockaddr_in *)r->ai_dst_addr)->sin_port, htons(7471));
	ck_assert_uint_eq(r->ai_src_len, 0);
	rdma_freeaddrinfo(r);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_UDP };
	ok(rdma_getaddrinfo(NULL, "7471", &hints, &r));
	ck_assert_int_eq(r->ai_qp_type, IBV_QPT_UD);
	ck_assert(r->ai_src_len && !r->ai_dst_len);
	rdma_freeaddrinfo(r);
	hints = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_UD };
	ck_assert_int_eq(rdma_getaddrinfo("127.0.0.1", "1", &hints, &r), EAI_SOCKTYPE);
	/* A family is one, whether the flag says so or not. */
	for (int flags = 0; flags <= RAI_FAMILY; flags += RAI_FAMILY) {
		hints = (struct rdma_addrinfo){ .ai_flags = flags | RAI_PASSIVE, .ai_family = AF_INET6 };
		ok(rdma_getaddrinfo(NULL, "7471", &hints, &r));
		ck_assert_int_eq(r->ai_src_addr->sa_family, AF_INET6);
		ck_assert_ptr_null(r->ai_next);
		rdma_freeaddrinfo(r);
		hints.ai_family = AF_INET;
		ck_assert_int_ne(rdma_getaddrinfo("::1", "7471", &hints, &r), 0);
	}
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_FAMILY, .ai_family = 27 /* AF_IB */ };
	ck_assert_int_eq(rdma_getaddrinfo("127.0.0.1", "1", &hints, &r), EAI_FAMILY);
}
END_TEST

/* One shared queue serves the ids that have it. */
START_TEST(shared_queue)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_create_srq(p.client, NULL, &sa));
	fails(rdma_create_srq(p.client, NULL, &sa), EINVAL);
	pair_connect(&p, 1);
	ck_assert_ptr_eq(p.client->qp->srq, p.client->srq);
	message_move(p.server, p.client, 2000);
	rdma_destroy_qp(p.client);
	rdma_destroy_srq(p.client);
	ck_assert_ptr_null(p.client->srq);
	pair_close(&p);
}
END_TEST

/* The id's own QP has no options; a QP of the program's may. */
START_TEST(ece)
{
	struct ibv_ece e = { .vendor_id = 1 };
	struct rdma_cm_event *ev;
	struct pair p;
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_RC);

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_set_local_ece(p.client, &e));
	ok(rdma_get_remote_ece(p.client, &e));
	ck_assert_uint_eq(e.vendor_id, 0);
	fails(rdma_set_local_ece(p.client, &e), EINVAL);
	ok(rdma_create_qp(p.client, NULL, &a));
	fails(rdma_get_remote_ece(p.client, &e), EINVAL);
	fails(rdma_establish(p.client), EINVAL);
	ok(rdma_connect(p.client, NULL));
	ev = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = ev->id;
	ok(rdma_get_remote_ece(p.server, &e));
	ck_assert_uint_eq(e.vendor_id, 0);
	ok(rdma_reject_ece(p.server, NULL, 0));
	ok(rdma_ack_cm_event(ev));
	ev = event_get(p.cch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 35);
	ok(rdma_ack_cm_event(ev));
	pair_close(&p);
}
END_TEST

/* A vendor has 24 bits in REQ and REP, the options 32. */
START_TEST(ece_told)
{
	struct ibv_ece ask = { .vendor_id = 0x123456, .options = 0xfedcba98 },
		       answer = { .vendor_id = 7, .options = 0x89abcdef };
	struct rdma_conn_param param = { .qp_num = 0x4711 };
	struct rdma_cm_event *ev;
	struct ibv_ece e;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	ok(rdma_set_local_ece(p.client, &ask));
	ok(rdma_connect(p.client, &param));
	ev = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = ev->id;
	ok(rdma_get_remote_ece(p.server, &e));
	ck_assert_uint_eq(e.vendor_id, ask.vendor_id);
	ck_assert_uint_eq(e.options, ask.options);
	ok(rdma_set_local_ece(p.server, &answer));
	param.qp_num = 0x4712;
	ok(rdma_accept(p.server, &param));
	ok(rdma_ack_cm_event(ev));
	event_eat(p.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	ok(rdma_get_remote_ece(p.client, &e));
	ck_assert_uint_eq(e.vendor_id, ask.vendor_id); /* the answer is to this vendor's */
	ck_assert_uint_eq(e.options, answer.options);
	ok(rdma_establish(p.client));
	event_eat(p.sch, RDMA_CM_EVENT_ESTABLISHED);
	pair_close(&p);
}
END_TEST

/* Of newer headers, and not in the library that the linker saw. */
static int (*write_event)(struct rdma_cm_id *, enum rdma_cm_event_type, int status, uint64_t arg);
static int (*resolve_ai)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *);
static int (*query_ai)(struct rdma_cm_id *, struct rdma_addrinfo **);
enum { ADDRINFO_RESOLVED = 16, USER = 18 };

START_TEST(own_events)
{
	struct rdma_addrinfo hints = { .ai_flags = 1 << 4 /* RAI_SA */ }, *found;
	struct rdma_event_channel *ch = channel_new();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	uint64_t arg;

	*(void **)&write_event = dlvsym(RTLD_DEFAULT, "rdma_write_cm_event", "RDMACM_1.4");
	*(void **)&resolve_ai = dlvsym(RTLD_DEFAULT, "rdma_resolve_addrinfo", "RDMACM_1.4");
	*(void **)&query_ai = dlvsym(RTLD_DEFAULT, "rdma_query_addrinfo", "RDMACM_1.4");
	ck_assert(write_event && resolve_ai && query_ai);
	ok(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	fails(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	ok(write_event(id, (enum rdma_cm_event_type)USER, -7, 0x123456789abcdef0));
	ev = event_get(ch, (enum rdma_cm_event_type)USER);
	ck_assert_ptr_eq(ev->id, id);
	ck_assert_int_eq(ev->status, -7);
	memcpy(&arg, &ev->param, sizeof(arg));
	ck_assert_uint_eq(arg, 0x123456789abcdef0);
	ck_assert_str_eq(rdma_event_str(ev->event), "RDMA_CM_EVENT_USER");
	ok(rdma_ack_cm_event(ev));

	fails(query_ai(id, &found), ENOENT);
	fails(resolve_ai(id, NULL, "1", &hints), EOPNOTSUPP);
	ok(resolve_ai(id, "127.0.0.1", "7471", NULL));
	fails(resolve_ai(id, "127.0.0.1", "7471", NULL), EBUSY);
	event_eat(ch, (enum rdma_cm_event_type)ADDRINFO_RESOLVED);
	ok(query_ai(id, &found));
	ck_assert_uint_eq(((struct sockaddr_in *)found->ai_dst_addr)->sin_port, htons(7471));
	rdma_freeaddrinfo(found);
	fails(query_ai(id, &found), ENOENT);
	ok(resolve_ai(id, "127.0.0.1", "7471", NULL)); /* not asked for: no leak */
	ok(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}
END_TEST

void api_misc(Suite *s)
{
	SUITE_ADD(s, ports, wrong_addresses, descriptor, edges, acks, devices, devices_shut, names, shared_queue, ece,
		  ece_told, own_events);
}
