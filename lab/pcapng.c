/* SPDX-License-Identifier: MIT */
/* pcapng.c - blocks made. */
#include "pcapng.h"

#include <string.h>

#include "../proto/bytes.h"
#include "pcapng_fmt.h"

struct out {
	uint8_t *p;
	size_t n, room;
	bool full;
};

static size_t padded(size_t len) { return (len + 3) & ~(size_t)3; }

static void le16_put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static uint8_t *take(struct out *o, size_t len)
{
	uint8_t *p = o->p + o->n;

	if (o->full || o->room - o->n < len) {
		o->full = true;
		return NULL;
	}
	o->n += len;
	return p;
}

static void put32(struct out *o, uint32_t v)
{
	uint8_t *p = take(o, 4);

	if (p)
		le32_put(p, v);
}

static void put64(struct out *o, uint64_t v)
{
	put32(o, (uint32_t)v);
	put32(o, (uint32_t)(v >> 32));
}

/* Moments go with the high half first, whatever the byte order. */
static void put_time(struct out *o, uint64_t v)
{
	put32(o, (uint32_t)(v >> 32));
	put32(o, (uint32_t)v);
}

static void put_data(struct out *o, const void *data, size_t len)
{
	uint8_t *p = take(o, padded(len));

	if (!p)
		return;
	if (len)
		memcpy(p, data, len);
	memset(p + len, 0, padded(len) - len);
}

static void put_head(struct out *o, uint16_t code, size_t len)
{
	uint8_t *p = take(o, 4);

	if (!p)
		return;
	le16_put(p, code);
	le16_put(p + 2, (uint32_t)len);
}

static void put_opt(struct out *o, uint16_t code, const void *data, size_t len)
{
	if (len > UINT16_MAX)
		len = UINT16_MAX;
	put_head(o, code, len);
	put_data(o, data, len);
}

static void put_opt_text(struct out *o, uint16_t code, const char *text)
{
	if (text && *text)
		put_opt(o, code, text, strlen(text));
}

static void put_opt_count(struct out *o, uint16_t code, uint64_t v)
{
	if (v == PCAPNG_NO_COUNT)
		return;
	put_head(o, code, 8);
	put64(o, v);
}

static void put_comments(struct out *o, const struct pcapng_item *it)
{
	for (unsigned i = 0; i < it->comments && i < PCAPNG_COMMENTS; i++)
		put_opt(o, OPT_COMMENT, it->comment[i].s, it->comment[i].len);
}

static void begin(struct out *o, uint8_t *out, size_t room, uint32_t type)
{
	*o = (struct out){ .p = out, .room = room };
	put32(o, type);
	put32(o, 0);
}

static size_t end(struct out *o)
{
	put_head(o, OPT_END, 0);
	put32(o, (uint32_t)o->n + 4);
	if (o->full)
		return 0;
	le32_put(o->p + 4, (uint32_t)o->n);
	return o->n;
}

size_t pcapng_put_section(uint8_t *out, size_t room, const char *app, const char *comment)
{
	struct out o;

	begin(&o, out, room, BLOCK_SECTION);
	put32(&o, PCAPNG_ORDER);
	put32(&o, 1);          /* version 1.0 */
	put64(&o, UINT64_MAX); /* length: not known */
	put_opt_text(&o, OPT_COMMENT, comment);
	put_opt_text(&o, OPT_SHB_APP, app);
	return end(&o);
}

size_t pcapng_put_iface(uint8_t *out, size_t room, const char *name, const char *descr)
{
	struct out o;

	begin(&o, out, room, BLOCK_IFACE);
	put32(&o, PCAPNG_ETHERNET);
	put32(&o, 0);
	put_opt_text(&o, OPT_IF_NAME, name);
	put_opt_text(&o, OPT_IF_DESCR, descr);
	put_opt(&o, OPT_IF_TSRESOL, "\x09", 1);
	return end(&o);
}

size_t pcapng_packet_len(const struct pcapng_item *it)
{
	size_t n = 32 + padded(it->caplen) + 8 + 12 + 4;

	for (unsigned i = 0; i < it->comments && i < PCAPNG_COMMENTS; i++)
		n += 4 + padded(it->comment[i].len);
	return n;
}

size_t pcapng_put_packet(uint8_t *out, size_t room, const struct pcapng_item *it)
{
	uint8_t flags[4];
	struct out o;

	begin(&o, out, room, BLOCK_PACKET);
	put32(&o, it->iface);
	put_time(&o, it->ns);
	put32(&o, (uint32_t)it->caplen);
	put32(&o, (uint32_t)(it->len ? it->len : it->caplen));
	put_data(&o, it->data, it->caplen);
	if (it->flags) {
		le32_put(flags, it->flags);
		put_opt(&o, OPT_EPB_FLAGS, flags, 4);
	}
	if (it->drops)
		put_opt_count(&o, OPT_EPB_DROPS, it->drops);
	put_comments(&o, it);
	return end(&o);
}

size_t pcapng_put_stats(uint8_t *out, size_t room, const struct pcapng_item *it)
{
	struct out o;

	begin(&o, out, room, BLOCK_STATS);
	put32(&o, it->iface);
	put_time(&o, it->ns);
	put_opt_count(&o, OPT_ISB_RECV, it->received);
	put_opt_count(&o, OPT_ISB_DROP, it->dropped);
	put_comments(&o, it);
	return end(&o);
}
