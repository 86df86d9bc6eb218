/*
 * test_kfac.c - gram_kfac against the exact Fisher information and dense solves, both naive
 *
 * Every layer's curvature is written out as a dense matrix on the numbers of [W b], row by row, and
 * solved with by elimination (reference_solve).
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "kfac_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Against the exact Fisher --------------------------------------------------------------- */

/* y = W x + b with the loss |y - t|^2 / 2: what comes out has a Gaussian distribution, the gradient
 * of a sample drawn from it has covariance I whatever x, and the Fisher is A (x) I: K-FAC is
 * exact.  Every unit vector times sqrt(O) meets every x. */
static void a_linear_layer_with_gaussian_loss_is_exact(struct harness *h)
{
    enum {
        I = 4,
        O = 3
    };
    struct kfac_data d = {.samples = KFAC_SAMPLES, .positions = 1, .inputs = I, .outputs = O};
    double f[225];

    for (int64_t n = 0; n < KFAC_SAMPLES; n++) {
        for (int i = 0; i < I; i++)
            d.a[n * I + i] = n % O == 0 ? test_uniform(h) : d.a[(n - 1) * I + i];
        d.g[n * O + n % O] = sqrt(O);
    }
    kfac_fisher(&d, true, 1e-3, f);
    for (int corrected = 0; corrected < 2; corrected++) {
        struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
        o.options.corrected = corrected;
        o.options.damping = GRAM_KFAC_EXACT;
        o.options.kl_clip = 0;
        kfac_open(h, &o, GRAM_LAYER_LINEAR, I, O, true);
        CHECK(h,
              kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                  kfac_learn(h, &o, &d) == GRAM_OK && kfac_direct(h, &o, 1) == GRAM_OK,
              "%s", gram_message(h->g));
        kfac_check(h, &o, f, 1, 1e-9);
        gram_kfac_destroy(o.kfac);
    }
}

/* |F^ - F| of the curvature that a preconditioner stands for, from its action on unit vectors. */
static double distance_to(struct harness *h, struct kfac_one *o, const double *fisher)
{
    int64_t count = o->rows * o->cols;
    double *p = dense_doubles(count * count), *f = dense_doubles(count * count), sum = 0;

    for (int64_t i = 0; i < count; i++) {
        memset(o->weight, 0, sizeof o->weight);
        memset(o->bias, 0, sizeof o->bias);
        if (i % o->cols == o->inputs)
            o->bias[i / o->cols] = 1;
        else
            o->weight[i / o->cols * o->inputs + i % o->cols] = 1;
        CHECK(h, kfac_direct(h, o, 1) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t j = 0; j < count; j++)
            p[j * count + i] = kfac_number(o, true, j / o->cols, j % o->cols);
        f[i * count + i] = 1;
    }
    reference_solve(count, count, p, f);
    for (int64_t i = 0; i < count * count; i++)
        sum += (f[i] - fisher[i]) * (f[i] - fisher[i]);
    free(p);
    free(f);
    return sqrt(sum);
}

/* The corrected eigenvalues are the best ones for the eigenvectors, in the Frobenius norm. */
static void ekfac_is_closer_to_the_exact_fisher(struct harness *h)
{
    double f[KFAC_MOST * KFAC_MOST], distance[2];
    struct kfac_data d;

    for (int64_t positions = 1; positions <= 2; positions++) {
        kfac_fill(h, &d, positions, 4, 3);
        kfac_fisher(&d, true, 0.1, f);
        for (int corrected = 0; corrected < 2; corrected++) {
            struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
            o.options.corrected = corrected;
            o.options.damping = GRAM_KFAC_EXACT;
            o.options.kl_clip = 0;
            o.options.lambda = 0.1;
            kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
            CHECK(h,
                  kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                      kfac_learn(h, &o, &d) == GRAM_OK,
                  "%s", gram_message(h->g));
            distance[corrected] = distance_to(h, &o, f);
            gram_kfac_destroy(o.kfac);
        }
        CHECK(h, distance[1] < 0.99 * distance[0], "EKFAC is %g from the Fisher, K-FAC %g",
              distance[1], distance[0]);
    }
}

/* ---- Against dense solves ------------------------------------------------------------------- */

