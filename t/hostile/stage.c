/* SPDX-License-Identifier: MIT */
#include "t/suite.h"

#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PART_S       1500 /* the library of tests counts the microseconds of one in an int */
#define ROUND_MAX_S  5
#define LIMIT_S      30
#define POLL_S       10
#define CROWD_MAX    8.0 /* a load that the attackers of the test itself are part of */
#define OPEN_EVERY   16
#define BEAT_S       0.1 /* see pulse() */
#define STILL_S      1.0
#define LEAVE_S      5
#define SKIPPED      77
#define MESSAGE_LEN  4096u
#define MESSAGE_FROM 8192u

struct note *note;

static struct beat {
	unsigned rounds;
	unsigned slow; /* rounds that took longer than ROUND_MAX_S */
	bool end;
	char slowest[256]; /* the last of them */
} * beat;
static pid_t bystander;

bool stage_huge_pages(bool alone)
{
	int fd = open("/proc/sys/vm/nr_hugepages", O_RDONLY); /* left open: it is the lock */

	return fd >= 0 && !flock(fd, alone ? LOCK_EX : LOCK_SH | LOCK_NB);
}

void stage_number(uint64_t *n, const char *arg, const char *name)
{
	const char *text = arg ? arg : getenv(name);

	if (text)
		*n = strtoull(text, NULL, 0);
}

double stage_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

/* ---- parts --------------------------------------------------------------------- */

pid_t part_begin(uid_t uid, void (*play)(void *), void *arg)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		_exit(99);
	prctl(PR_SET_DUMPABLE, 1); /* as a program of that user's is */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	play(arg);
	_exit(0);
}

void part_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void part_end(pid_t pid)
{
	double begun = stage_seconds();
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		ck_assert_msg(!stage_late(begun, LIMIT_S), "process %d does not end", (int)pid);
		nap();
	}
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d: status %#x", (int)pid, status);
}

void note_set(unsigned i, uint32_t value) { __atomic_store_n(&note->n[i], value, __ATOMIC_SEQ_CST); }

/* Of a part whose assertion failed there is nothing to wait for. */
static void parts_look(void)
{
	siginfo_t end = { 0 };

	if (!waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) && end.si_pid)
		ck_assert_msg(end.si_code != CLD_EXITED || end.si_status == 0, "process %d gave up: status %d",
			      (int)end.si_pid, end.si_status);
}

void note_wait(unsigned i, uint32_t value)
{
	double begun = stage_seconds();

	while (__atomic_load_n(&note->n[i], __ATOMIC_SEQ_CST) < value) {
		parts_look();
		ck_assert_msg(!stage_late(begun, 20), "waited for note %u to become %u in vain", i, value);
		nap();
	}
}

/* ---- the machine ---------------------------------------------------------------------- */

/* Seconds for which a thread waited for a processor so far; 0: the kernel does not say. */
static double queued(pid_t pid, pid_t tid)
{
	unsigned long long run, wait = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu %llu", &run, &wait) != 2)
		wait = 0;
	if (f)
		fclose(f);
	return (double)wait / 1e9;
}

double threads_ask(pid_t pid, double (*ask)(pid_t pid, pid_t tid))
{
	char path[64];
	double sum = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		sum += ask(pid, (pid_t)atoi(e->d_name));
	if (d)
		closedir(d);
	return sum;
}

bool stage_late(double since, double limit)
{
	double took = stage_seconds() - since, load = 0, crowd;
	unsigned running = 0;
	FILE *f;

	if (took <= limit)
		return false;
	f = fopen("/proc/loadavg", "re");
	if (f && fscanf(f, "%lf %*f %*f %u", &load, &running) != 2)
		running = 0;
	if (f)
		fclose(f);
	crowd = (load > running ? load : running) / (double)sysconf(_SC_NPROCESSORS_ONLN);
	crowd = crowd > CROWD_MAX ? CROWD_MAX : crowd > 1 ? crowd : 1;
	return took > limit * crowd;
}

