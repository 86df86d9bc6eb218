/*
 * vjp_problem.c - builds a row of gram_kernel_vjp or of its product, runs it, checks every element
 *
 * The reference of gram_kernel_matmul_vjp is that of gram_kernel_vjp with the cotangent grad v^T,
 * in double; where y is x its gradient of x is the sum of both.  That of gram_kernel_reduce_vjp has
 * the cotangent that the weights of the reduction give, in double.
 *
 * The call gets exactly the scratch that its workspace query names, and one byte less is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_problem.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUTPUTS = 6 /* of x, y, L, r, v, log-weights */
};

struct problem {
    const struct vjp_row *row;
    struct test_tensor x, y, grad, bandwidth; /* bandwidth: of the options, per item */
    struct test_tensor v, cotangent;          /* of a product; cotangent: grad v^T in double */
    struct test_tensor logs;
    double *weights; /* of a reduction, of all items */
    double size;     /* of the largest term of its cotangent */
    struct test_tensor out[OUTPUTS];
    struct test_copy x_there, y_there, grad_there, v_there, bandwidth_there, logs_there;
    struct test_copy out_there[OUTPUTS];
    gram_kernel_options options;
    struct reference_vjp in;
    struct reference_batch batch;
};

static const char *const dtype_names[] = {"?", "f32", "f64", "f16", "bf16"};
static const char *const out_names[] = {"grads.x",         "grads.y",
                                        "grads.bandwidth", "grads.regularization",
                                        "grads.v",         "grads.log_weights"};

/* The cotangent has factors. */
static bool has_factors(const struct vjp_row *row)
{
    return row->r > 0 || row->what;
}

static bool has_v(const struct vjp_row *row)
{
    return row->what ? row->what == GRAM_REDUCE_SOFTMAX : row->r > 0;
}

/* Whether there is an output, which may be NULL in the call. */
static bool has_output(const struct vjp_row *row, int which)
{
    return which < 4 || (which == 4 ? has_v(row) : row->what != 0);
}

gram_kernel_options vjp_options(gram_inner inner, gram_function function)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.inner = inner, o.function = function;
    o.bandwidth = gram_number(2.3), o.exponent = gram_number(0.8), o.alpha = gram_number(1.4);
    o.gamma = gram_number(0.3), o.coef0 = gram_number(2), o.regularization = gram_number(0.3);
    return o;
}

