/* SPDX-License-Identifier: MIT */
/* eui.c - the 64 bits that name a device. */
#include "eui.h"

#include <string.h>

void eui_from_mac(const uint8_t mac[6], uint8_t eui[8])
{
	memcpy(eui, mac, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	memcpy(eui + 5, mac + 3, 3);
}

void eui_made_up(const struct device *dev, const struct device_conf *c, uint8_t eui[8])
{
	const uint8_t *p = (const uint8_t *)dev->name;
	uint32_t h = 2166136261u;

	for (size_t i = 0; p[i]; i++)
		h = (h ^ p[i]) * 16777619u;
	p = c->addr[0].s6_addr;
	for (size_t i = 0; i < 16 && c->addr_n; i++)
		h = (h ^ p[i]) * 16777619u;
	memcpy(eui, (uint8_t[8]){ 0, 'r', 'd', 0xff, 0xfe, (uint8_t)(h >> 16), (uint8_t)(h >> 8), (uint8_t)h }, 8);
}
