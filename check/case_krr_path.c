/*
 * case_krr_path.c - the rows of gram_krr_path
 *
 * Residuals are compared with fits to all rows but one, in long double, within the bound that
 * gram.h promises; the means and their standard errors with their formulas, and the coefficients
 * with the fit to all rows.  The triangle that must not be read holds NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum bad {
    NOTHING,
    NAN_IN_Y,
    INFINITY_IN_K,
    ZERO_WEIGHT
};

enum {
    MOST_RIDGES = 21
};

/* clang-format off */
static const struct path_row {
    int64_t n, columns, batch;
    gram_dtype dtype;
    enum layout layout;
    gram_uplo uplo;
    gram_krr_path_method method;
    gram_krr_intercept intercept;
    int ridges;       /* the first of the list */
    bool zero;        /* the last of them is 0 instead */
    bool weights;
    bool pairs;       /* every second point is the one before it */
    double bandwidth; /* of a Gaussian kernel of points in a square; 0: 0.3 */
    double shift;     /* of y */
    bool few;         /* nothing but loo is wanted */
    int failed;       /* ridges that are too small */
    enum bad bad;
    const char *why;
} rows[] = {
    {.n = 12, .columns = 1, .dtype = GRAM_F64, .ridges = 3, .why = "the least that shows"},
    {.n = 12, .columns = 1, .dtype = GRAM_F64, .ridges = 3, .method = GRAM_KRR_PATH_EIGH,
     .why = "the same by eigenvalues"},
    {.n = 12, .columns = 1, .dtype = GRAM_F64, .ridges = 3, .method = GRAM_KRR_PATH_CHOLESKY,
     .why = "the same by factorisations"},
    {.n = 12, .columns = 3, .dtype = GRAM_F64, .ridges = MOST_RIDGES,
     .why = "a long path chooses the eigendecomposition"},
    {.n = 0, .columns = 2, .dtype = GRAM_F64, .ridges = 2, .why = "no rows"},
    {.n = 0, .columns = 2, .dtype = GRAM_F64, .ridges = 2, .method = GRAM_KRR_PATH_EIGH,
     .intercept = GRAM_KRR_INTERCEPT_FITTED, .why = "no rows and an intercept"},
    {.n = 5, .columns = 0, .dtype = GRAM_F64, .ridges = 2, .why = "no columns"},
    {.n = 5, .columns = 0, .dtype = GRAM_F64, .ridges = 2, .method = GRAM_KRR_PATH_EIGH,
     .why = "no columns, by eigenvalues"},
    {.n = 5, .columns = 2, .dtype = GRAM_F32, .ridges = 0, .why = "no ridges"},
    {.n = 5, .columns = 2, .dtype = GRAM_F64, .ridges = 0, .method = GRAM_KRR_PATH_EIGH,
     .why = "no ridges, by eigenvalues"},
    {.n = 5, .columns = 2, .batch = -1, .dtype = GRAM_F64, .ridges = 2, .why = "no items"},
    {.n = 1, .columns = 2, .dtype = GRAM_F64, .ridges = 2, .why = "one row predicts 0 for itself"},
    {.n = 1, .columns = 1, .dtype = GRAM_F64, .ridges = 2, .method = GRAM_KRR_PATH_EIGH,
     .intercept = GRAM_KRR_INTERCEPT_MEAN, .why = "the mean of no rows"},
    {.n = 1, .columns = 1, .dtype = GRAM_F64, .ridges = 2, .intercept = GRAM_KRR_INTERCEPT_FITTED,
     .why = "an intercept of no rows"},
    {.n = 2, .columns = 2, .dtype = GRAM_F64, .ridges = 2, .weights = true, .why = "two rows"},
    {.n = 2, .columns = 1, .dtype = GRAM_F64, .ridges = 2, .intercept = GRAM_KRR_INTERCEPT_FITTED,
     .why = "an intercept of one row"},
    {.n = 2, .columns = 1, .dtype = GRAM_F32, .ridges = 2, .intercept = GRAM_KRR_INTERCEPT_MEAN,
     .method = GRAM_KRR_PATH_EIGH, .why = "the mean of one row"},
    {.n = 25, .columns = 2, .dtype = GRAM_F64, .ridges = 4, .intercept = GRAM_KRR_INTERCEPT_MEAN,
     .shift = 100, .why = "the mean is learned again without the row"},
    {.n = 25, .columns = 2, .dtype = GRAM_F64, .ridges = 4, .intercept = GRAM_KRR_INTERCEPT_FITTED,
     .shift = 100, .why = "and so is the intercept"},
    {.n = 25, .columns = 2, .dtype = GRAM_F64, .ridges = 4, .weights = true,
     .why = "weights of rows"},
    {.n = 25, .columns = 2, .dtype = GRAM_F64, .ridges = 4, .weights = true,
     .method = GRAM_KRR_PATH_EIGH, .why = "weights, by eigenvalues"},
    {.n = 23, .columns = 2, .dtype = GRAM_F64, .ridges = 4, .weights = true, .shift = -3,
     .intercept = GRAM_KRR_INTERCEPT_MEAN, .method = GRAM_KRR_PATH_EIGH,
     .why = "weights and the mean, in which they do not count"},
    {.n = 23, .columns = 2, .dtype = GRAM_F32, .ridges = 4, .weights = true, .shift = -3,
     .intercept = GRAM_KRR_INTERCEPT_FITTED, .why = "weights and an intercept, f32"},
    {.n = 20, .columns = 1, .dtype = GRAM_F64, .ridges = 4, .pairs = true,
     .why = "every row twice: the twin tells"},
    {.n = 20, .columns = 1, .dtype = GRAM_F64, .ridges = 4, .pairs = true, .weights = true,
     .method = GRAM_KRR_PATH_EIGH, .intercept = GRAM_KRR_INTERCEPT_FITTED,
     .why = "the same with weights and an intercept"},
    {.n = 20, .columns = 2, .dtype = GRAM_F64, .ridges = 3, .zero = true, .pairs = true,
     .failed = 1, .why = "singular without a ridge; other ridges are right"},
    {.n = 20, .columns = 2, .dtype = GRAM_F64, .ridges = 3, .zero = true, .pairs = true,
     .method = GRAM_KRR_PATH_EIGH, .failed = 1, .why = "the same by eigenvalues"},
    {.n = 15, .columns = 2, .dtype = GRAM_F64, .ridges = 2, .zero = true, .bandwidth = 0.05,
     .why = "interpolation: a definite matrix needs no ridge"},
    {.n = 30, .columns = 1, .dtype = GRAM_F64, .ridges = 3, .bandwidth = 2,
     .why = "ill-conditioned: numerically of low rank"},
    {.n = 30, .columns = 1, .dtype = GRAM_F64, .ridges = 3, .bandwidth = 2,
     .intercept = GRAM_KRR_INTERCEPT_FITTED, .method = GRAM_KRR_PATH_EIGH,
     .why = "ill-conditioned, by eigenvalues, with an intercept"},
    {.n = 30, .columns = 1, .dtype = GRAM_F32, .ridges = 3, .bandwidth = 1,
     .why = "f32, computed in f64"},
    {.n = 21, .columns = 2, .dtype = GRAM_F32, .ridges = 3, .layout = COLUMN_MAJOR,
     .uplo = GRAM_UPPER, .why = "the upper triangle, by columns"},
    {.n = 21, .columns = 2, .dtype = GRAM_F64, .ridges = 3, .layout = EVERY_SECOND,
     .method = GRAM_KRR_PATH_EIGH, .weights = true, .why = "no unit stride"},
    {.n = 21, .columns = 3, .batch = 2, .dtype = GRAM_F64, .ridges = 2, .layout = REVERSED,
     .uplo = GRAM_UPPER, .why = "negative strides"},
    {.n = 21, .columns = 3, .batch = 2, .dtype = GRAM_F32, .ridges = 2, .layout = PADDED,
     .why = "gaps between rows"},
    {.n = 11, .columns = 2, .batch = 3, .dtype = GRAM_F64, .ridges = 5, .weights = true,
     .method = GRAM_KRR_PATH_EIGH, .why = "a batch"},
    {.n = 40, .columns = 1, .dtype = GRAM_F64, .ridges = 2, .why = "more than a block of columns"},
    {.n = 40, .columns = 60, .dtype = GRAM_F64, .ridges = 1, .few = true,
     .method = GRAM_KRR_PATH_EIGH, .intercept = GRAM_KRR_INTERCEPT_MEAN,
     .why = "more columns than rows; nothing but residuals"},
    {.n = 270, .columns = 1, .dtype = GRAM_F64, .ridges = 1, .bandwidth = 0.05,
     .intercept = GRAM_KRR_INTERCEPT_FITTED, .why = "more than a panel of the inverse"},
    {.n = 6, .columns = 2, .batch = 2, .dtype = GRAM_F64, .ridges = 2, .bad = NAN_IN_Y,
     .why = "NaN in y is refused"},
    {.n = 6, .columns = 2, .batch = 2, .dtype = GRAM_F32, .ridges = 2, .bad = INFINITY_IN_K,
     .method = GRAM_KRR_PATH_EIGH, .why = "infinity in k is refused"},
    {.n = 6, .columns = 2, .batch = 2, .dtype = GRAM_F64, .ridges = 2, .bad = ZERO_WEIGHT,
     .weights = true, .why = "a weight of 0 is refused"},
};
/* clang-format on */

