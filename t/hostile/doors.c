/* SPDX-License-Identifier: MIT */
/* doors.c - whom a daemon serves: by who runs it, by its configuration; and which of its services are not for everybody. */
#include "t/suite.h"

#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOT, BYSTANDER, ATTACKER, GUESTS };
static const uid_t guest[GUESTS] = { 0, UID_BYSTANDER, UID_ATTACKER };

enum answer { NONE, SERVED, REFUSED };

/* arg: which guest. */
static void knock(void *arg)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .prog = "guest" } };
	unsigned i = *(const unsigned *)arg;
	struct msg_rep rep;
	int fds[CALL_FDS], fd = dial();
	bool in = say(fd, &req, msg_req_len(req.op), NULL, 0, 0) && hear(fd, &rep, fds);

	note_set(i, in && !rep.err ? SERVED : REFUSED);
	close(fd);
}

static const struct {
	uid_t owner;
	const char *conf; /* NULL: --private */
	enum answer to[GUESTS];
} door[] = {
	{ 0, "", { SERVED, SERVED, SERVED } },
	{ 0, "users = {1001}\n", { SERVED, SERVED, REFUSED } },
	{ 0, NULL, { SERVED, REFUSED, REFUSED } },
	{ UID_BYSTANDER, "users = {1002}\n", { SERVED, SERVED, REFUSED } }, /* it is not his to let others in */
	{ UID_BYSTANDER, NULL, { SERVED, SERVED, REFUSED } },
};
#define DOORS (int)(sizeof(door) / sizeof(*door))

/* A file system of the stage's own, over /tmp: it ends with the test, and each user reaches what is in it. */
#define PLACE "/tmp"

static void file_make(const char *path, mode_t mode, int from, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t len = strlen(text);
	ssize_t n = 0;

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	while (from >= 0 && (n = sendfile(fd, from, NULL, 1 << 20)) > 0)
		;
	ck_assert_int_eq(n, 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

/* rdmad may be below a directory that only root can enter, so a copy of it is run. */
static void place_make(void)
{
	const char *bin = getenv("RDMAD_BIN");
	int fd = open(bin ? bin : "./rdmad", O_RDONLY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "rdmad: %s", strerror(errno));
	ck_assert_msg(!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
			      !mount("none", PLACE, "tmpfs", 0, "mode=755"),
		      "a file system of its own: %s", strerror(errno));
	file_make(PLACE "/rdmad", 0755, fd, "");
	close(fd);
	ck_assert_int_eq(setenv("RDMAD_BIN", PLACE "/rdmad", 1), 0);
}

static void daemon_of(uid_t owner, const char *conf)
{
	place_make();
	if (conf)
		file_make(PLACE "/rdmad.conf", 0644, -1, conf);
	ck_assert_int_eq(setresgid(owner, owner, 0) | setresuid(owner, owner, 0), 0);
	daemon_start_with(conf ? "--config=" PLACE "/rdmad.conf" : "--private");
	ck_assert_int_eq(setresuid(0, 0, 0) | setresgid(0, 0, 0), 0);
}

START_TEST(whom)
{
	stage_network();
	daemon_of(door[_i].owner, door[_i].conf);
	for (unsigned i = 0; i < GUESTS; i++) {
		part_end(part_begin(guest[i], knock, &i));
		ck_assert_msg(note->n[i] == door[_i].to[i], "user %u is %s", (unsigned)guest[i],
			      note->n[i] == SERVED ? "served" : "refused");
	}
	daemon_stop();
}
END_TEST

/* arg: the errno of a request for packets, which are the memory of programs, and of one for rules, which are their fate. */
static void ask(void *arg)
{
	const int err = *(const int *)arg;
	struct msg_req capture = { .op = MSG_CAPTURE, .capture = { .devices = 1, .room = 1 << 20 } },
		       clear = { .op = MSG_IMPAIR, .impair.what = IMPAIR_CLEAR };
	struct msg_rep rep;
	int fd = hail();

	ck_assert_int_eq(call(fd, &clear, &rep, NULL), err);
	ck_assert_int_eq(call(fd, &capture, &rep, NULL), err);
	close(fd);
}

START_TEST(packets)
{
	int fine = 0, refused = EPERM;

#ifdef WITHOUT_LAB
	fine = refused = EOPNOTSUPP;
#endif
	stage_open("--shards=1");
	part_end(part_begin(UID_ATTACKER, ask, &refused));
	part_end(part_begin(0, ask, &fine));
	stage_goes_on(20);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hostile: doors");
	TCase *t = tcase_create("doors");

	stage_needs_root();
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, whom, 0, DOORS);
	tcase_add_test(t, packets);
	suite_add_tcase(s, t);
	return suite_run(s);
}
