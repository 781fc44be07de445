/* SPDX-License-Identifier: MIT */
/*
 * slow.c - packet sockets whose interface takes nothing: the frames wait, the shard does not.  Not to be seen in how long others
 * take, as a wait of a millisecond is lost in those of a busy machine: so the kernel is asked which system call a thread of the daemon is
 * blocked in.
 */
#include "t/suite.h"

#include "stage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS    8u
#define SLOTS      31u /* of a queue pair, so that completions of all fit into 256 */
#define FRAME      1000u
#define ETH_P_TEST 0x88b5 /* for experiments */

/*
 * An interface that sends a kilobyte a second.  It has no address, so that the bystander's device keeps its own.  In the namespace of
 * this process.
 */
static bool slow_link(void)
{
	return !system("exec 2>/dev/null; ip link add slow0 type veth peer name slow1 &&"
		       " for i in slow0 slow1; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done;"
		       " tc qdisc add dev slow0 root tbf rate 8kbit burst 2000b limit 1000000 &&"
		       " ip link set slow0 up && ip link set slow1 up");
}

static bool slow_link_is_here(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(unshare(CLONE_NEWNET) || !slow_link());
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* A packet socket on it with little room. */
static int slow_socket(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_TEST),
				  .sll_ifindex = (int)if_nametoindex("slow0") };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), room = 4096;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	return fd;
}

static void become_attacker(void)
{
	ck_assert_int_eq(setresgid(UID_ATTACKER, UID_ATTACKER, UID_ATTACKER), 0);
	ck_assert_int_eq(setresuid(UID_ATTACKER, UID_ATTACKER, UID_ATTACKER), 0);
	prctl(PR_SET_DUMPABLE, 1); /* as a program of that user's is */
}

/* A RAW_PACKET QP with that socket in RTS; its number is c->qpn then. */
static int raw_qp(struct cx *c, int with)
{
	struct msg_req req = { .op = MSG_QP_CREATE };
	struct msg_rep rep;
	int fds[CALL_FDS];
	uint8_t *mem;

	req.qp.pd = c->pd;
	req.qp.send_cq = req.qp.recv_cq = c->cq;
	req.qp.cap = (struct qp_cap){ SLOTS, 1, 1, 1, 0 };
	req.qp.type = QPT_RAW;
	ck_assert(say(c->fd, &req, msg_req_len(req.op), &with, 1, 0));
	ck_assert(hear(c->fd, &rep, fds));
	if (rep.err)
		return rep.err;
	c->qpn = rep.qp.qpn;
	c->qp_bell = rep.qp.bell;
	mem = cx_mem(c, &rep.qp.mem, fds[0]);
	ring_attach(&c->sq, mem, rep.qp.sq_slots, rep.qp.sq_stride);
	for (uint8_t state = QPS_INIT; state <= QPS_RTS; state++) {
		req = (struct msg_req){
			.op = MSG_QP_MODIFY,
			.qp_mod = { .qpn = c->qpn, .mask = QPA_STATE, .attr = { .state = state, .port = 1 } }
		};
		if (state == QPS_INIT)
			req.qp_mod.mask |= QPA_PORT;
		ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
	}
	return 0;
}

/* Frames without end, of each queue pair so many at once as its part of the completion queue has room for. */
static void flood(struct cx *c, struct ring *sq, const uint32_t *bell)
{
	unsigned posted[SOCKETS] = { 0 };

	note_set(0, 1);
	while (!__atomic_load_n(&note->n[1], __ATOMIC_SEQ_CST)) {
		unsigned n = 0;

		for (; ring_used(&c->cq_ring); ring_consume(&c->cq_ring, 1)) {
			const struct cqe *e = ring_slot(&c->cq_ring, c->cq_ring.pos);

			ck_assert_uint_eq(e->status,
					  WC_SUCCESS); /* a queue pair with an error would trouble nobody any more */
			posted[e->wr_id % SOCKETS]--;
		}
		for (unsigned i = 0; i < SOCKETS; i++) {
			if (posted[i] == SLOTS)
				continue;
			struct send_wr *wr = ring_slot(&sq[i], sq[i].pos);

			*wr = (struct send_wr){ .wr_id = i, .op = WR_SEND, .flags = WR_SIGNALED, .sge_n = 1 };
			*(struct sge *)(wr + 1) = (struct sge){ (uintptr_t)c->buf, FRAME, c->key };
			ring_publish(&sq[i], 1);
			cx_ring(c, bell[i]);
			posted[i]++;
			n++;
		}
		note_set(2, note->n[2] + n);
		if (!n) /* the core is the shard's and the bystander's */
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static void send_slowly(void *)
{
	int fd[SOCKETS];
	struct ring sq[SOCKETS];
	uint32_t bell[SOCKETS];
	struct cx c;

	ck_assert(slow_link());
	for (unsigned i = 0; i < SOCKETS; i++)
		fd[i] = slow_socket();
	become_attacker();
	cx_open(&c);
	memset(c.buf, 0xff, FRAME);
	for (unsigned i = 0; i < SOCKETS; i++) {
		ck_assert_int_eq(raw_qp(&c, fd[i]), 0);
		close(fd[i]);
		sq[i] = c.sq;
		bell[i] = c.qp_bell;
	}
	flood(&c, sq, bell);
	cx_close(&c);
}

/* ---- the calls that threads of the daemon wait in ---------------------------------------------- */

/* Those that are there to wait in, of shards and of the control thread, and a lock of theirs. */
static bool may_wait(long call)
{
	static const long calls[] = {
		SYS_io_uring_enter, SYS_futex, SYS_epoll_pwait,
#ifdef SYS_epoll_wait
		SYS_epoll_wait,
#endif
#ifdef SYS_epoll_pwait2
		SYS_epoll_pwait2,
#endif
	};

	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i] == call)
			return true;
	return false;
}

