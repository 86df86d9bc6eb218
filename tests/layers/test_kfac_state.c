/*
 * test_kfac_state.c - gram_kfac: what is not finite, files, and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "kfac_problem.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gram_kfac_info info_of(struct harness *h, const gram_kfac *kfac)
{
    gram_kfac_info info = {.size = sizeof info};

    CHECK(h, gram_kfac_get(h->g, kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
    return info;
}

/* ---- What is not finite, or has no inverse --------------------------------------------------- */

static void nan_does_not_poison(struct harness *h)
{
    for (int corrected = 0; corrected < 2; corrected++)
        for (int where = 0; where < 2; where++) {
            struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
            struct kfac_data d;
            double kept[12];
            kfac_fill(h, &d, 1, 4, 3);
            o.options.corrected = corrected;
            kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, false);
            CHECK(h,
                  kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                      kfac_learn(h, &o, &d) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK,
                  "%s", gram_message(h->g));
            memcpy(kept, o.to_weight, sizeof kept);
            (where ? d.g : d.a)[5] = where ? INFINITY : NAN;
            CHECK(h, kfac_learn(h, &o, &d) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK, "%s",
                  gram_message(h->g));
            CHECK(h, info_of(h, o.kfac).skipped == 1, "%lld updates were skipped",
                  (long long)info_of(h, o.kfac).skipped);
            CHECK(h, memcmp(kept, o.to_weight, sizeof kept) == 0, "the direction has changed");
            CHECK(h, gram_kfac_refresh(h->g, o.kfac) == GRAM_OK, "%s", gram_message(h->g));
            CHECK(h,
                  isfinite(test_at(
                      &(gram_tensor){
                          kfac_state(h, o.kfac, "0.a").data, GRAM_F64, {GRAM_CPU, 0},
                              1, {       1  },
                              {       1  }
            },
                      0)),
                  "A has NaN");
            gram_kfac_destroy(o.kfac);
        }
}

static void a_gradient_that_is_not_finite_writes_nothing(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};

    kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
    o.bias[1] = NAN;
    CHECK(h, kfac_direct(h, &o, 1) == GRAM_NUMERICAL, "%s", gram_message(h->g));
    CHECK(h, strstr(gram_message(h->g), "weights[0]"), "%s", gram_message(h->g));
    for (int i = 0; i < KFAC_MOST; i++)
        CHECK(h, o.to_weight[i] == -7 && o.to_bias[i] == -7, "number %d was written", i);
    gram_kfac_destroy(o.kfac);
}

static void a_layer_without_inverse_keeps_the_previous_one(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
    double a[4] = {2, 0, 0, 2}, b[4] = {1, 0, 0, 1}, kept[4];
    gram_tensor of_a = gram_matrix(a, 2, 2, GRAM_F64), of_b = gram_matrix(b, 2, 2, GRAM_F64);

    o.options.decay = 0;
    kfac_open(h, &o, GRAM_LAYER_LINEAR, 2, 2, false);
    CHECK(h,
          gram_kfac_feed(h->g, o.kfac, 0, &of_a, &of_b) == GRAM_OK &&
              gram_kfac_refresh(h->g, o.kfac) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK,
          "%s", gram_message(h->g));
    memcpy(kept, o.to_weight, sizeof kept);
    a[0] = -100;
    CHECK(h,
          gram_kfac_feed(h->g, o.kfac, 0, &of_a, &of_b) == GRAM_OK &&
              gram_kfac_refresh(h->g, o.kfac) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, info_of(h, o.kfac).failed == 1, "%lld layers failed",
          (long long)info_of(h, o.kfac).failed);
    CHECK(h, memcmp(kept, o.to_weight, sizeof kept) == 0, "the direction has changed");
    a[0] = 0, a[3] = 0; /* nothing but damping */
    CHECK(h,
          gram_kfac_feed(h->g, o.kfac, 0, &of_a, &of_b) == GRAM_OK &&
              gram_kfac_refresh(h->g, o.kfac) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, info_of(h, o.kfac).failed == 1 && isfinite(o.to_weight[0]), "zero is no failure");
    gram_kfac_destroy(o.kfac);
}

/* ---- Files ---------------------------------------------------------------------------------- */

