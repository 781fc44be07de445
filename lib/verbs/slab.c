/* SPDX-License-Identifier: MIT */
/*
 * slab.c - the slabs of a context, in a list under its map_lock.
 *
 * Of two threads that make queues the one whose reply has the descriptor must have entered the slab before the other looks
 * for it: so they take turns (slab_turn).  A slab is unmapped when the daemon has ended it and the last queue is through
 * with its piece, in whatever order.
 */
#include "slab.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ctx.h"

struct slab {
	struct slab *next;
	uint64_t number;
	int fd;    /* until it is mapped; -1 */
	void *mem; /* NULL: not mapped yet */
	size_t len;
	unsigned users;
	bool gone;
};

/* With the lock held. */
static void slab_free(struct rd_ctx *c, struct slab *s)
{
	struct slab **p = &c->slabs;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	if (s->mem)
		munmap(s->mem, s->len);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

static struct slab *slab_find(const struct rd_ctx *c, uint64_t number)
{
	struct slab *s = c->slabs;

	while (s && s->number != number)
		s = s->next;
	return s;
}

/* fd is taken over. */
static struct slab *slab_new(struct rd_ctx *c, const struct msg_mem *m, int fd)
{
	struct slab *s = fd < 0 || !m->all ? NULL : calloc(1, sizeof(*s));

	if (!s) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*s = (struct slab){ .next = c->slabs, .number = m->slab, .fd = fd, .len = m->all };
	c->slabs = s;
	return s;
}

static void piece_take(struct slab *s, const struct msg_mem *m, size_t len, struct piece *piece)
{
	if (m->off % 64 || m->off > s->len || len > s->len - m->off)
		return;
	if (!s->mem) {
		void *p = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);

		if (p == MAP_FAILED)
			return;
		close(s->fd);
		s->fd = -1;
		s->mem = p;
	}
	s->users++;
	*piece = (struct piece){ s, (char *)s->mem + m->off, len };
}

/* A queue as the reply describes it, and how that is ended. */
struct queue {
	const struct msg_mem *mem;
	size_t len;
	enum msg_op end;
	uint32_t handle;
};

static struct queue queue_of(const struct msg_rep *rep)
{
	switch (rep->op) {
	case MSG_QP_CREATE: return (struct queue){ &rep->qp.mem, rep->qp.map_len, MSG_QP_DESTROY, rep->qp.qpn };
	case MSG_SRQ_CREATE: return (struct queue){ &rep->srq.mem, rep->srq.map_len, MSG_SRQ_DESTROY, rep->srq.handle };
	case MSG_CQ_CREATE: return (struct queue){ &rep->cq.mem, rep->cq.map_len, MSG_CQ_DESTROY, rep->cq.handle };
	}
	return (struct queue){ &rep->cq.mem, rep->cq.map_len, MSG_CQ_SWAP, rep->cq.handle };
}

/* false: its slab is not known, and the descriptor has not come. */
static bool piece_find(struct rd_ctx *c, const struct queue *q, int fd, struct piece *piece)
{
	struct slab *s;

	if (!q->mem->slab) {
		*piece = (struct piece){ NULL, fd < 0 ? NULL : ctx_map(fd, q->len), q->len };
		return true;
	}
	pthread_mutex_lock(&c->map_lock);
	s = slab_find(c, q->mem->slab);
	if (!s)
		s = slab_new(c, q->mem, fd);
	else if (fd >= 0)
		close(fd);
	if (s)
		piece_take(s, q->mem, q->len, piece);
	pthread_mutex_unlock(&c->map_lock);
	return s != NULL;
}

static void queue_end(struct rd_ctx *c, const struct queue *q, bool lost)
{
	struct msg_req req = { .op = q->end, .id = { q->handle, lost } };
	struct msg_rep rep;

	if (!ctx_call(c, &req, &rep))
		slab_gone(c, rep.gone.slab);
}

int slab_call(struct rd_ctx *c, struct msg_req *req, struct msg_rep *rep, int send_fd, struct piece *piece)
{
	struct queue q;
	bool known;
	int fd, err;

	*piece = (struct piece){ 0 };
	if (ctx_inherited(
		    c)) /* the lock may be held for ever; a child that has joined for device memory has no queues */
		return EIO;
	pthread_mutex_lock(&c->slab_turn);
	err = conn_call_may(&c->conn, req, rep, send_fd, &fd);
	if (!err) {
		q = queue_of(rep);
		known = piece_find(c, &q, fd, piece);
		if (!piece->mem) {
			err = fd >= 0 || (known && q.mem->slab) ? ENOMEM : EMFILE;
			queue_end(c, &q, !known || !q.mem->slab);
		}
	}
	pthread_mutex_unlock(&c->slab_turn);
	return err;
}

void slab_done(struct rd_ctx *c, struct piece *p)
{
	struct slab *s = p->slab;

	if (!s) {
		if (p->mem)
			munmap(p->mem, p->len);
		return;
	}
	pthread_mutex_lock(&c->map_lock);
	if (!--s->users && s->gone)
		slab_free(c, s);
	pthread_mutex_unlock(&c->map_lock);
}

void slab_gone(struct rd_ctx *c, uint64_t number)
{
	struct slab *s;

	if (!number)
		return;
	pthread_mutex_lock(&c->map_lock);
	s = slab_find(c, number);
	if (s)
		s->gone = true;
	if (s && !s->users)
		slab_free(c, s);
	pthread_mutex_unlock(&c->map_lock);
}

void slabs_end(struct rd_ctx *c)
{
	for (struct slab *s = c->slabs, *next; s; s = next) {
		next = s->next;
		if (!s->users)
			slab_free(c, s);
	}
}
