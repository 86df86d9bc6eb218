/*
 * machine.h - kernel machines: tables in, models and predictions out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_MACHINE_H
#define GRAM_PUBLIC_MACHINE_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Kernel machines ---------------------------------------------------------------------- */

/*
 * A column of a table: n numbers (NaN where one is missing), or n texts (NULL where one is
 * missing), which makes it a category.  Exactly one of numbers and labels is set.  Borrowed for
 * the call.
 */
typedef struct gram_column {
    const char *name; /* UTF-8; unique in its table */
    const double *numbers;
    const char *const *labels;
} gram_column;

typedef struct gram_table {
    int64_t rows;
    int64_t columns;
    const gram_column *column;
} gram_table;

typedef enum gram_task {
    GRAM_TASK_AUTO = 0, /* classification for labels and for numbers with two values */
    GRAM_REGRESSION = 1,
    GRAM_CLASSIFICATION = 2,
} gram_task;

typedef enum gram_solver {
    GRAM_SOLVER_AUTO = 0,     /* Cholesky up to 6000 rows, else conjugate gradients; see below */
    GRAM_SOLVER_CHOLESKY = 1, /* exact, n^3 / 3 flops, in place */
    GRAM_SOLVER_CG = 2,       /* preconditioned conjugate gradients down to tolerance */
} gram_solver;

typedef enum gram_transform {
    GRAM_TRANSFORM_AUTO = 0,
    GRAM_TRANSFORM_NONE = 1,
    GRAM_TRANSFORM_LOG = 2,  /* of a positive target: fitted on its logarithm */
    GRAM_TRANSFORM_SQRT = 3, /* of a target that is not negative: fitted on its square root */
} gram_transform;

typedef enum gram_metric {
    GRAM_METRIC_AUTO = 0,     /* a full matrix up to 500 features, else the diagonal */
    GRAM_METRIC_DIAGONAL = 1, /* one weight a feature */
    GRAM_METRIC_FULL = 2,     /* a symmetric matrix */
} gram_metric;

/*
 * How a machine is trained, whose kernel has a learned W:
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q).
 * 0 (or NULL, AUTO) means the default or, with search, that the search chooses.  Defaults:
 * p = 1.5, q = 1.4, r = 0.01, no feature learning, L the median distance of the training rows (a
 * regression: four times that).
 */
typedef struct gram_machine_options {
    size_t size;
    gram_task task;
    int search;       /* choose what is not given, by validation, within time_limit */
    double p, q;      /* 0 < q <= p <= 2; p = 2, q = 1: Laplace; p = q = 1: L1 Laplace;
                         p = q: product Laplace; p = q = 2: Gaussian with L = sqrt(2) sigma */
    double bandwidth; /* L, in units of the standardised features; 0: from the median distance */
    double regularization; /* r > 0, added to the diagonal of the kernel matrix */
    int iterations;        /* rounds of feature learning; -1: none (kernel ridge regression) */
    gram_metric metric;    /* what feature learning learns */
    double metric_power;   /* W = M^power, M the AGOP over its largest entry; 0: 1/2 for a
                              classification, 1/4 for a regression */
    gram_transform target_transform;
    gram_solver solver;
    double tolerance;     /* of conjugate gradients: relative residual of every right-hand side;
                             0: 1e-3, a classification 1e-2 */
    double validation;    /* fraction of the rows that is held out to choose and to stop early;
                             0: 0.2, and five folds in the search where there are few rows */
    int64_t leaf_rows;    /* the most rows of a leaf; more are split; 0: from the limits */
    int64_t memory_limit; /* bytes; 0: what the machine has available */
    double time_limit;    /* seconds, for search; 0: 300 */
    uint64_t seed;
    gram_dtype dtype;      /* of the kernel matrix: f32 (default) or f64 */
    const double *weights; /* of the rows, > 0, or NULL: all 1; row i's r becomes r / weight */
    /* Called between pieces of work with the fraction done and what is being done; or NULL. */
    void (*progress)(void *progress_user, double fraction, const char *stage);
    void *progress_user;
    int64_t max_categories; /* of a column that are told apart, >= 2; 0: 256 (see below) */
    int64_t metric_rows;    /* most rows of a leaf that its metric is learned from, >= 10; 0: 6000,
                               or 400 an encoded feature if that is more */
} gram_machine_options;

/* clang-format off */
#define GRAM_MACHINE_OPTIONS_INIT GRAM_SIZED_(gram_machine_options)
/* clang-format on */

/* A trained kernel machine: immutable, usable from several threads with a context each. */
typedef struct gram_machine gram_machine;

