/*
 * kron_vjp_problem.c - rows of gram_kron_matmul_vjp: data, the call, every element checked
 *
 * Everything is turned into products from the right on arrays of doubles, for which
 * reference_kron_matmul_vjp says what the gradients are; with the magnitudes of all numbers it
 * gives the magnitudes of their sums.  In f64 some are also compared with central differences.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_problem.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    X = GRAM_MAX_FACTORS, /* the matrices: factors, then these */
    GRAD,
    MATRICES
};

struct problem {
    const struct kron_vjp_row *row;
    struct test_tensor in[MATRICES], out[MATRICES], alpha;
    struct test_copy in_there[MATRICES], out_there[MATRICES], alpha_there;
    struct reference_batch batch;
    gram_kron_options options;
    double *value[MATRICES];                 /* of an item, from the right */
    double *want[MATRICES], *size[MATRICES]; /* of all items of a gradient, and their magnitudes */
};

/* ---- Shapes -------------------------------------------------------------------------------- */

static int64_t product(const struct kron_vjp_row *row, int which)
{
    int64_t all = 1;

    for (int f = 0; f < row->count; f++)
        all *= row->size[f][which];
    return all;
}

/* True if a matrix is the transpose of what a product from the right has. */
static bool is_turned(const struct kron_vjp_row *row, int i)
{
    bool left = row->side == GRAM_LEFT;

    if (i == GRAD)
        return left;
    return left != (i == X ? row->transpose_x : (row->transpose_factors >> i & 1));
}

/* Rows and columns from the right. */
static void sizes_of(const struct kron_vjp_row *row, int i, int64_t size[2])
{
    int p = row->side == GRAM_LEFT, q = !p;

    size[0] = i < X ? row->size[i][p] : row->m;
    size[1] = i < X ? row->size[i][q] : product(row, i == X ? p : q);
}

static bool is_wanted(const struct kron_vjp_row *row, int i)
{
    return i == X ? !(row->left_out & KRON_VJP_X) : i < row->count && !(row->left_out >> i & 1);
}

static bool exists(const struct kron_vjp_row *row, int i)
{
    return i < row->count || i >= X;
}

static void create(struct harness *h, const struct problem *q, int i, struct test_tensor *t)
{
    const struct kron_vjp_row *row = q->row;
    const int64_t *batch = i == X      ? row->x_batch
                           : i == GRAD ? row->grad_batch
                                       : row->factor_batch[i % 2];
    enum layout layout = i == X ? row->x_layout : i == GRAD ? row->grad_layout : row->layout[i % 2];
    int64_t shape[4], size[2];
    int ndim = 0;

    sizes_of(row, i, size);
    for (int b = 0; b < 2 && batch[b]; b++)
        shape[ndim++] = batch[b];
    shape[ndim++] = size[is_turned(row, i)], shape[ndim++] = size[!is_turned(row, i)];
    test_tensor_create(h, t, row->dtype, layout, ndim, shape);
}

static void setup(struct harness *h, struct problem *q)
{
    const gram_tensor *tensors[MATRICES] = {NULL};
    int core[MATRICES];

    for (int i = 0; i < MATRICES; i++) {
        core[i] = 2;
        if (!exists(q->row, i))
            continue;
        create(h, q, i, &q->in[i]);
        test_fill_uniform(h, &q->in[i], -1, 1);
        if (i == GRAD && q->row->nan)
            test_put(&q->in[i].t, 1, NAN);
        test_tensor_freeze(&q->in[i]);
        tensors[i] = &q->in[i].t;
        if (is_wanted(q->row, i))
            create(h, q, i, &q->out[i]);
    }
    q->batch = reference_join(MATRICES, tensors, core);
    q->options = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    q->options.side = q->row->side;
    q->options.transpose_x = q->row->transpose_x;
    q->options.transpose_factors = q->row->transpose_factors;
    if (q->row->alpha != 0)
        q->options.alpha.value = q->row->alpha;
    if (!q->row->alpha_per_item)
        return;
    test_tensor_create(h, &q->alpha, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){q->row->x_batch[0], 1});
    for (int64_t i = 0; i < test_count(&q->alpha.t); i++)
        test_put(&q->alpha.t, i, q->row->alpha + (double)i);
    q->options.alpha = gram_values(&q->alpha.t);
}

