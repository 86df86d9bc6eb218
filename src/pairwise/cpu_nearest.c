/*
 * cpu_nearest.c - nearest neighbours on the CPU: a block of distances at a time
 *
 * Each row has a list with room for its neighbours and some more.  A row of a block is compared
 * with a limit, and what is not above it is added to the list (nearest_tile.h).  When the list is
 * full, it is cut to the best ones (Hoare, Algorithm 65: FIND, Communications of the ACM 4, 1961),
 * the worst of which gives the next limit.  Columns come in ascending order, so that a neighbour at
 * the distance of the worst one never replaces it.
 *
 * Blocks hold sums without their roots.  The limit is the worst distance's sum, made larger by more
 * than the errors of roots and powers; the roots of what passes it are taken as gram_cdist takes
 * them, and decide.
 *
 * Where a strip has several parts, each has lists of its own, which are merged at the end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pair_blocks.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>

enum {
    FEW = 12,        /* are sorted by insertion */
    LEAST_ROOM = 16, /* of a list, beyond the neighbours that are wanted: as many again, between */
    MOST_ROOM = 256  /* these; more of it leaves the limit higher for longer */
};

struct neighbour {
    double distance;
    int64_t index;
};

/* What is known of a row. */
struct nearest_row {
    int64_t stored, within; /* neighbours in the list; all that were counted */
    double limit;           /* sums above it are of no interest */
    struct neighbour worst; /* of the best ones; no neighbour, as long as there may be too few */
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
    bool merged;      /* strips have several parts */
    int64_t capacity; /* of a list */
    /* Scratch: lists and rows of each thread, or of each task where they are merged. */
    struct neighbour *lists;
    struct nearest_row *rows;
    struct nearest_thread *threads;
    int32_t *columns;
    char *found;
    size_t found_bytes;
};

/* ---- Lists ---------------------------------------------------------------------------------- */

/* Without branches, which nobody could predict. */
static bool before(const struct neighbour *a, const struct neighbour *b)
{
    return (a->distance < b->distance) | ((a->distance == b->distance) & (a->index < b->index));
}

static int64_t middle_of_three(const struct neighbour *list, int64_t a, int64_t b, int64_t c)
{
    if (before(&list[a], &list[b]))
        return before(&list[b], &list[c]) ? b : before(&list[a], &list[c]) ? c : a;
    return before(&list[a], &list[c]) ? a : before(&list[b], &list[c]) ? c : b;
}

/* Brings those before one of the list to its front, and that one behind them: its place. */
static int64_t split(struct neighbour *list, int64_t count)
{
    const int64_t last = count - 1, middle = middle_of_three(list, 0, count / 2, last);
    const struct neighbour pivot = list[middle];
    int64_t at = 0;

    list[middle] = list[last];
    for (int64_t i = 0; i < last; i++) {
        const struct neighbour what = list[i];
        list[i] = list[at];
        list[at] = what;
        at += before(&what, &pivot);
    }
    list[last] = list[at];
    list[at] = pivot;
    return at;
}

/* Brings the best ones to the front of a list, in any order. */
static void select_best(struct neighbour *list, int64_t count, int64_t best)
{
    while (0 < best && best < count) {
        const int64_t at = split(list, count);
        if (at >= best) {
            count = at;
        } else {
            list += at + 1;
            count -= at + 1;
            best -= at + 1;
        }
    }
}

