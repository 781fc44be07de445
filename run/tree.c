/* SPDX-License-Identifier: MIT */
/*
 * tree.c - /sys/class/infiniband as the kernel has it, from what the daemon says of its devices: where it is
 * seen, in a mount namespace, and else below the directory that librdmad-tree.so shows (rdmad/tree.h).
 *
 *	/sys/devices/pci7264:00/7264:00:00.0/7264:01:00.0	the first device, as an adapter behind a bridge of its own
 *	  infiniband/rdmad0					/sys/class/infiniband/rdmad0 is a link to this
 *	  infiniband_verbs/uverbs0				the same
 *
 * A file is written when its text has changed; a program that has it open sees the new text when it reads again from the
 * start, as with the kernel's.
 */

#include "field.h"
#include "say.h"
#include "sysfs.h"

#include <dirent.h>
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
#include <rdmad/tree.h>

/* Devices have short names: what is below their directories is shorter than these. */
#define DIR_LEN  (TREE_ROOT_LEN + 128)
#define PATH_LEN (DIR_LEN + 128)
#define TEXT_LEN 4096 /* of a file: a list of CPUs may be as long as a page */

#define WORD 4 /* port_xmit_data and the like count these */

/* ---- files --------------------------------------------------------------------- */

static const struct tree *tree; /* the one that is written */
static bool told;               /* why something of it was not */

static void trouble(const char *path)
{
	if (!told)
		say("--sysfs: %s%s: %s%s", tree->root, path, strerror(errno),
		    *tree->root ? "; $TMPDIR can name another place" : "");
	told = true;
}

/* A directory of the system's that ours are in? */
static bool is_way(const char *dir)
{
	static const char *const tops[] = { TREE_CLASS, TREE_VERBS, TREE_DEV, TREE_BUS, TREE_PCI };
	size_t n;

	for (unsigned i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
		n = strlen(tops[i]);
		if (!strncmp(dir, tops[i], n) && (!dir[n] || dir[n] == '/'))
			return false;
	}
	return true;
}

/* The directories above path: one that was deleted is made again as it was. */
static void dirs_make(char *path)
{
	for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		mkdirat(tree->dir, path + 1, 0755 | (is_way(path) ? TREE_WAY : 0));
		*s = '/';
	}
}

