/*
 * test_optimizer.c - Shampoo's steps against its formulas: every option, shapes of 0 to 4
 * dimensions
 *
 * Each row runs a few steps on a list of parameters, tensors of all layouts, by
 * gram_optimizer_direction and by gram_optimizer_step in turn, beside check/reference.
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include "optimizer_change.h"
#include <math.h>
#include <stdlib.h>

enum {
    PARAMETERS = 8,
    STEPS = 7,
    CHANGES = 5 /* and the end of a list */
};

static const struct {
    int ndim;
    int64_t shape[4];
    enum layout layout;
} shapes[PARAMETERS] = {
    {2,       {5, 4},    ROW_MAJOR},
    {1,          {7},     REVERSED},
    {0,           {},    ROW_MAJOR},
    {3,    {3, 4, 5}, COLUMN_MAJOR},
    {4, {2, 3, 2, 3},       PADDED},
    {2,       {0, 3},    ROW_MAJOR},
    {3,    {1, 6, 1}, EVERY_SECOND},
    {2,      {9, 11}, COLUMN_MAJOR},
};

struct row {
    const char *why;
    gram_dtype dtype, state; /* state 0: the default */
    double bound;            /* of the error over the largest element of a direction */
    struct optimizer_change changes[CHANGES];
};

/* clang-format off */
static const struct row rows[] = {
    {"the defaults: sums", GRAM_F64, 0, 1e-6, {CHANGE_NONE}},
    {"the defaults in f32", GRAM_F32, 0, 2e-3, {CHANGE_NONE}},
    {"several blocks, moving averages", GRAM_F64, 0, 1e-6, {OPTION(block, 4), OPTION(beta2, 0.9)}},
    {"several blocks in f32", GRAM_F32, 0, 2e-3, {OPTION(block, 4), OPTION(beta2, 0.9)}},
    {"f32 with state of f64", GRAM_F32, GRAM_F64, 1e-5, {OPTION(block, 4), OPTION(beta2, 0.9)}},
    {"f64 with state of f32", GRAM_F64, GRAM_F32, 2e-3, {OPTION(block, 4), OPTION(beta2, 0.9)}},
    /* What bf16 rounds off must not be what a root makes large. */
    {"f32 with moments of bf16", GRAM_F32, GRAM_BF16, 0.02,
     {OPTION(epsilon, 1), OPTION(beta2, 0.9)}},
    {"bf16 parameters", GRAM_BF16, 0, 0.02, {CHANGE_NONE}},
    {"f16 parameters", GRAM_F16, 0, 5e-3, {CHANGE_NONE}},
    {"nothing merged, dimensions of 1 kept", GRAM_F64, 0, 1e-6,
     {OPTION(block, 3), OPTION(merge, 0)}},
    {"whole matrices of state", GRAM_F64, 0, 1e-6, {OPTION(packed, 0), OPTION(block, 4)}},
    {"a filter of its own, a relative epsilon", GRAM_F64, 0, 1e-6,
     {OPTION(beta2, 0.8), OPTION(beta3, 0.5), OPTION(epsilon, 1e-3), OPTION(epsilon_relative, 1)}},
    {"no bias correction", GRAM_F64, 0, 1e-6, {OPTION(beta2, 0.8), OPTION(bias_correction, 0)}},
    {"no first moment", GRAM_F64, 0, 1e-6, {OPTION(beta1, 0), OPTION(exponent, 0.5)}},
    {"another exponent; a filter without the moment", GRAM_F64, 0, 1e-6,
     {OPTION(exponent, 2.0 / 3), OPTION(beta3, 0)}},
    {"grafted to SGD", GRAM_F64, 0, 1e-6, {OPTION(graft, GRAM_GRAFT_SGD), OPTION(block, 4)}},
    {"grafted to Adagrad, which begins", GRAM_F64, 0, 1e-6,
     {OPTION(graft, GRAM_GRAFT_ADAGRAD), OPTION(start, 3)}},
    {"grafted to RMSprop", GRAM_F64, 0, 1e-6,
     {OPTION(graft, GRAM_GRAFT_RMSPROP), OPTION(graft_beta2, 0.7), OPTION(block, 4)}},
    {"grafted to Adam, which begins", GRAM_F64, 0, 1e-6,
     {OPTION(graft, GRAM_GRAFT_ADAM), OPTION(graft_epsilon, 1e-3), OPTION(start, 2)}},
    {"momentum, dampening, decoupled decay", GRAM_F64, 0, 1e-6,
     {OPTION(momentum, 0.6), OPTION(dampening, 0.25), OPTION(weight_decay, 0.1)}},
    {"Nesterov, decay in the gradient", GRAM_F64, 0, 1e-6,
     {OPTION(momentum, 0.6), OPTION(nesterov, 1), OPTION(weight_decay, 0.1),
      OPTION(decay, GRAM_DECAY_L2)}},
    {"roots every third step, from the third", GRAM_F64, 0, 1e-6, {OPTION(refresh, 3)}},
    {"a late start", GRAM_F64, 0, 1e-6, {OPTION(start, 4), OPTION(refresh, 2)}},
    {"staggered roots", GRAM_F64, 0, 1e-6,
     {OPTION(start, 1), OPTION(refresh, 3), OPTION(stagger, 1), OPTION(block, 4)}},
    {"statistics of every second step", GRAM_F64, 0, 1e-6,
     {OPTION(statistics, 2), OPTION(beta2, 0.9), OPTION(refresh, 3), OPTION(block, 4)}},
    {"statistics of the first step, sums", GRAM_F64, 0, 1e-6,
     {OPTION(statistics, 100), OPTION(start, 1)}},
    {"coupled Newton", GRAM_F64, 0, 1e-6,
     {OPTION(root, GRAM_POWER_COUPLED_NEWTON), OPTION(block, 6)}},
    {"Newton-Schulz", GRAM_F64, 0, 1e-6,
     {OPTION(root, GRAM_POWER_NEWTON_SCHULZ), OPTION(exponent, 0.25)}},
    {"minimax", GRAM_F64, 0, 1e-6, {OPTION(root, GRAM_POWER_MINIMAX), OPTION(epsilon_relative, 1)}},
    /* Nothing fits: random gradients move every factor by more. */
    {"roots that never fit", GRAM_F64, 0, 1e-6,
     {OPTION(skip, 1e-9), OPTION(epsilon_relative, 1), OPTION(exponent, 1.0 / 3)}},
};
/* clang-format on */

