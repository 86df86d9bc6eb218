/*
 * case_metric.c - the rows of gram_cdist and of kernels with a metric, and of condensed distances
 *
 * The bounds are those of gram/pairwise.h.  The call gets exactly the scratch that its workspace
 * query names, and one byte less is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum data {
    DATA_POSITIVE, /* uniform in [0, 1) */
    DATA_SIGNED,   /* uniform in [-1, 1) */
    DATA_ZEROS,    /* 0, 1 or 2, most of them 0 */
    DATA_NEAR,     /* positive, rows that differ by 1e-4 of a number at most */
    DATA_OFFSET,   /* 1e3 plus [-1, 1) */
    DATA_SPECIAL,  /* signed; a row with NaN, one of zeros, one of a number, one of another row */
    DATA_MISSING,  /* signed; a third of the numbers is NaN */
    DATA_BYTES,    /* any bytes; a row of zeros, one of ones, equal rows */
    DATA_ANGLES,   /* latitudes and longitudes; poles, antipodes and near points among them */
};

enum way {
    BY_MATRIX,  /* gram_cdist and gram_kernel */
    BY_PRODUCT, /* gram_kernel_matmul with a unit matrix: the kernel matrix again */
    BY_MAXIMA   /* gram_kernel_reduce: the largest number of each row */
};

struct metric_row {
    gram_distance_kind kind;
    int64_t m, n, k, x_batch, y_batch; /* batches: 0: none */
    gram_dtype dtype;
    enum data data;
    double p;
    int weights; /* 1: of all items; 2: other ones for each item of x_batch */
    bool same, no_root, condensed;
    gram_function kernel; /* GRAM_IDENTITY: gram_cdist; else of bandwidth 0.7 */
    enum way way;         /* other ones than BY_MATRIX are of kernels */
    enum layout x_layout, out_layout;
    int64_t bits; /* of a row of bytes */
    const char *why;
};

/* clang-format off */
#define EACH_DTYPE(...) {.dtype = GRAM_F32, __VA_ARGS__}, {.dtype = GRAM_F64, __VA_ARGS__}
/* What every metric goes through, on data that suits it. */
#define EACH_WAY(metric, suited) \
    EACH_DTYPE(.kind = (metric), .m = 13, .n = 37, .k = 5, .data = (suited), .why = "ragged"), \
    EACH_DTYPE(.kind = (metric), .m = 131, .k = 21, .data = (suited), .same = true, \
               .why = "x = y"), \
    EACH_DTYPE(.kind = (metric), .m = 30, .n = 41, .k = 33, .data = DATA_SPECIAL, \
               .why = "NaN, zeros, equal rows, constant rows, negative numbers"), \
    EACH_DTYPE(.kind = (metric), .m = 40, .n = 50, .k = 21, .data = DATA_NEAR, \
               .why = "near and equal rows"), \
    EACH_DTYPE(.kind = (metric), .m = 11, .n = 12, .k = 6, .x_batch = 3, .data = (suited), \
               .weights = 2, .x_layout = COLUMN_MAJOR, .out_layout = COLUMN_MAJOR, \
               .why = "weights of each item, turned round"), \
    EACH_DTYPE(.kind = (metric), .m = 45, .k = 2100, .data = (suited), .same = true, \
               .condensed = true, .weights = 1, .why = "condensed, long rows, weights"), \
    EACH_DTYPE(.kind = (metric), .m = 20, .n = 70, .k = 17, .data = (suited), \
               .kernel = GRAM_LAPLACE, .out_layout = PADDED, .why = "a kernel"), \
    EACH_DTYPE(.kind = (metric), .m = 20, .n = 70, .k = 17, .data = (suited), \
               .kernel = GRAM_LAPLACE, .way = BY_PRODUCT, .why = "a product"), \
    EACH_DTYPE(.kind = (metric), .m = 140, .k = 9, .data = (suited), .same = true, \
               .kernel = GRAM_LAPLACE, .way = BY_PRODUCT, .why = "a product, x = y"), \
    EACH_DTYPE(.kind = (metric), .m = 11, .n = 12, .k = 6, .x_batch = 3, .data = (suited), \
               .weights = 2, .kernel = GRAM_LAPLACE, .way = BY_PRODUCT, \
               .why = "products with weights of each item"), \
    EACH_DTYPE(.kind = (metric), .m = 9, .n = 1300, .k = 7, .x_batch = 2, .data = (suited), \
               .weights = 2, .kernel = GRAM_LAPLACE, .way = BY_MAXIMA, \
               .why = "maxima with weights of each item"), \
    {.kind = (metric), .m = 9, .n = 10, .k = 3, .dtype = GRAM_F16, .data = DATA_ZEROS, \
     .x_layout = REVERSED, .out_layout = EVERY_SECOND, .why = "f16, zeros, no unit stride"}, \
    {.kind = (metric), .m = 7, .n = 0, .k = 3, .dtype = GRAM_F32, .data = (suited), \
     .why = "no rows of y"}

