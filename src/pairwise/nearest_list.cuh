/*
 * nearest_list.cuh - the neighbours so far of a row, which a block holds in shared memory
 *
 * The first of them are in order; what is nearer than the last one of these, or anything while
 * there are too few, is appended behind them, each thread at a place that depends on the columns
 * alone.  Where the list could overflow it is sorted by distance, then by column, and cut.  So the
 * result does not depend on which thread came first, and of neighbours at the same distance the
 * lower column stays.
 *
 * Part of files whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "nearest_params.h"

#define WARPS (NEAREST_THREADS / 32)
#define NONE  0x7fffffff /* behind all columns */

/* The list of a block. */
struct list {
    REAL *value;
    int *place;
    int *warps;      /* candidates of each warp */
    int held, count; /* neighbours in the list; the most that are kept */
    REAL limit;      /* of what is of interest, not included */
};

static __device__ REAL infinity(void)
{
    return (REAL)__int_as_float(0x7f800000);
}

static __device__ bool after(const struct list &l, int a, int b)
{
    return l.value[a] > l.value[b] || (l.value[a] == l.value[b] && l.place[a] > l.place[b]);
}

static __device__ void exchange(const struct list &l, int a, int b)
{
    const REAL value = l.value[a];
    const int place = l.place[a];

    l.value[a] = l.value[b], l.place[a] = l.place[b];
    l.value[b] = value, l.place[b] = place;
}

/* Sorts what the list holds (a bitonic sort) and keeps the best. */
static __device__ void sort(struct list &l)
{
    const int thread = (int)threadIdx.x;
    int size = 2;

    while (size < l.held)
        size *= 2;
    for (int e = l.held + thread; e < size; e += NEAREST_THREADS)
        l.value[e] = infinity(), l.place[e] = NONE;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            for (int e = thread; e < size / 2; e += NEAREST_THREADS) {
                const int a = 2 * apart * (e / apart) + e % apart, b = a + apart;
                if (after(l, a, b) == ((a & run) == 0))
                    exchange(l, a, b);
            }
            __syncthreads();
        }
    l.held = l.held < l.count ? l.held : l.count;
    l.limit = l.held < l.count ? infinity() : l.value[l.count - 1];
}

/* Appends the values of the threads that have one to offer, in the order of the threads. */
static __device__ void append(struct list &l, bool mine, REAL value, int place)
{
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    int before = __popc(votes & ((1u << lane) - 1)), all = 0;

    if (lane == 0)
        l.warps[warp] = __popc(votes);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? l.warps[w] : 0;
        all += l.warps[w];
    }
    if (mine)
        l.value[l.held + before] = value, l.place[l.held + before] = place;
    l.held += all;
    __syncthreads();
}

/* Opens the list in dynamic shared memory: values, places, candidates of the warps. */
static __device__ struct list open_list(const struct nearest_params &a, REAL *memory)
{
    struct list l;

    l.value = memory;
    l.place = (int *)(memory + a.capacity);
    l.warps = l.place + a.capacity;
    l.count = (int)a.count;
    l.held = 0;
    l.limit = infinity();
    return l;
}

/* Brings back what is known of a row of the round, by its number there. */
static __device__ void load_list(const struct nearest_params &a, struct list &l, long long at)
{
    const REAL *values = (const REAL *)a.values + at * a.count;
    const int *places = a.places + at * a.count;

    l.held = (int)a.state[at].stored;
    for (int c = (int)threadIdx.x; c < l.held; c += NEAREST_THREADS)
        l.value[c] = values[c], l.place[c] = places[c];
    __syncthreads();
    l.limit = l.held < l.count || l.count == 0 ? infinity() : l.value[l.count - 1];
}

/* Keeps what is known of a row, in order, until the next panel. */
static __device__ void keep_list(const struct nearest_params &a, const struct list &l, long long at,
                                 long long within)
{
    REAL *values = (REAL *)a.values + at * a.count;
    int *places = a.places + at * a.count;

    for (int c = (int)threadIdx.x; c < l.held; c += NEAREST_THREADS)
        values[c] = l.value[c], places[c] = l.place[c];
    if (threadIdx.x == 0)
        a.state[at].stored = l.held, a.state[at].within = within;
}

/* Where row i of an item begins in an output. */
static __device__ long long row_of(const struct nearest_params &a, const struct device_view &v,
                                   long long item, long long i)
{
    return batch_offset(a.panel.shape, a.panel.ndim, v.batch_stride, a.panel.first + item) +
           i * v.row_stride;
}

/* The neighbours of a row to the outputs, and nothing behind the last of them. */
static __device__ void store(const struct nearest_params &a, const struct list &l, long long item,
                             long long i, long long within)
{
    const long long to_index = row_of(a, a.indices, item, i),
                    to_distance = row_of(a, a.distances, item, i);

    if (a.counts.data && threadIdx.x == 0)
        ((long long *)a.counts.data)[row_of(a, a.counts, item, 0) + i * a.counts.col_stride] =
            within;
    for (int c = (int)threadIdx.x; c < l.count; c += NEAREST_THREADS) {
        const bool is = c < l.held;
        if (a.indices.data)
            ((long long *)a.indices.data)[to_index + c * a.indices.col_stride] =
                is ? l.place[c] : -1;
        if (a.distances.data)
            ((REAL *)a.distances.data)[to_distance + c * a.distances.col_stride] =
                is ? l.value[c] : infinity();
    }
}
