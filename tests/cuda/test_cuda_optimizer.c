/*
 * test_cuda_optimizer.c - Shampoo on a GPU beyond its numbers: graphs, gradients that are not
 * finite, files, what is refused
 *
 * The numbers are test_optimizer's with GRAM_TEST_DEVICE=cuda.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "check/harness/device_memory.h"
#include "tests/optim/optimizer_change.h"
#include "tests/optim/optimizer_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BYTES = SAMPLE_NUMBERS * sizeof(double)
};

static void *stream;

/* The sample with its tensors in the device's memory. */
struct there {
    gram_context *g;
    struct sample s;
    void *memory; /* values, gradients */
    gram_optimizer *o;
};

static gram_optimizer_options options_of(void)
{
    gram_optimizer_options o = optimizer_plain();

    o.block = 4;
    o.epsilon = 1e-3;
    o.beta2 = 0.9;
    o.graft = GRAM_GRAFT_ADAM;
    o.momentum = 0.5;
    o.weight_decay = 0.1;
    return o;
}

static void fetch(struct harness *h, struct there *t)
{
    CHECK(h,
          gram_memory_copy(t->g, t->s.w, t->memory, BYTES) == GRAM_OK &&
              gram_context_synchronize(t->g) == GRAM_OK,
          "%s", gram_message(t->g));
}

static bool open_there(struct harness *h, struct there *t, gram_context *g,
                       const gram_optimizer_options *options)
{
    *t = (struct there){.g = g};
    sample_open(h, &t->s);
    if (!CHECK(h, gram_memory_allocate(g, 2 * (size_t)BYTES, &t->memory) == GRAM_OK, "%s",
               gram_message(g)))
        return false;
    for (int i = 0; i < SAMPLE; i++) {
        gram_tensor *value = &t->s.value[i], *grad = &t->s.grad[i];
        value->data = (char *)t->memory + ((char *)value->data - (char *)t->s.w);
        grad->data = (char *)t->memory + BYTES + ((char *)grad->data - (char *)t->s.g);
        value->device = grad->device = (gram_device){GRAM_CUDA, 0};
    }
    sample_send(h, t->g, &t->s, t->memory);
    return CHECK(h,
                 gram_optimizer_create(g, options, (const gram_tensor *const *)t->s.values, SAMPLE,
                                       &t->o) == GRAM_OK,
                 "%s", gram_message(g));
}

static void end(struct there *t)
{
    gram_optimizer_destroy(t->o);
    gram_memory_free(t->g, t->memory, 2 * (size_t)BYTES);
}

static gram_status step(struct there *t, gram_optimizer_report *report)
{
    return gram_optimizer_step(t->g, t->o, t->s.values, t->s.gradients, report);
}

static bool body(void *arg)
{
    return step(arg, NULL) == GRAM_OK;
}

static double distance(const struct there *a, const struct there *b)
{
    double most = 0;

    for (int i = 0; i < SAMPLE_NUMBERS; i++) {
        double d = fabs(a->s.w[i] - b->s.w[i]);
        most = !(d <= most) ? d : most;
    }
    return most;
}

