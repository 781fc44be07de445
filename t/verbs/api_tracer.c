/* SPDX-License-Identifier: MIT */
/*
 * api_tracer.c - who may trace a program, where Yama asks: the daemon, if its number is known, and never everybody.
 *
 * The library's calls come to the functions below: Yama is as it is told to be, and so is what the kernel says of the daemon.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YAMA "/proc/sys/kernel/yama/ptrace_scope"

static struct {
	bool on;       /* else all is as it is */
	bool hidden;   /* the daemon is in another PID namespace */
	pid_t daemon;  /* as the kernel said last */
	unsigned asks; /* of prctl(PR_SET_PTRACER) */
	unsigned long tracer;
} spy;

int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list v;

	va_start(v, option);
	for (unsigned i = 0; i < 4; i++)
		arg[i] = va_arg(v, unsigned long);
	va_end(v);
	if (spy.on && option == PR_SET_PTRACER) {
		spy.asks++;
		spy.tracer = arg[0];
	}
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}

static FILE *opened(const char *name, const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *);
	static char scope[] = "1\n";

	if (spy.on && !strcmp(path, YAMA))
		return fmemopen(scope, sizeof(scope) - 1, "r");
	*(void **)&real = dlsym(RTLD_NEXT, name);
	return real(path, mode);
}

#undef fopen
#undef fopen64
FILE *fopen(const char *path, const char *mode) { return opened("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return opened("fopen64", path, mode); }

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int ret = (int)syscall(SYS_getsockopt, fd, level, name, value, len);
	struct ucred *who = value;

	if (!ret && spy.on && level == SOL_SOCKET && name == SO_PEERCRED) {
		if (spy.hidden)
			who->pid = 0;
		spy.daemon = who->pid;
	}
	return ret;
}

static void open_with(bool hidden)
{
	struct fix f;

	memset(&spy, 0, sizeof(spy));
	spy.hidden = hidden;
	spy.on = true;
	fix_open(&f);
	fix_close(&f);
	spy.on = false;
}

START_TEST(known)
{
	open_with(false);
	ck_assert_int_gt(spy.daemon, 0);
	ck_assert_uint_ge(spy.asks, 1);
	ck_assert_uint_eq(spy.tracer, (unsigned long)spy.daemon);
}
END_TEST

START_TEST(invisible)
{
	open_with(true);
	ck_assert_uint_eq(spy.asks, 0);
}
END_TEST

void api_tracer(Suite *s) { SUITE_ADD(s, known, invisible); }
