/* SPDX-License-Identifier: MIT */
/*
 * bye.c - the daemon is told that a context ends because the program wants it to.
 *
 * A connection that just ends may be that of a program that was killed, and peers of such a program are to notice it.  A
 * program that closes its device, or returns from main() without destroying its queue pairs, has done what it wanted: the
 * daemon may then repeat the last ACKs to peers that have not received them.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include "ctx.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_ctx *open_ctx;

void bye_add(struct rd_ctx *c)
{
	struct stat st;

	c->socket = fstat(c->conn.fd, &st) ? 0 : st.st_ino;
	pthread_mutex_lock(&lock);
	c->next = open_ctx;
	open_ctx = c;
	pthread_mutex_unlock(&lock);
}

/* Without waiting, and not in a child: it would say it for its parent. */
static void bye_say(struct rd_ctx *c)
{
	struct msg_req req = { .op = MSG_BYE };
	struct stat st;

	/* A program that closes all descriptors may have something else there by now. */
	if (!conn_mine(&c->conn) || fstat(c->conn.fd, &st) || st.st_ino != c->socket || !S_ISSOCK(st.st_mode))
		return;
	send(c->conn.fd, &req, msg_req_len(req.op), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void bye_del(struct rd_ctx *c)
{
	struct rd_ctx **p = &open_ctx;

	bye_say(c);
	pthread_mutex_lock(&lock);
	while (*p && *p != c)
		p = &(*p)->next;
	if (*p)
		*p = c->next;
	pthread_mutex_unlock(&lock);
}

/* At exit(); a thread that was stopped in the middle of the list, or was not copied by fork(), keeps the lock. */
__attribute__((destructor)) static void bye_all(void)
{
	if (pthread_mutex_trylock(&lock))
		return;
	for (struct rd_ctx *c = open_ctx; c; c = c->next)
		bye_say(c);
	pthread_mutex_unlock(&lock);
}
