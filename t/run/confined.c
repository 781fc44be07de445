/* SPDX-License-Identifier: MIT */
/*
 * confined.c - runs a program as a container does that has no privilege: a filter refuses namespaces, mounts, the memory of
 * others and io_uring, as profiles of container engines do.  All that it starts inherits the filter.
 *
 *	confined PROGRAM...
 *	confined -m PROGRAM...	mounts alone are refused, as where AppArmor lets anybody make a user namespace without rights
 *	confined -f PROGRAM...	memfd_create alone, as by firejail --memory-deny-write-execute
 *	confined -n PROGRAM...	sockets of netlink alone, as by RestrictAddressFamilies of systemd
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

/* where: the letters of the options; c: none. */
static const struct {
	const char *call;
	int err;
	const char *where;
} refused[] = {
	{ "bpf", EPERM, "c" },
	{ "clone3", ENOSYS, "c" }, /* its flags are in memory: the C library goes on with clone() */
	{ "fsconfig", EPERM, "c" },
	{ "fsmount", EPERM, "c" },
	{ "fsopen", EPERM, "c" },
	{ "io_uring_enter", EPERM, "c" },
	{ "io_uring_register", EPERM, "c" },
	{ "io_uring_setup", EPERM, "c" },
	{ "io_uring_setup", EINVAL, "g" },
	{ "kcmp", EPERM, "c" },
	{ "memfd_create", EPERM, "f" },
	{ "mount", EPERM, "cm" },
	{ "move_mount", EPERM, "c" },
	{ "open_tree", EPERM, "c" },
	{ "perf_event_open", EPERM, "c" },
	{ "pidfd_open", ENOSYS, "g" },
	{ "pivot_root", EPERM, "c" },
	{ "process_vm_readv", EPERM, "c" },
	{ "process_vm_writev", EPERM, "c" },
	{ "ptrace", EPERM, "c" },
	{ "setns", EPERM, "c" },
	{ "umount2", EPERM, "c" },
	{ "unshare", EPERM, "c" },
	{ "userfaultfd", EPERM, "c" },
};

/* With these arguments only. */
static const struct {
	int call, err;
	const char *where;
	unsigned n;
	struct scmp_arg_cmp arg[2];
} refused_with[] = {
	{ SCMP_SYS(lseek), EINVAL, "g", 1, { { 2, SCMP_CMP_EQ, SEEK_DATA, 0 } } },
	{ SCMP_SYS(socket), EAFNOSUPPORT, "n", 1, { { 0, SCMP_CMP_EQ, AF_NETLINK, 0 } } },
	{ SCMP_SYS(setsockopt),
	  EOPNOTSUPP,
	  "g",
	  2,
	  { { 1, SCMP_CMP_EQ, SOL_IP, 0 }, { 2, SCMP_CMP_EQ, IP_MTU_DISCOVER, 0 } } },
	{ SCMP_SYS(setsockopt),
	  EOPNOTSUPP,
	  "g",
	  2,
	  { { 1, SCMP_CMP_EQ, SOL_IPV6, 0 }, { 2, SCMP_CMP_EQ, IPV6_MTU_DISCOVER, 0 } } },
};

int main(int argc, char **argv)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	const char how = argc > 1 && argv[1][0] == '-' ? argv[1][1] : 'c';
	int err = f ? 0 : -ENOMEM;

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]) && !err; i++) {
		int nr = seccomp_syscall_resolve_name(refused[i].call);

		if (strchr(refused[i].where, how) && nr != __NR_SCMP_ERROR) /* else older than the call */
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO((unsigned)refused[i].err), nr, 0);
	}
	for (unsigned i = 0; i < sizeof(refused_with) / sizeof(refused_with[0]) && !err; i++)
		if (strchr(refused_with[i].where, how))
			err = seccomp_rule_add_array(f, SCMP_ACT_ERRNO((unsigned)refused_with[i].err),
						     refused_with[i].call, refused_with[i].n, refused_with[i].arg);
	for (unsigned bit = 1; bit && !err && how == 'c'; bit <<= 1)
		if (NAMESPACES & bit)
			err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
					       SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
	if (!err)
		err = seccomp_load(f);
	if (err) {
		fprintf(stderr, "confined: %s\n", strerror(-err));
		return 77;
	}
	argv += how == 'c' ? 1 : 2;
	if (argc > 1 && *argv)
		execvp(*argv, argv);
	perror("confined");
	return 127;
}