static void sort_few(struct neighbour *list, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        const struct neighbour what = list[i];
        int64_t at = i;
        for (; at > 0 && before(&what, &list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = what;
    }
}

/* The best one comes first.  The larger side of each split waits, so that fewer sides do than the
 * length has bits. */
static void sort(struct neighbour *list, int64_t count)
{
    struct {
        struct neighbour *list;
        int64_t count;
    } waits[64];
    int waiting = 0;

    while (count > FEW || waiting > 0) {
        if (count <= FEW) {
            sort_few(list, count);
            waiting--;
            list = waits[waiting].list, count = waits[waiting].count;
            continue;
        }
        const int64_t at = split(list, count), behind = count - at - 1;
        const bool front = at > behind; /* the larger side */
        waits[waiting].list = front ? list : list + at + 1;
        waits[waiting].count = front ? at : behind;
        waiting++;
        list = front ? list + at + 1 : list;
        count = front ? behind : at;
    }
    sort_few(list, count);
}

/* Keeps the best ones of a row. */
static void cut(struct nearest_row *row, struct neighbour *list, int64_t count)
{
    if (row->stored <= count)
        return;
    select_best(list, row->stored, count);
    row->stored = count;
    row->worst = list[0];
    for (int64_t c = 1; c < count; c++)
        if (before(&row->worst, &list[c]))
            row->worst = list[c];
}

/* Adds a neighbour, unless as many better ones are known as are wanted.  True: the list was full,
 * and was cut. */
static bool offer(const struct nearest_job *job, struct nearest_row *row, struct neighbour *list,
                  struct neighbour what)
{
    if (!before(&what, &row->worst))
        return false;
    list[row->stored++] = what;
    if (row->stored < job->capacity)
        return false;
    cut(row, list, job->op->count);
    return true;
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

/* What is known of a row at first. */
static struct nearest_row new_row(const struct nearest_job *job, const struct nearest_thread *t)
{
    const bool any = job->op->count > 0;

    return (struct nearest_row){
        .limit = any || job->op->has_counts ? t->most : -INFINITY,
        .worst = {any ? INFINITY : -INFINITY, any ? INT64_MAX : -1},
    };
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Where the lists and rows of a task are, counted in rows. */
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
    t->columns = job->columns + strip->thread * (job->walk.ld + GRAM_NEAREST_ROOM);
    t->found = job->found + (size_t)strip->thread * job->found_bytes;
    t->most = limit_of(job, t, job->op->radius, false);
    for (int64_t r = 0; r < strip->rows; r++)
        rows[r] = new_row(job, t);
}

/* Offers `count` columns of a block, whose distances are in t->found, to a row. */
static void offer_found(const struct nearest_job *job, const struct nearest_thread *t,
                        const int64_t ij[2], int64_t count, struct nearest_row *row,
                        struct neighbour *list)
{
    const int64_t self = job->op->exclude_self ? job->op->self + ij[0] : -1;
    bool lower = false;

    for (int64_t c = 0; c < count; c++) {
        const struct neighbour what = {job->walk.dtype == GRAM_F32
                                           ? (double)((const float *)t->found)[c]
                                           : ((const double *)t->found)[c],
                                       ij[1] + t->columns[c]};
        if (!(what.distance <= job->op->radius) || !(what.distance < INFINITY) ||
            what.index == self)
            continue;
        row->within++;
        lower |= offer(job, row, list, what);
    }
    if (lower && !job->op->has_counts)
        row->limit = fmin(t->most, limit_of(job, t, row->worst.distance, true));
}

/* A row of a block.  As long as it has no limit, its columns are taken in pieces, each twice as
 * long as the one before, so that it has one soon. */
static void take_row(const struct nearest_job *job, const struct nearest_thread *t, int64_t i,
                     const struct pair_block *block, struct nearest_row *row,
                     struct neighbour *list)
{
    const char *values = block->values;
    int64_t step = row->worst.index == INT64_MAX ? gram_round_up(job->capacity, 64) : block->cols;

    for (int64_t c = 0; c < block->cols; c += step, step *= 2) {
        const int64_t count = job->kernels->nearest_scan[job->walk.dtype](
            gram_least(step, block->cols - c), values + c * job->walk.element, row->limit,
            t->columns, t->found);
        if (count == 0)
            continue;
        if (t->rooted)
            job->kernels->map[job->walk.dtype](count, t->found, &t->root, NULL);
        offer_found(job, t, (int64_t[]){i, block->j + c}, count, row, list);
    }
}

static void take(void *of, const struct pair_strip *strip, const struct pair_block *block)
{
    struct nearest_job *job = of;
    const struct nearest_thread *t = &job->threads[strip->thread];
    struct nearest_row *rows = job->rows + place_of(job, strip);
    struct neighbour *list = job->lists + place_of(job, strip) * job->capacity;
    struct pair_block row = *block;

    for (int64_t r = 0; r < strip->rows; r++) {
        take_row(job, t, strip->i + r, &row, &rows[r], list);
        row.values = (char *)row.values + block->ld * job->walk.element;
        list += job->capacity;
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

static char *element_of(const struct gram_view *v, char *item, int64_t row, int64_t col)
{
    return item + (row * v->row_stride + col * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
}

/* Writes row i of the results of an item. */
static void store(const struct nearest_job *job, int64_t item, int64_t i, struct nearest_row *row,
                  struct neighbour *list)
{
    const struct gram_nearest_op *op = job->op;
    const struct gram_batch *batch = &op->distance.batch;

    cut(row, list, op->count);
    sort(list, row->stored);
    for (int64_t c = 0; c < op->count; c++) {
        const struct neighbour what = c < row->stored ? list[c] : (struct neighbour){INFINITY, -1};
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
              job->lists + (place + r) * job->capacity);
}

/* Merges the parts of a strip into the first one. */
static void merge_task(void *arg, int64_t index, int thread)
{
    const struct nearest_job *job = arg;
    const struct pair_walk *walk = &job->walk;
    const int64_t i = index % walk->strips * walk->strip_rows,
                  rows = gram_least(walk->strip_rows, walk->op.x.rows - i);

    (void)thread;
    for (int64_t r = 0; r < rows; r++) {
        int64_t place = index * walk->parts * walk->strip_rows + r;
        struct nearest_row *row = &job->rows[place];
        struct neighbour *list = job->lists + place * job->capacity;
        for (int64_t part = 1; part < walk->parts; part++) {
            place += walk->strip_rows;
            row->within += job->rows[place].within;
            for (int64_t c = 0; c < job->rows[place].stored; c++)
                (void)offer(job, row, list, job->lists[place * job->capacity + c]);
        }
        store(job, index / walk->strips, i + r, row, list);
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
    int64_t found;

    *job = (struct nearest_job){.g = g, .op = op, .kernels = gram_cpu_kernels_of(g)};
    walk->g = g, walk->op = op->distance, walk->name = "nearest strip";
    walk->op.root = false;
    walk->begin = begin, walk->take = take, walk->end = end, walk->of = job;
    walk->progress = op->progress, walk->progress_user = op->progress_user;
    cpu_pair_walk_plan(walk, row_bytes);
    job->merged = walk->parts > 1;
    job->capacity = op->count + gram_most(LEAST_ROOM, gram_least(op->count, MOST_ROOM));
    threads = (size_t)gram_least(g->threads, walk->tasks);
    rows = (job->merged ? (size_t)walk->tasks : threads) * (size_t)walk->strip_rows;
    found = walk->ld + GRAM_NEAREST_ROOM;
    job->found_bytes = gram_round64((size_t)(found * walk->element));
    cpu_pair_walk_take(walk, &layout);
    gram_take_many(&layout, &job->lists, rows, (size_t)job->capacity * sizeof(struct neighbour));
    gram_take_many(&layout, &job->rows, rows, sizeof(struct nearest_row));
    gram_take_many(&layout, &job->threads, threads, sizeof(struct nearest_thread));
    gram_take_many(&layout, &job->columns, threads, (size_t)found * sizeof(int32_t));
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
