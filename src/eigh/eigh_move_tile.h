/*
 * eigh_move_tile.h - template: small matrices into lanes, and what goes in and out of LAPACK
 *
 * From the caller: DTYPE, real, ireal, vec, ivec (see kernels.h).  Contracts are in eigh_kernels.h;
 * eigh_tile.h puts these into its table.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define LANES    ((int)(VBYTES / sizeof(real)))

static inline vec FN(eigh_pick)(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

/* The exponent that brings largest to [1/2, 1); kept where 2^-exponent and its inverse are finite.
 */
static int FN(eigh_exponent)(real largest)
{
    int exponent, low = sizeof(real) == 4 ? -120 : -1000, high = sizeof(real) == 4 ? 127 : 1023;

    frexp((double)largest, &exponent);
    if (exponent < low)
        return low;
    return exponent > high ? high : exponent;
}

static uint32_t FN(eigh_load)(struct gram_eigh_load *load)
{
    int64_t count = load->n * (load->n + 1) / 2;
    vec *a = load->a, largest = {0}, factor = {0};
    uint32_t bad = 0;

    for (int l = 0; l < LANES; l++) {
        const real *item = load->item[l];
        real *to = (real *)load->a + l;
        for (int64_t i = 0; i < load->n; i++)
            for (int64_t j = 0; j <= i; j++, to += LANES)
                *to = item ? item[i * load->stride[0] + j * load->stride[1]] : 0;
    }
    for (int64_t i = 0; i < count; i++) /* NaN and infinity are above every number */
        largest = v_max_bits(largest, v_abs(a[i]));
    for (int l = 0; l < LANES; l++) {
        real most = largest[l];
        bad |= (uint32_t)!isfinite(most) << l;
        load->exponent[l] = isfinite(most) ? FN(eigh_exponent)(most) : 0;
        factor[l] = (real)ldexp(1, -load->exponent[l]);
    }
    for (int l = 0; l < LANES; l++)
        for (int64_t i = 0; (bad >> l & 1) && i < count; i++)
            a[i][l] = 0;
    for (int64_t i = 0; i < count; i++)
        a[i] *= factor;
    return bad;
}

static void FN(eigh_sift)(int64_t end, const real *w, int32_t *order, int64_t at)
{
    int32_t moved = order[at];

    for (int64_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
        child += child + 1 < end && w[order[child + 1]] > w[order[child]];
        if (w[order[child]] <= w[moved])
            break;
        order[at] = order[child];
        at = child;
    }
    order[at] = moved;
}

static void FN(eigh_sort)(int64_t n, const void *w, int32_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = n / 2; i-- > 0;)
        FN(eigh_sift)(n, w, order, i);
    for (int64_t end = n; end-- > 1;) {
        int32_t largest = order[0];
        order[0] = order[end];
        order[end] = largest;
        FN(eigh_sift)(end, w, order, 0);
    }
}

/* Neighbours are exchanged, n times over the odd and the even pairs: the same steps in all lanes.
 */
static void FN(eigh_sort_lanes)(int64_t n, void *values, int32_t *order)
{
    vec *w = values;
    ivec index[EIGH_SMALL];

    for (int64_t i = 0; i < n; i++)
        index[i] = (ivec){0} + (ireal)i;
    for (int64_t round = 0; round < n; round++)
        for (int64_t i = round % 2; i + 1 < n; i += 2) {
            ivec wrong = w[i] > w[i + 1], low = index[i];
            vec least = FN(eigh_pick)(wrong, w[i + 1], w[i]);
            w[i + 1] = FN(eigh_pick)(wrong, w[i], w[i + 1]);
            w[i] = least;
            index[i] = (wrong & index[i + 1]) | (~wrong & low);
            index[i + 1] = (wrong & low) | (~wrong & index[i + 1]);
        }
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < LANES; l++)
            order[l * EIGH_SMALL + i] = (int32_t)index[i][l];
}

static void FN(eigh_raise)(int64_t n, void *values, int64_t stride, int exponent)
{
    real *w = values;

    for (int64_t i = 0; exponent && i < n; i++)
        w[i * stride] = (real)ldexp((double)w[i * stride], exponent);
}

static int64_t FN(eigh_count)(int64_t n, const void *values, double limit)
{
    const real *w = values;
    int64_t count = 0;

    while (count < n && (double)w[count] <= limit)
        count++;
    return count;
}

static bool FN(eigh_scale)(int64_t n, void *matrix, int64_t ld, gram_uplo uplo, int *exponent)
{
    real *a = matrix, most = 0, factor;
    bool finite = true;

    for (int64_t j = 0; j < n; j++) {
        int64_t first = uplo == GRAM_LOWER ? j : 0, last = uplo == GRAM_LOWER ? n : j + 1;
        for (int64_t i = first; i < last; i++) {
            real size = (real)fabs((double)a[j * ld + i]);
            most = size > most ? size : most;
            finite &= isfinite(size) != 0;
        }
    }
    if (!finite)
        return false;
    *exponent = FN(eigh_exponent)(most);
    factor = (real)ldexp(1, -*exponent);
    for (int64_t j = 0; j < n; j++) {
        int64_t first = uplo == GRAM_LOWER ? j : 0, last = uplo == GRAM_LOWER ? n : j + 1;
        for (int64_t i = first; i < last; i++)
            a[j * ld + i] *= factor;
    }
    return true;
}

static void FN(eigh_transpose)(int64_t n, void *matrix, int64_t ld)
{
    const int64_t tile = 32;
    real *a = matrix;

    for (int64_t top = 0; top < n; top += tile)
        for (int64_t left = 0; left <= top; left += tile)
            for (int64_t i = top; i < top + tile && i < n; i++)
                for (int64_t j = left; j < left + tile && j < i; j++) {
                    real kept = a[i * ld + j];
                    a[i * ld + j] = a[j * ld + i];
                    a[j * ld + i] = kept;
                }
}

#undef LANES
#undef FN
