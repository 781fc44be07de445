/* SPDX-License-Identifier: MIT */
/* frame.c - link layer, IP and UDP of captured frames; trains. */
#include "frame.h"

#include <string.h>

#include "../proto/bytes.h"
#include "../proto/hdr.h"
#include "../proto/icrc.h"
#include "../proto/opcode.h"

#define UDP_HDR      8u
#define PROTO_UDP    17u
#define IPV4_DF      0x4000u
#define IPV4_FRAG    0x3fffu /* more fragments, or an offset */
#define IPV4_OFFSET  0x1fffu
#define PROTO_FRAG   44u /* the fragment header of IPv6 */
#define FRAG_HDR     8u
#define IPV6_OFFSET  0xfff8u
#define ICRC_MAX_PKT (PKT_HDR_MAX + 4096u + ICRC_LEN)

/* clang-format off */
enum link { LINK_NULL = 0, LINK_ETHERNET = 1, LINK_RAW_BSD = 12, LINK_RAW = 101, LINK_LOOP = 108, LINK_SLL = 113,
	    LINK_IPV4 = 228, LINK_IPV6 = 229, LINK_SLL2 = 276 };
/* clang-format on */

bool frame_link_known(int link)
{
	switch (link) {
	case LINK_NULL:
	case LINK_ETHERNET:
	case LINK_RAW_BSD:
	case LINK_RAW:
	case LINK_LOOP:
	case LINK_SLL:
	case LINK_IPV4:
	case LINK_IPV6:
	case LINK_SLL2: return true;
	}
	return false;
}

/* 802.1Q, 802.1ad, and what was used for outer tags before that. */
static bool is_vlan(uint32_t type) { return type == 0x8100 || type == 0x88a8 || type == 0x9100; }

/* Where the IP header is, behind a header of at bytes and VLAN tags; type: where the EtherType is.  len if there is none. */
static size_t behind_tags(const uint8_t *p, size_t len, size_t type, size_t at)
{
	if (len < at)
		return len;
	for (; is_vlan(be16_get(p + type)) && at + 4 <= len; at += 4)
		type = at + 2;
	return be16_get(p + type) == 0x0800 || be16_get(p + type) == 0x86dd ? at : len;
}

static size_t ip_at(int link, const uint8_t *p, size_t len)
{
	switch (link) {
	case LINK_ETHERNET: return behind_tags(p, len, 12, 14);
	case LINK_SLL: return behind_tags(p, len, 14, 16);
	case LINK_SLL2: return behind_tags(p, len, 0, 20);
	case LINK_NULL:
	case LINK_LOOP: return 4;
	}
	return 0;
}

uint32_t frame_index(int link, const uint8_t *p, size_t len)
{
	return link == LINK_SLL2 && len >= 8 ? be32_get(p + 4) : 0;
}

static void gid4(uint8_t gid[16], const uint8_t *addr)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, addr, 4);
}

/* p: of a fragment, there bytes of it; those behind the first do not say whose they are. */
static enum frame_kind fragment_get(const uint8_t *p, unsigned off, size_t there)
{
	return !off && there >= UDP_HDR && be16_get(p + 2) == ROCE_PORT ? FRAME_FRAGMENT : FRAME_OTHER;
}

/* there: so many of its len bytes are in the capture. */
static enum frame_kind udp_get(struct frame *f, const uint8_t *p, size_t len, size_t there)
{
	size_t udp_len;

	if (len < UDP_HDR || there < UDP_HDR || be16_get(p + 2) != ROCE_PORT)
		return FRAME_OTHER;
	f->sport = (uint16_t)be16_get(p);
	udp_len = be16_get(p + 4);
	if (udp_len < UDP_HDR || udp_len > len)
		return FRAME_LENGTHS;
	f->data = p + UDP_HDR;
	f->whole = udp_len - UDP_HDR;
	if (udp_len > there) {
		f->len = there - UDP_HDR;
		return FRAME_CUT;
	}
	f->len = f->whole;
	return FRAME_ROCE;
}

