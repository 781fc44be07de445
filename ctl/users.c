/* SPDX-License-Identifier: MIT */
/* users.c - `rdmactl users`: a line for each user and quota. */
#include <pwd.h>
#include <stdio.h>

#include "command.h"
#include "show.h"

static void lines(const char *who, const json_t *u)
{
	json_t *use = json_object_get(u, "use"), *n;
	const char *key;

	json_object_foreach(use, key, n)
	{
		const json_t *limit = json_object_get(json_object_get(u, "limit"), key);

		printf("%-16s %-12s %16lld ", who, key, (long long)json_integer_value(n));
		if (json_is_integer(limit))
			printf("%16lld\n", (long long)json_integer_value(limit));
		else
			printf("%16s\n", "-");
	}
}

static void show(const json_t *j)
{
	const json_t *all = json_object_get(j, "all");
	size_t i;
	json_t *u;

	printf("%-16s %-12s %16s %16s\n", "USER", "WHAT", "USE", "LIMIT");
	json_array_foreach(json_object_get(j, "users"), i, u)
	{
		const struct passwd *p = getpwuid((uid_t)show_num(u, "uid"));
		char number[24];

		snprintf(number, sizeof(number), "%lld", show_num(u, "uid"));
		lines(p ? p->pw_name : number, u);
	}
	if (all)
		lines("(all limited)", all);
}

int users_main(int argc, char **argv, const struct ask *ask) { return show_dump(argc, argv, ask, DUMP_USERS, show); }