/*
 * Trains a kernel ridge regression or a Recursive Feature Machine on the rows of a table: a kernel
 * on encoded features, and coefficients alpha from
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q),
 *   (K + r diag(1 / weights)) alpha = Y.
 * With iterations, W is relearned from the average gradient outer product of the predictor after
 * each solve (gram_agop), and the iterate that is best on the validation rows is kept.  Regression
 * standardises its target; a classification has one column of Y a class.  More rows than leaf_rows
 * are split into a tree of leaves along the leading direction of a first machine's AGOP.
 *
 * Encoding: numbers are shifted and scaled by the training rows' statistics; a missing number
 * takes the training median and, if any was missing in training, sets an indicator feature.  A
 * category is one-hot, exactly; a missing one is a category of its own if any was missing in
 * training.  A category never seen in training, or missing when none was missing in training, is
 * all zeros.  Of a column with more than max_categories of them, the max_categories - 1 most
 * frequent (as often: the first bytewise) keep a feature each, and all others, those never seen
 * included, share one; gram_machine_describe names such columns in most_frequent_categories.
 * Constant columns have no influence.  Rows with a missing target are left out.
 *
 * The same seed, thread count and data give the same bytes.  Peak memory is one matrix of the
 * largest leaf's rows squared plus a tenth (and the process); scratch that the context has grown
 * earlier is freed first.  *out is NULL on an error.
 *
 * CUDA: the same from the CPU's tables, with features, kernel matrices, solves and gradients on the
 * GPU; it waits for them.  GRAM_SOLVER_AUTO is Cholesky up to 16,000 rows, and beyond them where
 * conjugate gradients do not reach tolerance; leaf_rows follows from the memory that is free there,
 * or memory_limit if that is less.
 *
 * After Radhakrishnan et al., Science 383 (2024), and Beaglehole et al., xRFM, arXiv:2508.10053.
 */
GRAM_API gram_status gram_machine_fit(gram_context *g, const gram_table *table,
                                      const gram_column *target,
                                      const gram_machine_options *options, gram_machine **out);

GRAM_PUBLIC void gram_machine_destroy(gram_machine *machine);

/*
 * out: a vector of f64 of the CPU, one a row of the table: the predicted number, or the index of
 * the most probable class.  Features are found in the table by name; a missing column, or one of
 * the other kind (numbers for labels), is an error; other columns are ignored.
 */
GRAM_API gram_status gram_machine_predict(gram_context *g, const gram_machine *machine,
                                          const gram_table *table, gram_tensor *out);

/* out: rows by classes of f64, probabilities that sum to 1.  Classification only. */
GRAM_API gram_status gram_machine_predict_proba(gram_context *g, const gram_machine *machine,
                                                const gram_table *table, gram_tensor *out);

typedef struct gram_machine_score {
    size_t size;        /* set by the caller */
    const char *metric; /* "accuracy" or "rmse": what score is */
    double score;
    int64_t rows;    /* with a target */
    double mae, r2;  /* regression; else NaN */
    double log_loss; /* classification; else NaN */
} gram_machine_score;

/* Compares predictions with the target, a column of the same rows; rows without a target are left
 * out.  A label that was not a class in training counts as wrong. */
GRAM_API gram_status gram_machine_evaluate(gram_context *g, const gram_machine *machine,
                                           const gram_table *table, const gram_column *target,
                                           gram_machine_score *score);

typedef struct gram_machine_feature {
    size_t size; /* set by the caller */
    const char *name;
    int categories;    /* with a feature of their own; 0: a number */
    double importance; /* share of the trace of the AGOP, all features sum to 1 */
} gram_machine_feature;

/* The features in the order of the training table; target's name; classes by index, or NULL for
 * numbers out of range.  Strings live as long as the machine.  Of a machine that is NULL there are
 * 0 features and classes, the strings are NULL and the task is GRAM_TASK_AUTO. */
GRAM_PUBLIC int64_t gram_machine_feature_count(const gram_machine *machine);
GRAM_API gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine,
                                             int64_t index, gram_machine_feature *feature);
GRAM_PUBLIC const char *gram_machine_target(const gram_machine *machine);
GRAM_PUBLIC gram_task gram_machine_task(const gram_machine *machine);
GRAM_PUBLIC int64_t gram_machine_class_count(const gram_machine *machine);
GRAM_PUBLIC const char *gram_machine_class_name(const gram_machine *machine, int64_t index);
/* 1 if classes are numbers (the target was), so that a caller can print them as it read them. */
GRAM_PUBLIC int gram_machine_classes_are_numbers(const gram_machine *machine);

/* Hyperparameters, validation score and history, seconds of every stage, as a JSON object; lives as
 * long as the machine. */
GRAM_PUBLIC const char *gram_machine_describe(const gram_machine *machine);

/*
 * The model file is safetensors: 8-byte little-endian length, JSON header, raw little-endian data;
 * complete (encoding, categories, classes, tree, coefficients, seeds, version).  Saving writes a
 * temporary file beside path and renames it: path is the old file or the whole new one.  Where the
 * system has them (Linux) the temporary file has no name until it is whole, so that nothing is left
 * of a process that was killed.  A file that is replaced keeps its mode, a new one has that of
 * umask. A link is followed; one to a file that is not there is GRAM_IO.  A machine that could not
 * be loaded again is not saved: GRAM_BAD_DATA.
 */
GRAM_API gram_status gram_machine_save(gram_context *g, const gram_machine *machine,
                                       const char *path);
GRAM_API gram_status gram_machine_load(gram_context *g, const char *path, gram_machine **out);

#ifdef __cplusplus
}
#endif
#endif