/* Of all but points, which may be halves. */
static gram_dtype real_of(const struct vjp_row *row)
{
    return row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

static void create(struct harness *h, struct test_tensor *t, const struct vjp_row *row,
                   enum layout layout, const int64_t shape[3])
{
    int skip = shape[0] == 0;

    test_tensor_create(h, t, real_of(row), layout, 3 - skip, shape + skip);
}

static void create_points(struct harness *h, struct test_tensor *t, const struct vjp_row *row,
                          enum layout layout, const int64_t shape[3])
{
    int skip = shape[0] == 0;

    test_tensor_create(h, t, row->dtype, layout, 3 - skip, shape + skip);
}

/* shift tells x from y: see VJP_APART. */
static void fill(struct harness *h, struct test_tensor *t, enum vjp_data data, double shift)
{
    for (int64_t i = 0; i < test_count(&t->t); i++) {
        double whole = floor(3 * test_uniform(h)), part = 0.3 * test_uniform(h);
        test_put(&t->t, i, data == VJP_INTEGERS ? whole : whole + part + shift - 1);
        if (data == VJP_ZERO_ROW && shift == 0 && i < t->t.shape[t->t.ndim - 1])
            test_put(&t->t, i, 0);
        if (data == VJP_NAN && shift == 0 && i == t->t.shape[t->t.ndim - 1])
            test_put(&t->t, i, NAN);
    }
    test_tensor_freeze(t);
}

static void create_outputs(struct harness *h, struct problem *q)
{
    const struct vjp_row *row = q->row;
    int64_t batch = q->batch.ndim ? q->batch.shape[0] : 0, n = row->same ? row->m : row->n;
    const int64_t x[3] = {batch, row->m, row->k}, y[3] = {batch, n, row->k};
    const int64_t v[3] = {batch, n, row->r};

    create(h, &q->out[0], row, row->out_layout, x);
    create(h, &q->out[1], row, row->out_layout, y);
    for (int i = 2; i < 4; i++)
        test_tensor_create(h, &q->out[i], real_of(row), ROW_MAJOR, q->batch.ndim, q->batch.shape);
    if (has_v(row))
        create(h, &q->out[4], row, row->out_layout, v);
    if (row->what)
        test_tensor_create(h, &q->out[5], real_of(row),
                           row->out_layout == REVERSED ? REVERSED : ROW_MAJOR, 2 - (batch == 0),
                           (int64_t[]){batch, n} + (batch == 0));
}

static void create_bandwidth(struct harness *h, struct problem *q)
{
    test_tensor_create(h, &q->bandwidth, GRAM_F64, ROW_MAJOR, q->batch.ndim, q->batch.shape);
    for (int64_t i = 0; i < q->batch.count; i++)
        test_put(&q->bandwidth.t, i, 2 + (double)i / 2);
    test_tensor_freeze(&q->bandwidth);
    q->options.bandwidth = gram_values(&q->bandwidth.t);
}

/* grad v^T of all items. */
static void create_cotangent(struct harness *h, struct problem *q)
{
    const struct vjp_row *row = q->row;
    const int64_t m = row->m, n = row->same ? row->m : row->n, r = row->r;
    int64_t shape[3], at = 0;

    shape[0] = q->batch.ndim ? q->batch.shape[0] : 1, shape[1] = m, shape[2] = n;
    test_tensor_create(h, &q->cotangent, GRAM_F64, ROW_MAJOR, 2 + q->batch.ndim,
                       shape + !q->batch.ndim);
    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t c = 0; c < r; c++)
                    sum += reference_element(&q->grad.t, &q->batch, item, 2, (int64_t[]){i, c}) *
                           reference_element(&q->v.t, &q->batch, item, 2, (int64_t[]){j, c});
                test_put(&q->cotangent.t, at++, sum);
            }
    q->in.grad = &q->cotangent.t;
}

/* The weights of a row, and the sum of grad times the average; of a logarithm grad. */
static double find_weights(const struct problem *q, const int64_t item_i[2], double *w)
{
    const struct vjp_row *row = q->row;
    const int64_t item = item_i[0], i = item_i[1], n = row->same ? row->m : row->n;
    double logarithm, mean = 0;

    for (int64_t j = 0; j < n; j++) {
        w[j] = row->reduce_scale *
               reference_kernel(q->in.x, q->in.y, &q->options, &q->batch, (int64_t[]){item, i, j});
        if (row->logs)
            w[j] += reference_element(&q->logs.t, &q->batch, item, 1, (int64_t[]){j});
    }
    logarithm = reference_logsumexp(n, w, 1);
    for (int64_t j = 0; j < n; j++)
        w[j] = !has_v(row) && logarithm == -INFINITY ? 0 : exp(w[j] - logarithm);
    if (!has_v(row))
        return reference_element(&q->grad.t, &q->batch, item, 1, (int64_t[]){i});
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < row->r; c++)
            mean += w[j] * reference_element(&q->grad.t, &q->batch, item, 2, (int64_t[]){i, c}) *
                    reference_element(&q->v.t, &q->batch, item, 2, (int64_t[]){j, c});
    return mean;
}

/* The cotangent of the kernel of a reduction. */
static void create_soft_cotangent(struct harness *h, struct problem *q)
{
    const struct vjp_row *row = q->row;
    const int64_t m = row->m, n = row->same ? row->m : row->n;
    int64_t shape[3], at = 0;

    shape[0] = q->batch.ndim ? q->batch.shape[0] : 1, shape[1] = m, shape[2] = n;
    test_tensor_create(h, &q->cotangent, GRAM_F64, ROW_MAJOR, 2 + q->batch.ndim,
                       shape + !q->batch.ndim);
    q->weights = dense_doubles(q->batch.count * m * n + 1);
    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < m; i++) {
            double *w = q->weights + at;
            const double mean = find_weights(q, (int64_t[]){item, i}, w);
            for (int64_t j = 0; j < n; j++) {
                double d = has_v(row) ? -mean : mean, size = fabs(mean);
                for (int64_t c = 0; c < row->r; c++) {
                    const double term =
                        reference_element(&q->grad.t, &q->batch, item, 2, (int64_t[]){i, c}) *
                        reference_element(&q->v.t, &q->batch, item, 2, (int64_t[]){j, c});
                    d += term, size += fabs(term);
                }
                q->size = fmax(q->size, w[j] * size);
                test_put(&q->cotangent.t, at++, row->reduce_scale * w[j] * d);
            }
        }
    q->in.grad = &q->cotangent.t;
}

