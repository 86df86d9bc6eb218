/*
 * test_optimizer_refusals.c - what optimizers refuse at their creation, at a step, and as options
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_sample.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Creation ----------------------------------------------------------------------------- */

static void bad_method(struct call *c)
{
    c->options.method = (gram_optimizer_method)99;
}

static void bad_rate(struct call *c)
{
    c->options.learning_rate = NAN;
}

static void negative_rate(struct call *c)
{
    c->options.learning_rate = -1;
}

static void beta1_one(struct call *c)
{
    c->options.beta1 = 1;
}

static void beta2_zero(struct call *c)
{
    c->options.beta2 = 0;
}

static void beta2_nan(struct call *c)
{
    c->options.beta2 = NAN;
}

static void beta3_two(struct call *c)
{
    c->options.beta3 = 2;
}

static void negative_epsilon(struct call *c)
{
    c->options.epsilon = -1;
}

static void negative_decay(struct call *c)
{
    c->options.weight_decay = -1;
}

static void momentum_one(struct call *c)
{
    c->options.momentum = 1;
}

static void bad_graft(struct call *c)
{
    c->options.graft = (gram_graft)9;
}

static void bad_root(struct call *c)
{
    c->options.root = (gram_power_method)-1;
}

static void bad_precision(struct call *c)
{
    c->options.precision = GRAM_POWER_PRECISION_F64;
}

static void bad_root_precision(struct call *c)
{
    c->options.root_precision = (gram_power_precision)5;
}

static void bad_state(struct call *c)
{
    c->options.state = GRAM_F16;
}

static void block_zero(struct call *c)
{
    c->options.block = 0;
}

static void refresh_zero(struct call *c)
{
    c->options.refresh = 0;
}

static void statistics_zero(struct call *c)
{
    c->options.statistics = 0;
}

static void statistics_of_soap(struct call *c)
{
    c->options.method = GRAM_SOAP;
    c->options.beta2 = 0.9;
    c->options.statistics = 2;
}

static void failures_negative(struct call *c)
{
    c->options.failures = -1;
}

static void rank_beyond(struct call *c)
{
    c->options.rank = 1;
}

static void odd_exponent(struct call *c)
{
    c->options.exponent = 0.012345;
}

static void minimax_without(struct call *c)
{
    c->options.root = GRAM_POWER_MINIMAX;
    c->options.epsilon = 0;
}

static void newton_schulz_of_3(struct call *c)
{
    c->options.root = GRAM_POWER_NEWTON_SCHULZ;
    c->options.exponent = 1.0 / 3;
}

static void bad_size(struct call *c)
{
    c->options.size = 1 << 20;
}

static void whole_numbers(struct call *c)
{
    c->s.value[1].dtype = GRAM_I32;
}

static void many_dimensions(struct call *c)
{
    c->s.value[1].ndim = 9;
}

static void negative_size(struct call *c)
{
    c->s.value[0].shape[1] = -5;
}

static void too_large(struct call *c)
{
    c->s.value[0].shape[0] = INT64_C(1) << 61;
}

static void no_parameter(struct call *c)
{
    c->s.values[2] = NULL;
}