static const double path_ridges[MOST_RIDGES] = {1e-2, 1,   1e-5, 100, 0.3, 1e-1, 3,
                                                1e-3, 30,  1e-4, 10,  2,   5e-2, 7,
                                                2e-3, 4e1, 3e-4, 12,  0.7, 9e-3, 1e4};

static void label(int index, char *text, size_t size)
{
    snprintf(text, size, "n=%lld columns=%lld ridges=%d: %s", (long long)rows[index].n,
             (long long)rows[index].columns, rows[index].ridges, rows[index].why);
}

static void *numbers(int64_t count, size_t size)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);

    if (!memory)
        harness_end_without_memory("a reference");
    return memory;
}

/* ---- A row's tensors ------------------------------------------------------------------------- */

enum {
    K,
    Y,
    WEIGHTS,
    LOO,
    ERROR,
    SPREAD,
    ALPHA,
    OFFSET,
    INFO,
    TENSORS
};

static const char *const names[TENSORS] = {"k",      "y",     "weights", "loo", "error",
                                           "spread", "alpha", "offset",  "info"};

struct path {
    const struct path_row *row;
    int64_t items;
    double ridges[MOST_RIDGES];
    struct test_tensor tensors[TENSORS];
    struct test_copy there[TENSORS];
    bool has[TENSORS];
    gram_krr_path_options options;
};

