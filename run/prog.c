/* SPDX-License-Identifier: MIT */
/*
 * prog.c - looks at the program before anything is started for it.
 *
 * The loader takes no library from the environment into a statically linked program, into one of another
 * word size, or into one that runs with more rights than its caller (setuid; AT_SECURE).  Such
 * a program runs, but without rdmad: the user is warned of that.  The loader of another C library finds that it cannot load ours,
 * and may end.  The run-time of AddressSanitizer ends a program that has another library in front of it.
 */
#include "config.h"

#include "run.h"
#include "say.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* ---- what the file says of itself ----------------------------------------------- */

struct image {
	const char *p;
	size_t len;
};

static const void *image_at(const struct image *m, uint64_t off, uint64_t len)
{
	return off <= m->len && len <= m->len - off && !(off % _Alignof(uint64_t)) ? m->p + off : NULL;
}

static const Elf64_Phdr *image_ph(const struct image *m)
{
	const Elf64_Ehdr *eh = image_at(m, 0, sizeof(*eh));

	if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh->e_phentsize != sizeof(Elf64_Phdr))
		return NULL;
	return image_at(m, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr));
}

static bool image_map(struct image *m, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return false;
	m->len = !fstat(fd, &st) && st.st_size > 0 ? (size_t)st.st_size : 0;
	m->p = m->len ? mmap(NULL, m->len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	close(fd);
	return m->p != MAP_FAILED;
}

static void image_unmap(struct image *m) { munmap((void *)(uintptr_t)m->p, m->len); }

static unsigned image_ph_n(const struct image *m) { return ((const Elf64_Ehdr *)(const void *)m->p)->e_phnum; }

/* The loader that the program names, or NULL. */
static const char *image_loader(const struct image *m)
{
	const Elf64_Phdr *ph = image_ph(m);

	for (unsigned i = 0; ph && i < image_ph_n(m); i++)
		if (ph[i].p_type == PT_INTERP && ph[i].p_offset < m->len && ph[i].p_filesz &&
		    ph[i].p_filesz <= m->len - ph[i].p_offset)
			return m->p[ph[i].p_offset + ph[i].p_filesz - 1] ? NULL : m->p + ph[i].p_offset;
	return NULL;
}

static bool same_name(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');

	return !strcmp(x ? x + 1 : a, y ? y + 1 : b);
}

/* Its loader is not, by name, the one of rdmad, wherever it lies. */
static void loader_warn(const char *path)
{
	const char *its, *ours;
	struct image program, self;

	if (!image_map(&program, path))
		return;
	if (image_map(&self, "/proc/self/exe")) {
		its = image_loader(&program);
		ours = image_loader(&self);
		if (its && ours && !same_name(its, ours))
			say("warning: %s is for another C library or machine than rdmad: its loader, %s, "
			    "cannot load our libraries, and may end over them",
			    path, its);
		image_unmap(&self);
	}
	image_unmap(&program);
}

/* ---- libraries that it needs --------------------------------------------------- */

/* The strings of the dynamic section begin at this address; up to the end of the file.  NULL: they are not in it. */
static const char *image_strings(const struct image *m, uint64_t addr, size_t *len)
{
	const Elf64_Phdr *ph = image_ph(m);

	for (unsigned i = 0; i < image_ph_n(m); i++) {
		uint64_t off = addr - ph[i].p_vaddr + ph[i].p_offset;

		if (ph[i].p_type == PT_LOAD && addr >= ph[i].p_vaddr && addr - ph[i].p_vaddr < ph[i].p_filesz &&
		    off < m->len) {
			*len = m->len - off;
			return m->p + off;
		}
	}
	return NULL;
}

/* Is it one of these names, whatever its version? */
static bool is_one(const char *s, size_t len, const char *const *names)
{
	for (; *names; names++)
		if (len > strlen(*names) && !memcmp(s, *names, strlen(*names)))
			return memchr(s, '\0', len);
	return false;
}

static const char *dynamic_needs(const struct image *m, const Elf64_Dyn *d, size_t n, const char *const *names)
{
	const char *strings = NULL;
	size_t len = 0;

	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
		if (d[i].d_tag == DT_STRTAB)
			strings = image_strings(m, d[i].d_un.d_ptr, &len);
	for (size_t i = 0; strings && i < n && d[i].d_tag != DT_NULL; i++)
		if (d[i].d_tag == DT_NEEDED && d[i].d_un.d_val < len &&
		    is_one(strings + d[i].d_un.d_val, len - d[i].d_un.d_val, names))
			return strings + d[i].d_un.d_val;
	return NULL;
}

static const char *image_needs(const struct image *m, const char *const *names)
{
	const Elf64_Phdr *ph = image_ph(m);

	for (unsigned i = 0; ph && i < image_ph_n(m); i++)
		if (ph[i].p_type == PT_DYNAMIC) {
			const Elf64_Dyn *d = image_at(m, ph[i].p_offset, ph[i].p_filesz);

			return d ? dynamic_needs(m, d, ph[i].p_filesz / sizeof(*d), names) : NULL;
		}
	return NULL;
}

static bool needs(const char *program, const char *const *names, char name[PROG_LIB_LEN])
{
	const char *found;
	char path[PATH_MAX];
	struct image m;

	*name = '\0';
	if (search(program, path) || !image_map(&m, path))
		return false;
	found = image_needs(&m, names);
	if (found)
		snprintf(name, PROG_LIB_LEN, "%s", found);
	image_unmap(&m);
	return *name;
}

bool prog_runtime(const char *program, char name[PROG_LIB_LEN])
{
	static const char *const names[] = { "libasan.so.", "libclang_rt.asan", NULL };

	return needs(program, names, name);
}

bool prog_pci(const char *program)
{
	static const char *const names[] = { "libpci.so.", NULL };
	char name[PROG_LIB_LEN];

	return needs(program, names, name);
}

int prog_check(const char *name, const char *bare)
{
	char path[PATH_MAX];
	const char *why;

	switch (search(name, path)) {
	case 0: break;
	case ENOENT:
	case ENOTDIR:
		say("%s: no such program%s", name, strchr(name, '/') ? "" : " in $PATH. Is its package installed?");
		if (bare)
			say("if it is the value of --%s: --%s=%s", bare, bare, name);
		return RUN_NOT_FOUND;
	default:
		say("%s is there, but cannot be executed (a directory, or chmod +x is missing)", path);
		return RUN_NOT_EXECUTABLE;
	}
	why = obstacle(path);
	if (why)
		say("warning: %s %s, so the dynamic loader gives it no library of ours: it will not see rdmad", path,
		    why);
	else
		loader_warn(path);
	return 0;
}

static void (*size_signal)(int) = SIG_DFL;

void prog_sizes(void) { size_signal = signal(SIGXFSZ, SIG_IGN); }

int prog_become(char **argv)
{
	int err;

	signal(SIGXFSZ, size_signal);
	execvp(argv[0], argv);
	err = errno; /* of one that prog_check() has found */
	say("cannot run %s: %s", argv[0],
	    err == ENOENT ? "the interpreter or loader that it names is not there (its first line, or readelf -l)"
			  : strerror(err));
	return err == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}