#define EACH_COUNT(...) {.kind = GRAM_DISTANCE_HAMMING, .dtype = GRAM_U8, .data = DATA_BYTES, \
                         __VA_ARGS__}, \
                        {.kind = GRAM_DISTANCE_JACCARD, .dtype = GRAM_U8, .data = DATA_BYTES, \
                         __VA_ARGS__}

static const struct metric_row rows[] = {
    EACH_COUNT(.m = 1, .n = 1, .k = 1, .bits = 1, .why = "one bit"),
    EACH_COUNT(.m = 9, .n = 10, .k = 1, .bits = 7, .why = "a byte with a bit that does not count"),
    EACH_COUNT(.m = 13, .n = 37, .k = 1, .bits = 8, .why = "a byte"),
    EACH_COUNT(.m = 13, .n = 37, .k = 2, .bits = 9, .x_layout = COLUMN_MAJOR, .why = "two bytes"),
    EACH_COUNT(.m = 40, .n = 50, .k = 4, .bits = 31, .x_layout = REVERSED, .why = "31 bits"),
    EACH_COUNT(.m = 40, .n = 50, .k = 4, .bits = 32, .out_layout = COLUMN_MAJOR, .why = "a word"),
    EACH_COUNT(.m = 131, .k = 5, .bits = 33, .same = true, .why = "33 bits, x = y"),
    EACH_COUNT(.m = 65, .n = 66, .k = 13, .bits = 100, .x_batch = 3, .y_batch = 3,
               .out_layout = PADDED, .why = "a batch"),
    EACH_COUNT(.m = 30, .k = 64, .bits = 512, .same = true, .condensed = true, .why = "condensed"),
    EACH_COUNT(.m = 25, .n = 30, .k = 124, .bits = 992, .why = "as many words as bytes can count"),
    EACH_COUNT(.m = 25, .n = 30, .k = 128, .bits = 1021, .why = "one more"),
    EACH_COUNT(.m = 20, .n = 17, .k = 4001, .bits = 32001, .x_layout = PADDED, .why = "long rows"),
    EACH_COUNT(.m = 700, .n = 900, .k = 3, .bits = 20, .why = "several blocks"),
    EACH_COUNT(.m = 4, .n = 0, .k = 3, .bits = 20, .why = "no rows of y"),
    EACH_WAY(GRAM_DISTANCE_MINKOWSKI, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_SEUCLIDEAN, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_COSINE, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_CORRELATION, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_CANBERRA, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_BRAYCURTIS, DATA_SIGNED),
    EACH_WAY(GRAM_DISTANCE_HAMMING, DATA_ZEROS),
    EACH_WAY(GRAM_DISTANCE_JACCARD, DATA_ZEROS),
    EACH_WAY(GRAM_DISTANCE_JENSENSHANNON, DATA_POSITIVE),
    EACH_WAY(GRAM_DISTANCE_KULLBACK_LEIBLER, DATA_POSITIVE),
    EACH_WAY(GRAM_DISTANCE_HELLINGER, DATA_POSITIVE),
    EACH_WAY(GRAM_DISTANCE_CHI2, DATA_POSITIVE),
    EACH_WAY(GRAM_DISTANCE_NAN_EUCLIDEAN, DATA_MISSING),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HAVERSINE, .m = 60, .n = 61, .k = 2, .data = DATA_ANGLES,
               .why = "points of the earth"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HAVERSINE, .m = 70, .k = 2, .data = DATA_ANGLES, .same = true,
               .out_layout = EVERY_SECOND, .why = "points of the earth, x = y"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HAVERSINE, .m = 70, .k = 2, .data = DATA_ANGLES, .same = true,
               .condensed = true, .out_layout = EVERY_SECOND, .why = "condensed"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HAVERSINE, .m = 20, .n = 70, .k = 2, .data = DATA_ANGLES,
               .kernel = GRAM_LAPLACE, .way = BY_PRODUCT, .why = "a product"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HAVERSINE, .m = 20, .n = 70, .k = 2, .data = DATA_ANGLES,
               .kernel = GRAM_LAPLACE, .way = BY_MAXIMA, .why = "maxima"),
    {.kind = GRAM_DISTANCE_HAVERSINE, .m = 9, .n = 8, .k = 2, .dtype = GRAM_BF16,
     .data = DATA_ANGLES, .x_batch = 2, .y_batch = 2, .x_layout = PADDED, .why = "bf16"},
    EACH_DTYPE(.kind = GRAM_DISTANCE_MINKOWSKI, .m = 20, .n = 30, .k = 9, .p = 1, .weights = 1,
               .data = DATA_SIGNED, .why = "weighted sums of |d|"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_MINKOWSKI, .m = 20, .n = 30, .k = 9, .p = 1.3, .weights = 1,
               .data = DATA_SIGNED, .no_root = true, .why = "weighted powers"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_MINKOWSKI, .m = 20, .n = 30, .k = 9, .p = INFINITY,
               .weights = 1, .data = DATA_SIGNED, .why = "columns of weight 0 do not count"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_MINKOWSKI, .m = 30, .k = 9, .p = 0.7, .same = true,
               .data = DATA_SIGNED, .condensed = true, .why = "condensed, without weights"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_MINKOWSKI, .m = 20, .n = 30, .k = 9, .p = 1.3,
               .kernel = GRAM_LAPLACE, .weights = 1, .data = DATA_SIGNED, .why = "its kernel"),
    {.kind = GRAM_DISTANCE_MINKOWSKI, .m = 1, .k = 9, .p = 2, .same = true, .dtype = GRAM_F32,
     .condensed = true, .why = "condensed: one row has no distances"},
    {.kind = GRAM_DISTANCE_CANBERRA, .m = 700, .k = 3, .same = true, .dtype = GRAM_F32,
     .data = DATA_SIGNED, .condensed = true, .x_layout = PADDED, .why = "several blocks"},
    {.kind = GRAM_DISTANCE_BRAYCURTIS, .m = 5, .k = 30, .x_batch = 4, .same = true,
     .dtype = GRAM_F64, .data = DATA_SIGNED, .condensed = true, .why = "condensed, a batch"},
    EACH_DTYPE(.kind = GRAM_DISTANCE_JENSENSHANNON, .m = 20, .n = 30, .k = 40, .data = DATA_ZEROS,
               .no_root = true, .why = "logarithms of zeros"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_KULLBACK_LEIBLER, .m = 20, .n = 30, .k = 40,
               .data = DATA_ZEROS, .why = "logarithms of zeros"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_HELLINGER, .m = 20, .n = 30, .k = 40, .data = DATA_ZEROS,
               .no_root = true, .why = "without the root"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_SEUCLIDEAN, .m = 20, .n = 30, .k = 40, .data = DATA_SIGNED,
               .no_root = true, .why = "without the root"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_NAN_EUCLIDEAN, .m = 20, .n = 30, .k = 3,
               .data = DATA_MISSING, .no_root = true, .why = "pairs without a common number"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_CORRELATION, .m = 20, .n = 30, .k = 40, .data = DATA_OFFSET,
               .why = "a large mean"),
    EACH_DTYPE(.kind = GRAM_DISTANCE_CANBERRA, .m = 1201, .n = 1801, .k = 1, .data = DATA_SIGNED,
               .out_layout = PADDED, .why = "an out that is streamed"),
};
/* clang-format on */

