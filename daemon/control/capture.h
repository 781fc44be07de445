/* SPDX-License-Identifier: MIT */
/*
 * capture.h - MSG_CAPTURE: the packets of devices, with remarks, into a spool (lab/spool.h) that a client reads.  Control thread.
 */
#ifndef DAEMON_CAPTURE_H
#define DAEMON_CAPTURE_H

struct capture;

void capture_end(struct capture *); /* NULL: nothing to do */

#endif
