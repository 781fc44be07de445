/* SPDX-License-Identifier: MIT */
/*
 * segment.c - a client names a SysV segment by its id: which it may have, and which not.
 *
 * The client is a child that does what it is told to, with a segment that the test has made.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/held.h"
#include "daemon/base/peer.h"
#include "daemon/base/region.h"
#include "t/suite.h"

#define LEN  (16u * 4096)
#define ADDR ((uint64_t)1 << 20) /* nothing is looked for there */

static int id, talk[2];
static pid_t child;
static struct peer peer;

/* ---- the client -------------------------------------------------------------------------- */

enum deed {
	ATTACH = 'a', /* and detaches it again */
	HOLD = 'h',   /* attaches it, and has it from then on */
	TWICE = 't',  /* a page of that once more, and no longer */
	APART = 'n',  /* an IPC namespace of its own; what it has attached stays */
	MAKE = 'm'    /* a segment there, which must have the same number */
};

static bool deed_do(char c)
{
	static char *held;
	static int at = -1;
	void *p;

	if (at < 0)
		at = id;
	switch (c) {
	case ATTACH: p = shmat(at, NULL, 0); return p != (void *)-1 && !shmdt(p);
	case HOLD: held = shmat(at, NULL, 0); return held != (void *)-1;
	case TWICE: p = mremap(held, 0, 4096, MREMAP_MAYMOVE); return p != MAP_FAILED && !munmap(p, 4096);
	case APART: return !unshare(CLONE_NEWIPC);
	case MAKE: at = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600); return at == id;
	}
	return false;
}

static void child_run(void)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(talk[1], &c, 1) == 1) {
		c = deed_do(c);
		if (write(talk[1], &c, 1) != 1)
			break;
	}
	_exit(0);
}

static void tell(enum deed d)
{
	char c = (char)d;

	ck_assert(write(talk[0], &c, 1) == 1 && read(talk[0], &c, 1) == 1);
	ck_assert_msg(c, "the client cannot do %c", (char)d);
}

/* ---- the test ---------------------------------------------------------------------------- */

static void setup(int flags)
{
	id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600 | flags);
	ck_assert_int_ge(id, 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		child_run();
	close(talk[1]);
	peer = (struct peer){ .own = child, .mem_fd = -1, .uid = geteuid(), .gid = getegid() };
}

static struct shmid_ds now(void)
{
	struct shmid_ds ds;

	ck_assert_int_eq(shmctl(id, IPC_STAT, &ds), 0);
	return ds;
}

static void teardown(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(talk[0]);
	ck_assert_uint_eq(now().shm_nattch, 0);
	shmctl(id, IPC_RMID, NULL);
}

static struct region *asked; /* that ask() has made */

static int ask(uint64_t len, uint64_t off)
{
	return region_new_segment(&asked, &peer, ADDR + off, len, -1, id, &(struct map_part){ ADDR + off, len, off });
}

/* A word is written into the region at its start, and is in the segment there; it ends. */
static void good(uint64_t off)
{
	uint64_t word = 0x6b636f6c62, *at;
	struct span here = { NULL, (uintptr_t)&word, sizeof(word) }, there = { asked, ADDR + off, sizeof(word) };
	uint8_t *seen = shmat(id, NULL, 0);

	ck_assert(seen != (void *)-1);
	at = (uint64_t *)(void *)(seen + off);
	*at = 0;
	ck_assert_int_eq(region_mem_ops.copy(NULL, &there, 1, &here, 1, 0), 0);
	ck_assert_uint_eq(*at, word);
	ck_assert_int_eq(shmdt(seen), 0);
	region_free(asked);
}

/* It shows that it has it, and is believed for that once. */
START_TEST(shown)
{
	struct region *one;

	setup(0);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	ck_assert_ptr_null(asked);
	ck_assert_uint_eq(now().shm_nattch, 0);
	tell(ATTACH);
	ck_assert_int_eq(ask(4096, 0), 0);
	one = asked;
	ck_assert_uint_eq(now().shm_nattch, 1);
	ck_assert_int_eq(ask(8192, 4096), 0); /* has been shown */
	ck_assert_uint_eq(now().shm_nattch, 1);
	good(4096);
	asked = one;
	good(0);
	ck_assert_uint_eq(now().shm_nattch, 0);
	tell(ATTACH);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(HOLD);
	ck_assert_int_eq(ask(4096, 0), 0);
	region_free(asked);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(TWICE);
	ck_assert_int_eq(ask(LEN, 0), 0);
	good(0);
	teardown();
}
END_TEST

