/* SPDX-License-Identifier: MIT */
/* api_share.c - parent domains and their allocators; objects that several contexts, and processes, have in common. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* ---- parent domains --------------------------------------------------------------------- */

struct store {
	struct ibv_pd *pd;
	int given, taken;
	enum { OWN, USE_DEFAULT, NONE } how;
};

static void *store_alloc(struct ibv_pd *pd, void *context, size_t len, size_t align, uint64_t)
{
	struct store *s = context;
	void *p;

	ck_assert(pd == s->pd && align && !(align & (align - 1)));
	if (s->how != OWN)
		return s->how == NONE ? NULL : IBV_ALLOCATOR_USE_DEFAULT;
	ck_assert_int_eq(posix_memalign(&p, align, len), 0);
	memset(p, 0xee, len);
	s->given++;
	return p;
}

static void store_free(struct ibv_pd *pd, void *context, void *p, uint64_t)
{
	struct store *s = context;

	ck_assert(pd == s->pd && p);
	s->taken++;
	free(p);
}

/* clang-format off */
START_TEST(parent_domain)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq_init = { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_td_init_attr td_init = { 0 };
	struct ibv_parent_domain_init_attr init = { 0 };
	struct store store = { .how = OWN };
	struct ibv_qp *a, *b;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct fix f;

	fix_open(&f);
	pd = f.pd;
	td = ibv_alloc_td(f.ctx, &td_init);
	ck_assert(td != NULL);
	errno = 0;
	ck_assert_ptr_eq(ibv_alloc_parent_domain(f.ctx, &init), NULL);		/* no PD */
	ck_assert_int_eq(errno, EINVAL);
	init = (struct ibv_parent_domain_init_attr){ .pd = pd, .td = td, .alloc = store_alloc, .free = store_free,
		.pd_context = &store,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT };
	f.pd = store.pd = ibv_alloc_parent_domain(f.ctx, &init);
	ck_assert(f.pd != NULL);
	init.pd = f.pd;
	ck_assert_ptr_eq(ibv_alloc_parent_domain(f.ctx, &init), NULL);		/* of a parent domain */
	ck_assert_int_eq(ibv_dealloc_td(td), EBUSY);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);

	/* QPs of the parent domain use MRs of the PD. */
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	ck_assert_int_eq(store.given, 2);
	fix_connect(&f, a, b);
	fix_fill(f.buf, 100, 1);
	ck_assert_int_eq(fix_recv(&f, b, 1, 4096, 100), 0);
	ck_assert_int_eq(fix_send(&f, a, 2, 0, 100, IBV_SEND_SIGNALED), 0);
	fix_wait_ok(f.cq);
	fix_wait_ok(f.cq);
	ck_assert(fix_filled(f.buf + 4096, 100, 1));
	ck_assert_int_eq(ibv_dealloc_pd(f.pd), EBUSY);
	srq = ibv_create_srq(f.pd, &srq_init);
	cq_init.parent_domain = f.pd;
	cq = ibv_create_cq_ex(f.ctx, &cq_init);
	ck_assert(srq && cq);
	ck_assert_int_eq(store.given, 4);
	cq_init.parent_domain = pd;
	ck_assert_ptr_eq(ibv_create_cq_ex(f.ctx, &cq_init), NULL);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(store.taken, 3);
	store.how = USE_DEFAULT;
	a = fix_qp(&f, IBV_QPT_UD, 4, NULL);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert(store.given == 4 && store.taken == 4);
	store.how = NONE;
	errno = 0;
	ck_assert_ptr_eq(ibv_create_srq(f.pd, &srq_init), NULL);
	ck_assert_int_eq(errno, ENOMEM);

	ck_assert_int_eq(ibv_dealloc_pd(f.pd), 0);
	ck_assert_int_eq(ibv_dealloc_td(td), 0);
	f.pd = pd;
	fix_close(&f);
}
END_TEST
/* clang-format on */