/* A positive definite matrix, or a diagonal. */
static void fill_factor(struct harness *h, int64_t n, bool diagonal, double *a)
{
    double root[KFAC_MOST] = {0};

    if (diagonal) {
        for (int64_t i = 0; i < n; i++)
            a[i] = test_uniform(h);
        return;
    }
    for (int64_t i = 0; i < n * n; i++)
        root[i] = test_uniform(h) - 0.5;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = 0;
            for (int64_t l = 0; l < n; l++)
                a[i * n + j] += root[i * n + l] * root[j * n + l];
        }
}

/* (B + shift_b) (x) (A + shift_a) + shift, dense. */
static void dense_curvature(const struct kfac_one *o, const double *a, const double *b,
                            const double shift[3], double *out)
{
    bool diagonal = o->layer.kind == GRAM_LAYER_EMBEDDING;
    int64_t m = o->rows, n = o->cols, count = m * n;

    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++) {
            int64_t p = i % n, q = j % n;
            double of_a = diagonal ? (p == q ? a[p] : 0) : a[p * n + q];
            double of_b = b[i / n * m + j / n];
            of_a += p == q ? shift[0] : 0;
            of_b += i / n == j / n ? shift[1] : 0;
            out[i * count + j] = of_a * of_b + (i == j ? shift[2] : 0);
        }
}

static gram_status feed(struct harness *h, struct kfac_one *o, double *a, double *b)
{
    gram_tensor a_factor = o->layer.kind == GRAM_LAYER_EMBEDDING
                               ? gram_vector(a, o->cols, GRAM_F64)
                               : gram_matrix(a, o->cols, o->cols, GRAM_F64);
    gram_tensor b_factor = gram_matrix(b, o->rows, o->rows, GRAM_F64);

    return gram_kfac_feed(h->g, o->kfac, 0, a ? &a_factor : NULL, b ? &b_factor : NULL);
}

static void directions_are_those_of_dense_solves(struct harness *h)
{
    for (int row = 0; row < 16; row++) {
        struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
        bool embedding = row & 1, exact = row & 2, bias = (row & 4) && !embedding;
        double a[KFAC_MOST], b[KFAC_MOST], shift[3] = {0}, dense[KFAC_MOST * KFAC_MOST], a_mean = 0,
                                           b_mean = 0, pi;
        o.options.damping = exact ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
        o.options.kl_clip = 0;
        o.options.lambda = 0.02;
        o.options.state = row & 8 ? GRAM_F32 : GRAM_F64;
        kfac_open(h, &o, embedding ? GRAM_LAYER_EMBEDDING : GRAM_LAYER_LINEAR, 4, 3, bias);
        fill_factor(h, o.cols, embedding, a);
        fill_factor(h, o.rows, false, b);
        for (int64_t i = 0; i < o.cols; i++)
            a_mean += a[embedding ? i : i * (o.cols + 1)] / (double)o.cols;
        for (int64_t i = 0; i < o.rows; i++)
            b_mean += b[i * (o.rows + 1)] / (double)o.rows;
        pi = sqrt(a_mean / b_mean);
        shift[0] = exact ? 0 : pi * sqrt(0.02), shift[1] = exact ? 0 : sqrt(0.02) / pi;
        shift[2] = exact ? 0.02 : 0;
        CHECK(h, kfac_direct(h, &o, 1) == GRAM_OK, "%s", gram_message(h->g));
        for (int i = 0; i < 12; i++)
            CHECK(h, o.to_weight[i] == (row & 8 ? (double)(float)o.weight[i] : o.weight[i]),
                  "before a refresh the direction is the gradient");
        CHECK(h,
              feed(h, &o, a, b) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                  kfac_direct(h, &o, 1) == GRAM_OK,
              "%s", gram_message(h->g));
        dense_curvature(&o, a, b, shift, dense);
        kfac_check(h, &o, dense, 1, row & 8 ? 1e-4 : 1e-11);
        gram_kfac_destroy(o.kfac);
    }
}

/* A convolution of 2 by 2 with a bias: `groups` layers of 2 outputs for each group, or one. */
struct convolution {
    gram_kfac *kfac;
    int64_t layers;
    double got[20]; /* weights, then biases */
};

