/*
 * kron_tile_sizes.cuh - sizes and places of kron_matmul_tile.cu, found by the compiler
 *
 * Part of kron_matmul_tile.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#include "kron_factors.cuh"

static __device__ constexpr int p_of[] = {P_OF}, q_of[] = {Q_OF}, step_of[] = {STEP_OF},
                                with_of[] = {WITH_OF};
#if MMA
static __device__ constexpr int gap_of[] = {GAP_OF}, spread_of[] = {SPREAD_OF},
                                width_list[] = {ROW_OF};
#endif
static constexpr int COUNT = (int)(sizeof p_of / sizeof *p_of),
                     STEPS = (int)(sizeof step_of / sizeof *step_of),
                     BANKS = 128 / (int)sizeof(REAL);

/* Size of the index of a factor before a step. */
static __device__ constexpr int size_at(int factor, int step)
{
    for (int i = 0; i < step; i++)
        if (step_of[i] <= factor && factor < step_of[i] + with_of[i])
            return q_of[factor];
    return p_of[factor];
}

/* Elements of the indices [first, last) before a step. */
static __device__ constexpr int elements_at(int step, int first, int last)
{
    int elements = 1;

    for (int f = first; f < last; f++)
        elements *= size_at(f, step);
    return elements;
}

/* A row of a factor in shared memory is read 16 bytes at a time. */
static __device__ constexpr int row_of(int q)
{
    constexpr int lanes = 16 / (int)sizeof(REAL);

    return (q + lanes - 1) / lanes * lanes;
}
static __device__ constexpr int width_of(int factor)
{
#if MMA
    return width_list[factor];
#else
    return row_of(q_of[factor]);
#endif
}
static __device__ constexpr int factor_at(int factor)
{
    int at = 0;

    for (int f = 0; f < factor; f++)
        at += p_of[f] * width_of(f);
    return at;
}

static constexpr int IN = elements_at(0, 0, COUNT), OUT = elements_at(STEPS, 0, COUNT);

/* ---- Places in shared memory ----------------------------------------------------------------- */

/* Indices behind those of a step, columns, and elements of a column. */
static __device__ constexpr int behind_of(int step)
{
    return elements_at(step, step_of[step] + with_of[step], COUNT) * TA;
}
static __device__ constexpr int columns_of(int step)
{
    return elements_at(step, 0, step_of[step]) * TB * behind_of(step);
}
static __device__ constexpr int block_of(int step, bool after)
{
    return elements_at(after ? step + 1 : step, step_of[step], step_of[step] + with_of[step]);
}

/* Square factors whose columns are so short that several fit in registers. */
static __device__ constexpr bool is_held(int step)
{
    bool square = true;

    for (int f = step_of[step]; f < step_of[step] + with_of[step]; f++)
        square = square && p_of[f] == q_of[f];
    return with_of[step] == 2 || (square && p_of[step_of[step]] <= 8);
}

static __device__ constexpr bool all_powers()
{
    int all = TA * TB;

    for (int f = 0; f < COUNT; f++)
        all *= (p_of[f] & (p_of[f] - 1)) == 0 && (q_of[f] & (q_of[f] - 1)) == 0;
    return all > 0 && (TA & (TA - 1)) == 0 && (TB & (TB - 1)) == 0;
}
static constexpr bool POWERS = all_powers();

/* The number of a column.  Lanes beyond the indices behind the step's have columns that are apart
 * times these from each other: two groups of bits change places. */
static __device__ constexpr int column_at(int number, int behind, int apart)
{
    const int low = number % behind, high = number / behind, lanes = 32 / behind;

    if (apart == 1)
        return number;
    return low + behind * (high / (lanes * apart) * (lanes * apart) + high % lanes * apart +
                           high / lanes % apart);
}

/* Where an element lies if one place is left out after each `pad` of them. */
static __device__ constexpr int padded_by(int element, int pad)
{
    return pad ? element + element / pad : element;
}

/* The most lanes that want the same bank at the same time. */
static __device__ constexpr int conflicts(int step, int pad, int apart)
{
    const int behind = behind_of(step), columns = columns_of(step), size = block_of(step, false);
    int most = 0, used[BANKS] = {};

    for (int lane = 0; lane < BANKS && lane < columns; lane++) {
        const int column = column_at(lane, behind, apart);
        const int bank =
            padded_by(column / behind * (size * behind) + column % behind, pad) % BANKS;
        if (++used[bank] > most)
            most = used[bank];
    }
    return most;
}

static __device__ constexpr int apart_of(int step, int pad)
{
    const int behind = behind_of(step), columns = columns_of(step);
    int best = 1;

    if (!POWERS || behind >= 32 || with_of[step] == 0)
        return 1;
    for (int apart = 2; apart * 32 <= columns; apart *= 2)
        if (conflicts(step, pad, apart) < conflicts(step, pad, best))
            best = apart;
    return best;
}

static __device__ constexpr int pad_of()
{
    int best = 0, least = 1 << 30;

    for (int pad = POWERS ? BANKS : 0; pad <= 8 * BANKS; pad *= 2) {
        int all = 0;
        for (int step = 0; step < STEPS; step++)
            all += conflicts(step, pad, apart_of(step, pad)) * with_of[step];
        if (all < least)
            best = pad, least = all;
        if (pad == 0)
            break;
    }
    return best;
}
static constexpr int PAD = MMA ? 0 : pad_of(), FACTORS = factor_at(COUNT);

/* MMA: the elements behind a factor's index, from this factor on, are followed by a gap. */
template <int FACTOR = 0> static __device__ constexpr int padded(int element)
{
#if MMA
    if constexpr (FACTOR < COUNT) {
        constexpr int behind = elements_at(0, FACTOR + 1, COUNT) * TA, gap = gap_of[FACTOR];
        return element / behind * gap + padded<FACTOR + 1>(element);
    }
    return element;
#else
    return padded_by(element, PAD);
#endif
}

/* A tile of x as it is copied: 16 bytes are left out after each `pad` elements. */
static constexpr int AT_ONCE = 16 / (int)sizeof(x_element);

static __device__ constexpr int ahead_by(int element, int pad)
{
    return pad ? element + element / pad * AT_ONCE : element;
}

/* MMA: between the elements that the lanes of a column have. */
static __device__ constexpr int ahead_step()
{
#if MMA
    return spread_of[step_of[0]] * behind_of(0);
#else
    return 0;
#endif
}

static __device__ constexpr int ahead_pad_of()
{
    const int behind = behind_of(0), size = block_of(0, false), apart = MMA ? 1 : apart_of(0, PAD);
    int best = 0, least = 1 << 30;

    if (!POWERS || with_of[0] == 0 || X_KIND != DEVICE_REAL)
        return 0;
    for (int pad = 0; pad <= 1024; pad = pad ? pad * 2 : 16 * AT_ONCE) {
        int most = 0, used[BANKS] = {};
        for (int lane = 0; lane < BANKS; lane++) {
            const int column = column_at(MMA ? lane / 4 : lane, behind, apart);
            const int at = ahead_by(column / behind * (size * behind) + column % behind +
                                        (MMA ? lane % 4 * ahead_step() : 0),
                                    pad);
            if (++used[at % BANKS] > most)
                most = used[at % BANKS];
        }
        if (most < least)
            best = pad, least = most;
    }
    return best;
}
static constexpr int AHEAD_PAD = ahead_pad_of();

static __device__ constexpr int ahead(int element)
{
    return ahead_by(element, AHEAD_PAD);
}
static constexpr int STAGE = (ahead(TB * IN * TA) + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
