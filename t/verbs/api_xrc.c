/* SPDX-License-Identifier: MIT */
/* api_xrc.c - XRC: domains alone and shared by a file, SRQs with numbers, QPs held by several, what is refused. */
#include "fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ibv_xrcd *domain(struct ibv_context *c, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, oflags };

	errno = 0;
	return ibv_open_xrcd(c, &a);
}

static int file_new(void)
{
	char name[] = "/tmp/rdmad-xrcd-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	return fd;
}

static int post(struct fix *f, struct ibv_qp *qp, enum ibv_wr_opcode op, unsigned len, uint32_t srqn, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)f->buf, len, f->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 1,
					.opcode = op,
					.sg_list = &sge,
					.num_sge = 1,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)f->buf + 4096, rkey },
					.qp_type.xrc.remote_srqn = srqn };

	return ibv_post_send(qp, &wr, &bad);
}

START_TEST(alone)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *rbad, rwr = { 0 };
	struct ibv_qp_init_attr init;
	struct ibv_srq_init_attr plain = { .attr = { 4, 1, 0 } };
	struct ibv_qp_attr attr;
	struct fix_xrc x;
	struct ibv_srq *srq;
	struct ibv_wc wc;
	struct fix f;
	uint32_t num;

	fix_open(&f);
	ck_assert(f.attr.device_cap_flags & IBV_DEVICE_XRC);
	fix_xrc_open(&f, &x);
	for (unsigned i = 0; i < 20; i++) {
		fix_fill(f.buf, 1000, i);
		ck_assert_int_eq(fix_srq_recv(&f, x.srq, 2, 4096, 1000), 0);
		ck_assert_int_eq(post(&f, x.send, IBV_WR_SEND, 1000, x.srqn, 0), 0);
		for (int n = 0; n < 2; n++) {
			wc = fix_wait_ok(f.cq);
			if (wc.wr_id == 2)
				ck_assert(wc.qp_num == x.recv->qp_num && wc.byte_len == 1000 &&
					  wc.opcode == IBV_WC_RECV);
		}
		ck_assert(fix_filled(f.buf + 4096, 1000, i));
	}
	ck_assert_int_eq(post(&f, x.send, IBV_WR_RDMA_WRITE, 100, x.srqn, f.mr->rkey), 0);
	fix_wait_ok(f.cq);
	ck_assert_int_eq(post(&f, x.send, IBV_WR_RDMA_READ, 100, x.srqn, f.mr->rkey), 0);
	fix_wait_ok(f.cq);
	/* Parts that the ends do not have. */
	ck_assert_int_eq(ibv_post_send(x.recv, &wr, &bad), EINVAL);
	ck_assert_int_eq(ibv_post_recv(x.recv, &rwr, &rbad), EINVAL);
	ck_assert_int_eq(ibv_post_recv(x.send, &rwr, &rbad), EINVAL);
	ck_assert_int_eq(ibv_query_qp(x.recv, &attr, IBV_QP_STATE, &init), 0);
	ck_assert(init.qp_type == IBV_QPT_XRC_RECV && !init.send_cq && attr.qp_state == IBV_QPS_RTS);
	srq = ibv_create_srq(f.pd, &plain);
	ck_assert_int_eq(ibv_get_srq_num(srq, &num), EOPNOTSUPP);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	/* A number that is none of the domain's: invalid request, and an event at the other end. */
	ck_assert_int_eq(post(&f, x.send, IBV_WR_SEND, 10, 0xabcde, 0), 0);
	ck_assert_int_eq(fix_wait(f.cq).status, IBV_WC_REM_INV_REQ_ERR);
	ck_assert_int_eq(ibv_close_xrcd(x.xrcd), EBUSY);
	ck_assert_int_eq(fix_event(f.ctx), IBV_EVENT_QP_REQ_ERR);
	fix_xrc_close(&x);
	fix_close(&f);
}
END_TEST

/* Answers for a file's domain, before it is there and while it is. */
START_TEST(names)
{
	int fd = file_new();
	struct ibv_xrcd *x;
	struct fix f;

	fix_open(&f);
	ck_assert_ptr_eq(domain(f.ctx, fd, 0), NULL);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_ptr_eq(domain(f.ctx, 999, O_CREAT), NULL);
	ck_assert_int_eq(errno, EBADF);
	x = domain(f.ctx, fd, O_CREAT | O_EXCL);
	ck_assert_ptr_ne(x, NULL);
	ck_assert_ptr_eq(domain(f.ctx, fd, O_CREAT | O_EXCL), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_close_xrcd(x), 0);
	/* The last one is gone: the name is free. */
	ck_assert_ptr_eq(domain(f.ctx, fd, 0), NULL);
	ck_assert_int_eq(errno, EAGAIN);
	fix_close(&f);
	close(fd);
}
END_TEST

/* As long as there is a domain its file is there, too: another one that got its number would get the domain. */
START_TEST(held)
{
	struct stat old, st;
	struct ibv_xrcd *x;
	struct fix f;
	int fd = file_new();

	fix_open(&f);
	ck_assert_int_eq(fstat(fd, &old), 0);
	x = domain(f.ctx, fd, O_CREAT);
	ck_assert_ptr_ne(x, NULL);
	close(fd);
	for (unsigned i = 0; i < 16; i++) {
		fd = file_new();
		ck_assert_int_eq(fstat(fd, &st), 0);
		ck_assert_uint_ne(st.st_ino, old.st_ino);
		ck_assert_ptr_eq(domain(f.ctx, fd, 0), NULL);
		ck_assert_int_eq(errno, EAGAIN);
		close(fd);
	}
	ck_assert_int_eq(ibv_close_xrcd(x), 0);
	fix_close(&f);
}
END_TEST

