/* SPDX-License-Identifier: MIT */
/*
 * conf.c - fuzz target: any text as rdmad.conf.  It is refused, and each error names a line that is there; or it is taken, and is
 * the same when it is read once more.  Files that it includes are not read.
 */
#include "daemon/base/conf.h"

#include <string.h>

#include "file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *name;
static unsigned said, lines;

static void say(const char *line)
{
	const size_t n = strlen(name);

	said++;
	must(!strncmp(line, name, n) && line[n] == ':' && strlen(line) > n + 3);
	if (line[n + 1] != ' ')
		must(strtoul(line + n + 1, NULL, 10) - 1 < lines);
}

static void changed(const char *, bool) { abort(); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct conf a, b;
	bool good;

	if (memmem(data, len, "include", 7))
		return 0;
	name = file_of(data, len);
	conf_say = say;
	said = 0;
	lines = 1;
	for (size_t i = 0; i < len; i++)
		lines += data[i] == '\n';
	conf_default(&a);
	good = conf_read(&a, name);
	must(good == !said);
	if (!good)
		return 0;
	must(a.device.n && a.device.n <= DEVICES_MAX && a.users.n <= CONF_USERS);
	conf_devices(&a);
	conf_default(&b);
	must(conf_read(&b, name));
	conf_changes(&a, &b, changed);
	return 0;
}
