/* SPDX-License-Identifier: MIT */
#include "client.h"

#include "t/nap.h"
#include "t/suite.h"
#include "t/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

static pid_t daemon_pid;
static int observer = -1;
static struct counts at_start;
static char socket_name[64];

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void pause_ms(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

/* ---- connection -------------------------------------------------------------------- */

int dial_once(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(socket_name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(sa.sun_path, socket_name, len);
	sa.sun_path[0] = 0;
	if (!connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)))
		return fd;
	close(fd);
	return -1;
}

int dial(void)
{
	int fd = dial_once();

	ck_assert_msg(fd >= 0, "the daemon does not take connections: %s", strerror(errno));
	return fd;
}

bool say(int fd, const void *req, size_t len, const int *fds, unsigned fd_n, int flags)
{
	struct iovec iov = { .iov_base = (void *)req, .iov_len = len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(16 * sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	if (fd_n) {
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(fd_n * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		*cm = (struct cmsghdr){ CMSG_LEN(fd_n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(cm), fds, fd_n * sizeof(int));
	}
	return sendmsg(fd, &mh, MSG_NOSIGNAL | flags) == (ssize_t)len;
}

bool hear(int fd, struct msg_rep *rep, int *fds)
{
	struct iovec iov = { .iov_base = rep, .iov_len = sizeof(*rep) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(3 * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;
	ssize_t n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);

	for (unsigned i = 0; i < CALL_FDS; i++)
		fds[i] = -1;
	if (n <= 0)
		return false;
	ck_assert_int_eq(n, sizeof(*rep));
	cm = CMSG_FIRSTHDR(&mh);
	if (cm)
		memcpy(fds, CMSG_DATA(cm), cm->cmsg_len - CMSG_LEN(0));
	return true;
}

int call(int fd, struct msg_req *req, struct msg_rep *rep, int *fds)
{
	int got[CALL_FDS];

	ck_assert(say(fd, req, msg_req_len(req->op), NULL, 0, 0));
	ck_assert_msg(hear(fd, rep, got), "op %u: the daemon closed the connection", req->op);
	ck_assert_uint_eq(rep->op, req->op);
	ck_assert_uint_eq(rep->seq, req->seq);
	for (unsigned i = 0; i < CALL_FDS; i++) {
		if (fds)
			fds[i] = got[i];
		else if (got[i] >= 0)
			close(got[i]);
	}
	return rep->err;
}

int hail(void)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .prog = "hostile" } };
	struct msg_rep rep;
	int fd = dial();

	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	ck_assert_uint_eq(rep.hello.abi, RDMAD_ABI);
	return fd;
}

/* ---- daemon ---------------------------------------------------------------------------- */

static bool id_map(const char *path, unsigned id)
{
	FILE *f = fopen(path, "w");

	return f && fprintf(f, "%u %u 1", id, id) > 0 && fclose(f) == 0;
}

bool own_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	unsigned uid = getuid(), gid = getgid();
	bool up;
	int fd;

	if (unshare(CLONE_NEWNET)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			return false;
		fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
		up = fd >= 0 && write(fd, "deny", 4) == 4 && id_map("/proc/self/uid_map", uid) &&
		     id_map("/proc/self/gid_map", gid);
		close(fd);
		ck_assert(up);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	up = ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
	close(fd);
	return up;
}

/*
 * A daemon of another test may have the port, and leave it at any moment: then this one opens its sockets, and what it has
 * cannot be counted.
 */
void daemon_start(void)
{
	own_network();
	daemon_start_with(NULL);
}

void daemon_start_with(const char *option)
{
	const char *bin = getenv("RDMAD_BIN");
	double end = seconds() + 30;
	int fd;

	snprintf(socket_name, sizeof(socket_name), "@rdmad-t-ctl.%d", (int)getpid());
	daemon_pid = fork();
	ck_assert_int_ge(daemon_pid, 0);
	if (!daemon_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(bin ? bin : "./rdmad", "rdmad", "--socket", socket_name, "--log-level", "error", option,
		      (char *)NULL);
		_exit(127);
	}
	while ((fd = dial_once()) < 0) {
		ck_assert_msg(seconds() < end && waitpid(daemon_pid, NULL, WNOHANG) == 0, "rdmad does not start");
		pause_ms();
	}
	close(fd);
	observer = hail();
	if (option && !strcmp(option, "--private")) /* it would end when nobody uses it for half a second */
		call(observer, &(struct msg_req){ .op = MSG_HOLD }, &(struct msg_rep){ 0 }, NULL);
	/* The probe's session ends soon; only then is it quiet. */
	do
		at_start = daemon_counts();
	while (at_start.sessions != 1 && seconds() < end);
	ck_assert_int_eq(at_start.sessions, 1);
}

void daemon_stop(void)
{
	int status = 0;

	ck_assert_msg(waitpid(daemon_pid, &status, WNOHANG) == 0, "rdmad ended by itself: status %#x", status);
	close(observer);
	kill(daemon_pid, SIGTERM);
	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rdmad: status %#x", status);
}

static long sum(const json_t *devices, const char *name)
{
	long n = 0;
	size_t i;
	json_t *d;

	json_array_foreach(devices, i, d)
	{
		json_t *v = json_object_get(json_object_get(d, "objects"), name);

		ck_assert(json_is_integer(v));
		n += (long)json_integer_value(v);
	}
	return n;
}

json_t *dump_read(int fd)
{
	FILE *f = fdopen(fd, "r");
	json_error_t err;
	json_t *j = f ? json_loadf(f, 0, &err) : NULL;

	ck_assert_msg(j != NULL, "%s", f ? err.text : strerror(errno));
	fclose(f);
	return j;
}

json_t *dump_of(int fd, uint32_t what, uint32_t qpn)
{
	struct msg_req req = { .op = MSG_DUMP, .dump = { .what = what, .qpn = qpn } };
	struct msg_rep rep;
	int fds[CALL_FDS];

	ck_assert_int_eq(call(fd, &req, &rep, fds), 0);
	return dump_read(fds[0]);
}

struct counts daemon_counts(void)
{
	json_t *j = dump(observer, DUMP_STATS), *d = json_object_get(j, "devices"), *own = json_object_get(j, "daemon");
	json_t *u = dump(observer, DUMP_USERS);
	struct counts n = {
		.contexts = sum(d, "contexts"),
		.pds = sum(d, "pds"),
		.mrs = sum(d, "mrs"),
		.cqs = sum(d, "cqs"),
		.srqs = sum(d, "srqs"),
		.qps = sum(d, "qps"),
		.channels = sum(d, "channels"),
		.sessions = (long)json_integer_value(json_object_get(own, "sessions")),
		.fds = (long)json_integer_value(json_object_get(own, "fds")),
		.maps = (long)json_integer_value(json_object_get(own, "shared_maps")),
		.users = (long)json_array_size(json_object_get(u, "users")),
	};

	json_decref(u);
	json_decref(j);
	return n;
}

long daemon_heap(void)
{
	json_t *j = dump(observer, DUMP_STATS);
	long n = (long)json_integer_value(json_object_get(json_object_get(j, "daemon"), "heap_bytes"));

	json_decref(j);
	return n;
}

long user_has(int fd, uid_t uid, const char *part, const char *key)
{
	json_t *j = dump(fd < 0 ? observer : fd, DUMP_USERS), *u;
	long n = -1;
	size_t i;

	json_array_foreach(json_object_get(j, "users"), i, u)
	{
		if (json_integer_value(json_object_get(u, "uid")) == (json_int_t)uid)
			n = (long)json_integer_value(json_object_get(json_object_get(u, part), key));
	}
	json_decref(j);
	return n;
}

pid_t daemon_process(void) { return daemon_pid; }
const char *daemon_socket(void) { return socket_name; }

/* The first that the observer is still charged with when it should be with nothing; or NULL. */
static const char *users_left(long *n)
{
	static const char *const none[] = { "mappings", "mapped-mib", "queue-mib", "qps",   "cqs",
					    "mrs",      "pds",        "mws",       "xrcds", "cm-ids",
					    "cm-ports", "groups",     "raw-qps" };

	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++) {
		*n = user_has(-1, getuid(), "use", none[i]);
		if (*n)
			return none[i];
	}
	return NULL;
}

void daemon_clean(void)
{
	double end = seconds() + 20;
	const char *what;
	struct counts n;
	long left = 0;

	do {
		n = daemon_counts();
		what = users_left(&left); /* a mapping's charge ends after it, and in another thread */
	} while ((what || memcmp(&n, &at_start, sizeof(n))) && seconds() < end);
	ck_assert_int_eq(n.contexts + n.pds + n.mrs + n.cqs + n.srqs + n.qps + n.channels, 0);
	if (n.sessions + n.users != at_start.sessions + 1)
		ck_abort_msg("%ld sessions, %s", n.sessions, json_dumps(dump(observer, DUMP_USERS), JSON_COMPACT));
	ck_assert_int_eq(n.fds, at_start.fds);
	ck_assert_int_eq(n.maps, at_start.maps);
	ck_assert_msg(!what, "%s: %ld are left", what, left);
	ck_assert_int_eq(user_has(-1, getuid(), "use", "sessions"), 1);
	ck_assert_int_eq(user_has(-1, getuid(), "use", "heap-mib"), 1);
}

/* ---- context ------------------------------------------------------------------------------ */

static void *map_fd(struct cx *c, int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ck_assert_msg(p != MAP_FAILED, "mmap: %s", strerror(errno));
	ck_assert_uint_lt(c->map_n, CX_MAPS);
	close(fd);
	c->map[c->map_n].p = p;
	c->map[c->map_n++].len = len;
	return p;
}

uint8_t *cx_mem(struct cx *c, const struct msg_mem *m, int fd)
{
	unsigned i = 0;

	ck_assert_uint_ne(m->slab, 0);
	if (fd >= 0) {
		map_fd(c, fd, m->all);
		c->map[c->map_n - 1].slab = m->slab;
	}
	while (i < c->map_n && c->map[i].slab != m->slab)
		i++;
	ck_assert_uint_lt(i, c->map_n);
	return (uint8_t *)c->map[i].p + m->off;
}

static void must(int fd, struct msg_req *req, struct msg_rep *rep, int *fds)
{
	int err = call(fd, req, rep, fds);

	ck_assert_msg(!err, "op %u: %s", req->op, strerror(err));
}

static void cx_queues(struct cx *c, uint32_t qp_type)
{
	struct msg_req req = { .op = MSG_CQ_CREATE, .cq = { .cqe = 256, .channel = c->channel, .cookie = 7 } };
	struct msg_rep rep;
	int fds[CALL_FDS];
	uint8_t *mem;

	must(c->fd, &req, &rep, fds);
	c->cq = rep.cq.handle;
	ring_attach(&c->cq_ring, cx_mem(c, &rep.cq.mem, fds[0]), rep.cq.slots, rep.cq.stride);
	req = (struct msg_req){ .op = MSG_SRQ_CREATE, .srq = { .pd = c->pd, .max_wr = 16, .max_sge = 1, .cookie = 8 } };
	must(c->fd, &req, &rep, fds);
	c->srq = rep.srq.handle;
	c->srq_bell = rep.srq.bell;
	ring_attach(&c->srq_ring, cx_mem(c, &rep.srq.mem, fds[0]), rep.srq.slots, rep.srq.stride);
	req = (struct msg_req){ .op = MSG_QP_CREATE,
				.qp = { .pd = c->pd,
					.send_cq = c->cq,
					.recv_cq = c->cq,
					.cap = { 64, 64, 4, 4, 64 },
					.type = qp_type,
					.sq_sig_all = 1,
					.cookie = 9 } };
	must(c->fd, &req, &rep, fds);
	c->qpn = rep.qp.qpn;
	c->qp_bell = rep.qp.bell;
	c->sq_stride = rep.qp.sq_stride;
	mem = cx_mem(c, &rep.qp.mem, fds[0]);
	ring_attach(&c->sq, mem, rep.qp.sq_slots, rep.qp.sq_stride);
	ring_attach(&c->rq, mem + rep.qp.rq_off, rep.qp.rq_slots, rep.qp.rq_stride);
}

void cx_open(struct cx *c) { cx_open_type(c, QPT_RC); }

void cx_open_type(struct cx *c, uint32_t qp_type)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	int fds[CALL_FDS], mem;

	memset(c, 0, sizeof(*c));
	c->fd = hail();
	must(c->fd, &req, &rep, NULL);
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(mem, 0);
	ck_assert(say(c->fd, &req, msg_req_len(req.op), &mem, 1, 0));
	close(mem);
	ck_assert(hear(c->fd, &rep, fds));
	ck_assert_int_eq(rep.err, 0);
	c->bell = map_fd(c, fds[0], rep.open.bell_len);
	c->kick = fds[1];
	c->event = fds[2];
	close(fds[3]); /* the token: nobody joins */
	req = (struct msg_req){ .op = MSG_PD_ALLOC };
	must(c->fd, &req, &rep, NULL);
	c->pd = rep.obj.handle;
	c->buf = mmap(NULL, CX_BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(c->buf != MAP_FAILED);
	req = (struct msg_req){ .op = MSG_MR_REG,
				.mr = { .pd = c->pd,
					.access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ,
					.addr = (uintptr_t)c->buf,
					.len = CX_BUF,
					.iova = (uintptr_t)c->buf } };
	must(c->fd, &req, &rep, NULL);
	c->mr = rep.obj.handle;
	c->key = rep.obj.lkey;
	req = (struct msg_req){ .op = MSG_CHANNEL_CREATE };
	must(c->fd, &req, &rep, fds);
	c->channel = rep.obj.handle;
	c->channel_fd = fds[0];
	cx_queues(c, qp_type);
}

static int cx_modify(struct cx *c, const struct qp_attr *a, uint32_t mask)
{
	struct msg_req req = { .op = MSG_QP_MODIFY, .qp_mod = { .qpn = c->qpn, .mask = mask, .attr = *a } };
	struct msg_rep rep;

	return call(c->fd, &req, &rep, NULL);
}

int cx_state(struct cx *c, uint8_t state) { return cx_modify(c, &(struct qp_attr){ .state = state }, QPA_STATE); }

static void gid_get(struct cx *c, uint32_t row, uint8_t gid[16])
{
	struct msg_req req = { .op = MSG_QUERY_GID, .gid = { .port = 1, .index = row } };
	struct msg_rep rep;

	must(c->fd, &req, &rep, NULL);
	memcpy(gid, rep.gid.gid, 16);
}

void cx_connect_way(struct cx *c, uint32_t dest_qpn, const struct cx_way *way)
{
	struct qp_attr a = {
		.state = QPS_INIT,
		.port = 1,
		.access = ACC_REMOTE_WRITE | ACC_REMOTE_READ,
		.dest_qpn = dest_qpn,
		.path_mtu = 3,
		.rq_psn = way->rq_psn,
		.sq_psn = way->sq_psn,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	uint8_t gid[16];

	for (gid_get(c, 0, gid); memcmp(gid, way->sgid, 16); gid_get(c, a.av.sgid_index, gid))
		a.av.sgid_index++;
	memcpy(a.av.dgid, way->dgid, 16);
	ck_assert_int_eq(cx_modify(c, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS), 0);
	a.state = QPS_RTR;
	ck_assert_int_eq(cx_modify(c, &a,
				   QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
					   QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER),
			 0);
	a.state = QPS_RTS;
	ck_assert_int_eq(
		cx_modify(c, &a,
			  QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_QP_RD_ATOMIC),
		0);
}

void cx_connect(struct cx *c, const struct cx *peer)
{
	struct cx_way way = { .rq_psn = 1, .sq_psn = 1 };

	gid_get(c, 0, way.sgid);
	gid_get(c, 0, way.dgid);
	cx_connect_way(c, peer->qpn, &way);
}

void cx_kick(struct cx *c)
{
	uint64_t one = 1;

	syscall(SYS_futex, &c->bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
	ck_assert_int_eq(write(c->kick, &one, sizeof(one)), sizeof(one));
}

void cx_ring(struct cx *c, uint32_t bell)
{
	uint32_t answer = bell_ring(c->bell, bell);

	if (answer)
		cx_kick(c);
	bell_kicked(c->bell, answer);
}

void cx_recv(struct cx *c, uint64_t wr_id, uint32_t off, uint32_t len)
{
	cx_recv_put(c, wr_id, off, len);
	cx_ring(c, c->qp_bell);
}

void cx_send(struct cx *c, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct send_wr *wr = ring_slot(&c->sq, c->sq.pos);

	*wr = (struct send_wr){ .wr_id = wr_id, .op = WR_SEND, .flags = WR_SIGNALED, .sge_n = 1 };
	*(struct sge *)(wr + 1) = (struct sge){ (uintptr_t)c->buf + off, len, c->key };
	ring_publish(&c->sq, 1);
	cx_ring(c, c->qp_bell);
}

bool cx_poll(struct cx *c, struct cqe *e)
{
	double end = seconds() + PATIENCE_MS / 1e3;
	unsigned empty_n = 0;

	while (!ring_used(&c->cq_ring)) {
		if (seconds() > end)
			return false;
		turn_away();
		nap(&empty_n);
	}
	memcpy(e, ring_slot(&c->cq_ring, c->cq_ring.pos), sizeof(*e));
	ring_consume(&c->cq_ring, 1);
	return true;
}

void cx_ping(struct cx *c)
{
	struct cqe e;

	memset(c->buf, 0, 64);
	memcpy(c->buf + 1024, "ping", 5);
	cx_recv(c, 1, 0, 64);
	cx_send(c, 2, 1024, 5);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_msg(cx_poll(c, &e), "no completion");
		ck_assert_uint_eq(e.status, WC_SUCCESS);
		ck_assert_uint_eq(e.qpn, c->qpn);
	}
	ck_assert_str_eq((char *)c->buf, "ping");
}

void cx_close(struct cx *c)
{
	close(c->fd);
	close(c->kick);
	close(c->event);
	close(c->channel_fd);
	while (c->map_n) {
		c->map_n--;
		munmap(c->map[c->map_n].p, c->map[c->map_n].len);
	}
}