struct problem {
    const struct metric_row *row;
    struct test_tensor x, y, weights, v, out;
    struct test_copy x_there, y_there, weights_there, v_there, out_there;
    struct reference_batch batch;
    gram_distance metric;
};

static const char *const kind_names[] = {
    "minkowski",  "seuclidean", "cosine",    "correlation",   "canberra",
    "braycurtis", "hamming",    "jaccard",   "jensenshannon", "kullback_leibler",
    "hellinger",  "chi2",       "haversine", "nan_euclidean",
};

static void label(int row, char *text, size_t size)
{
    const struct metric_row *r = &rows[row];

    snprintf(text, size, "%s %lldx%lldx%lld dtype %d%s: %s", kind_names[r->kind], (long long)r->m,
             (long long)r->n, (long long)r->k, (int)r->dtype, r->same ? " x = y" : "", r->why);
}

/* ---- Data ----------------------------------------------------------------------------------- */

static double draw(struct harness *h, enum data data, int64_t k)
{
    const double u = test_uniform(h);

    switch (data) {
    case DATA_POSITIVE:
        return u;
    case DATA_BYTES:
        return floor(256 * u);
    case DATA_ZEROS:
        return u < 0.6 ? 0 : u < 0.8 ? 1 : 2;
    case DATA_NEAR:
        return (double)(1 + k * 7919 % 13) / 8 + (u < 0.3 ? 0 : 1e-4 * u);
    case DATA_OFFSET:
        return 1e3 + 2 * u - 1;
    case DATA_MISSING:
        return u < 0.33 ? (double)NAN : 2 * u - 1;
    case DATA_ANGLES:
        return (k ? 6.28 : 3.14) * (u - 0.5);
    default:
        return 2 * u - 1;
    }
}

