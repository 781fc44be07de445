/* SPDX-License-Identifier: MIT */
/*
 * net_tx.c - from bursts to datagrams, many in one system call.
 *
 *	buf	| hdr payload pad icrc | hdr payload pad icrc | ... | hdr pay icrc |
 *		|<------- equal ------>|<------- equal ------>|     |<- may be shorter
 *
 * A train: packets to one peer lie one behind the other in one buffer that stays in the cache.  Payload is copied there
 * and the CRC made of it in one pass; this beats handing the kernel a list of pointers.  One GSO send takes it
 * all, whatever messages and QPs the packets belong to.  There is one train for each source port (net_out.c); the packets
 * of a QP are always in the same one, so they stay in order, and queue pairs of different ports do not end each other's
 * trains.  The FIRST packet of a WRITE is longer than its MIDDLEs: it begins a train, and the next packet, being shorter,
 * ends it.
 *
 * A packet to another shard of this daemon has a token behind each ICRC (net_priv.h).
 *
 * Packet i of a GSO send over IPv4 has identification i, any other packet has 0, and the ICRC covers it: so
 * the ICRC depends on the position in the train.
 */
#include "net_tx.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "../../proto/hdr.h"
#include "../base/held.h"
#include "../base/region.h"
#include "inbox.h"
#include "net_gid.h"
#include "net_late.h"
#include "net_out.h"
#include "net_send.h"

#define PAY_MAX 4096u /* the longest PMTU */

int net_tx_init(struct net *net)
{
	net->train_n = net_ports ? net_ports : 1;
	net->under_way_end = &net->under_way;
	if (posix_memalign((void **)&net->train, _Alignof(struct train), net->train_n * sizeof(*net->train)))
		return ENOMEM;
	for (unsigned i = 0; i < net->train_n; i++) { /* of a buffer that no train needs no page is there */
		net->train[i].b = (struct batch){ 0 };
		net->train[i].next = NULL;
		net->train[i].listed = false;
	}
	return 0;
}

void net_tx_free(struct net *net) { free(net->train); }

void net_tx_drop(struct net *net, const struct net_sock *s)
{
	net->last.train = NULL;
	for (unsigned i = 0; i < net->train_n; i++) {
		if (net->train[i].b.sock == s) {
			net->train[i].b.sock = NULL;
			net->train[i].b.n = 0;
		}
	}
	late_drop(net, s);
}

/* ---- the train ----------------------------------------------------------- */

static void train_go(struct net *net, struct train *t)
{
	if (t->b.n)
		net_send(net, &t->b, t->buf);
	t->b.n = 0;
}

void net_flush(struct net *net)
{
	struct train *t;

	while ((t = net->under_way)) {
		train_go(net, t);
		net->under_way = t->next;
		t->next = NULL;
		t->listed = false;
	}
	net->under_way_end = &net->under_way;
}

static void train_list(struct net *net, struct train *t)
{
	if (t->listed)
		return;
	*net->under_way_end = t;
	net->under_way_end = &t->next;
	t->listed = true;
}

uint16_t net_port(struct net *net, const struct burst *b, uint32_t *flow_label)
{
	const struct gid_slot *from = net_gid_again(net, &net->from, b->route.sgid);
	const struct net_sock *s = from ? from->sock : NULL;
	const struct net_out *o = s ? &s->out[net_out_of(s, *flow_label, b->sqpn, b->dqpn)] : NULL;

	if (o)
		*flow_label = net_out_label(s, o, *flow_label);
	return o ? o->port : ROCE_PORT;
}

/* May both be sent by one call?  IPv4 has no flow label. */
static inline bool goes_along(const struct route *a, const struct route *b)
{
	return gid_same(a->dgid, b->dgid) && gid_same(a->sgid, b->sgid) && a->tclass == b->tclass &&
	       a->hop_limit == b->hop_limit && (a->sl == b->sl || net_priority(a) == net_priority(b)) &&
	       (a->flow_label == b->flow_label || gid_is_v4(a->dgid));
}

/* The train of its port; one that goes elsewhere is sent first. */
static struct train *train_of(struct net *net, const struct burst *b)
{
	const struct gid_slot *from = net_gid_again(net, &net->from, b->route.sgid);
	const struct net_sock *s = from ? from->sock : NULL;
	struct train *t = &net->train[s ? net_out_of(s, b->route.flow_label, b->sqpn, b->dqpn) : 0];

	net->last.train = t;
	net->last.sock = s;
	net->last.flow_label = b->route.flow_label;
	net->last.sqpn = b->sqpn;
	net->last.dqpn = b->dqpn;
	if (t->b.n && !goes_along(&t->b.route, &b->route))
		train_go(net, t);
	return t;
}

/* The same again for one more burst of a queue pair, as most are; NULL: it is another one. */
static struct train *train_again(const struct net *net, const struct burst *b)
{
	struct train *t = net->last.train;

	return t && t->b.n && t->b.sock == net->last.sock && net->last.sqpn == b->sqpn && net->last.dqpn == b->dqpn &&
			       net->last.flow_label == b->route.flow_label && goes_along(&t->b.route, &b->route)
		       ? t
		       : NULL;
}

