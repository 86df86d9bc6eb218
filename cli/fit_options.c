/*
 * fit_options.c - the options of `gram fit`
 *
 * SPDX-License-Identifier: MIT
 */
#include "fit.h"
#include <math.h>

#define AT(member) offsetof(struct fit_settings, member)

/* What every name of --kernel sets, in the order of the names. */
enum {
    GIVEN = 0, /* by --p or --exponent */
    SAME = -1, /* p = q = --exponent */
};
static const struct {
    double p, q;
} kernels[] = {
    {GIVEN, GIVEN},
    {    2, GIVEN},
    {    1,     1},
    {GIVEN, GIVEN},
    { SAME, GIVEN},
    {    2,     2}
};
static const char kernel_names[] = "auto|laplace|l1-laplace|lpq-laplace|product-laplace|gaussian";

static const struct option_row main_rows[] = {
    {    "target", 'y', OPTION_TEXT, "COLUMN", AT(target), "the column to predict (required)", NULL,
     NULL, 0, 0},
    {    "output", 'o', OPTION_FILE, "MODEL", AT(output), "the model file to write (required)", NULL,
     NULL, 0, 0},
    {      "task",   0, OPTION_CHOICE, "TASK", AT(task),
     "auto: classification if the target is text or has two values, else regression", "auto",
     "auto|regression|classification", 0, 0},
    {   "holdout",   0, OPTION_NUMBER, "FRACTION", AT(holdout),
     "keep a random part of the rows out of training and report the score on it", "0", NULL, 0,
     0.99},
    {      "auto", 'a', OPTION_FLAG, NULL, AT(automatic),
     "search the hyperparameters that are not given, by validation, within the time limit", NULL,
     NULL, 0, 0},
    {"time-limit",   0, OPTION_NUMBER, "SECONDS", AT(time_limit), "of the search", "300", NULL, 1,
     1e9},
    {      "seed",   0, OPTION_INTEGER, "N", AT(seed),
     "of every random choice; the same seed and number of threads give the same model", "0", NULL,
     0, 0x1p53},
    {           0    },
};

static const struct option_row column_rows[] = {
    {"categorical", 0, OPTION_TEXT, "COLUMNS", AT(categorical),
     "columns of numbers that are categories, separated by commas", NULL, NULL, 0, 0},
    {     "ignore", 0, OPTION_TEXT, "COLUMNS", AT(ignore),
     "columns that are not used, separated by commas", NULL, NULL, 0, 0},
    {    "weights", 0, OPTION_TEXT, "COLUMN", AT(weights), "a column of weights of the rows, > 0", NULL,
     NULL, 0, 0},
    {            0  },
};

static const struct option_row hyper_rows[] = {
    {        "kernel", 'k', OPTION_CHOICE, "NAME", AT(kernel),
     "laplace: p = 2; l1-laplace: p = q = 1; lpq-laplace: as --p and --exponent say; "
     "product-laplace: p = q; gaussian: p = q = 2", "auto", kernel_names, 0, 0},
    {             "p", 'p', OPTION_NUMBER, "P", AT(p), "the norm, q <= p <= 2", NULL, NULL, 1e-3, 2},
    {      "exponent", 'q', OPTION_NUMBER, "Q", AT(q), "the exponent, 0 < q <= p", NULL, NULL, 1e-3, 2},
    {     "bandwidth", 'L', OPTION_NUMBER, "L", AT(bandwidth),
     "the length L, in units of the standardised features (default: from the median distance)", NULL, NULL, 1e-300, 1e300},
    {"regularization", 'r', OPTION_NUMBER, "R", AT(regularization),
     "added to the diagonal of the kernel matrix", NULL, NULL, 1e-300, 1e300},
    {    "iterations", 'i', OPTION_INTEGER, "N", AT(iterations),
     "rounds of feature learning; 0: none, kernel ridge regression", NULL, NULL, 0, 1000},
    {   "full-metric",   0, OPTION_FLAG, NULL, AT(full_metric),
     "learn a full matrix instead of one weight a feature (p = 2 only)", NULL, NULL, 0, 0},
    {     "transform",   0, OPTION_CHOICE, "NAME", AT(transform),
     "of the target of a regression: log predicts the logarithm of a positive target", "auto",
     "auto|none|log", 0, 0},
    {               0    },
};