/* One parameter, everything that belongs to it, and what it should be. */
struct parameter {
    struct test_tensor w, g, p;
    struct {
        struct test_copy w, g, p;
    } there; /* on the device */
    struct reference_shampoo *reference;
    double *values, *gradient, *direction;
    int64_t count;
};

static double *numbers(int64_t count)
{
    double *array = calloc((size_t)count + 1, sizeof *array);

    if (!array)
        exit(2);
    return array;
}

static void open_parameter(struct harness *h, struct parameter *q, int i, gram_dtype dtype,
                           const gram_optimizer_options *o, int64_t number)
{
    test_tensor_create(h, &q->w, dtype, shapes[i].layout, shapes[i].ndim, shapes[i].shape);
    test_tensor_create(h, &q->g, dtype, shapes[(i + 3) % PARAMETERS].layout, shapes[i].ndim,
                       shapes[i].shape);
    test_tensor_create(h, &q->p, dtype == GRAM_BF16 ? GRAM_F32 : dtype,
                       shapes[(i + 4) % PARAMETERS].layout, shapes[i].ndim, shapes[i].shape);
    test_fill_normal(h, &q->w, 0, 1);
    q->reference = reference_shampoo_create(o, shapes[i].ndim, shapes[i].shape, number);
    q->count = test_count(&q->w.t);
    q->values = numbers(q->count);
    q->gradient = numbers(q->count);
    q->direction = numbers(q->count);
    for (int64_t e = 0; e < q->count; e++)
        q->values[e] = test_at(&q->w.t, e);
}

static void close_parameter(struct harness *h, struct parameter *q)
{
    test_tensor_destroy(h, &q->w, "a parameter");
    test_tensor_destroy(h, &q->g, "a gradient");
    test_tensor_destroy(h, &q->p, "a direction");
    reference_shampoo_destroy(q->reference);
    free(q->values);
    free(q->gradient);
    free(q->direction);
}

/* New gradients, and the reference's step; parameter 1 rests at every third step. */
static bool advance(struct harness *h, struct parameter *q, int i, int step, double learning_rate)
{
    bool rests = i == 1 && step % 3 == 2;

    test_fill_normal(h, &q->g, 0, 1);
    for (int64_t e = 0; e < q->count; e++)
        q->gradient[e] = test_at(&q->g.t, e);
    reference_shampoo_direction(q->reference, q->values, rests ? NULL : q->gradient, q->direction);
    for (int64_t e = 0; e < q->count; e++)
        q->values[e] -= learning_rate * q->direction[e];
    return !rests;
}

/* The largest difference over the largest element of the direction. */
static double distance(const struct parameter *q, const gram_tensor *got, const double *expected,
                       double scale)
{
    double most = 1e-300, difference = 0;

    for (int64_t e = 0; e < q->count; e++) {
        double d = fabs(test_at(got, e) - expected[e]);
        most = fmax(most, fabs(q->direction[e]) * scale);
        difference = !(d <= difference) ? d : difference;
    }
    return difference / most;
}

