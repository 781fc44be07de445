/* SPDX-License-Identifier: MIT */
/*
 * ref.c - what the machine itself can do, for contrib/bench to compare with.
 *
 *	ref memcpy LEN			GB/s of memcpy between two buffers, over and over
 *	ref writev LEN			GB/s of process_vm_writev, one call of LEN bytes at a time
 *	ref carry vm|mem LEN		GB/s from one program to another through a third, as a daemon carries it that has mapped neither:
 *					by process_vm_readv and _writev, or by /proc/PID/mem, in pieces of CARRY_LEN bytes
 *	ref gso-recv PORT [LEN]		GB/s of payload that arrive in UDP_GRO trains (the server of the next); with LEN each packet's CRC is
 *					checked, and its payload copied to a region of so many bytes
 *	ref gso-send HOST PORT SEG N [LEN [M]]
 *					sends UDP_SEGMENT trains of N segments of SEG bytes for a second; with LEN their payload is
 *					copied from a region of so many bytes, and the CRC put behind it; with M each second train
 *					has so many segments
 *	ref pong-serve PORT [yield]	answers datagrams, spinning; yield: gives its core away when there is none
 *	ref pong HOST PORT LEN [MS [yield]]
 *					one-way microseconds of a ping-pong of LEN bytes, both ends spinning: the median; with MS
 *					the mean over that time, which tells more where many share a core
 *	ref relay spin|yield [N MS]	one-way microseconds (median) from program to program through a third that carries it
 *					from one to the other in shared memory, and nothing else: what the machine allows a
 *					daemon.  spin: the programs never give their core away, the third sleeps on a futex;
 *					yield: all three spin and give their cores away.  With N and MS: the mean of N pairs
 *					at once with one third
 *
 * Each prints one number.  GB is 10^9 bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench-ref.h"

#define CARRY_LEN 131072u /* BOUNCE_LEN of daemon/base/mem_vm.c */
#define PINGS     20000u

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Noreturn void die(const char *what)
{
	fprintf(stderr, "ref: %s: %s\n", what, strerror(errno));
	exit(1);
}

void *pages(size_t len, int kind)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	memset(p, 1, len);
	return p;
}

/* ---- memory ------------------------------------------------------------------ */

static int run_memcpy(size_t len)
{
	uint8_t *a = pages(len, MAP_PRIVATE), *b = pages(len, MAP_PRIVATE);
	uint64_t start = now_ns(), t, n = 0;

	do {
		memcpy(b, a, len);
		__asm__ volatile("" : : "r"(b) : "memory");
		n++;
	} while ((t = now_ns()) - start < RUN_NS);
	printf("%.3f\n", (double)(n * len) / (double)(t - start));
	return 0;
}

/* A process that has pages of its own at that address. */
static pid_t holder(void *p, size_t len)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(p, 2, len);
		for (;;)
			pause();
	}
	return pid;
}

static void holder_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int run_writev(size_t len)
{
	uint8_t *a = pages(len, MAP_PRIVATE), *b = pages(len, MAP_PRIVATE);
	struct iovec from = { a, len }, to = { b, len };
	uint64_t start, t, n = 0;
	pid_t pid = holder(b, len);

	process_vm_writev(pid, &from, 1, &to, 1, 0);
	start = now_ns();
	do {
		if (process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)len)
			die("process_vm_writev");
		n++;
	} while ((t = now_ns()) - start < RUN_NS);
	printf("%.3f\n", (double)(n * len) / (double)(t - start));
	holder_end(pid);
	return 0;
}

struct carrier {
	pid_t from, to;
	int from_fd, to_fd; /* -1: by pid */
};

static int memory_of(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static void carry(const struct carrier *c, uint8_t *at, uint8_t *here, size_t len)
{
	struct iovec there = { at, len }, local = { here, len };
	off_t off = (off_t)(uintptr_t)at;
	ssize_t got, put;

	got = c->from_fd < 0 ? process_vm_readv(c->from, &local, 1, &there, 1, 0) : pread(c->from_fd, here, len, off);
	put = c->to_fd < 0 ? process_vm_writev(c->to, &local, 1, &there, 1, 0) : pwrite(c->to_fd, here, len, off);
	if (got != (ssize_t)len || put != (ssize_t)len)
		die("memory of another process");
}

static int run_carry(bool by_fd, size_t len)
{
	uint8_t *a = pages(len, MAP_PRIVATE), *here = pages(CARRY_LEN, MAP_PRIVATE);
	struct carrier c = { holder(a, len), holder(a, len), -1, -1 };
	uint64_t start, t, n = 0;

	if (by_fd) {
		c.from_fd = memory_of(c.from);
		c.to_fd = memory_of(c.to);
	}
	start = now_ns();
	do {
		for (size_t at = 0; at < len; at += CARRY_LEN)
			carry(&c, a + at, here, len - at < CARRY_LEN ? len - at : CARRY_LEN);
		n++;
	} while ((t = now_ns()) - start < RUN_NS);
	printf("%.3f\n", (double)(n * len) / (double)(t - start));
	holder_end(c.from);
	holder_end(c.to);
	return 0;
}

/* ---- UDP ---------------------------------------------------------------------- */

struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (host && inet_pton(AF_INET, host, &a.sin_addr) != 1) {
		fprintf(stderr, "ref: %s is not an IPv4 address\n", host);
		exit(2);
	}
	return a;
}

