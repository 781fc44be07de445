/* SPDX-License-Identifier: MIT */
/* pcapng_read.c - blocks read.  Nothing in the bytes is believed before it is looked at. */
#include "pcapng.h"

#include <string.h>

#include "../proto/bytes.h"
#include "pcapng_fmt.h"

#define NS 1000000000u

static uint32_t get16(const struct pcapng_reader *r, const uint8_t *p)
{
	return r->big ? be16_get(p) : (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const struct pcapng_reader *r, const uint8_t *p) { return r->big ? be32_get(p) : le32_get(p); }

static uint64_t get64(const struct pcapng_reader *r, const uint8_t *p)
{
	return r->big ? be64_get(p) : (uint64_t)le32_get(p + 4) << 32 | le32_get(p);
}

static enum pcapng_kind bad(struct pcapng_item *it, const char *why)
{
	it->used = 0;
	it->why = why;
	return PCAPNG_BAD;
}

static enum pcapng_kind more(struct pcapng_item *it, size_t want)
{
	it->used = 0;
	it->want = want;
	return PCAPNG_MORE;
}

/* ---- options ---------------------------------------------------------------------- */

struct opts {
	const uint8_t *p, *end;
};

struct opt {
	uint32_t code;
	const uint8_t *p;
	size_t len;
};

/* false: none is left; what is cut off counts as none. */
static bool opt_next(const struct pcapng_reader *r, struct opts *o, struct opt *opt)
{
	size_t left = (size_t)(o->end - o->p);

	if (left < 4)
		return false;
	opt->code = get16(r, o->p);
	opt->len = get16(r, o->p + 2);
	opt->p = o->p + 4;
	if (opt->code == OPT_END || left - 4 < opt->len)
		return false;
	left -= 4 + opt->len;
	o->p = opt->p + opt->len;
	o->p += left < (-opt->len & 3) ? left : (-opt->len & 3);
	return true;
}

static void comment(struct pcapng_item *it, const struct opt *opt)
{
	if (opt->code == OPT_COMMENT && it->comments < PCAPNG_COMMENTS)
		it->comment[it->comments++] = (struct pcapng_text){ (const char *)opt->p, opt->len };
}

/* ---- time ------------------------------------------------------------------------- */

static uint64_t ns_of(const struct pcapng_iface *f, uint64_t t)
{
	unsigned n = f->tsresol & 0x7f;
	uint64_t whole, part;

	if (f->tsresol & 0x80) {
		whole = n < 64 ? t >> n : 0;
		part = n && n < 64 ? t & ((1ull << n) - 1) : n ? t : 0;
		/* Of the fraction 32 bits are more than a nanosecond needs. */
		part = n > 32 ? (n - 32 < 64 ? part >> (n - 32) : 0) : part << (32 - n);
		t = whole * NS + (part * NS >> 32);
	} else {
		for (; n < 9; n++)
			t *= 10;
		for (; n > 9 && t; n--)
			t /= 10;
	}
	return t + (uint64_t)f->ts_offset * NS;
}

static void time_get(const struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p)
{
	it->timed = true;
	it->ns = ns_of(&r->iface[it->iface], (uint64_t)get32(r, p) << 32 | get32(r, p + 4));
}

/* ---- blocks: body from behind type and length up to the second length ------------------ */

static enum pcapng_kind section(struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p, size_t len)
{
	struct opts o = { p + 16, p + len };
	struct opt opt;

	if (len < 16)
		return bad(it, "a section header is too short");
	if (get16(r, p + 4) != 1)
		return bad(it, "of a version of pcapng that is not known");
	r->ifaces = 0;
	while (opt_next(r, &o, &opt))
		comment(it, &opt);
	return PCAPNG_SECTION;
}

static enum pcapng_kind iface(struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p, size_t len)
{
	struct opts o = { p + 8, p + len };
	struct pcapng_iface *f;
	struct opt opt;
	size_t n;

	if (len < 8)
		return bad(it, "an interface block is too short");
	if (r->ifaces == PCAPNG_IFACES)
		return bad(it, "more interfaces than 256");
	it->iface = r->ifaces++;
	f = &r->iface[it->iface];
	*f = (struct pcapng_iface){ .link = get16(r, p), .snaplen = get32(r, p + 4), .tsresol = 6 };
	while (opt_next(r, &o, &opt)) {
		comment(it, &opt);
		if (opt.code == OPT_IF_NAME) {
			n = opt.len < PCAPNG_NAME_LEN - 1 ? opt.len : PCAPNG_NAME_LEN - 1;
			memcpy(f->name, opt.p, n);
			f->name[n] = 0;
		} else if (opt.code == OPT_IF_TSRESOL && opt.len == 1) {
			f->tsresol = opt.p[0];
		} else if (opt.code == OPT_IF_TSOFFSET && opt.len == 8) {
			f->ts_offset = (int64_t)get64(r, opt.p);
		}
	}
	return PCAPNG_IFACE;
}

static enum pcapng_kind packet(struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p, size_t len)
{
	struct opts o;
	struct opt opt;
	size_t pad;

	if (len < 20)
		return bad(it, "a packet block is too short");
	it->iface = get32(r, p);
	if (it->iface >= r->ifaces)
		return bad(it, "a packet of an interface that is not described");
	time_get(r, it, p + 4);
	it->caplen = get32(r, p + 12);
	it->len = get32(r, p + 16);
	it->data = p + 20;
	if (it->caplen > len - 20)
		return bad(it, "a packet is longer than its block");
	pad = -it->caplen & 3;
	o = (struct opts){ it->data + it->caplen, p + len };
	o.p += (size_t)(o.end - o.p) < pad ? (size_t)(o.end - o.p) : pad;
	while (opt_next(r, &o, &opt)) {
		comment(it, &opt);
		if (opt.code == OPT_EPB_FLAGS && opt.len == 4)
			it->flags = get32(r, opt.p);
		else if (opt.code == OPT_EPB_DROPS && opt.len == 8)
			it->drops = get64(r, opt.p);
	}
	return PCAPNG_PACKET;
}

static enum pcapng_kind simple(struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p, size_t len)
{
	uint32_t snap = r->iface[0].snaplen;

	if (len < 4 || !r->ifaces)
		return bad(it, "a simple packet block is too short, or before the interface");
	it->data = p + 4;
	it->len = get32(r, p);
	it->caplen = it->len;
	if (snap && it->caplen > snap)
		it->caplen = snap;
	if (it->caplen > len - 4)
		return bad(it, "a packet is longer than its block");
	return PCAPNG_PACKET;
}

static enum pcapng_kind stats(struct pcapng_reader *r, struct pcapng_item *it, const uint8_t *p, size_t len)
{
	struct opts o = { p + 12, p + len };
	struct opt opt;

	if (len < 12)
		return bad(it, "a statistics block is too short");
	it->iface = get32(r, p);
	if (it->iface >= r->ifaces)
		return bad(it, "statistics of an interface that is not described");
	time_get(r, it, p + 4);
	while (opt_next(r, &o, &opt)) {
		comment(it, &opt);
		if (opt.code == OPT_ISB_RECV && opt.len == 8)
			it->received = get64(r, opt.p);
		else if (opt.code == OPT_ISB_DROP && opt.len == 8)
			it->dropped = get64(r, opt.p);
	}
	return PCAPNG_STATS;
}

static enum pcapng_kind block(struct pcapng_reader *r, const uint8_t *data, size_t len, struct pcapng_item *it)
{
	const uint8_t *body;
	uint32_t type, total;

	if (len < 12)
		return more(it, 12);
	body = data + 8;
	type = get32(r, data);
	if (type == BLOCK_SECTION) { /* the same in both byte orders, and the order of what follows */
		if (le32_get(body) != PCAPNG_ORDER && be32_get(body) != PCAPNG_ORDER)
			return bad(it, "not a section of pcapng");
		r->big = be32_get(body) == PCAPNG_ORDER;
	}
	total = get32(r, data + 4);
	if (total < 12 || total % 4)
		return bad(it, "a block's length makes no sense");
	if (total > PCAPNG_BLOCK)
		return bad(it, "a block is longer than 16 MiB");
	if (len < total)
		return more(it, total);
	if (get32(r, data + total - 4) != total)
		return bad(it, "a block has two lengths");
	it->used = total;
	total -= 12;
	switch (type) {
	case BLOCK_SECTION: return section(r, it, body, total);
	case BLOCK_IFACE: return iface(r, it, body, total);
	case BLOCK_PACKET: return packet(r, it, body, total);
	case BLOCK_SIMPLE: return simple(r, it, body, total);
	case BLOCK_STATS: return stats(r, it, body, total);
	}
	return PCAPNG_OTHER;
}

/* ---- pcap --------------------------------------------------------------------------- */

#define OLD_LINK 0x03ffffffu /* above are the length of the FCS, and whether it is told */

/* Its head becomes two items: the section, and an interface without a name that takes no bytes. */
static enum pcapng_kind old_head(struct pcapng_reader *r, const uint8_t *data, size_t len, struct pcapng_item *it)
{
	if (len < 24)
		return more(it, 24);
	it->used = 24;
	r->iface[0] = (struct pcapng_iface){ .link = get32(r, data + 20) & OLD_LINK,
					     .snaplen = get32(r, data + 16),
					     .tsresol = r->nano ? 9 : 6 };
	r->begun = true;
	return PCAPNG_SECTION;
}

static enum pcapng_kind old_packet(struct pcapng_reader *r, const uint8_t *data, size_t len, struct pcapng_item *it)
{
	if (!r->ifaces) {
		r->ifaces = 1;
		return PCAPNG_IFACE;
	}
	if (len < 16)
		return more(it, 16);
	it->timed = true;
	it->ns = (uint64_t)get32(r, data) * NS + (uint64_t)get32(r, data + 4) * (r->nano ? 1 : 1000);
	it->caplen = get32(r, data + 8);
	it->len = get32(r, data + 12);
	it->data = data + 16;
	if (it->caplen > PCAPNG_BLOCK)
		return bad(it, "a packet is longer than 16 MiB");
	if (len - 16 < it->caplen)
		return more(it, 16 + it->caplen);
	it->used = 16 + it->caplen;
	return PCAPNG_PACKET;
}

/* Finds out which kind of capture it is. */
static enum pcapng_kind head(struct pcapng_reader *r, const uint8_t *data, size_t len, struct pcapng_item *it)
{
	uint32_t le, be;
	enum pcapng_kind k;

	if (len < 4)
		return more(it, 4);
	le = le32_get(data);
	be = be32_get(data);
	if (le == BLOCK_SECTION) {
		k = block(r, data, len, it);
		r->begun = k == PCAPNG_SECTION;
		return k;
	}
	r->nano = le == PCAP_NANO || be == PCAP_NANO;
	r->big = be == PCAP_NANO || be == PCAP_MICRO;
	r->old = r->nano || r->big || le == PCAP_MICRO;
	return r->old ? old_head(r, data, len, it) : bad(it, "neither pcapng nor pcap");
}

enum pcapng_kind pcapng_next(struct pcapng_reader *r, const uint8_t *data, size_t len, struct pcapng_item *it)
{
	*it = (struct pcapng_item){ .received = PCAPNG_NO_COUNT, .dropped = PCAPNG_NO_COUNT };
	if (!r->begun)
		return head(r, data, len, it);
	return r->old ? old_packet(r, data, len, it) : block(r, data, len, it);
}
