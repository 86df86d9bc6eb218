/*
 * machine.h - kernel machines: tables in, models and predictions out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_MACHINE_H
#define GRAM_PUBLIC_MACHINE_H
#include "core.h"
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Kernel machines ---------------------------------------------------------------------- */

/*
 * A column of a table: n numbers (NaN where one is missing) or n texts (NULL likewise), which are
 * categories: one of numbers and labels is set.  The memory is borrowed for the call.
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
    GRAM_METRIC_AUTO = 0,     /* what leave-one-out prefers; where nothing is chosen, a full matrix
                                 up to 500 features, otherwise the diagonal */
    GRAM_METRIC_DIAGONAL = 1, /* one weight per feature */
    GRAM_METRIC_FULL = 2,     /* a symmetric matrix */
    GRAM_METRIC_ARD = 3,      /* one weight per feature by the marginal likelihood of a Gaussian
                                 process on some hundreds of rows (see gram_machine_fit) */
} gram_metric;

typedef enum gram_loss {
    GRAM_LOSS_AUTO = 0,    /* the better one */
    GRAM_LOSS_SQUARED = 1, /* kernel ridge regression */
    GRAM_LOSS_LOGISTIC = 2 /* kernel logistic regression: two classes, one leaf */
} gram_loss;

typedef enum gram_category_statistics {
    GRAM_STATISTICS_AUTO = 0,
    GRAM_STATISTICS_NONE = 1,
} gram_category_statistics;

/*
 * How a machine is trained.  Its kernel has a matrix W that may be learned:
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q).
 * A member that is 0 (or NULL, or AUTO) is chosen by leave-one-out (see gram_machine_fit).  With
 * search = -1 nothing is chosen, and p = 1.5, q = 1.4, r = 0.01, no feature learning, and for L the
 * median distance between training rows (four times that in a regression) are the defaults.
 */
typedef struct gram_machine_options {
    size_t size;
    gram_task task;
    int search;       /* 0: choose the options that are 0 by leave-one-out, in some tens of trials;
                         1: go on with more trials until time_limit; -1: take fixed defaults */
    double p, q;      /* 0 < q <= p <= 2; p = 2, q = 1: Laplace; p = q = 1: L1 Laplace;
                         p = q: product Laplace; p = q = 2: Gaussian with L = sqrt(2) sigma */
    double bandwidth; /* L, in units of the standardised features; 0: from the median distance */
    double regularization; /* r > 0, added to the diagonal of the kernel matrix */
    int iterations;        /* the most rounds of feature learning, or all where search is -1 and
                              nothing else decides; -1: none (kernel ridge regression) */
    gram_metric metric;    /* the form of the learned W */
    double metric_power;   /* W = M^power, with M the AGOP divided by its largest element; 0: 1/2
                              for a classification, 1/4 for a regression */
    gram_transform target_transform;
    gram_solver solver;
    double tolerance;     /* of conjugate gradients: the relative residual of every right-hand side;
                             0: 1e-3, or 1e-2 for a classification */
    double validation;    /* with search = -1, the fraction of the rows that is held out to choose
                             among the rounds of feature learning; 0: 0.2 */
    int64_t leaf_rows;    /* the most rows in a leaf; 0: from the limits */
    int64_t memory_limit; /* bytes; 0: the available memory of the computer */
    double time_limit;    /* of a fit with search 1, in seconds; 0: 300 */
    uint64_t seed;
    gram_dtype dtype;      /* of the kernel matrix: f32 (default) or f64 */
    const double *weights; /* of the rows, > 0; NULL: all 1; the r of a row becomes r / weight */
    /* Called between pieces of work, with the fraction that is done and the stage; or NULL. */
    void (*progress)(void *progress_user, double fraction, const char *stage);
    void *progress_user;
    int64_t max_categories; /* the most per column, >= 2; 0: 256 (see gram_machine_fit) */
    int64_t metric_rows;    /* the most rows from which a leaf learns its metric, >= 10; 0: 6000,
                               or what is more of 400 per encoded feature and half of the rows up
                               to 12,000 */
    /* Weights of classes, by which those of their rows are multiplied: class_weights entries > 0
     * of class_label (names as gram_machine_class_name gives them) and class_weight; others have 1.
     * -1 (balanced), with both NULL: W / (c w), with the sum w of the weights of the rows of a
     * class, the number c of classes, and the sum W of all weights. */
    int64_t class_weights;
    const char *const *class_label;
    const double *class_weight;
    /* Names of columns of labels that are categories even if all their labels are dates. */
    int64_t categorical_columns;
    const char *const *categorical_column;
    int ensemble; /* the most machines whose weighted mean is the model, 1 to 8; 1: one; 0: several
                     if a solve with all rows takes a fraction of a second */
    int64_t centres; /* of the machine that learns from all rows of a large table, >= 10; 0: as many
                        as pay, from 80,000 rows on, or from 50,000 if they are more than leaf_rows,
                        and none on a GPU; -1: none */
    gram_category_statistics category_statistics; /* see gram_machine_fit */
    int trees;          /* of leaves, whose mean predicts, 1 to 16; 0: 1 */
    double temperature; /* of soft routing to leaves, 1e-3 to 1e3; 0: chosen; -1: none */
    /* Who trains the leaves of a tree (see gram_machine_fit): the contexts of a group, of which g
     * is the first, and the ranks of a communicator; or NULL. */
    const gram_group *group;
    gram_communicator *communicator;
    gram_loss loss; /* of two classes; see gram_machine_fit */
} gram_machine_options;

