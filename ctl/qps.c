/* SPDX-License-Identifier: MIT */
/* qps.c - `rdmactl qps`: a line for each queue pair. */
#include <stdio.h>

#include "command.h"
#include "show.h"

static void show(const json_t *j)
{
	size_t i;
	json_t *q;

	printf("%-12s %8s %-4s %-5s %7s %-16s %6s %6s %12s %12s %7s  %s\n", "DEVICE", "QPN", "TYPE", "STATE", "PID",
	       "PROGRAM", "SENDS", "RECVS", "TX_BYTES", "RX_BYTES", "RETRANS", "PEER");
	json_array_foreach(json_object_get(j, "qps"), i, q)
	{
		printf("%-12s %#8llx %-4s %-5s %7lld %-16.16s %6lld %6lld %12lld %12lld %7lld  ", show_str(q, "device"),
		       show_num(q, "qpn"), show_str(q, "type"), show_str(q, "state"), show_num(q, "pid"),
		       show_str(q, "program"), show_num(q, "sq_len"), show_num(q, "rq_len"), show_num(q, "tx_bytes"),
		       show_num(q, "rx_bytes"), show_num(q, "retrans"));
		if (*show_str(q, "peer"))
			printf("%s %#llx\n", show_str(q, "peer"), show_num(q, "dest_qpn"));
		else
			puts("-");
	}
}

int qps_main(int argc, char **argv, const struct ask *ask) { return show_dump(argc, argv, ask, DUMP_QPS, show); }
