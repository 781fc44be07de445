/* SPDX-License-Identifier: MIT */
/*
 * tree.c - /sys/class/infiniband as the kernel has it, from what the daemon says of its devices.
 *
 * A file is written when its text has changed; a program that has it open sees the new text when it reads again from the
 * start, as with the kernel's.
 */
#include "config.h"

#include "field.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/msg.h>
#include <rdmad/sock.h>

/* Devices have short names: what is below their directories is shorter than these. */
#define DIR_LEN  128
#define PATH_LEN 256

#define WORD 4 /* port_xmit_data and the like count these */

/* ---- files --------------------------------------------------------------------- */

static void dirs_make(char *path)
{
	for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		mkdir(path, 0755);
		*s = '/';
	}
}

static void put(const char *path_fmt, const char *dir, int i, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* path_fmt may have one %d, which is i. */
static void put(const char *path_fmt, const char *dir, int i, const char *fmt, ...)
{
	char path[PATH_MAX], name[256], text[512], old[512];
	ssize_t n, had;
	va_list ap;
	int fd;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	text[n++] = '\n';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(name, sizeof(name), path_fmt, i);
#pragma GCC diagnostic pop
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 && errno == ENOENT) {
		dirs_make(path);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	}
	if (fd < 0)
		return;
	had = read(fd, old, sizeof(old));
	if ((had != n || memcmp(old, text, (size_t)n)) && pwrite(fd, text, (size_t)n, 0) == n && ftruncate(fd, n))
		perror(path);
	close(fd);
}

static void point(const char *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void point(const char *to, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	dirs_make(path);
	if (symlink(to, path) && errno != EEXIST)
		perror(path);
}

/* ---- the daemon ------------------------------------------------------------------- */

static json_t *dump(int fd, uint32_t what)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = what };
	struct msg_rep rep;
	json_t *j = NULL;
	int from;
	FILE *f;

	if (sock_swap(fd, &req, msg_req_len(req.op), &rep, sizeof(rep), &from) != (ssize_t)sizeof(rep) || from < 0)
		return NULL;
	f = fdopen(from, "r");
	if (!f) {
		close(from);
		return NULL;
	}
	if (!rep.err)
		j = json_loadf(f, 0, NULL);
	fclose(f);
	return j;
}

int tree_devices(int daemon)
{
	json_t *j = dump(daemon, DUMP_DEVICES);
	int n = j ? (int)json_array_size(json_object_get(j, "devices")) : -1;

	json_decref(j);
	return n;
}

/* ---- one device -------------------------------------------------------------------- */

/* The kernel's words for a speed, with the width and the generation that make it. */
static void rate_put(const char *dir, long long mbps)
{
	static const struct {
		int mbps;
		const char *text;
	} rates[] = {
		{ 2500, "2.5 Gb/sec (1X SDR)" },   { 10000, "10 Gb/sec (4X SDR)" }, { 20000, "20 Gb/sec (4X DDR)" },
		{ 25000, "25 Gb/sec (1X EDR)" },   { 40000, "40 Gb/sec (4X QDR)" }, { 100000, "100 Gb/sec (4X EDR)" },
		{ 200000, "200 Gb/sec (4X HDR)" },
	};
	unsigned i = 0;

	while (i + 1 < sizeof(rates) / sizeof(rates[0]) && mbps >= rates[i + 1].mbps)
		i++;
	put("rate", dir, 0, "%s", rates[i].text);
}

static void gids(const char *port, const json_t *dev)
{
	json_t *gid;
	size_t i;

	json_array_foreach(json_object_get(dev, "gids"), i, gid)
	{
		int at = (int)num(gid, "index");

		put("gids/%d", port, at, "%s", str(gid, "gid"));
		put("gid_attrs/types/%d", port, at, "%s", str(gid, "type"));
		put("gid_attrs/ndevs/%d", port, at, "%s", str(gid, "interface"));
	}
}

static void pkeys(const char *port, const json_t *dev)
{
	json_t *pkey;
	size_t i;

	json_array_foreach(json_object_get(dev, "pkeys"), i, pkey)
		put("pkeys/%d", port, (int)i, "%s", json_string_value(pkey));
}