/* clang-format off */
#define GRAM_MACHINE_OPTIONS_INIT GRAM_SIZED_(gram_machine_options)
/* clang-format on */

/* A trained kernel machine.  It is immutable; threads may share it, each with its own context. */
typedef struct gram_machine gram_machine;

/*
 * Trains a kernel ridge regression or a Recursive Feature Machine on the rows of a table that have
 * the target.  It has a kernel on encoded features, k(x, z) = exp(-||W (x - z)||_p^q / L^q), and
 * coefficients alpha that solve (K + r diag(1 / weights)) alpha = Y. With feature learning, W is
 * learned again after each solve from the average gradient outer product of the predictor
 * (gram_agop), and the best round is kept; or, with GRAM_METRIC_ARD, its diagonal by a round of ten
 * quasi-Newton steps in the marginal likelihood of a Gaussian process with that kernel, on up to
 * 600 rows in comparisons and 1200 in the model, fewer of many features (automatic relevance
 * determination; with AUTO of up to 64 features).  A regression
 * standardises its target; a classification has one column of Y per class.  More rows than
 * leaf_rows are split into a tree of leaves.
 *
 * Choices: a sample of the rows is divided into two halves.  Kernels, bandwidths, ridges and
 * transforms are compared by their exact leave-one-out errors in both (gram_krr_path), and rounds
 * of feature learning by those of each half in the metric that the other one has taught.  The best
 * few are compared again on more rows.  From 8000 rows on, machines of 1000 centres (see below)
 * learn metrics from up to 9000 rows, with other kernels, forms and powers beside the winner's; the
 * best replaces it if its mean squared error on other rows is less by 1 % or more.  The winner has
 * its ridge chosen once more, among up to 3000 rows (1500 where that is done again, as below).
 * These outputs give the score ("leave_one_out" of gram_machine_describe), and the probabilities of
 * classes:
 *   p_j = (1 - u) exp(a f_j + c log pi_j) / sum_i exp(a f_i + c log pi_i) + u / classes,
 * with the outputs f and the shares pi of the classes, and a, c and u from the least log loss.
 * From 6000 rows on, a tenth of them, at most 2000 that have not taught the metric, chooses the
 * ridge of one leaf that is no ensemble, which is solved without them at ridges around the
 * winner's, and with them at the best.  The former outputs give the score ("held_out" in place of
 * "leave_one_out"), probabilities and intervals.
 *
 * Loss: where there are two classes and one leaf, the winner's kernel and metric are also tried
 * with the logistic loss: f is the minimum of
 *   sum_i s_i log(1 + exp(-4 y_i (f_i - 1/2))) / 4 + r / 2 a^T K a,   y_i = 1 or -1,
 * by iteratively reweighted least squares.  The leave-one-out outputs are those of the last of
 * these systems, whose weights and targets stand.  The logistic loss is kept if the log loss of
 * calibrated outputs is less by more than a standard error of the difference, or if it was asked
 * for; such a machine is no ensemble.  GRAM_LOSS_LOGISTIC with another number of classes,
 * with centres or with more rows than leaf_rows is refused.  After Zhu and Hastie, Kernel logistic
 * regression and the import vector machine (2005).
 *
 * Ensembles: the trials that are best together, each with the mean of the outputs of those before
 * it (greedy selection with replacement), are scored again with the winner.  If the weighted mean
 * of the best of them is better than the best one alone, by more than a standard error of the
 * difference between losses row by row, the model has all of them: they share the encoding, the
 * target's scale and transform, and the tree, and its outputs are the weighted mean of theirs.
 * options.ensemble is the most; 0: 6 from 200 rows on where n^2 (n / 3 + 10 columns) < 2e10, or 1.
 *
 * Trees: a node splits its rows at the median along the leading eigenvector of the AGOP of a small
 * machine; the tenth in the middle goes to both sides.  options.trees > 1 draws further trees, with
 * directions from the normal distribution of that covariance, and predicts their mean.  At a
 * temperature T the right side of a node has the weight 1 / (1 + exp((m - t) / (T s))) for a row at
 * t, with the middle m and the interquartile range s of its rows; leaves below 1/1000 are left
 * out.  With search >= 0, T comes from 0 (linear in the middle tenth) to 0.8 by one row in 25 (2000
 * at most, 50 at least) in leaves that are solved without them, which gives the score ("held_out")
 * and the intervals; where iterations solve, one row in 50 is lost.
 *
 * Large tables: with options.centres > 0, or 0 and many rows (see there), and with search >= 0, a
 * base learns from all rows: f(z) = sum_j a_j k(c_j, z), whose centres c are some of the rows,
 * drawn all alike, and
 *   (K_nm^T W K_nm + r K_mm) a = K_nm^T W Y,   W = diag(weights),
 * in f64, a block of rows at a time.  A tenth of the rows, at most 4000, is held out, and chooses,
 * by its weighted mean squared error, the kernel, the metric, whose rounds learn from up to 36,000
 * rows, the bandwidth and the ridge.  The leaves of the tree are then fitted to what the base
 * leaves over, or to all of it if the first leaf is better so, and kept if the rows that were held
 * out are predicted better with them.  These rows, which teach nothing, give the score ("held_out")
 * and the intervals.  options.centres = 0 takes as many as n m^2 = 2e12 allows, 2000 to 10,000, and
 * leaves of about 1e9 / n rows, 4000 at least; leaf_rows limits them.  After Williams and Seeger,
 * NIPS 2000, and Rudi et al., NIPS 2017.
 *
 * Encoding: numbers are shifted and scaled by the statistics of the training rows.  A missing
 * number is replaced by the median of the training rows and, if any number of its column was
 * missing in training, sets an indicator feature.  Categories are one-hot encoded.  A missing
 * category is one of its own if any was missing in training; else it is encoded as zeros, as is a
 * new one.  If a column has more than max_categories categories, the max_categories - 1 most
 * frequent (of equally frequent ones, the first bytewise) have one feature each, and all others,
 * including new ones, share one.  gram_machine_describe lists such columns in
 * most_frequent_categories.  If ten categories of a column or more recur, and their targets differ
 * by more than chance, each has the mean of every output (16 at most; of logarithms, if a target is
 * positive and skewed), drawn towards the mean m of all rows, as a feature: (S + a m) / (W + a),
 * with the weighted sum S and the weight W of its rows, and the variance a within categories over
 * that between them.  A row of training has the sums of the rows before it in a random order; a new
 * category has m.  The description lists such columns in category_statistics.  After Micci-Barreca
 * (2001) and Prokhorenkova et al., NeurIPS 2018.  Labels that are all dates (2024-03-01 with - / or
 * . between its parts, 1.3.2024, 3/13/2024, with or without a time of day and a zone) in one order
 * of day and month become days, scaled as numbers, and sines and cosines of the place in the year,
 * the week and the day, where they cover these; other labels count as missing.
 *
 * The same seed, number of threads and data give the same bytes.  Peak memory, beyond that of the
 * process, is one square matrix with as many rows as the largest leaf, plus a tenth of that; or of
 * the centres three in f64, if that is more.  Where that is more than memory_limit allows,
 * conjugate gradients compute the elements anew for each product, in another order of sums: for
 * leaf_rows that are given; and, without any, for 25,000 to 80,000 rows on a CPU, or up to 10^6 on
 * a GPU, in one leaf, if the points, the vectors and a preconditioner of rank 1000 fit, and if the
 * time of a product says that the solves take four minutes at most (it is a clock that decides
 * there, so that the same bytes come from as quick a machine alone).  The stage that progress is
 * told has the seconds and the memory; "residual" of the description is the largest relative
 * residual of the solves, and "prediction_change" bounds by it, up to rounding, what exact solves
 * would change in outputs at the training rows (root mean square, in standard deviations of a
 * target of a regression).  Scratch that the context holds is freed first.  *out is NULL on an
 * error.
 *
 * Leaves of a tree can be shared.  With options.group its contexts, of which g is the first, train
 * one leaf after the other, each in a thread of its own; search, tree and all else are g's.  With
 * options.communicator every rank calls with the same table and options.  The first rank searches,
 * where on CPUs the second one has half of each trial, and splits, and tells the others what it has
 * found; rank i of R trains the leaves i, i + R, .., which then come to the first rank.  That alone
 * gets the machine: *out is NULL on the others, with GRAM_OK.  A single leaf is the first rank's;
 * where its kernel matrix is not stored, ranks share the products and the preconditioner of its
 * solves, for which they need memory for the points, the vectors and their part of a preconditioner
 * of rank 1000.  Progress is told by g, and by each rank.  GPUs of a group share such solves, too,
 * where there is NCCL.  A machine is the same, to the last bit, as that of one context where all
 * processors or GPUs are alike; where solves are shared, or ranks of several threads search, as
 * that of the same number of ranks or GPUs.  An error of one context or rank is one of the call, on
 * all ranks.  Each context needs the memory of a leaf.  Over NCCL what the first rank does alone
 * has to end within the timeout of the communicator.  Sizes and those options that the ranks take
 * from their own call are compared.
 *
 * CUDA: tables are on the CPU, features, kernel matrices, solves and gradients on the GPU; the call
 * waits.  GRAM_SOLVER_AUTO is Cholesky for up to 16,000 rows, and for more if conjugate gradients
 * do not reach the tolerance.  leaf_rows follows from the GPU's free memory or a memory_limit below
 * it.
 *
 * After Radhakrishnan et al., Science 383 (2024), and Beaglehole et al., xRFM, arXiv:2508.10053.
 */
