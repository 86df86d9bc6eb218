/*
 * test_optimizer_soap_trouble.c - SOAP and Muon with gradients, factors and memory that are not as
 * they should be
 *
 * SPDX-License-Identifier: MIT
 */
#include "soap_run.h"
#include <math.h>
#include <string.h>

static gram_optimizer_options defaults_of(struct harness *h, gram_optimizer_method method)
{
    gram_optimizer_options o = {.size = sizeof o};

    CHECK(h, gram_optimizer_defaults(method, &o), "no method %d", (int)method);
    o.refresh = 2;
    return o;
}

static bool finite_direction(const struct soap_run *r)
{
    for (int64_t i = 0; i < r->count; i++)
        if (!isfinite(test_at(&r->direction, i)))
            return false;
    return true;
}

static void draw_and_step(struct soap_run *r)
{
    soap_run_draw(r);
    CHECK(r->h, soap_run_step(r) == GRAM_OK && finite_direction(r), "%s", gram_message(r->h->g));
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static void check_not_finite(struct harness *h, gram_optimizer_method method, double value)
{
    gram_optimizer_options options = defaults_of(h, method);
    struct soap_run r;
    uint64_t before;

    if (soap_run_begin(h, &r, &options, GRAM_F32, 2, (int64_t[]){4, 5})) {
        for (int i = 0; i < 3; i++)
            draw_and_step(&r);
        before = soap_run_hash(&r);
        soap_run_draw(&r);
        test_put(&r.gradient, 7, value);
        options.not_finite = GRAM_NOT_FINITE_FAIL;
        CHECK(h, gram_optimizer_set(h->g, r.optimizer, &options) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, soap_run_step(&r) == GRAM_NUMERICAL && soap_run_hash(&r) == before, "%g", value);
        options.not_finite = GRAM_NOT_FINITE_SKIP;
        CHECK(h, gram_optimizer_set(h->g, r.optimizer, &options) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, soap_run_step(&r) == GRAM_OK && r.report.skipped == 1, "%g", value);
        for (int64_t i = 0; i < r.count; i++)
            CHECK(h, test_at(&r.direction, i) == 0, "a parameter that rests moves");
        for (int i = 0; i < 5; i++)
            draw_and_step(&r);
    }
    soap_run_end(&r);
}

/* The last one is finite, its square is not. */
static void gradients_that_are_not_finite(struct harness *h)
{
    static const double values[] = {NAN, INFINITY, -INFINITY, 1e30};

    for (int i = 0; i < LENGTH(values); i++) {
        check_not_finite(h, GRAM_SOAP, values[i]);
        check_not_finite(h, GRAM_MUON, values[i]);
    }
}

static void check_zeros(struct harness *h, gram_optimizer_method method, int ndim)
{
    gram_optimizer_options options = defaults_of(h, method);
    struct soap_run r;

    options.weight_decay = 0;
    if (soap_run_begin(h, &r, &options, GRAM_F32, ndim, (int64_t[]){4, 5})) {
        for (int i = 0; i < 6; i++) {
            CHECK(h, soap_run_step(&r) == GRAM_OK, "%s", gram_message(h->g));
            for (int64_t j = 0; j < r.count; j++)
                CHECK(h, test_at(&r.direction, j) == 0, "%g", test_at(&r.direction, j));
        }
        for (int i = 0; i < 6; i++)
            draw_and_step(&r);
    }
    soap_run_end(&r);
}

static void gradients_of_zeros(struct harness *h)
{
    for (int ndim = 0; ndim <= 2; ndim++) {
        check_zeros(h, GRAM_SOAP, ndim);
        check_zeros(h, GRAM_MUON, ndim);
    }
}

static void check_orthogonal(struct soap_run *r, const char *name)
{
    gram_tensor q = soap_run_state(r, name);
    int64_t n = q.shape[0];

    CHECK(r->h, q.data != NULL, "no %s", name);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double dot = i == j ? -1 : 0;
            for (int64_t k = 0; k < n; k++)
                dot += test_at(&q, i * n + k) * test_at(&q, j * n + k);
            CHECK(r->h, fabs(dot) <= 1e-12, "%s: %g", name, dot);
        }
}

