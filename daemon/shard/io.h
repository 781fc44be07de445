/* SPDX-License-Identifier: MIT */
/*
 * io.h - the one place where a shard blocks: until some file is ready or a moment has come.
 *
 * Two ways behind it: io_uring (uring.c) and epoll (epoll.c).  Bytes do not pass through here: a
 * socket that is ready is read and written by plain recvmsg() and sendmsg(), which is faster
 * while there is traffic.  Belongs to the thread that called io_new().
 */
#ifndef DAEMON_IO_H
#define DAEMON_IO_H

#include <stdbool.h>

#include "../../proto/mono.h"
#include "../base/conf.h"
#include "../base/device.h"

/*
 * A slot is the number of a file that a shard waits for.  They are used so:
 *
 *	0 ...		NET_SLOTS	UDP sockets that receive: one for each GID, then those of multicast groups (net_priv.h)
 *	RAW_SLOT ...	RAW_SLOTS	packet sockets (raw.h)
 *	SEND_SLOT	1		the socket that has no room for what is to be sent next (net_tx.c)
 *	BELLS_SLOT	1		an epoll of the eventfds of programs that do not wake it by a word (bells.h)
 *	KICK_SLOT	1		the eventfd of the daemon's own threads (shard.h)
 *	IO_FILES ...	IO_WORDS	words: bells of contexts that are waited for themselves
 */
#define IO_FILES   3072u
#define IO_WORDS   1024u
#define KICK_SLOT  (IO_FILES - 1)
#define BELLS_SLOT (KICK_SLOT - 1)
#define RAW_SLOTS  RAWS_MAX
#define SEND_SLOT  (BELLS_SLOT - 1)
#define RAW_SLOT   (SEND_SLOT - RAW_SLOTS)
#define NET_SLOTS  RAW_SLOT

struct io;
enum io_rung { IO_SILENT, IO_RUNG, IO_UNKNOWN }; /* io_rung() */

/* One way to wait.  slot: 0..IO_FILES-1, the caller's number for a file. */
struct io_way {
	const char *name;
	int (*start)(void **state);
	void (*stop)(void *state);
	int (*add)(void *state, unsigned slot, int fd);                    /* for reading */
	void (*del)(void *state, unsigned slot, int fd);                   /* before fd is closed */
	void (*want_write)(void *state, unsigned slot, int fd, bool on);   /* and for writing */
	unsigned (*word_add)(void *state, uint32_t *word, uint32_t value); /* NULL: has no such thing */
	void (*word_del)(void *state, unsigned slot);
	void (*word_await)(void *state, unsigned slot, bool on);
	enum io_rung (*rung)(const void *state);
	unsigned (*look)(void *state, unsigned *ready, unsigned max);
	/* timeout_ns 0: only looks; UINT64_MAX: for ever.  How many slots were put to ready, which has max. */
	unsigned (*wait)(void *state, uint64_t timeout_ns, unsigned *ready, unsigned max);
};

extern const struct io_way io_uring_way, io_epoll_way;

/*
 * IO_AUTO: io_uring, or epoll where io_uring is refused, with a line in the log.  0 or errno.
 * A slot may be told as ready when it is not.
 */
int io_new(struct io **, enum io_kind);
void io_free(struct io *);
const char *io_name(const struct io *);
int io_add(struct io *, unsigned slot, int fd);
void io_del(struct io *, unsigned slot, int fd);
void io_want_write(struct io *, unsigned slot, int fd, bool on);
/*
 * Waits also, while that is asked for, until the word, in memory shared with another process, is not the value any more: who
 * changes it wakes it as a futex.  The slot (IO_FILES or above) that will be told as ready, or 0: this way cannot.
 */
unsigned io_word_add(struct io *, uint32_t *word, uint32_t value);
void io_word_await(struct io *, unsigned slot,
		   bool on);                  /* the word has its value, until io_wait() tells; or has it no more */
void io_word_del(struct io *, unsigned slot); /* before the memory goes */
unsigned io_wait(struct io *, uint64_t timeout_ns, unsigned *ready, unsigned max);

/*
 * Without a system call: whether a word, or BELLS_SLOT, may have become ready since io_wait() or io_look() were called last.
 * IO_UNKNOWN: this way cannot tell.  A kick that was over before a load that the caller has made is told,
 * unless another one, at the same moment, was the first in the kernel's list and has not set the flag yet, or ends the wait for
 * the same word: nanoseconds, as long as that thread is not interrupted there.
 */
enum io_rung io_rung(const struct io *);
/* As io_wait() with timeout 0, but files other than BELLS_SLOT that fired are not armed again. */
unsigned io_look(struct io *, unsigned *ready, unsigned max);

#endif
