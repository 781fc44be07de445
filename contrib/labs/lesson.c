/* SPDX-License-Identifier: MIT */
/* lesson.c - the lessons, one function each; NAME.txt beside this file tells what they are about. */
#include "lesson.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void write_six(uint32_t psn)
{
	struct pair p;

	pair_open(&p, &(struct setup){ .client_psn = psn });
	fill(p.client.mem, 6 * MTU, 1);
	post(&p.client, IBV_WR_RDMA_WRITE, 1, 6 * MTU, (uintptr_t)p.server.mem, p.server.mr->rkey);
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	expect_data(&p.server, 6 * MTU, 1);
	pair_close(&p);
}

static void lost_packet(void) { write_six(0); }

static void psn_wrap(void) { write_six(0xfffffd); }

static void lost_ack(void)
{
	struct pair p;

	pair_open(&p, &(struct setup){ 0 });
	post_recv(&p.server, 11);
	post_recv(&p.server, 12);
	tell("server posts receives 11 and 12");
	fill(p.client.mem, 100, 2);
	post(&p.client, IBV_WR_SEND, 1, 100, 0, 0);
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	expect_wc(&p.server, 11, IBV_WC_SUCCESS);
	expect_none(&p.server, "what was sent twice was received once");
	post(&p.client, IBV_WR_SEND, 2, 100, 0, 0);
	expect_wc(&p.client, 2, IBV_WC_SUCCESS);
	expect_wc(&p.server, 12, IBV_WC_SUCCESS);
	expect_data(&p.server, 100, 2);
	pair_close(&p);
}

static void rnr(void)
{
	const struct timespec moment = { .tv_nsec = 5000000 };
	struct pair p;

	pair_open(&p, &(struct setup){ .min_rnr = 20 });
	fill(p.client.mem, 100, 3);
	tell("server has posted no receive; its RNR timer is 10.24 ms");
	post(&p.client, IBV_WR_SEND, 1, 100, 0, 0);
	nanosleep(&moment, NULL);
	post_recv(&p.server, 11);
	tell("server posts receive 11, 5 ms later");
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	expect_wc(&p.server, 11, IBV_WC_SUCCESS);
	expect_data(&p.server, 100, 3);
	pair_close(&p);
}

static void retry(void)
{
	struct pair p;

	pair_open(&p, &(struct setup){ .timeout = 12, .retry = 3 });
	for (uint64_t id = 11; id < 14; id++)
		post_recv(&p.server, id);
	tell("the ACK timeout is 16.8 ms, and there are 3 retries");
	post(&p.client, IBV_WR_SEND, 1, 100, 0, 0);
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	post(&p.client, IBV_WR_SEND, 2, 100, 0, 0);
	post(&p.client, IBV_WR_SEND, 3, 100, 0, 0);
	expect_wc(&p.client, 2, IBV_WC_RETRY_EXC_ERR);
	expect_wc(&p.client, 3, IBV_WC_WR_FLUSH_ERR);
	expect_state(&p.client, IBV_QPS_ERR);
	expect_wc(&p.server, 11, IBV_WC_SUCCESS);
	expect_none(&p.server, "it knows nothing of what was lost");
	expect_state(&p.server, IBV_QPS_RTS);
	pair_close(&p);
}

static void read_middle(void)
{
	struct pair p;

	pair_open(&p, &(struct setup){ 0 });
	fill(p.server.mem, 5 * MTU, 5);
	post(&p.client, IBV_WR_RDMA_READ, 1, 5 * MTU, (uintptr_t)p.server.mem, p.server.mr->rkey);
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	expect_data(&p.client, 5 * MTU, 5);
	pair_close(&p);
}

