/* SPDX-License-Identifier: MIT */
/* shmem.c - memfd_create(2), its seals, and a mapping. */
#include "shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foreign.h"

int shmem_make(struct shmem *m, const char *name, size_t len)
{
	int err;

	*m = (struct shmem){ .len = len };
	m->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0)
		return errno;
	/* The seals: no client can take pages away under the daemon's mapping (SIGBUS), or add any. */
	if (ftruncate(m->fd, (off_t)len) || fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail;
	err = held_map(&m->held, m->fd, 0, len, 0);
	if (!err) {
		m->mem = m->held->base;
		return 0;
	}
	shmem_free(m);
	return err;
fail:
	err = errno;
	shmem_free(m);
	return err;
}

void shmem_free(struct shmem *m)
{
	held_unmap(m->held);
	m->held = NULL;
	if (m->fd >= 0)
		close(m->fd);
	m->mem = NULL;
	m->fd = -1;
}

void shmem_give(struct shmem *m, uid_t uid, struct bill *bill)
{
	if (m->fd >= 0)
		close(m->fd); /* of what is mapped */
	m->fd = -1;
	foreign_unmap(m->held, uid, bill);
	m->held = NULL;
	m->mem = NULL;
}
