/*
 * machine_shared.c - solves of one leaf that the ranks of a fit share, or the GPUs of a group
 *
 * A leaf of all rows is trained by the first rank, or the first context.  Where its kernel matrix
 * is not stored, its solves are products, which ranks share (krr_ranks_stored.c): the first one
 * sends what is to be solved, and all of them solve it.  A solve of n rows of d features takes
 * n (d + 2) numbers to be sent once, and n^2 d multiplications or more in each of its iterations.
 * The GPUs of a group become ranks over NCCL at the first such solve of a fit, and stay so until it
 * ends; each solves in a thread of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "machine_deal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What the first rank sends before the numbers; rows 0: there is nothing more to solve. */
struct request {
    int64_t rows, width, columns, dtype, warm;
    double p, q, bandwidth, tolerance;
    uint64_t seed;
};

/* The numbers of a system, on the host. */
struct numbers {
    char *x, *b, *alpha;
    double *ridge;
    size_t points, vectors, bytes; /* of x; of b and alpha each; of all */
};

static gram_status open_numbers(gram_context *g, const struct request *r, struct numbers *n)
{
    const size_t element = gram_dtype_size((gram_dtype)r->dtype);

    n->points = gram_round64((size_t)(r->rows * r->width) * element);
    n->vectors = gram_round64((size_t)(r->rows * r->columns) * element);
    n->bytes = n->points + 2 * n->vectors + (size_t)r->rows * sizeof *n->ridge;
    n->x = gram_alloc(g, n->bytes);
    if (!n->x)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", n->bytes);
    memset(n->x, 0, n->bytes);
    n->b = n->x + n->points;
    n->alpha = n->b + n->vectors;
    n->ridge = (double *)(void *)(n->alpha + n->vectors);
    return GRAM_OK;
}

static void close_numbers(gram_context *g, struct numbers *n)
{
    gram_free(g, n->x, n->x ? n->bytes : 0);
}

/* What the first rank has, in numbers; on the others nothing is done. */
static gram_status fill(gram_context *g, const struct request *r, const struct krr_system *system,
                        const void *alpha, struct numbers *n)
{
    const size_t element = gram_dtype_size((gram_dtype)r->dtype);
    const size_t vectors = (size_t)(r->rows * r->columns) * element;

    TRY(open_numbers(g, r, n));
    if (!system)
        return GRAM_OK;
    memcpy(n->b, system->b, vectors);
    memcpy(n->ridge, system->ridge, (size_t)r->rows * sizeof *n->ridge);
    TRY(gram_krr_fetch(g, n->x, system->x.data, (size_t)(r->rows * r->width) * element));
    return r->warm ? gram_krr_fetch(g, n->alpha, alpha, vectors) : GRAM_OK;
}

/* The solve of what is in numbers, which all ranks have. */
static gram_status solve(gram_context *g, struct machine_job *job, const struct request *r,
                         const struct numbers *n, void *alpha, struct krr_report *report)
{
    const gram_kernel_options kernel = gram_machine_kernel(r->p, r->q, r->bandwidth);
    struct krr_system system = {.kernel = &kernel,
                                .ridge = n->ridge,
                                .b = n->b,
                                .columns = r->columns,
                                .tolerance = r->tolerance,
                                .warm = r->warm != 0,
                                .seed = r->seed};
    struct krr_array x = {0};
    gram_status status = gram_krr_send(g, n->x, n->points, &x);

    status = gram_machine_ranks_end(g, job, status); /* they come, or none does */
    if (status == GRAM_OK) {
        system.x = gram_krr_matrix(g, x.data, r->rows, r->width, (gram_dtype)r->dtype);
        status = gram_krr_stored_solve_ranks(g, job->o.communicator, &system, alpha, report);
        job->shares &= status == GRAM_OK;
    }
    gram_krr_free(g, &x);
    return status;
}

static gram_status solve_by_ranks(gram_context *g, const struct machine_params *params,
                                  double bandwidth, const struct krr_system *system, void *alpha,
                                  struct krr_report *report)
{
    struct machine_job *job = params->shared;
    struct request r = {.rows = system->x.shape[0],
                        .width = system->x.shape[1],
                        .columns = system->columns,
                        .dtype = system->x.dtype,
                        .warm = system->warm,
                        .p = params->p,
                        .q = params->q,
                        .bandwidth = bandwidth,
                        .tolerance = system->tolerance,
                        .seed = system->seed};
    struct numbers n = {0};
    gram_status status;

