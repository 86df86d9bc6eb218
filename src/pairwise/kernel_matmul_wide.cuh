/*
 * kernel_matmul_wide.cuh - products of elements with many columns of v, by tensor cores
 *
 * A warp has 16 rows of a tile and all of its columns, so that its elements, as they lie in
 * registers, are the left operands of products with 8 rows of v each: the even ones, then the odd
 * ones, which is the order of a panel.  An element, and a number of v, become two numbers of 11
 * digits, hi + lo, and three products are summed: hi hi, hi lo and lo hi.  The elements' lo loses
 * what the tensor cores cut, at most 2^-21 of the element, as does v's lo, and lo lo is at most
 * 2^-22: 12 eps of each |k v| in all, of the (n + 8) eps that gram.h allows a product with n
 * points; the host takes this way from WIDE_POINTS on.  Products of a tile are summed apart, those
 * with lo too, so that the tensor cores, which truncate, see few terms; the tile's sums are added
 * to those of the rows, which stay in registers until the end of the slice.
 *
 * Part of kernel_matmul_tensor.cu, with WIDE; kernel_matmul_pack.cu writes the panels of v.
 *
 * SPDX-License-Identifier: MIT
 */

/* Of this thread's rows, as ptx.cuh says, for each 8 columns of v. */
struct sums {
    float at[COLUMNS / 8][4];
};

/* The elements of a block as left operands, hi and lo: column 2 t is row t of v, and 2 t + 1 is row
 * t + 4. */
static __device__ void split(const float s[4], unsigned hi[4], unsigned lo[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const float element = s[e % 2 * 2 + e / 2];
        hi[e] = ptx_tf32_of_float(element);
        lo[e] = __float_as_uint(element - __uint_as_float(hi[e]));
    }
}

/* Where a lane reads a panel of v: of rows 0 to 7 and columns 0 to 7 hi, even and odd, then lo. */
static __device__ const char *place_of(const char *v)
{
    const unsigned lane = ptx_thread() % 32;

    return v + lane / 16 * (WIDE_PANEL(COLUMNS) / 2) + (lane / 8 % 2 * COLUMNS + lane % 8) * 16;
}

/* From the inner products of a tile to the sums. */
static __device__ void finish_tile(struct tile *tile, struct memory *memory, const struct side *y,
                                   float (&acc)[BLOCKS][4], struct sums *sums)
{
    const char *place = place_of(y->v);
    float large[COLUMNS / 8][4] = {}, small[COLUMNS / 8][4] = {};

    find_elements(tile, memory, y->end, acc);
#pragma unroll
    for (int k = 0; k < BLOCKS; k++) {
        unsigned hi[4], lo[4];
        split(acc[k], hi, lo);
#pragma unroll
        for (int c = 0; c < COLUMNS / 8; c++) {
            unsigned v[4];
            ptx_ldmatrix_x4(v, place + (k * 2 * COLUMNS + c * 8) * 16);
            ptx_mma_tf32(large[c], hi, v);
            ptx_mma_tf32(small[c], hi, v + 2);
            ptx_mma_tf32(small[c], lo, v);
        }
    }
#pragma unroll
    for (int e = 0; e < COLUMNS / 2; e++)
        sums->at[e / 4][e % 4] += large[e / 4][e % 4] + small[e / 4][e % 4];
}

/* The sums of a strip's rows go to their place. */
static __device__ void store_rows(const struct tile *tile, const struct memory *,
                                  const struct sums *sums)
{
    const struct share *share = tile->share;
    const long long rows = tile->t->product.round.rows;
    const bool valid = !HYPERS || tile->map->valid;

#pragma unroll
    for (int e = 0; e < COLUMNS / 2; e++) {
        const long long at = share->row + tile->strip * TILE + row_of(0) + e % 4 / 2 * 8;
        const int c = e / 4 * 8 + (int)(threadIdx.x % 4) * 2 + e % 2;
        const float sum = valid ? sums->at[e / 4][e % 4] : __int_as_float(0x7fc00000);
        if (at < rows && c < share->columns)
            share->sums[c * rows + at] = sum;
    }
}

static __device__ bool is_mirrored(const struct share *, int)
{
    return false;
}
