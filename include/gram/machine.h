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
 * missing), which are categories.  Exactly one of numbers and labels is set.  The memory is
 * borrowed for the call.
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
    GRAM_SOLVER_AUTO = 0,     /* Cholesky up to 6000 rows, otherwise conjugate gradients */
    GRAM_SOLVER_CHOLESKY = 1, /* exact, n^3 / 3 flops, in place */
    GRAM_SOLVER_CG = 2,       /* preconditioned conjugate gradients, to tolerance */
} gram_solver;

typedef enum gram_transform {
    GRAM_TRANSFORM_AUTO = 0,
    GRAM_TRANSFORM_NONE = 1,
    GRAM_TRANSFORM_LOG = 2,  /* fit the logarithm of a positive target */
    GRAM_TRANSFORM_SQRT = 3, /* fit the square root of a target that is not negative */
} gram_transform;

typedef enum gram_metric {
    GRAM_METRIC_AUTO = 0,     /* a full matrix up to 500 features, otherwise the diagonal */
    GRAM_METRIC_DIAGONAL = 1, /* one weight per feature */
    GRAM_METRIC_FULL = 2,     /* a symmetric matrix */
} gram_metric;

/*
 * How a machine is trained.  Its kernel has a matrix W that may be learned:
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q).
 * A member that is 0 (or NULL, or AUTO) means the default or, with search, that the search chooses.
 * The defaults are p = 1.5, q = 1.4, r = 0.01, no feature learning, and for L the median distance
 * between training rows (four times that in a regression).
 */
typedef struct gram_machine_options {
    size_t size;
    gram_task task;
    int search;       /* choose the options that are 0 by validation, within time_limit */
    double p, q;      /* 0 < q <= p <= 2; p = 2, q = 1: Laplace; p = q = 1: L1 Laplace;
                         p = q: product Laplace; p = q = 2: Gaussian with L = sqrt(2) sigma */
    double bandwidth; /* L, in units of the standardised features; 0: from the median distance */
    double regularization; /* r > 0, added to the diagonal of the kernel matrix */
    int iterations;        /* rounds of feature learning; -1: none (kernel ridge regression) */
    gram_metric metric;    /* the form of the learned W */
    double metric_power;   /* W = M^power, with M the AGOP divided by its largest element; 0: 1/2
                              for a classification, 1/4 for a regression */
    gram_transform target_transform;
    gram_solver solver;
    double tolerance;     /* of conjugate gradients: the relative residual of every right-hand side;
                             0: 1e-3, or 1e-2 for a classification */
    double validation;    /* the fraction of the rows that is held out for choices and for early
                             stopping; 0: 0.2, and five folds in a search with few rows */
    int64_t leaf_rows;    /* the most rows in a leaf; 0: from the limits */
    int64_t memory_limit; /* bytes; 0: the available memory of the computer */
    double time_limit;    /* of search, in seconds; 0: 300 */
    uint64_t seed;
    gram_dtype dtype;      /* of the kernel matrix: f32 (default) or f64 */
    const double *weights; /* of the rows, > 0; NULL: all 1; the r of a row becomes r / weight */
    /* Called between pieces of work, with the fraction that is done and the stage; or NULL. */
    void (*progress)(void *progress_user, double fraction, const char *stage);
    void *progress_user;
    int64_t max_categories; /* the most per column, >= 2; 0: 256 (see gram_machine_fit) */
    int64_t metric_rows;    /* the most rows from which a leaf learns its metric, >= 10; 0: 6000, or
                               400 per encoded feature if that is more */
} gram_machine_options;

/* clang-format off */
#define GRAM_MACHINE_OPTIONS_INIT GRAM_SIZED_(gram_machine_options)
/* clang-format on */

/* A trained kernel machine.  It is immutable, and several threads may use it, each with its own
 * context. */
typedef struct gram_machine gram_machine;

/*
 * Trains a kernel ridge regression or a Recursive Feature Machine on the rows of a table.  It has a
 * kernel on encoded features, and coefficients alpha that solve
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q),
 *   (K + r diag(1 / weights)) alpha = Y.
 * With iterations, W is learned again after each solve from the average gradient outer product of
 * the predictor (gram_agop), and the machine that is best on the validation rows is kept.  A
 * regression standardises its target; a classification has one column of Y per class.  If there are
 * more rows than leaf_rows, they are split into a tree of leaves along the leading direction of the
 * AGOP of a first machine.
 *
 * Encoding: numbers are shifted and scaled by the statistics of the training rows.  A missing
 * number is replaced by the median of the training rows and, if any number of its column was
 * missing in training, sets an indicator feature.  Categories are one-hot encoded.  A missing
 * category is a category of its own if any was missing in training.  A category that is new, or
 * that is missing when none was missing in training, is encoded as zeros.  If a column has more
 * than max_categories categories, the max_categories - 1 most frequent (of equally frequent ones,
 * the first bytewise) have one feature each, and all others, including new ones, share one.
 * gram_machine_describe lists such columns in most_frequent_categories.  Constant columns have no
 * influence.  Rows with a missing target are left out.
 *
 * The same seed, number of threads and data give the same bytes.  Peak memory, beyond that of the
 * process, is one square matrix with as many rows as the largest leaf, plus a tenth of that.
 * Scratch that the context holds is freed first.  *out is NULL on an error.
 *
 * CUDA: the tables are on the CPU, and the features, kernel matrices, solves and gradients are on
 * the GPU; the call waits for them.  GRAM_SOLVER_AUTO is Cholesky for up to 16,000 rows, and for
 * more rows if conjugate gradients do not reach the tolerance.  leaf_rows follows from the free
 * memory of the GPU, or from memory_limit if that is less.
 *
 * After Radhakrishnan et al., Science 383 (2024), and Beaglehole et al., xRFM, arXiv:2508.10053.
 */
