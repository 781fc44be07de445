/* SPDX-License-Identifier: MIT */
/*
 * raw.c - RAW_PACKET QPs: their packet sockets, and flow steering.
 *
 * The socket is opened here, so that the kernel checks the program's own rights; the daemon gets a copy.  A QP's flows
 * become one filter of the socket, in the order of their priorities:
 *
 *	sent by this host, not to a group nor to the port itself?  drop
 *	flow 1:  word & mask == value?  no: flow 2 ...  take (or drop)
 *	flow 2:  ...
 *	drop
 *
 * The kernel gives each socket what its filter takes: a frame that flows of two QPs match goes to both.
 */
#include "flow.h"
#include "query.h"
#include "slots.h"

#include <rdmad/high.h>
#include <rdmad/keep.h>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CODE_MAX  4096u /* BPF_MAXINSNS */
#define FRAME_ALL 0x40000u
#define SOCK_BUF  (4 << 20)
#define ETH_LEN   14u
#define IP4_FRAG  20u /* where the fragment offset is in the frame */
#define IP4_PROTO 23u
#define IP6_NEXT  20u
#define IP6_END   54u

struct prog {
	struct sock_filter code[CODE_MAX];
	uint32_t n;
	bool full;
};

static void emit(struct prog *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->n == CODE_MAX)
		p->full = true;
	else
		p->code[p->n++] = (struct sock_filter){ code, jt, jf, k };
}

/* ---- a flow's part: jumps to its end, where the next one begins, have k 0 until they are patched --------- */

/* Compares the value that was loaded last. */
static void compare(struct prog *p, uint32_t val, uint32_t mask)
{
	emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, val & mask);
	emit(p, BPF_JMP | BPF_JA, 0, 0, 0);
}

/* Bytes of the frame from off on, mode BPF_ABS, or BPF_IND behind the IPv4 header. */
static void match(struct prog *p, uint16_t mode, uint32_t off, const void *val, const void *mask, unsigned n)
{
	const uint8_t *v = val, *m = mask;

	for (unsigned i = 0; i < n; i++)
		if (m[i]) {
			emit(p, (uint16_t)(BPF_LD | BPF_B | mode), 0, 0, off + i);
			compare(p, v[i], m[i]);
		}
}

static void match16(struct prog *p, uint32_t off, uint16_t val)
{
	emit(p, BPF_LD | BPF_H | BPF_ABS, 0, 0, off);
	compare(p, val, 0xffff);
}

static void match8(struct prog *p, uint32_t off, uint8_t val)
{
	emit(p, BPF_LD | BPF_B | BPF_ABS, 0, 0, off);
	compare(p, val, 0xff);
}

static int spec_eth(struct prog *p, const struct ibv_flow_spec_eth *s)
{
	if (s->mask.vlan_tag) { /* the kernel takes the tag off before a socket sees the frame */
		emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT));
		compare(p, 1, 1);
		emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG));
		compare(p, ntohs(s->val.vlan_tag), ntohs(s->mask.vlan_tag));
	}
	match(p, BPF_ABS, 0, s->val.dst_mac, s->mask.dst_mac, 6);
	match(p, BPF_ABS, 6, s->val.src_mac, s->mask.src_mac, 6);
	match(p, BPF_ABS, 12, &s->val.ether_type, &s->mask.ether_type, 2);
	return 0;
}

static void spec_ipv4(struct prog *p, const struct ibv_flow_ipv4_ext_filter *v,
		      const struct ibv_flow_ipv4_ext_filter *m)
{
	match16(p, 12, ETH_P_IP);
	match(p, BPF_ABS, ETH_LEN + 1, &v->tos, &m->tos, 1);
	match(p, BPF_ABS, ETH_LEN + 8, &v->ttl, &m->ttl, 1);
	match(p, BPF_ABS, IP4_PROTO, &v->proto, &m->proto, 1);
	match(p, BPF_ABS, ETH_LEN + 12, &v->src_ip, &m->src_ip, 4);
	match(p, BPF_ABS, ETH_LEN + 16, &v->dst_ip, &m->dst_ip, 4);
}