static int file_open(const char *path)
{
	return openat(tree->dir, path + 1, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
}

static void put(const char *path_fmt, const char *dir, int i, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* path_fmt may have one %d, which is i. */
static void put(const char *path_fmt, const char *dir, int i, const char *fmt, ...)
{
	char path[PATH_MAX], name[PATH_LEN], text[TEXT_LEN], old[TEXT_LEN];
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
	fd = file_open(path);
	if (fd < 0 && errno == ENOENT) {
		dirs_make(path);
		fd = file_open(path);
	}
	if (fd < 0) {
		trouble(path);
		return;
	}
	had = read(fd, old, sizeof(old));
	if ((had != n || memcmp(old, text, (size_t)n)) && (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n)))
		trouble(path);
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
	if (symlinkat(to, tree->dir, path + 1) && errno != EEXIST)
		trouble(path);
}

/* Drops what is in a directory and the device has not, or not any more. */
static void left_drop(const char *dir, const json_t *dev, bool (*has)(const json_t *, const char *),
		      void (*drop)(const char *, const char *))
{
	int fd = openat(tree->dir, dir + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (fd >= 0 && !d)
		close(fd);
	while (d && (e = readdir(d)))
		if (*e->d_name != '.' && !has(dev, e->d_name))
			drop(dir, e->d_name);
	if (d)
		closedir(d);
}

/* The first line of a file, or else. */
static const char *line_of(char *text, size_t size, const char *path, const char *otherwise)
{
	FILE *f = fopen(path, "re");
	bool have = f && fgets(text, (int)size, f) && *text != '\n';

	if (f)
		fclose(f);
	text[have ? strcspn(text, "\n") : 0] = 0;
	return have ? text : otherwise;
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

/* As the kernel writes what ibv_query_port() states. */
static void rate_put(const char *dir, const json_t *look)
{
	static const struct {
		int code, tenths; /* of Gb/s, a lane */
		const char *name;
	} speeds[] = {
		{ 1, 25, "SDR" },   { 2, 50, "DDR" },   { 4, 100, "QDR" },    { 8, 100, "FDR10" },  { 16, 140, "FDR" },
		{ 32, 250, "EDR" }, { 64, 500, "HDR" }, { 128, 1000, "NDR" }, { 256, 2000, "XDR" },
	};
	static const int widths[][2] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
	unsigned i = 0, k = 0;
	int tenths;

	while (i + 1 < sizeof(speeds) / sizeof(speeds[0]) && speeds[i].code < num(look, "active_speed"))
		i++;
	while (k + 1 < sizeof(widths) / sizeof(widths[0]) && widths[k][0] < num(look, "active_width"))
		k++;
	tenths = speeds[i].tenths * widths[k][1];
	put("rate", dir, 0, "%d%s Gb/sec (%dX %s)", tenths / 10, tenths % 10 ? ".5" : "", widths[k][1], speeds[i].name);
}

static bool row_is(const json_t *dev, const char *row)
{
	json_t *gid;
	size_t i;

	json_array_foreach(json_object_get(dev, "gids"), i, gid)
	{
		if (num(gid, "index") == atoi(row))
			return true;
	}
	return false;
}

/* An empty row is zeros, and of its attributes the kernel's cannot be read. */
static void row_drop(const char *dir, const char *row)
{
	static const char *const attrs[] = { "types", "ndevs" };
	char path[PATH_LEN + 64];

	put("%d", dir, atoi(row), "0000:0000:0000:0000:0000:0000:0000:0000");
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/../gid_attrs/%s/%s", dir, attrs[i], row);
		unlinkat(tree->dir, path + 1, 0);
	}
}

static void gids(const char *port, const json_t *dev)
{
	char dir[PATH_LEN + 32];
	json_t *gid;
	size_t i;

	json_array_foreach(json_object_get(dev, "gids"), i, gid)
	{
		int at = (int)num(gid, "index");

		put("gids/%d", port, at, "%s", str(gid, "gid"));
		put("gid_attrs/types/%d", port, at, "%s", str(gid, "type"));
		put("gid_attrs/ndevs/%d", port, at, "%s", str(gid, "interface"));
	}
	snprintf(dir, sizeof(dir), "%s/gids", port);
	left_drop(dir, dev, row_is, row_drop);
}

static void pkeys(const char *port, const json_t *dev)
{
	json_t *pkey;
	size_t i;

	json_array_foreach(json_object_get(dev, "pkeys"), i, pkey)
		put("pkeys/%d", port, (int)i, "%s", json_string_value(pkey));
}

static void port(const char *dir, const json_t *dev, const json_t *counters)
{
	bool up = !strcmp(str(dev, "state"), "ACTIVE");
	const json_t *look = json_object_get(dev, "look");
	char path[PATH_LEN + 16], hw[PATH_LEN + 32];
	const char *key;
	json_t *v;

	snprintf(path, sizeof(path), "%s/ports/1", dir);
	put("state", path, 0, "%s", up ? "4: ACTIVE" : "1: DOWN");
	put("phys_state", path, 0, "%s", up ? "5: LinkUp" : "2: Polling");
	rate_put(path, look);
	put("lid", path, 0, "0x%x", (unsigned)num(look, "lid"));
	put("lid_mask_count", path, 0, "0");
	put("sm_lid", path, 0, "0x%x", (unsigned)num(look, "lid"));
	put("sm_sl", path, 0, "0");
	put("cap_mask", path, 0, "0x00010000");
	put("link_layer", path, 0, "%s", str(look, "link_layer"));
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

/* ---- its adapter ------------------------------------------------------------------- */

/* A bridge for each adapter, since programs take functions of one bus for ports of one adapter. */
static void adapter_path(char path[DIR_LEN], const json_t *look)
{
	int i = (int)num(look, "adapter");

	snprintf(path, DIR_LEN, TREE_BUS "/7264:00:%02x.%x/7264:%02x:00.%x", i / 8, i % 8, i + 1,
		 (int)num(look, "port"));
}

/* The interface has the adapter as its device, if it has none; else its device has the RDMA device, too. */
static void interface_join(const char *interface, const char *adapter)
{
	char path[PATH_LEN], at[PATH_MAX], up[PATH_LEN] = "", to[2 * PATH_LEN];
	bool has;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", interface);
	has = realpath(path, at);
	if (!has) {
		*strrchr(path, '/') = 0;
		if (!realpath(path, at))
			return;
	}
	if (strncmp(at, "/sys/", 5) || !strncmp(at, TREE_BUS "/", sizeof(TREE_BUS)))
		return;
	for (const char *s = strchr(at + 1, '/'); s; s = strchr(s + 1, '/'))
		strncat(up, "../", sizeof(up) - strlen(up) - 1);
	snprintf(to, sizeof(to), "%s%s%s", up, adapter + strlen("/sys/"), has ? "/infiniband" : "");
	point(to, "%s/%s", at, has ? "infiniband" : "device");
}

/* Loopback counts where there is no other. */
static bool interface_is(const json_t *dev, const char *name)
{
	bool found = false, others = false;
	json_t *gid;
	size_t k;

	json_array_foreach(json_object_get(dev, "gids"), k, gid)
	{
		const char *interface = str(gid, "interface");

		found |= *interface && !strcmp(interface, name);
		others |= *interface && strcmp(interface, "lo");
	}
	return found && !(others && !strcmp(name, "lo"));
}

static void link_drop(const char *dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlinkat(tree->dir, path + 1, 0);
}

/* The last one of its interfaces. */
static const char *interfaces(const char *dir, const json_t *dev)
{
	const char *interface, *near = "";
	char path[PATH_LEN];
	json_t *gid;
	size_t k;

	json_array_foreach(json_object_get(dev, "gids"), k, gid)
	{
		interface = str(gid, "interface");
		if (!interface_is(dev, interface))
			continue;
		near = interface;
		snprintf(path, sizeof(path), "/sys/class/net/%s", interface);
		point(path, "%s/net/%s", dir, interface);
		if (*tree->root)
			interface_join(interface, dir);
	}
	snprintf(path, sizeof(path), "%s/net", dir);
	left_drop(path, dev, interface_is, link_drop);
	return near;
}

static void adapter(const char *dir, const json_t *dev)
{
	const json_t *look = json_object_get(dev, "look");
	const int node = (int)num(look, "numa");
	const char *near = interfaces(dir, dev);
	char file[PATH_LEN], numa[16], cpus[TEXT_LEN - 1];

	snprintf(file, sizeof(file), "/sys/class/net/%s/device/numa_node", near);
	if (node >= 0)
		snprintf(numa, sizeof(numa), "%d", node);
	put("numa_node", dir, 0, "%s", node >= 0 ? numa : line_of(numa, sizeof(numa), file, "-1"));
	snprintf(file, sizeof(file), "/sys/class/net/%s/device/local_cpulist", near);
	if (node >= 0)
		snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/cpulist", node);
	line_of(cpus, sizeof(cpus), file, NULL);
	put("local_cpulist", dir, 0, "%s",
	    *cpus ? cpus : line_of(cpus, sizeof(cpus), "/sys/devices/system/cpu/online", "0"));
	put("class", dir, 0, "%s", num(look, "lid") ? "0x020700" /* of InfiniBand */ : "0x020000" /* of Ethernet */);
	put("vendor", dir, 0, "0x%04x", (unsigned)num(look, "vendor"));
	put("device", dir, 0, "0x%04x", (unsigned)num(look, "device"));
}

/* ---- one device of two classes ------------------------------------------------------- */

/* dir: of a class device, in the directory of its adapter. */
static void class_links(const char *dir, const char *class, const char *name, const char *adapter)
{
	char to[PATH_LEN];

	snprintf(to, sizeof(to), "../../../%s", strrchr(adapter, '/') + 1);
	point(to, "%s/device", dir);
	snprintf(to, sizeof(to), "../../../../../../class/%s", class);
	point(to, "%s/subsystem", dir);
	snprintf(to, sizeof(to), "../..%s/%s/%s", adapter + strlen("/sys"), class, name);
	point(to, "/sys/class/%s/%s", class, name);
}

/* A file that librdmad-tree.so shows as a character device. */
static void node(const char *name, int major, int minor)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), TREE_DEV "/%s", name);
	put(name, TREE_DEV, 0, "%d:%d", major, minor);
	fchmodat(tree->dir, path + 1, 0666, 0);
}

