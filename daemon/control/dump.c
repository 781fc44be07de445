/* SPDX-License-Identifier: MIT */
/*
 * dump.c - MSG_DUMP: what the daemon has, as JSON in a memfd.  rdmactl makes tables of it.
 *
 * Each shard is asked between two turns and only copies; the text is made in the control thread.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmad/gid_text.h>

#include "../cma/cma.h"
#include "../cma/cma_agent.h"
#include "config.h"
#include "ends.h"
#include "impair_verb.h"
#include "call.h"
#include "qp_row.h"
#include "sessions.h"
#include "why.h"
#include "../shard/inbox.h"

/* Eight groups of four digits, as ibv_devinfo writes a GID. */
static void gid_hex(const uint8_t *gid, char *buf, size_t len)
{
	size_t n = 0;

	for (unsigned i = 0; i < 16; i += 2)
		n += (size_t)snprintf(buf + n, len - n, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
}

static json_t *guid_json(uint64_t guid)
{
	return json_sprintf("%04x:%04x:%04x:%04x", (unsigned)(guid >> 48) & 0xffff, (unsigned)(guid >> 32) & 0xffff,
			    (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
}

/* ---- devices ----------------------------------------------------------------------- */

static json_t *gids_json(const struct device *dev)
{
	static const uint8_t none[16];
	json_t *rows = json_array();

	for (unsigned i = 0; i < RDMAD_GIDS; i++) {
		const struct gid_row *g = &dev->gid[i];
		char name[IF_NAMESIZE] = "", text[INET6_ADDRSTRLEN] = "", hex[64];

		if (!memcmp(g->gid, none, sizeof(none)))
			continue;
		if_indextoname(g->ifindex, name);
		gid_text(g->gid, text);
		gid_hex(g->gid, hex, sizeof(hex));
		json_array_append_new(rows,
				      json_pack("{s:i s:s s:s s:s s:s s:b}", "index", (int)i, "gid", hex, "address",
						text, "interface", name, "type", "RoCE v2", "wire", (int)g->wire));
	}
	return rows;
}

static json_t *devices_json(void)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < devices_n; i++) {
		const struct device *d = &devices[i];

		json_array_append_new(list, json_pack("{s:s s:o s:s s:i s:i s:o}", "name", d->name, "guid",
						      guid_json(d->guid), "state", d->up ? "ACTIVE" : "DOWN", "mtu",
						      d->mtu ? 128 << d->mtu : 0, "link_mbps", (int)d->link_mbps,
						      "gids", gids_json(d)));
	}
	return json_pack("{s:s s:o}", "version", PACKAGE_VERSION, "devices", list);
}

/* ---- qps ------------------------------------------------------------------------------ */

struct qp_rows {
	const struct session *viewer;
	struct qp_row *row;
	size_t n;
	int err;
};

/* Room for n more; false: no memory. */
static bool rows_grow(struct qp_rows *rows, size_t n)
{
	struct qp_row *r = realloc(rows->row, (rows->n + n) * sizeof(*r));

	if (!r)
		return false;
	rows->row = r;
	return true;
}

/* The QPs of one HCA. */
static int qps_of(struct shard *s, unsigned device, struct qp_rows *rows)
{
	struct hca_live count;
	uint32_t *qpn, n;

	hca_objects(s->hca[device], &count);
	if (!count.qp)
		return 0;
	qpn = malloc(count.qp * sizeof(*qpn));
	if (!qpn || !rows_grow(rows, count.qp)) {
		free(qpn);
		return ENOMEM;
	}
	n = hca_qp_list(s->hca[device], qpn, count.qp);
	for (uint32_t i = 0; i < n; i++) {
		const struct obj *o = obj_find(s, OBJ_QP, device, qpn[i]);

		if (why_sees(rows->viewer, o ? o->ctx->uid : 0))
			qp_row_fill(&rows->row[rows->n++], s, device, qpn[i]);
	}
	free(qpn);
	return 0;
}

static void qps_collect(struct shard *s, void *arg)
{
	struct qp_rows *rows = arg;

	for (unsigned d = 0; d < devices_n && !rows->err; d++)
		rows->err = qps_of(s, d, rows);
}

/* Numbers, PSNs and peers of queue pairs are what it takes to send in another one's name: each sees his own. */
static json_t *qps_json(const struct session *viewer)
{
	struct qp_rows rows = { .viewer = viewer };
	json_t *list = json_array();

	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], qps_collect, &rows);
	for (size_t i = 0; i < rows.n; i++)
		json_array_append_new(list, qp_json(&rows.row[i]));
	free(rows.row);
	return rows.err ? NULL : json_pack("{s:o}", "qps", list);
}

/* ---- stats ------------------------------------------------------------------------------- */

struct counts {
	uint64_t stat[DEVICES_MAX][HCA_STATS];
	struct hca_live objects[DEVICES_MAX];
	unsigned contexts[DEVICES_MAX], channels[DEVICES_MAX];
	uint64_t turns[SHARDS_MAX], sleeps[SHARDS_MAX], kicks[SHARDS_MAX];
};

static void counts_collect(struct shard *s, void *arg)
{
	struct counts *n = arg;

	for (unsigned d = 0; d < devices_n; d++) {
		struct hca_live o;

		for (unsigned i = 0; i < HCA_STATS; i++)
			n->stat[d][i] += hca_stat(s->hca[d], i);
		hca_objects(s->hca[d], &o);
		n->objects[d].pd += o.pd;
		n->objects[d].mr += o.mr;
		n->objects[d].cq += o.cq;
		n->objects[d].srq += o.srq;
		n->objects[d].qp += o.qp;
	}
	n->turns[s->index] = s->count.turns;
	n->sleeps[s->index] = s->count.sleeps;
	n->kicks[s->index] = s->count.kicks;
	for (const struct ctx *c = s->ctxs; c; c = c->next) {
		n->contexts[c->dev->index]++;
		n->channels[c->dev->index] += c->obj_n[OBJ_CHANNEL];
	}
}

