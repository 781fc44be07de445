/* SPDX-License-Identifier: MIT */
/*
 * mpi.c - three small MPI programs in one: hello, a ring, and a ping-pong of all sizes with every byte checked.
 *
 * Prints "ok SIZES" from rank 0 if all was right; ends with MPI_Abort otherwise.  Built by the test with mpicc.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAPS    50
#define LARGEST (4u << 20)
#define ROUNDS  5

static int rank, ranks;

static void require(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(unsigned char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)((i * 2654435761u + seed) >> 7);
}

static int is_filled(const unsigned char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)((i * 2654435761u + seed) >> 7))
			return 0;
	return 1;
}

static void ring(void)
{
	int token = 0, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;

	for (int i = 0; i < LAPS; i++) {
		if (rank == 0) {
			token++;
			MPI_Send(&token, 1, MPI_INT, next, i, MPI_COMM_WORLD);
			MPI_Recv(&token, 1, MPI_INT, last, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&token, 1, MPI_INT, last, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			token++;
			MPI_Send(&token, 1, MPI_INT, next, i, MPI_COMM_WORLD);
		}
	}
	require(rank || token == LAPS * ranks, "the token of the ring is wrong");
}

static unsigned pingpong(void)
{
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
	unsigned sizes = 0;

	require(out && in, "no memory");
	for (size_t len = 1; len <= LARGEST; len *= 4, sizes++)
		for (unsigned i = 0; i < ROUNDS && rank < 2; i++) {
			unsigned seed = (unsigned)len + i;

			fill(out, len, seed);
			memset(in, 0, len);
			if (rank == 0)
				MPI_Send(out, (int)len, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
			MPI_Recv(in, (int)len, MPI_BYTE, !rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			require(is_filled(in, len, seed), "wrong bytes");
			if (rank == 1)
				MPI_Send(in, (int)len, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
		}
	free(out);
	free(in);
	return sizes;
}

static void sum(void)
{
	int mine = rank + 1, all = 0;

	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	require(all == ranks * (ranks + 1) / 2, "the sum is wrong");
}

int main(int argc, char **argv)
{
	unsigned sizes;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	require(ranks >= 2, "needs two ranks");
	printf("hello from %d of %d\n", rank, ranks);
	sum();
	ring();
	sizes = pingpong();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("ok %u\n", sizes);
	MPI_Finalize();
	return 0;
}
