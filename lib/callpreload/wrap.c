/* SPDX-License-Identifier: MIT */
/* wrap.c - the functions of calls.def, and the process from its beginning to its end. */
#include "hooks.h"
#include "finding.h"
#include "text.h"
#include "trace.h"
#include "work.h"

#include <dlfcn.h>
#include <sys/mman.h>

void *real_find(const char *name) { return dlsym(RTLD_NEXT, name); }

/* One thread or another finds it: the same. */
static void *known(void **at, const char *name)
{
	void *fn = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	if (fn)
		return fn;
	fn = real_find(name);
	if (!fn) {
		fprintf(stderr, "rdmad: librdmad-calls.so: no library has %s\n", name);
		abort();
	}
	__atomic_store_n(at, fn, __ATOMIC_RELEASE);
	return fn;
}

static void *reals[CALLS];

#define REAL(name) ((__typeof__(&(name)))known(&reals[CALL_##name], #name))
#define W_CALL(type, level, dead, kind, name, params, args, before, after, ...)                                \
	EXPORT type name params                                                                                \
	{                                                                                                      \
		type r;                                                                                        \
		CALL_BODY(CALL_##name, level, dead, kind, false, before, REAL(name) args, after, __VA_ARGS__); \
		return r;                                                                                      \
	}
#define VERB(name, ...)       W_CALL(int, LEVEL_VERBS, EINVAL, RESULT_ERR, name, __VA_ARGS__)
#define MAKE(type, name, ...) W_CALL(type, LEVEL_VERBS, NULL, RESULT_PTR, name, __VA_ARGS__)
#define CM(level, name, ...)  W_CALL(int, LEVEL_##level, -1, RESULT_ERR, name, __VA_ARGS__)
#define NONE(level, name, params, args, before, after, ...)                                                       \
	EXPORT void name params                                                                                   \
	{                                                                                                         \
		int r;                                                                                            \
		CALL_BODY(CALL_##name, LEVEL_##level, 0, RESULT_NONE, false, before, (REAL(name) args, 0), after, \
			  __VA_ARGS__);                                                                           \
	}
#include "calls.def"

static _Thread_local bool inside; /* the memory that goes is the check's own */

/* ---- memory that goes ----------------------------------------------------------------- */

EXPORT int munmap(void *at, size_t len)
{
	static void *real_munmap;
	int (*real)(void *, size_t) = (int (*)(void *, size_t))known(&real_munmap, "munmap");

	if (check_on && work_there() && !inside && !call_inside()) {
		int err = errno;

		inside = true;
		pthread_mutex_lock(&check_lock);
		work_unmap(at, len);
		pthread_mutex_unlock(&check_lock);
		inside = false;
		errno = err;
	}
	return real(at, len);
}

/* ---- the process -------------------------------------------------------------------------- */

static bool fork_locked; /* not so in a handler; with the lock */

static void fork_before(void)
{
	inside = true;
	if (!pthread_mutex_lock(&check_lock))
		fork_locked = true;
}

static void fork_parent(void)
{
	if (fork_locked) {
		fork_locked = false;
		pthread_mutex_unlock(&check_lock);
	}
	inside = false;
}

/* The lock is the parent's thread's. */
static void fork_child(void)
{
	fork_locked = false;
	check_lock = (pthread_mutex_t)CHECK_LOCK_NEW;
	inside = false;
	finding_forget();
	work_forked();
	object_forked();
	trace_forked();
}

__attribute__((constructor)) static void process_begin(void)
{
	const char *check = getenv("RDMAD_CHECK");

	check_on = check && *check;
	if (check_on)
		stack_ready();
	trace_init();
	pthread_atfork(fork_before, fork_parent, fork_child);
}

__attribute__((destructor)) static void process_end(void)
{
	char what[80];

	trace_end();
	if (!check_on || !(work_looked() || finding_any()))
		return;
	inside = true;
	cqs_end(NULL);
	snprintf(what, sizeof(what), "%lu requests", work_looked());
	finding_sum(what);
	check_on = false;
}
