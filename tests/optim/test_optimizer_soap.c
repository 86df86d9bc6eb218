/*
 * test_optimizer_soap.c - SOAP against the reference: every shape and option, over many refreshes
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "optimizer_change.h"
#include "soap_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *why;
    int ndim;
    int64_t shape[4];
    int order; /* of the merged shape */
    int64_t merged[4];
    /* Where a factor has no full rank its eigenvectors are not unique: the reference takes those
     * that were found, after they were looked at. */
    bool adopt;
    gram_dtype dtype, state;
    struct optimizer_change changes[6]; /* and the end of the list */
};

/* clang-format off */
static const struct row rows[] = {
    {"a square matrix", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0, {CHANGE_NONE}},
    {"wide: a factor without full rank", 2, {5, 9}, 2, {5, 9}, true, GRAM_F64, 0, {CHANGE_NONE}},
    {"tall", 2, {9, 5}, 2, {9, 5}, true, GRAM_F64, 0, {CHANGE_NONE}},
    /* A gradient of rank one per step: the bases of 7 are unique after 7 steps. */
    {"one row", 2, {1, 7}, 2, {1, 7}, true, GRAM_F64, 0, {OPTION(refresh, 7)}},
    {"three dimensions", 3, {4, 3, 5}, 3, {4, 3, 5}, false, GRAM_F64, 0, {CHANGE_NONE}},
    {"four dimensions", 4, {3, 2, 4, 3}, 4, {3, 2, 4, 3}, false, GRAM_F64, 0, {CHANGE_NONE}},
    {"a vector is Adam's", 1, {7}, 1, {7}, false, GRAM_F64, 0, {CHANGE_NONE}},
    {"a vector with a basis", 1, {7}, 1, {7}, true, GRAM_F64, 0,
     {OPTION(one_dimensional, 1), OPTION(refresh, 7)}},
    {"a scalar", 0, {0}, 1, {1}, false, GRAM_F64, 0, {CHANGE_NONE}},
    {"a side above block", 2, {5, 9}, 2, {5, 9}, false, GRAM_F64, 0, {OPTION(block, 6)}},
    {"the side in the middle", 3, {3, 9, 4}, 3, {3, 9, 4}, false, GRAM_F64, 0, {OPTION(block, 6)}},
    {"merged", 3, {2, 3, 5}, 2, {6, 5}, true, GRAM_F64, 0, {OPTION(block, 6), OPTION(merge, 1)}},
    {"normalized, no correction", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0,
     {OPTION(normalize, 1), OPTION(bias_correction, 0)}},
    {"other betas, always refreshed", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0,
     {OPTION(beta1, 0.8), OPTION(beta2, 0.9), OPTION(shampoo_beta, 0.7), OPTION(epsilon, 1e-3),
      OPTION(refresh, 1)}},
    {"beta1 of 0", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0, {OPTION(beta1, 0)}},
    {"L2 decay", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0,
     {OPTION(decay, GRAM_DECAY_L2), OPTION(weight_decay, 0.3)}},
    {"decoupled decay", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, 0,
     {OPTION(learning_rate, 0.5), OPTION(weight_decay, 0.3)}},
    {"no triangles", 3, {4, 3, 5}, 3, {4, 3, 5}, false, GRAM_F64, 0, {OPTION(packed, 0)}},
    {"f32", 2, {6, 6}, 2, {6, 6}, false, GRAM_F32, 0, {CHANGE_NONE}},
    {"f32 with state in f64", 2, {6, 6}, 2, {6, 6}, false, GRAM_F32, GRAM_F64, {CHANGE_NONE}},
    {"f64 with state in f32", 2, {6, 6}, 2, {6, 6}, false, GRAM_F64, GRAM_F32, {CHANGE_NONE}},
};
/* clang-format on */

/* The reference and its arrays. */
struct oracle {
    struct reference_soap soap;
    double m[SOAP_MOST], v[SOAP_MOST], gg[4][SOAP_MOST], q[4][SOAP_MOST];
};

static void open_oracle(struct oracle *o, const struct row *row,
                        const gram_optimizer_options *options)
{
    *o = (struct oracle){
        .soap = {.order = row->order,
                 .beta1 = options->beta1,
                 .beta2 = options->beta2,
                 .shampoo_beta = options->shampoo_beta < 0 ? options->beta2 : options->shampoo_beta,
                 .epsilon = options->epsilon,
                 .refresh = options->refresh,
                 .bias_correction = options->bias_correction != 0,
                 .normalize = options->normalize != 0}
    };
    o->soap.m = o->m;
    o->soap.v = o->v;
    for (int k = 0; k < row->order; k++) {
        o->soap.shape[k] = row->merged[k];
        o->soap.basis[k] =
            row->merged[k] <= options->block && (row->order > 1 || options->one_dimensional);
        o->soap.gg[k] = o->gg[k];
        o->soap.q[k] = o->q[k];
    }
}

/* The basis that was found for dimension k, if it is one of the reference's factor. */
static void adopt(struct soap_run *r, struct oracle *o, int k)
{
    char name[32];
    int64_t n = o->soap.shape[k];
    gram_tensor root;
    double value[SOAP_MOST];

    (void)snprintf(name, sizeof name, "0.0.root.%d", k);
    root = soap_run_state(r, name);
    if (!CHECK(r->h, root.data, "no %s", name))
        return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double dot = 0, product = 0;
            for (int64_t l = 0; l < n; l++) {
                dot += test_at(&root, i * n + l) * test_at(&root, j * n + l);
                for (int64_t p = 0; p < n; p++)
                    product +=
                        test_at(&root, i * n + l) * o->gg[k][l * n + p] * test_at(&root, j * n + p);
            }
            CHECK(r->h, fabs(dot - (i == j)) < 1e-13, "%s is not orthogonal", name);
            CHECK(r->h, i == j || fabs(product) < 1e-13, "%s is no eigenbasis", name);
            if (i == j)
                value[i] = product;
        }
    for (int64_t i = 0; i < n; i++) {
        CHECK(r->h, i == 0 || value[i] <= value[i - 1] + 1e-13, "%s is not sorted", name);
        for (int64_t j = 0; j < n; j++)
            o->q[k][i * n + j] = test_at(&root, j * n + i);
    }
}

