/* SPDX-License-Identifier: MIT */
/*
 * dump.c - MSG_DUMP: what the daemon has, as JSON.  rdmactl makes tables of it.
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
#include <unistd.h>

#include <rdmad/gid_text.h>

#include "../cma/cma.h"
#include "../cma/cma_agent.h"
#include "config.h"
#include "ends.h"
#include "impair.h"
#include "impair_verb.h"
#include "port.h"
#include "call.h"
#include "dump.h"
#include "qp_row.h"
#include "sessions.h"
#include "why.h"
#include "../base/held.h"
#include "../base/profile.h"
#include "../shard/spare.h"
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
	json_t *rows = json_array();

	for (unsigned i = 0; i < RDMAD_GIDS; i++) {
		uint32_t type;
		const struct gid_row *g = device_gid(dev, i, &type);
		char name[IF_NAMESIZE] = "", text[INET6_ADDRSTRLEN] = "", hex[64];

		if (gid_is_empty(g->gid))
			continue;
		if_indextoname(device_gid_interface(dev, g), name);
		gid_text(g->gid, text);
		gid_hex(g->gid, hex, sizeof(hex));
		json_array_append_new(rows, json_pack("{s:i s:s s:s s:s s:s s:b}", "index", (int)i, "gid", hex,
						      "address", text, "interface", name, "type",
						      type == 2 ? "RoCE v2" : "IB/RoCE v1", "wire", (int)g->wire));
	}
	return rows;
}

static json_t *pkeys_json(const struct device *dev)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < dev->pkey_n; i++)
		json_array_append_new(rows, json_sprintf("0x%04x", dev->pkey[i]));
	return rows;
}

/* Its looks: for rdmad-run --sysfs. */
static json_t *look_json(const struct device *d)
{
	static const char *const nodes[] = {
		[NODE_CA] = "1: CA", [NODE_RNIC] = "4: RNIC", [NODE_UNSPECIFIED] = "7: unspecified"
	};
	const struct profile *p = d->profile;
	const struct device *adapter = device_adapter(d);
	json_t *without = json_array();
	uint8_t speed, width;

	port_lanes(d, &speed, &width);
	for (unsigned f = 0; f < FEATURES; f++)
		if (p->no >> f & 1)
			json_array_append_new(without, json_string(feature_row(f)->word));

	return json_pack("{s:s s:o s:s s:s s:s s:s s:s s:i s:o s:i s:i s:i s:i s:i s:i s:i s:i}", "profile", p->name,
			 "without", without, "fw_ver", p->fw, "hca_type", p->hca_type, "board_id", p->board,
			 "node_type", nodes[p->node], "link_layer", profile_link_name(p), "lid", (int)device_lid(d),
			 "sys_image_guid", guid_json(adapter->guid), "adapter", (int)adapter->index, "port",
			 (int)device_port(d), "vendor", (int)p->pci_vendor, "device", (int)p->pci_device, "hw_rev",
			 (int)p->hw_ver, "numa", d->numa, "active_speed", (int)speed, "active_width", (int)width);
}

static json_t *devices_json(void)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < devices_n; i++) {
		const struct device *d = &devices[i];
		mono_t since;

		json_array_append_new(list,
				      json_pack("{s:s s:o s:s s:b s:i s:i s:o s:o s:o}", "name", d->name, "guid",
						guid_json(d->guid), "state",
						d->gone ? "UNPLUGGED"
						: d->up ? "ACTIVE"
							: "DOWN",
						"wedged", impair_wedged(i, &since) != 0, "mtu",
						d->mtu ? 128 << d->mtu : 0, "link_mbps", (int)d->link_mbps, "look",
						look_json(d), "pkeys", pkeys_json(d), "gids", gids_json(d)));
	}
	return json_pack("{s:s s:o}", "version", PACKAGE_VERSION, "devices", list);
}

/* ---- qps ------------------------------------------------------------------------------ */

#define ROWS 64u /* in a piece */

struct place {
	uint32_t qpn;
	uint8_t shard, device;
};

struct qp_rows {
	const struct session *viewer;
	struct place *at;
	size_t n, done;
	bool begun, ended, any;
	int err;
	struct qp_row row[ROWS]; /* of the next piece, row_n of them, from at[done] on */
	unsigned row_n;
};

/* The numbers of all QPs of one HCA. */
static int numbers_of(struct shard *s, unsigned device, struct qp_rows *rows)
{
	struct hca_live count;
	struct place *at;
	uint32_t *qpn, n;

	hca_objects(s->hca[device], &count);
	if (!count.qp)
		return 0;
	at = realloc(rows->at, (rows->n + count.qp) * sizeof(*at));
	if (!at)
		return ENOMEM;
	rows->at = at;
	qpn = malloc(count.qp * sizeof(*qpn));
	if (!qpn)
		return ENOMEM;
	n = hca_qp_list(s->hca[device], qpn, count.qp);
	for (uint32_t i = 0; i < n; i++)
		at[rows->n++] = (struct place){ qpn[i], (uint8_t)s->index, (uint8_t)device };
	free(qpn);
	return 0;
}

