/*
 * test_optimizer_trouble.c - what optimizers make of bad gradients, failing roots and no memory
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_change.h"
#include "optimizer_sample.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gram_optimizer_options everything(void)
{
    gram_optimizer_options o = optimizer_plain();

    o.block = 4;
    o.epsilon = 1e-6;
    o.beta2 = 0.9;
    o.graft = GRAM_GRAFT_ADAM;
    o.momentum = 0.5;
    o.weight_decay = 0.01;
    return o;
}

static bool all_finite(const double *x, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* ---- Gradients ---------------------------------------------------------------------------- */

/* A bad gradient of parameter 0 leaves it and its state alone; the others go on. */
static void bad_gradients_rest(struct harness *h)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e200};
    gram_optimizer_options o = everything();

    for (int i = 0; i < LENGTH(bad); i++)
        for (int decay = 0; decay < 2; decay++) {
            struct sample s, same;
            gram_optimizer *with, *without;
            gram_optimizer_report report;
            char *state;
            o.decay = (gram_weight_decay)decay;
            sample_open(h, &s);
            sample_open(h, &same);
            with = sample_optimizer(h, &s, &o);
            without = sample_optimizer(h, &same, &o);
            sample_step(h, &s, with);
            sample_step(h, &same, without);
            s.g[17] = bad[i];
            same.gradients[0] = NULL;
            report = sample_step(h, &s, with);
            sample_step(h, &same, without);
            CHECK(h, report.skipped == 1 && report.failed == 0, "%lld skipped, %lld failed",
                  (long long)report.skipped, (long long)report.failed);
            state = sample_state(h, without);
            CHECK(h, sample_same_state(h, with, state), "the state of a gradient with %g", bad[i]);
            CHECK(h, memcmp(s.w, same.w, sizeof s.w) == 0, "the values of a gradient with %g",
                  bad[i]);
            free(state);
            gram_optimizer_destroy(with);
            gram_optimizer_destroy(without);
        }
}

static void bad_gradients_fail(struct harness *h)
{
    gram_optimizer_options o = everything();
    struct sample s, before;
    gram_optimizer *optimizer;
    gram_optimizer_report report = {.size = sizeof report, .skipped = 77};
    char *state;

    o.not_finite = GRAM_NOT_FINITE_FAIL;
    sample_open(h, &s);
    optimizer = sample_optimizer(h, &s, &o);
    sample_step(h, &s, optimizer);
    s.g[33] = NAN;
    before = s;
    state = sample_state(h, optimizer);
    CHECK(h,
          gram_optimizer_step(h->g, optimizer, s.values, s.gradients, &report) == GRAM_NUMERICAL &&
              strstr(gram_message(h->g), "gradients[1] holds a NaN"),
          "%s", gram_message(h->g));
    CHECK(h, memcmp(s.w, before.w, sizeof s.w) == 0 && report.skipped == 77, "something changed");
    CHECK(h, sample_same_state(h, optimizer, state), "the state changed");
    free(state);
    gram_optimizer_destroy(optimizer);
}

/* Zeros, and gradients of rank one: finite directions, and 0 for 0. */
static void poor_gradients(struct harness *h)
{
    static const gram_graft grafts[] = {GRAM_GRAFT_NONE, GRAM_GRAFT_ADAGRAD, GRAM_GRAFT_ADAM};

    for (int i = 0; i < LENGTH(grafts); i++)
        for (int rank = 0; rank < 2; rank++) {
            gram_optimizer_options o = everything();
            struct sample s;
            gram_optimizer *optimizer;
            o.graft = grafts[i];
            o.graft_epsilon = 0;
            o.weight_decay = 0;
            sample_open(h, &s);
            optimizer = sample_optimizer(h, &s, &o);
            for (int step = 0; step < 4; step++) {
                for (int e = 0; e < SAMPLE_NUMBERS; e++) {
                    int row = e / 5, column = e % 5;
                    s.g[e] = rank * (row + 1.0) * (column - 2.0);
                }
                CHECK(h,
                      gram_optimizer_direction(h->g, optimizer,
                                               (const gram_tensor *const *)s.values, s.gradients,
                                               s.directions, NULL) == GRAM_OK,
                      "%s", gram_message(h->g));
                CHECK(h, all_finite(s.p, SAMPLE_NUMBERS), "graft %d, rank %d", (int)grafts[i],
                      rank);
                for (int e = 0; rank == 0 && e < SAMPLE_NUMBERS; e++)
                    CHECK(h, s.p[e] == 0, "a direction of %g for nothing", s.p[e]);
            }
            gram_optimizer_destroy(optimizer);
        }
}

