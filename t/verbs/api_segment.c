/* SPDX-License-Identifier: MIT */
/*
 * api_segment.c - regions in SysV shared memory, which the daemon attaches by its id.
 *
 * That it has done so is seen in the number of attachments, and in that a WRITE reaches the segment also after the program has mapped
 * other memory at the address.  A program that may open /proc/self/map_files, as root may outside of user namespaces, passes
 * a descriptor instead, and the daemon's mapping of that is no attachment.
 */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN  ((size_t)1 << 20)
#define PAGE 4096u

/* A segment that goes with its last attachment, as programs make it, attached twice. */
struct seg {
	int id;
	unsigned char *p, *seen;
};

static unsigned char *attach(int id, const void *at, int flags)
{
	unsigned char *p = shmat(id, at, flags);

	ck_assert_msg(p != (void *)-1, "%s", strerror(errno));
	return p;
}

static struct seg seg_new(size_t len)
{
	struct seg s = { .id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600) };

	ck_assert_msg(s.id >= 0, "%s", strerror(errno));
	s.p = attach(s.id, NULL, 0);
	s.seen = attach(s.id, NULL, 0);
	ck_assert_int_eq(shmctl(s.id, IPC_RMID, NULL), 0);
	return s;
}

/* Attachments; 0: there is none any more, and so no segment. */
static unsigned attached(int id)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) ? 0 : (unsigned)ds.shm_nattch;
}

/* Of the daemon, while there is a region. */
static unsigned daemons(void)
{
	static int n = -1;
	unsigned char *p;
	char path[96];
	int fd;

	if (n >= 0)
		return (unsigned)n;
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(p != MAP_FAILED);
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)(uintptr_t)p,
		 (unsigned long)(uintptr_t)p + PAGE);
	fd = open(path, O_PATH | O_CLOEXEC);
	n = fd < 0 ? 1 : 0;
	if (fd >= 0)
		close(fd);
	munmap(p, PAGE);
	return (unsigned)n;
}

static struct ibv_mr *reg(struct fix *f, void *p, size_t len, unsigned access)
{
	struct ibv_mr *m = ibv_reg_mr_iova2(f->pd, p, len, (uintptr_t)p, access);

	ck_assert_msg(m != NULL, "%s", strerror(errno));
	return m;
}

static struct ibv_mr *reg_all(struct fix *f, void *p, size_t len)
{
	return reg(f, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

/* The program's own memory, filled. */
static struct ibv_mr *source(struct fix *f, unsigned seed)
{
	unsigned char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	fix_fill(p, LEN, seed);
	return reg_all(f, p, LEN);
}

/* WRITE of the first len bytes of the one to an offset of the other. */
static void move(struct fix *f, struct ibv_mr *to, size_t to_off, struct ibv_mr *from, uint32_t len)
{
	struct ibv_qp *a, *b;
	struct ibv_sge sge = { (uintptr_t)from->addr, len, from->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)to->addr + to_off, to->rkey } };

	fix_pair(f, &a, &b);
	ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
	fix_wait_ok(f->cq);
	fix_pair_end(a, b);
}