static const struct option_row limit_rows[] = {
    {"validation", 0, OPTION_NUMBER, "FRACTION", AT(validation),
     "share of the training rows that choices and early stopping are made on", NULL, NULL, 0.001,
     0.9},
    { "leaf-rows", 0, OPTION_INTEGER, "N", AT(leaf_rows),
     "split the rows into leaves of at most N (default: from memory and time)", NULL, NULL, 2,
     0x1p53},
    {    "memory", 0, OPTION_NUMBER, "GIB", AT(memory),
     "do with so much memory (default: all there is)", NULL, NULL, 0.001, 1e6},
    {    "solver", 0, OPTION_CHOICE, "NAME", AT(solver),
     "cholesky: exact; cg: preconditioned conjugate gradients", "auto", "auto|cholesky|cg", 0, 0},
    { "tolerance", 0, OPTION_NUMBER, "EPS", AT(tolerance), "relative residual of cg", NULL, NULL,
     1e-15, 1},
    {     "dtype", 0, OPTION_CHOICE, "TYPE", AT(dtype), "of the kernel matrix", "f32", "auto|f32|f64", 0,
     0},
    {           0  },
};

static const struct option_row report_rows[] = {
    { "json",   0, OPTION_FLAG, NULL, AT(json), "report as JSON on standard output", NULL, NULL, 0, 0},
    {"chart",   0, OPTION_FILE, "FILE.svg", AT(chart),
     "write a picture of the feature importance as SVG", NULL, NULL, 0, 0},
    {  "top", 'n', OPTION_INTEGER, "N", AT(top),
     "in text and in the picture, the N most important features only", "20", NULL, 1, 1000},
    {      0    },
};

const struct option_group fit_groups[] = {
    {       "Training",      main_rows, 0},
    {        "Columns",    column_rows, 0},
    {"Hyperparameters",     hyper_rows, 0},
    {         "Limits",     limit_rows, 0},
    {         "Report",    report_rows, 0},
    {          "Input",  input_options, AT(input)},
    {  "Other options", common_options, AT(common)},
    {                0               },
};

/* The norm and the exponent; 0 leaves the choice to the library. */
static enum exit_status norm_options(const struct fit_settings *s, gram_machine_options *o,
                                     struct failure *why)
{
    double p = kernels[s->kernel].p, q = kernels[s->kernel].q;
    int named = s->kernel != 0;

    if ((p > 0 && !isnan(s->p)) || (p == SAME && !isnan(s->p)) || (q > 0 && !isnan(s->q)))
        return fail(why, CLI_USAGE, "--kernel says what --p and --exponent are; give one of them");
    o->q = q > 0 ? q : isnan(s->q) ? 0 : s->q;
    if (named && o->q == 0 && !s->automatic)
        o->q = 1;
    o->p = p == SAME ? o->q : p > 0 ? p : isnan(s->p) ? 0 : s->p;
    if (o->p > 0 && o->q > o->p)
        return fail(why, CLI_USAGE, "--exponent is %g, expected at most --p, which is %g", o->q,
                    o->p);
    return CLI_OK;
}

static double or_zero(double value)
{
    return isnan(value) ? 0 : value;
}

enum exit_status fit_options(const struct fit_settings *s, gram_machine_options *options,
                             struct failure *why)
{
    *options = (gram_machine_options)GRAM_MACHINE_OPTIONS_INIT;
    options->task = (gram_task)s->task;
    options->search = s->automatic;
    options->bandwidth = or_zero(s->bandwidth);
    options->regularization = or_zero(s->regularization);
    /* In the library 0 means the default and -1 no rounds. */
    options->iterations = s->iterations < 0 ? 0 : s->iterations == 0 ? -1 : (int)s->iterations;
    options->full_metric = s->full_metric;
    options->target_transform = (gram_transform)s->transform;
    options->solver = (gram_solver)s->solver;
    options->tolerance = or_zero(s->tolerance);
    options->validation = or_zero(s->validation);
    options->leaf_rows = s->leaf_rows > 0 ? s->leaf_rows : 0;
    options->memory_limit = (int64_t)(or_zero(s->memory) * 0x1p30);
    options->time_limit = s->time_limit;
    options->seed = (uint64_t)s->seed;
    options->dtype = s->dtype == DTYPE_F64 ? GRAM_F64 : GRAM_F32;
    return norm_options(s, options, why);
}
