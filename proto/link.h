/* SPDX-License-Identifier: MIT */
/* link.h - a doubly linked list whose links live in its members; a link that is in no list points to itself. */
#ifndef PROTO_LINK_H
#define PROTO_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct link {
	struct link *prev, *next;
};

#define LINK_OF(l, type, member) ((type *)(void *)((char *)(l)-offsetof(type, member)))

static inline void link_init(struct link *l) { l->prev = l->next = l; }
static inline bool link_empty(const struct link *l) { return l->next == l; }

static inline void link_del(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

/* l is in no list. */
static inline void link_add_tail(struct link *list, struct link *l)
{
	l->prev = list->prev;
	l->next = list;
	list->prev->next = l;
	list->prev = l;
}

#endif
