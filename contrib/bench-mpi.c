/* SPDX-License-Identifier: MIT */
/*
 * bench-mpi.c - what MPI ranks measure, one or more pairs of them: built and started by contrib/bench --apps.
 *
 *	lat8	us, half of a round trip of 8 bytes
 *	bw1m	GB/s, messages of 1 MiB, sixteen under way
 *	bw64k	GB/s, of 64 KiB
 *	sum8	us, an allreduce of one double
 *	sum1m	us, of 131,072 doubles
 *
 * Ranks 0 and 1 are a pair, and so on.  A rate is that of all pairs together, a time that of the slowest.  The argument
 * divides the numbers of rounds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW  16
#define LARGEST (1u << 20)
#define WARM    10 /* a tenth of the rounds comes before, and is not counted */

static int rank, ranks, peer, odd;
static char *out, *in;

/* When all are here. */
static double begin(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime();
}

/* Since then, of the slowest; for rank 0. */
static double slowest(double start)
{
	double mine = MPI_Wtime() - start, most = 0;

	MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return most;
}

static double pingpong(int rounds)
{
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = begin();
		if (!odd)
			MPI_Send(out, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		MPI_Recv(in, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (odd)
			MPI_Send(out, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
	}
	return slowest(start) / rounds / 2 * 1e6;
}

/* One way; the receiver's word that a window has arrived begins the next. */
static double stream(int len, int rounds)
{
	MPI_Request r[WINDOW];
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = begin();
		for (int k = 0; k < WINDOW; k++)
			if (odd)
				MPI_Irecv(in, len, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &r[k]);
			else
				MPI_Isend(out, len, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &r[k]);
		MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
		if (odd)
			MPI_Send(NULL, 0, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
		else
			MPI_Recv(NULL, 0, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return (double)len * WINDOW * rounds * (ranks / 2) / slowest(start) / 1e9;
}

static double sum(int n, int rounds)
{
	double start = 0;

	for (int i = -rounds / WARM; i < rounds; i++) {
		if (!i)
			start = begin();
		MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	return slowest(start) / rounds * 1e6;
}

static void say(const char *name, double value)
{
	if (!rank)
		printf("%s %f\n", name, value);
}

int main(int argc, char **argv)
{
	const int part = argc > 1 ? atoi(argv[1]) : 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	peer = rank ^ 1;
	odd = rank & 1;
	out = calloc(1, LARGEST);
	in = calloc(1, LARGEST);
	if (!out || !in || ranks % 2 || part < 1)
		MPI_Abort(MPI_COMM_WORLD, 1);
	say("lat8", pingpong(5000 / part));
	say("bw1m", stream(1 << 20, 50 / part));
	say("bw64k", stream(1 << 16, 500 / part));
	say("sum8", sum(1, 2000 / part));
	say("sum1m", sum(1 << 17, 100 / part));
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