/* Descriptors and mappings of this process: what a leak would show in. */
static unsigned fds_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", "..", and dir's own */
}

static unsigned maps_count(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	char line[512];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:") != NULL;
	fclose(f);
	return n;
}

/* Of programs, and of the agents, which keep a connection for a while after its end. */
static json_t *cm_json(void)
{
	unsigned agents = 0;

	for (unsigned d = 0; d < devices_n; d++) {
		struct cm_count n;

		agent_counts(&devices[d], &n);
		agents += n.ids;
	}
	return json_pack("{s:i s:i s:i s:i s:i s:i s:i}", "channels", (int)cma_count.channels, "ids",
			 (int)cma_count.ids, "listeners", (int)cma_count.listeners, "ports", (int)cma_count.ports,
			 "groups", (int)cma_count.groups, "events", (int)cma_count.events, "agent_ids", (int)agents);
}

/* Given out by malloc and not yet given back; 0 where a sanitizer has a heap of its own. */
static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static json_t *stats_json(void)
{
	struct counts *n = calloc(1, sizeof(*n));
	json_t *list, *threads;

	if (!n)
		return NULL;
	list = json_array();
	threads = json_array();
	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], counts_collect, n);
	for (unsigned d = 0; d < devices_n; d++) {
		const struct hca_live *o = &n->objects[d];
		json_t *c = json_object();

		for (unsigned i = 0; i < HCA_STATS; i++)
			json_object_set_new(c, hca_stat_name(i), json_integer((json_int_t)n->stat[d][i]));
		json_array_append_new(list,
				      json_pack("{s:s s:o s:{s:i s:i s:i s:i s:i s:i s:i}}", "name", devices[d].name,
						"counters", c, "objects", "contexts", (int)n->contexts[d], "pds",
						(int)o->pd, "mrs", (int)o->mr, "cqs", (int)o->cq, "srqs", (int)o->srq,
						"qps", (int)o->qp, "channels", (int)n->channels[d]));
	}
	for (unsigned i = 0; i < shards_n; i++)
		json_array_append_new(threads, json_pack("{s:s s:I s:I s:I}", "io", shards[i]->io_name, "turns",
							 (json_int_t)n->turns[i], "sleeps", (json_int_t)n->sleeps[i],
							 "kicks", (json_int_t)n->kicks[i]));
	free(n);
	return json_pack("{s:o s:o s:{s:s s:i s:i s:i s:i s:i s:I s:o}}", "devices", list, "shards", threads, "daemon",
			 "version", PACKAGE_VERSION, "pid", (int)getpid(), "sessions", (int)sessions_n, "holds",
			 (int)holds_n, "fds", (int)fds_count(), "shared_maps", (int)maps_count(), "heap_bytes",
			 (json_int_t)heap_bytes(), "cm", cm_json());
}

/* ---- users --------------------------------------------------------------------------------- */

static json_t *cost_json(const struct cost *c, bool use)
{
	json_t *j = json_object();

	for (unsigned q = 0; q < QUOTAS; q++) {
		uint64_t n = quota_units(q, c->n[q], use);

		json_object_set_new(j, quota_key(q), n == UINT64_MAX ? json_null() : json_integer((json_int_t)n));
	}
	return j;
}

struct users {
	const struct session *viewer;
	json_t *list;
};

static void user_add(const struct quota_use *u, void *arg)
{
	struct users *us = arg;

	if (why_sees(us->viewer, u->uid))
		json_array_append_new(us->list, json_pack("{s:I s:b s:o s:o}", "uid", (json_int_t)u->uid, "limited",
							  u->limited, "use", cost_json(&u->used, true), "limit",
							  cost_json(&u->limit, false)));
}

static json_t *users_json(const struct session *viewer)
{
	struct users us = { viewer, json_array() };
	struct quota_use all;
	json_t *j;

	quota_each(user_add, &us);
	j = json_pack("{s:o}", "users", us.list);
	if (!why_sees(viewer, 0))
		return j;
	quota_all(&all);
	json_object_set_new(
		j, "all",
		json_pack("{s:o s:o}", "use", cost_json(&all.used, true), "limit", cost_json(&all.limit, false)));
	return j;
}

/* ---- the message ------------------------------------------------------------------------------ */

int verb_dump(struct call *call)
{
	json_t *j = NULL;
	char *text;
	size_t len;
	int fd;

	switch (call->req->dump.what) {
	case DUMP_DEVICES: j = devices_json(); break;
	case DUMP_QPS: j = qps_json(call->s); break;
	case DUMP_STATS: j = stats_json(); break;
	case DUMP_ENDS: j = ends_json(call->s); break;
	case DUMP_WHY: j = why_json(call->s, call->req->dump.qpn); break;
	case DUMP_TRACE: j = trace_json(call->s, call->req->dump.qpn, call->req->dump.flags & DUMP_BURSTS); break;
	case DUMP_IMPAIR:
		if (!why_sees(call->s, 0))
			return EPERM;
		j = impair_json();
		break;
	case DUMP_USERS: j = users_json(call->s); break;
	default: return EINVAL;
	}
	text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	json_decref(j);
	if (!text)
		return ENOMEM;
	len = strlen(text);
	fd = memfd_create("rdmad-dump", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
		int err = errno;

		free(text);
		if (fd >= 0)
			close(fd);
		return err;
	}
	free(text);
	call->rep->dump.len = len;
	call->fds[call->fd_n++] = fd;
	return 0;
}
