/* SPDX-License-Identifier: MIT */
/* file.c - calls that join sockets with files. */
#include "pre.h"

#include <fcntl.h>
#include <sys/sendfile.h>

/* Whether data go by an rsocket, or will. */
static bool is_rdma(int fd)
{
	struct conn *c = conn_get(fd);
	bool is = c && (conn_state(c) == CONN_RDMA || conn_state(c) == CONN_CONNECTING);

	if (c)
		conn_put(c);
	return is;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t len)
{
	off_t at;
	ssize_t n;

	if (!is_rdma(out))
		return real()->sendfile(out, in, offset, len);
	at = offset ? *offset : lseek(in, 0, SEEK_CUR);
	if (at < 0)
		return fail(offset || errno == ESPIPE ? EINVAL : errno);
	if (!send_file(out, in, at, len, &n)) /* it is one of TCP by now */
		return real()->sendfile(out, in, offset, len);
	if (n > 0 && offset)
		*offset += n;
	if (n > 0 && !offset)
		lseek(in, at + n, SEEK_SET);
	return n;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t len) { return sendfile(out, in, offset, len); }

/* Programs that splice fall back to reading and writing. */
EXPORT ssize_t splice(int in, off64_t *off_in, int out, off64_t *off_out, size_t len, unsigned flags)
{
	if (is_rdma(in) || is_rdma(out))
		return fail(EINVAL);
	return real()->splice(in, off_in, out, off_out, len, flags);
}

/* ---- stdio: the C library's does not call us -------------------------------------------------------------- */

static ssize_t file_read(void *at, char *buf, size_t len) { return read((int)(intptr_t)at, buf, len); }

static ssize_t file_write(void *at, const char *buf, size_t len)
{
	ssize_t n = write((int)(intptr_t)at, buf, len);

	return n < 0 ? 0 : n;
}

static int file_close(void *at) { return close((int)(intptr_t)at); }

static int print(int fd, const char *format, va_list ap)
{
	char *text;
	int n = vasprintf(&text, format, ap), done = 0;
	ssize_t part = 0;

	while (done < n && part >= 0) {
		part = write(fd, text + done, (size_t)(n - done));
		done += part > 0 ? (int)part : 0;
	}
	if (n >= 0)
		free(text);
	return part < 0 ? -1 : n;
}

EXPORT int vdprintf(int fd, const char *format, va_list ap)
{
	return is_rdma(fd) ? print(fd, format, ap) : real()->vdprintf(fd, format, ap);
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
int __dprintf_chk(int fd, int flag, const char *format, ...);

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	(void)flag;
	return vdprintf(fd, format, ap);
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	(void)flag;
	va_start(ap, format);
	n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

static bool streams; /* there are, or were; atomic */

/* The C library writes what is left in them when all is unloaded; the connections have ended by then. */
__attribute__((destructor)) static void streams_flush(void)
{
	if (__atomic_load_n(&streams, __ATOMIC_RELAXED))
		fflush(NULL);
}

/*
 * A stream of such calls has no number; this one's is for fileno().  The C library has no other use for it but in
 * freopen(), which no such stream survives in any case.
 */
EXPORT FILE *fdopen(int fd, const char *mode)
{
	FILE *f;

	if (!is_rdma(fd))
		return real()->fdopen(fd, mode);
	f = fopencookie((void *)(intptr_t)fd, mode,
			(cookie_io_functions_t){ .read = file_read, .write = file_write, .close = file_close });
	if (!f)
		return NULL;
	f->_fileno = fd;
	__atomic_store_n(&streams, true, __ATOMIC_RELAXED);
	return f;
}
