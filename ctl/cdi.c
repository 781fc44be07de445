/* SPDX-License-Identifier: MIT */
/*
 * cdi.c - `rdmactl cdi`: a specification of the Container Device Interface.  A container that asks for the device rdmad/hca=all has
 * the libraries, the daemon's socket and, if there is one, the tree of the devices' files.
 *
 *	here					in the container
 *	directory of the daemon's socket	/run/rdmad
 *	libibverbs.so.1 and the others		/usr/lib/rdmad
 *	$RDMAD_TREE (rdmad-run --sysfs)		/run/rdmad-tree
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/tree.h>

#include "command.h"
#include "daemon.h"
#include "show.h"

#define LIB_DIR  "/usr/lib/rdmad"
#define TREE_DIR "/run/rdmad-tree"
#define MARK     "rdmad" /* in each of our libraries, and in no other's */
#define LIB_MOST (8u << 20)

struct options {
	const char *output; /* NULL: standard output */
	const char *libs, *tree;
};

static void usage(void)
{
	fputs("usage: rdmactl [-s SOCKET] cdi [options]\n"
	      "Write a specification for podman, docker, Kubernetes: a container with the device rdmad/hca=all has\n"
	      "the libraries, socket and files.\n"
	      "  -o, --output FILE   to this file, such as /etc/cdi/rdmad.json, instead of standard output\n"
	      "  -l, --libs DIR      the libraries are there, rather than where rdmad-run or the installation\n"
	      "                      has them\n"
	      "  -t, --tree DIR      the files of the devices; within rdmad-run --sysfs=preload that is $" TREE_ENV
	      "\n",
	      stdout);
}

/* ---- the libraries ------------------------------------------------------------------- */

static bool is_ours(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = malloc(LIB_MOST);
	size_t n = f && text ? fread(text, 1, LIB_MOST, f) : 0;
	bool found = n && memmem(text, n, MARK, strlen(MARK));

	if (f)
		fclose(f);
	free(text);
	return found;
}

static char *lib_at(const char *dir, size_t len, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, name) < (int)sizeof(path) && is_ours(path)
		       ? realpath(path, NULL)
		       : NULL;
}

/* The library in a list with colons or blanks between: of directories, or of files that it lies beside.  NULL. */
static char *lib_in(const char *list, const char *name)
{
	char *found = NULL;
	const char *slash;
	size_t n;

	for (const char *p = list; p && *p && !found; p += n + (p[n] != 0)) {
		n = strcspn(p, ": ");
		slash = memrchr(p, '/', n);
		found = lib_at(p, n, name);
		if (!found && slash)
			found = lib_at(p, (size_t)(slash - p), name);
	}
	return found;
}

static char *lib_find(const struct options *opt, const char *name)
{
	char *path = opt->libs ? lib_in(opt->libs, name) : lib_in(getenv("LD_PRELOAD"), name);

	if (!path && !opt->libs)
		path = lib_in(getenv("LD_LIBRARY_PATH"), name);
	return path || opt->libs ? path : lib_in(CTL_PKGLIBDIR, name);
}

/* ---- edits of the container ---------------------------------------------------------- */

static bool put(json_t *list, json_t *what, const char *name)
{
	if (!json_array_append_new(list, what))
		return true;
	fprintf(stderr, "rdmactl: %s: a specification is UTF-8, and this name is not\n", name);
	return false;
}

static bool mount_add(json_t *edits, const char *from, const char *to)
{
	return put(json_object_get(edits, "mounts"),
		   json_pack("{s:s s:s s:[ssss]}", "hostPath", from, "containerPath", to, "options", "ro", "nosuid",
			     "nodev", "rbind"),
		   from);
}

static bool env_add(json_t *edits, const char *name, const char *value)
{
	return put(json_object_get(edits, "env"), json_sprintf("%s=%s", name, value), value);
}

static bool libs_add(json_t *edits, const struct options *opt, bool tree)
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1", "librspreload.so",
					     "librdmad-tree.so" };
	char to[64], *path;
	bool needed, good = true;

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		path = lib_find(opt, names[i]);
		needed = i == 0 || (i == 3 && tree);
		if (!path && needed) {
			fprintf(stderr,
				"rdmactl: there is no %s of rdmad in %s; name its directory with --libs, or run this "
				"inside rdmad-run\n",
				names[i], opt->libs ? opt->libs : CTL_PKGLIBDIR);
			return false;
		}
		snprintf(to, sizeof(to), LIB_DIR "/%s", names[i]);
		good = good && (!path || mount_add(edits, path, to));
		free(path);
	}
	return good && env_add(edits, "LD_LIBRARY_PATH", LIB_DIR) &&
	       env_add(edits, "LD_PRELOAD",
		       tree ? LIB_DIR "/librdmad-tree.so:" LIB_DIR "/libibverbs.so.1" : LIB_DIR "/libibverbs.so.1");
}