/* The kernel matrix of an item. */
static void fill_kernel(struct harness *h, struct path *p, int64_t item)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n;
    double width = row->bandwidth > 0 ? row->bandwidth : 0.3;
    double *x = numbers(2 * n, sizeof *x);

    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 2; d++)
            x[2 * i + d] = row->pairs && i % 2 ? x[2 * (i - 1) + d] : test_uniform(h);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double a = x[2 * i] - x[2 * j], b = x[2 * i + 1] - x[2 * j + 1];
            bool read = row->uplo == GRAM_LOWER ? j <= i : j >= i;
            test_put(&p->tensors[K].t, (item * n + i) * n + j,
                     read ? exp(-(a * a + b * b) / (2 * width * width)) : (double)NAN);
        }
    free(x);
}

static void spoil(struct path *p)
{
    int64_t n = p->row->n, last = p->items - 1;

    if (p->row->bad == NAN_IN_Y)
        test_put(&p->tensors[Y].t, (last * n + 3) * p->row->columns + 1, NAN);
    if (p->row->bad == INFINITY_IN_K)
        test_put(&p->tensors[K].t, (last * n + 4) * n + 2, INFINITY);
    if (p->row->bad == ZERO_WEIGHT)
        test_put(&p->tensors[WEIGHTS].t, last * n + 5, 0);
}

