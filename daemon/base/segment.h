/* SPDX-License-Identifier: MIT */
/*
 * segment.h - whether a client may have a SysV segment that it names by its id.
 *
 * An id is a number that anybody can guess, and one that means something else in another IPC namespace.  So a client shows
 * that it has the segment mapped, the very one that the id names here, by what the kernel writes down at each change of a mapping of it:
 * whose process it was (shm_lpid).
 *
 *	program				daemon
 *	MSG_MR_REG, seg	----->		attaches and detaches it: it was the last
 *		<----- EINPROGRESS
 *	maps a page of it once more, and unmaps that: now it is the last
 *	MSG_MR_REG, seg	----->		is it?
 *
 * Nobody can do that who has no mapping of it and may not attach it, in whatever namespace.  The pid is no other process's: it is
 * watched since the context was opened, and the daemon has been the last one since then.  As he could have it mapped
 * for reading only, the permissions are looked at, too.
 *
 * Only of programs of the daemon's own user, in a daemon for that user: of others' segments the kernel lets nobody have one but those
 * that all the world may write to.  Control thread.
 */
#ifndef DAEMON_SEGMENT_H
#define DAEMON_SEGMENT_H

#include <stddef.h>

struct peer;

/*
 * May that client, by its user and its group, read and write the segment?  *size: its bytes, which never change.  0, EACCES, EPERM:
 * not in this daemon; EINVAL, EIDRM: there is none.
 */
int segment_look(const struct peer *, int id, size_t *size);
/* Has it the segment mapped?  0; EINPROGRESS: it has to show it, and is to be asked again; or another errno. */
int segment_prove(struct peer *, int id);

#endif
