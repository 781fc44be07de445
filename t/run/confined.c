/* SPDX-License-Identifier: MIT */
/*
 * confined.c - runs a program as a container does that has no privilege: a filter refuses namespaces, mounts, the memory of
 * others and io_uring, as profiles of container engines do.  All that it starts inherits the filter.
 *
 *	confined PROGRAM...
 *	confined -m PROGRAM...	mounts alone are refused, as where AppArmor lets anybody make a user namespace without rights
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static const struct {
	const char *call;
	int err;
} refused[] = {
	{ "bpf", EPERM },
	{ "clone3", ENOSYS }, /* its flags are in memory: the C library goes on with clone() */
	{ "fsconfig", EPERM },
	{ "fsmount", EPERM },
	{ "fsopen", EPERM },
	{ "io_uring_enter", EPERM },
	{ "io_uring_register", EPERM },
	{ "io_uring_setup", EPERM },
	{ "kcmp", EPERM },
	{ "mount", EPERM },
	{ "move_mount", EPERM },
	{ "open_tree", EPERM },
	{ "perf_event_open", EPERM },
	{ "pivot_root", EPERM },
	{ "process_vm_readv", EPERM },
	{ "process_vm_writev", EPERM },
	{ "ptrace", EPERM },
	{ "setns", EPERM },
	{ "umount2", EPERM },
	{ "unshare", EPERM },
	{ "userfaultfd", EPERM },
};

int main(int argc, char **argv)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	bool mounts = argc > 1 && !strcmp(argv[1], "-m");
	int err = f ? 0 : -ENOMEM;

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]) && !err; i++) {
		int nr = seccomp_syscall_resolve_name(refused[i].call);

		if (mounts && strcmp(refused[i].call, "mount"))
			continue;
		if (nr != __NR_SCMP_ERROR) /* else older than the call */
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO((unsigned)refused[i].err), nr, 0);
	}
	for (unsigned bit = 1; bit && !err && !mounts; bit <<= 1)
		if (NAMESPACES & bit)
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
					       SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
	if (!err)
		err = seccomp_load(f);
	if (err) {
		fprintf(stderr, "confined: %s\n", strerror(-err));
		return 77;
	}
	argv += mounts ? 2 : 1;
	if (argc > 1 && *argv)
		execvp(*argv, argv);
	perror("confined");
	return 127;
}
