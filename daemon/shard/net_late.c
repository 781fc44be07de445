/* SPDX-License-Identifier: MIT */
/* net_late.c - what a socket has no room for: a list for each socket that sends. */
#include "net_late.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "io.h"
#include "net_gid.h"
#include "net_send.h"

#define RETRY_NS 1000000u /* all are tried again after so long: of one alone it is told that there is room */

/*
 * And what has waited so long while none of its kind was sent is lost.  To peers that were heard it goes by a device that sends: behind
 * all that the other sockets have on their way, which a slow one takes long for.
 */
static const uint64_t patience_ns[] = { [false] = 100000000u, [true] = 2000000000u };

/* So many batches of a socket, and bytes of all. */
static const struct {
	unsigned n;
	size_t len;
} most[] = { [false] = { 64, 16u << 20 }, [true] = { 1024, 64u << 20 } };

/* A queue pair that is held back. */
struct held {
	struct held *next;
	struct hca *hca;
	uint32_t qpn;
	bool heard;
};

/* ---- peers --------------------------------------------------------------- */

void net_hear(struct net *net, const uint8_t gid[16]) { memcpy(net->heard[gid_hash(gid) % HEARD], gid, 16); }

static bool is_heard(const struct net *net, const struct batch *b)
{
	const uint8_t *gid = b->route.dgid;

	return gid_same(net->heard[gid_hash(gid) % HEARD], gid) || gid_is_group(gid);
}

/* The kernel says that one can write to a socket of datagrams as long as half of it is free. */
bool late_may(const struct net *net, const struct batch *b)
{
	struct pollfd p = { .fd = b->out->fd, .events = POLLOUT };

	return is_heard(net, b) || poll(&p, 1, 0) != 0;
}

/* ---- queue pairs --------------------------------------------------------- */

void late_hold(struct net *net, struct hca *hca, uint32_t qpn, const struct batch *b)
{
	struct net_out *o = b->out;
	struct held *h;

	if (!late_before(net, b))
		return;
	h = malloc(sizeof(*h));
	if (!h)
		return;
	*h = (struct held){ .hca = hca, .qpn = qpn, .heard = is_heard(net, b) };
	if (!o->held)
		o->held_end = &o->held;
	*o->held_end = h;
	o->held_end = &h->next;
	hca_qp_hold(hca, qpn, true);
}

/* The first of them, or all. */
static void let_go(struct net_out *o, bool heard, bool all)
{
	struct held **p = &o->held, *h;

	while ((h = *p)) {
		if (h->heard != heard) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		if (!*p)
			o->held_end = p;
		hca_qp_hold(h->hca, h->qpn, false);
		free(h);
		if (!all)
			return;
	}
}

/* ---- batches ------------------------------------------------------------- */

bool late_before(const struct net *net, const struct batch *b)
{
	const bool heard = b->out->late && is_heard(net, b);

	for (const struct unsent *l = b->out->late; l; l = l->next)
		if (!heard || is_heard(net, &l->b))
			return true;
	return false;
}

static void list(struct net *net, struct net_out *o)
{
	struct net_out **p = &net->full;

	while (*p && *p != o)
		p = &(*p)->next;
	*p = o;
}

static void unlist(struct net *net, struct net_out *o)
{
	struct net_out **p = &net->full;

	while (*p && *p != o)
		p = &(*p)->next;
	if (*p)
		*p = o->next;
	o->next = NULL;
}

void late_put(struct net *net, const struct batch *b, const uint8_t *data)
{
	struct net_out *o = b->out;
	struct unsent *l = NULL, **end = &o->late;
	bool heard = is_heard(net, b);
	unsigned n = 0;

	for (; *end; end = &(*end)->next)
		n++;
	if (n < most[heard].n && net->late_len + b->len <= most[heard].len)
		l = malloc(sizeof(*l) + b->len);
	if (!l) {
		hca_unsent(b->hca, b->qpn, &b->route, b->n, ENOBUFS);
		return;
	}
	l->next = NULL;
	l->b = *b;
	l->room = b->len;
	l->since = clock_now();
	memcpy(l->data, data, b->len);
	*end = l;
	net->late_len += l->room;
	if (!net->full)
		net->retry_at = mono_add(l->since, RETRY_NS);
	list(net, o);
}

static void late_free(struct net *net, struct unsent **p)
{
	struct unsent *l = *p;

	*p = l->next;
	net->late_len -= l->room;
	free(l);
}

/* 0, EAGAIN, or an error that has been counted. */
static int late_send(struct net *net, struct unsent *l, bool heard, mono_t now)
{
	const size_t before = l->b.len;
	uint8_t *data = l->data;
	int err = batch_send(net, &l->b, &data);

	if (err != EAGAIN || l->b.len < before)
		l->b.out->moved[heard] = now;
	memmove(l->data, data, l->b.len);
	return err;
}

static void out_retry(struct net *net, struct net_out *o, mono_t now)
{
	bool full[] = { false, false }, left[] = { false, false };
	struct unsent **p = &o->late, *l;

	while ((l = *p)) {
		bool heard = is_heard(net, &l->b);

		if (!full[heard]) {
			full[heard] = late_send(net, l, heard, now) == EAGAIN;
			full[false] |= full[true];
			if (!full[heard]) {
				late_free(net, p);
				let_go(o, heard, false);
				continue;
			}
		}
		if (mono_reached(now, mono_add(l->since, patience_ns[heard])) &&
		    mono_reached(now, mono_add(o->moved[heard], patience_ns[heard]))) {
			hca_unsent(l->b.hca, l->b.qpn, &l->b.route, l->b.n, ETIMEDOUT);
			late_free(net, p);
			let_go(o, heard, false);
			continue;
		}
		left[heard] = true;
		p = &l->next;
	}
	for (unsigned heard = 0; heard < 2; heard++)
		if (!left[heard])
			let_go(o, heard, true);
	if (!o->late)
		unlist(net, o);
}

void net_send_retry(struct net *net, mono_t now)
{
	struct net_out *next;

	if (!net->full || !(net->retry || mono_reached(now, net->retry_at)))
		return;
	net->retry = false;
	net->retry_at = mono_add(now, RETRY_NS);
	for (struct net_out *o = net->full; o; o = next) {
		next = o->next;
		out_retry(net, o, now);
	}
}

mono_t net_send_deadline(const struct net *net) { return net->full ? net->retry_at : MONO_NEVER; }

void late_drop(struct net *net, const struct net_sock *s)
{
	for (unsigned i = 0; i < s->out_n; i++) {
		while (s->out[i].late)
			late_free(net, &s->out[i].late);
		let_go(&s->out[i], false, true);
		let_go(&s->out[i], true, true);
		unlist(net, &s->out[i]);
	}
	net_send_await(net);
}

void net_send_await(struct net *net)
{
	const struct net_out *o = net->full, *old = net->awaited;

	if (o == old)
		return;
	if (old && old->slot == SEND_SLOT)
		io_del(net->io, SEND_SLOT, old->fd);
	else if (old)
		io_want_write(net->io, old->slot, old->fd, false);
	if (o && o->slot == SEND_SLOT)
		io_add(net->io, SEND_SLOT, o->fd);
	if (o)
		io_want_write(net->io, o->slot, o->fd, true);
	net->awaited = o;
}
