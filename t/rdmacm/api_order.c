/* SPDX-License-Identifier: MIT */
/*
 * api_order.c - events got, given back, moved with their id, and left when it is destroyed, in every order.
 *
 * As it has to be: rdma_destroy_id() and rdma_migrate_id() return when all events that rdma_get_cm_event() gave of the
 * id have been given back, and not before; what is still waiting goes with the id, or away with it.  The same is true of
 * rdma_destroy_qp() and what ibv_get_async_event() gave of the QP.
 *
 * So does rdma-core, whose kernel counts for an id what it has given of it - of a request, for the listener -, and says that
 * number when the id is destroyed or moved: the library waits until as many have been given back.  What kind an event is
 * makes no difference to that; here each is tried all the same, but for ROUTE_ERROR, which RoCE has not: a route is resolved
 * at once, or the call fails.  (DEVICE_REMOVAL: api_end.c.)
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { USER = 18 };
static int (*write_event)(struct rdma_cm_id *, enum rdma_cm_event_type, int status, uint64_t arg);

enum kind {
	OWN,     /* events that the program puts there */
	ERROR,   /* the peer says no */
	REQUEST, /* of a listener: each brings a new id, and counts for the listener */
	UNKNOWN, /* datagrams for a service that nobody has */
	GONE,    /* the peer goes */
	OVER,    /* time wait is over */
	NOBODY,  /* an address that answers no ARP */
};

struct run {
	enum kind kind;
	const char *ops;
	struct pair p; /* sch: the other channel, too */
	struct rdma_event_channel *calls[4];
	struct rdma_cm_id *id, *callers[4], *fresh[4];
	unsigned callers_n, fresh_n;
	struct rdma_cm_event *held[4];
	unsigned held_n, waiting;
	bool own; /* its channel is its own */
};

static struct rdma_event_channel *here(const struct run *r) { return r->id->channel; }

/* ---- one event more --------------------------------------------------------------- */

/*
 * Each time another QP, in other tests (processes), too: one that is called from already, or was till now, says that its
 * connection is forgotten (protocol 7.7).
 */
static uint32_t qpn_new(void)
{
	static uint32_t n;

	return ((uint32_t)getpid() & 0x3fff) << 10 | (++n & 0x3ff);
}

static void connect_to(struct rdma_cm_id *id)
{
	ok(rdma_connect(id, &(struct rdma_conn_param){ .qp_num = qpn_new() }));
}

static void call(struct run *r)
{
	struct rdma_event_channel *ch = r->calls[r->callers_n] = channel_new();
	struct rdma_cm_id *id;

	ok(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(id, NULL, lo(r->p.port), 2000));
	event_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_resolve_route(id, 2000));
	event_eat(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_to(id);
	r->callers[r->callers_n++] = id;
}

/* Over the interface that addr_error_ordered makes. */
static struct sockaddr *far(void)
{
	static struct sockaddr_in sin = { .sin_family = AF_INET };

	sin.sin_port = htons(7);
	inet_pton(AF_INET, "10.99.0.2", &sin.sin_addr);
	return (struct sockaddr *)&sin;
}

/* It is there, or one before it; a request may still be on its way. */
static void arrives(struct run *r)
{
	struct pollfd fd = { .fd = here(r)->fd, .events = POLLIN };

	ck_assert_msg(poll(&fd, 1, PATIENCE_MS) == 1, "%s: no event arrives", r->ops);
}

static void cause(struct run *r)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *no;

	switch (r->kind) {
	case OWN: ok(write_event(r->id, (enum rdma_cm_event_type)USER, 0, r->waiting)); break;
	case ERROR:
		connect_to(r->id);
		e = event_get(r->p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
		no = e->id;
		ok(rdma_reject(no, NULL, 0));
		ok(rdma_destroy_id(no)); /* its event counts for the listener */
		ok(rdma_ack_cm_event(e));
		break;
	case REQUEST: call(r); break;
	case UNKNOWN: ok(rdma_connect(r->id, NULL)); break;
	case GONE:
		ok(rdma_destroy_id(r->p.server));
		r->p.server = NULL;
		break;
	case OVER: ok(rdma_disconnect(r->id)); break;
	case NOBODY: ok(rdma_resolve_addr(r->id, NULL, far(), 20)); break;
	}
	r->waiting++;
	arrives(r);
}

