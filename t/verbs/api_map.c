/* SPDX-License-Identifier: MIT */
/*
 * api_map.c - memory that was turned into pages of a memfd: the program must not see any of it.
 *
 * Each test runs in a process of its own with one
 * thread; api_hold.c is about several.
 */
#include "fixture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN ((size_t)1 << 20)

/* WRITE from one MR to another through a pair of QPs. */
static void move(struct fix *f, struct ibv_mr *to, size_t to_off, struct ibv_mr *from, size_t from_off, uint32_t len)
{
	struct ibv_qp *a = fix_qp(f, IBV_QPT_RC, 4, NULL), *b = fix_qp(f, IBV_QPT_RC, 4, NULL);
	struct ibv_sge sge = { (uintptr_t)from->addr + from_off, len, from->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to->addr + to_off, to->rkey },
	};

	fix_connect(f, a, b);
	ck_assert_int_eq(ibv_post_send(a, &wr, &bad), 0);
	fix_wait_ok(f->cq);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
}

/* The bytes survive there and back, RDMA reaches them, partly touched memory and odd borders included. */
START_TEST(contents)
{
	static const struct {
		size_t off, len;
	} cut[] = { { 0, LEN }, { 1, LEN - 2 }, { 4095, LEN - 12000 }, { 5000, 70000 } };
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
		unsigned char *p = fix_blank(LEN), *q = fix_blank(LEN);
		struct ibv_mr *m, *n;

		fix_fill(p, LEN, i);
		fix_fill(q, 8192, 50); /* the rest was never touched */
		m = fix_reg(&f, p + cut[i].off, cut[i].len);
		n = fix_reg(&f, q + cut[i].off, cut[i].len);
		ck_assert(fix_is_mapped(p + 8192) && fix_is_mapped(q + 8192));
		ck_assert(fix_filled(p, LEN, i) && fix_filled(q, 8192, 50) && q[LEN / 2] == 0);
		move(&f, n, 0, m, 0, (uint32_t)cut[i].len);
		ck_assert_int_eq(memcmp(p + cut[i].off, q + cut[i].off, cut[i].len), 0);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert_int_eq(ibv_dereg_mr(n), 0);
		ck_assert(!fix_is_mapped(p + 8192) && !fix_is_mapped(q + 8192));
		ck_assert(fix_filled(p, LEN, i));
		ck_assert_int_eq(memcmp(p + cut[i].off, q + cut[i].off, cut[i].len), 0);
		ck_assert_int_eq(munmap(p, LEN), 0);
		ck_assert_int_eq(munmap(q, LEN), 0);
	}
	fix_close(&f);
}
END_TEST

