/* SPDX-License-Identifier: MIT */
/* show.c - commands that show one dump. */
#include "show.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/number.h>

#include "daemon.h"

const char *show_str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

long long show_num(const json_t *j, const char *key) { return (long long)json_integer_value(json_object_get(j, key)); }

json_t *show_text(const char *s)
{
	json_t *j = json_string(s);
	char clean[512];
	size_t n = 0;

	if (j)
		return j;
	for (; *s && n + 1 < sizeof(clean); s++)
		clean[n++] = (unsigned char)*s < 127 ? *s : '?';
	return json_stringn(clean, n);
}

bool show_number(const char *text, uint32_t *n)
{
	uint64_t v;
	bool good = number_read(text, &v) && v <= UINT32_MAX;

	*n = (uint32_t)v;
	return good;
}

bool show_qpns(const char *list, uint32_t *qpn, unsigned *n, unsigned most)
{
	char word[16];
	size_t len;

	for (;; list += len + 1) {
		len = strcspn(list, ",");
		if (len >= sizeof(word) || *n == most)
			return false;
		memcpy(word, list, len);
		word[len] = '\0';
		if (!show_number(word, &qpn[*n]) || !qpn[*n] || qpn[*n] > QPN_MASK)
			return false;
		++*n;
		if (!list[len])
			return true;
	}
}

bool show_qpn(int argc, char **argv, uint32_t *qpn)
{
	if (argc - optind > 1)
		rdmactl_wrong(argv[0], "\"%s\" is too many; one queue pair, or all", argv[optind + 1]);
	else if (optind < argc && !show_number(argv[optind], qpn))
		rdmactl_wrong(argv[0], "\"%s\" is not the number of a queue pair", argv[optind]);
	else
		return true;
	return false;
}

int show_end(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "rdmactl: cannot write: %s\n", strerror(errno));
	return 1;
}

const char *show_out(const char *name)
{
	struct stat file, out;

	return !stat(name, &file) && !fstat(STDOUT_FILENO, &out) && file.st_dev == out.st_dev &&
			       file.st_ino == out.st_ino && !S_ISCHR(file.st_mode)
		       ? "-"
		       : name;
}

int show_json(json_t *j)
{
	if (!json_dumpf(j, stdout, JSON_INDENT(1)))
		putchar('\n');
	json_decref(j);
	return show_end();
}

json_t *show_ask(const struct ask *ask, uint32_t what, uint32_t qpn)
{
	int fd = daemon_open(ask->socket);
	json_t *j;

	if (fd < 0)
		return NULL;
	j = daemon_dump_of(fd, what, qpn, 0);
	close(fd);
	return j;
}

int show_dump(int argc, char **argv, const struct ask *ask, uint32_t what, void (*show)(const json_t *))
{
	static const struct option longs[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct ask a = *ask;
	json_t *j;
	int c;

	while ((c = getopt_long(argc, argv, "s:jh", longs, NULL)) >= 0) {
		switch (c) {
		case 's': a.socket = optarg; break;
		case 'j': a.json = true; break;
		case 'h': return rdmactl_usage();
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (optind != argc)
		return rdmactl_wrong(argv[0], "\"%s\" is too many; it takes no arguments", argv[optind]);
	j = show_ask(&a, what, 0);
	if (!j)
		return 1;
	if (a.json)
		return show_json(j);
	show(j);
	json_decref(j);
	return show_end();
}
