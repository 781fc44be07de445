/* SPDX-License-Identifier: MIT */
/*
 * files.c - looks at the devices' files by every call that takes a path, and prints what it finds: it is the same in a
 * mount namespace and by the preloaded library (sysfs.test).  Names, types and errors; no inode, no owner, no time.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define DEV   CLASS "/rdmad0"
#define STATE DEV "/ports/1/state"
#define NODE  "/dev/infiniband/uverbs0"

/* ---- before any constructor ----------------------------------------------------- */

static int early = -1, early_err;

static void look_early(void)
{
	early = open("/dev/null", O_RDONLY | O_CLOEXEC);
	early_err = errno;
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = look_early;

/* ---- printing ---------------------------------------------------------------------- */

/* The text of what was called, and what came of it; errno is kept where nothing failed. */
#define TELL(call)                                                                                              \
	do {                                                                                                    \
		errno = EDOM;                                                                                   \
		long tell = (long)(call);                                                                       \
		printf("%s: %s\n", #call, tell >= 0 ? errno == EDOM ? "good" : "errno lost" : strerror(errno)); \
	} while (0)

static long closed(int fd)
{
	char text[64];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	int err = errno;

	if (fd < 0)
		return -1;
	if (n > 0)
		printf("(%.*s) ", (int)n - 1, text);
	close(fd);
	errno = n < 0 && err != EBADF && err != EISDIR ? err : EDOM;
	return n < 0 && err != EBADF && err != EISDIR ? -1 : 0;
}

static long streamed(FILE *f)
{
	char text[64] = "";

	if (!f)
		return -1;
	if (fgets(text, sizeof(text), f))
		printf("(%.*s) ", (int)strcspn(text, "\n"), text);
	fclose(f);
	errno = EDOM;
	return 0;
}

static long named(const char *name)
{
	if (!name)
		return -1;
	printf("(%s) ", name);
	errno = EDOM;
	return 0;
}

static long linked(const char *path)
{
	char text[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	if (n < 0)
		return -1;
	text[n] = 0;
	return named(text);
}

static const char *type_of(mode_t mode)
{
	return S_ISDIR(mode) ? "dir" : S_ISREG(mode) ? "file" : S_ISLNK(mode) ? "link" : S_ISCHR(mode) ? "char" : "?";
}

static long typed(int ret, const struct stat *st)
{
	if (ret)
		return ret;
	return named(type_of(st->st_mode));
}

/* ---- the calls --------------------------------------------------------------------- */

static void opens(void)
{
	int dir = open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), up = open("/sys/class", O_PATH | O_CLOEXEC);

	printf("before the constructors: %s\n", early >= 0 ? "good" : strerror(early_err));
	TELL(closed(early));
	TELL(closed(open(STATE, O_RDONLY)));
	TELL(closed(open(CLASS "/../infiniband//rdmad0/./ports/1/state", O_RDONLY)));
	TELL(closed(open(DEV "/device/../../../../class/infiniband/rdmad0/ports/1/state", O_RDONLY)));
	TELL(closed(open(DEV, O_RDONLY | O_NOFOLLOW)));
	TELL(closed(open(DEV "/", O_RDONLY)));
	TELL(closed(open(STATE "/", O_RDONLY)));
	TELL(closed(open(STATE "/../rate", O_RDONLY)));
	TELL(closed(open(CLASS "/missing", O_RDONLY)));
	TELL(closed(open(CLASS "/missing/../rdmad0", O_RDONLY)));
	TELL(closed(openat(dir, "rdmad0/ports/1/state", O_RDONLY)));
	TELL(closed(openat(dir, "../infiniband/rdmad0/node_type", O_RDONLY)));
	TELL(closed(openat(up, "infiniband/rdmad0/node_type", O_RDONLY)));
	TELL(closed(openat(up, "net/../infiniband_verbs/uverbs0/ibdev", O_RDONLY)));
	TELL(closed(openat(dir, "../net/lo/mtu", O_RDONLY)));
	TELL(closed(openat(dir, DEV "/device/net/lo/mtu", O_RDONLY)));
	TELL(closed(openat(1000, "state", O_RDONLY)));
	TELL(closed(open("rdmad0", O_RDONLY)));
	TELL(streamed(fopen(STATE, "r")));
	TELL(streamed(fopen(CLASS "/missing", "re")));
	TELL(streamed(freopen(STATE, "r", stdin)));
	TELL(ioctl(openat(dir, NODE, O_RDWR), 0xc0181b01, NULL));
	TELL(closed(open(NODE, O_RDWR)));
	TELL(closed(open("/dev/infiniband/uverbs99", O_RDWR)));
	TELL(closed(open("/dev/null", O_RDWR)));
	close(dir);
	close(up);
}

static void stats(void)
{
	int (*old)(int, const char *, struct stat *) = (int (*)(int, const char *, struct stat *))dlsym(RTLD_DEFAULT,
													"__xstat");
	int dir = open(CLASS, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	struct statx x;
	struct stat st;

	TELL(typed(stat(CLASS, &st), &st));
	TELL(typed(stat(DEV, &st), &st));
	TELL(typed(lstat(DEV, &st), &st));
	TELL(typed(lstat(DEV "/", &st), &st));
	TELL(typed(stat(STATE, &st), &st));
	TELL(typed(stat(NODE, &st), &st));
	TELL(typed(lstat(NODE, &st), &st));
	TELL(typed(fstatat(dir, "rdmad0", &st, AT_SYMLINK_NOFOLLOW), &st));
	TELL(typed(fstatat(dir, "rdmad0/device", &st, 0), &st));
	TELL(typed(fstatat(dir, "..", &st, 0), &st));
	TELL(typed(fstatat(dir, "", &st, AT_EMPTY_PATH), &st));
	TELL(typed(stat("", &st), &st));
	TELL(typed(old ? old(1, NODE, &st) : stat(NODE, &st), &st));
	TELL(typed(stat(CLASS "/missing", &st), &st));
	TELL(statx(AT_FDCWD, NODE, 0, STATX_BASIC_STATS, &x));
	printf("statx: %s\n", type_of(x.stx_mode));
	TELL(statx(dir, "rdmad0", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x));
	printf("statx: %s\n", type_of(x.stx_mode));
	TELL(syscall(SYS_statx, dir, "rdmad0/device", 0, STATX_BASIC_STATS, &x));
	printf("statx by number: %s\n", type_of(x.stx_mode));
	TELL(syscall(SYS_statx, AT_FDCWD, NODE, 0, STATX_BASIC_STATS, &x));
	printf("statx by number: %s\n", type_of(x.stx_mode));
	TELL(syscall(SYS_statx, AT_FDCWD, CLASS "/missing", 0, STATX_BASIC_STATS, &x));
	TELL(syscall(SYS_statx, dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x));
	TELL(access(NODE, R_OK | W_OK));
	TELL(access(DEV, R_OK | X_OK));
	TELL(access(CLASS "/missing", F_OK));
	TELL(faccessat(dir, "rdmad0/ports/1/rate", R_OK, 0));
	TELL(faccessat(dir, "rdmad0", F_OK, AT_SYMLINK_NOFOLLOW));
	TELL(euidaccess(STATE, R_OK));
	TELL(statfs("/sys/class/net", &fs));
	TELL(pathconf(DEV "/device", _PC_NAME_MAX));
	TELL(pathconf(CLASS "/missing", _PC_NAME_MAX));
	TELL(ftok(STATE, 1) == -1 ? -1 : 0);
	TELL(ftok(CLASS "/missing", 1));
	close(dir);
}

/* The linker warns of that name. */
static char *old_getwd(char *buf)
{
	char *(*fn)(char *);

	*(void **)&fn = dlsym(RTLD_DEFAULT, "getwd");
	return fn ? fn(buf) : NULL;
}

/* In the directory of the first adapter: into as little as it takes, and less. */
static void cut(void)
{
	char text[PATH_MAX], *cwd = getcwd(NULL, 0);
	size_t n = cwd ? strlen(cwd) : 0;
	ssize_t got = readlink("/proc/self/cwd", text, 12);

	printf("cut: %zd (%.*s)\n", got, got < 0 ? 0 : (int)got, text);
	TELL(readlink("/proc/self/cwd", text, n) - (ssize_t)n);
	TELL(readlink("/proc/self/cwd", text, 0));
	TELL(named(getcwd(text, n + 1)));
	TELL(named(getcwd(text, n)));
	TELL(named(getcwd(text, 0)));
	free(cwd);
}

/* Below the directory that has the files by its own name, if there is one: nothing leads out of it. */
static void ways(void)
{
	const char *root = getenv("RDMAD_TREE");
	int dir = open(root ? root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	    sys = openat(dir, "sys", O_PATH | O_CLOEXEC);
	int class = openat(sys, "class", O_PATH | O_CLOEXEC);
	char path[PATH_MAX], text[PATH_MAX];
	struct stat by_name, opened;

	snprintf(path, sizeof(path), "%s/sys/class", root ? root : "");
	TELL(lstat(path, &by_name));
	TELL(fstat(class, &opened));
	printf("the same directory: %d\n", by_name.st_dev == opened.st_dev && by_name.st_ino == opened.st_ino);
	TELL(fchdir(sys));
	TELL(stat("class", &opened));
	printf("the same directory: %d\n", by_name.st_dev == opened.st_dev && by_name.st_ino == opened.st_ino);
	TELL(chdir(path));
	printf("its name: %d\n", getcwd(text, sizeof(text)) && !strcmp(path, text));
	TELL(chdir("/"));
	close(class);
	close(sys);
	close(dir);
}

static void names(void)
{
	char text[PATH_MAX], *name;

	TELL(linked(DEV));
	TELL(linked(DEV "/device"));
	TELL(linked(CLASS));
	TELL(linked(CLASS "/missing"));
	TELL(named(realpath(DEV "/device", text)));
	TELL(named(realpath(CLASS "/..", text)));
	TELL(named(realpath(CLASS "/missing", NULL)));
	TELL(named(realpath("/sys/class/net/../infiniband", text)));
	TELL(named(name = canonicalize_file_name(DEV "/device/infiniband/../numa_node")));
	free(name);
	TELL(chdir(DEV "/device"));
	TELL(named(getcwd(text, sizeof(text))));
	TELL(linked("/proc/self/cwd"));
	TELL(named(old_getwd(text)));
	cut();
	TELL(closed(open("numa_node", O_RDONLY)));
	TELL(closed(open("../../../../class/infiniband/rdmad0/node_type", O_RDONLY)));
	TELL(named(realpath("..", text)));
	TELL(named(realpath("net/lo/mtu", NULL) ? "there" : NULL));
	TELL(chdir("infiniband/rdmad0/ports"));
	TELL(named(name = get_current_dir_name()));
	free(name);
	TELL(chdir("../../../.."));
	TELL(named(getcwd(text, sizeof(text))));
	TELL(chdir("/sys/class"));
	TELL(closed(open("infiniband/rdmad0/ports/1/state", O_RDONLY)));
	TELL(chdir("infiniband/missing"));
	TELL(chdir("/"));
	TELL(closed(open("sys/class/infiniband/rdmad0/node_type", O_RDONLY)));
}

/* ---- directories ---------------------------------------------------------------------- */

static int not_dots(const struct dirent *e) { return e->d_name[0] != '.'; }

/* The type is not that of the entry: a name that a device is mounted over remains a file's there. */
static void list(const char *path)
{
	struct dirent **all;
	int n = scandir(path, &all, not_dots, alphasort), dir = open(path, O_PATH);
	struct stat st;

	printf("scandir %s: %s\n", path, n < 0 ? strerror(errno) : "");
	for (int i = 0; i < n; i++) {
		printf("\t%s %s\n", all[i]->d_name,
		       fstatat(dir, all[i]->d_name, &st, AT_SYMLINK_NOFOLLOW) ? "?" : type_of(st.st_mode));
		free(all[i]);
	}
	if (n >= 0)
		free(all);
	if (dir >= 0)
		close(dir);
}

/* From within ours. */
static void list_up(void)
{
	struct dirent **all;

	TELL(chdir(CLASS));
	TELL(scandir("../../..", &all, not_dots, alphasort));
	TELL(scandir("../..", &all, not_dots, alphasort));
	TELL(chdir("/"));
}

/* How often each name is in a directory of the system's that ours are in. */
static void count(const char *path, const char *name)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int n = 0;

	for (int turn = 0; dir && turn < 2; turn++, rewinddir(dir))
		while ((e = readdir(dir)))
			n += !strcmp(e->d_name, name);
	printf("%s is in %s %d times in two readings\n", name, path, n);
	if (dir)
		closedir(dir);
}

/* From a place that was noted in front of our entry, from one behind it, and from the first one on. */
static void seek(const char *path, const char *name)
{
	DIR *dir = opendir(path);
	long begin = dir ? telldir(dir) : 0, before = begin, behind = begin;
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir)) && strcmp(e->d_name, name) != 0)
		before = telldir(dir);
	if (!dir)
		return;
	behind = telldir(dir);
	seekdir(dir, before);
	e = readdir(dir);
	printf("seekdir before %s: %d", name, e && !strcmp(e->d_name, name));
	seekdir(dir, behind);
	while ((e = readdir(dir)))
		n += !strcmp(e->d_name, name);
	seekdir(dir, begin);
	while ((e = readdir(dir)))
		n += 10 * !strcmp(e->d_name, name);
	printf(", behind it and from the first: %d\n", n);
	closedir(dir);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Walks go in any order. */
static char *walked[4096];
static unsigned walked_n;

static int walk_note(const char *path, const struct stat *st, int type, struct FTW *w)
{
	char *line;

	if (walked_n < sizeof(walked) / sizeof(walked[0]) &&
	    asprintf(&line, "\t%s %s %d %s\n", path, path + w->base, type, type == FTW_NS ? "" : type_of(st->st_mode)) >
		    0)
		walked[walked_n++] = line;
	return 0;
}

static int walk_note_old(const char *path, const struct stat *st, int type)
{
	struct FTW w = { 0 };

	return walk_note(path, st, type, &w);
}

static void walk(const char *path, int flags)
{
	int ret = flags < 0 ? ftw(path, walk_note_old, 8) : nftw(path, walk_note, 8, flags);

	printf("walk %s: %d\n", path, ret);
	qsort(walked, walked_n, sizeof(walked[0]), by_text);
	for (unsigned i = 0; i < walked_n; i++) {
		fputs(walked[i], stdout);
		free(walked[i]);
	}
	walked_n = 0;
}

static void globs(const char *pattern)
{
	glob_t g;
	int ret = glob(pattern, 0, NULL, &g);

	printf("glob %s: %d\n", pattern, ret);
	for (size_t i = 0; !ret && i < g.gl_pathc; i++)
		printf("\t%s\n", g.gl_pathv[i]);
	if (!ret)
		globfree(&g);
}

/* ---- as NCCL looks for adapters ------------------------------------------------------- */

static void adapters(void)
{
	DIR *dir = opendir(CLASS);
	char path[PATH_MAX], real[PATH_MAX];
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), CLASS "/%s/device", e->d_name);
		printf("%s: device %s\n", e->d_name, realpath(path, real) ? real : strerror(errno));
		for (const char *const *f =
			     (const char *const[]){ "ports/1/state", "ports/1/rate", "ports/1/link_layer",
						    "ports/1/gids/0", "ports/1/gid_attrs/types/0",
						    "ports/1/gid_attrs/ndevs/0", "device/numa_node", "device/class",
						    "device/vendor", "device/local_cpulist",
						    "ports/1/hw_counters/lifespan", NULL };
		     *f; f++) {
			snprintf(path, sizeof(path), CLASS "/%s/%s", e->d_name, *f);
			printf("%s ", *f);
			TELL(streamed(fopen(path, "r")));
		}
	}
	if (dir)
		closedir(dir);
}

