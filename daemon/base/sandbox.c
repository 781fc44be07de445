/* SPDX-License-Identifier: MIT */
/* sandbox.c - calls.def becomes a filter, by libseccomp; Landlock by its three system calls. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/landlock.h>
#include <linux/sockios.h>

#include "config.h"
#include "log.h"

#ifdef WITHOUT_SANDBOX

void sandbox_files(bool, const char *) {}
void sandbox_calls(bool) { log_note("no sandbox: this build is for a sanitizer or a fuzzer"); }

#else

#include <seccomp.h>

/* ---- files ------------------------------------------------------------------------- */

/* Newer than the headers may be. */
struct ruleset {
	uint64_t fs, net, scoped;
};

#define ABI_TRUNCATE                         3
#define ABI_NET                              4
#define ABI_IOCTL                            5
#define ABI_SCOPED                           6
#define FS_FIRST                             ((1ull << 13) - 1) /* all that the first kernels know */
#define FS_REFER                             (1ull << 13)
#define FS_TRUNCATE                          (1ull << 14)
#define FS_IOCTL_DEV                         (1ull << 15)
#define NET_TCP                              3ull /* bind, connect */
#define SCOPED_ALL                           3ull /* abstract sockets and processes of others */

static struct ruleset ruleset_all(int abi, size_t *len)
{
	struct ruleset r = { .fs = FS_FIRST };

	*len = sizeof(r.fs);
	if (abi >= 2)
		r.fs |= FS_REFER;
	if (abi >= ABI_TRUNCATE)
		r.fs |= FS_TRUNCATE;
	if (abi >= ABI_NET) {
		r.net = NET_TCP;
		*len = offsetof(struct ruleset, scoped);
	}
	if (abi >= ABI_IOCTL)
		r.fs |= FS_IOCTL_DEV;
	if (abi >= ABI_SCOPED) {
		r.scoped = SCOPED_ALL;
		*len = sizeof(r);
	}
	return r;
}

/* A path that does not exist need not be shown. */
static int show(int ruleset, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr at = { .allowed_access = rights };
	int err = 0;

	at.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (at.parent_fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &at, 0))
		err = errno;
	close(at.parent_fd);
	return err;
}

static int files_hide(const char *dir)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), fd, err;
	struct ruleset all;
	size_t len;

	if (abi < 0)
		return errno;
	all = ruleset_all(abi, &len);
	fd = (int)syscall(SYS_landlock_create_ruleset, &all, len, 0);
	if (fd < 0)
		return errno;
	err = show(fd, "/proc", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR);
	if (!err && dir)
		err = show(fd, dir, LANDLOCK_ACCESS_FS_REMOVE_FILE);
	if (!err && syscall(SYS_landlock_restrict_self, fd, 0))
		err = errno;
	close(fd);
	return err;
}

void sandbox_files(bool own, const char *dir)
{
	int err;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		log_warn("no_new_privs cannot be set: %s", strerror(errno));
	if (own)
		return;
	err = files_hide(dir);
	if (err)
		log_warn("files cannot be hidden from the daemon: no Landlock here (%s)", strerror(err));
}

/* ---- system calls ----------------------------------------------------------------------- */

enum row_kind { ROW_CALL, ROW_IF, ROW_OWN, ROW_OLDER, ROW_NEVER };

static const struct row {
	const char *name;
	enum row_kind kind;
	unsigned arg;
	uint64_t mask, value;
} rows[] = {
#define CALL(name, why)                      { #name, ROW_CALL, 0, 0, 0 },
#define CALL_IF(name, arg, mask, value, why) { #name, ROW_IF, arg, mask, value },
#define CALL_OWN(name, why)                  { #name, ROW_OWN, 0, 0, 0 },
#define OLDER(name, why)                     { #name, ROW_OLDER, 0, 0, 0 },
#define NEVER(name, why)                     { #name, ROW_NEVER, 0, 0, 0 },
#include "calls.def"
#undef CALL
#undef CALL_IF
#undef CALL_OWN
#undef OLDER
#undef NEVER
};

/*
 * Two filters, as the kernel writes what it refuses to its log by filter: the quiet one refuses the rows OLDER and nothing else, and
 * the other, which writes, lets them pass.  Of two answers the kernel takes the stricter one.
 */
enum filter { QUIET, WRITES };

static uint32_t action(const struct row *r, bool own)
{
	if (r->kind == ROW_NEVER || (r->kind == ROW_OWN && !own))
		return SCMP_ACT_KILL_PROCESS;
	return SCMP_ACT_ALLOW;
}

static int row_add(scmp_filter_ctx f, enum filter which, const struct row *r, bool own)
{
	int nr = seccomp_syscall_resolve_name(r->name);
	const struct scmp_arg_cmp cmp = {
		.arg = r->arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = r->mask, .datum_b = r->value
	};

	if (nr == __NR_SCMP_ERROR)
		return 0;
	if (which == QUIET)
		return r->kind == ROW_OLDER ? -seccomp_rule_add_array(f, SCMP_ACT_ERRNO(ENOSYS), nr, 0, NULL) : 0;
	return -seccomp_rule_add_array(f, action(r, own), nr, r->kind == ROW_IF, &cmp);
}

/* The speculation of a process with a filter is throttled by older kernels unless it asks for it: a quarter of its speed. */
static int options_set(scmp_filter_ctx f, enum filter which, bool own)
{
	/* BADARCH: proot, which traces what runs in it, writes -2 over the number of a call that it has carried out itself. */
	const struct {
		enum scmp_filter_attr name;
		uint32_t value;
		bool must;
	} options[] = {
		{ SCMP_FLTATR_CTL_TSYNC, 1, true },
		{ SCMP_FLTATR_CTL_NNP, 0, true }, /* it is set */
		{ SCMP_FLTATR_ACT_BADARCH, own ? SCMP_ACT_ERRNO(ENOSYS) : SCMP_ACT_KILL_PROCESS, true },
		{ SCMP_FLTATR_CTL_LOG, which == WRITES, false },
		{ SCMP_FLTATR_CTL_SSB, 1, false },
		{ SCMP_FLTATR_CTL_OPTIMIZE, 2, false },
	};
	int err = 0;

	for (unsigned i = 0; i < sizeof(options) / sizeof(*options) && !err; i++) {
		err = -seccomp_attr_set(f, options[i].name, options[i].value);
		if (!options[i].must)
			err = 0;
	}
	return err;
}

static int filter_load(enum filter which, bool own)
{
	scmp_filter_ctx f = seccomp_init(which == QUIET ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS));
	int err;

	if (!f)
		return ENOMEM;
	err = options_set(f, which, own);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows) && !err; i++) {
		err = row_add(f, which, &rows[i], own);
		if (err)
			log_warn("the row %s of the filter: %s", rows[i].name, strerror(err));
	}
	if (!err)
		err = -seccomp_load(f);
	seccomp_release(f);
	return err;
}

void sandbox_calls(bool own)
{
	int err = filter_load(QUIET, own);

	if (!err)
		err = filter_load(WRITES, own);
	if (err)
		log_warn("system calls cannot be filtered: no seccomp here (%s)", strerror(err));
}

#endif
