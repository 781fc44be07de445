/* SPDX-License-Identifier: MIT */
/* why.c - the store of causes: each user sees his own, and nobody's fill the places of another. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cma/cma.h"
#include "daemon/control/ends.h"
#include "daemon/base/clock.h"
#include "daemon/control/why.h"
#include "daemon/shard/thread.h"
#include "t/suite.h"

#define ANN (geteuid() + 1001) /* neither root nor the daemon's user */
#define BOB (geteuid() + 1002)

static struct session of(uid_t uid)
{
	struct session s = { .uid = uid, .pid = 4711, .prog = "prog", .runs = { { uid } } };

	return s;
}

static json_t *causes_of(const struct session *viewer, uint32_t qpn)
{
	struct why_list l = { .viewer = viewer, .rows = json_array() };

	why_each(viewer, qpn, why_entry_json, &l);
	return l.rows;
}

static unsigned count(const struct session *viewer, uint32_t qpn, const char *text)
{
	json_t *list = causes_of(viewer, qpn), *c;
	unsigned n = 0;
	size_t i;

	json_array_foreach(list, i, c) n += strstr(json_string_value(json_object_get(c, "report")), text) != NULL;
	json_decref(list);
	return n;
}

START_TEST(users)
{
	struct session ann = of(ANN), bob = of(BOB), root = of(0), own = of(geteuid());

	why_say(&ann, WHY_VERB_BUSY, NULL, 0x12, "said of %s", "Ann");
	why_say(&bob, WHY_VERB_BUSY, NULL, 0x13, "said of %s", "Bob");
	ck_assert_uint_eq(count(&ann, 0, "said of Ann"), 1);
	ck_assert_uint_eq(count(&ann, 0, "said of Bob"), 0);
	ck_assert_uint_eq(count(&ann, 0x13, "said of Bob"), 0);
	ck_assert_uint_eq(count(&bob, 0, "said of Bob"), 1);
	ck_assert_uint_eq(count(&root, 0, "said of"), 2);
	ck_assert_uint_eq(count(&own, 0, "said of"), 2);
	ck_assert_uint_eq(count(&own, 0x12, "said of"), 1);
	ck_assert_uint_eq(count(&ann, 0, "hint: destroy what uses it before"), 1);
}
END_TEST

START_TEST(bounded)
{
	struct session ann = of(ANN), bob = of(BOB), root = of(0);

	why_say(&bob, WHY_VERB_BUSY, NULL, 0, "of Bob");
	for (unsigned i = 0; i < 3 * WHY_KEPT; i++)
		why_say(&ann, WHY_VERB_BUSY, NULL, 0, "number %u of Ann", i);
	ck_assert_uint_eq(count(&ann, 0, "of Ann"), WHY_KEPT);
	ck_assert_uint_eq(count(&ann, 0, "number 0 of Ann"), 0);
	ck_assert_uint_eq(count(&bob, 0, "of Bob"), 1);
	/* More users than there are places for: the one that was silent longest goes. */
	for (unsigned i = 0; i < WHY_USERS; i++) {
		struct session other = of(ANN + 10 + i);

		why_say(&other, WHY_VERB_BUSY, NULL, 0, "of another");
	}
	ck_assert_uint_eq(count(&root, 0, "of another"), WHY_USERS);
	ck_assert_uint_eq(count(&bob, 0, "of Bob"), 0);
}
END_TEST

/* A library's words are a program's text: printable, cut off, and not more often than so many times a second. */
START_TEST(hostile)
{
	struct msg_req req = { .op = MSG_REFUSED, .refused = { .err = 0xffffffff } };
	struct session ann = of(ANN);
	struct device dev = { .name = "d" };
	struct ctx ctx = { .dev = &dev };
	struct call call = { .s = &ann, .req = &req };

	ann.ctx = &ctx;
	memset(req.refused.verb, 'v', sizeof(req.refused.verb));
	memset(req.refused.text, '\n', sizeof(req.refused.text));
	for (unsigned i = 0; i < 10 * WHY_RATE; i++)
		ck_assert_int_eq(verb_refused(&call), 0);
	ck_assert_uint_ge(count(&ann, 0, "vvvv refused: "), 1);
	ck_assert_uint_le(count(&ann, 0, "vvvv refused: "), WHY_KEPT);
	ck_assert_uint_eq(count(&ann, 0, "??????"), count(&ann, 0, "vvvv refused: "));
}
END_TEST

