/* SPDX-License-Identifier: MIT */
/*
 * steer.c - see steer.h.
 *
 * The kernel has run the same filter and let pass what some flow wants; here it is run once more, to know which one.
 * The code comes from a client: it is checked when it comes, so that it only goes forward and ends, and each load is
 * checked against the frame.
 */
#include "steer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rdmad/steer.h>

#include "../../proto/bytes.h"
#include "../../proto/frame.h"
#include "../base/held.h"

#define LEN_MAX (4 << 20) /* of the memfd: all that STEER_CODE and STEER_FLOWS allow, in large pages */

struct steer_set {
	struct steer r;
	struct steer_insn *code;
	struct steer_hit *hit;
	struct held *held;
	void *mem; /* the client's, too */
	size_t len;
};

_Static_assert(HASH_KEY == STEER_KEY, "one key");

/* ---- taken in ------------------------------------------------------------- */

static bool insn_ok(const struct steer_insn *c, uint32_t left)
{
	switch (c->code) {
	case BPF_LD | BPF_B | BPF_ABS:
	case BPF_LD | BPF_H | BPF_ABS:
	case BPF_LD | BPF_W | BPF_ABS:
	case BPF_LD | BPF_B | BPF_IND:
	case BPF_LDX | BPF_B | BPF_MSH:
	case BPF_ALU | BPF_AND | BPF_K: return left > 0;
	case BPF_JMP | BPF_JEQ | BPF_K: return c->jt < left && c->jf < left;
	case BPF_JMP | BPF_JA: return c->k < left;
	case BPF_RET | BPF_K: return true;
	}
	return false;
}

static bool sane(const struct steer_set *s)
{
	const struct steer *r = &s->r;

	if (r->wq_n > 1u << STEER_WQ_LOG || r->wq_n & (r->wq_n - 1) || r->fields & ~HASH_ALL)
		return false;
	for (uint32_t i = 0; i < r->code_n; i++)
		if (!insn_ok(&s->code[i], r->code_n - i - 1) ||
		    (s->code[i].code == (BPF_RET | BPF_K) && (s->code[i].k & ~RULE_TAKE) > r->flow_n))
			return false;
	return true;
}

static int take_in(struct steer_set *s, int fd)
{
	struct stat st;
	size_t need;
	int err;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || (size_t)st.st_size < sizeof(s->r) ||
	    st.st_size > LEN_MAX)
		return EINVAL;
	s->len = (size_t)st.st_size;
	err = held_map(&s->held, fd, 0, s->len, 0);
	if (err)
		return err;
	s->mem = s->held->base;
	memcpy(&s->r, s->mem, sizeof(s->r));
	if (s->r.code_n > STEER_CODE || s->r.flow_n > STEER_FLOWS)
		return EINVAL;
	need = sizeof(s->r) + s->r.flow_n * sizeof(*s->hit);
	if (s->len < need + s->r.code_n * sizeof(*s->code))
		return EINVAL;
	s->hit = (struct steer_hit *)(void *)((char *)s->mem + sizeof(s->r));
	s->code = calloc(s->r.code_n ? s->r.code_n : 1, sizeof(*s->code));
	if (!s->code)
		return ENOMEM;
	memcpy(s->code, (char *)s->mem + need, s->r.code_n * sizeof(*s->code));
	return sane(s) ? 0 : EINVAL;
}

int steer_read(struct steer_set **out, int fd)
{
	struct steer_set *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return ENOMEM;
	err = take_in(s, fd);
	if (err) {
		steer_free(s);
		return err;
	}
	*out = s;
	return 0;
}

void steer_free(struct steer_set *s)
{
	if (!s)
		return;
	held_unmap(s->held);
	free(s->code);
	free(s);
}

/* ---- used -------------------------------------------------------------------- */

/* false: it is not in the frame. */
static bool load(uint32_t *a, const struct steer_insn *c, uint32_t x, const uint8_t *p, size_t len,
		 const struct steer_meta *m)
{
	uint64_t at = (uint64_t)c->k + (BPF_MODE(c->code) == BPF_IND ? x : 0);
	unsigned n = BPF_SIZE(c->code) == BPF_B ? 1 : BPF_SIZE(c->code) == BPF_H ? 2 : 4;

	if (c->k == (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE))
		*a = 0; /* what goes out the kernel has kept back */
	else if (c->k == (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT))
		*a = m->vlan;
	else if (c->k == (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG))
		*a = m->tci;
	else if (at + n > len)
		return false;
	else
		*a = n == 1 ? p[at] : n == 2 ? be16_get(p + at) : be32_get(p + at);
	return true;
}

static uint32_t run(const struct steer_set *s, const uint8_t *p, size_t len, const struct steer_meta *m)
{
	uint32_t a = 0, x = 0;

	for (const struct steer_insn *c = s->code; c < s->code + s->r.code_n; c++) {
		switch (c->code) {
		case BPF_RET | BPF_K: return c->k;
		case BPF_JMP | BPF_JA: c += c->k; break;
		case BPF_JMP | BPF_JEQ | BPF_K: c += a == c->k ? c->jt : c->jf; break;
		case BPF_ALU | BPF_AND | BPF_K: a &= c->k; break;
		case BPF_LDX | BPF_B | BPF_MSH:
			if (c->k >= len)
				return 0;
			x = (p[c->k] & 15u) * 4;
			break;
		default:
			if (!load(&a, c, x, p, len, m))
				return 0;
		}
	}
	return 0;
}

static void add(uint64_t *to, uint64_t n)
{
	__atomic_store_n(to, __atomic_load_n(to, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

bool steer_take(struct steer_set *s, const uint8_t *p, size_t len, const struct steer_meta *m)
{
	uint32_t got;

	if (!s->r.code_n)
		return true;
	got = run(s, p, len, m);
	if (got & ~RULE_TAKE) {
		struct steer_hit *h = &s->hit[(got & ~RULE_TAKE) - 1];

		add(&h->packets, 1);
		add(&h->bytes, len);
	}
	return got & RULE_TAKE;
}

uint32_t steer_wq(const struct steer_set *s, const uint8_t *p, size_t len)
{
	return s->r.wq_n ? s->r.wq[frame_hash(p, len, s->r.key, s->r.fields) & (s->r.wq_n - 1)] : 0;
}
