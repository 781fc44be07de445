/* SPDX-License-Identifier: MIT */
/*
 * ctl.c - fuzz target: a hostile client of the daemon: control messages, and all the memory it shares.
 *
 * The daemon's sessions, contexts, drain and publish with a real HCA, in one thread: shard_call() calls.  Input:
 * a script of steps - a message with handles that exist or not, bytes into a ring, an index, a bell, a turn, a
 * connection that ends.  In the end nothing may be left of the client.
 *
 * The programs' memory is what a region of this file has; the core may touch only that.
 */
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/profile.h"
#include "daemon/control/capture.h"
#include "daemon/cma/cma.h"
#include "daemon/control/ctl.h"
#include "daemon/control/impair_verb.h"
#include "daemon/control/linger.h"
#include "daemon/shard/hooks.h"
#include "daemon/control/sessions.h"
#include "daemon/base/clock.h"
#include "daemon/shard/bells.h"
#include "daemon/shard/drain.h"
#include "daemon/shard/guest.h"
#include "daemon/shard/idle.h"
#include "daemon/shard/look.h"
#include "daemon/shard/net_group.h"
#include "daemon/shard/publish.h"
#include "daemon/shard/raw.h"
#include "daemon/control/call.h"
#include "daemon/shard/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define STEPS  300u
#define REGION 4096u
#define BASE   0x10000u /* where the client's memory is, as it says */

struct input {
	const uint8_t *p;
	size_t n;
};

static uint8_t u8(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static uint32_t u32(struct input *in)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < 4; i++)
		v = v << 8 | u8(in);
	return v;
}

/* A fuzzer that aborts shall say why: what led to it may depend on the machine. */
#define must(ok) ((ok) ? (void)0 : broken(__LINE__, #ok))

static void broken(int line, const char *what)
{
	fprintf(stderr, "%s:%d: not %s: %s\n", __FILE__, line, what, strerror(errno));
	abort();
}

/* ---- the rest of the daemon -------------------------------------------------------- */

static struct shard shard;
struct shard *shards[SHARDS_MAX] = { &shard };
unsigned shards_n = 1;
static mono_t now;

void shard_call(struct shard *s, void (*fn)(struct shard *, void *), void *arg) { fn(s, arg); }
void guest_call(struct shard *s, void (*fn)(struct shard *, void *), void *arg) { fn(s, arg); }
void inbox_wake(struct shard *) {}
void guest_turn(struct shard *) {}
mono_t clock_now(void) { return now; }

struct region {
	uint64_t addr, len;
	bool null;
	uint8_t bytes[REGION];
};

int region_new(struct region **r, struct peer *, uint64_t addr, uint64_t len, int, const struct map_part *)
{
	if (addr < BASE || addr > BASE + REGION || len > BASE + REGION - addr)
		return EFAULT;
	*r = calloc(1, sizeof(**r));
	must(*r);
	(*r)->addr = addr;
	(*r)->len = len;
	return 0;
}

int region_new_lazy(struct region **r, struct peer *peer, uint64_t addr, uint64_t len)
{
	return region_new(r, peer, addr, len, -1, NULL);
}

int region_new_segment(struct region **r, struct peer *peer, uint64_t addr, uint64_t len, int fd, int id,
		       const struct map_part *)
{
	return fd < 0 && id & 1 ? EINPROGRESS : region_new(r, peer, addr, len, -1, NULL);
}

int region_new_fd(struct region **r, const struct peer *, uint64_t, uint64_t, int fd, uint64_t)
{
	if (fd < 0)
		return EINVAL;
	return region_new_null(r);
}

/* Device memory is known by its offsets. */
int region_new_held(struct region **r, uint64_t, uint64_t, struct held *, uint64_t) { return region_new_null(r); }

int region_new_null(struct region **r)
{
	*r = calloc(1, sizeof(**r));
	must(*r);
	(*r)->null = true;
	return 0;
}

void region_free(struct region *r) { free(r); }
void region_orphan(struct region *) {}

static uint8_t *bytes_of(const struct span *s, uint64_t off)
{
	struct region *r = s->region;

	if (!r)
		return (uint8_t *)(uintptr_t)s->addr + off;
	if (r->null)
		return r->bytes + (s->addr + off) % (REGION - 8);
	must(s->addr >= r->addr && s->addr - r->addr <= r->len && s->len <= r->len - (s->addr - r->addr));
	return r->bytes + (s->addr - BASE) + off;
}

