/* SPDX-License-Identifier: MIT */
/* pcapng_fmt.h - the numbers of the format; for pcapng.c and pcapng_read.c. */
#ifndef LAB_PCAPNG_FMT_H
#define LAB_PCAPNG_FMT_H

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_IFACE = 1,
	BLOCK_SIMPLE = 3,
	BLOCK_STATS = 5,
	BLOCK_PACKET = 6,
};

enum {
	OPT_END = 0,
	OPT_COMMENT = 1,
	OPT_SHB_APP = 4,
	OPT_IF_NAME = 2,
	OPT_IF_DESCR = 3,
	OPT_IF_TSRESOL = 9,
	OPT_IF_TSOFFSET = 14,
	OPT_EPB_FLAGS = 2,
	OPT_EPB_DROPS = 4,
	OPT_ISB_RECV = 4,
	OPT_ISB_DROP = 5,
};

#define PCAPNG_ORDER 0x1a2b3c4du
#define PCAP_MICRO   0xa1b2c3d4u
#define PCAP_NANO    0xa1b23c4du

#endif