/* Each cause has words, whatever its numbers are. */
START_TEST(words)
{
	char buf[WHY_TEXT];

	for (unsigned c = WHY_NONE + 1; c < WHY_KEY_NONE; c++) {
		for (unsigned k = 0; k < WHY_CAUSES; k++) {
			struct words t = words_begin(buf, sizeof(buf));
			struct why w = { .cause = (uint8_t)c,
					 .qpn = 0x12,
					 .op = 255,
					 .type = 255,
					 .status = 255,
					 .key = { .why = (uint8_t)k } };

			if (k && k < WHY_KEY_NONE)
				continue;
			w.fault = c == WHY_CQ_OVERRUN ? FAULT_CQ_OVERRUN : k ? FAULT_RESP_RKEY : FAULT_NONE;
			why_words(&t, &w, false);
			ck_assert_msg((!strncmp(buf, "QP 0x12", 7) || c == WHY_WAIT_POLL || c == WHY_WAIT_SOLICITED) &&
					      strlen(buf) > 12,
				      "%s: %s", why_name(c), buf);
			ck_assert(*why_name(c) && *why_what(c));
			ck_assert(k == 0 || *why_advice(&w));
		}
	}
	for (unsigned e = 0; e < TR_EVENTS; e++) {
		struct words t = words_begin(buf, sizeof(buf));

		trace_words(&t, &(struct trace_rec){ .event = (uint8_t)e, .op = 4, .a = 1, .b = 2, .n = 3 });
		ck_assert_msg(*buf && *trace_word(e), "%u", e);
	}
	{
		char small[8];
		struct words t = words_begin(small, sizeof(small));

		words_put(&t, "%s", "0123456789");
		words_put(&t, "%s", "x");
		ck_assert_str_eq(small, "0123456");
	}
}
END_TEST

START_TEST(silence)
{
	char buf[WHY_TEXT];
	struct words t = words_begin(buf, sizeof(buf));
	struct why w = { .cause = WHY_WAIT_ACK,
			 .qpn = 0x12,
			 .dqpn = 0x13,
			 .is_wr = true,
			 .op = WR_SEND,
			 .wr_id = 5,
			 .psn = 7,
			 .at = { 30000000000u },
			 .dgid = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };

	why_words(&t, &w, false);
	ck_assert_str_eq(buf, "QP 0x12: SEND wr_id 0x5 unanswered: 10.0.0.1 QP 0x13 is silent (PSN 0x7, timeout 0: for "
			      "ever), for 30 s");
}
END_TEST

/* ---- what the daemon itself says: verbs, connections.  A cause stands before its sentence (t/gate/why.test) ------ */

/* The last that was said to Ann has this cause and this sentence, and a hint but for VERB_REFUSED. */
static void __attribute__((format(printf, 3, 4))) said(const struct session *ann, unsigned cause, const char *fmt, ...)
{
	char text[WHY_TEXT];
	va_list ap;
	json_t *list = causes_of(ann, 0), *c = json_array_get(list, json_array_size(list) - 1);

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ck_assert(c != NULL);
	ck_assert_str_eq(json_string_value(json_object_get(c, "cause")), why_name(cause));
	ck_assert_str_eq(json_string_value(json_object_get(c, "text")), text);
	ck_assert_str_eq(json_string_value(json_object_get(c, "hint")), why_hint(cause));
	json_decref(list);
}

