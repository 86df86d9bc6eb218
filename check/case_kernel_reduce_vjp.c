/*
 * case_kernel_reduce_vjp.c - the rows of gram_kernel_reduce_vjp, and a grid of all kernels
 *
 * The gradients go by blocks of 1024 by 1024 on a CPU, and of 4096 by 4096 on CUDA.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "vjp_bench.h"
#include "vjp_problem.h"
#include <math.h>

/* clang-format off */
#define LSE     .what = GRAM_REDUCE_LOGSUMEXP
#define SOFTMAX .what = GRAM_REDUCE_SOFTMAX
#define DIFFERENCE(f, power, root) \
    .inner = GRAM_DIFFERENCE, .function = (f), .p = (power), .outer = (root)
#define PRODUCT(f) .inner = GRAM_DOT, .function = (f), .p = 2, .outer = 1
#define LAPLACE  DIFFERENCE(GRAM_LAPLACE, 1, 1), .reduce_scale = 1
#define GAUSSIAN DIFFERENCE(GRAM_GAUSSIAN, 2, 1), .reduce_scale = 1
#define DISTANCE DIFFERENCE(GRAM_IDENTITY, 2, 0.5)
#define LARGEST  DIFFERENCE(GRAM_LAPLACE, (double)INFINITY, 1), .reduce_scale = 1
#define DOT      PRODUCT(GRAM_IDENTITY)
#define COSINE   PRODUCT(GRAM_COSINE), .reduce_scale = 3

