/* SPDX-License-Identifier: MIT */
/* reader.c - a child, and one message each way. */
#include "reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "../base/rights.h"
#include "impair.h"

#define PATIENCE_S 10
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
		if (n <= 0)
			return false;
	}
	return true;
}

static void child(int fd, conf_reader *read_conf)
{
	const struct rights_user same = { .uid = RIGHTS_KEEP };
	struct impair_text *rules = impair_staged();
	char c;

	prctl(PR_SET_NAME, "rdmad-reader");
	prctl(PR_SET_DUMPABLE, 0);
	dup2(fd, 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	if (rights_drop(&same, false))
		_exit(1);
	conf_say = collect;
	while (recv(3, &c, 1, 0) == 1) {
		memset(&answer, 0, sizeof(answer));
		answer.good = read_conf(&answer.conf);
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
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return errno;
	pid = fork();
	if (pid == 0)
		child(fd[1], read_conf);
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return EAGAIN;
	}
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	reader_fd = fd[0];
	return 0;
}

static bool all_got(void *data, size_t len) { return recv(reader_fd, data, len, MSG_WAITALL) == (ssize_t)len; }

static bool rules_got(void)
{
	struct impair_text *rules = impair_staged();

	free(rules->text);
	*rules = (struct impair_text){ .seeded = answer.seeded, .seed = answer.seed };
	if (!answer.rules)
		return true;
	rules->text = calloc(answer.text_len + 1, 1);
	return rules->text && (!answer.text_len || all_got(rules->text, answer.text_len));
}

bool reader_ask(conf_reader *read_conf, struct conf *conf)
{
	char *line, *rest = answer.said;

	if (reader_fd < 0)
		return read_conf(conf);
	if (!all_sent(reader_fd, "", 1) || !all_got(&answer, sizeof(answer)) || !rules_got()) {
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
