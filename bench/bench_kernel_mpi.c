/*
 * bench_kernel_mpi.c - gram_kernel_matmul_multi on the ranks of MPI
 *
 *   GRAM_PLUGIN_DIR=build mpirun -n 2 build/tests/bench_kernel_mpi [N [DEPTH [COLUMNS [REPEATS]]]]
 *
 * 20000 8 1 3 by default.  Gaussian, f32, y is x, points uniform in the unit cube, bandwidth 1; a
 * rank has about as many rows as any other, and as many threads as GRAM_NUM_THREADS says.  With one
 * rank it is gram_kernel_matmul.  Rank 0 prints a line of JSON: the least and the median seconds of
 * a call, until the slowest rank is done, and the sum of the results and of their squares, in which
 * runs with other ranks or another network agree to rounding.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_REPEATS = 100
};

static void must(const gram_context *g, gram_status status)
{
    if (status == GRAM_OK)
        return;
    fprintf(stderr, "%s\n", gram_message(g));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Rows of uniform numbers, each row's from its own index. */
static float *rows_of(int64_t first, int64_t rows, int64_t cols)
{
    const size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *all = malloc(bytes + 1);

    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t i = 0; all && i < rows * cols; i++) {
        uint64_t s = (uint64_t)(first * cols + i) * UINT64_C(0x9e3779b97f4a7c15);

        s = (s ^ s >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
        all[i] = (float)((s ^ s >> 29) >> 40) * 0x1p-24f;
    }
    return all;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench {
    gram_context *g;
    gram_communicator *c; /* NULL: one rank */
    gram_tensor x, v, out;
};

/* A call, of all ranks. */
static double once(struct bench *b)
{
    gram_kernel_matmul_options o = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_kernel_options kernel = gram_gaussian(1);
    double begun;

    o.communicator = b->c;
    MPI_Barrier(MPI_COMM_WORLD);
    begun = MPI_Wtime();
    must(b->g, (b->c ? gram_kernel_matmul_multi : gram_kernel_matmul)(b->g, &b->x, NULL, &kernel,
                                                                      &b->v, &o, &b->out));
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - begun;
}

int main(int argc, char **argv)
{
    int64_t size[4] = {20000, 8, 1, 3}; /* points, coordinates, columns, calls */
    double seconds[MOST_REPEATS], sums[2] = {0}, all[2] = {0};
    struct bench b = {.g = NULL};
    int rank, ranks;
    int64_t first, rows;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc && i <= 4; i++)
        size[i - 1] = strtoll(argv[i], NULL, 10);
    if (size[0] < 1 || size[1] < 1 || size[2] < 1 || size[3] < 1 || size[3] > MOST_REPEATS) {
        fprintf(stderr, "bench_kernel_mpi [N [DEPTH [COLUMNS [REPEATS]]]], all at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    first = size[0] * rank / ranks;
    rows = size[0] * (rank + 1) / ranks - first;
    must(NULL, gram_context_create(NULL, &b.g));
    if (ranks > 1)
        must(b.g, gram_communicator_create_mpi_world(b.g, &b.c));
    b.x = gram_matrix(rows_of(first, rows, size[1]), rows, size[1], GRAM_F32);
    b.v = gram_matrix(rows_of(first + 7, rows, size[2]), rows, size[2], GRAM_F32);
    b.out = gram_matrix(rows_of(0, rows, size[2]), rows, size[2], GRAM_F32);
    for (int64_t i = 0; i < size[3]; i++)
        seconds[i] = once(&b);
    qsort(seconds, (size_t)size[3], sizeof *seconds, ascending);
    for (int64_t i = 0; i < rows * size[2]; i++) {
        const double value = (double)((const float *)b.out.data)[i];

        sums[0] += value;
        sums[1] += value * value;
    }
    MPI_Reduce(sums, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf(
            "{\"ranks\": %d, \"n\": %lld, \"depth\": %lld, \"columns\": %lld, \"least\": %.4f, "
            "\"median\": %.4f, \"sum\": %.9g, \"squares\": %.9g}\n",
            ranks, (long long)size[0], (long long)size[1], (long long)size[2], seconds[0],
            seconds[size[3] / 2], all[0], all[1]);
    free(b.x.data);
    free(b.v.data);
    free(b.out.data);
    gram_communicator_destroy(b.c);
    gram_context_destroy(b.g);
    MPI_Finalize();
    return 0;
}