static int mem_copy(void *, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		    uint64_t off)
{
	for (unsigned i = 0; i < dst_n; i++) {
		for (uint32_t k = 0; k < dst[i].len; k++) {
			while (src_n && off >= src->len) {
				off -= src->len;
				src++;
				src_n--;
			}
			must(src_n);
			*bytes_of(&dst[i], k) = *bytes_of(src, off++);
		}
	}
	return 0;
}

static int mem_cmp_swap(void *, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old)
{
	memcpy(old, bytes_of(at, 0), 8);
	if (*old == compare)
		memcpy(bytes_of(at, 0), &swap, 8);
	return 0;
}

static int mem_fetch_add(void *, const struct span *at, uint64_t add, uint64_t *old)
{
	uint64_t sum;

	memcpy(old, bytes_of(at, 0), 8);
	sum = *old + add;
	memcpy(bytes_of(at, 0), &sum, 8);
	return 0;
}

static int mem_store(void *, const struct span *at, uint64_t value)
{
	memcpy(bytes_of(at, 0), &value, 8);
	return 0;
}

const struct mem_ops region_mem_ops = { mem_copy, mem_cmp_swap, mem_fetch_add, mem_store, NULL };

/* ---- the client ---------------------------------------------------------------------- */

struct world {
	struct input in;
	struct ev_loop *loop;
	struct session *s;
	int fd;
};

static void connect_to(struct world *w)
{
	int sv[2], err;

	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv));
	/* pid 1: there is such a process, and it stays. */
	w->s = session_new(w->loop, sv[0], &(struct ucred){ .pid = 1 }, &err);
	must(w->s);
	w->fd = sv[1];
}