static void special_rows(struct test_tensor *t, int64_t m, int64_t k)
{
    if (m < 8 || k == 0)
        return;
    test_put(&t->t, k + k / 2, (double)NAN);
    for (int64_t c = 0; c < k; c++) {
        test_put(&t->t, 2 * k + c, 0);
        test_put(&t->t, 3 * k + c, 0.1);
        test_put(&t->t, 5 * k + c, test_at(&t->t, 4 * k + c));
        test_put(&t->t, 6 * k + c, 2 * test_at(&t->t, 4 * k + c));
    }
}

static void special_angles(struct test_tensor *t)
{
    static const double points[][2] = {
        { 1.5707963267948966,               0.3},
        {-1.5707963267948966,               0.3},
        {                  0,                 0},
        {                  0, 3.141592653589793},
        {                0.5,                 1},
        {                0.5,            1.0001},
        {            0.50001,                 1},
        {                0.5,                 1}
    };

    for (int i = 0; i < LENGTH(points); i++)
        for (int c = 0; c < 2; c++)
            test_put(&t->t, 2 * i + c, points[i][c]);
}

static void fill(struct harness *h, struct test_tensor *t, const struct metric_row *row, int64_t m)
{
    for (int64_t i = 0; i < test_count(&t->t); i++)
        test_put(&t->t, i, draw(h, row->data, row->k ? i % row->k : 0));
    if (row->data == DATA_SPECIAL)
        special_rows(t, m, row->k);
    if (row->data == DATA_ANGLES)
        special_angles(t);
    for (int64_t c = 0; row->data == DATA_BYTES && c < row->k && m >= 9; c++) {
        test_put(&t->t, 2 * row->k + c, 0);
        test_put(&t->t, 3 * row->k + c, 255);
        test_put(&t->t, 5 * row->k + c, test_at(&t->t, 4 * row->k + c));
    }
    test_tensor_freeze(t);
}

/* Some of the weights are zero, but no variance is. */
static void create_weights(struct harness *h, struct problem *q)
{
    const struct metric_row *row = q->row;
    int64_t shape[2] = {row->x_batch, row->k};
    bool each = row->weights == 2;

    test_tensor_create(h, &q->weights, GRAM_F64, ROW_MAJOR, each ? 2 : 1, each ? shape : shape + 1);
    for (int64_t i = 0; i < test_count(&q->weights.t); i++)
        test_put(&q->weights.t, i,
                 i % 3 == 1 && row->kind != GRAM_DISTANCE_SEUCLIDEAN ? 0 : 0.5 + test_uniform(h));
    test_tensor_freeze(&q->weights);
    q->metric.weights = &q->weights.t;
}