/* Directions of weight (4, 1, 2, 2) and bias in one layer of two groups, or in two layers. */
static void direct_convolution(struct harness *h, struct convolution *c, bool exact,
                               const double *const data[4])
{
    gram_layer layer = GRAM_LAYER_INIT;
    const gram_layer *layers[] = {&layer, &layer};
    const int64_t n = 2 / c->layers, inputs[] = {n, n}, outputs[] = {2 * n, 2 * n};
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    gram_tensor t[4][2];
    const gram_tensor *weights[] = {&t[0][0], &t[0][1]}, *biases[] = {&t[1][0], &t[1][1]};
    gram_tensor *to_weights[] = {&t[2][0], &t[2][1]}, *to_biases[] = {&t[3][0], &t[3][1]};

    layer.kind = GRAM_LAYER_CONVOLUTION, layer.bias = 1, layer.groups = n;
    layer.kernel[0] = layer.kernel[1] = 2;
    options.damping = exact ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
    CHECK(h,
          gram_kfac_create(h->g, layers, inputs, outputs, c->layers, &options, &c->kfac) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < c->layers; i++) {
        const gram_tensor weight = {
            (double *)data[0] + 8 * i, GRAM_F64, {GRAM_CPU, 0},
                   4, { 2 * n, 1,       2, 2},
                   { 4, 4,       2, 1}
        };
        gram_tensor a = gram_matrices((double *)data[2] + 25 * i, n, 5, 5, GRAM_F64);
        gram_tensor b = gram_matrices((double *)data[3] + 4 * i, n, 2, 2, GRAM_F64);
        if (n == 1) { /* one group has no dimension of groups */
            a = gram_matrix(a.data, 5, 5, GRAM_F64);
            b = gram_matrix(b.data, 2, 2, GRAM_F64);
        }
        t[0][i] = t[2][i] = weight;
        t[1][i] = gram_vector((double *)data[1] + 2 * i, 2 * n, GRAM_F64);
        t[2][i].data = c->got + 8 * i;
        t[3][i] = gram_vector(c->got + 16 + 2 * i, 2 * n, GRAM_F64);
        CHECK(h, gram_kfac_feed(h->g, c->kfac, i, &a, &b) == GRAM_OK, "%s", gram_message(h->g));
    }
    CHECK(h,
          gram_kfac_refresh(h->g, c->kfac) == GRAM_OK &&
              gram_kfac_precondition(h->g, c->kfac, 1, weights, biases, to_weights, to_biases) ==
                  GRAM_OK,
          "%s", gram_message(h->g));
    gram_kfac_destroy(c->kfac);
}

/* Two groups are two layers, but that pi is that of all groups. */
static void groups_of_a_convolution(struct harness *h)
{
    double weight[16], bias[4], a[50], b[8];
    const double *const data[] = {weight, bias, a, b};

    for (int i = 0; i < 16; i++)
        weight[i] = test_uniform(h), bias[i / 4] = test_uniform(h);
    for (int i = 0; i < 2; i++) {
        fill_factor(h, 5, false, a + 25 * i);
        fill_factor(h, 2, false, b + 4 * i);
    }
    for (int exact = 1; exact >= 0; exact--) {
        struct convolution whole = {.layers = 1}, apart = {.layers = 2};
        for (int i = 0; i < 25 && !exact; i++) /* the same pi for each: the same traces */
            a[25 + i] = a[i % 5 * 5 + i / 5];
        if (!exact)
            b[4] = b[3], b[7] = b[0], b[5] = b[6] = b[1];
        direct_convolution(h, &whole, exact, data);
        direct_convolution(h, &apart, exact, data);
        for (int i = 0; i < 20; i++)
            CHECK(h, fabs(whole.got[i] - apart.got[i]) <= 1e-12 * (1 + fabs(apart.got[i])),
                  "%d: %g, not %g", i, whole.got[i], apart.got[i]);
    }
}

static void directions_are_clipped(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
    gram_kfac_info info = {.size = sizeof info};
    double kept[12], sum = 0, nu;

    kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, false);
    CHECK(h, kfac_direct(h, &o, 1e-3) == GRAM_OK, "%s", gram_message(h->g));
    memcpy(kept, o.to_weight, sizeof kept); /* V = M, so short that it is not clipped */
    for (int i = 0; i < 12; i++)
        sum += o.weight[i] * o.weight[i];
    CHECK(h, memcmp(kept, o.weight, sizeof kept) == 0, "clipped for no reason");
    CHECK(h, kfac_direct(h, &o, 2) == GRAM_OK, "%s", gram_message(h->g));
    nu = sqrt(o.options.kl_clip / (4 * sum));
    for (int i = 0; i < 12; i++)
        CHECK(h, fabs(o.to_weight[i] - nu * o.weight[i]) <= 1e-15, "%g, not %g", o.to_weight[i],
              nu * o.weight[i]);
    CHECK(h, gram_kfac_get(h->g, o.kfac, &info) == GRAM_OK && fabs(info.nu - nu) <= 1e-15,
          "nu is %g, not %g", info.nu, nu);
    gram_kfac_destroy(o.kfac);
}

