/* SPDX-License-Identifier: MIT */
/*
 * devices.c - the devices that ids are bound to, each opened once.
 *
 * A context stays open when its last id is gone, since the program may still use objects that it made in it.  It is
 * opened anew in a forked child, when its daemon has gone and nobody uses the context, and when the device was unplugged.
 * Its PD and XRC domain are destroyed with the last id, unless the program has something in them.
 */
#include "cma.h"
#include "../verbs/ctx.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dev *devs;

static bool is_dead(const struct dev *d)
{
	struct pollfd p = { .fd = d->verbs->cmd_fd };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

/* The context is of no use, though somebody uses it: its daemon is gone, or its device was unplugged, maybe to come back. */
static bool is_unplugged(const struct dev *d) { return RING_LOAD(&to_ctx(d->verbs)->bell->dead) || is_dead(d); }

static uint8_t depth(int n) { return (uint8_t)(n < RDMA_MAX_RESP_RES ? n : RDMA_MAX_RESP_RES - 1); }

static struct dev *dev_open(struct ibv_device *ibdev)
{
	struct dev *d = calloc(1, sizeof(*d));
	struct ibv_device_attr attr;
	int err = ENOMEM;

	if (!d)
		goto fail;
	d->verbs = ibv_open_device(ibdev);
	if (!d->verbs) {
		err = errno;
		goto fail;
	}
	err = ibv_query_device(d->verbs, &attr);
	if (err) {
		ibv_close_device(d->verbs);
		goto fail;
	}
	memcpy(d->name, ibdev->name, sizeof(d->name) - 1);
	d->owner = getpid();
	d->max_resp = depth(attr.max_qp_rd_atom);
	d->max_init = depth(attr.max_qp_init_rd_atom);
	d->next = devs;
	devs = d;
	return d;
fail:
	free(d);
	errno = err;
	return NULL;
}

static void objects_free(struct dev *d)
{
	if (d->xrcd && !ibv_close_xrcd(d->xrcd))
		d->xrcd = NULL;
	if (d->pd && !ibv_dealloc_pd(d->pd))
		d->pd = NULL;
}

/* Forgets devices that are no use any more.  In a child the parent's are left as they are: they are its. */
static void devs_tidy(void)
{
	struct dev **p = &devs, *d;

	while ((d = *p)) {
		if (d->owner == getpid() && (d->refs || !is_dead(d))) {
			p = &d->next;
			continue;
		}
		*p = d->next;
		if (d->owner != getpid())
			continue;
		objects_free(d);
		ibv_close_device(d->verbs);
		free(d);
	}
}

/*
 * One that is open and of use; NULL.  The context of an unplugged device is kept, but for nobody new: the program still has to
 * destroy what it made there.
 */
static struct dev *dev_known(const char *name)
{
	for (struct dev *d = devs; d; d = d->next) {
		if (d->unplugged || strcmp(d->name, name))
			continue;
		d->unplugged = is_unplugged(d);
		if (!d->unplugged)
			return d;
	}
	return NULL;
}

static struct dev *dev_of(struct ibv_device *ibdev)
{
	struct dev *d = dev_known(ibdev->name);

	return d ? d : dev_open(ibdev);
}

static struct dev *dev_find(const char *name)
{
	struct ibv_device **list;
	struct dev *d = dev_known(name);
	int i, n;

	if (d)
		return d;
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	for (i = 0; i < n && strcmp(list[i]->name, name); i++)
		;
	if (i < n)
		d = dev_open(list[i]);
	else
		errno = ENODEV;
	ibv_free_device_list(list);
	return d;
}

struct dev *dev_get(const char *name)
{
	struct dev *d;

	pthread_mutex_lock(&devs_lock);
	devs_tidy();
	d = dev_find(name);
	if (d && !d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	if (d && !d->pd)
		d = NULL;
	if (d)
		d->refs++;
	pthread_mutex_unlock(&devs_lock);
	return d;
}

void dev_put(struct dev *d)
{
	pthread_mutex_lock(&devs_lock);
	if (!--d->refs && d->owner == getpid())
		objects_free(d);
	pthread_mutex_unlock(&devs_lock);
}

struct ibv_xrcd *dev_xrcd(struct dev *d)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	pthread_mutex_lock(&devs_lock);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &a);
	pthread_mutex_unlock(&devs_lock);
	return d->xrcd;
}

EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_device **list;
	struct ibv_context **out;
	int n, open = 0, err = ENODEV;

	if (num)
		*num = 0;
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	out = calloc((size_t)n + 1, sizeof(*out));
	pthread_mutex_lock(&devs_lock);
	devs_tidy();
	for (int i = 0; out && i < n; i++) {
		struct dev *d = dev_of(list[i]);

		if (d)
			out[open++] = d->verbs;
		else
			err = errno;
	}
	pthread_mutex_unlock(&devs_lock);
	ibv_free_device_list(list);
	if (out && !open) {
		free(out);
		out = NULL;
		errno = err;
	}
	if (out && num)
		*num = open;
	return out;
}

/* The devices stay open. */
EXPORT void rdma_free_devices(struct ibv_context **list) { free(list); }
