/*
 * test_sample_grad.c - what gram_sample_grad and gram_kfac_factors refuse, and what they say
 *
 * Every refusal must name the argument and leave the outputs as they were.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/core/refusal.h"
#include <math.h>
#include <string.h>

/* A layer with two samples of 12 numbers, which a row of the tables may spoil. */
struct call {
    gram_layer layer;
    double in[24], gradient[24], result[64];
    int64_t index[24];
    gram_tensor a, d, weight, norms, coefficients;
    const gram_tensor *with_a, *with_d;
    gram_sample_grad_options options;
    gram_kfac_factors_options factors;
    gram_sample_grads out;
    gram_tensor b;
};

/* (2, 3, 4) to (2, 3, 4): W is 4 by 4 */
static void open_call(struct call *c)
{
    *c = (struct call){.layer = GRAM_LAYER_INIT,
                       .options = GRAM_SAMPLE_GRAD_OPTIONS_INIT,
                       .factors = GRAM_KFAC_FACTORS_OPTIONS_INIT};
    c->a = gram_matrices(c->in, 2, 3, 4, GRAM_F64);
    c->d = gram_matrices(c->gradient, 2, 3, 4, GRAM_F64);
    c->weight = gram_matrices(c->result, 2, 4, 4, GRAM_F64);
    c->norms = gram_vector(c->result + 32, 2, GRAM_F64);
    c->coefficients = gram_vector(c->in, 2, GRAM_F64);
    c->b = gram_matrix(c->result + 40, 4, 4, GRAM_F64);
    c->with_a = &c->a;
    c->with_d = &c->d;
    c->out.weight = &c->weight;
    c->out.norms = &c->norms;
}

/* (2, 3, 2, 2) to (2, 3, 2, 2) by a kernel of one position */
static void make_convolution(struct call *c)
{
    c->layer.kind = GRAM_LAYER_CONVOLUTION;
    c->a.ndim = c->d.ndim = 4;
    c->a.shape[2] = c->a.shape[3] = c->d.shape[2] = c->d.shape[3] = 2;
    c->a.stride[2] = c->d.stride[2] = 2;
    c->a.stride[3] = c->d.stride[3] = 1;
}

static void make_embedding(struct call *c)
{
    c->layer.kind = GRAM_LAYER_EMBEDDING;
    c->layer.rows = 4;
    c->a = gram_matrix(c->index, 2, 3, GRAM_I64);
}

static void short_layer(struct call *c)
{
    c->layer.size = 4;
}
static void unknown_kind(struct call *c)
{
    c->layer.kind = (gram_layer_kind)9;
}
static void no_activations(struct call *c)
{
    c->with_a = NULL;
}
static void no_gradients(struct call *c)
{
    c->with_d = NULL;
}
static void other_samples(struct call *c)
{
    c->d.shape[0] = 1;
}
static void other_positions(struct call *c)
{
    c->d.shape[1] = 2;
}
static void other_dims(struct call *c)
{
    c->d.ndim = 2;
}
static void other_dtype(struct call *c)
{
    c->d.dtype = GRAM_F16;
}
static void integers(struct call *c)
{
    c->a.dtype = c->d.dtype = GRAM_I64;
}
static void small_weight(struct call *c)
{
    c->weight.shape[2] = 3;
}
static void f32_weight(struct call *c)
{
    c->weight.dtype = GRAM_F32;
}
static void weight_in_a(struct call *c)
{
    c->weight.data = c->in;
}
static void norms_in_weight(struct call *c)
{
    c->norms.data = c->result + 8;
}
static void negative_clip(struct call *c)
{
    c->options.clip = -1;
}
static void nan_scale(struct call *c)
{
    c->options.scale = NAN;
}
static void bad_method(struct call *c)
{
    c->options.method = (gram_sample_method)7;
}
static void bad_size(struct call *c)
{
    c->options.size = 4;
}

static void clip_and_coefficients(struct call *c)
{
    c->options.clip = 1;
    c->options.coefficients = &c->coefficients;
}

static void three_coefficients(struct call *c)
{
    c->coefficients.shape[0] = 3;
    c->options.coefficients = &c->coefficients;
}

static void infinite_coefficient(struct call *c)
{
    c->in[1] = INFINITY;
    c->options.coefficients = &c->coefficients;
}

static void four_spatial(struct call *c)
{
    make_convolution(c);
    c->layer.spatial = 4;
}

static void no_kernel(struct call *c)
{
    make_convolution(c);
    c->layer.kernel[1] = 0;
}

static void negative_padding(struct call *c)
{
    make_convolution(c);
    c->layer.padding[0] = -1;
}

static void huge_dilation(struct call *c)
{
    make_convolution(c);
    c->layer.dilation[0] = INT64_MAX;
}

static void two_groups_of_three(struct call *c)
{
    make_convolution(c);
    c->layer.groups = 2;
}

static void other_places(struct call *c)
{
    make_convolution(c);
    c->layer.kernel[0] = 2;
}