/* ---- Roots -------------------------------------------------------------------------------- */

static void failing_roots(struct harness *h)
{
    gram_optimizer_options o = everything();
    struct sample s;
    gram_optimizer *optimizer;
    gram_optimizer_report report;
    char *state;

    o.failures = 2;
    sample_open(h, &s);
    memset(s.g, 0, 30 * sizeof *s.g);
    optimizer = sample_optimizer(h, &s, &o);
    sample_spoil(h, h->g, optimizer, NAN); /* no root of it, ever */
    for (int step = 0; step < 3; step++) {
        report = sample_step(h, &s, optimizer);
        CHECK(h, report.failed >= 8 && report.first_failed == 0, "%lld failed, parameter %lld",
              (long long)report.failed, (long long)report.first_failed);
        CHECK(h, all_finite(s.w, SAMPLE_NUMBERS), "a value is not finite");
    }
    state = sample_state(h, optimizer);
    CHECK(h,
          gram_optimizer_step(h->g, optimizer, s.values, s.gradients, NULL) == GRAM_NUMERICAL &&
              strstr(gram_message(h->g), "the root of block 0 of parameters[0] has failed 3 times"),
          "%s", gram_message(h->g));
    CHECK(h, sample_same_state(h, optimizer, state), "a refused step changed the state");
    free(state);
    o.epsilon = 1e-5;
    CHECK(h, gram_optimizer_set(h->g, optimizer, &o) == GRAM_OK, "%s", gram_message(h->g));
    sample_spoil(h, h->g, optimizer, 0);
    report = sample_step(h, &s, optimizer);
    CHECK(h, report.failed == 0, "%lld failed", (long long)report.failed);
    gram_optimizer_destroy(optimizer);
}

/* Factors of low rank once failed within some steps: LinAlgError, infinities or NaN. */
static void low_rank(struct harness *h)
{
    sample_low_rank(h, h->g, (gram_device){GRAM_CPU, 0});
}

/* The same gradient leaves factors as they are, whose roots then fit; a larger one does not. */
static void fitting_roots(struct harness *h, int relative, double exponent)
{
    gram_optimizer_options o = everything();
    struct sample s;
    gram_optimizer *optimizer;
    gram_optimizer_report report;

    o.skip = 0.1;
    o.epsilon = 0.01;
    o.epsilon_relative = relative;
    o.exponent = exponent;
    o.weight_decay = 0;
    sample_open(h, &s);
    optimizer = sample_optimizer(h, &s, &o);
    report = sample_step(h, &s, optimizer);
    CHECK(h, report.refreshed == 11 && report.kept == 0, "%lld refreshed, %lld kept",
          (long long)report.refreshed, (long long)report.kept);
    report = sample_step(h, &s, optimizer);
    CHECK(h, report.refreshed == 0 && report.kept == 11, "%lld refreshed, %lld kept",
          (long long)report.refreshed, (long long)report.kept);
    for (int i = 0; i < SAMPLE_NUMBERS; i++)
        s.g[i] *= 10;
    report = sample_step(h, &s, optimizer);
    CHECK(h, report.refreshed == 11 && report.kept == 0, "%lld refreshed, %lld kept",
          (long long)report.refreshed, (long long)report.kept);
    gram_optimizer_destroy(optimizer);
}

