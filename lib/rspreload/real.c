/* SPDX-License-Identifier: MIT */
/* real.c - the C library's own calls, behind ours. */
#include "pre.h"

#include <dlfcn.h>

struct real real_calls;

#define FIND(name)                                 \
	{                                          \
#name, offsetof(struct real, name) \
	}

/* The last one says that all are there. */
static const struct {
	const char *name;
	size_t at;
} calls[] = {
	FIND(socket),      FIND(bind),        FIND(listen),
	FIND(accept4),     FIND(connect),     FIND(shutdown),
	FIND(getsockname), FIND(getpeername), FIND(setsockopt),
	FIND(getsockopt),  FIND(sigaction),   FIND(fcntl),
	FIND(ioctl),       FIND(syscall),     FIND(fork),
	FIND(close),       FIND(dup),         FIND(dup2),
	FIND(dup3),        FIND(read),        FIND(write),
	FIND(readv),       FIND(writev),      FIND(recv),
	FIND(send),        FIND(recvfrom),    FIND(sendto),
	FIND(recvmsg),     FIND(sendmsg),     FIND(recvmmsg),
	FIND(sendmmsg),    FIND(preadv2),     FIND(pwritev2),
	FIND(sendfile),    FIND(splice),      FIND(fdopen),
	FIND(vdprintf),    FIND(ppoll),       FIND(pselect),
	FIND(epoll_ctl),   FIND(vfork),       FIND(posix_spawn_file_actions_adddup2),
	FIND(epoll_pwait),
};

__attribute__((constructor)) void real_find(void)
{
	for (size_t i = 0; i < ARRAY_N(calls); i++) {
		void **at = (void **)(void *)((char *)&real_calls + calls[i].at);
		void *call = dlsym(RTLD_NEXT, calls[i].name);

		if (!call) {
			fprintf(stderr, "librspreload: the C library has no %s\n", calls[i].name);
			abort();
		}
		__atomic_store_n(at, call, __ATOMIC_RELEASE);
	}
}
