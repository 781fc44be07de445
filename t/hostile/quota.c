/* SPDX-License-Identifier: MIT */
/*
 * quota.c - a user who takes all he can get: he gets what he may have, and the others do not notice.
 */
#include "t/suite.h"

#include "proto/cm_msg.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>

#define TIB (UINT64_C(1) << 40)

static char conf[] = "/tmp/rdmad-quota.XXXXXX";

/* With the defaults but for what would take long; removed at the end of the test. */
static void stage_open_conf(void)
{
	static const char text[] =
		"shards = 1\nquota { mappings = 3000\n heap-mib = 450\n descriptors = 6200\n mrs = 5000\n cqs = 6000\n "
		"srqs = 5000\n qps = 4000\n mws = 5000\n xrcds = 5000\n queue-mib = 512\n cm-ids = 5000\n cm-ports = "
		"3000 }\n";
	char option[64];
	int fd = mkstemp(conf);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	snprintf(option, sizeof(option), "--config=%s", conf);
	stage_open(option);
	unlink(conf);
}

/* ---- what the attacker does: until he is refused, how often it went well ------------------------ */

struct taker {
	struct cx c;
	int err;
	unsigned n, most; /* beyond most he does not go on: nothing limits him */
};

static bool taken(struct taker *t, struct msg_req *req, int with)
{
	struct msg_rep rep;
	int fds[CALL_FDS];

	ck_assert(say(t->c.fd, req, msg_req_len(req->op), &with, with >= 0, 0));
	ck_assert(hear(t->c.fd, &rep, fds));
	for (unsigned i = 0; i < CALL_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	t->err = rep.err;
	t->n += !rep.err;
	return !rep.err && t->n <= t->most;
}

static void take_channels(struct taker *t)
{
	struct msg_req req = { .op = MSG_CHANNEL_CREATE };

	cx_open(&t->c);
	while (taken(t, &req, -1))
		;
}

/* Each time another file: regions of one share a mapping. */
static void take_files(struct taker *t, uint64_t len)
{
	struct msg_req req = { .op = MSG_MR_REG };
	struct stat st;
	bool more;

	cx_open(&t->c);
	req.mr.pd = t->c.pd;
	req.mr.kind = MR_DMABUF;
	req.mr.len = len;
	do {
		int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		more = taken(t, &req, fd);
		ck_assert_int_eq(fstat(fd, &st), 0);
		ck_assert_int_eq(st.st_blocks, 0); /* nothing of it has been allocated */
		close(fd);
	} while (more);
}

static void take_memory(struct taker *t) { take_files(t, TIB); }
static void take_maps(struct taker *t) { take_files(t, 4096); }

static void take_mrs(struct taker *t)
{
	struct msg_req req = { .op = MSG_MR_REG }, ask = { .op = MSG_QUERY_DEVICE };
	struct msg_rep rep;

	cx_open(&t->c);
	ck_assert_int_eq(call(t->c.fd, &ask, &rep, NULL), 0);
	ck_assert_uint_eq(rep.device.max_mr, 5000); /* what a device claims, its user can have */
	req.mr.pd = t->c.pd;
	req.mr.kind = MR_NULL;
	while (taken(t, &req, -1))
		;
}

static void take_qps(struct taker *t)
{
	struct msg_req req = { .op = MSG_QP_CREATE };

	cx_open(&t->c);
	req.qp.pd = t->c.pd;
	req.qp.send_cq = req.qp.recv_cq = t->c.cq;
	req.qp.cap = (struct qp_cap){ RD_MAX_WR, RD_MAX_WR, RD_MAX_SGE, RD_MAX_SGE, RD_MAX_INLINE };
	req.qp.type = QPT_RC;
	while (taken(t, &req, -1))
		;
}

static void take_cqs(struct taker *t)
{
	struct msg_req req = { .op = MSG_CQ_CREATE, .cq.cqe = 1 }, ask = { .op = MSG_QUERY_DEVICE };
	struct msg_rep rep;

	cx_open(&t->c);
	ck_assert_int_eq(call(t->c.fd, &ask, &rep, NULL), 0);
	ck_assert_uint_eq(rep.device.max_cq, 6000); /* what a device claims, its user can have */
	ck_assert_uint_eq(rep.device.max_qp, 4000);
	ck_assert_uint_eq(rep.device.max_srq, 5000);
	while (taken(t, &req, -1))
		;
}

static void take_pds(struct taker *t)
{
	struct msg_req req = { .op = MSG_PD_ALLOC }, ask = { .op = MSG_QUERY_DEVICE };
	struct msg_rep rep;

	cx_open(&t->c);
	ck_assert_int_eq(call(t->c.fd, &ask, &rep, NULL), 0);
	ck_assert_uint_eq(rep.device.max_pd, 16384);
	while (taken(t, &req, -1))
		;
}

static void take_mws(struct taker *t)
{
	struct msg_req req = { .op = MSG_MW_ALLOC, .mw.type = 1 };

	cx_open(&t->c);
	req.mw.pd = t->c.pd;
	while (taken(t, &req, -1))
		;
}

static void take_xrcds(struct taker *t)
{
	struct msg_req req = { .op = MSG_XRCD_OPEN };

	cx_open(&t->c);
	while (taken(t, &req, -1))
		;
}

static void take_srqs(struct taker *t)
{
	struct msg_req req = { .op = MSG_SRQ_CREATE, .srq = { .max_wr = 1, .max_sge = 1 } };

	cx_open(&t->c);
	req.srq.pd = t->c.pd;
	while (taken(t, &req, -1))
		;
}

static void take_small_qps(struct taker *t)
{
	struct msg_req req = { .op = MSG_QP_CREATE };

	cx_open(&t->c);
	req.qp.pd = t->c.pd;
	req.qp.send_cq = req.qp.recv_cq = t->c.cq;
	req.qp.cap = (struct qp_cap){ 1, 1, 1, 1, 0 };
	req.qp.type = QPT_RC;
	while (taken(t, &req, -1))
		;
}

/* All of their memory is his to write to, so all of it counts, also that of which he has one queue only. */
static void take_queues(struct taker *t)
{
	struct msg_req req = { .op = MSG_CQ_CREATE };
	uint64_t bytes = 0;
	struct msg_rep rep;
	int fds[CALL_FDS], err;

	cx_open(&t->c);
	for (uint32_t cqe = 1024;; cqe = cqe < RD_MAX_CQE ? 2 * cqe : 1024) {
		req.cq.cqe = cqe;
		err = call(t->c.fd, &req, &rep, fds);
		if (err)
			break;
		if (fds[0] >= 0) {
			bytes += rep.cq.mem.all;
			close(fds[0]);
		}
		if (++t->n > t->most)
			break;
	}
	t->err = err;
	ck_assert_uint_le(bytes, UINT64_C(512) << 20);
}

/* The host is in each of them for him. */
static void take_groups(struct taker *t)
{
	struct msg_req req = { .op = MSG_MCAST_ATTACH };

	cx_open_type(&t->c, QPT_UD);
	req.mcast.qpn = t->c.qpn;
	memcpy(req.mcast.gid, (const uint8_t[16]){ [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1 }, 16);
	do
		if (!++req.mcast.gid[14])
			req.mcast.gid[15]++;
	while (taken(t, &req, -1));
}

static int packets = -1; /* a packet socket, root's gift */

static void take_raws(struct taker *t)
{
	struct msg_req req = { .op = MSG_QP_CREATE };

	cx_open(&t->c);
	req.qp.pd = t->c.pd;
	req.qp.send_cq = req.qp.recv_cq = t->c.cq;
	req.qp.cap = (struct qp_cap){ 1, 1, 1, 1, 0 };
	req.qp.type = QPT_RAW;
	while (taken(t, &req, packets))
		;
}

static void cmm(int fd, struct cmm_req *req, struct cmm_rep *rep)
{
	ck_assert(say(fd, req, cmm_req_len(req->op), NULL, 0, 0));
	ck_assert_int_eq(recv(fd, rep, sizeof(*rep), 0), sizeof(*rep)); /* a descriptor that comes with it is gone */
}

/* An id for an address of this host, which takes a port; the errno. */
static int take_port(int fd)
{
	struct cmm_req req = { .op = CMM_CREATE_ID, .create = { .ps = CM_PS_TCP, .cookie = 1 } };
	struct cmm_rep rep;

	cmm(fd, &req, &rep);
	ck_assert_int_eq(rep.err, 0);
	req = (struct cmm_req){ .op = CMM_RESOLVE_ADDR, .id = rep.create.id };
	req.resolve.dst.in = (struct sockaddr_in){ .sin_family = AF_INET,
						   .sin_port = htons(7471),
						   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cmm(fd, &req, &rep);
	return rep.err;
}

static int channel(void)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	int fd = hail();

	cmm(fd, &req, &rep);
	ck_assert_int_eq(rep.err, 0);
	return fd;
}

static void take_ports(struct taker *t)
{
	int fd = channel();

	cx_open(&t->c);
	while (!t->err && t->n <= t->most) {
		t->err = take_port(fd);
		t->n += !t->err;
	}
}

/* Groups of multicast that nobody here receives: the host is in none of them for him. */
static void take_joins(struct taker *t)
{
	struct cmm_req id = { .op = CMM_CREATE_ID, .create = { .ps = CM_PS_UDP, .cookie = 1 } };
	struct cmm_req bind = { .op = CMM_BIND }, join = { .op = CMM_JOIN, .join = { .cookie = 1, .flags = 1 } };
	struct cmm_rep rep;
	int fd = channel();

	cx_open(&t->c);
	cmm(fd, &id, &rep);
	ck_assert_int_eq(rep.err, 0);
	join.id = bind.id = rep.create.id;
	bind.bind.addr.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cmm(fd, &bind, &rep);
	ck_assert_int_eq(rep.err, 0);
	while (!t->err && t->n <= t->most) {
		join.join.addr.in = (struct sockaddr_in){ .sin_family = AF_INET,
							  .sin_addr.s_addr = htonl(0xef010000 + t->n) };
		cmm(fd, &join, &rep);
		t->err = rep.err;
		t->n += !t->err;
	}
}

static void one_port(void *) { ck_assert_int_eq(take_port(channel()), 0); }

static void take_sessions(struct taker *t)
{
	struct rlimit lim;
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .prog = "many" } };

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	do
		t->c.fd = dial();
	while (taken(t, &req, -1));
	close(t->c.fd);
}