/*
 * Seconds for which this machine stood still: a thread that sleeps BEAT_S was away for longer, and had not waited for a
 * processor.  A host that is suspended, or gives its cores to others, says nothing of the daemon.
 */
static double stood;

static void *pulse(void *)
{
	for (double last = stage_seconds(), queue = 0;;) {
		double now, waited, away;

		usleep((useconds_t)(BEAT_S * 1e6));
		now = stage_seconds();
		waited = queued(getpid(), gettid());
		away = now - last - (waited - queue);
		if (away > STILL_S)
			__atomic_store(&stood, &(double){ stood + away }, __ATOMIC_SEQ_CST);
		last = now;
		queue = waited;
	}
	return NULL;
}

static double stood_still(void)
{
	double s;

	__atomic_load(&stood, &s, __ATOMIC_SEQ_CST);
	return s;
}

/* Where a thread is, to stderr: what the kernel says of it. */
static double where(pid_t pid, pid_t tid)
{
	static const char *const of[] = { "comm", "wchan", "syscall", "schedstat", "stack" };
	char path[64], text[1024];

	for (unsigned i = 0; i < sizeof(of) / sizeof(*of); i++) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, of[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text));
		if (n > 0)
			fprintf(stderr, "%s: %.*s\n", path, (int)n, text);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

/* Of all threads: a shard may wait for a copier, which waits for a processor. */
double stage_queued(void) { return threads_ask(daemon_process(), queued) + threads_ask(getpid(), queued); }

void stage_explain(struct cx *c)
{
	struct msg_req req = { .op = MSG_DUMP, .dump = { .what = DUMP_WHY, .qpn = c->qpn } };
	struct msg_rep rep;
	int fds[CALL_FDS];
	char text[4096];
	ssize_t n;

	if (call(c->fd, &req, &rep, fds))
		return;
	while ((n = read(fds[0], text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stderr);
}

bool stage_poll(struct cx *c, struct cqe *e)
{
	double begun = stage_seconds();

	while (!cx_poll(c, e))
		if (stage_late(begun, POLL_S))
			return false;
	return true;
}

long stage_counter(const char *name)
{
	int fd = hail();
	json_t *j = dump(fd, DUMP_STATS);
	long n = (long)json_integer_value(
		json_object_get(json_object_get(json_array_get(json_object_get(j, "devices"), 0), "counters"), name));

	json_decref(j);
	close(fd);
	return n;
}

/* ---- the bystander ------------------------------------------------------------------ */

static void message(struct cx *c, unsigned round)
{
	struct cqe e;

	memset(c->buf, 0, MESSAGE_LEN);
	for (unsigned i = 0; i < MESSAGE_LEN; i++)
		c->buf[MESSAGE_FROM + i] = (uint8_t)(round * 7 + i * 13 + (i >> 8));
	cx_recv(c, 2 * round, 0, MESSAGE_LEN);
	cx_send(c, 2 * round + 1, MESSAGE_FROM, MESSAGE_LEN);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_msg(stage_poll(c, &e), "the bystander waits for a completion in vain");
		if (e.status != WC_SUCCESS)
			stage_explain(c);
		ck_assert_uint_eq(e.status, WC_SUCCESS);
		ck_assert_uint_eq(e.wr_id >> 1, round);
	}
	ck_assert_int_eq(memcmp(c->buf, c->buf + MESSAGE_FROM, MESSAGE_LEN), 0);
}

/* Is a round slow, without the time that the machine did not give? */
static void judge(unsigned round, double start, double messages, double queue, double still)
{
	double took = stage_seconds() - start;

	if (!stage_late(start, ROUND_MAX_S) || took - queue - still <= ROUND_MAX_S)
		return;
	beat->slow++;
	snprintf(beat->slowest, sizeof(beat->slowest),
		 "round %u took %.1f s, %.1f of them for its messages; %.1f s threads waited for a processor, "
		 "%.1f s the machine stood still",
		 round, took, messages, queue, still);
}

static void stand_by(void *)
{
	struct cx c, other;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, pulse, NULL), 0);
	cx_open(&c);
	cx_connect(&c, &c);
	for (unsigned round = 1; !__atomic_load_n(&beat->end, __ATOMIC_SEQ_CST); round++) {
		double start = stage_seconds(), queue = stage_queued(), still = stood_still(), messages;

		message(&c, round);
		messages = stage_seconds() - start;
		if (round % OPEN_EVERY == 0) {
			cx_open(&other);
			cx_close(&other);
			munmap(other.buf, CX_BUF);
		}
		judge(round, start, messages, stage_queued() - queue, stood_still() - still);
		__atomic_store_n(&beat->rounds, round, __ATOMIC_SEQ_CST);
	}
	cx_close(&c);
}

