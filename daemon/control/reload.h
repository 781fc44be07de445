/* SPDX-License-Identifier: MIT */
/*
 * reload.h - SIGHUP: the configuration is read again.  What is wrong changes nothing; keys that need a new start are told
 * by name, and keep their values.  The service manager is told (notify.h): the daemon serves from reload_start() on, until
 * reload_stop().  Control thread.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "reader.h"

struct ev_loop;

/* now: the configuration in force, which is changed; others may look at it between two events. */
void reload_start(struct ev_loop *, struct conf *now, conf_reader *, unsigned hcas);
void reload_stop(struct ev_loop *);

#endif
