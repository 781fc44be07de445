/* SPDX-License-Identifier: MIT */
/*
 * confined.c - runs a program as a container does that has no privilege: a filter refuses namespaces, mounts, the memory of
 * others and io_uring, as profiles of container engines do.  All that it starts inherits the filter.
 *
 *	confined PROGRAM...
 *	confined -m PROGRAM...	mounts alone are refused, as where AppArmor lets anybody make a user namespace without rights
 *	confined -g PROGRAM...	what gVisor's kernel does not know is refused, as there
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

enum where { CONTAINER = 1, MOUNTS = 2, GVISOR = 4 };

static const struct {
	const char *call;
	int err;
	unsigned where;
} refused[] = {
	{ "bpf", EPERM, CONTAINER },
	{ "clone3", ENOSYS, CONTAINER }, /* its flags are in memory: the C library goes on with clone() */
	{ "fsconfig", EPERM, CONTAINER },
	{ "fsmount", EPERM, CONTAINER },
	{ "fsopen", EPERM, CONTAINER },
	{ "io_uring_enter", EPERM, CONTAINER },
	{ "io_uring_register", EPERM, CONTAINER },
	{ "io_uring_setup", EPERM, CONTAINER },
	{ "io_uring_setup", EINVAL, GVISOR },
	{ "kcmp", EPERM, CONTAINER },
	{ "mount", EPERM, CONTAINER | MOUNTS },
	{ "move_mount", EPERM, CONTAINER },
	{ "open_tree", EPERM, CONTAINER },
	{ "perf_event_open", EPERM, CONTAINER },
	{ "pidfd_open", ENOSYS, GVISOR },
	{ "pivot_root", EPERM, CONTAINER },
	{ "process_vm_readv", EPERM, CONTAINER },
	{ "process_vm_writev", EPERM, CONTAINER },
	{ "ptrace", EPERM, CONTAINER },
	{ "setns", EPERM, CONTAINER },
	{ "umount2", EPERM, CONTAINER },
	{ "unshare", EPERM, CONTAINER },
	{ "userfaultfd", EPERM, CONTAINER },
};

/* With these arguments only; gVisor. */
static const struct {
	int call, err;
	unsigned n;
	struct scmp_arg_cmp arg[2];
} unknown[] = {
	{ SCMP_SYS(lseek), EINVAL, 1, { { 2, SCMP_CMP_EQ, SEEK_DATA, 0 } } },
	{ SCMP_SYS(setsockopt),
	  EOPNOTSUPP,
	  2,
	  { { 1, SCMP_CMP_EQ, SOL_IP, 0 }, { 2, SCMP_CMP_EQ, IP_MTU_DISCOVER, 0 } } },
	{ SCMP_SYS(setsockopt),
	  EOPNOTSUPP,
	  2,
	  { { 1, SCMP_CMP_EQ, SOL_IPV6, 0 }, { 2, SCMP_CMP_EQ, IPV6_MTU_DISCOVER, 0 } } },
};

int main(int argc, char **argv)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	const char *how = argc > 1 ? argv[1] : "";
	unsigned where = !strcmp(how, "-m") ? MOUNTS : !strcmp(how, "-g") ? GVISOR : CONTAINER;
	int err = f ? 0 : -ENOMEM;

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]) && !err; i++) {
		int nr = seccomp_syscall_resolve_name(refused[i].call);

		if (refused[i].where & where && nr != __NR_SCMP_ERROR) /* else older than the call */
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO((unsigned)refused[i].err), nr, 0);
	}
	for (unsigned i = 0; i < sizeof(unknown) / sizeof(unknown[0]) && !err && where == GVISOR; i++)
		err = seccomp_rule_add_array(f, SCMP_ACT_ERRNO((unsigned)unknown[i].err), unknown[i].call, unknown[i].n,
					     unknown[i].arg);
	for (unsigned bit = 1; bit && !err && where == CONTAINER; bit <<= 1)
		if (NAMESPACES & bit)
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
					       SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
	if (!err)
		err = seccomp_load(f);
	if (err) {
		fprintf(stderr, "confined: %s\n", strerror(-err));
		return 77;
	}
	argv += where == CONTAINER ? 1 : 2;
	if (argc > 1 && *argv)
		execvp(*argv, argv);
	perror("confined");
	return 127;
}
