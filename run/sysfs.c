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
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/tree.h>

#define ROOT_NAME  "rdmad-tree."
#define REFRESH_MS 1000
#define LOOK_EVERY 5 /* refreshes between two looks for others that see the files */

/* ---- the directory, where there are no mounts ------------------------------------------ */

/*
 * Others than us can read it: a program may give up rights.  The lock says that it is not left over, and keeps cleaners
 * such as systemd-tmpfiles(8) off it.
 */
static bool root_open(struct tree *t)
{
	struct stat st;

	t->dir = open(t->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->dir >= 0 && !flock(t->dir, LOCK_EX | LOCK_NB) && !fchmod(t->dir, 0755 | TREE_WAY) &&
	    !fstat(t->dir, &st) && st.st_mode & TREE_WAY)
		return true;
	if (t->dir >= 0)
		close(t->dir);
	return false;
}

static int entry_remove(const char *path, const struct stat *, int, struct FTW *)
{
	return remove(path) && errno != ENOENT;
}

/* Has it still its name, or has somebody deleted it? */
static bool root_there(const struct tree *t)
{
	struct stat st, at;

	return !fstat(t->dir, &st) && !lstat(t->root, &at) && st.st_dev == at.st_dev && st.st_ino == at.st_ino;
}

static void root_remove(const struct tree *t)
{
	if (*t->root && root_there(t))
		nftw(t->root, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
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

/* ---- to make it, and to remove what was left over ----------------------------------------- */

/* Whoever refreshed it was killed, and nobody is left that sees it. */
static void stale_remove(const char *top)
{
	const char *seen = getenv(TREE_ENV);
	DIR *dir = opendir(top);
	struct tree t;
	struct dirent *e;
	struct stat st;

	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, ROOT_NAME, strlen(ROOT_NAME)) ||
		    (size_t)snprintf(t.root, sizeof(t.root), "%s/%s", top, e->d_name) >= sizeof(t.root))
			continue;
		if (lstat(t.root, &st) || st.st_uid != geteuid() || !(st.st_mode & TREE_WAY) || !root_open(&t))
			continue;
		if (!is_seen(t.root) && !(seen && !strcmp(seen, t.root)))
			root_remove(&t);
		close(t.dir);
	}
	if (dir)
		closedir(dir);
}

static bool root_make(struct tree *t)
{
	const char *const tops[] = { getenv("TMPDIR"), "/tmp", "/dev/shm", getenv("XDG_RUNTIME_DIR") };
	char path[PATH_MAX], *real;
	bool good = false;

	for (unsigned i = 0; i < sizeof(tops) / sizeof(tops[0]) && !good; i++) {
		if (!tops[i] || *tops[i] != '/')
			continue;
		stale_remove(tops[i]);
		snprintf(path, sizeof(path), "%s/" ROOT_NAME "XXXXXX", tops[i]);
		if (!mkdtemp(path))
			continue;
		real = realpath(path, NULL);
		good = real && strlen(real) < sizeof(t->root);
		if (good) {
			strcpy(t->root, real);
			good = root_open(t);
		}
		if (!good)
			rmdir(path);
		free(real);
	}
	if (!good)
		say("--sysfs: no directory can be made in $TMPDIR, /tmp, /dev/shm or $XDG_RUNTIME_DIR: %s",
		    strerror(errno));
	return good;
}

/* ---- what changes -------------------------------------------------------------------- */

/* The signals that tell this process to end: then the files go, too. */
static void ends(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
}

/*
 * As long as the directory is seen it stays, even without the daemon.  A process that sees it has the hold, or the variable:
 * one may close all descriptors, another give up the rights that we would need to read its environment.
 */
static void refresh(const struct tree *t, int daemon, int hold, int end)
{
	struct pollfd p[] = { { .fd = daemon }, { .fd = hold }, { .fd = end, .events = POLLIN } };
	unsigned n = 0;

	setsid();
	chdir("/");
	for (;;) {
		if (poll(p, 3, REFRESH_MS) > 0 && p[1].revents) {
			p[1].fd = -1;
			n = LOOK_EVERY - 1; /* now */
		}
		if (p[2].revents || (*t->root && !root_there(t)))
			break;
		if (p[0].fd >= 0 && (p[0].revents || !tree_write(t, p[0].fd))) {
			if (!*t->root)
				break;
			p[0].fd = -1;
		}
		if (++n % LOOK_EVERY == 0 && p[1].fd < 0 && !is_seen(t->root))
			break;
	}
	root_remove(t);
	_exit(0);
}

/* These are 3, 4 and so on, and all others are closed; one may be -1. */
static void alone(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD, 3 + n);
	for (unsigned i = 0; i < n; i++) {
		int to = 3 + (int)i;

		if (fds[i] < 0)
			close(to);
		else
			fds[i] = dup2(fds[i], to);
	}
	syscall(SYS_close_range, 3 + n, ~0u, 0u);
}

/* A grandchild: the program will have no child that it does not know.  hold: its end is known when all others are gone; or -1. */
static bool refresher(struct tree *t, int daemon, int hold)
{
	int fds[] = { daemon, hold, t->dir };
	pid_t child = fork();
	sigset_t set;

	if (child == 0) {
		ends(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		/* Before the helper is there: by its name it is told from what a program leaves. */
		prctl(PR_SET_NAME, SYSFS_HELPER);
		if (fork())
			_exit(0);
		for (int fd = 0; fd < 3; fd++) {
			int null = open("/dev/null", O_RDWR);

			dup2(null, fd);
			if (null > 2)
				close(null);
		}
		alone(fds, 3);
		t->dir = fds[2];
		refresh(t, fds[0], fds[1], signalfd(-1, &set, SFD_CLOEXEC));
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

	if (pipe2(end, O_CLOEXEC) || hold_dup(end[1]) < 0) {
		say("--sysfs: %s", strerror(errno));
		close(end[0]);
		end[0] = -1;
	}
	close(end[1]);
	return end[0];
}

/* ---- the two ways ------------------------------------------------------------------------ */

static bool first_write(const struct tree *t, int daemon)
{
	bool good = tree_write(t, daemon);

	if (!good)
		say("--sysfs: the daemon does not say what its devices and their counters are");
	return good && tree_whole();
}

static bool by_namespace(const struct install *p, int daemon, int devices)
{
	struct tree t = { .dir = -1 };
	bool good;

	if (!mounts_make(p, devices))
		return false;
	t.dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	good = first_write(&t, daemon) && refresher(&t, daemon, -1);
	close(t.dir);
	return good;
}

static bool by_preload(const struct install *p, int daemon)
{
	struct tree t = { .dir = -1 };
	int hold;
	bool good;

	if (!preload_can("--sysfs", p->tree_lib, "librdmad-tree.so"))
		return false;
	hold = hold_make();
	if (hold < 0 || !root_make(&t))
		return false;
	good = first_write(&t, daemon) && !setenv(TREE_ENV, t.root, 1) && refresher(&t, daemon, hold);
	close(hold);
	if (!good)
		root_remove(&t);
	close(t.dir);
	return good;
}

/* The two ways of libpci. */
bool sysfs_no_pci(void) { return access(TREE_PCI "/devices", F_OK) && access("/proc/bus/pci/devices", F_OK); }

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
