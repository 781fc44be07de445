/* SPDX-License-Identifier: MIT */
/* source.c - bytes of a capture, as they come, to the reader of lab/. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM (256u << 10)

bool source_open(struct source *s, const char *name)
{
	int fd = strcmp(name, "-") ? open(name, O_RDONLY | O_CLOEXEC) : dup(0);

	source_use(s, name, fd);
	if (fd < 0)
		snprintf(s->error, sizeof(s->error), "%s", strerror(errno));
	return fd >= 0;
}

void source_use(struct source *s, const char *name, int fd) { *s = (struct source){ .name = name, .fd = fd }; }

void source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->buf);
	s->buf = NULL;
	s->fd = -1;
}

static enum source_what failed(struct source *s, const char *why)
{
	snprintf(s->error, sizeof(s->error), "%s", why);
	return SOURCE_ERROR;
}

/* More bytes behind end, want of them from at on; SOURCE_PACKET: go on. */
static enum source_what more(struct source *s, size_t want)
{
	size_t room = want + ROOM;
	ssize_t n;
	uint8_t *p;

	if (s->at) {
		memmove(s->buf, s->buf + s->at, s->end - s->at);
		s->end -= s->at;
		s->at = 0;
	}
	if (s->room < room) {
		p = realloc(s->buf, room);
		if (!p)
			return failed(s, "no memory");
		s->buf = p;
		s->room = room;
	}
	n = read(s->fd, s->buf + s->end, s->room - s->end);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? SOURCE_WAIT : failed(s, strerror(errno));
	s->ended = !n;
	s->end += (size_t)n;
	return SOURCE_PACKET;
}

enum source_what source_next(struct source *s, struct pcapng_item *item)
{
	enum source_what w;

	for (;;) {
		const uint8_t *p = s->buf ? s->buf + s->at : NULL;

		switch (pcapng_next(&s->reader, p, s->end - s->at, item)) {
		case PCAPNG_MORE:
			if (s->ended && s->at == s->end)
				return s->reader.begun ? SOURCE_END : failed(s, "empty, no capture");
			if (s->ended)
				return failed(s, "it ends in the middle of a block; what is before that was read");
			w = more(s, item->want);
			if (w != SOURCE_PACKET)
				return w;
			continue;
		case PCAPNG_BAD: return failed(s, item->why ? item->why : "no capture");
		case PCAPNG_PACKET:
			s->at += item->used;
			s->drops += item->drops;
			return SOURCE_PACKET;
		default: s->at += item->used;
		}
	}
}
