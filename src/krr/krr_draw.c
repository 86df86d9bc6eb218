/*
 * krr_draw.c - pivots of a Cholesky factorisation, drawn by one process or by all ranks
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_draw.h"
#include "core/random.h"

/* The index at which the sum of the weights passes u. */
static int64_t pick(const struct krr_draw *d, double u)
{
    const int64_t parts = gram_ceil_div(d->n, KRR_DRAW_PART);
    int64_t k = 0, i, end;

    while (k < parts - 1 && u >= d->part[k])
        u -= d->part[k++];
    i = k * KRR_DRAW_PART;
    end = gram_least(i + KRR_DRAW_PART, d->n);
    while (i < end - 1 && u >= d->weight[i])
        u -= d->weight[i++];
    return i;
}

static double add_parts(const struct krr_draw *d)
{
    double total = 0;

    for (int64_t first = 0; first < d->n; first += KRR_DRAW_PART) {
        double sum = 0;

        for (int64_t i = first; i < gram_least(first + KRR_DRAW_PART, d->n); i++)
            sum += d->weight[i];
        d->part[first / KRR_DRAW_PART] = sum;
        total += sum;
    }
    return total;
}

/* The row on which u of the sum of all falls, or -1 where it is another rank's, or weighs 0. */
static int64_t row_at(const struct krr_draw *d, double u)
{
    int64_t i;

    if (!gram_krr_ranks_falls_here(d->ranks, &u) || d->n == 0)
        return -1;
    i = pick(d, u);
    return d->weight[i] > 0 ? gram_krr_ranks_first(d->ranks) + i : -1;
}

static bool is_among(const int64_t *pivot, int64_t count, int64_t row)
{
    for (int64_t i = 0; i < count; i++)
        if (pivot[i] == row)
            return true;
    return false;
}

void gram_krr_sort_pivots(int64_t *pivot, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0 && pivot[j - 1] > pivot[j]; j--) {
            const int64_t row = pivot[j];
            pivot[j] = pivot[j - 1];
            pivot[j - 1] = row;
        }
}

gram_status gram_krr_draw(gram_context *g, const struct krr_draw *d, uint64_t *state,
                          int64_t *pivot, int64_t *count)
{
    const int64_t wanted = *count, most = 4 * wanted; /* tries */
    int64_t row[GRAM_MAX_SHARED], drawn = 0, tries = 0;
    double total = add_parts(d);

    TRY(gram_krr_ranks_total(g, d->ranks, &total));
    while (drawn < wanted && tries < most && total > 0) {
        const int some = (int)gram_least(gram_least(wanted - drawn, most - tries), GRAM_MAX_SHARED);

        for (int i = 0; i < some; i++)
            row[i] = row_at(d, gram_random_unit(state) * total);
        TRY(gram_krr_ranks_largest(g, d->ranks, row, some));
        for (int i = 0; i < some; i++)
            if (row[i] >= 0 && !is_among(pivot, drawn, row[i]))
                pivot[drawn++] = row[i];
        tries += some;
    }
    if (d->ranks)
        gram_krr_sort_pivots(pivot, drawn);
    *count = drawn;
    return GRAM_OK;
}
