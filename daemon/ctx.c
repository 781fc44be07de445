/* SPDX-License-Identifier: MIT */
/*
 * ctx.c - contexts come and go; the map from an HCA's numbers to objects.
 *
 * A context is put on the shard that has the fewest.  When its client is gone - the connection ended, however
 * it ended - all its objects are destroyed in one call between two turns of the shard.  Nothing is sent;
 * peers find out by their own retries.  Only if the program said that it ends (MSG_BYE) its QPs end as if it had
 * destroyed them: what they executed may be acknowledged once more.
 */
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "log.h"

unsigned ctx_n;

/* ---- shared memory --------------------------------------------------------- */

int shmem_make(struct shmem *m, const char *name, size_t len)
{
	int err;

	m->mem = NULL;
	m->len = len;
	m->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0)
		return errno;
	/* The seals: no client can take pages away under the daemon's mapping (SIGBUS), or add any. */
	if (ftruncate(m->fd, (off_t)len) || fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail;
	m->mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->mem != MAP_FAILED)
		return 0;
	m->mem = NULL;
fail:
	err = errno;
	shmem_free(m);
	return err;
}

void shmem_free(struct shmem *m)
{
	if (m->mem)
		munmap(m->mem, m->len);
	if (m->fd >= 0)
		close(m->fd);
	m->mem = NULL;
	m->fd = -1;
}

/* ---- numbers to objects ------------------------------------------------------ */

struct cq_map {
	struct obj **chain;
	unsigned mask, n;
};

static unsigned map_slot(const struct cq_map *m, enum obj_kind kind, unsigned device, uint32_t number)
{
	uint64_t key = (uint64_t)number | (uint64_t)kind << 32 | (uint64_t)device << 40;

	return (unsigned)(key * 0x9e3779b97f4a7c15u >> 32) & m->mask;
}

/* Each context counts its own channels. */
static unsigned map_space(const struct ctx *c, enum obj_kind kind)
{
	return kind == OBJ_CHANNEL ? c->id : c->dev->index;
}

static bool is_shared(enum obj_kind kind)
{
	return kind == OBJ_PD || kind == OBJ_MR || kind == OBJ_DM;
}

static unsigned map_slot_of(const struct cq_map *m, const struct obj *o)
{
	return map_slot(m, o->kind, map_space(o->ctx, o->kind), o->number);
}

static int map_grow(struct cq_map *m)
{
	struct cq_map wide = { .mask = m->mask * 2 + 1, .n = m->n };

	wide.chain = calloc(wide.mask + 1u, sizeof(struct obj *));
	if (!wide.chain)
		return ENOMEM;
	for (unsigned i = 0; m->chain && i <= m->mask; i++) {
		for (struct obj *o = m->chain[i], *next; o; o = next) {
			unsigned slot = map_slot_of(&wide, o);

			next = o->chain;
			o->chain = wide.chain[slot];
			wide.chain[slot] = o;
		}
	}
	free(m->chain);
	*m = wide;
	return 0;
}

struct obj *obj_find(const struct shard *s, enum obj_kind kind, unsigned device, uint32_t number)
{
	const struct cq_map *m = s->cqs;

	if (!m || !m->chain)
		return NULL;
	for (struct obj *o = m->chain[map_slot(m, kind, device, number)]; o; o = o->chain)
		if (o->number == number && o->kind == kind && kind != OBJ_CHANNEL && o->ctx->dev->index == device)
			return o;
	return NULL;
}

struct obj *obj_get(const struct ctx *c, enum obj_kind kind, uint32_t number)
{
	const struct cq_map *m = c->shard->cqs;
	unsigned space = map_space(c, kind);

	for (struct obj *o = m->chain ? m->chain[map_slot(m, kind, space, number)] : NULL; o; o = o->chain)
		if (o->number == number && o->kind == kind &&
		    (o->ctx == c || (is_shared(kind) && o->ctx->family == c->family)))
			return o;
	return NULL;
}

struct obj *obj_other(const struct obj *o)
{
	struct obj *n = o->chain;

	while (n && (n->number != o->number || n->kind != o->kind || n->ctx->dev != o->ctx->dev))
		n = n->chain;
	return n;
}

