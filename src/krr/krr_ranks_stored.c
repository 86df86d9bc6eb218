/*
 * krr_ranks_stored.c - the solve of a machine by several ranks, each of which has the whole system
 *
 * Products are shared, so that nothing is stored of the kernel matrix, and so is the preconditioner
 * (krr_ranks.h).  Every rank has about as many of the rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_ranks.h"

/* A part of the rows for each rank, and which are this one's. */
static void divide(struct krr_ranks *ranks)
{
    gram_communicator *c = ranks->c;

    for (int rank = 0; rank < c->size; rank++) {
        const int64_t begin = ranks->n * rank / c->size;

        c->rows[0][rank] = ranks->n * (rank + 1) / c->size - begin;
        if (rank == c->rank)
            ranks->first = begin;
    }
}

gram_status gram_krr_stored_solve_ranks(gram_context *g, gram_communicator *c,
                                        const struct krr_system *system, void *out,
                                        struct krr_report *report)
{
    const size_t bytes = (size_t)c->size * sizeof(double);
    struct krr_system shared = *system;
    struct krr_ranks ranks = {.c = c, .n = system->x.shape[0], .totals = gram_alloc(g, bytes)};
    gram_status status = GRAM_OK;

    *report = (struct krr_report){.residual = 0};
    if (!ranks.totals)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_agree(g, c, status, NULL, 0);
    if (status == GRAM_OK) {
        divide(&ranks);
        shared.ranks = &ranks;
        status = gram_krr_stored_solve(g, &shared, out, report);
        status = gram_krr_ranks_end(g, &ranks, status);
    }
    gram_free(g, ranks.totals, ranks.totals ? bytes : 0);
    return status;
}