static void create_logs(struct harness *h, struct problem *q, int64_t n)
{
    test_tensor_create(h, &q->logs, real_of(q->row), ROW_MAJOR, 1, &n);
    for (int64_t j = 0; j < n; j++)
        test_put(&q->logs.t, j, j == 0 && n > 1 ? -INFINITY : test_uniform(h));
    test_tensor_freeze(&q->logs);
}

static void create_grad(struct harness *h, struct problem *q, int64_t n)
{
    const struct vjp_row *row = q->row;
    const int64_t batch = row->grad_batch;

    if (row->what == GRAM_REDUCE_LOGSUMEXP)
        test_tensor_create(h, &q->grad, real_of(row), ROW_MAJOR, 2 - (batch == 0),
                           (int64_t[]){batch, row->m} + (batch == 0));
    else
        create(h, &q->grad, row, row->grad_layout,
               (int64_t[]){batch, row->m, has_factors(row) ? row->r : n});
    fill(h, &q->grad, VJP_APART, 0);
}

static void setup(struct harness *h, const struct vjp_row *row, struct problem *q)
{
    int64_t n = row->same ? row->m : row->n;

    *q = (struct problem){.row = row, .options = vjp_options(row->inner, row->function)};
    q->options.p = gram_number(row->p), q->options.outer_power = gram_number(row->outer);
    q->options.row_offset = row->row_offset, q->options.column_offset = row->column_offset;
    create_points(h, &q->x, row, row->x_layout, (int64_t[]){row->x_batch, row->m, row->k});
    create_points(h, &q->y, row, row->y_layout, (int64_t[]){row->y_batch, row->n, row->k});
    fill(h, &q->x, row->data, 0);
    fill(h, &q->y, row->data, 0.5);
    create_grad(h, q, n);
    q->in = (struct reference_vjp){&q->x.t, row->same ? &q->x.t : &q->y.t, &q->grad.t, &q->options};
    if (has_v(row)) {
        create(h, &q->v, row, row->v_layout, (int64_t[]){row->v_batch, n, row->r});
        fill(h, &q->v, VJP_APART, 0.5);
    }
    if (row->logs)
        create_logs(h, q, n);
    q->batch = reference_join(
        has_factors(row) ? 4 : 2,
        (const gram_tensor *[]){q->in.x, q->in.y, &q->grad.t, has_v(row) ? &q->v.t : NULL},
        (const int[]){2, 2, has_v(row) || !row->what ? 2 : 1, 2});
    if (row->per_item)
        create_bandwidth(h, q);
    if (row->what)
        create_soft_cotangent(h, q);
    else if (row->r)
        create_cotangent(h, q);
    create_outputs(h, q);
}

static void finish(struct harness *h, struct problem *q)
{
    test_tensor_destroy(h, &q->x, "x");
    test_tensor_destroy(h, &q->y, "y");
    test_tensor_destroy(h, &q->grad, "grad");
    for (int i = 0; i < OUTPUTS; i++)
        if (has_output(q->row, i))
            test_tensor_destroy(h, &q->out[i], out_names[i]);
    if (has_v(q->row))
        test_tensor_destroy(h, &q->v, "v");
    if (has_factors(q->row))
        test_tensor_destroy(h, &q->cotangent, "the cotangent");
    if (q->row->logs)
        test_tensor_destroy(h, &q->logs, "options.log_weights");
    free(q->weights);
    if (q->row->per_item)
        test_tensor_destroy(h, &q->bandwidth, "options.bandwidth");
}