/* Two contexts, one file: the QP is of the one, the SRQ of the other. */
START_TEST(shared)
{
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_srq_init_attr_ex sa = { .attr = { 16, 1, 0 },
					   .srq_type = IBV_SRQT_XRC,
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
	int fd = file_new(), same = dup(fd);
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct fix_xrc x;
	struct fix f, g;
	struct ibv_wc wc;
	uint32_t srqn;

	fix_open(&f);
	fix_open(&g);
	fix_xrc_open_fd(&f, &x, fd);
	xrcd = domain(g.ctx, same, 0);
	ck_assert_msg(xrcd != NULL, "ibv_open_xrcd: %s", strerror(errno));
	sa.pd = g.pd;
	sa.cq = g.cq;
	sa.xrcd = xrcd;
	srq = ibv_create_srq_ex(g.ctx, &sa);
	ck_assert_ptr_ne(srq, NULL);
	ck_assert_int_eq(ibv_get_srq_num(srq, &srqn), 0);
	ck_assert_uint_ne(srqn, x.srqn);
	open.xrcd = xrcd;
	open.qp_num = x.recv->qp_num;
	qp = ibv_open_qp(g.ctx, &open);
	ck_assert_ptr_ne(qp, NULL);
	ck_assert(qp->qp_num == x.recv->qp_num && qp->state == IBV_QPS_RTS);
	open.qp_num = x.send->qp_num;
	ck_assert_ptr_eq(ibv_open_qp(g.ctx, &open), NULL);

	fix_fill(f.buf, 500, 5);
	ck_assert_int_eq(fix_srq_recv(&g, srq, 2, 0, 500), 0);
	ck_assert_int_eq(post(&f, x.send, IBV_WR_SEND, 500, srqn, 0), 0);
	fix_wait_ok(f.cq);
	wc = fix_wait_ok(g.cq);
	ck_assert(wc.wr_id == 2 && wc.byte_len == 500);
	ck_assert(fix_filled(g.buf, 500, 5));
	/* Keys are those of the SRQ's PD: of the other context now. */
	ck_assert_int_eq(fix_write_to(&f, x.send, srqn, (uintptr_t)g.buf + 1000, g.mr->rkey, 500), 0);
	fix_wait_ok(f.cq);
	ck_assert(fix_filled(g.buf + 1000, 500, 5));
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
	/* The process that made the QP gives it up; it lives on with the other one. */
	ck_assert_int_eq(ibv_destroy_qp(x.recv), 0);
	x.recv = NULL;
	ck_assert_int_eq(fix_srq_recv(&g, srq, 3, 0, 500), 0);
	ck_assert_int_eq(post(&f, x.send, IBV_WR_SEND, 500, srqn, 0), 0);
	fix_wait_ok(f.cq);
	ck_assert_uint_eq(fix_wait_ok(g.cq).wr_id, 3);
	/* Events come to who holds it. */
	ck_assert_int_eq(post(&f, x.send, IBV_WR_SEND, 10, 0xabcde, 0), 0);
	ck_assert_int_eq(fix_wait(f.cq).status, IBV_WC_REM_INV_REQ_ERR);
	ck_assert_int_eq(fix_event(g.ctx), IBV_EVENT_QP_REQ_ERR);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	fix_xrc_close(&x);
	fix_close(&f);
	fix_close(&g);
	close(fd);
	close(same);
}
END_TEST

/* A descriptor that needs no right on its file (O_PATH) opens no domain; the PD of a receiving QP may be anything. */
START_TEST(no_right)
{
	struct ibv_qp_init_attr_ex qa;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;
	struct fix f;
	int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);

	fix_open(&f);
	ck_assert_int_ge(fd, 0);
	ck_assert_ptr_eq(domain(f.ctx, fd, O_CREAT), NULL);
	ck_assert_int_eq(errno, EBADF);
	close(fd);
	xrcd = domain(f.ctx, -1, O_CREAT);
	ck_assert(xrcd != NULL);
	memset(&qa, 0xa5, sizeof(qa));
	qa.qp_type = IBV_QPT_XRC_RECV;
	qa.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	qa.xrcd = xrcd;
	qp = ibv_create_qp_ex(f.ctx, &qa);
	ck_assert(qp != NULL);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	fix_close(&f);
}
END_TEST

/* Attributes that make no sense. */
START_TEST(refused)
{
	struct ibv_qp_init_attr_ex qa = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_srq_init_attr_ex sa = { .attr = { 16, 1, 0 },
					   .srq_type = IBV_SRQT_XRC,
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD };
	struct ibv_xrcd_init_attr xa = { 0 };
	struct fix f;

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_open_xrcd(f.ctx, &xa), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(ibv_create_qp_ex(f.ctx, &qa), NULL);
	ck_assert_int_eq(errno, EINVAL);
	sa.pd = f.pd;
	errno = 0;
	ck_assert_ptr_eq(ibv_create_srq_ex(f.ctx, &sa), NULL);
	ck_assert_int_eq(errno, EINVAL);
	fix_close(&f);
}
END_TEST

void api_xrc(Suite *s) { SUITE_ADD(s, alone, names, held, shared, no_right, refused); }