GRAM_API gram_status gram_machine_fit(gram_context *g, const gram_table *table,
                                      const gram_column *target,
                                      const gram_machine_options *options, gram_machine **out);

/*
 * The same for several targets: an array of columns of numbers with as many rows as the table,
 * whose names differ.  They are right-hand sides of the same systems, so that the machine takes
 * about the time and the memory of one.  Each is a regression with a shift and a scale of its own.
 * Labels and options.task = GRAM_CLASSIFICATION are refused, and so is a target with two values,
 * unless options.task is GRAM_REGRESSION.  Rows in which any target is missing are left out, and
 * columns with the name of a target are no features.  Kernel, metric, bandwidth and ridge are best
 * for the mean over the targets of the squared errors in units of the variance of each, and scores
 * of trials are roots of that mean.  options.target_transform is that of all targets; none is
 * chosen if it is AUTO.  The description has "targets", and the scores of each beside their means.
 *
 * With T > 1 targets, predictions are rows by T, and intervals rows by 2 T, the two ends of one
 * target after the other, each with the level by itself.  Functions find a target by its name.
 */
GRAM_API gram_status gram_machine_fit_targets(gram_context *g, const gram_table *table,
                                              const gram_column *target, int64_t targets,
                                              const gram_machine_options *options,
                                              gram_machine **out);