/* One direction for ever: all but one eigenvalue are 0, and every basis is still one. */
static void factors_of_rank_one(struct harness *h)
{
    gram_optimizer_options options = defaults_of(h, GRAM_SOAP);
    struct soap_run r;

    if (soap_run_begin(h, &r, &options, GRAM_F64, 2, (int64_t[]){6, 9}))
        for (int step = 0; step < 12; step++) {
            for (int64_t i = 0; i < r.count; i++)
                test_put(&r.gradient, i, (double)(i - i % 9 + 9) * sin(1 + (double)(i % 9)));
            CHECK(h, soap_run_step(&r) == GRAM_OK && finite_direction(&r), "%s",
                  gram_message(h->g));
            check_orthogonal(&r, "0.0.root.0");
            check_orthogonal(&r, "0.0.root.1");
        }
    soap_run_end(&r);
}

static void tensors_of_no_elements(struct harness *h)
{
    static const int64_t shape[] = {0, 4};

    for (int method = GRAM_SOAP; method <= GRAM_MUON; method++) {
        gram_optimizer_options options = defaults_of(h, (gram_optimizer_method)method);
        struct soap_run r;
        if (soap_run_begin(h, &r, &options, GRAM_F32, 2, shape))
            for (int step = 0; step < 3; step++)
                CHECK(h, soap_run_step(&r) == GRAM_OK, "%s", gram_message(h->g));
        soap_run_end(&r);
    }
}

/* ---- Bases ----------------------------------------------------------------------------------- */

/* A factor that something wrote a NaN into: the bases stay, failures are counted, and after as many
 * as are tolerated the step refuses and changes nothing. */
static void bases_that_cannot_be_had(struct harness *h)
{
    gram_optimizer_options options = defaults_of(h, GRAM_SOAP);
    gram_tensor factor, root;
    double before[16];
    uint64_t hash;
    struct soap_run r;

    options.failures = 1;
    options.refresh = 1;
    if (!soap_run_begin(h, &r, &options, GRAM_F64, 2, (int64_t[]){4, 5}))
        return;
    for (int i = 0; i < 3; i++)
        draw_and_step(&r);
    factor = soap_run_state(&r, "0.0.factor.0");
    root = soap_run_state(&r, "0.0.root.0");
    memcpy(before, root.data, sizeof before);
    test_put(&factor, 1, NAN);
    for (int i = 0; i < 2; i++) {
        draw_and_step(&r);
        CHECK(h, r.report.failed == 1 && r.report.first_failed == 0 && r.report.refreshed == 1,
              "%d failed", (int)r.report.failed);
        CHECK(h, memcmp(before, root.data, sizeof before) == 0, "the basis changed");
    }
    hash = soap_run_hash(&r);
    soap_run_draw(&r);
    CHECK(h, soap_run_step(&r) == GRAM_NUMERICAL && soap_run_hash(&r) == hash, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < test_count(&factor); i++) /* a new beginning */
        test_put(&factor, i, 0);
    options.failures = 2;
    CHECK(h, gram_optimizer_set(h->g, r.optimizer, &options) == GRAM_OK, "%s", gram_message(h->g));
    draw_and_step(&r);
    CHECK(h, r.report.failed == 0 && r.report.refreshed == 2, "%d failed", (int)r.report.failed);
    soap_run_end(&r);
}

/* Gradients of one covariance: with a tolerance the bases are kept, and the report says so. */
static void bases_that_still_fit(struct harness *h)
{
    gram_optimizer_options options = defaults_of(h, GRAM_SOAP);
    int64_t kept = 0, refreshed = 0;
    struct soap_run r;

    options.skip = 0.1;
    if (!soap_run_begin(h, &r, &options, GRAM_F64, 2, (int64_t[]){5, 5}))
        return;
    for (int step = 0; step < 9; step++) {
        for (int64_t i = 0; i < r.count; i++)
            test_put(&r.gradient, i, (i % 6 == 0) * (double)(1 + i) * (step % 2 ? 1 : -1));
        CHECK(h, soap_run_step(&r) == GRAM_OK, "%s", gram_message(h->g));
        kept += r.report.kept;
        refreshed += r.report.refreshed;
    }
    CHECK(h, refreshed == 2 && kept == 8, "%d refreshed, %d kept", (int)refreshed, (int)kept);
    soap_run_end(&r);
}

