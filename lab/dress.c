/* SPDX-License-Identifier: MIT */
/* dress.c - headers for a UDP payload. */
#include "dress.h"

#include <stdbool.h>
#include <string.h>

#include <rdmad/gid.h>

#include "../proto/bytes.h"

#define ETH_LEN   14u
#define IP4_LEN   20u
#define IP6_LEN   40u
#define UDP_LEN   8u
#define PORT      4791u
#define PROTO_UDP 17u

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Added up in the byte order of this host, which the sum keeps. */
uint16_t dress_sum(const uint8_t *data, size_t len)
{
	uint8_t word[2];
	uint64_t sum = 0;
	uint32_t v;
	uint16_t w;

	for (; len >= 4; data += 4, len -= 4) {
		memcpy(&v, data, 4);
		sum += v;
	}
	for (; len; data += 2, len -= len > 1 ? 2 : 1) {
		word[0] = data[0];
		word[1] = len > 1 ? data[1] : 0;
		memcpy(&w, word, 2);
		sum += w;
	}
	w = fold(sum);
	memcpy(word, &w, 2);
	return (uint16_t)be16_get(word);
}

static void mac_put(uint8_t mac[6], const uint8_t gid[16], bool v4)
{
	uint64_t hash = 0xcbf29ce484222325u;

	if (v4 && gid[12] >= 224 && gid[12] < 240) {
		memcpy(mac, "\x01\x00\x5e", 3);
		mac[3] = gid[13] & 0x7f;
		memcpy(mac + 4, gid + 14, 2);
	} else if (v4) {
		memcpy(mac, "\x02\x00", 2);
		memcpy(mac + 2, gid + 12, 4);
	} else if (gid[0] == 0xff) {
		memcpy(mac, "\x33\x33", 2);
		memcpy(mac + 2, gid + 12, 4);
	} else {
		for (unsigned i = 0; i < 16; i++)
			hash = (hash ^ gid[i]) * 0x100000001b3u;
		mac[0] = 6;
		be32_put(mac + 1, (uint32_t)(hash >> 32));
		mac[5] = (uint8_t)hash;
	}
}

static void ip4_put(uint8_t *p, const struct dress *d)
{
	const struct route *r = d->route;

	memset(p, 0, IP4_LEN);
	p[0] = 0x45;
	p[1] = r->tclass;
	be16_put(p + 2, (uint32_t)(IP4_LEN + UDP_LEN + d->len));
	be16_put(p + 4, d->ip_id);
	p[6] = 0x40; /* DF */
	p[8] = r->hop_limit ? r->hop_limit : 64;
	p[9] = PROTO_UDP;
	memcpy(p + 12, r->sgid + 12, 4);
	memcpy(p + 16, r->dgid + 12, 4);
	be16_put(p + 10, (uint16_t)~dress_sum(p, IP4_LEN));
}

static void ip6_put(uint8_t *p, const struct dress *d)
{
	const struct route *r = d->route;

	be32_put(p, 6u << 28 | (uint32_t)r->tclass << 20 | (r->flow_label & 0xfffff));
	be16_put(p + 4, (uint32_t)(UDP_LEN + d->len));
	p[6] = PROTO_UDP;
	p[7] = r->hop_limit ? r->hop_limit : 64;
	memcpy(p + 8, r->sgid, 16);
	memcpy(p + 24, r->dgid, 16);
}

/* addrs: both addresses as they stand in the IP header. */
static void udp_put(uint8_t *p, const struct dress *d, const uint8_t *addrs, size_t addrs_len)
{
	uint16_t all = d->caplen < d->len ? d->sum : dress_sum(d->data, d->len);
	uint32_t len = (uint32_t)(UDP_LEN + d->len);
	uint16_t sum;

	be16_put(p, d->sport);
	be16_put(p + 2, PORT);
	be16_put(p + 4, len);
	be16_put(p + 6, 0);
	sum = (uint16_t)~fold((uint64_t)all + dress_sum(addrs, addrs_len) + dress_sum(p, UDP_LEN) + PROTO_UDP + len);
	be16_put(p + 6, sum ? sum : 0xffff);
}

size_t dress_put(uint8_t *out, const struct dress *d)
{
	const struct route *r = d->route;
	bool v4 = gid_is_v4(r->sgid) && gid_is_v4(r->dgid);
	uint8_t *ip = out + ETH_LEN, *udp = ip + (v4 ? IP4_LEN : IP6_LEN);

	mac_put(out, r->dgid, v4);
	mac_put(out + 6, r->sgid, v4);
	be16_put(out + 12, v4 ? 0x0800 : 0x86dd);
	if (v4) {
		ip4_put(ip, d);
		udp_put(udp, d, ip + 12, 8);
	} else {
		ip6_put(ip, d);
		udp_put(udp, d, ip + 8, 32);
	}
	memcpy(udp + UDP_LEN, d->data, d->caplen);
	return (size_t)(udp - out) + UDP_LEN + d->caplen;
}
