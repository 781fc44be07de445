/* SPDX-License-Identifier: MIT */
/*
 * foreign.c - a thread for each user who has something to be closed; it ends when nothing is left.
 *
 *	control thread --- foreign_close() ---> user 1001: fd fd fd --- close() ...
 *	                                        user 1002: fd --------- close(), and its FUSE server does not answer
 */
#include "foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "apart.h"
#include "log.h"

#define WAITING_MAX 64u

struct user {
	struct user *next;
	uid_t uid;
	unsigned n; /* fd[0] is being closed */
	int fd[WAITING_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the users */
static struct user *users;

/* ---- questions ------------------------------------------------------------------- */

bool foreign_is_memfd(int fd, int *seals)
{
	int got = fcntl(fd, F_GET_SEALS);

	if (seals)
		*seals = got;
	return got >= 0;
}

/* Only a dma-buf says of itself who exported it. */
bool foreign_is_dmabuf(int fd)
{
	char path[64], line[256];
	bool is = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fd < 0 ? NULL : fopen(path, "re");
	if (!f)
		return false;
	while (!is && fgets(line, sizeof(line), f))
		is = !strncmp(line, "exp_name:", 9);
	fclose(f);
	return is;
}

/* From the kernel's cache: the numbers of an open file do not change. */
int foreign_inode(int fd, dev_t *dev, ino_t *ino)
{
	struct statx st;

	if (fd < 0)
		return EBADF;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st))
		return errno;
	*dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	*ino = st.stx_ino;
	return 0;
}

/* ---- the end of one ------------------------------------------------------------------ */

static struct user **user_find(uid_t uid)
{
	struct user **p = &users;

	while (*p && (*p)->uid != uid)
		p = &(*p)->next;
	return p;
}

static void *close_all(void *arg)
{
	struct user *u = arg;
	bool more = true;

	while (more) {
		close(u->fd[0]);
		pthread_mutex_lock(&lock);
		more = --u->n > 0;
		memmove(u->fd, u->fd + 1, u->n * sizeof(u->fd[0]));
		if (!more)
			*user_find(u->uid) = u->next;
		pthread_mutex_unlock(&lock);
	}
	free(u);
	return NULL;
}

/* The user's first: with a thread.  NULL: cannot. */
static struct user *user_new(uid_t uid, int fd)
{
	struct user *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->uid = uid;
	u->fd[u->n++] = fd;
	u->next = users;
	users = u; /* the thread waits for the lock before it looks */
	if (apart_run(close_all, u)) {
		users = u->next;
		free(u);
		return NULL;
	}
	return u;
}

void foreign_close(int fd, uid_t uid)
{
	struct user *u;
	bool taken;

	if (foreign_is_memfd(fd, NULL)) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&lock);
	u = *user_find(uid);
	taken = u ? u->n < WAITING_MAX : user_new(uid, fd) != NULL;
	if (u && taken)
		u->fd[u->n++] = fd;
	pthread_mutex_unlock(&lock);
	if (!taken) /* better one descriptor less than a daemon that stands still */
		log_warn("a descriptor of user %u stays open: it cannot be closed in a thread of its own",
			 (unsigned)uid);
}

bool foreign_room(uid_t uid)
{
	const struct user *u;
	bool room;

	pthread_mutex_lock(&lock);
	u = *user_find(uid);
	room = !u || u->n < WAITING_MAX / 2;
	pthread_mutex_unlock(&lock);
	return room;
}
