/* SPDX-License-Identifier: MIT */
/*
 * icrc.c - the CRC itself is crc.c's; here is what goes into it, and the algebra of the unknown
 * IPv4 identification.
 *
 * Polynomials over GF(2) modulo P (the CRC-32 of IEEE 802.3) are in reflected order, as the CRC is: bit 31
 * is x^0, bit 0 is x^31.  A message difference of 16 bits, d bytes before the end of what the CRC covers,
 * changes the CRC by  id * x^32 * x^(8 d).  Undoing it is one multiplication by x^-(32 + 8 d), done
 * as a product with a 32 x 32 matrix of bits, so that the 32 steps do not wait for each other.
 */
#include "icrc.h"

#include <assert.h>
#include <string.h>

#include <rdmad/gid.h>

#include "crc.h"

#define CRC_AFTER_LRH 0x2144df1cu /* the CRC of 8 bytes of ff, which stand for a local route header */

#define IP4_ID       4u /* offsets in struct icrc_flow.head */
#define IP4_TOTAL    2u
#define IP6_PAYLOAD  4u
#define UDP_LEN      8u
#define UDP_LEN_BACK 4u /* the length field, from the end of the UDP header */

#define ID_TO_BTH (ICRC_IP4_LEN - IP4_ID - 2u)

/* ---- computing ----------------------------------------------------------- */

static uint8_t *ip4_head(uint8_t *p, const uint8_t *sgid, const uint8_t *dgid, bool df)
{
	p[0] = 0x45;
	p[1] = 0xff; /* TOS */
	p[6] = df ? 0x40 : 0;
	p[8] = 0xff; /* TTL */
	p[9] = 17;
	p[10] = p[11] = 0xff; /* header checksum */
	memcpy(p + 12, sgid + 12, 4);
	memcpy(p + 16, dgid + 12, 4);
	return p + 20;
}

static uint8_t *ip6_head(uint8_t *p, const uint8_t *sgid, const uint8_t *dgid)
{
	p[0] = 0x6f; /* the version; traffic class and flow label are masked */
	p[1] = p[2] = p[3] = 0xff;
	p[6] = 17;
	p[7] = 0xff; /* hop limit */
	memcpy(p + 8, sgid, 16);
	memcpy(p + 24, dgid, 16);
	return p + 40;
}

void icrc_flow_init(struct icrc_flow *f, const uint8_t sgid[16], const uint8_t dgid[16], uint16_t sport, uint16_t dport,
		    bool df)
{
	uint8_t *udp;

	memset(f, 0, sizeof(*f));
	f->ipv6 = !gid_is_v4(sgid) || !gid_is_v4(dgid);
	udp = f->ipv6 ? ip6_head(f->head, sgid, dgid) : ip4_head(f->head, sgid, dgid, df);
	be16_put(udp, sport);
	be16_put(udp + 2, dport);
	udp[6] = udp[7] = 0xff; /* checksum */
	f->len = f->ipv6 ? ICRC_IP6_LEN : ICRC_IP4_LEN;
}

/* The CRC of the IP and UDP headers. */
static uint32_t flow_crc(const struct icrc_flow *f, uint16_t ip_id, size_t udp_len)
{
	uint8_t buf[ICRC_IP6_LEN];
	uint32_t udp_total = UDP_LEN + (uint32_t)udp_len;

	memcpy(buf, f->head, sizeof(f->head));
	if (f->ipv6) {
		be16_put(buf + IP6_PAYLOAD, udp_total);
	} else {
		be16_put(buf + IP4_TOTAL, udp_total + 20);
		be16_put(buf + IP4_ID, ip_id);
	}
	be16_put(buf + f->len - UDP_LEN_BACK, udp_total);
	return crc_more(CRC_AFTER_LRH, buf, f->len);
}

uint32_t icrc_head(const struct icrc_flow *f, uint16_t ip_id, size_t udp_len, const uint8_t *hdr, size_t hdr_len)
{
	uint8_t buf[PKT_HDR_MAX];

	assert(hdr_len >= BTH_LEN && hdr_len <= PKT_HDR_MAX);
	memcpy(buf, hdr, hdr_len);
	buf[BTH_ECN] = 0xff;
	return crc_more(flow_crc(f, ip_id, udp_len), buf, hdr_len);
}

uint32_t icrc_data(uint32_t crc, const void *data, size_t len) { return len ? crc_more(crc, data, len) : crc; }

uint32_t icrc_pad(uint32_t crc, unsigned n)
{
	static const uint8_t zero[4];

	return icrc_data(crc, zero, n);
}

/* The bits of the CRC of an IPv4 and a UDP header that bit i of the identification changes. */
static const uint32_t id_bit[16] = {
	0x9b73ead4, 0xed96d3e9, 0x005ca193, 0x00b94326, 0x0172864c, 0x02e50c98, 0x05ca1930, 0x0b943260,
	0x81256527, 0xd93bcc0f, 0x69069e5f, 0xd20d3cbe, 0x7f6b7f3d, 0xfed6fe7a, 0x26dcfab5, 0x4db9f56a,
};

static uint32_t id_change(uint16_t id)
{
	uint32_t crc = 0;

	for (; id; id &= id - 1)
		crc ^= id_bit[__builtin_ctz(id)];
	return crc;
}

