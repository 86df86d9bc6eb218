/*
 * test_cuda_square.c - squared distances and inner products by tensor cores, and sums from panels,
 * where cdist.cu alone would be as quick: rows for the corners of cdist_pack.cu, cdist_mma.cu and
 * cdist_panels.cu
 *
 * On a device, or emulated for a chip of each kind.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/pairwise_problem.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

#define OPTIONS                                                                        \
  .size = sizeof(gram_kernel_options), .p = {.value = 2}, .outer_power = {.value = 1}, \
  .bandwidth = {.value = 3}, .exponent = {.value = 1}, .alpha = {.value = 1},          \
  .gamma = {.value = 0.5}, .degree = {.value = 2}, .coef0 = {.value = 1}

static const gram_kernel_options gaussian = {OPTIONS, .inner = GRAM_DIFFERENCE,
                                             .function = GRAM_GAUSSIAN,
                                             .regularization = {.value = 0.5}, .column_offset = 9};
static const gram_kernel_options matern = {OPTIONS, .inner = GRAM_DIFFERENCE,
                                           .function = GRAM_MATERN52, .output = GRAM_WEIGHT};
static const gram_kernel_options dot = {OPTIONS, .inner = GRAM_DOT, .function = GRAM_IDENTITY};
static const gram_kernel_options polynomial = {OPTIONS, .inner = GRAM_DOT,
                                               .function = GRAM_POLYNOMIAL};
static const gram_kernel_options cosine = {OPTIONS, .inner = GRAM_DOT, .function = GRAM_COSINE};

/* clang-format off */
static const struct pair_row rows[] = {
    {.m = 300, .n = 260, .k = 70, .dtype = GRAM_F32, .p = 2, .why = "ragged on every edge"},
    {.m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .p = 2, .why = "smallest"},
    {.m = 128, .n = 128, .k = 32, .dtype = GRAM_F32, .p = 2, .no_root = true, .why = "one whole tile and chunk"},
    {.m = 129, .n = 2, .k = 33, .dtype = GRAM_F32, .p = 2, .why = "one more of each"},
    {.m = 20, .n = 30, .k = 700, .dtype = GRAM_F32, .p = 2, .why = "more chunks than stages, several times"},
    {.m = 300, .n = 280, .k = 90, .dtype = GRAM_F32, .p = 2, .data = DATA_CLUSTERED, .why = "tiles that are spoiled"},
    {.m = 260, .n = 20, .k = 60, .dtype = GRAM_F32, .p = 2, .data = DATA_DUPLICATED, .why = "some elements that are spoiled"},
    {.m = 150, .n = 140, .k = 60, .dtype = GRAM_F32, .p = 2, .data = DATA_OFFSET, .why = "mean 1e4"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F32, .p = 2, .data = DATA_WIDE, .why = "every magnitude"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F32, .p = 2, .data = DATA_SPECIAL, .why = "NaN, infinity"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F32, .p = 2, .data = DATA_INTEGERS, .why = "distance 0"},
    {.m = 300, .k = 45, .dtype = GRAM_F32, .p = 2, .same = true, .why = "x = y"},
    {.m = 300, .k = 45, .dtype = GRAM_F32, .p = 2, .same = true, .data = DATA_CLUSTERED, .out_layout = COLUMN_MAJOR, .why = "x = y, spoiled tiles"},
    {.m = 140, .k = 15, .dtype = GRAM_F32, .p = 2, .same = true, .data = DATA_SPECIAL, .out_layout = EVERY_SECOND, .why = "x = y, NaN on the diagonal"},
    {.m = 140, .k = 15, .dtype = GRAM_F32, .p = 2, .same = true, .data = DATA_WIDE, .why = "x = y, norms that overflow"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F32, .p = 2, .x_layout = COLUMN_MAJOR, .y_layout = PADDED, .out_layout = COLUMN_MAJOR, .why = "turned round"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F32, .p = 2, .x_layout = REVERSED, .y_layout = EVERY_SECOND, .out_layout = REVERSED, .why = "negative strides"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F32, .p = 2, .x_layout = ROWS_REPEATED, .out_layout = MISALIGNED, .why = "one row seen many times"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F16, .p = 2, .why = "f16"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_BF16, .p = 2, .data = DATA_CLUSTERED, .why = "bf16"},
    {.m = 140, .n = 30, .k = 20, .x_batch = {2, 1}, .y_batch = {1, 3}, .dtype = GRAM_F32, .p = 2, .x_layout = PADDED, .out_layout = PADDED, .why = "both broadcast"},
    {.m = 140, .n = 30, .k = 20, .x_batch = {3}, .y_batch = {3}, .dtype = GRAM_F32, .kernel = &gaussian, .per_item = true, .why = "a bandwidth an item"},
    {.m = 140, .n = 30, .k = 20, .x_batch = {3}, .y_batch = {3}, .dtype = GRAM_F32, .data = DATA_CLUSTERED, .kernel = &gaussian, .per_item = true, .why = "a bandwidth an item, spoiled"},
    {.m = 150, .n = 140, .k = 40, .dtype = GRAM_F32, .kernel = &gaussian, .why = "a diagonal that is not the main one"},
    {.m = 150, .k = 40, .dtype = GRAM_F32, .kernel = &gaussian, .same = true, .why = "and with x = y"},
    {.m = 150, .k = 40, .dtype = GRAM_F32, .kernel = &matern, .same = true, .why = "a weight"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F32, .kernel = &dot, .why = "products"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F32, .kernel = &dot, .data = DATA_WIDE, .why = "products of every magnitude"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F32, .kernel = &dot, .data = DATA_TINY, .why = "products of denormals"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F32, .kernel = &dot, .data = DATA_OFFSET, .why = "products, all positive"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F32, .kernel = &dot, .data = DATA_SPECIAL, .why = "products with NaN, infinity"},
    {.m = 150, .k = 70, .dtype = GRAM_F32, .kernel = &polynomial, .same = true, .why = "x = y"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F32, .kernel = &cosine, .data = DATA_WIDE, .why = "norms of every magnitude"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F32, .kernel = &cosine, .data = DATA_SPECIAL, .why = "a row of zeros"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F16, .kernel = &dot, .why = "exact products"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_BF16, .kernel = &cosine, .why = "no low digits"},
    {.m = 300, .n = 260, .k = 70, .dtype = GRAM_F64, .p = 2, .why = "f64, ragged on every edge"},
    {.m = 256, .n = 128, .k = 48, .dtype = GRAM_F64, .p = 2, .no_root = true, .why = "f64, whole tiles and chunks"},
    {.m = 129, .n = 2, .k = 17, .dtype = GRAM_F64, .p = 2, .why = "f64, one more of each"},
    {.m = 300, .n = 280, .k = 40, .dtype = GRAM_F64, .p = 2, .data = DATA_CLUSTERED, .why = "f64, tiles that are spoiled"},
    {.m = 260, .n = 20, .k = 60, .dtype = GRAM_F64, .p = 2, .data = DATA_DUPLICATED, .why = "f64, some elements that are spoiled"},
    {.m = 150, .n = 140, .k = 60, .dtype = GRAM_F64, .p = 2, .data = DATA_OFFSET, .why = "f64, mean 1e4"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F64, .p = 2, .data = DATA_WIDE, .why = "f64, every magnitude"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F64, .p = 2, .data = DATA_SPECIAL, .why = "f64, NaN, infinity"},
    {.m = 300, .k = 45, .dtype = GRAM_F64, .p = 2, .same = true, .data = DATA_CLUSTERED, .out_layout = COLUMN_MAJOR, .why = "f64, x = y, spoiled tiles"},
    {.m = 140, .k = 15, .dtype = GRAM_F64, .p = 2, .same = true, .data = DATA_SPECIAL, .out_layout = EVERY_SECOND, .why = "f64, x = y, NaN on the diagonal"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F64, .p = 2, .x_layout = COLUMN_MAJOR, .y_layout = REVERSED, .out_layout = MISALIGNED, .why = "f64, strides"},
    {.m = 140, .n = 30, .k = 20, .x_batch = {2, 1}, .y_batch = {1, 3}, .dtype = GRAM_F64, .p = 2, .x_layout = PADDED, .out_layout = PADDED, .why = "f64, both broadcast"},
    {.m = 150, .k = 40, .dtype = GRAM_F64, .kernel = &gaussian, .same = true, .why = "f64, a diagonal that is not the main one"},
    {.m = 150, .n = 140, .k = 70, .dtype = GRAM_F64, .kernel = &dot, .data = DATA_WIDE, .why = "f64, products of every magnitude"},
    {.m = 150, .n = 140, .k = 20, .dtype = GRAM_F64, .kernel = &cosine, .data = DATA_SPECIAL, .why = "f64, a row of zeros"},
    {.m = 300, .n = 260, .k = 70, .dtype = GRAM_F32, .p = 1, .why = "panels, ragged on every edge"},
    {.m = 256, .n = 128, .k = 64, .dtype = GRAM_F32, .p = 3, .no_root = true, .why = "panels, whole tiles and chunks"},
    {.m = 1, .n = 129, .k = 300, .dtype = GRAM_F32, .p = 4, .why = "panels, more chunks than stages, several times"},
    {.m = 140, .n = 150, .k = 33, .dtype = GRAM_F32, .p = INFINITY, .x_layout = COLUMN_MAJOR, .y_layout = REVERSED, .out_layout = COLUMN_MAJOR, .why = "panels, strides"},
    {.m = 150, .k = 40, .dtype = GRAM_F32, .p = 1, .same = true, .data = DATA_SPECIAL, .out_layout = EVERY_SECOND, .why = "panels, x = y, NaN"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_F16, .p = 1, .y_layout = PADDED, .why = "panels, f16"},
    {.m = 140, .n = 150, .k = 40, .dtype = GRAM_BF16, .p = 3, .why = "panels, bf16"},
    {.m = 300, .n = 150, .k = 40, .dtype = GRAM_F64, .p = 1, .x_layout = COLUMN_MAJOR, .out_layout = MISALIGNED, .why = "panels, f64"},
    {.m = 260, .k = 70, .dtype = GRAM_F64, .p = 3, .same = true, .why = "panels, f64, x = y"},
    {.m = 140, .n = 30, .k = 20, .x_batch = {2, 1}, .y_batch = {1, 3}, .dtype = GRAM_F32, .p = 1, .why = "no panels: a batch"},
    {.m = 4, .n = 5, .k = 2, .x_batch = {9000}, .dtype = GRAM_F32, .p = 2, .why = "more items than a round takes"},
};
/* clang-format on */

