/* SPDX-License-Identifier: MIT */
/*
 * reader.h - the process that reads the configuration for a daemon that cannot see files any more.
 *
 *	rdmad, any user, files hidden   --- a byte: read it again --->   reader, with the rights of the start
 *	                                <-- the outcome, checked -----   without capabilities, and deaf to signals
 *
 * A daemon for one user keeps its files in sight and needs none: without reader_begin(), reader_ask() reads in this process.
 * A reader that is gone, or could not be started, is not replaced.  It ends with the daemon.  Control thread.
 */
#ifndef DAEMON_READER_H
#define DAEMON_READER_H

#include <stdbool.h>

#include "../base/conf.h"

/* read: fills a configuration and stages its rules (impair.h), as at the start; false: conf_say() got the reasons. */
typedef bool conf_reader(struct conf *);

/* Before the daemon has descriptors or threads that others should not have.  0 or errno. */
int reader_begin(conf_reader *);
/* false: conf_say() got the reasons. */
bool reader_ask(conf_reader *, struct conf *);
void reader_end(void);

#endif