static gram_status call_product(struct harness *h, struct problem *q, gram_kernel_options *options,
                                gram_workspace *need)
{
    const bool same = q->row->same;
    const gram_tensor *x = &q->x_there.t, *y = same ? NULL : &q->y_there.t;
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    gram_tensor **const wanted[] = {&grads.x, &grads.y, &grads.bandwidth, &grads.regularization,
                                    &grads.v};

    for (int i = q->row->only_scalars ? 2 : 0; i < 5; i++)
        *wanted[i] = same && i == 1 ? NULL : &q->out_there[i].t;
    return need ? gram_kernel_matmul_vjp_workspace(h->g, x, y, options, &q->v_there.t,
                                                   &q->grad_there.t, &grads, need)
                : gram_kernel_matmul_vjp(h->g, x, y, options, &q->v_there.t, &q->grad_there.t,
                                         &grads);
}

static gram_status call_reduction(struct harness *h, struct problem *q, gram_kernel_options *kernel,
                                  gram_workspace *need)
{
    const struct vjp_row *row = q->row;
    const gram_tensor *x = &q->x_there.t, *y = row->same ? NULL : &q->y_there.t;
    const gram_tensor *v = has_v(row) ? &q->v_there.t : NULL;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    gram_tensor **const wanted[] = {
        &grads.x, &grads.y, &grads.bandwidth, &grads.regularization, &grads.v, &grads.log_weights};

    options.scale = row->reduce_scale;
    options.log_weights = row->logs ? &q->logs_there.t : NULL;
    for (int i = row->only_scalars ? 2 : 0; i < OUTPUTS; i++)
        *wanted[i] = (row->same && i == 1) || !has_output(row, i) ? NULL : &q->out_there[i].t;
    return need ? gram_kernel_reduce_vjp_workspace(h->g, x, y, kernel, row->what, v, &options,
                                                   &q->grad_there.t, &grads, need)
                : gram_kernel_reduce_vjp(h->g, x, y, kernel, row->what, v, &options,
                                         &q->grad_there.t, &grads);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *x = &q->x_there.t, *y = q->row->same ? NULL : &q->y_there.t,
                      *grad = &q->grad_there.t;
    gram_kernel_options options = q->options;
    gram_kernel_grads grads = {0};
    gram_tensor **const wanted[] = {&grads.x, &grads.y, &grads.bandwidth, &grads.regularization};

    for (int i = q->row->only_scalars ? 2 : 0; i < 4; i++)
        *wanted[i] = &q->out_there[i].t;
    if (q->row->per_item)
        options.bandwidth = gram_values(&q->bandwidth_there.t);
    if (q->row->what)
        return call_reduction(h, q, &options, need);
    if (q->row->r)
        return call_product(h, q, &options, need);
    return need ? gram_kernel_vjp_workspace(h->g, x, y, &options, grad, &grads, need)
                : gram_kernel_vjp(h->g, x, y, &options, grad, &grads);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[6 + OUTPUTS] = {
        {                                  &q->x,         &q->x_there},
        {                                  &q->y,         &q->y_there},
        {                               &q->grad,      &q->grad_there},
        {q->row->per_item ? &q->bandwidth : NULL, &q->bandwidth_there},
        {           has_v(q->row) ? &q->v : NULL,         &q->v_there},
        {         q->row->logs ? &q->logs : NULL,      &q->logs_there},
    };

    for (int i = 0; i < OUTPUTS; i++)
        pairs[i + 6] =
            (struct test_pair){has_output(q->row, i) ? &q->out[i] : NULL, &q->out_there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* Beside what products have: sums over both sides, and exponents of the size of scale K. */
static int64_t soft_terms(const struct problem *q)
{
    return q->row->m + 2 * (q->row->same ? q->row->m : q->row->n) +
           (int64_t)(40 * fabs(q->row->reduce_scale));
}

/* scale: what terms of size 1 would sum to, for the rounding of kernels and of inner products. */
static void compare(struct harness *h, const struct problem *q, int which, int64_t i,
                    const double want_magnitude_scale[3])
{
    double got = test_at(&q->out[which].t, i), want = want_magnitude_scale[0];
    const double terms = (double)(q->row->k + q->row->r + (q->row->what ? soft_terms(q) : 0));
    double bound = (terms + 300) * test_eps(real_of(q->row)) *
                   (want_magnitude_scale[1] + want_magnitude_scale[2]);

    CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound,
          "element %lld of %s is %.9g, expected %.9g +- %.2g", (long long)i, out_names[which], got,
          want, bound);
}

/* How many terms of size 1 an element of the cotangent is. */
static double columns_of(const struct problem *q)
{
    if (q->row->what)
        return q->size * fabs(q->row->reduce_scale);
    return (double)(q->row->r ? q->row->r : 1);
}

static void check_points(struct harness *h, const struct problem *q, bool of_y)
{
    const gram_tensor *t = of_y ? q->in.y : q->in.x, *other = of_y ? q->in.x : q->in.y;
    int64_t rows = t->shape[t->ndim - 2], k = t->shape[t->ndim - 1], at = 0;
    double scale = (double)other->shape[other->ndim - 2] * columns_of(q);

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < k; j++) {
                const int64_t place[3] = {item, i, j};
                double magnitude = 0, more = 0,
                       want = reference_vjp_points(&q->in, &q->batch, place, of_y, &magnitude);
                if (has_factors(q->row) && q->row->same)
                    want += reference_vjp_points(&q->in, &q->batch, place, true, &more);
                magnitude += more;
                compare(h, q, of_y, at++, (double[]){want, magnitude, scale});
            }
}

