/*
 * krr_ranks.c - ranks of a communicator that take the same steps of a solve: see krr_ranks.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_ranks.h"
#include "core/backend.h"
#include <string.h>

/* A failure of an agreement is known to all. */
static gram_status noted(struct krr_ranks *ranks, gram_status status)
{
    ranks->ended |= status != GRAM_OK;
    return status;
}

gram_status gram_krr_ranks_numbers(gram_context *g, struct krr_ranks *ranks, double *numbers,
                                   int64_t count)
{
    int64_t bits[GRAM_MAX_SHARED];

    for (int64_t first = 0; ranks && first < count; first += GRAM_MAX_SHARED) {
        const int some = (int)gram_least(count - first, GRAM_MAX_SHARED);
        memcpy(bits, numbers + first, (size_t)some * sizeof *bits);
        TRY(noted(ranks, gram_share(g, ranks->c, GRAM_OK, false, bits, some)));
        memcpy(numbers + first, bits, (size_t)some * sizeof *bits);
    }
    return GRAM_OK;
}

gram_status gram_krr_ranks_flag(gram_context *g, struct krr_ranks *ranks, bool *flag)
{
    int64_t number = *flag;

    if (!ranks)
        return GRAM_OK;
    TRY(noted(ranks, gram_share(g, ranks->c, GRAM_OK, false, &number, 1)));
    *flag = number != 0;
    return GRAM_OK;
}

gram_status gram_krr_ranks_largest(gram_context *g, struct krr_ranks *ranks, int64_t *numbers,
                                   int count)
{
    return ranks ? noted(ranks, gram_share(g, ranks->c, GRAM_OK, true, numbers, count)) : GRAM_OK;
}

gram_status gram_krr_ranks_least(gram_context *g, struct krr_ranks *ranks, int64_t *number)
{
    int64_t opposite = ~*number;

    if (!ranks)
        return GRAM_OK;
    TRY(noted(ranks, gram_share(g, ranks->c, GRAM_OK, true, &opposite, 1)));
    *number = ~opposite;
    return GRAM_OK;
}

gram_status gram_krr_ranks_same(gram_context *g, struct krr_ranks *ranks, int64_t number,
                                const char *path)
{
    int64_t first = number;

    if (!ranks)
        return GRAM_OK;
    TRY(noted(ranks, gram_share(g, ranks->c, GRAM_OK, false, &first, 1)));
    if (first == number)
        return GRAM_OK;
    return gram_fail(g, GRAM_BAD_DATA, "%s is not the file that the first rank has", path);
}

/* ---- What the ranks have --------------------------------------------------------------------- */

int64_t gram_krr_ranks_first(const struct krr_ranks *ranks)
{
    return ranks ? ranks->first : 0;
}

int64_t gram_krr_ranks_own(const struct krr_ranks *ranks, int64_t n)
{
    return ranks ? ranks->c->rows[0][ranks->c->rank] : n;
}

bool gram_krr_ranks_is_first(const struct krr_ranks *ranks)
{
    return !ranks || ranks->c->rank == 0;
}

gram_tensor gram_krr_ranks_own_rows(const struct krr_ranks *ranks, const gram_tensor *t)
{
    gram_tensor rows = *t;

    rows.shape[0] = gram_krr_ranks_own(ranks, t->shape[0]);
    rows.data = (char *)t->data +
                gram_krr_ranks_first(ranks) * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return rows;
}

/* The bits of numbers that are not below 0 are ordered as the numbers are. */
gram_status gram_krr_ranks_total(gram_context *g, struct krr_ranks *ranks, double *number)
{
    int64_t bits[GRAM_MAX_SHARED];
    double sum = 0;

    if (!ranks)
        return GRAM_OK;
    for (int first = 0; first < ranks->c->size; first += GRAM_MAX_SHARED) {
        const int some = (int)gram_least(ranks->c->size - first, GRAM_MAX_SHARED);
        const int own = ranks->c->rank - first;

        memset(bits, 0, sizeof bits);
        if (own >= 0 && own<some && * number> 0)
            memcpy(bits + own, number, sizeof *number);
        TRY(gram_krr_ranks_largest(g, ranks, bits, some));
        memcpy(ranks->totals + first, bits, (size_t)some * sizeof *bits);
    }
    for (int rank = 0; rank < ranks->c->size; rank++)
        sum += ranks->totals[rank];
    *number = sum;
    return GRAM_OK;
}

bool gram_krr_ranks_falls_here(const struct krr_ranks *ranks, double *u)
{
    int rank = 0;

    if (!ranks)
        return true;
    while (rank < ranks->c->size - 1 && *u >= ranks->totals[rank])
        *u -= ranks->totals[rank++];
    return rank == ranks->c->rank;
}

/* ---- Exchanges ------------------------------------------------------------------------------- */

/* All ranks are here, or none: the caller has just agreed. */
static gram_status gather(gram_context *g, struct krr_ranks *ranks, gram_dtype dtype,
                          int64_t columns, void *v)
{
    const size_t element = gram_dtype_size(dtype);
    gram_status status = GRAM_OK;

    for (int64_t j = 0; j < columns && status == GRAM_OK; j++)
        status = gram_gather_rows(g, ranks->c, ranks->c->rows[0], element,
                                  (char *)v + (size_t)(j * ranks->n) * element);
    return noted(ranks, gram_agree_or_abandon(g, ranks->c, status));
}

gram_status gram_krr_ranks_gather(gram_context *g, struct krr_ranks *ranks, gram_dtype dtype,
                                  int64_t columns, void *v)
{
    if (!ranks)
        return GRAM_OK;
    TRY(noted(ranks, gram_agree(g, ranks->c, GRAM_OK, NULL, 0)));
    return gather(g, ranks, dtype, columns, v);
}

