/* SPDX-License-Identifier: MIT */
/* reader.c - a child, and one message each way. */
#include "reader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/rights.h"
#include "impair.h"

#define PATIENCE_S 10
#define LOOK_S     1 /* so often it looks at the clock */
#define SAID_LEN   8192u

/* Behind it: text_len bytes of rules. */
struct answer {
	bool good, rules, seeded;
	uint64_t seed;
	size_t text_len;
	char said[SAID_LEN]; /* lines */
	struct conf conf;
};

static int reader_fd = -1;
static bool begun; /* there was to be a reader: this process itself sees no files */
static struct answer answer;

/* ---- the child --------------------------------------------------------------- */

static void collect(const char *line)
{
	size_t len = strlen(answer.said);

	snprintf(answer.said + len, sizeof(answer.said) - len, "%s\n", line);
}

static bool all_sent(int fd, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	for (; len; p += n, len -= (size_t)n) {
		n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return false;
	}
	return true;
}

/*
 * With a pipe for a file it would outlive the daemon.  A change of rights takes this back, so it comes after.  The signal of a
 * daemon that has become another user does not reach it: then its alarm does.
 */
static bool ends_with(pid_t parent) { return !prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent; }

static void child(const int pair[2], pid_t parent, conf_reader *read_conf)
{
	const struct rights_user same = { .uid = RIGHTS_KEEP };
	struct impair_text *rules = impair_staged();
	char c;

	prctl(PR_SET_NAME, "rdmad-reader");
	prctl(PR_SET_DUMPABLE, 0);
	close(pair[0]); /* with its own end of the daemon's it would never see that the daemon has ended */
	dup2(pair[1], 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	if (rights_drop(&same, false) || !ends_with(parent))
		_exit(1);
	conf_say = collect;
	signal(SIGALRM, SIG_DFL);
	while (recv(3, &c, 1, 0) == 1) {
		memset(&answer, 0, sizeof(answer));
		alarm(PATIENCE_S); /* then nobody waits for the answer */
		answer.good = read_conf(&answer.conf);
		alarm(0);
		answer.rules = rules->text;
		answer.seeded = rules->seeded;
		answer.seed = rules->seed;
		answer.text_len = rules->text ? strlen(rules->text) : 0;
		if (!all_sent(3, &answer, sizeof(answer)) || !all_sent(3, rules->text, answer.text_len))
			break;
	}
	_exit(0);
}

/* ---- the daemon ---------------------------------------------------------------- */

int reader_begin(conf_reader *read_conf)
{
	const struct timeval look = { .tv_sec = LOOK_S };
	pid_t pid, parent = getpid();
	int fd[2];

	begun = true;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return errno;
	pid = fork();
	if (pid == 0)
		child(fd, parent, read_conf);
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return EAGAIN;
	}
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
	reader_fd = fd[0];
	return 0;
}

/* A signal ends a recv() that has a limit of time, also with a part of the data. */
static bool all_got(void *data, size_t len, mono_t end)
{
	char *p = data;
	ssize_t n;

	while (len) {
		n = recv(reader_fd, p, len, MSG_WAITALL);
		if (!n || (n < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
		if (len && mono_reached(clock_now(), end))
			return false;
	}
	return true;
}

static bool rules_got(mono_t end)
{
	struct impair_text *rules = impair_staged();

	free(rules->text);
	*rules = (struct impair_text){ .seeded = answer.seeded, .seed = answer.seed };
	if (!answer.rules)
		return true;
	rules->text = calloc(answer.text_len + 1, 1);
	return rules->text && (!answer.text_len || all_got(rules->text, answer.text_len, end));
}

bool reader_ask(conf_reader *read_conf, struct conf *conf)
{
	mono_t end = mono_add(clock_now(), PATIENCE_S * UINT64_C(1000000000));
	char *line, *rest = answer.said;

	if (!begun)
		return read_conf(conf);
	if (reader_fd < 0) {
		conf_say("there is no process any more that reads the configuration: a restart is needed for changes");
		return false;
	}
	if (!all_sent(reader_fd, "", 1) || !all_got(&answer, sizeof(answer), end) || !rules_got(end)) {
		conf_say("the process that reads the configuration has ended, or not answered for 10 s: from now on a "
			 "restart is needed for changes");
		reader_end();
		return false;
	}
	while ((line = strsep(&rest, "\n")))
		if (*line)
			conf_say(line);
	*conf = answer.conf;
	return answer.good;
}

void reader_end(void)
{
	if (reader_fd >= 0)
		close(reader_fd);
	reader_fd = -1;
}