/* Its directory, since a daemon that starts anew makes a new socket. */
static bool socket_add(json_t *edits, const char *name)
{
	static const char *const shared[] = { "/", "/tmp", "/run", "/var/tmp", "/dev/shm" };
	char dir[PATH_MAX], in[PATH_MAX], *file = *name == '@' ? NULL : realpath(name, dir);
	bool good = true;

	if (!file) {
		fprintf(stderr,
			"rdmactl: %s: a container cannot reach this socket, which is no file; start the daemon with "
			"--socket DIRECTORY/rdmad.sock\n",
			name);
		return false;
	}
	file = strrchr(dir, '/');
	*file++ = 0;
	for (unsigned i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		good &= strcmp(*dir ? dir : "/", shared[i]) != 0;
	if (!good) {
		fprintf(stderr,
			"rdmactl: %s: a container would get all of its directory; start the daemon with a socket in a "
			"directory of its own\n",
			name);
		return false;
	}
	return mount_add(edits, dir, RDMAD_SYSTEM_DIR) &&
	       (snprintf(in, sizeof(in), RDMAD_SYSTEM_DIR "/%s", file) >= (int)sizeof(in) ||
		env_add(edits, "RDMAD_SOCKET", in));
}

static bool tree_add(json_t *edits, const char *tree)
{
	char path[PATH_MAX], class[PATH_MAX + 32];

	if (!realpath(tree, path)) {
		fprintf(stderr, "rdmactl: %s: %s\n", tree, strerror(errno));
		return false;
	}
	snprintf(class, sizeof(class), "%s/sys/class/infiniband", path);
	if (access(class, F_OK)) {
		fprintf(stderr,
			"rdmactl: %s has no files of devices; rdmad-run --sysfs=preload makes such a directory\n",
			tree);
		return false;
	}
	return mount_add(edits, path, TREE_DIR) && env_add(edits, TREE_ENV, TREE_DIR);
}

/* ---- the file ------------------------------------------------------------------------ */

/* For all users, and under another name first: who reads it sees all of it or none.  false: errno. */
static bool spec_replace(const json_t *spec, const char *output)
{
	char next[PATH_MAX];
	int err;

	if (snprintf(next, sizeof(next), "%s.next", output) >= (int)sizeof(next)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (!json_dump_file(spec, next, JSON_INDENT(2)) && !chmod(next, 0644) && !rename(next, output))
		return true;
	err = errno;
	unlink(next);
	errno = err;
	return false;
}

/* /dev/stdout and the like have nothing beside them. */
static bool is_special(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && !S_ISREG(st.st_mode);
}

static int spec_write(const json_t *spec, const char *output)
{
	if (!output || !strcmp(output, "-")) {
		json_dumpf(spec, stdout, JSON_INDENT(2));
		putchar('\n');
		return show_end();
	}
	if (is_special(output) ? !json_dump_file(spec, output, JSON_INDENT(2)) : spec_replace(spec, output))
		return 0;
	fprintf(stderr, "rdmactl: %s: %s\n", output, strerror(errno));
	return 1;
}

static int spec_make(const struct options *opt, const char *socket)
{
	json_t *edits = json_pack("{s:[] s:[]}", "env", "mounts");
	json_t *spec = json_pack("{s:s s:s s:[{s:s s:o}]}", "cdiVersion", "0.5.0", "kind", "rdmad/hca", "devices",
				 "name", "all", "containerEdits", edits);
	const char *tree = opt->tree ? opt->tree : getenv(TREE_ENV);
	bool good = socket_add(edits, socket) && (!tree || tree_add(edits, tree)) && libs_add(edits, opt, tree);
	int status = good ? spec_write(spec, opt->output) : 1;

	json_decref(spec);
	return status;
}

static int options_read(struct options *opt, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "libs", required_argument, NULL, 'l' },
		{ "tree", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "o:l:t:h", longs, NULL)) >= 0) {
		switch (c) {
		case 'o': opt->output = optarg; break;
		case 'l': opt->libs = optarg; break;
		case 't': opt->tree = optarg; break;
		case 'h': usage(); exit(0);
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	return optind < argc ? rdmactl_wrong(argv[0], "\"%s\" is one argument too many", argv[optind]) : 0;
}

int cdi_main(int argc, char **argv, const struct ask *ask)
{
	const char *env = getenv("RDMAD_SOCKET");
	const char *name = ask->socket ? ask->socket : env && *env ? env : RDMAD_SYSTEM_SOCKET;
	struct options opt = { 0 };
	int wrong = options_read(&opt, argc, argv), fd;

	if (wrong)
		return wrong;
	fd = daemon_open(ask->socket || name != env ? name : NULL); /* which says where the name is from */
	if (fd < 0)
		return 1;
	close(fd);
	return spec_make(&opt, name);
}
