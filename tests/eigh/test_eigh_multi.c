/*
 * test_eigh_multi.c - one eigenproblem on several CUDA devices: emulated ones, or those there are
 *
 * Where there are none, only that the CPU says so.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_multi_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tests ---------------------------------------------------------------------------------- */

static void the_cpu_says_no(struct harness *h)
{
    double a[] = {2, 1, 1, 2}, w[2];
    gram_tensor ta = gram_matrix(a, 2, 2, GRAM_F64), tw = gram_vector(w, 2, GRAM_F64);
    gram_context *cpu = NULL;
    gram_group group = GRAM_GROUP_INIT;

    CHECK(h, gram_context_create(NULL, &cpu) == GRAM_OK, "%s", gram_message(NULL));
    group.contexts = &cpu;
    group.count = 1;
    CHECK(h, gram_eigh_multi(&group, &ta, NULL, &tw, NULL, NULL) == GRAM_UNSUPPORTED,
          "the CPU takes it");
    CHECK(h, strstr(gram_message(cpu), "gram_eigh_multi: the CPU"), "%s", gram_message(cpu));
    gram_context_destroy(cpu);
}

static void every_place_and_layout(struct harness *h)
{
    static const struct multi_problem problems[] = {
        {      .n = 1,       .count = 1,   .a_on = -1,       .v_on = -1, .w_on = -1      },
        { .n = 5,       .count = 5,    .a_on = 0,        .v_on = 0,  .w_on = 0                 },
        { .n = 257,     .count = 257,   .a_on = -1,       .v_on = -1, .w_on = -1,                .by_columns = true},
        { .n = 300,     .count = 300,    .a_on = 0,        .v_on = 0,  .w_on = 0,                     .upper = true},
        { .n = 513,      .count = 40, .first = 250,        .a_on = 1,  .v_on = 1,       .w_on = 1, .by_columns = true},
        { .n = 520,       .count = 9, .first = 511,        .a_on = 0,  .v_on = 1,        .w_on = -1},
        { .n = 300,     .count = 300,   .a_on = -1,        .v_on = 1,  .w_on = 0,     .upper = true},
        { .n = MULTI_N, .count = MULTI_N,    .a_on = 1,       .v_on = -1, .w_on = -1,.by_columns = true},
        { .n = 300,     .count = 300,    .a_on = 1, .in_place = true, .w_on = -1                 },
        { .n = 270,     .count = 270,   .a_on = -1, .in_place = true, .w_on = -1,                .by_columns = true},
    };
    static const double scales[] = {1, 1e30, 1e-30};

    for (int count = 1; count <= 3; count++)
        for (int k = 0; k < LENGTH(problems); k++) {
            struct multi_devices d;
            struct multi_problem p = problems[k];
            if ((p.a_on > 0 || p.v_on > 0 || p.w_on > 0) && count == 1)
                continue;
            if (!multi_open(h, &d, count, k % 2))
                continue;
            p.scale = scales[k % 3];
            p.dtype = k % 2 ? GRAM_F32 : GRAM_F64;
            p.vectors = true;
            multi_compute(h, &d, &p);
            multi_close(&d);
        }
}

