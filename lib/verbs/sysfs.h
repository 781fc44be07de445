/* SPDX-License-Identifier: MIT */
/* sysfs.h - public functions that no public header declares. */
#ifndef VERBS_SYSFS_H
#define VERBS_SYSFS_H

#include <stddef.h>

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#endif
