/*
 * test_optimizer_muon.c - Muon against the reference, matrices and tensors that are none
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "soap_run.h"
#include <math.h>

struct row {
    const char *why;
    int ndim;
    int64_t shape[4], rows, cols; /* as a matrix; 0: it is none */
    gram_dtype dtype, state;
    double momentum, dampening;
    int nesterov, steps, bias_correction;
    double weight_decay;
};

static const struct row rows[] = {
    {           "a square matrix", 2,       {8, 8},  8,  8, GRAM_F64,        0, 0.95,   0, 1, 5, 1,   0},
    {         "wide, no Nesterov", 2,      {5, 17},  5, 17, GRAM_F64,        0, 0.95,   0, 0, 5, 1,   0},
    {        "tall: it is scaled", 2,      {17, 5}, 17,  5, GRAM_F64,        0, 0.95, 0.5, 1, 5, 1, 0.1},
    {   "a convolution's filters", 4, {6, 3, 2, 2},  6, 12, GRAM_F64,        0,  0.9,   0, 1, 5, 1, 0.1},
    {     "no momentum, one step", 3,    {4, 2, 3},  4,  6, GRAM_F64,        0,    0,   0, 0, 1, 1,   0},
    {                   "one row", 2,       {1, 9},  1,  9, GRAM_F64,        0,  0.9,   0, 1, 5, 1,   0},
    {                "one column", 2,       {9, 1},  9,  1, GRAM_F64,        0,  0.9,   0, 1, 5, 1,   0},
    {     "a vector goes to Adam", 1,          {9},  0,  0, GRAM_F64,        0, 0.95,   0, 1, 5, 1, 0.1},
    {        "without correction", 1,          {9},  0,  0, GRAM_F64,        0, 0.95,   0, 1, 5, 0,   0},
    {                  "a scalar", 0,          {0},  0,  0, GRAM_F64,        0, 0.95,   0, 1, 5, 1,   0},
    {                       "f32", 2,       {8, 8},  8,  8, GRAM_F32,        0, 0.95,   0, 1, 5, 1,   0},
    {     "f32 with state in f64", 2,       {6, 9},  6,  9, GRAM_F32, GRAM_F64, 0.95,   0, 1, 5, 1,   0},
    {"a vector with state in f64", 1,          {9},  0,  0, GRAM_F32, GRAM_F64, 0.95,   0, 1, 5, 1,   0},
};

static void compare(struct soap_run *r, const struct row *row, struct reference_muon *muon,
                    struct reference_adam *adam)
{
    double g[SOAP_MOST], u[SOAP_MOST], bound = row->dtype == GRAM_F32 ? 1e-3 : 1e-9;

    soap_run_draw(r);
    for (int64_t i = 0; i < r->count; i++)
        g[i] = test_at(&r->gradient, i);
    if (!CHECK(r->h, soap_run_step(r) == GRAM_OK, "%s", gram_message(r->h->g)))
        return;
    if (row->rows > 0)
        reference_muon_step(muon, g, u);
    else
        reference_adam_step(adam, r->count, g, u);
    for (int64_t i = 0; i < r->count; i++) {
        double expected = u[i] + row->weight_decay * test_at(&r->parameter, i);
        CHECK(r->h, fabs(test_at(&r->direction, i) - expected) <= bound, "%.10g, not %.10g",
              test_at(&r->direction, i), expected);
    }
}

static void as_the_reference(struct harness *h)
{
    for (int i = 0; i < LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        gram_optimizer_options o = {.size = sizeof o};
        double m[SOAP_MOST] = {0}, v[SOAP_MOST] = {0};
        struct reference_muon muon;
        struct reference_adam adam;
        struct soap_run r;
        h->where = row->why;
        harness_seed(h, "muon", i);
        CHECK(h, gram_optimizer_defaults(GRAM_MUON, &o), "no Muon");
        o.state = row->state;
        o.precision = GRAM_POWER_PRECISION_F32;
        o.momentum = row->momentum;
        o.dampening = row->dampening;
        o.nesterov = row->nesterov;
        o.steps = row->steps;
        o.bias_correction = row->bias_correction;
        o.weight_decay = row->weight_decay;
        muon = (struct reference_muon){row->rows, row->cols,          row->momentum, row->dampening,
                                       o.epsilon, row->nesterov != 0, row->steps,    m};
        adam = (struct reference_adam){o.beta1, o.beta2, o.epsilon, row->bias_correction != 0,
                                       0,       m,       v};
        if (soap_run_begin(h, &r, &o, row->dtype, row->ndim, row->shape))
            for (int step = 0; step < 6; step++)
                compare(&r, row, &muon, &adam);
        soap_run_end(&r);
    }
}

static const struct test_function tests[] = {
    {"as_the_reference", as_the_reference},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