START_TEST(verbs)
{
	static const struct {
		uint32_t op;
		int err;
		unsigned cause;
		const char *text;
	} t[] = {
#define VERB(op, err, name, sentence) { MSG_##op, err, WHY_##name, sentence }
		VERB(CQ_CREATE, EINVAL, VERB_REFUSED, "ibv_create_cq refused: Invalid argument"),
		VERB(PD_ALLOC, ENOMEM, VERB_LIMIT, "ibv_alloc_pd refused: Cannot allocate memory"),
		VERB(OPEN, ENFILE, NO_FD, "ibv_open_device refused: Too many open files in system"),
		VERB(PD_FREE, EBUSY, VERB_BUSY, "ibv_dealloc_pd of 0x0 refused: Device or resource busy"),
		VERB(QP_DESTROY, ENOENT, VERB_HANDLE, "ibv_destroy_qp of 0x0 refused: No such file or directory"),
		VERB(QP_RATE, EOPNOTSUPP, VERB_UNKNOWN, "ibv_modify_qp_rate_limit refused: Operation not supported"),
		VERB(MR_REG, EFAULT, MEM_REACH, "ibv_reg_mr of 0 bytes at 0x0 refused: Bad address"),
	};
	struct session ann = of(ANN);

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct msg_req req = { .op = t[i].op };
		struct call call = { .s = &ann, .req = &req };

		why_verb(&call, t[i].err);
		said(&ann, t[i].cause, "%s", t[i].text);
	}
	ck_assert_ptr_nonnull(strstr(why_hint(WHY_VERB_LIMIT), "no memory left")); /* ENOMEM may be that, too */
	/* The handler knows more. */
	{
		struct msg_req req = { .op = MSG_CQ_CREATE };
		struct call call = { .s = &ann, .req = &req };

		ck_assert_int_eq(refuse(&call, WHY_VERB_LIMIT, EINVAL, "cqe %d", 7), EINVAL);
		why_verb(&call, EINVAL);
		said(&ann, WHY_VERB_LIMIT, "ibv_create_cq refused: Invalid argument: cqe 7");
	}
	/* His user has all that he may. */
	{
		struct msg_req req = { .op = MSG_QP_CREATE };
		struct call call = { .s = &ann, .req = &req };
		uint64_t conf[QUOTAS] = { [QUOTA_QPS] = 1 };
		struct bill one, two;

		quota_begin(conf, 1);
		ck_assert_int_eq(bill_open(&one, ANN, &(struct cost){ { [QUOTA_QPS] = 1 } }), 0);
		why_verb(&call, bill_open(&two, ANN, &(struct cost){ { [QUOTA_QPS] = 1 } }));
		bill_close(&one);
		said(&ann, WHY_QUOTA, "ibv_create_qp refused: Cannot allocate memory: user %u has 1 of 1 qps",
		     (unsigned)ANN);
	}
}
END_TEST

START_TEST(connections)
{
	static const struct {
		bool ud;
		unsigned type;
		int status;
		unsigned cause;
		const char *text;
	} t[] = {
#define CM(type, status, name, sentence) { false, CMA_EV_##type, status, WHY_##name, sentence }
#define SIDR(type, status, name, sentence)                        \
	{                                                         \
		true, CMA_EV_##type, status, WHY_##name, sentence \
	}
#define TO "connection to 10.0.0.2:7 (from 10.0.0.1:9)"
		CM(REJECTED, REJ_CONSUMER, CM_REJECTED, TO " rejected: consumer reject (28)"),
		CM(REJECTED, REJ_SERVICE_ID, CM_NO_SERVICE, TO " rejected: invalid service id (8)"),
		CM(REJECTED, REJ_STALE, CM_REJECTED_CM, TO " rejected: stale connection (10)"),
		CM(REJECTED, REJ_NO_QP, CM_REJECTED_CM, TO " rejected: no queue pair (1)"),
		CM(REJECTED, REJ_NO_RESOURCES, CM_REJECTED_CM, TO " rejected: no resources (3)"),
		CM(REJECTED, REJ_TIMEOUT, CM_REJECTED_CM, TO " rejected: timeout (4)"),
		CM(REJECTED, REJ_UNSUPPORTED, CM_REJECTED_CM, TO " rejected: unsupported request (5)"),
		CM(REJECTED, REJ_COMM_ID, CM_REJECTED_CM, TO " rejected: invalid communication id (6)"),
		CM(REJECTED, REJ_COMM_INSTANCE, CM_REJECTED_CM, TO " rejected: invalid communication instance (7)"),
		CM(REJECTED, REJ_TRANSPORT, CM_REJECTED_CM, TO " rejected: invalid transport (9)"),
		CM(REJECTED, REJ_GID, CM_REJECTED_CM, TO " rejected: invalid GID (12)"),
		CM(REJECTED, REJ_MTU, CM_REJECTED_CM, TO " rejected: path MTU not supported (26)"),
		CM(REJECTED, REJ_DUP_ID, CM_REJECTED_CM, TO " rejected: duplicate communication id (30)"),
		CM(REJECTED, 35, CM_REJECTED_CM, TO " rejected: vendor option not supported (35)"),
		CM(REJECTED, 77, CM_REJECTED_CM, TO " rejected: ? (77)"),
		CM(UNREACHABLE, -ETIMEDOUT, CM_UNREACHABLE, TO " unreachable: Connection timed out"),
		CM(CONNECT_ERROR, -ETIMEDOUT, CM_UNREACHABLE, TO " failed: Connection timed out"),
		SIDR(UNREACHABLE, -ETIMEDOUT, CM_UNREACHABLE, TO " unreachable: Connection timed out"),
		SIDR(UNREACHABLE, SIDR_SERVICE_ID, CM_NO_SERVICE, TO " unreachable: SIDR status 1"),
		SIDR(UNREACHABLE, SIDR_REJECT, CM_REJECTED, TO " unreachable: SIDR status 2"),
		CM(ADDR_ERROR, -EHOSTUNREACH, CM_ADDR, "resolving 10.0.0.2:7 failed: No route to host"),
		CM(ROUTE_ERROR, -ETIMEDOUT, CM_ADDR, "connection to 10.0.0.2:7 failed: Connection timed out"),
	};
	struct session ann = of(ANN);
	struct cma_channel ch = { .who.session = &ann };
	struct cma_id id = {
		.ch = &ch,
		.src.in = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = { htonl(0x0a000001) } },
		.dst.in = { .sin_family = AF_INET, .sin_port = htons(7), .sin_addr = { htonl(0x0a000002) } }
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		id.qp_type = t[i].ud ? QPT_UD : QPT_RC;
		why_cm_event(&id, t[i].type, t[i].status);
		said(&ann, t[i].cause, "%s", t[i].text);
	}
	id.passive = true;
	id.sent = 3;
	id.dst.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					    .sin6_port = htons(7),
					    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	why_cm_event(&id, CMA_EV_REJECTED, REJ_CONSUMER);
	said(&ann, WHY_CM_REJECTED,
	     "connection from [::1]:7 (from 10.0.0.1:9) rejected: consumer reject (28); "
	     "our answer was sent 3 times");
	/* Success is no cause. */
	why_cm_event(&id, CMA_EV_ESTABLISHED, 0);
	ck_assert_uint_eq(count(&ann, 0, "connection "), sizeof(t) / sizeof(*t));
	why_cm_call(&ann, CMM_RESOLVE_ADDR, ENETUNREACH, "");
	said(&ann, WHY_CM_CALL, "rdma_resolve_addr refused: Network is unreachable");
}
END_TEST

