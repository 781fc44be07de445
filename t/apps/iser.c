/* SPDX-License-Identifier: MIT */
/*
 * iser.c - writes all blocks of a disk behind an iser:// URL and reads them back.  Built by the test with libiscsi.
 *
 *	iser URL SEED BLOCKS	prints "ok" if every byte came back
 */
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512u
#define RUN   128u /* blocks a command */

static struct iscsi_context *iscsi;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, iscsi ? iscsi_get_error(iscsi) : "no context");
	exit(1);
}

static void fill(unsigned char *p, unsigned lba, unsigned seed)
{
	for (unsigned i = 0; i < RUN * BLOCK; i++)
		p[i] = (unsigned char)(((lba * BLOCK + i) * 2654435761u + seed) >> 9);
}

int main(int argc, char **argv)
{
	static unsigned char buf[RUN * BLOCK];
	unsigned seed = argc == 4 ? (unsigned)atoi(argv[2]) : 0, blocks = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
	struct iscsi_url *url;
	struct scsi_task *t;

	iscsi = iscsi_create_context("iqn.2026-11.test:initiator");
	url = argc == 4 && iscsi ? iscsi_parse_full_url(iscsi, argv[1]) : NULL;
	if (!url || iscsi_init_transport(iscsi, ISER_TRANSPORT))
		die("iser URL SEED BLOCKS");
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	if (iscsi_full_connect_sync(iscsi, url->portal, url->lun))
		die("connect");
	for (unsigned lba = 0; lba < blocks; lba += RUN) {
		fill(buf, lba, seed);
		t = iscsi_write10_sync(iscsi, url->lun, lba, buf, sizeof(buf), BLOCK, 0, 0, 0, 0, 0);
		if (!t || t->status != SCSI_STATUS_GOOD)
			die("write");
		scsi_free_scsi_task(t);
	}
	for (unsigned lba = 0; lba < blocks; lba += RUN) {
		t = iscsi_read10_sync(iscsi, url->lun, lba, sizeof(buf), BLOCK, 0, 0, 0, 0, 0);
		if (!t || t->status != SCSI_STATUS_GOOD || t->datain.size != (int)sizeof(buf))
			die("read");
		fill(buf, lba, seed);
		if (memcmp(t->datain.data, buf, sizeof(buf)))
			die("wrong bytes");
		scsi_free_scsi_task(t);
	}
	iscsi_logout_sync(iscsi);
	puts("ok");
	return 0;
}
