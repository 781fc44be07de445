/* SPDX-License-Identifier: MIT */
/*
 * relay.c - the wire between a network interface and a virtual machine.
 *
 *	relay INTERFACE FD
 *
 * Frames go from a packet socket on INTERFACE to the datagram socket FD and back. It needs no tun device. Orders come as
 * lines on stdin, each answered by a line on stdout, "ok ..." or "no ...":
 *
 *	fault out SPEC		what goes to FD suffers: loss=1%,dup=1%,... (daemon/control/impair_spec.h); RoCEv2 only
 *	fault in SPEC		what comes from FD does, but for a DREQ: Linux asks once only where its program ends behind
 *				rdma_disconnect(), and who waits for it at the other end does so for ever
 *	fault off
 *	cut, mend		no RoCEv2 packet passes at all; again
 *	late MS			REQ and SIDR_REQ of the connection manager reach FD so much later; 0: at once
 *	open FILE		records RoCEv2 packets in a pcap file, as the interface sees them: what it sends before the
 *				faults, what it gets behind them
 *	close			ok RECORDED LOST DOUBLED DAMAGED LATE, since open
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dice.h"

#define FRAME_MAX 65536
#define BURST     64 /* frames of one side before the other is looked at */
#define ROCE_PORT 4791

enum { CM_REQ = 0x10, CM_DREQ = 0x15, CM_SIDR_REQ = 0x17 };

enum { OUT, IN, WAYS };

struct late { /* a frame that is on its way */
	struct late *next;
	uint64_t due;
	int way;
	size_t len;
	uint8_t data[];
};

static struct {
	int fd[WAYS]; /* where frames of that way go */
	struct impair_spec conf[WAYS];
	bool on[WAYS];
	struct dice dice[WAYS];
	struct late *late; /* the earliest first */
	FILE *pcap;
	bool cut;
	uint64_t asks_late_ns; /* see "late" */
	unsigned long recorded, lost, doubled, damaged, delayed;
} relay;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- frames -------------------------------------------------------------- */

static unsigned be16(const uint8_t *p) { return (unsigned)(p[0] << 8 | p[1]); }

/* Where the BTH begins; 0: not RoCEv2. */
static size_t roce_at(const uint8_t *f, size_t len)
{
	size_t udp;

	if (len >= 46 && be16(f + 12) == 0x0800 && f[23] == 17)
		udp = 14 + (size_t)(f[14] & 15) * 4;
	else if (len >= 66 && be16(f + 12) == 0x86dd && f[20] == 17)
		udp = 54;
	else
		return 0;
	return len >= udp + 12 && be16(f + udp + 2) == ROCE_PORT ? udp + 8 : 0;
}

static void record(const uint8_t *f, size_t len)
{
	uint64_t t = now_ns(CLOCK_REALTIME);
	uint32_t head[4] = { (uint32_t)(t / 1000000000u), (uint32_t)(t % 1000000000u / 1000), (uint32_t)len,
			     (uint32_t)len };

	if (!relay.pcap)
		return;
	fwrite(head, sizeof(head), 1, relay.pcap);
	fwrite(f, len, 1, relay.pcap);
	relay.recorded++;
}

static void deliver(int way, const uint8_t *f, size_t len)
{
	if (way == IN && roce_at(f, len))
		record(f, len);
	/* A full socket of the guest is waited for; ENOBUFS of the interface is a loss like any other. */
	if (send(relay.fd[way], f, len, 0) < 0 && errno != ENOBUFS && errno != EINTR && errno != ENETDOWN)
		die("relay: send");
}

static void keep(int way, const uint8_t *f, size_t len, uint64_t due)
{
	struct late *l = malloc(sizeof(*l) + len), **at = &relay.late;

	if (!l)
		die("relay");
	*l = (struct late){ .due = due, .way = way, .len = len };
	memcpy(l->data, f, len);
	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	l->next = *at;
	*at = l;
}

static void deliver_due(void)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	while (relay.late && relay.late->due <= now) {
		struct late *l = relay.late;

		relay.late = l->next;
		deliver(l->way, l->data, l->len);
		free(l);
	}
}

static void suffer(int way, uint8_t *f, size_t len, size_t at)
{
	struct fate fate;

	fate = dice_throw(&relay.dice[way], &relay.conf[way], len - at);
	if (fate.lost) {
		relay.lost++;
		return;
	}
	if (fate.flip >= 0) {
		f[at + (size_t)fate.flip / 8] ^= (uint8_t)(1 << fate.flip % 8);
		relay.damaged++;
	}
	relay.doubled += fate.twice;
	relay.delayed += fate.delay_ns > 0;
	for (int i = 0; i <= fate.twice; i++) {
		if (fate.delay_ns)
			keep(way, f, len, now_ns(CLOCK_MONOTONIC) + fate.delay_ns);
		else
			deliver(way, f, len);
	}
}

/* The attribute of a MAD of the CM's class to QP 1, after BTH and DETH; 0: it is none. */
static unsigned cm_message(const uint8_t *bth, size_t len)
{
	const uint8_t *mad = bth + 20;

	return len >= 20 + 256 && !bth[5] && !bth[6] && bth[7] == 1 && mad[1] == 7 ? be16(mad + 16) : 0;
}

