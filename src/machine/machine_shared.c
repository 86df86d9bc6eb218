/*
 * machine_shared.c - solves of one leaf that the ranks of a fit share
 *
 * A leaf of all rows is trained by the first rank.  Where its kernel matrix is not stored, its
 * solves are products, which ranks share (krr_ranks_stored.c): the first one sends what is to be
 * solved, and all of them solve it.  A solve of n rows of d features takes n (d + 2) numbers to be
 * sent once, and n^2 d multiplications or more in each of its iterations.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_deal.h"
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

gram_status gram_machine_shared_solve(gram_context *g, const struct machine_params *params,
                                      double bandwidth, const struct krr_system *system,
                                      void *alpha, struct krr_report *report)
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

    *report = (struct krr_report){.residual = 0};
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
