/* SPDX-License-Identifier: MIT */
/* show.h - a dump of the daemon, shown as a table or as it came. */
#ifndef CTL_SHOW_H
#define CTL_SHOW_H

#include <jansson.h>
#include <stdint.h>

#include <rdmad/msg.h>

#include "command.h"

/* All of a command that has no options of its own: what: enum msg_dump. */
int show_dump(int argc, char **argv, const struct ask *, uint32_t what, void (*show)(const json_t *));

/* A dump of the daemon that is asked for, of one queue pair or, with 0, of all; NULL: none, and that was said. */
json_t *show_ask(const struct ask *, uint32_t what, uint32_t qpn);

/* Prints j, takes it, and flushes stdout: the exit status. */
int show_json(json_t *j);
int show_end(void); /* flushes stdout */

/*
 * The name of a file to write: "-" if it is standard output, as /dev/stdout is.  A file that is opened twice overwrites itself; a
 * device does not, and keeps its name.
 */
const char *show_out(const char *name);

/* 17 or 0x11, all of the text; false: it is none. */
bool show_number(const char *text, uint32_t *n);
/* Numbers of queue pairs with commas between, behind the *n that are there, of which there may be most; false: something is wrong. */
bool show_qpns(const char *list, uint32_t *qpn, unsigned *n, unsigned most);
/* The rest of a command line behind its options: the number of a queue pair, or nothing.  false: said what is wrong with it. */
bool show_qpn(int argc, char **argv, uint32_t *qpn);

/* Bytes that may be anything, as text of JSON. */
json_t *show_text(const char *);

/* Of an object; "" and 0 if there is no such key. */
const char *show_str(const json_t *, const char *key);
long long show_num(const json_t *, const char *key);

#endif
