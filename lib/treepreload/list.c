/* SPDX-License-Identifier: MIT */
/*
 * list.c - directories.  Ours are as any; but in one that is a way (rdmad/tree.h) our entries come after the system's,
 * and a file that stands for a device has its type.
 */
#include "pre.h"

#include <pthread.h>
#include <rdmad/tree.h>

struct list {
	struct list *next;
	DIR *dir;  /* the program's */
	DIR *more; /* the way; NULL: dir is a directory of devices */
	long at;   /* entries that were read of both */
};

static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list *lists;
static unsigned lists_n; /* atomic */

static void lists_take(void) { pthread_mutex_lock(&lists_lock); }
static void lists_give(void) { pthread_mutex_unlock(&lists_lock); }
__attribute__((constructor)) static void lists_begin(void) { pthread_atfork(lists_take, lists_give, lists_give); }

static struct list *list_find(DIR *dir)
{
	struct list *l;

	if (!__atomic_load_n(&lists_n, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&lists_lock);
	for (l = lists; l && l->dir != dir; l = l->next)
		;
	pthread_mutex_unlock(&lists_lock);
	return l;
}

/* Without memory the directory is shown as it is. */
static DIR *list_add(DIR *dir, const struct place *p)
{
	bool nodes = p->ours && !strncmp(p->seen, "/dev/", 5);
	struct list *l = dir && (p->way || nodes) ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return dir;
	l->dir = dir;
	l->more = p->way ? real()->opendir(p->full) : NULL;
	if (p->way && !l->more) {
		free(l);
		return dir;
	}
	pthread_mutex_lock(&lists_lock);
	l->next = lists;
	lists = l;
	__atomic_add_fetch(&lists_n, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lists_lock);
	return dir;
}

static void list_drop(DIR *dir)
{
	struct list **at, *l;

	if (!list_find(dir))
		return;
	pthread_mutex_lock(&lists_lock);
	for (at = &lists; (l = *at) && l->dir != dir; at = &l->next)
		;
	if (l) {
		*at = l->next;
		__atomic_sub_fetch(&lists_n, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lists_lock);
	if (l && l->more)
		real()->closedir(l->more);
	free(l);
}

EXPORT DIR *opendir(const char *path)
{
	struct place p;
	DIR *dir = real()->opendir(place(&p, AT_FDCWD, path, true));

	return list_add(dir, &p);
}

EXPORT DIR *fdopendir(int fd)
{
	DIR *dir = real()->fdopendir(fd);
	struct place p;

	if (dir)
		place(&p, fd, ".", true);
	return dir ? list_add(dir, &p) : NULL;
}

EXPORT int closedir(DIR *dir)
{
	list_drop(dir);
	return real()->closedir(dir);
}

EXPORT void rewinddir(DIR *dir)
{
	struct list *l = list_find(dir);

	real()->rewinddir(dir);
	if (l && l->more)
		real()->rewinddir(l->more);
	if (l)
		l->at = 0;
}

EXPORT long telldir(DIR *dir)
{
	const struct list *l = list_find(dir);

	return l && l->more ? l->at : real()->telldir(dir);
}

/* Entries of two directories: from the first one on, as many as had been read. */
EXPORT void seekdir(DIR *dir, long to)
{
	struct list *l = list_find(dir);

	if (!l || !l->more) {
		real()->seekdir(dir, to);
		return;
	}
	rewinddir(dir);
	while (l->at < to && readdir(dir))
		;
}

/* The next entry of ours that the system has not; . and .. are ways, too. */
static struct dirent *list_more(const struct list *l)
{
	struct dirent *e;
	struct stat st;

	while ((e = real()->readdir(l->more))) {
		if (look(dirfd(l->more), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    (S_ISDIR(st.st_mode) && st.st_mode & TREE_WAY))
			continue;
		if (look(dirfd(l->dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			break;
	}
	return e;
}

EXPORT struct dirent *readdir(DIR *dir)
{
	struct list *l = list_find(dir);
	int err = errno;
	struct dirent *e;

	errno = 0;
	e = real()->readdir(dir);
	if (!e && errno)
		return NULL;
	if (l && l->more && !e)
		e = list_more(l);
	if (l && !l->more && e && e->d_type == DT_REG)
		e->d_type = DT_CHR;
	if (l && e)
		l->at++;
	errno = err;
	return e;
}

/* Of ours only one thread reads. */
EXPORT int readdir_r(DIR *dir, struct dirent *out, struct dirent **end)
{
	struct dirent *e;

	if (!list_find(dir))
		return real()->readdir_r(dir, out, end);
	errno = 0;
	e = readdir(dir);
	*end = e ? memcpy(out, e, e->d_reclen) : NULL;
	return e ? 0 : errno;
}

ALSO(readdir64, readdir);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
ALSO(readdir64_r, readdir_r);
#pragma GCC diagnostic pop

/* ---- scandir ------------------------------------------------------------------------------ */

typedef int (*keep_fn)(const struct dirent *);
typedef int (*order_fn)(const struct dirent **, const struct dirent **);

/* Reads all; false: no memory, or it cannot be read. */
static bool scan(DIR *dir, struct dirent ***names, size_t *n, keep_fn keep)
{
	struct dirent *e, **more;

	while (errno = 0, (e = readdir(dir))) {
		if (keep && !keep(e))
			continue;
		more = realloc(*names, (*n + 1) * sizeof(struct dirent *));
		if (!more)
			return false;
		*names = more;
		more[*n] = malloc(e->d_reclen);
		if (!more[*n])
			return false;
		memcpy(more[(*n)++], e, e->d_reclen);
	}
	return !errno;
}

static int by_order(const void *a, const void *b, void *order)
{
	return (*(order_fn *)order)((const struct dirent **)(void *)a, (const struct dirent **)(void *)b);
}

static int scan_ours(const char *full, const struct place *p, struct dirent ***out, keep_fn keep, order_fn order)
{
	DIR *dir = list_add(real()->opendir(full), p);
	struct dirent **names = NULL;
	int err = errno;
	size_t n = 0;
	bool good;

	if (!dir)
		return -1;
	good = scan(dir, &names, &n, keep);
	err = good ? err : errno;
	closedir(dir);
	if (!good) {
		while (n)
			free(names[--n]);
		free(names);
		return fail(err);
	}
	if (order && n)
		qsort_r(names, n, sizeof(struct dirent *), by_order, &order);
	*out = names ? names : calloc(1, sizeof(struct dirent *));
	errno = err;
	return (int)n;
}

EXPORT int scandirat(int dirfd, const char *path, struct dirent ***out, keep_fn keep, order_fn order)
{
	struct place p;
	const char *at = place(&p, dirfd, path, true);

	if (p.ours || p.way)
		return scan_ours(p.ours ? at : *p.seen ? p.seen : "/", &p, out, keep, order);
	return real()->scandirat(dirfd, at, out, keep, order);
}

EXPORT int scandir(const char *path, struct dirent ***out, keep_fn keep, order_fn order)
{
	return scandirat(AT_FDCWD, path, out, keep, order);
}

ALSO(scandirat64, scandirat);
ALSO(scandir64, scandir);

/* ---- glob: the C library's, with our calls ----------------------------------------------- */

static void *glob_opendir(const char *path) { return opendir(path); }
static struct dirent *glob_readdir(void *dir) { return readdir(dir); }
static void glob_closedir(void *dir) { closedir(dir); }

EXPORT int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *g)
{
	int ret;

	if (flags & GLOB_ALTDIRFUNC)
		return real()->glob(pattern, flags, error, g);
	g->gl_opendir = glob_opendir;
	g->gl_readdir = glob_readdir;
	g->gl_closedir = glob_closedir;
	g->gl_lstat = lstat;
	g->gl_stat = stat;
	ret = real()->glob(pattern, flags | GLOB_ALTDIRFUNC, error, g);
	g->gl_flags &= ~GLOB_ALTDIRFUNC;
	return ret;
}

ALSO(glob64, glob);