/* The CRC of the packet with byte 4 of the BTH masked, by the letter. */
static uint32_t pkt_masked(uint32_t head, const uint8_t *pkt, size_t len)
{
	static const uint8_t ones = 0xff;

	head = crc_more(head, pkt, BTH_ECN);
	head = crc_more(head, &ones, 1);
	return crc_more(head, pkt + BTH_ECN + 1, len - BTH_ECN - 1);
}

/* Those of this length, if pkt is one of them whose byte 4 of the BTH is 0, so that what a mask changes in its CRC is known; or NULL. */
static const struct icrc_same *same_get(struct icrc_flow *f, const uint8_t *pkt, size_t len)
{
	struct icrc_same *same = &f->same[(len >> 2) % ICRC_SAME];

	if (pkt[BTH_ECN])
		return NULL;
	if (same->len != len) {
		same->head = flow_crc(f, 0, len + ICRC_LEN);
		same->mask = pkt_masked(same->head, pkt, len) ^ crc_more(same->head, pkt, len);
		same->len = (uint32_t)len;
	}
	return same;
}

static uint32_t id_of(const struct icrc_flow *f, uint16_t ip_id) { return f->ipv6 ? 0 : id_change(ip_id); }

uint32_t icrc_pkt(struct icrc_flow *f, uint16_t ip_id, const uint8_t *pkt, size_t len)
{
	const struct icrc_same *same;

	assert(len >= BTH_LEN);
	same = same_get(f, pkt, len);
	if (!same)
		return pkt_masked(flow_crc(f, ip_id, len + ICRC_LEN), pkt, len);
	return crc_more(same->head ^ id_of(f, ip_id), pkt, len) ^ same->mask;
}

uint32_t icrc_pkt_copy(struct icrc_flow *f, uint16_t ip_id, uint8_t *pkt, size_t hdr_len, const uint8_t *from,
		       size_t pay, size_t len)
{
	const struct icrc_same *same;

	assert(hdr_len >= BTH_LEN && hdr_len + pay <= len);
	same = hdr_len + pay == len ? same_get(f, pkt, len) : NULL;
	if (same)
		return crc_copy(same->head ^ id_of(f, ip_id), pkt, hdr_len, from, pay) ^ same->mask;
	memcpy(pkt + hdr_len, from, pay);
	return icrc_pkt(f, ip_id, pkt, len);
}

/* ---- the unknown identification ------------------------------------------ */

static uint32_t mul_x(uint32_t a) { return a >> 1 ^ (a & 1 ? CRC_POLY : 0); }
static uint32_t div_x(uint32_t a) { return a >> 31 ? (a ^ CRC_POLY) << 1 | 1 : a << 1; }

static uint32_t mul(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (int i = 31; i >= 0; i--) { /* from x^0 on */
		r ^= -(b >> i & 1) & a;
		a = mul_x(a);
	}
	return r;
}

void icrc_rx_init(struct icrc_rx *rx)
{
	uint32_t byte = 1u << 31, page;

	memset(rx, 0, sizeof(*rx));
	for (int i = 0; i < 8; i++)
		byte = div_x(byte);
	rx->lo[0] = rx->hi[0] = 1u << 31;
	for (unsigned i = 1; i < 256; i++)
		rx->lo[i] = mul(rx->lo[i - 1], byte);
	page = mul(rx->lo[255], byte);
	for (unsigned i = 1; i < sizeof(rx->hi) / sizeof(*rx->hi); i++)
		rx->hi[i] = mul(rx->hi[i - 1], page);
}

/* The matrix of multiplication by x^-(32 + 8 dist): column i is its product with the polynomial that is bit i. */
static const struct icrc_way *way_get(struct icrc_rx *rx, uint32_t dist)
{
	struct icrc_way *way = &rx->way[(dist ^ dist >> 2 ^ dist >> 5) % ICRC_WAYS];
	uint32_t k;

	if (way->dist == dist)
		return way;
	k = mul(rx->lo[4], mul(rx->lo[dist & 255], rx->hi[dist >> 8]));
	for (int i = 31; i >= 0; i--) {
		way->col[i] = k;
		k = mul_x(k);
	}
	way->dist = dist;
	return way;
}

bool icrc_check(struct icrc_rx *rx, struct icrc_flow *f, const uint8_t *pkt, size_t len, uint16_t *ip_id)
{
	const struct icrc_way *way;
	uint32_t diff, id = 0;

	*ip_id = 0;
	if (len < BTH_LEN + ICRC_LEN || len > UINT16_MAX)
		return false;
	diff = icrc_pkt(f, rx->guess, pkt, len - ICRC_LEN) ^ le32_get(pkt + len - ICRC_LEN);
	if (f->ipv6)
		return diff == 0;
	if (diff == 0) {
		*ip_id = rx->guess++;
		return true;
	}

	way = way_get(rx, ID_TO_BTH + (uint32_t)(len - ICRC_LEN));
	for (int i = 0; i < 32; i++)
		id ^= -(diff >> i & 1) & way->col[i];
	/* The first byte of a message is its highest powers: of 16 bits, bits 16 to 23 here. */
	if (id & 0xffff)
		return false;
	*ip_id = (uint16_t)((id >> 8 & 0xff00) | id >> 24) ^ rx->guess;
	rx->guess = (uint16_t)(*ip_id + 1);
	return true;
}