static json_t *row_of(const json_t *list, const char *text)
{
	json_t *c;
	size_t i;

	json_array_foreach(list, i, c) if (strstr(json_string_value(json_object_get(c, "report")), text)) return c;
	return NULL;
}

/* The server has ended, which was told once; its client goes on trying, each time from another port. */
START_TEST(tried_again)
{
	struct session ann = of(ANN), other = of(ANN);
	struct cma_channel ch = { .who.session = &ann };
	struct cma_id id = { .ch = &ch,
			     .src.in = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a000001) } },
			     .dst.in = {
				     .sin_family = AF_INET, .sin_port = htons(7), .sin_addr = { htonl(0x0a000002) } } };
	json_t *list, *c;

	other.pid = 4712;
	why_say(&other, WHY_VERB_REFUSED, NULL, 0x12, "why the server has ended");
	for (unsigned i = 0; i < 3 * WHY_KEPT; i++) {
		id.src.in.sin_port = htons((uint16_t)(1000 + i));
		why_cm_event(&id, CMA_EV_REJECTED, REJ_SERVICE_ID);
	}
	list = causes_of(&ann, 0);
	ck_assert(row_of(list, "why the server has ended") != NULL);
	ck_assert_uint_eq(count(&ann, 0, "invalid service id"), 1);
	c = row_of(list, "(from 10.0.0.1:1000) rejected: invalid service id (8)\n  and 383 more like it, the last at ");
	ck_assert(c != NULL);
	ck_assert_int_eq(json_integer_value(json_object_get(c, "again")), 383);
	json_decref(list);
	/* Another server, another reason, another program: each is told. */
	id.dst.in.sin_port = htons(8);
	why_cm_event(&id, CMA_EV_REJECTED, REJ_SERVICE_ID);
	why_cm_event(&id, CMA_EV_REJECTED, REJ_CONSUMER);
	ch.who.session = &other;
	why_cm_event(&id, CMA_EV_REJECTED, REJ_CONSUMER);
	ck_assert_uint_eq(count(&ann, 0, "invalid service id"), 2);
	ck_assert_uint_eq(count(&ann, 0, "consumer reject"), 2);
}
END_TEST

/* ---- the flight recorder ------------------------------------------------------------------------------------------ */

static uint32_t qp_n[3]; /* of Ann, of Bob, and of nobody who is known */