static void values_alone_and_again(struct harness *h)
{
    struct multi_devices d;
    struct multi_problem p = {.n = 400, .count = 400, .a_on = 0, .w_on = -1, .dtype = GRAM_F64};
    double w[400];

    p.scale = 1, p.v_on = -1;
    if (!CHECK(h, multi_count(h) >= 0, "devices") || !multi_open(h, &d, 2, false))
        return;
    if (multi_fill(h, &d, &p)) {
        CHECK(h, multi_run(&d, &p) == GRAM_OK && p.code == 0, "%s", gram_message(d.g[0]));
        for (int j = 0; j < 400; j++)
            w[j] = multi_value_at(&p, j);
        for (int again = 0; again < 3; again++) { /* with the same handle, and with another */
            if (again == 1) {
                multi_drop(&d, &p);
                multi_close(&d);
                if (!CHECK(h, multi_open(h, &d, 2, false), "no devices") || !multi_fill(h, &d, &p))
                    return;
            }
            CHECK(h, multi_run(&d, &p) == GRAM_OK && p.code == 0, "%s", gram_message(d.g[0]));
            for (int j = 0; j < 400; j++)
                CHECK(h, fabs(multi_value_at(&p, j) - w[j]) <= 1e-10, "value %d is another", j);
        }
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static void values_in_an_interval(struct harness *h)
{
    struct multi_devices d;
    struct multi_problem p = {.n = 300, .count = 300, .a_on = 0, .v_on = 1, .w_on = -1, .scale = 1};
    int64_t inside = 0;

    p.dtype = GRAM_F64, p.vectors = true;
    if (!CHECK(h, multi_count(h) >= 0, "devices") || !multi_open(h, &d, 2, false))
        return;
    if (multi_fill(h, &d, &p)) {
        p.options.select = GRAM_EIGH_VALUE;
        p.options.lower = -INFINITY, p.options.upper = 3;
        p.options.found = &p.found;
        CHECK(h, multi_run(&d, &p) == GRAM_OK, "%s", gram_message(d.g[0]));
        multi_fetch(h, &d, &p);
        while (inside < 300 && multi_value_at(&p, inside) <= 3)
            inside++;
        CHECK(h, inside == p.inside && inside > 10 && inside < 290, "%lld of %lld are found",
              (long long)p.inside, (long long)inside);
        CHECK(h,
              isnan(multi_value_at(&p, inside)) && isnan(multi_vector_at(&p, 7, inside)) &&
                  isfinite(multi_vector_at(&p, 7, inside - 1)),
              "what is left is not NaN");
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static void nan_is_told(struct harness *h, int on)
{
    struct multi_devices d;
    struct multi_problem p = {.n = 300, .count = 300, .w_on = -1, .scale = 1, .dtype = GRAM_F32};

    p.a_on = p.v_on = on, p.vectors = true, p.by_columns = true;
    p.upper = true; /* of which the other half is NaN; so that all of it is */
    if (!multi_open(h, &d, 2, false))
        return;
    if (multi_fill(h, &d, &p)) {
        p.options.uplo = GRAM_LOWER;
        CHECK(h, multi_run(&d, &p) == GRAM_OK && p.code == 2, "info %d: %s", (int)p.code,
              gram_message(d.g[0]));
        multi_fetch(h, &d, &p);
        CHECK(h, isnan(multi_value_at(&p, 3)) && isnan(multi_vector_at(&p, 299, 299)), "no NaN");
        CHECK(h, gram_eigh_multi(&d.group, &p.a, &p.options, &p.w, &p.v, NULL) == GRAM_NUMERICAL,
              "NaN without info");
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static void nan_and_what_fails(struct harness *h)
{
    struct multi_devices d;
    struct multi_problem p = {
        .n = 300, .count = 300, .a_on = -1, .v_on = -1, .w_on = -1, .scale = 1};
    static const struct {
        const char *name, *value;
        gram_status status;
        int info;
    } faults[] = {
        {"GRAM_FAKE_MG_STATUS", "7", GRAM_DEVICE_FAILED, MULTI_UNTOUCHED},
        {"GRAM_FAKE_MG_STATUS", "2", GRAM_OUT_OF_MEMORY, MULTI_UNTOUCHED},
        {  "GRAM_FAKE_MG_INFO", "5",            GRAM_OK,               1},
    };

    nan_is_told(h, -1);
    nan_is_told(h, 1);
    p.dtype = GRAM_F64, p.vectors = true;
    if (!CHECK(h, multi_count(h) >= 0, "devices") || !getenv("GRAM_TEST_EMULATED") ||
        !multi_open(h, &d, 2, false))
        return;
    for (int k = 0; k < LENGTH(faults) && multi_fill(h, &d, &p); k++) {
        setenv(faults[k].name, faults[k].value, 1);
        CHECK(h, multi_run(&d, &p) == faults[k].status && p.code == faults[k].info, "info %d: %s",
              (int)p.code, gram_message(d.g[0]));
        unsetenv(faults[k].name);
        CHECK(h, multi_run(&d, &p) == GRAM_OK && p.code == 0, "afterwards: %s",
              gram_message(d.g[0]));
        multi_check_pairs(h, &p);
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static void plans(struct harness *h)
{
    gram_plan_description e = {.size = sizeof e};
    struct multi_devices d;
    struct multi_problem p = {.n = 300, .count = 300, .a_on = 1, .v_on = -1, .w_on = 0, .scale = 1};
    gram_plan *plan = NULL;
    void *memory[2] = {NULL};

    p.dtype = GRAM_F32, p.vectors = true;
    if (!CHECK(h, multi_count(h) >= 0, "devices") || !multi_open(h, &d, 2, false))
        return;
    if (multi_fill(h, &d, &p)) {
        CHECK(h,
              gram_eigh_multi_plan(&d.group, &p.a, &p.options, &p.w, &p.v, &p.info, &plan) ==
                      GRAM_OK &&
                  gram_plan_describe(plan, &e) == GRAM_OK,
              "%s", gram_message(d.g[0]));
        CHECK(h, e.devices == 2 && e.device_bytes[0] == e.device_bytes[1] && e.device_bytes[1] > 0,
              "%d devices of %zu bytes", e.devices, e.device_bytes[0]);
        CHECK(h, e.need.host_bytes >= 300 * 256 * 4 && strstr(e.text, "on 2 devices"), "%s",
              e.text);
        CHECK(h, e.refused && strstr(e.reason, "one H200"), "refused %d: %s", e.refused, e.reason);
        CHECK(h, gram_plan_execute(plan) == GRAM_OK && p.code == 0, "%s", gram_message(d.g[0]));
        multi_fetch(h, &d, &p);
        multi_check_pairs(h, &p);
        gram_plan_destroy(plan);
        for (int i = 0; i < 2; i++) { /* the bytes are exact */
            size_t bytes = e.device_bytes[i];
            CHECK(h, gram_memory_allocate(d.g[i], bytes, &memory[i]) == GRAM_OK, "memory");
            CHECK(h, gram_context_use_workspace(d.g[i], memory[i], bytes - (size_t)i) == GRAM_OK,
                  "%s", gram_message(d.g[i]));
            if (i == 1) {
                CHECK(h, multi_run(&d, &p) == GRAM_OUT_OF_MEMORY, "a byte too little does");
                CHECK(h, gram_context_use_workspace(d.g[1], memory[1], bytes) == GRAM_OK, "all");
                CHECK(h, multi_run(&d, &p) == GRAM_OK, "%s", gram_message(d.g[0]));
            }
        }
        for (int i = 0; i < 2; i++) {
            CHECK(h, gram_context_use_workspace(d.g[i], NULL, 0) == GRAM_OK, "none");
            gram_memory_free(d.g[i], memory[i], e.device_bytes[i]);
        }
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static void refused(struct harness *h, struct multi_devices *d, struct multi_problem *p,
                    gram_status status, const char *text)
{
    p->code = MULTI_UNTOUCHED;
    CHECK(h, multi_run(d, p) == status && p->code == MULTI_UNTOUCHED, "not refused: %s", text);
    CHECK(h, strstr(gram_message(d->g[0]), text), "\"%s\", not \"%s\"", gram_message(d->g[0]),
          text);
}

static void what_is_refused(struct harness *h)
{
    struct multi_devices d;
    struct multi_problem p = {.n = 30, .count = 30, .a_on = -1, .v_on = -1, .w_on = -1, .scale = 1};
    gram_context *twice[2];

    p.dtype = GRAM_F32, p.vectors = true;
    if (!CHECK(h, multi_count(h) >= 0, "devices") || !multi_open(h, &d, 2, false))
        return;
    if (multi_fill(h, &d, &p)) {
        d.group.force = 0;
        refused(h, &d, &p, GRAM_UNSUPPORTED, "one device can hold the matrix");
        d.group.force = 1;
        p.options.driver = GRAM_EIGH_DRIVER_JACOBI;
        refused(h, &d, &p, GRAM_UNSUPPORTED, "options.driver is 2");
        p.options.driver = GRAM_EIGH_DRIVER_DIVIDE;
        p.a.device = (gram_device){GRAM_CUDA, 9};
        refused(h, &d, &p, GRAM_INVALID_ARGUMENT, "a is on device 1:9");
        p.a.device = (gram_device){GRAM_CPU, 0};
        p.w.shape[0] = 29;
        refused(h, &d, &p, GRAM_INVALID_ARGUMENT, "values has 29");
        p.w.shape[0] = 30;
        twice[0] = d.g[0];
        twice[1] = test_cuda_context(h, NULL);
        d.group.contexts = twice;
        refused(h, &d, &p, GRAM_INVALID_ARGUMENT, "distinct devices");
        gram_context_destroy(twice[1]);
        d.group.contexts = d.g;
        CHECK(h, multi_run(&d, &p) == GRAM_OK, "%s", gram_message(d.g[0]));
        multi_drop(&d, &p);
    }
    multi_close(&d);
}

static const struct test_function tests[] = {
    {       "the_cpu_says_no",        the_cpu_says_no},
    {"every_place_and_layout", every_place_and_layout},
    {"values_alone_and_again", values_alone_and_again},
    { "values_in_an_interval",  values_in_an_interval},
    {    "nan_and_what_fails",     nan_and_what_fails},
    {                 "plans",                  plans},
    {       "what_is_refused",        what_is_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
