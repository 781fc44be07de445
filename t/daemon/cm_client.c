/* SPDX-License-Identifier: MIT */
#include "cm_client.h"

#include <arpa/inet.h>
#include "t/suite.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- daemons ---------------------------------------------------------------------- */

/* Children have the addresses of the process that the test is. */
static void addr_name(unsigned device, char *text, size_t len)
{
	static unsigned pid;

	if (!pid)
		pid = (unsigned)getpid();
	snprintf(text, len, "127.%u.%u.%u", pid >> 8 & 0xff, pid & 0xff, device + 2);
}

union cmm_addr addr_text(const char *text, uint16_t port)
{
	union cmm_addr a = { 0 };

	if (inet_pton(AF_INET, text, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(port);
	} else {
		ck_assert_int_eq(inet_pton(AF_INET6, text, &a.in6.sin6_addr), 1);
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
	}
	return a;
}

union cmm_addr addr(unsigned device, uint16_t port)
{
	char text[32];

	addr_name(device, text, sizeof(text));
	return addr_text(text, port);
}

static int dial_to(const struct host *h)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(h->socket);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	memcpy(sa.sun_path, h->socket, len);
	sa.sun_path[0] = 0;
	if (!connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)))
		return fd;
	close(fd);
	return -1;
}

static void conf_write(const struct host *h, char *path)
{
	char text[32];
	int fd = mkstemp(path);
	FILE *f;

	ck_assert_int_ge(fd, 0);
	f = fdopen(fd, "w");
	for (unsigned i = 0; i < h->n; i++) {
		addr_name(h->first + i, text, sizeof(text));
		fprintf(f, "device n%u { addresses = { \"%s\" } }\n", h->first + i, text);
	}
	fclose(f);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void host_start(struct host *h, unsigned first, unsigned n)
{
	const char *bin = getenv("RDMAD_BIN");
	char conf[] = "/tmp/rdmad-t-cm.XXXXXX";
	double end = seconds() + 30;
	int fd;

	h->first = first;
	h->n = n;
	snprintf(h->socket, sizeof(h->socket), "@rdmad-t-cm.%d.%u", (int)getpid(), first);
	conf_write(h, conf);
	h->pid = fork();
	ck_assert_int_ge(h->pid, 0);
	if (!h->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(bin ? bin : "./rdmad", "rdmad", "--socket", h->socket, "--config", conf, "--log-level", "error",
		      (char *)NULL);
		_exit(127);
	}
	while ((fd = dial_to(h)) < 0) {
		struct timespec ts = { .tv_nsec = 1000000 };

		ck_assert_msg(seconds() < end && waitpid(h->pid, NULL, WNOHANG) == 0, "rdmad does not start");
		nanosleep(&ts, NULL);
	}
	close(fd);
	unlink(conf);
}

void host_stop(struct host *h)
{
	int status = 0;

	ck_assert_msg(waitpid(h->pid, &status, WNOHANG) == 0, "rdmad ended by itself: status %#x", status);
	kill(h->pid, SIGTERM);
	ck_assert_int_eq(waitpid(h->pid, &status, 0), h->pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rdmad: status %#x", status);
}

/* ---- talking ------------------------------------------------------------------------ */

#define FDS 4 /* with one reply */

/* got: the first descriptor of the reply, or -1; more of them are closed. */
static void exchange(int fd, const void *req, size_t len, void *rep, size_t rep_len, int *got)
{
	struct iovec iov = { .iov_base = rep, .iov_len = rep_len };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;

	ck_assert_int_eq(send(fd, req, len, MSG_NOSIGNAL), (ssize_t)len);
	ck_assert_int_eq(recvmsg(fd, &mh, MSG_CMSG_CLOEXEC), (ssize_t)rep_len);
	ck_assert_msg(!(mh.msg_flags & MSG_CTRUNC), "the kernel had no descriptor for what came: flags %#x",
		      mh.msg_flags);
	*got = -1;
	cm = CMSG_FIRSTHDR(&mh);
	if (!cm)
		return;
	memcpy(got, CMSG_DATA(cm), sizeof(int));
	for (size_t i = 1; i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
		int more;

		memcpy(&more, CMSG_DATA(cm) + i * sizeof(int), sizeof(more));
		close(more);
	}
}

static void hello(int fd)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .prog = "cm" } };
	struct msg_rep rep;
	int got;

	exchange(fd, &req, msg_req_len(req.op), &rep, sizeof(rep), &got);
	ck_assert_int_eq(rep.err, 0);
}

