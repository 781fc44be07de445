/* SPDX-License-Identifier: MIT */
/*
 * ref.c - what the machine itself can do, for contrib/bench to compare with.
 *
 *	ref memcpy LEN			GB/s of memcpy between two buffers, over and over
 *	ref writev LEN			GB/s of process_vm_writev, one call of LEN bytes at a time
 *	ref gso-recv PORT		GB/s of payload that arrive in UDP_GRO trains (the server of the next)
 *	ref gso-send HOST PORT SEG N	sends UDP_SEGMENT trains of N segments of SEG bytes for a second
 *	ref pong-serve PORT		answers datagrams, spinning
 *	ref pong HOST PORT LEN [N]	one-way microseconds of a ping-pong of LEN bytes, both ends spinning: the median; with N
 *					the mean of N, which tells more where many share a core
 *
 * Each prints one number.  GB is 10^9 bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_NS 500000000ull
#define TRAIN_LEN 65536u
#define PINGS 20000u

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "ref: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *pages(size_t len, int kind)
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

static int run_writev(size_t len)
{
	uint8_t *a = pages(len, MAP_PRIVATE), *b = pages(len, MAP_PRIVATE);
	struct iovec from = { a, len }, to = { b, len };
	uint64_t start, t, n = 0;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(b, 2, len);	/* its own copy of the pages */
		for (;;)
			pause();
	}
	process_vm_writev(pid, &from, 1, &to, 1, 0);
	start = now_ns();
	do {
		if (process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)len)
			die("process_vm_writev");
		n++;
	} while ((t = now_ns()) - start < RUN_NS);
	printf("%.3f\n", (double)(n * len) / (double)(t - start));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

/* ---- UDP ---------------------------------------------------------------------- */

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (host && inet_pton(AF_INET, host, &a.sin_addr) != 1) {
		fprintf(stderr, "ref: %s is not an IPv4 address\n", host);
		exit(2);
	}
	return a;
}

static int udp_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), len = 8 << 20;

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &len, sizeof(len)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
	return fd;
}

static int run_gso_recv(const char *port)
{
	struct sockaddr_in a = address(NULL, port);
	static uint8_t buf[TRAIN_LEN];
	uint64_t first = 0, last = 0, bytes = 0;
	int fd = udp_socket(), on = 1;
	ssize_t n;

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		die("bind");
	if (setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)))
		die("UDP_GRO");
	for (;;) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0)
			die("recv");
		if (n == 1)	/* the sender is done */
			break;
		last = now_ns();
		if (first)
			bytes += (uint64_t)n;
		else
			first = last;
	}
	printf("%.3f\n", last > first ? (double)bytes / (double)(last - first) : 0.0);
	return 0;
}

static int run_gso_send(const char *host, const char *port, unsigned seg, unsigned n)
{
	struct sockaddr_in a = address(host, port);
	static uint8_t buf[TRAIN_LEN];
	uint64_t start = now_ns(), bytes = 0, t;
	unsigned i;
	int fd = udp_socket(), size = (int)seg;

	if (seg < 2 || (uint64_t)seg * n > 65507)
		die("a train has at most 65507 bytes");
	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die("UDP_SEGMENT");
	do {
		if (sendto(fd, buf, (size_t)seg * n, 0, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != ENOBUFS)
			die("sendto");
		bytes += (uint64_t)seg * n;
	} while ((t = now_ns()) - start < 2 * RUN_NS);
	for (i = 0; i < 1000; i++) {	/* until one of them finds room */
		if (sendto(fd, buf, 1, 0, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == ECONNREFUSED)
			break;
		usleep(1000);
	}
	printf("%.3f\n", (double)bytes / (double)(t - start));
	return 0;
}

static int run_pong_serve(const char *port)
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
		if (n < 0)
			continue;
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

static int run_pong(const char *host, const char *port, size_t len, unsigned n)
{
	struct sockaddr_in a = address(host, port);
	static uint64_t took[PINGS];
	uint8_t buf[9000] = { 0 };
	int fd = udp_socket();
	bool mean = n;
	uint64_t start, sum = 0;
	unsigned i;

	n = n ? n : PINGS;
	if (len < 2 || len > sizeof(buf) || n > PINGS || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	for (i = 0; i < n; i++) {
		start = now_ns();
		if (send(fd, buf, len, 0) < 0)
			die("send");
		while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0)
			if (now_ns() - start > 2000000000u)
				die("no answer");
		took[i] = now_ns() - start;
		sum += took[i];
	}
	send(fd, buf, 1, 0);
	qsort(took, n, sizeof(took[0]), cmp_u64);
	printf("%.3f\n", (mean ? (double)sum / n : (double)took[n / 2]) / 2000.0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "memcpy") && argc == 3)
		return run_memcpy(strtoul(argv[2], NULL, 0));
	if (!strcmp(what, "writev") && argc == 3)
		return run_writev(strtoul(argv[2], NULL, 0));
	if (!strcmp(what, "gso-recv") && argc == 3)
		return run_gso_recv(argv[2]);
	if (!strcmp(what, "gso-send") && argc == 6)
		return run_gso_send(argv[2], argv[3], (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
	if (!strcmp(what, "pong-serve") && argc == 3)
		return run_pong_serve(argv[2]);
	if (!strcmp(what, "pong") && (argc == 5 || argc == 6))
		return run_pong(argv[2], argv[3], strtoul(argv[4], NULL, 0), argc == 6 ? (unsigned)atoi(argv[5]) : 0);
	fputs("usage: ref memcpy LEN | writev LEN | gso-recv PORT | gso-send HOST PORT SEG N | pong-serve PORT | pong HOST PORT LEN [N]\n",
	      stderr);
	return 2;
}
