/* SPDX-License-Identifier: MIT */
/*
 * idrule.c - does this kernel write the IPv4 identifications that our ICRCs are computed for?
 *
 * An unconnected socket with IP_MTU_DISCOVER = PROBE: DF set, identification 0; with
 * UDP_SEGMENT: i for packet i.  Two sockets on 127.0.0.1 show it without any privilege: a filter on the receiving one
 * sees the IP header, and lets only those through whose identification is the number in their payload.
 */
#include "idrule.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "../../proto/bytes.h"
#include "../base/log.h"

#define PKT_LEN   32
#define PKTS      4
#define ANSWER_MS 200

static bool holds;

/* In a socket's filter offset 0 is the UDP header. */
static bool filter_set(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t)(SKF_NET_OFF + 6)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x4000, 0, 4), /* DF, no fragment */
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t)(SKF_NET_OFF + 4)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffff),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) == 0;
}

/* n packets in one send; do all of them get through the filter?  Also true if they cannot be sent at all. */
static bool try_send(int tx, int rx, const struct sockaddr_in *to, unsigned n)
{
	uint8_t data[PKTS * PKT_LEN] = { 0 }, got[PKT_LEN];
	union {
		struct cmsghdr align;
		uint8_t buf[CMSG_SPACE(sizeof(uint16_t))];
	} cmsg = { 0 };
	struct iovec iov = { data, (size_t)n * PKT_LEN };
	struct msghdr msg = { .msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd pfd = { .fd = rx, .events = POLLIN };
	uint16_t seg = PKT_LEN;

	for (unsigned i = 0; i < n; i++)
		be16_put(data + (size_t)i * PKT_LEN, i);
	if (n > 1) {
		msg.msg_control = &cmsg;
		msg.msg_controllen = sizeof(cmsg);
		cmsg.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(seg)),
					       .cmsg_level = SOL_UDP,
					       .cmsg_type = UDP_SEGMENT };
		memcpy(CMSG_DATA(&cmsg.align), &seg, sizeof(seg));
	}
	if (sendmsg(tx, &msg, 0) < 0)
		return n == 1 || errno != EINVAL;
	for (unsigned i = 0; i < n; i++)
		if (poll(&pfd, 1, ANSWER_MS) != 1 || recv(rx, got, sizeof(got), MSG_DONTWAIT) < 0)
			return false;
	return true;
}

static void ask(void)
{
	int rx = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), tx = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int probe = IP_PMTUDISC_PROBE;

	/* Where even this does not work (the loopback interface is down) what most kernels do is assumed. */
	holds = true;
	if (rx >= 0 && tx >= 0 && bind(rx, (struct sockaddr *)&to, sizeof(to)) == 0 &&
	    getsockname(rx, (struct sockaddr *)&to, &len) == 0 && filter_set(rx) &&
	    setsockopt(tx, SOL_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) == 0 &&
	    bind(tx,
		 (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET,
							   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
		 sizeof(to)) == 0) {
		if (!try_send(tx, rx, &to, 1))
			log_warn("this kernel does not send IPv4 identification 0: other RoCE hosts will refuse our "
				 "ICRCs");
		holds = try_send(tx, rx, &to, PKTS);
		if (!holds)
			log_note("UDP_SEGMENT does not number IPv4 packets from 0 here: not used for IPv4");
	}
	if (rx >= 0)
		close(rx);
	if (tx >= 0)
		close(tx);
}

bool id_rule_holds(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ask);
	return holds;
}
