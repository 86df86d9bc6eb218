/*
 * simulate_ranks.c - how long a product with a kernel matrix would take on many ranks
 *
 *   simulate_ranks SECONDS POINTS LATENCY BANDWIDTH N DEPTH COLUMNS RANKS...
 *
 * SECONDS    that a product of POINTS points took on one device (a block, measured)
 * LATENCY    seconds of a message that is short, and of an agreement (measured)
 * BANDWIDTH  bytes a second that a device sends and receives at a time (measured)
 * N          points of the product that is planned, of DEPTH coordinates, by COLUMNS columns, f32
 * RANKS      one number of devices or several
 *
 * Who sends what is not assumed: gram_kernel_matmul_multi runs in threads, one for each rank, over
 * a transport that counts.  That is done with two small numbers of points; bytes grow linearly with
 * them, agreements not at all.  Which pairs of points a rank multiplies is said by gram_part_row,
 * as on a GPU.  A rank takes the time of its pairs; an exchange takes its latency and the bytes of
 * the rank that has most of them; all ranks wait for the slowest.  What exchanges and products
 * overlap in is not counted.  Prints a line of JSON for each number of ranks.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/context.h"
#include "multi/communicator.h"
#include "pairwise/pairwise.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 256,       /* ranks */
    MOST_STEPS = 64,  /* exchanges and agreements of a product */
    POINTS_EACH = 40, /* of the smaller run */
    BLOCK = 128       /* rows with which the strips of GPUs begin */
};

/* ---- A transport in one process -------------------------------------------------------------- */

/* What the ranks of a run share, and what they have sent: bytes of the busiest rank in each step, 0
 * in an agreement. */
struct team {
    int ranks, steps;
    pthread_barrier_t barrier;
    const struct gram_exchange *exchange[MOST];
    int64_t *values[MOST];
    double bytes[MOST_STEPS];
};

/* A new step, which rank 0 counts. */
static void count(struct team *team, const gram_communicator *c, double bytes)
{
    if (c->rank == 0) {
        if (team->steps == MOST_STEPS)
            exit(fprintf(stderr, "more than %d steps\n", MOST_STEPS));
        team->bytes[team->steps++] = bytes;
    }
}

static gram_status largest(gram_context *g, gram_communicator *c, int64_t *values, int number)
{
    struct team *team = c->state;
    int64_t most[GRAM_MAX_COMMON * 2 + 8];

    (void)g;
    team->values[c->rank] = values;
    pthread_barrier_wait(&team->barrier);
    for (int i = 0; i < number; i++) {
        most[i] = values[i];
        for (int rank = 0; rank < team->ranks; rank++)
            most[i] = gram_most(most[i], team->values[rank][i]);
    }
    pthread_barrier_wait(&team->barrier);
    memcpy(values, most, (size_t)number * sizeof *values);
    count(team, c, 0);
    return GRAM_OK;
}

/* Bytes that a rank sends to the others or receives from them, whichever are more. */
static double busy(const struct gram_exchange *e, int self, int ranks)
{
    double sent = 0, received = 0;

    for (int rank = 0; rank < ranks; rank++)
        if (rank != self) {
            sent += (double)e->send_bytes[rank];
            received += (double)e->receive_bytes[rank];
        }
    return fmax(sent, received);
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    struct team *team = c->state;
    char *to = e->receive;
    double most = 0;

    (void)g;
    team->exchange[c->rank] = e;
    pthread_barrier_wait(&team->barrier);
    for (int rank = 0; rank < team->ranks; to += e->receive_bytes[rank++]) {
        const struct gram_exchange *from = team->exchange[rank];
        const char *chunk = from->send;

        for (int before = 0; !from->to_all && before < c->rank; before++)
            chunk += from->send_bytes[before];
        if (e->receive_bytes[rank] > 0 && chunk != to)
            memmove(to, chunk, e->receive_bytes[rank]);
        most = fmax(most, busy(from, rank, team->ranks));
    }
    pthread_barrier_wait(&team->barrier);
    count(team, c, most);
    return GRAM_OK;
}

static const struct gram_transport transport = {.version = GRAM_VERSION,
                                                .name = "threads",
                                                .device = GRAM_CPU,
                                                .largest = largest,
                                                .exchange = exchange};

/* ---- A product ------------------------------------------------------------------------------- */

struct part {
    struct team *team;
    int rank;
    int64_t points, depth, columns; /* points: of all ranks */
    pthread_t thread;
};

static void must(const gram_context *g, gram_status status)
{
    if (status != GRAM_OK)
        exit(fprintf(stderr, "%s\n", gram_message(g)));
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);

    if (!memory)
        exit(fprintf(stderr, "no memory\n"));
    return memory;
}

