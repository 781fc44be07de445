/* SPDX-License-Identifier: MIT */
/* segment.c - shmctl(2), IPC_STAT: the permissions, and who was the last to attach or detach. */
#include "segment.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/shm.h>

#include "peer.h"

#define READ_WRITE 6u /* of three bits of a mode */

/* It is not known here which other groups he may be in: he may no more than with them and without them. */
static bool may(const struct ipc_perm *p, uid_t uid, gid_t gid)
{
	unsigned mode = p->mode;

	if (uid == p->cuid || uid == p->uid)
		mode >>= 6;
	else if (gid == p->cgid || gid == p->gid)
		mode >>= 3;
	else
		mode &= mode >> 3;
	return (mode & READ_WRITE) == READ_WRITE;
}

int segment_look(const struct peer *client, int id, size_t *size)
{
	struct shmid_ds ds;

	if (client->own <= 0)
		return EPERM;
	if (id < 0)
		return EINVAL;
	if (shmctl(id, IPC_STAT, &ds))
		return errno;
	*size = ds.shm_segsz;
	return may(&ds.shm_perm, client->uid, client->gid) ? 0 : EACCES;
}

static int become_last(int id)
{
	void *at = shmat(id, NULL, 0);

	return at == (void *)-1 || shmdt(at) ? errno : EINPROGRESS;
}

int segment_prove(struct peer *client, int id)
{
	unsigned seg = (unsigned)id + 1;
	struct shmid_ds ds;

	if (shmctl(id, IPC_STAT, &ds))
		return errno;
	if (client->seg == seg && ds.shm_lpid == client->own) {
		client->seg = 0;
		return 0;
	}
	client->seg = seg;
	return become_last(id);
}
