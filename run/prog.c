/* SPDX-License-Identifier: MIT */
/*
 * prog.c - looks at the program before anything is started for it.
 *
 * The loader takes no library from the environment into a statically linked program, into one of another
 * word size, or into one that runs with more rights than its caller (setuid; AT_SECURE).  Such
 * a program runs, but without rdmad: the user is warned of that.
 */
#include "config.h"

#include "run.h"
#include "say.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* As execvp(3): a name with a slash is a path, others are searched for.  0 or errno, the file in path. */
static int search(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	int err = ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		if (access(name, F_OK))
			return errno;
		return access(name, X_OK) || !is_file(name) ? EACCES : 0;
	}
	if (!dirs)
		dirs = "/bin:/usr/bin";
	for (;;) {
		size_t len = strcspn(dirs, ":");

		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, dirs, len ? "/" : "./", name) < PATH_MAX &&
		    is_file(path)) {
			if (access(path, X_OK) == 0)
				return 0;
			err = EACCES;
		}
		if (!dirs[len])
			return err;
		dirs += len + 1;
	}
}

static bool has_interpreter(int fd, const Elf64_Ehdr *eh)
{
	Elf64_Phdr ph;

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph), (off_t)(eh->e_phoff + (Elf64_Off)i * eh->e_phentsize)) != sizeof(ph))
			return true;
		if (ph.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* Why the loader will not take our library, or NULL. */
static const char *obstacle(const char *path)
{
	const char *why = NULL;
	struct stat st;
	Elf64_Ehdr eh;
	int fd;

	if (stat(path, &st) == 0) {
		if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
		    (st.st_mode & S_ISGID && st.st_gid != getegid()))
			return "runs with the rights of another user or group (setuid, setgid)";
		if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
			return "runs with capabilities of its own (see getcap)";
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (read(fd, &eh, sizeof(eh)) == sizeof(eh) && !memcmp(eh.e_ident, ELFMAG, SELFMAG)) {
		if (eh.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
			why = "is of another word size than rdmad";
		else if (sizeof(void *) == 8 && !has_interpreter(fd, &eh))
			why = "is statically linked";
	}
	close(fd);
	return why;
}

int prog_check(const char *name)
{
	char path[PATH_MAX];
	const char *why;

	switch (search(name, path)) {
	case 0: break;
	case ENOENT:
	case ENOTDIR:
		say("%s: no such program%s", name, strchr(name, '/') ? "" : " in $PATH. Is its package installed?");
		return RUN_NOT_FOUND;
	default:
		say("%s is there, but cannot be executed (a directory, or chmod +x is missing)", path);
		return RUN_NOT_EXECUTABLE;
	}
	why = obstacle(path);
	if (why)
		say("warning: %s %s, so the dynamic loader gives it no library of ours: it will not see rdmad", path,
		    why);
	return 0;
}
