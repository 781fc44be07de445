/* SPDX-License-Identifier: MIT */
/* api_raw.c - RAW_PACKET QPs and flow steering, on the loopback interface of a network namespace of our own. */
#include "fixture.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#define FRAME      128u
#define ETH_P_TEST 0x88b5 /* for experiments */

struct scene {
	struct fix f;
	struct ibv_cq *cq[3];
	struct ibv_qp *qp[3]; /* 0 sends */
};

static struct ibv_qp *raw_qp(struct fix *f, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RAW_PACKET, .send_cq = cq, .recv_cq = cq, .cap = { 8, 8, 2, 2, 64 }
	};

	return ibv_create_qp(f->pd, &a);
}

static void scene_open(struct scene *s)
{
	fix_open(&s->f);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		s->cq[i] = ibv_create_cq(s->f.ctx, 32, NULL, NULL, 0);
		s->qp[i] = raw_qp(&s->f, s->cq[i]);
		ck_assert_msg(s->cq[i] && s->qp[i], "%s", strerror(errno));
		ck_assert_int_eq(ibv_modify_qp(s->qp[i], &init, IBV_QP_STATE | IBV_QP_PORT), 0);
		ck_assert_int_eq(fix_state(s->qp[i], IBV_QPS_RTR), 0);
		ck_assert_int_eq(fix_state(s->qp[i], IBV_QPS_RTS), 0);
		for (unsigned k = 0; k < 8; k++)
			ck_assert_int_eq(fix_recv(&s->f, s->qp[i], k, 1024 * (i + 1), 512), 0);
	}
}

static void scene_close(struct scene *s)
{
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(ibv_destroy_qp(s->qp[i]), 0);
		ck_assert_int_eq(ibv_destroy_cq(s->cq[i]), 0);
	}
	fix_close(&s->f);
}

/* A frame with an IPv4 header that has options, so that UDP is not at its usual place. */
static void frame_make(unsigned char *p, uint16_t port)
{
	static const unsigned char head[] = {
		2,  0, 0, 0,   0, 9, 2, 0,   0, 0, 0, 8, 0x08, 0x00, 0x46, 0,    0,    FRAME - 14, 0, 0, 0,  0, 64,
		17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 1, 1,    1,    1,    0x10, 0x20, 0,          0, 0, 80, 0, 0,
	};

	fix_fill(p, FRAME, 3);
	memcpy(p, head, sizeof(head));
	p[40] = (unsigned char)(port >> 8);
	p[41] = (unsigned char)port;
}