/* ---- the test --------------------------------------------------------------------------------------- */

static const struct {
	const char *key;
	void (*take)(struct taker *);
	int err;
	unsigned least, most; /* what he gets */
} greed[] = {
	{ "descriptors", take_channels, EMFILE, 100, 6200 },
	{ "mapped-mib", take_memory, ENOMEM, 7, 8 },
	{ "heap-mib", take_qps, ENOMEM, 2, 69 },
	{ "mappings", take_maps, ENOMEM, 1450, 1500 },
	{ "queue-mib", take_queues, ENOMEM, 5, 100 },
	{ "cqs", take_cqs, ENOMEM, 5999, 6000 },
	{ "srqs", take_srqs, ENOMEM, 4999, 5000 },
	{ "qps", take_small_qps, ENOMEM, 3999, 4000 },
	{ "mrs", take_mrs, ENOMEM, 4999, 5000 },
	{ "pds", take_pds, ENOMEM, 16383, 16384 },
	{ "mws", take_mws, ENOMEM, 4999, 5000 },
	{ "xrcds", take_xrcds, ENOMEM, 4999, 5000 },
	{ "cm-ports", take_ports, EADDRNOTAVAIL, 2999, 3000 },
	{ "cm-ids", take_joins, ENOMEM, 4999, 4999 },
	{ "sessions", take_sessions, EMFILE, 100, 2048 },
	{ "groups", take_groups, ENOMEM, 256, 256 },
	{ "raw-qps", take_raws, ENOMEM, 32, 32 },
};

