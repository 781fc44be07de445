/* SPDX-License-Identifier: MIT */
/*
 * conf_in.h - the parts of the parser of rdmad.conf: each section that is a noun of its own is a file.
 *
 * A check looks at a value where it stands; it returns conf_wrong(), which says file, line and what to do, or 0.
 */
#ifndef DAEMON_CONF_IN_H
#define DAEMON_CONF_IN_H

#include <confuse.h>

#include "conf.h"

/* -1.  conf_say() gets the line. */
int conf_wrong(cfg_t *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* conf_device.c */
extern cfg_opt_t conf_device_opts[];
void conf_device_checks(cfg_t *);            /* of its keys */
int conf_device_check(cfg_t *, cfg_opt_t *); /* of a section that is complete */
void conf_device_take(struct conf_device *, cfg_t *sec);

#endif
