/*
 * metric_rows.cu - rows of x and y as a metric's sums want them, without gaps, and the weights
 *
 * A block of 256 threads changes one row of one item; the blocks behind those of the rows write the
 * weights of an item: `columns` of them, and their sum behind them.  Sums of a row are made in f64.
 *
 * Parameters (-D), set by cuda_metric.c:
 *   REAL    float or double: what is written
 *   STORED  how x and y are: DEVICE_REAL, DEVICE_F16, DEVICE_BF16
 *   CHANGE  ROWS_COPY and so on, of metric_params.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "metric_params.h"
#include "stored.cuh"

#define THREADS 256

#include "block_sum.cuh"

typedef stored_as<STORED>::type element;

/* The sum of what all threads have, to all of them. */
static __device__ double sum_of_all(double *sums, double mine)
{
    double sum;

    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    sum = sums[0];
    __syncthreads();
    return sum;
}

static __device__ double weight_of(const struct metric_rows_params *a, long long item, long long k)
{
    const long long at = batch_offset(a->batch_shape, a->batch_ndim, a->weights.batch_stride, item);

    return a->weights.data
               ? load_double(a->weights_dtype, a->weights.data, at + k * a->weights.col_stride)
               : 1;
}

/* What a column is multiplied by, so that its share of a p-norm is multiplied by w. */
static __device__ double factor_of(const struct metric_rows_params *a, double w, double p)
{
    if (CHANGE == ROWS_VARIANCES)
        return 1 / sqrt(w);
    if (CHANGE == ROWS_SCALE)
        return p > 0x1.fffffffffffffp1023 ? (w > 0 ? 1.0 : 0.0) : pow(w, 1 / p);
    return sqrt(w);
}

/* A row of an item: its numbers, and where it goes. */
struct row {
    const element *from;
    long long stride;
    REAL *to;
};

static __device__ double number(const struct row *r, long long k)
{
    return (double)real_of<STORED>(r->from[k * r->stride]);
}

#if CHANGE == ROWS_NORMALISE || CHANGE == ROWS_CENTRE
static __device__ void change(const struct metric_rows_params *a, const struct row *r,
                              long long item, double *sums)
{
    double mean = 0, square = 0, total = 0;

#  if CHANGE == ROWS_CENTRE
    for (long long k = threadIdx.x; k < a->depth; k += THREADS)
        total += weight_of(a, item, k);
    total = sum_of_all(sums, total);
    for (int pass = 0; pass < 2; pass++) { /* the second adds what the first one lost */
        double sum = 0;
        for (long long k = threadIdx.x; k < a->depth; k += THREADS)
            sum += weight_of(a, item, k) * (number(r, k) - mean);
        mean += sum_of_all(sums, sum) / total;
    }
#  endif
    for (long long k = threadIdx.x; k < a->depth; k += THREADS) {
        const double e = (number(r, k) - mean) * sqrt(weight_of(a, item, k));
        square += e * e;
    }
    square = sum_of_all(sums, square);
    square = square >= 0x1p-1022 && square < 1 / 0.0 ? 1 / sqrt(square) : 0.0 / 0.0;
    for (long long k = threadIdx.x; k < a->depth; k += THREADS)
        r->to[k] = (REAL)((number(r, k) - mean) * sqrt(weight_of(a, item, k)) * square);
}
#elif CHANGE == ROWS_DISTRIBUTE
/* Rows of sum 1; -1 everywhere in a row that is no distribution, which the terms know. */
static __device__ void change(const struct metric_rows_params *a, const struct row *r, long long,
                              double *sums)
{
    double sum = 0, negative = 0;

    for (long long k = threadIdx.x; k < a->depth; k += THREADS) {
        sum += number(r, k);
        negative += number(r, k) < 0;
    }
    sum = sum_of_all(sums, sum);
    negative = sum_of_all(sums, negative);
    for (long long k = threadIdx.x; k < a->depth; k += THREADS)
        r->to[k] = negative > 0 || sum == 0 ? (REAL)-1 : (REAL)(number(r, k) / sum);
}
#else
static __device__ void change(const struct metric_rows_params *a, const struct row *r,
                              long long item, double *)
{
    const double p = number_at(a->batch_shape, a->batch_ndim, a->p, item);

    for (long long k = threadIdx.x; k < a->columns; k += THREADS) {
        if (CHANGE == ROWS_COPY)
            r->to[k] = real_of<STORED>(r->from[k * r->stride]);
        else if (CHANGE == ROWS_ONES)
            r->to[k] = number(r, k) != 0;
        else if (CHANGE == ROWS_COSINES)
            r->to[k] = k < 2 ? real_of<STORED>(r->from[k * r->stride]) : (REAL)cos(number(r, 0));
        else if (CHANGE == ROWS_ROOTS)
            r->to[k] = (REAL)(sqrt(number(r, k)) * sqrt(weight_of(a, item, k)));
        else {
            const double e = number(r, k), f = factor_of(a, weight_of(a, item, k), p);
            r->to[k] = (REAL)(f == 0 && e == e ? 0 : e * f); /* also for infinity */
        }
    }
}
#endif

static __device__ void write_weights(const struct metric_rows_params *a, long long item,
                                     double *sums)
{
    REAL *to = (REAL *)a->weights_to + item * (a->columns + 1);
    double total = 0;

    for (long long k = threadIdx.x; k < a->columns; k += THREADS) {
        const double w = weight_of(a, item, k);
        to[k] = (REAL)w;
        total += w;
    }
    total = sum_of_all(sums, total);
    if (threadIdx.x == 0)
        to[a->columns] = (REAL)total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    metric_rows(const __grid_constant__ struct metric_rows_params a)
{
    __shared__ double sums[THREADS];
    const long long of_item = a.rows[0] + a.rows[1], rows = a.items * of_item;

    for (long long at = blockIdx.x; at < rows + (a.weights_to ? a.items : 0); at += gridDim.x) {
        if (at >= rows) {
            write_weights(&a, at - rows, sums);
            continue;
        }
        const long long item = at / of_item, in_item = at % of_item;
        const int side = in_item >= a.rows[0];
        const long long row = in_item - (side ? a.rows[0] : 0);
        const struct device_view *v = &a.side[side];
        const struct row r = {(const element *)v->data +
                                  batch_offset(a.batch_shape, a.batch_ndim, v->batch_stride, item) +
                                  row * v->row_stride,
                              v->col_stride,
                              (REAL *)a.to[side] + (item * a.rows[side] + row) * a.columns};
        change(&a, &r, item, sums);
        __syncthreads();
    }
}