enum {
    SEVERAL_ROUNDS = LENGTH(rows) - 1 /* takes minutes emulated */
};

static void label(int row, char *text, size_t size)
{
    pair_row_label(&rows[row], text, size);
}

static void check(struct harness *h, int row)
{
    pair_row_check(h, &rows[row]);
}

static const struct case_op table = {
    .name = "square", .rows = LENGTH(rows), .label = label, .check = check};

static double sign_and_size(struct harness *h)
{
    return 2 * test_uniform(h) - 1;
}

/* All distances to 1e-6, relatively, whatever the number of columns. */
static void near_points(struct harness *h)
{
    enum {
        M = 140,
        K = 300
    };
    struct test_tensor x, out;
    struct test_copy sent, result;
    double worst = 0;

    test_tensor_create(h, &x, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){M, K});
    test_tensor_create(h, &out, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){M, M});
    for (int64_t i = 0; i < M; i++) /* a pair is as far apart as it has digits in common */
        for (int64_t k = 0; k < K; k++)
            test_set(&x.t, (int64_t[]){i, k},
                     i % 2 == 0 ? sign_and_size(h)
                                : test_get(&x.t, (int64_t[]){i - 1, k}) +
                                      ldexp(sign_and_size(h), (int)(-i / 4)));
    if (!test_send(h, &x, &sent) || !test_send(h, &out, &result))
        return;
    CHECK(h, gram_cdist(h->g, &sent.t, NULL, gram_number(2), NULL, &result.t) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
    if (!test_fetch(h, &out, &result) || !test_fetch(h, &x, &sent))
        return;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < M; j++) {
            double sum = 0, got = test_get(&out.t, (int64_t[]){i, j});
            for (int64_t k = 0; k < K; k++) {
                double d = test_get(&x.t, (int64_t[]){i, k}) - test_get(&x.t, (int64_t[]){j, k});
                sum += d * d;
            }
            if (sum == 0)
                CHECK(h, got == 0, "out[%d, %d] is %g, expected 0", (int)i, (int)j, got);
            else
                worst = fmax(worst, fabs(got / sqrt(sum) - 1));
        }
    CHECK(h, worst <= 1e-6, "a relative error of %g", worst);
    test_tensor_destroy(h, &x, "x");
    test_tensor_destroy(h, &out, "out");
}

static bool run(struct harness_count *count, bool emulated)
{
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    struct harness h;

    for (int row = 0; row < table.rows; row++)
        if (!(emulated && row == SEVERAL_ROUNDS) &&
            !harness_run_table(&table, row, &options, count))
            return false;
    if (!harness_open(&h, &options, NULL))
        return false;
    harness_seed(&h, "near_points", 0);
    near_points(&h);
    count->failed += h.failures > 0, count->passed += h.failures == 0;
    harness_close(&h);
    return true;
}

int main(void)
{
    static const char *const chips[] = {"90", "80"};
    bool emulated = getenv("GRAM_TEST_EMULATED") != NULL;
    struct harness_count count = {0};

    if (gram_best_device().type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (setenv("GRAM_CDIST_FORM", "expansion", 1) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < (emulated ? LENGTH(chips) : 1); i++)
        if (setenv("GRAM_FAKE_CUDA_ARCH", chips[i], 1) != 0 || !run(&count, emulated))
            return EXIT_FAILURE;
    printf("%d passed, %d failed\n", count.passed, count.failed);
    return count.failed == 0 && count.passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
