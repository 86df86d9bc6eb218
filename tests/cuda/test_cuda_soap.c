/*
 * test_cuda_soap.c - SOAP on a GPU beside SOAP on the CPU, which test_optimizer_soap compares with
 * the reference; graphs, factors and gradients that are not as they should be
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "check/harness/device_memory.h"
#include "tests/optim/soap_pair.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STEPS = 11
};

static void *stream;

/* clang-format off */
static const struct soap_row rows[] = {
    {"a square matrix", 2, {6, 6}, false, GRAM_F64, 0, 1e-6, {CHANGE_NONE}},
    {"f32 with state in f64", 2, {6, 6}, false, GRAM_F32, GRAM_F64, 1e-5, {CHANGE_NONE}},
    {"more than a panel", 2, {40, 12}, true, GRAM_F64, 0, 1e-6, {OPTION(refresh, 5)}},
    {"two panels exactly, f32", 2, {64, 8}, true, GRAM_F32, 0, 5e-3, {OPTION(refresh, 9)}},
    {"three dimensions, no triangles", 3, {4, 3, 5}, false, GRAM_F64, 0, 1e-6,
     {OPTION(packed, 0)}},
    {"four dimensions, decay", 4, {3, 2, 4, 3}, false, GRAM_F64, 0, 1e-6,
     {OPTION(weight_decay, 0.3), OPTION(learning_rate, 0.5)}},
    {"the side in the middle", 3, {3, 9, 4}, false, GRAM_F64, 0, 1e-6, {OPTION(block, 6)}},
    {"sides without a basis", 2, {5, 9}, false, GRAM_F64, 0, 1e-6, {OPTION(block, 6)}},
    {"a vector is Adam's", 1, {7}, false, GRAM_F64, 0, 1e-6, {CHANGE_NONE}},
    {"a vector with a basis", 1, {5}, true, GRAM_F64, 0, 1e-6,
     {OPTION(one_dimensional, 1), OPTION(refresh, 6)}},
    {"a scalar", 0, {0}, false, GRAM_F64, 0, 1e-6, {CHANGE_NONE}},
    {"normalized, no correction, turns", 2, {6, 6}, false, GRAM_F64, 0, 1e-6,
     {OPTION(normalize, 1), OPTION(bias_correction, 0), OPTION(stagger, 1)}},
    {"other betas, momentum, L2", 2, {6, 6}, false, GRAM_F64, 0, 1e-6,
     {OPTION(beta1, 0.8), OPTION(shampoo_beta, 0.7), OPTION(momentum, 0.5),
      OPTION(decay, GRAM_DECAY_L2), OPTION(refresh, 1)}},
    {"moments in bf16", 2, {6, 6}, false, GRAM_F32, GRAM_BF16, 2e-2, {CHANGE_NONE}},
};
/* clang-format on */

/* The GPU's optimizer takes the CPU's state, through a file. */
static void adopt(struct soap_pair *p)
{
    char folder[] = "/tmp/gram-cuda-soap-XXXXXX", path[64];

    if (!CHECK(p->h, mkdtemp(folder) != NULL, "no folder"))
        return;
    (void)snprintf(path, sizeof path, "%s/state", folder);
    CHECK(p->h, gram_optimizer_save(p->cpu.g, p->cpu.o, path) == GRAM_OK, "%s",
          gram_message(p->cpu.g));
    CHECK(p->h, gram_optimizer_load(p->gpu.g, p->gpu.o, path) == GRAM_OK, "%s",
          gram_message(p->gpu.g));
    (void)unlink(path);
    (void)rmdir(folder);
}

static void as_on_the_cpu(struct harness *h)
{
    struct soap_pair p;

    for (int i = 0; i < LENGTH(rows); i++) {
        const gram_optimizer_options options = soap_pair_options(&rows[i]);
        h->where = rows[i].why;
        harness_seed(h, "soap", i);
        if (soap_pair_open(h, &p, &rows[i], &options, stream))
            for (int step = 0; step < STEPS; step++) {
                soap_pair_draw(&p);
                if (!soap_pair_both(&p))
                    break;
                soap_pair_compare(&p, step, step == 0 ? 0 : rows[i].bound);
                if (step == 0 && rows[i].adopt)
                    adopt(&p);
            }
        soap_pair_close(&p);
    }
}

