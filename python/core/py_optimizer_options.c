/*
 * py_optimizer_options.c - the options of an optimizer as a dict
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_optimizer.h"
#include "py_options.h"

static const char *const methods[] = {"shampoo", "soap", "muon", NULL};
static const char *const decays[] = {"decoupled", "l2", NULL};
static const char *const grafts[] = {"none", "sgd", "adagrad", "rmsprop", "adam", NULL};
static const char *const roots[] = {"auto",          "eigh",    "coupled-newton",
                                    "newton-schulz", "minimax", NULL};
static const char *const states[] = {"auto", "float32", "float64", "float16", "bfloat16", NULL};
static const char *const precisions[] = {"auto", "f64", "f32", "tf32x3", "tf32", NULL};
static const char *const trouble[] = {"skip", "raise", NULL};

#define AT(member) offsetof(gram_optimizer_options, member)
static const struct py_option rows[] = {
    {          "method",           AT(method),    methods,  PY_CHOICE},
    {   "learning_rate",    AT(learning_rate),       NULL,  PY_NUMBER},
    {           "beta1",            AT(beta1),       NULL,  PY_NUMBER},
    {           "beta2",            AT(beta2),       NULL,  PY_NUMBER},
    {           "beta3",            AT(beta3),       NULL,  PY_NUMBER},
    {    "shampoo_beta",     AT(shampoo_beta),       NULL,  PY_NUMBER},
    {         "epsilon",          AT(epsilon),       NULL,  PY_NUMBER},
    {"epsilon_relative", AT(epsilon_relative),       NULL,   PY_WHOLE},
    {        "momentum",         AT(momentum),       NULL,  PY_NUMBER},
    {       "dampening",        AT(dampening),       NULL,  PY_NUMBER},
    {        "nesterov",         AT(nesterov),       NULL,   PY_WHOLE},
    {    "weight_decay",     AT(weight_decay),       NULL,  PY_NUMBER},
    {           "decay",            AT(decay),     decays,  PY_CHOICE},
    { "bias_correction",  AT(bias_correction),       NULL,   PY_WHOLE},
    {           "graft",            AT(graft),     grafts,  PY_CHOICE},
    {     "graft_beta2",      AT(graft_beta2),       NULL,  PY_NUMBER},
    {   "graft_epsilon",    AT(graft_epsilon),       NULL,  PY_NUMBER},
    {           "block",            AT(block),       NULL, PY_WHOLE64},
    {           "merge",            AT(merge),       NULL,   PY_WHOLE},
    {           "start",            AT(start),       NULL, PY_WHOLE64},
    {         "refresh",          AT(refresh),       NULL, PY_WHOLE64},
    {         "stagger",          AT(stagger),       NULL,   PY_WHOLE},
    {        "exponent",         AT(exponent),       NULL,  PY_NUMBER},
    {            "root",             AT(root),      roots,  PY_CHOICE},
    {            "skip",             AT(skip),       NULL,  PY_NUMBER},
    {        "failures",         AT(failures),       NULL,   PY_WHOLE},
    {           "state",            AT(state),     states,  PY_CHOICE},
    {          "packed",           AT(packed),       NULL,   PY_WHOLE},
    {           "steps",            AT(steps),       NULL,   PY_WHOLE},
    { "one_dimensional",  AT(one_dimensional),       NULL,   PY_WHOLE},
    {       "normalize",        AT(normalize),       NULL,   PY_WHOLE},
    {      "not_finite",       AT(not_finite),    trouble,  PY_CHOICE},
    {            "rank",             AT(rank),       NULL, PY_WHOLE64},
    {           "ranks",            AT(ranks),       NULL, PY_WHOLE64},
    {       "precision",        AT(precision), precisions,  PY_CHOICE},
    {  "root_precision",   AT(root_precision), precisions,  PY_CHOICE},
    {      "statistics",       AT(statistics),       NULL, PY_WHOLE64},
};

int py_optimizer_options(const char *function, PyObject *dict, gram_optimizer_options *options)
{
    return py_read_options(function, rows, sizeof rows / sizeof *rows, dict, options);
}

PyObject *py_optimizer_options_dict(const gram_optimizer_options *options)
{
    return py_options_dict(rows, sizeof rows / sizeof *rows, options);
}

PyObject *py_optimizer_defaults(PyObject *module, PyObject *method)
{
    gram_optimizer_options options = {.size = sizeof options};
    int found = GRAM_SHAMPOO;

    (void)module;
    if (py_choice("gram.optim", "method", method, methods, &found))
        return NULL;
    gram_optimizer_defaults((gram_optimizer_method)found, &options);
    return py_optimizer_options_dict(&options);
}
