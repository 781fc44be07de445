/* SPDX-License-Identifier: MIT */
/* why_text.h - causes and records of the flight recorder in words.  Any thread. */
#ifndef DAEMON_WHY_TEXT_H
#define DAEMON_WHY_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#include "../../proto/trace.h"
#include "../../proto/why.h"

#define WHY_TEXT 512u

/* A buffer that text is put behind; what does not fit is cut off. */
struct words {
	char *at, *end;
};
struct words words_begin(char *buf, size_t len);
void words_put(struct words *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A row of why.def; "" for what has none. */
const char *why_name(unsigned cause); /* lower case */
const char *why_what(unsigned cause);
const char *why_hint(unsigned cause);
enum why_grade why_grade(unsigned cause);

/* One sentence with the numbers; by_rule: what answers say of the peer is not so. */
void why_words(struct words *, const struct why *, bool by_rule);
/* wait_text.c: that of WAIT_... */
void wait_words(struct words *, const struct why *, bool by_rule);
/* The hint: the key's if a key was it. */
const char *why_advice(const struct why *);

const char *trace_word(unsigned event);
void trace_words(struct words *, const struct trace_rec *); /* what follows the word */

void gid_words(struct words *, const uint8_t *gid);
void time_words(struct words *, uint64_t ns);
const char *status_name(unsigned wc_status);
const char *wr_name(unsigned op);
const char *type_name(uint8_t qp_type);

#endif
