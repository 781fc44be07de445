/* SPDX-License-Identifier: MIT */
/* mem_map_in.h - between mem_map.c, mem_least.c, mem_conv.c, mem_pages.c, mem_shared.c, mem_fork.c, mem_stack.c and mem_tell.c. */
#ifndef VERBS_MEM_MAP_IN_H
#define VERBS_MEM_MAP_IN_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "mem_map.h"

#define MAP_BLIND MAP_MOST_AGAIN /* a longer range is not converted where the kernel does not tell what is there */

struct vma;
struct vma_reader;

#define CONV_NAME "rdmad-mr"
#define CONV_VMA  "/memfd:" CONV_NAME " (deleted)" /* in /proc/self/maps */

/* Pages [start, end) are those of the file from 0 on. */
struct conv {
	struct conv *next;
	uintptr_t start, end;
	int fd;
	unsigned advice; /* of vma.h, that its mappings have, ... */
	bool advised;    /* ... which is known; */
	bool told, odd;  /* of conv_ask(): not all of them have the same */
	uint64_t ino;
	unsigned major, minor; /* of the file system that the file is in */
	pid_t owner;
	uintptr_t first, last; /* the range that it was made for */
	unsigned users;        /* ranges that were passed with it; 0: it is kept */
	bool again;            /* not the first time */
	bool lost;             /* it is in maps.lost */
	uint64_t kept;         /* since when, in turns */
};

/* A file that regions are in as it is: the daemon has a mapping of it that they share, or a few. */
struct shared_file {
	struct shared_file *next;
	uint64_t ino;
	unsigned major, minor;
	unsigned users;
	bool seg; /* a SysV segment: ino is its id */
};

struct map_state {
	pthread_mutex_t
		lock; /* inner to those of the program and of other libraries: what takes one is not called with it (direct.h) */
	struct conv *convs;
	unsigned conv_n;
	struct map_range *ranges;
	struct shared_file *shared;
	bool left;         /* some pages could not be turned back: they may still be there, with no conv */
	bool late;         /* a forked child has not taken its copies in time, and may do so still */
	struct conv *lost; /* those that were not turned back: their files say which of their pages a child copies */
};
extern struct map_state maps;

void map_signals_block(sigset_t *old); /* before the lock is taken: a handler may fork() */

/* mem_conv.c; with the lock held. */
bool conv_suits(uintptr_t start, uintptr_t end); /* private, anonymous, written by nobody but threads */
/* May reach less far than end; NULL: nothing was changed.  most: bytes that are copied. */
struct conv *conv_make(uintptr_t start, uintptr_t end, size_t most);
bool conv_intact(const struct conv *, uintptr_t start, uintptr_t end); /* still mapped where it was? */
bool conv_there(struct vma_reader *, const struct conv *, uintptr_t start, uintptr_t end); /* is there nothing else? */
/* The mapping at an address; false: it is not one of these. */
bool conv_at(struct vma_reader *, const struct conv *, uintptr_t at, struct vma *);
bool conv_has_file(const struct conv *); /* its descriptor is still that */
bool conv_turns(struct conv *);          /* may all of it be made private? */
/* With an open reader: all of it is private, anonymous, and nothing that is mapped anywhere writes behind; the latter alone. */
bool conv_plain(struct vma_reader *, uintptr_t start, uintptr_t end);
bool conv_quiet(struct vma_reader *);
bool conv_remains(const struct conv *); /* some of it is mapped somewhere; NULL: of any; also if that cannot be seen */
struct conv *conv_next(const struct conv *); /* of all, also of those that are lost; behind NULL the first */
struct conv *conv_with(uint64_t ino);        /* of these */
void conv_ask(void);                         /* what madvise() has said of each since */
unsigned conv_advice(uint64_t ino, uintptr_t start, uintptr_t end); /* of a part, behind conv_ask(), also in a child */
void conv_free(struct conv *);                                      /* closes the file; the pages stay as they are */

/* mem_pages.c; with the lock held. */
/* From its start to end it becomes the beginning of the file, with no more than most bytes of data; how far it got.  Nowhere: it may be as its advice was not known. */
uintptr_t pages_share(struct conv *, uintptr_t end, size_t most);
bool pages_back(const struct conv *); /* makes them private; false: some are left */
/* The same of one mapping in a forked child, with one thread, which tells of each piece.  fd: its file, or another one, or -1. */
bool pages_private(const struct vma *, int fd);

/* mem_shared.c: a descriptor or id of what is mapped there, and the part of it; NULL: none, or nothing is shared. */
struct shared_file *shared_pass(uintptr_t start, uintptr_t end, struct map_pass *);
void shared_done(struct shared_file *); /* by one region; with the lock held, both */

/* mem_least.c */
/* Before the lock is taken: dlsym() waits for threads that load libraries, whose constructors may register. */
void least_ask(void);
size_t least_len(void);
size_t least_shared(void); /* of what is shared already */

/*
 * mem_stack.c: the pages that fork() runs on; with the lock held, before it, and behind it in each of the two.  false: they are not,
 * or not all, private, or shared again.
 */
struct range {
	uintptr_t start, end;
};
/* Of this thread's stack, which is that of a thread; else empty.  Before the lock is taken: it allocates. */
struct range stack_ends(void);
bool stack_apart(const struct range *ends);
bool stack_back(void);
void stack_child(void);

/* mem_tell.c; with the lock held. */
void tell_open(void); /* before fork() */
bool tell_is_open(void);
/* In the parent; err: errno, which fork() sets if it fails.  false: the child has not done its work, or is not seen to. */
bool tell_wait(int err);
void tell_begin(void); /* in the child, and so the rest */
void tell_piece(void);
void tell_end(void);

/* mem_fork.c */
bool map_fork_ready(void); /* else nothing is converted */
void map_fork_rest(void);  /* nothing may be converted any more */
bool map_forking(void);    /* this thread has the lock meanwhile */

#endif