int verbs_open(const struct host *h)
{
	int fd = dial_to(h);

	ck_assert_int_ge(fd, 0);
	hello(fd);
	return fd;
}

int verbs_call(int fd, struct msg_req *req, struct msg_rep *rep)
{
	int got;

	exchange(fd, req, msg_req_len(req->op), rep, sizeof(*rep), &got);
	if (got >= 0)
		close(got);
	return rep->err;
}

long host_stat(const struct host *h, const char *group, const char *name)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = DUMP_STATS };
	int fd = dial_to(h), got;
	struct msg_rep rep;
	json_t *j, *v;
	FILE *f;
	long n;

	hello(fd);
	exchange(fd, &req, msg_req_len(req.op), &rep, sizeof(rep), &got);
	ck_assert_int_eq(rep.err, 0);
	f = fdopen(got, "r");
	ck_assert_msg(f != NULL, "fd %d: %s", got, strerror(errno));
	j = json_loadf(f, 0, NULL);
	v = json_object_get(json_object_get(json_object_get(j, "daemon"), group), name);
	ck_assert_msg(json_is_integer(v), "stats have no %s.%s", group, name);
	n = (long)json_integer_value(v);
	json_decref(j);
	fclose(f);
	close(fd);
	return n;
}

void chan_open(struct chan *c, const struct host *h)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;

	c->fd = dial_to(h);
	ck_assert_int_ge(c->fd, 0);
	hello(c->fd);
	exchange(c->fd, &req, cmm_req_len(req.op), &rep, sizeof(rep), &c->event);
	ck_assert_int_eq(rep.err, 0);
	ck_assert_int_ge(c->event, 0);
	c->key = rep.open.key;
}

void chan_close(struct chan *c)
{
	close(c->fd);
	close(c->event);
}

int chan_call(struct chan *c, struct cmm_req *req, struct cmm_rep *rep)
{
	struct cmm_rep own;
	int got;

	if (!rep)
		rep = &own;
	req->seq++;
	exchange(c->fd, req, cmm_req_len(req->op), rep, sizeof(*rep), &got);
	ck_assert_uint_eq(rep->op, req->op);
	ck_assert_uint_eq(rep->seq, req->seq);
	ck_assert_int_lt(got, 0);
	cmm_over_take(c->event, rep);
	return rep->err;
}