int udp_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), len = 8 << 20;

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &len, sizeof(len)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
	return fd;
}

static int run_pong_serve(const char *port, bool yield)
{
	struct sockaddr_in a = address(NULL, port), from;
	socklen_t from_len;
	uint8_t buf[9000];
	int fd = udp_socket();
	ssize_t n;

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		die("bind");
	for (;;) {
		from_len = sizeof(from);
		n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
		if (n < 0) {
			if (yield)
				sched_yield();
			continue;
		}
		sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, from_len);
		if (n == 1)
			return 0;
	}
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int pong_socket(const char *host, const char *port)
{
	struct sockaddr_in a = address(host, port);
	int fd = udp_socket();

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	return fd;
}

static double median_us(uint64_t *took, unsigned n)
{
	qsort(took, n, sizeof(took[0]), cmp_u64);
	return (double)took[n / 2] / 2000.0;
}

static int run_pong(int fd, size_t len)
{
	static uint64_t took[PINGS];
	uint8_t buf[9000] = { 0 };
	uint64_t start;

	for (unsigned i = 0; i < PINGS; i++) {
		start = now_ns();
		if (send(fd, buf, len, 0) < 0)
			die("send");
		while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0)
			if (now_ns() - start > 2000000000u)
				die("no answer");
		took[i] = now_ns() - start;
	}
	send(fd, buf, 1, 0);
	printf("%.3f\n", median_us(took, PINGS));
	return 0;
}

static int run_pong_for(int fd, size_t len, uint64_t ms, bool yield)
{
	uint64_t start = now_ns(), t = start, end = start + ms * 1000000, n = 0;
	uint8_t buf[9000] = { 0 };

	while (t < end) {
		if (send(fd, buf, len, 0) < 0)
			die("send");
		while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0 && (t = now_ns()) < end)
			if (yield)
				sched_yield();
		n += t < end;
		t = now_ns();
	}
	send(fd, buf, 1, 0);
	if (!n)
		die("no answer");
	printf("%.3f\n", (double)(t - start) / (double)n / 2000.0);
	return 0;
}

/* ---- three parties ------------------------------------------------------------- */

struct relay_end {
	_Alignas(64) uint32_t posted;  /* by this program */
	_Alignas(64) uint32_t sent;    /* of those, carried over */
	_Alignas(64) uint32_t arrived; /* from the other program */
};

struct relay {
	struct relay_end end[2];
};

#define RELAYS 16u

struct third {
	_Alignas(64) uint32_t sleeps; /* it does: a futex */
	bool yield;
	unsigned n;
	struct relay pair[RELAYS];
};