static void bad_rkey(void)
{
	struct pair p;

	pair_open(&p, &(struct setup){ 0 });
	fill(p.client.mem, 100, 6);
	post(&p.client, IBV_WR_RDMA_WRITE, 1, 100, (uintptr_t)p.server.mem, p.server.mr->rkey);
	expect_wc(&p.client, 1, IBV_WC_SUCCESS);
	fill(p.client.mem, 100, 60);
	tell("the next two have an rkey that is none: %#x instead of %#x", p.server.mr->rkey ^ 0xff, p.server.mr->rkey);
	post(&p.client, IBV_WR_RDMA_WRITE, 2, 100, (uintptr_t)p.server.mem, p.server.mr->rkey ^ 0xff);
	post(&p.client, IBV_WR_RDMA_WRITE, 3, 100, (uintptr_t)p.server.mem, p.server.mr->rkey ^ 0xff);
	expect_wc(&p.client, 2, IBV_WC_REM_ACCESS_ERR);
	expect_wc(&p.client, 3, IBV_WC_WR_FLUSH_ERR);
	expect_state(&p.client, IBV_QPS_ERR);
	expect_state(&p.server, IBV_QPS_ERR);
	expect_data(&p.server, 100, 6);
	pair_close(&p);
}

/* Two messages of three packets over p, of which the first is hit by the fault. */
static void two_messages(struct pair *p, bool both)
{
	post_recv(&p->server, 11);
	post_recv(&p->server, 12);
	fill(p->client.mem, 3 * MTU, 7);
	post(&p->client, IBV_WR_SEND, 1, 3 * MTU, 0, 0);
	expect_wc(&p->client, 1, IBV_WC_SUCCESS);
	fill(p->client.mem, 3 * MTU, 8);
	post(&p->client, IBV_WR_SEND, 2, 3 * MTU, 0, 0);
	expect_wc(&p->client, 2, IBV_WC_SUCCESS);
	expect_wc(&p->server, 11, IBV_WC_SUCCESS);
	if (both)
		expect_wc(&p->server, 12, IBV_WC_SUCCESS);
	else
		expect_none(&p->server, "the message with the hole is gone, and nobody was told");
	expect_data(&p->server, 3 * MTU, 8);
}

static void uc_rc(void)
{
	struct pair uc, rc;

	pair_open(&uc, &(struct setup){ .type = IBV_QPT_UC });
	two_messages(&uc, false);
	pair_open(&rc, &(struct setup){ 0 });
	two_messages(&rc, true);
	pair_close(&uc);
	pair_close(&rc);
}

static void overrun(void)
{
	struct pair p;

	pair_open(&p, &(struct setup){ .rnr_retry_1 = 1 });
	post_recv(&p.server, 11);
	post_recv(&p.server, 12);
	tell("server posts two receives; the client, whose rnr_retry is 0, does not know how many");
	for (uint64_t id = 1; id <= 2; id++) {
		post(&p.client, IBV_WR_SEND, id, 100, 0, 0);
		expect_wc(&p.client, id, IBV_WC_SUCCESS);
	}
	post(&p.client, IBV_WR_SEND, 3, 100, 0, 0);
	post(&p.client, IBV_WR_SEND, 4, 100, 0, 0);
	expect_wc(&p.client, 3, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_wc(&p.client, 4, IBV_WC_WR_FLUSH_ERR);
	expect_state(&p.client, IBV_QPS_ERR);
	expect_wc(&p.server, 11, IBV_WC_SUCCESS);
	expect_wc(&p.server, 12, IBV_WC_SUCCESS);
	expect_state(&p.server, IBV_QPS_RTS);
	pair_close(&p);
}

static const struct lesson {
	const char *name;
	void (*run)(void);
} lessons[] = {
	{ "lost-packet", lost_packet }, { "lost-ack", lost_ack }, { "rnr", rnr },           { "retry", retry },
	{ "read-middle", read_middle }, { "bad-rkey", bad_rkey }, { "psn-wrap", psn_wrap }, { "uc-rc", uc_rc },
	{ "overrun", overrun },         { "cm", lesson_cm },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(lessons) / sizeof(lessons[0]); i++) {
		if (argc != 2 || strcmp(argv[1], lessons[i].name))
			continue;
		lessons[i].run();
		return unexpected != 0;
	}
	fprintf(stderr, "lesson: give the name of one\n");
	return 2;
}