static void port(const char dir[DIR_LEN], const json_t *dev, const json_t *counters)
{
	bool up = !strcmp(str(dev, "state"), "ACTIVE");
	char path[PATH_LEN], hw[PATH_LEN + 16];
	const char *key;
	json_t *v;

	snprintf(path, sizeof(path), "%.*s/ports/1", DIR_LEN, dir);
	put("state", path, 0, "%s", up ? "4: ACTIVE" : "1: DOWN");
	put("phys_state", path, 0, "%s", up ? "5: LinkUp" : "3: Disabled");
	rate_put(path, num(dev, "link_mbps"));
	put("lid", path, 0, "0x0");
	put("lid_mask_count", path, 0, "0");
	put("sm_lid", path, 0, "0x0");
	put("sm_sl", path, 0, "0");
	put("cap_mask", path, 0, "0x00010000");
	put("link_layer", path, 0, "Ethernet");
	pkeys(path, dev);
	gids(path, dev);
	put("counters/port_xmit_data", path, 0, "%lld", num(counters, "sent_bytes") / WORD);
	put("counters/port_rcv_data", path, 0, "%lld", num(counters, "rcvd_bytes") / WORD);
	put("counters/port_xmit_packets", path, 0, "%lld", num(counters, "sent_pkts"));
	put("counters/port_rcv_packets", path, 0, "%lld", num(counters, "rcvd_pkts"));
	put("counters/link_downed", path, 0, "%lld", num(counters, "link_downed"));
	snprintf(hw, sizeof(hw), "%s/hw_counters", path);
	put("lifespan", hw, 0, "10");
	json_object_foreach((json_t *)counters, key, v) put(key, hw, 0, "%lld", (long long)json_integer_value(v));
}

/* device/: where the kernel has a link to the adapter on its bus. */
static void bus(const char dir[DIR_LEN], const json_t *dev, int i)
{
	char path[PATH_LEN], to[PATH_LEN], numa[16] = "-1";
	const char *interface;
	bool others = false; /* there are interfaces besides loopback */
	json_t *gid;
	size_t k;
	int fd;

	snprintf(path, sizeof(path), "%.*s/device", DIR_LEN, dir);
	json_array_foreach(json_object_get(dev, "gids"), k, gid)
	{
		interface = str(gid, "interface");
		others |= *interface && strcmp(interface, "lo");
	}
	json_array_foreach(json_object_get(dev, "gids"), k, gid)
	{
		interface = str(gid, "interface");
		if (!*interface || (others && !strcmp(interface, "lo")))
			continue;
		snprintf(to, sizeof(to), "/sys/class/net/%s", interface);
		point(to, "%s/net/%s", path, interface);
		snprintf(to, sizeof(to), "/sys/class/net/%s/device/numa_node", interface);
		fd = open(to, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			ssize_t n = read(fd, numa, sizeof(numa) - 1);

			numa[n > 1 ? n - 1 : 0] = 0;
			close(fd);
		}
	}
	put("numa_node", path, 0, "%s", *numa ? numa : "-1");
	put("vendor", path, 0, "0x72646d"); /* as ibv_query_device() has them */
	put("device", path, 0, "0x6164");
	snprintf(to, sizeof(to), "%s", dir);
	point(to, "%s/infiniband/%s", path, str(dev, "name"));
	snprintf(to, sizeof(to), TREE_VERBS "/uverbs%d", i);
	point(to, "%s/infiniband_verbs/uverbs%d", path, i);
}

static void device(const json_t *dev, const json_t *counters, int i)
{
	char dir[DIR_LEN], verbs[DIR_LEN], to[PATH_LEN];

	snprintf(dir, sizeof(dir), TREE_CLASS "/%s", str(dev, "name"));
	put("node_type", dir, 0, "1: CA");
	put("node_guid", dir, 0, "%s", str(dev, "guid"));
	put("sys_image_guid", dir, 0, "%s", str(dev, "guid"));
	put("node_desc", dir, 0, "%s", str(dev, "name"));
	put("fw_ver", dir, 0, "%s", PACKAGE_VERSION);
	put("hca_type", dir, 0, "rdmad");
	put("board_id", dir, 0, "rdmad");
	put("hw_rev", dir, 0, "0");
	put("uevent", dir, 0, "NAME=%s", str(dev, "name"));
	port(dir, dev, counters);
	bus(dir, dev, i);
	snprintf(verbs, sizeof(verbs), TREE_VERBS "/uverbs%d", i);
	put("ibdev", verbs, 0, "%s", str(dev, "name"));
	put("abi_version", verbs, 0, "1");
	put("dev", verbs, 0, "231:%d", 192 + i);
	put("uevent", verbs, 0, "MAJOR=231\nMINOR=%d\nDEVNAME=infiniband/uverbs%d", 192 + i, i);
	snprintf(to, sizeof(to), "%s/device", dir);
	point(to, "%s/device", verbs);
}

bool tree_write(int daemon)
{
	json_t *devices = dump(daemon, DUMP_DEVICES), *stats = dump(daemon, DUMP_STATS), *dev;
	bool good = devices && stats;
	size_t i;

	put("abi_version", TREE_VERBS, 0, "6");
	json_array_foreach(json_object_get(devices, "devices"), i, dev)
		device(dev, json_object_get(json_array_get(json_object_get(stats, "devices"), i), "counters"), (int)i);
	json_decref(devices);
	json_decref(stats);
	return good;
}