static uint32_t word(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static void word_set(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }

/* One round: whether there was anything, and with carry, to the other end with it. */
static bool relay_look(struct third *t, bool carry)
{
	bool any = false;

	for (unsigned k = 0; k < 2 * t->n; k++) {
		struct relay_end *from = &t->pair[k / 2].end[k & 1], *to = &t->pair[k / 2].end[!(k & 1)];
		uint32_t n = word(&from->posted);

		if (n == from->sent)
			continue;
		any = true;
		if (!carry)
			break;
		word_set(&to->arrived, n);
		word_set(&from->sent, n);
	}
	return any;
}

static _Noreturn void relay_carry(struct third *t)
{
	for (;;) {
		if (relay_look(t, true))
			continue;
		if (t->yield) {
			sched_yield();
			continue;
		}
		word_set(&t->sleeps, 1);
		if (!relay_look(t, false))
			syscall(SYS_futex, &t->sleeps, FUTEX_WAIT, 1, NULL, NULL, 0);
		word_set(&t->sleeps, 0);
	}
}

/* As ib_write_lat does it: polls until its own message is gone, then waits for the other's in memory. */
static void relay_post(struct third *t, struct relay_end *e, uint32_t n)
{
	word_set(&e->posted, n);
	if (word(&t->sleeps) && __atomic_exchange_n(&t->sleeps, 0, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &t->sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (word(&e->sent) != n)
		sched_yield();
}

static void relay_await(struct third *t, struct relay_end *e, uint32_t n)
{
	while (word(&e->arrived) != n)
		if (t->yield)
			sched_yield();
}

static pid_t relay_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static struct third *third_new(bool yield, unsigned n)
{
	struct third *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		die("mmap");
	t->yield = yield;
	t->n = n;
	return t;
}

static _Noreturn void relay_answer(struct third *t, struct relay_end *e)
{
	for (uint32_t n = 1;; n++) {
		relay_await(t, e, n);
		relay_post(t, e, n);
	}
}

static _Noreturn void relay_ask(struct third *t, struct relay_end *e)
{
	for (uint32_t n = 1;; n++) {
		relay_post(t, e, n);
		relay_await(t, e, n);
	}
}

/* The median of one pair. */
static int run_relay(bool yield)
{
	struct third *t = third_new(yield, 1);
	struct relay_end *e = &t->pair[0].end[0];
	static uint64_t took[PINGS];
	uint64_t start, first = now_ns();
	pid_t third, other;
	uint32_t n = 0;

	third = relay_fork();
	if (!third)
		relay_carry(t);
	other = relay_fork();
	if (!other)
		relay_answer(t, &t->pair[0].end[1]);
	while (n < PINGS && now_ns() - first < 4 * RUN_NS) {
		start = now_ns();
		relay_post(t, e, n + 1);
		relay_await(t, e, n + 1);
		took[n++] = now_ns() - start;
	}
	printf("%.3f\n", median_us(took, n));
	kill(third, SIGKILL);
	kill(other, SIGKILL);
	waitpid(third, NULL, 0);
	waitpid(other, NULL, 0);
	return 0;
}

/* The mean over all messages of n pairs, for so long. */
static int run_relays(bool yield, unsigned n, uint64_t ms)
{
	struct third *t = third_new(yield, n);
	pid_t pid[2 * RELAYS + 1];
	uint64_t sum = 0, start = now_ns(), took;

	for (unsigned k = 0; k <= 2 * n; k++) {
		pid[k] = relay_fork();
		if (!pid[k] && k == 2 * n)
			relay_carry(t);
		if (!pid[k] && k & 1)
			relay_ask(t, &t->pair[k / 2].end[1]);
		if (!pid[k])
			relay_answer(t, &t->pair[k / 2].end[0]);
	}
	usleep((useconds_t)ms * 1000);
	took = now_ns() - start;
	for (unsigned k = 0; k < 2 * n; k++)
		sum += word(&t->pair[k / 2].end[k & 1].sent);
	for (unsigned k = 0; k <= 2 * n; k++) {
		kill(pid[k], SIGKILL);
		waitpid(pid[k], NULL, 0);
	}
	if (!sum)
		die("nothing arrived");
	printf("%.3f\n", (double)took * n / (double)sum / 1000.0);
	return 0;
}

int usage(void)
{
	fputs("usage: ref memcpy LEN | writev LEN | carry vm|mem LEN | gso-recv PORT [LEN] | gso-send HOST PORT SEG N "
	      "[LEN [M]] | pong-serve PORT [yield] "
	      "|\n"
	      "       pong HOST PORT LEN [MS [yield]] | relay spin|yield [N MS]\n",
	      stderr);
	return 2;
}

/* pong HOST PORT LEN [MS [yield]] */
static int pong_main(int argc, char **argv)
{
	size_t len = strtoul(argv[4], NULL, 0);
	int fd;

	if (len < 2 || len > 9000)
		return usage();
	fd = pong_socket(argv[2], argv[3]);
	return argc == 5 ? run_pong(fd, len) : run_pong_for(fd, len, strtoul(argv[5], NULL, 0), argc == 7);
}

/* relay spin|yield [N MS] */
static int relay_main(int argc, char **argv)
{
	bool yield = !strcmp(argv[2], "yield");
	unsigned long n = argc == 5 ? strtoul(argv[3], NULL, 0) : 1;

	if (!n || n > RELAYS)
		return usage();
	return argc == 3 ? run_relay(yield) : run_relays(yield, (unsigned)n, strtoul(argv[4], NULL, 0));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "memcpy") && argc == 3)
		return run_memcpy(strtoul(argv[2], NULL, 0));
	if (!strcmp(what, "writev") && argc == 3)
		return run_writev(strtoul(argv[2], NULL, 0));
	if (!strcmp(what, "carry") && argc == 4)
		return run_carry(!strcmp(argv[2], "mem"), strtoul(argv[3], NULL, 0));
	if (!strcmp(what, "gso-recv") && (argc == 3 || argc == 4))
		return gso_recv_main(argc, argv);
	if (!strcmp(what, "gso-send") && argc >= 6 && argc <= 8)
		return gso_send_main(argc, argv);
	if (!strcmp(what, "pong-serve") && (argc == 3 || argc == 4))
		return run_pong_serve(argv[2], argc == 4);
	if (!strcmp(what, "pong") && argc >= 5 && argc <= 7)
		return pong_main(argc, argv);
	if (!strcmp(what, "relay") && (argc == 3 || argc == 5))
		return relay_main(argc, argv);
	return usage();
}