static void finish(struct harness *h, struct problem *q)
{
    for (int i = 0; i < MATRICES; i++) {
        if (exists(q->row, i))
            test_tensor_destroy(h, &q->in[i], "an input");
        if (is_wanted(q->row, i))
            test_tensor_destroy(h, &q->out[i], "a gradient");
        free(q->value[i]);
        free(q->want[i]);
        free(q->size[i]);
    }
    if (q->row->alpha_per_item)
        test_tensor_destroy(h, &q->alpha, "alpha");
}

/* ---- The call ------------------------------------------------------------------------------ */

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_tensor *to[GRAM_MAX_FACTORS] = {NULL};
    gram_kron_options options = q->options;
    gram_kron_grads grads = {.factors = to};

    for (int i = 0; i < q->row->count; i++) {
        factors[i] = &q->in_there[i].t;
        to[i] = is_wanted(q->row, i) ? &q->out_there[i].t : NULL;
    }
    grads.x = is_wanted(q->row, X) ? &q->out_there[X].t : NULL;
    if (q->row->alpha_per_item)
        options.alpha = gram_values(&q->alpha_there.t);
    if (need)
        return gram_kron_matmul_vjp_workspace(h->g, &q->in_there[X].t, factors, q->row->count,
                                              &options, &q->in_there[GRAD].t, &grads, need);
    return gram_kron_matmul_vjp(h->g, &q->in_there[X].t, factors, q->row->count, &options,
                                &q->in_there[GRAD].t, &grads);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[2 * MATRICES + 1] = {
        {q->row->alpha_per_item ? &q->alpha : NULL, &q->alpha_there}
    };

    for (int i = 0; i < MATRICES; i++) {
        pairs[2 * i + 1] =
            (struct test_pair){exists(q->row, i) ? &q->in[i] : NULL, &q->in_there[i]};
        pairs[2 * i + 2] =
            (struct test_pair){is_wanted(q->row, i) ? &q->out[i] : NULL, &q->out_there[i]};
    }
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- What is right ------------------------------------------------------------------------- */

/* The item of a tensor's own batch that an item of the joined batch sees. */
static int64_t own_item(const struct problem *q, const gram_tensor *t, int64_t item)
{
    int64_t own = 0, step = 1;

    for (int d = q->batch.ndim - 1; d >= 0; d--) {
        int in_t = d - (q->batch.ndim - (t->ndim - 2));
        int64_t at = item % q->batch.shape[d];
        item /= q->batch.shape[d];
        if (in_t < 0)
            break;
        own += (t->shape[in_t] == 1 ? 0 : at) * step;
        step *= t->shape[in_t];
    }
    return own;
}

/* Where element (r, c) from the right stands in a tensor, counted in row-major order. */
static int64_t place_of(const struct problem *q, int i, int64_t item, int64_t r, int64_t c)
{
    const gram_tensor *t = &q->in[i].t;
    int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];

    return (own_item(q, t, item) * rows + (is_turned(q->row, i) ? c : r)) * cols +
           (is_turned(q->row, i) ? r : c);
}

static double alpha_of(const struct problem *q, int64_t item)
{
    return reference_scalar(q->options.alpha, &q->batch, item);
}

/* Takes an item out of the tensors, and asks the reference; of_size: of magnitudes. */
static void add_item(struct problem *q, int64_t item, bool of_size)
{
    struct reference_kron_vjp in = {.count = q->row->count, .rows = q->row->m};
    double *to[MATRICES] = {NULL};
    int64_t size[2];

    in.alpha = of_size ? fabs(alpha_of(q, item)) : alpha_of(q, item);
    for (int i = 0; i < MATRICES; i++) {
        if (!exists(q->row, i))
            continue;
        sizes_of(q->row, i, size);
        to[i] = dense_doubles(size[0] * size[1]);
        for (int64_t e = 0; e < size[0] * size[1]; e++) {
            double v = test_at(&q->in[i].t, place_of(q, i, item, e / size[1], e % size[1]));
            q->value[i][e] = of_size ? fabs(v) : v;
        }
        if (i < X)
            in.factor[i] = q->value[i], memcpy(in.size[i], size, sizeof size);
    }
    in.x = q->value[X], in.grad = q->value[GRAD];
    reference_kron_matmul_vjp(&in, to[X], to);
    for (int i = 0; i < MATRICES; i++) {
        double *sums = of_size ? q->size[i] : q->want[i];
        sizes_of(q->row, i, size);
        for (int64_t e = 0; sums && e < size[0] * size[1]; e++)
            sums[place_of(q, i, item, e / size[1], e % size[1])] += to[i][e];
        free(to[i]);
    }
}

