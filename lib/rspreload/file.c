/* SPDX-License-Identifier: MIT */
/* file.c - calls that join sockets with files. */
#include "pre.h"

#include <fcntl.h>
#include <sys/sendfile.h>

/* Whether data go by an rsocket. */
static bool is_rdma(int fd)
{
	struct conn *c = conn_get(fd);
	bool is = c && conn_state(c) == CONN_RDMA;

	if (c)
		conn_put(c);
	return is;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t len)
{
	char buf[65536];
	ssize_t n, sent;

	if (!is_rdma(out))
		return real()->sendfile(out, in, offset, len);
	n = len < sizeof(buf) ? (ssize_t)len : (ssize_t)sizeof(buf);
	n = offset ? pread(in, buf, (size_t)n, *offset) : read(in, buf, (size_t)n);
	if (n <= 0)
		return n;
	sent = write(out, buf, (size_t)n);
	if (offset && sent > 0)
		*offset += sent;
	if (!offset && sent < n) /* what was not sent is read again */
		lseek(in, (sent < 0 ? 0 : sent) - n, SEEK_CUR);
	return sent;
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

EXPORT FILE *fdopen(int fd, const char *mode)
{
	if (!is_rdma(fd))
		return real()->fdopen(fd, mode);
	return fopencookie((void *)(intptr_t)fd, mode,
			   (cookie_io_functions_t){ .read = file_read, .write = file_write, .close = file_close });
}
