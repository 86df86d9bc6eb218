/*
 * case_kernel_matmul_vjp.c - the rows of gram_kernel_matmul_vjp, and a grid of all kernels
 *
 * On a CPU a task has up to 512 points in panels of 4 to 32, and blocks of 192 centres in strips of
 * 48; below 1024 points the centres are shared out from 4096 on.  The cosine and p = infinity go by
 * blocks of 1024 by 1024.  On CUDA a block of threads has 128, 256 or 512 points, and a slice of
 * the centres at most 2048; the weights stay in registers for up to 43 coordinates, and else go by
 * blocks of 4096 by 4096.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_bench.h"
#include "vjp_problem.h"
#include <math.h>

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
#define COLUMNS(count, type) \
    {GAUSSIAN, .m = 53, .n = 67, .k = 3, .r = count, .dtype = type, .why = "columns of v"}, \
    {LAPLACE_L1, .m = 50, .k = 3, .r = count, .dtype = type, .same = true, .why = "columns of v"}

static const struct vjp_row rows[] = {
    {LAPLACE_L1, .m = 1, .n = 1, .k = 1, .r = 1, .dtype = GRAM_F32, .why = "smallest"},
    {LAPLACE_L1, .m = 1, .k = 1, .r = 1, .dtype = GRAM_F32, .same = true, .why = "smallest"},
    {LAPLACE_L1, .m = 0, .n = 3, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {CUBIC, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F64, .why = "no rows of y"},
    {COSINE, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F64, .why = "no rows of y"},
    {GAUSSIAN, .m = 3, .n = 4, .k = 0, .r = 2, .dtype = GRAM_F64, .why = "no coordinates"},
    {LAPLACE_L1, .m = 70, .n = 90, .k = 5, .r = 1, .dtype = GRAM_F32, .why = "L1 Laplace"},
    {LAPLACE_L2, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F32, .why = "L2 Laplace"},
    {GAUSSIAN, .m = 70, .n = 90, .k = 5, .r = 1, .dtype = GRAM_F32, .why = "Gaussian"},
    {GAUSSIAN, .m = 70, .n = 90, .k = 5, .r = 2, .dtype = GRAM_F64, .why = "Gaussian"},
    {LPQ, .m = 70, .n = 90, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "Lpq Laplace"},
    {CUBIC, .m = 70, .n = 90, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "polynomial"},
    {COSINE, .m = 70, .n = 90, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "cosine"},
    {COSINE, .m = 40, .k = 5, .r = 2, .dtype = GRAM_F64, .same = true, .why = "cosine, y is x"},
    {LAPLACE_LARGEST, .m = 70, .n = 90, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = infinity"},
    {LAPLACE_LARGEST, .m = 30, .k = 5, .r = 2, .dtype = GRAM_F64, .same = true,
     .why = "p = infinity, y is x"},
    {CUBIC, .m = 40, .k = 5, .r = 2, .dtype = GRAM_F64, .same = true, .why = "y is x"},
    {LAPLACE_L2, .m = 200, .k = 3, .r = 2, .dtype = GRAM_F32, .same = true, .why = "y is x"},
    {GAUSSIAN, .m = 193, .n = 385, .k = 4, .r = 2, .dtype = GRAM_F32, .why = "blocks and one more"},
    {LAPLACE_L1, .m = 530, .n = 50, .k = 9, .r = 1, .dtype = GRAM_F32, .why = "tasks"},
    {LAPLACE_L1, .m = 1100, .n = 5, .k = 2, .r = 2, .dtype = GRAM_F64, .why = "many points"},
    {GAUSSIAN, .m = 3, .n = 4200, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "parts of the centres"},
    {LAPLACE_L1, .m = 2, .n = 6200, .k = 1, .r = 1, .dtype = GRAM_F64,
     .why = "three parts of the centres"},
    {COSINE, .m = 1030, .n = 3, .k = 2, .r = 2, .dtype = GRAM_F64, .why = "blocks of rows"},
    {COSINE, .m = 3, .n = 1030, .k = 2, .r = 2, .dtype = GRAM_F64, .why = "blocks of columns"},
    {GAUSSIAN, .m = 3, .n = 4, .k = 1500, .r = 2, .dtype = GRAM_F64, .why = "many coordinates"},
    {LAPLACE_L1, .m = 1, .n = 1, .k = 8200, .r = 1, .dtype = GRAM_F64,
     .why = "more coordinates than tiles take"},
    {LAPLACE_L1, .m = 20, .n = 30, .k = 4, .r = 2, .dtype = GRAM_F32, .data = VJP_INTEGERS,
     .why = "ties"},
    {LAPLACE_L2, .m = 40, .k = 2, .r = 2, .dtype = GRAM_F32, .data = VJP_INTEGERS, .same = true,
     .why = "points that coincide"},
    {LPQ, .m = 20, .n = 30, .k = 2, .r = 2, .dtype = GRAM_F64, .data = VJP_INTEGERS,
     .why = "points that coincide"},
    {COSINE, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F64, .data = VJP_ZERO_ROW,
     .why = "a norm of 0"},
    {LPQ, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F64, .only_scalars = true,
     .why = "only L, r and v"},
    {LPQ, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F64, .x_layout = COLUMN_MAJOR,
     .y_layout = EVERY_SECOND, .grad_layout = COLUMN_MAJOR, .out_layout = EVERY_SECOND,
     .v_layout = REVERSED, .why = "strides"},
    {GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 3, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .grad_layout = EVERY_SECOND, .out_layout = COLUMN_MAJOR,
     .v_layout = COLUMN_MAJOR, .why = "strides"},
    {COSINE, .m = 20, .n = 30, .k = 3, .r = 2, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .grad_layout = ROWS_REPEATED, .out_layout = COLUMN_MAJOR,
     .v_layout = PADDED, .why = "strides"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .r = 2, .x_batch = 3, .y_batch = 3, .grad_batch = 3,
     .v_batch = 3, .dtype = GRAM_F32, .per_item = true, .why = "a batch, another L for every item"},
    {CUBIC, .m = 9, .n = 7, .k = 3, .r = 2, .x_batch = 3, .dtype = GRAM_F64,
     .why = "y, v and grad broadcast"},
    {GAUSSIAN, .m = 9, .n = 7, .k = 3, .r = 2, .grad_batch = 3, .dtype = GRAM_F64,
     .why = "a batch of grad alone"},
    {GAUSSIAN, .m = 9, .k = 3, .r = 2, .v_batch = 3, .dtype = GRAM_F32, .same = true,
     .why = "a batch of v alone"},
    {LPQ, .m = 2, .n = 3, .k = 1, .r = 1, .x_batch = 150, .y_batch = 150, .grad_batch = 150,
     .dtype = GRAM_F64, .per_item = true, .x_layout = EVERY_SECOND, .out_layout = PADDED,
     .why = "many tiny items"},
    {COSINE, .m = 3, .n = 2, .k = 2, .r = 2, .x_batch = 150, .y_batch = 150, .dtype = GRAM_F64,
     .out_layout = COLUMN_MAJOR, .why = "many tiny items"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .r = 2, .dtype = GRAM_F64, .row_offset = 5,
     .column_offset = 8, .why = "a tile below the diagonal's start"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .r = 2, .dtype = GRAM_F64, .row_offset = 6,
     .column_offset = 4, .why = "a tile above the diagonal's start"},
    {LAPLACE_L1, .m = 9, .k = 3, .r = 2, .dtype = GRAM_F64, .row_offset = 2, .same = true,
     .why = "y is x, but not the diagonal's place"},
    {LAPLACE_L1, .m = 9, .n = 7, .k = 3, .r = 2, .dtype = GRAM_F64, .row_offset = 100,
     .why = "a tile off the diagonal"},
    {GAUSSIAN, .m = 40, .n = 50, .k = 5, .r = 2, .dtype = GRAM_F16, .why = "halves"},
    {LAPLACE_L1, .m = 40, .k = 5, .r = 2, .dtype = GRAM_BF16, .same = true, .why = "bfloat16"},
    {COSINE, .m = 9, .n = 7, .k = 5, .r = 2, .x_batch = 3, .dtype = GRAM_F16,
     .x_layout = COLUMN_MAJOR, .y_layout = EVERY_SECOND, .out_layout = PADDED,
     .why = "halves with strides, a batch"},
    {GAUSSIAN, .m = 0, .n = 4, .k = 2, .r = 2, .dtype = GRAM_F16, .why = "no halves"},
    COLUMNS(4, GRAM_F32), COLUMNS(17, GRAM_F64), COLUMNS(65, GRAM_F32),
    {GAUSSIAN, .m = 129, .n = 65, .k = 43, .r = 1, .dtype = GRAM_F32,
     .why = "as many coordinates as registers hold"},
    {GAUSSIAN, .m = 33, .n = 65, .k = 44, .r = 1, .dtype = GRAM_F32, .why = "one more than that"},
    {GAUSSIAN, .m = 5, .n = 2100, .k = 3, .r = 1, .dtype = GRAM_F32, .why = "two slices"},
};
/* clang-format on */

