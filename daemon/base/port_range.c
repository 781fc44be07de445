/* SPDX-License-Identifier: MIT */
/* port_range.c - see port_range.h.  Half a dozen system calls for each id that is bound would be more than all the rest of it. */
#include "port_range.h"

#include <stdio.h>

#include "clock.h"

#define GOOD_NS UINT64_C(1000000000)

static struct port_range range_read(void)
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

struct port_range port_range(void)
{
	static struct port_range range;
	static mono_t read_at;
	mono_t now = clock_now();

	if (!range.low || mono_since(now, read_at) >= GOOD_NS) {
		range = range_read();
		read_at = now;
	}
	return range;
}