/* A second registration of the same pages shares them; a part of them, too; the last one turns them back. */
START_TEST(again)
{
	struct fix f;
	unsigned char *p = fix_blank(LEN), *q = fix_blank(LEN);
	struct ibv_mr *m[3], *src;

	fix_open(&f);
	m[0] = fix_reg(&f, p, LEN);
	m[1] = fix_reg(&f, p, LEN);
	m[2] = fix_reg(&f, p + 10000, LEN / 2);
	fix_fill(q, LEN, 9);
	src = fix_reg(&f, q, LEN);
	ck_assert_int_eq(ibv_dereg_mr(m[0]), 0);
	ck_assert(fix_is_mapped(p));
	move(&f, m[1], 0, src, 0, 20000);
	ck_assert(fix_filled(p, 20000, 9));
	ck_assert_int_eq(ibv_dereg_mr(m[1]), 0);
	move(&f, m[2], 0, src, 10000, 30000);
	ck_assert_int_eq(memcmp(p + 10000, q + 10000, 30000), 0);
	ck_assert_int_eq(ibv_dereg_mr(m[2]), 0);
	ck_assert(!fix_is_mapped(p));
	ck_assert(fix_filled(p, 20000, 9));
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/*
 * A buffer that is registered a second time stays what it is for the third, and is found again if it is still there; of
 * such there are not too many, and none when the device is closed.
 */
START_TEST(kept)
{
	const size_t most = (size_t)32 << 20, len = most / 4;
	unsigned char *p = fix_blank(LEN), *q[6];
	unsigned shared = 0;
	struct ibv_mr *m, *src;
	struct fix f;

	fix_open(&f);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	fix_fill(src->addr, LEN, 4);
	for (unsigned i = 0; i < 4; i++) {
		p[LEN / 2] = (unsigned char)i;
		m = fix_reg(&f, p, LEN);
		ck_assert(fix_is_mapped(p) && p[LEN / 2] == i);
		move(&f, m, 0, src, 0, 20000);
		ck_assert(fix_filled(p, 20000, 4));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(fix_is_mapped(p) == (i > 0) && p[LEN / 2] == i);
	}
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	m = fix_reg(&f, p, LEN);
	move(&f, m, 0, src, 100, 20000);
	ck_assert(!memcmp(p, (unsigned char *)src->addr + 100, 20000) && p[LEN / 2] == 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	for (unsigned i = 0; i < 12; i++) {
		if (i < 6)
			q[i] = fix_blank(len);
		fix_fill(q[i % 6] + 5 * i, 1000, i);
		ck_assert_int_eq(ibv_dereg_mr(fix_reg(&f, q[i % 6], len)), 0);
		ck_assert(fix_filled(q[i % 6] + 5 * i, 1000, i));
	}
	for (unsigned i = 0; i < 6; i++)
		shared += fix_is_mapped(q[i]);
	ck_assert_uint_gt(shared, 1);
	ck_assert_uint_le(shared, 4);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
	for (unsigned i = 0; i < 6; i++)
		ck_assert(!fix_is_mapped(q[i]) && fix_filled(q[i] + 5 * (i + 6), 1000, i + 6));
	ck_assert(!fix_is_mapped(p));
}
END_TEST

/* Memory that the daemon reaches by its addresses, as paging on demand needs it, does not change under its hands. */
START_TEST(on_demand)
{
	const int lazy = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	unsigned char *p = fix_blank(LEN);
	struct ibv_mr *m, *odp;
	struct fix f;

	fix_open(&f);
	odp = ibv_reg_mr(f.pd, p + 8192, 4096, lazy);
	ck_assert(odp != NULL);
	m = fix_reg(&f, p, LEN);
	ck_assert(!fix_is_mapped(p));
	ck_assert_int_eq(ibv_dereg_mr(odp), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	m = fix_reg(&f, p, LEN);
	ck_assert(fix_is_mapped(p));
	odp = ibv_reg_mr(f.pd, NULL, SIZE_MAX, lazy);
	ck_assert(odp != NULL);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_is_mapped(p));
	ck_assert_int_eq(ibv_dereg_mr(odp), 0);
	fix_close(&f);
}
END_TEST

/* The program unmaps the memory of an MR that it keeps, and the kernel gives the address to other memory. */
START_TEST(replaced)
{
	struct fix f;
	unsigned char *p = fix_blank(LEN), *q;
	struct ibv_mr *m, *n, *src;

	fix_open(&f);
	m = fix_reg(&f, p, LEN);
	ck_assert_int_eq(munmap(p, LEN), 0);
	q = mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ck_assert_ptr_eq(q, p);
	n = fix_reg(&f, q, LEN);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	fix_fill(src->addr, 100000, 5);
	move(&f, n, 0, src, 0, 100000);
	ck_assert(fix_filled(q, 100000, 5));
	ck_assert_int_eq(ibv_dereg_mr(n), 0);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert(fix_filled(q, 100000, 5));
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/* After fork neither side sees what the other writes. */
START_TEST(fork_apart)
{
	unsigned char *p = fix_blank(LEN), *gone = fix_blank(LEN), *moved = fix_blank(LEN), *to;
	struct ibv_mr *m, *g, *v;
	int status, go[2];
	struct fix f;
	pid_t pid;
	char c;

	fix_open(&f);
	fix_fill(p, LEN, 1);
	fix_fill(moved, LEN, 2);
	m = fix_reg(&f, p, LEN);
	g = fix_reg(&f, gone, LEN);
	v = fix_reg(&f, moved, LEN);
	ck_assert(fix_is_mapped(p) && fix_is_mapped(gone) && fix_is_mapped(moved));
	/* Only the kernel knows what became of these two. */
	ck_assert_int_eq(munmap(gone, LEN), 0);
	to = mremap(moved, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, fix_blank(2 * LEN));
	ck_assert(to != MAP_FAILED);
	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		close(go[1]);
		if (fix_is_mapped(p) || fix_is_mapped(to))
			_exit(1);
		if (read(go[0], &c, 1) != 1) /* the parent has written */
			_exit(2);
		if (!fix_filled(p, LEN, 1) || !fix_filled(to, LEN, 2))
			_exit(3);
		memset(p, 0xee, LEN);
		memset(to, 0xee, LEN);
		_exit(0);
	}
	fix_fill(p, LEN, 3);
	fix_fill(to, LEN, 4);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(fix_is_mapped(p));
	ck_assert(fix_filled(p, LEN, 3) && fix_filled(to, LEN, 4));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(g), 0);
	ck_assert_int_eq(ibv_dereg_mr(v), 0);
	ck_assert(fix_filled(p, LEN, 3) && fix_filled(to, LEN, 4));
	fix_close(&f);
}
END_TEST

/* Memory from malloc, as programs do it: registered, used, given back, taken again. */
START_TEST(heap)
{
	struct fix f;
	struct ibv_mr *m, *src;
	unsigned char *p;
	unsigned shared = 0;

	fix_open(&f);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	memset(src->addr, 0xaa, LEN);
	for (unsigned i = 0; i < 60; i++) {
		size_t len = 100000 + i * 20000;

		p = i % 2 ? calloc(1, len) : malloc(len);
		ck_assert(p != NULL);
		ck_assert(!(i % 2) || (!p[0] && !memcmp(p, p + 1, len - 1))); /* all zero */
		m = fix_reg(&f, p, len);
		shared += (unsigned)fix_is_mapped(p + len / 2);
		move(&f, m, 0, src, 0, (uint32_t)(len < LEN ? len : LEN));
		ck_assert(p[0] == 0xaa && p[len / 2] == 0xaa);
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		if (i > 30 && i % 3 == 0) { /* from here on malloc() takes large pieces from the heap, too */
			p = realloc(p, len * 3);
			ck_assert(p && p[0] == 0xaa && p[len / 2] == 0xaa);
			memset(p, 1, len * 3);
		}
		free(p);
	}
	ck_assert_uint_gt(shared, 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

/* A small piece of the heap: its whole pages, and only of the first such regions. */
START_TEST(small)
{
	unsigned char *p[40];
	struct ibv_mr *m, *src;
	unsigned shared = 0;
	struct fix f;

	setenv("RDMAD_MAP", "4096", 1);
	fix_open(&f);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	memset(src->addr, 0xaa, LEN);
	for (unsigned i = 0; i < 40; i++) {
		p[i] = malloc(12000);
		ck_assert(p[i] != NULL);
		memset(p[i], 1, 12000);
		m = fix_reg(&f, p[i], 12000);
		shared += fix_is_mapped(p[i] + 6000);
		ck_assert(fix_is_mapped(p[0] + 6000) == (i == 0)); /* turned back when it is given up */
		move(&f, m, 0, src, 0, 12000);
		ck_assert(p[i][0] == 0xaa && !memcmp(p[i], p[i] + 1, 11999));
		ck_assert_int_eq(ibv_dereg_mr(m), 0);
		ck_assert(p[i][0] == 0xaa && !memcmp(p[i], p[i] + 1, 11999));
	}
	ck_assert_uint_gt(shared, 16);
	ck_assert_uint_le(shared, 32);
	for (unsigned i = 0; i < 40; i++)
		free(p[i]);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	fix_close(&f);
}
END_TEST

static const struct {
	const char *env;
	size_t below, from;
	bool good;
} sizes[] = { { "131072", 131072 - 4096, 131072, true },
	      { "0x20000", 131072 - 4096, 131072, true },
	      { "128K", 131072 - 4096, 131072, true },
	      { "1M", (1u << 20) - 4096, 1u << 20, true },
	      { "128k", 0, 0, false },
	      { "128KB", 0, 0, false },
	      { "-1", 0, 0, false },
	      { "99999999999999999999", 0, 0, false },
	      { "18014398509481984K", 0, 0, false } };

/* From RDMAD_MAP on, and not below; what is no size is said, and is as if it were not there. */
START_TEST(least)
{
	FILE *said = tmpfile();
	unsigned char *p, *q;
	char text[256];
	struct fix f;

	setenv("RDMAD_MAP", sizes[_i].env, 1);
	ck_assert(said && dup2(fileno(said), 2) == 2);
	fix_open(&f);
	if (sizes[_i].good) {
		p = fix_pages(sizes[_i].below, 1);
		q = fix_pages(sizes[_i].from, 1);
		fix_reg(&f, p, sizes[_i].below);
		fix_reg(&f, q, sizes[_i].from);
		ck_assert(!fix_is_mapped(p) && fix_is_mapped(q));
	}
	rewind(said);
	ck_assert(!fgets(text, sizeof(text), said) == sizes[_i].good);
	if (!sizes[_i].good)
		ck_assert(strstr(text, sizes[_i].env) && strstr(text, "is no size, and is ignored; give bytes"));
}
END_TEST

/*
 * Memory that is shared already: the daemon has mapped the file if a WRITE reaches it also after the program has mapped
 * other memory at the address.  keep: the program's own descriptor stays open.  It ends in its last page, all of which is there.
 */
static void shared_file(struct fix *f, int fd, const char *what, off_t off, bool keep, bool expect)
{
	unsigned char *p, *q = fix_blank(LEN), *seen;
	struct ibv_mr *m, *src;

	ck_assert_msg(fd >= 0 && !ftruncate(fd, (off_t)LEN + off - 1000), "%s: %s", what, strerror(errno));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off);
	seen = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off);
	ck_assert(p != MAP_FAILED && seen != MAP_FAILED);
	if (!keep)
		close(fd);
	fix_fill(q, LEN, 3);
	src = fix_reg(f, q, LEN);
	m = fix_reg(f, p + 100, LEN - 100);
	move(f, m, 0, src, 0, 20000);
	ck_assert_msg(fix_filled(p + 100, 20000, 3), "%s", what);
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	move(f, m, 30000, src, 0, 20000);
	ck_assert_msg(fix_filled(seen + 30100, 20000, 3) == expect, "%s: mapped?", what);
	ck_assert(fix_filled(p + 30100, 20000, 3) != expect);
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	if (keep)
		close(fd);
	munmap(p, LEN);
	munmap(seen, LEN);
	munmap(q, LEN);
}

START_TEST(shared_files)
{
	const int rw = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	char path[64], disk[] = "map-XXXXXX";
	struct fix f;
	int fd;

	fix_open(&f);
	snprintf(path, sizeof(path), "/dev/shm/rdmad-map-%d", (int)getpid());
	shared_file(&f, memfd_create("t", MFD_CLOEXEC), "memfd", 0, true, true);
	shared_file(&f, memfd_create("t", MFD_CLOEXEC), "memfd, from the middle", 8192, true, true);
	shared_file(&f, open(path, rw, 0600), "/dev/shm, by its path", 4096, false, true);
	unlink(path);
	fd = open(path, rw, 0600);
	unlink(path);
	shared_file(&f, fd, "/dev/shm, by its descriptor", 0, true, true);
	fd = mkstemp(disk);
	unlink(disk);
	shared_file(&f, fd, "a disk", 0, true, fcntl(fd, F_GET_SEALS) >= 0); /* unless it is none */
	fix_close(&f);
}
END_TEST

/* Regions of one file share a mapping: there can be many, and each is mapped. */
START_TEST(shared_many)
{
	enum { MANY = 1500 };
	int fd = memfd_create("t", MFD_CLOEXEC);
	struct ibv_mr *m[MANY], *src;
	unsigned char *p, *seen;
	struct fix f;

	fix_open(&f);
	ck_assert(fd >= 0 && !ftruncate(fd, (off_t)LEN));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	seen = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(p != MAP_FAILED && seen != MAP_FAILED);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	fix_fill(src->addr, LEN, 5);
	for (unsigned i = 0; i < MANY; i++)
		m[i] = fix_reg(&f, p + i, LEN - MANY);
	ck_assert(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	for (unsigned i = 0; i < MANY; i += MANY - 1) {
		move(&f, m[i], 8192 - i, src, 0, 4096);
		ck_assert(fix_filled(seen + 8192, 4096, 5));
		memset(seen, 0, LEN);
	}
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(ibv_dereg_mr(m[i]), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	close(fd);
	fix_close(&f);
}
END_TEST

/* The file is shorter than the mapping, or may only be read by its descriptor: the region is as good without it. */
START_TEST(shared_unfit)
{
	int fd = memfd_create("t", MFD_CLOEXEC);
	unsigned char *p;
	struct ibv_mr *m, *src;
	struct fix f;

	fix_open(&f);
	ck_assert(fd >= 0 && !ftruncate(fd, (off_t)LEN / 2));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(p != MAP_FAILED);
	src = fix_reg(&f, fix_blank(LEN), LEN);
	fix_fill(src->addr, LEN, 8);
	m = fix_reg(&f, p, LEN);
	move(&f, m, 0, src, 0, 20000);
	ck_assert(fix_filled(p, 20000, 8));
	ck_assert_int_eq(ibv_dereg_mr(m), 0);
	ck_assert_int_eq(ibv_dereg_mr(src), 0);
	close(fd);
	fix_close(&f);
}
END_TEST

/* Neither small ranges, nor such as overlap one that the daemon reaches in the other way, nor file mappings.
 */
START_TEST(left_alone)
{
	unsigned char *p = fix_blank(LEN), *q;
	struct ibv_mr *m[3];
	FILE *tmp = tmpfile();
	struct fix f;

	fix_open(&f);
	m[0] = fix_reg(&f, p + 8192, 4096);
	ck_assert(!fix_is_mapped(p + 8192));
	m[1] = fix_reg(&f, p, LEN);
	ck_assert(!fix_is_mapped(p) && !fix_is_mapped(p + 8192));
	ck_assert(tmp && !ftruncate(fileno(tmp), (off_t)LEN));
	q = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(tmp), 0);
	ck_assert(q != MAP_FAILED);
	m[2] = fix_reg(&f, q, LEN);
	ck_assert(!fix_is_mapped(q));
	move(&f, m[2], 0, m[1], 0, LEN);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_dereg_mr(m[i]), 0);
	fclose(tmp);
	fix_close(&f);
}
END_TEST

void api_map(Suite *s)
{
	TCase *t = tcase_create("least");

	SUITE_ADD(s, contents, again, replaced, fork_apart, kept, on_demand, heap, small, shared_files, shared_many,
		  shared_unfit, left_alone);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, least, 0, sizeof(sizes) / sizeof(*sizes));
	suite_add_tcase(s, t);
}
