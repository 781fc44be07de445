/* SPDX-License-Identifier: MIT */
/* file.c - calls that join sockets with files and pipes. */
#include "pre.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

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

/* ---- splice: by way of memory ------------------------------------------------------------------------------ */

enum { SPLICED = 16384 }; /* from a socket, in a call */

static bool is_pipe(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* How much there is in it; waits for some, if it may.  0: nobody writes any more. */
static int pipe_has(int fd, bool waits)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int n = 0, ready = 1;

	while (ready > 0 && !real()->ioctl(fd, FIONREAD, &n) && !n) {
		ready = real()->ppoll(&p, 1, waits ? NULL : &(struct timespec){ 0 }, NULL);
		if (ready > 0 && !(p.revents & POLLIN))
			return 0;
	}
	return n ? n : ready ? -1 : fail(EAGAIN);
}

static ssize_t splice_out(int in, int out, size_t len, unsigned flags)
{
	int has = pipe_has(in, !(flags & SPLICE_F_NONBLOCK) && !(real()->fcntl(in, F_GETFL) & O_NONBLOCK));
	ssize_t n;

	if (has <= 0)
		return has;
	if (!send_file(out, in, -1, len < (size_t)has ? len : (size_t)has, &n)) /* it is one of TCP by now */
		return real()->splice(in, NULL, out, NULL, len, flags);
	return n;
}

/* A pipe of our own has what may be more than there is room for. */
static ssize_t splice_in(int in, int out, size_t len, unsigned flags)
{
	char buf[SPLICED];
	ssize_t n = recv(in, buf, len < sizeof(buf) ? len : sizeof(buf), MSG_PEEK);
	int p[2];

	if (n <= 0)
		return n;
	if (pipe2(p, O_NONBLOCK | O_CLOEXEC))
		return -1;
	n = real()->write(p[1], buf, (size_t)n);
	if (n > 0)
		n = real()->splice(p[0], NULL, out, NULL, (size_t)n, flags);
	real()->close(p[0]);
	real()->close(p[1]);
	return n > 0 ? recv(in, buf, (size_t)n, MSG_DONTWAIT) : n;
}

EXPORT ssize_t splice(int in, off64_t *off_in, int out, off64_t *off_out, size_t len, unsigned flags)
{
	bool from = is_rdma(in);

	if (!from && !is_rdma(out))
		return real()->splice(in, off_in, out, off_out, len, flags);
	if (!is_pipe(from ? out : in))
		return fail(EINVAL);
	if (off_in || off_out)
		return fail(ESPIPE);
	if (!len)
		return 0;
	return from ? splice_in(in, out, len, flags) : splice_out(in, out, len, flags);
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
