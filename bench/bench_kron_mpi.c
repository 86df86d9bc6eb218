/*
 * bench_kron_mpi.c - gram_kron_matmul_multi on the ranks of MPI beside one process
 *
 *   mpirun -n 2 build/tests/bench_kron_mpi M P N [SECONDS]
 *
 * X is M by P^N of f32, the factors are P by P.  Each rank has one thread (GRAM_NUM_THREADS says
 * otherwise).  Beside it rank 0 alone, with as many threads as there are ranks, while the others
 * wait in a barrier.  Runs take turns; printed are the least wall clock and, for machines that do
 * other work too, the least processor time of a thread: of all ranks that of the slowest, of one
 * process that of its threads on average.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    MOST_RUNS = 1000
};

struct times {
    double wall[MOST_RUNS], cpu[MOST_RUNS]; /* milliseconds */
    int count;
};

struct bench {
    gram_context *one, *alone; /* a rank's, and that of rank 0 with all threads */
    gram_tensor x, y, part_x, part_y, f;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    int64_t rows, order, count;
    gram_kron_options options;
};

static void must(gram_context *g, gram_status status)
{
    if (status == GRAM_OK)
        return;
    fprintf(stderr, "%s\n", gram_message(g));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static float *fill(int64_t count)
{
    float *data = malloc((size_t)count * sizeof *data + 64);

    if (!data)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t i = 0; data && i < count; i++)
        data[i] = (float)(i % 17) / 32;
    return data;
}

static gram_context *context(int threads)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;

    o.threads = threads;
    must(NULL, gram_context_create(&o, &g));
    return g;
}

static double least(const double *values, int count)
{
    double found = values[0];

    for (int i = 1; i < count; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void report(const struct bench *b, const char *name, const struct times *t, double flops)
{
    double cpu = least(t->cpu, t->count);

    printf("M=%lld %lld^%lld %-16s wall %8.3f ms, processor %8.3f ms, %6.1f GFLOP/s, %d runs\n",
           (long long)b->rows, (long long)b->order, (long long)b->count, name,
           least(t->wall, t->count), cpu, flops / cpu * 1e-6, t->count);
}

static void take_part(struct bench *b, gram_kron_split split)
{
    gram_kron_part part;
    char *px = b->x.data, *py = b->y.data;

    b->options.split = split;
    must(b->one, gram_kron_matmul_part(b->one, b->rows, b->factors, b->count, &b->options, &part));
    px += (part.first_row * b->x.shape[1] + part.first_column) * 4;
    py += (part.first_row * b->y.shape[1] + part.first_out) * 4;
    b->part_x = gram_matrix(px, part.rows, part.columns, GRAM_F32);
    b->part_y = gram_matrix(py, part.rows, part.outs, GRAM_F32);
    if (split == GRAM_KRON_SPLIT_COLUMNS) { /* a rank's part is an array of its own */
        b->part_x.stride[0] = part.columns;
        b->part_y.stride[0] = part.outs;
        b->part_x.data = b->x.data, b->part_y.data = b->y.data;
    }
}

/* One run of all ranks, the times of the slowest; or of rank 0 alone. */
static void run(struct bench *b, int all, struct times *t)
{
    double start, cpu, ms[2];
    int rank = gram_communicator_rank(b->options.communicator);

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime(), cpu = cpu_ms();
    if (all)
        must(b->one, gram_kron_matmul_multi(b->one, &b->part_x, b->factors, b->count, &b->options,
                                            &b->part_y));
    else if (rank == 0)
        must(b->alone, gram_kron_matmul(b->alone, &b->x, b->factors, b->count, NULL, &b->y));
    ms[0] = (MPI_Wtime() - start) * 1e3;
    ms[1] = (cpu_ms() - cpu) / (all ? 1 : gram_communicator_size(b->options.communicator));
    MPI_Allreduce(MPI_IN_PLACE, ms, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    t->wall[t->count] = ms[0], t->cpu[t->count] = ms[1];
}

static void measure(struct bench *b, double seconds)
{
    static const char *const names[] = {"ranks, rows", "ranks, columns", "one process"};
    static struct times times[3];
    double start = MPI_Wtime(), flops, columns = (double)b->x.shape[1];
    int go = 1;

    for (int i = 0; go && times[0].count < MOST_RUNS; i++) {
        for (int way = 0; way < 3; way++) {
            if (way < 2)
                take_part(b, (gram_kron_split)way);
            run(b, way < 2, &times[way]);
            times[way].count += i > 0; /* the first makes threads and scratch */
        }
        go = i < 5 || MPI_Wtime() - start < seconds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    flops = 2 * (double)b->rows * columns * (double)b->order * (double)b->count;
    for (int way = 0; way < 3 && gram_communicator_rank(b->options.communicator) == 0; way++)
        report(b, names[way], &times[way], flops);
}

int main(int argc, char **argv)
{
    struct bench b = {.options = GRAM_KRON_OPTIONS_INIT};
    MPI_Comm world = MPI_COMM_WORLD;
    const char *threads = getenv("GRAM_NUM_THREADS");
    double seconds;
    int64_t columns = 1;
    int ranks = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(world, &ranks);
    if (argc < 4) {
        fprintf(stderr, "usage: mpirun -n RANKS bench_kron_mpi M P N [SECONDS]\n");
        MPI_Abort(world, 2);
        return 2;
    }
    b.rows = strtoll(argv[1], NULL, 10);
    b.order = strtoll(argv[2], NULL, 10);
    b.count = strtoll(argv[3], NULL, 10);
    seconds = argc > 4 ? strtod(argv[4], NULL) : 5;
    b.one = context(threads ? 0 : 1);
    b.alone = context(threads ? 0 : ranks);
    must(b.one, gram_communicator_create_mpi(b.one, &world, sizeof world, &b.options.communicator));
    b.f = gram_matrix(fill(b.order * b.order), b.order, b.order, GRAM_F32);
    for (int64_t i = 0; i < b.count && i < GRAM_MAX_FACTORS; i++, columns *= b.order)
        b.factors[i] = &b.f;
    b.x = gram_matrix(fill(b.rows * columns), b.rows, columns, GRAM_F32);
    b.y = gram_matrix(fill(b.rows * columns), b.rows, columns, GRAM_F32);
    measure(&b, seconds);
    gram_communicator_destroy(b.options.communicator);
    gram_context_destroy(b.one);
    gram_context_destroy(b.alone);
    free(b.x.data);
    free(b.y.data);
    free(b.f.data);
    return MPI_Finalize() != MPI_SUCCESS;
}