/* A line of the kernel about a thread of the daemon, from that file; false: it is over, or there is no such file. */
static bool thread_says(pid_t thread, const char *file, char *text, size_t len)
{
	char path[128];
	bool good;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)daemon_process(), (int)thread, file);
	f = fopen(path, "re");
	good = f && fgets(text, (int)len, f);
	if (f)
		fclose(f);
	return good;
}

/* In a container that may not trace the kernel does not tell. */
static bool may_look(void)
{
	char text[256];

	return thread_says(daemon_process(), "syscall", text, sizeof(text));
}

/* Where it is blocked: the number of the call, its arguments and the stack. false: nowhere, or it is the thread of one client. */
static bool blocked(pid_t thread, char *text, size_t len)
{
	char name[32];

	if (!thread_says(thread, "comm", name, sizeof(name)) || !thread_says(thread, "syscall", text, len))
		return false;
	return (!strncmp(name, "shard", 5) || thread == daemon_process()) && strncmp(text, "running", 7) &&
	       atol(text) >= 0;
}

/* It is blocked where it may be, or it was only stopped for a moment: it is elsewhere soon. */
static bool blocked_well(pid_t thread, const char *text)
{
	char now[256];

	if (may_wait(atol(text)))
		return true;
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	return !blocked(thread, now, sizeof(now)) || atol(now) != atol(text);
}

/* 1: it is blocked. */
static double waits(pid_t, pid_t thread)
{
	char text[256];

	if (!blocked(thread, text, sizeof(text)))
		return 0;
	ck_assert_msg(blocked_well(thread, text), "thread %d of the daemon waits in system call %ld", (int)thread,
		      atol(text));
	return 1;
}

/* ---- the tests ------------------------------------------------------------------------------------- */

START_TEST(full)
{
	double seen = 0;
	double start;
	pid_t attacker;

	stage_open("--shards=1");
	attacker = part_begin(0, send_slowly, NULL);
	note_wait(0, 1);
	note_wait(2, SOCKETS * 20);
	start = stage_seconds();
	for (unsigned i = 0; i < 1000; i += 10) {
		for (unsigned k = 0; k < 10; k++)
			seen += threads_ask(daemon_process(), waits);
		stage_goes_on(10);
	}
	printf("# 1000 rounds of the bystander in %.2f s, %.0f looks at threads that wait\n", stage_seconds() - start,
	       seen);
	ck_assert_msg(seen > 0 || !may_look(), "no thread was ever seen to wait");
	note_set(1, 1);
	part_end(attacker);
	stage_close();
}
END_TEST

/* In a namespace of his own a user could make it as slow as he likes. */
START_TEST(foreign)
{
	int own, far;
	struct cx c;

	stage_open("--shards=1");
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(own, 0);
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	far = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(far, 0);
	ck_assert_int_eq(setns(own, CLONE_NEWNET), 0);
	cx_open(&c);
	ck_assert_int_eq(raw_qp(&c, far), EPERM);
	close(far);
	far = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(raw_qp(&c, far), 0);
	close(far);
	cx_close(&c);
	close(own);
	stage_goes_on(20);
	stage_close();
}
END_TEST

int main(void)
{
	stage_needs_root();
	if (slow_link_is_here())
		return stage_main("hostile: packet sockets", (const TTest *const[]){ full, foreign, NULL });
	printf("ok - full # SKIP no slow interface can be made here (ip, tc, sch_tbf)\n");
	return stage_main("hostile: packet sockets", (const TTest *const[]){ foreign, NULL });
}