GRAM_PUBLIC void gram_machine_destroy(gram_machine *machine);

/*
 * Predicts the rows of a table.  out is a vector of f64 on the CPU with one element per row: the
 * predicted number, or the index of the most probable class; with several targets it is a matrix,
 * rows by targets.  Features are found in the table by name.  A missing column, or a column of the
 * other kind (numbers instead of labels), is an error.  Other columns are ignored.
 */
GRAM_API gram_status gram_machine_predict(gram_context *g, const gram_machine *machine,
                                          const gram_table *table, gram_tensor *out);

/* Predicts the probabilities of a classification: out is a matrix of f64, rows by classes. */
GRAM_API gram_status gram_machine_predict_proba(gram_context *g, const gram_machine *machine,
                                                const gram_table *table, gram_tensor *out);

/*
 * Predicts intervals and sets that hold the target of a new row with a probability of `level`:
 *   interval = [g(f - t), g(f + t)],   set = the classes with 1 - p_j <= t, and the most probable,
 * where f is the output in units of the target's scale, g leads back to the target (through the
 * transform of options.target_transform), and p are the probabilities.  t is the
 * ceil((n + 1) level)-th smallest of the scores of n rows that were left out in training (see
 * gram_machine_fit): 1 - p of the true class, or |y - f| sqrt(n / (n - k)), where k of kernel,
 * bandwidth, ridge and metric were chosen by the same errors.  If nothing was chosen, and all rows
 * are exchangeable,
 *   P(target in the interval or set) >= level
 * on average over training tables and new rows (Vovk, Gammerman and Shafer, 2005; Lei et al., JASA
 * 113, 2018); where there was a choice, the square root makes up for it.  No single row, and no
 * group of rows, is promised its own level.  With weights, quantiles are weighted, and the promise
 * is for rows drawn in proportion to their weights.  If there are more than 999 scores, t is one of
 * 999 quantiles, rounded up.  If classes are told apart with fewer errors than 1 - level, sets
 * cover more than level, because no set is empty.
 *
 * gram_machine_predict_interval is for a regression: out is a matrix of f64, rows by 2, the lower
 * and the upper end.  gram_machine_predict_set is for a classification: out is a matrix of int32,
 * rows by classes, with the place of each class of the set in the order of probability, from 1, and
 * 0 for the other classes.  prediction and proba are what gram_machine_predict and
 * gram_machine_predict_proba give; NULL: not wanted.  All are on the CPU.
 *
 * level is between 0 and 1, and at most gram_machine_highest_level, which is n / (n + 1); more is
 * GRAM_INVALID_ARGUMENT.  That is 0 if the machine has no scores, because it was saved by version
 * 0.1 or because time_limit ended the search before there were any: GRAM_UNSUPPORTED.  On an error
 * nothing is written.
 */
