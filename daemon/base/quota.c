/* SPDX-License-Identifier: MIT */
/* quota.c - the users, and the sums of their bills. */
#include "quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "port_range.h"
#include "rights.h"

#define SESSIONS_MAX 32768u
#define RESERVE      8 /* the part of what there is that is root's */
#define ADDRESSES    (UINT64_C(1) << 47)
#define TURN_NS      2000000
#define BIG_HEAP     (128u << 10) /* from here on malloc() may map */

struct quota_user {
	struct quota_user *next;
	uid_t uid;
	unsigned bills;
	bool limited;
	unsigned turn, turn_n; /* bill_turn() */
	uint64_t turn_ns;
	struct cost used;
};

static struct quota_user *users;
static struct cost limit; /* of a user */
static struct cost all;   /* there is */
static struct cost room;  /* of it, for all users that are limited */
static struct cost taken; /* by them */

static struct {
	bool is, all;
	enum quota what;
	uid_t uid;
	uint64_t used, limit;
} refused;

static const struct {
	const char *key;
	uint64_t unit, most;
	int err;
} rows[QUOTAS] = {
#define QUOTA(name, unit, most, key, err, text) [QUOTA_##name] = { key, unit, most, err },
#include "quota.def"
#undef QUOTA
};

const char *quota_key(enum quota q) { return rows[q].key; }

uint64_t quota_units(enum quota q, uint64_t n, bool up)
{
	return n == UINT64_MAX ? n : n / rows[q].unit + (up && n % rows[q].unit);
}

/* ---- limits --------------------------------------------------------------------- */

static uint64_t number_in(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned long long n = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

/* How much there is of it for everybody. */
static uint64_t there_is(enum quota q, uint64_t hcas)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), maps;
	struct port_range ports = port_range();
	struct rlimit fds;

	switch (q) {
	case QUOTA_SESSIONS: return SESSIONS_MAX;
	case QUOTA_FDS: return getrlimit(RLIMIT_NOFILE, &fds) ? 1024 : fds.rlim_cur;
	case QUOTA_MAPS: maps = number_in("/proc/sys/vm/max_map_count"); return maps ? maps : 65530;
	case QUOTA_MAP_LEN: return ADDRESSES;
	case QUOTA_QUEUE_LEN:
	case QUOTA_HEAP: return memory / 2;
	case QUOTA_QPS:
	case QUOTA_CQS:
	case QUOTA_SRQS: return 65536 * hcas;
	case QUOTA_MRS: return 524287 * hcas;
	case QUOTA_PDS:
	case QUOTA_XRCDS: return 65535; /* all could be in one HCA, as could those below */
	case QUOTA_MWS: return 524287;
	case QUOTA_CM_IDS: return CM_IDS_MAX;                             /* all could be of one device */
	case QUOTA_CM_PORTS: return (uint64_t)ports.high - ports.low + 1; /* all could be of one space */
	case QUOTA_GROUPS: return GROUPS_MAX;
	case QUOTA_RAWS: return RAWS_MAX; /* all could be on one shard */
	case QUOTAS: break;
	}
	return 0;
}

void quota_begin(const uint64_t conf[QUOTAS], unsigned hcas)
{
	for (unsigned q = 0; q < QUOTAS; q++) {
		uint64_t most = rows[q].most * rows[q].unit;

		all.n[q] = there_is(q, hcas);
		room.n[q] = all.n[q] - all.n[q] / RESERVE;
		if (conf[q] == QUOTA_UNSET)
			limit.n[q] = most < room.n[q] / 4 * 3 ? most : room.n[q] / 4 * 3;
		else if (!conf[q] || conf[q] > room.n[q] / rows[q].unit)
			limit.n[q] = room.n[q];
		else
			limit.n[q] = conf[q] * rows[q].unit;
	}
}

void quota_end(void)
{
	for (const struct quota_user *u = users; u; u = u->next)
		for (unsigned q = 0; q < QUOTAS; q++)
			if (u->used.n[q])
				log_err("at the end user %u is still charged with %llu %s; please report this as a bug",
					(unsigned)u->uid, (unsigned long long)u->used.n[q], rows[q].key);
}

/* ---- users ------------------------------------------------------------------------- */

static bool is_limited(uid_t uid) { return uid != 0 && uid != rights_owner(); }

static struct quota_user *user_get(uid_t uid)
{
	struct quota_user *u = users;

	while (u && u->uid != uid)
		u = u->next;
	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->limited = is_limited(uid);
	u->next = users;
	users = u;
	return u;
}

uint64_t quota_most(uid_t uid, enum quota q) { return is_limited(uid) ? limit.n[q] : all.n[q]; }

static void user_put(struct quota_user *u)
{
	struct quota_user **p = &users;

	if (u->bills)
		return;
	while (*p != u)
		p = &(*p)->next;
	*p = u->next;
	free(u);
}

