/* SPDX-License-Identifier: MIT */
/*
 * stranger.c - each address of the stranger has a habit, so that what one kind of packet draws is seen by itself.
 *
 *	0 .. 3	one message of the CM, then silence	4	CM, without end
 *	5	CNPs					6	any opcode, PSNs and QPNs as seen
 *	7	any bytes				8 ..	all of them
 */
#include "stranger.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/bytes.h"
#include "proto/cm_msg.h"
#include "proto/opcode.h"
#include "t/xorshift.h"

#define ROCE    4791
#define IP_HDR  20u
#define UDP_HDR 8u
#define ONCE    4u /* habits 0 .. 3 */

static uint32_t below(struct stranger *s, uint32_t n) { return (uint32_t)(xorshift(&s->dice) >> 16) % n; }
static bool odds(struct stranger *s, uint32_t one_in) { return !below(s, one_in); }

/* ---- out and in ----------------------------------------------------------------------- */

static void gid_of(uint8_t gid[16], struct in_addr a)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a, 4);
}

/* pkt: BTH to pad, len bytes; room for the ICRC behind it. */
static void send_from(struct stranger *s, struct in_addr from, struct in_addr to, uint8_t *pkt, size_t len, bool icrc)
{
	uint8_t ip[IP_HDR + UDP_HDR + STRANGER_PKT + ICRC_LEN] = { 0x45 };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = to };
	uint16_t id = (uint16_t)(1 + below(s, 65000));
	struct icrc_flow flow;
	uint8_t a[16], b[16];

	gid_of(a, from);
	gid_of(b, to);
	icrc_flow_init(&flow, a, b, ROCE, ROCE, true);
	if (len >= BTH_LEN)
		icrc_put(pkt + len, icrc_pkt(&flow, id, pkt, len) ^ (icrc ? 0 : 1u << below(s, 32)));
	len += ICRC_LEN;
	be16_put(ip + 2, (uint16_t)(IP_HDR + UDP_HDR + len));
	be16_put(ip + 4, id);
	be16_put(ip + 6, 0x4000);
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &from, 4);
	memcpy(ip + 16, &to, 4);
	be16_put(ip + IP_HDR, ROCE);
	be16_put(ip + IP_HDR + 2, ROCE);
	be16_put(ip + IP_HDR + 4, (uint16_t)(UDP_HDR + len));
	memcpy(ip + IP_HDR + UDP_HDR, pkt, len);
	sendto(s->raw, ip, IP_HDR + UDP_HDR + len, MSG_DONTWAIT, (struct sockaddr *)&sa, sizeof(sa));
	s->packets++;
	for (unsigned i = 0; i < STRANGER_SRC; i++)
		if (s->src[i].addr.s_addr == from.s_addr)
			s->src[i].sent += IP_HDR + UDP_HDR + len;
}

void stranger_count(struct stranger *s)
{
	uint8_t buf[65536];
	ssize_t n;

	for (unsigned i = 0; i < STRANGER_SRC; i++)
		while ((n = recv(s->src[i].fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC)) >= 0)
			s->src[i].got += IP_HDR + UDP_HDR + (uint64_t)n;
}

/* One packet, and not several of which the kernel has not made packets yet. */
static bool is_whole(struct stranger *s, const struct stranger_seen *p)
{
	struct icrc_flow flow;
	uint8_t a[16], b[16];
	uint16_t id;

	gid_of(a, p->from);
	gid_of(b, p->to);
	icrc_flow_init(&flow, a, b, ROCE, ROCE, true);
	return icrc_check(&s->icrc, &flow, p->pkt, p->len, &id);
}