static void open_path(struct harness *h, struct path *p, const struct path_row *row)
{
    const int64_t items = row->batch < 0 ? 0 : row->batch, t = row->ridges, c = row->columns;
    const int64_t n = row->n;
    const struct {
        int ndim;
        int64_t shape[3];
    } shapes[TENSORS] = {
        [K] = {2,    {n, n}},
          [Y] = {2,    {n, c}},
          [WEIGHTS] = {1,       {n}},
        [LOO] = {3, {t, n, c}},
          [ERROR] = {2,    {t, c}},
          [SPREAD] = {2,    {t, c}},
        [OFFSET] = {2,    {t, c}},
          [ALPHA] = {3, {t, n, c}},
          [INFO] = {0,       {0}},
    };

    *p = (struct path){.row = row, .items = row->batch ? items : 1};
    memcpy(p->ridges, path_ridges, sizeof p->ridges);
    if (row->zero)
        p->ridges[row->ridges - 1] = 0;
    for (int i = 0; i < TENSORS; i++) {
        int64_t shape[4] = {items};
        int batch = row->batch != 0;

        p->has[i] = !(i == WEIGHTS && !row->weights) && !(row->few && i > LOO && i != INFO);
        memcpy(shape + batch, shapes[i].shape, (size_t)shapes[i].ndim * sizeof *shape);
        if (p->has[i])
            test_tensor_create(h, &p->tensors[i], i == INFO ? GRAM_I32 : row->dtype,
                               i == INFO ? ROW_MAJOR : row->layout, shapes[i].ndim + batch, shape);
    }
    for (int64_t item = 0; item < p->items; item++)
        fill_kernel(h, p, item);
    test_fill_normal(h, &p->tensors[Y], row->shift, 1);
    if (row->weights)
        test_fill_uniform(h, &p->tensors[WEIGHTS], 0.2, 5);
    spoil(p);
    for (int i = 0; i < LOO; i++)
        if (p->has[i])
            test_tensor_freeze(&p->tensors[i]);
}

static void close_path(struct harness *h, struct path *p)
{
    for (int i = 0; i < TENSORS; i++)
        if (p->has[i])
            test_tensor_destroy(h, &p->tensors[i], names[i]);
}

static gram_tensor *there(struct path *p, int i)
{
    return p->has[i] ? &p->there[i].t : NULL;
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct path *p = problem;

    p->options = (gram_krr_path_options)GRAM_KRR_PATH_OPTIONS_INIT;
    p->options.uplo = p->row->uplo;
    p->options.method = p->row->method;
    p->options.intercept = p->row->intercept;
    p->options.weights = there(p, WEIGHTS);
    p->options.error = there(p, ERROR);
    p->options.spread = there(p, SPREAD);
    p->options.alpha = there(p, ALPHA);
    p->options.offset = there(p, OFFSET);
    if (need)
        return gram_krr_path_workspace(h->g, there(p, K), there(p, Y), p->ridges, p->row->ridges,
                                       &p->options, there(p, LOO), need);
    return gram_krr_path(h->g, there(p, K), there(p, Y), p->ridges, p->row->ridges, &p->options,
                         there(p, LOO), there(p, INFO));
}