static void flat_convolution(struct call *c)
{
    c->layer.kind = GRAM_LAYER_CONVOLUTION;
}

static void real_rows(struct call *c)
{
    make_embedding(c);
    c->a.dtype = GRAM_F64;
}

static void row_outside(struct call *c)
{
    make_embedding(c);
    c->index[4] = 4;
}

static void negative_row(struct call *c)
{
    make_embedding(c);
    c->index[5] = -1;
}

static void biased_embedding(struct call *c)
{
    make_embedding(c);
    c->weight.shape[1] = 4;
    c->out.bias = &c->norms;
}

static void zero_epsilon(struct call *c)
{
    c->layer.kind = GRAM_LAYER_NORM;
    c->layer.epsilon = 0;
}

static void wide_norm(struct call *c)
{
    c->layer.kind = GRAM_LAYER_NORM;
    c->layer.normalized = 3;
}

static const struct refusal refusals[] = {
    {          short_layer, GRAM_INVALID_ARGUMENT,                                    "layer.size is 4"},
    {         unknown_kind, GRAM_INVALID_ARGUMENT,                                    "layer.kind is 9"},
    {       no_activations, GRAM_INVALID_ARGUMENT,                                "activations is NULL"},
    {         no_gradients, GRAM_INVALID_ARGUMENT,                                  "gradients is NULL"},
    {        other_samples, GRAM_INVALID_ARGUMENT,    "gradients has size 1 in dimension 0, expected 2"},
    {      other_positions, GRAM_INVALID_ARGUMENT,    "gradients has size 2 in dimension 1, expected 3"},
    {           other_dims, GRAM_INVALID_ARGUMENT,             "gradients has 2 dimensions, expected 3"},
    {          other_dtype, GRAM_INVALID_ARGUMENT,              "gradients has dtype f16, expected f64"},
    {             integers, GRAM_INVALID_ARGUMENT,                          "activations has dtype i64"},
    {         small_weight, GRAM_INVALID_ARGUMENT,                      "(2, 4, 3), expected (2, 4, 4)"},
    {           f32_weight, GRAM_INVALID_ARGUMENT,                 "weight has dtype f32, expected f64"},
    {          weight_in_a, GRAM_INVALID_ARGUMENT,                        "weight overlaps activations"},
    {      norms_in_weight, GRAM_INVALID_ARGUMENT,                              "norms overlaps weight"},
    {        negative_clip, GRAM_INVALID_ARGUMENT,                                 "options.clip is -1"},
    {            nan_scale, GRAM_INVALID_ARGUMENT,                               "options.scale is nan"},
    {           bad_method, GRAM_INVALID_ARGUMENT,                                "options.method is 7"},
    {             bad_size, GRAM_INVALID_ARGUMENT,                                  "options.size is 4"},
    {clip_and_coefficients, GRAM_INVALID_ARGUMENT,                       "expected at most one of them"},
    {   three_coefficients, GRAM_INVALID_ARGUMENT,   "options.coefficients does not have the shape (2)"},
    { infinite_coefficient, GRAM_INVALID_ARGUMENT,                     "options.coefficients[1] is inf"},
    {         four_spatial, GRAM_INVALID_ARGUMENT,                                 "layer.spatial is 4"},
    {            no_kernel, GRAM_INVALID_ARGUMENT,                                  "layer.kernel is 0"},
    {     negative_padding, GRAM_INVALID_ARGUMENT,                                "layer.padding is -1"},
    {        huge_dilation, GRAM_INVALID_ARGUMENT,              "layer.dilation is 9223372036854775807"},
    {  two_groups_of_three, GRAM_INVALID_ARGUMENT,     "layer.groups is 2, expected a divisor of the 3"},
    {         other_places, GRAM_INVALID_ARGUMENT,    "gradients has size 2 in dimension 2, expected 1"},
    {     flat_convolution, GRAM_INVALID_ARGUMENT,           "activations has 3 dimensions, expected 4"},
    {            real_rows, GRAM_INVALID_ARGUMENT,     "activations has dtype f64, expected i32 or i64"},
    {          row_outside, GRAM_INVALID_ARGUMENT, "activations has row 4 in sample 1, expected 0 to 3"},
    {         negative_row, GRAM_INVALID_ARGUMENT,                 "activations has row -1 in sample 1"},
    {     biased_embedding, GRAM_INVALID_ARGUMENT,                           "an embedding has no bias"},
    {         zero_epsilon, GRAM_INVALID_ARGUMENT,                                 "layer.epsilon is 0"},
    {            wide_norm, GRAM_INVALID_ARGUMENT,      "activations has 3 dimensions, expected 4 to 8"},
};

static void check_untouched(struct harness *h, const struct call *c)
{
    for (int k = 0; k < LENGTH(c->result); k++)
        CHECK(h, c->result[k] == 0, "number %d was set to %g", k, c->result[k]);
}

static void refused(struct harness *h)
{
    struct call c;

    for (int i = 0; i < LENGTH(refusals); i++) {
        open_call(&c);
        refusals[i].spoil(&c);
        refusal_check(h, &refusals[i],
                      gram_sample_grad(h->g, &c.layer, c.with_a, c.with_d, &c.options, &c.out));
        check_untouched(h, &c);
    }
}