/* Roundings of an element at most: one a term of every sum that it goes through. */
static double roundings(const struct problem *q, int i)
{
    double sum = 8 + (double)q->batch.count, others = (double)q->row->m;

    for (int f = 0; f < q->row->count; f++) {
        double most = fmax((double)q->row->size[f][0], (double)q->row->size[f][1]);
        sum += most;
        others *= f == i ? 1 : most;
    }
    return i == X ? sum : sum + others;
}

static void check_gradient(struct harness *h, const struct problem *q, int i)
{
    double bound = roundings(q, i) * test_eps(q->row->dtype);

    for (int64_t e = 0; e < test_count(&q->out[i].t); e++) {
        double got = test_at(&q->out[i].t, e), want = q->want[i][e];
        CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound * q->size[i][e],
              "gradient of %s %d, element %lld is %.17g, expected %.17g +- %.2g",
              i == X ? "x" : "factor", i == X ? 0 : i, (long long)e, got, want,
              bound * q->size[i][e]);
    }
}

/* ---- Central differences ------------------------------------------------------------------- */

/* The sum of grad y over all items, with one element of a matrix changed. */
static double loss(const struct problem *q, int i, int64_t place, double change)
{
    const struct kron_vjp_row *row = q->row;
    int64_t k_size[2], j_size[2];
    double sum = 0, kept = test_at(&q->in[i].t, place);

    test_put(&q->in[i].t, place, kept + change);
    sizes_of(row, X, k_size), sizes_of(row, GRAD, j_size);
    for (int64_t e = 0; e < q->batch.count * row->m * k_size[1] * j_size[1]; e++) {
        int64_t j = e % j_size[1], k = e / j_size[1] % k_size[1], rest = e / j_size[1] / k_size[1];
        int64_t m = rest % row->m, item = rest / row->m, at_k = k, at_j = j;
        double term = alpha_of(q, item) * test_at(&q->in[X].t, place_of(q, X, item, m, k)) *
                      test_at(&q->in[GRAD].t, place_of(q, GRAD, item, m, j));
        for (int f = row->count - 1; f >= 0; f--) {
            int64_t size[2];
            sizes_of(row, f, size);
            term *= test_at(&q->in[f].t, place_of(q, f, item, at_k % size[0], at_j % size[1]));
            at_k /= size[0], at_j /= size[1];
        }
        sum += term;
    }
    test_put(&q->in[i].t, place, kept);
    return sum;
}

/* The sum is linear in each matrix, so that a difference is as exact as its sums. */
static void check_differences(struct harness *h, const struct problem *q, int i)
{
    const double step = 0.5;

    for (int64_t e = 0; e < test_count(&q->out[i].t); e += 1 + test_count(&q->out[i].t) / 7) {
        double slope = (loss(q, i, e, step) - loss(q, i, e, -step)) / (2 * step);
        double got = test_at(&q->out[i].t, e);
        CHECK(h, fabs(got - slope) <= 1e-10 * (1 + fabs(slope)),
              "gradient of %s %d, element %lld is %.17g, but the difference %.17g",
              i == X ? "x" : "factor", i == X ? 0 : i, (long long)e, got, slope);
    }
}

void kron_vjp_row_check(struct harness *h, const struct kron_vjp_row *row)
{
    struct problem q = {.row = row};
    double terms;

    setup(h, &q);
    terms = (double)(q.batch.count * row->m * product(row, 0)) * (double)product(row, 1);
    for (int i = 0; i < MATRICES; i++) {
        int64_t size[2] = {0, 0};
        if (exists(row, i))
            sizes_of(row, i, size);
        q.value[i] = dense_doubles(size[0] * size[1]);
        if (!is_wanted(row, i))
            continue;
        q.want[i] = dense_doubles(test_count(&q.out[i].t));
        q.size[i] = dense_doubles(test_count(&q.out[i].t));
    }
    if (run(h, &q)) {
        for (int64_t item = 0; item < 2 * q.batch.count; item++)
            add_item(&q, item / 2, item % 2);
        for (int i = 0; i < MATRICES; i++) {
            if (is_wanted(row, i))
                check_gradient(h, &q, i);
            if (is_wanted(row, i) && row->dtype == GRAM_F64 && terms < 3000 && !row->nan)
                check_differences(h, &q, i);
        }
    }
    finish(h, &q);
}
