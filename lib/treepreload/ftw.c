/* SPDX-License-Identifier: MIT */
/* ftw.c - walks of our files: the C library walks where they are, and the program hears where they are seen. */
#include "pre.h"

typedef int (*ftw_fn)(const char *, const struct stat *, int);
typedef int (*nftw_fn)(const char *, const struct stat *, int, struct FTW *);

/* The program's function can begin another walk. */
struct seen_as {
	ftw_fn ftw;
	nftw_fn nftw;
	const char *name; /* as the program has named the directory: so many bytes in the place of cut */
	size_t name_n, cut;
};
static __thread struct seen_as now;

static int told(const char *full, const struct stat *st, int type, struct FTW *where)
{
	char name[PATH_MAX];
	struct FTW w = where ? *where : (struct FTW){ 0 };
	struct stat shown = *st;
	struct place p;

	snprintf(name, sizeof(name), "%.*s%s", (int)now.name_n, now.name, full + now.cut);
	w.base += (int)now.name_n - (int)now.cut;
	if (type != FTW_NS) {
		size_t hidden = place_hidden(full);

		p.ours = hidden;
		p.seen = full + hidden;
		snprintf(p.full, sizeof(p.full), "%s", full);
		node_show(&p, &shown);
	}
	return now.nftw ? now.nftw(name, &shown, type, &w) : now.ftw(name, &shown, type);
}

static int told_ftw(const char *full, const struct stat *st, int type) { return told(full, st, type, NULL); }

static size_t without_slashes(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return n;
}

static int walk(const char *path, struct seen_as as, int depth, int flags)
{
	struct seen_as before = now;
	struct place p;
	const char *at = place(&p, AT_FDCWD, path, !(flags & FTW_PHYS));
	int ret;

	if (!p.ours)
		return as.nftw ? real()->nftw(at, as.nftw, depth, flags) : real()->ftw(at, as.ftw, depth);
	as.name = path;
	as.name_n = without_slashes(path);
	as.cut = without_slashes(at);
	now = as;
	ret = as.nftw ? real()->nftw(at, told, depth, flags) : real()->ftw(at, told_ftw, depth);
	now = before;
	return ret;
}

EXPORT int ftw(const char *path, ftw_fn fn, int depth) { return walk(path, (struct seen_as){ .ftw = fn }, depth, 0); }

EXPORT int nftw(const char *path, nftw_fn fn, int depth, int flags)
{
	return walk(path, (struct seen_as){ .nftw = fn }, depth, flags);
}

ALSO(ftw64, ftw);
ALSO(nftw64, nftw);
