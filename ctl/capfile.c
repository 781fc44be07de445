/* SPDX-License-Identifier: MIT */
/* capfile.c - blocks into files. */
#include "capfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#define BUF_LEN (1u << 20)

static bool is_stdout(const struct capfile *f) { return !strcmp(f->path, "-"); }

/* Of file i, from 1 on: a/b.pcapng becomes a/b-00001.pcapng, if there are several. */
static void file_name(const struct capfile *f, unsigned i, char *out, size_t room)
{
	const char *slash = strrchr(f->path, '/'), *dot = strrchr(f->path, '.');
	int stem = dot && (!slash || dot > slash + 1) && dot != f->path ? (int)(dot - f->path) : (int)strlen(f->path);

	if (f->size)
		snprintf(out, room, "%.*s-%05u%s", stem, f->path, i, f->path + stem);
	else
		snprintf(out, room, "%s", f->path);
}

static bool complain(const struct capfile *f)
{
	char name[PATH_MAX];

	file_name(f, f->file_n, name, sizeof(name));
	fprintf(stderr, "rdmactl: %s: %s\n", is_stdout(f) ? "standard output" : name, strerror(errno));
	return false;
}

bool capfile_flush(struct capfile *f)
{
	size_t off = 0;
	ssize_t n;

	while (off < f->buf_n) {
		n = write(f->fd, f->buf + off, f->buf_n - off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			f->pipe_closed = errno == EPIPE;
			f->cut = true;
			f->buf_n = 0;
			return f->pipe_closed ? false : complain(f);
		}
		off += (size_t)n;
	}
	f->written += off;
	f->buf_n = 0;
	return true;
}

/* Room for one more block, of any kind. */
static bool room(struct capfile *f, size_t len) { return BUF_LEN - f->buf_n >= len || capfile_flush(f); }

static bool begin(struct capfile *f)
{
	char name[PATH_MAX];

	f->file_n++;
	f->written = 0;
	file_name(f, f->file_n, name, sizeof(name));
	f->fd = is_stdout(f) ? STDOUT_FILENO : open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (f->fd < 0)
		return complain(f);
	f->buf_n += pcapng_put_section(f->buf + f->buf_n, BUF_LEN - f->buf_n, "rdmactl " PACKAGE_VERSION, NULL);
	for (unsigned i = 0; i < f->ifaces; i++)
		f->buf_n += pcapng_put_iface(f->buf + f->buf_n, BUF_LEN - f->buf_n, f->iface[i], "a device of rdmad");
	return capfile_flush(f);
}

static bool finish(struct capfile *f)
{
	bool good = true;

	for (unsigned i = 0; good && i < f->ifaces; i++) {
		struct pcapng_item it = { .iface = i };

		f->stats(f->arg, i, &it);
		good = room(f, 256);
		f->buf_n += pcapng_put_stats(f->buf + f->buf_n, BUF_LEN - f->buf_n, &it);
	}
	good = good && capfile_flush(f);
	if (!is_stdout(f) && close(f->fd))
		good = complain(f);
	f->fd = -1;
	return good;
}

static bool next_file(struct capfile *f)
{
	char old[PATH_MAX];

	if (!finish(f) || !begin(f))
		return false;
	if (f->keep && f->file_n > f->keep) {
		file_name(f, f->file_n - f->keep, old, sizeof(old));
		unlink(old);
	}
	return true;
}

bool capfile_open(struct capfile *f)
{
	f->buf = malloc(BUF_LEN);
	if (!f->buf) {
		fputs("rdmactl: no memory\n", stderr);
		return false;
	}
	return begin(f);
}

bool capfile_put(struct capfile *f, const struct pcapng_item *it)
{
	size_t len = pcapng_packet_len(it);

	if (f->size && f->written + f->buf_n + len > f->size && f->written + f->buf_n > 4096 && !next_file(f))
		return false;
	if (!room(f, len))
		return false;
	f->buf_n += pcapng_put_packet(f->buf + f->buf_n, BUF_LEN - f->buf_n, it);
	return true;
}

bool capfile_close(struct capfile *f)
{
	bool good = f->fd < 0 || f->pipe_closed || (!f->cut && finish(f)) || f->pipe_closed;

	free(f->buf);
	f->buf = NULL;
	return good;
}