static const struct refusal creations[] = {
    {        bad_method, GRAM_INVALID_ARGUMENT,"options.method is 99"                                               },
    {          bad_rate, GRAM_INVALID_ARGUMENT,                        "options.learning_rate is nan"},
    {     negative_rate, GRAM_INVALID_ARGUMENT,                         "options.learning_rate is -1"},
    {         beta1_one, GRAM_INVALID_ARGUMENT,       "options.beta1 is 1, expected 0 to less than 1"},
    {        beta2_zero, GRAM_INVALID_ARGUMENT,                                  "options.beta2 is 0"},
    {         beta2_nan, GRAM_INVALID_ARGUMENT,                                "options.beta2 is nan"},
    {         beta3_two, GRAM_INVALID_ARGUMENT,                                  "options.beta3 is 2"},
    {  negative_epsilon, GRAM_INVALID_ARGUMENT,
     "options.epsilon is -1, expected a finite number of at least 0"                                 },
    {    negative_decay, GRAM_INVALID_ARGUMENT,                          "options.weight_decay is -1"},
    {      momentum_one, GRAM_INVALID_ARGUMENT,                               "options.momentum is 1"},
    {         bad_graft, GRAM_INVALID_ARGUMENT,      "options.graft is 9, expected one of gram_graft"},
    {          bad_root, GRAM_INVALID_ARGUMENT,                                  "options.root is -1"},
    {     bad_precision, GRAM_INVALID_ARGUMENT,
     "options.precision is 1, expected GRAM_POWER_PRECISION_AUTO"                                    },
    {   statistics_zero, GRAM_INVALID_ARGUMENT,              "options.statistics is 0, expected 1 to"},
    {statistics_of_soap, GRAM_INVALID_ARGUMENT,
     "options.statistics is 2, expected 1 with GRAM_SOAP"                                            },
    {bad_root_precision, GRAM_INVALID_ARGUMENT,                         "options.root_precision is 5"},
    {         bad_state, GRAM_INVALID_ARGUMENT, "options.state is 3 (f16), expected f32, f64 or bf16"},
    {        block_zero, GRAM_INVALID_ARGUMENT,                                  "options.block is 0"},
    {      refresh_zero, GRAM_INVALID_ARGUMENT,                                "options.refresh is 0"},
    { failures_negative, GRAM_INVALID_ARGUMENT,                              "options.failures is -1"},
    {       rank_beyond, GRAM_INVALID_ARGUMENT,                  "options.rank is 1, expected 0 to 0"},
    {      odd_exponent, GRAM_INVALID_ARGUMENT,        "options.exponent is 0.012345, expected k / q"},
    {   minimax_without, GRAM_INVALID_ARGUMENT,                 "options.epsilon is 0, expected more"},
    {newton_schulz_of_3, GRAM_INVALID_ARGUMENT,                 "parameters[0] has roots of degree 3"},
    {          bad_size, GRAM_INVALID_ARGUMENT,                             "options.size is 1048576"},
    {     whole_numbers, GRAM_INVALID_ARGUMENT,                         "parameters[1] has dtype i32"},
    {   many_dimensions, GRAM_INVALID_ARGUMENT,     "parameters[1] has 9 dimensions, expected 0 to 8"},
    {     negative_size, GRAM_INVALID_ARGUMENT,            "parameters[0] has size -5 in dimension 1"},
    {         too_large, GRAM_INVALID_ARGUMENT,          "parameters[0] has size 2305843009213693952"},
    {      no_parameter, GRAM_INVALID_ARGUMENT,                               "parameters[2] is NULL"},
};

static void refused_creations(struct harness *h)
{
    for (int i = 0; i < LENGTH(creations); i++) {
        struct call c;
        gram_optimizer *o = (gram_optimizer *)(void *)&c;
        gram_status status;
        sample_call(h, &c);
        creations[i].spoil(&c);
        status = gram_optimizer_create(h->g, &c.options, (const gram_tensor *const *)c.s.values,
                                       SAMPLE, &o);
        refusal_check(h, &creations[i], status);
        CHECK(h, o == NULL, "an optimizer came of it");
    }
}

/* ---- Steps -------------------------------------------------------------------------------- */

static void other_shape(struct call *c)
{
    c->s.grad[0].shape[0] = 5;
}

static void other_dimensions(struct call *c)
{
    c->s.value[1] = gram_matrix(c->s.w + 30, 7, 1, GRAM_F64);
}

static void integer_gradients(struct call *c)
{
    c->s.grad[0].dtype = GRAM_I64;
}

static void no_data(struct call *c)
{
    c->s.grad[0].data = NULL;
}

static void no_direction(struct call *c)
{
    c->s.directions[0] = NULL;
}

static void direction_over_value(struct call *c)
{
    c->s.dir[0].data = c->s.w;
}

static void direction_over_part_of_gradient(struct call *c)
{
    c->s.dir[0].data = c->s.g + 1;
}

static void direction_over_other_gradient(struct call *c)
{
    c->s.dir[1].data = c->s.g + 2;
}

static void directions_in_one_place(struct call *c)
{
    c->s.dir[1].data = c->s.p + 3;
}

static void repeated_rows(struct call *c)
{
    c->s.dir[0].stride[0] = 0;
}

