/* SPDX-License-Identifier: MIT */
/* sysfs.c - the devices as files: in which way, and who writes them. */
#include "config.h"

#include "say.h"
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/tree.h>

#define REFRESH_MS 1000
#define LOOK_EVERY 5 /* refreshes between two looks for others that see the files */

/* ---- the directory, where there are no mounts ------------------------------------------ */

/* Others than us can read it: a program may give up rights. */
static bool root_make(char root[TREE_ROOT_LEN])
{
	const char *const tops[] = { getenv("TMPDIR"), "/tmp", "/dev/shm", getenv("XDG_RUNTIME_DIR") };
	char path[PATH_MAX], *real;
	bool good = false;

	for (unsigned i = 0; i < sizeof(tops) / sizeof(tops[0]) && !good; i++) {
		if (!tops[i] || *tops[i] != '/')
			continue;
		snprintf(path, sizeof(path), "%s/rdmad-tree.XXXXXX", tops[i]);
		if (!mkdtemp(path))
			continue;
		real = realpath(path, NULL);
		good = real && strlen(real) < TREE_ROOT_LEN && !chmod(real, 0755 | TREE_WAY);
		if (good)
			strcpy(root, real);
		else
			rmdir(path);
		free(real);
	}
	if (!good)
		say("--sysfs: no directory can be made in /tmp or $TMPDIR: %s", strerror(errno));
	return good;
}

static int entry_remove(const char *path, const struct stat *, int, struct FTW *)
{
	return remove(path) && errno != ENOENT;
}

static void root_remove(const char *root)
{
	if (*root)
		nftw(root, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- who sees the files ----------------------------------------------------------------- */

static bool in_namespace(const char *pid)
{
	char mine[64] = "", other[64], path[320];
	ssize_t n = readlink("/proc/self/ns/mnt", mine, sizeof(mine) - 1);

	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
	n = n < 0 ? n : readlink(path, other, sizeof(other) - 1);
	other[n < 0 ? 0 : n] = 0;
	return n > 0 && !strcmp(mine, other);
}

/* Does the process have the directory in its environment? */
static bool has_root(const char *pid, const char *root)
{
	char path[320], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	f = fopen(path, "re");
	while (f && !found && getdelim(&line, &size, 0, f) > 0)
		found = !strncmp(line, TREE_ENV "=", sizeof(TREE_ENV)) && !strcmp(line + sizeof(TREE_ENV), root);
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* Is anybody but us there?  If that cannot be known: no. */
static bool is_seen(const char *root)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	bool found = false;

	while (proc && !found && (e = readdir(proc)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && atoi(e->d_name) != getpid())
			found = *root ? has_root(e->d_name, root) : in_namespace(e->d_name);
	if (proc)
		closedir(proc);
	return found;
}

/* ---- what changes -------------------------------------------------------------------- */

/*
 * As long as the directory is seen it stays, even without the daemon.  A process that sees it has the hold, or the variable:
 * one may close all descriptors, another give up the rights that we would need to read its environment.
 */
static void refresh(const char *root, int daemon, int hold)
{
	struct pollfd p[] = { { .fd = daemon }, { .fd = hold } };
	unsigned n = 0;

	setsid();
	chdir("/");
	for (;;) {
		if (poll(p, 2, REFRESH_MS) > 0 && p[1].revents)
			p[1].fd = -1;
		if (p[0].fd >= 0 && (p[0].revents || !tree_write(root, p[0].fd))) {
			if (!*root)
				break;
			p[0].fd = -1;
		}
		if (++n % LOOK_EVERY == 0 && p[1].fd < 0 && !is_seen(root))
			break;
	}
	root_remove(root);
	_exit(0);
}

/* A grandchild: the program will have no child that it does not know.  hold: its end is known when all others are gone; or -1. */
static bool refresher(const char *root, int daemon, int hold)
{
	pid_t child = fork();

	if (child == 0) {
		if (fork())
			_exit(0);
		for (int fd = 0; fd < 3; fd++) {
			int null = open("/dev/null", O_RDWR);

			dup2(null, fd);
			if (null > 2)
				close(null);
		}
		hold = hold < 0 ? -1 : fcntl(hold, F_DUPFD, 5);
		dup2(daemon, 3);
		if (hold >= 0)
			dup2(hold, 4);
		syscall(SYS_close_range, hold < 0 ? 4u : 5u, ~0u, 0u);
		refresh(root, 3, hold < 0 ? -1 : 4);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0) {
		say("--sysfs: %s", strerror(errno));
		return false;
	}
	return true;
}

/* A pipe that the program and its children have an end of; the other.  -1: said why. */
static int hold_make(void)
{
	int end[2] = { -1, -1 };

	if (pipe2(end, O_CLOEXEC) || fcntl(end[1], F_DUPFD, HOLD_FD_MIN) < 0) {
		say("--sysfs: %s", strerror(errno));
		close(end[0]);
		end[0] = -1;
	}
	close(end[1]);
	return end[0];
}

/* ---- the two ways ------------------------------------------------------------------------ */

static bool by_namespace(const struct install *p, int daemon, int devices)
{
	return mounts_make(p, devices) && tree_write("", daemon) && refresher("", daemon, -1);
}

static bool by_preload(const struct install *p, int daemon)
{
	char root[TREE_ROOT_LEN] = "";
	int hold;
	bool good;

	if (!*p->tree_lib || strpbrk(p->tree_lib, " :;")) {
		say("--sysfs: %s",
		    *p->tree_lib
			    ? "the dynamic loader cannot preload a library with a space, : or ; in its path"
			    : "there is no librdmad-tree.so beside libibverbs.so.1: make it, or install all of rdmad");
		return false;
	}
	hold = hold_make();
	if (hold < 0 || !root_make(root))
		return false;
	tree_way(root, "/sys/class");
	tree_way(root, "/sys/devices");
	tree_way(root, "/dev");
	good = tree_write(root, daemon) && !setenv(TREE_ENV, root, 1) && refresher(root, daemon, hold);
	close(hold);
	if (!good)
		root_remove(root);
	return good;
}

/* Inside a preloaded library's view there is no other: it would stand before the mounts. */
static enum sysfs choose(const struct install *p, enum sysfs way)
{
	bool inside = getenv(TREE_ENV);
	int err;

	if (way == SYSFS_NAMESPACE && inside) {
		say("--sysfs=namespace: $" TREE_ENV " is set: this is a program of rdmad-run --sysfs=preload");
		return SYSFS_NO;
	}
	if (way != SYSFS_AUTO)
		return way;
	err = inside ? 0 : mounts_refused(p);
	if (err)
		say("--sysfs: by a preloaded library, since there is no mount namespace to be had (%s): programs that "
		    "are statically linked, setuid or call the kernel themselves (Go) do not see the files",
		    strerror(err));
	return inside || err ? SYSFS_PRELOAD : SYSFS_NAMESPACE;
}

enum sysfs sysfs_show(const struct install *p, enum sysfs way, const char *addr)
{
	int daemon = hold_look(addr), devices = daemon < 0 ? -1 : tree_devices(daemon);
	bool good = false;

	if (daemon >= 0 && devices < 0)
		say("--sysfs: the daemon does not say what devices it has");
	if (devices >= 0) {
		way = choose(p, way);
		if (way != SYSFS_NO)
			good = way == SYSFS_PRELOAD ? by_preload(p, daemon) : by_namespace(p, daemon, devices);
	}
	if (daemon >= 0)
		close(daemon);
	return good ? way : SYSFS_NO;
}
