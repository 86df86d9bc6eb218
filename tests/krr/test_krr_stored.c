/*
 * test_krr_stored.c - the solve of a machine, with a stored kernel matrix and without
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/context.h"
#include "krr/krr.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <string.h>

enum {
    N = 300,
    WIDTH = 4,
    COLUMNS = 3
};

static void fill(gram_dtype dtype, double *data, int64_t count)
{
    uint64_t numbers = 21;

    for (int64_t i = 0; i < count; i++) {
        numbers = numbers * UINT64_C(6364136223846793005) + 1442695040888963407;
        set_number(dtype, data, i, 4 * (double)(numbers >> 40) * 0x1p-24 - 2);
    }
}

static void what_is_not_stored_is_the_same(struct harness *h)
{
    static double x[N * WIDTH], b[N * COLUMNS], ridge[N], out[2][N * COLUMNS];
    const gram_kernel_options kernel = gram_lpq_laplace(2, 1, 3);

    for (int f32 = 0; f32 < 2; f32++) {
        const gram_dtype dtype = f32 ? GRAM_F32 : GRAM_F64;
        struct krr_system s = {.x = gram_matrix(x, N, WIDTH, dtype),
                               .kernel = &kernel,
                               .ridge = ridge,
                               .b = b,
                               .columns = COLUMNS,
                               .tolerance = f32 ? 1e-4 : 1e-10};
        struct krr_report report[2];
        double most = 0, change = 0;

        fill(dtype, x, N * WIDTH);
        fill(dtype, b, N * COLUMNS);
        for (int64_t i = 0; i < N; i++)
            ridge[i] = 0.01 * (double)(1 + i % 3);
        h->g->call = "test";
        for (int way = 0; way < 2; way++) {
            s.memory = way ? 1 : 0;
            CHECK(h, gram_krr_stored_solve(h->g, &s, out[way], &report[way]) == GRAM_OK, "%s",
                  gram_message(h->g));
            CHECK(h, report[way].residual <= s.tolerance, "the residual is %g",
                  report[way].residual);
        }
        for (int64_t i = 0; i < N * COLUMNS; i++) {
            most = fmax(most, fabs(get_number(dtype, out[0], i)));
            change =
                fmax(change, fabs(get_number(dtype, out[0], i) - get_number(dtype, out[1], i)));
        }
        CHECK(h, change <= (f32 ? 5e-2 : 1e-7) * most, "alpha changes by %g of %g", change, most);
    }
}

/* A solution needs no iteration, and what is near one fewer than none; what is reached is true. */
static void a_guess_is_where_a_solve_begins(struct harness *h)
{
    static double x[N * WIDTH], b[N * COLUMNS], ridge[N], out[N * COLUMNS];
    const gram_kernel_options kernel = gram_lpq_laplace(2, 1, 3);

    for (int f32 = 0; f32 < 2; f32++)
        for (int way = 0; way < 2; way++) {
            const gram_dtype dtype = f32 ? GRAM_F32 : GRAM_F64;
            struct krr_system s = {.x = gram_matrix(x, N, WIDTH, dtype),
                                   .kernel = &kernel,
                                   .ridge = ridge,
                                   .b = b,
                                   .columns = COLUMNS,
                                   .memory = way ? 1 : 0,
                                   .tolerance = f32 ? 1e-4 : 1e-9};
            struct krr_report cold, warm, near;

            fill(dtype, x, N * WIDTH);
            fill(dtype, b, N * COLUMNS);
            for (int64_t i = 0; i < N; i++)
                ridge[i] = 0.01;
            h->g->call = "test";
            CHECK(h, gram_krr_stored_solve(h->g, &s, out, &cold) == GRAM_OK, "cold");
            s.warm = true;
            CHECK(h, gram_krr_stored_solve(h->g, &s, out, &warm) == GRAM_OK, "warm");
            CHECK(h, warm.iterations == 0 && warm.residual <= s.tolerance,
                  "%d iterations to %g from a solution", warm.iterations, warm.residual);
            for (int64_t i = 0; i < N; i++)
                ridge[i] = 0.0101;
            CHECK(h, gram_krr_stored_solve(h->g, &s, out, &near) == GRAM_OK, "near");
            CHECK(h, near.iterations < cold.iterations && near.residual <= s.tolerance,
                  "%d iterations to %g, cold %d", near.iterations, near.residual, cold.iterations);
        }
}

static const struct test_function tests[] = {
    {"a_guess_is_where_a_solve_begins", a_guess_is_where_a_solve_begins},
    { "what_is_not_stored_is_the_same",  what_is_not_stored_is_the_same},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