/* Steps replayed from a graph are those that calls make, and the count of steps goes on. */
static void graphs(struct harness *h)
{
    gram_context *g = test_cuda_context(h, stream);
    gram_optimizer_options o = options_of();
    gram_optimizer_info info = {.size = sizeof info};
    struct there a, b;

    if (g && open_there(h, &a, g, &o) && open_there(h, &b, g, &o)) {
        memcpy(b.s.w, a.s.w, BYTES);
        memcpy(b.s.g, a.s.g, BYTES);
        sample_send(h, b.g, &b.s, b.memory);
        for (int i = 0; i < 5; i++)
            CHECK(h, step(&a, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, step(&b, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, device_replay(stream, 3, body, &b), "no graph: %s", gram_message(g));
        CHECK(h, step(&b, NULL) == GRAM_OK, "%s", gram_message(g));
        fetch(h, &a);
        fetch(h, &b);
        CHECK(h, distance(&a, &b) <= 1e-12, "replayed steps differ by %g", distance(&a, &b));
        CHECK(h, gram_optimizer_get(g, b.o, NULL, &info) == GRAM_OK && info.step == 5,
              "%lld steps, expected 5", (long long)info.step);
        end(&a);
        end(&b);
    }
    gram_context_destroy(g);
}

static bool body_with_report(void *arg)
{
    gram_optimizer_report report = {.size = sizeof report};

    return step(arg, &report) == GRAM_OK;
}

static void what_a_graph_cannot(struct harness *h)
{
    gram_context *g = test_cuda_context(h, stream);
    gram_optimizer_options o = options_of();
    struct there a;

    if (g && open_there(h, &a, g, &o)) {
        CHECK(h, step(&a, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, !device_replay(stream, 1, body_with_report, &a), "a graph waited for a report");
        CHECK(h, strstr(gram_message(g), "report is given"), "%s", gram_message(g));
        o.not_finite = GRAM_NOT_FINITE_FAIL;
        CHECK(h, gram_optimizer_set(g, a.o, &o) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, !device_replay(stream, 1, body, &a), "a graph waited for a verdict");
        CHECK(h, strstr(gram_message(g), "not_finite"), "%s", gram_message(g));
        end(&a);
    }
    gram_context_destroy(g);
}

/* Parameter 1 (numbers 30 to 36) rests, the others do not. */
static void not_finite(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = options_of();
    gram_optimizer_report report = {.size = sizeof report};
    struct there a;
    double before[SAMPLE_NUMBERS];

    if (g && open_there(h, &a, g, &o)) {
        memcpy(before, a.s.w, BYTES);
        a.s.g[31] = NAN;
        sample_send(h, a.g, &a.s, a.memory);
        CHECK(h, step(&a, &report) == GRAM_OK, "%s", gram_message(g));
        fetch(h, &a);
        CHECK(h, report.skipped == 1 && report.failed == 0 && report.first_failed == -1,
              "%lld skipped, %lld failed", (long long)report.skipped, (long long)report.failed);
        for (int i = 0; i < SAMPLE_NUMBERS; i++)
            CHECK(h, isfinite(a.s.w[i]) && (a.s.w[i] == before[i]) == (i >= 30 && i < 37),
                  "number %d is %g, it was %g", i, a.s.w[i], before[i]);
        o.not_finite = GRAM_NOT_FINITE_FAIL;
        memcpy(before, a.s.w, BYTES);
        CHECK(h, gram_optimizer_set(g, a.o, &o) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, step(&a, NULL) == GRAM_NUMERICAL && strstr(gram_message(g), "gradients[1]"), "%s",
              gram_message(g));
        fetch(h, &a);
        CHECK(h, memcmp(before, a.s.w, BYTES) == 0, "a step that failed has changed parameters");
        end(&a);
    }
    gram_context_destroy(g);
}

/* A gradient of rank one and no epsilon: the roots of the matrices cannot be taken. */
static void failures(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = options_of();
    gram_optimizer_report report = {.size = sizeof report};
    struct there a;

    o.failures = 1;
    if (g && open_there(h, &a, g, &o)) {
        for (int i = 0; i < SAMPLE_NUMBERS; i++)
            a.s.g[i] = 1;
        sample_send(h, a.g, &a.s, a.memory);
        sample_spoil(h, g, a.o, NAN); /* no root of it, ever */
        for (int i = 0; i < 2; i++)
            CHECK(h, step(&a, &report) == GRAM_OK && report.failed > 0 && report.first_failed == 0,
                  "%lld failed: %s", (long long)report.failed, gram_message(g));
        CHECK(h, step(&a, &report) == GRAM_NUMERICAL, "a third failure was allowed");
        o.epsilon = 1e-2;
        sample_spoil(h, g, a.o, 0);
        CHECK(h, gram_optimizer_set(g, a.o, &o) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, step(&a, &report) == GRAM_OK && report.failed == 0, "%s", gram_message(g));
        end(&a);
    }
    gram_context_destroy(g);
}

/* Factors of low rank once failed within some steps: infinities or NaN. */
static void low_rank(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);

    if (g)
        sample_low_rank(h, g, (gram_device){GRAM_CUDA, 0});
    gram_context_destroy(g);
}

/* The same gradient leaves factors as they are, whose roots then fit; a larger one does not. */
static void fitting_roots(struct harness *h, int relative, double exponent)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = options_of();
    gram_optimizer_report report = {.size = sizeof report};
    struct there a;

    o.skip = 0.1;
    o.epsilon = 0.01;
    o.epsilon_relative = relative;
    o.exponent = exponent;
    if (g && open_there(h, &a, g, &o)) {
        for (int i = 0; i < 3; i++) {
            const int64_t kept = i == 1 ? 11 : 0;
            for (int j = 0; i == 2 && j < SAMPLE_NUMBERS; j++)
                a.s.g[j] *= 10;
            sample_send(h, a.g, &a.s, a.memory);
            CHECK(h, step(&a, &report) == GRAM_OK, "%s", gram_message(g));
            CHECK(h, report.kept == kept && report.refreshed == 11 - kept && report.failed == 0,
                  "step %d: %lld refreshed, %lld kept", i, (long long)report.refreshed,
                  (long long)report.kept);
        }
        end(&a);
    }
    gram_context_destroy(g);
}

static void roots_that_fit(struct harness *h)
{
    fitting_roots(h, 0, 0);
    fitting_roots(h, 1, 0);
    fitting_roots(h, 0, 2.0 / 3);
}

/* A file goes into an optimizer on the GPU, and into one of the CPU: all take the same step. */
static void files(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = options_of();
    char path[] = "/tmp/gram-test-XXXXXX";
    struct there a, b;
    struct sample here;
    gram_optimizer *host;

    close(mkstemp(path));
    if (g && open_there(h, &a, g, &o) && open_there(h, &b, g, &o)) {
        for (int i = 0; i < 2; i++)
            CHECK(h, step(&a, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, gram_optimizer_save(g, a.o, path) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, gram_optimizer_load(g, b.o, path) == GRAM_OK, "%s", gram_message(g));
        fetch(h, &a);
        memcpy(b.s.w, a.s.w, BYTES);
        memcpy(b.s.g, a.s.g, BYTES);
        sample_send(h, b.g, &b.s, b.memory);
        sample_open(h, &here);
        memcpy(here.w, a.s.w, BYTES);
        memcpy(here.g, a.s.g, BYTES);
        host = sample_optimizer(h, &here, &o);
        CHECK(h, gram_optimizer_load(h->g, host, path) == GRAM_OK, "%s", gram_message(h->g));
        (void)sample_step(h, &here, host);
        CHECK(h, step(&a, NULL) == GRAM_OK && step(&b, NULL) == GRAM_OK, "%s", gram_message(g));
        fetch(h, &a);
        fetch(h, &b);
        CHECK(h, distance(&a, &b) == 0, "a file changes a step by %g", distance(&a, &b));
        memcpy(b.s.w, here.w, BYTES);
        CHECK(h, distance(&a, &b) <= 1e-9, "the CPU's step differs by %g", distance(&a, &b));
        gram_optimizer_destroy(host);
        end(&a);
        end(&b);
    }
    unlink(path);
    gram_context_destroy(g);
}

/* Muon's steps are those of the CPU. */
static void muon(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = {.size = sizeof o};
    struct there a, b;
    gram_optimizer *host;

    (void)gram_optimizer_defaults(GRAM_MUON, &o);
    o.weight_decay = 0.1;
    if (g && open_there(h, &a, g, &o)) {
        b = a; /* its numbers alone are used */
        sample_open(h, &b.s);
        host = sample_optimizer(h, &b.s, &o);
        for (int i = 0; i < 3; i++) {
            sample_next(h, &b.s);
            fetch(h, &a);
            memcpy(a.s.g, b.s.g, BYTES);
            sample_send(h, a.g, &a.s, a.memory);
            (void)sample_step(h, &b.s, host);
            CHECK(h, step(&a, NULL) == GRAM_OK, "%s", gram_message(g));
            fetch(h, &a);
            CHECK(h, distance(&a, &b) <= 1e-10, "step %d differs by %g", i, distance(&a, &b));
        }
        gram_optimizer_destroy(host);
        end(&a);
    }
    gram_context_destroy(g);
}

static void refusals(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_optimizer_options o = options_of();
    struct there a;
    const char *name;
    gram_tensor view;

    if (g && open_there(h, &a, g, &o)) {
        CHECK(h, gram_optimizer_state_at(g, a.o, 3, &name, &view) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, view.device.type == GRAM_CUDA, "%s is not on the device", name);
        CHECK(h,
              gram_optimizer_step(h->g, a.o, a.s.values, a.s.gradients, NULL) ==
                  GRAM_INVALID_ARGUMENT,
              "another context took the step");
        end(&a);
    }
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {             "graphs",              graphs},
    {"what_a_graph_cannot", what_a_graph_cannot},
    {         "not_finite",          not_finite},
    {           "failures",            failures},
    {           "low_rank",            low_rank},
    {     "roots_that_fit",      roots_that_fit},
    {              "files",               files},
    {               "muon",                muon},
    {           "refusals",            refusals},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}
