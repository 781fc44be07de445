/* SPDX-License-Identifier: MIT */
/*
 * sysfs.h - rdmad-run --sysfs: the devices as files, for the program and its children, in one of two ways.
 *
 *	/sys/class/infiniband  /sys/class/infiniband_verbs  /dev/infiniband	show the daemon's devices alone
 *	/sys/bus/pci								an empty one, if the machine has none
 *
 * In a mount namespace they are there, and ours are mounted over the system's libibverbs and librdmacm.  Where none can be
 * had, they are in a directory that a preloaded library (lib/treepreload) shows to programs that ask the C library.
 */
#ifndef RUN_SYSFS_H
#define RUN_SYSFS_H

#include "run.h"

#define SYSFS_HELPER "rdmad-files" /* the name of the process that writes them */

/*
 * Makes them be seen; addr: the daemon's.  A process of ours writes the files that change (state, GIDs, counters) once a
 * second, as long as anybody can see them.  The way that was taken, or SYSFS_NO: said why.
 */
enum sysfs sysfs_show(const struct install *, enum sysfs, const char *addr);

/* Has the machine no PCI bus?  Then an empty one is shown, too, which libpci (perftest) is content with. */
bool sysfs_no_pci(void);

/* ---- tree.c: the files ------------------------------------------------------ */

#define TREE_CLASS    "/sys/class/infiniband"
#define TREE_VERBS    "/sys/class/infiniband_verbs"
#define TREE_DEV      "/dev/infiniband"
#define TREE_BUS_NAME "pci7264:00" /* a domain that no machine has: "rd" */
#define TREE_BUS      "/sys/devices/" TREE_BUS_NAME
#define TREE_PCI      "/sys/bus/pci"
#define TREE_ROOT_LEN 128

struct tree {
	char root
		[TREE_ROOT_LEN]; /* the directory that is shown (rdmad/tree.h); empty: the files are where they are seen */
	int dir;                 /* that, or the root directory; its name can come to be another's */
};

/* Writes what has changed.  False: the daemon has gone, or said nothing that we understand. */
bool tree_write(const struct tree *, int daemon);
/* Is there all that it had to write?  False: said why not. */
bool tree_whole(void);
int tree_devices(int daemon);

/* ---- mounts.c: the namespace ------------------------------------------------- */

/* This process in a mount namespace with room for so many devices.  False: said why. */
bool mounts_make(const struct install *, int devices);
/* 0, or why that is not possible: an errno. */
int mounts_refused(const struct install *);

#endif
