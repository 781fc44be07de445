/* SPDX-License-Identifier: MIT */
/*
 * wire.c - two shards in two processes exchange messages by UDP on 127.x.y.z; every byte is compared.
 *
 *	parent  127.x.y.1  --- WRITE, READ, SEND --->  127.x.y.2  child
 *
 * In the place of ctx.c there are a few lines that post to the HCA and take its completions.
 *
 *	wire [uring|epoll] [tap] [alone] [FAULTS]
 *
 * tap: packets are looked at one by one, and each must be what it should.  alone: one process, whose QP is connected to
 * itself, so that nothing goes by UDP.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ev.h>

#include "daemon/base/clock.h"
#include "daemon/shard/ctx.h"
#include "daemon/control/gid.h"
#include "daemon/shard/drain.h"
#include "daemon/shard/publish.h"
#include "daemon/base/conf.h"
#include "daemon/base/profile.h"
#include "daemon/control/impair.h"
#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "daemon/shard/inbox.h"
#include "daemon/shard/thread.h"
#include "daemon/shard/tap.h"
#include "proto/hca.h"
#include "proto/icrc.h"

#define HALF      (4u << 20) /* what is sent; behind it, what is received */
#define ROUNDS    60u
#define DEPTH     8u /* messages on the way */
#define GIVE_UP_S 100u
#define SKIP      77

struct party { /* what the other one must know */
	uint32_t qpn, key;
	uint64_t addr;
	uint8_t gid[16];
};

static struct party me, you;
static bool parent, tapped, alone;
static uint8_t *mem;
static uint32_t qpn, key;
static unsigned posted, done, got; /* the shard's thread; got: receives */
static bool running;
static int finished[2]; /* a pipe: the parent's last message is done */
static struct region *region;
static struct peer self;

struct device devices[DEVICES_MAX];
unsigned devices_n = 1;
struct device_conf device_conf[DEVICES_MAX];

static void die(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", parent ? "parent" : "child", what);
	exit(1);
}

static void must(int err, const char *what)
{
	if (err) {
		errno = err;
		perror(what);
		die("cannot go on");
	}
}

static uint8_t pattern(uint64_t i, bool of_parent) { return (uint8_t)(i * 7 + (i >> 9) + (of_parent ? 0 : 101)); }

/* ---- in the place of ctx.c ------------------------------------------------ */

/* Message n: both sides know its kind, place and length without asking. */
struct message {
	uint8_t op;
	uint32_t off, len;
};

static struct message message(unsigned n)
{
	static const uint8_t op[] = { WR_WRITE, WR_READ, WR_SEND };
	uint32_t room = HALF / ROUNDS;
	uint64_t x = (n + 1) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	return (struct message){ op[n % 3], n * room, n % 7 == 3 ? (uint32_t)(x % 65) : 1 + (uint32_t)(x % room) };
}

static void send_post(struct shard *s, unsigned n, mono_t now)
{
	struct message m = message(n);
	struct {
		struct send_wr wr;
		struct sge sge;
	} w = {
		.wr = { .wr_id = n,
			.op = m.op,
			.flags = WR_SIGNALED,
			.sge_n = 1,
			.remote_addr = you.addr + m.off,
			.rkey = you.key },
		.sge = { (uintptr_t)mem + m.off, m.len, key },
	};

	if (m.op == WR_READ)
		w.sge.addr += HALF;
	else
		w.wr.remote_addr += HALF;
	must(hca_post_send(s->hca[0], qpn, &w.wr, now), "post");
}

bool ctx_drain(struct shard *s, unsigned *sends, mono_t now)
{
	for (*sends = 0; running && posted < ROUNDS && posted - done < DEPTH; ++*sends)
		send_post(s, posted++, now);
	return *sends;
}

void ctx_drain_recvs(struct shard *, mono_t) {}

bool ctx_publish(struct shard *s, mono_t)
{
	struct hca_event ev[8];
	struct cqe c[32];
	unsigned n = hca_completions(s->hca[0], c, 32);

	for (unsigned i = 0; i < n; i++) {
		if (c[i].status != WC_SUCCESS) {
			fprintf(stderr, "wire: message %u: status %u\n", (unsigned)c[i].wr_id, c[i].status);
			die("a message failed");
		}
		if (c[i].is_send && c[i].wr_id != done)
			die("completions out of order");
		*(c[i].is_send ? &done : &got) += 1;
		if (parent && done == ROUNDS && write(finished[1], "", 1) != 1)
			die("pipe");
	}
	while (hca_events(s->hca[0], ev, 8))
		;
	return n;
}

