/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a call from its beginning to its end; a line for it with --trace.
 *
 *	RDMAD_TRACE		which calls: names with * and ?, separated by commas; -NAME: not these; empty: none
 *	RDMAD_TRACE_FILE	where the lines go, instead of standard error
 */
#ifndef CALLPRELOAD_TRACE_H
#define CALLPRELOAD_TRACE_H

#include "pre.h"

#include <time.h>

enum call_id {
#define VERB(name, ...)        CALL_##name,
#define MAKE(type, name, ...)  CALL_##name,
#define CM(level, name, ...)   CALL_##name,
#define NONE(level, name, ...) CALL_##name,
#include "calls.def"
#define S_VERB(where, slot, name, ...)       CALL_##name,
#define S_POLL(where, slot, name, ...)       CALL_##name,
#define S_MAKE(type, where, slot, name, ...) CALL_##name,
#include "slots.def"
#define EX(name, ...) CALL_ibv_##name,
#define EX_ID(name)   CALL_ibv_##name,
#include "ex.def"
	CALLS
};

enum call_level { LEVEL_VERBS, LEVEL_CM };

struct call {
	enum call_id id;
	enum call_level level;
	bool look;  /* for --check: the program's own, or librdmacm's */
	bool trace; /* a line is to be written: the program's own */
	int err;    /* errno when the call returned */
	struct timespec at;
	uint64_t begin_ns, took_ns;
};

enum result { RESULT_ERR, RESULT_PTR, RESULT_INT, RESULT_NONE };

void trace_init(void);
/* Empty polls that this thread has counted are told. */
void trace_end(void);
/* In a child of fork(2). */
void trace_forked(void);
const char *call_name(enum call_id);

/* Is this thread in a call? */
bool call_inside(void);
void call_begin(struct call *, enum call_id, enum call_level);
/* Right in front of the call proper: its time begins. */
void call_go(struct call *);
/* Right behind the call proper: errno and the time are taken. */
void call_made(struct call *);
/* errno is what it was behind the call. */
void call_end(struct call *);
/* In front of call_end(), if c->trace.  Empty polls of a thread, one after the other, are one line. */
__attribute__((format(printf, 5, 6))) void call_line(struct call *, enum result, intptr_t r, bool empty,
						     const char *fmt, ...);

/*
 * The whole of a call, whose result r is declared in front of it: real, unless before, a condition, says that it may not be made;
 * then r is dead, and errno EINVAL.  after is carried out behind it for --check, a line is written of what follows.  c: the call.
 */
#define CALL_BODY(id_, level_, dead, kind, empty, before, real, after, ...) \
	struct call c;                                                      \
                                                                            \
	call_begin(&c, id_, level_);                                        \
	if (!c.look || (before)) {                                          \
		call_go(&c);                                                \
		r = real;                                                   \
	} else {                                                            \
		c.look = false;                                             \
		r = dead;                                                   \
		errno = EINVAL;                                             \
	}                                                                   \
	call_made(&c);                                                      \
	if (c.look) {                                                       \
		after;                                                      \
	}                                                                   \
	if (c.trace)                                                        \
		call_line(&c, kind, (intptr_t)r, empty, __VA_ARGS__);       \
	call_end(&c)

#endif