static void *run(void *argument)
{
    const struct part *part = argument;
    const int ranks = part->team->ranks;
    const int64_t rows = part->points / ranks;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_kernel_matmul_options o = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_kernel_options kernel = gram_gaussian(1);
    int64_t *own = allocate(2 * (size_t)ranks * sizeof *own);
    size_t *bytes = allocate(2 * (size_t)ranks * sizeof *bytes);
    gram_communicator c = {
        .transport = &transport,
        .state = part->team,
        .rank = part->rank,
        .size = ranks,
        .rows = {own, own + ranks},
        .send_bytes = bytes,
        .receive_bytes = bytes + ranks
    };
    gram_tensor x = gram_matrix(allocate((size_t)(rows * part->depth) * sizeof(float)), rows,
                                part->depth, GRAM_F32);
    gram_tensor v = gram_matrix(allocate((size_t)(rows * part->columns) * sizeof(float)), rows,
                                part->columns, GRAM_F32);
    gram_tensor out = gram_matrix(allocate((size_t)(rows * part->columns) * sizeof(float)), rows,
                                  part->columns, GRAM_F32);

    options.threads = 1;
    must(NULL, gram_context_create(&options, &c.g));
    o.communicator = &c;
    must(c.g, gram_kernel_matmul_multi(c.g, &x, NULL, &kernel, &v, &o, &out));
    gram_context_destroy(c.g);
    free(x.data);
    free(v.data);
    free(out.data);
    free(own);
    free(bytes);
    return NULL;
}

/* The steps of a product of so many points. */
static void record(struct team *team, int64_t points, int64_t depth, int64_t columns)
{
    struct part part[MOST] = {{.team = team}};

    team->steps = 0;
    pthread_barrier_init(&team->barrier, NULL, (unsigned)team->ranks);
    for (int rank = 0; rank < team->ranks; rank++) {
        part[rank] = (struct part){team, rank, points, depth, columns, 0};
        if (rank > 0 && pthread_create(&part[rank].thread, NULL, run, &part[rank]) != 0)
            exit(fprintf(stderr, "no thread\n"));
    }
    run(&part[0]);
    for (int rank = 1; rank < team->ranks; rank++)
        pthread_join(part[rank].thread, NULL);
    pthread_barrier_destroy(&team->barrier);
}

/* ---- The time -------------------------------------------------------------------------------- */

struct plan {
    double seconds, points, latency, bandwidth; /* as measured */
    int64_t n, depth, columns;
};

/* The share of all pairs (i, j), j >= i, that the busiest rank has. */
static double most_pairs(int64_t n, int ranks)
{
    double most = 0;

    for (int rank = 0; rank < ranks; rank++) {
        const double from = (double)gram_part_row(n, true, BLOCK, rank, ranks),
                     to = (double)gram_part_row(n, true, BLOCK, rank + 1, ranks), all = (double)n;

        most = fmax(most, (to - from) * (2 * all - from - to + 1) / (all * (all + 1)));
    }
    return most;
}

static void simulate(const struct plan *p, int ranks, double alone)
{
    struct team few = {.ranks = ranks}, more = {.ranks = ranks};
    const int64_t points = (int64_t)POINTS_EACH * ranks;
    const double product = alone * most_pairs(p->n, ranks);
    double bytes = 0, waiting = 0;
    int exchanges = 0;

    record(&few, points, p->depth, p->columns);
    record(&more, 2 * points, p->depth, p->columns);
    if (few.steps != more.steps)
        exit(fprintf(stderr, "%d steps of few points, %d of more\n", few.steps, more.steps));
    for (int i = 0; i < few.steps; i++) {
        const double each = (more.bytes[i] - few.bytes[i]) / (double)points;
        const double sent = few.bytes[i] + each * (double)(p->n - points);

        exchanges += more.bytes[i] > 0;
        bytes += sent;
        waiting += ranks > 1 ? p->latency + sent / p->bandwidth : 0;
    }
    printf(
        "{\"simulated\": true, \"ranks\": %d, \"n\": %lld, \"depth\": %lld, \"columns\": %lld, "
        "\"seconds\": %.4g, \"product\": %.4g, \"waiting\": %.4g, \"exchanges\": %d, "
        "\"agreements\": %d, \"bytes\": %.4g, \"times\": %.4g}\n",
        ranks, (long long)p->n, (long long)p->depth, (long long)p->columns, product + waiting,
        product, waiting, exchanges, few.steps - exchanges, bytes, alone / (product + waiting));
}

int main(int argc, char **argv)
{
    struct plan p;
    double alone;

    if (argc < 9)
        return fprintf(stderr,
                       "simulate_ranks SECONDS POINTS LATENCY BANDWIDTH N DEPTH "
                       "COLUMNS RANKS...\n"),
               2;
    p = (struct plan){strtod(argv[1], NULL),          strtod(argv[2], NULL),
                      strtod(argv[3], NULL),          strtod(argv[4], NULL),
                      (int64_t)strtod(argv[5], NULL), (int64_t)strtod(argv[6], NULL),
                      (int64_t)strtod(argv[7], NULL)};
    alone = p.seconds * pow((double)p.n / p.points, 2);
    for (int i = 8; i < argc; i++) {
        const int ranks = (int)strtol(argv[i], NULL, 10);

        if (ranks < 1 || ranks > MOST)
            return fprintf(stderr, "%s ranks, expected 1 to %d\n", argv[i], MOST), 2;
        simulate(&p, ranks, alone);
    }
    return 0;
}