struct obj *obj_find(const struct shard *, enum obj_kind, unsigned, uint32_t) { return NULL; }
struct obj *obj_get(const struct ctx *, enum obj_kind, uint32_t) { return NULL; }
mono_t ctx_deadline(const struct shard *) { return MONO_NEVER; }
bool ctx_pending(const struct shard *) { return false; }
bool ctx_any_rung(const struct shard *) { return false; }
void ctx_sleep(struct shard *s) { (void)s; }
bool ctx_wake(struct shard *s)
{
	(void)s;
	return false;
}
void ctx_core(struct shard *s) { (void)s; }
void objs_end(struct shard *s) { (void)s; }

/* ---- objects ---------------------------------------------------------------- */

static void objects_make(struct shard *s, void *arg)
{
	struct hca *h = s->hca[0];
	struct qp_init q = { .type = QPT_RC, .cap = { ROUNDS, ROUNDS, 1, 1, 0 } };
	struct mr_attr mr = { .access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ,
			      .addr = (uintptr_t)mem,
			      .iova = (uintptr_t)mem,
			      .len = 2 * HALF };

	/* The parent's memory is reached by process_vm, the child's is mapped. */
	self = (struct peer){ .pid = getpid(), .mem_fd = -1 };
	must(region_new(&region, &self, (uintptr_t)mem, 2 * HALF, parent ? -1 : *(int *)arg,
			&(struct map_part){ (uintptr_t)mem, 2 * HALF, 0 }),
	     "region");
	must(hca_pd_alloc(h, &q.pdn), "pd");
	must(hca_cq_create(h, 4 * ROUNDS, &q.send_cqn), "cq");
	q.recv_cqn = q.send_cqn;
	must(hca_qp_create(h, &q, &qpn), "qp");
	mr.pdn = q.pdn;
	mr.region = region;
	must(hca_mr_reg(h, &mr, &key), "mr");
	me = (struct party){ qpn, key, (uintptr_t)mem, { 0 } };
	memcpy(me.gid, devices[0].gid[1].gid, 16);
}

static void connect_qp(struct shard *s, void *)
{
	mono_t now = clock_now();
	struct qp_attr a = { .state = QPS_INIT, .port = 1, .access = ACC_REMOTE_WRITE | ACC_REMOTE_READ };

	must(hca_qp_modify(s->hca[0], qpn, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, now), "INIT");
	for (unsigned n = 0; (!parent || alone) && n < ROUNDS; n++) {
		struct message m = message(n);
		struct {
			struct recv_wr wr;
			struct sge sge;
		} w = {
			{ n, 1, 0 },
			{ (uintptr_t)mem + HALF + m.off, m.len, key },
		};

		if (m.op == WR_SEND)
			must(hca_post_recv(s->hca[0], qpn, &w.wr, now), "post receive");
	}
	a = (struct qp_attr){ .state = QPS_RTR,
			      .av = { .sgid_index = 1, .hop_limit = 64 },
			      .path_mtu = 3,
			      .dest_qpn = you.qpn,
			      .rq_psn = 0xfffff0,
			      .max_dest_rd_atomic = 4,
			      .min_rnr_timer = 1 };
	memcpy(a.av.dgid, you.gid, 16);
	must(hca_qp_modify(s->hca[0], qpn, &a,
			   QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
				   QPA_MIN_RNR_TIMER,
			   now),
	     "RTR");
	a = (struct qp_attr){
		.state = QPS_RTS, .sq_psn = 0xfffff0, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4
	};
	must(hca_qp_modify(s->hca[0], qpn, &a,
			   QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC,
			   now),
	     "RTS");
}

static void begin(struct shard *, void *) { running = true; }

/* ---- the tap ------------------------------------------------------------------ */

static unsigned long seen[2], bytes_seen[2];

static void tap_look(struct tap_listener *, struct tap_pkt *p, const struct tap_fate *fate)
{
	static uint8_t odd;
	static struct icrc_rx rx;
	struct icrc_flow flow;
	struct burst b = { 0 };
	struct span span;
	uint16_t id;

	if (!rx.lo[0])
		icrc_rx_init(&rx);
	if (fate->dropped && !p->b && p->data && fate->comment)
		return; /* damaged on its way */
	if (p->bad && fate->comment)
		return; /* about to be */
	seen[p->dir]++;
	if (!p->b || p->local != alone || (p->dir == TAP_OUT && p->qpn != qpn))
		die("tap: a strange packet");
	if (p->local && p->dir == TAP_OUT && odd++ & 1)
		return; /* some stay spans */
	must(tap_bytes(p), "tap_bytes");
	icrc_flow_init(&flow, p->route->sgid, p->route->dgid, p->sport, 4791, true);
	if (!icrc_check(&rx, &flow, p->data, p->len, &id) || id)
		die("tap: the ICRC is not that of identification 0");
	if (burst_parse(&b, &span, p->data, p->len - 4) || !psn_eq(b.psn, p->b->psn) || b.dqpn != p->b->dqpn ||
	    b.payload_len != p->b->payload_len)
		die("tap: the bytes are not those of the packet");
	bytes_seen[p->dir] += b.payload_len;
}

