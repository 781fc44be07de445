/* SPDX-License-Identifier: MIT */
/* taken.c - see taken.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <ev.h>

#include <rdmad/gid.h>
#include <rdmad/gid_text.h>

#include "../base/conf.h"
#include "../base/log.h"
#include "taken.h"

#define TRY_S    0.1 /* so often is a port that is taken tried again, */
#define TRIES    50u /* and so many times: whoever had it may be about to end */
#define TAKEN_BY "by another rdmad, or the module rdma_rxe"

static struct {
	unsigned n, named; /* of the picture; those that the configuration names */
	uint8_t first[16], first_named[16];
	unsigned told_n;  /* the last warning was about so many, */
	uint8_t told[16]; /* and named this one */
	unsigned tries;
	int (*look)(void);
	struct ev_timer timer;
} taken;

void taken_none(void) { taken.n = taken.named = 0; }

void taken_put(const struct device *dev, const uint8_t gid[16])
{
	if (!taken.n++)
		memcpy(taken.first, gid, sizeof(taken.first));
	if (device_conf[dev->index].addr_n && !taken.named++)
		memcpy(taken.first_named, gid, sizeof(taken.first_named));
}

/* ---- later ------------------------------------------------------------------- */

static bool on_wire(const uint8_t *gid)
{
	for (unsigned i = 0; i < devices_n; i++)
		for (unsigned row = 0; row < RDMAD_GIDS; row++)
			if (devices[i].gid[row].wire && gid_same(devices[i].gid[row].gid, gid))
				return true;
	return false;
}

static void on_try(struct ev_loop *loop, struct ev_timer *w, int)
{
	char text[INET6_ADDRSTRLEN];

	if (!taken.look())
		taken_follow(loop, taken.look);
	if (!taken.n && on_wire(taken.first))
		log_note("UDP port 4791 of %s has become free, and is ours", gid_text(taken.first, text));
	if (!taken.n || ++taken.tries == TRIES)
		ev_timer_stop(loop, w);
}

void taken_follow(struct ev_loop *loop, int (*look)(void))
{
	char text[INET6_ADDRSTRLEN];

	if (taken.n && (taken.n > taken.told_n || !gid_same(taken.first, taken.told))) {
		log_warn("UDP port 4791 of %s is taken (" TAKEN_BY
			 "): only programs of this daemon reach each other there",
			 gid_text(taken.first, text));
		memcpy(taken.told, taken.first, sizeof(taken.told));
		taken.tries = 0;
	}
	taken.told_n = taken.n;
	if (!taken.n || ev_is_active(&taken.timer))
		return;
	taken.tries = 0;
	taken.look = look;
	ev_timer_init(&taken.timer, on_try, TRY_S, TRY_S);
	ev_timer_start(loop, &taken.timer);
}

void taken_end(struct ev_loop *loop)
{
	if (ev_is_active(&taken.timer))
		ev_timer_stop(loop, &taken.timer);
}

/* ---- at the start -------------------------------------------------------------- */

static bool told_to_end(void)
{
	sigset_t pending;

	return !sigpending(&pending) && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

int taken_wait(int (*look)(void))
{
	const struct timespec pause = { .tv_nsec = (long)(TRY_S * 1e9) };
	char text[INET6_ADDRSTRLEN];
	int err = 0;

	if (!taken.named)
		return 0;
	log_note("UDP port 4791 of %s is taken (" TAKEN_BY "): waiting for it", gid_text(taken.first_named, text));
	for (unsigned i = 0; !err && taken.named && i < TRIES; i++) {
		nanosleep(&pause, NULL);
		if (told_to_end())
			return EINTR;
		err = look();
	}
	if (err || !taken.named)
		return err;
	log_err("UDP port 4791 of %s is still taken after %.0f s (" TAKEN_BY "): end that, or choose another address",
		gid_text(taken.first_named, text), TRIES * TRY_S);
	return EADDRINUSE;
}