static void a_file_brings_everything_back(struct harness *h)
{
    for (int row = 0; row < 4; row++) {
        struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT}, p;
        char path[] = "/tmp/gram-kfac-XXXXXX";
        struct kfac_data d;
        int file = mkstemp(path);
        kfac_fill(h, &d, 1, 4, 3);
        o.options.corrected = row >= 2;
        o.options.state = row == 3 ? GRAM_F32 : GRAM_F64;
        o.options.damping = row > 0 ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
        kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
        CHECK(h,
              kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                  kfac_learn(h, &o, &d) == GRAM_OK && kfac_direct(h, &o, 0.5) == GRAM_OK &&
                  gram_kfac_save(h->g, o.kfac, path) == GRAM_OK,
              "%s", gram_message(h->g));
        p = o;
        kfac_open(h, &p, GRAM_LAYER_LINEAR, 4, 3, true);
        memcpy(p.weight, o.weight, sizeof p.weight);
        memcpy(p.bias, o.bias, sizeof p.bias);
        CHECK(h,
              gram_kfac_load(h->g, p.kfac, path) == GRAM_OK && kfac_direct(h, &p, 0.5) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, memcmp(p.to_weight, o.to_weight, sizeof p.to_weight) == 0, "another direction");
        CHECK(h, memcmp(p.to_bias, o.to_bias, sizeof p.to_bias) == 0, "another direction");
        CHECK(h,
              kfac_learn(h, &o, &d) == GRAM_OK && kfac_learn(h, &p, &d) == GRAM_OK &&
                  gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                  gram_kfac_refresh(h->g, p.kfac) == GRAM_OK &&
                  kfac_direct(h, &o, 0.5) == GRAM_OK && kfac_direct(h, &p, 0.5) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, memcmp(p.to_weight, o.to_weight, sizeof p.to_weight) == 0,
              "another direction one step later");
        gram_kfac_destroy(o.kfac);
        gram_kfac_destroy(p.kfac);
        close(file);
        unlink(path);
    }
}