/* note 0: how much he got, note 1: the errno, note 2: it is said, 1: in full; note 3: he may end. */
static void attack(void *arg)
{
	unsigned i = *(const unsigned *)arg;
	struct taker t = { .most = greed[i].most };
	json_t *why, *last, *causes;

	greed[i].take(&t);
	note_set(0, t.n);
	note_set(1, (uint32_t)t.err);
	if (t.err && greed[i].take != take_sessions) {
		ck_assert_int_ge(user_has(t.c.fd, UID_ATTACKER, "use", greed[i].key), 1);
		ck_assert_int_eq(user_has(t.c.fd, UID_BYSTANDER, "use", "sessions"), -1);
		why = dump(t.c.fd, DUMP_WHY);
		causes = json_object_get(why, "causes");
		last = json_array_get(causes, json_array_size(causes) - 1);
		snprintf(note->text, sizeof(note->text), "%s: %s", json_string_value(json_object_get(last, "cause")),
			 json_string_value(json_object_get(last, "text")));
	}
	note_set(2, 1);
	note_wait(3, 1);
}

START_TEST(greedy)
{
	unsigned i = (unsigned)_i;
	pid_t attacker;
	long use, limit;

	stage_open_conf();
	packets = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(packets, 0);
	attacker = part_begin(UID_ATTACKER, attack, &i);
	note_wait(2, 1);
	ck_assert_msg(note->n[0] <= greed[i].most, "%s: he got %u, more than %u", greed[i].key, note->n[0],
		      greed[i].most);
	ck_assert_msg(note->n[1] == (uint32_t)greed[i].err, "%s: %s", greed[i].key, strerror((int)note->n[1]));
	ck_assert_uint_ge(note->n[0], greed[i].least);
	use = user_has(-1, UID_ATTACKER, "use", greed[i].key);
	limit = user_has(-1, UID_ATTACKER, "limit", greed[i].key);
	ck_assert_int_gt(limit, 0);
	ck_assert_int_le(use, limit);
	ck_assert_int_ge(use, limit * 3 / 4);
	if (*note->text)
		ck_assert_msg(strstr(note->text, "QUOTA: ") == note->text && strstr(note->text, greed[i].key),
			      "he is told: %s", note->text);
	stage_goes_on(100);
	if (greed[i].take == take_ports)
		part_end(part_begin(UID_VICTIM, one_port, NULL));
	note_set(3, 1);
	part_end(attacker);
	stage_goes_on(20);
	stage_close(); /* nothing is left charged to anybody */
}
END_TEST