static void device(const json_t *dev, const json_t *counters, int i)
{
	const json_t *look = json_object_get(dev, "look");
	char at[DIR_LEN], dir[PATH_LEN], name[16];

	adapter_path(at, look);
	snprintf(dir, sizeof(dir), "%s/infiniband/%s", at, str(dev, "name"));
	put("node_type", dir, 0, "%s", str(look, "node_type"));
	put("node_guid", dir, 0, "%s", str(dev, "guid"));
	put("sys_image_guid", dir, 0, "%s", str(look, "sys_image_guid"));
	put("node_desc", dir, 0, "%s", str(dev, "name"));
	put("fw_ver", dir, 0, "%s", str(look, "fw_ver"));
	put("hca_type", dir, 0, "%s", str(look, "hca_type"));
	if (*str(look, "board_id"))
		put("board_id", dir, 0, "%s", str(look, "board_id"));
	put("hw_rev", dir, 0, "%x", (unsigned)num(look, "hw_rev"));
	put("uevent", dir, 0, "NAME=%s", str(dev, "name"));
	port(dir, dev, counters);
	class_links(dir, "infiniband", str(dev, "name"), at);
	adapter(at, dev);
	snprintf(name, sizeof(name), "uverbs%d", i);
	snprintf(dir, sizeof(dir), "%s/infiniband_verbs/%s", at, name);
	put("ibdev", dir, 0, "%s", str(dev, "name"));
	put("abi_version", dir, 0, "1");
	put("dev", dir, 0, "231:%d", 192 + i);
	put("uevent", dir, 0, "MAJOR=231\nMINOR=%d\nDEVNAME=infiniband/uverbs%d", 192 + i, i);
	class_links(dir, "infiniband_verbs", name, at);
	if (*tree->root)
		node(name, 231, 192 + i);
}

