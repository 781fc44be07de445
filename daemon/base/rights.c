/* SPDX-License-Identifier: MIT */
/* rights.c - setresuid(2), capset(2), and what is kept for an execve that will never be. */
#include "rights.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "log.h"

static uid_t owner = RIGHTS_KEEP;

uid_t rights_owner(void) { return owner == RIGHTS_KEEP ? geteuid() : owner; }

struct rights_user rights_choose(const struct rights_user *asked, bool own)
{
	static const char *const names[] = { "rdmad", "nobody" };
	struct rights_user u = { .uid = RIGHTS_KEEP };
	const struct passwd *p = NULL;

	if (own || geteuid() != 0)
		return u;
	if (asked->uid != RIGHTS_KEEP)
		return *asked;
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names) && !p; i++)
		p = getpwnam(names[i]);
	u.alone = p && !strcmp(p->pw_name, names[0]);
	if (p) {
		u.uid = p->pw_uid;
		u.gid = p->pw_gid;
	} else {
		log_warn("there is no user rdmad and no user nobody: the daemon remains root, without capabilities");
	}
	return u;
}

static int become(const struct rights_user *u)
{
	if (setgroups(0, NULL) || setresgid(u->gid, u->gid, u->gid) || setresuid(u->uid, u->uid, u->uid))
		return errno;
	return 0;
}

/* The next program would get these.  None will be run; so it does not matter if this may not be done. */
static void later_drop(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static int now_drop(bool own)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return errno;
	for (unsigned i = 0; i < 2; i++) {
		data[i].effective = data[i].inheritable = 0;
		if (!own)
			data[i].permitted = 0;
	}
	return syscall(SYS_capset, &head, data) ? errno : 0;
}

int rights_drop(const struct rights_user *u, bool own)
{
	int err = 0;

	owner = geteuid();
	later_drop();
	if (u->uid != RIGHTS_KEEP)
		err = become(u);
	if (err && u->asked) {
		log_err("the user %u of the configuration cannot be had here: %s; take the line \"user\" out, or give "
			"the daemon the rights to change users",
			(unsigned)u->uid, strerror(err));
		return err;
	}
	if (err)
		log_note("user %u cannot be had here (%s): the daemon remains root, without capabilities",
			 (unsigned)u->uid, strerror(err));
	err = now_drop(own);
	if (err)
		log_err("capabilities cannot be given up: %s", strerror(err));
	return err;
}
