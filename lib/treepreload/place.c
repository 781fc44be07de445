/* SPDX-License-Identifier: MIT */
/*
 * place.c - from the path that a program names to where that is.
 *
 * The path is walked as the kernel does, component by component, in what is seen: the system's files, and ours in their
 * midst.  So links and .. lead out of our files and back into them.
 */
#include "pre.h"

#include <rdmad/tree.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum { LINKS_MAX = 40 }; /* as the kernel's */

enum kind { SYSTEM, WAY, OURS };

/* The directory, without a slash at its end; empty: there is none. */
static char root[256];
static size_t root_n;
static bool root_known;

int look(int dirfd, const char *path, struct stat *st, int flags)
{
	return (int)syscall(SYS_newfstatat, dirfd, path, st, flags);
}

static bool root_there(void)
{
	const char *env;

	if (!__atomic_load_n(&root_known, __ATOMIC_ACQUIRE)) {
		if (!environ) /* the C library is not ready: the program's .preinit_array */
			return false;
		env = getenv(TREE_ENV);
		if (env && *env == '/' && strlen(env) < sizeof(root)) {
			memcpy(root, env, strlen(env) + 1);
			root_n = strlen(env);
		}
		__atomic_store_n(&root_known, true, __ATOMIC_RELEASE);
	}
	return root_n > 0;
}

bool place_may_hide(const char *path, size_t n)
{
	return root_there() && !strncmp(path, root, n < root_n ? n : root_n);
}

__attribute__((constructor)) static void root_look(void) { root_there(); }

/* A way that is named, open or the current directory is none: who deletes the directory's files must not be led out of it. */
size_t place_hidden(const char *path)
{
	int err = errno;
	struct stat st;
	bool way;

	if (!root_there() || strncmp(path, root, root_n) || path[root_n] != '/')
		return 0;
	way = !look(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) && st.st_mode & TREE_WAY;
	errno = err;
	return way ? 0 : root_n;
}

/* ---- does it lead there at all? ------------------------------------------------- */

struct texts {
	unsigned depth;
	const char *top; /* the first component, len long */
	size_t len;
};

static void texts_add(struct texts *t, const char *path)
{
	while (*(path += strspn(path, "/"))) {
		size_t n = strcspn(path, "/");

		if (n == 2 && !memcmp(path, "..", 2)) {
			t->depth -= t->depth > 0;
		} else if (n != 1 || *path != '.') {
			if (!t->depth++) {
				t->top = path;
				t->len = n;
			}
		}
		path += n;
	}
}

static bool is_near(const char *base, const char *path)
{
	struct texts t = { 0 };

	texts_add(&t, base);
	texts_add(&t, path);
	return t.depth && t.len == 3 && (!memcmp(t.top, "sys", 3) || !memcmp(t.top, "dev", 3));
}

/* The directory that a relative path begins at.  False: it has no name. */
static bool base_of(int dirfd, char base[PLACE_LEN])
{
	char link[32];
	long n;

	if (dirfd == AT_FDCWD) {
		n = syscall(SYS_getcwd, base, PLACE_LEN - 1) - 1;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
		n = syscall(SYS_readlinkat, AT_FDCWD, link, base, PLACE_LEN - 1);
	}
	base[n < 0 ? 0 : n] = 0;
	return *base == '/';
}

/* ---- the walk ---------------------------------------------------------------------- */

struct walk {
	struct place *p;
	size_t n; /* length of p->full */
	enum kind kind;
	struct stat st;       /* of what is there, unless kind is WAY; st_mode 0: nothing */
	bool led;             /* ours was on the way: the kernel cannot walk it */
	bool none;            /* the directory is not what rdmad-run has made */
	char rest[PLACE_LEN]; /* components to go */
	unsigned links;
};

static bool walk_add(struct walk *w, const char *name, size_t n)
{
	if (w->n + n + 1 >= sizeof(w->p->full))
		return false;
	w->p->full[w->n] = '/';
	memcpy(w->p->full + w->n + 1, name, n);
	w->n += n + 1;
	w->p->full[w->n] = 0;
	return true;
}

/* The directory itself, or dev or sys in it: these are ways. */
static bool is_top(const struct walk *w) { return w->n == root_n || !strchr(w->p->seen + 1, '/'); }

/* Looks at what is there; parent is of the directory that it is in. */
static void walk_look(struct walk *w, enum kind parent)
{
	bool have = !w->none && !look(AT_FDCWD, w->p->full, &w->st, AT_SYMLINK_NOFOLLOW);

	if (have && is_top(w) && !(w->st.st_mode & TREE_WAY)) {
		w->none = true;
		have = false;
	}
	if (have)
		w->kind = S_ISDIR(w->st.st_mode) && w->st.st_mode & TREE_WAY ? WAY : OURS;
	else
		w->kind = parent == OURS ? OURS : SYSTEM;
	if (w->kind == SYSTEM)
		have = w->n > root_n && !look(AT_FDCWD, w->p->seen, &w->st, AT_SYMLINK_NOFOLLOW);
	if (!have)
		w->st.st_mode = 0;
	w->led |= w->kind == OURS;
}

