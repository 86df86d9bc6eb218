/*
 * sample_tile.cuh - a tile of a product of two sides of a layer, by all threads of a block
 *
 *   sums[i][j] += sum_k left(i, k) right(j, k)
 *
 * "Outer" is what a tile has rows or columns of, features or positions of one sample, "inner" what
 * is summed over, the other of the two.  Where inner ones are inner positions they may run on from
 * sample to sample, each sample with a factor of its own; those with factor 0 are not read.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer_side.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

#define TILE   SAMPLE_TILE
#define STEP   SAMPLE_STEP
#define BLOCKS (sizeof(REAL) == 8 ? 2 : 3) /* of a processor */
#define EACH   4 /* rows and columns of a thread; elements that it loads */

struct inner {
    struct part part;
    REAL factor;
    int there;
};

struct tile_memory {
    REAL left[STEP][TILE + 4], right[STEP][TILE + 4];
    struct inner inner[2][2][STEP]; /* of a step and the next one, of both sides */
};

/* The inner ones: features of a group, or positions from one of sample `sample` on. */
struct run {
    bool features;
    int group, sample, first, count;
    const double *factors; /* of the samples; NULL: 1 */
};

/* One side of the product. */
struct operand {
    bool gradients;  /* else what goes in */
    bool outer_fast; /* neighbours in memory are outer ones */
    bool weighted;   /* takes the factors */
    long long start; /* of the sample, where inner ones are features */
    int count;       /* outer ones that are there */
    struct part outer[EACH];
};

static __device__ int outer_index(const struct operand *o, int e)
{
    const int t = (int)threadIdx.x;

    return o->outer_fast ? t % TILE : t / STEP + e * (THREADS / STEP);
}

static __device__ int inner_index(const struct operand *o, int e)
{
    const int t = (int)threadIdx.x;

    return o->outer_fast ? t / TILE + e * (THREADS / TILE) : t % STEP;
}

/* Outer ones of a tile: features of a group, or positions of a sample. */
static __device__ void open_operand(const params &a, struct operand *o, bool features, int group,
                                    int first)
{
    const int all = !features ? a.l.positions : o->gradients ? a.l.out : a.l.in;

    o->outer_fast = features != (bool)(o->gradients ? a.l.planes : a.l.a_planes);
    o->count = min(TILE, all - first);
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = first + min(outer_index(o, e), o->count - 1);
        o->outer[e] =
            features ? feature_of(a.l, o->gradients, group, i) : position_of(a.l, o->gradients, i);
    }
}

/* Inner ones of a step, by its first threads. */
static __device__ void look_up(const params &a, struct tile_memory *memory,
                               const struct operand *left, const struct operand *right,
                               const struct run *run, int step)
{
    const int which = (int)threadIdx.x / STEP, slot = (int)threadIdx.x % STEP;
    const bool gradients = which ? right->gradients : left->gradients;
    const bool weighted = which ? right->weighted : left->weighted;
    const int k = step * STEP + slot;
    struct inner one = {
        {0, {0, 0, 0}},
        1, k < run->count
    };

    if (which > 1)
        return;
    if (one.there && run->features)
        one.part = feature_of(a.l, gradients, run->group, k);
    else if (one.there) {
        const unsigned at = (unsigned)(run->first + k), all = (unsigned)a.l.positions;
        const long long sample = run->sample + (int)(at / all);
        const struct layer_side &side = gradients ? a.l.g : a.l.a;
        const double factor = run->factors ? run->factors[sample] : 1;
        one.there = factor != 0;
        one.factor = weighted ? (REAL)factor : (REAL)1;
        one.part = position_of(a.l, gradients, (int)(at % all));
        one.part.at += sample * side.sample_stride;
    }
    memory->inner[step % 2][which][slot] = one;
}

/* Nothing here waits for what it reads: the factors come when it is laid down. */
static __device__ void fetch(const params &a, const struct inner inner[STEP],
                             const struct operand *o, REAL value[EACH])
{
    const struct layer_side &side = o->gradients ? a.l.g : a.l.a;
    long long at[EACH];
    bool there[EACH];

#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const struct inner &one = inner[inner_index(o, e)];
        there[e] = one.there && outer_index(o, e) < o->count &&
                   (o->gradients || inside(a.l, o->outer[e], one.part));
        at[e] = o->start + o->outer[e].at + one.part.at;
        value[e] = 0;
    }
    if (side.dtype == DEVICE_REAL) {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (there[e])
                value[e] = ((const REAL *)side.data)[at[e]];
        return;
    }
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (there[e])
            value[e] = side_value(side, at[e]);
}

static __device__ void lay_down(REAL to[STEP][TILE + 4], const struct inner inner[STEP],
                                const struct operand *o, const REAL value[EACH])
{
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int k = inner_index(o, e);
        to[k][outer_index(o, e)] = o->weighted ? inner[k].factor * value[e] : value[e];
    }
}

static __device__ void add_step(const struct tile_memory *memory, REAL sums[EACH][EACH])
{
    const int row = (int)threadIdx.x / (TILE / EACH) * EACH;
    const int col = (int)threadIdx.x % (TILE / EACH) * EACH;

#pragma unroll
    for (int k = 0; k < STEP; k++) {
        REAL x[EACH], y[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            x[e] = memory->left[k][row + e];
            y[e] = memory->right[k][col + e];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                sums[i][j] += x[i] * y[j];
    }
}

/* All threads have passed a barrier since the memory was last used. */
static __device__ void multiply(const params &a, struct tile_memory *memory,
                                const struct operand *left, const struct operand *right,
                                const struct run *run, REAL sums[EACH][EACH])
{
    const int steps = (run->count + STEP - 1) / STEP;
    REAL x[EACH], y[EACH];

    if (steps == 0)
        return;
    look_up(a, memory, left, right, run, 0);
    __syncthreads();
    fetch(a, memory->inner[0][0], left, x);
    fetch(a, memory->inner[0][1], right, y);
    for (int step = 0; step < steps; step++) {
        const int next = (step + 1) % 2;
        __syncthreads();
        lay_down(memory->left, memory->inner[step % 2][0], left, x);
        lay_down(memory->right, memory->inner[step % 2][1], right, y);
        if (step + 1 < steps)
            look_up(a, memory, left, right, run, step + 1);
        __syncthreads();
        if (step + 1 < steps) {
            fetch(a, memory->inner[next][0], left, x);
            fetch(a, memory->inner[next][1], right, y);
        }
        add_step(memory, sums);
    }
}

/* Row and column of the tile of a thread's sum. */
static __device__ int tile_row(int i)
{
    return (int)threadIdx.x / (TILE / EACH) * EACH + i;
}

static __device__ int tile_col(int j)
{
    return (int)threadIdx.x % (TILE / EACH) * EACH + j;
}
