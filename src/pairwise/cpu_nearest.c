/*
 * cpu_nearest.c - nearest neighbours on the CPU: a block of distances at a time
 *
 * Each row keeps its best neighbours so far in a heap whose first one is the worst.  A row of a
 * block is compared with a limit, and only what is not above it goes on (nearest_tile.h).  Columns
 * come in ascending order, so that a neighbour at the distance of the worst one never replaces it.
 *
 * Blocks hold sums without their roots.  The limit is the worst distance's sum, made larger by more
 * than the errors of roots and powers; the roots of what passes it are taken as gram_cdist takes
 * them, and decide.
 *
 * Where a strip has several parts, each has heaps of its own, which are merged at the end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pair_blocks.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>

struct neighbour {
    double distance;
    int64_t index;
};

/* What is known of a row. */
struct nearest_row {
    int64_t stored, within; /* neighbours in the heap; all that were counted */
    double limit;           /* sums above it are of no interest */
};

/* What a thread has: the item of its task, and room for what a row of a block gives. */
struct nearest_thread {
    struct gram_map root;
    bool rooted; /* sums have roots */
    double p;
    double most;      /* the limit that the radius gives */
    int32_t *columns; /* as many as a block has; and the sums of these */
    char *found;
};

struct nearest_job {
    gram_context *g;
    const struct gram_nearest_op *op;
    const struct gram_cpu_kernels *kernels;
    struct pair_walk walk;
    bool merged; /* strips have several parts */
    /* Scratch: heaps and rows of each thread, or of each task where they are merged. */
    struct neighbour *heaps;
    struct nearest_row *rows;
    struct nearest_thread *threads;
    int32_t *columns;
    char *found;
    size_t found_bytes;
};

/* ---- Heaps ---------------------------------------------------------------------------------- */

static bool worse(const struct neighbour *a, const struct neighbour *b)
{
    return a->distance > b->distance || (a->distance == b->distance && a->index > b->index);
}

/* Lets the neighbour at a place of a heap sink to where it belongs. */
static void sink(struct neighbour *heap, int64_t count, int64_t at, struct neighbour what)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && worse(&heap[child + 1], &heap[child]))
            child++;
        if (!worse(&heap[child], &what))
            break;
        heap[at] = heap[child];
    }
    heap[at] = what;
}

static void rise(struct neighbour *heap, int64_t at, struct neighbour what)
{
    for (int64_t parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!worse(&what, &heap[parent]))
            break;
        heap[at] = heap[parent];
    }
    heap[at] = what;
}

/* Adds a neighbour to a heap of at most `count`, unless it is worse than all of them. */
static void offer(struct nearest_row *row, struct neighbour *heap, int64_t count,
                  struct neighbour what)
{
    if (row->stored < count)
        rise(heap, row->stored++, what);
    else if (count > 0 && worse(&heap[0], &what))
        sink(heap, count, 0, what);
}

/* The best one comes first. */
static void sort(struct neighbour *heap, int64_t count)
{
    while (count-- > 1) {
        struct neighbour last = heap[count];
        heap[count] = heap[0];
        sink(heap, count, 0, last);
    }
}

/* ---- Limits --------------------------------------------------------------------------------- */

/* The largest sum that may be of a distance of at most d, or below it: a number of the dtype. */
static double limit_of(const struct nearest_job *job, const struct nearest_thread *t, double d,
                       bool below)
{
    const bool is_float = job->walk.dtype == GRAM_F32;
    const double most = is_float ? (double)FLT_MAX : DBL_MAX,
                 least = is_float ? (double)FLT_MIN : DBL_MIN,
                 eps = is_float ? (double)FLT_EPSILON : DBL_EPSILON;
    double sum, error;

    if (t->rooted && below && d == 0)
        return -1;
    if (!t->rooted && below) /* d may be negative, as a divergence may */
        return is_float ? (double)nextafterf((float)d, -INFINITY) : nextafter(d, -INFINITY);
    if (!t->rooted)
        return d < most ? is_float ? (double)nextafterf((float)d, INFINITY) : d : most;
    if (!(d < most))
        return most;
    /* gram_cdist's roots are off by (4 + |ln d| / 2) eps, and powers of them by p times that; sums
     * below the normal range have roots of any kind. */
    error = (16 + 8 * t->p + (d > 0 ? t->p * fabs(log(d)) : 0)) * eps;
    sum = t->p == 2 ? d * d : pow(d, t->p);
    sum = sum * (1 + error) + 2 * least;
    return sum < most ? is_float ? (double)(float)sum : sum : most;
}