static void spec_ipv6(struct prog *p, const struct ibv_flow_spec_ipv6 *s)
{
	uint32_t val = s->val.flow_label | htonl((uint32_t)s->val.traffic_class << 20);
	uint32_t mask = s->mask.flow_label | htonl((uint32_t)s->mask.traffic_class << 20);

	match16(p, 12, ETH_P_IPV6);
	match(p, BPF_ABS, ETH_LEN, &val, &mask, 4);
	match(p, BPF_ABS, IP6_NEXT, &s->val.next_hdr, &s->mask.next_hdr, 1);
	match(p, BPF_ABS, ETH_LEN + 7, &s->val.hop_limit, &s->mask.hop_limit, 1);
	match(p, BPF_ABS, ETH_LEN + 8, s->val.src_ip, s->mask.src_ip, 16);
	match(p, BPF_ABS, ETH_LEN + 24, s->val.dst_ip, s->mask.dst_ip, 16);
}

/* l3: of the spec before it. */
static int spec_ports(struct prog *p, const struct ibv_flow_spec_tcp_udp *s, uint16_t l3)
{
	uint8_t proto = s->type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	uint16_t mode = BPF_ABS;
	uint32_t at = IP6_END;

	if (!l3)
		return EOPNOTSUPP;
	if (l3 == ETH_P_IPV6) {
		match8(p, IP6_NEXT, proto);
	} else {
		match8(p, IP4_PROTO, proto);
		emit(p, BPF_LD | BPF_H | BPF_ABS, 0, 0, IP4_FRAG);
		compare(p, 0, 0x1fff);
		emit(p, BPF_LDX | BPF_B | BPF_MSH, 0, 0, ETH_LEN); /* the header's length */
		mode = BPF_IND;
		at = ETH_LEN;
	}
	match(p, mode, at, &s->val.src_port, &s->mask.src_port, 2);
	match(p, mode, at + 2, &s->val.dst_port, &s->mask.dst_port, 2);
	return 0;
}

/* Specifications that say something other than what to match. */
struct said {
	uint16_t l3; /* for those behind it */
	bool drop;
	struct rd_counters *counters;
};

static int spec(struct prog *p, const struct ibv_flow_spec *s, struct said *said)
{
	struct ibv_flow_ipv4_ext_filter val = { 0 }, mask = { 0 };

	switch ((unsigned)s->hdr.type) {
	case IBV_FLOW_SPEC_ETH: return spec_eth(p, &s->eth);
	case IBV_FLOW_SPEC_IPV4:
		val.src_ip = s->ipv4.val.src_ip;
		val.dst_ip = s->ipv4.val.dst_ip;
		mask.src_ip = s->ipv4.mask.src_ip;
		mask.dst_ip = s->ipv4.mask.dst_ip;
		said->l3 = ETH_P_IP;
		spec_ipv4(p, &val, &mask);
		return 0;
	case IBV_FLOW_SPEC_IPV4_EXT:
		if (s->ipv4_ext.mask.flags)
			return EOPNOTSUPP;
		said->l3 = ETH_P_IP;
		spec_ipv4(p, &s->ipv4_ext.val, &s->ipv4_ext.mask);
		return 0;
	case IBV_FLOW_SPEC_IPV6:
		said->l3 = ETH_P_IPV6;
		spec_ipv6(p, &s->ipv6);
		return 0;
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP: return spec_ports(p, &s->tcp_udp, said->l3);
	case IBV_FLOW_SPEC_ACTION_DROP: said->drop = true; return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		if (!s->flow_count.counters || said->counters)
			return EINVAL;
		said->counters = (struct rd_counters *)s->flow_count.counters;
		return 0;
	}
	return EOPNOTSUPP;
}