/* ---- Trouble -------------------------------------------------------------------------------- */

static const struct soap_row square = {
    "", 2, {          6, 6},
      false, GRAM_F64, (gram_dtype)0, 1e-6, {CHANGE_NONE  }
};

/* Without a report the host hears of it before the second step: the bases are made then. */
static void first_gradients_that_are_not_finite(struct harness *h)
{
    const gram_optimizer_options options = soap_pair_options(&square);
    struct soap_pair p;

    if (soap_pair_open(h, &p, &square, &options, stream))
        for (int step = 0; step < 6; step++) {
            soap_pair_draw(&p);
            if (step == 0 || step == 3)
                test_put(&p.cpu.tensor[SOAP_GRADIENTS][1], 7, step == 0 ? NAN : INFINITY);
            CHECK(h, soap_pair_ask(&p.cpu, true) == GRAM_OK, "%s", gram_message(h->g));
            CHECK(h, soap_pair_step_there(&p, step > 1) == GRAM_OK, "%s", gram_message(p.gpu.g));
            if (step > 1)
                soap_pair_compare(&p, step, square.bound);
        }
    soap_pair_close(&p);
}

/* Diagonal gradients of one covariance: a basis is kept where it still fits. */
static void bases_that_still_fit(struct harness *h)
{
    gram_optimizer_options options = soap_pair_options(&square);
    int64_t kept = 0;
    struct soap_pair p;

    options.skip = 0.1;
    if (soap_pair_open(h, &p, &square, &options, stream))
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < SOAP_COPIES * 36; i++)
                test_put(&p.cpu.tensor[SOAP_GRADIENTS][i / 36], i % 36,
                         (i % 36 % 7 == 0) * (double)(1 + i % 36) * (step % 2 ? 1 : -1));
            if (!soap_pair_both(&p))
                break;
            soap_pair_compare(&p, step, square.bound);
            kept += p.gpu.report.kept;
        }
    CHECK(h, kept == 3 * 2 * SOAP_COPIES, "%d bases were kept", (int)kept);
    soap_pair_close(&p);
}

/* A state tensor of the GPU's optimizer: to or from here. */
static void move_state(struct soap_pair *p, const char *name, double *numbers, bool write)
{
    gram_optimizer_info info = {.size = sizeof info};
    bool found = false;

    CHECK(p->h, gram_optimizer_get(p->gpu.g, p->gpu.o, NULL, &info) == GRAM_OK, "%s",
          gram_message(p->gpu.g));
    for (int64_t i = 0; i < info.states; i++) {
        const char *is;
        gram_tensor view;
        size_t bytes;
        if (gram_optimizer_state_at(p->gpu.g, p->gpu.o, i, &is, &view) != GRAM_OK ||
            strcmp(is, name) != 0)
            continue;
        bytes = (size_t)test_count(&view) * sizeof(double);
        found = gram_memory_copy(p->gpu.g, write ? view.data : numbers, write ? numbers : view.data,
                                 bytes) == GRAM_OK &&
                gram_context_synchronize(p->gpu.g) == GRAM_OK;
    }
    CHECK(p->h, found, "no %s: %s", name, gram_message(p->gpu.g));
}

/* A NaN in a factor: its basis stays and is counted, the other one is turned; too often in a row,
 * and the next step is refused. */