/* ---- what may have to wait ------------------------------------------------------------ */

struct job {
	struct run *r;
	char op;
	struct rdma_event_channel *to;
	_Atomic bool begun, done;
};

static void *job_run(void *arg)
{
	struct job *j = arg;

	j->begun = true;
	ok(j->op == 'd' ? rdma_destroy_id(j->r->id) : rdma_migrate_id(j->r->id, j->to));
	j->done = true;
	return NULL;
}

static void give_back(struct run *r, unsigned i)
{
	ok(rdma_ack_cm_event(r->held[i]));
	r->held[i] = r->held[--r->held_n];
}

/* Some requests and answers, in which a function that does not wait as it has to would come to its end. */
static void linger(void)
{
	struct rdma_event_channel *ch = channel_new();
	struct rdma_cm_id *id;

	for (unsigned i = 0; i < 4; i++) {
		ok(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
		ok(rdma_destroy_id(id));
	}
	rdma_destroy_event_channel(ch);
}

static void waits(struct run *r, char op, struct rdma_event_channel *to)
{
	struct job j = { .r = r, .op = op, .to = to };
	struct timespec until;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, job_run, &j), 0);
	while (r->held_n) {
		while (!j.begun)
			sched_yield();
		linger();
		ck_assert_msg(!j.done, "%s: %c does not wait for %u events", r->ops, op, r->held_n);
		give_back(r, r->held_n - 1);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	ck_assert_msg(!pthread_timedjoin_np(t, NULL, &until), "%s: %c waits for ever", r->ops, op);
}

static void move(struct run *r, bool own)
{
	struct rdma_event_channel *to = own ? NULL : here(r) == r->p.cch ? r->p.sch : r->p.cch;

	waits(r, 'm', to);
	r->own = own;
	ck_assert(own ? here(r) != r->p.cch && here(r) != r->p.sch : here(r) == to);
	if (r->waiting)
		arrives(r);
	else
		ck_assert_msg(!event_waits(here(r)), "%s: an event from nowhere", r->ops);
}

/* ---- a row ------------------------------------------------------------------------------ */

