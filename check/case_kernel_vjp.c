/*
 * case_kernel_vjp.c - the rows of gram_kernel_vjp, and a grid of all kernels by differences
 *
 * The grid has every function of a difference with every p and with and without its root, and every
 * function of an inner product, in f64 against central differences of gram_kernel.  The rows are
 * about sizes, strides and batches; a block of the kernel matrix is 1024 by 1024, on CUDA 4096 by
 * 4096.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "vjp_problem.h"
#include <math.h>
#include <stdlib.h>

/* clang-format off */
#define DIFFERENCE(f, power, root) \
    .inner = GRAM_DIFFERENCE, .function = (f), .p = (power), .outer = (root)
#define PRODUCT(f) .inner = GRAM_DOT, .function = (f), .p = 2, .outer = 1
#define LAPLACE_L1 DIFFERENCE(GRAM_LAPLACE, 1, 1)
#define LAPLACE_L2 DIFFERENCE(GRAM_LAPLACE, 2, 0.5)
#define LAPLACE_LARGEST DIFFERENCE(GRAM_LAPLACE, (double)INFINITY, 1)
#define GAUSSIAN   DIFFERENCE(GRAM_GAUSSIAN, 2, 1)
#define LPQ        DIFFERENCE(GRAM_EXPONENTIAL_POWER, 1.3, 1 / 1.3)
#define CUBIC      PRODUCT(GRAM_POLYNOMIAL)
#define COSINE     PRODUCT(GRAM_COSINE)

static const struct vjp_row rows[] = {
    {LAPLACE_L1, .m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .why = "smallest"},
    {LAPLACE_L1, .m = 0, .n = 3, .k = 2, .dtype = GRAM_F32, .why = "no rows of x: y's are 0"},
    {CUBIC, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .why = "no rows of y: x's are 0"},
    {COSINE, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .why = "no rows of y: x's are 0"},
    {GAUSSIAN, .m = 3, .n = 4, .k = 0, .dtype = GRAM_F64, .why = "no columns"},
    {COSINE, .m = 3, .n = 4, .k = 0, .dtype = GRAM_F64, .why = "no columns"},
    {LAPLACE_L1, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "L1 Laplace"},
    {LAPLACE_L2, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "L2 Laplace"},
    {GAUSSIAN, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "Gaussian"},
    {LPQ, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "Lpq Laplace"},
    {CUBIC, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "polynomial"},
    {COSINE, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "cosine"},
    {LAPLACE_LARGEST, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "Laplace, p = infinity"},
    {LAPLACE_LARGEST, .m = 20, .n = 30, .k = 4, .dtype = GRAM_F64, .data = VJP_INTEGERS,
     .why = "several largest differences"},
    {LAPLACE_L1, .m = 4100, .n = 5, .k = 2, .dtype = GRAM_F32, .why = "blocks of rows"},
    {LAPLACE_L2, .m = 4, .n = 4100, .k = 2, .dtype = GRAM_F64, .why = "blocks of columns"},
    {COSINE, .m = 4100, .n = 3, .k = 2, .dtype = GRAM_F64, .why = "blocks of rows"},
    {COSINE, .m = 3, .n = 4100, .k = 2, .dtype = GRAM_F64, .why = "blocks of columns"},
    {LAPLACE_L1, .m = 20, .n = 30, .k = 4, .dtype = GRAM_F32, .data = VJP_INTEGERS, .why = "ties"},
    {LAPLACE_L2, .m = 20, .n = 30, .k = 2, .dtype = GRAM_F64, .data = VJP_INTEGERS,
     .why = "points that coincide"},
    {LPQ, .m = 20, .n = 30, .k = 2, .dtype = GRAM_F64, .data = VJP_INTEGERS,
     .why = "points that coincide"},
    {COSINE, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F64, .data = VJP_ZERO_ROW,
     .why = "a norm of 0"},
    {GAUSSIAN, .m = 20, .k = 3, .dtype = GRAM_F64, .same = true, .why = "y is x"},
    {LAPLACE_L2, .m = 20, .k = 3, .dtype = GRAM_F32, .same = true, .why = "y is x"},
    {LPQ, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F64, .only_scalars = true,
     .why = "only L and r"},
    {LPQ, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F64, .x_layout = COLUMN_MAJOR,
     .y_layout = EVERY_SECOND, .grad_layout = COLUMN_MAJOR, .out_layout = EVERY_SECOND,
     .why = "strides"},
    {GAUSSIAN, .m = 20, .n = 30, .k = 5, .dtype = GRAM_F16, .why = "halves"},
    {LAPLACE_L1, .m = 20, .n = 30, .k = 5, .dtype = GRAM_BF16, .x_layout = REVERSED,
     .why = "bfloat16"},
    {COSINE, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .grad_layout = EVERY_SECOND, .out_layout = COLUMN_MAJOR,
     .why = "strides"},
    {GAUSSIAN, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F64, .x_layout = PADDED,
     .y_layout = COLUMN_MAJOR, .grad_layout = ROWS_REPEATED, .out_layout = REVERSED,
     .why = "a grad that is broadcast"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .x_batch = 3, .y_batch = 3, .grad_batch = 3,
     .dtype = GRAM_F32, .per_item = true, .why = "a batch, another L for every item"},
    {CUBIC, .m = 9, .n = 7, .k = 3, .x_batch = 3, .dtype = GRAM_F64, .why = "y and grad broadcast"},
    {LPQ, .m = 2, .n = 3, .k = 1, .x_batch = 150, .y_batch = 150, .grad_batch = 150,
     .dtype = GRAM_F64, .per_item = true, .x_layout = EVERY_SECOND, .out_layout = PADDED,
     .why = "many tiny items"},
    {COSINE, .m = 3, .n = 2, .k = 2, .x_batch = 150, .y_batch = 150, .dtype = GRAM_F64,
     .out_layout = COLUMN_MAJOR, .why = "many tiny items, grad broadcast"},
    {CUBIC, .m = 1, .n = 40, .k = 2, .x_batch = 70, .dtype = GRAM_F32,
     .why = "many rows of one matrix"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .dtype = GRAM_F64, .row_offset = 5, .column_offset = 8,
     .why = "a tile below the diagonal's start"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .dtype = GRAM_F64, .row_offset = 6, .column_offset = 4,
     .why = "a tile above the diagonal's start"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .dtype = GRAM_F64, .row_offset = 100,
     .why = "a tile off the diagonal"},
};
/* clang-format on */

