/*
 * krr_ranks.c - ranks of a communicator that take the same steps of a solve: see krr_ranks.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_ranks.h"
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

    TRY(gram_krr_ranks_pivots(g, ranks, NULL, &number));
    *flag = number != 0;
    return GRAM_OK;
}

gram_status gram_krr_ranks_pivots(gram_context *g, struct krr_ranks *ranks, int64_t *pivot,
                                  int64_t *count)
{
    int64_t numbers[GRAM_MAX_SHARED] = {*count};
    const int some = pivot ? GRAM_MAX_SHARED - 1 : 0;

    if (!ranks)
        return GRAM_OK;
    for (int64_t i = 0; pivot && i < gram_least(*count, some); i++)
        numbers[1 + i] = pivot[i];
    TRY(noted(ranks, gram_share(g, ranks->c, GRAM_OK, false, numbers, 1 + some)));
    *count = numbers[0];
    if (pivot)
        memcpy(pivot, numbers + 1, (size_t)gram_least(*count, some) * sizeof *pivot);
    return GRAM_OK;
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

/* This rank's rows of a tensor of all. */
static gram_tensor own_rows(const struct krr_ranks *ranks, const gram_tensor *t)
{
    gram_tensor rows = *t;

    rows.shape[0] = ranks->c->rows[0][ranks->c->rank];
    rows.data = (char *)t->data + ranks->first * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return rows;
}

gram_status gram_krr_ranks_multiply(gram_context *g, struct krr_ranks *ranks,
                                    const struct krr_kernel *k, const gram_tensor *from,
                                    gram_tensor *to)
{
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_tensor v = own_rows(ranks, from);
    gram_tensor out = own_rows(ranks, to);

    options.communicator = ranks->c;
    options.all_points = 1;
    TRY(noted(ranks, gram_kernel_matmul_multi(g, k->x, NULL, k->kernel, &v, &options, &out)));
    return gather(g, ranks, to->dtype, to->shape[1], to->data);
}

gram_status gram_krr_ranks_end(gram_context *g, struct krr_ranks *ranks, gram_status status)
{
    return ranks->ended ? status : gram_agree(g, ranks->c, status, NULL, 0);
}
