/* SPDX-License-Identifier: MIT */
/* vma.c - /proc/self/maps: "start-end perm offset major:minor inode      name". */
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool vma_open(struct vma_reader *r)
{
	r->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	r->pos = r->len = 0;
	r->eof = false;
	return r->fd >= 0;
}

void vma_close(struct vma_reader *r) { close(r->fd); }

/* The next line without its newline, or NULL. */
static char *line_next(struct vma_reader *r)
{
	for (;;) {
		char *line = r->buf + r->pos, *nl = memchr(line, '\n', r->len - r->pos);
		ssize_t n;

		if (nl) {
			*nl = 0;
			r->pos = (size_t)(nl - r->buf) + 1;
			return line;
		}
		if (r->eof)
			return NULL;
		memmove(r->buf, line, r->len - r->pos);
		r->len -= r->pos;
		r->pos = 0;
		if (r->len == sizeof(r->buf))
			return NULL;
		n = read(r->fd, r->buf + r->len, sizeof(r->buf) - r->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			r->eof = true;
		else
			r->len += (size_t)n;
	}
}

bool vma_next(struct vma_reader *r, struct vma *v)
{
	char *p = line_next(r), *end;

	if (!p)
		return false;
	v->start = strtoul(p, &end, 16);
	if (*end != '-')
		return false;
	v->end = strtoul(end + 1, &end, 16);
	if (*end != ' ' || strlen(end) < 6)
		return false;
	memcpy(v->perm, end + 1, 4);
	v->perm[4] = 0;
	v->off = strtoull(end + 6, &end, 16);
	strtoul(end, &end, 16); /* major */
	if (*end != ':')
		return false;
	strtoul(end + 1, &end, 16); /* minor */
	v->ino = strtoull(end, &end, 10);
	while (*end == ' ')
		end++;
	v->name = end;
	return true;
}