static void frame_send(struct scene *s, unsigned len)
{
	ck_assert_int_eq(fix_send(&s->f, s->qp[0], 1, 0, len, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(s->cq[0]);
}

struct attr_udp {
	struct ibv_flow_attr a;
	struct ibv_flow_spec_ipv4 ip; /* each has a size that is a multiple of 4: no gaps */
	struct ibv_flow_spec_tcp_udp udp;
	struct ibv_flow_spec_action_drop drop;
};
_Static_assert(offsetof(struct attr_udp, drop) == offsetof(struct attr_udp, udp) + sizeof(struct ibv_flow_spec_tcp_udp),
	       "no gaps");
_Static_assert(offsetof(struct attr_udp, ip) == sizeof(struct ibv_flow_attr), "no gaps");

static struct ibv_flow *flow_udp(struct ibv_qp *qp, uint16_t port, uint16_t mask, bool drop, uint16_t priority)
{
	struct attr_udp u = {
		.a = { .num_of_specs = drop ? 3 : 2, .port = 1, .priority = priority, .size = sizeof(u) },
		.ip = { .type = IBV_FLOW_SPEC_IPV4,
			.size = sizeof(u.ip),
			.val.dst_ip = htonl(0xc0000202),
			.mask.dst_ip = UINT32_MAX },
		.udp = { .type = IBV_FLOW_SPEC_UDP,
			 .size = sizeof(u.udp),
			 .val.dst_port = htons(port),
			 .mask.dst_port = htons(mask) },
		.drop = { .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(u.drop) },
	};
	struct ibv_flow *f = ibv_create_flow(qp, &u.a);

	ck_assert_msg(f != NULL, "ibv_create_flow: %s", strerror(errno));
	return f;
}

static void must_get(struct scene *s, unsigned i)
{
	struct ibv_wc wc = fix_wait_ok(s->cq[i]);

	ck_assert(wc.opcode == IBV_WC_RECV && wc.byte_len == FRAME && wc.qp_num == s->qp[i]->qp_num);
	ck_assert_int_eq(memcmp(s->f.buf, s->f.buf + 1024 * (i + 1), FRAME), 0);
	memset(s->f.buf + 1024 * (i + 1), 0, FRAME);
	ck_assert_int_eq(fix_recv(&s->f, s->qp[i], 9, 1024 * (i + 1), 512), 0);
}

static void must_not(struct scene *s, unsigned i)
{
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_poll_cq(s->cq[i], 1, &wc), 0);
}

START_TEST(steering)
{
	struct ibv_flow *all, *low, *drop, *port;
	struct ibv_flow_attr bad = { .port = 2 };
	struct scene s;

	scene_open(&s);
	errno = 0;
	ck_assert_ptr_eq(ibv_create_flow(s.qp[1], &bad), NULL);
	ck_assert_int_eq(errno, EINVAL);
	all = ibv_create_flow(s.qp[2], &(struct ibv_flow_attr){ .type = IBV_FLOW_ATTR_SNIFFER, .port = 1 });
	ck_assert(all != NULL);
	port = flow_udp(s.qp[1], 80, 0xffff, false, 1);
	/* A frame that QP 2 has tells that it has been through. */
	frame_make(s.f.buf, 80);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_get(&s, 1);
	frame_make(s.f.buf, 81);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_not(&s, 1);
	must_not(&s, 0);
	/* A rule with a smaller number comes first; a later one has no say. */
	drop = flow_udp(s.qp[1], 80, 0xffff, true, 0);
	low = flow_udp(s.qp[1], 80, 0xfff0, false, 2);
	frame_make(s.f.buf, 80);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_not(&s, 1);
	frame_make(s.f.buf, 85);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_get(&s, 1);
	ck_assert_int_eq(ibv_destroy_flow(drop), 0);
	frame_make(s.f.buf, 80);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_get(&s, 1);
	ck_assert_int_eq(ibv_destroy_qp(s.qp[1]), EBUSY);
	ck_assert_int_eq(ibv_destroy_flow(port), 0);
	ck_assert_int_eq(ibv_destroy_flow(low), 0);
	frame_send(&s, FRAME);
	must_get(&s, 2);
	must_not(&s, 1);
	ck_assert_int_eq(ibv_destroy_flow(all), 0);
	scene_close(&s);
}
END_TEST

START_TEST(frames)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_flow *all;
	struct scene s;

	scene_open(&s);
	all = ibv_create_flow(s.qp[1], &(struct ibv_flow_attr){ .type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1 });
	ck_assert(all != NULL);
	ck_assert_int_eq(ibv_post_send(s.qp[0], &wr, &bad), EINVAL);
	/* Longer than the receive: an error of that one only. */
	frame_make(s.f.buf, 80);
	frame_send(&s, 600);
	ck_assert_int_eq(fix_wait(s.cq[1]).status, IBV_WC_LOC_LEN_ERR);
	frame_send(&s, FRAME);
	must_get(&s, 1);
	/* Shorter than a header. */
	ck_assert_int_eq(fix_send(&s.f, s.qp[0], 1, 0, 13, IBV_SEND_SIGNALED), 0);
	ck_assert_int_eq(fix_wait(s.cq[0]).status, IBV_WC_LOC_LEN_ERR);
	/* Waiting receives are flushed. */
	ck_assert_int_eq(fix_state(s.qp[1], IBV_QPS_ERR), 0);
	ck_assert_int_eq(fix_wait(s.cq[1]).status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(ibv_destroy_flow(all), 0);
	scene_close(&s);
}
END_TEST

/* A process that may open no packet socket gets no QP. */
START_TEST(unprivileged)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct fix f;

		fix_open(&f);
		if (syscall(SYS_capset, &head, none))
			_exit(2);
		errno = 0;
		_exit(raw_qp(&f, f.cq) || errno != EPERM);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

void api_raw(Suite *s)
{
	if (getenv("API_OWN_NET"))
		SUITE_ADD(s, steering, frames, unprivileged);
	else
		printf("# skipped: raw packets: there is no network namespace of our own\n");
}
