/* SPDX-License-Identifier: MIT */
/*
 * install.c - where the library and the daemon are, and the environment that makes a program use them.
 *
 *     build tree      <build>/rdmad-run  <build>/rdmad          <build>/lib/verbs/.libs/libibverbs.so.1
 *     installed       $bindir/rdmad-run  $sbindir/rdmad         $pkglibdir/libibverbs.so.1
 *     staged          the same three with one more directory in front ($DESTDIR, a copied image)
 *
 * Two variables are needed, because neither does it alone.  LD_LIBRARY_PATH serves dlopen("libibverbs.so") but loses
 * to a DT_RPATH in the program; LD_PRELOAD comes before everything, and by its SONAME also
 * answers every later request for libibverbs.so.1, but not a dlopen() by another name.
 */
#include "config.h"

#include "run.h"
#include "say.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIB_NAME "libibverbs.so.1"

static bool join(char out[PATH_MAX], const char *a, const char *b, const char *c)
{
	return snprintf(out, PATH_MAX, "%s%s%s", a, b, c) < PATH_MAX;
}

/* Takes the last component off the path, which stays without a slash at its end. */
static char *path_cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return path;
	*slash = '\0';
	return slash + 1;
}

static bool lib_is_in(const char *dir)
{
	char lib[PATH_MAX];

	return join(lib, dir, "/", LIB_NAME) && access(lib, R_OK) == 0;
}

/* The directory of this very program; libtool keeps the true one in .libs behind a wrapper script. */
static bool own_dir(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);

	if (n < 0) {
		say("cannot read /proc/self/exe: %s. Is /proc mounted?", strerror(errno));
		return false;
	}
	dir[n] = '\0';
	path_cut(dir);
	n = (ssize_t)strlen(dir);
	if (n >= 6 && !strcmp(dir + n - 6, "/.libs"))
		path_cut(dir);
	return true;
}

static bool daemon_find(struct install *p, const char *dir, const char *stage)
{
	if (join(p->daemon, dir, "/", "rdmad") && access(p->daemon, X_OK) == 0)
		return true;
	return join(p->daemon, stage, RUN_SBINDIR, "/rdmad") && access(p->daemon, X_OK) == 0;
}

static bool cm_find(struct install *p, const char *dir)
{
	char lib[PATH_MAX];

	if (!join(p->cm_dir, dir, "/lib/rdmacm/.libs", "") || !join(lib, p->cm_dir, "/", "librdmacm.so.1"))
		return false;
	if (access(lib, R_OK))
		p->cm_dir[0] = '\0'; /* a build of libibverbs only */
	return true;
}

/* A library to be preloaded; empty: not there. */
static void extra_find(char lib[PATH_MAX], const char *dir, const char *name)
{
	if (!join(lib, dir, name, "") || access(lib, R_OK))
		lib[0] = '\0';
}

bool install_find(struct install *p)
{
	char dir[PATH_MAX], stage[PATH_MAX] = "";
	size_t n, bin_n = strlen(RUN_BINDIR);

	p->cm_dir[0] = '\0';
	if (!own_dir(dir))
		return false;
	if (!join(p->ctl, dir, "/", "rdmactl"))
		return false;
	if (!daemon_find(p, dir, ""))
		p->daemon[0] = '\0'; /* hold.c complains, if one is needed */
	if (join(p->lib_dir, dir, "/lib/verbs/.libs", "") && lib_is_in(p->lib_dir)) {
		extra_find(p->rs_lib, dir, "/lib/rspreload/.libs/librspreload.so");
		extra_find(p->tree_lib, dir, "/lib/treepreload/.libs/librdmad-tree.so");
		extra_find(p->call_lib, dir, "/lib/callpreload/.libs/librdmad-calls.so");
		return join(p->tool_dir, dir, "/run", "") && join(p->lab_dir, dir, "/contrib/labs", "") &&
		       join(p->lesson, p->lab_dir, "/rdmad-lesson", "") && cm_find(p, dir);
	}
	n = strlen(dir);
	if (n >= bin_n && !strcmp(dir + n - bin_n, RUN_BINDIR)) {
		memcpy(stage, dir, n - bin_n);
		stage[n - bin_n] = '\0';
	}
	if (join(p->lib_dir, stage, RUN_PKGLIBDIR, "") && lib_is_in(p->lib_dir)) {
		if (*stage && !daemon_find(p, dir, stage))
			p->daemon[0] = '\0';
		extra_find(p->rs_lib, p->lib_dir, "/librspreload.so");
		extra_find(p->tree_lib, p->lib_dir, "/librdmad-tree.so");
		extra_find(p->call_lib, p->lib_dir, "/librdmad-calls.so");
		return join(p->tool_dir, p->lib_dir, "", "") && join(p->lab_dir, stage, RUN_PKGDATADIR, "/labs") &&
		       join(p->lesson, p->lib_dir, "/rdmad-lesson", "");
	}
	say("there is no %s in %s, nor in %s/lib/verbs/.libs: rdmad is not completely built (make) or installed "
	    "(make install)",
	    LIB_NAME, RUN_PKGLIBDIR, dir);
	return false;
}

/* ---- the environment --------------------------------------------------------- */

