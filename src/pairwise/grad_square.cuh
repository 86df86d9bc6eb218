/*
 * grad_square.cuh - one tile of a gradient with p = 2 in f64, by products of matrices
 *
 * Part of cdist_grad.cu.
 *   out[o, n, m] = (d[n, m] - s[n]) (c a)[o, m] - sum_k c[o, k] (b[n, k] - s[n]) a[k, m]
 * with s[n] the mean of b[n, :]: the differences are the same, and what cancels is smaller when a
 * feature is far from 0.  A panel of b is centred where it lies, times c if there is one output,
 * while the one before it is summed.
 * A pair of threads sums (c a)[:, m], each half of a panel's centres.
 *
 * SPDX-License-Identifier: MIT
 */

#define PAIRS (THREADS / BM) /* of threads that share a point's c a */

/* b - s, or c (b - s) with one output, in the elements that this thread has copied to a panel,
 * which it sees before the others do; rows of zeros stay 0. */
static __device__ void centre(REAL *panels, const struct grad_params *a,
                              const struct grad_tile *tile, const REAL *means, int panel)
{
    typedef grad_copy<B_LOAD, BN> copy;
    REAL *const b = (REAL *)panels_at(panels, panel).b;
    const int left = centres_left(tile, panel);

#pragma unroll
    for (int r = 0; r < copy::ROUNDS; r++) {
        const int k = copy::centre(r), at = copy::near(r);
        if (copy::exists(r) && k < left) {
            const REAL c =
                TO == 1 ? tile->c[((long long)panel * BK + k) * a->c.col_stride] : (REAL)1;
#pragma unroll
            for (int w = 0; w < copy::WIDTH; w++)
                b[k * B_LD + at + w] = (b[k * B_LD + at + w] - means[at + w]) * c;
        }
    }
}

static __device__ void add_weights(REAL weights[TO], const struct grad_panels *p)
{
    const int m = (int)threadIdx.x % BM, first = (int)threadIdx.x / BM;

#pragma unroll
    for (int k = first; k < BK; k += PAIRS) {
        const REAL a = p->a[k * A_LD + m];
#pragma unroll
        for (int o = 0; o < TO; o++)
            weights[o] += p->c[k * C_LD + o] * a;
    }
}

static __device__ void add_centre(struct grad_sums *sums, const struct grad_panels *p, int k)
{
    REAL a[TM], b[TN], c[TO] = {1};

    read_points(a, p->a + k * A_LD);
    read_features(b, p->b + k * B_LD);
    if (TO > 1)
        read_outputs(c, p->c + k * C_LD);
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int i = 0; i < TN; i++) {
            const REAL cb = TO == 1 ? b[i] : c[o] * b[i];
#pragma unroll
            for (int j = 0; j < TM; j++)
                sums->at[o][i][j] += cb * a[j];
        }
}

/* The mean of each feature of the tile, 0 if it is not finite: infinities stay where they are. */
static __device__ void find_means(const struct grad_params *a, const struct grad_tile *tile,
                                  REAL *means)
{
    const long long parts = (a->centres + GRAD_RANGE_CENTRES - 1) / GRAD_RANGE_CENTRES;
    const long long rows = a->points + a->features + a->outputs;

    for (int n = threadIdx.x; n < BN; n += THREADS) {
        double sum = 0;
#pragma unroll 1
        for (long long part = 0; n < tile->features && part < parts; part++)
            sum += a->ranges[(part * a->items + tile->item) * rows + a->points + tile->feature + n]
                       .sum;
        sum /= (double)a->centres;
        means[n] = isfinite(sum) ? (REAL)sum : (REAL)0;
    }
}

static __device__ void finish_tile(const struct grad_params *a, const struct grad_tile *tile,
                                   const struct grad_sums *sums, const REAL *weights,
                                   const REAL *means)
{
    const REAL *row = tile->d + feature_of(0) * a->d.row_stride;
#pragma unroll
    for (int i = 0; i < TN; i++, row += a->d.row_stride) {
        const int n = feature_of(i);
#pragma unroll
        for (int j = 0; j < TM; j++) {
            const int m = point_of(j);
            if (n >= tile->features || m >= tile->points)
                continue;
            const REAL d = row[m * a->d.col_stride] - means[n];
#pragma unroll
            for (int o = 0; o < TO; o++) {
                REAL weight = 0;
                for (int half = 0; half < PAIRS; half++)
                    weight += weights[(half * TO + o) * BM + m];
                store(a, tile, o, n, m, d * weight - sums->at[o][i][j]);
            }
        }
    }
}

static __device__ void compute(const struct grad_params *a, const struct grad_tile *tile,
                               REAL *panels)
{
    __shared__ REAL means[BN];
    const int count = panel_count(tile);
    struct grad_sums sums = {};
    REAL weights[TO] = {};

    find_means(a, tile, means);
    load_panels(a, tile, panels, 0, count);
    __syncthreads(); /* the means are there */
    ptx_copy_wait<0>();
    centre(panels, a, tile, means, 0);
#pragma unroll 1
    for (int panel = 0; panel < count; panel++) {
        const struct grad_panels now = panels_at(panels, panel);
        __syncthreads(); /* this panel is there, and the other one is no longer read */
        load_panels(a, tile, panels, panel + 1, count);
        add_weights(weights, &now);
#pragma unroll unrolled
        for (int k = 0; k < BK; k++)
            add_centre(&sums, &now, k);
        ptx_copy_wait<0>();
        if (panel + 1 < count)
            centre(panels, a, tile, means, panel + 1);
    }
    __syncthreads(); /* the panels are no longer read: their memory takes c a */
#pragma unroll
    for (int o = 0; o < TO; o++)
        panels[((int)threadIdx.x / BM * TO + o) * BM + (int)threadIdx.x % BM] = weights[o];
    __syncthreads();
    finish_tile(a, tile, &sums, panels, means);
}
