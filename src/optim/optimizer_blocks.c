/*
 * optimizer_blocks.c - how parameters are merged and cut into blocks, and which rank does which
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "optimizer.h"

/* ---- Shapes ------------------------------------------------------------------------------- */

static void reverse(int64_t *list, int count)
{
    for (int i = 0; i < count / 2; i++) {
        int64_t other = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = other;
    }
}

/* From the right, while a product is at most options.block. */
static void merge_small(const gram_optimizer *o, struct gram_optimizer_parameter *p)
{
    for (int i = p->ndim - 1; i >= 0; i--) {
        int64_t product;
        if (p->shape[i] == 1)
            continue;
        if (p->order > 0 &&
            !__builtin_mul_overflow(p->merged[p->order - 1], p->shape[i], &product) &&
            product <= o->options.block)
            p->merged[p->order - 1] = product;
        else
            p->merged[p->order++] = p->shape[i];
    }
    reverse(p->merged, p->order);
}

static int64_t side(const gram_optimizer *o)
{
    return gram_optimizer_front(o->options.method)->cut ? o->options.block : INT64_MAX;
}

int64_t gram_optimizer_merge(const gram_optimizer *o, struct gram_optimizer_parameter *p)
{
    int64_t blocks = 1;

    p->order = 0;
    if (p->count == 0)
        return 0;
    if (gram_optimizer_front(o->options.method)->matrix) {
        p->order = p->ndim < 2 ? 0 : 2;
        p->merged[0] = p->ndim < 2 ? 0 : p->shape[0];
        p->merged[1] = p->ndim < 2 ? 0 : p->count / p->shape[0];
        if (p->ndim == 1)
            p->merged[p->order++] = p->count;
    } else if (o->options.merge) {
        merge_small(o, p);
    } else {
        for (; p->order < p->ndim; p->order++)
            p->merged[p->order] = p->shape[p->order];
    }
    if (p->order == 0)
        p->merged[p->order++] = 1;
    for (int i = 0; i < p->order; i++)
        if (__builtin_mul_overflow(blocks, gram_ceil_div(p->merged[i], side(o)), &blocks))
            return -1;
    return blocks;
}

void gram_optimizer_cut(const gram_optimizer *o, const struct gram_optimizer_parameter *p,
                        int64_t parameter, struct gram_optimizer_block *blocks)
{
    int64_t most = side(o);

    for (int64_t number = 0; number < p->blocks; number++) {
        struct gram_optimizer_block *b = &blocks[number];
        int64_t rest = number;
        *b = (struct gram_optimizer_block){
            .parameter = parameter, .number = number, .order = p->order, .count = 1};
        for (int i = p->order - 1; i >= 0; i--) {
            int64_t pieces = gram_ceil_div(p->merged[i], most);
            b->start[i] = rest % pieces * most;
            b->size[i] = gram_least(most, p->merged[i] - b->start[i]);
            b->count *= b->size[i];
            rest /= pieces;
        }
    }
}

/* ---- Ranks -------------------------------------------------------------------------------- */

/* What its roots cost. */
static double cost(const struct gram_optimizer_block *b)
{
    double sum = 0;

    for (int i = 0; i < b->order; i++)
        sum += (double)b->size[i] * (double)b->size[i] * (double)b->size[i];
    return sum;
}

/* The next block in the order of falling costs, of equal ones the first, after block `after`. */
static int64_t next_dearest(const gram_optimizer *o, int64_t after)
{
    double before = after < 0 ? 0 : cost(&o->block[after]);
    int64_t best = -1;

    for (int64_t i = 0; i < o->blocks; i++) {
        double c = cost(&o->block[i]);
        bool later = after < 0 || c < before || (c == before && i > after);
        if (later && (best < 0 || c > cost(&o->block[best])))
            best = i;
    }
    return best;
}

/* Each block, the dearest first, goes to the rank with the least to do so far: every rank comes to
 * the same answer. */
gram_status gram_optimizer_share(gram_context *g, gram_optimizer *o)
{
    size_t ranks = (size_t)o->options.ranks;
    double *load;

    if (ranks == 1)
        return GRAM_OK;
    load = gram_alloc(g, ranks * sizeof *load);
    if (!load)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", ranks * sizeof *load);
    for (size_t r = 0; r < ranks; r++)
        load[r] = 0;
    for (int64_t i = next_dearest(o, -1); i >= 0; i = next_dearest(o, i)) {
        size_t least = 0;
        for (size_t r = 1; r < ranks; r++)
            if (load[r] < load[least])
                least = r;
        o->block[i].rank = (int64_t)least;
        load[least] += cost(&o->block[i]);
    }
    gram_free(g, load, ranks * sizeof *load);
    return GRAM_OK;
}
