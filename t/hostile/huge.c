/* SPDX-License-Identifier: MIT */
/*
 * huge.c - memory taken away under an MR: a hole in a memfd or SysV segment of huge pages, and the page that could fill it given to
 * somebody.
 */
#include "t/suite.h"

#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGES "/proc/sys/vm/nr_hugepages"
#define HUGE  (2ul << 20)
#define TRIES 20u

static long pages_get(void)
{
	FILE *f = fopen(PAGES, "re");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void pages_set(long n)
{
	FILE *f = fopen(PAGES, "we");

	if (f) {
		fprintf(f, "%ld\n", n);
		fclose(f);
	}
}

/* All free huge pages, in the mapping that is returned. */
static void pages_take(void)
{
	for (;;) {
		int fd = memfd_create("taker", MFD_HUGETLB | MFD_CLOEXEC);
		char *m;

		if (ftruncate(fd, (off_t)HUGE))
			return;
		m = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (m == MAP_FAILED)
			return;
		*m = 1;
	}
}

/*
 * cut: a piece that neither begins nor ends where a huge page does.  fd -1: of the segment of that id, which is shown when it is asked
 * for.
 */
static uint32_t reg(struct cx *c, int fd, int id, char *m, unsigned cut)
{
	struct msg_req req = { .op = MSG_MR_REG,
			       .mr = { .pd = c->pd,
				       .access = ACC_LOCAL_WRITE,
				       .kind = MR_MEM,
				       .addr = (uintptr_t)m + cut,
				       .len = HUGE - 2 * cut,
				       .iova = (uintptr_t)m + cut,
				       .map_addr = (uintptr_t)m + cut,
				       .map_len = HUGE - 2 * cut,
				       .map_off = cut,
				       .seg = fd < 0 ? (uint32_t)id + 1 : 0 } };
	struct msg_rep rep;
	int fds[CALL_FDS];

	ck_assert(say(c->fd, &req, msg_req_len(req.op), &fd, fd >= 0, 0));
	ck_assert(hear(c->fd, &rep, fds));
	if (fd < 0 && rep.err == EINPROGRESS) {
		ck_assert_int_eq(shmdt(shmat(id, NULL, 0)), 0);
		ck_assert(say(c->fd, &req, msg_req_len(req.op), NULL, 0, 0));
		ck_assert(hear(c->fd, &rep, fds));
	}
	ck_assert_int_eq(rep.err, 0);
	return rep.obj.lkey;
}

/* true: sending from the hole, or receiving into it, ended in an error; false: it was done. */
static bool hole_fails(struct cx *c, int fd, char *m, bool whole, uint32_t key)
{
	const struct cx own = *c;
	bool failed = false;
	struct cqe e;

	if (fd < 0)
		ck_assert_int_eq(madvise(m, HUGE, MADV_REMOVE), 0);
	else
		ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HUGE), 0);
	pages_take();
	if (!whole)
		cx_recv(c, 1, 0, 64);
	c->key = key;
	c->buf = (uint8_t *)m + 4096;
	if (whole)
		cx_recv(c, 1, 0, 64);
	cx_send(c, 2, 1024, 5);
	c->key = own.key;
	c->buf = own.buf;
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_msg(cx_poll(c, &e), "no completion");
		failed |= e.status != WC_SUCCESS;
	}
	return failed;
}

/* arg: NULL: a part of the page is sent from; else all of it is sent from and received into.  note 0: all came as it should. */
static void punch(void *arg)
{
	bool whole = arg != NULL;
	int fd = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
	bool failed = false;
	struct cx c;
	char *m;

	ck_assert_int_eq(ftruncate(fd, (off_t)HUGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	m = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(m != MAP_FAILED);
	memset(m, 1, HUGE);
	cx_open(&c);
	cx_connect(&c, &c);
	cx_ping(&c);
	uint32_t key = reg(&c, fd, -1, m, whole ? 0 : 4096);
	/* Somebody else of the host may give a huge page back in that moment: then the hole is filled, and nothing is shown. */
	for (unsigned i = 0; i < TRIES && !failed; i++)
		failed = hole_fails(&c, fd, m, whole, key);
	ck_assert(failed);
	note_set(0, 1);
	cx_close(&c);
}

static void punched(void *whole)
{
	long before = pages_get();

	stage_open("--shards=1");
	pages_set(before + 1);
	part_end(part_begin(UID_ATTACKER, punch, whole));
	ck_assert_uint_eq(note->n[0], 1);
	stage_goes_on(50);
	stage_close();
}

START_TEST(part) { punched(NULL); }
END_TEST
START_TEST(whole) { punched(""); }
END_TEST

static unsigned attached(int id)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) ? 0 : (unsigned)ds.shm_nattch;
}

/* A segment that is a little shorter than its page; another context of the daemon does not notice. */
START_TEST(segment)
{
	long before = pages_get();
	bool failed = false;
	struct cx c, other;
	uint32_t key;
	char *m;
	int id;

	stage_network();
	daemon_start_with("--private");
	pages_set(before + 1);
	id = shmget(IPC_PRIVATE, HUGE - 5000, SHM_HUGETLB | IPC_CREAT | 0600);
	ck_assert_int_ge(id, 0);
	m = shmat(id, NULL, 0);
	ck_assert(m != (void *)-1);
	shmctl(id, IPC_RMID, NULL);
	memset(m, 1, HUGE);
	cx_open(&c);
	cx_open(&other);
	cx_connect(&c, &c);
	cx_connect(&other, &other);
	key = reg(&c, -1, id, m, 4096);
	ck_assert_uint_eq(attached(id), 2);
	for (unsigned i = 0; i < TRIES && !failed; i++)
		failed = hole_fails(&c, -1, m, true, key);
	ck_assert(failed);
	cx_ping(&other);
	cx_close(&other);
	cx_close(&c);
	daemon_clean();
	ck_assert_uint_eq(attached(id), 1);
	daemon_stop();
}
END_TEST

int main(void)
{
	int status = 77;
	long before;

	stage_huge_pages(true);
	before = pages_get();
	pages_set(before + 1);
	if (pages_get() > before)
		status = stage_main("hostile: huge pages", (const TTest *const[]){ part, whole, segment, NULL });
	else
		printf("skipped: no huge page can be had here, or not by this user\n");
	pages_set(before);
	return status;
}