static enum frame_kind ipv4_get(struct frame *f, const uint8_t *p, size_t len)
{
	size_t head = (size_t)(p[0] & 15) * 4, total;

	if (len < 20 || head < 20 || p[9] != PROTO_UDP)
		return FRAME_OTHER;
	gid4(f->sgid, p + 12);
	gid4(f->dgid, p + 16);
	f->tos = p[1];
	f->ip_id = (uint16_t)be16_get(p + 4);
	f->df = be16_get(p + 6) & IPV4_DF;
	total = be16_get(p + 2);
	if (total < head || len < head)
		return FRAME_OTHER;
	if (be16_get(p + 6) & IPV4_FRAG)
		return fragment_get(p + head, be16_get(p + 6) & IPV4_OFFSET, len - head);
	return udp_get(f, p + head, total - head, len - head);
}

static enum frame_kind ipv6_get(struct frame *f, const uint8_t *p, size_t len)
{
	if (len < 40 || (p[6] != PROTO_UDP && p[6] != PROTO_FRAG))
		return FRAME_OTHER;
	memcpy(f->sgid, p + 8, 16);
	memcpy(f->dgid, p + 24, 16);
	f->tos = (uint8_t)(be16_get(p) >> 4);
	f->ip_id = 0;
	f->df = true;
	if (p[6] == PROTO_FRAG)
		return len < 40 + FRAG_HDR || p[40] != PROTO_UDP
			       ? FRAME_OTHER
			       : fragment_get(p + 40 + FRAG_HDR, be16_get(p + 42) & IPV6_OFFSET, len - 40 - FRAG_HDR);
	return udp_get(f, p + 40, be16_get(p + 4), len - 40);
}

enum frame_kind frame_get(struct frame *f, int link, const uint8_t *p, size_t len)
{
	size_t at = ip_at(link, p, len);

	if (at + 1 > len || !frame_link_known(link))
		return FRAME_OTHER;
	switch (p[at] >> 4) {
	case 4: return ipv4_get(f, p + at, len - at);
	case 6: return ipv6_get(f, p + at, len - at);
	}
	return FRAME_OTHER;
}

uint64_t frame_id(const struct frame *f, const uint8_t *data, size_t len)
{
	uint64_t h = 14695981039346656037u;

	for (unsigned i = 0; i < 16; i++)
		h = (h ^ f->sgid[i] ^ (uint64_t)f->dgid[i] << 8) * 1099511628211u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ data[i]) * 1099511628211u;
	return h;
}

uint32_t frame_icrc(const struct frame *f, unsigned i, const uint8_t *data, size_t len)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, f->sgid, f->dgid, f->sport, ROCE_PORT, f->df);
	return icrc_pkt(&flow, (uint16_t)(f->ip_id + i), data, len - ICRC_LEN);
}

bool frame_icrc_good(const struct frame *f, unsigned i, const uint8_t *data, size_t len)
{
	uint32_t crc = le32_get(data + len - ICRC_LEN);

	return crc == frame_icrc(f, i, data, len) || (i && crc == frame_icrc(f, 0, data, len));
}

/* A BTH may be there. */
static bool is_bth(const uint8_t *p)
{
	return !(p[BTH_FLAGS] & BTH_TVER) && be16_get(p + BTH_PKEY) & 0x7fff &&
	       (opcode_get(p[BTH_OPCODE])->name || p[BTH_OPCODE] == OPCODE_CNP);
}

/* Each length costs an ICRC: of what could be one packet, whose ICRC is wrong, only those are tried behind which another may begin. */
size_t frame_segment(const struct frame *f)
{
	if (f->len < BTH_LEN + ICRC_LEN || frame_icrc_good(f, 0, f->data, f->len))
		return f->len;
	for (size_t len = BTH_LEN + ICRC_LEN; len < f->len && len <= ICRC_MAX_PKT; len += 4)
		if ((f->len > ICRC_MAX_PKT || f->len - len < BTH_LEN || is_bth(f->data + len)) &&
		    frame_icrc_good(f, 0, f->data, len))
			return len;
	return f->len;
}
