/* SPDX-License-Identifier: MIT */
/* rs_epoll.h - sets of descriptors that repoll_wait() looks at. */
#ifndef RDMACM_RS_EPOLL_H
#define RDMACM_RS_EPOLL_H

#include <stdbool.h>

/* For rclose(): false if fd is no set.  Threads of this process that wait for it get EBADF. */
bool rs_epoll_close(int fd);

/* For rclose(), while fd is still an rsocket's: no set has it any more.  The next one that has the number is another. */
void rs_epoll_forget(int fd);

#endif
