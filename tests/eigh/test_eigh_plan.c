/*
 * test_eigh_plan.c - plans of gram_eigh: what they say is what the call does
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 40,
    ITEMS = 3
};

/* Symmetric matrices of any order up to N, in f64. */
struct problem {
    double a[ITEMS * N * N], w[ITEMS * N], v[ITEMS * N * N];
    int64_t counts[ITEMS];
    int32_t outcomes[ITEMS];
    gram_tensor ta, tw, tv, info, found;
    gram_eigh_options options;
};

static gram_tensor batched(void *data, int64_t rows, int64_t cols)
{
    gram_tensor t = gram_matrix(data, ITEMS, rows * cols, GRAM_F64);

    t.ndim = 3;
    t.shape[1] = rows, t.shape[2] = cols;
    t.stride[1] = cols, t.stride[2] = 1;
    return t;
}

static void fill(struct problem *p, int64_t n)
{
    *p = (struct problem){.options = GRAM_EIGH_OPTIONS_INIT};
    for (int64_t item = 0; item < ITEMS; item++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                p->a[(item * n + i) * n + j] =
                    (i == j ? (double)(i + item) : 0) + 1 / (double)(1 + i + j);
    p->ta = batched(p->a, n, n);
    p->tv = batched(p->v, n, n);
    p->tw = gram_matrix(p->w, ITEMS, n, GRAM_F64);
    p->info = gram_vector(p->outcomes, ITEMS, GRAM_I32);
    p->found = gram_vector(p->counts, ITEMS, GRAM_I64);
}

/* What the plan does to another copy is what the call does, and the scratch is the query's. */
static void same_as_the_call(struct harness *h, int64_t n, gram_eigh_driver driver, bool by_value)
{
    struct problem *direct = malloc(2 * sizeof *direct), *planned = direct + 1;
    gram_plan_description d = {.size = sizeof d};
    gram_workspace need = {0};
    gram_plan *plan = NULL;
    gram_status status;

    CHECK(h, direct, "no memory");
    if (!direct)
        return;
    fill(direct, n);
    fill(planned, n);
    for (int i = 0; i < 2; i++) {
        direct[i].options.driver = driver;
        direct[i].options.select = by_value ? GRAM_EIGH_VALUE : GRAM_EIGH_ALL;
        direct[i].options.lower = 1, direct[i].options.upper = 1e3;
        direct[i].options.found = by_value ? &direct[i].found : NULL;
    }
    status =
        gram_eigh(h->g, &direct->ta, &direct->options, &direct->tw, &direct->tv, &direct->info);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    status = gram_eigh_plan(h->g, &planned->ta, &planned->options, &planned->tw, &planned->tv,
                            &planned->info, &plan);
    CHECK(h, status == GRAM_OK && plan, "%s", gram_message(h->g));
    status = gram_eigh_workspace(h->g, &planned->ta, &planned->options, &planned->tw, &planned->tv,
                                 &need);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, plan && gram_plan_describe(plan, &d) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, d.driver != GRAM_EIGH_DRIVER_AUTO && (driver == 0 || d.driver == driver), "driver %d",
          (int)d.driver);
    CHECK(h, d.need.host_bytes == need.host_bytes && d.need.device_bytes == need.device_bytes,
          "scratch %zu and %zu", d.need.host_bytes, need.host_bytes);
    CHECK(h, d.time_source == GRAM_TIME_ESTIMATED && d.seconds > 0 && d.seconds < 1, "%g s, %d",
          d.seconds, (int)d.time_source);
    CHECK(h, !d.only_enqueues && strstr(d.text, "f64") && strstr(d.text, "keeps the calling"), "%s",
          d.text);
    planned->options.driver = (gram_eigh_driver)99; /* the plan has copies */
    for (int twice = 0; plan && twice < 2; twice++) {
        memset(planned->w, 0, sizeof planned->w);
        CHECK(h, gram_plan_execute(plan) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, memcmp(planned->w, direct->w, sizeof direct->w) == 0, "other values");
        CHECK(h, memcmp(planned->v, direct->v, sizeof direct->v) == 0, "other vectors");
        CHECK(h, memcmp(planned->counts, direct->counts, sizeof direct->counts) == 0,
              "other counts");
    }
    gram_plan_destroy(plan);
    free(direct);
}

static void the_same_results(struct harness *h)
{
    same_as_the_call(h, 3, GRAM_EIGH_DRIVER_AUTO, false);
    same_as_the_call(h, 12, GRAM_EIGH_DRIVER_AUTO, false);
    same_as_the_call(h, 12, GRAM_EIGH_DRIVER_DIVIDE, true);
    same_as_the_call(h, N, GRAM_EIGH_DRIVER_BISECTION, false);
}

static void what_is_refused(struct harness *h)
{
    struct problem *p = malloc(sizeof *p);
    struct {
        size_t size;
        gram_eigh_driver driver;
    } small = {.size = sizeof small};
    gram_plan_description d = {.size = sizeof d + 8};
    gram_plan *plan = (gram_plan *)p;

    CHECK(h, p, "no memory");
    if (!p)
        return;
    fill(p, 12);
    CHECK(h, gram_eigh_plan(h->g, &p->ta, NULL, &p->tw, NULL, NULL, NULL) == GRAM_INVALID_ARGUMENT,
          "a plan without a place");
    p->tw.shape[1] = 11;
    CHECK(h,
          gram_eigh_plan(h->g, &p->ta, NULL, &p->tw, NULL, NULL, &plan) == GRAM_INVALID_ARGUMENT &&
              !plan && strstr(gram_message(h->g), "gram_eigh_plan: values has 11"),
          "%s", gram_message(h->g));
    p->tw.shape[1] = 12;
    p->info.dtype = GRAM_I64;
    CHECK(h,
          gram_eigh_plan(h->g, &p->ta, NULL, &p->tw, NULL, &p->info, &plan) ==
                  GRAM_INVALID_ARGUMENT &&
              !plan,
          "info of i64");
    CHECK(h, gram_eigh_plan(h->g, &p->ta, NULL, &p->tw, NULL, NULL, &plan) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_plan_describe(plan, &d) == GRAM_INVALID_ARGUMENT, "a size beyond the struct's");
    CHECK(h,
          gram_plan_describe(plan, (gram_plan_description *)(void *)&small) == GRAM_OK &&
              small.driver == GRAM_EIGH_DRIVER_JACOBI,
          "driver %d", (int)small.driver);
    gram_plan_destroy(plan);
    p->options.driver = GRAM_EIGH_DRIVER_KRYLOV;
    d.size = sizeof d;
    CHECK(h, gram_eigh_plan(h->g, &p->ta, &p->options, &p->tw, NULL, NULL, &plan) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h,
          gram_plan_describe(plan, &d) == GRAM_OK && d.time_source == GRAM_TIME_UNKNOWN &&
              isnan(d.seconds),
          "%g s", d.seconds);
    gram_plan_destroy(plan);
    gram_plan_destroy(NULL);
    free(p);
}

static const struct test_function tests[] = {
    {"the_same_results", the_same_results},
    { "what_is_refused",  what_is_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
