/* SPDX-License-Identifier: MIT */
/*
 * capfile.h - the output of a capture: a file, standard output, or a series of files of which the last ones are
 * kept.  Each file is a complete pcapng file.
 */
#ifndef CTL_CAPFILE_H
#define CTL_CAPFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../lab/pcapng.h"

#define CAPFILE_IFACES 32u

struct capfile {
	/* Set by the caller, before it is opened. */
	const char *path; /* "-": standard output */
	uint64_t size;    /* bytes of a file before the next one begins; 0: there is one file only */
	unsigned keep;    /* files; 0: all */
	unsigned ifaces;
	char iface[CAPFILE_IFACES][PCAPNG_NAME_LEN];
	/* Statistics of interface i, for the end of each file. */
	void (*stats)(void *arg, unsigned i, struct pcapng_item *);
	void *arg;
	/* capfile.c's. */
	int fd;
	unsigned file_n;  /* files begun */
	uint64_t written; /* bytes of this file */
	uint8_t *buf;
	size_t buf_n;
	bool pipe_closed; /* nobody reads any more */
	bool cut;         /* what was said: nothing goes behind a block that is not whole */
};

/* Says what is wrong, then false. */
bool capfile_open(struct capfile *);
bool capfile_put(struct capfile *, const struct pcapng_item *);
/* Writes all that is still buffered. */
bool capfile_flush(struct capfile *);
/* Statistics, and the end. */
bool capfile_close(struct capfile *);

#endif