static void check_scalars(struct harness *h, const struct problem *q)
{
    double scale = (double)(q->in.x->shape[q->in.x->ndim - 2] * q->in.y->shape[q->in.y->ndim - 2]) *
                   columns_of(q);

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int i = 2; i < 4; i++) {
            double magnitude,
                want = reference_vjp_scalar(&q->in, &q->batch, item, i == 3, &magnitude);
            compare(h, q, i, item, (double[]){want, magnitude, scale});
        }
}

/* grads.v: the transposed matrix times grad. */
static void check_v(struct harness *h, const struct problem *q)
{
    const int64_t m = q->row->m, n = q->row->same ? m : q->row->n, r = q->row->r;
    int64_t at = 0;

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t c = 0; c < r; c++) {
                double want = 0, magnitude = 0;
                for (int64_t i = 0; i < m; i++) {
                    double k = q->row->what ? q->weights[(item * m + i) * n + j]
                                            : reference_kernel(q->in.x, q->in.y, &q->options,
                                                               &q->batch, (int64_t[]){item, i, j});
                    k *= reference_element(&q->grad.t, &q->batch, item, 2, (int64_t[]){i, c});
                    want += k, magnitude += fabs(k);
                }
                compare(h, q, 4, at++, (double[]){want, magnitude, (double)m});
            }
}

/* grads.log_weights: the sums of the columns of the cotangent, but for the scale. */
static void check_logs(struct harness *h, const struct problem *q)
{
    const struct vjp_row *row = q->row;
    const int64_t m = row->m, n = row->same ? m : row->n;
    int64_t at = 0;

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t j = 0; j < n && row->reduce_scale != 0; j++) {
            double want = 0;
            for (int64_t i = 0; i < m; i++)
                want += test_at(&q->cotangent.t, (item * m + i) * n + j) / row->reduce_scale;
            compare(h, q, 5, at++, (double[]){want, 0, (double)m * q->size});
        }
}

/* ---- Central differences ------------------------------------------------------------------- */

/* The sum of grad times the reduction as gram_kernel_reduce computes it in f64. */
static double soft_objective(struct harness *h, struct problem *q)
{
    const struct vjp_row *row = q->row;
    const int64_t columns = has_v(row) ? row->r : 1;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    double sum = 0, *values = dense_doubles(row->m * columns);
    gram_tensor out = has_v(row) ? gram_matrix(values, row->m, row->r, GRAM_F64)
                                 : gram_vector(values, row->m, GRAM_F64);

    options.scale = row->reduce_scale;
    options.log_weights = row->logs ? &q->logs.t : NULL;
    if (!CHECK(h,
               gram_kernel_reduce(h->g, &q->x.t, &q->y.t, &q->options, row->what,
                                  has_v(row) ? &q->v.t : NULL, &options, &out, NULL) == GRAM_OK,
               "%s", gram_message(h->g)))
        sum = NAN;
    for (int64_t i = 0; i < row->m * columns; i++)
        sum += values[i] * test_at(&q->grad.t, i);
    free(values);
    return sum;
}

