/* SPDX-License-Identifier: MIT */
/*
 * scarce.c - a program whose n-th call for memory, for a descriptor or a thread fails (inject.c), or whose daemon's does, n = 1, 2, 3 ...,
 * in each step of what it does: it is told so, the same works then, nothing is left behind.
 */
#include "inject.h"
#include "scarce.h"

#include "t/daemon/client.h"
#include "t/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 400u /* that a step may make */

static struct inject *page;    /* of whom it is */
static const struct step *now; /* for messages */
static bool loose;             /* queues come from slabs, some of which stay or go a moment later */

struct use {
	long fds;
	int64_t live;
	struct counts daemon;
};

static struct use use(void)
{
	struct use u = { .live = page->live, .daemon = daemon_counts() };
	DIR *d = opendir("/proc/self/fd");

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		u.fds++;
	closedir(d);
	return u;
}

static bool is_more(const struct use *u, const struct use *than)
{
	const struct counts *a = &u->daemon, *b = &than->daemon;

	if (a->contexts > b->contexts || a->pds > b->pds || a->mrs > b->mrs || a->cqs > b->cqs || a->srqs > b->srqs ||
	    a->qps > b->qps || a->channels > b->channels || a->sessions > b->sessions || u->fds > than->fds)
		return true;
	return !loose && (u->live > than->live || a->fds > b->fds || a->maps > b->maps);
}

/* Some of it ends a moment later. */
static bool ends(const struct use *before, int tries, struct use *last)
{
	for (*last = use(); is_more(last, before) && tries; tries--) {
		usleep(10000);
		*last = use();
	}
	return !is_more(last, before);
}

/* The errors of those who lack something. */
static bool is_scarce(int err)
{
	return err == ENOMEM || err == EMFILE || err == ENFILE || err == EAGAIN || err == ENOSPC;
}

/* Did the n-th call come?  *err: the outcome. */
static bool with_failure(int (*fn)(void), uint32_t n, int *err)
{
	page->count = 0;
	__atomic_store_n(&page->n, n, __ATOMIC_RELEASE);
	*err = fn();
	__atomic_store_n(&page->n, 0, __ATOMIC_RELEASE);
	ck_assert_msg(!*err || (page->count >= n && is_scarce(*err)), "%s, call %u of %u (%s): %s", now->name, n,
		      page->count, page->what, strerror(*err));
	return page->count >= n;
}

static void must(int (*fn)(void), uint32_t n)
{
	int err = fn();

	ck_assert_msg(!err, "%s, after call %u (%s) had failed: %s", now->name, n, page->what, strerror(err));
}

/* From nothing to nothing.  False: there was no n-th call. */
static bool up_fails(uint32_t n)
{
	int err;
	bool came = with_failure(now->up, n, &err);

	if (err)
		must(now->up, n);
	must(now->down, n);
	return came;
}

static bool down_fails(uint32_t n)
{
	int err;
	bool came;

	must(now->up, n);
	came = with_failure(now->down, n, &err);
	if (err)
		must(now->down, n);
	return came;
}

/* A table that a library needed for the first time stays, once: of blocks, what leaks does so with the next failure, too. */
static void fail_each(bool (*fails)(uint32_t), struct use *before)
{
	bool came = true;
	struct use u;

	for (uint32_t n = 1; came; n++) {
		ck_assert_uint_le(n, CALLS);
		came = fails(n);
		if (ends(before, PATIENCE_MS / 200, &u))
			continue;
		before->live = u.live;
		ck_assert(fails(n) || !came);
		ck_assert_msg(ends(before, PATIENCE_MS / 20, &u),
			      "%s, call %u (%s): left %ld descriptors, %ld blocks, the daemon %ld and %ld maps",
			      now->name, n, page->what, u.fds - before->fds, (long)(u.live - before->live),
			      u.daemon.fds - before->daemon.fds, u.daemon.maps - before->daemon.maps);
	}
}

static void step_try(void)
{
	struct use before;

	for (unsigned n = 0; n < 3; n++) {
		must(now->up, 0);
		must(now->down, 0);
	}
	before = use();
	fail_each(up_fails, &before);
	fail_each(down_fails, &before);
}

