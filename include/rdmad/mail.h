/* SPDX-License-Identifier: MIT */
/*
 * mail.h - a mailbox: requests and replies of a control connection by shared memory, while the daemon looks there.
 *
 * A request by the socket costs either side a system call to write and one to read, and the daemon another one to find it.  A program
 * that makes connections asks many times in a row; then the daemon looks for requests before it sleeps, and says so (looks).  All
 * else goes by the socket as ever: the first request, what comes with a descriptor, and the reply to one who does not wait any longer.
 *
 *	program					daemon
 *	request; IDLE -> ASKED
 *	does it still look?  else by the
 *	socket: ASKED -> IDLE			ASKED -> TAKEN; serves it
 *	looks for a while
 *						reply; TAKEN -> DONE
 *	DONE -> IDLE
 *	or sleeps: adds SLEEPS, and reads
 *	the socket, where the reply comes
 *
 * The daemon copies a request before it looks at it: the program can change all of this at any time, and harms itself only.
 */
#ifndef RDMAD_MAIL_H
#define RDMAD_MAIL_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmad/ring.h>

#define MAIL_ROOM 1024u /* of a request, of a reply */

enum mail_state { MAIL_IDLE, MAIL_ASKED, MAIL_TAKEN, MAIL_DONE, MAIL_SLEEPS = 4 };

struct mail {
	uint32_t looks; /* the daemon does, and will look once more before it does not */
	uint32_t rsv[15];
	uint32_t state; /* enum mail_state */
	uint32_t rsv1[15];
	uint8_t req[MAIL_ROOM], rep[MAIL_ROOM];
};

static inline bool mail_swap(struct mail *m, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&m->state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ---- the program --------------------------------------------------------------- */

static inline bool mail_is_looked_at(const struct mail *m) { return __atomic_load_n(&m->looks, __ATOMIC_SEQ_CST); }

/* The request is written.  false: nobody looks for it. */
static inline bool mail_ask(struct mail *m)
{
	RING_SAY(&m->state, MAIL_ASKED);
	return mail_is_looked_at(m) || !mail_swap(m, MAIL_ASKED, MAIL_IDLE);
}

static inline bool mail_is_done(const struct mail *m)
{
	return __atomic_load_n(&m->state, __ATOMIC_ACQUIRE) == MAIL_DONE;
}

/* From now on the reply comes by the socket.  false: it is here. */
static inline bool mail_sleep(struct mail *m)
{
	return mail_swap(m, MAIL_TAKEN, MAIL_TAKEN | MAIL_SLEEPS) ||
	       mail_swap(m, MAIL_ASKED, MAIL_ASKED | MAIL_SLEEPS) || mail_swap(m, MAIL_TAKEN, MAIL_TAKEN | MAIL_SLEEPS);
}

/* The reply has been read, here or from the socket. */
static inline void mail_clear(struct mail *m) { __atomic_store_n(&m->state, MAIL_IDLE, __ATOMIC_RELEASE); }

/* ---- the daemon ---------------------------------------------------------------- */

/* false: from now on it does not; then there may still be a request. */
static inline void mail_look(struct mail *m, bool looks) { RING_SAY(&m->looks, looks); }

/* Is there a request? */
static inline bool mail_asked(const struct mail *m)
{
	return (__atomic_load_n(&m->state, __ATOMIC_SEQ_CST) & ~(uint32_t)MAIL_SLEEPS) == MAIL_ASKED;
}

/* It is the daemon's from now on. */
static inline bool mail_take(struct mail *m)
{
	return mail_swap(m, MAIL_ASKED, MAIL_TAKEN) || mail_swap(m, MAIL_ASKED | MAIL_SLEEPS, MAIL_TAKEN | MAIL_SLEEPS);
}

/* The reply is written.  false: it goes by the socket. */
static inline bool mail_answer(struct mail *m) { return mail_swap(m, MAIL_TAKEN, MAIL_DONE); }

#endif
