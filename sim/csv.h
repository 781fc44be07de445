/* SPDX-License-Identifier: MIT */
/*
 * csv.h - what a run leaves: tables of what happened over time, and a script of gnuplot for them.
 *
 * Without a directory nothing is written, and the ports' logs are summed up all the same.
 */
#ifndef SIM_CSV_H
#define SIM_CSV_H

#include <stdint.h>
#include <stdio.h>

struct fabric;
struct flow;

enum csv_file { CSV_TOTAL, CSV_PORTS, CSV_FLOWS, CSV_MESSAGES, CSV_FILES };

struct csv {
	const char *dir; /* NULL: nothing is written */
	FILE *file[CSV_FILES];
	uint64_t last_ns;                  /* when the last sample was taken */
	uint64_t offered;                  /* fabric.offered at that time */
	uint64_t cnps, retrans, moved_len; /* in all */
};

/* Makes the directory, if it is not there, and the files in it; ends the program if it cannot. */
void csv_open(struct fabric *, const char *dir);
void csv_close(struct fabric *);
void csv_sample(struct fabric *);
void csv_message(struct fabric *, const struct flow *, uint64_t i, uint64_t began_ns);

#endif
