/* SPDX-License-Identifier: MIT */
/*
 * peer.c - whether a descriptor is what it should be, and whether the faster way may be taken.
 *
 * The kernel checks writes to some files of /proc by the rights of the writer, not of the one who opened them: so no
 * file but that of a memory is taken.  Names prove nothing, as anybody may mount anything anywhere in a namespace of
 * his own; and a question to the file system might never be answered (foreign.h).
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/magic.h>

#include "copier.h"
#include "foreign.h"
#include "quota.h"
#include "rights.h"

#define CAP_WORDS  2 /* of _LINUX_CAPABILITY_VERSION_3 */
#define MOUNTS_MAX 1000
#define STACK_MAPS 2    /* of a thread, with its guard */
#define UNREAD     4096 /* bytes */

static bool by_pid; /* a daemon that may reach its own user's programs by their pids */

/* ---- rights ---------------------------------------------------------------------------- */

static int caps_get(pid_t pid, struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = pid };

	return syscall(SYS_capget, &head, data) ? errno : 0;
}

/* Capabilities left in the permitted set give no access; but the kernel lets nobody reach a process that has more there. */
static int trace_none(bool own)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[CAP_WORDS];
	uint32_t bit = CAP_TO_MASK(CAP_SYS_PTRACE);
	int err = caps_get(0, data);

	if (err)
		return err;
	data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~bit;
	if (!own)
		data[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted &= ~bit;
	return syscall(SYS_capset, &head, data) ? errno : 0;
}

int peer_begin(bool own)
{
	by_pid = own;
	return trace_none(own);
}

/* That process may do whatever we may. */
static bool has_our_rights(pid_t pid)
{
	struct __user_cap_data_struct ours[CAP_WORDS], its[CAP_WORDS];

	if (caps_get(0, ours) || caps_get(pid, its))
		return false;
	for (unsigned i = 0; i < CAP_WORDS; i++)
		if (ours[i].permitted & ~its[i].permitted)
			return false;
	return true;
}

/* Asked at an address that nobody has: EFAULT if it may be asked at all. */
static bool kernel_lets(pid_t pid)
{
	char byte;
	struct iovec to = { &byte, 1 }, from = { (void *)(UINTPTR_MAX - 4095), 1 };

	return process_vm_readv(pid, &to, 1, &from, 1, 0) < 0 && errno == EFAULT;
}

/* ---- the kind of a descriptor ------------------------------------------------------------ */

/* The file that this process knows as /proc/PID/mem, now. */
static bool is_mem_of(int fd, pid_t pid)
{
	char path[64];
	dev_t dev, known_dev;
	ino_t ino, known_ino;
	int known, err;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	known = open(path, O_PATH | O_CLOEXEC);
	if (known < 0)
		return false;
	err = foreign_inode(known, &known_dev, &known_ino);
	close(known);
	return !err && !foreign_inode(fd, &dev, &ino) && dev == known_dev && ino == known_ino;
}

/* One line of mountinfo: a proc file system of that number? */
static bool is_proc_mount(const char *line, dev_t dev)
{
	const char *type = strstr(line, " - ");
	unsigned major, minor;

	return type && !strncmp(type + 3, "proc ", 5) && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
	       makedev(major, minor) == dev;
}

/* The kernel's list of what a process has mounted: is that a /proc in it? */
static bool has_proc(const char *list, dev_t dev)
{
	char *line = NULL;
	size_t room = 0;
	bool is = false;
	FILE *f = fopen(list, "re");

	if (!f)
		return false;
	for (unsigned i = 0; i < MOUNTS_MAX && !is && getline(&line, &room, f) > 0; i++)
		is = is_proc_mount(line, dev);
	free(line);
	fclose(f);
	return is;
}

/* Ours, as with hidepid there is no directory of another user's process; the client's, as a container has a /proc of its own. */
static bool on_proc(int fd, pid_t pid)
{
	char its[64];
	dev_t dev;
	ino_t ino;

	if (foreign_inode(fd, &dev, &ino))
		return false;
	snprintf(its, sizeof(its), "/proc/%d/mountinfo", (int)pid);
	return has_proc("/proc/self/mountinfo", dev) || (pid > 0 && has_proc(its, dev));
}

