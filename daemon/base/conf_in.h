/* SPDX-License-Identifier: MIT */
/*
 * conf_in.h - the parts of the parser of rdmad.conf: each section that is a noun of its own is a file.
 *
 * A check looks at a value where it stands.  It returns 0, also of conf_wrong(), which says file, line and what to do: so the
 * parser goes on, and all errors of a file are said.  conf_read() takes nothing then.
 * A list is checked behind each of its values: a check looks at the newest.
 */
#ifndef DAEMON_CONF_IN_H
#define DAEMON_CONF_IN_H

#include <confuse.h>

#include "conf.h"

/* 0.  conf_say() gets the line. */
int conf_wrong(cfg_t *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An option that is a number, or a list of them: libconfuse itself takes "" for 0. */
#define CONF_INT(key)  CFG_INT_CB(key, 0, CFGF_NODEFAULT, conf_number)
#define CONF_INTS(key) CFG_INT_LIST_CB(key, NULL, CFGF_NODEFAULT, conf_number)
int conf_number(cfg_t *, cfg_opt_t *, const char *text, void *number);

/* conf_device.c */
extern cfg_opt_t conf_device_opts[];
void conf_device_checks(cfg_t *);            /* of its keys */
int conf_device_check(cfg_t *, cfg_opt_t *); /* of a section that is complete */
void conf_device_take(struct conf_device *, cfg_t *sec);
/* All of them have been taken: which ones there are, and the numbers of those that have names. */
void conf_devices_settle(struct conf *);

/*
 * conf_profile.c.  begin: before a file is read.  known: of the table, or of a section that was complete already; of: the same
 * of a configuration.  NULL: there is none.
 */
extern cfg_opt_t conf_profile_opts[];
void conf_profiles_begin(void);
void conf_profile_checks(cfg_t *);
int conf_profile_check(cfg_t *, cfg_opt_t *);
void conf_profiles_take(struct conf *);
const struct profile *conf_profile_known(const char *name);
const struct profile *conf_profile_of(const struct conf *, const char *name);

#endif