int obj_add(struct ctx *c, struct obj *o, enum obj_kind kind, uint32_t number)
{
	struct cq_map *m = c->shard->cqs;
	unsigned slot;

	if ((!m->chain || m->n > m->mask) && map_grow(m))
		return ENOMEM;
	o->kind = kind;
	o->number = number;
	o->ctx = c;
	slot = map_slot_of(m, o);
	o->chain = m->chain[slot];
	m->chain[slot] = o;
	m->n++;
	o->prev = NULL;
	o->next = c->objs[kind];
	if (o->next)
		o->next->prev = o;
	c->objs[kind] = o;
	c->obj_n[kind]++;
	return 0;
}

void obj_del(struct obj *o)
{
	struct ctx *c = o->ctx;
	struct cq_map *m = c->shard->cqs;
	struct obj **p = &m->chain[map_slot_of(m, o)];

	while (*p != o)
		p = &(*p)->chain;
	*p = o->chain;
	m->n--;
	if (o->prev)
		o->prev->next = o->next;
	else
		c->objs[o->kind] = o->next;
	if (o->next)
		o->next->prev = o->prev;
	c->obj_n[o->kind]--;
}

/* ---- bell numbers ------------------------------------------------------------ */

int bell_take_number(struct ctx *c, uint32_t *number)
{
	uint32_t i = 0;

	if (c->queue_used == c->queue_n) {
		uint32_t wide = c->queue_n ? c->queue_n * 2 : 64;
		struct bell_queue *q;

		if (wide > BELL_QUEUES)
			return ENOMEM;
		q = realloc(c->queue, wide * sizeof(*q));
		if (!q)
			return ENOMEM;
		memset(q + c->queue_n, 0, (wide - c->queue_n) * sizeof(*q));
		i = c->queue_n;
		c->queue = q;
		c->queue_n = wide;
	}
	while (c->queue[i].qp || c->queue[i].srq)
		i++;
	c->queue_used++;
	*number = i;
	return 0;
}

void bell_give_back(struct ctx *c, uint32_t number)
{
	c->queue[number] = (struct bell_queue){ 0 };
	c->queue_used--;
}

void ctx_end(struct shard *s)
{
	if (s->cqs)
		free(s->cqs->chain);
	free(s->cqs);
	s->cqs = NULL;
}

/* ---- open and close ------------------------------------------------------------ */

static unsigned ctxs_on[SHARDS_MAX];

static void ctx_link(struct shard *s, void *arg)
{
	struct ctx *c = arg;

	if (!s->cqs)
		s->cqs = calloc(1, sizeof(*s->cqs));
	if (!s->cqs) {
		c->shard = NULL;
		return;
	}
	c->next = s->ctxs;
	if (c->next)
		c->next->prev = c;
	s->ctxs = c;
	c->bell_slot = shard_bell_add(s, c->bell);
	RING_STORE(&c->bell->core, s->core);
}

/* Ours does not wait; the client's does, until it asks otherwise: O_NONBLOCK belongs to each end. */
static int client_pair(int *ours, int *theirs)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return errno;
	fcntl(sv[0], F_SETFL, O_NONBLOCK);
	*ours = sv[0];
	*theirs = sv[1];
	return 0;
}

static int family_join(struct ctx *c, struct ctx *like)
{
	if (like) {
		c->family = like->family;
	} else {
		c->family = calloc(1, sizeof(*c->family));
		if (!c->family)
			return ENOMEM;
		if (RAND_bytes(c->family->token.v, sizeof(c->family->token.v)) != 1) {
			free(c->family);
			return EIO;
		}
	}
	c->family->n++;
	return 0;
}

static void family_leave(struct ctx *c)
{
	if (c->family && !--c->family->n)
		free(c->family);
}

/* The descriptors of a context; *event_fd and *token_fd are the client's.  On an error the caller closes what there is. */
static int ctx_fds(struct ctx *c, int *event_fd, int *token_fd)
{
	int err = shmem_make(&c->bell_shm, "rdmad-bell", sizeof(struct bell));

	if (err)
		return err;
	c->bell = (struct bell *)c->bell_shm.mem;
	err = client_pair(&c->event_out.fd, event_fd);
	if (!err)
		err = client_pair(&c->token_fd, token_fd);
	if (err)
		return err;
	return send(c->token_fd, &c->family->token, sizeof(c->family->token), MSG_NOSIGNAL) < 0 ? errno : 0;
}