/* sum_ij grad[i, j] K[i, j] as gram_kernel computes K in f64, with *place moved by step. */
static double objective(struct harness *h, struct problem *q, double *place, double step)
{
    int64_t m = q->row->m, n = q->row->n;
    double kept = *place, sum = 0, *k = malloc((size_t)(m * n) * sizeof *k);
    gram_tensor out = gram_matrix(k, m, n, GRAM_F64);

    *place += step;
    if (q->row->what) {
        sum = soft_objective(h, q);
        *place = kept;
        free(k);
        return sum;
    }
    if (!k || !CHECK(h, gram_kernel(h->g, &q->x.t, &q->y.t, &q->options, &out) == GRAM_OK, "%s",
                     gram_message(h->g)))
        sum = NAN;
    for (int64_t i = 0; k && i < m * n; i++)
        sum += k[i] * test_at(q->in.grad, i);
    *place = kept;
    free(k);
    return sum;
}

/* Of order 4: the error is about 1e-20 of the fifth derivative plus 1e-11 of rounding. */
static void check_slope(struct harness *h, struct problem *q, double *place, const char *name,
                        double got)
{
    const double step = 1e-4;
    double near = objective(h, q, place, step) - objective(h, q, place, -step);
    double far = objective(h, q, place, 2 * step) - objective(h, q, place, -2 * step);
    double want = (8 * near - far) / (12 * step);

    CHECK(h, fabs(got - want) <= 1e-8 * (1 + fabs(want)), "%s is %.12g, by differences %.12g", name,
          got, want);
}

static void check_differences(struct harness *h, struct problem *q)
{
    for (int which = 0; which < 2; which++) {
        double *place = which ? q->y.t.data : q->x.t.data;
        int64_t count = test_count(which ? &q->y.t : &q->x.t);
        for (int64_t i = 0; i < count; i++)
            check_slope(h, q, place + i, out_names[which], test_at(&q->out[which].t, i));
    }
    for (int64_t i = 0; has_v(q->row) && q->row->what && i < test_count(&q->v.t); i++)
        check_slope(h, q, (double *)q->v.t.data + i, out_names[4], test_at(&q->out[4].t, i));
    for (int64_t i = 1; q->row->logs && i < test_count(&q->logs.t); i++) /* not -INFINITY */
        check_slope(h, q, (double *)q->logs.t.data + i, out_names[5], test_at(&q->out[5].t, i));
    check_slope(h, q, &q->options.bandwidth.value, out_names[2], test_at(&q->out[2].t, 0));
    check_slope(h, q, &q->options.regularization.value, out_names[3], test_at(&q->out[3].t, 0));
}

void vjp_row_check(struct harness *h, const struct vjp_row *row, bool differences)
{
    struct problem q;

    setup(h, row, &q);
    if (run(h, &q)) {
        for (int of_y = 0; of_y < 2 && !row->only_scalars; of_y++)
            if (!(of_y && has_factors(row) && row->same)) /* the first has both */
                check_points(h, &q, of_y);
        if (has_v(row))
            check_v(h, &q);
        if (row->what)
            check_logs(h, &q);
        check_scalars(h, &q);
        if (differences && h->device.type == GRAM_CPU) /* they move numbers in place */
            check_differences(h, &q);
    }
    finish(h, &q);
}

void vjp_row_label(const struct vjp_row *row, char *text, size_t size)
{
    snprintf(text, size, "%lldx%lldx%lld r=%lld %s inner=%d function=%d p=%g outer=%.3g: %s",
             (long long)row->m, (long long)row->n, (long long)row->k, (long long)row->r,
             dtype_names[row->dtype], (int)row->inner, (int)row->function, row->p, row->outer,
             row->why);
}
