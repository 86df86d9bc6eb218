/*
 * test_cuda_kernel_matmul.c - the rows of gram_kernel_matmul by each of its ways on a GPU; and the
 * same bits in every run, whatever the rounds of scratch
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 1300, /* two blocks of rows, and one that is not filled */
    DEPTH = 3,
    COLUMNS = 2
};

/* ---- Tables ---------------------------------------------------------------------------------- */

static bool by_each_way(struct harness_count *count)
{
    static const char *const forms[] = {"panels", "fused", "blocks"};
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    const struct case_op *op = harness_find("kernel_matmul");

    for (int i = 0; i < LENGTH(forms); i++)
        if (!op || setenv("GRAM_KERNEL_MATMUL", forms[i], 1) != 0 ||
            !harness_run_table(op, -1, &options, count))
            return false;
    return true;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* K v of points with themselves, in a context of its own. */
static bool multiply(const char *form, float *x, float *v, float *out, float *result)
{
    const gram_context_options options = {
        .size = sizeof options, .device = {GRAM_CUDA, 0}
    };
    const gram_kernel_options kernel = gram_gaussian(1);
    gram_tensor tx = gram_matrix(x, POINTS, DEPTH, GRAM_F32);
    gram_tensor tv = gram_matrix(v, POINTS, COLUMNS, GRAM_F32);
    gram_tensor to = gram_matrix(out, POINTS, COLUMNS, GRAM_F32);
    gram_context *g = NULL;
    bool right;

    tx.device = tv.device = to.device = options.device;
    right = setenv("GRAM_KERNEL_MATMUL", form, 1) == 0 &&
            gram_context_create(&options, &g) == GRAM_OK &&
            gram_kernel_matmul(g, &tx, NULL, &kernel, &tv, NULL, &to) == GRAM_OK &&
            gram_context_synchronize(g) == GRAM_OK &&
            device_download(result, out, POINTS * COLUMNS * sizeof *result);
    if (!right)
        printf("%s: %s\n", form, gram_message(g));
    gram_context_destroy(g);
    return right;
}

static bool has_same_bits(void)
{
    static const char *const forms[] = {"fused", "fused", "blocks"};
    static float numbers[POINTS * DEPTH], result[LENGTH(forms)][POINTS * COLUMNS];
    float *x = device_allocate(sizeof numbers), *v = device_allocate(sizeof result[0]);
    float *out = device_allocate(sizeof result[0]);
    bool same = x && v && out;

    for (int i = 0; i < LENGTH(numbers); i++)
        numbers[i] = (float)(i * 7919 % 1009) / 1009;
    same = same && device_upload(x, numbers, sizeof numbers) &&
           device_upload(v, numbers, sizeof result[0]);
    for (int i = 0; same && i < LENGTH(forms); i++) {
        same = multiply(forms[i], x, v, out, result[i]);
        if (same && memcmp(result[0], result[i], sizeof result[i]) != 0) {
            printf("run %d, %s: other bits than the first run\n", i, forms[i]);
            same = false;
        }
    }
    device_release(x);
    device_release(v);
    device_release(out);
    return same;
}

int main(void)
{
    struct harness_count count = {0};
    bool same;

    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    same = has_same_bits();
    if (!by_each_way(&count))
        return EXIT_FAILURE;
    printf("%d passed, %d failed; the same bits in every run: %s\n", count.passed, count.failed,
           same ? "yes" : "no");
    return count.failed == 0 && count.passed > 0 && same ? EXIT_SUCCESS : EXIT_FAILURE;
}