GRAM_API gram_status gram_machine_predict_interval(gram_context *g, const gram_machine *machine,
                                                   const gram_table *table, double level,
                                                   gram_tensor *prediction, gram_tensor *out);
GRAM_API gram_status gram_machine_predict_set(gram_context *g, const gram_machine *machine,
                                              const gram_table *table, double level,
                                              gram_tensor *proba, gram_tensor *out);

/* Everything that is wanted of the rows of a table: what is not NULL has the shape and the dtype
 * that the function of this name gives. */
typedef struct gram_machine_wanted {
    size_t size;
    double level;            /* of interval and set */
    gram_tensor *prediction; /* gram_machine_predict */
    gram_tensor *proba;      /* gram_machine_predict_proba */
    gram_tensor *interval;   /* gram_machine_predict_interval */
    gram_tensor *set;        /* gram_machine_predict_set */
} gram_machine_wanted;

/* clang-format off */
#define GRAM_MACHINE_WANTED_INIT GRAM_SIZED_(gram_machine_wanted)
/* clang-format on */

/*
 * The same predictions, probabilities, intervals and sets as those functions give, from one
 * computation of the outputs, which takes nearly all of the time.  proba and set are for a
 * classification, interval is for a regression, and the level counts if an interval or a set is
 * wanted; errors are those of these functions.  On an error nothing is written.
 */
GRAM_API gram_status gram_machine_predict_all(gram_context *g, const gram_machine *machine,
                                              const gram_table *table,
                                              const gram_machine_wanted *wanted);

/* 0 for a machine that is NULL. */
GRAM_PUBLIC double gram_machine_highest_level(const gram_machine *machine);

typedef struct gram_machine_score {
    size_t size;        /* set by the caller */
    const char *metric; /* "accuracy" or "rmse": the meaning of score */
    double score;
    int64_t rows;    /* the number of rows with a target */
    double mae, r2;  /* of a regression; otherwise NaN */
    double log_loss; /* of a classification; otherwise NaN */
    double spread;   /* the standard error of score, as if the rows were independent */
} gram_machine_score;

/* Compares predictions with the target, which is a column with the same rows; of several targets,
 * that of its name.  Rows without a target are left out.  A label that was not a class in training
 * counts as wrong. */
GRAM_API gram_status gram_machine_evaluate(gram_context *g, const gram_machine *machine,
                                           const gram_table *table, const gram_column *target,
                                           gram_machine_score *score);

typedef struct gram_permutation_options {
    size_t size;
    int64_t repeats; /* orders of the rows for each column; 0: 5 */
    uint64_t seed;
    /* Called after each column, with the fraction that is done; or NULL. */
    void (*progress)(void *progress_user, double fraction, const char *stage);
    void *progress_user;
} gram_permutation_options;

