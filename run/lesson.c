/* SPDX-License-Identifier: MIT */
/* lesson.c - rdmad-run --lesson: hands over to lesson.sh, which runs rdmad-run for the lesson's program. */
#include "config.h"

#include "run.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int lesson_become(const struct install *p, const char *name, char *dir)
{
	char self[PATH_MAX] = "", script[PATH_MAX + 16];
	char *argv[] = { (char *)"sh", script, (char *)name, dir, NULL };

	snprintf(script, sizeof(script), "%s/lesson.sh", p->lab_dir);
	if (access(script, R_OK)) {
		say("--lesson: there is no %s: rdmad is not completely built (make) or installed (make install)",
		    script);
		return RUN_FAILED;
	}
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || setenv("RDMAD_LESSON_RUN", self, 1) ||
	    setenv("RDMAD_LESSON_CTL", p->ctl, 1) || setenv("RDMAD_LESSON_PROGRAM", p->lesson, 1)) {
		say("--lesson: %s", strerror(errno));
		return RUN_FAILED;
	}
	execv("/bin/sh", argv);
	say("cannot run /bin/sh: %s", strerror(errno));
	return RUN_FAILED;
}
