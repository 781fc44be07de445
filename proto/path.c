/* SPDX-License-Identifier: MIT */
/* path.c - one window per peer: additive increase, multiplicative decrease. */
#include "path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_in.h"

static unsigned hash(const uint8_t *gid)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < 16; i++)
		v = v * 31 + gid[i];
	return (v ^ v >> 8) & (PATH_HASH - 1);
}

bool path_is_local(const struct hca *h, const uint8_t *dgid)
{
	for (uint32_t i = 0; i < h->paths.local_n; i++)
		if (!memcmp(h->paths.local[i], dgid, 16))
			return true;
	return false;
}

static uint64_t window_min(const struct hca *h)
{
	uint64_t min = 2 * (uint64_t)h->cfg.train_len;

	return min < h->cfg.window_len ? min : h->cfg.window_len;
}

static void set_local(const struct hca *h, struct path *p, bool local)
{
	p->local = local;
	p->train_len = local ? h->cfg.local_train_len : h->cfg.train_len;
	p->window = local ? UINT64_MAX : h->cfg.window_len;
}

static struct path *find(const struct hca *h, const uint8_t *dgid)
{
	struct path *p = h->paths.head[hash(dgid)];

	while (p && memcmp(p->dgid, dgid, 16))
		p = p->next;
	return p;
}

struct path *path_get(struct hca *h, const uint8_t *dgid)
{
	struct path *p = find(h, dgid), **head = &h->paths.head[hash(dgid)];

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		memcpy(p->dgid, dgid, 16);
		link_init(&p->waiters);
		set_local(h, p, path_is_local(h, dgid));
		p->next = *head;
		*head = p;
	}
	p->users++;
	return p;
}

void path_put(struct hca *h, struct path *p)
{
	struct path **at = &h->paths.head[hash(p->dgid)];

	if (--p->users)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

int hca_local_set(struct hca *h, const uint8_t *gid, bool local)
{
	struct paths *ps = &h->paths;
	struct path *p = find(h, gid);
	uint32_t i = 0;

	while (i < ps->local_n && memcmp(ps->local[i], gid, 16))
		i++;
	if (local && i == ps->local_n) {
		if (i == ps->local_max) {
			uint32_t max = i ? 2 * i : 16;
			void *v = realloc(ps->local, max * sizeof(*ps->local));

			if (!v)
				return ENOMEM;
			ps->local = v;
			ps->local_max = max;
		}
		memcpy(ps->local[ps->local_n++], gid, 16);
	} else if (!local && i < ps->local_n) {
		memmove(ps->local[i], ps->local[--ps->local_n], 16);
	}
	if (p && p->local != local) {
		set_local(h, p, local);
		path_done(h, p, 0, false);
	}
	return 0;
}

void paths_fini(struct hca *h)
{
	free(h->paths.local);
}

uint64_t path_room(const struct path *p)
{
	if (p->inflight < p->window)
		return p->window - p->inflight;
	return p->inflight ? 0 : 1;
}

void path_sent(struct path *p, uint64_t n)
{
	p->inflight += n;
}

void path_done(struct hca *h, struct path *p, uint64_t n, bool acked)
{
	p->inflight -= n;
	if (acked && !p->local && p->window < h->cfg.window_len) {
		uint64_t grown = p->window + h->cfg.train_len * n / p->window + 1;

		p->window = grown < h->cfg.window_len ? grown : h->cfg.window_len;
	}
	if (acked)
		p->acked += n;
	while (!link_empty(&p->waiters) && path_room(p)) {
		struct qp *qp = LINK_OF(p->waiters.next, struct qp, waiter);

		link_del(&qp->waiter);
		qp_ready(h, qp);
		/* Each takes a train; the others wait for what is left. */
		if (p->inflight + p->train_len >= p->window)
			break;
	}
}

void path_loss(struct hca *h, struct path *p, bool timeout)
{
	/* The packets behind one loss are lost in one go: halve once for each window's worth. */
	if (p->local || (!timeout && p->acked < p->window))
		return;
	p->window = p->window / 2 > window_min(h) ? p->window / 2 : window_min(h);
	p->acked = 0;
}