static void try_all(const struct step *steps)
{
	unsigned n = 0;

	for (now = steps; now->name; now++, n++) {
		step_try();
		must(now->up, 0);
		if (now->more)
			now->more();
	}
	while (n--) {
		now = &steps[n];
		must(now->down, 0);
	}
}

/* ---- whose calls ---------------------------------------------------------------------------- */

/* librdmacm keeps the devices open. */
static void end(const struct step *steps)
{
	if (steps == steps_verbs)
		daemon_clean();
	daemon_stop();
}

static void of_program(const struct step *steps, bool is_loose)
{
	struct inject *(*mine)(void);

	own_network();
	daemon_start();
	setenv("RDMAD_SOCKET", daemon_socket(), 1);
	*(void **)&mine = dlsym(RTLD_DEFAULT, "inject_page");
	ck_assert_msg(mine != NULL, "inject.so is not loaded");
	page = mine();
	loose = is_loose;
	try_all(steps);
	end(steps);
}

/* Others have it, too, and a page that they share with us: what is started from here on. */
static void of_others(void)
{
	int fd = memfd_create("page", MFD_CLOEXEC);
	char path[64];

	ck_assert(fd >= 0 && !ftruncate(fd, sizeof(*page)));
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv(INJECT_PAGE, path, 1);
	setenv("LD_PRELOAD", getenv("SCARCE_PRELOAD"), 1);
}

static void of_daemon(const struct step *steps)
{
	own_network();
	of_others();
	daemon_start();
	unsetenv("LD_PRELOAD");
	setenv("RDMAD_SOCKET", daemon_socket(), 1);
	try_all(steps);
	end(steps);
}

START_TEST(program_verbs) { of_program(steps_verbs, false); }
END_TEST
START_TEST(program_cm) { of_program(steps_cm, false); }
END_TEST
START_TEST(program_streams) { of_program(steps_streams, true); }
END_TEST
START_TEST(daemon_verbs) { of_daemon(steps_verbs); }
END_TEST
START_TEST(daemon_cm) { of_daemon(steps_cm); }
END_TEST

/*
 * Whether rdmad-run says why, and ends as it should: it ends at once where it has no memory for itself.  Nothing is written to its
 * standard input, which may be a terminal.
 */
static void run_try(uint32_t n)
{
	int in[2], out[2], status;
	char said[1024] = "";
	bool memory;
	pid_t pid;

	ck_assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) && !pipe2(out, O_CLOEXEC));
	page->count = 0;
	page->n = n;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		dup2(in[1], STDIN_FILENO);
		dup2(out[1], STDERR_FILENO);
		execl("./rdmad-run", "rdmad-run", "--own", "true", NULL);
		_exit(1);
	}
	close(in[1]);
	close(out[1]);
	for (size_t len = 0; len < sizeof(said) - 1 && read(out[0], said + len, 1) == 1; len++)
		;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	memory = strstr(page->what, "alloc") || strstr(page->what, "strdup");
	ck_assert_msg((WIFEXITED(status) && !WEXITSTATUS(status)) ||
			      (WIFEXITED(status) && WEXITSTATUS(status) == 125 && strstr(said, "rdmad-run: ")) ||
			      (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && memory),
		      "call %u (%s): status 0x%x: %s", n, page->what, (unsigned)status, said);
	if (!strcmp(page->what, "fork") && WIFEXITED(status) && WEXITSTATUS(status))
		ck_assert_msg(strstr(said, "cannot start") && strstr(said, strerror(EAGAIN)) &&
				      !strstr(said, "stopped"),
			      "call %u: %s", n, said);
	ck_assert_msg(recv(in[0], said, sizeof(said), MSG_DONTWAIT) <= 0, "call %u (%s): written to standard input", n,
		      page->what);
	close(in[0]);
	close(out[0]);
}

START_TEST(run)
{
	uint32_t n = 0;

	own_network();
	of_others();
	do {
		ck_assert_uint_lt(n, CALLS);
		page->what[0] = 0;
		run_try(++n);
	} while (page->count >= n);
}
END_TEST

TEST_MAIN("scarce", program_verbs, program_cm, program_streams, daemon_verbs, daemon_cm, run)
