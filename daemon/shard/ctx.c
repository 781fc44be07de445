/* SPDX-License-Identifier: MIT */
/*
 * ctx.c - contexts come and go.
 *
 * A context is put on the shard that has the fewest.  When its client is gone - the connection ended, however
 * it ended - all its objects are destroyed in one call between two turns of the shard.  Nothing is sent;
 * peers find out by their own retries.  Only if the program said that it ends (MSG_BYE) its QPs end as if it had
 * destroyed them: what they executed may be acknowledged once more.
 */
#include "ctx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/log.h"
#include "../base/rights.h"
#include "bells.h"
#include "ctx_obj.h"
#include "hooks.h"
#include "idle.h"
#include "inbox.h"
#include "share.h"

unsigned ctx_n;

/* ---- open and close ------------------------------------------------------------ */

static unsigned ctxs_on[SHARDS_MAX];

static void ctx_link(struct shard *s, void *arg)
{
	struct ctx *c = arg;

	if (objs_begin(s) || share_join(c)) {
		c->shard = NULL;
		return;
	}
	if (bells_add(c)) {
		share_leave(c);
		c->shard = NULL;
		return;
	}
	c->next = s->ctxs;
	if (c->next)
		c->next->prev = c;
	s->ctxs = c;
	idle_add(c, clock_now());
}

int client_pair(int *ours, int *theirs)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return errno;
	fcntl(sv[0], F_SETFL, O_NONBLOCK); /* belongs to each end */
	shutdown(sv[0], SHUT_RD);
	setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &(int){ CLIENT_ROOM }, sizeof(int));
	*ours = sv[0];
	*theirs = sv[1];
	return 0;
}

static int family_join(struct ctx *c, struct ctx *like)
{
	struct family *f = like ? like->family : calloc(1, sizeof(*f));

	if (!f)
		return ENOMEM;
	if (!like && getentropy(f->token.v, sizeof(f->token.v))) {
		free(f);
		return EIO;
	}
	f->n++;
	c->family = f;
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
	c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->kick_fd < 0)
		return errno;
	err = client_pair(&c->event_out.fd, event_fd);
	if (!err && c->uid == rights_owner()) {
		c->event_in = fcntl(*event_fd, F_DUPFD_CLOEXEC, 0);
		err = c->event_in < 0 ? errno : 0;
	}
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

/* pidfd, eventfd, three ends of two sockets, /proc/PID/mem and the copier's own file; the numbers of bells are the QPs' and SRQs'. */
static const struct cost ctx_cost = { { [QUOTA_FDS] = 7,
					[QUOTA_MAPS] = HELD_MAPS,
					[QUOTA_QUEUE_LEN] = sizeof(struct bell),
					[QUOTA_HEAP] = CLIENT_UNREAD + sizeof(struct ctx) + sizeof(struct family) +
						       sizeof(struct peer) + sizeof(struct held) } };

int ctx_open(struct ctx **out, struct device *dev, struct ctx *like, const struct ucred *who, struct peer *peer,
	     const char *prog, int *event_fd, int *token_fd)
{
	static unsigned last_id;
	struct ctx *c = calloc(1, sizeof(*c));
	const struct shard *near = like ? like->shard : hooks.xrcd_shard(who->uid, dev);
	unsigned best = near ? near->index : shard_emptiest();
	struct cost cost = ctx_cost;
	int err = c ? 0 : ENOMEM;

	peer_cost(peer, &cost);
	if (!err)
		err = bill_open(&c->bill, who->uid, &cost);
	if (err) {
		free(c);
		return err;
	}
	*event_fd = *token_fd = c->event_out.fd = c->event_in = c->token_fd = c->bell_shm.fd = c->kick_fd = -1;
	c->shard = shards[best];
	c->dev = dev;
	c->hca = shards[best]->hca[dev->index];
	c->id = ++last_id;
	c->pid = who->pid;
	c->uid = who->uid;
	memcpy(c->prog, prog, sizeof(c->prog));
	err = getentropy(&c->key, sizeof(c->key)) ? EIO : family_join(c, like);
	if (!err)
		err = ctx_fds(c, event_fd, token_fd);
	if (!err) {
		shard_call(c->shard, ctx_link, c);
		err = c->shard ? 0 : ENOMEM;
	}
	if (err) {
		fd_close(c->event_out.fd);
		fd_close(c->event_in);
		fd_close(c->kick_fd);
		fd_close(*event_fd);
		fd_close(c->token_fd);
		fd_close(*token_fd);
		shmem_free(&c->bell_shm);
		family_leave(c);
		bill_close(&c->bill);
		free(c);
		return err;
	}
	c->peer = peer;
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
	static const enum obj_kind order[OBJ_KINDS] = { OBJ_QP, OBJ_SRQ, OBJ_XRCD, OBJ_CQ, OBJ_CHANNEL,
							OBJ_MW, OBJ_MR,  OBJ_DM,   OBJ_PD };
	struct ctx_end *end = arg;
	struct ctx *c = end->ctx;

	c->lost = !c->bye;
	hooks.ends_ctx(c, family_other(s, c));
	for (unsigned i = 0; i < OBJ_KINDS; i++) {
		struct ctx *heir = obj_is_shared(order[i]) ? family_other(s, c) : NULL;
		struct obj *o;

		while ((o = c->objs[order[i]])) {
			int err;

			if (heir) {
				obj_del(o);
				if (o->kind == OBJ_MR)
					region_orphan(((struct ctx_mr *)o)->region);
				if (!obj_add(heir, o, o->kind, o->number)) /* into the place that it had */
					continue;
				abort();
			}
			err = obj_destroy(o);

			if (err) { /* nobody else can hold it: the core and this file disagree */
				log_err("context %u: object %d/%u cannot be destroyed: %s; please report this as a bug",
					c->id, o->kind, o->number, strerror(err));
				obj_del(o);
			}
			o->chain = end->dead;
			end->dead = o;
		}
	}
	__atomic_store_n(&c->peer->gone, true, __ATOMIC_RELAXED);
	idle_del(c);
	bells_del(c);
	share_leave(c);
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
	fd_close(c->event_in); /* first: what its program has closed is to be gone from epoll(7) before it hangs up */
	close(c->event_out.fd);
	close(c->token_fd);
	fd_close(c->kick_fd);
	peer_close(c->peer); /* what an heir has of it knows that it is gone */
	peer_drop(c->peer);
	family_leave(c);
	slabs_end(&c->slabs);
	shmem_free(&c->bell_shm);
	free(c->queue);
	bill_close(&c->bill);
	free(c);
}
