/*
 * test_kron_plan.c - plans of gram_kron_matmul: the call itself, for other data of the same layout
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>
#include <string.h>

enum {
    ROWS = 5,
    ITEMS = 2,
    IN = 3 * 4,
    OUT = 2 * 5
};

/* y = 0.5 x (a (x) b^T) - y with a batch of x; f64. */
struct problem {
    double x[ITEMS * ROWS * IN], a[3 * 2], b[5 * 4], y[ITEMS * ROWS * OUT], alpha[ITEMS];
    gram_tensor tx, ta, tb, ty, talpha;
    const gram_tensor *factors[2];
    gram_kron_options options;
};

static gram_tensor batched(void *data, int64_t cols)
{
    gram_tensor t = gram_matrix(data, ROWS, cols, GRAM_F64);

    t.ndim = 3;
    t.shape[0] = ITEMS, t.shape[1] = ROWS, t.shape[2] = cols;
    t.stride[0] = ROWS * cols, t.stride[1] = cols, t.stride[2] = 1;
    return t;
}

static void fill(struct problem *p, int seed)
{
    *p = (struct problem){.options = GRAM_KRON_OPTIONS_INIT};
    for (int i = 0; i < ITEMS * ROWS * IN; i++)
        p->x[i] = cos(seed + i);
    for (int i = 0; i < 6; i++)
        p->a[i] = sin(seed + 2 * i);
    for (int i = 0; i < 20; i++)
        p->b[i] = cos(seed + 3 * i);
    for (int i = 0; i < ITEMS * ROWS * OUT; i++)
        p->y[i] = seed + i;
    p->alpha[0] = 0.5, p->alpha[1] = seed;
    p->tx = batched(p->x, IN);
    p->ty = batched(p->y, OUT);
    p->ta = gram_matrix(p->a, 3, 2, GRAM_F64);
    p->tb = gram_matrix(p->b, 5, 4, GRAM_F64);
    p->talpha = gram_vector(p->alpha, ITEMS, GRAM_F64);
    p->factors[0] = &p->ta, p->factors[1] = &p->tb;
    p->options.transpose_factors = 2;
    p->options.alpha.tensor = &p->talpha;
    p->options.beta.value = -1;
    p->options.z = &p->ty;
}

static gram_status call(struct harness *h, struct problem *p)
{
    return gram_kron_matmul(h->g, &p->tx, p->factors, 2, &p->options, &p->ty);
}

static gram_status plan_of(struct harness *h, struct problem *p, gram_plan **plan)
{
    return gram_kron_matmul_plan(h->g, &p->tx, p->factors, 2, &p->options, &p->ty, plan);
}

static void the_same_results(struct harness *h)
{
    struct problem direct, planned, other;
    gram_plan_description d = {.size = sizeof d};
    gram_workspace need;
    gram_plan *plan;

    fill(&direct, 1), fill(&planned, 1), fill(&other, 7);
    CHECK(h, plan_of(h, &planned, &plan) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h,
          gram_kron_matmul_workspace(h->g, &planned.tx, planned.factors, 2, &planned.options,
                                     &planned.ty, &need) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, gram_plan_describe(plan, &d) == GRAM_OK && d.need.host_bytes == need.host_bytes,
          "%zu bytes, expected %zu", d.need.host_bytes, need.host_bytes);
    CHECK(h, strstr(d.text, "2 x 5 rows of f64 times 3 x 2 4 x 5 on the CPU") && isnan(d.seconds),
          "%s", d.text);
    planned.options.beta.value = 8, planned.tx.shape[0] = 1; /* the plan has copies */
    for (int twice = 0; twice < 2; twice++) {
        CHECK(h, call(h, &direct) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_plan_execute(plan) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, memcmp(planned.y, direct.y, sizeof direct.y) == 0, "other results");
    }

    /* All data anew; alpha stays the planned tensor's. */
    memcpy(direct.y, planned.y, sizeof direct.y);
    CHECK(h, gram_kron_matmul_replace(plan, &other.tx, other.factors, &other.ty) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_plan_execute(plan) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, memcmp(planned.y, direct.y, sizeof direct.y) == 0, "the old y was written");
    fill(&direct, 7);
    memcpy(direct.alpha, planned.alpha, sizeof direct.alpha);
    CHECK(h, call(h, &direct) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, memcmp(other.y, direct.y, sizeof direct.y) == 0, "other results, replaced");
    gram_plan_destroy(plan);
}

static void what_is_refused(struct harness *h)
{
    struct problem p, other;
    gram_tensor inside;
    const gram_tensor *factors[2] = {NULL, &other.ta};
    double before[ITEMS * ROWS * OUT], ones[] = {1};
    gram_tensor one = gram_matrix(ones, 1, 1, GRAM_F64), value = gram_vector(ones, 1, GRAM_F64);
    gram_plan *plan = (gram_plan *)&p, *of_eigh;

    fill(&p, 2), fill(&other, 3);
    memcpy(before, p.y, sizeof before);
    p.tx.shape[2] = 11;
    CHECK(h,
          plan_of(h, &p, &plan) == GRAM_INVALID_ARGUMENT && !plan &&
              strstr(gram_message(h->g), "gram_kron_matmul_plan: x has 11 columns, expected 12"),
          "%s", gram_message(h->g));
    p.tx.shape[2] = 12;
    CHECK(h, plan_of(h, &p, NULL) == GRAM_INVALID_ARGUMENT, "a plan without a place");
    CHECK(h, plan_of(h, &p, &plan) == GRAM_OK, "%s", gram_message(h->g));

    CHECK(h,
          gram_kron_matmul_replace(plan, NULL, factors, NULL) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "factors[1] differs"),
          "%s", gram_message(h->g));
    other.tx.dtype = GRAM_F32;
    CHECK(h, gram_kron_matmul_replace(plan, &other.tx, NULL, NULL) == GRAM_INVALID_ARGUMENT,
          "x of f32");
    inside = p.tx;
    inside.data = p.y;
    inside.stride[0] = inside.stride[1] = 0;
    CHECK(h, gram_kron_matmul_replace(plan, &inside, NULL, NULL) == GRAM_INVALID_ARGUMENT,
          "other strides");
    inside = p.tb;
    inside.data = p.y;
    factors[1] = &inside;
    CHECK(h,
          gram_kron_matmul_replace(plan, NULL, factors, NULL) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "y overlaps factors[1]"),
          "%s", gram_message(h->g));
    CHECK(h, memcmp(before, p.y, sizeof before) == 0, "y was written");

    /* The plan is as it was. */
    memcpy(other.y, p.y, sizeof p.y);
    CHECK(h, gram_plan_execute(plan) == GRAM_OK, "%s", gram_message(h->g));
    memcpy(before, p.y, sizeof before);
    memcpy(p.y, other.y, sizeof p.y);
    CHECK(h, call(h, &p) == GRAM_OK && memcmp(before, p.y, sizeof before) == 0, "another result");
    gram_plan_destroy(plan);

    CHECK(h,
          gram_eigh_plan(h->g, &one, NULL, &value, NULL, NULL, &of_eigh) == GRAM_INVALID_ARGUMENT,
          "values that overlap the matrix");
    value.data = before;
    CHECK(h, gram_eigh_plan(h->g, &one, NULL, &value, NULL, NULL, &of_eigh) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h,
          gram_kron_matmul_replace(of_eigh, &p.tx, NULL, NULL) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "another function"),
          "%s", gram_message(h->g));
    gram_plan_destroy(of_eigh);
}

static const struct test_function tests[] = {
    {"the_same_results", the_same_results},
    { "what_is_refused",  what_is_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