static const double powers[] = {0.7, 1, 1.3, 1.5, 2, 3};
static const gram_function of_difference[] = {GRAM_IDENTITY,          GRAM_LAPLACE,  GRAM_GAUSSIAN,
                                              GRAM_EXPONENTIAL_POWER, GRAM_MATERN32, GRAM_MATERN52,
                                              GRAM_RATIONAL_QUADRATIC};
static const gram_function of_product[] = {GRAM_IDENTITY, GRAM_POLYNOMIAL, GRAM_SIGMOID,
                                           GRAM_COSINE};

enum {
    DIFFERENCES = 2 * LENGTH(powers) * LENGTH(of_difference),
    GRID = DIFFERENCES + LENGTH(of_product)
};

static struct vjp_row grid_row(int i)
{
    struct vjp_row row = {
        .m = 4, .n = 3, .k = 2, .dtype = GRAM_F64, .row_offset = 1, .why = "by differences"};

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

    vjp_row_label(&made, text, size);
}

static void check(struct harness *h, int row)
{
    const struct vjp_row made = row < LENGTH(rows) ? rows[row] : grid_row(row - LENGTH(rows));

    vjp_row_check(h, &made, row >= LENGTH(rows));
}

/* ---- A problem of any size ------------------------------------------------------------------ */

struct bench {
    gram_tensor x, y, grad, to_x, to_y;
    gram_kernel_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;
    const gram_kernel_grads grads = {.x = &s->to_x, .y = &s->to_y};

    return gram_kernel_vjp(g, &s->x, &s->y, &s->options, &s->grad, &grads);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->grad.data);
    free(s->to_x.data);
    free(s->to_y.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_vjp in = {&s->x, &s->y, &s->grad, &s->options};
    const struct reference_batch batch = {.count = 1};
    int64_t k = s->x.shape[1];
    double worst = 0;

    for (int i = 0; i < 60 && test_count(&s->grad) > 0 && k > 0; i++) {
        bool of_y = i % 2;
        const gram_tensor *out = of_y ? &s->to_y : &s->to_x, *other = of_y ? &s->x : &s->y;
        const int64_t at[3] = {0, (int64_t)(test_uniform(h) * (double)out->shape[0]),
                               (int64_t)(test_uniform(h) * (double)k)};
        double magnitude, want = reference_vjp_points(&in, &batch, at, of_y, &magnitude);
        double count = (double)other->shape[0];
        double bound = ((double)k + 300 + count / 64) * test_eps(s->x.dtype) * (magnitude + count);
        double error = fabs(test_get(out, at + 1) - want) / bound;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return isnan(worst) ? INFINITY : worst;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2];
    double p = case_number(args, "p", 1), size = (double)gram_dtype_size(args->dtype);
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->options = gram_lpq_laplace(p, case_number(args, "q", 1), 1);
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, n, k, args->dtype);
    s->grad = dense_random(h, m, n, args->dtype);
    s->to_x = dense_random(h, m, k, args->dtype);
    s->to_y = dense_random(h, n, k, args->dtype);
    if (!s->x.data || !s->y.data || !s->grad.data || !s->to_x.data || !s->to_y.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->grad, &s->to_x, &s->to_y},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)n * (double)k,
        .unit = "m n k steps",
        .bytes = size * ((double)m * (double)n + 2 * (double)(m + n) * (double)k),
    };
    return true;
}

const struct case_op case_kernel_vjp = {
    .name = "kernel_vjp",
    .sizes = "M N K",
    .params = "p=1 q=1 dtype=f32",
    .rows = LENGTH(rows) + GRID,
    .label = label,
    .check = check,
    .prepare = prepare,
};
