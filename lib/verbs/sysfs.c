/* SPDX-License-Identifier: MIT */
/*
 * sysfs.c - files of a device that programs read through the library.
 *
 * Our devices have no directory in /sys, unless one was mounted there (rdmad-run --sysfs): a file that
 * exists is read; otherwise the few that tools ask for are answered from here.
 */
#include "base.h"
#include "device.h"
#include "sysfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

EXPORT const char *ibv_get_sysfs_path(void)
{
	static char path[IBV_SYSFS_PATH_MAX / 2];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const char *env;
	size_t n;

	pthread_mutex_lock(&lock);
	if (!path[0]) {
		env = secure_getenv("SYSFS_PATH");
		n = (size_t)snprintf(path, sizeof(path), "%s", env && *env ? env : "/sys");
		if (n >= sizeof(path))
			snprintf(path, sizeof(path), "/sys");
		for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
			path[n - 1] = 0;
	}
	pthread_mutex_unlock(&lock);
	return path;
}

/* The length of the text, without its newline, or -1. */
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[2 * IBV_SYSFS_PATH_MAX], class[IBV_SYSFS_PATH_MAX];
	const char *text;
	ssize_t n;
	int fd;

	if (!size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return errno = EINVAL, -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, buf, size);
		close(fd);
		if (n > 0 && buf[n - 1] == '\n')
			buf[--n] = 0;
		else if (n >= 0 && (size_t)n < size)
			buf[n] = 0;
		return (int)n;
	}
	snprintf(class, sizeof(class), "%s/class/infiniband/", ibv_get_sysfs_path());
	text = strncmp(dir, class, strlen(class)) ? NULL : device_text(dir + strlen(class), file);
	if (text)
		return snprintf(buf, size, "%s", text);
	errno = ENOENT;
	return -1;
}