static void roots_that_fit(struct harness *h)
{
    fitting_roots(h, 0, 0);
    fitting_roots(h, 1, 0);
    fitting_roots(h, 0, 2.0 / 3);
}

/* Blocks take turns: no step takes more than its share. */
static void staggered_roots(struct harness *h)
{
    gram_optimizer_options o = everything();
    struct sample s;
    gram_optimizer *optimizer;
    int64_t all = 0;

    o.start = 1;
    o.refresh = 4;
    o.stagger = 1;
    sample_open(h, &s);
    optimizer = sample_optimizer(h, &s, &o);
    CHECK(h, sample_step(h, &s, optimizer).refreshed == 11, "the first step takes all");
    for (int step = 2; step <= 5; step++) {
        int64_t refreshed = sample_step(h, &s, optimizer).refreshed;
        CHECK(h, refreshed >= 2 && refreshed <= 4, "%lld at once", (long long)refreshed);
        all += refreshed;
    }
    CHECK(h, all == 11, "%lld in four steps", (long long)all);
    gram_optimizer_destroy(optimizer);
}

/* ---- Ranks -------------------------------------------------------------------------------- */

static void ranks_share(struct harness *h)
{
    enum {
        RANKS = 3
    };
    gram_optimizer_options o = everything();
    struct sample s, parts[RANKS];
    gram_optimizer *alone, *shared[RANKS];
    gram_optimizer_info info = {.size = sizeof info};
    int64_t own = 0, blocks = 0;

    sample_open(h, &s);
    alone = sample_optimizer(h, &s, &o);
    for (int r = 0; r < RANKS; r++) {
        o.rank = r;
        o.ranks = RANKS;
        sample_open(h, &parts[r]);
        shared[r] = sample_optimizer(h, &parts[r], &o);
        CHECK(h, gram_optimizer_get(h->g, shared[r], NULL, &info) == GRAM_OK, "info");
        CHECK(h, info.own_blocks > 0 && info.own_blocks < info.blocks, "%lld blocks of rank %d",
              (long long)info.own_blocks, r);
        own += info.own_blocks;
        blocks = info.blocks;
    }
    CHECK(h, own == blocks && blocks == 7, "%lld of %lld blocks", (long long)own,
          (long long)blocks);
    for (int step = 0; step < 3; step++) {
        double sum[SAMPLE_NUMBERS] = {0};
        sample_next(h, &s);
        if (step == 1)
            s.g[2] = NAN; /* its other blocks rest on the other ranks too */
        CHECK(h,
              gram_optimizer_direction(h->g, alone, (const gram_tensor *const *)s.values,
                                       s.gradients, s.directions, NULL) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int r = 0; r < RANKS; r++) {
            gram_optimizer_report report = {.size = sizeof report};
            memcpy(parts[r].g, s.g, sizeof s.g);
            CHECK(h,
                  gram_optimizer_direction(
                      h->g, shared[r], (const gram_tensor *const *)parts[r].values,
                      parts[r].gradients, parts[r].directions, &report) == GRAM_OK,
                  "%s", gram_message(h->g));
            CHECK(h, report.skipped == (step == 1), "%lld skipped", (long long)report.skipped);
            for (int e = 0; e < SAMPLE_NUMBERS; e++)
                sum[e] += parts[r].p[e];
        }
        for (int e = 0; e < SAMPLE_NUMBERS; e++)
            CHECK(h, fabs(sum[e] - s.p[e]) <= 1e-12 * fabs(s.p[e]), "step %d: %g and %g", step,
                  sum[e], s.p[e]);
    }
    CHECK(h,
          gram_optimizer_step(h->g, shared[0], parts[0].values, parts[0].gradients, NULL) ==
                  GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.ranks is 3"),
          "%s", gram_message(h->g));
    gram_optimizer_destroy(alone);
    for (int r = 0; r < RANKS; r++)
        gram_optimizer_destroy(shared[r]);
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Every allocation of a creation and of a step fails once: nothing leaks, nothing changes. */
static void no_memory(struct harness *h)
{
    struct failing_alloc memory = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_optimizer_options o = everything();
    struct harness mine = *h;
    int created = 0, stepped = 0;

    failing_alloc_use(&memory, &options);
    options.threads = 2;
    for (int64_t fail = 1; fail < 40 && !created; fail++) {
        struct sample s;
        gram_optimizer *optimizer = NULL;
        CHECK(h, gram_context_create(&options, &mine.g) == GRAM_OK, "a context");
        sample_open(&mine, &s);
        o.ranks = 2; /* which takes one more */
        failing_alloc_reset(&memory, fail);
        created = gram_optimizer_create(mine.g, &o, (const gram_tensor *const *)s.values, SAMPLE,
                                        &optimizer) == GRAM_OK;
        CHECK(h, created ? optimizer != NULL && fail > 6 : memory.failed && !optimizer,
              "allocation %lld", (long long)fail);
        gram_context_destroy(mine.g); /* the optimizer outlives it */
        gram_optimizer_destroy(optimizer);
        CHECK(h, memory.live == 0 && memory.wrong_releases == 0, "%lld blocks left",
              (long long)memory.live);
    }
    CHECK(h, created, "never created");
    o.ranks = 1;
    for (int64_t fail = 1; fail < 40 && !stepped; fail++) {
        struct sample s, before;
        gram_optimizer *optimizer;
        char *state;
        failing_alloc_reset(&memory, 0);
        CHECK(h, gram_context_create(&options, &mine.g) == GRAM_OK, "a context");
        sample_open(&mine, &s);
        optimizer = sample_optimizer(&mine, &s, &o);
        before = s;
        state = sample_state(&mine, optimizer);
        failing_alloc_reset(&memory, fail);
        stepped = gram_optimizer_step(mine.g, optimizer, s.values, s.gradients, NULL) == GRAM_OK;
        if (!stepped)
            CHECK(h,
                  memory.failed && memcmp(s.w, before.w, sizeof s.w) == 0 &&
                      sample_same_state(&mine, optimizer, state),
                  "allocation %lld of a step", (long long)fail);
        free(state);
        gram_optimizer_destroy(optimizer);
        gram_context_destroy(mine.g);
        CHECK(h, memory.live == 0 && memory.wrong_releases == 0, "%lld blocks left",
              (long long)memory.live);
    }
    CHECK(h, stepped, "never done");
}

struct exact {
    struct sample *s;
    gram_optimizer *o;
};

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct exact *e = problem;

    if (need)
        return gram_optimizer_workspace(h->g, e->o, need);
    return gram_optimizer_step(h->g, e->o, e->s->values, e->s->gradients, NULL);
}

static void exact_scratch(struct harness *h)
{
    gram_optimizer_options o = everything();

    for (int root = GRAM_POWER_EIGH; root <= GRAM_POWER_MINIMAX; root++)
        for (int skip = 0; skip < 2; skip++) {
            struct sample s;
            struct exact exact = {&s, NULL};
            o.root = (gram_power_method)root;
            o.skip = skip;
            sample_open(h, &s);
            exact.o = sample_optimizer(h, &s, &o);
            CHECK(h, test_in_exact_scratch(h, call, &exact), "method %d", root);
            gram_optimizer_destroy(exact.o);
        }
}

static const struct test_function tests[] = {
    {"bad_gradients_rest", bad_gradients_rest},
    {"bad_gradients_fail", bad_gradients_fail},
    {    "poor_gradients",     poor_gradients},
    {     "failing_roots",      failing_roots},
    {          "low_rank",           low_rank},
    {    "roots_that_fit",     roots_that_fit},
    {   "staggered_roots",    staggered_roots},
    {       "ranks_share",        ranks_share},
    {         "no_memory",          no_memory},
    {     "exact_scratch",      exact_scratch},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