/* ---- several threads ------------------------------------------------------------------- */

static void *hammer(void *)
{
	char real[PATH_MAX];
	long bad = 0;

	for (int i = 0; i < 200; i++) {
		DIR *dir = opendir(i & 1 ? "/sys/class" : "/dev/infiniband");
		struct dirent *e;
		int found = 0;

		while (dir && (e = readdir(dir)))
			found += !strcmp(e->d_name, i & 1 ? "infiniband" : "uverbs0");
		bad += found != 1 || !realpath(DEV "/device", real) || access(STATE, R_OK);
		if (dir)
			closedir(dir);
	}
	return (void *)bad;
}

static void threads(void)
{
	pthread_t t[4];
	long bad = 0;
	void *ret;

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, hammer, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &ret);
		bad += (long)ret;
	}
	printf("threads: %ld bad\n", bad);
}

/* ---- what would cut a file off: by the library alone, since the files in a namespace are plain ones ------ */

static void kept(void)
{
	TELL(closed(creat(STATE, 0644)));
	TELL(streamed(fopen(STATE, "w")));
	TELL(streamed(fopen(STATE, "r+")));
	TELL(streamed(freopen(STATE, "we", stdin)));
	TELL(streamed(fopen(STATE, "wx")));
	TELL(streamed(fopen(CLASS "/new", "w")));
	TELL(creat(CLASS "/new", 0644));
	TELL(streamed(fopen(NODE, "w")));
	TELL(streamed(fopen(STATE, "r")));
}

