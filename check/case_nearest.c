/*
 * case_nearest.c - the rows of gram_nearest
 *
 * What is returned must be right within the bounds of gram_cdist: the distances, their order, and
 * that nothing nearer was left out.  Where distances are whole numbers they are exact, and so are
 * the indices, ties included.  On the CPU a block has 1024 columns of f32 or 512 of f64, a strip at
 * least 48 rows, and a part of it at least 2048 columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "pairwise_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum data {
    NORMAL,
    INTEGERS, /* 0, 1, 2: ties everywhere, and distances that are exact for p = 0, 1 and 2 */
    COPIES,   /* all rows of y are one of four */
    OFFSET,   /* mean 1e4, deviation 1 */
    FAR_AWAY, /* mean 1e6, deviation 1 */
    SPECIAL,  /* one row of each with NaN, one with infinity */
    POSITIVE, /* in [0.1, 1) */
    MISSING,  /* normal; a third of the numbers is NaN */
    BYTES,    /* any bytes */
    HOLES     /* positive; a row with NaN, one of zeros */
};

struct row {
    int64_t m, n, k, count;
    int64_t x_batch, y_batch; /* 0: none */
    double p;
    gram_distance_kind kind; /* GRAM_DISTANCE_MINKOWSKI without weights: the p-norm of the call */
    int weights;             /* 1: of all items; 2: other ones for each item of x_batch */
    gram_dtype dtype;
    enum layout x_layout, y_layout, out_layout;
    enum data data;
    bool same, exclude; /* y is NULL: n is m */
    bool per_item;      /* p is a tensor */
    double radius;      /* 0: none; below 0: a radius of 0 */
    bool no_indices, no_distances, counts;
    int64_t bits; /* of a row of bytes */
    const char *why;
};

/* clang-format off */
/* What every metric goes through, on data that suits it. */
#define METRIC(metric, columns, suited) \
    {.kind = (metric), .m = 50, .n = 1100, .k = (columns), .count = 10, .p = 2, .dtype = GRAM_F32, \
     .data = (suited), .why = "a metric, two blocks"}, \
    {.kind = (metric), .m = 50, .n = 600, .k = (columns), .count = 10, .p = 2, .dtype = GRAM_F64, \
     .data = (suited), .radius = 0.4, .counts = true, .why = "a metric, a radius"}, \
    {.kind = (metric), .m = 90, .k = (columns), .count = 12, .p = 2, .dtype = GRAM_F32, \
     .data = (suited), .same = true, .exclude = true, .why = "a metric, y is x, without itself"}, \
    {.kind = (metric), .m = 3, .n = 5000, .k = (columns), .count = 8, .p = 2, .dtype = GRAM_F32, \
     .data = (suited), .why = "a metric, parts"}, \
    {.kind = (metric), .m = 30, .n = 40, .k = (columns), .count = 40, .p = 2, .dtype = GRAM_F64, \
     .data = HOLES, .counts = true, .why = "a metric, NaN and zeros"}, \
    {.kind = (metric), .m = 20, .n = 30, .k = (columns), .count = 5, .p = 2, .dtype = GRAM_F16, \
     .data = (suited), .x_layout = COLUMN_MAJOR, .y_layout = EVERY_SECOND, \
     .why = "a metric, halves"}, \
    {.kind = (metric), .m = 20, .n = 0, .k = (columns), .count = 2, .p = 2, .dtype = GRAM_F32, \
     .counts = true, .data = (suited), .why = "a metric, no rows of y"}
#define WEIGHTED(metric, suited) \
    {.kind = (metric), .m = 40, .n = 70, .k = 9, .count = 7, .p = 1.3, .dtype = GRAM_F32, \
     .data = (suited), .weights = 1, .counts = true, .why = "weights"}, \
    {.kind = (metric), .m = 11, .n = 23, .k = 6, .count = 5, .x_batch = 3, .p = 2, \
     .dtype = GRAM_F64, .data = (suited), .weights = 2, .why = "weights of each item"}, \
    {.kind = (metric), .m = 50, .k = 6, .count = 5, .p = 1, .dtype = GRAM_F64, .same = true, \
     .exclude = true, .data = (suited), .weights = 1, .why = "weights, y is x"}
