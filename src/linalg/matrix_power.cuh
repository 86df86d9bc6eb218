/*
 * matrix_power.cuh - items, columns and elements as the kernels of gram_matrix_power see them
 *
 * Part of files whose parameter is REAL, the type that is computed in.  Matrices in scratch are
 * column-major with leading dimension ld, one item after the other.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power_params.h"

#define THREADS POWER_THREADS
#define NAN_OF  __longlong_as_double(0x7FF8000000000000ll)
#define INF_OF  __longlong_as_double(0x7FF0000000000000ll)

#include "device_view.cuh"

typedef struct power_params params;

/* Blocks of an item are neighbours.  A block takes THREADS / width columns at a time, width rows.
 */
static __device__ long long item_of(const params &a)
{
    return blockIdx.x / a.parts;
}

static __device__ long long part_of(const params &a)
{
    return blockIdx.x % a.parts;
}

static __device__ long long first_column(const params &a)
{
    const int at_a_time = THREADS / (int)a.width;

    return part_of(a) * at_a_time + (int)threadIdx.x / (int)a.width;
}

static __device__ long long columns_apart(const params &a)
{
    return a.parts * (THREADS / (int)a.width);
}

static __device__ long long first_row(const params &a)
{
    return (int)threadIdx.x % (int)a.width;
}

static __device__ REAL *matrix_of(const params &a, char *matrices, long long item)
{
    return (REAL *)matrices + item * a.n * a.ld;
}

static __device__ long long place_of(const params &a, const struct device_view &s, long long item)
{
    return batch_offset(a.shape, a.ndim, s.batch_stride, a.begin + item);
}

/* Magnitudes compare like their bits, and every NaN is above all of them. */
static __device__ unsigned long long magnitude(double v)
{
    return (unsigned long long)__double_as_longlong(v) & 0x7FFFFFFFFFFFFFFFull;
}

/* The largest of what the threads of a block have, added to *to. */
static __device__ void largest_to(unsigned long long *to, unsigned long long mine)
{
    __shared__ unsigned long long most[THREADS];

    most[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x])
            most[threadIdx.x] = most[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        atomicMax(to, most[0]);
}

/* A ridge of the caller's; negative for what is none. */
static __device__ double ridge_of(const params &a, long long item)
{
    double r = a.ridge_value;

    if (a.ridge.data)
        r = load_double(a.ridge_dtype, a.ridge.data, place_of(a, a.ridge, item));
    return r >= 0 && r < INF_OF ? r : -1;
}

/* The ridge of A' with these eigenvalues at its ends, from the caller's. */
static __device__ double ridge_for(const params &a, const struct power_state *s, double ridge,
                                   double smallest, double largest)
{
    const double r = a.relative ? ridge * fmax(largest, 0.) : ldexp(ridge, -s->exponent);
    const double least = fmax(fmax(r, a.least_ridge * largest), -2 * smallest);

    if (a.least_ridge == 0)
        return r;
    return least > 0 ? least : 1; /* of a factor that is 0, the root is I */
}