static struct tap_listener look = { .devices = 1, .see = tap_look };

/* As many bytes were seen as there were sent, at least: some more than once, perhaps, or as responses. */
static void look_end(void)
{
	uint64_t sum = 0;

	for (unsigned n = 0; n < ROUNDS; n++)
		sum += message(n).len;
	tap_unlisten(&look);
	if (!seen[TAP_OUT] || bytes_seen[TAP_IN] + (alone ? 0 : bytes_seen[TAP_OUT]) < sum)
		die("tap: packets were not seen");
}

/* ---- two processes ------------------------------------------------------------ */

static void tell_and_hear(int fd, const void *tell, void *hear, size_t len)
{
	if (alone) {
		memcpy(hear, tell, len);
		return;
	}
	if (write(fd, tell, len) != (ssize_t)len || read(fd, hear, len) != (ssize_t)len)
		die("the other one is gone");
}

static void device_make(void)
{
	uint32_t id = (uint32_t)getpid();
	uint8_t gid[16] = { [10] = 0xff, 0xff, 127, (uint8_t)(0x40 | id >> 16), (uint8_t)(id >> 8), (uint8_t)id };

	/* Both from the parent's pid, so that tests side by side do not meet. */
	if (!parent) {
		id = (uint32_t)getppid();
		gid[13] = (uint8_t)(0x80 | id >> 16);
		gid[14] = (uint8_t)(id >> 8);
		gid[15] = (uint8_t)id;
	}
	snprintf(devices[0].name, sizeof(devices[0].name), "wire");
	devices[0].profile = profile_own();
	memcpy(&device_conf[0].addr[0], gid, 16);
	device_conf[0].addr_n = 1;
}

static void check(unsigned n)
{
	struct message m = message(n);
	bool here = m.op == WR_READ ? parent : !parent;

	here |= alone;
	for (uint32_t i = 0; here && i < m.len; i++) {
		if (mem[HALF + m.off + i] != pattern(m.off + i, alone || !parent)) {
			fprintf(stderr, "wire: message %u (op %u, %u bytes): byte %u is wrong\n", n, m.op, m.len, i);
			die("data differs");
		}
	}
}

static void run(int fd, enum io_kind kind)
{
	int memfd = memfd_create("wire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ev_loop *loop = ev_default_loop(0);
	char c;

	if (memfd < 0 || ftruncate(memfd, 2 * HALF) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("memfd");
	mem = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (mem == MAP_FAILED)
		die("mmap");
	for (uint32_t i = 0; i < HALF; i++)
		mem[i] = pattern(i, parent);
	device_make();
	shards_n = 1;
	must(shard_start(0, kind), "shard");
	impair_start(NULL, NULL);
	must(gid_start(loop, false), "addresses");
	if (!devices[0].gid[1].wire) {
		fprintf(stderr, "wire: UDP port 4791 is not to be had here\n");
		exit(SKIP);
	}
	shard_call(shards[0], objects_make, &memfd);
	tell_and_hear(fd, &me, &you, sizeof(me));
	shard_call(shards[0], connect_qp, NULL);
	if (tapped)
		must(tap_listen(&look), "tap_listen");
	tell_and_hear(fd, "c", &c, 1);

	alarm(GIVE_UP_S);
	if (parent) {
		shard_call(shards[0], begin, NULL);
		if (read(finished[0], &c, 1) != 1)
			die("pipe");
	}
	tell_and_hear(fd, "d", &c, 1);
	if (tapped)
		look_end();
	impair_stop(NULL);
	if (shards[0]->tap)
		die("tap: it is still there");
	shards_stop();
	gid_stop(loop);
	for (unsigned n = 0; n < ROUNDS; n++)
		check(n);
	if (!parent && got != ROUNDS / 3)
		die("messages are missing");
	region_free(region);
	tell_and_hear(fd, "k", &c, 1);
}

int main(int argc, char **argv)
{
	enum io_kind kind = argc > 1 && !strcmp(argv[1], "epoll") ? IO_EPOLL : IO_URING;
	const char *wrong = NULL;
	int sv[2], status = 1;
	pid_t pid;

	for (int i = 2; i < argc && !wrong; i++) {
		if (!strcmp(argv[i], "tap"))
			tapped = true;
		else if (!strcmp(argv[i], "alone"))
			alone = true;
		else
			wrong = impair_read(argv[i], NULL);
	}
	if (wrong) {
		fprintf(stderr, "wire: %s\n", wrong);
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) || pipe(finished))
		return 1;
	pid = alone ? getpid() : fork();
	parent = pid != 0;
	if (!parent)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(sv[parent]);
	run(sv[!parent], kind);
	if (parent && !alone && waitpid(pid, &status, 0) == pid && (!WIFEXITED(status) || WEXITSTATUS(status)))
		return 1;
	return 0;
}