static const struct vjp_row rows[] = {
    {LSE, LAPLACE, .m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .why = "smallest"},
    {SOFTMAX, LAPLACE, .m = 1, .n = 1, .k = 1, .r = 1, .dtype = GRAM_F32, .why = "smallest"},
    {LSE, GAUSSIAN, .m = 0, .n = 3, .k = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {SOFTMAX, GAUSSIAN, .m = 0, .n = 3, .k = 2, .r = 2, .dtype = GRAM_F32, .logs = true,
     .why = "no rows of x"},
    {LSE, GAUSSIAN, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .why = "no rows of y"},
    {SOFTMAX, GAUSSIAN, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows of y"},
    {SOFTMAX, GAUSSIAN, .m = 0, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows"},
    {LSE, DOT, .reduce_scale = 1, .m = 3, .n = 4, .k = 0, .dtype = GRAM_F64,
     .why = "no coordinates"},
    {SOFTMAX, GAUSSIAN, .m = 5, .n = 7, .k = 2, .r = 0, .dtype = GRAM_F64,
     .why = "no columns of v"},
    {LSE, GAUSSIAN, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "Gaussian"},
    {SOFTMAX, GAUSSIAN, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F32, .why = "Gaussian"},
    {SOFTMAX, GAUSSIAN, .m = 40, .n = 50, .k = 5, .r = 2, .dtype = GRAM_F64, .logs = true,
     .why = "log-weights"},
    {LSE, DIFFERENCE(GRAM_LAPLACE, 1, 1), .reduce_scale = 2, .m = 40, .n = 50, .k = 5,
     .dtype = GRAM_F32, .logs = true,
     .why = "log-weights and a scale"},
    {LSE, GAUSSIAN, .m = 4, .n = 1, .k = 2, .dtype = GRAM_F64, .logs = true,
     .why = "one column"},
    {LSE, DISTANCE, .reduce_scale = -3, .m = 30, .n = 1100, .k = 3, .dtype = GRAM_F64,
     .logs = true, .why = "a soft minimum, two blocks of columns"},
    {SOFTMAX, DISTANCE, .reduce_scale = -30, .m = 1030, .n = 5, .k = 2, .r = 2,
     .dtype = GRAM_F32, .logs = true, .why = "two blocks of rows"},
    {SOFTMAX, DOT, .reduce_scale = 40, .m = 20, .n = 30, .k = 4, .r = 2, .dtype = GRAM_F32,
     .why = "attention, exponents that would overflow"},
    {LSE, DISTANCE, .reduce_scale = 0, .m = 4, .n = 60, .k = 5, .dtype = GRAM_F64,
     .why = "all exponents 0"},
    {SOFTMAX, DISTANCE, .reduce_scale = -4, .m = 40, .k = 3, .r = 1, .dtype = GRAM_F64,
     .same = true, .why = "y is x"},
    {LSE, LAPLACE, .m = 40, .k = 3, .dtype = GRAM_F32, .same = true, .logs = true,
     .why = "y is x"},
    {SOFTMAX, COSINE, .m = 30, .n = 40, .k = 5, .r = 2, .dtype = GRAM_F64, .why = "cosine"},
    {LSE, COSINE, .m = 30, .k = 5, .dtype = GRAM_F32, .same = true, .why = "cosine, y is x"},
    {SOFTMAX, LARGEST, .m = 30, .n = 40, .k = 5, .r = 2, .dtype = GRAM_F64,
     .why = "p = infinity"},
    {SOFTMAX, DISTANCE, .reduce_scale = -2, .m = 40, .k = 2, .r = 2, .dtype = GRAM_F32,
     .data = VJP_INTEGERS, .same = true, .why = "points that coincide"},
    {SOFTMAX, COSINE, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F64, .data = VJP_ZERO_ROW,
     .why = "a norm of 0"},
    {LSE, GAUSSIAN, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F64, .data = VJP_NAN,
     .why = "NaN in one row"},
    {SOFTMAX, GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F32, .data = VJP_NAN,
     .logs = true, .why = "NaN in one row"},
    {SOFTMAX, LAPLACE, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F64, .only_scalars = true,
     .logs = true, .why = "only numbers, v and log-weights"},
    {SOFTMAX, LAPLACE, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F64,
     .x_layout = COLUMN_MAJOR, .y_layout = EVERY_SECOND, .grad_layout = COLUMN_MAJOR,
     .out_layout = EVERY_SECOND, .v_layout = REVERSED, .why = "strides"},
    {SOFTMAX, GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 3, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .grad_layout = EVERY_SECOND, .out_layout = REVERSED,
     .v_layout = COLUMN_MAJOR, .logs = true, .why = "strides"},
    {SOFTMAX, LAPLACE, .m = 9, .n = 7, .k = 3, .r = 2, .x_batch = 3, .y_batch = 3, .grad_batch = 3,
     .v_batch = 3, .dtype = GRAM_F32, .per_item = true, .why = "a batch, another L for every item"},
    {LSE, GAUSSIAN, .m = 9, .n = 7, .k = 3, .x_batch = 3, .dtype = GRAM_F64, .logs = true,
     .why = "y, the log-weights and grad broadcast"},
    {LSE, GAUSSIAN, .m = 9, .k = 3, .grad_batch = 3, .dtype = GRAM_F64, .same = true,
     .why = "a batch of grad alone"},
    {SOFTMAX, GAUSSIAN, .m = 9, .n = 7, .k = 3, .r = 2, .v_batch = 3, .dtype = GRAM_F64,
     .why = "a batch of v alone"},
    {SOFTMAX, LAPLACE, .m = 3, .n = 2, .k = 2, .r = 2, .x_batch = 150, .y_batch = 150,
     .dtype = GRAM_F64, .out_layout = PADDED, .logs = true, .why = "many tiny items"},
    {SOFTMAX, LAPLACE, .m = 9, .n = 7, .k = 3, .r = 2, .dtype = GRAM_F64, .row_offset = 5,
     .column_offset = 8, .why = "a tile below the diagonal's start"},
    {LSE, LAPLACE, .m = 9, .n = 7, .k = 3, .dtype = GRAM_F64, .row_offset = 6,
     .column_offset = 4, .why = "a tile above the diagonal's start"},
    {LSE, LAPLACE, .m = 9, .k = 3, .dtype = GRAM_F64, .row_offset = 2, .same = true,
     .why = "y is x, but not the diagonal's place"},
    {LSE, LAPLACE, .m = 9, .n = 7, .k = 3, .dtype = GRAM_F64, .row_offset = 100,
     .why = "a tile off the diagonal"},
    {LSE, LAPLACE, .m = 3, .n = 1030, .k = 2, .dtype = GRAM_F64, .row_offset = 1023,
     .why = "the diagonal in two blocks"},
    {SOFTMAX, GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F16, .logs = true,
     .why = "halves"},
    {LSE, LAPLACE, .m = 20, .k = 3, .dtype = GRAM_BF16, .same = true, .why = "bfloat16"},
};
/* clang-format on */

static const double powers[] = {0.7, 1, 1.3, 2, 3};
static const gram_function of_difference[] = {GRAM_IDENTITY,          GRAM_LAPLACE,  GRAM_GAUSSIAN,
                                              GRAM_EXPONENTIAL_POWER, GRAM_MATERN32, GRAM_MATERN52,
                                              GRAM_RATIONAL_QUADRATIC};
static const gram_function of_product[] = {GRAM_IDENTITY, GRAM_POLYNOMIAL, GRAM_SIGMOID,
                                           GRAM_COSINE};

enum {
    DIFFERENCES = 2 * LENGTH(powers) * LENGTH(of_difference),
    GRID = DIFFERENCES + LENGTH(of_product) /* of the average, and once more of the logarithm */
};

static struct vjp_row grid_row(int at)
{
    const int i = at % GRID;
    struct vjp_row row = {.what = at < GRID ? GRAM_REDUCE_SOFTMAX : GRAM_REDUCE_LOGSUMEXP,
                          .m = 4,
                          .n = 3,
                          .k = 2,
                          .r = at < GRID ? 2 : 0,
                          .reduce_scale = at < GRID ? 0.5 : -0.7,
                          .logs = true,
                          .dtype = GRAM_F64,
                          .row_offset = 1,
                          .why = "by differences"};

    if (i >= DIFFERENCES) {
        row.inner = GRAM_DOT, row.p = 2, row.outer = 1;
        row.function = of_product[i - DIFFERENCES];
    } else {
        row.inner = GRAM_DIFFERENCE;
        row.function = of_difference[i / 2 / LENGTH(powers)];
        row.p = powers[i / 2 % LENGTH(powers)];
        row.outer = i % 2 ? 1 / row.p : 1;
    }
    return row;
}

static void label(int row, char *text, size_t size)
{
    const struct vjp_row made = row < LENGTH(rows) ? rows[row] : grid_row(row - LENGTH(rows));
    const int used = snprintf(text, size, "what=%d ", (int)made.what);

    vjp_row_label(&made, text + used, size - (size_t)used);
}

static void check(struct harness *h, int row)
{
    const struct vjp_row made = row < LENGTH(rows) ? rows[row] : grid_row(row - LENGTH(rows));

    vjp_row_check(h, &made, row >= LENGTH(rows));
}

/* ---- A problem of any size ------------------------------------------------------------------ */

static gram_status bench_run(gram_context *g, void *state)
{
    struct vjp_bench *s = state;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;

    options.scale = s->scale;
    grads.x = &s->to_x;
    return gram_kernel_reduce_vjp(g, &s->x, &s->y, &s->kernel, GRAM_REDUCE_SOFTMAX, &s->v, &options,
                                  &s->grad, &grads);
}

/* By weights in double. */
static double cotangent_of(const struct vjp_bench *s, int64_t i, double *to)
{
    const struct reference_batch batch = {.count = 1};
    const int64_t n = s->v.shape[0], r = s->v.shape[1];
    double logarithm, mean = 0, most = 0;

    for (int64_t j = 0; j < n; j++)
        to[j] = s->scale * reference_kernel(&s->x, &s->y, &s->kernel, &batch, (int64_t[]){0, i, j});
    logarithm = reference_logsumexp(n, to, 1);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < n; j++) {
            const double w = pass ? to[j] : exp(to[j] - logarithm);
            double d = 0;
            for (int64_t c = 0; c < r; c++)
                d += test_get(&s->grad, (int64_t[]){i, c}) * test_get(&s->v, (int64_t[]){j, c});
            if (pass)
                most = fmax(most, w * ((double)r + fabs(mean))), to[j] = s->scale * w * (d - mean);
            else
                to[j] = w, mean += w * d;
        }
    return fabs(s->scale) * most;
}

static double bench_error(struct harness *h, void *state)
{
    const struct vjp_bench *s = state;
    const int64_t terms = 2 * s->v.shape[0] + s->x.shape[1] + s->v.shape[1];

    return vjp_bench_error(h, s, 20, terms, cotangent_of);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    if (!vjp_bench_prepare(h, args, out))
        return false;
    out->run = bench_run, out->error = bench_error;
    return true;
}

const struct case_op case_kernel_reduce_vjp = {
    .name = "kernel_reduce_vjp",
    .sizes = "M N K R",
    .params = "p=1 q=p bandwidth=1 scale=1 dtype=f32",
    .rows = LENGTH(rows) + 2 * GRID,
    .label = label,
    .check = check,
    .prepare = prepare,
};