/* Two parameters take their turns on different steps with stagger, on the same without. */
static void turns_of_blocks(struct harness *h)
{
    for (int stagger = 0; stagger < 2; stagger++) {
        gram_optimizer_options options = defaults_of(h, GRAM_SOAP);
        double numbers[6][9];
        gram_tensor t[6];
        const gram_tensor *parameters[] = {&t[0], &t[1]}, *gradients[] = {&t[2], &t[3]};
        gram_tensor *directions[] = {&t[4], &t[5]};
        gram_optimizer *o = NULL;
        gram_optimizer_report report = {.size = sizeof report};
        options.stagger = stagger;
        for (int i = 0; i < 6; i++) {
            t[i] = gram_matrix(numbers[i], 3, 3, GRAM_F64);
            for (int j = 0; j < 9; j++)
                numbers[i][j] = 2 * test_uniform(h) - 1;
        }
        CHECK(h, gram_optimizer_create(h->g, &options, parameters, 2, &o) == GRAM_OK, "%s",
              gram_message(h->g));
        for (int step = 0; o && step < 7; step++) {
            int expected = step == 0 ? 4 : stagger ? 2 : step % 2 == 0 ? 4 : 0;
            CHECK(h,
                  gram_optimizer_direction(h->g, o, parameters, gradients, directions, &report) ==
                      GRAM_OK,
                  "%s", gram_message(h->g));
            CHECK(h, report.refreshed == expected, "step %d: %d refreshed", step,
                  (int)report.refreshed);
        }
        gram_optimizer_destroy(o);
    }
}

/* ---- Options, memory ------------------------------------------------------------------------ */

static void refused_options(struct harness *h)
{
    static double numbers[4];
    gram_tensor t = gram_matrix(numbers, 2, 2, GRAM_F64);
    const gram_tensor *parameters[] = {&t};

    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"beta2", "graft", "beta2", "graft", "shampoo_beta"};
        gram_optimizer_method method = i == 2 || i == 3 ? GRAM_MUON : GRAM_SOAP;
        gram_optimizer_options options = defaults_of(h, method);
        gram_optimizer *o = NULL;
        options.beta2 = i % 2 == 0 && i < 4 ? 1 : 0.9;
        options.graft = i % 2 ? GRAM_GRAFT_SGD : GRAM_GRAFT_NONE;
        options.shampoo_beta = i == 4 ? 1 : 0.5;
        CHECK(h,
              gram_optimizer_create(h->g, &options, parameters, 1, &o) == GRAM_INVALID_ARGUMENT &&
                  o == NULL && strstr(gram_message(h->g), names[i]),
              "%s", gram_message(h->g));
        gram_optimizer_destroy(o);
    }
}

static gram_status step_or_ask(struct harness *h, void *problem, gram_workspace *need)
{
    struct soap_run *r = problem;

    return need ? gram_optimizer_workspace(h->g, r->optimizer, need) : soap_run_step(r);
}

static void exact_scratch(struct harness *h)
{
    static const int64_t shapes[][3] = {
        {9,  5, 4},
        {5,  9, 1},
        {7, 30, 2}
    };

    for (int i = 0; i < 2 * LENGTH(shapes); i++) {
        gram_optimizer_options options = defaults_of(h, i % 2 ? GRAM_MUON : GRAM_SOAP);
        struct soap_run r;
        options.refresh = 1;
        options.state = i < 2 ? GRAM_BF16 : (gram_dtype)0;
        if (soap_run_begin(h, &r, &options, GRAM_F32, 3, shapes[i / 2])) {
            soap_run_draw(&r);
            for (int step = 0; step < 3; step++)
                CHECK(h, test_in_exact_scratch(h, step_or_ask, &r), "%s", gram_message(h->g));
        }
        soap_run_end(&r);
    }
}

static const struct test_function tests[] = {
    {"gradients_that_are_not_finite", gradients_that_are_not_finite},
    {           "gradients_of_zeros",            gradients_of_zeros},
    {          "factors_of_rank_one",           factors_of_rank_one},
    {       "tensors_of_no_elements",        tensors_of_no_elements},
    {     "bases_that_cannot_be_had",      bases_that_cannot_be_had},
    {         "bases_that_still_fit",          bases_that_still_fit},
    {              "turns_of_blocks",               turns_of_blocks},
    {              "refused_options",               refused_options},
    {                "exact_scratch",                 exact_scratch},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
