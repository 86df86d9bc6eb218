/*
 * fit_options.c - the options of `gram fit`
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
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
    COLUMN_NAMES("target", 'y', "COLUMNS", AT(target),
                 "the column to predict (required), or several of a regression, separated by "
                 "commas"),
    FILE_NAME("output", 'o', "MODEL", AT(output), NULL, "the model file to write (required)"),
    CHOICE("task", 0, "TASK", AT(task), "auto", "auto|regression|classification",
           "auto: classification if the target is text or has two values, else regression"),
    NUMBER("holdout", 0, "FRACTION", AT(holdout), "0", 0, 0.99,
           "hold out a random part of the rows, and report the score on it"),
    FLAG("auto", 'a', AT(automatic),
         "go on with the choice of what is not given until the time limit"),
    FLAG("fixed", 0, AT(fixed), "take fixed defaults for what is not given, and choose nothing"),
    NUMBER("time-limit", 0, "SECONDS", AT(time_limit), "300", 1, 1e9,
           "the time limit of the search"),
    INTEGER("seed", 0, "N", AT(seed), "0", 0, 0x1p53,
            "the seed of every random choice; the same seed and number of threads give the same "
            "model"),
    OPTION_END,
};

const struct option_row fit_column_options[] = {
    COLUMN_NAMES("categorical", 0, "COLUMNS", AT(categorical),
                 "the columns of numbers or dates that are categories, separated by commas"),
    COLUMN_NAMES("ignore", 0, "COLUMNS", AT(ignore),
                 "the columns that are not used, separated by commas"),
    INTEGER("max-categories", 0, "N", AT(max_categories), "256", 2, 1e9,
            "the most features per column: if it has more categories, the most frequent have a "
            "feature each, and all others, including new ones, share one"),
    CHOICE("loss", 0, "LOSS", AT(loss), "auto", "auto|squared|logistic",
           "what two classes are learned by: least squares, kernel logistic regression, or the "
           "better of the two"),
    CHOICE("category-statistics", 0, "WHEN", AT(category_statistics), "auto", "auto|none",
           "auto: give the levels of a category of many levels the mean of the target, too, where "
           "they differ by more than chance; none: do not"),
    COLUMN_NAME("weights", 0, "COLUMN", AT(weights),
                "the column with the weights of the rows, which are above 0"),
    TEXT("class-weight", 0, "WEIGHTS", AT(class_weight), NULL,
         "of a classification, multiply the weights of the rows of each class: balanced gives all "
         "classes the same sum, and LABEL=WEIGHT,... names classes; the others have 1"),
    OPTION_END,
};

const struct option_row fit_hyper_options[] = {
    CHOICE("kernel", 'k', "NAME", AT(kernel), "auto", kernel_names,
           "laplace: p = 2; l1-laplace: p = q = 1; lpq-laplace: as --p and --exponent say; "
           "product-laplace: p = q; gaussian: p = q = 2"),
    NUMBER("p", 'p', "P", AT(p), NULL, 1e-3, 2, "the norm, q <= p <= 2"),
    NUMBER("exponent", 'q', "Q", AT(q), NULL, 1e-3, 2, "the exponent, 0 < q <= p"),
    NUMBER(
        "bandwidth", 'L', "L", AT(bandwidth), NULL, 1e-300, 1e300,
        "the length L, in units of the standardised features (default: from the median distance)"),
    NUMBER("regularization", 'r', "R", AT(regularization), NULL, 1e-300, 1e300,
           "the number that is added to the diagonal of the kernel matrix"),
    INTEGER("iterations", 'i', "N", AT(iterations), NULL, 0, 1000,
            "the most rounds of feature learning, of which leave-one-out keeps the best; 0: none "
            "(kernel ridge regression)"),
    CHOICE(
        "metric", 0, "NAME", AT(metric), "auto", "auto|diagonal|full|ard",
        "the form of what feature learning learns: one weight per feature, a full matrix, or one "
        "weight per feature by marginal likelihood (automatic relevance determination)"),
    NUMBER("metric-power", 0, "A", AT(metric_power), NULL, 0.01, 1,
           "the metric is the average gradient outer product to the power A (default: 1/2 for a "
           "classification, 1/4 for a regression)"),
    INTEGER("metric-rows", 0, "N", AT(metric_rows), NULL, 10, 0x1p53,
            "learn the metric from at most N rows (default: the most of 6000, 400 per feature, and "
            "half of the rows up to 12,000)"),
    INTEGER("ensemble", 0, "N", AT(ensemble), NULL, 1, 8,
            "the most machines that the model is the weighted mean of, if that is better; 1: one "
            "(default: up to 6 for tables of few rows, else 1)"),
    INTEGER(
        "centres", 0, "N", AT(centres), NULL, 0, 1000000,
        "let a machine of N centres learn from all rows, and leaves correct it; 0: leaves alone "
        "(default: as many as pay, for large tables)"),
    CHOICE("transform", 0, "NAME", AT(transform), "auto", "auto|none|log|sqrt",
           "predict the logarithm or the square root of the target of a regression"),
    OPTION_END,
};

const struct option_row fit_limit_options[] = {
    NUMBER("validation", 0, "FRACTION", AT(validation), NULL, 0.001, 0.9,
           "the share of the training rows that is used for choices and for early stopping"),
    INTEGER("leaf-rows", 0, "N", AT(leaf_rows), NULL, 2, 0x1p53,
            "split the rows into leaves of at most N (default: from memory and time)"),
    INTEGER("trees", 0, "N", AT(trees), NULL, 1, 16,
            "split the rows by N trees, and predict the mean of what they predict (default: 1)"),
    NUMBER(
        "temperature", 0, "T", AT(temperature), NULL, 0, 1000,
        "ask all leaves near a row, with weights that go over as softly as T says; 0: the nearest "
        "one (default: by rows that are left out)"),
    NUMBER("memory", 0, "GIB", AT(memory), NULL, 0.001, 1e6,
           "use at most so many GiB of memory (default: all that is available)"),
    CHOICE("solver", 0, "NAME", AT(solver), "auto", "auto|cholesky|cg",
           "cholesky: exact; cg: preconditioned conjugate gradients"),
    NUMBER("tolerance", 0, "EPS", AT(tolerance), NULL, 1e-15, 1, "the relative residual of cg"),
    CHOICE("dtype", 0, "TYPE", AT(dtype), "f32", "auto|f32|f64", "the type of the kernel matrix"),
    OPTION_END,
};

static const struct option_row report_rows[] = {
    FLAG("json", 0, AT(json),
         "write the report as JSON to standard output; score is null if nothing was held out"),
    FLAG("strict", 0, AT(strict),
         "end with an error, before training, if there is anything to remark on the table"),
    FILE_NAME("chart", 0, "FILE.svg", AT(chart), NULL,
              "write a chart of the feature importance as SVG"),
    FILE_NAME(
        "trials", 0, "FILE", AT(trials), NULL,
        "write every setting that was compared as CSV, the best first, with its leave-one-out "
        "score; - is standard output"),
    INTEGER("top", 'n', "N", AT(top), "20", 1, 1000,
            "show only the N most important features in text and in the chart"),
    CHOICE("progress", 0, "WHEN", AT(common.progress), "auto", "auto|never",
           "auto: show a progress bar if standard error is a terminal; never: do not"),
    OPTION_END,
};

static const struct option_row several_rows[] = {
    TEXT(
        "device", 0, "DEVICE", AT(common.device), "cpu",
        "the device: cpu; cuda or cuda:N, an NVIDIA GPU; auto, a GPU if one can be used; cuda:0,1, "
        "several GPUs that share the leaves"),
    FLAG("mpi", 0, AT(mpi),
         "share the leaves between the processes that mpirun or srun has started; the first one "
         "searches, and writes the model and the report"),
    OPTION_END,
};

const struct option_group fit_groups[] = {
    GROUP("Training", main_rows, 0),
    GROUP("Columns", fit_column_options, 0),
    GROUP("Hyperparameters", fit_hyper_options, 0),
    GROUP("Limits", fit_limit_options, 0),
    GROUP("Report", report_rows, 0),
    GROUP("Input", input_options, AT(input)),
    GROUP("Device", several_rows, 0),
    GROUP("Other options", threads_options, AT(common)),
    GROUP("", common_options, AT(common)),
    GROUP_END,
};

/* The norm and the exponent; 0 leaves the choice to the library. */
static enum exit_status norm_options(const struct fit_settings *s, gram_machine_options *o,
                                     struct failure *why)
{
    double p = kernels[s->kernel].p, q = kernels[s->kernel].q;
    int named = s->kernel != 0;