/* One step of both. */
static void compare(struct soap_run *r, struct oracle *o, const struct row *row,
                    const gram_optimizer_options *options, int step)
{
    bool decoupled_decay = options->decay == GRAM_DECAY_DECOUPLED;
    double g[SOAP_MOST], u[SOAP_MOST] = {0}, decay = options->weight_decay;
    double bound = row->dtype == GRAM_F32 || row->state == GRAM_F32 ? 2e-3 : 1e-6;

    soap_run_draw(r);
    for (int64_t i = 0; i < r->count; i++)
        g[i] = test_at(&r->gradient, i) + (decoupled_decay ? 0 : decay * test_at(&r->parameter, i));
    if (!CHECK(r->h, soap_run_step(r) == GRAM_OK, "%s", gram_message(r->h->g)))
        return;
    if (step == 0)
        reference_soap_begin(&o->soap, g);
    else
        reference_soap_step(&o->soap, g, u);
    for (int k = 0; step == 0 && row->adopt && k < row->order; k++)
        if (o->soap.basis[k])
            adopt(r, o, k);
    for (int64_t i = 0; i < r->count; i++) {
        double expected = u[i], got = test_at(&r->direction, i);
        if (decoupled_decay && step > 0)
            expected += decay * (test_at(&r->parameter, i) - options->learning_rate * u[i]);
        CHECK(r->h, fabs(got - expected) <= (step == 0 ? 0 : bound),
              "step %d, element %d is %.10g, not %.10g", step, (int)i, got, expected);
    }
}

static void as_the_reference(struct harness *h)
{
    for (int i = 0; i < LENGTH(rows); i++) {
        gram_optimizer_options options = {.size = sizeof options};
        struct soap_run r;
        struct oracle o;
        h->where = rows[i].why;
        harness_seed(h, "soap", i);
        CHECK(h, gram_optimizer_defaults(GRAM_SOAP, &options), "no SOAP");
        options.refresh = 3;
        options.state = rows[i].state;
        optimizer_change(&options, rows[i].changes);
        open_oracle(&o, &rows[i], &options);
        if (soap_run_begin(h, &r, &options, rows[i].dtype, rows[i].ndim, rows[i].shape))
            for (int step = 0; step < 14; step++)
                compare(&r, &o, &rows[i], &options, step);
        soap_run_end(&r);
    }
}

/* True if a vector of the basis is not where it was. */
static bool moved(const gram_tensor *root, const double *before)
{
    int64_t n = root->shape[0];

    for (int64_t j = 0; j < n; j++) {
        double dot = 0;
        for (int64_t l = 0; l < n; l++)
            dot += test_at(root, j * n + l) * before[j * n + l];
        if (fabs(dot) < 0.3)
            return true;
    }
    return false;
}

/* The second moment belongs to the vectors of the basis: when those change places, as the scales of
 * the gradient's rows do here, it must go with them. */
static void moments_follow_their_vectors(struct harness *h)
{
    static const struct row row = {
        .ndim = 2, .shape = {6, 6},
             .order = 2, .merged = {6, 6},
             .dtype = GRAM_F64
    };
    gram_optimizer_options options = {.size = sizeof options};
    struct soap_run r;
    struct oracle o;
    int moves = 0;

    gram_optimizer_defaults(GRAM_SOAP, &options);
    options.refresh = 2;
    options.shampoo_beta = 0.5;
    open_oracle(&o, &row, &options);
    if (!soap_run_begin(h, &r, &options, GRAM_F64, 2, row.shape))
        return;
    for (int step = 0; step < 24; step++) {
        gram_tensor root = soap_run_state(&r, "0.0.root.0");
        double before[36], u[36], g[36];
        for (int i = 0; i < 36; i++) {
            int largest = step / 4 % 6;
            before[i] = test_at(&root, i);
            g[i] = (0.2 * (2 * test_uniform(h) - 1) + (i / 6 == i % 6)) *
                   pow(0.5, (i / 6 + largest) % 6);
            test_put(&r.gradient, i, g[i]);
        }
        CHECK(h, soap_run_step(&r) == GRAM_OK, "%s", gram_message(h->g));
        if (step == 0) {
            reference_soap_begin(&o.soap, g);
            continue;
        }
        reference_soap_step(&o.soap, g, u);
        for (int i = 0; i < 36; i++) {
            double expected = u[i] * (1 - options.learning_rate * options.weight_decay) +
                              options.weight_decay * test_at(&r.parameter, i);
            CHECK(h, fabs(test_at(&r.direction, i) - expected) <= 1e-6, "step %d: %g, not %g", step,
                  test_at(&r.direction, i), expected);
        }
        moves += moved(&root, before);
    }
    CHECK(h, moves >= 3, "vectors changed places %d times", moves);
    soap_run_end(&r);
}

static const struct test_function tests[] = {
    {            "as_the_reference",             as_the_reference},
    {"moments_follow_their_vectors", moments_follow_their_vectors},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