/* All that lies in a parent domain names it, but a region, which only says whose it was; windows of the PD fit its queue pairs. */
START_TEST(parent_in_use)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr init = { 0 };
	struct ibv_mw_bind bind = { .bind_info = { .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
	struct ibv_pd *pd, *parent;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct fix f;

	fix_open(&f);
	pd = init.pd = f.pd;
	parent = ibv_alloc_parent_domain(f.ctx, &init);
	ck_assert(parent != NULL);
	f.pd = parent;
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_connect(&f, a, b);
	mr = ibv_reg_mr(pd, f.buf, 4096, RIGHTS | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	ck_assert(mr && mw);
	bind.bind_info.mr = mr;
	bind.bind_info.addr = (uintptr_t)f.buf;
	ck_assert_int_eq(ibv_bind_mw(a, mw, &bind), 0);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(parent, f.buf, 4096, RIGHTS);
	ck_assert(mr != NULL);
	ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);
	fix_pair_end(a, b);
	srq = ibv_create_srq(parent, &srq_init);
	ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
	ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	f.pd = pd;
	fix_close(&f);
}
END_TEST

/* ---- import ------------------------------------------------------------------------------ */

/* Sent by one process to another. */
struct hint {
	uint32_t pd, mr, lkey, dm, qpn;
	uint64_t addr;
	union ibv_gid gid;
};

static void fd_send(int sock, int fd, const struct hint *h)
{
	struct iovec iov = { (void *)h, sizeof(*h) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&mh);

	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(sock, &mh, 0), sizeof(*h));
}

static int fd_recv(int sock, struct hint *h)
{
	struct iovec iov = { h, sizeof(*h) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	int fd;

	if (recvmsg(sock, &mh, 0) != sizeof(*h) || !CMSG_FIRSTHDR(&mh))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(fd));
	return fd;
}

#define WANT(cond)                                 \
	do {                                       \
		if (!(cond))                       \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

/* A process that has nothing but a descriptor and numbers: it sends from the other's memory through the other's PD. */
static void guest(int sock)
{
	struct fix f = { 0 };
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	struct ibv_qp *qp;
	struct hint h;
	int fd = fd_recv(sock, &h);
	uint32_t text = 0;

	WANT(fd >= 0);
	f.ctx = ibv_import_device(fd);
	WANT(f.ctx);
	WANT(!ibv_import_pd(f.ctx, h.pd + 1000) && errno == EINVAL);
	f.pd = ibv_import_pd(f.ctx, h.pd);
	mr = ibv_import_mr(f.pd, h.mr);
	dm = ibv_import_dm(f.ctx, h.dm);
	WANT(f.pd && mr && dm && mr->lkey == h.lkey);
	WANT(!ibv_memcpy_from_dm(&text, dm, 64, 4) && text == 0x12345678);
	text = 0x87654321;
	WANT(!ibv_memcpy_to_dm(dm, 64, &text, 4));
	f.gid = h.gid;
	f.cq = ibv_create_cq(f.ctx, 16, NULL, NULL, 0);
	WANT(f.cq);
	qp = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_init(qp);
	fix_rtr(&f, qp, &(struct ibv_qp){ .qp_num = h.qpn });
	fix_rts(qp);
	h.qpn = qp->qp_num;
	WANT(send(sock, &h, sizeof(h), 0) == sizeof(h));
	WANT(recv(sock, &h, sizeof(h), 0) == sizeof(h)); /* the other end is ready */

	struct ibv_sge sge = { .addr = h.addr, .length = 100, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { .remote_addr = h.addr + 4096, .rkey = mr->rkey } };
	WANT(!ibv_post_send(qp, &wr, &bad));
	WANT(fix_wait(f.cq).status == IBV_WC_SUCCESS);
	WANT(send(sock, &h, sizeof(h), 0) == sizeof(h));
	/* The other closes its context: PD and MR live on, its memory is out of reach. */
	WANT(recv(sock, &h, sizeof(h), 0) == sizeof(h));
	WANT(ibv_dealloc_pd(f.pd) == EBUSY);
	WANT(!ibv_destroy_qp(qp) && !ibv_destroy_cq(f.cq));
	ibv_unimport_mr(mr);
	ibv_unimport_dm(dm);
	ibv_unimport_pd(f.pd);
	WANT(!ibv_close_device(f.ctx));
	_exit(0);
}

START_TEST(import)
{
	struct ibv_alloc_dm_attr a = { .length = 4096 };
	uint32_t text = 0x12345678;
	struct hint h = { 0 };
	int sv[2], status;
	static struct ibv_dm *dm; /* static: what is not destroyed before the context is closed is no leak */
	static struct ibv_qp *qp;
	static struct fix f;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	pid = fork(); /* before anything is opened: it is a stranger */
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		close(sv[0]);
		guest(sv[1]);
	}
	close(sv[1]);
	fix_open(&f);
	dm = ibv_alloc_dm(f.ctx, &a);
	ck_assert(dm && !ibv_memcpy_to_dm(dm, 64, &text, 4));
	qp = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_fill(f.buf, 100, 7);
	h = (struct hint){ .pd = f.pd->handle,
			   .mr = f.mr->handle,
			   .lkey = f.mr->lkey,
			   .dm = dm->handle,
			   .qpn = qp->qp_num,
			   .addr = (uintptr_t)f.buf,
			   .gid = f.gid };
	fd_send(sv[0], f.ctx->cmd_fd, &h);
	ck_assert_int_eq(recv(sv[0], &h, sizeof(h), 0), sizeof(h));
	fix_init(qp);
	fix_rtr(&f, qp, &(struct ibv_qp){ .qp_num = h.qpn });
	fix_rts(qp);
	ck_assert_int_eq(send(sv[0], &h, sizeof(h), 0), sizeof(h));
	ck_assert_int_eq(recv(sv[0], &h, sizeof(h), 0), sizeof(h));
	ck_assert(fix_filled(f.buf + 4096, 100, 7));
	ck_assert(!ibv_memcpy_from_dm(&text, dm, 64, 4) && text == 0x87654321);
	ck_assert_int_eq(ibv_close_device(f.ctx), 0);
	ck_assert_int_eq(send(sv[0], &h, sizeof(h), 0), sizeof(h));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the guest: %d", WEXITSTATUS(status));
	close(sv[0]);
	free(f.buf);
}
END_TEST