static void bases_that_cannot_be_had(struct harness *h)
{
    gram_optimizer_options options = soap_pair_options(&square);
    double factor[36], before[36], after[36];
    struct soap_pair p;

    options.refresh = 1;
    options.failures = 1;
    if (soap_pair_open(h, &p, &square, &options, stream)) {
        for (int step = 0; step < 3; step++) {
            soap_pair_draw(&p);
            CHECK(h, soap_pair_step_there(&p, true) == GRAM_OK, "%s", gram_message(p.gpu.g));
        }
        move_state(&p, "1.0.factor.0", factor, false);
        move_state(&p, "1.0.root.0", before, false);
        factor[1] = NAN;
        move_state(&p, "1.0.factor.0", factor, true);
        for (int step = 0; step < 2; step++) {
            soap_pair_draw(&p);
            CHECK(h, soap_pair_step_there(&p, true) == GRAM_OK, "%s", gram_message(p.gpu.g));
            CHECK(h,
                  p.gpu.report.failed == 1 && p.gpu.report.first_failed == 1 &&
                      p.gpu.report.refreshed == 3,
                  "%d failed", (int)p.gpu.report.failed);
            move_state(&p, "1.0.root.0", after, false);
            CHECK(h, memcmp(before, after, sizeof before) == 0, "the basis changed");
        }
        CHECK(h, soap_pair_step_there(&p, true) == GRAM_NUMERICAL, "a third failure was taken");
    }
    soap_pair_close(&p);
}

/* One direction for ever: all but one eigenvalue are 0, and every basis is still one. */
static void factors_of_rank_one(struct harness *h)
{
    static const char *const names[] = {"0.0.root.0", "1.0.root.1"};
    const gram_optimizer_options options = soap_pair_options(&square);
    double q[36];
    struct soap_pair p;

    if (soap_pair_open(h, &p, &square, &options, stream))
        for (int step = 0; step < 8; step++) {
            for (int i = 0; i < SOAP_COPIES * 36; i++) {
                const int row = i % 36 / 6;
                test_put(&p.cpu.tensor[SOAP_GRADIENTS][i / 36], i % 36,
                         (double)(1 + row) * sin(1 + (double)(i % 6)));
            }
            CHECK(h, soap_pair_step_there(&p, true) == GRAM_OK, "%s", gram_message(p.gpu.g));
            for (int n = 0; n < LENGTH(names); n++) {
                move_state(&p, names[n], q, false);
                for (int i = 0; i < 36; i++) {
                    double dot = i / 6 == i % 6 ? -1 : 0;
                    for (int k = 0; k < 6; k++)
                        dot += q[i / 6 * 6 + k] * q[i % 6 * 6 + k];
                    CHECK(h, fabs(dot) <= 1e-12, "%s: %g", names[n], dot);
                }
            }
        }
    soap_pair_close(&p);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static bool body(void *arg)
{
    return soap_pair_ask(arg, false) == GRAM_OK;
}

/* Steps of one gradient, the GPU's replayed; a first step makes no graph. */
static void graphs(struct harness *h)
{
    gram_optimizer_options options = soap_pair_options(&square);
    struct soap_pair p;

    options.refresh = 1;
    if (soap_pair_open(h, &p, &square, &options, stream)) {
        soap_pair_draw(&p);
        CHECK(h, soap_pair_send(&p) && !device_replay(stream, 1, body, &p.gpu),
              "a graph of a first step");
        CHECK(h, strstr(gram_message(p.gpu.g), "has done no step yet"), "%s",
              gram_message(p.gpu.g));
        for (int step = 0; step < 3; step++) {
            soap_pair_draw(&p);
            soap_pair_both(&p);
        }
        soap_pair_draw(&p);
        for (int step = 0; step < 4; step++)
            CHECK(h, soap_pair_ask(&p.cpu, true) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, soap_pair_send(&p) && device_replay(stream, 3, body, &p.gpu), "no graph: %s",
              gram_message(p.gpu.g));
        CHECK(h, soap_pair_step_there(&p, true) == GRAM_OK, "%s", gram_message(p.gpu.g));
        soap_pair_compare(&p, 7, square.bound);
    }
    soap_pair_close(&p);
}

static const struct test_function tests[] = {
    {                      "as_on_the_cpu",                       as_on_the_cpu},
    {"first_gradients_that_are_not_finite", first_gradients_that_are_not_finite},
    {               "bases_that_still_fit",                bases_that_still_fit},
    {           "bases_that_cannot_be_had",            bases_that_cannot_be_had},
    {                "factors_of_rank_one",                 factors_of_rank_one},
    {                             "graphs",                              graphs},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}