/* One that has not got it, or had it before it was asked only - its number may be that of a program that is over -, has nothing. */
START_TEST(not_shown)
{
	setup(0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	ck_assert_int_eq(shmdt(shmat(id, NULL, 0)), 0);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	teardown();
	setup(0);
	tell(ATTACH);
	ck_assert_int_eq(now().shm_lpid, child);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	teardown();
}
END_TEST

/* Asked about one it shows another. */
START_TEST(another)
{
	int first, second;

	setup(0);
	first = id;
	second = id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(ATTACH);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	id = first;
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	id = second;
	shmctl(id, IPC_RMID, NULL);
	id = first;
	teardown();
}
END_TEST

/* In another IPC namespace the number is another segment's; what was attached before is the same as ever. */
START_TEST(elsewhere)
{
	if (unshare(CLONE_NEWIPC)) {
		printf("# skipped: elsewhere: no IPC namespaces here\n");
		return;
	}
	setup(0); /* the first in this one, ... */
	tell(APART);
	tell(MAKE); /* ... and this in that one: so both have the same number */
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(HOLD);
	tell(TWICE);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	teardown();
	setup(0);
	tell(HOLD);
	tell(APART);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(TWICE);
	ck_assert_int_eq(ask(4096, 0), 0);
	good(0);
	teardown();
}
END_TEST

static int ask_as(uid_t uid, gid_t gid, unsigned mode)
{
	static struct shmid_ds ds; /* later it may not be readable */

	if (!ds.shm_segsz)
		ds = now();
	ds.shm_perm.mode = (unsigned short)mode;
	ck_assert_int_eq(shmctl(id, IPC_SET, &ds), 0);
	peer.uid = uid;
	peer.gid = gid;
	return ask(4096, 0);
}

/* One that may not attach it for reading and writing gets it from nobody, whatever the daemon may. */
START_TEST(permissions)
{
	const uid_t us = geteuid(), other = us + 1;
	const gid_t ours = getegid(), others = ours + 1;
	struct region *one;

	setup(0);
	ck_assert_int_eq(ask_as(other, others, 0600), EACCES);
	ck_assert_int_eq(ask_as(other, ours, 0600), EACCES);
	ck_assert_int_eq(ask_as(other, others, 0660), EACCES);
	ck_assert_int_eq(ask_as(other, others, 0606), EACCES); /* is he of the group? */
	ck_assert_int_eq(ask_as(other, others, 0664), EACCES);
	ck_assert_int_eq(ask_as(other, ours, 0646), EACCES);
	ck_assert_int_eq(ask_as(us, ours, 0466), EACCES);
	ck_assert_int_eq(ask_as(us, ours, 0266), EACCES);
	ck_assert_int_eq(ask_as(other, ours, 0660), EINPROGRESS);
	ck_assert_int_eq(ask_as(other, others, 0666), EINPROGRESS);
	tell(ATTACH);
	ck_assert_int_eq(ask_as(other, others, 0600), EACCES); /* also if he has */
	ck_assert_int_eq(ask_as(us, ours, 0600), 0);
	one = asked;
	ck_assert_int_eq(ask_as(other, others, 0600), EACCES); /* also if the daemon has */
	region_free(one);
	teardown();
}
END_TEST

START_TEST(refused)
{
	struct region *r;
	int real;

	setup(0);
	peer.own = 0; /* not in this daemon */
	ck_assert_int_eq(ask(4096, 0), EPERM);
	peer.own = child;
	ck_assert_int_eq(ask(0, 0), EINVAL);
	ck_assert_int_eq(ask(LEN + 1, 0), EINVAL);
	ck_assert_int_eq(ask(4096, LEN), EINVAL);
	ck_assert_int_eq(ask(4096, LEN - 4095), EINVAL);
	ck_assert_int_eq(
		region_new_segment(&r, &peer, ADDR, 4096, -1, id, &(struct map_part){ ADDR, 4096, UINT64_MAX - 4095 }),
		EINVAL);
	ck_assert_int_eq(region_new_segment(&r, &peer, ADDR, 4096, -1, id, &(struct map_part){ ADDR, 4096, 8 }),
			 EINVAL);
	ck_assert_int_eq(region_new_segment(&r, &peer, ADDR, 4096, -1, id, &(struct map_part){ ADDR, 8192, 0 }),
			 EINVAL);
	ck_assert_int_eq(region_new_segment(&r, &peer, ADDR, 4096, -1, id, &(struct map_part){ ADDR - 4096, 4096, 0 }),
			 EINVAL);
	ck_assert_int_eq(
		region_new_segment(&r, &peer, UINT64_MAX - 10, 100, -1, id, &(struct map_part){ ADDR, 4096, 0 }),
		EINVAL);
	ck_assert_int_eq(ask(LEN, 0), EINPROGRESS);
	tell(ATTACH);
	ck_assert_int_eq(ask(LEN + 1, 0), EINVAL);
	ck_assert_int_eq(ask(LEN, 0), 0);
	ck_assert_int_eq(region_new_segment(&r, &peer, ADDR, LEN, -1, id, &(struct map_part){ ADDR, LEN, 4096 }),
			 EINVAL);
	region_free(asked);
	real = id;
	id = -1;
	ck_assert_int_eq(ask(4096, 0), EINVAL);
	id = INT32_MAX;
	ck_assert_int_ne(ask(4096, 0), 0);
	id = real;
	teardown();
}
END_TEST

/* It is to go with its last attachment: it can be had until then, and the region's is one. */
START_TEST(removed)
{
	int real;

	setup(0);
	tell(HOLD);
	ck_assert_int_eq(shmctl(id, IPC_RMID, NULL), 0);
	ck_assert_int_eq(ask(4096, 0), EINPROGRESS);
	tell(TWICE);
	ck_assert_int_eq(ask(4096, 0), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ck_assert_uint_eq(now().shm_nattch, 1);
	good(0);
	ck_assert_int_ne(shmctl(id, IPC_STAT, &(struct shmid_ds){ 0 }), 0);
	real = id;
	ck_assert_int_ne(ask(4096, 0), 0);
	ck_assert_int_ne(ask(4096, 0), EINPROGRESS);
	ck_assert_int_eq(id, real);
	close(talk[0]);
}
END_TEST

/* The kernel's number of a memfd may be that of a segment: they are not mistaken for each other. */
START_TEST(memfd)
{
	int file = memfd_create("segment", MFD_CLOEXEC);
	struct region *r;

	setup(0);
	ck_assert_int_eq(ftruncate(file, LEN), 0);
	ck_assert_int_eq(region_new(&r, &peer, ADDR, LEN, file, &(struct map_part){ ADDR, LEN, 0 }), 0);
	ck_assert_int_eq(ask(LEN, 0), EINPROGRESS);
	tell(ATTACH);
	ck_assert_int_eq(ask(LEN, 0), 0);
	good(0);
	region_free(r);
	close(file);
	teardown();
}
END_TEST

static bool line_write(const char *path, const char *fmt, unsigned n)
{
	FILE *f = fopen(path, "we");

	return f && fprintf(f, fmt, n, n) > 0 && fclose(f) == 0;
}

/* An IPC namespace: a test that fails leaves nothing behind. */
static bool ipc_new(void)
{
	unsigned uid = geteuid(), gid = getegid();

	if (!unshare(CLONE_NEWIPC))
		return true;
	return !unshare(CLONE_NEWUSER | CLONE_NEWIPC) && line_write("/proc/self/setgroups", "deny", 0) &&
	       line_write("/proc/self/uid_map", "%u %u 1", uid) && line_write("/proc/self/gid_map", "%u %u 1", gid);
}

int main(void)
{
	Suite *suite = suite_create("segment");

	if (!ipc_new())
		printf("# no IPC namespace of our own\n");
	SUITE_ADD(suite, shown, not_shown, another, elsewhere, permissions, refused, removed, memfd);
	return suite_run(suite);
}