/* It was taken out: its place in the classes is empty until it is back. */
static void unplugged(const json_t *dev, int i)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), TREE_CLASS "/%s", str(dev, "name"));
	unlinkat(tree->dir, path + 1, 0);
	snprintf(path, sizeof(path), TREE_VERBS "/uverbs%d", i);
	unlinkat(tree->dir, path + 1, 0);
	snprintf(path, sizeof(path), TREE_DEV "/uverbs%d", i);
	if (*tree->root)
		unlinkat(tree->dir, path + 1, 0);
}

bool tree_write(const struct tree *t, int daemon)
{
	json_t *devices = dump(daemon, DUMP_DEVICES), *stats = dump(daemon, DUMP_STATS), *dev;
	bool good = devices && stats;
	char no_pci[] = TREE_PCI "/devices/";
	mode_t mask = umask(022);
	size_t i;

	tree = t;
	told = false;
	put("abi_version", TREE_VERBS, 0, "6");
	json_array_foreach(json_object_get(devices, "devices"), i, dev)
	{
		if (!strcmp(str(dev, "state"), "UNPLUGGED"))
			unplugged(dev, (int)i);
		else
			device(dev, json_object_get(json_array_get(json_object_get(stats, "devices"), i), "counters"),
			       (int)i);
	}
	if (*tree->root) {
		node("rdma_cm", 10, 58);
		if (sysfs_no_pci())
			dirs_make(no_pci);
	}
	umask(mask);
	json_decref(devices);
	json_decref(stats);
	return good;
}

bool tree_whole(void) { return !told; }