/* The daemon has heard of it: a WRITE from sge to that address fails. */
static void out_of_reach(struct fix *f, struct ibv_sge sge, uint64_t addr, uint32_t rkey)
{
	struct ibv_qp *a = fix_qp(f, IBV_QPT_RC, 4, NULL), *b = fix_qp(f, IBV_QPT_RC, 4, NULL);
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { addr, rkey } };
	const time_t end = time(NULL) + PATIENCE_S;

	fix_connect(f, a, b);
	do {
		ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
		ck_assert(time(NULL) < end);
	} while (fix_wait(f->cq).status == IBV_WC_SUCCESS);
	fix_pair_end(a, b);
}

/*
 * A region of a context that was closed, in another one of its family: an error for who uses it, at either end, and nothing is
 * written, also if the daemon has it mapped.
 */
#define CASES 6
START_TEST(left)
{
	static const struct {
		enum ibv_wr_opcode op;
		bool local; /* it is that of the sender, or the receiver's of a SEND */
		enum ibv_wc_status status;
	} t[CASES] = {
		{ IBV_WR_RDMA_WRITE, true, IBV_WC_LOC_PROT_ERR }, { IBV_WR_RDMA_READ, true, IBV_WC_LOC_PROT_ERR },
		{ IBV_WR_SEND, true, IBV_WC_LOC_PROT_ERR },       { IBV_WR_SEND, false, IBV_WC_REM_OP_ERR },
		{ IBV_WR_RDMA_WRITE, false, IBV_WC_REM_OP_ERR },  { IBV_WR_RDMA_READ, false, IBV_WC_REM_OP_ERR },
	};
	const bool mapped = _i >= CASES;
	const unsigned i = (unsigned)_i % CASES, len = mapped ? 1u << 20 : 512;
	unsigned char *theirs = fix_blank(1 << 20);
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .num_sge = 1, .opcode = t[i].op, .send_flags = IBV_SEND_SIGNALED };
	static struct ibv_pd *pd; /* closed with its context: no leak */
	static struct ibv_mr *mr;
	struct ibv_context *ctx;
	struct ibv_recv_wr *rbad, rwr = { .wr_id = 2, .num_sge = 1 };
	struct ibv_sge own, lost;
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	uint32_t handle;
	struct fix f = { 0 };

	ctx = fix_device();
	pd = ibv_alloc_pd(ctx);
	mr = ibv_reg_mr(pd, theirs, len, RIGHTS);
	ck_assert(pd && mr);
	handle = pd->handle;
	lost = (struct ibv_sge){ (uintptr_t)theirs, 400, mr->lkey };
	f.ctx = ibv_import_device(dup(ctx->cmd_fd));
	ck_assert(f.ctx != NULL);
	ck_assert_int_eq(ibv_query_gid(f.ctx, 1, 0, &f.gid), 0);
	f.pd = ibv_import_pd(f.ctx, handle);
	f.cq = ibv_create_cq(f.ctx, 16, NULL, NULL, 0);
	f.buf = fix_blank(BUF_LEN);
	f.mr = ibv_reg_mr(f.pd, f.buf, BUF_LEN, RIGHTS);
	ck_assert(f.pd && f.cq && f.mr);
	own = (struct ibv_sge){ (uintptr_t)f.buf, 400, f.mr->lkey };
	fix_fill(f.buf, 400, 3);
	a = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	b = fix_qp(&f, IBV_QPT_RC, 4, NULL);
	fix_connect(&f, a, b);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
	out_of_reach(&f, (struct ibv_sge){ own.addr + 1000, 1, own.lkey }, lost.addr, lost.lkey);
	rwr.sg_list = t[i].local ? &own : &lost;
	ck_assert_int_eq(t[i].op == IBV_WR_SEND ? ibv_post_recv(b, &rwr, &rbad) : 0, 0);
	wr.sg_list = t[i].local ? &lost : &own;
	wr.wr.rdma.remote_addr = t[i].local ? own.addr : lost.addr;
	wr.wr.rdma.rkey = t[i].local ? f.mr->rkey : lost.lkey;
	ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
	do
		wc = fix_wait(f.cq);
	while (wc.wr_id != 1);
	ck_assert_int_eq(wc.status, t[i].status);
	ck_assert(!theirs[0] && !theirs[399]);
	fix_pair_end(a, b);
	ck_assert_int_eq(ibv_dereg_mr(f.mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(f.cq), 0);
	ibv_unimport_pd(f.pd);
	ck_assert_int_eq(ibv_close_device(f.ctx), 0);
	munmap(f.buf, BUF_LEN);
	munmap(theirs, 1 << 20);
}
END_TEST

