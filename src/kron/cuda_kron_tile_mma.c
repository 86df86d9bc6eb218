/*
 * cuda_kron_tile_mma.c - passes of kron_matmul_tile.cu by tensor cores: the factors that they take,
 * and the places of a tile's elements in shared memory
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <limits.h>

enum {
    EIGHT = 8,
    LANES = 4, /* lanes of a warp that have elements of the same column */
    BANK_BYTES = 128,
    ROWS_TRIED = 5,
};

/* True on chips whose tensor cores are at least twice as fast as their other units, in f64 and with
 * three products of TF32 in the place of one of f32. */
bool cuda_kron_has_tensor(int arch, const struct gram_kron_matmul_op *op)
{
    return op->x.dtype != GRAM_I32 && op->x.dtype != GRAM_I64 &&
           (arch == 80 || (arch >= 90 && arch < 120));
}

/* True for a square factor that nearly fills blocks of eight rows and columns.  In f32 it has to
 * fill them, and one of 16 rows is taken only where the compiler knows the indices behind the
 * group.  Up to 8 rows the other units are as fast. */
bool cuda_kron_tile_by_mma(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_view *f = &plan->op->factor[factor];
    int64_t p = f->rows, all = gram_round_up(p, EIGHT);

    if (!plan->tensor || !cuda_kron_tile_takes(plan->op, factor) || p != f->cols || p <= EIGHT)
        return false;
    return plan->element == 8 ? 2 * p * p >= all * all
                              : p == all && (p > 16 || plan->extra == 1 || plan->op->after > 1);
}

/* ---- Places in shared memory ---------------------------------------------------------------- */

/* How many elements are behind an index of factor i in a tile, without gaps. */
static int64_t behind(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, int i)
{
    int64_t elements = pass->columns;

    for (i++; i < pass->span.count; i++)
        elements *= plan->op->factor[pass->span.first + i].rows;
    return elements;
}

/* The place of an element of a tile, with the gaps before it. */
static int64_t padded(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                      int64_t element)
{
    int64_t at = element;

    for (int i = 0; i < pass->span.count; i++)
        at += element / behind(plan, pass, i) * pass->gap[i];
    return at;
}

/* The most lanes that meet in one bank.  Lane 4 g + t has element `across` t of column g, and
 * columns lie side by side in groups of `few`, which are `apart` elements from each other. */
static int conflicts(size_t element, int few, int apart, int across)
{
    int banks = BANK_BYTES / (int)element, most = 0;
    uint8_t used[BANK_BYTES / 4] = {0};

    for (int lane = 0; lane < banks; lane++) {
        int g = lane / LANES, at = g / few * apart + g % few + lane % LANES * across;
        most = (int)gram_most(most, ++used[at % banks]);
    }
    return most;
}

/* The conflicts of a factor's step with the better of two spreads.  `apart` is the distance of two
 * indices before the factor's, and `across` that of two of its own. */
static int choose_spread(size_t element, int few, int apart, int across, int *spread)
{
    int one = conflicts(element, few, apart, across);
    int two = one == 1 ? 1 : conflicts(element, few, apart, 2 * across);

    *spread = two < one ? 2 : 1;
    return two < one ? two : one;
}

/* Chooses the gap behind the elements of each factor, from the right: the one with the fewest
 * conflicts in the factor's step, and in that of the next factor if its columns reach across. */
static void choose_gaps(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass)
{
    const struct gram_view *f = &plan->op->factor[pass->span.first];
    int banks = BANK_BYTES / (int)plan->element, few = banks / LANES, across = 0;

    for (int i = pass->span.count - 1; i >= 0; i--) {
        bool last = i + 1 == pass->span.count;
        int64_t after = behind(plan, pass, i), next = last ? after : after / f[i + 1].rows;
        bool own = after >= few, reached = !last && next < few;
        int inner = last ? (int)after : across * (int)f[i + 1].rows;
        int least = INT_MAX, spread = 1, next_spread = 1;
        pass->spread[i] = 1, pass->gap[i] = 0;
        for (int gap = 0; gap <= (after > 1 ? few * 2 : 0) && least > own + reached; gap++) {
            int all = own ? choose_spread(plan->element, few, 0, inner + gap, &spread) : 0;
            if (reached)
                all += choose_spread(plan->element, (int)next, inner + gap, across, &next_spread);
            if (all >= least)
                continue;
            least = all, pass->gap[i] = gap, pass->spread[i] = spread;
            if (reached)
                pass->spread[i + 1] = next_spread;
        }
        across = inner + pass->gap[i];
    }
}

/* The most lanes that meet in one bank where they read four rows of a factor, with a spread of 1 in
 * the columns 0, 4, 1, 5, 2, ..., else in eight neighbours. */
static int row_conflicts(size_t element, int spread, int row)
{
    int banks = BANK_BYTES / (int)element, most = 0;
    uint8_t used[BANK_BYTES / 4] = {0};

    for (int lane = 0; lane < banks; lane++) {
        int g = lane / LANES, column = spread == 1 ? g / 2 + g % 2 * LANES : g;
        most = (int)gram_most(most, ++used[(lane % LANES * spread * row + column) % banks]);
    }
    return most;
}

static void choose_row(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass, int i)
{
    int lanes = 16 / (int)plan->element, least = BANK_BYTES;
    int row = (int)gram_round_up(plan->op->factor[pass->span.first + i].cols, lanes);

    for (int more = 0; more < ROWS_TRIED && least > 1; more++) {
        int now = row_conflicts(plan->element, pass->spread[i], row + more * lanes);
        if (now < least)
            least = now, pass->row[i] = row + more * lanes;
    }
}

bool cuda_kron_tile_choose_mma(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                               int64_t elements)
{
    int64_t all = 0;

    choose_gaps(plan, pass);
    for (int i = 0; i < pass->span.count; i++) {
        choose_row(plan, pass, i);
        all += plan->op->factor[pass->span.first + i].rows * pass->row[i];
    }
    if (pass->steps > 1)
        all += padded(plan, pass, elements - 1) + 1;
    if (all > plan->shared_bytes / (int64_t)plan->element)
        return false;
    pass->shared_bytes = (size_t)all * plan->element;
    return true;
}
