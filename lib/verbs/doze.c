/* SPDX-License-Identifier: MIT */
/* doze.c - a thread sleeps until a CQ has something, by a futex in its ring, which the daemon wakes. */
#include "cq.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdmad/own.h>

static uint32_t *word_of(struct ibv_cq *cq) { return &to_cq(cq)->last->ring.hdr->dozes; }

EXPORT void rdmad_cq_doze(struct ibv_cq *cq) { word_sleep(word_of(cq)); }

EXPORT int rdmad_cq_sleep(struct ibv_cq *cq, int64_t ns)
{
	const long most[2] = { 0, (long)ns }; /* as SYS_futex has it, with 32 bits, too */

	if (!syscall(SYS_futex, word_of(cq), FUTEX_WAIT, 1, most, NULL, 0) || errno == EAGAIN)
		return 0;
	return errno;
}

EXPORT void rdmad_cq_rouse(struct ibv_cq *cq)
{
	uint32_t *word = word_of(cq);

	if (word_sleeps(word))
		syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