static int compile(struct prog *p, const struct ibv_flow_attr *a, struct said *said)
{
	const uint8_t *at = (const uint8_t *)(a + 1), multicast = 1;
	int err;

	if (a->type == IBV_FLOW_ATTR_MC_DEFAULT)
		match(p, BPF_ABS, 0, &multicast, &multicast, 1);
	for (unsigned i = 0; i < a->num_of_specs; i++) {
		struct ibv_flow_spec s = { 0 }; /* they lie one behind the other as they come: not aligned */

		memcpy(&s, at, sizeof(s.hdr));
		if (s.hdr.size < sizeof(s.hdr))
			return EINVAL;
		memcpy(&s, at, s.hdr.size < sizeof(s) ? s.hdr.size : sizeof(s));
		err = spec(p, &s, said);
		if (err)
			return err;
		at += s.hdr.size;
	}
	/* The daemon counts what is dropped, too. */
	emit(p, BPF_RET | BPF_K, 0, 0, said->drop && !said->counters ? 0 : FRAME_ALL);
	if (p->full)
		return ENOMEM;
	for (uint32_t i = 0; i < p->n; i++)
		if (p->code[i].code == (BPF_JMP | BPF_JA))
			p->code[i].k = p->n - i - 1;
	return 0;
}

/* ---- the filter of a QP ------------------------------------------------------------------- */

#define RET(v) emit(p, BPF_RET | BPF_K, 0, 0, v)

/*
 * What other sockets of this host send comes by here, too.  As adapters do, the QP is given of it what goes to a group or to
 * the port itself; where it goes anywhere else it is dropped.  What leaves by the loopback interface comes in again anyway.
 */
static void head(struct prog *p, const struct rd_qp *qp)
{
	const uint8_t *mac = qp->raw_mac;
	uint32_t front = (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 | mac[3];

	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE));
	if (qp->raw_loop) {
		emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PACKET_OUTGOING);
		RET(0);
		return;
	}
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 7, PACKET_OUTGOING);
	emit(p, BPF_LD | BPF_B | BPF_ABS, 0, 0, 0);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 5, 0, 1);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 2, front);
	emit(p, BPF_LD | BPF_H | BPF_ABS, 0, 0, 4);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (uint32_t)mac[4] << 8 | mac[5]);
	RET(0);
}

static void emit_all(struct prog *p, const struct sock_filter *code, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		emit(p, code[i].code, code[i].jt, code[i].jf, code[i].k);
}