static const struct row rows[] = {
    {.m = 1, .n = 1, .k = 1, .count = 1, .p = 2, .dtype = GRAM_F32, .why = "smallest"},
    {.m = 0, .n = 3, .k = 2, .count = 2, .p = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {.m = 3, .n = 0, .k = 2, .count = 2, .p = 2, .dtype = GRAM_F32, .counts = true,
     .why = "no rows of y: no neighbours"},
    {.m = 3, .n = 4, .k = 0, .count = 3, .p = 2, .dtype = GRAM_F64, .data = INTEGERS,
     .why = "no columns: all are at distance 0"},
    {.m = 3, .n = 4, .k = 2, .count = 0, .p = 2, .dtype = GRAM_F64, .counts = true,
     .why = "no neighbours wanted, but their number"},
    {.m = 5, .n = 3, .k = 2, .count = 7, .p = 2, .dtype = GRAM_F32,
     .why = "more neighbours than rows"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 2, .dtype = GRAM_F32, .why = "Euclidean"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 2, .dtype = GRAM_F64, .why = "Euclidean"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 1, .dtype = GRAM_F32, .why = "city block"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = INFINITY, .dtype = GRAM_F64, .why = "Chebyshev"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 0, .dtype = GRAM_F32, .data = INTEGERS,
     .why = "coordinates that differ: ties everywhere"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 1.3, .dtype = GRAM_F64, .why = "a power"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 0.5, .dtype = GRAM_F32, .why = "a root's square"},
    {.m = 70, .n = 90, .k = 5, .count = 10, .p = 7, .dtype = GRAM_F32, .why = "a high power"},
    {.m = 50, .n = 1100, .k = 40, .count = 10, .p = 2, .dtype = GRAM_F32,
     .why = "two blocks, columns enough for the expansion"},
    {.m = 50, .n = 1100, .k = 40, .count = 10, .p = 2, .dtype = GRAM_F32, .data = OFFSET,
     .why = "far from the origin"},
    {.m = 50, .n = 1100, .k = 40, .count = 10, .p = 2, .dtype = GRAM_F32, .data = FAR_AWAY,
     .why = "a million from the origin"},
    {.m = 50, .n = 600, .k = 5, .count = 10, .p = 1, .dtype = GRAM_F32, .data = FAR_AWAY,
     .why = "a million from the origin"},
    {.m = 90, .k = 3, .count = 12, .p = 2, .dtype = GRAM_F64, .data = FAR_AWAY, .same = true,
     .exclude = true, .radius = 1, .counts = true, .why = "a million from the origin, y is x"},
    {.m = 5, .n = 5000, .k = 3, .count = 1024, .p = 1, .dtype = GRAM_F32, .data = COPIES,
     .counts = true, .radius = 0.5, .why = "duplicated rows by the thousand, parts"},
    {.m = 1500, .k = 2, .count = 380, .p = 2, .dtype = GRAM_F32, .data = COPIES, .same = true,
     .exclude = true, .why = "duplicated rows, ties beside itself"},
    {.m = 40, .k = 0, .count = 50, .p = 2, .dtype = GRAM_F32, .data = INTEGERS, .same = true,
     .exclude = true, .counts = true, .why = "no columns, fewer others than wanted"},
    {.m = 0, .n = 0, .k = 0, .count = 3, .p = 1, .dtype = GRAM_F64, .counts = true,
     .why = "nothing at all"},
    {.m = 110, .n = 700, .k = 4, .count = 9, .p = 2, .dtype = GRAM_F32, .data = INTEGERS,
     .why = "ties, lower indices first"},
    {.m = 110, .n = 700, .k = 4, .count = 9, .p = 1, .dtype = GRAM_F64, .data = INTEGERS,
     .why = "ties, lower indices first"},
    {.m = 40, .n = 2100, .k = 3, .count = 600, .p = 2, .dtype = GRAM_F32, .data = COPIES,
     .why = "duplicated rows by the hundred"},
    {.m = 100, .n = 0, .k = 6, .count = 5, .p = 2, .dtype = GRAM_F32, .same = true,
     .why = "y is x: each row is its own nearest"},
    {.m = 100, .n = 0, .k = 6, .count = 5, .p = 2, .dtype = GRAM_F64, .same = true,
     .exclude = true, .why = "y is x, without itself"},
    {.m = 130, .n = 0, .k = 3, .count = 70, .p = 1, .dtype = GRAM_F32, .same = true,
     .exclude = true, .data = COPIES, .why = "without itself, among copies of it"},
    {.m = 4, .n = 0, .k = 3, .count = 4, .p = 2, .dtype = GRAM_F32, .same = true, .exclude = true,
     .why = "fewer others than wanted"},
    {.m = 3, .n = 5000, .k = 4, .count = 8, .p = 2, .dtype = GRAM_F32,
     .why = "few rows: parts of a strip are merged"},
    {.m = 60, .n = 6000, .k = 2, .count = 40, .p = 1, .dtype = GRAM_F64, .data = INTEGERS,
     .counts = true, .radius = 2, .why = "parts, ties, counts"},
    {.m = 2, .n = 2100, .k = 3, .count = 1024, .p = 2, .dtype = GRAM_F64,
     .why = "the most neighbours"},
    {.m = 3, .n = 1030, .k = 3, .count = 1023, .p = 2, .dtype = GRAM_F32, .data = INTEGERS,
     .why = "nearly all rows, ties"},
    {.m = 70, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F32, .radius = 0.9,
     .counts = true, .why = "a radius, and how many are within it"},
    {.m = 70, .n = 90, .k = 3, .count = 10, .p = 1.3, .dtype = GRAM_F64, .radius = 0.9,
     .why = "a radius alone"},
    {.m = 70, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F32, .radius = 1,
     .data = INTEGERS, .counts = true, .why = "distances equal to the radius are within it"},
    {.m = 40, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F32, .radius = -1,
     .data = COPIES, .counts = true, .why = "a radius of 0: copies alone"},
    {.m = 40, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F64, .radius = 1, .counts = true,
     .no_indices = true, .no_distances = true, .why = "counts alone"},
    {.m = 40, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F32, .no_distances = true,
     .why = "indices alone"},
    {.m = 40, .n = 90, .k = 3, .count = 10, .p = 2, .dtype = GRAM_F64, .no_indices = true,
     .why = "distances alone"},
    {.m = 30, .n = 40, .k = 5, .count = 6, .p = 2, .dtype = GRAM_F16, .why = "halves"},
    {.m = 30, .n = 40, .k = 5, .count = 6, .p = 1, .dtype = GRAM_BF16, .why = "bfloat16"},
    {.m = 30, .n = 40, .k = 5, .count = 40, .p = 2, .dtype = GRAM_F32, .data = SPECIAL,
     .counts = true, .why = "NaN and infinity"},
    {.m = 30, .n = 0, .k = 5, .count = 30, .p = 1, .dtype = GRAM_F64, .data = SPECIAL,
     .same = true, .why = "NaN and infinity, y is x"},
    {.m = 20, .n = 30, .k = 4, .count = 5, .p = 2, .dtype = GRAM_F64, .x_layout = COLUMN_MAJOR,
     .y_layout = EVERY_SECOND, .out_layout = COLUMN_MAJOR, .counts = true, .why = "strides"},
    {.m = 20, .n = 30, .k = 4, .count = 5, .p = 1, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .out_layout = EVERY_SECOND, .counts = true, .why = "strides"},
    {.m = 20, .n = 30, .k = 4, .count = 5, .p = 1, .dtype = GRAM_F32, .x_layout = PADDED,
     .y_layout = ROWS_REPEATED, .out_layout = REVERSED, .why = "strides"},
    {.m = 9, .n = 11, .k = 3, .count = 4, .x_batch = 5, .y_batch = 5, .p = 1, .dtype = GRAM_F32,
     .per_item = true, .counts = true, .why = "a batch, another p for every item"},
    {.m = 9, .n = 11, .k = 3, .count = 4, .y_batch = 3, .p = 2, .dtype = GRAM_F64,
     .why = "x is broadcast"},
    {.m = 3, .n = 0, .k = 2, .count = 2, .x_batch = 150, .p = 2, .dtype = GRAM_F32, .same = true,
     .exclude = true, .why = "many tiny items"},
    {.m = 5, .n = 9, .k = 2500, .count = 3, .p = 2, .dtype = GRAM_F32, .why = "many columns"},
    METRIC(GRAM_DISTANCE_COSINE, 7, NORMAL),
    METRIC(GRAM_DISTANCE_CORRELATION, 7, NORMAL),
    METRIC(GRAM_DISTANCE_CANBERRA, 7, NORMAL),
    METRIC(GRAM_DISTANCE_BRAYCURTIS, 7, POSITIVE),
    METRIC(GRAM_DISTANCE_HAMMING, 7, INTEGERS),
    METRIC(GRAM_DISTANCE_JACCARD, 7, INTEGERS),
    METRIC(GRAM_DISTANCE_JENSENSHANNON, 7, POSITIVE),
    METRIC(GRAM_DISTANCE_KULLBACK_LEIBLER, 7, POSITIVE),
    METRIC(GRAM_DISTANCE_HELLINGER, 7, POSITIVE),
    METRIC(GRAM_DISTANCE_CHI2, 7, POSITIVE),
    METRIC(GRAM_DISTANCE_HAVERSINE, 2, POSITIVE),
    METRIC(GRAM_DISTANCE_NAN_EUCLIDEAN, 7, MISSING),
    WEIGHTED(GRAM_DISTANCE_MINKOWSKI, NORMAL),
    WEIGHTED(GRAM_DISTANCE_SEUCLIDEAN, NORMAL),
    WEIGHTED(GRAM_DISTANCE_COSINE, NORMAL),
    WEIGHTED(GRAM_DISTANCE_CORRELATION, NORMAL),
    WEIGHTED(GRAM_DISTANCE_CANBERRA, NORMAL),
    WEIGHTED(GRAM_DISTANCE_BRAYCURTIS, POSITIVE),
    WEIGHTED(GRAM_DISTANCE_HAMMING, NORMAL),
    WEIGHTED(GRAM_DISTANCE_JACCARD, NORMAL),
    WEIGHTED(GRAM_DISTANCE_JENSENSHANNON, POSITIVE),
    WEIGHTED(GRAM_DISTANCE_KULLBACK_LEIBLER, POSITIVE),
    WEIGHTED(GRAM_DISTANCE_HELLINGER, POSITIVE),
    WEIGHTED(GRAM_DISTANCE_CHI2, POSITIVE),
    WEIGHTED(GRAM_DISTANCE_NAN_EUCLIDEAN, MISSING),
    {.kind = GRAM_DISTANCE_HAMMING, .m = 50, .n = 1100, .k = 6, .count = 10, .p = 2,
     .dtype = GRAM_U8, .bits = 45, .data = BYTES, .counts = true, .why = "packed bits, ties"},
    {.kind = GRAM_DISTANCE_JACCARD, .m = 50, .n = 1100, .k = 6, .count = 10, .p = 2,
     .dtype = GRAM_U8, .bits = 45, .data = BYTES, .radius = 0.6, .counts = true,
     .why = "packed bits, a radius"},
    {.kind = GRAM_DISTANCE_JACCARD, .m = 90, .k = 17, .count = 12, .p = 2, .dtype = GRAM_U8,
     .bits = 129, .data = BYTES, .same = true, .exclude = true, .x_layout = COLUMN_MAJOR,
     .why = "packed bits, y is x, without itself"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    const struct row *r = &rows[row];

    snprintf(text, size, "%lldx%lldx%lld count=%lld metric=%d p=%g dtype=%d: %s", (long long)r->m,
             (long long)(r->same ? r->m : r->n), (long long)r->k, (long long)r->count, (int)r->kind,
             r->p, (int)r->dtype, r->why);
}

enum argument {
    X,
    Y,
    INDICES,
    DISTANCES,
    COUNTS,
    P,
    WEIGHTS,
    ARGUMENTS
};

struct problem {
    const struct row *row;
    struct test_tensor t[ARGUMENTS];
    struct test_copy there[ARGUMENTS];
    bool used[ARGUMENTS];
    int64_t n;
    gram_scalar p;
    double radius;
    struct reference_batch batch;
    gram_distance metric;
};

static const char *const names[] = {"x", "y", "indices", "distances", "counts", "p", "weights"};

/* Is the metric an option of the call? */
static bool has_metric(const struct row *row)
{
    return row->kind != GRAM_DISTANCE_MINKOWSKI || row->weights;
}

/* ---- Data ----------------------------------------------------------------------------------- */

static void fill(struct harness *h, struct test_tensor *t, enum data data)
{
    const int64_t cols = t->t.shape[t->t.ndim - 1], count = test_count(&t->t);

    for (int64_t i = 0; data == BYTES && i < count; i++)
        test_put(&t->t, i, floor(256 * test_uniform(h)));
    if (data == BYTES)
        return;
    if (data == INTEGERS)
        test_fill_integers(h, t, 3);
    else
        test_fill_normal(h, t, data == OFFSET ? 1e4 : data == FAR_AWAY ? 1e6 : 0, 1);
    for (int64_t i = 0; (data == POSITIVE || data == HOLES) && i < count; i++)
        test_put(&t->t, i, 0.1 + 0.9 * test_uniform(h));
    for (int64_t i = 0; data == MISSING && i < count; i++)
        if (test_uniform(h) < 0.33)
            test_put(&t->t, i, NAN);
    for (int64_t i = 0; data == HOLES && i < cols && count >= 4 * cols; i++)
        test_put(&t->t, 3 * cols + i, 0);
    for (int64_t i = 0; data == COPIES && i < count; i++)
        test_put(&t->t, i, (double)(i / cols * 2654435761 % 4) - (double)(i % cols));
    if ((data == SPECIAL || data == HOLES) && count >= 4 * cols)
        test_put(&t->t, cols + 1, NAN);
    if (data == SPECIAL && count >= 4 * cols)
        test_put(&t->t, 2 * cols, INFINITY);
}

static void create(struct harness *h, struct problem *q, enum argument which, gram_dtype dtype,
                   enum layout layout, const int64_t shape[3], int dims)
{
    int skip = shape[0] == 0;

    test_tensor_create(h, &q->t[which], dtype, layout, dims - skip, shape + skip);
    q->used[which] = true;
}

/* Some of the weights are zero, but no variance is. */
static void create_weights(struct harness *h, struct problem *q)
{
    const struct row *row = q->row;

    create(h, q, WEIGHTS, GRAM_F64, ROW_MAJOR,
           (int64_t[]){row->weights == 2 ? row->x_batch : 0, row->k, 0}, 2);
    for (int64_t i = 0; i < test_count(&q->t[WEIGHTS].t); i++)
        test_put(&q->t[WEIGHTS].t, i,
                 i % 3 == 1 && row->kind != GRAM_DISTANCE_SEUCLIDEAN ? 0 : 0.5 + test_uniform(h));
    test_tensor_freeze(&q->t[WEIGHTS]);
    q->metric.weights = &q->t[WEIGHTS].t;
}

static void create_outputs(struct harness *h, struct problem *q)
{
    const struct row *row = q->row;
    const int64_t batch = q->batch.ndim ? q->batch.shape[0] : 0;

    if (!row->no_indices)
        create(h, q, INDICES, GRAM_I64, row->out_layout, (int64_t[]){batch, row->m, row->count}, 3);
    if (!row->no_distances)
        create(h, q, DISTANCES, row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, row->out_layout,
               (int64_t[]){batch, row->m, row->count}, 3);
    if (row->counts)
        create(h, q, COUNTS, GRAM_I64, ROW_MAJOR, (int64_t[]){batch, row->m, 0}, 2);
}

static void setup(struct harness *h, const struct row *row, struct problem *q)
{
    *q = (struct problem){.row = row,
                          .n = row->same ? row->m : row->n,
                          .p = gram_number(row->p),
                          .radius = row->radius == 0  ? INFINITY
                                    : row->radius < 0 ? 0
                                                      : row->radius};
    create(h, q, X, row->dtype, row->x_layout, (int64_t[]){row->x_batch, row->m, row->k}, 3);
    fill(h, &q->t[X], row->data);
    test_tensor_freeze(&q->t[X]);
    if (!row->same) {
        create(h, q, Y, row->dtype, row->y_layout, (int64_t[]){row->y_batch, q->n, row->k}, 3);
        fill(h, &q->t[Y], row->data);
        test_tensor_freeze(&q->t[Y]);
    }
    q->batch = reference_join(2, (const gram_tensor *[]){&q->t[X].t, row->same ? NULL : &q->t[Y].t},
                              (const int[]){2, 2});
    if (row->per_item) {
        test_tensor_create(h, &q->t[P], GRAM_F64, ROW_MAJOR, 1, q->batch.shape);
        q->used[P] = true;
        for (int64_t i = 0; i < q->batch.count; i++)
            test_put(&q->t[P].t, i, row->p + (double)i / 2);
        test_tensor_freeze(&q->t[P]);
        q->p = gram_values(&q->t[P].t);
    }
    q->metric = (gram_distance)GRAM_DISTANCE_INIT;
    q->metric.kind = row->kind, q->metric.p = q->p, q->metric.bits = row->bits;
    if (row->weights)
        create_weights(h, q);
    create_outputs(h, q);
}

/* ---- The call ------------------------------------------------------------------------------- */

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_nearest_options options = GRAM_NEAREST_OPTIONS_INIT;
    const gram_tensor *x = &q->there[X].t, *y = q->row->same ? NULL : &q->there[Y].t;
    gram_tensor *indices = q->used[INDICES] ? &q->there[INDICES].t : NULL,
                *distances = q->used[DISTANCES] ? &q->there[DISTANCES].t : NULL;
    const gram_scalar p = q->row->per_item ? gram_values(&q->there[P].t) : q->p;
    gram_distance metric = q->metric;

    options.exclude_self = q->row->exclude;
    options.within = q->radius < INFINITY;
    options.radius = q->radius;
    options.counts = q->used[COUNTS] ? &q->there[COUNTS].t : NULL;
    if (metric.weights)
        metric.weights = &q->there[WEIGHTS].t;
    if (has_metric(q->row))
        options.metric = &metric;
    return need ? gram_nearest_workspace(h->g, x, y, p, &options, indices, distances, need)
                : gram_nearest(h->g, x, y, p, &options, indices, distances);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[ARGUMENTS];

    for (int i = 0; i < ARGUMENTS; i++)
        pairs[i] = (struct test_pair){q->used[i] ? &q->t[i] : NULL, &q->there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- The answer ----------------------------------------------------------------------------- */

/* A row of the reference, and what was returned for it. */
struct answer {
    int64_t item, i, n, self;
    double *want, *bound; /* of each row of y */
    bool *returned;
    int64_t *indices; /* of the reference */
};

/* No less than what gram/pairwise.h says of the errors with a metric, for rows of few numbers of
 * ordinary size; the reference has as many errors in f64. */
static double metric_bound(const struct problem *q, double d)
{
    const double eps = test_eps(q->row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32),
                 e = ((double)q->row->k + 16) * eps;

    switch (q->row->kind) {
    case GRAM_DISTANCE_COSINE:
    case GRAM_DISTANCE_CORRELATION:
        return e * d + 100 * eps * sqrt(fabs(d)) + 1e4 * eps * eps;
    case GRAM_DISTANCE_KULLBACK_LEIBLER:
        return 4 * e * (double)q->row->k;
    case GRAM_DISTANCE_HAVERSINE:
        return 64 * eps * d;
    default:
        return 2 * e * fabs(d) + 32 * eps * sqrt((double)q->row->k);
    }
}

static void find_distances(const struct problem *q, struct answer *a)
{
    const struct pair_question question = {
        .x = &q->t[X].t, .y = q->row->same ? NULL : &q->t[Y].t, .p = q->p};

    for (int64_t j = 0; j < a->n; j++) {
        const int64_t at[3] = {a->item, a->i, j};
        a->want[j] = has_metric(q->row)
                         ? reference_metric(question.x, question.y, &q->metric, 0, &q->batch, at)
                         : pair_want(&question, &q->batch, at);
        a->bound[j] = has_metric(q->row) ? metric_bound(q, a->want[j])
                                         : pair_bound(&question, &q->batch, at, a->want[j]);
        a->returned[j] = false;
    }
}

static void check_counts(struct harness *h, const struct problem *q, const struct answer *a)
{
    int64_t least = 0, most = 0, got;

    if (!q->used[COUNTS])
        return;
    got = (int64_t)test_at(&q->t[COUNTS].t, a->item * q->row->m + a->i);
    for (int64_t j = 0; j < a->n; j++) {
        bool counts = j != a->self && a->want[j] < INFINITY;
        least += counts && a->want[j] + a->bound[j] <= q->radius;
        most += counts && a->want[j] - a->bound[j] <= q->radius;
    }
    CHECK(h, least <= got && got <= most, "counts[%lld][%lld] is %lld, expected %lld to %lld",
          (long long)a->item, (long long)a->i, (long long)got, (long long)least, (long long)most);
}

/* Checks the neighbours of a row one by one; gives how many there are, and the last distance. */
static int64_t check_listed(struct harness *h, const struct problem *q, const struct answer *a,
                            double *last)
{
    int64_t before = -1, listed = 0;

    *last = -INFINITY;
    for (int64_t c = 0; c < q->row->count; c++) {
        const int64_t at = (a->item * q->row->m + a->i) * q->row->count + c;
        const int64_t j = (int64_t)test_at(&q->t[INDICES].t, at);
        double d = q->used[DISTANCES] ? test_at(&q->t[DISTANCES].t, at)
                   : j < 0            ? INFINITY
                                      : a->want[j];
        if (j < 0) {
            CHECK(h, j == -1 && d == INFINITY, "no neighbour is %lld at %g, expected -1 at inf",
                  (long long)j, d);
            continue;
        }
        if (!CHECK(h, j < a->n && listed == c && !a->returned[j] && j != a->self,
                   "indices[%lld][%lld] is %lld", (long long)a->i, (long long)c, (long long)j))
            continue;
        a->returned[j] = true;
        listed++;
        CHECK(h, fabs(d - a->want[j]) <= a->bound[j] && a->want[j] - a->bound[j] <= q->radius,
              "distances[%lld][%lld] is %.9g, expected %.9g +- %.2g", (long long)a->i, (long long)c,
              d, a->want[j], a->bound[j]);
        CHECK(h, !q->used[DISTANCES] || d > *last || (d == *last && j > before),
              "row %lld: %lld at %.9g follows %lld at %.9g", (long long)a->i, (long long)j, d,
              (long long)before, *last);
        before = j, *last = d;
    }
    return listed;
}

static void check_row(struct harness *h, const struct problem *q, const struct answer *a)
{
    /* Distances of the table that are whole numbers, or their ratios, are ordered exactly. */
    const bool exact = q->row->data == INTEGERS || q->row->data == COPIES;
    double last;
    int64_t listed = check_listed(h, q, a, &last);

    for (int64_t j = 0; j < a->n; j++) {
        bool meant = j != a->self && a->want[j] < INFINITY && !a->returned[j];
        CHECK(h,
              !meant || (listed == q->row->count ? a->want[j] + 2 * a->bound[j] >= last
                                                 : a->want[j] + a->bound[j] > q->radius),
              "row %lld: %lld at %.9g is missing; the last one is at %.9g", (long long)a->i,
              (long long)j, a->want[j], last);
    }
    if (!exact)
        return;
    reference_nearest(a->n, a->want, a->self, q->radius, q->row->count, a->indices);
    for (int64_t c = 0; c < q->row->count; c++) {
        int64_t got =
            (int64_t)test_at(&q->t[INDICES].t, (a->item * q->row->m + a->i) * q->row->count + c);
        CHECK(h, got == a->indices[c], "indices[%lld][%lld] is %lld, expected %lld",
              (long long)a->i, (long long)c, (long long)got, (long long)a->indices[c]);
    }
}

/* Distances alone must be the smallest ones. */
static void check_distances(struct harness *h, const struct problem *q, const struct answer *a)
{
    reference_nearest(a->n, a->want, a->self, q->radius, q->row->count, a->indices);
    for (int64_t c = 0; c < q->row->count; c++) {
        double got = test_at(&q->t[DISTANCES].t, (a->item * q->row->m + a->i) * q->row->count + c);
        double want = a->indices[c] < 0 ? INFINITY : a->want[a->indices[c]];
        CHECK(h, got == want || fabs(got - want) <= 2 * a->bound[a->indices[c]],
              "distances[%lld][%lld] is %.9g, expected %.9g", (long long)a->i, (long long)c, got,
              want);
    }
}

static void compare(struct harness *h, const struct problem *q, struct answer *a)
{
    for (a->item = 0; a->item < q->batch.count; a->item++)
        for (a->i = 0; a->i < q->row->m; a->i++) {
            a->self = q->row->exclude ? a->i : -1;
            find_distances(q, a);
            check_counts(h, q, a);
            if (q->used[INDICES])
                check_row(h, q, a);
            else if (q->used[DISTANCES])
                check_distances(h, q, a);
        }
}

static void check(struct harness *h, int row)
{
    struct problem q;
    struct answer a;

    setup(h, &rows[row], &q);
    a = (struct answer){.n = q.n,
                        .want = calloc((size_t)q.n + 1, sizeof(double)),
                        .bound = calloc((size_t)q.n + 1, sizeof(double)),
                        .returned = calloc((size_t)q.n + 1, sizeof(bool)),
                        .indices = calloc((size_t)q.row->count + 1, sizeof(int64_t))};
    if (!a.want || !a.bound || !a.returned || !a.indices)
        harness_end_without_memory("a reference");
    if (run(h, &q))
        compare(h, &q, &a);
    free(a.want);
    free(a.bound);
    free(a.returned);
    free(a.indices);
    for (int i = 0; i < ARGUMENTS; i++)
        if (q.used[i])
            test_tensor_destroy(h, &q.t[i], names[i]);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

struct bench {
    gram_tensor x, y, indices, distances;
    bool same;
    double p;
    gram_nearest_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_nearest(g, &s->x, s->same ? NULL : &s->y, gram_number(s->p), &s->options,
                        &s->indices, &s->distances);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->indices.data);
    free(s->distances.data);
    free(s);
}

/* Five rows: the distances of what was found, and that nothing nearer was left out. */
static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    const struct pair_question q = {
        .x = &s->x, .y = s->same ? NULL : &s->y, .p = gram_number(s->p)};
    const int64_t m = s->x.shape[0], n = s->same ? m : s->y.shape[0], count = s->indices.shape[1];
    double worst = 0;

    for (int r = 0; r < 5 && m > 0 && count > 0; r++) {
        int64_t at[3] = {0, (int64_t)(test_uniform(h) * (double)m), 0}, nearer = 0;
        double last = test_at(&s->distances, (at[1] + 1) * count - 1), error;
        for (int64_t c = 0; c < count; c++) {
            double got = test_at(&s->distances, at[1] * count + c), want;
            at[2] = (int64_t)test_at(&s->indices, at[1] * count + c);
            if (at[2] < 0)
                continue;
            want = pair_want(&q, &batch, at);
            error = got == want ? 0 : fabs(got - want) / pair_bound(&q, &batch, at, want);
            worst = error > worst || isnan(error) ? error : worst;
        }
        for (at[2] = 0; at[2] < n; at[2]++) {
            double want = pair_want(&q, &batch, at);
            nearer += at[2] != (s->options.exclude_self ? at[1] : -1) &&
                      want + 2 * pair_bound(&q, &batch, at, want) < last;
        }
        if (nearer > (last < INFINITY ? count : n))
            worst = INFINITY;
    }
    return isnan(worst) ? INFINITY : worst;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const int64_t m = args->sizes[0], k = args->sizes[2], count = args->sizes[3];
    struct bench *s = calloc(1, sizeof *s);
    int64_t n = args->sizes[1];

    if (!s)
        return harness_no_memory(h, "the problem");
    s->p = case_number(args, "p", 2);
    s->same = case_number(args, "symmetric", 0) != 0;
    s->options = (gram_nearest_options)GRAM_NEAREST_OPTIONS_INIT;
    s->options.exclude_self = case_number(args, "exclude_self", 0) != 0;
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, s->same ? 0 : n, k, args->dtype);
    s->distances = dense_random(h, m, count, args->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32);
    s->indices = dense_random(h, m, count, GRAM_I64);
    if (!s->x.data || !s->y.data || !s->indices.data || !s->distances.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    n = s->same ? m : n;
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->indices, &s->distances},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)n * (double)k,
        .unit = "m n k steps",
        .bytes = (double)gram_dtype_size(args->dtype) * (double)(m + n) * (double)k +
                 (double)m * (double)count * 12,
    };
    return true;
}

const struct case_op case_nearest = {
    .name = "nearest",
    .sizes = "M N K COUNT",
    .params = "p=2 dtype=f32 symmetric=0 exclude_self=0",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
