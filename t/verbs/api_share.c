/* SPDX-License-Identifier: MIT */
/* api_share.c - parent domains and their allocators; objects that several contexts, and processes, have in common. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

void api_share(Suite *s) { SUITE_ADD(s, parent_domain, import, strangers, child_dm); }
