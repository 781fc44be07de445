/* SPDX-License-Identifier: MIT */
/*
 * region.c - copies between programs, mapped or not, against a model.
 *
 *	A	a child; the middle third of its memory is a memfd that is mapped here
 *	B	another child, reached by process_vm only
 *	here	this process
 *
 * The children are forked after the memory was made, so each has its own at the same address.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/held.h"
#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "t/maps.h"
#include "t/suite.h"

#define PLACES 3u
#define PART   (192u * 1024) /* a third; larger than what is moved in one go between two programs */
#define LEN    (3 * PART)
#define SPANS  12u

static uint8_t *mem; /* the same address in all three */
static uint8_t model[PLACES][LEN];
static struct region *region[PLACES]; /* [2]: NULL, here */
static pid_t child[2];
static struct peer peer[2];
static int fd;
static uint8_t *mapped; /* what fd holds */
static uint64_t dice;

static uint32_t below(uint32_t n)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(dice >> 33) % n;
}

static int memfd_sealed(size_t len, int seals)
{
	int f = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(f, 0);
	ck_assert_int_eq(ftruncate(f, (off_t)len), 0);
	ck_assert_int_eq(fcntl(f, F_ADD_SEALS, seals), 0);
	return f;
}

static void child_run(unsigned place, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (place == 0 && mmap(mem + PART, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		_exit(1);
	memset(mem, 'A' + (int)place, LEN);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void setup(void)
{
	int pipes[2];
	char c;

	fd = memfd_sealed(PART, F_SEAL_SHRINK);
	mapped = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(mem, MAP_FAILED);
	ck_assert_int_eq(pipe(pipes), 0);
	for (unsigned i = 0; i < 2; i++) {
		child[i] = fork();
		ck_assert_int_ge(child[i], 0);
		if (!child[i])
			child_run(i, pipes[1]);
		ck_assert_int_eq(read(pipes[0], &c, 1), 1);
		memset(model[i], 'A' + (int)i, LEN);
		peer[i] = (struct peer){ .pid = child[i], .mem_fd = -1 };
	}
	close(pipes[0]);
	close(pipes[1]);
	ck_assert_int_eq(region_new(&region[0], &peer[0], (uintptr_t)mem, LEN, fd,
				    &(struct map_part){ (uintptr_t)mem + PART, PART, 0 }),
			 0);
	ck_assert_int_eq(region_new(&region[1], &peer[1], (uintptr_t)mem, LEN, -1, NULL), 0);
}

static void teardown(void)
{
	for (unsigned i = 0; i < 2; i++) {
		region_free(region[i]);
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	munmap(mem, LEN);
	munmap(mapped, PART);
	close(fd);
}

/* All of a place, read the simple way. */
static void place_check(unsigned place)
{
	static uint8_t got[LEN];
	struct span to = { NULL, (uintptr_t)got, LEN }, from = { region[place], (uintptr_t)mem, LEN };

	ck_assert_int_eq(region_mem_ops.copy(NULL, &to, 1, &from, 1, 0), 0);
	ck_assert_int_eq(memcmp(got, model[place], LEN), 0);
}

/* Random pieces that do not overlap, in rising order, some of them empty; how many bytes. */
static uint32_t spans_draw(struct span *span, unsigned *n, unsigned place, uint32_t most)
{
	uint32_t pos = below(PART), total = 0, len;

	for (*n = 0; *n < SPANS && total < most && pos < LEN; (*n)++) {
		len = below(8) ? below(9000) : below(LEN);
		len = len < LEN - pos ? len : LEN - pos;
		len = len < most - total ? len : most - total;
		span[*n] = (struct span){ region[place], (uintptr_t)mem + pos, len };
		pos += len + (below(3) ? below(5000) : 0);
		total += len;
	}
	return total;
}

static void model_copy(unsigned to, const struct span *dst, unsigned from, const struct span *src, uint32_t off,
		       uint32_t total)
{
	static uint8_t flat[LEN];
	uint32_t at = 0;

	for (unsigned i = 0; at < off + total; at += src[i++].len)
		memcpy(flat + at, model[from] + (src[i].addr - (uintptr_t)mem),
		       at + src[i].len <= LEN ? src[i].len : LEN - at);
	for (uint32_t done = 0, i = 0; done < total; done += dst[i++].len)
		memcpy(model[to] + (dst[i].addr - (uintptr_t)mem), flat + off + done, dst[i].len);
}

START_TEST(copies)
{
	struct span dst[SPANS], src[SPANS];
	unsigned dst_n, src_n, to, from;
	uint32_t have, total, off, at;

	setup();
	memset(mem, 'C', LEN);
	memset(model[2], 'C', LEN);
	dice = 4;
	for (unsigned round = 0; round < 2000; round++) {
		to = below(PLACES);
		from = (to + 1 + below(PLACES - 1)) % PLACES;
		at = below(LEN); /* something new to tell apart */
		mem[at] = model[2][at] = (uint8_t)round;
		have = spans_draw(src, &src_n, from, LEN);
		off = below(have + 1);
		total = spans_draw(dst, &dst_n, to, have - off);
		ck_assert_int_eq(region_mem_ops.copy(NULL, dst, dst_n, src, src_n, off), 0);
		model_copy(to, dst, from, src, off, total);
		if (round % 50 == 0)
			place_check(below(PLACES));
	}
	for (unsigned i = 0; i < PLACES; i++)
		place_check(i);
	teardown();
}
END_TEST

START_TEST(atomics)
{
	uint64_t old, sum;

	setup();
	for (unsigned place = 0; place < 2; place++) {
		for (unsigned part = 0; part < 3; part++) {
			struct span at = { region[place], (uintptr_t)mem + part * PART + 8 * 77, 8 };
			struct span here = { NULL, (uintptr_t)&sum, 8 };
			uint64_t was = 0x0101010101010101u * ('A' + place);

			ck_assert_int_eq(region_mem_ops.fetch_add(NULL, &at, 5, &old), 0);
			ck_assert_uint_eq(old, was);
			ck_assert_int_eq(region_mem_ops.cmp_swap(NULL, &at, was, 9, &old), 0);
			ck_assert_uint_eq(old, was + 5);
			ck_assert_int_eq(region_mem_ops.cmp_swap(NULL, &at, was + 5, 9, &old), 0);
			ck_assert_uint_eq(old, was + 5);
			ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &at, 1, 0), 0);
			ck_assert_uint_eq(sum, 9);
		}
	}
	teardown();
}
END_TEST

static uint64_t word_of(unsigned place, uint64_t addr)
{
	uint64_t v = 0;
	struct iovec to = { &v, sizeof(v) }, from = { (void *)(uintptr_t)addr, sizeof(v) };

	ck_assert_int_eq(process_vm_readv(child[place], &to, 1, &from, 1, 0), sizeof(v));
	return v;
}

/* Small copies that were put off are made by settle(). */
/* ---- the last byte comes last ---------------------------------------------------- */

static const volatile uint8_t *last; /* looked at by the two below, unless NULL */
static unsigned looked, early;

static void last_look(void)
{
	looked += last != NULL;
	early += last && *last == 'L';
}

/* The daemon's calls come here. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_n, const struct iovec *from,
			 unsigned long from_n, unsigned long flags)
{
	last_look();
	return syscall(SYS_process_vm_readv, pid, to, to_n, from, from_n, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_n, const struct iovec *to,
			  unsigned long to_n, unsigned long flags)
{
	last_look();
	return syscall(SYS_process_vm_writev, pid, from, from_n, to, to_n, flags);
}

/* A piece by a call, and the last one without. */
static void last_copy(const struct span *dst, const struct span *src, const volatile uint8_t *at)
{
	looked = early = 0;
	last = at;
	ck_assert_int_eq(region_mem_ops.copy(NULL, dst, 1, src, 1, 0), 0);
	last = NULL;
	ck_assert_uint_eq(*at, 'L');
	ck_assert_uint_eq(looked, 1);
	ck_assert_uint_eq(early, 0);
}

START_TEST(last_byte)
{
	static uint8_t here[4096];
	const uint32_t lens[] = { 40, 4096 };

	setup();
	for (unsigned i = 0; i < 2; i++) {
		/* 32 bytes are read or written by a call. */
		struct span a = { region[0], (uintptr_t)mem + PART - 32, lens[i] },
			    h = { NULL, (uintptr_t)here, lens[i] };

		memset(here, 'L', sizeof(here));
		last_copy(&a, &h, mapped + lens[i] - 32 - 1);
		memset(here, 0, sizeof(here));
		last_copy(&h, &a, here + lens[i] - 1);
		memset(mapped, 0, PART);
	}
	teardown();
}
END_TEST

START_TEST(put_off)
{
	uint64_t one = 1, was, at;
	struct span here = { NULL, (uintptr_t)&one, sizeof(one) }, there;

	setup();
	at = (uintptr_t)mem;
	there = (struct span){ region[1], at, sizeof(one) };
	was = word_of(1, at);
	region_defer(true);
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_uint_eq(word_of(1, at), was);
	region_mem_ops.settle(NULL);
	ck_assert_uint_eq(word_of(1, at), 1);
	/* A word stored behind such a copy stays. */
	one = 2;
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_int_eq(region_mem_ops.store(NULL, &there, 3), 0);
	ck_assert_uint_eq(word_of(1, at), 3);
	region_defer(false);
	ck_assert_uint_eq(word_of(1, at), 3);
	teardown();
}
END_TEST

/* A file that its owner cuts short, as he may if it has no seal: an error, and only there. */
START_TEST(cut_short)
{
	int file = memfd_create("cut", MFD_CLOEXEC);
	uint8_t data[16] = "fifteen letters";
	struct span here = { NULL, (uintptr_t)data, sizeof(data) }, there;
	struct region *r;

	held_begin();
	setup();
	ck_assert_int_eq(ftruncate(file, PART), 0);
	ck_assert_int_eq(
		region_new(&r, &peer[0], (uintptr_t)mem, PART, file, &(struct map_part){ (uintptr_t)mem, PART, 0 }), 0);
	there = (struct span){ r, (uintptr_t)mem, sizeof(data) };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_int_eq(ftruncate(file, 0), 0);
	ck_assert_int_ne(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_int_ne(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	region_free(r);
	place_check(0);
	close(file);
	teardown();
}
END_TEST

static unsigned mappings_of(const char *name)
{
	struct mapping m;

	return maps_named(name, &m);
}

/* They are unmapped by another thread. */
static void mappings_end(const char *name)
{
	for (unsigned i = 0; i < PATIENCE_MS && mappings_of(name); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	ck_assert_uint_eq(mappings_of(name), 0);
}

/*
 * One mapping for all regions of a client in a file, whatever their places and order, so that there can be as many as
 * there are keys; each client has its own.
 */
START_TEST(shared)
{
	enum { MANY = 70000, PAGES = 8 }; /* more than a process has mappings */
	static struct region *r[MANY];
	int file = memfd_create("rd-shared", MFD_CLOEXEC), other = memfd_create("rd-other", MFD_CLOEXEC);
	struct span here, there;
	uint8_t byte = 0;
	uint64_t a = 1 << 20;

	ck_assert_int_eq(ftruncate(file, 4096 * PAGES), 0);
	ck_assert_int_eq(ftruncate(other, 4096), 0);
	for (unsigned i = 0; i < MANY; i++) {
		uint64_t off = 4096 * below(PAGES) + below(4096), len = 1 + below((uint32_t)(4096 * PAGES - off));

		ck_assert_int_eq(
			region_new(&r[i], &peer[0], a + off, len, file, &(struct map_part){ a + off, len, off }), 0);
	}
	ck_assert_uint_eq(mappings_of("memfd:rd-shared"), 1);
	for (unsigned i = 0; i < MANY; i++)
		region_free(r[i]);
	mappings_end("memfd:rd-shared");

	ck_assert_int_eq(region_new(&r[0], &peer[0], a, 1, file, &(struct map_part){ a, 1, 0 }), 0);
	ck_assert_int_eq(region_new(&r[1], &peer[1], a, 4096, file, &(struct map_part){ a, 4096, 0 }), 0);
	ck_assert_int_eq(region_new(&r[2], &peer[0], a, 1, other, &(struct map_part){ a, 1, 0 }), 0);
	ck_assert_uint_eq(mappings_of("memfd:rd-shared"), 2);
	ck_assert_uint_eq(mappings_of("memfd:rd-other"), 1);
	here = (struct span){ NULL, (uintptr_t) & "x", 1 };
	there = (struct span){ r[0], a, 1 };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	here.addr = (uintptr_t)&byte;
	there.region = r[1];
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	ck_assert_int_eq(byte, 'x');
	for (unsigned i = 0; i < 3; i++)
		region_free(r[i]);
	mappings_end("memfd:rd-");
	close(file);
	close(other);
}
END_TEST

/* Of regions that share a mapping, those whose pages are there do not notice that others' are not. */
START_TEST(shared_cut)
{
	int file = memfd_create("rd-cut", MFD_CLOEXEC);
	struct region *low, *high;
	uint64_t a = 1 << 20;
	uint8_t data[16] = "fifteen letters";
	struct span here = { NULL, (uintptr_t)data, sizeof(data) }, at_low, at_high;

	held_begin();
	ck_assert_int_eq(ftruncate(file, 8 * 4096), 0);
	ck_assert_int_eq(region_new(&low, &peer[0], a, 4 * 4096, file, &(struct map_part){ a, 4 * 4096, 0 }), 0);
	ck_assert_int_eq(region_new(&high, &peer[0], a + 4 * 4096, 4 * 4096, file,
				    &(struct map_part){ a + 4 * 4096, 4 * 4096, 4 * 4096 }),
			 0);
	at_low = (struct span){ low, a, sizeof(data) };
	at_high = (struct span){ high, a + 6 * 4096, sizeof(data) };
	ck_assert_int_eq(ftruncate(file, 4 * 4096), 0);
	ck_assert_int_ne(region_mem_ops.copy(NULL, &at_high, 1, &here, 1, 0), 0);
	at_high.addr = a + 4 * 4096;
	ck_assert_int_ne(region_mem_ops.copy(NULL, &here, 1, &at_high, 1, 0), 0);
	ck_assert_int_eq(region_mem_ops.copy(NULL, &at_low, 1, &here, 1, 0), 0);
	memset(data, 0, sizeof(data));
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &at_low, 1, 0), 0);
	ck_assert_str_eq((const char *)data, "fifteen letters");
	region_free(low);
	region_free(high);
	close(file);
}
END_TEST

/* A client that registers again what it has lost gets pages that are there, and the torn mapping goes with its last region. */
START_TEST(torn_anew)
{
	enum { MANY = 1000 };
	int file = memfd_create("rd-anew", MFD_CLOEXEC);
	struct region *old[MANY], *r;
	uint64_t a = 1 << 20;
	uint8_t byte = 'x';
	struct span here = { NULL, (uintptr_t)&byte, 1 }, there;

	held_begin();
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(ftruncate(file, 4096), 0);
		ck_assert_int_eq(region_new(&old[i], &peer[0], a, 4096, file, &(struct map_part){ a, 4096, 0 }), 0);
		there = (struct span){ old[i], a, 1 };
		ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
		ck_assert_int_eq(ftruncate(file, 0), 0);
		ck_assert_int_ne(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	}
	ck_assert_int_eq(ftruncate(file, 4096), 0);
	ck_assert_int_eq(region_new(&r, &peer[0], a, 4096, file, &(struct map_part){ a, 4096, 0 }), 0);
	for (unsigned i = 0; i < MANY; i++)
		region_free(old[i]);
	there = (struct span){ r, a, 1 };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_uint_eq(mappings_of("memfd:rd-anew"), 1);
	region_free(r);
	mappings_end("memfd:rd-anew");
	close(file);
}
END_TEST

#ifdef __SANITIZE_THREAD__ /* which maps memory of its own as it likes, and ends if it cannot */
#define FULL
#else
#define FULL torn_when_full,
/* Then, too, pages that are lost fail their client only.  Nothing else is done until there is room again: no heap. */
START_TEST(torn_when_full)
{
	enum { PAGES = 64 };
	int file = memfd_create("rd-full", MFD_CLOEXEC), err;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	struct region *r;
	size_t most = 0;
	uint64_t a = 1 << 20;
	uint8_t byte = 'x', *fill;
	struct span here = { NULL, (uintptr_t)&byte, 1 }, there;
	unsigned failed = 0;

	held_begin();
	ck_assert(f && fscanf(f, "%zu", &most) == 1);
	fclose(f);
	ck_assert_int_eq(ftruncate(file, PAGES * 4096), 0);
	ck_assert_int_eq(region_new(&r, &peer[0], a, PAGES * 4096, file, &(struct map_part){ a, PAGES * 4096, 0 }), 0);
	fill = mmap(NULL, 2 * most * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert(fill != MAP_FAILED);
	ck_assert_int_eq(ftruncate(file, 0), 0);
	errno = 0;
	for (size_t i = 1; i < most && mprotect(fill + 2 * i * 4096, 4096, PROT_READ) == 0; i++)
		;
	err = errno;
	for (unsigned page = PAGES; page--;) {
		there = (struct span){ r, a + 4096 * page, 1 };
		failed += region_mem_ops.copy(NULL, &there, 1, &here, 1, 0) != 0;
		failed += region_mem_ops.copy(NULL, &here, 1, &there, 1, 0) != 0;
	}
	munmap(fill, 2 * most * 4096);
	ck_assert_int_eq(err, ENOMEM);
	ck_assert_uint_eq(failed, 2 * PAGES);
	region_free(r);
	close(file);
}
END_TEST
#endif

START_TEST(refused)
{
	uint64_t a;
	struct region *r;
	char path[64];
	int bad, ro;

	setup();
	a = (uintptr_t)mem;
	bad = memfd_sealed(PART, F_SEAL_GROW);
	ck_assert_int_eq(region_new_fd(&r, &peer[0], a, PART, bad, 0), EINVAL); /* it could shrink */
	close(bad);
	bad = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); /* on a disk */
	ck_assert_int_eq(region_new(&r, &peer[0], a, 4096, bad, &(struct map_part){ a, 4096, 0 }), EINVAL);
	close(bad);
	bad = memfd_create("read-only", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(bad, PART), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", bad);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(region_new(&r, &peer[0], a, PART, ro, &(struct map_part){ a, PART, 0 }), EACCES);
	close(ro);
	close(bad);
	/* Shorter than it says, at another place of its page, or not inside of the region. */
	ck_assert_int_eq(region_new(&r, &peer[0], a, LEN, fd, &(struct map_part){ a, LEN, 0 }), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], a, LEN, fd, &(struct map_part){ a, PART, 4096 }), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], a, LEN, fd, &(struct map_part){ a + 8, 4096, 0 }), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], a, 4096, fd, &(struct map_part){ a, 8192, 0 }), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], a + 4096, 4096, fd, &(struct map_part){ a, 4096, 0 }), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], UINT64_MAX - 10, 100, -1, NULL), EINVAL);
	ck_assert_int_eq(region_new(&r, &peer[0], 4096, 100, -1, NULL), EFAULT);
	ck_assert_ptr_null(r);
	teardown();
}
END_TEST

