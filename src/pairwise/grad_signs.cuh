/*
 * grad_signs.cuh - p = 1 and several outputs in f32: signs times weights by tensor cores
 *
 * Part of cdist_grad.cu.
 *   out[o, n, m] = sum_k sgn(d[n, m] - b[n, k]) (c[o, k] a[k, m])
 * is, for each point m, a product of a matrix of signs, which bfloat16 holds exactly, and one of
 * weights, each the sum of three bfloat16: 24 bits.  Both are made in registers, the weights for
 * all features of the warp at once.
 *
 * ptx_mma_bf16 takes 16 features, 16 centres and 8 outputs.  Lane g = lane / 4, t = lane % 4: rows
 * g and g + 8 are features 2 r and 2 r + 1 of the lane, its four centres along k are t, t + 4,
 * t + 8 and t + 12 of a panel, columns 2 t and 2 t + 1 of product q outputs 4 t + q and 4 t + 2 + q
 * (2 t and 2 t + 1 if there is one product): so reads from the panels meet no bank twice.
 *
 * SPDX-License-Identifier: MIT
 */

#define PRODUCTS (TO / 8) /* of 8 outputs */
#define PARTS    3        /* of a weight */

static __device__ int shared_centre(int i)
{
    return (int)threadIdx.x % 4 + 4 * i;
}

static __device__ unsigned signs_of(float low, float high)
{
    const unsigned two = 0x40004000, minus_one = 0xbf80bf80;

    return ptx_fma_of_bfloats(ptx_upper_halves(above(low), above(high)), two, minus_one);
}

/* Two weights as sums of bfloat16, the largest ones first. */
static __device__ void split(float low, float high, unsigned parts[PARTS])
{
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        parts[i] = ptx_bfloats_of_floats(low, high);
        low -= __int_as_float((int)(parts[i] << 16));
        high -= __int_as_float((int)(parts[i] & 0xffff0000u));
    }
}

/* The weights of 16 centres: registers of b of each product and part. */
static __device__ void find_weights(const struct grad_panels *p,
                                    unsigned weights[TM][PRODUCTS][PARTS][2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        REAL a[2][TM], c[2][PRODUCTS];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int k = shared_centre(2 * half + i);
            read_groups<TM, 0>(a[i], p->a + k * A_LD + point_of(0));
            read_groups<PRODUCTS, 0>(c[i], p->c + k * C_LD + (int)threadIdx.x % 32 / 4 * PRODUCTS);
        }
#pragma unroll
        for (int j = 0; j < TM; j++)
#pragma unroll
            for (int q = 0; q < PRODUCTS; q++) {
                unsigned parts[PARTS];
                split(c[0][q] * a[0][j], c[1][q] * a[1][j], parts);
#pragma unroll
                for (int i = 0; i < PARTS; i++)
                    weights[j][q][i][half] = parts[i];
            }
    }
}

/* Features 2 r and 2 r + 1 of point j: the smallest parts first. */
static __device__ void add_products(struct grad_sums *sums, int r, int j, const unsigned signs[4],
                                    const unsigned weights[PRODUCTS][PARTS][2])
{
#pragma unroll
    for (int q = 0; q < PRODUCTS; q++) {
        float c[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            c[i] = sums->at[i % 2 * PRODUCTS + q][2 * r + i / 2][j];
#pragma unroll
        for (int i = PARTS - 1; i >= 0; i--)
            ptx_mma_bf16(c, signs, weights[q][i]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums->at[i % 2 * PRODUCTS + q][2 * r + i / 2][j] = c[i];
    }
}

/* 16 centres. */
static __device__ void add_centres(struct grad_sums *sums, const REAL d[TN][TM],
                                   const struct grad_panels *p)
{
    unsigned weights[TM][PRODUCTS][PARTS][2];

    find_weights(p, weights);
#pragma unroll
    for (int i = 0; i < TN; i += LANES) {
        REAL b[4][LANES];
#pragma unroll
        for (int k = 0; k < 4; k++)
            read_groups<LANES, 0>(b[k], p->b + shared_centre(k) * B_LD + feature_of(i));
#pragma unroll
        for (int r = 0; r < LANES; r += 2)
#pragma unroll
            for (int j = 0; j < TM; j++) {
                unsigned signs[4];
#pragma unroll
                for (int s = 0; s < 4; s++) {
                    const int n = r + s % 2, k = s / 2 * 2;
                    signs[s] = signs_of(d[i + n][j] - b[k][n], d[i + n][j] - b[k + 1][n]);
                }
                add_products(sums, (i + r) / 2, j, signs, weights[j]);
            }
    }
}

static __device__ void add_panel(struct grad_sums *sums, const REAL d[TN][TM],
                                 const struct grad_panels *p, const struct grad_params *)
{
    struct grad_panels now = *p;

#pragma unroll 1
    for (int k = 0; k < BK; k += 16) {
        add_centres(sums, d, &now);
        now.a += 16 * A_LD, now.b += 16 * B_LD, now.c += 16 * C_LD;
    }
}
