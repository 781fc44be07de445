/* SPDX-License-Identifier: MIT */
/*
 * hostile_seg.c - clients that name SysV segments, to a daemon in its sandbox: it attaches those that they have, to the end of
 * their regions and no longer.  Others are not refused: their memory is reached as any other.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "t/suite.h"

#define LEN 65536u

static int seg_new(unsigned mode)
{
	int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | (int)mode);

	ck_assert_int_ge(id, 0);
	return id;
}

static uint8_t *attach(int id)
{
	uint8_t *p = shmat(id, NULL, 0);

	ck_assert(p != (void *)-1);
	return p;
}

static unsigned attached(int id)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) ? 0 : (unsigned)ds.shm_nattch;
}

/* A region at p that is said to be at off of that segment. */
static int reg(struct cx *c, const uint8_t *p, uint32_t seg, uint64_t off, struct msg_rep *rep)
{
	struct msg_req req = { .op = MSG_MR_REG,
			       .mr = { .pd = c->pd,
				       .access = ACC_LOCAL_WRITE,
				       .kind = MR_MEM,
				       .addr = (uintptr_t)p,
				       .len = LEN / 2,
				       .iova = (uintptr_t)p,
				       .map_addr = (uintptr_t)p,
				       .map_len = LEN / 2,
				       .map_off = off,
				       .seg = seg } };

	return call(c->fd, &req, rep, NULL);
}

static void dereg(struct cx *c, uint32_t handle)
{
	struct msg_req req = { .op = MSG_MR_DEREG, .id.handle = handle };
	struct msg_rep rep;

	ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
}

static void show(int id) { ck_assert_int_eq(shmdt(attach(id)), 0); }

/* Bytes of the buffer arrive at p, in that region. */
static void received(struct cx *c, uint8_t *p, uint32_t key, uint8_t *seen)
{
	const struct cx own = *c;
	struct cqe e;

	c->buf[0] = 'x';
	*seen = 0;
	c->buf = p;
	c->key = key;
	cx_recv(c, 1, 0, 16);
	c->buf = own.buf;
	c->key = own.key;
	cx_send(c, 2, 0, 16);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(cx_poll(c, &e));
		ck_assert_uint_eq(e.status, WC_SUCCESS);
	}
	ck_assert_int_eq(*seen, 'x');
}

START_TEST(right)
{
	int id = seg_new(0600);
	uint8_t *p = attach(id), *seen = attach(id);
	struct msg_rep rep;
	struct cx c;

	shmctl(id, IPC_RMID, NULL);
	own_network();
	daemon_start_with("--private");
	cx_open(&c);
	cx_connect(&c, &c);
	ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, 0, &rep), EINPROGRESS);
	ck_assert_uint_eq(attached(id), 2);
	show(id);
	ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, 0, &rep), 0);
	ck_assert_uint_eq(attached(id), 3);
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	received(&c, p, rep.obj.lkey, seen);
	dereg(&c, rep.obj.handle);
	ck_assert_uint_eq(attached(id), 1);
	ck_assert_int_eq(reg(&c, seen, (uint32_t)id + 1, 0, &rep), EINPROGRESS);
	show(id);
	ck_assert_int_eq(reg(&c, seen, (uint32_t)id + 1, 0, &rep), 0);
	ck_assert_uint_eq(attached(id), 2);
	cx_close(&c);
	daemon_clean();
	ck_assert_uint_eq(attached(id), 1);
	daemon_stop();
}
END_TEST

/* Not shown; not there; out of range; not to be read or written: EINPROGRESS, or a region like any other. */
START_TEST(wrong)
{
	int id = seg_new(0600), ro = seg_new(0400), gone = seg_new(0600);
	struct msg_rep rep;
	struct cx c;
	uint8_t *p;

	show(gone);
	shmctl(gone, IPC_RMID, NULL);
	own_network();
	daemon_start_with("--private");
	cx_open(&c);
	cx_connect(&c, &c);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(p != MAP_FAILED);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, 0, &rep), EINPROGRESS);
	ck_assert_uint_eq(attached(id), 0);
	show(id);
	ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, LEN / 2 + 4096, &rep), 0);
	received(&c, p, rep.obj.lkey, p);
	ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, UINT64_MAX - 4095, &rep), 0);
	ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, 8, &rep), 0);
	ck_assert_int_eq(reg(&c, p, (uint32_t)ro + 1, 0, &rep), 0);
	ck_assert_int_eq(reg(&c, p, (uint32_t)gone + 1, 0, &rep), 0);
	ck_assert_int_eq(reg(&c, p, UINT32_MAX, 0, &rep), 0);
	received(&c, p, rep.obj.lkey, p);
	ck_assert_uint_eq(attached(id) + attached(ro), 0);
	cx_ping(&c);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
	shmctl(id, IPC_RMID, NULL);
	shmctl(ro, IPC_RMID, NULL);
}
END_TEST

/* A daemon for all users attaches nothing, not even what all the world may have. */
START_TEST(for_all)
{
	int id = seg_new(0666);
	uint8_t *p = attach(id);
	struct msg_rep rep;
	struct cx c;

	shmctl(id, IPC_RMID, NULL);
	if (geteuid() != 0) {
		printf("# skipped: a daemon for all users: that is root's\n");
		return;
	}
	daemon_start();
	cx_open(&c);
	cx_connect(&c, &c);
	for (unsigned i = 0; i < 2; i++) {
		show(id);
		ck_assert_int_eq(reg(&c, p, (uint32_t)id + 1, 0, &rep), 0);
		received(&c, p, rep.obj.lkey, p);
		ck_assert_uint_eq(attached(id), 1);
	}
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Killed with regions in many segments, and in the middle of asking for another one. */
START_TEST(killed)
{
	enum { MANY = 200 };
	int id[MANY], said[2];
	unsigned n = 0;
	pid_t pid;
	char ch;

	own_network();
	daemon_start_with("--private");
	for (unsigned i = 0; i < MANY; i++)
		id[i] = seg_new(0600);
	ck_assert_int_eq(pipe(said), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct msg_rep rep;
		struct cx c;

		cx_open(&c);
		for (unsigned i = 0; i < MANY; i++) {
			uint8_t *p = attach(id[i]);

			ck_assert_int_eq(reg(&c, p, (uint32_t)id[i] + 1, 0, &rep), EINPROGRESS);
			show(id[i]);
			if (i + 1 < MANY)
				ck_assert_int_eq(reg(&c, p, (uint32_t)id[i] + 1, 0, &rep), 0);
		}
		if (write(said[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(said[1]);
	ck_assert_int_eq(read(said[0], &ch, 1), 1);
	for (unsigned i = 0; i < MANY; i++)
		n += attached(id[i]);
	ck_assert_uint_eq(n, 2 * MANY - 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	daemon_clean();
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_uint_eq(attached(id[i]), 0);
		shmctl(id[i], IPC_RMID, NULL);
	}
	daemon_stop();
}
END_TEST

TEST_MAIN("hostile segments", right, wrong, for_all, killed)
