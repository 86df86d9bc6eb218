/*
 * test_cuda_kron_plans.c - products with Kronecker factors that share a plan, and some that do not,
 * on a device against the CPU's
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>

enum {
    SWEEPS = 2,
    MOST_COUNT = 3,
};

static const struct call {
    int64_t m, p, q;
    int count;
    gram_dtype dtype;
    enum layout x, f;
    double alpha, beta;
    const char *why;
} calls[] = {
    {5, 4, 4, 2, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 1,   0,                     "as it is"},
    {6, 4, 4, 2, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 1,   0,                  "another row"},
    {5, 4, 4, 2, GRAM_F32,    PADDED,    ROW_MAJOR, 1,   0,       "rows are further apart"},
    {5, 4, 4, 2, GRAM_F32, ROW_MAJOR, COLUMN_MAJOR, 1,   0, "factors that lie another way"},
    {5, 4, 4, 2, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 2,   0,                     "a factor"},
    {5, 4, 4, 2, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 1, 0.5,             "z is to be added"},
    {5, 4, 5, 2, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 1,   0,       "another column of them"},
    {5, 4, 4, 3, GRAM_F32, ROW_MAJOR,    ROW_MAJOR, 1,   0,              "one factor more"},
    {5, 4, 4, 2, GRAM_F64, ROW_MAJOR,    ROW_MAJOR, 1,   0,                       "in f64"},
};

/* x, z, y, then factors. */
static bool multiply(struct harness *h, const struct call *c, struct test_tensor *all)
{
    struct test_copy there[3 + MOST_COUNT];
    const gram_tensor *factors[MOST_COUNT];
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    bool ran = true;

    for (int i = 0; i < 3 + c->count; i++)
        ran = test_send(h, &all[i], &there[i]) && ran;
    for (int f = 0; f < c->count; f++)
        factors[f] = &there[3 + f].t;
    o.alpha.value = c->alpha, o.beta.value = c->beta;
    o.z = &there[1].t;
    ran =
        ran &&
        CHECK(h, gram_kron_matmul(h->g, &there[0].t, factors, c->count, &o, &there[2].t) == GRAM_OK,
              "%s: %s", c->why, gram_message(h->g));
    for (int i = 0; i < 3 + c->count; i++)
        ran = test_fetch(h, &all[i], &there[i]) && ran;
    return ran;
}

/* New numbers every time. */
static void one_call(struct harness *h, struct harness *there, const struct call *c)
{
    struct test_tensor all[3 + MOST_COUNT], want;
    int64_t in[2] = {c->m, 1}, out[2] = {c->m, 1}, sizes_of[2] = {c->p, c->q};

    for (int f = 0; f < c->count; f++)
        in[1] *= c->p, out[1] *= c->q;
    for (int i = 0; i < 3 + c->count; i++) {
        test_tensor_create(h, &all[i], c->dtype,
                           i == 0   ? c->x
                           : i >= 3 ? c->f
                                    : ROW_MAJOR,
                           2,
                           i == 0  ? in
                           : i < 3 ? out
                                   : sizes_of);
        test_fill_uniform(h, &all[i], 0, 1);
    }
    if (multiply(there, c, all)) {
        want = all[2];
        test_tensor_create(h, &all[2], c->dtype, ROW_MAJOR, 2, out);
        if (multiply(h, c, all))
            for (int64_t e = 0; e < test_count(&want.t); e++) {
                double a = test_at(&want.t, e), b = test_at(&all[2].t, e);
                CHECK(h, fabs(a - b) <= 32 * test_eps(c->dtype) * b,
                      "%s: element %lld is %.17g, not %.17g", c->why, (long long)e, a, b);
            }
        test_tensor_destroy(h, &want, "the device's y");
    }
    for (int i = 0; i < 3 + c->count; i++)
        test_tensor_destroy(h, &all[i], "an operand");
}

/* The first call comes again between all others, which are more than a context remembers. */
static void plans_are_shared(struct harness *h)
{
    struct harness there = *h;

    there.device.type = GRAM_CUDA;
    there.g = test_cuda_context(h, NULL);
    if (!there.g)
        return;
    for (int i = 0; i < SWEEPS * LENGTH(calls); i++) {
        one_call(h, &there, &calls[0]);
        one_call(h, &there, &calls[i % LENGTH(calls)]);
    }
    h->checks += there.checks, h->failures += there.failures;
    gram_context_destroy(there.g);
}

static const struct test_function tests[] = {
    {"plans_are_shared", plans_are_shared},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