/* The question may wait for ever: it is put for a client of our own user only, who can stop us anyway. */
static bool on_proc_of_ours(int fd, uid_t uid)
{
	struct statfs fs;

	return uid == rights_owner() && fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Memory of ours that nothing can be read from; MAP_FAILED: there is none. */
static const void *unreadable(void)
{
	static void *page = MAP_FAILED;

	if (page == MAP_FAILED)
		page = mmap(NULL, UNREAD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return page;
}

/*
 * Of the files in /proc only a memory is for its user alone to read and write, and goes on behind the largest offset of a file: to
 * write there is EINVAL of all others.  Here there is nothing to be written, which the kernel finds before it asks for the lock of
 * that memory: somebody may hold it for ever, as of another process than the client's.
 */
static bool is_mem(int fd)
{
	const void *nothing = unreadable();
	struct statx st;

	if (nothing == MAP_FAILED || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE, &st) ||
	    st.stx_mode != (S_IFREG | S_IRUSR | S_IWUSR))
		return false;
	return pwrite(fd, nothing, UNREAD, (off_t)(INT64_MAX - UNREAD / 2)) < 0 && errno == EFAULT;
}

static int kind_check(int fd, const struct ucred *who, bool its)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return errno;
	if ((flags & (O_ACCMODE | O_PATH)) != O_RDWR)
		return EINVAL;
	if (its)
		return 0;
	if (!on_proc(fd, who->pid) && !on_proc_of_ours(fd, who->uid))
		return who->pid > 0 ? EINVAL : EPERM;
	return is_mem(fd) ? 0 : EINVAL;
}

/* ---- peers --------------------------------------------------------------------------------- */

int peer_open(struct peer *p, const struct ucred *who, int mem_fd)
{
	bool its;
	int err;

	*p = (struct peer){ .mem_fd = -1, .uid = who->uid, .gid = who->gid };
	if (mem_fd < 0)
		return 0;
	its = is_mem_of(mem_fd, who->pid);
	err = kind_check(mem_fd, who, its);
	if (err)
		return err;
	/* The pid is no other process's: it was its own when this was looked up, and it is watched (session.h). */
	if (by_pid && its && who->uid == geteuid())
		p->own = who->pid;
	if (p->own && has_our_rights(p->own) && kernel_lets(p->own))
		p->pid = p->own;
	p->mem_fd = mem_fd;
	return 0;
}

/* Root, and who can end the daemon, need no hostile memory to hold it up. */
static bool is_trusted(const struct peer *p) { return p->uid == 0 || p->uid == geteuid(); }

void peer_cost(const struct peer *p, struct cost *cost)
{
	if (p->mem_fd < 0 || is_trusted(p))
		return;
	cost->n[QUOTA_HEAP] += copier_len();
	cost->n[QUOTA_MAPS] += quota_maps_of(copier_len()) + STACK_MAPS;
}

int peer_ready(struct peer *p)
{
	if (p->copier || p->mem_fd < 0 || is_trusted(p))
		return 0;
	return copier_new(&p->copier, p->uid, p->mem_fd);
}

void peer_close(struct peer *p)
{
	if (p->copier)
		copier_end(p->copier);
	else if (p->mem_fd >= 0)
		close(p->mem_fd);
	p->copier = NULL;
	p->mem_fd = -1;
}

int peer_make(struct peer **out, const struct ucred *who, int mem_fd)
{
	struct peer *p = malloc(sizeof(*p));
	int err = p ? peer_open(p, who, mem_fd) : ENOMEM;

	if (err) {
		free(p);
		return err;
	}
	p->users = 1;
	*out = p;
	return 0;
}

struct peer *peer_take(struct peer *p)
{
	p->users++;
	return p;
}

void peer_drop(struct peer *p)
{
	if (!p || --p->users)
		return;
	peer_close(p);
	free(p);
}