/* A descriptor that is not a context's is refused; no family has another one's objects. */
START_TEST(strangers)
{
	struct ibv_context *other;
	struct fix f;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	fix_open(&f);
	errno = 0;
	ck_assert_ptr_eq(ibv_import_device(fd), NULL);
	ck_assert_int_eq(errno, EINVAL);
	close(fd);
	other = fix_device();
	errno = 0;
	ck_assert_ptr_eq(ibv_import_pd(other, f.pd->handle), NULL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_close_device(other), 0);
	fix_close(&f);
}
END_TEST

/* A forked child may have device memory of its parent's context; what it gives back is its own only. */
START_TEST(child_dm)
{
	struct ibv_alloc_dm_attr a = { .length = 4096 };
	struct ibv_dm *dm;
	struct fix f;
	int status;
	pid_t pid;

	fix_open(&f);
	dm = ibv_alloc_dm(f.ctx, &a);
	ck_assert(dm != NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct ibv_dm *own = ibv_alloc_dm(f.ctx, &a);

		WANT(own && own->handle != dm->handle);
		WANT(!ibv_reg_dm_mr(f.pd, own, 0, 64, IBV_ACCESS_ZERO_BASED) && errno == EIO);
		WANT(!ibv_reg_mr(f.pd, f.buf, BUF_LEN, 0) && errno == EIO);
		WANT(!ibv_create_cq(f.ctx, 4, NULL, NULL, 0) && errno == EIO);
		WANT(!ibv_free_dm(own));
		WANT(!ibv_free_dm(dm)); /* the copy in this process */
		WANT(!ibv_dealloc_pd(f.pd));
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	fix_close(&f);
}
END_TEST

void api_share(Suite *s)
{
	TCase *t = tcase_create("left");

	SUITE_ADD(s, parent_domain, parent_in_use, import, strangers, child_dm);
	tcase_add_loop_test(t, left, 0, 2 * CASES);
	suite_add_tcase(s, t);
}