static bool asks(unsigned message) { return message == CM_REQ || message == CM_SIDR_REQ; }

static void pass(int from, int way)
{
	static uint8_t f[FRAME_MAX];

	for (int i = 0; i < BURST; i++) {
		ssize_t n = recv(from, f, sizeof(f), MSG_DONTWAIT);
		unsigned message;
		size_t at;

		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENETDOWN))
			return;
		if (n < 0)
			die("relay: recv");
		if (n < 14)
			continue;
		at = roce_at(f, (size_t)n);
		message = at ? cm_message(f + at, (size_t)n - at) : 0;
		if (at && way == OUT)
			record(f, (size_t)n);
		if (at && relay.cut)
			relay.lost++;
		else if (at && relay.on[way] && (way == OUT || message != CM_DREQ))
			suffer(way, f, (size_t)n, at);
		else if (at && way == OUT && relay.asks_late_ns && asks(message))
			keep(way, f, (size_t)n, now_ns(CLOCK_MONOTONIC) + relay.asks_late_ns);
		else
			deliver(way, f, (size_t)n);
	}
}

/* ---- orders ---------------------------------------------------------------- */

static const char *order_fault(char *text)
{
	int way = strncmp(text, "out ", 4) ? IN : OUT;
	const char *wrong;

	if (!strcmp(text, "off")) {
		relay.on[OUT] = relay.on[IN] = false;
		return NULL;
	}
	if (way == IN && strncmp(text, "in ", 3))
		return "fault out SPEC, fault in SPEC, or fault off";
	wrong = impair_spec_parse(strchr(text, ' ') + 1, &relay.conf[way]);
	if (wrong)
		return wrong;
	relay.on[way] = true;
	dice_init(&relay.dice[way], relay.conf[way].seed, (unsigned)way);
	return NULL;
}

static const char *order_open(const char *path)
{
	static const uint32_t head[] = { 0xa1b2c3d4, 2 | 4 << 16, 0, 0, 262144, 1 };

	if (relay.pcap)
		fclose(relay.pcap);
	relay.recorded = relay.lost = relay.doubled = relay.damaged = relay.delayed = 0;
	relay.pcap = fopen(path, "wb");
	if (!relay.pcap)
		return "the file cannot be made";
	fwrite(head, sizeof(head), 1, relay.pcap);
	return NULL;
}

static const char *order_close(void)
{
	bool bad = relay.pcap && (ferror(relay.pcap) | fclose(relay.pcap));

	relay.pcap = NULL;
	return bad ? "the file could not be written" : NULL;
}

static const char *order(char *line)
{
	if (!strncmp(line, "fault ", 6))
		return order_fault(line + 6);
	if (!strncmp(line, "open ", 5))
		return order_open(line + 5);
	if (!strcmp(line, "close"))
		return order_close();
	if (!strncmp(line, "late ", 5)) {
		relay.asks_late_ns = strtoull(line + 5, NULL, 10) * 1000000u;
		return NULL;
	}
	if (strcmp(line, "cut") && strcmp(line, "mend"))
		return "no such order";
	relay.cut = *line == 'c';
	return NULL;
}

static void orders(void)
{
	static char line[8192];
	static size_t have;
	ssize_t n = read(STDIN_FILENO, line + have, sizeof(line) - have - 1);
	char *end;

	if (n <= 0)
		exit(0); /* who started it is gone */
	have += (size_t)n;
	line[have] = '\0';
	while ((end = strchr(line, '\n'))) {
		const char *wrong;

		*end = '\0';
		wrong = order(line);
		if (wrong)
			printf("no %s\n", wrong);
		else
			printf("ok %lu %lu %lu %lu %lu\n", relay.recorded, relay.lost, relay.doubled, relay.damaged,
			       relay.delayed);
		fflush(stdout);
		have -= (size_t)(end + 1 - line);
		memmove(line, end + 1, have + 1);
	}
}

/* ---- the wire ------------------------------------------------------------------ */

static int wire_open(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1, size = 16 << 20;

	at.sll_ifindex = (int)if_nametoindex(name);
	if (fd < 0 || !at.sll_ifindex)
		die(name);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die(name);
	return fd;
}

static int patience(void) /* ms until a frame is due */
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (!relay.late)
		return -1;
	return relay.late->due <= now
		       ? 0
		       : (int)((relay.late->due - now) / 1000000u); /* the last part of a millisecond it turns */
}

int main(int argc, char **argv)
{
	struct pollfd p[3];

	if (argc != 3) {
		fprintf(stderr, "Usage: relay INTERFACE FD\n");
		return 2;
	}
	relay.fd[IN] = wire_open(argv[1]);
	relay.fd[OUT] = atoi(argv[2]);
	p[0] = (struct pollfd){ .fd = relay.fd[IN], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = relay.fd[OUT], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	printf("ok\n");
	fflush(stdout);
	for (;;) {
		if (poll(p, 3, patience()) < 0 && errno != EINTR)
			die("relay: poll");
		deliver_due();
		if (p[0].revents)
			pass(p[0].fd, OUT);
		if (p[1].revents)
			pass(p[1].fd, IN);
		if (p[2].revents)
			orders();
	}
}
