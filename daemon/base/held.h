/* SPDX-License-Identifier: MIT */
/*
 * held.h - mappings of files that a client has, too, and may take pages out of.
 *
 * A seal forbids shortening a memfd, but not punching holes into it, and there may be no page to fill a hole (huge
 * pages, a limit of memory): then the next access is SIGBUS.  The page where that happens becomes private zeros, with
 * all behind it; the access goes on with these, and what needs one of them is torn from then on: for one client only.
 */
#ifndef DAEMON_HELD_H
#define DAEMON_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELD_MAPS 2u /* mappings that one can become */

struct held {
	uint8_t *base;
	size_t len, page;
	uint8_t *torn; /* atomic: from here on; NULL: nothing is */
	bool more;     /* with it may end more than its pages: to unmap it may take long */
};

/* From now on SIGBUS ends only what it should.  Once, before threads. */
void held_begin(void);

/*
 * Maps len bytes of fd at off, for reading and writing, with flags beside MAP_SHARED.  off is a multiple of the file's
 * pages, len is rounded up to it.  0 or errno.
 */
int held_map(struct held **, int fd, uint64_t off, size_t len, int flags);
/*
 * The same of all of a SysV segment of size bytes; one of huge pages is one page here.  EINVAL: the id is that of another size by
 * now, or what it is cannot be found out.
 */
int held_attach(struct held **, int shmid, size_t size);
void held_unmap(struct held *); /* NULL: nothing */
unsigned held_count(void);      /* how many there are now */
/* The unit of off and len of mappings of fd: a memfd may have huge pages. */
size_t held_page(int fd);

/* A part of it, [at, at+len), is lost. */
static inline bool held_is_torn(const struct held *h, const uint8_t *at, size_t len)
{
	const uint8_t *torn = __atomic_load_n(&h->torn, __ATOMIC_ACQUIRE);

	return __builtin_expect(torn != NULL, false) && at + len > torn;
}

/* How many mappings this thread has found torn by touching them. */
extern _Thread_local unsigned held_tears;

#endif
