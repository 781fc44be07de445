/* SPDX-License-Identifier: MIT */
/*
 * foreign.h - descriptors that a client sent: questions about them that cannot block, and the end of them and of mappings.
 *
 * A file system whose server is the client itself, or a dead host, may be behind one.  Then read(), fstat() and even
 * close() of it may never return, and cannot be ended by a signal.  The functions here do not enter the file system.
 * Any thread.
 */
#ifndef DAEMON_FOREIGN_H
#define DAEMON_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bill;
struct held;

/* A memfd, of the kernel's own memory: any call on it returns.  *seals: F_GET_SEALS; may be NULL. */
bool foreign_is_memfd(int fd, int *seals);
/* The same of a dma-buf. */
bool foreign_is_dmabuf(int fd);
/* The file that it is; 0 or errno. */
int foreign_inode(int fd, dev_t *dev, ino_t *ino);

/* A memfd, with the last of which nothing ends but its own pages, unless its user may make us wait. */
bool foreign_ends_alone(int fd, uid_t);

/* Closes it, away from this thread unless it is sure to return at once.  uid: whose it was; one user's wait for each other only. */
void foreign_close(int fd, uid_t uid);
/* The same; the bill is taken over, and closed by foreign_settle() when the descriptor is. */
void foreign_close_billed(int fd, uid_t uid, struct bill *);
/*
 * Likewise a mapping of memory that ends with it, if the client has none of it any more, page by page; NULL: nothing.  Without a
 * bill (NULL) nobody is charged meanwhile; one that is not taken over, as it is unmapped already, is left to the caller.
 */
void foreign_unmap(struct held *, uid_t, struct bill *);
/*
 * The same of a connection: with it goes what was sent and not read, descriptors perhaps.  Its client sees the end at once.  While it
 * waits it is on its user's bill, one of its own if that which is given is empty or NULL.  Control thread.  false: there was no bill,
 * the user may have no more, and too many wait already (foreign_room()): it is still open, and to be hung up later.
 */
bool foreign_hang_up(int fd, uid_t uid, struct bill *);
/* false: too many descriptors of this user wait to be closed; nothing is read from him till foreign_settle() is due. */
bool foreign_room(uid_t);
bool foreign_stuck(uid_t); /* one of his takes long to be closed, half a second or more */

/* due: called by any thread when it is time for foreign_settle(); NULL: nobody is told. */
void foreign_begin(void (*due)(void));
/* Control thread: closes the bills of what is closed.  false: for want of threads something waits; it is to be tried again. */
bool foreign_settle(void);
/* Control thread: the same of all bills, though some descriptors still wait; nobody is told any more. */
void foreign_end(void);

#endif
