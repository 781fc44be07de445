/* SPDX-License-Identifier: MIT */
/*
 * dump.h - the text of a dump on its way: through a socket, in pieces, as fast as its reader takes them.
 *
 *	verb_dump() --dump_send()--> socket, 64 KiB --> the client reads
 *	                ^  the next piece, when there is room: a turn of the control loop each
 *
 * A session has one at most, and no other before that is read: so a client that does not read holds one piece and what is in the socket.
 * Control thread.
 */
#ifndef DAEMON_DUMP_H
#define DAEMON_DUMP_H

#include <stddef.h>

struct call;
struct session;

/* Where the text comes from. */
struct dump_source {
	char *(*next)(void *arg, int *err); /* the next piece, malloc()ed; NULL: none, *err or 0 */
	void (*end)(void *arg);             /* no more is wanted */
	void *arg;
	size_t len; /* bytes of heap that arg holds */
};

/* The socket's other end goes with the reply.  0 or errno; the source's end() is called in any case, now or later. */
int dump_send(struct call *, const struct dump_source *);
/* Makes room for the next: EBUSY while the one before is not read. */
int dump_may(struct session *);
void dump_end(struct session *);

#endif