static int filter_set(struct rd_qp *qp)
{
	struct prog *p = calloc(1, sizeof(*p));
	struct sock_fprog prog;
	int err = 0;

	if (!p)
		return ENOMEM;
	head(p, qp);
	for (const struct rd_flow *f = qp->flows; f; f = f->next)
		emit_all(p, f->code, f->code_n);
	RET(0);
	prog = (struct sock_fprog){ .len = (unsigned short)p->n, .filter = p->code };
	if (p->full)
		err = ENOMEM;
	else if (setsockopt(qp->raw_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		err = errno;
	free(p);
	return err;
}

/*
 * The interface that the first GID with one is shown with: for the GID that is made of the GUID, which comes first, that is the one
 * of the port's addresses, rather another than loopback.
 */
static unsigned interface_of(struct rd_ctx *c)
{
	struct msg_gid gid;

	for (uint32_t i = 0; i < RDMAD_GIDS && !gid_get(c, 1, i, &gid); i++)
		if (gid.ndev_ifindex)
			return gid.ndev_ifindex;
	return 0;
}

/* The name and address of the interface, for the filter. */
static int interface_read(struct rd_qp *qp, int index)
{
	struct ifreq r = { .ifr_ifindex = index };

	if (ioctl(qp->raw_fd, SIOCGIFNAME, &r) || ioctl(qp->raw_fd, SIOCGIFHWADDR, &r))
		return errno;
	memcpy(qp->raw_mac, r.ifr_hwaddr.sa_data, sizeof(qp->raw_mac));
	qp->raw_loop = r.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
	return 0;
}

int raw_open(struct rd_qp *qp)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int len = SOCK_BUF, on = 1, err;

	qp->raw_fd = fd_high(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
	if (qp->raw_fd < 0)
		return errno == EACCES ? EPERM : errno;
	setsockopt(qp->raw_fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
	setsockopt(qp->raw_fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
	setsockopt(qp->raw_fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
	ll.sll_ifindex = (int)interface_of(qp->ctx);
	err = ll.sll_ifindex ? interface_read(qp, ll.sll_ifindex) : ENODEV;
	if (!err)
		err = filter_set(qp); /* before it is bound: nothing comes in by mistake */
	if (!err && bind(qp->raw_fd, (struct sockaddr *)&ll, sizeof(ll)))
		err = errno;
	if (err)
		raw_close(qp);
	return err;
}

void raw_close(struct rd_qp *qp)
{
	if (qp->raw_fd >= 0)
		close(qp->raw_fd);
	qp->raw_fd = -1;
}

/* ---- flows --------------------------------------------------------------------------------- */

static void flow_put(struct rd_flow *f, struct rd_flow **at)
{
	f->next = *at;
	*at = f;
	if (f->counters) {
		f->counted_next = f->counters->flows;
		f->counters->flows = f;
	}
}

static void flow_link(struct rd_flow *f)
{
	struct rd_flow **at = &f->qp->flows;

	while (*at && (*at)->priority <= f->priority)
		at = &(*at)->next;
	flow_put(f, at);
}

/* Where it was. */
static struct rd_flow **flow_unlink(struct rd_flow *f)
{
	struct rd_flow **at, **counted;

	for (at = &f->qp->flows; *at != f; at = &(*at)->next)
		;
	*at = f->next;
	if (!f->counters)
		return at;
	for (counted = &f->counters->flows; *counted != f; counted = &(*counted)->counted_next)
		;
	*counted = f->counted_next;
	return at;
}

/* The daemon knows a flow before the first frame comes, and until after the last. */
static int flow_begin(struct rd_flow *f)
{
	int err;

	pthread_mutex_lock(&flow_lock);
	flow_link(f);
	err = steer_update(f->qp, NULL);
	if (!err)
		err = filter_set(f->qp);
	if (err) {
		flow_unlink(f);
		steer_update(f->qp, f);
	}
	pthread_mutex_unlock(&flow_lock);
	return err;
}

static struct rd_flow *flow_make(struct rd_qp *qp, const struct ibv_flow_attr *a, const struct prog *p,
				 const struct said *said)
{
	struct rd_flow *f = calloc(1, sizeof(*f) + p->n * sizeof(f->code[0]));

	if (!f)
		return NULL;
	f->flow.context = qp->qp.context;
	f->qp = qp;
	f->priority = a->priority;
	f->drop = said->drop;
	f->counters = said->counters;
	f->code_n = p->n;
	memcpy(f->code, p->code, p->n * sizeof(f->code[0]));
	return f;
}

struct ibv_flow *flow_create(struct ibv_qp *ibqp, struct ibv_flow_attr *a)
{
	struct rd_qp *qp = to_qp(ibqp);
	struct said said = { 0 };
	struct rd_flow *f = NULL;
	struct prog *p;
	int err;

	if (ibqp->qp_type != IBV_QPT_RAW_PACKET)
		return err_null(EOPNOTSUPP);
	if (a->port != 1 || a->comp_mask || (unsigned)a->type > IBV_FLOW_ATTR_SNIFFER)
		return err_null(EINVAL);
	if (a->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
		return err_null(EOPNOTSUPP);
	p = calloc(1, sizeof(*p));
	err = p ? compile(p, a, &said) : ENOMEM;
	if (!err) {
		f = flow_make(qp, a, p, &said);
		err = f ? flow_begin(f) : ENOMEM;
	}
	free(p);
	if (!err)
		return &f->flow;
	free(f);
	return err_null(err);
}

/* If it cannot be, for want of memory or descriptors, it stays, and may be destroyed later. */
int flow_destroy(struct ibv_flow *flow)
{
	struct rd_flow *f = (struct rd_flow *)flow;
	struct rd_flow **at;
	int err;

	pthread_mutex_lock(&flow_lock);
	at = flow_unlink(f);
	err = filter_set(f->qp);
	if (!err)
		err = steer_update(f->qp, f);
	if (err) {
		flow_put(f, at);
		filter_set(f->qp);
	}
	pthread_mutex_unlock(&flow_lock);
	if (!err)
		keep_free(f);
	return err;
}