static void address_set(struct batch *t)
{
	const uint8_t *gid = t->route.dgid;

	memset(&t->to, 0, sizeof(t->to));
	if (t->sock->ipv6) {
		t->to.in6.sin6_family = AF_INET6;
		t->to.in6.sin6_port = htons(ROCE_PORT);
		t->to.in6.sin6_flowinfo = htonl(net_out_label(t->sock, t->out, t->route.flow_label));
		memcpy(&t->to.in6.sin6_addr, gid, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&t->to.in6.sin6_addr))
			t->to.in6.sin6_scope_id = t->sock->ifindex;
		t->to_len = sizeof(t->to.in6);
	} else {
		t->to.in.sin_family = AF_INET;
		t->to.in.sin_port = htons(ROCE_PORT);
		memcpy(&t->to.in.sin_addr, gid + 12, 4);
		t->to_len = sizeof(t->to.in);
	}
}

/*
 * Whether no socket can send what goes by this route from there: the GID is no address of the host's, or it is ::1, from
 * which no route leads to a group.
 */
static bool is_wireless(const struct gid_slot *from, const uint8_t *dgid)
{
	return !from || !from->sock || (gid_is_group(dgid) && gid_is_v6_loopback(from->gid));
}

/* The train is empty: which way will the next one go?  false: there is none. */
static bool train_start(struct net *net, struct train *train, struct hca *hca, uint32_t qpn, const struct route *route)
{
	struct batch *t = &train->b;
	const struct gid_slot *from, *to;

	if (!t->sock || !goes_along(&t->route, route)) {
		from = net_gid_again(net, &net->from, route->sgid);
		if (is_wireless(from, route->dgid) || from->sock->ipv6 == gid_is_v4(route->dgid))
			return false;
		to = net_gid_find(net, route->dgid);
		t->tail = to && to->sock ? TOKEN_LEN : 0;
		t->sock = from->sock;
		t->out = &t->sock->out[train - net->train];
		t->route = *route;
		address_set(t);
		icrc_flow_init(&train->flow, route->sgid, route->dgid, t->out->port, ROCE_PORT, true);
	}
	train_list(net, train);
	t->hca = hca;
	t->qpn = qpn;
	t->gso = !net->shard->tap && (t->sock->ipv6 || net->gso4);
	t->closed = false;
	t->n = 0;
	t->len = 0;
	return true;
}

static bool train_fits(const struct batch *t, size_t len)
{
	if (!t->n)
		return true;
	if (t->n == TRAIN_PKTS || t->len + len > TRAIN_BYTES)
		return false;
	return !t->gso || (!t->closed && len <= t->pkt_len[0]);
}

/* Puts packets of b from the i-th on behind the train's, as many as fit: how many, or -errno of reading the payload. */
static int train_add(struct train *train, const struct burst *b, uint32_t i)
{
	struct batch *t = &train->b;
	uint8_t *draft[TRAIN_PKTS]; /* the packets, until their ICRCs are made */
	struct span to[TRAIN_PKTS];
	const uint8_t *from;
	uint32_t pay, pad;
	unsigned n = 0, tears, before = t->n;
	size_t hdr_len, len, before_len = t->len;
	bool closed = t->closed;
	uint8_t *pkt;
	int err = 0;

	for (; i + n < b->n; n++) {
		pkt = train->buf + t->len;
		hdr_len = burst_hdr(b, i + n, pkt);
		pay = burst_pkt_len(b, i + n);
		pad = pad_len(pay);
		len = hdr_len + pay + pad + ICRC_LEN + t->tail;
		if (!train_fits(t, len))
			break;
		if (pad)
			memset(pkt + hdr_len + pay, 0, pad);
		to[n] = (struct span){ .addr = (uintptr_t)pkt + hdr_len, .len = pay };
		draft[n] = pkt;
		t->closed = t->n && len < t->pkt_len[0];
		t->pkt_len[t->n++] = (uint16_t)len;
		t->len += len;
	}
	from = n ? region_look(b->span, b->span_n, burst_pkt_off(b, i), burst_pkt_off(b, n - 1) + to[n - 1].len) : NULL;
	if (n && b->payload_len && !from)
		err = region_mem_ops.copy(NULL, to, n, b->span, b->span_n, burst_pkt_off(b, i));
	tears = held_tears;
	for (unsigned k = 0; k < n && !err; k++) {
		uint16_t id = t->gso && !t->sock->ipv6 ? (uint16_t)(before + k) : 0;

		pkt = draft[k];
		len = t->pkt_len[before + k] - ICRC_LEN - (size_t)t->tail;
		icrc_put(pkt + len, from ? icrc_pkt_copy(&train->flow, id, pkt, to[k].addr - (uintptr_t)pkt,
							 from + burst_pkt_off(b, k), to[k].len, len)
					 : icrc_pkt(&train->flow, id, pkt, len));
		if (t->tail)
			memcpy(pkt + len + ICRC_LEN, &net_token, t->tail);
	}
	if (!err && held_tears == tears)
		return (int)n;
	t->n = before;
	t->len = before_len;
	t->closed = closed;
	return err ? -err : -EIO;
}