/* Does list, whose entries are separated by any of the given characters, hold the entry already? */
static bool list_has(const char *list, const char *seps, const char *entry)
{
	size_t n = strlen(entry);

	while (list && *list) {
		size_t len = strcspn(list, seps);

		if (len == n && !memcmp(list, entry, n))
			return true;
		list += len + (list[len] != '\0');
	}
	return false;
}

/* Takes the entry out; whether it was there. */
static bool list_drop(char *list, const char *seps, const char *entry)
{
	size_t n = strlen(entry);
	bool had = false;

	for (char *at = list; *at;) {
		size_t len = strcspn(at, seps), all = len + (at[len] != '\0');

		if (len == n && !memcmp(at, entry, n)) {
			had = true;
			memmove(at, at + all, strlen(at + all) + 1);
		} else {
			at += all;
		}
	}
	for (n = strlen(list); n && strchr(seps, list[n - 1]);)
		list[--n] = '\0';
	return had;
}

/* A new string: a, b and c with colons between them, without those that are empty. */
static char *list_make(const char *a, const char *b, const char *c)
{
	const char *part[] = { a, b, c };
	char *out = calloc(1, strlen(a) + strlen(b) + strlen(c) + 3);

	if (!out)
		abort();
	for (unsigned i = 0; i < 3; i++) {
		if (*out && *part[i])
			strcat(out, ":");
		strcat(out, part[i]);
	}
	return out;
}

static const char *getenv_or_empty(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static int runtime_find(struct dl_phdr_info *info, size_t, void *out)
{
	if (strstr(info->dlpi_name, "/libasan.so") || strstr(info->dlpi_name, "/libtsan.so"))
		*(const char **)out = info->dlpi_name;
	return 0;
}
#endif

/* The run-time of the sanitizer that the library, or the program if it is known, was built with: it has to be loaded first. */
static const char *sanitizer(const char *program)
{
	static char name[PROG_LIB_LEN];
	const char *path = program && prog_runtime(program, name) ? name : "";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	dl_iterate_phdr(runtime_find, &path);
#endif
	return path;
}

/* The directory of libibverbs, and in a build tree that of librdmacm, too. */
static char *library_path(const struct install *p)
{
	const char *old = getenv_or_empty("LD_LIBRARY_PATH");

	return list_make(list_has(old, ":;", p->lib_dir) ? "" : p->lib_dir,
			 list_has(old, ":;", p->cm_dir) ? "" : p->cm_dir, old);
}

/*
 * Libraries that the user preloads stay in front of ours: they may want to see the calls.  Ours have an order, also where another
 * rdmad-run has preloaded some: libibverbs in front of the one that looks at its calls would hide them from it.
 */
static char *preload(const struct install *p, const struct options *opt, const char *program)
{
	const char *san = sanitizer(program);
	char lib[PATH_MAX], *all = list_make("", "", getenv_or_empty("LD_PRELOAD")), *longer;
	const struct {
		const char *path;
		bool wanted;
	} ours[] = { { p->rs_lib, opt->rsockets },
		     { p->tree_lib, opt->sysfs == SYSFS_PRELOAD },
		     { p->call_lib, opt->check || opt->trace },
		     { lib, true } };
	bool has[sizeof(ours) / sizeof(ours[0])];

	if (!join(lib, p->lib_dir, "/", LIB_NAME))
		lib[0] = '\0';
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		has[i] = *ours[i].path && (list_drop(all, ": ", ours[i].path) || ours[i].wanted);
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (!has[i])
			continue;
		longer = list_make(list_has(all, ": ", san) ? "" : san, all, ours[i].path);
		free(all);
		all = longer;
	}
	return all;
}

/* LD_PRELOAD has no way to quote its separators. */
static bool preloadable(const char *path) { return !strpbrk(path, " :;"); }

bool preload_can(const char *option, const char *lib, const char *name)
{
	if (!*lib)
		say("%s: there is no %s beside libibverbs.so.1: make it, or install all of rdmad", option, name);
	else if (!preloadable(lib))
		say("%s: the dynamic loader cannot preload a library with a space, : or ; in its path (%s)", option,
		    lib);
	return *lib && preloadable(lib);
}

void env_set(const struct install *p, const struct options *opt, const char *socket, const char *program)
{
	char *path = library_path(p), *pre = preload(p, opt, program);

	if (strpbrk(p->lib_dir, ":;"))
		say("warning: the dynamic loader cannot search %s, for the : or ; in its name", p->lib_dir);
	if (setenv("LD_LIBRARY_PATH", path, 1) || (preloadable(p->lib_dir) && setenv("LD_PRELOAD", pre, 1)) ||
	    setenv("RDMAD_SOCKET", socket, 1))
		abort();
	free(path);
	free(pre);
}

static void print_export(const char *name, const char *value)
{
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
}

bool env_print(const struct install *p, const struct options *opt)
{
	char *path = library_path(p), *pre = preload(p, opt, NULL);

	print_export("LD_LIBRARY_PATH", path);
	if (preloadable(p->lib_dir))
		print_export("LD_PRELOAD", pre);
	if (opt->socket)
		print_export("RDMAD_SOCKET", opt->socket);
	free(path);
	free(pre);
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	say("--env: cannot write: %s", strerror(errno));
	return false;
}
