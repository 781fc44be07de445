/* SPDX-License-Identifier: MIT */
/* mail.c - see mail.h. */
#include "mail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/cmmsg.h>
#include <rdmad/mail.h>

#include "../base/shmem.h"
#include "call.h"

#define WATCHED 8u /* at most */

_Static_assert(sizeof(union request) <= MAIL_ROOM && sizeof(struct msg_rep) <= MAIL_ROOM &&
		       sizeof(struct cmm_rep) <= MAIL_ROOM,
	       "all fit");

struct mailbox {
	struct bill bill;
	struct shmem shm;
};

static struct session *watched[WATCHED]; /* who asked last is the last */
static unsigned watched_n;

static struct mail *mail_of(const struct session *s) { return (struct mail *)s->mailbox->shm.mem; }

/* ---- made and ended -------------------------------------------------------------- */

int verb_mail(struct call *call)
{
	struct cost cost = { { [QUOTA_MAPS] = 1, [QUOTA_HEAP] = sizeof(struct mailbox) + sizeof(struct mail) } };
	struct session *s = call->s;
	struct mailbox *box;
	int err;

	if (s->mailbox)
		return EBUSY;
	box = calloc(1, sizeof(*box));
	err = box ? bill_open(&box->bill, s->uid, &cost) : ENOMEM;
	if (!err)
		err = shmem_make(&box->shm, "rdmad-mail", sizeof(struct mail));
	if (err) {
		if (box)
			bill_close(&box->bill);
		free(box);
		return err;
	}
	call->fds[call->fd_n++] = box->shm.fd;
	box->shm.fd = -1;
	s->mailbox = box;
	return 0;
}

static void forget(unsigned i) { memmove(&watched[i], &watched[i + 1], (--watched_n - i) * sizeof(watched[0])); }

static unsigned place(const struct session *s)
{
	unsigned i = 0;

	while (i < watched_n && watched[i] != s)
		i++;
	return i;
}

void mail_end(struct session *s)
{
	unsigned i = place(s);

	if (i < watched_n)
		forget(i);
	if (!s->mailbox)
		return;
	shmem_free(&s->mailbox->shm);
	bill_close(&s->mailbox->bill);
	free(s->mailbox);
	s->mailbox = NULL;
}

/* ---- looked at --------------------------------------------------------------------- */

/* false: it has asked just now, and is looked at as before. */
static bool look_away(struct mail *m)
{
	mail_look(m, false);
	if (!mail_asked(m))
		return true;
	mail_look(m, true);
	return false;
}

/* If there is no place, the oldest gives its own up. */
void mail_watch(struct session *s)
{
	unsigned i = place(s);

	if (!s->mailbox)
		return;
	if (i == WATCHED) {
		i = 0;
		if (!look_away(mail_of(watched[i])))
			return;
	}
	if (i < watched_n)
		forget(i);
	mail_look(mail_of(s), true);
	watched[watched_n++] = s;
}

unsigned mail_turn(struct ev_loop *loop)
{
	unsigned served = 0;

	for (unsigned i = watched_n; i-- > 0;)
		if (i < watched_n && mail_asked(mail_of(watched[i])))
			served += session_mail(loop, watched[i], mail_of(watched[i]));
	return served;
}

bool mail_rest(void)
{
	bool asked = false;

	for (unsigned i = 0; i < watched_n; i++)
		mail_look(mail_of(watched[i]), false);
	for (unsigned i = 0; i < watched_n; i++)
		asked |= mail_asked(mail_of(watched[i]));
	if (!asked) {
		watched_n = 0;
		return true;
	}
	for (unsigned i = 0; i < watched_n; i++)
		mail_look(mail_of(watched[i]), true);
	return false;
}

bool mail_reply(struct session *s, const void *rep, size_t len)
{
	struct mail *m = mail_of(s);

	memcpy(m->rep, rep, len);
	return mail_answer(m);
}
