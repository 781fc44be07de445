/* SPDX-License-Identifier: MIT */
/* proc_state.h - the state of a process, or of one thread by its tid, as ps shows it: R, S, T, Z ...; ?: there is none. */
#ifndef T_PROC_STATE_H
#define T_PROC_STATE_H

#include <stdio.h>
#include <sys/types.h>

static inline char proc_state(pid_t pid)
{
	char path[32], state = '?';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	if (f)
		fclose(f);
	return state;
}

#endif
