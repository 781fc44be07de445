/* SPDX-License-Identifier: MIT */
/*
 * hostile_msg.c - clients that send nonsense over the control socket.  The daemon answers EINVAL (or ends that
 * connection), serves everyone else, and has nothing left of them afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "t/suite.h"

#define RESTS 8u

static int say_hear(int fd, const void *req, size_t len)
{
	struct msg_rep rep;
	int fds[CALL_FDS];

	ck_assert(say(fd, req, len, NULL, 0, 0));
	ck_assert_msg(hear(fd, &rep, fds), "%zu bytes: the connection was closed", len);
	for (unsigned i = 0; i < CALL_FDS; i++)
		ck_assert_int_eq(fds[i], -1);
	return rep.err;
}

START_TEST(lengths)
{
	struct {
		struct msg_req req;
		uint8_t more[4096];
	} big = { 0 };
	struct cx c;
	int fd;

	daemon_start();
	cx_open(&c);
	fd = hail();
	for (uint32_t op = 0; op < MSG_OPS + 2; op++) {
		size_t len = msg_req_len(op);

		for (size_t n = 1; n < sizeof(struct msg_req) + 3; n++) {
			if (n == len && op != 0)
				continue;
			big.req.op = op;
			ck_assert_int_eq(say_hear(fd, &big, n), EINVAL);
			ck_assert_int_eq(say_hear(c.fd, &big, n), EINVAL);
		}
		ck_assert_int_eq(say_hear(c.fd, &big, sizeof(big)), EINVAL);
	}
	big.req.op = 0xffffffff;
	ck_assert_int_eq(say_hear(fd, &big, 8), EINVAL);
	close(fd);
	cx_connect(&c, &c);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

START_TEST(order)
{
	struct msg_req req = { .op = MSG_HELLO };
	struct msg_rep rep;
	struct cx c;
	int fd;

	daemon_start();
	fd = dial();
	for (uint32_t op = MSG_HOLD; op < MSG_OPS; op++) { /* before HELLO */
		req = (struct msg_req){ .op = op };
		ck_assert_int_eq(call(fd, &req, &rep, NULL), EINVAL);
	}
	req = (struct msg_req){ .op = MSG_HELLO, .hello.abi = RDMAD_ABI + 1 };
	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	ck_assert_uint_eq(rep.hello.abi, RDMAD_ABI);
	req = (struct msg_req){ .op = MSG_DEVICE_LIST }; /* another version is not served */
	ck_assert_int_eq(call(fd, &req, &rep, NULL), EINVAL);
	close(fd);
	fd = hail();
	for (uint32_t op = MSG_QUERY_DEVICE; op < MSG_DUMP; op++) { /* before OPEN */
		req = (struct msg_req){ .op = op };
		ck_assert_int_eq(call(fd, &req, &rep, NULL), EINVAL);
	}
	req = (struct msg_req){ .op = MSG_OPEN };
	memset(req.open.name, 'x', sizeof(req.open.name));
	ck_assert_int_eq(call(fd, &req, &rep, NULL), ENODEV);
	req = (struct msg_req){ .op = MSG_DUMP, .dump.what = 99 };
	ck_assert_int_eq(call(fd, &req, &rep, NULL), EINVAL);
	close(fd);
	cx_open(&c);
	req = (struct msg_req){ .op = MSG_DEVICE_LIST };
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EBUSY);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* A connection captures once, and does nothing else. */
START_TEST(captures)
{
	struct msg_req req = { .op = MSG_CAPTURE, .capture = { .devices = 1u << 31, .room = 1 } };
	struct msg_rep rep;
	int fds[4], fd;
	struct cx c;

	daemon_start();
	cx_open(&c);
	ck_assert_int_eq(call(c.fd, &req, &rep, fds), EBUSY);
	fd = hail();
	ck_assert_int_eq(call(fd, &req, &rep, fds), EINVAL);
	req.capture.devices = 0;
	req.capture.qpn_n = MSG_CAPTURE_QPS + 1;
	ck_assert_int_eq(call(fd, &req, &rep, fds), EINVAL);
	req.capture.qpn_n = 0;
	req.capture.room = UINT32_MAX;
	ck_assert_int_eq(call(fd, &req, &rep, fds), EINVAL);
	req.capture.room = 1;
	ck_assert_int_eq(call(fd, &req, &rep, fds), 0);
	ck_assert(fds[0] >= 0 && fds[1] >= 0 && fds[2] == -1);
	ck_assert_int_eq(ftruncate(fds[0], 0), -1); /* sealed */
	ck_assert_int_eq(ftruncate(fds[0], 1 << 30), -1);
	cx_connect(&c, &c);
	cx_ping(&c);
	/* All of it overwritten, and gone on with. */
	for (off_t at = 0; at < (off_t)rep.capture.len; at += (off_t)sizeof(rep))
		ck_assert_int_gt(pwrite(fds[0], &rep, sizeof(rep), at), 0);
	cx_ping(&c);
	close(fds[0]);
	close(fds[1]);
	ck_assert_int_eq(call(fd, &req, &rep, fds), EBUSY);
	req = (struct msg_req){ .op = MSG_DEVICE_LIST };
	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	req = (struct msg_req){ .op = MSG_OPEN };
	memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	ck_assert_int_eq(call(fd, &req, &rep, NULL), EBUSY);
	close(fd);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Every handle of another context, in every place where one can be named. */
START_TEST(foreign)
{
	uint64_t cookie = 0;
	struct msg_rep rep;
	struct cx a, b;

	daemon_start();
	cx_open(&a);
	cx_open(&b);
	cx_connect(&a, &a);
#define ANSWER(err, ...)                                             \
	do {                                                         \
		struct msg_req req = { __VA_ARGS__ };                \
		ck_assert_int_eq(call(b.fd, &req, &rep, NULL), err); \
	} while (0)
#define UNKNOWN(...) ANSWER(ENOENT, __VA_ARGS__) /* what is to be destroyed */
#define REFUSED(...) ANSWER(EINVAL, __VA_ARGS__)
	UNKNOWN(.op = MSG_PD_FREE, .id.handle = a.pd);
	UNKNOWN(.op = MSG_MR_DEREG, .id.handle = a.mr);
	UNKNOWN(.op = MSG_CQ_DESTROY, .id.handle = a.cq);
	UNKNOWN(.op = MSG_SRQ_DESTROY, .id.handle = a.srq);
	UNKNOWN(.op = MSG_QP_DESTROY, .id.handle = a.qpn);
	REFUSED(.op = MSG_QP_QUERY, .id.handle = a.qpn);
	REFUSED(.op = MSG_SRQ_QUERY, .id.handle = a.srq);
	REFUSED(.op = MSG_CQ_RESIZE, .cq_resize = { a.cq, 16 });
	REFUSED(.op = MSG_CQ_SWAP, .id.handle = a.cq);
	REFUSED(.op = MSG_CQ_EVENT, .cq_event = { .handle = a.cq, .cookie = 7 });
	REFUSED(.op = MSG_CQ_EVENT, .cq_event = { .handle = b.cq, .cookie = 8 });
	ANSWER(0, .op = MSG_CQ_EVENT, .cq_event = { .handle = b.cq, .cookie = 7 });
	ck_assert_int_eq(recv(b.channel_fd, &cookie, sizeof(cookie), MSG_DONTWAIT), sizeof(cookie));
	ck_assert_uint_eq(cookie, 7);
	REFUSED(.op = MSG_SRQ_MODIFY, .srq_mod = { a.srq, 2, 0, 1 });
	REFUSED(.op = MSG_QP_MODIFY, .qp_mod = { .qpn = a.qpn, .mask = QPA_STATE, .attr.state = QPS_ERR });
	REFUSED(.op = MSG_MCAST_ATTACH, .mcast.qpn = a.qpn);
	REFUSED(.op = MSG_MR_REG, .mr = { .pd = a.pd, .addr = (uintptr_t)b.buf, .len = 4096 });
	REFUSED(.op = MSG_SRQ_CREATE, .srq = { .pd = a.pd, .max_wr = 1, .max_sge = 1 });
	REFUSED(.op = MSG_QP_CREATE, .qp = { .pd = a.pd, .send_cq = b.cq, .recv_cq = b.cq, .type = QPT_RC });
	REFUSED(.op = MSG_QP_CREATE, .qp = { .pd = b.pd, .send_cq = a.cq, .recv_cq = b.cq, .type = QPT_RC });
	REFUSED(.op = MSG_QP_CREATE, .qp = { .pd = b.pd, .send_cq = b.cq, .recv_cq = a.cq, .type = QPT_RC });
	REFUSED(.op = MSG_QP_CREATE,
		.qp = { .pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq, .srq = a.srq, .type = QPT_RC });
	/* Channels have numbers of their own in each context: a's second one is nothing to b. */
	for (uint32_t h = 2; h < 100; h++) {
		UNKNOWN(.op = MSG_CHANNEL_DESTROY, .id.handle = h);
		REFUSED(.op = MSG_CQ_CREATE, .cq = { .cqe = 1, .channel = h });
	}
#undef REFUSED
#undef UNKNOWN
#undef ANSWER
	cx_ping(&a);
	cx_close(&b);
	cx_ping(&a);
	cx_close(&a);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Numbers at the limits: refused with the errno that the verb has, or done. */
START_TEST(limits)
{
	static const uint32_t n[] = { 0,        1,         2,      3,        0x7fff,
				      0x4000,   0x4001,    0xffff, 1u << 20, (1u << 20) + 1,
				      1u << 31, UINT32_MAX };
	struct msg_rep rep;
	struct cx c;

	daemon_start();
	cx_open(&c);
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		struct msg_req cq = { .op = MSG_CQ_CREATE, .cq = { .cqe = n[i] } };
		struct msg_req wide = { .op = MSG_CQ_RESIZE, .cq_resize = { c.cq, n[i] } };
		struct msg_req mr = { .op = MSG_MR_REG,
				      .mr = { .pd = c.pd, .addr = (uint64_t)n[i] << 32, .len = UINT64_MAX - i } };
		int err = call(c.fd, &cq, &rep, NULL);

		ck_assert_int_eq(err, n[i] && n[i] <= RD_MAX_CQE ? 0 : EINVAL);
		err = call(c.fd, &wide, &rep, NULL);
		ck_assert_int_eq(err, n[i] && n[i] <= RD_MAX_CQE ? 0 : EINVAL);
		ck_assert_int_ne(call(c.fd, &mr, &rep, NULL), 0);
		for (size_t k = 0; k < sizeof(n) / sizeof(n[0]); k++) {
			struct msg_req srq = { .op = MSG_SRQ_CREATE,
					       .srq = { .pd = c.pd, .max_wr = n[i], .max_sge = n[k] } };
			struct msg_req qp = { .op = MSG_QP_CREATE,
					      .qp = { .pd = c.pd,
						      .send_cq = c.cq,
						      .recv_cq = c.cq,
						      .type = QPT_UC,
						      .cap = { n[i], n[k], n[k] & 31, n[i] & 31, n[k] } } };
			bool fits = n[i] <= RD_MAX_WR && n[k] <= RD_MAX_WR && n[k] <= RD_MAX_INLINE;

			ck_assert_int_eq(call(c.fd, &qp, &rep, NULL), fits ? 0 : EINVAL);
			err = call(c.fd, &srq, &rep, NULL);
			if (!n[i] || n[i] > RD_MAX_WR || n[k] > RD_MAX_SGE)
				ck_assert_int_eq(err, EINVAL);
		}
	}
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* The ring of a resize is the daemon's to write to once the client says so, once, and never if it says that it has lost it. */
START_TEST(resizes)
{
	struct msg_req lost = { .op = MSG_CQ_SWAP, .id.lost = 1 }, swap = { .op = MSG_CQ_SWAP };
	struct msg_rep rep;
	struct cx c;
	long maps;

	daemon_start();
	cx_open(&c);
	cx_connect(&c, &c);
	struct msg_req wide = { .op = MSG_CQ_RESIZE, .cq_resize = { c.cq, 1000 } };

	lost.id.handle = swap.id.handle = c.cq;
	maps = user_has(-1, getuid(), "use", "mappings");
	ck_assert_int_eq(call(c.fd, &swap, &rep, NULL), EINVAL);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(call(c.fd, &wide, &rep, NULL), 0);
		cx_ping(&c); /* in the ring that it was in */
	}
	ck_assert_int_eq(call(c.fd, &lost, &rep, NULL), 0);
	ck_assert_int_eq(call(c.fd, &lost, &rep, NULL), EINVAL);
	ck_assert_int_eq(call(c.fd, &swap, &rep, NULL), EINVAL);
	cx_ping(&c);
	ck_assert_int_eq(user_has(-1, getuid(), "use", "mappings"), maps);
	for (unsigned i = 0; i < 3; i++) {
		int fds[CALL_FDS];
		void *ring;

		wide.cq_resize.cqe *= 2;
		ck_assert_int_eq(call(c.fd, &wide, &rep, fds), 0);
		ring = mmap(NULL, rep.cq.map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		ck_assert_ptr_ne(ring, MAP_FAILED);
		close(fds[0]);
		ring_attach(&c.cq_ring, ring, rep.cq.slots, rep.cq.stride);
		ck_assert_int_eq(call(c.fd, &swap, &rep, NULL), 0);
		cx_ping(&c);
		ck_assert_int_eq(call(c.fd, &swap, &rep, NULL), EINVAL);
	}
	ck_assert_int_eq(call(c.fd, &wide, &rep, NULL), 0);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* In use by another object: EBUSY, and still there. */
START_TEST(busy)
{
	struct msg_rep rep;
	struct cx c;

	daemon_start();
	cx_open(&c);
	cx_connect(&c, &c);
	struct msg_req pd = { .op = MSG_PD_FREE, .id.handle = c.pd }, cq = { .op = MSG_CQ_DESTROY, .id.handle = c.cq },
		       ch = { .op = MSG_CHANNEL_DESTROY, .id.handle = c.channel };

	ck_assert_int_eq(call(c.fd, &pd, &rep, NULL), EBUSY);
	ck_assert_int_eq(call(c.fd, &cq, &rep, NULL), EBUSY);
	ck_assert_int_eq(call(c.fd, &ch, &rep, NULL), EBUSY);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Memory that the daemon counts in: within its bounds, the context's own, and there as long as a QP counts. */
START_TEST(counting)
{
	struct msg_req dm = { .op = MSG_DM_ALLOC, .dm.len = 40 }, end = { .op = MSG_DM_FREE };
	struct msg_req count = { .op = MSG_QP_COUNT };
	struct msg_req qp = { .op = MSG_QP_CREATE };
	static const uint64_t wrong[] = { 1, 8, 32, 40, 48, UINT64_MAX - 15, UINT64_MAX };
	struct msg_rep rep;
	struct cx c, b;
	char by[64];

	daemon_start();
	cx_open(&c);
	cx_open(&b);
	ck_assert_int_eq(call(c.fd, &dm, &rep, NULL), 0);
	end.id.handle = count.count.dm = rep.dm.handle;
	qp.qp.pd = c.pd;
	qp.qp.send_cq = qp.qp.recv_cq = c.cq;
	qp.qp.type = QPT_RC;
	ck_assert_int_eq(call(c.fd, &qp, &rep, NULL), 0);
	count.count.qpn = rep.qp.qpn;
	count.count.ops = 1u << CNTR_SEND;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		count.count.off = wrong[i];
		ck_assert_int_eq(call(c.fd, &count, &rep, NULL), EINVAL);
	}
	count.count.off = 16;
	count.count.bytes = 2;
	ck_assert_int_eq(call(c.fd, &count, &rep, NULL), EINVAL);
	count.count.bytes = 1;
	ck_assert_int_eq(call(b.fd, &count, &rep, NULL), EINVAL);
	count.count.dm++;
	ck_assert_int_eq(call(c.fd, &count, &rep, NULL), EINVAL);
	count.count.dm--;
	ck_assert_int_eq(call(c.fd, &count, &rep, NULL), 0);
	ck_assert_int_eq(call(c.fd, &count, &rep, NULL), EBUSY);
	ck_assert_int_eq(call(c.fd, &end, &rep, NULL), EBUSY);
	snprintf(by, sizeof(by), "it is used by QP 0x%x\"", count.count.qpn);
	ck_assert_msg(reported(c.fd, by), "no report says: %s", by);
	cx_close(&b);
	cx_close(&c); /* with both */
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Descriptors where none belong, more than there is room for, or of the wrong kind. */
START_TEST(descriptors)
{
	struct cx c;
	int junk[16], fds[CALL_FDS];

	daemon_start();
	cx_open(&c);
	for (unsigned i = 0; i < 16; i++)
		junk[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (unsigned n = 0; n <= 16; n++) {
		struct msg_req req = { .op = MSG_DEVICE_LIST };
		struct msg_req mr = { .op = MSG_MR_REG,
				      .mr = { .pd = c.pd,
					      .addr = (uintptr_t)c.buf,
					      .len = 4096,
					      .iova = (uintptr_t)c.buf,
					      .map_addr = (uintptr_t)c.buf,
					      .map_len = 4096 } };
		struct msg_rep rep;

		ck_assert(say(c.fd, &req, msg_req_len(req.op), junk, n, 0));
		ck_assert(hear(c.fd, &rep, fds));
		ck_assert_int_eq(rep.err, n ? EINVAL : 0);
		ck_assert(say(c.fd, &mr, msg_req_len(mr.op), junk, n, 0));
		ck_assert(hear(c.fd, &rep, fds));
		ck_assert_int_eq(rep.err, n ? EINVAL : 0);
	}
	cx_connect(&c, &c);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Requests without end, replies never read: that connection ends, the others do not notice. */
START_TEST(flood)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct cx c;
	int fd[8];
	bool open[8];
	unsigned left = 8;

	daemon_start();
	cx_open(&c);
	cx_connect(&c, &c);
	for (unsigned i = 0; i < 8; i++) {
		fd[i] = hail();
		open[i] = true;
	}
	for (unsigned round = 0; left && round < 100000; round++) {
		for (unsigned i = 0; i < 8; i++) {
			if (open[i] && !say(fd[i], &req, msg_req_len(req.op), NULL, 0, MSG_DONTWAIT) &&
			    errno != EAGAIN) {
				open[i] = false;
				left--;
			}
		}
		if (round % 64 == 0)
			cx_ping(&c);
	}
	ck_assert_uint_eq(left, 0);
	for (unsigned i = 0; i < 8; i++)
		close(fd[i]);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* How often its control thread went to sleep so far: one that spins never does. */
static unsigned long sleeps_of(pid_t pid)
{
	unsigned long n = 0;
	char path[64], line[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1;
	fclose(f);
	ck_assert(found);
	return n;
}

/* true: at the price of the spare descriptor; false: the client waits, and the daemon sleeps again and again meanwhile. */
static bool turned_away(int fd, pid_t daemon)
{
	struct pollfd p = { .fd = fd };
	unsigned long before = sleeps_of(daemon);

	for (unsigned i = 0; i < 3000; i++) {
		if (poll(&p, 1, 10) == 1)
			return true;
		if (sleeps_of(daemon) - before >= RESTS)
			return false;
	}
	ck_abort_msg("the daemon spins: in 30 s it slept %lu times", sleeps_of(daemon) - before);
}

/* Without a descriptor, even a spare one, clients wait, and the daemon does not spin; then they are served. */
START_TEST(no_descriptor)
{
	struct msg_req req = { .op = MSG_HOLD };
	struct rlimit none, before;
	struct msg_rep rep;
	pid_t pid;
	int hold, fd;

	own_network();
	daemon_start_with("--private"); /* of our own user: so its limits may be set */
	pid = daemon_process();
	hold = hail();
	ck_assert_int_eq(call(hold, &req, &rep, NULL), 0); /* else it would end after a while, being private */
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &before), 0);
	none = (struct rlimit){ 3, before.rlim_max };
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &none, NULL), 0);
	while (fd = dial(), turned_away(fd, pid))
		close(fd);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &before, NULL), 0);
	close(hail());
	close(fd);
	daemon_stop();
	close(hold);
}
END_TEST

/* The limit of a file's length counts for shared memory, too, and its signal would end the daemon. */
START_TEST(small_files)
{
	struct msg_req req = { .op = MSG_CQ_CREATE, .cq.cqe = 100000 };
	struct rlimit small, before;
	struct msg_rep rep;
	pid_t pid;
	struct cx c;

	own_network();
	daemon_start_with("--private"); /* as above */
	cx_open(&c);
	pid = daemon_process();
	ck_assert_int_eq(prlimit(pid, RLIMIT_FSIZE, NULL, &before), 0);
	small = (struct rlimit){ 4096, before.rlim_max };
	ck_assert_int_eq(prlimit(pid, RLIMIT_FSIZE, &small, NULL), 0);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), EFBIG);
	ck_assert_int_eq(prlimit(pid, RLIMIT_FSIZE, &before, NULL), 0);
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	cx_close(&c);
	daemon_stop();
}
END_TEST

TEST_MAIN("ctl: hostile messages", no_descriptor, small_files, lengths, order, captures, foreign, limits, resizes, busy,
	  counting, descriptors, flood)
