/* SPDX-License-Identifier: MIT */
/* source.h - a capture that is read frame by frame: a file, a pipe, a daemon; pcapng with its comments, and pcap. */
#ifndef CTL_SOURCE_H
#define CTL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../lab/pcapng.h"

struct source {
	const char *name; /* for messages */
	int fd;
	uint8_t *buf;
	size_t at, end, room;
	bool ended;
	struct pcapng_reader reader;
	char error[160]; /* why source_next() has said SOURCE_ERROR */
	uint64_t drops;  /* packets that the capture knows to have lost */
};

enum source_what { SOURCE_END, SOURCE_PACKET, SOURCE_WAIT, SOURCE_ERROR };

/* A file's name, - is standard input.  false: it cannot be opened; source.error. */
bool source_open(struct source *, const char *name);
void source_use(struct source *, const char *name, int fd); /* takes fd */
void source_close(struct source *);

/*
 * The next packet; item.iface indexes source.reader.iface.  Its pointers are good until the next call.  SOURCE_WAIT: a
 * signal came, or fd does not block and has nothing.
 */
enum source_what source_next(struct source *, struct pcapng_item *);

#endif
