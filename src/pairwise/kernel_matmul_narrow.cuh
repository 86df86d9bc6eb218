/*
 * kernel_matmul_narrow.cuh - products of elements with few columns of v, and of their mirror images
 *
 * For each column of v a thread adds up the products of its 8 rows, and, with MIRROR, of its 8
 * columns with the rows of v that belong to x.  Lanes that share a row or a column add up theirs by
 * shuffles.  Sums of rows wait in shared memory for the end of the slice.  Those of columns are the
 * mirror images; they go to a place of the block of rows at once, and strips after the first one
 * add to what the same thread has written there.
 *
 * Part of kernel_matmul_tensor.cu.
 *
 * SPDX-License-Identifier: MIT
 */

/* All sums are in shared memory. */
struct sums {};

/* Of 2 COUNT numbers a lane keeps those of its half, with what the lane `apart` adds to them. */
template <int COUNT> static __device__ void halve(float *s, int apart)
{
    const bool high = threadIdx.x & (unsigned)apart;

#pragma unroll
    for (int n = 0; n < COUNT; n++) {
        const float sent = high ? s[n] : s[n + COUNT], kept = high ? s[n + COUNT] : s[n];
        s[n] = kept + __shfl_xor_sync(~0u, sent, apart);
    }
}

/* Adds the products with a column of v to the sums of rows: a lane keeps rows row_of(t * 4) and
 * 8 behind it, t = lane % 4. */
static __device__ void add_rows(const float (&k)[BLOCKS][4], const float *v, float *rows)
{
    const unsigned thread = ptx_thread();
    const int col = col_of(0, thread), row = row_of((int)(thread % 4 * 4), thread);
    float sum[8] = {};

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const struct two_numbers two = *(const struct two_numbers *)(v + col + j * 8);
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n] = fmaf(k[n / 2 * 4 + j][n % 2 * 2 + 1], two.at[1],
                          fmaf(k[n / 2 * 4 + j][n % 2 * 2], two.at[0], sum[n]));
    }
    halve<4>(sum, 2);
    halve<2>(sum, 1);
    rows[row] += sum[0];
    rows[row + 8] += sum[1];
}

#if MIRROR
/* The products with the rows of v that belong to x, summed over the rows of a warp: a lane has
 * column col_of(g / 2) + g % 2, g = lane / 4. */
static __device__ void add_mirrors(const float (&k)[BLOCKS][4], const float *w, float *mirrors)
{
    const unsigned thread = ptx_thread();
    const int g = (int)(thread % 32 / 4), col = col_of(g / 2, thread) + g % 2;
    float sum[8] = {};

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = row_of(i * 4, thread);
        const float one = w[row], two = w[row + 8];
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n] = fmaf(k[i * 4 + n / 2][n % 2 + 2], two,
                          fmaf(k[i * 4 + n / 2][n % 2], one, sum[n]));
    }
    halve<4>(sum, 16);
    halve<2>(sum, 8);
    halve<1>(sum, 4);
    mirrors[col] = sum[0];
}

/* The sums of a tile's mirror images go to their place, by the same threads for every strip. */
static __device__ void store_mirrors(const struct tile *tile, const struct memory *memory, int at)
{
    const struct share *share = tile->share;
    const long long points = tile->t->product.pair.cols;
    const int col = (int)threadIdx.x % TILE;
    const bool valid = !HYPERS || tile->map->valid;

#pragma unroll 1
    for (int c = (int)threadIdx.x / TILE; c < columns_of(share); c += THREADS / TILE) {
        float *to = share->mirrors + c * points + share->begin + at * TILE + col;
        const float sum = memory->mirrors[at % 2][0][c][col] + memory->mirrors[at % 2][1][c][col];
        *to = !valid ? __int_as_float(0x7fc00000) : tile->strip == 0 ? sum : *to + sum;
    }
}
#endif

/* Whether the elements of the slice's tile serve mirror images: all of its points do, or none. */
static __device__ bool is_mirrored(const struct share *share, int at)
{
    return MIRROR && at >= share->mirror_begin && at < share->mirror_end;
}

/* From the inner products of a tile to the sums. */
static __device__ void finish_tile(struct tile *tile, struct memory *memory, const struct side *y,
                                   float (&acc)[BLOCKS][4], struct sums *)
{
    const struct share *share = tile->share;
    const unsigned warp = ptx_thread() / 32;
    const bool mirrored = is_mirrored(share, tile->at);

    find_elements(tile, memory, y->end, acc);
#pragma unroll 1
    for (int c = 0; c < columns_of(share); c++) {
        add_rows(acc, y->v[c], memory->rows[warp % ACROSS][c]);
#if MIRROR
        if (mirrored)
            add_mirrors(acc, memory->x.v[c], memory->mirrors[tile->at % 2][warp / ACROSS][c]);
#endif
    }
}

/* The warps' sums of a strip's rows go to their place. */
static __device__ void store_rows(const struct tile *tile, const struct memory *memory,
                                  const struct sums *)
{
    const struct share *share = tile->share;
    const long long rows = tile->t->product.round.rows;
    const int row = (int)threadIdx.x % TILE;
    const long long at = share->row + tile->strip * TILE + row;
    const bool valid = !HYPERS || tile->map->valid;

#pragma unroll 1
    for (int c = (int)threadIdx.x / TILE; c < columns_of(share); c += THREADS / TILE) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < ACROSS; w++)
            sum += memory->rows[w][c][row];
        if (at < rows)
            share->sums[c * rows + at] = valid ? sum : __int_as_float(0x7fc00000);
    }
}