/* The packets that the honest ones send each other. */
static void look(struct stranger *s)
{
	uint8_t buf[4096];
	ssize_t n;

	while ((n = recv(s->tap, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		struct stranger_seen one;
		size_t head = IP_HDR + UDP_HDR, len = (size_t)n - head;
		struct in_addr from, to;

		if ((size_t)n < head + BTH_LEN + ICRC_LEN || len > STRANGER_PKT || buf[0] != 0x45 ||
		    buf[9] != IPPROTO_UDP || be16_get(buf + IP_HDR + 2) != ROCE)
			continue;
		memcpy(&from, buf + 12, 4);
		memcpy(&to, buf + 16, 4);
		if ((from.s_addr != s->honest[0].s_addr && from.s_addr != s->honest[1].s_addr) ||
		    (to.s_addr != s->honest[0].s_addr && to.s_addr != s->honest[1].s_addr) || from.s_addr == to.s_addr)
			continue;
		one = (struct stranger_seen){ .from = from, .to = to, .len = (uint32_t)len };
		memcpy(one.pkt, buf + head, len);
		/* Not several that are under way as one: the kernel cuts them, later. */
		if (is_whole(s, &one))
			s->seen[s->seen_n++ % STRANGER_SEEN] = one;
	}
}

static const struct stranger_seen *a_seen(struct stranger *s)
{
	uint32_t n = s->seen_n < STRANGER_SEEN ? s->seen_n : STRANGER_SEEN;

	return n ? &s->seen[below(s, n)] : NULL;
}

/* ---- packets: each writes BTH to pad, and says how many bytes that are ----------------------- */

static size_t noise(struct stranger *s, uint8_t *p)
{
	size_t len = below(s, 600);

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)xorshift(&s->dice);
	return len;
}

/* Any opcode of any service; of a QP that there is, near its PSN, mostly. */
static size_t any_opcode(struct stranger *s, uint8_t *p, const struct stranger_seen *like)
{
	static const uint8_t service[] = { SVC_RC, SVC_RC, SVC_RC, SVC_UC, SVC_UC, SVC_UD, SVC_XRC, SVC_RD, SVC_CNP };
	uint8_t opcode = service[below(s, sizeof(service))] | (uint8_t)below(s, 32);
	bool known = opcode_get(opcode)->name != NULL;
	struct burst b = { .op_first = known ? opcode : SVC_RC | OP_SEND_ONLY,
			   .n = 1,
			   .mtu = 1024,
			   .pkey = odds(s, 16) ? (uint16_t)xorshift(&s->dice) : 0xffff,
			   .ackreq = odds(s, 2),
			   .se = odds(s, 2) };
	size_t len, pay;

	b.op_last = b.op_first;
	b.dqpn = like && !odds(s, 8) ? be24_get(like->pkt + BTH_DQPN) : (uint32_t)xorshift(&s->dice) & 0xffffff;
	b.psn = psn(like ? be24_get(like->pkt + BTH_PSN) + below(s, 65) - 32 : (uint32_t)xorshift(&s->dice));
	if (odds(s, 8))
		b.psn = psn((uint32_t)xorshift(&s->dice));
	b.qkey = (uint32_t)xorshift(&s->dice) | 1; /* not that of the honest ones, which is even */
	b.sqpn = (uint32_t)xorshift(&s->dice) & 0xffffff;
	b.va = xorshift(&s->dice);
	b.rkey = (uint32_t)xorshift(&s->dice);
	b.dma_len = odds(s, 2) ? 1024 : (uint32_t)xorshift(&s->dice);
	b.syndrome = (uint8_t)xorshift(&s->dice);
	b.msn = (uint32_t)xorshift(&s->dice) & 0xffffff;
	pay = odds(s, 2) ? 1024 : below(s, 1100);
	b.payload_len = pay;
	len = burst_hdr(&b, 0, p);
	p[BTH_OPCODE] = opcode;
	for (size_t i = 0; i < ((pay + 3) & ~(size_t)3); i++)
		p[len + i] = (uint8_t)xorshift(&s->dice);
	return len + ((pay + 3) & ~(size_t)3);
}

static size_t a_cnp(struct stranger *s, uint8_t *p, const struct stranger_seen *like)
{
	memset(p, 0, BTH_LEN + CNP_LEN);
	p[BTH_OPCODE] = OPCODE_CNP;
	be16_put(p + BTH_PKEY, 0xffff);
	p[BTH_ECN] = BTH_BECN;
	be24_put(p + BTH_DQPN, like ? be24_get(like->pkt + BTH_DQPN) : (uint32_t)xorshift(&s->dice) & 0xffffff);
	return BTH_LEN + CNP_LEN;
}

static void a_req(struct stranger *s, struct cm_req *r, struct in_addr from, struct in_addr to)
{
	struct cm_ip ip = { .version = 4, .sport = (uint16_t)(1024 + below(s, 60000)) };

	gid_of(ip.src, from);
	gid_of(ip.dst, to);
	*r = (struct cm_req){ .local_id = (uint32_t)xorshift(&s->dice),
			      .service_id = cm_service_id(CM_PS_TCP, s->port),
			      .ca_guid = xorshift(&s->dice),
			      .qpn = (uint32_t)xorshift(&s->dice) & 0xffffff,
			      .resp_res = 1,
			      .init_depth = 1,
			      .remote_timeout = (uint8_t)(8 + below(s, 11)),
			      .local_timeout = (uint8_t)(8 + below(s, 11)),
			      .retry_cnt = 7,
			      .rnr_retry = 7,
			      .pkey = 0xffff,
			      .mtu = 3,
			      .max_retries = 15,
			      .psn = (uint32_t)xorshift(&s->dice) & 0xffffff };
	r->path = (struct cm_path){ .slid = 0xffff, .dlid = 0xffff, .hop_limit = 64, .rate = 3, .ack_timeout = 18 };
	memcpy(r->path.sgid, ip.src, 16);
	memcpy(r->path.dgid, ip.dst, 16);
	cm_ip_put(r->data, &ip);
}

static size_t a_mad(struct stranger *s, uint8_t *p, struct in_addr from, struct in_addr to, bool req)
{
	struct burst b = { .op_first = SVC_UD | OP_SEND_ONLY,
			   .op_last = SVC_UD | OP_SEND_ONLY,
			   .n = 1,
			   .mtu = 1024,
			   .pkey = 0xffff,
			   .dqpn = QPN_GSI,
			   .sqpn = QPN_GSI,
			   .qkey = QKEY_GSI,
			   .psn = psn((uint32_t)xorshift(&s->dice)),
			   .payload_len = MAD_LEN };
	struct cm_msg m = { .attr = (uint16_t)(CM_REQ + (req || odds(s, 2) ? 0 : below(s, 11))),
			    .tid = xorshift(&s->dice) };
	size_t len = burst_hdr(&b, 0, p);

	if (m.attr == CM_REQ)
		a_req(s, &m.req, from, to);
	else if (m.attr == CM_SIDR_REQ)
		m.sidr_req = (struct cm_sidr_req){ .request_id = (uint32_t)xorshift(&s->dice),
						   .pkey = 0xffff,
						   .service_id = cm_service_id(CM_PS_UDP, s->port) };
	else
		m.rtu = (struct cm_rtu){ .local_id = (uint32_t)xorshift(&s->dice),
					 .remote_id = (uint32_t)xorshift(&s->dice) };
	cm_msg_put(p + len, &m);
	if (!req && odds(s, 4))
		p[len + below(s, MAD_LEN)] = (uint8_t)xorshift(&s->dice);
	return len + MAD_LEN;
}

/* ---- steps --------------------------------------------------------------------------------- */

static size_t any_packet(struct stranger *s, uint8_t *p, struct in_addr from, struct in_addr to, unsigned habit)
{
	const struct stranger_seen *like = a_seen(s);

	if (habit >= 8)
		habit = 4 + below(s, 5);
	switch (habit) {
	case 4: return a_mad(s, p, from, to, odds(s, 2));
	case 5: return a_cnp(s, p, like);
	case 6: return any_opcode(s, p, like);
	case 7: return noise(s, p);
	}
	if (!like)
		return noise(s, p);
	memcpy(p, like->pkt, like->len - ICRC_LEN); /* what was just said, from somebody else */
	return like->len - ICRC_LEN;
}

static void forged(struct stranger *s)
{
	uint8_t p[STRANGER_PKT + 64] = { 0 };
	unsigned i = below(s, STRANGER_SRC);
	struct stranger_src *from = &s->src[i];
	struct in_addr to = s->honest[i < ONCE ? 0 : below(s, 2)];
	size_t len;

	if (i < ONCE && from->sent)
		return;
	len = i < ONCE ? a_mad(s, p, from->addr, to, true) : any_packet(s, p, from->addr, to, i);
	if (i >= ONCE && odds(s, 16)) {
		len = below(s, (uint32_t)len + 1);
		if (SVC_OF(p[BTH_OPCODE]) == SVC_UD) /* with its Q_Key it would be good enough for a UD QP */
			be32_put(p + BTH_LEN + DETH_QKEY, (uint32_t)xorshift(&s->dice) | 1);
	}
	if (len > STRANGER_PKT - ICRC_LEN)
		len = STRANGER_PKT - ICRC_LEN;
	send_from(s, from->addr, to, p, len, i < ONCE || !odds(s, 16));
}

/* In the name of the honest peer. */
static void as_peer(struct stranger *s)
{
	const struct stranger_seen *like = a_seen(s);
	uint8_t p[STRANGER_PKT + 64] = { 0 };
	size_t len;

	if (!like)
		return;
	if (odds(s, 3)) {
		len = a_mad(s, p, like->from, like->to, false);
	} else if (SVC_OF(like->pkt[BTH_OPCODE]) == SVC_RC) {
		len = any_opcode(s, p, like);
		p[BTH_OPCODE] = (p[BTH_OPCODE] & 0x1f) | SVC_RC;
		be24_put(p + BTH_PSN,
			 (be24_get(like->pkt + BTH_PSN) + (1u << 20) + below(s, PSN_MASK - (1u << 21))) & PSN_MASK);
	} else {
		return;
	}
	send_from(s, like->from, like->to, p, len, true);
}

/* To a daemon what it has just sent itself; to whoever has sent it to us, what came. */
static void reflect(struct stranger *s)
{
	const struct stranger_seen *like = a_seen(s);
	uint8_t p[STRANGER_PKT + 64] = { 0 };
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(s->mirror.fd, p, STRANGER_PKT, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

	if (n > (ssize_t)ICRC_LEN) {
		send_from(s, s->mirror.addr, from.sin_addr, p, (size_t)n - ICRC_LEN, true);
	} else if (like) {
		memcpy(p, like->pkt, like->len);
		send_from(s, like->from, like->from, p, like->len - ICRC_LEN, true);
	}
	if (odds(s, 4))
		send_from(s, s->mirror.addr, s->honest[0], p, a_mad(s, p, s->mirror.addr, s->honest[0], true), true);
}

void stranger_step(struct stranger *s)
{
	uint32_t what = below(s, 16);

	look(s);
	if (what < 13)
		forged(s);
	else if (what < 15)
		as_peer(s);
	else
		reflect(s);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int src_open(struct stranger_src *src, struct in_addr net, uint8_t last)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(ROCE) };
	int room = 4 << 20;

	src->addr.s_addr = net.s_addr | htonl(last);
	sa.sin_addr = src->addr;
	src->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (src->fd < 0 || bind(src->fd, (struct sockaddr *)&sa, sizeof(sa)))
		return errno;
	setsockopt(src->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	return 0;
}

int stranger_open(struct stranger *s, uint64_t seed, const struct in_addr honest[2], struct in_addr net, uint16_t port)
{
	int on = 1, err = 0;

	*s = (struct stranger){ .dice = seed | 1, .port = port, .honest = { honest[0], honest[1] } };
	for (unsigned i = 0; i < 8; i++)
		xorshift(&s->dice);
	icrc_rx_init(&s->icrc);
	s->raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	s->tap = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
	if (s->raw < 0 || s->tap < 0 || setsockopt(s->raw, IPPROTO_IP, IP_HDRINCL, &on, sizeof(on)))
		return errno;
	for (unsigned i = 0; i < STRANGER_SRC && !err; i++)
		err = src_open(&s->src[i], net, (uint8_t)(100 + i));
	return err ? err : src_open(&s->mirror, net, 200);
}
