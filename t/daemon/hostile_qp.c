/* SPDX-License-Identifier: MIT */
/* hostile_qp.c - queue pairs that are made with their first states, and states with the rights that a device gives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "client.h"
#include "t/suite.h"

static struct msg_req qp_new(const struct cx *c, const struct msg_steps *steps)
{
	return (struct msg_req){ .op = MSG_QP_CREATE,
				 .qp = { .pd = c->pd,
					 .send_cq = c->cq,
					 .recv_cq = c->cq,
					 .cap = { 64, 64, 4, 4, 64 },
					 .type = QPT_RC,
					 .steps = *steps } };
}

static unsigned qps_now(int fd)
{
	json_t *all = dump(fd, DUMP_QPS);
	unsigned n = (unsigned)json_array_size(json_object_get(all, "qps"));

	json_decref(all);
	return n;
}

/* Of a QP that cannot be taken where it is to be there is nothing left, and nothing is in its way. */
START_TEST(half)
{
	const struct qp_attr init = { .state = QPS_INIT, .port = 1 };
	const uint32_t mask = QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS;
	struct msg_steps steps = { .n = 2, .v = { { .mask = mask, .attr = init }, { .mask = mask, .attr = init } } };
	struct msg_req req;
	struct msg_rep rep;
	unsigned before;
	struct cx c;

	daemon_start();
	cx_open(&c);
	before = qps_now(c.fd);
	ck_assert_uint_gt(before, 0);
	steps.v[1].attr.state = QPS_RTS;
	for (unsigned i = 0; i < 300; i++) {
		req = qp_new(&c, &steps);
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EINVAL);
	}
	steps.n = MSG_STEPS + 1;
	req = qp_new(&c, &steps);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EINVAL);
	ck_assert_uint_eq(qps_now(c.fd), before);
	steps.n = 1;
	req = qp_new(&c, &steps);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	ck_assert_uint_eq(qps_now(c.fd), before + 1);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* A device that has no atomics gives no right to them, in whatever request it is asked for. */
START_TEST(rights)
{
	static const char text[] = "profile plain { refuse = { \"atomics\" } }\n"
				   "device plain { profile = \"plain\"\n netdev = \"lo\" }\n";
	const struct qp_attr a = { .state = QPS_INIT, .port = 1, .access = ACC_REMOTE_WRITE | ACC_REMOTE_ATOMIC };
	const uint32_t mask = QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS;
	char conf[] = "/tmp/rdmad-rights.XXXXXX", option[64];
	struct msg_req req;
	struct msg_rep rep;
	int file = mkstemp(conf);
	struct cx c;

	ck_assert_int_eq(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
	close(file);
	snprintf(option, sizeof(option), "--config=%s", conf);
	own_network();
	daemon_start_with(option);
	unlink(conf);
	cx_open(&c);
	for (unsigned how = 0; how < 3; how++) {
		const struct msg_steps steps = { .n = 1, .v = { { .mask = mask, .attr = a } } };
		uint32_t qpn = c.qpn;

		cx_state(&c, QPS_RESET);
		if (how == 2)
			req = qp_new(&c, &steps);
		else if (how)
			req = (struct msg_req){ .op = MSG_QP_STEPS, .qp_steps = { .qpn = qpn, .steps = steps } };
		else
			req = (struct msg_req){ .op = MSG_QP_MODIFY,
						.qp_mod = { .qpn = qpn, .mask = mask, .attr = a } };
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
		if (how == 2)
			qpn = rep.qp.qpn;
		req = (struct msg_req){ .op = MSG_QP_QUERY, .id.handle = qpn };
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
		ck_assert_uint_eq(rep.qp_query.attr.access, ACC_REMOTE_WRITE);
		ck_assert_uint_eq(rep.qp_query.attr.state, QPS_INIT);
	}
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

TEST_MAIN("ctl: QPs and their states", half, rights)
