/* SPDX-License-Identifier: MIT */
/*
 * rs_link.c - a connection's memory and QP, and the messages on it.
 *
 *	| list of its grants, iomap | receive buffer ... | control messages in flight | send buffer ... |
 *	  the peer writes here                             this side does
 *
 * It is one region, as each takes two requests of the daemon.  So the peer could write to all of it; what it would change in the
 * second half of it goes to itself.
 */
#include "rs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdmad/high.h>
#include <rdmad/own.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* A wr_id: of what kind, and how many data messages and bytes of the send buffer its completion gives back. */
enum { WR_DATA = 1, WR_CTL, WR_RECV };
#define WR_ID(kind, msgs, bytes) ((uint64_t)(kind) << 48 | (uint64_t)(msgs) << 32 | (bytes))

static size_t page_up(size_t n) { return (n + 4095) & ~(size_t)4095; }

static size_t lists_len(const struct rsock *rs)
{
	return page_up(RS_SGL_N * sizeof(struct rs_sge) + rs->opts.iomap_n * sizeof(struct rs_iomap));
}

/* ---- open and close ------------------------------------------------------------------- */

/* A file that the daemon maps: where it has to go through the kernel each message costs it a system call.  -1: there is none. */
static int file_make(size_t len)
{
	struct rlimit rl;
	int fd;

	/* Beyond the limit ftruncate() sends a signal. */
	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur < len)
		return -1;
	fd = memfd_create("rsocket", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = memfd_create("rsocket", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fd = fd_high(fd);
	if (fd >= 0 && (ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* If the daemon refuses to map it, by its addresses. */
static struct ibv_mr *memory_reg(struct ibv_pd *pd, void *p, size_t len, int fd, int access)
{
	struct ibv_mr *mr = fd < 0 ? NULL : ibv_reg_dmabuf_mr(pd, 0, len, (uintptr_t)p, fd, access);

	return mr ? mr : ibv_reg_mr(pd, p, len, (unsigned)access);
}

static int memory_make(struct rsock *rs, size_t len)
{
	struct rs_link *l = &rs->link;
	int fd = file_make(len), err = ENOMEM;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	if (p != MAP_FAILED) {
		l->mem = p;
		l->mem_len = len;
		l->mr = memory_reg(rs->id->pd, p, len, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		err = l->mr ? 0 : errno;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static int memory_open(struct rsock *rs)
{
	struct rs_link *l = &rs->link;
	size_t lists = lists_len(rs), ctl = page_up(RS_CTL_N * sizeof(*l->ctl));
	uint32_t rlen = (uint32_t)page_up(rs->opts.rcvbuf) * 2, slen = (uint32_t)page_up(rs->opts.sndbuf);
	uint32_t rmost = rs_grow_most(rlen, rs->opts.rcvbuf_set), smost = rs_grow_most(slen, rs->opts.sndbuf_set);
	int err = memory_make(rs, lists + rmost + ctl + smost);

	if (err)
		return err;
	l->sgl = (volatile struct rs_sge *)l->mem;
	l->iomap = (volatile struct rs_iomap *)(l->mem + RS_SGL_N * sizeof(struct rs_sge));
	l->recv = (struct rs_ring){ .mem = l->mem + lists, .size = rlen, .most = rmost };
	l->ctl = (struct rs_iomap *)(l->recv.mem + rmost);
	l->send = (struct rs_ring){ .mem = l->recv.mem + rmost + ctl, .size = slen, .most = smost };
	/* The first half is in the greeting. */
	l->freed = rlen / 2;
	l->give_at = rlen / 2;
	l->peer_sge = 1;
	return 0;
}

static int recv_post(struct rsock *rs)
{
	struct ibv_recv_wr wr = { .wr_id = WR_ID(WR_RECV, 0, 0) }, *bad;

	return ibv_post_recv(rs->id->qp, &wr, &bad);
}

static int qp_open(struct rsock *rs)
{
	struct rs_link *l = &rs->link;
	uint32_t sq = rs->opts.sq_size + RS_CTL_N, rq = rs->opts.rq_size + 2 * RS_CTL_N;
	struct ibv_qp_init_attr a = {
		.cap = { .max_send_wr = sq, .max_recv_wr = rq, .max_send_sge = 2, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	int err = 0;

	l->cc = ibv_create_comp_channel(rs->id->verbs);
	if (!l->cc)
		return errno;
	l->cc->fd = fd_away(l->cc->fd, rs->beside_tcp);
	if (l->cc->fd < 0)
		return errno;
	fcntl(l->cc->fd, F_SETFL, fcntl(l->cc->fd, F_GETFL) | O_NONBLOCK);
	l->cq = ibv_create_cq(rs->id->verbs, (int)(sq + rq), rs, l->cc, 0);
	if (!l->cq)
		return errno;
	a.send_cq = a.recv_cq = l->cq;
	if (rdma_create_qp(rs->id, NULL, &a))
		return errno;
	l->sq_free = rs->opts.sq_size;
	l->ctl_free = RS_CTL_N;
	for (uint32_t i = 0; i < rq && !err; i++)
		err = recv_post(rs);
	return err;
}

int rs_link_open(struct rsock *rs)
{
	int err = memory_open(rs);

	if (!err)
		err = qp_open(rs);
	if (err) {
		rs_link_close(rs);
		return err;
	}
	rs->linked = true;
	return 0;
}

static void maps_free(struct rsock *rs)
{
	struct rs_iomap_mr *m;

	while ((m = rs->link.maps)) {
		rs->link.maps = m->next;
		ibv_dereg_mr(m->mr);
		free(m);
	}
}

void rs_link_close(struct rsock *rs)
{
	struct rs_link *l = &rs->link;

	rs->linked = false;
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	maps_free(rs);
	if (l->cq)
		ibv_destroy_cq(l->cq);
	if (l->cc)
		ibv_destroy_comp_channel(l->cc);
	if (l->mr)
		ibv_dereg_mr(l->mr);
	if (l->mem)
		munmap(l->mem, l->mem_len);
	rs_grow_end(rs);
	memset(l, 0, sizeof(*l));
}

void rs_link_hello(const struct rsock *rs, struct rs_hello *h)
{
	const struct rs_link *l = &rs->link;

	*h = (struct rs_hello){
		.version = RS_VERSION,
		.flags = RS_FLAG_IOMAP | (htonl(1) == 1 ? RS_FLAG_NET : 0),
		.credits = htons((uint16_t)rs->opts.rq_size),
		.own = rs->to_local6 ? RS_OWN_LOCAL6 : 0,
		.iomap_n = rs_scale(rs->opts.iomap_n),
		.sgl = { htobe64((uintptr_t)l->mem), htonl(l->mr->rkey), htonl(RS_SGL_N) },
		.buf = { htobe64((uintptr_t)l->recv.mem), htonl(l->mr->rkey), htonl(l->recv.size / 2) },
	};
}

int rs_link_peer(struct rsock *rs, const void *data, size_t len)
{
	struct rs_link *l = &rs->link;

	if (!rs_hello_parse(&l->peer, data, len))
		return EPROTO;
	l->cur = l->peer.buf;
	l->sgl_next = 1;
	l->seq_max = l->peer.credits;
	return 0;
}

/* ---- what has completed ------------------------------------------------------------------ */

void rs_break(struct rsock *rs, int err)
{
	if (rs->state == RS_CLOSED || rs->state == RS_FAILED)
		return;
	rs->err = err;
	rs->spilt = err || !rs_sent_all(rs);
	rs->state = RS_CLOSED;
	rs->peer_shut = true;
	rs->came++;
}

static void come(struct rsock *rs) { rs->came = rs->link.since > rs->came ? rs->link.since : rs->came + 1; }

static int qp_state(struct rsock *rs, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(rs->id->qp, &a, IBV_QP_STATE);
}

void rs_peer_ready(struct rsock *rs)
{
	rs->state = RS_CONNECTED;
	if (rs->held && qp_state(rs, IBV_QPS_RTS))
		rs_break(rs, ECONNRESET);
	rs->held = false;
}

static void on_message(struct rsock *rs, uint32_t msg)
{
	struct rs_link *l = &rs->link;
	uint32_t value = rs_msg_value(msg);

	if (rs->state == RS_ACCEPTING) { /* as good as the RTU, which may be lost */
		rs_peer_ready(rs);
		rdma_notify(rs->id, IBV_EVENT_COMM_EST);
	}
	switch (rs_msg_op(msg)) {
	case RS_OP_DATA:
		if (value > l->recv.size - l->recv.used) {
			rs_break(rs, EPROTO);
			return;
		}
		l->recv.used += value;
		l->got++;
		come(rs);
		return;
	case RS_OP_SGL: l->seq_max = (uint16_t)value; return;
	case RS_OP_IOMAP: /* the entry is looked up when it is needed */ return;
	case RS_OP_CTL:
		if (value == RS_CTL_DISCONNECT && rs->state == RS_CONNECTED)
			rs->state = RS_CLOSED;
		if (value == RS_CTL_DISCONNECT || value == RS_CTL_SHUTDOWN)
			rs->peer_shut = true;
		come(rs);
		return;
	}
}

static void on_completion(struct rsock *rs, const struct ibv_wc *wc)
{
	struct rs_link *l = &rs->link;

	if (wc->wr_id >> 48 == WR_RECV && wc->status == IBV_WC_SUCCESS) {
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			on_message(rs, ntohl(wc->imm_data));
		if (recv_post(rs))
			rs_break(rs, ECONNRESET);
		return;
	}
	l->ctl_free += wc->wr_id >> 48 == WR_CTL;
	l->sq_free += (uint16_t)(wc->wr_id >> 32);
	l->send.used -= (uint32_t)wc->wr_id;
	if (wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		rs_break(rs, ETIMEDOUT);
	else if (wc->status != IBV_WC_SUCCESS)
		rs_break(rs, ECONNRESET);
}

/* One completion; of the others that are there it would not be known when they came.  How many, or -1. */
static int take(struct rsock *rs)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(rs->link.cq, 1, &wc);

	if (n > 0)
		on_completion(rs, &wc);
	return n;
}

/* busy: asks also where nothing is, which now and then gives the core away. */
static int progress(struct rsock *rs, bool busy)
{
	int n = rs->linked, all = 0;

	while (n > 0) {
		rs->link.since = rdmad_cq_since(rs->link.cq);
		n = rs->link.since || (busy && !all) ? take(rs) : 0;
		all += n > 0;
	}
	if (n < 0)
		rs_break(rs, EIO);
	if (all) {
		rs_grant(rs);
		rs_wake(rs);
	}
	return all;
}

int rs_progress_busy(struct rsock *rs) { return progress(rs, true); }

int rs_progress(struct rsock *rs) { return progress(rs, false); }

/* ---- what is sent --------------------------------------------------------------------------- */

/*
 * Before the RTU, or a message, has come the peer's QP may not be in RTR and drop what comes, which is sent again after a timeout
 * only.  So what is posted waits.
 */
static int hold(struct rsock *rs)
{
	int err = rs->held ? 0 : qp_state(rs, IBV_QPS_SQD);

	rs->held = !err;
	return err;
}

static int write_post(struct rsock *rs, struct ibv_send_wr *wr, struct ibv_sge *sge, int n, struct rs_sge to)
{
	struct ibv_send_wr *bad;
	int err = rs->state == RS_ACCEPTING ? hold(rs) : 0;

	wr->sg_list = sge;
	wr->num_sge = n;
	wr->wr.rdma.remote_addr = to.addr;
	wr->wr.rdma.rkey = to.key;
	if (!err)
		err = ibv_post_send(rs->id->qp, wr, &bad);
	if (err)
		rs_break(rs, ECONNRESET);
	return err;
}

/* Its completion is for all data messages before it that ask for none, too. */
static void complete(struct rs_link *l, struct ibv_send_wr *wr, unsigned kind)
{
	wr->wr_id = WR_ID(kind, l->quiet.msgs, l->quiet.bytes);
	wr->send_flags = IBV_SEND_SIGNALED;
	l->quiet.msgs = l->quiet.bytes = 0;
}

int rs_push_ctl(struct rsock *rs, uint32_t msg, const void *data, size_t len, uint64_t addr, uint32_t key)
{
	struct rs_link *l = &rs->link;
	struct rs_iomap *slot = &l->ctl[l->ctl_next % RS_CTL_N];
	struct ibv_sge sge = { (uintptr_t)slot, (uint32_t)len, l->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(msg) };
	int err;

	if (len)
		memcpy(slot, data, len);
	complete(l, &wr, WR_CTL);
	err = write_post(rs, &wr, &sge, len ? 1 : 0, (struct rs_sge){ addr, key, 0 });
	if (err)
		return err;
	l->ctl_free--;
	l->ctl_next++;
	return 0;
}

void rs_push_alive(struct rsock *rs)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };

	complete(&rs->link, &wr, WR_CTL);
	if (!write_post(rs, &wr, NULL, 0, (struct rs_sge){ 0 }))
		rs->link.ctl_free--;
}

/* A half that is free is told in the peer's list; the count of messages goes with it, or alone. */
void rs_grant(struct rsock *rs)
{
	struct rs_link *l = &rs->link;
	uint32_t half = l->recv.size / 2;
	uint32_t msg = rs_msg(RS_OP_SGL, (uint16_t)(l->got + rs->opts.rq_size));
	struct rs_sge sge = { 0 };
	bool mem = l->freed >= half;

	/* The last place is for rshutdown(), behind which nobody reads. */
	if (rs->state != RS_CONNECTED || l->ctl_free < 2 || rs->peer_shut || (rs->rd_shut && rs->wr_shut))
		return;
	if (!mem && (uint16_t)(l->got - l->told) < rs->opts.rq_size / 2)
		return;
	if (mem) {
		rs_grow_recv(rs);
		half = l->recv.size / 2;
		sge = (struct rs_sge){ (uintptr_t)l->recv.mem + l->give_at, l->mr->rkey, half };
	}
	sge = rs_sge_swap(sge, l->peer.swap);
	if (rs_push_ctl(rs, msg, &sge, mem ? sizeof(sge) : 0, l->peer.sgl.addr + l->peer_sge * sizeof(sge),
			l->peer.sgl.key))
		return;
	l->told = l->got;
	if (!mem)
		return;
	l->freed -= half;
	l->give_at = half - l->give_at;
	l->peer_sge = (l->peer_sge + 1) % l->peer.sgl.len;
}

/* The entry in use is written down to nothing before the next is taken. */
static bool target_ready(struct rs_link *l)
{
	volatile struct rs_sge *next = &l->sgl[l->sgl_next];

	if (l->cur.len)
		return true;
	if (!next->len)
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	l->cur = (struct rs_sge){ next->addr, next->key, next->len };
	next->len = 0;
	l->sgl_next = (l->sgl_next + 1) % RS_SGL_N;
	return true;
}

bool rs_can_send(struct rsock *rs)
{
	struct rs_link *l = &rs->link;

	rs_grow_send(rs);
	return rs_sends(rs) && !rs->end_said && l->sq_free && l->send.used < l->send.size && l->seq != l->seq_max &&
	       target_ready(l);
}

bool rs_sent_all(const struct rsock *rs)
{
	const struct rs_link *l = &rs->link;

	return l->sq_free + l->quiet.msgs == rs->opts.sq_size && l->ctl_free == RS_CTL_N;
}

/* Where the next len bytes are written to, behind what is used; there is room. */
static int ring_pieces(const struct rs_ring *r, size_t len, struct iovec *to)
{
	size_t first = r->size - r->tail < len ? r->size - r->tail : len;

	to[0] = (struct iovec){ r->mem + r->tail, first };
	to[1] = (struct iovec){ r->mem, len - first };
	return to[1].iov_len ? 2 : 1;
}

static void ring_fill(const struct rs_ring *r, const struct iovec *iov, size_t skip, size_t len)
{
	uint32_t at = r->tail;

	for (; len; iov++, skip = 0) {
		size_t n = iov->iov_len - skip;
		const uint8_t *from = (const uint8_t *)iov->iov_base + skip;

		n = n < len ? n : len;
		len -= n;
		while (n) {
			uint32_t part = r->size - at < n ? r->size - at : (uint32_t)n;

			memcpy(r->mem + at, from, part);
			at = (at + part) % r->size;
			from += part;
			n -= part;
		}
	}
}

/*
 * So many bytes that are written there are sent.  A completion wakes a thread that waits for an answer, so only each fourth of what
 * there is room for has one: of who waits for room some are always under way.
 */
static int ring_post(struct rsock *rs, struct ibv_send_wr *wr, size_t len, struct rs_sge to)
{
	struct rs_link *l = &rs->link;
	struct rs_ring *r = &l->send;
	struct iovec v[2];
	struct ibv_sge sge[2];
	int n = ring_pieces(r, len, v);

	for (int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)v[i].iov_base, (uint32_t)v[i].iov_len, l->mr->lkey };
	r->tail = (uint32_t)((r->tail + len) % r->size);
	r->used += (uint32_t)len;
	l->sq_free--;
	l->quiet.msgs++;
	l->quiet.bytes += (uint32_t)len;
	if (l->quiet.msgs > rs->opts.sq_size / 4 || l->quiet.bytes > r->size / 4)
		complete(l, wr, WR_DATA);
	return write_post(rs, wr, sge, n, to);
}

static size_t room(const struct rs_link *l, size_t len)
{
	size_t n = l->send.size - l->send.used;

	n = n < RS_CHUNK ? n : RS_CHUNK;
	return n < len ? n : len;
}

static size_t room_there(const struct rs_link *l, size_t len)
{
	size_t n = room(l, len);

	return n < l->cur.len ? n : l->cur.len;
}

static ssize_t push(struct rsock *rs, size_t n)
{
	struct rs_link *l = &rs->link;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM };

	wr.imm_data = htonl(rs_msg(RS_OP_DATA, (uint32_t)n));
	if (ring_post(rs, &wr, n, l->cur))
		return fail(ECONNRESET);
	l->cur.addr += n;
	l->cur.len -= (uint32_t)n;
	l->seq++;
	return (ssize_t)n;
}

ssize_t rs_push(struct rsock *rs, const struct iovec *iov, size_t skip, size_t len)
{
	size_t n = room_there(&rs->link, len);

	ring_fill(&rs->link.send, iov, skip, n);
	return push(rs, n);
}

ssize_t rs_push_file(struct rsock *rs, int file, off_t at, size_t len)
{
	struct iovec v[2];
	int pieces = ring_pieces(&rs->link.send, room_there(&rs->link, len), v);
	ssize_t n = at < 0 ? syscall(SYS_readv, file, v, pieces) : preadv(file, v, pieces, at);

	return n > 0 ? push(rs, (size_t)n) : n;
}

ssize_t rs_push_to(struct rsock *rs, const void *buf, size_t len, uint64_t addr, uint32_t key)
{
	size_t n = room(&rs->link, len);
	struct iovec iov = { (void *)(uintptr_t)buf, n };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };

	ring_fill(&rs->link.send, &iov, 0, n);
	if (ring_post(rs, &wr, n, (struct rs_sge){ addr, key, 0 }))
		return fail(ECONNRESET);
	return (ssize_t)n;
}