/* The limit of a row from now on. */
static void lower_limit(const struct nearest_job *job, const struct nearest_thread *t,
                        struct nearest_row *row, const struct neighbour *heap)
{
    if (job->op->has_counts || row->stored < job->op->count)
        return;
    row->limit = job->op->count > 0 ? fmin(t->most, limit_of(job, t, heap[0].distance, true)) : -1;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Where the heaps and rows of a task are, counted in rows. */
static int64_t place_of(const struct nearest_job *job, const struct pair_strip *strip)
{
    return (job->merged ? strip->task : strip->thread) * job->walk.strip_rows;
}

static void begin(void *of, const struct pair_strip *strip)
{
    struct nearest_job *job = of;
    struct nearest_thread *t = &job->threads[strip->thread];
    const struct gram_cdist_op *op = &job->op->distance;
    struct nearest_row *rows = job->rows + place_of(job, strip);

    t->p = gram_hyper_at(&op->p, &op->batch, strip->item);
    t->rooted = op->root && t->p > 0 && t->p < INFINITY && t->p != 1;
    t->root = (struct gram_map){.inner = GRAM_DIFFERENCE,
                                .function = GRAM_IDENTITY,
                                .output = GRAM_VALUE,
                                .p = t->p,
                                .outer = t->rooted ? 1 / t->p : 1,
                                .bandwidth = 1};
    gram_map_prepare(&t->root, job->walk.dtype);
    t->columns = job->columns + strip->thread * job->walk.ld;
    t->found = job->found + (size_t)strip->thread * job->found_bytes;
    t->most = limit_of(job, t, job->op->radius, false);
    for (int64_t r = 0; r < strip->rows; r++)
        rows[r] = (struct nearest_row){.limit = t->most};
}

/* Offers `count` columns of a block, whose distances are in t->found, to a row. */
static void offer_found(const struct nearest_job *job, const struct nearest_thread *t,
                        const int64_t ij[2], int64_t count, struct nearest_row *row,
                        struct neighbour *heap)
{
    const int64_t self = job->op->exclude_self ? ij[0] : -1;

