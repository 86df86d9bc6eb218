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

/*
 * The best w = a + b y of MINIMAX for eigenvalues y in [low, high]: y^(1/q) (a + b y) rises from
 * low to y' = -a / (b (1 + q)) and falls to high, so it leaves 1 least where its values at low and
 * high are 1 - e and that at y' is 1 + e.  Leaves e in before, and where eigenvalues lie
 * afterwards.
 */
static __device__ void minimax_next(const struct power_params &a, struct power_state *s)
{
    const double q = (double)a.denominator, p = 1 / q, low = s->low, high = s->high;
    const double t = high - low > 1e-9 * high
                         ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                         : 1 / ((1 + q) * low);
    const double peak = 1 / (t * (1 + q));
    const double least = pow(low, p) * (1 - t * low), most = pow(peak, p) * (1 - t * peak);
    const double e = (most - least) / (most + least);

    s->step[0] = 2 / (least + most);
    s->step[1] = -s->step[0] * t;
    s->before = e;
    s->low = pow(1 - e, q), s->high = pow(1 + e, q);
}

/* The Lanczos value may fall short of the largest eigenvalue: there are 5 % and 1 % to spare. */
static __device__ void minimax_begin(const struct power_params &a, struct power_state *s)
{
    const double scale = 1.05 * s->largest;
    /* The ridge may be twice what a negative eigenvalue of a factor takes back. */
    const double condition =
        (a.least_ridge > 0 ? 2 : 1) * (a.condition > 0 ? a.condition : s->largest / s->shift);

    s->first = 1 / scale;
    s->last = pow(scale, -1 / (double)a.denominator);
    s->low = 1 / (1.05 * condition), s->high = 1.01;
    minimax_next(a, s);
}
