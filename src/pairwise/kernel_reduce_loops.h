/*
 * kernel_reduce_loops.h - template: what is found in one row of a block
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* The first of n > 0 values that is the smallest, or the largest; a NaN is beyond both. */
static int64_t CAT(first_extreme, SOURCE)(int64_t n, const real *values, bool least)
{
    real best = values[0];
    int64_t at = 0;

    for (int64_t c = 0; c < n; c++) {
        const real e = values[c];
        if (e != e)
            return c;
        if (least ? e < best : e > best)
            best = e, at = c;
    }
    return at;
}

/* The largest of scale times n values; NaN if one of them is NaN. */
static double CAT(largest, SOURCE)(int64_t n, const real *values, double scale)
{
    real most = values[0], least = values[0];
    double end;
    int nan = 0;

    for (int64_t c = 0; c < n; c++) {
        most = values[c] > most ? values[c] : most;
        least = values[c] < least ? values[c] : least;
        nan |= values[c] != values[c];
    }
    end = scale == 0 ? 0 : scale * (double)(scale > 0 ? most : least);
    return nan ? (double)NAN : end;
}

/* largest - scale times values: what stands behind the minus sign of the exponent. */
static void CAT(exponents, SOURCE)(int64_t n, const real *values, double scale, double largest,
                                   real *to)
{
    for (int64_t c = 0; c < n; c++)
        to[c] = (real)(largest - scale * (double)values[c]);
}

static double CAT(sum, SOURCE)(int64_t n, const real *values)
{
    double sum = 0;

    for (int64_t c = 0; c < n; c++)
        sum += (double)values[c];
    return sum;
}

/* sums[c] += sum_j weights[j] v[j][c] */
static void CAT(weigh, SOURCE)(int64_t n, const real *weights, const char *rows,
                               const struct gram_view *v, double *sums)
{
    for (int64_t j = 0; j < n; j++) {
        const real *row = (const real *)rows + j * v->row_stride;
        const double weight = (double)weights[j];
        if (v->col_stride == 1)
            for (int64_t c = 0; c < v->cols; c++)
                sums[c] += weight * (double)row[c];
        else
            for (int64_t c = 0; c < v->cols; c++)
                sums[c] += weight * (double)row[c * v->col_stride];
    }
}