/* Runs the call, which is refused if the row says so, or on a GPU. */
static bool run(struct harness *h, struct path *p)
{
    static const char *const messages[] = {[NAN_IN_Y] = "y[3, 1] of item 1 is nan",
                                           [INFINITY_IN_K] = "k[4, 2] of item 1 is inf",
                                           [ZERO_WEIGHT] = "options.weights[5] of item 1 is 0"};
    struct test_pair pairs[TENSORS];
    gram_status status, expected = GRAM_UNSUPPORTED;
    bool sent = true;

    for (int i = 0; i < TENSORS; i++)
        pairs[i] = (struct test_pair){p->has[i] ? &p->tensors[i] : NULL, &p->there[i]};
    if (!p->row->bad && h->device.type == GRAM_CPU)
        return test_call_there(h, pairs, TENSORS, call, p);
    if (h->device.type == GRAM_CPU)
        expected = GRAM_INVALID_ARGUMENT;
    for (int i = 0; i < TENSORS; i++)
        sent = (!pairs[i].own || test_send(h, pairs[i].own, pairs[i].there)) && sent;
    status = sent ? call(h, p, NULL) : GRAM_OK;
    CHECK(h, status == expected, "the status is %s", gram_status_name(status));
    CHECK(h, expected == GRAM_UNSUPPORTED || strstr(gram_message(h->g), messages[p->row->bad]),
          "the message is: %s", gram_message(h->g));
    for (int i = 0; i < TENSORS; i++)
        if (pairs[i].own)
            test_fetch(h, pairs[i].own, pairs[i].there);
    return false;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* An item and a ridge: the problem in long double, and what its bounds are made of. */
struct item {
    struct reference_krr krr; /* of the column at hand */
    int64_t index, ridge;
    long double *k, *y, *weights, *values, *vectors, *inverse; /* inverse: (S + r)^-1 */
    long double kappa, growth;                                 /* growth: by the intercept */
    long double *room, *alpha, *residuals, *bounds;
};

static void load_item(const struct path *p, struct item *it)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n;
    long double *s = numbers(n * n, sizeof *s);

    for (int64_t i = 0; i < n; i++) {
        it->weights[i] =
            row->weights ? (long double)test_at(&p->tensors[WEIGHTS].t, it->index * n + i) : 1;
        for (int64_t j = 0; j < n; j++) {
            bool swapped = row->uplo == GRAM_LOWER ? j > i : j < i;
            int64_t at = swapped ? j * n + i : i * n + j;
            it->k[i * n + j] = (long double)test_at(&p->tensors[K].t, it->index * n * n + at);
        }
    }
    for (int64_t i = 0; i < n * n; i++)
        s[i] = it->k[i] * sqrtl(it->weights[i / n] * it->weights[i % n]);
    reference_eigh(n, s, it->values, it->vectors);
    free(s);
}

static void invert(const struct path *p, struct item *it)
{
    const int64_t n = p->row->n;
    long double r = (long double)p->ridges[it->ridge];

    it->kappa = n > 0 ? (it->values[n - 1] + r) / (it->values[0] + r) : 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += it->vectors[i * n + k] * it->vectors[j * n + k] / (it->values[k] + r);
            it->inverse[i * n + j] = sum;
        }
}

/* The bound of gram.h of every residual, and of the coefficients. */
static void set_bounds(const struct path *p, struct item *it)
{
    const int64_t n = p->row->n;
    const gram_krr_intercept intercept = p->row->intercept;
    long double length = 0, su = 0, ss = 0, uu = 0, *u = numbers(n, sizeof *u);

    reference_krr_fit(&it->krr, -1, it->alpha, it->room);
    it->growth = 1;
    for (int64_t i = 0; i < n; i++) {
        length += it->alpha[i] * it->alpha[i] / it->weights[i];
        for (int64_t j = 0; j < n; j++)
            u[i] += it->inverse[i * n + j] * sqrtl(it->weights[j]);
        su += u[i] * sqrtl(it->weights[i]);
        ss += it->weights[i];
        uu += u[i] * u[i];
    }
    if (intercept)
        it->growth += n > 0 ? sqrtl(ss * uu) / su : 0;
    for (int64_t i = 0; i < n; i++) {
        long double d = it->inverse[i * n + i], e = it->residuals[i], below = d;
        if (intercept == GRAM_KRR_INTERCEPT_FITTED)
            below -= u[i] * u[i] / su;
        it->bounds[i] = 32 * (long double)n * 0x1p-52L * it->kappa * it->growth * (d / below) *
                            (sqrtl(length / it->weights[i]) / below + fabsl(e)) +
                        (long double)test_eps(p->row->dtype) * fabsl(e);
    }
    free(u);
}

