/*
 * metric_terms.cuh - what metrics add up over the coordinates, and what becomes of their sums
 *
 * Part of cdist.cu, whose parameters it uses.  The terms and forms are those of metric_kernels.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define INFINITE \
  (IS_DOUBLE ? (REAL)__longlong_as_double(0x7ff0000000000000) : (REAL)__int_as_float(0x7f800000))

/* term, but infinite where x or y is negative and the other one is no NaN */
static __device__ REAL of_distributions(REAL x, REAL y, REAL term)
{
    if (x != x || y != y)
        return x + y;
    return x < 0 || y < 0 ? INFINITE : term;
}

/* x log(2 x / (x + y)) + y log(2 y / (x + y)): see metric_kernels.h.  Below t = 1/2 log(1 - t^2)
 * and t log((1 + t) / (1 - t)) cancel by a factor of 3. */
static __device__ REAL jensen_shannon(REAL x, REAL y)
{
    const REAL sum = x + y, t = sum == 0 ? (REAL)0 : magnitude(x - y) / sum, left = 1 - t;
    REAL f;

    if (t < (REAL)0.5)
        f = log1p(-t * t) + t * log1p(2 * t / left);
    else
        f = (1 + t) * log(1 + t) + (left > 0 ? left * log(left) : (REAL)0);
    return of_distributions(x, y, sum / 2 * f);
}

/* What coordinate k adds to the sums; w is its weight. */
static __device__ void add_term(REAL &acc, REAL &second, REAL x, REAL y, REAL w, long long k)
{
    const REAL d = x - y, sum = x + y, a = magnitude(d), size = magnitude(x) + magnitude(y);

    switch (STEP) {
    case PAIR_CANBERRA:
        acc += size == 0 ? (REAL)0 : w * (a / size);
        break;
    case PAIR_CHI2:
        acc += sum == 0 ? (REAL)0 : w * (d * d / sum);
        break;
    case PAIR_DIFFERS:
        acc += x != y ? w : (REAL)0;
        break;
    case PAIR_KULLBACK_LEIBLER:
        acc += w * of_distributions(
                       x, y, x == 0 ? (REAL)0 : x * log(x / (y + (REAL)0))); /* -0 counts as 0 */
        break;
    case PAIR_JENSEN_SHANNON:
        acc += w * jensen_shannon(x, y);
        break;
    case PAIR_BRAYCURTIS:
        acc += w * a;
        second += w * magnitude(sum);
        break;
    case PAIR_PRESENT:
        if (x == x && y == y) {
            acc += w * (d * d);
            second += w;
        }
        break;
    default: /* PAIR_HAVERSINE: the third column is the cosine of the first */
        if (k < 2) {
            const REAL s = sin(d / 2);
            (k == 0 ? acc : second) = s * s;
        } else {
            acc += x * y * second;
        }
        break;
    }
}

/* asin(sqrt(h)), h up to 1 and what rounding adds */
static __device__ REAL angle(REAL h)
{
    return h != h ? h : asin(h < 1 ? root(h) : (REAL)1);
}

static __device__ REAL finished(REAL s, REAL t, REAL divisor, REAL most)
{
    switch (FINISH) {
    case PAIR_DIVIDE:
        s /= divisor;
        return s > most ? most : s;
    case PAIR_DIVIDE_ROOT:
        return root(s / divisor);
    case PAIR_RATIO:
        return s / t;
    case PAIR_UNION:
        return s == 0 ? s : 2 * s / (s + t);
    case PAIR_PRESENT_SHARE:
        return s * (divisor / t);
    case PAIR_PRESENT_ROOT:
        return root(s * (divisor / t));
    case PAIR_ANGLE:
        return 2 * angle(s);
    default:
        return s;
    }
}

#if STEP > PAIR_ANY
/* x_at, y_at: where the thread's first rows begin in shared memory; weights: those of the panel's
 * columns, of which `left` exist. */
static __device__ void sum_terms(REAL acc[TM][TN], REAL second[TM][TN], unsigned x_at,
                                 unsigned y_at, const REAL *weights, long long first, int left)
{
    struct group x[TM];

#  pragma unroll 1
    for (int k = 0; k < BK && k < left; k++, x_at += sizeof *x, y_at += sizeof *x) {
        const REAL w = WEIGHTED ? weights[k] : (REAL)1;
#  pragma unroll
        for (int i = 0; i < TM; i++)
            ptx_read_shared(x[i].at, x_at + 16 * i * LD * (unsigned)sizeof(REAL));
#  pragma unroll
        for (int j = 0; j < TN; j++) {
            struct group y;
            ptx_read_shared(y.at, y_at + 16 * j * LD * (unsigned)sizeof(REAL));
#  pragma unroll
            for (int i = 0; i < TM; i++)
                add_term(acc[i][j], second[i][j], x[i].at[0], y.at[0], w, first + k);
        }
    }
}
#endif