    for (int64_t c = 0; c < count; c++) {
        const struct neighbour what = {job->walk.dtype == GRAM_F32
                                           ? (double)((const float *)t->found)[c]
                                           : ((const double *)t->found)[c],
                                       ij[1] + t->columns[c]};
        if (!(what.distance <= job->op->radius) || !(what.distance < INFINITY) ||
            what.index == self)
            continue;
        row->within++;
        offer(row, heap, job->op->count, what);
    }
}

static void take(void *of, const struct pair_strip *strip, const struct pair_block *block)
{
    struct nearest_job *job = of;
    struct nearest_thread *t = &job->threads[strip->thread];
    struct nearest_row *rows = job->rows + place_of(job, strip);
    struct neighbour *heap = job->heaps + place_of(job, strip) * job->op->count;
    const char *values = block->values;

    for (int64_t r = 0; r < strip->rows; r++) {
        int64_t count = job->kernels->nearest_scan[job->walk.dtype](
            block->cols, values, rows[r].limit, t->columns, t->found);
        if (count > 0) {
            if (t->rooted)
                job->kernels->map[job->walk.dtype](count, t->found, &t->root, NULL);
            offer_found(job, t, (int64_t[]){strip->i + r, block->j}, count, &rows[r], heap);
            lower_limit(job, t, &rows[r], heap);
        }
        values += block->ld * job->walk.element;
        heap += job->op->count;
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

static char *element_of(const struct gram_view *v, char *item, int64_t row, int64_t col)
{
    return item + (row * v->row_stride + col * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
}

/* Writes row i of the results of an item. */
static void store(const struct nearest_job *job, int64_t item, int64_t i,
                  const struct nearest_row *row, struct neighbour *heap)
{
    const struct gram_nearest_op *op = job->op;
    const struct gram_batch *batch = &op->distance.batch;

    sort(heap, row->stored);
    for (int64_t c = 0; c < op->count; c++) {
        const struct neighbour what = c < row->stored ? heap[c] : (struct neighbour){INFINITY, -1};
        if (op->has_indices)
            *(int64_t *)element_of(&op->indices, gram_view_item(&op->indices, batch, item), i, c) =
                what.index;
        if (op->has_distances) {
            char *to =
                element_of(&op->distances, gram_view_item(&op->distances, batch, item), i, c);
            if (op->distances.dtype == GRAM_F32)
                *(float *)to = (float)what.distance;
            else
                *(double *)to = what.distance;
        }
    }
    if (op->has_counts)
        *(int64_t *)element_of(&op->counts, gram_view_item(&op->counts, batch, item), 0, i) =
            row->within;
}

static void end(void *of, const struct pair_strip *strip)
{
    const struct nearest_job *job = of;
    const int64_t place = place_of(job, strip);

    for (int64_t r = 0; !job->merged && r < strip->rows; r++)
        store(job, strip->item, strip->i + r, &job->rows[place + r],
              job->heaps + (place + r) * job->op->count);
}

/* Merges the parts of a strip into the first one. */
static void merge_task(void *arg, int64_t index, int thread)
{
    const struct nearest_job *job = arg;
    const struct pair_walk *walk = &job->walk;
    const int64_t count = job->op->count, i = index % walk->strips * walk->strip_rows,
                  rows = gram_least(walk->strip_rows, walk->op.x.rows - i);

    (void)thread;
    for (int64_t r = 0; r < rows; r++) {
        int64_t place = index * walk->parts * walk->strip_rows + r;
        struct nearest_row *row = &job->rows[place];
        struct neighbour *heap = job->heaps + place * count;
        for (int64_t part = 1; part < walk->parts; part++) {
            place += walk->strip_rows;
            row->within += job->rows[place].within;
            for (int64_t c = 0; c < job->rows[place].stored; c++)
                offer(row, heap, count, job->heaps[place * count + c]);
        }
        store(job, index / walk->strips, i + r, row, heap);
    }
}

/* ---- The call ------------------------------------------------------------------------------- */

static gram_status open_job(gram_context *g, const struct gram_nearest_op *op,
                            struct nearest_job *job)
{
    const size_t row_bytes =
        (size_t)op->count * sizeof(struct neighbour) + sizeof(struct nearest_row);
    struct pair_walk *walk = &job->walk;
    struct gram_layout layout = {0};
    size_t threads, rows;

    *job = (struct nearest_job){.g = g, .op = op, .kernels = gram_cpu_kernels_of(g)};
    walk->g = g, walk->op = op->distance, walk->name = "nearest strip";
    walk->op.root = false;
    walk->begin = begin, walk->take = take, walk->end = end, walk->of = job;
    walk->progress = op->progress, walk->progress_user = op->progress_user;
    cpu_pair_walk_plan(walk, row_bytes);
    job->merged = walk->parts > 1;
    threads = (size_t)gram_least(g->threads, walk->tasks);
    rows = (job->merged ? (size_t)walk->tasks : threads) * (size_t)walk->strip_rows;
    job->found_bytes = gram_round64((size_t)(walk->ld * walk->element));
    cpu_pair_walk_take(walk, &layout);
    gram_take_many(&layout, &job->heaps, rows, (size_t)op->count * sizeof(struct neighbour));
    gram_take_many(&layout, &job->rows, rows, sizeof(struct nearest_row));
    gram_take_many(&layout, &job->threads, threads, sizeof(struct nearest_thread));
    gram_take_many(&layout, &job->columns, threads, (size_t)walk->ld * sizeof(int32_t));
    gram_take_many(&layout, &job->found, threads, job->found_bytes);
    return gram_layout_open(g, &layout);
}

gram_status cpu_nearest(gram_context *g, const struct gram_nearest_op *op)
{
    struct nearest_job job;

    if (op->distance.batch.count == 0 || op->distance.x.rows == 0)
        return GRAM_OK;
    TRY(open_job(g, op, &job));
    TRY(cpu_pair_walk_run(&job.walk));
    if (job.merged)
        gram_parallel_for(g, op->distance.batch.count * job.walk.strips, merge_task, &job);
    return GRAM_OK;
}