gram_status gram_krr_ranks_pivot_rows(gram_context *g, struct krr_ranks *ranks,
                                      const int64_t *pivot, int64_t count, size_t row_bytes,
                                      void *rows)
{
    int64_t end = 0, at = 0;
    gram_status status;

    if (!ranks)
        return GRAM_OK;
    for (int rank = 0; rank < ranks->c->size; rank++) {
        const int64_t before = at;

        end += ranks->c->rows[0][rank];
        while (at < count && pivot[at] < end)
            at++;
        ranks->c->rows[1][rank] = at - before;
    }
    TRY(noted(ranks, gram_agree(g, ranks->c, GRAM_OK, NULL, 0)));
    status = gram_gather_rows(g, ranks->c, ranks->c->rows[1], row_bytes, rows);
    return noted(ranks, gram_agree_or_abandon(g, ranks->c, status));
}

/* numbers[i] = the sum over the ranks of received[rank * count + i]. */
static gram_status add_received(gram_context *g, const struct krr_ranks *ranks, double *received,
                                int64_t count, double *numbers)
{
    const struct gram_view out = gram_view_dense(numbers, GRAM_F64, 1, count);
    struct gram_kron_move_op move = {.batch.count = 1, .view = out, .beta.value = 1};

    for (int rank = 0; rank < ranks->c->size && count > 0; rank++) {
        move.dense = received + rank * count;
        if (rank > 0)
            move.z = out;
        TRY(g->backend->kron_move(g, &move));
    }
    return GRAM_OK;
}

gram_status gram_krr_ranks_add(gram_context *g, struct krr_ranks *ranks, double *numbers,
                               int64_t count)
{
    const int size = ranks->c->size, rank = ranks->c->rank;
    int64_t *parts = ranks->c->rows[1];
    const int64_t first = count * rank / size;
    struct krr_array received = {0};
    gram_status status;

    for (int i = 0; i < size; i++)
        parts[i] = count * (i + 1) / size - count * i / size;
    status = gram_krr_allocate(g, (size_t)(size * parts[rank]) * sizeof *numbers, &received);
    status = noted(ranks, gram_agree(g, ranks->c, status, NULL, 0));
    if (status == GRAM_OK) {
        status = gram_scatter_rows(g, ranks->c, parts, sizeof *numbers, numbers, received.data);
        if (status == GRAM_OK)
            status = add_received(g, ranks, received.data, parts[rank], numbers + first);
        status = noted(ranks, gram_agree_or_abandon(g, ranks->c, status));
    }
    if (status == GRAM_OK) {
        status = gram_gather_rows(g, ranks->c, parts, sizeof *numbers, numbers);
        status = noted(ranks, gram_agree_or_abandon(g, ranks->c, status));
    }
    gram_krr_free(g, &received);
    return status;
}

/* Between this rank's rows of vectors of all and the same without gaps. */
static gram_status move_own(gram_context *g, const struct krr_preconditioner *p, int64_t columns,
                            bool back, const void *from, void *to)
{
    const int64_t at = p->ranks->first * (int64_t)gram_dtype_size(p->dtype);
    const int64_t gaps[2] = {1, p->all}, none[2] = {1, p->n};
    const struct krr_move op = {
        .dtype = p->dtype,
        .rows = p->n,
        .columns = columns,
        .to = (char *)to + (back ? at : 0),
        .from = (const char *)from + (back ? 0 : at),
        .to_stride = {1, back ? gaps[1] : none[1]},
        .from_stride = {1, back ? none[1] : gaps[1]}
    };

    return p->n > 0 && columns > 0 ? g->backend->krr->move(g, &op) : GRAM_OK;
}

gram_status gram_krr_ranks_apply(gram_context *g, const struct krr_preconditioner *p,
                                 int64_t columns, const void *v, void *out)
{
    const size_t part = gram_round64((size_t)(p->n * columns) * gram_dtype_size(p->dtype));
    struct krr_preconditioner own = *p;
    struct krr_array memory = {0};
    gram_status status;
    char *to;

    own.columns = columns;
    status = gram_krr_allocate(g, 2 * part, &memory);
    to = (char *)memory.data + part;
    if (status == GRAM_OK)
        status = move_own(g, p, columns, false, v, memory.data);
    if (status == GRAM_OK)
        status = g->backend->krr->apply(g, &own, memory.data, to);
    if (status == GRAM_OK)
        status = move_own(g, p, columns, true, to, out);
    gram_krr_free(g, &memory);
    TRY(status);
    return gram_krr_ranks_gather(g, p->ranks, p->dtype, columns, out);
}

gram_status gram_krr_ranks_multiply(gram_context *g, struct krr_ranks *ranks,
                                    const struct krr_kernel *k, const gram_tensor *from,
                                    gram_tensor *to)
{
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_tensor v = gram_krr_ranks_own_rows(ranks, from);
    gram_tensor out = gram_krr_ranks_own_rows(ranks, to);

    options.communicator = ranks->c;
    options.all_points = 1;
    TRY(noted(ranks, gram_kernel_matmul_multi(g, k->x, NULL, k->kernel, &v, &options, &out)));
    return gather(g, ranks, to->dtype, to->shape[1], to->data);
}

gram_status gram_krr_ranks_end(gram_context *g, struct krr_ranks *ranks, gram_status status)
{
    return ranks->ended ? status : gram_agree(g, ranks->c, status, NULL, 0);
}