static int refuse(const struct quota_user *u, enum quota q, bool together)
{
	refused.is = true;
	refused.all = together;
	refused.what = q;
	refused.uid = u->uid;
	refused.used = together ? taken.n[q] : u->used.n[q];
	refused.limit = together ? room.n[q] : limit.n[q];
	return rows[q].err;
}

bool quota_refused(char *text, size_t len)
{
	uint64_t unit = rows[refused.what].unit;
	bool is = refused.is;

	refused.is = false;
	if (is && refused.all)
		snprintf(text, len, "all users together have %llu of %llu %s, the rest is kept for root",
			 (unsigned long long)(refused.used / unit), (unsigned long long)(refused.limit / unit),
			 rows[refused.what].key);
	else if (is)
		snprintf(text, len, "user %u has %llu of %llu %s", (unsigned)refused.uid,
			 (unsigned long long)(refused.used / unit), (unsigned long long)(refused.limit / unit),
			 rows[refused.what].key);
	return is;
}

int quota_errno(int err) { return err == EMFILE && !refused.is ? ENFILE : err; }

/* ---- bills ---------------------------------------------------------------------------- */

static int may_have(const struct quota_user *u, enum quota q, uint64_t more)
{
	if (!u->limited || !more)
		return 0;
	if (u->used.n[q] > limit.n[q] || more > limit.n[q] - u->used.n[q])
		return refuse(u, q, false);
	if (taken.n[q] > room.n[q] || more > room.n[q] - taken.n[q])
		return refuse(u, q, true);
	return 0;
}

static void charge(struct quota_user *u, enum quota q, uint64_t more)
{
	u->used.n[q] += more;
	if (u->limited)
		taken.n[q] += more;
}

static void release(struct quota_user *u, enum quota q, uint64_t less)
{
	if (less > u->used.n[q]) {
		log_err("user %u is charged with less %s than is given back; please report this as a bug",
			(unsigned)u->uid, rows[q].key);
		abort();
	}
	u->used.n[q] -= less;
	if (u->limited)
		taken.n[q] -= less;
}

int bill_open(struct bill *b, uid_t uid, const struct cost *cost)
{
	struct quota_user *u = user_get(uid);
	int err = u ? 0 : ENOMEM;

	*b = (struct bill){ 0 };
	for (unsigned q = 0; q < QUOTAS && !err; q++)
		err = may_have(u, q, cost->n[q]);
	if (err) {
		if (u)
			user_put(u);
		return err;
	}
	for (unsigned q = 0; q < QUOTAS; q++)
		charge(u, q, cost->n[q]);
	u->bills++;
	*b = (struct bill){ u, *cost };
	return 0;
}

int bill_set(struct bill *b, enum quota q, uint64_t n)
{
	uint64_t was = b->cost.n[q];
	int err = n > was ? may_have(b->user, q, n - was) : 0;

	if (err)
		return err;
	if (n > was)
		charge(b->user, q, n - was);
	else
		release(b->user, q, was - n);
	b->cost.n[q] = n;
	return 0;
}

void bill_split(struct bill *part, struct bill *b, enum quota q, uint64_t n)
{
	*part = (struct bill){ .user = b->user };
	part->cost.n[q] = n;
	b->cost.n[q] -= n;
	b->user->bills++;
}

void bill_close(struct bill *b)
{
	if (!b->user)
		return;
	for (unsigned q = 0; q < QUOTAS; q++)
		release(b->user, q, b->cost.n[q]);
	b->user->bills--;
	user_put(b->user);
	*b = (struct bill){ 0 };
}

bool bill_turn(const struct bill *b, unsigned turn, unsigned most)
{
	struct quota_user *u = b->user;

	if (!u)
		return true;
	if (u->turn != turn) {
		u->turn = turn;
		u->turn_n = 0;
		u->turn_ns = 0;
	}
	return u->turn_n++ < most && u->turn_ns < TURN_NS;
}

void bill_took(const struct bill *b, uint64_t ns)
{
	if (b->user)
		b->user->turn_ns += ns;
}

unsigned quota_maps_of(size_t heap) { return heap >= BIG_HEAP; }

/* ---- who looks ------------------------------------------------------------------------ */

void quota_each(void (*each)(const struct quota_use *, void *), void *arg)
{
	for (const struct quota_user *u = users; u; u = u->next) {
		struct quota_use use = { .uid = u->uid, .limited = u->limited, .used = u->used, .limit = limit };

		if (!u->limited)
			memset(&use.limit, 0xff, sizeof(use.limit));
		each(&use, arg);
	}
}

void quota_all(struct quota_use *use)
{
	*use = (struct quota_use){ .uid = (uid_t)-1, .limited = true, .used = taken, .limit = room };
}