static void compare(struct harness *h, struct parameter *q, bool stepped, const struct row *row,
                    int i, int step, double learning_rate)
{
    /* Where parameters are stored with few bits, their change is known only as well as they are. */
    double scale = stepped ? learning_rate : 1, rounding = stepped ? test_eps(row->dtype) : 0;
    double error =
        distance(q, stepped ? &q->w.t : &q->p.t, stepped ? q->values : q->direction, scale);

    CHECK(h, error <= row->bound + 8 * rounding / scale, "%s: parameter %d, step %d: error %g",
          row->why, i, step, error);
    for (int64_t e = 0; e < q->count; e++) /* both go on from the same values */
        if (stepped)
            q->values[e] = test_at(&q->w.t, e);
        else
            test_put(&q->w.t, e, q->values[e]);
    for (int64_t e = 0; e < q->count; e++)
        q->values[e] = test_at(&q->w.t, e);
}

/* A step on tensors where the context computes; gradients[i] says whether parameter i has one. */
static gram_status do_step(struct harness *h, gram_optimizer *optimizer, struct parameter *q,
                           const bool *gradients, bool stepped, gram_optimizer_report *report)
{
    gram_tensor *w[PARAMETERS], *p[PARAMETERS];
    const gram_tensor *g[PARAMETERS];
    gram_status status;
    bool moved = true;

    for (int i = 0; i < PARAMETERS; i++) {
        moved = test_send(h, &q[i].w, &q[i].there.w) && test_send(h, &q[i].g, &q[i].there.g) &&
                test_send(h, &q[i].p, &q[i].there.p) && moved;
        w[i] = &q[i].there.w.t;
        p[i] = &q[i].there.p.t;
        g[i] = gradients[i] ? &q[i].there.g.t : NULL;
    }
    status = !moved    ? GRAM_DEVICE_FAILED
             : stepped ? gram_optimizer_step(h->g, optimizer, w, g, report)
                       : gram_optimizer_direction(h->g, optimizer, (const gram_tensor *const *)w, g,
                                                  p, report);
    for (int i = 0; i < PARAMETERS; i++)
        moved = test_fetch(h, &q[i].w, &q[i].there.w) && test_fetch(h, &q[i].g, &q[i].there.g) &&
                test_fetch(h, &q[i].p, &q[i].there.p) && moved;
    return status;
}

static void check_row(struct harness *h, const struct row *row)
{
    gram_optimizer_options o = optimizer_plain();
    struct parameter q[PARAMETERS];
    const gram_tensor *w[PARAMETERS];
    bool gradients[PARAMETERS];
    gram_optimizer *optimizer = NULL;
    gram_status status = GRAM_OK;
    int64_t number = 0;

    o.epsilon = 1e-4;
    o.block = 12; /* merges some dimensions, cuts none */
    o.state = row->state;
    optimizer_change(&o, row->changes);
    for (int i = 0; i < PARAMETERS; i++) {
        open_parameter(h, &q[i], i, row->dtype, &o, number);
        number += reference_shampoo_blocks(q[i].reference);
        w[i] = &q[i].w.t;
    }
    status = gram_optimizer_create(h->g, &o, w, PARAMETERS, &optimizer);
    CHECK(h, status == GRAM_OK, "%s: %s", row->why, gram_message(h->g));
    for (int step = 1; status == GRAM_OK && step <= STEPS; step++) {
        gram_optimizer_report report = {.size = sizeof report};
        bool stepped = step % 2 == 0;
        for (int i = 0; i < PARAMETERS; i++)
            gradients[i] = advance(h, &q[i], i, step, o.learning_rate);
        status = do_step(h, optimizer, q, gradients, stepped, &report);
        CHECK(h, status == GRAM_OK, "%s: %s", row->why, gram_message(h->g));
        CHECK(h,
              report.skipped == 0 && report.failed == 0 && report.first_failed == -1 &&
                  report.kept == 0,
              "%s: %lld skipped, %lld failed, %lld kept", row->why, (long long)report.skipped,
              (long long)report.failed, (long long)report.kept);
        for (int i = 0; status == GRAM_OK && i < PARAMETERS; i++)
            compare(h, &q[i], stepped, row, i, step, o.learning_rate);
    }
    gram_optimizer_destroy(optimizer);
    for (int i = 0; i < PARAMETERS; i++)
        close_parameter(h, &q[i]);
}

/* An emulated device takes long: every so many rows do, or the one that was asked for. */
static void steps_are_right(struct harness *h, int first, int step)
{
    for (int i = first; i < LENGTH(rows); i += step) {
        harness_seed(h, "optimizer", i);
        check_row(h, &rows[i]);
    }
}

int main(int argc, char **argv)
{
    const struct harness_options options = {.threads = 2, .device = test_asked_device()};
    struct harness h;
    bool passed;

    if (!harness_open(&h, &options, NULL))
        return EXIT_FAILURE;
    if (argc > 1)
        steps_are_right(&h, (int)strtol(argv[1], NULL, 10), LENGTH(rows));
    else
        steps_are_right(&h, 0, getenv("GRAM_TEST_EMULATED") ? 7 : 1);
    printf("optimizer: %d checks, %d failed\n", h.checks, h.failures);
    passed = h.checks > 0 && h.failures == 0;
    harness_close(&h);
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