static void create(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                   const int64_t *shape, int core)
{
    const int none = shape[0] == 0; /* no batch */

    test_tensor_create(h, t, dtype, layout, core + 1 - none, shape + none);
}

static void create_unit_matrix(struct harness *h, struct problem *q, gram_dtype dtype, int64_t n)
{
    create(h, &q->v, dtype, ROW_MAJOR, (int64_t[]){0, n, n}, 2);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            test_put(&q->v.t, i * n + j, i == j);
    test_tensor_freeze(&q->v);
}

static bool weighted(const struct metric_row *row)
{
    return row->weights || row->kind == GRAM_DISTANCE_SEUCLIDEAN;
}

static void setup(struct harness *h, const struct metric_row *row, struct problem *q)
{
    const int64_t n = row->same ? row->m : row->n;
    const int64_t batch = row->x_batch > row->y_batch ? row->x_batch : row->y_batch;
    gram_dtype result = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    *q = (struct problem){.row = row, .metric = GRAM_DISTANCE_INIT};
    q->metric.kind = row->kind;
    q->metric.p = gram_number(row->p > 0 ? row->p : 2);
    q->metric.bits = row->bits;
    create(h, &q->x, row->dtype, row->x_layout, (int64_t[]){row->x_batch, row->m, row->k}, 2);
    create(h, &q->y, row->dtype, ROW_MAJOR, (int64_t[]){row->y_batch, n, row->k}, 2);
    fill(h, &q->x, row, row->m);
    fill(h, &q->y, row, n);
    if (weighted(row))
        create_weights(h, q);
    q->batch = (struct reference_batch){
        .ndim = batch ? 1 : 0, .shape = {batch}, .count = batch ? batch : 1};
    if (row->way == BY_PRODUCT)
        create_unit_matrix(h, q, result, n);
    if (row->way == BY_MAXIMA)
        create(h, &q->out, result, row->out_layout, (int64_t[]){batch, row->m}, 1);
    else if (row->condensed)
        create(h, &q->out, result, row->out_layout, (int64_t[]){batch, row->m * (row->m - 1) / 2},
               1);
    else
        create(h, &q->out, result, row->out_layout, (int64_t[]){batch, row->m, n}, 2);
}

/* ---- The call ------------------------------------------------------------------------------- */

static gram_status call_kernel(struct harness *h, struct problem *q, gram_kernel_options *kernel,
                               gram_workspace *need)
{
    const gram_tensor *x = &q->x_there.t, *y = q->row->same ? NULL : &q->y_there.t;
    gram_tensor *out = &q->out_there.t;
    const gram_tensor *v = &q->v_there.t;

    switch (q->row->way) {
    case BY_PRODUCT:
        return need ? gram_kernel_matmul_workspace(h->g, x, y, kernel, v, NULL, out, need)
                    : gram_kernel_matmul(h->g, x, y, kernel, v, NULL, out);
    case BY_MAXIMA:
        return need
                   ? gram_kernel_reduce_workspace(h->g, x, y, kernel, GRAM_REDUCE_MAX, NULL, NULL,
                                                  out, NULL, need)
                   : gram_kernel_reduce(h->g, x, y, kernel, GRAM_REDUCE_MAX, NULL, NULL, out, NULL);
    default:
        return need ? gram_kernel_workspace(h->g, x, y, kernel, out, need)
                    : gram_kernel(h->g, x, y, kernel, out);
    }
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *x = &q->x_there.t, *y = q->row->same ? NULL : &q->y_there.t;
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_tensor *out = &q->out_there.t;
    gram_distance metric = q->metric;

    if (metric.weights)
        metric.weights = &q->weights_there.t;
    if (q->row->kernel) {
        kernel.function = q->row->kernel;
        kernel.bandwidth = gram_number(0.7);
        kernel.metric = &metric;
        return call_kernel(h, q, &kernel, need);
    }
    options.no_root = q->row->no_root;
    options.condensed = q->row->condensed;
    options.metric = &metric;
    return need ? gram_cdist_workspace(h->g, x, y, gram_number(2), &options, out, need)
                : gram_cdist(h->g, x, y, gram_number(2), &options, out);
}

