/*
 * lengths.cu - points divided by lengths, and gradients of lengths
 *
 *   lengths_divide    out[i][k] = (in[i][k] - centre[k]) / lengths[k], or / 1 without lengths
 *   lengths_sum       sums of x[i][k] to_x[i][k] and y[j][k] to_y[j][k] over a chunk of rows
 *   lengths_grad      out[k] = -(the sum over the chunks) / lengths[k]
 *
 * Sums are in double, and their order depends on the sizes alone.  A length that is not positive
 * and finite gives NaN.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "stored.cuh"
#include "device_view.cuh"
#include "lengths_params.h"

#define FAR_AWAY 1e30 /* GRAM_FAR_AWAY */

static __device__ long long place(const struct lengths_batch &b, const struct device_view &v,
                                  long long item)
{
    return batch_offset(b.shape, b.ndim, v.batch_stride, item);
}

static __device__ double element(const struct lengths_batch &b, const struct device_view &v,
                                 long long item, long long i, long long k)
{
    return (double)((const REAL *)v.data)[place(b, v, item) + i * v.row_stride + k * v.col_stride];
}

static __device__ double quotient_of(double a, double length)
{
    const bool good = length > 0 && length <= 1.7976931348623157e308;

    return good ? a / length : __longlong_as_double(0x7FF8000000000000ll);
}

/* ---- Quotients ------------------------------------------------------------------------------ */

extern "C" __global__ void __launch_bounds__(256)
    lengths_divide(const __grid_constant__ struct lengths_divide_params a)
{
    const struct lengths_batch &b = a.batch;
    const long long step = (long long)gridDim.x * blockDim.x, size = a.rows * b.cols;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < b.items * size;
         e += step) {
        const long long item = quotient(e, size), at = e - item * size;
        const long long i = quotient(at, b.cols), k = at - i * b.cols;
        const long long from = place(b, a.in, item) + i * a.in.row_stride + k * a.in.col_stride;
        const long long to = place(b, a.out, item) + i * a.out.row_stride + k * a.out.col_stride;
        double c = 0;

        if (a.centre.data)
            c = (double)load_real(a.stored, a.centre.data,
                                  place(b, a.centre, item) + k * a.centre.col_stride);
        c = fabs(c) <= FAR_AWAY ? c : 0;
        ((REAL *)a.out.data)[to] =
            (REAL)quotient_of((double)load_real(a.stored, a.in.data, from) - c,
                              a.lengths.data ? element(b, a.lengths, item, 0, k) : 1);
    }
}

/* ---- Gradients ------------------------------------------------------------------------------ */

/* What rows [from, end) of x and y, one after the other, add to a column. */
static __device__ double part_of(const struct lengths_grad_params &a, long long item,
                                 long long from, long long end, long long k)
{
    double sum = 0;

    for (long long r = from + threadIdx.x / LENGTHS_COLUMNS; r < end; r += LENGTHS_ROWS) {
        const bool of_x = r < a.x_rows;
        const long long i = of_x ? r : r - a.x_rows;
        sum += of_x ? element(a.batch, a.x, item, i, k) * element(a.batch, a.to_x, item, i, k)
                    : element(a.batch, a.y, item, i, k) * element(a.batch, a.to_y, item, i, k);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(LENGTHS_COLUMNS *LENGTHS_ROWS)
    lengths_sum(const __grid_constant__ struct lengths_grad_params a)
{
    __shared__ double sums[LENGTHS_ROWS][LENGTHS_COLUMNS];
    const long long tiles = (a.batch.cols + LENGTHS_COLUMNS - 1) / LENGTHS_COLUMNS;
    const long long rows = a.x_rows + a.y_rows, tasks = a.batch.items * a.chunks * tiles;
    const int lane = (int)threadIdx.x % LENGTHS_COLUMNS, row = (int)threadIdx.x / LENGTHS_COLUMNS;

    for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
        const long long tile = task % tiles, item_chunk = task / tiles;
        const long long item = item_chunk / a.chunks, chunk = item_chunk % a.chunks;
        const long long k = tile * LENGTHS_COLUMNS + lane, from = chunk * a.chunk;
        const long long end = from + a.chunk < rows ? from + a.chunk : rows;

        sums[row][lane] = k < a.batch.cols ? part_of(a, item, from, end, k) : 0;
        __syncthreads();
        if (row == 0 && k < a.batch.cols) {
            double sum = 0;
            for (int r = 0; r < LENGTHS_ROWS; r++)
                sum += sums[r][lane];
            a.parts[item_chunk * a.batch.cols + k] = sum;
        }
        __syncthreads(); /* before the sums of the next task */
    }
}

extern "C" __global__ void __launch_bounds__(256)
    lengths_grad(const __grid_constant__ struct lengths_grad_params a)
{
    const struct lengths_batch &b = a.batch;
    const long long step = (long long)gridDim.x * blockDim.x;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < b.items * b.cols;
         e += step) {
        const long long item = e / b.cols, k = e - item * b.cols;
        double sum = 0;

        for (long long chunk = 0; chunk < a.chunks; chunk++)
            sum += a.parts[(item * a.chunks + chunk) * b.cols + k];
        ((REAL *)a.out.data)[place(b, a.out, item) + k * a.out.col_stride] =
            (REAL)quotient_of(0 - sum, element(b, a.lengths, item, 0, k));
    }
}