static void bad_files_change_nothing(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT}, p = o;
    char path[] = "/tmp/gram-kfac-XXXXXX";
    struct kfac_data d;
    gram_tensor a;
    double kept;
    int file = mkstemp(path);

    kfac_fill(h, &d, 1, 4, 3);
    kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
    kfac_open(h, &p, GRAM_LAYER_LINEAR, 5, 3, false);
    a = kfac_state(h, o.kfac, "0.a");
    CHECK(h, kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_save(h->g, p.kfac, path) == GRAM_OK,
          "%s", gram_message(h->g));
    kept = test_at(&a, 3);
    p.kfac = (gram_kfac_destroy(p.kfac), NULL);
    p.options.state = GRAM_F32;
    kfac_open(h, &p, GRAM_LAYER_LINEAR, 4, 3, true);
    CHECK(h, gram_kfac_save(h->g, p.kfac, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_kfac_load(h->g, o.kfac, path) == GRAM_BAD_DATA, "%s", gram_message(h->g));
    p.kfac = (gram_kfac_destroy(p.kfac), NULL);
    p.options.state = GRAM_F64;
    p.options.damping = GRAM_KFAC_EXACT;
    kfac_open(h, &p, GRAM_LAYER_LINEAR, 4, 3, true);
    CHECK(h, gram_kfac_save(h->g, p.kfac, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_kfac_load(h->g, o.kfac, path) == GRAM_BAD_DATA, "%s", gram_message(h->g));
    CHECK(h, gram_kfac_save(h->g, o.kfac, path) == GRAM_OK && truncate(path, 300) == 0, "%s",
          gram_message(h->g));
    CHECK(h, gram_kfac_load(h->g, o.kfac, path) == GRAM_BAD_DATA, "%s", gram_message(h->g));
    test_put(&a, 3, NAN);
    CHECK(h, gram_kfac_save(h->g, o.kfac, path) == GRAM_OK, "%s", gram_message(h->g));
    test_put(&a, 3, kept);
    CHECK(h, gram_kfac_load(h->g, o.kfac, path) == GRAM_BAD_DATA, "%s", gram_message(h->g));
    CHECK(h, test_at(&a, 3) == kept, "the state has changed");
    unlink(path);
    CHECK(h, gram_kfac_load(h->g, o.kfac, path) == GRAM_IO, "%s", gram_message(h->g));
    gram_kfac_destroy(o.kfac);
    gram_kfac_destroy(p.kfac);
    close(file);
}

/* ---- What is refused ------------------------------------------------------------------------ */

struct call {
    gram_kfac_options options;
    gram_layer layer;
    int64_t inputs, outputs, index;
    double data[64], rate;
    gram_tensor a, g, weight, to_weight, factor;
    const gram_tensor *biases[1];
};

static void whole_state(struct call *c)
{
    c->options.state = GRAM_I32;
}

static void no_lambda(struct call *c)
{
    c->options.lambda = 0;
}

static void large_decay(struct call *c)
{
    c->options.decay = 1.5;
}

static void negative_clip(struct call *c)
{
    c->options.kl_clip = -1;
}

static void nan_scale(struct call *c)
{
    c->options.scale = NAN;
}

static void a_norm(struct call *c)
{
    c->layer.kind = GRAM_LAYER_NORM;
}

static void no_outputs(struct call *c)
{
    c->outputs = 0;
}

static void odd_groups(struct call *c)
{
    c->layer.kind = GRAM_LAYER_CONVOLUTION;
    c->layer.groups = 2;
}

static void embedding_with_bias(struct call *c)
{
    c->layer.kind = GRAM_LAYER_EMBEDDING;
    c->layer.rows = 3, c->layer.bias = 1;
}

static void index_1(struct call *c)
{
    c->index = 1;
}

static void wide_weight(struct call *c)
{
    c->weight.shape[1] = 4;
}

static void whole_weight(struct call *c)
{
    c->weight.dtype = GRAM_I32;
}

static void repeated_output(struct call *c)
{
    c->to_weight.stride[0] = 0;
}

static void bias_of_none(struct call *c)
{
    c->biases[0] = &c->weight;
}

static void infinite_rate(struct call *c)
{
    c->rate = INFINITY;
}

static void wide_factor(struct call *c)
{
    c->factor.shape[0] = 2;
}

static gram_status make_call(struct harness *h, struct call *c)
{
    const gram_layer *layers[] = {&c->layer};
    const gram_tensor *weights[] = {&c->weight};
    gram_tensor *to_weights[] = {&c->to_weight};
    gram_kfac *kfac;
    gram_status status =
        gram_kfac_create(h->g, layers, &c->inputs, &c->outputs, 1, &c->options, &kfac);

    CHECK(h, (status == GRAM_OK) == (kfac != NULL), "an object and an error");
    if (status == GRAM_OK)
        status = gram_kfac_update(h->g, kfac, c->index, &c->a, &c->g);
    if (status == GRAM_OK)
        status = gram_kfac_feed(h->g, kfac, 0, &c->factor, NULL);
    if (status == GRAM_OK)
        status = gram_kfac_precondition(h->g, kfac, c->rate, weights, c->biases, to_weights, NULL);
    gram_kfac_destroy(kfac);
    return status;
}

static void make_good(struct call *c)
{
    *c = (struct call){
        .options = GRAM_KFAC_OPTIONS_INIT, .layer = GRAM_LAYER_INIT, .inputs = 3, .outputs = 2};
    c->a = gram_matrix(c->data, 4, 3, GRAM_F64);
    c->g = gram_matrix(c->data + 12, 4, 2, GRAM_F64);
    c->weight = gram_matrix(c->data + 20, 2, 3, GRAM_F64);
    c->to_weight = gram_matrix(c->data + 26, 2, 3, GRAM_F64);
    c->factor = gram_matrix(c->data + 40, 3, 3, GRAM_F64);
}

static const struct refusal refusals[] = {
    {          no_lambda, GRAM_INVALID_ARGUMENT,         "gram_kfac_create: options.lambda is 0"},
    {        whole_state, GRAM_INVALID_ARGUMENT,         "options.state is 5, expected GRAM_F64"},
    {        large_decay, GRAM_INVALID_ARGUMENT,                          "options.decay is 1.5"},
    {      negative_clip, GRAM_INVALID_ARGUMENT,                         "options.kl_clip is -1"},
    {          nan_scale, GRAM_INVALID_ARGUMENT,                          "options.scale is nan"},
    {             a_norm,      GRAM_UNSUPPORTED,                          "layers[0] has kind 3"},
    {         no_outputs, GRAM_INVALID_ARGUMENT,                               "outputs[0] is 0"},
    {         odd_groups, GRAM_INVALID_ARGUMENT,                      "groups that divides both"},
    {embedding_with_bias, GRAM_INVALID_ARGUMENT,                      "an embedding with a bias"},
    {            index_1, GRAM_INVALID_ARGUMENT, "gram_kfac_update: index is 1, expected 0 to 0"},
    {        wide_weight, GRAM_INVALID_ARGUMENT,            "weights[0] does not have the shape"},
    {       whole_weight, GRAM_INVALID_ARGUMENT,                      "weights[0] has dtype i32"},
    {    repeated_output, GRAM_INVALID_ARGUMENT,        "to_weights[0] has strides that put two"},
    {       bias_of_none, GRAM_INVALID_ARGUMENT,                         "the layer has no bias"},
    {      infinite_rate, GRAM_INVALID_ARGUMENT,                          "learning_rate is inf"},
    {        wide_factor, GRAM_INVALID_ARGUMENT,              "a_factor does not have the shape"},
};

static void bad_calls_are_refused(struct harness *h)
{
    for (int i = 0; i < LENGTH(refusals); i++) {
        struct call good, spoilt;
        make_good(&good);
        CHECK(h, make_call(h, &good) == GRAM_OK, "the good call: %s", gram_message(h->g));
        make_good(&spoilt);
        refusals[i].spoil(&spoilt);
        refusal_check(h, &refusals[i], make_call(h, &spoilt));
    }
}

static const struct test_function tests[] = {
    {                           "nan_does_not_poison",nan_does_not_poison                                                      },
    {  "a_gradient_that_is_not_finite_writes_nothing", a_gradient_that_is_not_finite_writes_nothing},
    {"a_layer_without_inverse_keeps_the_previous_one",
     a_layer_without_inverse_keeps_the_previous_one                                                },
    {                 "a_file_brings_everything_back",                a_file_brings_everything_back},
    {                      "bad_files_change_nothing",                     bad_files_change_nothing},
    {                         "bad_calls_are_refused",                        bad_calls_are_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
