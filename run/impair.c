/* SPDX-License-Identifier: MIT */
/* impair.c - --fault: rules for packets are given to the daemon, for as long as the program and its children hold it. */
#include "run.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmad/msg.h>
#include <rdmad/sock.h>

#include "../lab/rule.h"

/* The text of a file in a memfd, or -1. */
static int text_fd(const char *path)
{
	FILE *f = fopen(path, "re");
	int fd = memfd_create("rules", MFD_CLOEXEC);
	char part[4096];
	size_t n, sum = 0;
	bool ok = f && fd >= 0;

	while (ok && (n = fread(part, 1, sizeof(part), f)) > 0) {
		sum += n;
		if (sum > RULES_TEXT_MOST)
			errno = EFBIG;
		ok = sum <= RULES_TEXT_MOST && write(fd, part, n) == (ssize_t)n;
	}
	if (!ok || ferror(f)) {
		say("--fault %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	if (f)
		fclose(f);
	return fd;
}

/* name: of the text in fd, which is taken, for messages. */
static bool impair_give(int hold, const struct options *opt, const char *name, int fd)
{
	struct msg_req req = { .op = MSG_IMPAIR,
			       .impair = { .what = IMPAIR_ADD, .seeded = opt->seeded, .seed = opt->seed } };
	struct msg_rep rep;
	ssize_t n;

	n = sock_swap_fd(hold, &req, msg_req_len(req.op), fd, &rep, sizeof(rep));
	close(fd);
	if (n != (ssize_t)sizeof(rep))
		say("--fault: the daemon does not answer: %s", n < 0 ? strerror(errno) : "it has ended");
	else if (rep.err == EPERM)
		say("--fault: that daemon takes rules from root and its own user only; --own starts one for this "
		    "program");
	else if (rep.err)
		say("--fault: the daemon refuses: %s", strerror(rep.err));
	else if (rep.impair.wrong)
		say("%s:%u: %.*s", name, rep.impair.line, (int)sizeof(rep.impair.text), rep.impair.text);
	else
		return true;
	return false;
}

bool impair_file(int hold, const struct options *opt)
{
	int fd = text_fd(opt->impair);

	return fd >= 0 && impair_give(hold, opt, opt->impair, fd);
}

bool impair_text(int hold, const struct options *opt, const char *name, const char *text)
{
	int fd = memfd_create("rules", MFD_CLOEXEC);
	size_t len = strlen(text);

	if (fd >= 0 && write(fd, text, len) == (ssize_t)len)
		return impair_give(hold, opt, name, fd);
	say("%s: %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return false;
}