static const double powers[] = {0.7, 1, 1.3, 1.5, 2, 3, 4, 6.5};
static const gram_function of_difference[] = {GRAM_IDENTITY,          GRAM_LAPLACE,  GRAM_GAUSSIAN,
                                              GRAM_EXPONENTIAL_POWER, GRAM_MATERN32, GRAM_MATERN52,
                                              GRAM_RATIONAL_QUADRATIC};
static const gram_function of_product[] = {GRAM_IDENTITY, GRAM_POLYNOMIAL, GRAM_SIGMOID,
                                           GRAM_COSINE};

enum {
    DIFFERENCES = 2 * LENGTH(powers) * LENGTH(of_difference),
    GRID = DIFFERENCES + LENGTH(of_product) /* in f64, and once more in f32 */
};

static struct vjp_row grid_row(int at)
{
    const int i = at % GRID;
    struct vjp_row row = {.m = 4,
                          .n = 3,
                          .k = 2,
                          .r = 2,
                          .dtype = at < GRID ? GRAM_F64 : GRAM_F32,
                          .row_offset = 1,
                          .why = at < GRID ? "by differences" : "every function"};

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

    vjp_row_check(h, &made, row >= LENGTH(rows) && made.dtype == GRAM_F64);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

static gram_status bench_run(gram_context *g, void *state)
{
    struct vjp_bench *s = state;
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    grads.x = &s->to_x;
    return gram_kernel_matmul_vjp(g, &s->x, s->same ? NULL : &s->y, &s->kernel, &s->v, &s->grad,
                                  &grads);
}

/* grad v^T, and where y is x its transpose too. */
static double cotangent_of(const struct vjp_bench *s, int64_t i, double *to)
{
    for (int64_t j = 0; j < s->v.shape[0]; j++) {
        to[j] = 0;
        for (int64_t c = 0; c < s->v.shape[1]; c++)
            to[j] += test_get(&s->grad, (int64_t[]){i, c}) * test_get(&s->v, (int64_t[]){j, c});
        if (s->same)
            for (int64_t c = 0; c < s->v.shape[1]; c++)
                to[j] += test_get(&s->v, (int64_t[]){i, c}) * test_get(&s->grad, (int64_t[]){j, c});
    }
    return (double)s->v.shape[1];
}

static double bench_error(struct harness *h, void *state)
{
    const struct vjp_bench *s = state;

    return vjp_bench_error(h, s, 30, s->x.shape[1] + s->v.shape[1], cotangent_of);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    if (!vjp_bench_prepare(h, args, out))
        return false;
    out->run = bench_run, out->error = bench_error;
    return true;
}

const struct case_op case_kernel_matmul_vjp = {
    .name = "kernel_matmul_vjp",
    .sizes = "M N K R",
    .params = "p=1 q=p bandwidth=1 symmetric=0 dtype=f32",
    .rows = LENGTH(rows) + 2 * GRID,
    .label = label,
    .check = check,
    .prepare = prepare,
};
