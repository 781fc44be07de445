/* SPDX-License-Identifier: MIT */
/*
 * inject.c - a shared object that is loaded before all others (LD_PRELOAD): one call that takes memory, a descriptor or a thread
 * fails, if our code makes it: that of libibverbs.so.1 and librdmacm.so.1, or of the daemon or rdmad-run.
 */
#include "inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PARTS  8u
#define FDS    16u

/* glibc's own, which need no dlsym(): that allocates. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static struct inject own, *page = &own;
static bool of_main;
static struct {
	uintptr_t begin, end;
} part[PARTS];
static unsigned part_n;

EXPORT struct inject *inject_page(void) { return page; }

/* ---- whose call it is ---------------------------------------------------------------------- */

static int object_look(struct dl_phdr_info *o, size_t, void *)
{
	bool ours = of_main ? !*o->dlpi_name
			    : strstr(o->dlpi_name, "/libibverbs.so") || strstr(o->dlpi_name, "/librdmacm.so");

	for (unsigned i = 0; ours && i < o->dlpi_phnum && part_n < PARTS; i++) {
		const ElfW(Phdr) *h = &o->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && h->p_flags & PF_X) {
			part[part_n].begin = o->dlpi_addr + h->p_vaddr;
			part[part_n].end = part[part_n].begin + h->p_memsz;
			part_n++;
		}
	}
	return 0;
}

__attribute__((constructor)) static void inject_begin(void)
{
	const char *path = getenv(INJECT_PAGE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	of_main = path;
	if (fd >= 0) {
		void *p = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		close(fd);
		page = p == MAP_FAILED ? page : p;
	}
	dl_iterate_phdr(object_look, NULL);
}

static bool failing(const char *what, const void *caller, int err)
{
	uint32_t n = __atomic_load_n(&page->n, __ATOMIC_RELAXED);
	unsigned i = 0;

	while (n && i < part_n && ((uintptr_t)caller < part[i].begin || (uintptr_t)caller >= part[i].end))
		i++;
	if (!n || i == part_n || __atomic_add_fetch(&page->count, 1, __ATOMIC_RELAXED) != n)
		return false;
	snprintf(page->what, sizeof(page->what), "%s", what);
	errno = err;
	return true;
}

#define FAILING(what, err) failing(what, __builtin_return_address(0), err)

/* ---- memory -------------------------------------------------------------------------------- */

static void *counted(void *p, bool fresh)
{
	if (p && fresh)
		__atomic_add_fetch(&page->live, 1, __ATOMIC_RELAXED);
	return p;
}

EXPORT void *malloc(size_t len) { return FAILING("malloc", ENOMEM) ? NULL : counted(__libc_malloc(len), true); }
EXPORT void *calloc(size_t n, size_t len)
{
	return FAILING("calloc", ENOMEM) ? NULL : counted(__libc_calloc(n, len), true);
}
EXPORT void *realloc(void *p, size_t len)
{
	return FAILING("realloc", ENOMEM) ? NULL : counted(__libc_realloc(p, len), !p);
}
EXPORT void *aligned_alloc(size_t align, size_t len)
{
	return FAILING("aligned_alloc", ENOMEM) ? NULL : counted(__libc_memalign(align, len), true);
}
EXPORT void *memalign(size_t align, size_t len)
{
	return FAILING("memalign", ENOMEM) ? NULL : counted(__libc_memalign(align, len), true);
}
EXPORT int posix_memalign(void **p, size_t align, size_t len)
{
	if (FAILING("posix_memalign", ENOMEM))
		return ENOMEM;
	*p = counted(__libc_memalign(align, len), true);
	return *p ? 0 : ENOMEM;
}
EXPORT void free(void *p)
{
	int err = errno;

	if (p)
		__atomic_sub_fetch(&page->live, 1, __ATOMIC_RELAXED);
	__libc_free(p);
	errno = err;
}
EXPORT char *strdup(const char *s)
{
	size_t len = strlen(s) + 1;
	char *p = FAILING("strdup", ENOMEM) ? NULL : counted(__libc_malloc(len), true);

	return p ? memcpy(p, s, len) : NULL;
}

/* ---- descriptors, mappings, threads -------------------------------------------------------- */

/* The one that it stands in front of. */
#define NEXT(name)                                                  \
	({                                                          \
		static __typeof__(name) *next_;                     \
                                                                    \
		if (!next_)                                         \
			*(void **)&next_ = dlsym(RTLD_NEXT, #name); \
		next_;                                              \
	})

EXPORT void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return FAILING("mmap", ENOMEM) ? MAP_FAILED : NEXT(mmap)(at, len, prot, flags, fd, off);
}
EXPORT int memfd_create(const char *name, unsigned flags)
{
	return FAILING("memfd_create", EMFILE) ? -1 : NEXT(memfd_create)(name, flags);
}
EXPORT int socket(int domain, int type, int proto)
{
	return FAILING("socket", EMFILE) ? -1 : NEXT(socket)(domain, type, proto);
}
EXPORT int socketpair(int domain, int type, int proto, int fd[2])
{
	return FAILING("socketpair", EMFILE) ? -1 : NEXT(socketpair)(domain, type, proto, fd);
}
EXPORT int accept4(int fd, struct sockaddr *restrict sa, socklen_t *restrict len, int flags)
{
	return FAILING("accept4", EMFILE) ? -1 : NEXT(accept4)(fd, sa, len, flags);
}
EXPORT int eventfd(unsigned n, int flags) { return FAILING("eventfd", EMFILE) ? -1 : NEXT(eventfd)(n, flags); }
EXPORT int epoll_create1(int flags) { return FAILING("epoll_create1", EMFILE) ? -1 : NEXT(epoll_create1)(flags); }
EXPORT int pipe2(int fd[2], int flags) { return FAILING("pipe2", EMFILE) ? -1 : NEXT(pipe2)(fd, flags); }
EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return FAILING("fopen", EMFILE) ? NULL : NEXT(fopen)(path, mode);
}
EXPORT int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
	va_end(ap);
	return FAILING("open", EMFILE) ? -1 : NEXT(open)(path, flags, mode);
}
EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return cmd == F_DUPFD_CLOEXEC && FAILING("dup", EMFILE) ? -1 : NEXT(fcntl)(fd, cmd, arg);
}
EXPORT int pthread_create(pthread_t *restrict id, const pthread_attr_t *restrict attr, void *(*fn)(void *),
			  void *restrict arg)
{
	return FAILING("pthread_create", EAGAIN) ? EAGAIN : NEXT(pthread_create)(id, attr, fn, arg);
}

EXPORT pid_t fork(void) { return FAILING("fork", EAGAIN) ? -1 : NEXT(fork)(); }

/* As the kernel does where there is no room for the descriptors that come with a message: it closes them. */
EXPORT ssize_t recvmsg(int fd, struct msghdr *mh, int flags)
{
	ssize_t n = NEXT(recvmsg)(fd, mh, flags);
	struct cmsghdr *cm = n > 0 && mh->msg_control ? CMSG_FIRSTHDR(mh) : NULL;
	int fds[FDS];
	size_t len;

	if (!cm || cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS || !FAILING("recvmsg", EMFILE))
		return n;
	len = cm->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(cm), len < sizeof(fds) ? len : sizeof(fds));
	for (size_t i = 0; i < FDS && i < len / sizeof(int); i++)
		close(fds[i]);
	mh->msg_controllen = 0;
	mh->msg_flags |= MSG_CTRUNC;
	return n;
}
