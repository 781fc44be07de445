/* SPDX-License-Identifier: MIT */
/*
 * bench-ref-gso.c - trains of datagrams from one end to the other, as a daemon sends and receives them, but without a transport: no
 * ACKs, no queues, no programs.  With regions each end does with the payload what RoCE asks for.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench-ref.h"
#include "proto/crc.h"

#define TRAIN_LEN 65536u
#define HEAD      12u /* of a packet: BTH */
#define TAIL      4u  /* CRC */

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* Payload that packets are made of and end in, round and round. */
struct region {
	uint8_t *base; /* NULL: none */
	size_t len, at;
};

static struct region region_new(size_t len) { return (struct region){ len ? pages(len, MAP_PRIVATE) : NULL, len, 0 }; }

static uint8_t *region_next(struct region *r, size_t len)
{
	if (r->at + len > r->len)
		r->at = 0;
	r->at += len;
	return r->base + r->at - len;
}

/* A packet of seg bytes: HEAD of headers, payload, its CRC. */
static void pack(struct region *r, uint8_t *buf, size_t seg, unsigned n)
{
	size_t len = seg - HEAD - TAIL;

	for (unsigned i = 0; r->base && i < n; i++, buf += seg) {
		uint32_t crc = crc_copy(0, buf, HEAD, region_next(r, len), len);

		memcpy(buf + HEAD + len, &crc, TAIL);
	}
}

static void unpack(struct region *r, const uint8_t *buf, size_t n, size_t seg)
{
	size_t len = seg - HEAD - TAIL;

	for (; r->base && n >= seg; buf += seg, n -= seg) {
		uint32_t crc = crc_more(0, buf, HEAD + len);

		if (memcmp(buf + HEAD + len, &crc, TAIL)) {
			fputs("ref: a CRC is wrong\n", stderr);
			exit(1);
		}
		memcpy(region_next(r, len), buf + HEAD, len);
	}
}

/* Reads a train; *seg: how long its packets are. */
static ssize_t train_recv(int fd, uint8_t *buf, size_t *seg)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, TRAIN_LEN };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(fd, &msg, 0);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int v;

	*seg = n < 0 ? 0 : (size_t)n;
	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&v, CMSG_DATA(c), sizeof(v));
		*seg = (size_t)v;
	}
	return n;
}

static int run_gso_recv(const char *port, size_t region_len)
{
	struct region region = region_new(region_len);
	struct sockaddr_in a = address(NULL, port);
	static _Alignas(4096) uint8_t buf[TRAIN_LEN];
	uint64_t first = 0, last = 0, bytes = 0;
	int fd = udp_socket(), on = 1;
	size_t seg;
	ssize_t n;

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		die("bind");
	if (setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)))
		die("UDP_GRO");
	for (;;) {
		n = train_recv(fd, buf, &seg);
		if (n < 0)
			die("recvmsg");
		if (n == 1) /* the sender is done */
			break;
		if (seg > HEAD + TAIL)
			unpack(&region, buf, (size_t)n, seg);
		last = now_ns();
		if (first)
			bytes += (uint64_t)n;
		else
			first = last;
	}
	printf("%.3f\n", last > first ? (double)bytes / (double)(last - first) : 0.0);
	return 0;
}

/* by_turns: segments of the first train and of the second */
static int run_gso_send(const char *host, const char *port, unsigned seg, const unsigned by_turns[2], size_t region_len)
{
	struct region region = region_new(region_len);
	struct sockaddr_in a = address(host, port);
	static _Alignas(4096) uint8_t away[2048 + TRAIN_LEN], *buf = away + 2048; /* as in struct train of the daemon */
	uint64_t start = now_ns(), bytes = 0, t;
	unsigned i = 0, n;
	int fd = udp_socket(), size = (int)seg;

	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die("UDP_SEGMENT");
	do {
		n = by_turns[i++ & 1];
		pack(&region, buf, seg, n);
		if (sendto(fd, buf, (size_t)seg * n, 0, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != ENOBUFS)
			die("sendto");
		bytes += (uint64_t)seg * n;
	} while ((t = now_ns()) - start < 2 * RUN_NS);
	for (i = 0; i < 1000; i++) { /* until one of them finds room */
		if (sendto(fd, buf, 1, 0, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == ECONNREFUSED)
			break;
		usleep(1000);
	}
	printf("%.3f\n", (double)bytes / (double)(t - start));
	return 0;
}

int gso_recv_main(int argc, char **argv) { return run_gso_recv(argv[2], argc > 3 ? strtoul(argv[3], NULL, 0) : 0); }

int gso_send_main(int argc, char **argv)
{
	unsigned long seg = strtoul(argv[4], NULL, 0), n[2];
	size_t region_len = argc > 6 ? strtoul(argv[6], NULL, 0) : 0;

	n[0] = strtoul(argv[5], NULL, 0);
	n[1] = argc > 7 ? strtoul(argv[7], NULL, 0) : n[0];
	for (unsigned i = 0; i < 2; i++) {
		if (seg < 2 || seg > 65507 || !n[i] || n[i] > 65507 / seg) {
			fputs("ref: a train has at most 65507 bytes\n", stderr);
			return 2;
		}
	}
	if (region_len && (seg <= HEAD + TAIL || region_len < seg))
		return usage();
	return run_gso_send(argv[2], argv[3], (unsigned)seg, (unsigned[]){ (unsigned)n[0], (unsigned)n[1] },
			    region_len);
}