/* Each coefficient is a difference of terms as large as |b| / (min l + r) at most. */
static void check_alpha(struct harness *h, const struct path *p, const struct item *it, int64_t j)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n, ridge = it->index * row->ridges + it->ridge;
    long double b = reference_krr_fit(&it->krr, -1, it->alpha, it->room);
    long double most = 0, worst = 0, bound = 32 * (long double)n * 0x1p-52L * it->kappa;
    long double eps = (long double)test_eps(row->dtype), got;

    bound *= it->growth * sqrtl((long double)n);
    for (int64_t i = 0; i < n; i++) {
        got = (long double)test_at(&p->tensors[ALPHA].t, (ridge * n + i) * row->columns + j);
        most = fmaxl(most, fabsl(it->alpha[i]));
        worst = fmaxl(worst, isnan(got) ? (long double)INFINITY : fabsl(got - it->alpha[i]));
    }
    if (n > 0 && row->intercept)
        most += fabsl(b) / (it->values[0] + it->krr.ridge);
    CHECK(h, worst <= (bound + eps) * most,
          "alpha of item %lld, ridge %lld, column %lld is wrong by %.3Lg of %.3Lg",
          (long long)it->index, (long long)it->ridge, (long long)j, worst, most);
    got = (long double)test_at(&p->tensors[OFFSET].t, ridge * row->columns + j);
    CHECK(h, isnan(b) ? isnan(got) : fabsl(got - b) <= (bound + eps) * (fabsl(b) + 1),
          "the offset is %.17Lg, expected %.17Lg", got, b);
}

/* The means of squares and their standard errors, of the residuals as they were returned. */
static void check_summary(struct harness *h, const struct path *p, const struct item *it, int64_t j)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n, ridge = it->index * row->ridges + it->ridge;
    double sum = 0, weights = 0, squares = 0, eps = test_eps(row->dtype), most = 0;
    double error = test_at(&p->tensors[ERROR].t, ridge * row->columns + j);
    double spread = test_at(&p->tensors[SPREAD].t, ridge * row->columns + j);

    for (int64_t i = 0; i < n; i++) {
        double e = test_at(&p->tensors[LOO].t, (ridge * n + i) * row->columns + j);
        weights += (double)it->weights[i];
        sum += (double)it->weights[i] * e * e;
        most = fmax(most, e * e);
    }
    sum /= weights;
    CHECK(h, isnan(sum) ? isnan(error) : fabs(error - sum) <= 8 * eps * sum,
          "the error is %.17g, expected %.17g", error, sum);
    for (int64_t i = 0; i < n; i++) {
        double e = test_at(&p->tensors[LOO].t, (ridge * n + i) * row->columns + j);
        double part = (double)it->weights[i] * (e * e - sum);
        squares += part * part;
    }
    squares = sqrt((double)n / (double)(n - 1) * squares) / weights;
    CHECK(h, n < 2 ? isnan(spread) : fabs(spread - squares) <= 30 * eps * most,
          "the spread is %.17g, expected %.17g", spread, squares);
}