static const struct refusal steps[] = {
    {                    other_shape, GRAM_INVALID_ARGUMENT,
     "gradients[0] has size 5 in dimension 0, but the optimizer was created with 6"                           },
    {               other_dimensions, GRAM_INVALID_ARGUMENT,
     "parameters[1] has 2 dimensions, but the optimizer was created with 1"                                   },
    {              integer_gradients, GRAM_INVALID_ARGUMENT,                      "gradients[0] has dtype i64"},
    {                        no_data, GRAM_INVALID_ARGUMENT,                        "gradients[0] has no data"},
    {                   no_direction, GRAM_INVALID_ARGUMENT,                           "directions[0] is NULL"},
    {           direction_over_value, GRAM_INVALID_ARGUMENT,            "directions[0] overlaps parameters[0]"},
    {direction_over_part_of_gradient, GRAM_INVALID_ARGUMENT,             "directions[0] overlaps gradients[0]"},
    {  direction_over_other_gradient, GRAM_INVALID_ARGUMENT,             "directions[1] overlaps gradients[0]"},
    {        directions_in_one_place, GRAM_INVALID_ARGUMENT,                            "overlaps directions["},
    {                  repeated_rows, GRAM_INVALID_ARGUMENT, "directions[0] has strides that put two elements"},
};

static void refused_steps(struct harness *h)
{
    for (int i = 0; i < LENGTH(steps); i++) {
        struct call c;
        gram_optimizer *o;
        gram_status status;
        char *state;
        sample_call(h, &c);
        o = sample_optimizer(h, &c.s, &c.options);
        state = sample_state(h, o);
        steps[i].spoil(&c);
        status = gram_optimizer_direction(h->g, o, (const gram_tensor *const *)c.s.values,
                                          c.s.gradients, c.s.directions, NULL);
        refusal_check(h, &steps[i], status);
        CHECK(h, sample_same_state(h, o, state), "row %d changed the state", i);
        free(state);
        gram_optimizer_destroy(o);
    }
}

/* ---- Options later ------------------------------------------------------------------------- */

static void change_method(struct call *c)
{
    c->options.graft = GRAM_GRAFT_ADAM;
}

static void change_block(struct call *c)
{
    c->options.block = 5;
}

static void change_beta1(struct call *c)
{
    c->options.beta1 = 0;
}

static void change_momentum(struct call *c)
{
    c->options.momentum = 0.5;
}

static void change_packed(struct call *c)
{
    c->options.packed = 0;
}

static void change_root(struct call *c)
{
    c->options.root = GRAM_POWER_NEWTON_SCHULZ;
    c->options.exponent = 1.0 / 3;
}

static const struct refusal changes[] = {
    {  change_method, GRAM_INVALID_ARGUMENT,                      "options.graft cannot change"},
    {   change_block, GRAM_INVALID_ARGUMENT,                      "options.block cannot change"},
    {   change_beta1, GRAM_INVALID_ARGUMENT,    "options.beta1 (whether it is 0) cannot change"},
    {change_momentum, GRAM_INVALID_ARGUMENT, "options.momentum (whether it is 0) cannot change"},
    {  change_packed, GRAM_INVALID_ARGUMENT,                     "options.packed cannot change"},
    {    change_root, GRAM_INVALID_ARGUMENT,              "parameters[0] has roots of degree 3"},
};

static void options_change(struct harness *h)
{
    struct call c;
    gram_optimizer *o;
    gram_optimizer_options got = {.size = sizeof got};
    double before;

    sample_call(h, &c);
    o = sample_optimizer(h, &c.s, &c.options);
    for (int i = 0; i < LENGTH(changes); i++) {
        struct call other = c;
        changes[i].spoil(&other);
        refusal_check(h, &changes[i], gram_optimizer_set(h->g, o, &other.options));
    }
    CHECK(h, gram_optimizer_get(h->g, o, &got, NULL) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, got.learning_rate == 0.01 && got.block == 4 && got.exponent == 0 && got.beta3 == 0.9,
          "what was refused changed something");
    got.learning_rate = 0;
    got.exponent = 1;
    CHECK(h, gram_optimizer_set(h->g, o, &got) == GRAM_OK, "%s", gram_message(h->g));
    before = c.s.w[0];
    sample_step(h, &c.s, o);
    CHECK(h, c.s.w[0] == before, "a step with a learning rate of 0 moved by %g", c.s.w[0] - before);
    gram_optimizer_destroy(o);
}

static const struct test_function tests[] = {
    {"refused_creations", refused_creations},
    {    "refused_steps",     refused_steps},
    {   "options_change",    options_change},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