/* ---- what becomes larger later ------------------------------------------------------------------------ */

static void grow(void *)
{
	struct msg_req req = { .op = MSG_SRQ_CREATE, .srq = { .max_wr = 1, .max_sge = 1 } };
	struct msg_rep rep;
	long maps;
	struct cx c;

	cx_open(&c);
	req.srq.pd = c.pd;
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	maps = user_has(c.fd, UID_ATTACKER, "use", "mappings");
	req = (struct msg_req){ .op = MSG_SRQ_MODIFY,
				.srq_mod = { .handle = rep.srq.handle, .mask = 1, .max_wr = RD_MAX_WR } };
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	ck_assert_int_eq(user_has(c.fd, UID_ATTACKER, "use", "mappings"), maps + 1);
	req.srq_mod.max_wr = 1;
	ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	ck_assert_int_eq(user_has(c.fd, UID_ATTACKER, "use", "mappings"), maps);
	cx_close(&c);
}

START_TEST(grown)
{
	stage_network();
	daemon_start_with("--shards=1");
	part_end(part_begin(UID_ATTACKER, grow, NULL));
	daemon_clean();
	daemon_stop();
}
END_TEST

/* ---- what outlives its context ------------------------------------------------------------------------ */

#define HEIRLOOMS 200

/* A session of the family of that token, or with a new one, which is returned. */
static int relative(const struct msg_token *family, struct msg_token *token)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	int fds[CALL_FDS], fd = hail(), mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	struct msg_rep rep;

	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	if (family)
		req = (struct msg_req){ .op = MSG_IMPORT, .import.token = *family };
	else
		req = (struct msg_req){ .op = MSG_OPEN };
	if (!family)
		memcpy(req.open.name, rep.devices.dev[0].name, sizeof(req.open.name));
	ck_assert(say(fd, &req, msg_req_len(req.op), &mem, 1, 0));
	ck_assert(hear(fd, &rep, fds));
	ck_assert_int_eq(rep.err, 0);
	if (token)
		ck_assert_int_eq(recv(fds[3], token, sizeof(*token), MSG_PEEK), sizeof(*token));
	for (unsigned i = 0; i < CALL_FDS; i++)
		close(fds[i]);
	close(mem);
	return fd;
}