static void normalisation(struct call *c)
{
    c->layer.kind = GRAM_LAYER_NORM;
}
static void bad_setting(struct call *c)
{
    c->factors.setting = (gram_kfac_setting)5;
}
static void keep_two(struct call *c)
{
    c->factors.keep = 2;
}
static void infinite_scale(struct call *c)
{
    c->factors.scale = INFINITY;
}
static void small_factor(struct call *c)
{
    c->b.shape[0] = 3;
}
static void factor_in_gradients(struct call *c)
{
    c->b.data = c->gradient;
}

static const struct refusal factor_refusals[] = {
    {      normalisation, GRAM_INVALID_ARGUMENT,  "a normalisation, which has no Kronecker factors"},
    {        bad_setting, GRAM_INVALID_ARGUMENT,                             "options.setting is 5"},
    {           keep_two, GRAM_INVALID_ARGUMENT,               "options.keep is 2, expected 0 to 1"},
    {     infinite_scale, GRAM_INVALID_ARGUMENT,                             "options.scale is inf"},
    {       small_factor, GRAM_INVALID_ARGUMENT, "b_factor has batch shape (3, 4), expected (4, 4)"},
    {factor_in_gradients, GRAM_INVALID_ARGUMENT,                      "b_factor overlaps gradients"},
    {       no_gradients, GRAM_INVALID_ARGUMENT,         "gradients is NULL, but b_factor is given"},
    {    other_positions, GRAM_INVALID_ARGUMENT,  "gradients has size 2 in dimension 1, expected 3"},
};

static void factors_refused(struct harness *h)
{
    struct call c;

    for (int i = 0; i < LENGTH(factor_refusals); i++) {
        open_call(&c);
        factor_refusals[i].spoil(&c);
        refusal_check(
            h, &factor_refusals[i],
            gram_kfac_factors(h->g, &c.layer, c.with_a, c.with_d, &c.factors, NULL, &c.b));
        check_untouched(h, &c);
    }
}

/* Norms and gradients are the same bits, however many threads there are. */
static void threads(struct harness *h)
{
    static double in[6 * 40 * 30], gradient[6 * 40 * 20], weight[2][6 * 20 * 30], norms[2][6];
    const gram_tensor a = gram_matrices(in, 6, 40, 30, GRAM_F64);
    const gram_tensor d = gram_matrices(gradient, 6, 40, 20, GRAM_F64);
    const gram_layer layer = GRAM_LAYER_INIT;

    for (int i = 0; i < LENGTH(in); i++)
        in[i] = test_uniform(h) - 0.5;
    for (int i = 0; i < LENGTH(gradient); i++)
        gradient[i] = test_uniform(h) - 0.5;
    for (int i = 0; i < 2; i++) {
        struct harness_options options = {.threads = i + 1};
        gram_tensor w = gram_matrices(weight[i], 6, 20, 30, GRAM_F64);
        gram_tensor n = gram_vector(norms[i], 6, GRAM_F64);
        const gram_sample_grads out = {.weight = &w, .norms = &n};
        struct harness other;
        if (!CHECK(h, harness_open(&other, &options, NULL), "no context"))
            return;
        CHECK(h, gram_sample_grad(other.g, &layer, &a, &d, NULL, &out) == GRAM_OK, "%s",
              gram_message(other.g));
        harness_close(&other);
    }
    CHECK(h, memcmp(weight[0], weight[1], sizeof weight[0]) == 0, "2 threads give other gradients");
    CHECK(h, memcmp(norms[0], norms[1], sizeof norms[0]) == 0, "2 threads give other norms");
}

/* What a clipped sum gets of a sample is never longer than C. */
static void clipped(struct harness *h)
{
    double in[2][3] =
        {
            {    1,     2, 2},
            {1e300, 1e300, 0}
    },
           gradient[2][1] = {{100}, {1e300}}, sum[3];
    const gram_tensor a = gram_matrix(in, 2, 3, GRAM_F64),
                      d = gram_matrix(gradient, 2, 1, GRAM_F64);
    gram_sample_grad_options options = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    const gram_layer layer = GRAM_LAYER_INIT;
    gram_tensor to = gram_matrix(sum, 1, 3, GRAM_F64);
    const gram_sample_grads out = {.sum_weight = &to};

    options.clip = 3;
    CHECK(h, gram_sample_grad(h->g, &layer, &a, &d, &options, &out) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, fabs(sum[0] - 1) < 1e-8 && fabs(sum[1] - 2) < 1e-8 && fabs(sum[2] - 2) < 1e-8,
          "the sum is %.9g, %.9g, %.9g, expected 1, 2, 2", sum[0], sum[1], sum[2]);
}

static const struct test_function tests[] = {
    {        "refused",         refused},
    {"factors_refused", factors_refused},
    {        "threads",         threads},
    {        "clipped",         clipped},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