static void get(struct run *r)
{
	static const enum rdma_cm_event_type type[] = {
		[OWN] = (enum rdma_cm_event_type)USER,     [ERROR] = RDMA_CM_EVENT_REJECTED,
		[REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST, [UNKNOWN] = RDMA_CM_EVENT_UNREACHABLE,
		[GONE] = RDMA_CM_EVENT_DISCONNECTED,       [OVER] = RDMA_CM_EVENT_TIMEWAIT_EXIT,
		[NOBODY] = RDMA_CM_EVENT_ADDR_ERROR
	};
	struct rdma_cm_event *e = event_get(here(r), type[r->kind]);

	r->held[r->held_n++] = e;
	r->waiting--;
	if (r->kind != REQUEST) {
		ck_assert_ptr_eq(e->id, r->id);
		return;
	}
	ck_assert_ptr_eq(e->listen_id, r->id);
	/* The new id goes first, or last: its request is not its own event. */
	if (r->held_n % 2)
		ok(rdma_destroy_id(e->id));
	else
		r->fresh[r->fresh_n++] = e->id;
}

/* Brings the pair to where the first event may come. */
static void prepare(struct run *r)
{
	struct rdma_cm_event *e;

	switch (r->kind) {
	case OWN:
	case ERROR:
	case REQUEST: return;
	case UNKNOWN:
		ok(rdma_destroy_id(r->p.listen));
		r->p.listen = NULL;
		return;
	case NOBODY:
		ok(rdma_destroy_id(r->p.client));
		ok(rdma_create_id(r->p.cch, &r->p.client, NULL, RDMA_PS_TCP));
		return;
	case GONE:
	case OVER:
		connect_to(r->p.client);
		e = event_get(r->p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
		r->p.server = e->id;
		ok(rdma_ack_cm_event(e));
		ok(rdma_accept(r->p.server, &(struct rdma_conn_param){ .qp_num = qpn_new() }));
		event_eat(r->p.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
		ok(rdma_establish(r->p.client));
		event_eat(r->p.sch, RDMA_CM_EVENT_ESTABLISHED);
	}
	if (r->kind == OVER) {
		ok(rdma_destroy_id(r->p.server));
		r->p.server = NULL;
		event_eat(r->p.cch, RDMA_CM_EVENT_DISCONNECTED);
	}
}

static void row(enum kind kind, const char *ops)
{
	struct run r = { .kind = kind, .ops = ops };

	pair_open(&r.p, kind == UNKNOWN ? RDMA_PS_UDP : RDMA_PS_TCP);
	prepare(&r);
	r.id = kind == REQUEST ? r.p.listen : r.p.client;
	for (const char *op = ops; *op; op++) {
		switch (*op) {
		case 'e': cause(&r); break;
		case 'g': get(&r); break;
		case 'a': give_back(&r, 0); break;
		case 'm': move(&r, false); break;
		case 's': move(&r, true); break;
		case 'd': waits(&r, 'd', NULL); break;
		}
	}
	/* Waiting requests are gone; their callers learn that they were refused. */
	for (unsigned i = 0; i < r.callers_n; i++) {
		ok(rdma_destroy_id(r.callers[i]));
		rdma_destroy_event_channel(r.calls[i]);
	}
	for (unsigned i = 0; i < r.fresh_n; i++)
		ok(rdma_destroy_id(r.fresh[i]));
	if (r.p.server)
		ok(rdma_destroy_id(r.p.server));
	r.p.server = NULL;
	ck_assert_msg(!event_waits(r.p.cch) && !event_waits(r.p.sch), "%s: an event of an id is left", ops);
	if (kind == REQUEST)
		r.p.listen = NULL;
	else
		r.p.client = NULL;
	pair_close(&r.p);
}

/* All rows of these operations: no event is got before it is there, none given back before it was got. */
static unsigned rows(enum kind kind, char *ops, unsigned n, unsigned caused, unsigned got, unsigned back,
		     unsigned moves, bool own)
{
	unsigned sum = 1;

#define NEXT(op, may, ...)                                  \
	if (may) {                                          \
		ops[n] = op;                                \
		ops[n + 1] = 0;                             \
		sum += rows(kind, ops, n + 1, __VA_ARGS__); \
	}
	NEXT('e', caused < (kind == ERROR ? 1u : 2u), caused + 1, got, back, moves, own)
	NEXT('g', got < caused, caused, got + 1, back, moves, own)
	NEXT('a', back < got, caused, got, back + 1, moves, own)
	NEXT('m', moves < (kind == REQUEST ? 1u : 2u) && n && ops[n - 1] != 'm', caused, got, got, moves + 1, false)
	NEXT('s', moves < (kind == REQUEST ? 1u : 2u) && !own && n && ops[n - 1] != 's', caused, got, got, moves + 1,
	     true)
#undef NEXT
	ops[n] = 'd';
	ops[n + 1] = 0;
	row(kind, ops);
	return sum;
}

static void all(enum kind kind)
{
	char ops[32];

	*(void **)&write_event = dlvsym(RTLD_DEFAULT, "rdma_write_cm_event", "RDMACM_1.4");
	ck_assert(write_event != NULL);
	printf("# kind %d: %u orders\n", kind, rows(kind, ops, 0, 0, 0, 0, 0, false));
}

START_TEST(own_events_ordered) { all(OWN); }
END_TEST

START_TEST(errors_ordered) { all(ERROR); }
END_TEST

START_TEST(requests_ordered) { all(REQUEST); }
END_TEST

/* The other kinds: m moves to the other channel, s to one of its own, after which calls wait for their event. */
static void each(enum kind kind)
{
	static const char *const all_ops[] = { "d",    "ed",  "egd",  "egad",  "emd",  "emgd", "emgad",
					       "egmd", "esd", "esgd", "esgad", "megd", "megad" };

	for (unsigned i = 0; i < sizeof(all_ops) / sizeof(*all_ops); i++)
		row(kind, all_ops[i]);
}

START_TEST(unreachable_ordered) { each(UNKNOWN); }
END_TEST

START_TEST(disconnected_ordered) { each(GONE); }
END_TEST

START_TEST(timewait_ordered) { each(OVER); }
END_TEST

/* While it waits for what the old channel gave, the id is the new one's already, for whoever gets its next event there. */
START_TEST(served_while_moving)
{
	struct rdma_event_channel *from = channel_new(), *to = channel_new();
	struct rdma_cm_event *e;
	struct run r = { 0 };
	struct job j = { .r = &r, .op = 'm', .to = to };
	pthread_t t;

	*(void **)&write_event = dlvsym(RTLD_DEFAULT, "rdma_write_cm_event", "RDMACM_1.4");
	ok(rdma_create_id(from, &r.id, NULL, RDMA_PS_TCP));
	ok(write_event(r.id, (enum rdma_cm_event_type)USER, 0, 0));
	r.held[0] = event_get(from, (enum rdma_cm_event_type)USER);
	ok(rdma_resolve_addr(r.id, NULL, lo(7), 2000));
	ck_assert_int_eq(pthread_create(&t, NULL, job_run, &j), 0);
	e = event_get(to, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_resolve_route(r.id, 2000));
	ck_assert(!j.done);
	ok(rdma_ack_cm_event(r.held[0]));
	ok(rdma_ack_cm_event(e));
	event_eat(to, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ok(rdma_destroy_id(r.id));
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}
END_TEST

/* Only where an interface can be made: in the namespace that api.test makes. */
START_TEST(addr_error_ordered)
{
	ck_assert_int_eq(system("export LD_PRELOAD=; ip link add far0 type veth peer name far1 && "
				"ip addr add 10.99.0.1/24 dev far0 && ip link set far0 up && ip link set far1 up"),
			 0);
	each(NOBODY);
	ck_assert_int_eq(system("LD_PRELOAD= ip link del far0"), 0);
}
END_TEST

/*
 * An id without a channel keeps the last event itself, and gives it back when it is destroyed.  The one of a request counts for
 * the listener: which goes only after the id that the request brought has had another event, or has gone.
 */
static void *listener_end(void *arg)
{
	ok(rdma_destroy_id(arg));
	return NULL;
}

static void *asker(void *port)
{
	struct rdma_cm_id *id;

	ok(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	ok(rdma_resolve_addr(id, NULL, lo((uint16_t)(uintptr_t)port), 2000));
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ok(rdma_resolve_route(id, 2000));
	fails(rdma_connect(id, &(struct rdma_conn_param){ .qp_num = 0x10 }), ECONNREFUSED);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_REJECTED);
	ok(rdma_destroy_id(id));
	return NULL;
}

START_TEST(without_channel)
{
	struct rdma_cm_id *listen, *id;
	pthread_t t, end;

	for (unsigned i = 0; i < 2; i++) {
		ok(rdma_create_id(NULL, &listen, NULL, RDMA_PS_TCP));
		ok(rdma_bind_addr(listen, lo(0)));
		ok(rdma_listen(listen, 1));
		ck_assert_int_eq(pthread_create(&t, NULL, asker, (void *)(uintptr_t)ntohs(rdma_get_src_port(listen))),
				 0);
		ok(rdma_get_request(listen, &id));
		ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		if (i) { /* the listener first */
			ck_assert_int_eq(pthread_create(&end, NULL, listener_end, listen), 0);
			linger();
			ck_assert_int_eq(pthread_tryjoin_np(end, NULL), EBUSY);
			ok(rdma_destroy_id(id));
			ck_assert_int_eq(pthread_join(end, NULL), 0);
		} else {
			ok(rdma_destroy_id(id));
			ok(rdma_destroy_id(listen));
		}
		ck_assert_int_eq(pthread_join(t, NULL), 0);
	}
}
END_TEST

/* ---- events of a QP ----------------------------------------------------------------------- */

struct qp_run {
	const char *ops;
	struct rdma_cm_id *id;
	struct ibv_async_event held[4];
	unsigned held_n;
	_Atomic bool done;
};

static void async_arrives(const struct rdma_cm_id *id)
{
	struct pollfd fd = { .fd = id->verbs->async_fd, .events = POLLIN };

	ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
}

/* Its send queue is stopped, once more. */
static void qp_cause(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	ck_assert_int_eq(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	async_arrives(id);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), 0);
}

static void *qp_end(void *arg)
{
	struct qp_run *r = arg;

	rdma_destroy_qp(r->id);
	r->done = true;
	return NULL;
}

static void qp_destroy(struct qp_run *r)
{
	struct timespec until;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, qp_end, r), 0);
	while (r->held_n) {
		linger();
		ck_assert_msg(!r->done, "%s: rdma_destroy_qp does not wait for %u events", r->ops, r->held_n);
		ibv_ack_async_event(&r->held[--r->held_n]);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	ck_assert_msg(!pthread_timedjoin_np(t, NULL, &until), "%s: rdma_destroy_qp waits for ever", r->ops);
}

static void qp_row(const char *ops)
{
	struct pollfd fd = { .events = POLLIN };
	struct qp_run r = { .ops = ops };
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p, 1);
	r.id = p.client;
	fd.fd = r.id->verbs->async_fd;
	for (const char *op = ops; *op; op++) {
		switch (*op) {
		case 'e': qp_cause(r.id); break;
		case 'g':
			async_arrives(r.id);
			ck_assert_int_eq(ibv_get_async_event(r.id->verbs, &r.held[r.held_n]), 0);
			ck_assert_int_eq(r.held[r.held_n].event_type, IBV_EVENT_SQ_DRAINED);
			ck_assert_ptr_eq(r.held[r.held_n++].element.qp, r.id->qp);
			break;
		case 'a': ibv_ack_async_event(&r.held[--r.held_n]); break;
		case 'x': ok(rdma_disconnect(r.id)); break;
		}
	}
	qp_destroy(&r);
	ck_assert_msg(!poll(&fd, 1, 0), "%s: an event of a QP is left", ops);
	ok(rdma_destroy_id(p.client)); /* has its own events, of which none was got */
	p.client = NULL;
	pair_close(&p);
}

/* e: an event; g: it is got; a: given back; x: the connection is ended with what is held or waits. */
START_TEST(qp_events_ordered)
{
	static const char *const all[] = { "",       "e",    "eg",    "ega",    "ege",    "egeg", "egega",
					   "egegaa", "egae", "egaeg", "x",      "ex",     "egx",  "egxa",
					   "egax",   "egex", "egegx", "egegxa", "egegxaa" };

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		qp_row(all[i]);
}
END_TEST

void api_order(Suite *s)
{
	SUITE_ADD(s, own_events_ordered, errors_ordered, requests_ordered, unreachable_ordered, disconnected_ordered,
		  timewait_ordered, without_channel, served_while_moving, qp_events_ordered);
	if (getenv("API_OWN_NET"))
		SUITE_ADD(s, addr_error_ordered);
	else
		printf("# skipped: addr_error_ordered: there is no network namespace of our own\n");
}