static unsigned rounds(void) { return __atomic_load_n(&beat->rounds, __ATOMIC_SEQ_CST); }

static void none_slow(void)
{
	ck_assert_msg(!beat->slow, "%u slow rounds of the bystander: %s", beat->slow, beat->slowest);
}

void stage_goes_on(unsigned more)
{
	unsigned from = rounds(), last = from;
	double begun = stage_seconds(), since = begun;
	int status = 0;

	for (unsigned now; (now = rounds()) - from < more; nap()) {
		ck_assert_msg(waitpid(bystander, &status, WNOHANG) == 0, "the bystander gave up: status %#x", status);
		ck_assert_msg(!stage_late(begun, LIMIT_S), "the bystander: %u rounds in %.0f s, not %u", now - from,
			      stage_seconds() - begun, more);
		if (now != last)
			since = stage_seconds();
		else if (since > 0 && stage_late(since, ROUND_MAX_S)) {
			fprintf(stderr, "the bystander's round %u takes long; the daemon is here:\n", now + 1);
			threads_ask(daemon_process(), where);
			since = 0; /* once a round */
		}
		last = now;
	}
	none_slow();
}

/* ---- the stage ------------------------------------------------------------------------ */

void stage_needs_root(void)
{
	if (geteuid() == 0)
		return;
	printf("skipped: needs root, who can be several users at once\n");
	exit(SKIPPED);
}

static void *shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	return p;
}

void stage_network(void)
{
	ck_assert_msg(own_network(), "a network namespace: %s", strerror(errno));
	note = shared(sizeof(*note));
}

void stage_open(const char *option)
{
	stage_network();
	beat = shared(sizeof(*beat));
	daemon_start_with(option);
	stage_resume();
}

void stage_resume(void)
{
	*beat = (struct beat){ 0 };
	bystander = part_begin(UID_BYSTANDER, stand_by, NULL);
	stage_goes_on(2 * OPEN_EVERY);
}

/* Of a daemon that is not rid of all the others for long stderr has what the kernel says of its threads; daemon_clean() judges it. */
static void others_leave(void)
{
	double begun = stage_seconds();
	struct counts n;

	do {
		n = daemon_counts();
		if (n.sessions == 1 && n.users == 1)
			return;
		nap();
	} while (!stage_late(begun, LEAVE_S));
	fprintf(stderr, "%.0f s after all have gone the daemon has %ld sessions and bills of %ld users:\n",
		stage_seconds() - begun, n.sessions, n.users);
	threads_ask(daemon_process(), where);
}

void stage_rest(void)
{
	__atomic_store_n(&beat->end, true, __ATOMIC_SEQ_CST);
	part_end(bystander);
	none_slow();
	others_leave();
	daemon_clean();
}

void stage_close(void)
{
	stage_rest();
	daemon_stop();
}

int stage_parts(double *seconds)
{
	int n = 1 + (int)(*seconds / PART_S);

	*seconds /= n;
	return n;
}

int stage_main(const char *name, const TTest *const *test) { return stage_main_for(name, test, 120, 1); }

int stage_main_for(const char *name, const TTest *const *test, double limit_s, int times)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r = srunner_create(s);
	int failed;

	stage_needs_root();
	tcase_set_timeout(t, limit_s);
	for (; *test; test++)
		tcase_add_loop_test(t, *test, 0, times);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
