/* SPDX-License-Identifier: MIT */
/* file.h - the bytes of a fuzz target as a file with a name, for what reads files; and nothing is said. */
#ifndef T_FUZZ_FILE_H
#define T_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void must(_Bool ok)
{
	if (!ok)
		abort();
}

/* The file has these bytes, and no others, until the next call. */
static inline const char *file_of(const uint8_t *data, size_t len)
{
	static char name[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", 0);
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	}
	must(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, len, 0) == (ssize_t)len);
	return name;
}

/* Standard error goes nowhere, until it is loud() again. */
static FILE *file_stderr;

static inline void quiet(void)
{
	static FILE *null;

	if (!null)
		null = fopen("/dev/null", "w");
	must(null);
	file_stderr = stderr;
	stderr = null;
}

static inline void loud(void) { stderr = file_stderr; }

#endif