GRAM_API gram_status gram_machine_fit(gram_context *g, const gram_table *table,
                                      const gram_column *target,
                                      const gram_machine_options *options, gram_machine **out);

GRAM_PUBLIC void gram_machine_destroy(gram_machine *machine);

/*
 * Predicts the rows of a table.  out is a vector of f64 on the CPU with one element per row: the
 * predicted number, or the index of the most probable class.  Features are found in the table by
 * name.  A missing column, or a column of the other kind (numbers instead of labels), is an error.
 * Other columns are ignored.
 */
GRAM_API gram_status gram_machine_predict(gram_context *g, const gram_machine *machine,
                                          const gram_table *table, gram_tensor *out);

/* Predicts probabilities, which sum to 1 in each row: out is a matrix of f64, rows by classes.
 * Only for a classification. */
GRAM_API gram_status gram_machine_predict_proba(gram_context *g, const gram_machine *machine,
                                                const gram_table *table, gram_tensor *out);

typedef struct gram_machine_score {
    size_t size;        /* set by the caller */
    const char *metric; /* "accuracy" or "rmse": the meaning of score */
    double score;
    int64_t rows;    /* the number of rows with a target */
    double mae, r2;  /* of a regression; otherwise NaN */
    double log_loss; /* of a classification; otherwise NaN */
} gram_machine_score;

/* Compares predictions with the target, which is a column with the same rows.  Rows without a
 * target are left out.  A label that was not a class in training counts as wrong. */
GRAM_API gram_status gram_machine_evaluate(gram_context *g, const gram_machine *machine,
                                           const gram_table *table, const gram_column *target,
                                           gram_machine_score *score);

typedef struct gram_machine_feature {
    size_t size; /* set by the caller */
    const char *name;
    int categories;    /* the number of encoded categories; 0: the feature is a number */
    double importance; /* the share of the trace of the AGOP; the shares sum to 1 */
} gram_machine_feature;

/* The features in the order of the training table, the name of the target, and the classes by
 * index (NULL if the index is out of range).  Strings live as long as the machine.  A machine
 * that is NULL has 0 features and classes, its strings are NULL, and its task is GRAM_TASK_AUTO. */
GRAM_PUBLIC int64_t gram_machine_feature_count(const gram_machine *machine);
GRAM_API gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine,
                                             int64_t index, gram_machine_feature *feature);
GRAM_PUBLIC const char *gram_machine_target(const gram_machine *machine);
GRAM_PUBLIC gram_task gram_machine_task(const gram_machine *machine);
GRAM_PUBLIC int64_t gram_machine_class_count(const gram_machine *machine);
GRAM_PUBLIC const char *gram_machine_class_name(const gram_machine *machine, int64_t index);
/* 1 if classes are numbers because the target had numbers, so that a caller can print them as
 * numbers. */
GRAM_PUBLIC int gram_machine_classes_are_numbers(const gram_machine *machine);

/* A JSON object with the hyperparameters, the validation score, its history, and the seconds of
 * every stage.  It lives as long as the machine. */
GRAM_PUBLIC const char *gram_machine_describe(const gram_machine *machine);

/*
 * Saves and loads a machine.  The model file is in the safetensors format: an 8-byte little-endian
 * length, a JSON header, and raw little-endian data.  It is complete (encoding, categories,
 * classes, tree, coefficients, seeds, version).  Saving writes a temporary file beside path and
 * renames it, so that path is either the old file or the complete new one.  Where the system allows
 * it (Linux), the temporary file has no name until it is complete, so that a process that is killed
 * leaves nothing behind.  A file that is replaced keeps its mode, and a new file has the mode that
 * umask gives.  A link is followed; a link to a file that does not exist gives GRAM_IO.  A machine
 * that could not be loaded again is not saved (GRAM_BAD_DATA).
 */
GRAM_API gram_status gram_machine_save(gram_context *g, const gram_machine *machine,
                                       const char *path);
GRAM_API gram_status gram_machine_load(gram_context *g, const char *path, gram_machine **out);

#ifdef __cplusplus
}
#endif
#endif