    TRY(gram_machine_ranks_spread(g, job, GRAM_OK, &r, sizeof r));
    status = fill(g, &r, system, alpha, &n);
    status = gram_machine_ranks_spread(g, job, status, n.x, n.bytes);
    if (status == GRAM_OK)
        status = solve(g, job, &r, &n, alpha, report);
    close_numbers(g, &n);
    return status;
}

/* One solve of the first rank's, of whose answer that rank alone has a use. */
static gram_status serve(gram_context *g, struct machine_job *job, const struct request *r)
{
    const size_t vectors = (size_t)(r->rows * r->columns) * gram_dtype_size((gram_dtype)r->dtype);
    struct krr_report report;
    struct numbers n = {0};
    struct krr_array alpha = {0};
    gram_status status = fill(g, r, NULL, NULL, &n);

    if (status == GRAM_OK)
        status = gram_krr_allocate(g, vectors, &alpha);
    status = gram_machine_ranks_spread(g, job, status, n.x, n.bytes);
    if (status == GRAM_OK && r->warm)
        status = gram_krr_store(g, alpha.data, n.alpha, vectors);
    if (!job->ended)
        status = solve(g, job, r, &n, alpha.data, &report);
    gram_krr_free(g, &alpha);
    close_numbers(g, &n);
    return status;
}

gram_status gram_machine_shared_serve(gram_context *g, struct machine_job *job)
{
    gram_status status = GRAM_OK;

    while (job->shares && !job->ended) {
        struct request r = {.rows = 0};

        status = gram_machine_ranks_spread(g, job, GRAM_OK, &r, sizeof r);
        if (status != GRAM_OK || r.rows == 0)
            break;
        status = serve(g, job, &r);
    }
    job->shares = false;
    /* A solve that broke down is the first rank's to deal with, alone. */
    return status == GRAM_NUMERICAL ? GRAM_OK : status;
}

gram_status gram_machine_shared_dismiss(gram_context *g, struct machine_job *job,
                                        gram_status status)
{
    struct request none = {.rows = 0};

    if (!job->shares || job->ended)
        return status;
    job->shares = false;
    return gram_machine_ranks_spread(g, job, status, &none, sizeof none);
}

/* ---- The GPUs of a group --------------------------------------------------------------------- */

/* A context, and the thread in which it solves. */
struct lane {
    struct gram_gate *gate;
    gram_context *g;
    gram_communicator *c;
    pthread_t thread;
    const struct krr_system *system; /* whose points are on the host */
    const void *guess;               /* likewise; NULL: there is none */
    gram_status status;
};

/* The system on this lane's GPU, of whose answer the first lane alone has a use. */
static gram_status solve_here(gram_context *g, const struct lane *l)
{
    const struct krr_system *s = l->system;
    const size_t element = gram_dtype_size(s->x.dtype);
    const size_t vectors = (size_t)(s->x.shape[0] * s->columns) * element;
    struct krr_system own = *s;
    struct krr_array x = {0}, alpha = {0};
    struct krr_report report;
    gram_status status =
        gram_krr_send(g, s->x.data, (size_t)(s->x.shape[0] * s->x.shape[1]) * element, &x);

    if (status == GRAM_OK)
        status = gram_krr_allocate(g, vectors, &alpha);
    if (status == GRAM_OK && l->guess)
        status = gram_krr_store(g, alpha.data, l->guess, vectors);
    own.x = gram_krr_matrix(g, x.data, s->x.shape[0], s->x.shape[1], s->x.dtype);
    status = status == GRAM_OK ? gram_krr_stored_solve_ranks(g, l->c, &own, alpha.data, &report)
                               : gram_communicator_agree(g, l->c, status);
    gram_krr_free(g, &alpha);
    gram_krr_free(g, &x);
    return status;
}

static void *run_lane(void *arg)
{
    struct lane *l = arg;

    if (gram_gate_wait(l->gate))
        l->status = solve_here(l->g, l);
    return NULL;
}

/* The first context in this thread, with its own points and answer; *solved is false where there
 * are no threads for the others. */
static gram_status run_lanes(gram_context *g, struct lane *lanes, int count,
                             const struct krr_system *system, void *alpha,
                             struct krr_report *report, bool *solved)
{
    gram_status status = GRAM_OK;
    int started = 1;