static void check_column(struct harness *h, const struct path *p, struct item *it, int64_t j)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n, at = (it->index * row->ridges + it->ridge) * n;

    for (int64_t i = 0; i < n; i++)
        it->y[i] = (long double)test_at(&p->tensors[Y].t, (it->index * n + i) * row->columns + j);
    it->krr = (struct reference_krr){
        n, it->k, it->y, it->weights, (long double)p->ridges[it->ridge], row->intercept};
    for (int64_t i = 0; i < n; i++)
        if (test_sampled(i, n, n * n * n))
            it->residuals[i] = reference_krr_residual(&it->krr, i, it->room);
    set_bounds(p, it);
    for (int64_t i = 0; i < n; i++) {
        double got = test_at(&p->tensors[LOO].t, (at + i) * row->columns + j);
        long double want = it->residuals[i];
        if (!test_sampled(i, n, n * n * n))
            continue;
        CHECK(h, isnan(want) ? isnan(got) : fabsl((long double)got - want) <= it->bounds[i],
              "the residual of item %lld, ridge %g, row %lld, column %lld is %.17g, expected "
              "%.17Lg +- %.2Lg",
              (long long)it->index, p->ridges[it->ridge], (long long)i, (long long)j, got, want,
              it->bounds[i]);
    }
    if (row->few)
        return;
    check_summary(h, p, it, j);
    check_alpha(h, p, it, j);
}

/* A ridge that is too small: NaN everywhere. */
static void check_failed(struct harness *h, const struct path *p, const struct item *it)
{
    const struct path_row *row = p->row;
    const int64_t ridge = it->index * row->ridges + it->ridge, count = row->n * row->columns;

    for (int64_t i = 0; i < count; i++)
        CHECK(h, isnan(test_at(&p->tensors[LOO].t, ridge * count + i)), "residual %lld is a number",
              (long long)i);
    for (int64_t j = 0; j < row->columns; j++)
        CHECK(h,
              isnan(test_at(&p->tensors[ERROR].t, ridge * row->columns + j)) &&
                  isnan(test_at(&p->tensors[OFFSET].t, ridge * row->columns + j)),
              "the error of column %lld is a number", (long long)j);
}

static void check_item(struct harness *h, const struct path *p, int64_t index)
{
    const struct path_row *row = p->row;
    const int64_t n = row->n;
    int64_t rooms = 3 * n * n + 6 * n + (n + 1) * (n + 3);
    long double *memory = numbers(rooms, sizeof *memory), *at = memory;
    struct item it = {.index = index};

    it.k = at, at += n * n;
    it.vectors = at, at += n * n;
    it.inverse = at, at += n * n;
    it.y = at, at += n;
    it.weights = at, at += n;
    it.values = at, at += n;
    it.alpha = at, at += n;
    it.residuals = at, at += n;
    it.bounds = at, at += n;
    it.room = at;
    load_item(p, &it);
    for (it.ridge = 0; it.ridge < row->ridges; it.ridge++) {
        if (row->failed && it.ridge == row->ridges - 1) {
            check_failed(h, p, &it);
            continue;
        }
        invert(p, &it);
        for (int64_t j = 0; j < row->columns; j++)
            check_column(h, p, &it, j);
    }
    free(memory);
}

/* Without info the status tells. */
static void check_status(struct harness *h, struct path *p)
{
    gram_status status;

    p->has[INFO] = false;
    status = call(h, p, NULL);
    p->has[INFO] = true;
    CHECK(h, status == (p->row->failed ? GRAM_NUMERICAL : GRAM_OK), "the status is %s",
          gram_status_name(status));
}

static void check(struct harness *h, int index)
{
    struct path p;

    open_path(h, &p, &rows[index]);
    if (run(h, &p)) {
        for (int64_t item = 0; item < p.items; item++) {
            double info = test_at(&p.tensors[INFO].t, item);
            CHECK(h, info == (double)rows[index].failed, "info is %g, expected %d", info,
                  rows[index].failed);
            check_item(h, &p, item);
        }
        check_status(h, &p);
    }
    close_path(h, &p);
}

/* ---- Any size -------------------------------------------------------------------------------- */

struct bench {
    gram_tensor k, y, loo;
    gram_krr_path_options options;
    double *ridges;
    int64_t count;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_krr_path(g, &s->k, &s->y, s->ridges, s->count, &s->options, &s->loo, NULL);
}