START_TEST(gone)
{
	uint8_t byte = 0;
	struct span here = { NULL, (uintptr_t)&byte, 1 }, there;

	setup();
	there = (struct span){ region[1], (uintptr_t)mem, 1 };
	kill(child[1], SIGKILL);
	waitpid(child[1], NULL, 0);
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), ESRCH);
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), ESRCH);
	/* Mapped memory outlives its program. */
	kill(child[0], SIGKILL);
	waitpid(child[0], NULL, 0);
	there = (struct span){ region[0], (uintptr_t)mem + PART, 1 };
	ck_assert_int_eq(region_mem_ops.copy(NULL, &here, 1, &there, 1, 0), 0);
	ck_assert_int_eq(byte, 'A');
	region_free(region[0]);
	region_free(region[1]);
	munmap(mem, LEN);
	close(fd);
}
END_TEST

/* Of a file with huge pages the kernel takes back whole ones only: a length that is none would stay mapped for ever. */
START_TEST(huge_length)
{
	int file = memfd_create("huge", MFD_HUGETLB | MFD_CLOEXEC);
	unsigned char in_core;
	struct held *h;
	uint8_t *base;
	size_t page;

	ck_assert_int_ge(file, 0);
	page = held_page(file);
	ck_assert_uint_gt(page, 4096);
	ck_assert_int_eq(ftruncate(file, (off_t)page), 0);
	ck_assert_int_eq(held_map(&h, file, 0, page - 4096, MAP_NORESERVE), 0); /* none of them is needed */
	base = h->base;
	ck_assert_int_eq(mincore(base, 4096, &in_core), 0);
	held_unmap(h);
	ck_assert(mincore(base, 4096, &in_core) < 0 && errno == ENOMEM);
	close(file);
}
END_TEST

static bool huge_is_here(void)
{
	int file = memfd_create("huge", MFD_HUGETLB | MFD_CLOEXEC);

	if (file >= 0)
		close(file);
	return file >= 0;
}

int main(void)
{
	Suite *suite = suite_create("region");

	SUITE_ADD(suite, copies, atomics, last_byte, put_off, cut_short, shared, shared_cut, torn_anew, FULL refused,
		  gone);
	if (huge_is_here())
		SUITE_ADD(suite, huge_length);
	else
		printf("ok - huge_length # SKIP no huge pages in this kernel\n");
	return suite_run(suite);
}
