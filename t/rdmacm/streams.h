/* SPDX-License-Identifier: MIT */
/* streams.h - a connection of two rsockets in one program. */
#ifndef T_RDMACM_STREAMS_H
#define T_RDMACM_STREAMS_H

#include "fixture.h"

#include <rdma/rsocket.h>

struct streams {
	int listen, client, server;
};

int rs_open(void);
uint16_t rs_port(int fd);
void rs_ready(int fd, short events); /* waits for them */

void streams_open(struct streams *, int iomaps);
/* The same with an option of both ends, in bytes or pieces. */
void streams_open_with(struct streams *, int level, int name, int value);
void streams_close(struct streams *); /* -1: it is closed */

#endif
