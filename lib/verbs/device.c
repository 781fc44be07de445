/* SPDX-License-Identifier: MIT */
/*
 * device.c - the list of devices: the daemon is asked anew for every list.
 *
 * Nothing is done before the program asks, since the library is loaded into every child of rdmad-run.
 */
#include "ctx.h"
#include "device.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "sysfs.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_device *devices;

_Static_assert(offsetof(struct rd_device, vendor) == sizeof(struct ibv_device), "where vendor libraries look");
_Static_assert(sizeof(struct rd_device) >= 704, "what vendor libraries may read");

struct rd_device *device_intern(const struct msg_device *m)
{
	struct rd_device *d;

	pthread_mutex_lock(&devices_lock);
	for (d = devices; d && strncmp(d->dev.name, m->name, sizeof(d->dev.name)); d = d->next)
		;
	if (!d && (d = calloc(1, sizeof(*d)))) {
		snprintf(d->dev.name, sizeof(d->dev.name), "%.*s", (int)sizeof(d->dev.name) - 1, m->name);
		d->dev.node_type = (enum ibv_node_type)m->node;
		d->dev.transport_type = (enum ibv_transport_type)m->transport;
		snprintf(d->dev.dev_name, sizeof(d->dev.dev_name), "uverbs%u", m->index);
		snprintf(d->dev.dev_path, sizeof(d->dev.dev_path), "%s/class/infiniband_verbs/uverbs%u",
			 ibv_get_sysfs_path(), m->index);
		snprintf(d->dev.ibdev_path, sizeof(d->dev.ibdev_path), "%s/class/infiniband/%s", ibv_get_sysfs_path(),
			 d->dev.name);
		snprintf(d->board, sizeof(d->board), "%.*s", (int)sizeof(d->board) - 1, m->board);
		snprintf(d->hca_type, sizeof(d->hca_type), "%.*s", (int)sizeof(d->hca_type) - 1, m->hca_type);
		d->next = devices;
		devices = d;
	}
	if (d) {
		d->guid = m->guid;
	}
	pthread_mutex_unlock(&devices_lock);
	return d;
}

const char *device_text(const char *device, const char *file)
{
	const struct rd_device *d;
	const char *text = NULL;

	pthread_mutex_lock(&devices_lock);
	for (d = devices; d && strcmp(d->dev.name, device) != 0; d = d->next)
		;
	pthread_mutex_unlock(&devices_lock);
	if (d && !strcmp(file, "board_id"))
		text = d->board;
	else if (d && !strcmp(file, "hca_type"))
		text = d->hca_type;
	else if (d && !strcmp(file, "node_type"))
		text = d->dev.node_type == IBV_NODE_CA     ? "1: CA"
		       : d->dev.node_type == IBV_NODE_RNIC ? "4: RNIC"
							   : "7: unspecified";
	return text && *text ? text : NULL;
}

/* One that goes meanwhile makes the rest come sooner. */
static int devices_ask(struct conn *c, struct ibv_device **list, uint32_t *n)
{
	struct msg_rep rep = { .devices.n = 1 };

	for (uint32_t i = 0; i < rep.devices.n; i++) {
		struct msg_req req = { .op = MSG_DEVICE_LIST, .id.handle = i };
		int err = conn_call(c, &req, &rep, -1, NULL, 0);
		struct rd_device *d;

		if (err || rep.devices.n > RDMAD_DEVICES)
			return err ? err : EIO;
		d = i < rep.devices.n ? device_intern(rep.devices.dev) : NULL;
		if (d)
			list[(*n)++] = &d->dev;
	}
	return 0;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;
	struct conn c;
	uint32_t n = 0;
	int err;

	if (num)
		*num = 0;
	err = conn_open(&c);
	if (err == ENOSYS)
		conn_tell();
	if (err)
		return err_null(err);
	list = calloc(RDMAD_DEVICES + 1, sizeof(*list));
	err = list ? devices_ask(&c, list, &n) : ENOMEM;
	conn_close(&c);
	if (err) {
		free(list);
		return err_null(err);
	}
	if (num)
		*num = (int)n;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }

EXPORT const char *ibv_get_device_name(struct ibv_device *dev) { return dev->name; }

/* Programs ask the kernel about the device of that index, by netlink: it has none, or another one. */
EXPORT int ibv_get_device_index(struct ibv_device *dev)
{
	(void)dev;
	return -1;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *dev) { return htobe64(((struct rd_device *)dev)->guid); }
