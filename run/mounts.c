/* SPDX-License-Identifier: MIT */
/*
 * mounts.c - the mount namespace: directories that cannot be written to get a new layer.
 *
 *	tmpfs over /sys/class			each entry that was there bound or linked into it, then ours
 *	tmpfs over /sys/devices, /dev		the same
 *
 * An ordinary user may do this in a user namespace of his own, in which he keeps his number.  The
 * daemon may still read his memory: the one who made a user namespace has all rights over it.
 */
#include "config.h"

#include "say.h"
#include "space.h"
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- user and mount namespace -------------------------------------------------- */

static bool namespace_new(void)
{
	const char *wrong = space_new(CLONE_NEWNS);

	if (wrong) {
		say("--sysfs: a mount namespace cannot be made here: %s", wrong);
		return false;
	}
	if (!mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return true;
	say("--sysfs: cannot make the mounts private: %s", strerror(errno));
	return false;
}

/* ---- layers ---------------------------------------------------------------------- */

/* One entry of the old directory (fd below) into the new one. */
static bool entry_keep(int old, const char *dir, const struct dirent *e)
{
	char from[PATH_MAX], to[PATH_MAX], link[PATH_MAX];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", old, e->d_name);
	snprintf(to, sizeof(to), "%s/%s", dir, e->d_name);
	if (fstatat(old, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return true; /* gone meanwhile */
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(old, e->d_name, link, sizeof(link) - 1);
		link[n < 0 ? 0 : n] = 0;
		return !symlink(link, to);
	}
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(to, 0755))
			return false;
	} else {
		fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			return false;
		close(fd);
	}
	return !mount(from, to, NULL, MS_BIND | MS_REC, NULL);
}

static bool ours(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* A layer over dir that has all that dir has, but these names as empty directories. */
static bool layer(const char *dir, const char *const *names)
{
	int old = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = old < 0 ? NULL : fdopendir(dup(old));
	char path[PATH_MAX];
	struct dirent *e;
	bool good = list && !mount("rdmad", dir, "tmpfs", MS_NOSUID, "mode=755");

	while (good && (e = readdir(list)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !ours(names, e->d_name))
			good = entry_keep(old, dir, e);
	for (; good && *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", dir, *names);
		good = !mkdir(path, 0755);
	}
	if (!good)
		say("--sysfs: cannot lay a directory over %s: %s", dir, strerror(errno));
	if (list)
		closedir(list);
	if (old >= 0)
		close(old);
	return good;
}

/* An empty PCI bus, where there is none. */
static bool bus(void)
{
	static const char *const names[] = { "pci", NULL };

	return !sysfs_no_pci() || (layer("/sys/bus", names) && !mkdir(TREE_PCI "/devices", 0755));
}

/* ---- pseudo terminals -------------------------------------------------------------- */

#define WHOLE     ".rdmad"
#define WHOLE_NEW "/sys/class/" WHOLE
#define WHOLE_DEV "/dev/" WHOLE

/*
 * The kernel looks for pts beside ptmx, in the mount through which that is opened, and one of the node alone has none.
 * So all of the old /dev is there once more, and ptmx leads into it.
 */
static bool terminals_keep(void)
{
	if (!mkdir(WHOLE_NEW, 0755) && !mount("/dev", WHOLE_NEW, NULL, MS_BIND | MS_REC, NULL))
		return true;
	say("--sysfs: cannot keep /dev as it is: %s", strerror(errno));
	return false;
}

static bool terminals(void)
{
	struct stat st;
	bool good = !mount(WHOLE_NEW, WHOLE_DEV, NULL, MS_MOVE, NULL) && !rmdir(WHOLE_NEW);

	if (good && !lstat("/dev/ptmx", &st) && S_ISCHR(st.st_mode)) /* else it is a link that will do */
		good = !umount("/dev/ptmx") && !unlink("/dev/ptmx") && !symlink(WHOLE "/ptmx", "/dev/ptmx");
	if (!good)
		say("--sysfs: /dev/ptmx: %s", strerror(errno));
	return good;
}

/* Device nodes cannot be made in a user namespace, so /dev/null is mounted on each name.  Nobody has to open them. */
static bool nodes(int n)
{
	char path[PATH_MAX];
	bool good = true;
	int fd;

	for (int i = -1; i < n && good; i++) {
		if (i < 0)
			snprintf(path, sizeof(path), TREE_DEV "/rdma_cm");
		else
			snprintf(path, sizeof(path), TREE_DEV "/uverbs%d", i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		good = fd >= 0 && !mount("/dev/null", path, NULL, MS_BIND, NULL);
		if (fd >= 0)
			close(fd);
	}
	if (!good)
		say("--sysfs: %s: %s", path, strerror(errno));
	return good;
}

/* ---- libraries --------------------------------------------------------------------- */

static int libc_find(struct dl_phdr_info *info, size_t, void *out)
{
	const char *name = strrchr(info->dlpi_name, '/');

	if (name && !strncmp(name, "/libc.so", 8))
		snprintf(out, PATH_MAX, "%.*s", (int)(name - info->dlpi_name), info->dlpi_name);
	return 0;
}

/* Mounts a file of ours over the system's, for programs that open it by its path. */
static bool cover(const char *dir, const char *lib_dir, const char *name)
{
	char theirs[PATH_MAX + 64], real[PATH_MAX], mine[PATH_MAX + 64], own[PATH_MAX];

	snprintf(theirs, sizeof(theirs), "%s/%s", dir, name);
	snprintf(mine, sizeof(mine), "%s/%s", lib_dir, name);
	if (!realpath(theirs, real) || !realpath(mine, own) || !strcmp(real, own))
		return true;
	if (!mount(own, real, NULL, MS_BIND, NULL))
		return true;
	say("--sysfs: cannot mount %s over %s: %s", own, real, strerror(errno));
	return false;
}

static bool libraries(const struct install *p)
{
	char libc_dir[PATH_MAX] = "";
	const char *dirs[] = { libc_dir, "/usr/lib64", "/usr/local/lib" };
	const char *cm_dir = *p->cm_dir ? p->cm_dir : p->lib_dir;
	bool good = true;

	dl_iterate_phdr(libc_find, libc_dir);
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && good; i++)
		good = cover(dirs[i], p->lib_dir, "libibverbs.so.1") && cover(dirs[i], cm_dir, "librdmacm.so.1");
	/* rdma(8) asks the kernel; ours reads the files. */
	return good && cover("/usr/bin", p->tool_dir, "rdma") && cover("/sbin", p->tool_dir, "rdma");
}

bool mounts_make(const struct install *p, int devices)
{
	static const char *const classes[] = { "infiniband", "infiniband_verbs", NULL };
	static const char *const devs[] = { "infiniband", WHOLE, NULL }, *const buses[] = { TREE_BUS_NAME, NULL };

	return namespace_new() && layer("/sys/class", classes) && layer("/sys/devices", buses) && bus() &&
	       terminals_keep() && layer("/dev", devs) && terminals() && libraries(p) && nodes(devices);
}

/* All of it in a child, since a process that has failed half-way cannot go back. */
int mounts_refused(const struct install *p)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 2);
		errno = 0;
		_exit(mounts_make(p, 1) ? 0 : errno ? errno : EPERM);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}
