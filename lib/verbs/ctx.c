/* SPDX-License-Identifier: MIT */
/* ctx.c - services of a context for its objects: requests, bells, maps, and the table by which events find them. */
#include "ctx.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *ctx_map(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void kick_fd(const struct rd_ctx *c)
{
	static const uint64_t one = 1;
	ssize_t n;

	do
		n = write(c->kick_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

static void kick(struct rd_ctx *c, uint32_t answer)
{
	if (answer == BELL_AWAKE)
		return;
	RING_STORE(&c->bell->kicker, (uint32_t)(sched_getcpu() + 1));
	if ((answer & BELL_HOW) == BELL_FUTEX)
		syscall(SYS_futex, &c->bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
	else
		kick_fd(c);
	bell_kicked(c->bell, answer);
}

void ctx_ring(struct rd_ctx *c, uint32_t q) { kick(c, bell_ring(c->bell, q)); }

void ctx_note(struct rd_ctx *c, uint32_t q, const struct ring *recvs) { kick(c, bell_note(c->bell, q, recvs->hdr)); }

int ctx_call_id(struct rd_ctx *c, enum msg_op op, uint32_t handle)
{
	struct msg_req req = { .op = op, .id.handle = handle };
	struct msg_rep rep;

	int err;

	if (ctx_inherited(c))
		return 0;
	err = ctx_call(c, &req, &rep);
	if (!err && (op == MSG_QP_DESTROY || op == MSG_CQ_DESTROY || op == MSG_SRQ_DESTROY))
		slab_gone(c, rep.gone.slab);
	return err == EIO && conn_gone(&c->conn) ? 0 : err;
}

int ctx_call_fd(struct rd_ctx *c, struct msg_req *req, struct msg_rep *rep, int *fd, enum msg_op end)
{
	int err = conn_call_may(&c->conn, req, rep, -1, fd);

	if (err || *fd >= 0)
		return err;
	ctx_call_id(c, end, rep->obj.handle); /* the first of each reply */
	return errno = EMFILE;
}

void ctx_turn(struct rd_ctx *c)
{
	for (int i = 0; i < 2; i++)
		ctx_call_id(c, MSG_QP_QUERY, 0);
}

/* ---- objects by cookie ------------------------------------------------------ */

uint64_t map_add(struct rd_ctx *c, struct map_node *n, enum map_kind kind)
{
	uint64_t cookie;

	pthread_mutex_lock(&c->map_lock);
	cookie = ++c->cookie_last;
	n->kind = kind;
	hash_add(&c->map, &n->hash, cookie);
	pthread_mutex_unlock(&c->map_lock);
	return cookie;
}

void map_del(struct rd_ctx *c, struct map_node *n)
{
	pthread_mutex_lock(&c->map_lock);
	hash_del(&c->map, &n->hash);
	pthread_mutex_unlock(&c->map_lock);
}