/* ---- on a small stack ------------------------------------------------------------------ */

static volatile sig_atomic_t handled;

__attribute__((unused)) static void handler(int sig)
{
	char text[64];
	int fd = open("/proc/self/status", O_RDONLY);

	(void)sig;
	handled = fd >= 0 && !close(fd) && readlink("/proc/self/exe", text, sizeof(text)) > 0;
}

/* 8 KiB, or what processors with more registers leave of that; below it is nothing.  Sanitizers take more than that. */
static void small_stack(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	handled = 1;
#else
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), frame = getauxval(AT_MINSIGSTKSZ),
		     len = (frame + 4600 + page - 1) / page * page;
	char *p = mmap(NULL, page + len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t s = { .ss_sp = p + page, .ss_size = frame + 4600 };
	const struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) || sigaltstack(&s, NULL) || sigaction(SIGUSR1, &sa, NULL))
		return;
	raise(SIGUSR1);
#endif
	printf("on a small stack: %d\n", (int)handled);
}

int main(int argc, char **)
{
	if (argc > 1) {
		kept();
		return 0;
	}
	opens();
	stats();
	names();
	ways();
	list(CLASS);
	list("/dev/infiniband");
	list(DEV "/ports/1/");
	list(CLASS "/missing");
	list_up();
	count("/sys/class", "infiniband");
	count("/sys/class", "net");
	seek("/sys/class", "infiniband");
	seek("/sys/class", "net");
	seek(CLASS, "rdmad0");
	count("/dev", "infiniband");
	count("/sys/devices", "pci7264:00");
	walk(CLASS, FTW_PHYS);
	walk(DEV "/ports//", 0);
	walk("/dev/infiniband", -1);
	globs(CLASS "/*/ports/*/state");
	globs("/sys/class/infiniband*");
	globs("/dev/infiniband/u*");
	globs(CLASS "/*/missing");
	adapters();
	threads();
	small_stack();
	return 0;
}
