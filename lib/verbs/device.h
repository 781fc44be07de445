/* SPDX-License-Identifier: MIT */
/* device.h - devices: an entry of the list that ibv_get_device_list() gives. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include <rdmad/msg.h>

#include "base.h"

struct rd_device {
	struct ibv_device dev;
	/*
	 * Vendor libraries read the word behind struct ibv_device (their ops pointer) to tell whether a
	 * device is one of theirs: it must be there, and NULL.
	 */
	void *vendor[8];
	uint64_t guid;
	char board[32], hca_type[32];
	struct rd_device *next;
};

/* The device of that name, made or brought up to date.  Devices live as long as the process: programs keep
 * pointers. */
struct rd_device *device_intern(const struct msg_device *);

/* A text that sysfs has in a file of that name; NULL: of this device it has none, or is not known. */
const char *device_text(const char *device, const char *file);

#endif