    while (started < count &&
           pthread_create(&lanes[started].thread, NULL, run_lane, &lanes[started]) == 0)
        started++;
    *solved = started == count;
    gram_gate_decide(lanes->gate, *solved);
    if (*solved)
        status = gram_krr_stored_solve_ranks(g, lanes[0].c, system, alpha, report);
    for (int i = 1; i < started; i++)
        (void)pthread_join(lanes[i].thread, NULL);
    return status;
}

/* What the other lanes start from, on the host. */
static gram_status place_on_host(gram_context *g, const struct krr_system *system,
                                 const void *alpha, struct numbers *n, struct krr_system *out)
{
    const struct request r = {.rows = system->x.shape[0],
                              .width = system->x.shape[1],
                              .columns = system->columns,
                              .dtype = system->x.dtype,
                              .warm = system->warm};

    TRY(fill(g, &r, system, alpha, n));
    *out = *system;
    out->x.data = n->x;
    out->b = n->b;
    out->ridge = n->ridge;
    return GRAM_OK;
}

enum {
    MOST_LANES = 64
};

/* The contexts of a group as ranks over NCCL; count 0: they cannot be. */
struct machine_lanes {
    int count;
    gram_communicator *c[MOST_LANES];
};

void gram_machine_shared_close(gram_context *g, struct machine_job *job)
{
    for (int i = 0; job->lanes && i < job->lanes->count; i++)
        gram_communicator_destroy(job->lanes->c[i]);
    gram_free(g, job->lanes, job->lanes ? sizeof *job->lanes : 0);
    job->lanes = NULL;
}

/* Makes ranks of the job's group where that was not tried before. */
static gram_status open_lanes(gram_context *g, struct machine_job *job)
{
    const gram_group *group = job->o.group;
    const int count = (int)gram_least(group->count, MOST_LANES);
    const char *call = g->call;

    if (job->lanes)
        return GRAM_OK;
    job->lanes = gram_alloc(g, sizeof *job->lanes);
    if (!job->lanes)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *job->lanes);
    *job->lanes = (struct machine_lanes){.count = 0};
    if (count >= 2 && gram_context_device(g).type != GRAM_CPU &&
        gram_communicator_create_nccl_all(group->contexts, count, NULL, job->lanes->c) == GRAM_OK)
        job->lanes->count = count;
    for (int i = 0; i < count; i++)
        group->contexts[i]->call = call;
    return GRAM_OK;
}

/* *solved stays false where the contexts cannot be ranks over NCCL: there is none, or two of them
 * are on one GPU.  Ranks that have failed are of no use any more. */
static gram_status solve_by_group(gram_context *g, struct machine_job *job,
                                  const struct krr_system *system, void *alpha,
                                  struct krr_report *report, bool *solved)
{
    struct gram_gate gate = GRAM_GATE_INIT;
    struct lane lanes[MOST_LANES];
    struct krr_system there;
    struct numbers n = {0};
    gram_status status;
    int count;

    TRY(open_lanes(g, job));
    count = job->lanes->count;
    if (count < 2)
        return GRAM_OK;
    status = place_on_host(g, system, alpha, &n, &there);
    for (int i = 0; i < count; i++) {
        job->o.group->contexts[i]->call = g->call;
        lanes[i] = (struct lane){.gate = &gate,
                                 .g = job->o.group->contexts[i],
                                 .c = job->lanes->c[i],
                                 .system = &there,
                                 .guess = system->warm ? n.alpha : NULL};
    }
    if (status == GRAM_OK)
        status = run_lanes(g, lanes, count, system, alpha, report, solved);
    close_numbers(g, &n);
    if (status != GRAM_OK)
        gram_machine_shared_close(g, job);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

gram_status gram_machine_shared_solve(gram_context *g, const struct machine_params *params,
                                      double bandwidth, const struct krr_system *system,
                                      void *alpha, struct krr_report *report)
{
    struct machine_job *job = params->shared;
    bool stored, solved = false;

    TRY(gram_krr_is_stored(g, system, &stored));
    *report = (struct krr_report){.residual = 0};
    if (!stored && job->shares)
        return solve_by_ranks(g, params, bandwidth, system, alpha, report);
    if (!stored && job->o.group)
        TRY(solve_by_group(g, job, system, alpha, report, &solved));
    return solved ? GRAM_OK : gram_krr_stored_solve(g, system, alpha, report);
}
