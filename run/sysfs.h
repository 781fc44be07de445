/* SPDX-License-Identifier: MIT */
/*
 * sysfs.h - rdmad-run --sysfs: a mount namespace in which the devices can be seen as files.
 *
 *	/sys/class/infiniband  /sys/class/infiniband_verbs  /dev/infiniband	these show the daemon's devices alone
 *	<system's directory>/libibverbs.so.1, librdmacm.so.1			ours, mounted over them
 */
#ifndef RUN_SYSFS_H
#define RUN_SYSFS_H

#include "run.h"

/*
 * Puts this process into such a namespace; addr: the daemon's.  A process of ours writes the files that change (state,
 * GIDs, counters) once a second, as long as anything runs in the namespace.  False: said why.
 */
bool sysfs_enter(const struct install *, const char *addr);

/* ---- tree.c: the files ------------------------------------------------------ */

#define TREE_CLASS "/sys/class/infiniband"
#define TREE_VERBS "/sys/class/infiniband_verbs"
#define TREE_DEV   "/dev/infiniband"

/* Writes what has changed.  False: the daemon has gone, or said nothing that we understand. */
bool tree_write(int daemon);
/* Of the device numbered i: "uverbs0". */
int tree_devices(int daemon);

#endif
