/* SPDX-License-Identifier: MIT */
/*
 * answer.h - whether a completion is better kept back until the peer's answer is there.
 *
 * A program that writes to its peer's memory, takes the completion and then watches its own memory for the answer
 * (ib_write_lat) burns its core in that watch, where no library can give it away.  Where programs outnumber the cores it
 * is the peer that waits for this core: a message takes a time slice.  While a program polls for its completion the library
 * does give the core away.  So, of a QP of which all of this has been seen:
 *
 *	- its program has nothing else to do: after each of its last RUN_MIN completions, with nothing more posted, a message of
 *	  the peer came before the program posted again
 *	- but STALLS_MIN times in STALLS_NS it took STALL_NS and more
 *
 * the completions are kept back for KEEP_NS from then on, each until the peer's next message is carried out, or for
 * ANSWER_NS, or until the peer hangs up (publish_before()).  A program that posts before it has an answer ends that at once.  Shard thread.
 */
#ifndef DAEMON_ANSWER_H
#define DAEMON_ANSWER_H

#include "../../proto/mono.h"

#define ANSWER_NS 1000000u

struct answer {
	uint32_t heard; /* hca_qp_heard() when the last completion was there */
	bool open;      /* since then nothing was posted */
	uint8_t run, stalls;
	mono_t at, stalls_at; /* when the completion was there; the first one of stalls */
	mono_t until;         /* completions are kept back */
};

/* The last send that was posted is complete; true: keep the completion back. */
bool answer_awaited(struct answer *, uint32_t heard, mono_t now);
/* A send was posted. */
void answer_posted(struct answer *, uint32_t heard, mono_t now);

#endif
