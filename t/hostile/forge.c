/* SPDX-License-Identifier: MIT */
#include "t/suite.h"

#include "forge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/gsi.h"

#define ROCE_PORT 4791u

void forge_gid(const char *address, uint8_t gid[16])
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	ck_assert_int_eq(inet_pton(AF_INET, address, gid + 12), 1);
}

void forge_open(struct forge *f, const char *src, const char *dst, bool own_port)
{
	struct sockaddr_in me = { .sin_family = AF_INET, .sin_port = htons(own_port ? ROCE_PORT : 0) };
	socklen_t len = sizeof(me);
	int df = IP_PMTUDISC_PROBE;

	memset(f, 0, sizeof(*f));
	forge_gid(src, f->route.sgid);
	forge_gid(dst, f->route.dgid);
	f->to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	memcpy(&f->to.sin_addr, f->route.dgid + 12, 4);
	/* A socket may be bound to one address and send from another one: where a daemon has that port already. */
	if (own_port)
		inet_pton(AF_INET, "127.99.99.99", &me.sin_addr);
	else
		memcpy(&me.sin_addr, f->route.sgid + 12, 4);
	f->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(f->fd, 0);
	ck_assert_int_eq(setsockopt(f->fd, SOL_IP, IP_MTU_DISCOVER, &df, sizeof(df)), 0);
	ck_assert_msg(bind(f->fd, (struct sockaddr *)&me, len) == 0, "bind: %s", strerror(errno));
	ck_assert_int_eq(getsockname(f->fd, (struct sockaddr *)&me, &len), 0);
	icrc_flow_init(&f->flow, f->route.sgid, f->route.dgid, ntohs(me.sin_port), ROCE_PORT, true);
}

size_t forge_pkt(struct forge *f, struct burst *b, const void *payload, size_t len, uint8_t *pkt)
{
	size_t at;

	b->op_last = b->op_first;
	b->migreq = true;
	b->pkey = 0xffff;
	b->n = 1;
	b->payload_len = b->mtu = (uint32_t)len;
	at = burst_hdr(b, 0, pkt);
	ck_assert_uint_le(at + len + ICRC_LEN, FORGE_MAX);
	memcpy(pkt + at, payload, len);
	icrc_put(pkt + at + len, icrc_pkt(&f->flow, 0, pkt, at + len));
	return at + len + ICRC_LEN;
}

size_t forge_mad(struct forge *f, const struct cm_msg *m, uint8_t *pkt)
{
	struct burst b = { .op_first = SVC_UD | OP_SEND_ONLY, .dqpn = QPN_GSI, .sqpn = QPN_GSI, .qkey = QKEY_GSI };
	uint8_t mad[MAD_LEN];

	cm_msg_put(mad, m);
	return forge_pkt(f, &b, mad, sizeof(mad), pkt);
}

void forge_send(struct forge *f, const uint8_t *pkt, size_t len)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} cmsg = { 0 };
	struct iovec iov = { (void *)(uintptr_t)pkt, len };
	struct msghdr msg = { .msg_name = &f->to,
			      .msg_namelen = sizeof(f->to),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &cmsg,
			      .msg_controllen = sizeof(cmsg) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	struct in_pktinfo info = { 0 };

	memcpy(&info.ipi_spec_dst, f->route.sgid + 12, 4);
	c->cmsg_level = SOL_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), &info, sizeof(info));
	ck_assert_msg(sendmsg(f->fd, &msg, 0) == (ssize_t)len, "sendmsg: %s", strerror(errno));
}

void forge_close(struct forge *f) { close(f->fd); }