/* clang-format off */
#define GRAM_PERMUTATION_OPTIONS_INIT GRAM_SIZED_(gram_permutation_options)
/* clang-format on */

/*
 * Permutation importance: how much the error of the predictions grows when one column is shuffled,
 *   out[j, r] = error(rows with column j in the r-th random order) - error(rows as they are),
 * where the error is the root mean squared error of a regression and the log loss of a
 * classification, as gram_machine_evaluate has them.  All features of a column move together:
 * categories, dates, missing values.  Rows without a target stay where they are and do not count.
 * Rows that the machine has not learned from tell what it would lose without the column; with its
 * training rows the result also has what it learned by heart.  Of two columns that say the same
 * either one can stand in for the other, so that both seem to matter less.
 *
 * out is a matrix of f64 on the CPU, features by repeats.  A column without influence has zeros.
 * The same seed, number of threads and data give the same numbers.  It takes
 * features * repeats + 1 predictions of the table.  On an error out is undefined.
 *
 * After Breiman, Machine Learning 45 (2001), and Fisher, Rudin and Dominici, JMLR 20 (2019).
 */
GRAM_API gram_status gram_machine_permutation_importance(
    gram_context *g, const gram_machine *machine, const gram_table *table,
    const gram_column *target, const gram_permutation_options *options, gram_tensor *out);

typedef struct gram_machine_feature {
    size_t size; /* set by the caller */
    const char *name;
    int categories;    /* the number of encoded categories; 0: a number, or dates */
    double importance; /* the share of the trace of the AGOP; the shares sum to 1 */
    int dates;         /* 1: the feature is a column of labels that are dates */
    int labels;        /* 1: the column holds labels; 0: numbers; -1: either, because every value
                          was missing in training */
} gram_machine_feature;

/* The features in the order of the training table, the name of the target, and the classes by
 * index (NULL if the index is out of range).  Strings live as long as the machine.  A machine
 * that is NULL has 0 features and classes, its strings are NULL, and its task is GRAM_TASK_AUTO. */
GRAM_PUBLIC int64_t gram_machine_feature_count(const gram_machine *machine);
GRAM_API gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine,
                                             int64_t index, gram_machine_feature *feature);
/* What a table has in one column that the training table did not have.  A prediction from such a
 * row says less than the score of the machine promises. */
typedef struct gram_machine_unseen {
    size_t size;                    /* set by the caller */
    int64_t unknown, first_unknown; /* labels that are no category (or no date) of training, and the
                                       first row of them, -1: none; in a column that had more than
                                       max_categories none is unknown */
    int64_t missing, first_missing; /* missing values, where no value was missing in training */
    int64_t far, first_far; /* numbers (or days) that are farther outside of the range of training
                               than that range is wide; a machine of version 0.1 knows no range */
    double least, most;     /* the range; NaN where it is not known */
} gram_machine_unseen;

/* Looks at the column of the feature with this index.  Columns that were constant in training have
 * no influence, and nothing is reported of them.  A column that is missing in the table, or of the
 * other kind, is an error, as in gram_machine_predict. */
GRAM_API gram_status gram_machine_unseen_at(gram_context *g, const gram_machine *machine,
                                            const gram_table *table, int64_t index,
                                            gram_machine_unseen *unseen);
GRAM_PUBLIC const char *gram_machine_target(const gram_machine *machine);
/* How many targets there are, and their names; gram_machine_target has the first. */
GRAM_PUBLIC int64_t gram_machine_target_count(const gram_machine *machine);
GRAM_PUBLIC const char *gram_machine_target_name(const gram_machine *machine, int64_t index);
GRAM_PUBLIC gram_task gram_machine_task(const gram_machine *machine);
GRAM_PUBLIC int64_t gram_machine_class_count(const gram_machine *machine);
GRAM_PUBLIC const char *gram_machine_class_name(const gram_machine *machine, int64_t index);
/* 1 if classes are numbers because the target had numbers, so that a caller can print them as
 * numbers. */
GRAM_PUBLIC int gram_machine_classes_are_numbers(const gram_machine *machine);

/* A JSON object with the hyperparameters (of an ensemble, those of the first machine; "ensemble"
 * has all of them and their weights; of a large table, those of the base, and "centres" has their
 * number), the validation score, its history, and the seconds of every stage.  It lives as long as
 * the machine. */
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
