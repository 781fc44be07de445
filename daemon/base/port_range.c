/* SPDX-License-Identifier: MIT */
/* port_range.c - see port_range.h. */
#include "port_range.h"

#include <stdio.h>

struct port_range port_range(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned low = 0, high = 0;
	int n = 0;

	if (f) {
		n = fscanf(f, "%u %u", &low, &high);
		fclose(f);
	}
	if (n != 2 || !low || low > high || high > 65535)
		return (struct port_range){ 32768, 60999 };
	return (struct port_range){ (uint16_t)low, (uint16_t)high };
}