/* ---- Averages ------------------------------------------------------------------------------- */

static void averages_begin_with_the_first_update(struct harness *h)
{
    const double keep[] = {0, 0.5, 0.6, 0.6}; /* min(1 - 1 / k, decay) */
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
    double want = 0, value = 1, b[4] = {1, 0, 0, 1};
    gram_tensor a, of_b = gram_matrix(b, 2, 2, GRAM_F64), one = gram_matrix(&value, 1, 1, GRAM_F64);

    o.options.decay = 0.6;
    kfac_open(h, &o, GRAM_LAYER_LINEAR, 1, 2, false);
    a = kfac_state(h, o.kfac, "0.a");
    for (int k = 0; k < LENGTH(keep); k++) {
        value = k + 1;
        want = keep[k] * want + (1 - keep[k]) * value;
        CHECK(h, gram_kfac_feed(h->g, o.kfac, 0, &one, k % 2 ? NULL : &of_b) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, fabs(test_at(&a, 0) - want) <= 1e-15, "update %d: %g, not %g", k + 1,
              test_at(&a, 0), want);
    }
    gram_kfac_destroy(o.kfac);
}

/* An update is gram_kfac_factors fed, for f64 and, rounded to f32, for f32. */
static void an_update_feeds_factors(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT}, f = o;
    gram_kfac_factors_options options = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    double a[25], b[9];
    gram_tensor of_a = gram_matrix(a, 5, 5, GRAM_F64), of_b = gram_matrix(b, 3, 3, GRAM_F64);
    float a_32[KFAC_SAMPLES * 8], g_32[KFAC_SAMPLES * 8];
    gram_tensor x = gram_matrices(a_32, KFAC_SAMPLES, 2, 4, GRAM_F32), view;
    gram_tensor y = gram_matrices(g_32, KFAC_SAMPLES, 2, 3, GRAM_F32), xd, yd;
    struct kfac_data d;

    kfac_fill(h, &d, 2, 4, 3);
    xd = gram_matrices(d.a, KFAC_SAMPLES, 2, 4, GRAM_F64);
    yd = gram_matrices(d.g, KFAC_SAMPLES, 2, 3, GRAM_F64);
    for (int i = 0; i < KFAC_SAMPLES * 8; i++)
        a_32[i] = (float)d.a[i], g_32[i] = (float)d.g[i];
    o.options.setting = options.setting = GRAM_KFAC_REDUCE;
    o.options.scale = options.scale = 3;
    kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
    kfac_open(h, &f, GRAM_LAYER_LINEAR, 4, 3, true);
    CHECK(h,
          gram_kfac_factors(h->g, &o.layer, &xd, &yd, &options, &of_a, &of_b) == GRAM_OK &&
              kfac_learn(h, &o, &d) == GRAM_OK,
          "%s", gram_message(h->g));
    view = kfac_state(h, o.kfac, "0.a");
    CHECK(h, memcmp(view.data, a, sizeof a) == 0, "A is not that of gram_kfac_factors");
    view = kfac_state(h, o.kfac, "0.b");
    CHECK(h, memcmp(view.data, b, sizeof b) == 0, "B is not that of gram_kfac_factors");
    f.options = o.options;
    CHECK(h,
          gram_kfac_set(h->g, f.kfac, NULL) == GRAM_OK &&
              gram_kfac_update(h->g, o.kfac, 0, &x, &y) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int i = 0; i < 9; i++)
        CHECK(h, fabs(test_at(&view, i) - b[i]) <= 1e-5, "B[%d] is %g, not %g", i,
              test_at(&view, i), b[i]);
    gram_kfac_destroy(o.kfac);
    gram_kfac_destroy(f.kfac);
}

static const struct test_function tests[] = {
    {"a_linear_layer_with_gaussian_loss_is_exact", a_linear_layer_with_gaussian_loss_is_exact},
    {       "ekfac_is_closer_to_the_exact_fisher",        ekfac_is_closer_to_the_exact_fisher},
    {      "directions_are_those_of_dense_solves",       directions_are_those_of_dense_solves},
    {                   "groups_of_a_convolution",                    groups_of_a_convolution},
    {                    "directions_are_clipped",                     directions_are_clipped},
    {      "averages_begin_with_the_first_update",       averages_begin_with_the_first_update},
    {                   "an_update_feeds_factors",                    an_update_feeds_factors},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