/* ---- without a wire --------------------------------------------------------- */

/*
 * Where a packet goes as a letter that no socket can send: to the shard of a QP of this daemon, or, to a group, to every
 * HCA there is.  An adapter, too, gives its own what it sends to a group.
 */
struct way {
	struct shard *to;
	struct device *dev; /* NULL: this is not its way */
	bool group;
};

static struct way across_to(const struct net *net, const struct route *route, uint32_t dqpn)
{
	const struct gid_slot *from = net_gid_find(net, route->sgid);
	unsigned owner = qpn_owner(dqpn);
	struct way w = { .group = dqpn == QPN_MCAST };

	if (!is_wireless(from, route->dgid))
		return w;
	if (w.group) {
		w.dev = from ? from->dev : NULL;
	} else if (shards_n > 1 && owner < shards_n && shards[owner]) {
		w.to = shards[owner];
		w.dev = net_device(net, route->dgid);
	}
	return w;
}

const struct device *net_by_letter(const struct net *net, const struct route *route, uint32_t dqpn)
{
	return across_to(net, route, dqpn).dev;
}

static void way_put(const struct way *w, const struct route *route, const uint8_t *data, size_t len)
{
	if (!w->group)
		inbox_put(w->to, w->dev, route, data, len);
	for (unsigned i = 0; i < shards_n && w->group; i++)
		for (unsigned d = 0; d < devices_n && shards[i]; d++)
			inbox_put(shards[i], &devices[d], route, data, len);
}

/* The payload of b cannot be read, behind so many packets that have gone. */
static void tx_failed(struct hca *hca, const struct burst *b, uint32_t gone, int err, mono_t now)
{
	if (err != ESRCH) /* the program has ended: silence, its QPs are about to go */
		hca_tx_fault(hca, b, gone, now);
}

/* false: this is not its way. */
static bool across(struct net *net, struct hca *hca, const struct burst *b, mono_t now)
{
	uint8_t pkt[PKT_HDR_MAX + PAY_MAX];
	struct way way = across_to(net, &b->route, b->dqpn);

	for (uint32_t i = 0; way.dev && i < b->n; i++) {
		size_t hdr_len = burst_hdr(b, i, pkt);
		uint32_t pay = burst_pkt_len(b, i), pad = pad_len(pay);
		struct span at = { .addr = (uintptr_t)pkt + hdr_len, .len = pay };
		int err = pay ? region_mem_ops.copy(NULL, &at, 1, b->span, b->span_n, burst_pkt_off(b, i)) : 0;

		if (err) {
			tx_failed(hca, b, i, err, now);
			break;
		}
		memset(pkt + hdr_len + pay, 0, pad);
		way_put(&way, &b->route, pkt, hdr_len + pay + pad);
	}
	return way.dev;
}

void net_tx(struct net *net, struct hca *hca, const struct burst *b, mono_t now)
{
	struct train *t = train_again(net, b);
	int n;

	if (!t)
		t = train_of(net, b);
	for (uint32_t i = 0; i < b->n; i += (uint32_t)n) {
		if (!t->b.n && !train_start(net, t, hca, b->sqpn, &b->route)) {
			if (!across(net, hca, b, now))
				hca_unsent(hca, b->sqpn, &b->route, b->n, 0);
			return;
		}
		n = train_add(t, b, i);
		if (n < 0) {
			tx_failed(hca, b, i, -n, now);
			return;
		}
		if (i + (uint32_t)n < b->n)
			train_go(net, t);
	}
	if (t->b.out->late)
		late_hold(net, hca, b->sqpn, &t->b);
}

void net_tx_bytes(struct net *net, struct hca *hca, const struct route *route, uint16_t port, const uint8_t *data,
		  size_t len)
{
	const struct gid_slot *from = net_gid_again(net, &net->from, route->sgid);
	unsigned i = from && from->sock ? net_out_at(from->sock, port) : 0;
	struct train *train = &net->train[i];
	struct batch *t = &train->b;
	struct way way;

	if (i && i == from->sock->out_n) { /* held back until that port was closed */
		hca_count(hca, HCA_STAT_SEND_ERR, 1);
		return;
	}
	if (t->n && (!goes_along(&t->route, route) || !train_fits(t, len + t->tail)))
		train_go(net, train);
	if (!t->n && !train_start(net, train, hca, 0, route)) {
		way = across_to(net, route, be24_get(data + BTH_DQPN));
		if (way.dev)
			way_put(&way, route, data, len - ICRC_LEN);
		else
			hca_count(hca, HCA_STAT_SEND_ERR, 1);
		return;
	}
	memcpy(train->buf + t->len, data, len);
	memcpy(train->buf + t->len + len, &net_token, t->tail);
	len += t->tail;
	t->pkt_len[t->n++] = (uint16_t)len;
	t->len += len;
}