/* Reads the daemon's answers; their descriptors are closed. */
static void replies_read(struct world *w)
{
	struct msg_rep rep;
	struct iovec iov = { &rep, sizeof(rep) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(REPLY_FDS * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;
	ssize_t n;

	while ((n = recvmsg(w->fd, &mh, MSG_CMSG_CLOEXEC)) > 0) {
		must(n == sizeof(rep) && !(mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
		cm = CMSG_FIRSTHDR(&mh);
		for (unsigned i = 0; cm && i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			close(fd);
		}
		mh.msg_controllen = sizeof(ctl.buf);
	}
	if (n == 0) { /* it has hung up, and so do we */
		close(w->fd);
		connect_to(w);
	}
}

static void send_request(struct world *w, const void *req, size_t len)
{
	must(send(w->fd, req, len, MSG_NOSIGNAL) == (ssize_t)len);
	ev_run(w->loop, EVRUN_NOWAIT);
	replies_read(w);
}

static struct obj *some_obj(struct world *w, enum obj_kind kind)
{
	struct obj *o = w->s->ctx ? w->s->ctx->objs[kind] : NULL;

	for (unsigned k = u8(&w->in) % 4; o && o->next && k; k--)
		o = o->next;
	return o;
}

/* A number of an object of this kind, or anything. */
static uint32_t number(struct world *w, enum obj_kind kind)
{
	struct obj *o = some_obj(w, kind);

	return o ? o->number : u32(&w->in);
}

/* clang-format off */
static void request(struct world *w)
{
	struct msg_req req = { .op = u8(&w->in) % (MSG_OPS + 1) };
	uint8_t how = u8(&w->in), *body = (uint8_t *)&req + offsetof(struct msg_req, hello);
	size_t len = msg_req_len(req.op);

	for (size_t i = 0; how & 1 && i + 8 < len; i++)
		body[i] = u8(&w->in);
	switch (req.op) {
	case MSG_HELLO: req.hello.abi = how & 2 ? u32(&w->in) : RDMAD_ABI; break;
	case MSG_OPEN: memcpy(req.open.name, devices[0].name, sizeof(req.open.name)); break;
	case MSG_DUMP: return;		/* costs much, and shows nothing here */
	case MSG_PD_FREE: req.id.handle = number(w, OBJ_PD); break;
	case MSG_MW_FREE: req.id.handle = number(w, OBJ_MW); break;
	case MSG_MW_ALLOC: req.mw.pd = number(w, OBJ_PD); req.mw.type = 1 + (how & 1); break;
	case MSG_MR_DEREG: case MSG_MR_IMPORT: req.id.handle = number(w, OBJ_MR); break;
	case MSG_DM_FREE: case MSG_DM_IMPORT: req.id.handle = number(w, OBJ_DM); break;
	case MSG_PD_IMPORT: req.id.handle = number(w, OBJ_PD); break;
	case MSG_DM_ALLOC: req.dm.len %= 65536; break;
	case MSG_RAW_STEER: req.id.handle = number(w, OBJ_QP); break;
	case MSG_QP_RATE: req.rate.qpn = number(w, OBJ_QP); break;
	case MSG_QP_COUNT: req.count.qpn = number(w, OBJ_QP); req.count.dm = number(w, OBJ_DM); break;
	case MSG_CQ_MODERATE: req.moderate.handle = number(w, OBJ_CQ); break;
	case MSG_IMPORT:
		if (!(how & 2) && w->s->ctx)
			req.import.token = w->s->ctx->family->token;
		break;
	case MSG_XRCD_CLOSE: req.id.handle = number(w, OBJ_XRCD); break;
	case MSG_XRCD_OPEN: req.xrcd.shared &= 1; break;
	case MSG_QP_OPEN: req.qp_open.qpn = number(w, OBJ_QP); req.qp_open.xrcd = number(w, OBJ_XRCD); break;
	case MSG_CHANNEL_DESTROY: req.id.handle = number(w, OBJ_CHANNEL); break;
	case MSG_CQ_DESTROY: case MSG_CQ_RESIZE: case MSG_CQ_SWAP: case MSG_CQ_EVENT: req.cq_resize.handle = number(w, OBJ_CQ); break;
	case MSG_SRQ_DESTROY: case MSG_SRQ_QUERY: case MSG_SRQ_MODIFY: req.srq_mod.handle = number(w, OBJ_SRQ); break;
	case MSG_QP_DESTROY: case MSG_QP_QUERY: case MSG_QP_MODIFY: req.qp_mod.qpn = number(w, OBJ_QP); break;
	case MSG_MR_REG:
		req.mr.pd = number(w, OBJ_PD);
		if (how & 2)
			break;
		req.mr.addr = req.mr.iova = BASE;
		req.mr.len = REGION;
		req.mr.access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC;
		req.mr.kind = how >> 5;
		req.mr.dm = number(w, OBJ_DM);
		break;
	case MSG_CQ_CREATE: req.cq.cqe = req.cq.cqe % 64; req.cq.channel = how & 2 ? number(w, OBJ_CHANNEL) : 0; break;
	case MSG_SRQ_CREATE: req.srq.pd = number(w, OBJ_PD); req.srq.max_wr %= 32; req.srq.max_sge %= 8;
		req.srq.xrcd = how & 4 ? number(w, OBJ_XRCD) : 0;
		req.srq.cq = how & 4 ? number(w, OBJ_CQ) : 0;
		break;
	case MSG_QP_CREATE:
		req.qp.pd = number(w, OBJ_PD);
		req.qp.send_cq = number(w, OBJ_CQ);
		req.qp.recv_cq = number(w, OBJ_CQ);
		req.qp.srq = how & 4 ? number(w, OBJ_SRQ) : 0;
		if (!(how & 2))
			req.qp.cap = (struct qp_cap){ 8, 8, 2, 2, 32 };
		req.qp.type = how & 8 ? QPT_UD : QPT_RC;
		if (how & 32) {
			req.qp.type = how & 64 ? QPT_XRC_RECV : QPT_XRC_SEND;
			req.qp.xrcd = number(w, OBJ_XRCD);
			req.qp.recv_cq = req.qp.srq = 0;
		}
		req.qp.steps.n %= MSG_STEPS + 2;
		break;
	}
	if (how & 16)
		len = u8(&w->in) % (sizeof(req) + 1);
	if (len)
		send_request(w, &req, len);
}
/* clang-format on */

/* A QP to RTS, connected to itself. */
static void connect_qp(struct world *w)
{
	struct obj *o = some_obj(w, OBJ_QP);
	struct msg_req req = { .op = MSG_QP_MODIFY };
	struct qp_attr *a = &req.qp_mod.attr;

	if (!o)
		return;
	*a = (struct qp_attr){ .state = QPS_INIT,
			       .port = 1,
			       .access = 15,
			       .dest_qpn = o->number,
			       .path_mtu = 1,
			       .max_rd_atomic = 2,
			       .max_dest_rd_atomic = 2,
			       .timeout = 10,
			       .retry_cnt = 2,
			       .rnr_retry = 2,
			       .qkey = 1 };
	a->av.dgid[15] = 1;
	req.qp_mod.qpn = o->number;
	bool ud = hca_qp_query(shard.hca[0], o->number, &(struct qp_attr){ 0 }, &(struct qp_init){ 0 }) == 0 &&
		  (u8(&w->in) & 1);

	req.qp_mod.mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | (ud ? QPA_QKEY : QPA_ACCESS_FLAGS);
	send_request(w, &req, msg_req_len(req.op));
	a->state = QPS_RTR;
	req.qp_mod.mask = ud ? QPA_STATE
			     : QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
					  QPA_MIN_RNR_TIMER;
	send_request(w, &req, msg_req_len(req.op));
	a->state = QPS_RTS;
	req.qp_mod.mask = ud ? QPA_STATE | QPA_SQ_PSN
			     : QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN |
					  QPA_MAX_QP_RD_ATOMIC;
	send_request(w, &req, msg_req_len(req.op));
}

/* ---- shared memory ---------------------------------------------------------------------- */

static struct shmem *some_shmem(struct world *w, struct ring **ring)
{
	uint8_t which = u8(&w->in) % 4;
	struct obj *o = some_obj(w, which == 0 ? OBJ_CQ : which == 1 ? OBJ_SRQ : OBJ_QP);

	if (!o)
		return NULL;
	if (which == 0) {
		*ring = &((struct ctx_cq *)o)->ring;
		return &((struct ctx_cq *)o)->shm;
	}
	if (which == 1) {
		*ring = &((struct ctx_srq *)o)->rq.ring;
		return &((struct ctx_srq *)o)->shm;
	}
	*ring = which == 2 || !((struct ctx_qp *)o)->rq.slots ? &((struct ctx_qp *)o)->sq
							      : &((struct ctx_qp *)o)->rq.ring;
	return (*ring)->hdr ? &((struct ctx_qp *)o)->shm : NULL; /* a target of XRC has none */
}

static void write_bytes(struct world *w)
{
	struct ring *r;
	struct shmem *m = some_shmem(w, &r);
	size_t at;

	if (!m)
		return;
	at = ((size_t)u8(&w->in) << 8 | u8(&w->in)) * 4 % m->len;
	for (unsigned n = u8(&w->in) % 64; n && at < m->len; n--)
		m->mem[at++] = u8(&w->in);
}

/* A slot that makes some sense, and the index behind it. */
static void post(struct world *w)
{
	struct obj *mr = some_obj(w, OBJ_MR);
	uint32_t key = mr ? mr->number : 1;
	struct ring *r;
	struct shmem *m = some_shmem(w, &r);
	uint8_t *slot;
	struct sge sge = { BASE + u8(&w->in), u8(&w->in), key };

	if (!m || r->stride < sizeof(struct recv_wr) + sizeof(sge) || r->hdr->stride == sizeof(struct cqe))
		return;
	slot = ring_slot(r, r->pos);
	if (r->stride < sizeof(struct send_wr) + sizeof(sge)) {
		memcpy(slot, &(struct recv_wr){ .sge_n = u8(&w->in) % 2 }, sizeof(struct recv_wr));
		memcpy(slot + sizeof(struct recv_wr), &sge, sizeof(sge));
	} else {
		struct send_wr wr = { .op = u8(&w->in) % 16,
				      .flags = u8(&w->in),
				      .sge_n = u8(&w->in) % 2,
				      .rkey = key,
				      .remote_addr = BASE + u8(&w->in),
				      .inline_len = u8(&w->in) % 3 ? 0 : u8(&w->in) };

		memcpy(slot, &wr, sizeof(wr));
		memcpy(slot + sizeof(wr), &sge, sizeof(sge));
	}
	RING_STORE(&r->hdr->prod, r->pos + 1);
}

static void set_index(struct world *w)
{
	static const uint32_t by[] = { 0, 1, 2, 8, 64, 65, 1u << 31, UINT32_MAX };
	struct ring *r;
	struct shmem *m = some_shmem(w, &r);
	uint8_t what = u8(&w->in);
	uint32_t *index;

	if (!m)
		return;
	index = what & 8 ? &r->hdr->arm : what & 16 ? &r->hdr->cons : &r->hdr->prod;
	RING_STORE(index, (what & 32 ? r->pos : RING_LOAD(index)) + by[what & 7]);
}

static void ring_bells(struct world *w)
{
	struct ctx *c = w->s->ctx;
	uint8_t what = u8(&w->in);

	if (!c)
		return;
	if (what < 200)
		bell_ring(c->bell, what % 8);
	else if (what < 220)
		bell_ring(c->bell, u32(&w->in) % BELL_QUEUES);
	else
		memset((uint8_t *)c->bell + u32(&w->in) % (sizeof(struct bell) - 64), u8(&w->in), 64);
}

static void turn(struct world *w)
{
	struct hca *h = shard.hca[0];
	struct burst b;
	unsigned sends;

	now = mono_add(now, (uint64_t)u8(&w->in) * 100000);
	idle_sweep(&shard, now);
	ctx_drain(&shard, &sends, now);
	hca_tick(h, now);
	for (unsigned i = 0; i < 64 && hca_tx(h, &b, now); i++)
		if (u8(&w->in) != 77)
			hca_rx_burst(h, &b, now);
	ctx_publish(&shard, now);
	hca_verify(h);
}

static void step(struct world *w)
{
	switch (u8(&w->in) % 12) {
	case 0:
	case 1:
	case 2:
	case 3: request(w); break;
	case 4: connect_qp(w); break;
	case 5: write_bytes(w); break;
	case 6:
	case 7: post(w); break;
	case 8: set_index(w); break;
	case 9: ring_bells(w); break;
	case 10: turn(w); break;
	case 11:
		if (u8(&w->in) % 16)
			break;
		close(w->fd);
		ev_run(w->loop, EVRUN_NOWAIT);
		connect_to(w);
	}
}

static void start(struct world *w, bool open)
{
	struct msg_req req = { .op = MSG_HELLO, .hello.abi = RDMAD_ABI };

	connect_to(w);
	if (!open)
		return;
	send_request(w, &req, msg_req_len(req.op));
	for (uint32_t op = MSG_OPEN; op <= MSG_QP_CREATE; op++) {
		req = (struct msg_req){ .op = op };
		if (op == MSG_OPEN)
			memcpy(req.open.name, devices[0].name, sizeof(req.open.name));
		if (op == MSG_MR_REG)
			req.mr = (typeof(req.mr)){
				.pd = number(w, OBJ_PD), .access = 15, .addr = BASE, .len = REGION, .iova = BASE
			};
		if (op == MSG_CQ_CREATE)
			req.cq.cqe = 16;
		if (op == MSG_QP_CREATE)
			req.qp = (typeof(req.qp)){ .pd = number(w, OBJ_PD),
						   .send_cq = number(w, OBJ_CQ),
						   .recv_cq = number(w, OBJ_CQ),
						   .cap = { 8, 8, 2, 2, 32 },
						   .type = QPT_RC };
		if (op == MSG_OPEN || op == MSG_PD_ALLOC || op == MSG_MR_REG || op == MSG_CQ_CREATE ||
		    op == MSG_QP_CREATE)
			send_request(w, &req, msg_req_len(op));
	}
	connect_qp(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world w = { .in = { data, len } };
	struct hca_cfg cfg = { .mem = &region_mem_ops,
			       .seed = 1,
			       .mtu = 1,
			       .burst_len = 4096,
			       .local_burst_len = 4096,
			       .window_len = 65536 };
	uint8_t gid[16] = { [15] = 1 };
	struct hca_live left;

	log_init(LOG_LV_ERR);
	hooks.xrcd_drop = xrcd_drop;
	devices_n = 1;
	devices[0] = (struct device){ .name = "rdmad0", .up = true, .mtu = 1, .profile = profile_own() };
	memcpy(devices[0].gid[0].gid, gid, sizeof(gid));
	now = (mono_t){ 1000000 };
	shard = (struct shard){ .kick_fd = open("/dev/null", O_WRONLY | O_CLOEXEC), .hca[0] = hca_new(&cfg) };
	must(shard.hca[0]);
	devices[0].hca[0] = shard.hca[0];
	hca_gid_set(shard.hca[0], 0, gid);
	hca_local_set(shard.hca[0], gid, true);
	w.loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_POLL);
	must(w.loop);
	start(&w, u8(&w.in) & 1);
	for (unsigned i = 0; i < STEPS && w.in.n; i++)
		step(&w);
	close(w.fd);
	ev_run(w.loop, EVRUN_NOWAIT);
	must(!sessions && !sessions_n && !ctx_n && !shard.ctxs);
	hca_objects(shard.hca[0], &left);
	must(!left.pd && !left.mr && !left.cq && !left.srq && !left.qp);
	objs_end(&shard);
	heap_fini(&shard.moderated);
	hca_free(shard.hca[0]);
	linger_stop(w.loop);
	ev_loop_destroy(w.loop);
	close(shard.kick_fd);
	return 0;
}
