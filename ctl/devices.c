/* SPDX-License-Identifier: MIT */
/* devices.c - `rdmactl devices`: the devices, their P_Keys and GID tables. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "show.h"

static void show(const json_t *j)
{
	size_t i, k;
	json_t *dev, *gid, *pkey, *word;
	const char *profile;
	long long lid;

	json_array_foreach(json_object_get(j, "devices"), i, dev)
	{
		printf("%s%s: GUID %s, %s%s, MTU %lld, %lld Mb/s", i ? "\n" : "", show_str(dev, "name"),
		       show_str(dev, "guid"), show_str(dev, "state"),
		       json_is_true(json_object_get(dev, "wedged")) ? ", WEDGED by a rule" : "", show_num(dev, "mtu"),
		       show_num(dev, "link_mbps"));
		lid = show_num(json_object_get(dev, "look"), "lid");
		if (lid)
			printf(", LID 0x%llx", lid);
		printf("\n");
		profile = show_str(json_object_get(dev, "look"), "profile");
		if (strcmp(profile, "rdmad") != 0)
			printf("  PROFILE %s", profile);
		json_array_foreach(json_object_get(json_object_get(dev, "look"), "without"), k, word)
			printf("%s %s", k ? "," : "; without", json_string_value(word));
		if (strcmp(profile, "rdmad") != 0)
			printf("\n");
		if (json_array_size(json_object_get(dev, "pkeys")) > 1) {
			printf("  P_KEYS");
			json_array_foreach(json_object_get(dev, "pkeys"), k, pkey)
				printf(" %s", json_string_value(pkey));
			printf("\n");
		}
		printf("  %3s  %-39s  %-15s  %s\n", "GID", "ADDRESS", "INTERFACE", "REACH");
		json_array_foreach(json_object_get(dev, "gids"), k, gid)
			printf("  %3lld  %-39s  %-15s  %s\n", show_num(gid, "index"), show_str(gid, "address"),
			       show_str(gid, "interface"),
			       json_is_true(json_object_get(gid, "wire")) ? "network" : "this daemon only");
	}
}

int devices_main(int argc, char **argv, const struct ask *ask)
{
	return show_dump(argc, argv, ask, DUMP_DEVICES, show);
}