/* Other memory takes the place of what is attached at p. */
static void replace(void *p, size_t len)
{
	ck_assert(mmap(p, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
}

/* From the middle, as far as the last byte; the segment goes with the last region in it. */
START_TEST(by_id)
{
	const size_t len = LEN - 1000;
	struct ibv_mr *m, *src;
	struct seg s;
	struct fix f;

	fix_open(&f);
	s = seg_new(len);
	src = source(&f, 3);
	ck_assert_uint_eq(attached(s.id), 2);
	m = reg_all(&f, s.p + 5000, len - 5000);
	ck_assert_uint_eq(attached(s.id), 2 + daemons());
	move(&f, m, 0, src, 20000);
	ck_assert(fix_filled(s.p + 5000, 20000, 3) && fix_filled(s.seen + 5000, 20000, 3));
	replace(s.p, LEN);
	move(&f, m, len - 5000 - 20000, src, 20000);
	ck_assert(fix_filled(s.seen + len - 20000, 20000, 3));
	ck_assert(!s.p[len - 1] && !s.p[len - 20000]);
	ck_assert_int_eq(shmdt(s.seen), 0);
	ck_assert_uint_eq(attached(s.id), daemons());
	move(&f, m, 0, src, 20000);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_uint_eq(attached(s.id), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/* Many regions, at two addresses, in two contexts: one attachment for each context, which goes with its last region. */
START_TEST(many)
{
	enum { MANY = 600 };
	struct ibv_mr *m[MANY], *other, *src;
	struct fix f, g;
	struct seg s;

	fix_open(&f);
	fix_open(&g);
	s = seg_new(LEN);
	src = source(&f, 5);
	for (unsigned i = 0; i < MANY; i++)
		m[i] = reg_all(&f, (i % 2 ? s.p : s.seen) + i, LEN - MANY);
	ck_assert_uint_eq(attached(s.id), 2 + daemons());
	other = reg_all(&g, s.p, LEN);
	ck_assert_uint_eq(attached(s.id), 2 + 2 * daemons());
	replace(s.p, LEN);
	move(&f, m[1], 8192 - 1, src, 4096);
	ck_assert(fix_filled(s.seen + 8192, 4096, 5));
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(ibv_dereg_mr(m[i]), 0);
	ck_assert_uint_eq(attached(s.id), 1 + daemons());
	ck_assert_int_eq(ibv_dereg_mr(other), 0);
	ck_assert_uint_eq(attached(s.id), 1);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&g);
	fix_close(&f);
}
END_TEST

/* In the middle of a region, which begins and ends in private memory. */
START_TEST(in_between)
{
	int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
	struct ibv_mr *m, *src;
	unsigned char *p, *seen;
	struct fix f;

	fix_open(&f);
	p = mmap(NULL, 3 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(p != MAP_FAILED);
	attach(id, p + LEN, SHM_REMAP);
	seen = attach(id, NULL, 0);
	ck_assert_int_eq(shmctl(id, IPC_RMID, NULL), 0);
	src = source(&f, 7);
	m = reg_all(&f, p, 3 * LEN);
	ck_assert_uint_eq(attached(id), 2 + daemons());
	move(&f, m, LEN - 5000, src, 10000);
	move(&f, m, 2 * LEN - 20000, src, 30000);
	ck_assert(fix_filled(p + LEN - 5000, 10000, 7) && fix_filled(p + 2 * LEN - 20000, 30000, 7));
	ck_assert(!memcmp(seen, p + LEN, LEN));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_uint_eq(attached(id), 2);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/* One that may only be read, or not be attached any more, is reached as ever, and not attached by the daemon. */
START_TEST(not_by_id)
{
	struct shmid_ds ds;
	struct ibv_mr *m, *n, *dst;
	struct fix f;
	struct seg s;
	unsigned char *ro;

	fix_open(&f);
	s = seg_new(LEN);
	dst = source(&f, 1);
	fix_fill(s.p, LEN, 9);
	ro = attach(s.id, NULL, SHM_RDONLY);
	m = reg(&f, ro, LEN, IBV_ACCESS_REMOTE_READ);
	ck_assert(!ibv_reg_mr(f.pd, ro, LEN, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(attached(s.id), 3);
	move(&f, dst, 0, m, 20000);
	ck_assert(fix_filled(dst->addr, 20000, 9));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(shmctl(s.id, IPC_STAT, &ds), 0);
	ds.shm_perm.mode = 0400;
	ck_assert_int_eq(shmctl(s.id, IPC_SET, &ds), 0);
	n = reg_all(&f, s.p, LEN);
	ck_assert_uint_eq(attached(s.id), 3);
	fix_fill(dst->addr, LEN, 2);
	move(&f, n, 4096, dst, 20000);
	ck_assert(fix_filled(s.seen + 4096, 20000, 2));
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
	ck_assert_int_eq(ibv_dereg_mr(dst), 0);
	fix_close(&f);
}
END_TEST

/* A forked child shares it, as it does without rdmad. */
START_TEST(forked)
{
	struct ibv_mr *m, *src;
	struct fix f;
	struct seg s;
	int go[2], status;
	pid_t pid;
	char c;

	fix_open(&f);
	s = seg_new(LEN);
	src = source(&f, 6);
	m = reg_all(&f, s.p, LEN);
	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		close(go[1]);
		if (read(go[0], &c, 1) != 1 || !fix_filled(s.p, 20000, 6))
			_exit(1);
		fix_fill(s.p + LEN / 2, 20000, 8);
		_exit(0);
	}
	ck_assert_uint_eq(attached(s.id), 4 + daemons());
	move(&f, m, 0, src, 20000);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(fix_filled(s.seen + LEN / 2, 20000, 8));
	ck_assert_uint_eq(attached(s.id), 2 + daemons());
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/* A program that is killed leaves no attachment of the daemon's. */
START_TEST(killed)
{
	struct seg s = seg_new(LEN);
	struct fix f;
	int said[2];
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(said), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		fix_open(&f);
		reg_all(&f, s.p, LEN);
		if (write(said[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(said[1]);
	ck_assert_int_eq(read(said[0], &c, 1), 1);
	ck_assert_uint_eq(attached(s.id), 4 + daemons());
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	for (unsigned ms = 0; attached(s.id) > 2; ms++) {
		ck_assert_uint_lt(ms, PATIENCE_S * 1000);
		usleep(1000);
	}
	ck_assert(!shmdt(s.p) && !shmdt(s.seen));
	ck_assert_uint_eq(attached(s.id), 0);
}
END_TEST

/* A memfd whose inode has the number that is the segment's id, both on the kernel's own file system: not to be mistaken for it. */
START_TEST(same_number)
{
	int own = open("/proc/sys/kernel/shm_next_id", O_WRONLY | O_CLOEXEC), id, fd = memfd_create("t", MFD_CLOEXEC),
	    n;
	struct ibv_mr *m, *other, *src;
	unsigned char *p, *q;
	struct stat st;
	struct fix f;
	char text[32];

	ck_assert(fd >= 0 && !ftruncate(fd, (off_t)LEN) && !fstat(fd, &st));
	n = snprintf(text, sizeof(text), "%ld", (long)st.st_ino);
	if (own < 0 || write(own, text, (size_t)n) != n) {
		printf("# skipped: a segment with the number of a memfd: this user cannot choose an id\n");
		return;
	}
	close(own);
	id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
	ck_assert_int_ge(id, 0);
	p = attach(id, NULL, 0);
	ck_assert_int_eq(shmctl(id, IPC_RMID, NULL), 0);
	if ((ino_t)id != st.st_ino) {
		printf("# skipped: a segment with the number of a memfd: that id is taken\n");
		return;
	}
	q = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(q != MAP_FAILED);
	fix_open(&f);
	src = source(&f, 4);
	other = reg_all(&f, q, LEN);
	m = reg_all(&f, p, LEN);
	move(&f, m, 0, src, 20000);
	ck_assert(fix_filled(p, 20000, 4));
	move(&f, other, 40000, src, 20000);
	ck_assert(fix_filled(q + 40000, 20000, 4) && !q[0] && !p[40000]);
	ck_assert_int_eq(ibv_dereg_mr(other), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	close(fd);
	fix_close(&f);
}
END_TEST

struct turn {
	struct fix *f;
	unsigned char *p;
};

static void *turns(void *arg)
{
	const struct turn *t = arg;

	for (unsigned i = 0; i < 50; i++)
		ck_assert_int_eq(ibv_dereg_mr(reg_all(t->f, t->p, LEN)), 0);
	return NULL;
}

/* Two threads show a segment each of one context, and get it. */
START_TEST(two_threads)
{
	int id[2];
	struct turn t[2];
	pthread_t thread[2];
	struct ibv_mr *m;
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < 2; i++) {
		id[i] = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
		t[i] = (struct turn){ &f, attach(id[i], NULL, 0) };
		ck_assert_int_eq(shmctl(id[i], IPC_RMID, NULL), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, turns, &t[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(attached(id[i]), 1);
		m = reg_all(&f, t[i].p, LEN);
		ck_assert_uint_eq(attached(id[i]), 1 + daemons());
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert_int_eq(shmdt(t[i].p), 0);
	}
	fix_close(&f);
}
END_TEST

/* The host gets n huge pages more.  false: this user may not do that. */
static bool huge_pages(int n)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "r+e");
	int now;
	bool good = f && fscanf(f, "%d", &now) == 1 && !fseek(f, 0, SEEK_SET) && fprintf(f, "%d\n", now + n) > 0;

	if (f)
		good &= !fclose(f);
	return good;
}

/* The lock is that of all tests which use such: t/hostile/stage.h. */
START_TEST(huge)
{
	const size_t len = ((size_t)2 << 20) - 5000;
	int lock = open("/proc/sys/vm/nr_hugepages", O_RDONLY | O_CLOEXEC), id = -1;
	struct ibv_mr *m, *src;
	unsigned char *p, *seen;
	struct fix f;

	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) || !huge_pages(1)) {
		printf("# skipped: a segment of huge pages: this user cannot have any, or another test does\n");
		close(lock);
		return;
	}
	id = shmget(IPC_PRIVATE, len, IPC_CREAT | SHM_HUGETLB | 0600);
	if (id >= 0) {
		p = attach(id, NULL, 0);
		seen = attach(id, NULL, 0);
		ck_assert_int_eq(shmctl(id, IPC_RMID, NULL), 0);
		fix_open(&f);
		src = source(&f, 3);
		m = reg_all(&f, p, len);
		ck_assert_uint_eq(attached(id), 2 + daemons());
		move(&f, m, len - 20000, src, 20000);
		ck_assert(fix_filled(seen + len - 20000, 20000, 3));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert_uint_eq(attached(id), 2);
		ck_assert_int_eq(ibv_dereg_mr(src), 0);
		fix_close(&f);
		ck_assert(!shmdt(p) && !shmdt(seen));
	}
	ck_assert(huge_pages(-1));
	close(lock);
}
END_TEST

void api_segment(Suite *s)
{
	SUITE_ADD(s, by_id, many, in_between, not_by_id, forked, killed, two_threads, same_number, huge);
}