static bool readable(const struct chan *c, int ms)
{
	struct pollfd p = { .fd = c->event, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

bool chan_ready(const struct chan *c) { return readable(c, 10000); }

struct cmm_event chan_event(struct chan *c, enum rdma_cm_event_type type, int status)
{
	struct cmm_req req = { .op = CMM_GET_EVENT };
	struct cmm_rep rep;

	ck_assert_msg(readable(c, 10000), "no event in 10 s; %d was expected", type);
	ck_assert_int_eq(chan_call(c, &req, &rep), 0);
	ck_assert_msg(rep.event.type == type && rep.event.status == status,
		      "event %u status %d instead of %d status %d", rep.event.type, rep.event.status, type, status);
	if (rep.event
		    .left) /* the other way round: one may have come since, and chan_quiet() sees what stays readable */
		ck_assert(readable(c, 0));
	return rep.event;
}

bool chan_quiet(struct chan *c)
{
	struct cmm_req req = { .op = CMM_GET_EVENT };

	return !readable(c, 0) && chan_call(c, &req, NULL) == EAGAIN;
}

/* ---- ids -------------------------------------------------------------------------------- */

uint32_t id_new(struct chan *c, enum rdma_port_space ps, uint64_t cookie)
{
	struct cmm_req req = { .op = CMM_CREATE_ID, .create = { .cookie = cookie, .ps = ps, .qp_type = QPT_RC } };
	struct cmm_rep rep;

	ck_assert_int_eq(chan_call(c, &req, &rep), 0);
	ck_assert_uint_ne(rep.create.id, 0);
	return rep.create.id;
}

int id_bind(struct chan *c, uint32_t id, union cmm_addr a)
{
	struct cmm_req req = { .op = CMM_BIND, .id = id, .bind.addr = a };
	struct cmm_rep rep;
	int err = chan_call(c, &req, &rep);

	if (!err)
		ck_assert_uint_ne(rep.info.src.in.sin_port, 0);
	return err;
}

int id_op(struct chan *c, enum cmm_op op, uint32_t id)
{
	struct cmm_req req = { .op = op, .id = id };

	return chan_call(c, &req, NULL);
}

void id_destroy(struct chan *c, uint32_t id) { ck_assert_int_eq(id_op(c, CMM_DESTROY_ID, id), 0); }

uint32_t id_listen(struct chan *c, union cmm_addr a, uint64_t cookie, enum rdma_port_space ps, uint32_t backlog)
{
	uint32_t id = id_new(c, ps, cookie);
	struct cmm_req req = { .op = CMM_LISTEN, .id = id, .listen.backlog = backlog };

	ck_assert_int_eq(id_bind(c, id, a), 0);
	ck_assert_int_eq(chan_call(c, &req, NULL), 0);
	return id;
}

uint32_t id_resolve(struct chan *c, union cmm_addr to, uint64_t cookie, enum rdma_port_space ps)
{
	uint32_t id = id_new(c, ps, cookie);
	struct cmm_req req = { .op = CMM_RESOLVE_ADDR, .id = id, .resolve = { .dst = to, .timeout_ms = 2000 } };
	struct cmm_req route = { .op = CMM_RESOLVE_ROUTE, .id = id, .route.timeout_ms = 2000 };
	struct cmm_event ev;

	ck_assert_int_eq(chan_call(c, &req, NULL), 0);
	ev = chan_event(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_uint_eq(ev.cookie, cookie);
	ck_assert_int_eq(chan_call(c, &route, NULL), 0);
	ev = chan_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(ev.info.paths, 1);
	return id;
}

int id_option(struct chan *c, uint32_t id, int name, int value)
{
	bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
	struct cmm_req req = {
		.op = CMM_SET_OPTION,
		.id = id,
		.option = { .level = RDMA_OPTION_ID, .name = (uint32_t)name, .len = byte ? 1 : sizeof(int) }
	};

	if (byte)
		req.option.value[0] = (uint8_t)value;
	else
		memcpy(req.option.value, &value, sizeof(value));
	return chan_call(c, &req, NULL);
}

static void conn_fill(struct cmm_conn *c, uint32_t qpn, const char *data)
{
	c->qp_num = qpn;
	c->responder_resources = 3;
	c->initiator_depth = 5;
	c->retry_count = 6;
	c->rnr_retry_count = 7;
	c->data_len = (uint8_t)strlen(data);
	memcpy(c->data, data, strlen(data));
}

int id_connect(struct chan *c, uint32_t id, uint32_t qpn, const char *data)
{
	struct cmm_req req = { .op = CMM_CONNECT, .id = id };

	conn_fill(&req.conn.conn, qpn, data);
	return chan_call(c, &req, NULL);
}

int id_accept(struct chan *c, uint32_t id, uint64_t cookie, uint32_t qpn, const char *data)
{
	struct cmm_req req = { .op = CMM_ACCEPT, .id = id, .conn.cookie = cookie };

	conn_fill(&req.conn.conn, qpn, data);
	req.conn.conn.responder_resources = req.conn.conn.initiator_depth = 255;
	return chan_call(c, &req, NULL);
}

int id_reject(struct chan *c, uint32_t id, const char *data)
{
	struct cmm_req req = { .op = CMM_REJECT, .id = id, .reject.data_len = (uint8_t)strlen(data) };

	memcpy(req.reject.data, data, strlen(data));
	return chan_call(c, &req, NULL);
}

struct cmm_rep id_qp(struct chan *c, uint32_t id, uint8_t state)
{
	struct cmm_req req = { .op = CMM_INIT_QP_ATTR, .id = id, .qp.state = state };
	struct cmm_rep rep;

	ck_assert_int_eq(chan_call(c, &req, &rep), 0);
	ck_assert_uint_eq(rep.qp.attr.state, state);
	return rep;
}
