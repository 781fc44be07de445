/* SPDX-License-Identifier: MIT */
/*
 * bench-mpi.c - what two MPI ranks measure: built and started by contrib/bench --apps.
 *
 *	lat8	us, half of a round trip of 8 bytes
 *	bw1m	GB/s, messages of 1 MiB, sixteen under way
 *	bw64k	GB/s, of 64 KiB
 *	sum8	us, an allreduce of one double
 *	sum1m	us, of 131,072 doubles
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW  16
#define LARGEST (1u << 20)
#define WARM    10 /* a tenth of the rounds comes before, and is not counted */

static int rank;
static char *out, *in;

static double pingpong(int rounds)
{
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = MPI_Wtime();
		if (!rank)
			MPI_Send(out, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in, 8, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank)
			MPI_Send(out, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / rounds / 2 * 1e6;
}

/* One way; the receiver's word that a window has arrived begins the next. */
static double stream(int len, int rounds)
{
	MPI_Request r[WINDOW];
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = MPI_Wtime();
		for (int k = 0; k < WINDOW; k++)
			if (rank)
				MPI_Irecv(in, len, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &r[k]);
			else
				MPI_Isend(out, len, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &r[k]);
		MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
		if (rank)
			MPI_Send(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
		else
			MPI_Recv(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return (double)len * WINDOW * rounds / (MPI_Wtime() - start) / 1e9;
}

static double sum(int n, int rounds)
{
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = MPI_Wtime();
		MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / rounds * 1e6;
}

static void say(const char *name, double value)
{
	if (!rank)
		printf("%s %f\n", name, value);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	out = calloc(1, LARGEST);
	in = calloc(1, LARGEST);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	say("lat8", pingpong(5000));
	say("bw1m", stream(1 << 20, 50));
	say("bw64k", stream(1 << 16, 500));
	say("sum8", sum(1, 2000));
	say("sum1m", sum(1 << 17, 100));
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