static bool run(struct harness *h, struct problem *q)
{
    const struct test_pair pairs[] = {
        {                                   &q->x,       &q->x_there},
        {                                   &q->y,       &q->y_there},
        {  q->metric.weights ? &q->weights : NULL, &q->weights_there},
        {q->row->way == BY_PRODUCT ? &q->v : NULL,       &q->v_there},
        {                                 &q->out,     &q->out_there},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- The answer ----------------------------------------------------------------------------- */

/* sum w f(x, y) over the coordinates */
static double total(const struct problem *q, const int64_t at[3], double (*f)(double, double))
{
    const gram_tensor *y = q->row->same ? &q->x.t : &q->y.t;
    double sum = 0;

    for (int64_t k = 0; k < q->row->k; k++) {
        double a = reference_element(&q->x.t, &q->batch, at[0], 2, (int64_t[]){at[1], k});
        double b = reference_element(y, &q->batch, at[0], 2, (int64_t[]){at[2], k});
        double w = !q->metric.weights
                       ? 1
                       : reference_element(q->metric.weights, &q->batch, at[0], 1, (int64_t[]){k});
        sum += (q->row->kind == GRAM_DISTANCE_SEUCLIDEAN ? 1 / w : w) * f(a, b);
    }
    return sum;
}

static double size(double a, double b)
{
    return fabs(a) + fabs(b);
}

static double entropy(double a, double b)
{
    return a > 0 && b > 0 ? a * (fabs(log(a / b)) + 1) : 0;
}

static double chi2(double a, double b)
{
    return a + b == 0 ? 0 : (a - b) * (a - b) / fabs(a + b) * (1 + size(a, b) / fabs(a + b));
}

static double mass(double a, double b)
{
    return a + b;
}

static double square(double a, double b)
{
    return (fabs(a) + fabs(b)) * (fabs(a) + fabs(b));
}

/* As gram/pairwise.h says, of the distance with its root; once more for the reference in f64. */
static double bound_of(const struct problem *q, const int64_t at[3], double d)
{
    const double eps = test_eps(q->out.t.dtype), e = ((double)q->row->k + 16) * eps;
    const double p = q->metric.p.value;

    switch (q->row->kind) {
    case GRAM_DISTANCE_MINKOWSKI:
        return isinf(p) || p < 1
                   ? e * d * 4 + 16 * eps * total(q, at, size)
                   : e * d + 4 * eps * (p == 2 ? sqrt(total(q, at, square)) : total(q, at, size));
    case GRAM_DISTANCE_SEUCLIDEAN:
        return e * d + 4 * eps * sqrt(total(q, at, square));
    case GRAM_DISTANCE_COSINE:
        return e * d + 8 * eps * sqrt(d) + 8 * eps * eps;
    case GRAM_DISTANCE_CORRELATION: {
        double mean = q->row->dtype == GRAM_F64 ? 2 * (double)q->row->k * eps : 0;
        double offset = q->row->data == DATA_OFFSET ? 4e3 : 4e5 * (q->row->data == DATA_NEAR) + 40;
        mean *= offset;
        return e * d + (8 * eps + mean) * sqrt(d) + 8 * eps * eps + mean * mean;
    }
    case GRAM_DISTANCE_JENSENSHANNON:
        return e * d + 8 * eps;
    case GRAM_DISTANCE_HELLINGER:
        return e * d + 4 * eps * sqrt(total(q, at, mass));
    case GRAM_DISTANCE_KULLBACK_LEIBLER:
        return e * total(q, at, entropy);
    case GRAM_DISTANCE_CHI2: /* of negative numbers, terms have both signs */
        return e * total(q, at, chi2);
    case GRAM_DISTANCE_HAVERSINE:
        return d > 3 ? sqrt(32 * eps) : 32 * eps * d;
    default:
        return 2 * e * d;
    }
}

static bool has_root(gram_distance_kind kind)
{
    return kind == GRAM_DISTANCE_SEUCLIDEAN || kind == GRAM_DISTANCE_JENSENSHANNON ||
           kind == GRAM_DISTANCE_HELLINGER || kind == GRAM_DISTANCE_NAN_EUCLIDEAN;
}

/* The bound of what the row asks for, and what is expected. */
static double bound(const struct problem *q, const int64_t at[3], double *want)
{
    const struct metric_row *row = q->row;
    double d = *want, b;

    if (row->no_root && has_root(row->kind)) {
        b = bound_of(q, at, sqrt(d));
        return 2 * b * sqrt(d) + b * b;
    }
    b = row->no_root ? ((double)row->k + 16) * 6 * test_eps(q->out.t.dtype) * (1 + d)
                     : bound_of(q, at, d);
    if (row->kernel) {
        *want = exp(-d / 0.7);
        b = b / 0.7 + 8 * test_eps(q->out.t.dtype);
    }
    return b;
}

static bool agree(double got, double want, double off)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= off;
}

/* Each number of a product is a sum over a row of the matrix, which a NaN anywhere spoils. */
static bool is_spoilt(const struct problem *q, const int64_t at[3])
{
    const struct metric_row *row = q->row;
    bool found = false;

    for (int64_t j = 0; row->way == BY_PRODUCT && !found && j < q->v.t.shape[0]; j++)
        found = isnan(reference_metric(&q->x.t, row->same ? NULL : &q->y.t, &q->metric,
                                       row->no_root, &q->batch, (int64_t[]){at[0], at[1], j}));
    return found;
}

static void check_pair(struct harness *h, const struct problem *q, const int64_t at[3])
{
    const struct metric_row *row = q->row;
    const int64_t n = row->same ? row->m : row->n, i = at[1], j = at[2];
    const int64_t in_item = row->condensed ? i * (2 * row->m - i - 1) / 2 + j - i - 1 : i * n + j;
    const int64_t item = row->condensed ? row->m * (row->m - 1) / 2 : row->m * n;
    double got, want, off;

    if (row->condensed && j <= i)
        return;
    want = reference_metric(&q->x.t, row->same ? NULL : &q->y.t, &q->metric, row->no_root,
                            &q->batch, at);
    got = test_at(&q->out.t, at[0] * item + in_item);
    off = bound(q, at, &want);
    if (is_spoilt(q, at))
        want = (double)NAN;
    CHECK(h, agree(got, want, off), "item %lld, out[%lld, %lld] is %.17g, expected %.17g +- %.2g",
          (long long)at[0], (long long)i, (long long)j, got, want, off);
    if (row->same && i == j && row->data != DATA_SPECIAL && !isnan(want))
        CHECK(h, got == (row->kernel ? 1 : 0), "out[%lld, %lld] is %g, expected that of itself",
              (long long)i, (long long)j, got);
}

/* The largest number of a row differs from the largest that is expected by the largest bound. */
static void check_maximum(struct harness *h, const struct problem *q, int64_t item, int64_t i)
{
    const struct metric_row *row = q->row;
    const int64_t n = row->same ? row->m : row->n;
    double most = -INFINITY, off = 0, got = test_at(&q->out.t, item * row->m + i);

    for (int64_t j = 0; j < n; j++) {
        const int64_t at[3] = {item, i, j};
        double want = reference_metric(&q->x.t, row->same ? NULL : &q->y.t, &q->metric,
                                       row->no_root, &q->batch, at);
        off = fmax(off, bound(q, at, &want));
        most = isnan(want) || isnan(most) ? (double)NAN : fmax(most, want);
    }
    CHECK(h, agree(got, most, off), "item %lld, out[%lld] is %.17g, expected %.17g +- %.2g",
          (long long)item, (long long)i, got, most, off);
}

static void check_item(struct harness *h, const struct problem *q, int64_t item)
{
    const struct metric_row *row = q->row;
    const int64_t n = row->same ? row->m : row->n;

    for (int64_t i = 0; i < row->m; i++) {
        if (row->way == BY_MAXIMA)
            check_maximum(h, q, item, i);
        else
            for (int64_t j = 0; j < n; j++)
                if (test_sampled((item * row->m + i) * n + j, q->batch.count * row->m * n, row->k))
                    check_pair(h, q, (int64_t[]){item, i, j});
    }
}

static void check(struct harness *h, int index)
{
    struct problem q;

    setup(h, &rows[index], &q);
    for (int64_t item = run(h, &q) ? 0 : q.batch.count; item < q.batch.count; item++)
        check_item(h, &q, item);
    test_tensor_destroy(h, &q.x, "x");
    test_tensor_destroy(h, &q.y, "y");
    test_tensor_destroy(h, &q.out, "out");
    if (q.metric.weights)
        test_tensor_destroy(h, &q.weights, "weights");
    if (q.row->way == BY_PRODUCT)
        test_tensor_destroy(h, &q.v, "v");
}

/* ---- One problem of any size ---------------------------------------------------------------- */

struct bench {
    gram_tensor x, y, out;
    gram_distance metric;
    gram_tensor variances;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;
    gram_distance metric = s->metric;

    if (metric.weights)
        metric.weights = &s->variances;
    options.metric = &metric;
    return gram_cdist(g, &s->x, &s->y, gram_number(2), &options, &s->out);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->out.data);
    free(s->variances.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    const struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    const double e = ((double)s->x.shape[1] + 64) * test_eps(s->out.dtype);
    double worst = 0;

    for (int i = 0; i < 500 && test_count(&s->out) > 0; i++) {
        int64_t at[3] = {0, (int64_t)(test_uniform(h) * (double)s->out.shape[0]),
                         (int64_t)(test_uniform(h) * (double)s->out.shape[1])};
        double want = reference_metric(&s->x, &s->y, &s->metric, 0, &batch, at);
        double error = fabs(test_get(&s->out, at + 1) - want) / (4 * e * (1 + fabs(want)));
        worst = error > worst || isnan(error) ? error : worst;
    }
    return isnan(worst) ? INFINITY : worst;
}

static bool allocate(struct harness *h, gram_tensor *t, int64_t m, int64_t n, gram_dtype dtype)
{
    size_t bytes = (size_t)(m * n) * gram_dtype_size(dtype);

    *t = gram_matrix(calloc(1, bytes ? bytes : 1), m, n, dtype);
    if (!t->data)
        return harness_no_memory(h, "the problem");
    for (int64_t i = 0; i < m * n; i++)
        test_put(t, i, test_uniform(h));
    return true;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2];
    const gram_dtype result = args->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    const char *name = case_param(args, "kind", "canberra");
    struct bench *s = calloc(1, sizeof *s);
    int kind = 0;

    if (!s)
        return harness_no_memory(h, "the problem");
    while (kind < LENGTH(kind_names) && strcmp(kind_names[kind], name) != 0)
        kind++;
    if (kind == LENGTH(kind_names))
        fprintf(stderr, "kind: %s is none\n", name);
    if (kind == LENGTH(kind_names) || !allocate(h, &s->x, m, k, args->dtype) ||
        !allocate(h, &s->y, n, k, args->dtype) || !allocate(h, &s->out, m, n, result) ||
        !allocate(h, &s->variances, 1, k, GRAM_F64)) {
        bench_destroy(s);
        return false;
    }
    s->variances = gram_vector(s->variances.data, k, GRAM_F64);
    s->metric = (gram_distance)GRAM_DISTANCE_INIT;
    s->metric.kind = (gram_distance_kind)kind;
    if (kind == GRAM_DISTANCE_MINKOWSKI || kind == GRAM_DISTANCE_SEUCLIDEAN)
        s->metric.weights = &s->variances;
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->out, &s->variances},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)n * (double)k,
        .unit = "m n k steps",
        .bytes = (double)((m + n) * k) * (double)gram_dtype_size(args->dtype) +
                 (double)(m * n) * (double)gram_dtype_size(result),
    };
    return true;
}

const struct case_op case_metric = {
    .name = "metric",
    .sizes = "M N K",
    .params = "kind=canberra dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