    if ((p > 0 && !isnan(s->p)) || (p == SAME && !isnan(s->p)) || (q > 0 && !isnan(s->q)))
        return fail(why, CLI_USAGE,
                    "--kernel determines --p and --exponent; give only one of them");
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
    if (s->fixed && s->automatic)
        return fail(why, CLI_USAGE, "--auto and --fixed exclude each other; give only one of them");
    if (s->fixed && s->ensemble > 1)
        return fail(why, CLI_USAGE,
                    "--ensemble and --fixed exclude each other; give only one of them");
    if (s->centres > 0 && (s->fixed || s->ensemble > 1))
        return fail(why, CLI_USAGE, "--centres and --%s exclude each other; give only one of them",
                    s->fixed ? "fixed" : "ensemble");
    *options = (gram_machine_options)GRAM_MACHINE_OPTIONS_INIT;
    options->task = (gram_task)s->task;
    options->search = s->fixed ? -1 : s->automatic;
    options->bandwidth = or_zero(s->bandwidth);
    options->regularization = or_zero(s->regularization);
    /* In the library 0 means the default and -1 no rounds. */
    options->iterations = s->iterations < 0 ? 0 : s->iterations == 0 ? -1 : (int)s->iterations;
    options->ensemble = s->ensemble > 0 ? (int)s->ensemble : 0;
    /* In the library 0 means the default and -1 none, as for the rounds. */
    options->centres = s->centres < 0 ? 0 : s->centres == 0 ? -1 : s->centres;
    options->metric = (gram_metric)s->metric;
    options->metric_power = or_zero(s->metric_power);
    options->target_transform = (gram_transform)s->transform;
    options->solver = (gram_solver)s->solver;
    options->tolerance = or_zero(s->tolerance);
    options->validation = or_zero(s->validation);
    options->max_categories = s->max_categories;
    options->loss = (gram_loss)s->loss;
    options->category_statistics = (gram_category_statistics)s->category_statistics;
    options->trees = s->trees > 0 ? (int)s->trees : 0;
    options->temperature = isnan(s->temperature) ? 0 : s->temperature == 0 ? -1 : s->temperature;
    options->leaf_rows = s->leaf_rows > 0 ? s->leaf_rows : 0;
    options->metric_rows = s->metric_rows > 0 ? s->metric_rows : 0;
    options->memory_limit = (int64_t)(or_zero(s->memory) * 0x1p30);
    options->time_limit = s->time_limit;
    options->seed = (uint64_t)s->seed;
    options->dtype = s->dtype == DTYPE_F64 ? GRAM_F64 : GRAM_F32;
    return norm_options(s, options, why);
}
