/*
 * test_optimizer_calls.c - what optimizers tell of themselves, and how little they can be called
 * with
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_sample.h"
#include <math.h>
#include <string.h>

/* A direction in the place of its gradient; one without a gradient may be left out. */
static void directions_in_place(struct harness *h)
{
    struct call a, b;
    gram_optimizer *first, *second;

    sample_call(h, &a);
    sample_call(h, &b);
    first = sample_optimizer(h, &a.s, &a.options);
    second = sample_optimizer(h, &b.s, &b.options);
    a.s.gradients[1] = b.s.gradients[1] = NULL;
    b.s.directions[0] = &b.s.grad[0];
    b.s.directions[1] = NULL;
    CHECK(h,
          gram_optimizer_direction(h->g, first, (const gram_tensor *const *)a.s.values,
                                   a.s.gradients, a.s.directions, NULL) == GRAM_OK &&
              gram_optimizer_direction(h->g, second, (const gram_tensor *const *)b.s.values,
                                       b.s.gradients, b.s.directions, NULL) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, memcmp(a.s.p, b.s.g, 30 * sizeof(double)) == 0, "another direction in place");
    for (int i = 30; i < 37; i++)
        CHECK(h, a.s.p[i] == 0, "%g without a gradient", a.s.p[i]);
    gram_optimizer_destroy(first);
    gram_optimizer_destroy(second);
}

/* ---- What they tell ------------------------------------------------------------------------ */

static int64_t rounded(int64_t count, int64_t size)
{
    return (count * size + 63) / 64 * 64;
}

/* The state, to the byte, as gram.h counts it: blocks of 4 by 4, 4 by 1, 2 by 4, 2 by 1, 4, 3, 1.
 */
static void bytes_are_told(struct harness *h)
{
    static const int64_t sides[7][2] = {
        {4, 4},
        {4, 1},
        {2, 4},
        {2, 1},
        {4, 0},
        {3, 0},
        {1, 0}
    };

    for (int packed = 0; packed < 2; packed++) {
        struct call c;
        gram_optimizer *o;
        gram_optimizer_info info = {.size = sizeof info};
        int64_t expected = rounded(1, 8) + rounded(SAMPLE, 8) + rounded(7, 8), states = 3;
        sample_call(h, &c);
        c.options.packed = packed;
        c.options.graft = GRAM_GRAFT_ADAM;
        o = sample_optimizer(h, &c.s, &c.options);
        for (int b = 0; b < 7; b++) {
            int64_t count = sides[b][0] * (sides[b][1] ? sides[b][1] : 1);
            expected += 2 * rounded(count, 8); /* M and V */
            states += 2;
            for (int k = 0; k < 2 && sides[b][k]; k++, states += 2) {
                int64_t n = sides[b][k];
                expected += 2 * rounded(packed ? n * (n + 1) / 2 : n * n, 8);
            }
        }
        CHECK(h, gram_optimizer_get(h->g, o, NULL, &info) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h,
              info.bytes == expected && info.states == states && info.blocks == 7 &&
                  info.own_blocks == 7 && info.parameters == SAMPLE && info.step == 0,
              "%lld bytes, expected %lld; %lld states, expected %lld", (long long)info.bytes,
              (long long)expected, (long long)info.states, (long long)states);
        gram_optimizer_destroy(o);
    }
}

static void states_have_names(struct harness *h)
{
    static const char *const expected[] = {"step",         "steps",      "failures",
                                           "0.0.factor.0", "0.0.root.0", "0.0.factor.1",
                                           "0.0.root.1",   "0.0.moment", "0.1.factor.0"};
    struct call c;
    gram_optimizer *o;
    const char *name;
    gram_tensor view;

    sample_call(h, &c);
    c.options.packed = 0;
    o = sample_optimizer(h, &c.s, &c.options);
    sample_step(h, &c.s, o);
    for (int i = 0; i < LENGTH(expected); i++)
        CHECK(h,
              gram_optimizer_state_at(h->g, o, i, &name, &view) == GRAM_OK &&
                  strcmp(name, expected[i]) == 0,
              "%s, expected %s", name, expected[i]);
    CHECK(h, gram_optimizer_state_at(h->g, o, 1, &name, &view) == GRAM_OK, "steps");
    CHECK(h, view.ndim == 1 && view.shape[0] == SAMPLE && *(const int64_t *)view.data == 1,
          "parameter 0 has done %lld steps", (long long)*(const int64_t *)view.data);
    CHECK(h, gram_optimizer_state_at(h->g, o, 3, &name, &view) == GRAM_OK, "a factor");
    for (int i = 0; i < 16; i++) { /* the first 4 of 5 columns of rows i / 4 and i % 4 */
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += c.s.g[i / 4 * 5 + k] * c.s.g[i % 4 * 5 + k];
        CHECK(h, fabs(((const double *)view.data)[i] - sum) < 1e-12, "factor[%d]", i);
    }
    CHECK(h,
          gram_optimizer_state_at(h->g, o, -1, &name, &view) == GRAM_INVALID_ARGUMENT &&
              gram_optimizer_state_at(h->g, o, 1000, &name, &view) == GRAM_INVALID_ARGUMENT &&
              gram_optimizer_state_at(h->g, o, 0, NULL, &view) == GRAM_INVALID_ARGUMENT,
          "a state that is not there");
    gram_optimizer_destroy(o);
}

/* Defaults by method; an older, shorter struct; an optimizer of nothing. */
static void small_calls(struct harness *h)
{
    gram_optimizer_options o = {.size = sizeof o}, init = GRAM_OPTIMIZER_OPTIONS_INIT;
    struct {
        size_t size;
        gram_optimizer_method method;
        int bias_correction;
    } old = {sizeof old, GRAM_SHAMPOO, 0};
    gram_optimizer *nothing = NULL;
    gram_optimizer_report report = {.size = sizeof report};
    gram_status status;

    CHECK(h, gram_optimizer_defaults(GRAM_SHAMPOO, &o), "no defaults");
    CHECK(h, memcmp(&o, &init, sizeof o) == 0, "other defaults than the macro's");
    CHECK(h, !gram_optimizer_defaults((gram_optimizer_method)99, &o), "defaults of nothing");
    status = gram_optimizer_create(h->g, (const gram_optimizer_options *)(const void *)&old, NULL,
                                   0, &nothing);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h,
          gram_optimizer_get(h->g, nothing, &o, NULL) == GRAM_OK && !o.bias_correction &&
              o.learning_rate == 0.01,
          "%s", gram_message(h->g));
    CHECK(h, gram_optimizer_step(h->g, nothing, NULL, NULL, &report) == GRAM_OK, "%s",
          gram_message(h->g));
    report.size = 4;
    CHECK(h, gram_optimizer_step(h->g, nothing, NULL, NULL, &report) == GRAM_INVALID_ARGUMENT,
          "a report of 4 bytes");
    CHECK(h, gram_optimizer_step(h->g, NULL, NULL, NULL, NULL) == GRAM_INVALID_ARGUMENT, "NULL");
    gram_optimizer_destroy(nothing);
    gram_optimizer_destroy(NULL);
}

static const struct test_function tests[] = {
    {"directions_in_place", directions_in_place},
    {     "bytes_are_told",      bytes_are_told},
    {  "states_have_names",   states_have_names},
    {        "small_calls",         small_calls},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