static void numbers_job(struct shard *s, void *arg)
{
	struct qp_rows *rows = arg;

	for (unsigned d = 0; d < devices_n && !rows->err; d++)
		rows->err = numbers_of(s, d, rows);
}

/* Those of this shard that come next.  Some may be gone, and others are not the viewer's. */
static void rows_job(struct shard *s, void *arg)
{
	struct qp_rows *rows = arg;

	for (unsigned i = 0; i < ROWS && rows->done < rows->n && rows->at[rows->done].shard == s->index; i++) {
		const struct place *p = &rows->at[rows->done++];
		const struct obj *o = obj_find(s, OBJ_QP, p->device, p->qpn);

		if (o && why_sees(rows->viewer, o->ctx->uid))
			qp_row_fill(&rows->row[rows->row_n++], s, p->device, p->qpn);
	}
}

static char *rows_text(struct qp_rows *rows)
{
	json_t *list = json_array();
	char *text, *all = NULL;
	size_t len;

	for (unsigned i = 0; i < rows->row_n; i++)
		json_array_append_new(list, qp_json(&rows->row[i]));
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	if (!text)
		return NULL;
	len = strlen(text) - 2; /* without [ and ] */
	all = malloc(len + 16);
	if (all)
		sprintf(all, "%s%s%.*s", rows->begun ? "" : "{\"qps\":[", rows->any && rows->row_n ? "," : "", (int)len,
			text + 1);
	rows->begun = true;
	rows->any |= rows->row_n > 0;
	free(text);
	return all;
}

static char *qps_next(void *arg, int *err)
{
	struct qp_rows *rows = arg;
	char *text;

	if (rows->ended)
		return NULL;
	rows->row_n = 0;
	if (rows->done < rows->n)
		shard_call(shards[rows->at[rows->done].shard], rows_job, rows);
	else
		rows->ended = rows->begun;
	text = rows->ended ? strdup("]}") : rows_text(rows);
	if (!text)
		*err = ENOMEM;
	return text;
}

static void qps_end(void *arg)
{
	struct qp_rows *rows = arg;

	free(rows->at);
	free(rows);
}

/* Numbers, PSNs and peers of queue pairs are what it takes to send in another one's name: each sees his own. */
static int qps_send(struct call *call)
{
	struct qp_rows *rows = calloc(1, sizeof(*rows));
	struct dump_source from = { qps_next, qps_end, rows, sizeof(*rows) };
	int err;

	if (!rows)
		return ENOMEM;
	rows->viewer = call->s;
	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], numbers_job, rows);
	err = rows->err;
	if (err) {
		qps_end(rows);
		return err;
	}
	from.len += rows->n * sizeof(*rows->at);
	return dump_send(call, &from);
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

/* Descriptors of this process: what a leak would show in, as in mappings; spare sockets (spare.h) are none. */
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
			 (int)holds_n, "fds", (int)(fds_count() - spare_n()), "shared_maps", (int)held_count(),
			 "heap_bytes", (json_int_t)heap_bytes(), "cm", cm_json());
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

/* A text that is there as a whole. */
static char *whole_next(void *arg, int *)
{
	char **text = arg, *all = *text;

	*text = NULL;
	return all;
}

static void whole_end(void *arg)
{
	char **text = arg;

	free(*text);
	free(text);
}

static int whole_send(struct call *call, json_t *j)
{
	struct dump_source from = { whole_next, whole_end, malloc(sizeof(char *)), sizeof(char *) };
	char **text = from.arg;

	if (text)
		*text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	json_decref(j);
	if (text && *text)
		return dump_send(call, &from);
	free(text);
	return ENOMEM;
}

int verb_dump(struct call *call)
{
	const struct msg_req *req = call->req;
	struct session *s = call->s;
	int err = dump_may(s);

	if (err)
		return err;
	switch (req->dump.what) {
	case DUMP_DEVICES: return whole_send(call, devices_json());
	case DUMP_QPS: return qps_send(call);
	case DUMP_STATS: return whole_send(call, stats_json());
	case DUMP_ENDS: return whole_send(call, ends_json(s));
	case DUMP_WHY: return why_send(call, req->dump.qpn);
	case DUMP_TRACE: return whole_send(call, trace_json(s, req->dump.qpn, req->dump.flags & DUMP_BURSTS));
	case DUMP_IMPAIR: return why_sees(s, 0) ? whole_send(call, impair_json()) : EPERM;
	case DUMP_USERS: return whole_send(call, users_json(s));
	}
	return EINVAL;
}