/* Each may have a thread that copies, with 128 KiB, and that counts. */
static void copied(void *)
{
	int fd = -1;

	for (unsigned i = 0; i < 64; i++)
		fd = relative(NULL, NULL);
	ck_assert_int_ge(user_has(fd, UID_ATTACKER, "use", "heap-mib"), 8);
	ck_assert_int_ge(user_has(fd, UID_ATTACKER, "use", "mappings"), 64 * 5);
}

/* For a client that does not read the kernel keeps memory, and that counts. */
static void unread(void *)
{
	struct msg_req req = { .op = MSG_CHANNEL_CREATE };
	struct msg_rep rep;
	int fd = relative(NULL, NULL);

	for (unsigned i = 0; i < 64; i++)
		ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	ck_assert_int_ge(user_has(fd, UID_ATTACKER, "use", "heap-mib"), 4);
}

START_TEST(channels)
{
	stage_network();
	daemon_start_with("--shards=1");
	part_end(part_begin(UID_ATTACKER, unread, NULL));
	daemon_clean();
	daemon_stop();
}
END_TEST

START_TEST(copiers)
{
	stage_network();
	daemon_start_with("--shards=1");
	part_end(part_begin(UID_ATTACKER, copied, NULL));
	daemon_clean();
	daemon_stop();
}
END_TEST

static void bequeath(void *)
{
	struct msg_token token;
	int heir = relative(NULL, &token);

	for (unsigned i = 0; i < HEIRLOOMS; i++) {
		struct msg_req req = { .op = MSG_PD_ALLOC };
		struct msg_rep rep;
		int fd = relative(&token, NULL);

		ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
		req = (struct msg_req){ .op = MSG_MR_REG, .mr = { .pd = rep.obj.handle, .kind = MR_MEM } };
		ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
		close(fd);
	}
	note_set(0, 1);
	note_wait(1, 1);
	close(heir);
}

/* The memory of a program is out of reach when its context is gone: nothing is kept of it. */
START_TEST(heirlooms)
{
	pid_t attacker;
	long before;

	stage_network();
	daemon_start_with("--shards=1");
	before = daemon_counts().fds;
	attacker = part_begin(UID_ATTACKER, bequeath, NULL);
	note_wait(0, 1);
	while (daemon_counts().contexts > 1)
		;
	ck_assert_int_eq(daemon_counts().mrs, HEIRLOOMS);
	ck_assert_int_lt(daemon_counts().fds, before + HEIRLOOMS / 2);
	note_set(1, 1);
	part_end(attacker);
	daemon_clean();
	daemon_stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hostile: quotas");
	TCase *t = tcase_create("greedy");
	SRunner *r = srunner_create(s);
	int failed;

	stage_needs_root();
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, greedy, 0, sizeof(greed) / sizeof(*greed));
	tcase_add_test(t, grown);
	tcase_add_test(t, channels);
	tcase_add_test(t, copiers);
	tcase_add_test(t, heirlooms);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