/* Changes of state, as the recorder has them, of queue pairs that are no more. */
static void record(struct shard *s, void *)
{
	struct hca *h = s->hca[0];
	uint32_t pdn, cqn;

	ck_assert_int_eq(hca_pd_alloc(h, &pdn), 0);
	ck_assert_int_eq(hca_cq_create(h, 16, &cqn), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct qp_init init = {
			.type = QPT_RC, .pdn = pdn, .send_cqn = cqn, .recv_cqn = cqn, .cap = { 4, 4, 1, 1, 0 }
		};
		struct qp_row row = { .uid = i ? BOB : ANN };

		ck_assert_int_eq(hca_qp_create(h, &init, &qp_n[i]), 0);
		ck_assert_int_eq(hca_qp_modify(h, qp_n[i], &(struct qp_attr){ .state = QPS_INIT, .port = 1 },
					       QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, clock_now()),
				 0);
		row.info.qpn = qp_n[i];
		if (i < 2)
			ends_qp(&row);
	}
}

/* Those of the three that a user's trace shows: a bit each. */
static unsigned seen(uid_t uid, uint32_t qpn)
{
	struct session viewer = of(uid);
	json_t *j = trace_json(&viewer, qpn, false), *r;
	unsigned set = 0;
	size_t i;

	ck_assert(j != NULL);
	json_array_foreach(json_object_get(j, "records"), i, r)
	{
		for (unsigned k = 0; k < 3; k++)
			set |= (unsigned)(json_integer_value(json_object_get(r, "qpn")) == qp_n[k]) << k;
	}
	json_decref(j);
	trace_end(&viewer);
	return set;
}

START_TEST(trace)
{
	devices_n = shards_n = 1;
	devices[0].profile = profile_own();
	ck_assert_int_eq(shard_start(0, IO_EPOLL), 0);
	shard_call(shards[0], record, NULL);
	ck_assert_uint_eq(seen(ANN, 0), 1);
	ck_assert_uint_eq(seen(BOB, 0), 2);
	ck_assert_uint_eq(seen(ANN + 77, 0), 0);
	ck_assert_uint_eq(seen(0, 0), 7);
	ck_assert_uint_eq(seen(geteuid(), 0), 7);
	/* Asking for one by its number shows no more. */
	ck_assert_uint_eq(seen(ANN, qp_n[0]), 1);
	ck_assert_uint_eq(seen(ANN, qp_n[1]), 0);
	ck_assert_uint_eq(seen(ANN, qp_n[2]), 0);
	ck_assert_uint_eq(seen(0, qp_n[2]), 4);
	shards_stop();
}
END_TEST

/* ---- the other end ------------------------------------------------------------------------------------------------ */

static void shards_begin(unsigned n)
{
	devices_n = 1;
	memcpy(devices[0].name, "d", 2);
	devices[0].gid[0].gid[15] = 1;
	devices[0].profile = profile_own();
	shards_n = n;
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(shard_start(i, IO_EPOLL), 0);
}

/* Is what is told to uid of that QP of ours, to which his QP 0x77 is connected, this? */
static void there_is(uid_t uid, uint32_t qpn, const char *text)
{
	struct why_entry e = {
		.core = true, .cause = WHY_RETRY_SILENT, .owner.uid = uid, .w = { .qpn = 0x77, .dqpn = qpn }
	};

	e.w.dgid[15] = 1;
	why_peers_look(&e, 1, uid);
	ck_assert_str_eq(e.there, text);
}

/* Three shards have two bits of a QPN, and nobody has those that end in 3. */
START_TEST(no_shard)
{
	shards_begin(3);
	there_is(0, 0x103, "d is a device of this daemon; there is no QP 0x103");
	there_is(0, 0x102, "d is a device of this daemon; there is no QP 0x102");
	there_is(ANN, 0x103, "d is a device of this daemon");
	there_is(ANN, 0x102, "d is a device of this daemon");
	shards_stop();
}
END_TEST

/* Those who may see all are told of the other end what its owner is not. */
START_TEST(views)
{
	const struct why_entry e = { .number = 1, .core = true, .there = "little", .all = "more" };
	const uid_t uids[] = { ANN, 0, geteuid() };

	for (unsigned i = 0; i < 3; i++) {
		struct session viewer = of(uids[i]);
		struct why_list l = { .viewer = &viewer, .rows = json_array() };
		const json_t *row;

		why_entry_json(&e, &l);
		row = json_array_get(l.rows, 0);
		ck_assert_str_eq(json_string_value(json_object_get(row, "there")), i ? "more" : "little");
		ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(row, "report")),
					     i ? "  there: more\n" : "  there: little\n"));
		json_decref(l.rows);
	}
}
END_TEST

TEST_MAIN("why", users, bounded, hostile, words, silence, verbs, connections, tried_again, trace, no_shard, views)