/* One row at one ridge, drawn at random, against a fit without it. */
static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const int64_t n = s->k.shape[0], columns = s->y.shape[1];
    const int64_t i = (int64_t)(test_uniform(h) * (double)n);
    const int64_t t = (int64_t)(test_uniform(h) * (double)s->count);
    long double *memory = malloc((size_t)(n * n + 2 * n + (n + 1) * (n + 3)) * sizeof *memory);
    struct reference_krr r = {.n = n, .ridge = (long double)s->ridges[t]};
    long double want, *y, *weights;
    double error;

    if (!memory)
        harness_end_without_memory("a reference");
    y = memory + n * n, weights = y + n;
    for (int64_t a = 0; a < n * n; a++)
        memory[a] = (long double)test_at(&s->k, a);
    for (int64_t a = 0; a < n; a++)
        y[a] = (long double)test_at(&s->y, a * columns), weights[a] = 1;
    r.k = memory, r.y = y, r.weights = weights, r.intercept = s->options.intercept;
    want = reference_krr_residual(&r, i, weights + n);
    error = (double)fabsl((long double)test_at(&s->loo, (t * n + i) * columns) - want);
    free(memory);
    return error / (test_eps(s->k.dtype) * (double)fabsl(want) +
                    32 * (double)n * 0x1p-52 * ((double)n / s->ridges[t] + 1) *
                        (sqrt((double)n) + (double)fabsl(want)));
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->k.data);
    free(s->y.data);
    free(s->loo.data);
    free(s->ridges);
    free(s);
}

static bool take_options(const struct case_args *args, gram_krr_path_options *o)
{
    static const char *const methods[] = {"auto", "eigh", "cholesky"};
    const char *method = case_param(args, "method", "auto");

    *o = (gram_krr_path_options)GRAM_KRR_PATH_OPTIONS_INIT;
    for (int i = 0; i < LENGTH(methods); i++)
        if (!strcmp(method, methods[i])) {
            o->method = (gram_krr_path_method)i;
            return true;
        }
    fprintf(stderr, "method=%s: expected auto, eigh or cholesky\n", method);
    return false;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t n = args->sizes[0], columns = args->sizes[1];
    int64_t count = (int64_t)case_number(args, "ridges", 20);
    size_t size = gram_dtype_size(args->dtype);
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    if (n < 1 || columns < 1 || count < 1 || !take_options(args, &s->options)) {
        fprintf(stderr, "N, C, ridges: expected at least 1\n");
        free(s);
        return false;
    }
    s->count = count;
    s->ridges = malloc((size_t)count * sizeof *s->ridges);
    s->k = gram_matrix(malloc((size_t)(n * n) * size), n, n, args->dtype);
    s->y = gram_matrix(malloc((size_t)(n * columns) * size), n, columns, args->dtype);
    s->loo =
        gram_matrix(malloc((size_t)(count * n * columns) * size), count * n, columns, args->dtype);
    if (!s->ridges || !s->k.data || !s->y.data || !s->loo.data) {
        bench_destroy(s);
        return harness_no_memory(h, "the problem");
    }
    s->loo.ndim = 3;
    s->loo.shape[0] = count, s->loo.shape[1] = n, s->loo.shape[2] = columns;
    s->loo.stride[0] = n * columns, s->loo.stride[1] = columns, s->loo.stride[2] = 1;
    for (int64_t t = 0; t < count; t++)
        s->ridges[t] = pow(10, -3 + 5 * (double)t / (double)count);
    for (int64_t i = 0; i < n; i++) /* a Laplace kernel of points on a line */
        for (int64_t j = 0; j < n; j++)
            test_put(&s->k, i * n + j, exp(-0.1 * fabs((double)(i - j))));
    for (int64_t i = 0; i < n * columns; i++)
        test_put(&s->y, i, test_uniform(h) - 0.5);
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->k, &s->y, &s->loo},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)(n * count),
        .unit = "fits left out",
        .bytes = (double)(n * n) * (double)size,
    };
    return true;
}

const struct case_op case_krr_path = {
    .name = "krr_path",
    .sizes = "N C",
    .params = "dtype=f32 ridges=20 method=auto",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
