/* SPDX-License-Identifier: MIT */
/* beside.c - rdmad-run, which is beside this program. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "beside.h"

bool beside_self(char path[BESIDE_PATH])
{
	ssize_t n = readlink("/proc/self/exe", path, BESIDE_PATH - 1);

	path[n > 0 ? n : 0] = 0;
	return strchr(path, '/');
}

void beside_run(char **argv)
{
	char self[BESIDE_PATH], run[BESIDE_PATH + 16];

	if (!beside_self(self))
		return;
	*strrchr(self, '/') = 0;
	snprintf(run, sizeof(run), "%s/rdmad-run", self);
	argv[0] = run;
	execv(run, argv);
}