static unsigned shard_emptiest(void)
{
	unsigned best = 0;

	for (unsigned i = 1; i < shards_n; i++)
		if (ctxs_on[i] < ctxs_on[best])
			best = i;
	return best;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

int ctx_open(struct ctx **out, struct device *dev, struct ctx *like, const struct ucred *who, const char *prog,
	     int *event_fd, int *token_fd)
{
	static unsigned last_id;
	struct ctx *c = calloc(1, sizeof(*c));
	const struct shard *near = like ? like->shard : xrcd_shard(who->uid, dev);
	unsigned best = near ? near->index : shard_emptiest();
	int err;

	if (!c)
		return ENOMEM;
	*event_fd = *token_fd = c->event_out.fd = c->token_fd = c->bell_shm.fd = -1;
	c->shard = shards[best];
	c->dev = dev;
	c->hca = shards[best]->hca[dev->index];
	c->id = ++last_id;
	c->pid = who->pid;
	c->uid = who->uid;
	memcpy(c->prog, prog, sizeof(c->prog));
	err = peer_make(&c->peer, who->pid, who->uid, who->gid);
	if (!err)
		err = family_join(c, like);
	if (!err)
		err = ctx_fds(c, event_fd, token_fd);
	if (!err) {
		shard_call(c->shard, ctx_link, c);
		err = c->shard ? 0 : ENOMEM;
	}
	if (err) {
		fd_close(c->event_out.fd);
		fd_close(*event_fd);
		fd_close(c->token_fd);
		fd_close(*token_fd);
		shmem_free(&c->bell_shm);
		family_leave(c);
		peer_drop(c->peer);
		free(c);
		return err;
	}
	ctxs_on[best]++;
	ctx_n++;
	*out = c;
	return 0;
}

struct ctx_end {
	struct ctx *ctx;
	struct obj *dead;
};

static struct ctx *family_other(struct shard *s, const struct ctx *c)
{
	for (struct ctx *i = s->ctxs; i; i = i->next)
		if (i != c && i->family == c->family)
			return i;
	return NULL;
}

static void ctx_unlink(struct shard *s, void *arg)
{
	static const enum obj_kind order[OBJ_KINDS] = { OBJ_QP, OBJ_SRQ, OBJ_XRCD, OBJ_CQ, OBJ_CHANNEL, OBJ_MW, OBJ_MR, OBJ_DM, OBJ_PD };
	struct ctx_end *end = arg;
	struct ctx *c = end->ctx;

	c->lost = !c->bye;
	ends_ctx(c, family_other(s, c));
	for (unsigned i = 0; i < OBJ_KINDS; i++) {
		struct ctx *heir = is_shared(order[i]) ? family_other(s, c) : NULL;
		struct obj *o;

		while ((o = c->objs[order[i]])) {
			int err;

			if (heir) {
				obj_del(o);
				if (!obj_add(heir, o, o->kind, o->number))	/* into the place that it had */
					continue;
				abort();
			}
			err = obj_destroy(o);

			if (err) {	/* nobody else can hold it: the core and this file disagree */
				log_err("context %u: object %d/%u cannot be destroyed: %s; please report this as a bug",
					c->id, o->kind, o->number, strerror(err));
				obj_del(o);
			}
			o->chain = end->dead;
			end->dead = o;
		}
	}
	shard_bell_del(s, c->bell_slot);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->ctxs = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

void ctx_close(struct ctx *c)
{
	struct ctx_end end = { .ctx = c };

	shard_call(c->shard, ctx_unlink, &end);
	while (end.dead) {
		struct obj *o = end.dead;

		end.dead = o->chain;
		obj_release(o);
	}
	ctxs_on[c->shard->index]--;
	ctx_n--;
	close(c->event_out.fd);
	close(c->token_fd);
	__atomic_store_n(&c->peer->gone, true, __ATOMIC_RELAXED);	/* for what an heir has of it */
	peer_drop(c->peer);
	family_leave(c);
	shmem_free(&c->bell_shm);
	free(c->queue);
	free(c);
}
