/* SPDX-License-Identifier: MIT */
/* doze.c - a thread sleeps until a CQ has something, by a futex in its ring, which the daemon wakes. */
#include "cq.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdmad/own.h>

static struct ring_hdr *hdr_of(struct ibv_cq *cq) { return to_cq(cq)->last->ring.hdr; }

EXPORT void rdmad_cq_doze(struct ibv_cq *cq) { cq_doze(hdr_of(cq)); }

EXPORT int rdmad_cq_sleep(struct ibv_cq *cq, int64_t ns)
{
	const long most[2] = { 0, (long)ns }; /* as SYS_futex has it, with 32 bits, too */

	if (!syscall(SYS_futex, &hdr_of(cq)->dozes, FUTEX_WAIT, 1, most, NULL, 0) || errno == EAGAIN)
		return 0;
	return errno;
}

EXPORT void rdmad_cq_rouse(struct ibv_cq *cq)
{
	struct ring_hdr *h = hdr_of(cq);

	if (cq_dozes(h))
		syscall(SYS_futex, &h->dozes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