static void walk_up(struct walk *w)
{
	while (w->n > root_n && w->p->full[--w->n] != '/')
		;
	w->p->full[w->n] = 0;
	walk_look(w, SYSTEM);
}

/* In the place of the link that was just walked: what it says. */
static bool walk_link(struct walk *w)
{
	char text[PLACE_LEN];
	const char *at = w->kind == OURS ? w->p->full : w->p->seen;
	long n = syscall(SYS_readlinkat, AT_FDCWD, at, text, sizeof(text));
	size_t rest = strlen(w->rest);

	if (n <= 0 || (size_t)n + rest + 2 > sizeof(w->rest) || ++w->links > LINKS_MAX)
		return false;
	memmove(w->rest + n + 1, w->rest, rest + 1);
	memcpy(w->rest, text, (size_t)n);
	w->rest[n] = '/';
	if (*text == '/') {
		w->n = root_n;
		w->p->full[w->n] = 0;
		walk_look(w, SYSTEM);
	} else {
		walk_up(w);
	}
	return true;
}

/* False: too long, or a link that cannot be followed; the kernel will say so. */
static bool walk(struct walk *w, bool follow)
{
	char *at = w->rest;

	while (*(at += strspn(at, "/"))) {
		size_t n = strcspn(at, "/");
		char *name = at;
		bool more;

		at += n;
		more = at[strspn(at, "/")];
		if (n == 1 && *name == '.')
			continue;
		if (n == 2 && !memcmp(name, "..", 2)) {
			walk_up(w);
			continue;
		}
		if (!walk_add(w, name, n))
			return false;
		walk_look(w, w->kind);
		if (w->kind == WAY || (!*at && !follow))
			continue;
		if (S_ISLNK(w->st.st_mode)) {
			memmove(w->rest, at, strlen(at) + 1);
			at = w->rest;
			if (!walk_link(w))
				return false;
		} else if (more && !S_ISDIR(w->st.st_mode)) {
			return walk_add(w, at + 1, strlen(at + 1)); /* nothing there, or no directory: no further */
		}
	}
	return true;
}

static const char *walked(struct walk *w, const char *path, bool follow)
{
	struct place *p = w->p;
	size_t n = strlen(path);

	if (n >= sizeof(w->rest))
		return path;
	memcpy(w->rest, path, n + 1);
	walk_look(w, SYSTEM);
	if (!walk(w, follow))
		return path;
	p->ours = w->kind == OURS;
	p->way = w->kind == WAY;
	if (!p->ours && !w->led)
		return path;
	/* A slash at the end asks for a directory. */
	if (path[n - 1] == '/' && w->n < sizeof(p->full) - 1 && p->full[w->n - 1] != '/' && !S_ISDIR(w->st.st_mode))
		memcpy(p->full + w->n, "/", 2);
	return p->ours ? p->full : *p->seen ? p->seen : "/";
}

/* Some kilobytes of stack, which a handler may not have. */
__attribute__((noinline)) static const char *place_walked(struct place *p, int dirfd, const char *path, bool follow)
{
	struct walk w = { .p = p };
	const char *base = "", *at = path;
	char text[PLACE_LEN];
	int err = errno;
	size_t hidden = 0, n;

	if (*path != '/') {
		if (!base_of(dirfd, text)) {
			errno = err;
			return path;
		}
		hidden = place_hidden(text);
		base = text + hidden;
	}
	n = strlen(base);
	if ((hidden || is_near(base, path)) && root_n + n < sizeof(p->full)) {
		memcpy(p->full, root, root_n);
		memcpy(p->full + root_n, base, n + 1);
		p->seen = p->full + root_n;
		w.n = root_n + (n > 1 ? n : 0); /* the base may be / */
		p->full[w.n] = 0;
		w.led = hidden;
		at = walked(&w, path, follow);
	}
	errno = err;
	return at;
}

bool place_is_other(const char *path)
{
	return !path || !*path || !root_there() || (*path == '/' && !is_near("", path));
}

const char *place(struct place *p, int dirfd, const char *path, bool follow)
{
	p->ours = p->way = false;
	return place_is_other(path) ? path : place_walked(p, dirfd, path, follow);
}

/* ---- devices ------------------------------------------------------------------------ */

dev_t node_number(const char *full)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, full, O_RDONLY | O_CLOEXEC), err = errno;
	unsigned part[2] = { 0 }, i = 0;
	char text[32];
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		syscall(SYS_close, fd);
	for (ssize_t k = 0; k < n && i < 2; k++) {
		if (text[k] >= '0' && text[k] <= '9')
			part[i] = part[i] * 10 + (unsigned)(text[k] - '0');
		else
			i++;
	}
	errno = err;
	return makedev(part[0], part[1]);
}

bool place_is_node(const struct place *p) { return p->ours && !strncmp(p->seen, "/dev/", 5) && node_number(p->full); }
