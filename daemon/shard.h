/* SPDX-License-Identifier: MIT */
/*
 * shard.h - one thread that owns the HCAs, contexts and rings assigned to it.
 *
 * A turn:  calls from the control thread, ctx_drain(), UDP in, hca_tick(), hca_tx() until
 * nothing is left (to the wire or to a local HCA), ctx_publish(); with nothing done it waits
 * in io_uring or epoll (io.h) for the eventfd, the sockets and hca_deadline().
 */
#ifndef DAEMON_SHARD_H
#define DAEMON_SHARD_H

#include <stdbool.h>

#include "../proto/mono.h"
#include "device.h"

struct bell;
struct ctx;			/* a verbs context: ctx.h */
struct tap;

struct shard {
	unsigned index;
	int kick_fd;			/* eventfd; clients get a copy of it */
	struct hca *hca[DEVICES_MAX];	/* by device index */
	struct ctx *ctxs;		/* list through ctx->next; changed in this shard's thread only */
	struct raw *raw[64];		/* raw.c's: packet sockets, RAW_SLOTS of them, the first raw_n of use */
	unsigned raw_n;
	struct tap *tap;		/* tap.c's; NULL: nobody wants to see packets */
	struct cq *late;		/* publish.c's: CQs whose event waits for its time */
	struct cq *kept;		/* and those whose last completion waits for an answer */
	struct cq_map *cqs;		/* ctx.c's: which CQ ring, QP cookie belongs to a number */
	struct shard_io *io;		/* shard.c's own */
	uint32_t core;			/* 1 + where it runs, as told to the programs (struct bell) */
	bool few_cores;
	const char *io_name;		/* how it waits */
	struct { uint64_t turns, sleeps, kicks; } count;	/* since its start; this shard's thread only */
};

extern struct shard *shards[SHARDS_MAX];
extern unsigned shards_n;

enum io_kind { IO_AUTO, IO_URING, IO_EPOLL };

/*
 * Makes shards[index] with an HCA for each device; 0 or errno.  Before the first one devices[], devices_n and
 * shards_n (how many there will be) are set; index 0, 1, ... in turn.
 */
int shard_start(unsigned index, enum io_kind);
void shard_stop(struct shard *);		/* joins the thread, frees all */

/* Control thread: runs fn(s, arg) in the shard's thread between two turns and returns when it is done. */
void shard_call(struct shard *, void (*fn)(struct shard *, void *), void *arg);

mono_t shard_now(void);

/* Shard thread: waits for the futex bell->idle as well; 0: cannot, it must be kicked by its eventfd. */
unsigned shard_bell_add(struct shard *, struct bell *);
void shard_bell_del(struct shard *, unsigned slot);

struct io;
struct io *shard_files(const struct shard *);	/* shard thread: what it waits for */

/* ---- what a turn calls; in ctx.c ---------------------------------------- */

/* Posts what the rings hold (all RQs and SRQs, then SQs), *sends of the latter; true: there was something. */
bool ctx_drain(struct shard *, unsigned *sends, mono_t now);
/*
 * Posts the receives only.  Between taking a datagram from its socket and giving it to an HCA: its sender may know of a
 * receive that was posted after this turn's ctx_drain(), and UC and UD have no second try.
 */
void ctx_drain_recvs(struct shard *, mono_t now);
bool ctx_publish(struct shard *, mono_t now);	/* hca_completions(), hca_events() to rings, channels, event sockets */
mono_t ctx_deadline(const struct shard *);	/* when ctx_publish() has an event to send that it put off */
bool ctx_pending(const struct shard *);		/* some bell has work */
bool ctx_waits(const struct shard *);		/* some receives wait for room in the core, which this turn may have made */
void ctx_sleep(struct shard *);			/* bell_sleep() for all; then ctx_pending() is asked once more */
void ctx_wake(struct shard *);
void ctx_core(struct shard *);			/* tells the programs where the thread runs, if that is news */
void ctx_end(struct shard *);			/* the thread has ended, all contexts are closed: frees cqs */

/* ---- addresses ------------------------------------------------------------ */

struct ev_loop;

/*
 * Control thread: fills the devices' GID tables, MTU, speed and state from the host's addresses (device_conf[] says
 * which), and follows their changes.  Once, before or after the shards are started; 0 or errno.
 */
int gid_start(struct ev_loop *);
void gid_stop(struct ev_loop *);
/* Control thread: the port is taken down, or no longer, whatever its interfaces are. */
void gid_port_cut(struct device *, bool cut);
/* Called for each change with EV_GID_CHANGE, EV_PORT_ACTIVE or EV_PORT_ERR; may be NULL. */
extern void (*gid_notify)(struct device *, unsigned event_type);

/* Control thread, gid.c: row i of the device's table changed (already in device->gid): sockets and HCAs follow. */
int net_gid_changed(struct device *, unsigned row);

#endif
