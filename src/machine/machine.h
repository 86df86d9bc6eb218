/*
 * machine.h - a trained kernel machine, and the parts it is trained by
 *
 * A machine is an encoder (table.h), a tree that sends each row to leaves, and the leaves: kernel
 * expansions f(z) = sum_i alpha_i exp(-||W (x_i - z)||_p^q / L^q).  It is immutable once made; its
 * memory comes from malloc, because it outlives the context that trained it.
 *
 *   machine.c         predictions, and what a machine is asked for
 *   machine_fit.c     the call: rows and targets, the search, the last fit
 *   machine_describe.c  the description of a fit
 *   machine_large.c   large tables: a machine of few centres on all rows (machine_centres.c), and
 *                     leaves that correct it
 *   machine_search.c  hyperparameters by leave-one-out; machine_trial.c scores one choice of them,
 *                     machine_rounds.c several at a time, machine_last.c the last ones, and
 *                     machine_trials.c lists all of them
 *   machine_ensemble.c  which trials together are better than the best of them
 *   machine_tree.c    splits; machine_routing.c the way of a row to leaves
 *   machine_leaves.c  all leaves, and rows that are left out of them
 *   machine_deal.c    leaves that contexts of a group and ranks share; machine_ranks.c what the
 *                     latter tell each other
 *   machine_hands.c   contexts that work side by side
 *   machine_leaf.c    one leaf: rounds of solves and feature learning, and its values
 *   machine_loo.c     leave-one-out outputs of a leaf
 *   machine_metric.c  from the average gradient outer product to the next metric;
 *                     machine_ard.c from a marginal likelihood
 *   machine_target.c  targets and scores; machine_targets.c several of them
 *   machine_permutation.c  permutation importance
 *   machine_logistic.c  kernel logistic regression; machine_loss.c whether it is better
 *   machine_wide.c    the search's choice compared on more rows; machine_kept.c leaves that it has
 *                     had
 *   machine_limits.c  the rows of a leaf, by memory and by time
 *   machine_refit.c   the ridge and the score of a leaf of many rows
 *   machine_statistics.c  targets of the statistics of levels
 *   machine_weights.c weights of the classes of a classification
 *   machine_conformal.c  intervals and sets of a level
 *   machine_file.c    model files
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_H
#define GRAM_MACHINE_H
#include "core/json_text.h"
#include "core/view.h"
#include "krr/krr.h"
#include "table.h"

/* ---- Targets --------------------------------------------------------------------------------- */

/* What a machine predicts: numbers on a scale, or classes.  A regression is fitted on
 * (t(value) - shift) / scale, t the identity, a logarithm or a square root.  A classification is
 * fitted on one 0/1 column per class; two classes need one column.  Several targets are parts, each
 * a regression with one column; of the whole, name, shift and scale say nothing, and a pointer to a
 * column is one to an array of theirs. */
struct machine_target {
    char *name;
    gram_task task;
    gram_transform transform; /* regression; never AUTO */
    double shift, scale;      /* regression */
    int64_t classes;          /* 0: regression */
    char **class_name;        /* sorted; numbers by value, labels bytewise */
    double *class_value;      /* of numbers, else NULL */
    /* Of a classification, or NULL: the slope, an offset per class, and the share of the uniform
     * distribution in a probability. */
    double *calibration;
    /* What intervals and sets come from (machine_conformal.c): sorted errors, or NULL and 0. */
    double *score;
    int64_t scores;
    int64_t parts;               /* 0: one target */
    struct machine_target *part; /* from malloc */
};

enum {
    CALIBRATION_NUMBERS = 2, /* the slope and the share, beside an offset per class */
    MOST_SCORES = 999        /* so that every thousandth is a level */
};

extern const double gram_machine_least_probability;

/* Finds the task and the classes from the values of the given rows. */
gram_status gram_machine_target_fit(gram_context *g, const gram_column *column, gram_task task,
                                    const int64_t *rows, int64_t count, struct machine_target *out);
void gram_machine_target_destroy(struct machine_target *target);

/* Sets the transform, shift and scale of a regression from the values of rows; refuses a transform
 * that a value does not allow. */
gram_status gram_machine_target_scale(gram_context *g, const gram_column *column,
                                      gram_transform transform, const int64_t *rows, int64_t count,
                                      struct machine_target *target);

/* machine_targets.c: the target of several columns (of one, as gram_machine_target_fit); whether a
 * row lacks one of them; a copy whose parts have scales of their own but borrow all else, and its
 * end; a part, or the whole where there are none, for loops over gram_machine_target_count of them;
 * and which part a column is by its name, or that it is none. */
gram_status gram_machine_targets_fit(gram_context *g, const gram_column *column, int64_t columns,
                                     gram_task task, const int64_t *rows, int64_t count,
                                     struct machine_target *out);
bool gram_machine_targets_missing(const gram_column *column, int64_t columns, int64_t row);
gram_status gram_machine_target_borrow(gram_context *g, const struct machine_target *from,
                                       struct machine_target *to);
void gram_machine_target_return(struct machine_target *target);
int64_t gram_machine_target_parts(const struct machine_target *target);
const struct machine_target *gram_machine_target_part(const struct machine_target *target,
                                                      int64_t index);
gram_status gram_machine_target_find(gram_context *g, const struct machine_target *target,
                                     const gram_column *column, int64_t *index);

/* Columns of y: 1, or the number of classes if there are more than two, or the parts. */
int64_t gram_machine_target_outputs(const struct machine_target *target);

/* y[j * count + i] of rows[i], column-major. */
void gram_machine_target_encode(const struct machine_target *target, const gram_column *column,
                                const int64_t *rows, int64_t count, gram_dtype dtype, void *y);

bool gram_machine_target_missing(const gram_column *column, int64_t row);

/* The class of a row: its index, -1 if it was never seen, -2 if it is missing. */
int64_t gram_machine_target_class(const struct machine_target *target, const gram_column *column,
                                  int64_t row);

/* One row's outputs f[j * stride] to a number or class index, and to probabilities. */
double gram_machine_target_decode(const struct machine_target *target, const double *f,
                                  int64_t stride);
void gram_machine_target_probabilities(const struct machine_target *target, const double *f,
                                       int64_t stride, double *out, int64_t out_stride);

/* Learns how outputs become probabilities from outputs f (count by outputs, column-major) of rows
 * that did not train what gave them.  weights are those of all rows, or NULL. */
gram_status gram_machine_target_calibrate(gram_context *g, const gram_column *column,
                                          const int64_t *rows, const double *weights, int64_t count,
                                          const double *f, struct machine_target *target);

/* ---- Intervals and sets ---------------------------------------------------------------------- */

struct machine_job;

/* Outputs of rows that did not train what gave them. */
struct machine_held_out {
    int64_t first, count;        /* rows of the job */
    struct machine_target scale; /* of a regression: what the outputs are in units of; borrowed */
    double *f;                   /* count by outputs, column-major, from malloc */
};

/* Keeps the scores of rows that were left out; weights are those of all rows, or NULL.  `chosen`
 * counts the hyperparameters that were chosen by the same rows.  A target without a single score
 * has no intervals. */
gram_status gram_machine_target_conform(gram_context *g, const gram_column *column,
                                        const int64_t *rows, const double *weights,
                                        const struct machine_held_out *held, int chosen,
                                        struct machine_target *target);
/* Whether they are sorted, in range, and no more than there can be. */
bool gram_machine_target_scores_hold(const struct machine_target *target);

/* The score below which a new row is with the probability `level`; refuses a level that is none, or
 * too high for so few rows. */
gram_status gram_machine_target_threshold(gram_context *g, const struct machine_target *target,
                                          double level, double *out);
/* One row's lower and upper end, from its output; they are out_stride apart. */
void gram_machine_target_interval(const struct machine_target *target, const double *f,
                                  double threshold, double *out, int64_t out_stride);
/* The places of classes in the sets of rows, from outputs f (rows by outputs, column-major). */
gram_status gram_machine_target_sets(gram_context *g, const struct machine_target *target,
                                     const double *f, int64_t rows, double threshold,
                                     const struct gram_view *out);

/* ---- Metrics, leaves and trees --------------------------------------------------------------- */

/* The linear map before the distance: z -> z W. */
struct machine_metric {
    int64_t width;
    bool full;
    double *w; /* full: width by width, symmetric; else the width diagonal entries */
};

/* Hyperparameters, all decided. */
struct machine_params {
    double p, q, bandwidth, ridge;
    bool relative_bandwidth; /* bandwidth counts medians of the distance in the current metric */
    int iterations;          /* rounds of feature learning; 0: none */
    bool ridge_chosen;       /* by leave-one-out: a solve that breaks down takes a larger one */
    bool rounds_known;       /* all of them are to be done: nothing decides among them */
    bool full;               /* a full metric */
    gram_loss loss;          /* LOGISTIC; else that of least squares */
    bool ard;                /* a diagonal one, learned by machine_ard.c */
    int64_t ard_rows;        /* at most, whose likelihood that is; 0: 600 */
    double power;            /* W = M^power */
    gram_solver solver;
    double tolerance;
    uint64_t seed;
    double memory; /* bytes that a kernel matrix may take; 0: four fifths of what is available */
    const struct machine_metric *start; /* of the first round; NULL: the identity */
    struct machine_job *shared;         /* who may share solves that store no matrix; or NULL */
    const struct machine_leaf *guess;   /* of the coefficients: a leaf of the first rows of the same
                                           table; NULL: none */
};

struct machine_leaf {
    int64_t rows, width, outputs;
    gram_dtype dtype;
    double p, q, bandwidth;
    struct machine_metric metric;
    char *x;            /* rows by width, row-major: features times W */
    char *alpha;        /* rows by outputs, column-major */
    bool borrowed;      /* x and alpha are in the file of the machine */
    gram_device device; /* where x and alpha are: a GPU while a fit goes on, the CPU in the end */
};

/* What to learn from: features and targets of the same rows. */
struct machine_data {
    int64_t rows, width, outputs;
    gram_dtype dtype;
    const char *x;         /* rows by width, row-major */
    const char *y;         /* rows by outputs, column-major */
    const double *weights; /* of the rows, or NULL */
};

/* How a fit went; sums over leaves. */
struct machine_report {
    double kernel_seconds, solve_seconds, feature_seconds;
    int iterations;  /* of conjugate gradients, most in one solve; 0: Cholesky */
    double residual; /* largest */
    double change;   /* bound of the RMS change of outputs by it; largest */
    int rounds;      /* of feature learning that the kept leaf had */
    double ridge;    /* largest */
    double score;    /* mean squared error of the outputs on the validation rows, of the best */
};

/* Adds what solves took and the worst of what they say; rounds and scores are the caller's. */
void gram_machine_report_add(struct machine_report *sum, const struct machine_report *one);

/*
 * A split: a row's place on the direction, x . direction, sends it left up to low, right from high
 * on, and to both in between, with a weight that goes over linearly; with a temperature softly
 * (machine_routing.c).
 */
struct machine_node {
    double *direction; /* width entries */
    double low, high;  /* low < high; equal: left up to low, right above */
    double scale;      /* >= 0: the interquartile range of places */
    int64_t child[2];  /* a node, or ~leaf */
    int64_t parent;    /* -1: the root */
    int side;          /* which child of the parent this is */
};

enum {
    MOST_MEMBERS = 8,
    MOST_TREES = 16
};

/* One tree or several, whose leaves share each row equally. */
struct machine_tree {
    int64_t count; /* of nodes; 0: one leaf serves all */
    int64_t width;
    struct machine_node *node;
    int trees; /* 0 where there are no nodes */
    int64_t root[MOST_TREES];
    double temperature; /* of soft routing; 0: hard */
};

/* Several machines that share an encoder and a tree are one, of several members: the outputs are
 * the weighted sum of those of the members. */
struct gram_machine {
    struct machine_target target;
    struct gram_encoder *encoder;
    struct machine_tree tree;
    int members;
    double weight[MOST_MEMBERS]; /* of the members, > 0, sum 1 */
    int64_t leaves;              /* of the tree */
    struct machine_leaf base;    /* of all rows, to which the leaves add; rows 0: there is none */
    struct machine_leaf *leaf;   /* members by leaves */
    gram_dtype dtype;
    double *importance;           /* one per column of the encoder, sum 1 */
    char *description;            /* JSON, with the seconds that training took */
    char *summary;                /* the same without: what the model file holds */
    struct gram_model_file *file; /* of a machine that was loaded: holds its leaves; or NULL */
};

/* Whether a factorisation solves so many rows; else iterations do. */
bool gram_machine_by_cholesky(const gram_context *g, gram_solver solver, int64_t rows);

/* The most memory that a solve of `rows` rows takes, beyond its data. */
size_t gram_machine_solve_bytes(gram_context *g, int64_t rows, int64_t outputs, gram_dtype dtype,
                                gram_solver solver);

/* Memory that was freed, to the system: the matrix of all rows is to be the peak of a fit. */
void gram_machine_give_back(void);

/* The kernel of params at a bandwidth, as options of gram_kernel. */
gram_kernel_options gram_machine_kernel(double p, double q, double bandwidth);

/* machine_metric.c: _create makes W = I, _copy copies one, _apply computes z = x W (row-major, of
 * dtype, in the memory that the context computes in), and _destroy frees one. */
gram_status gram_machine_metric_create(gram_context *g, int64_t width, bool full,
                                       struct machine_metric *out);
gram_status gram_machine_metric_copy(gram_context *g, const struct machine_metric *from,
                                     struct machine_metric *to);
gram_status gram_machine_metric_apply(gram_context *g, const struct machine_metric *metric,
                                      gram_dtype dtype, int64_t rows, const void *x, void *z);
void gram_machine_metric_destroy(struct machine_metric *metric);
/* How many numbers W is. */
static inline int64_t gram_machine_metric_entries(int64_t width, bool full)
{
    return full ? width * width : width;
}

/* An expansion with coefficients alpha of the rows of z, and rows at which its gradients are
 * averaged, which may be z itself.  Both are in the metric, where the context computes. */
struct machine_gradients {
    const struct machine_params *params;
    double bandwidth;
    const struct machine_data *z, *at;
    const void *alpha;
};

/* The average gradient outer product in x (before W) at a sample of the rows: width entries of the
 * diagonal, or width by width if the metric is full. */
gram_status gram_machine_metric_agop(gram_context *g, const struct machine_gradients *e,
                                     const struct machine_metric *metric, double *out);

/* What comes with a metric: the bandwidth and the ridge that suit it. */
struct machine_learned {
    double bandwidth, ridge;
};

/* Relearns the metric from such gradients or, as params say, from the likelihood of the targets of
 * z, which alone set learned; it may be NULL. */
gram_status gram_machine_metric_learn(gram_context *g, const struct machine_gradients *e,
                                      struct machine_metric *metric,
                                      struct machine_learned *learned);

/* machine_ard.c: a round of a diagonal metric by the marginal likelihood. */
gram_status gram_machine_metric_ard(gram_context *g, const struct machine_gradients *e,
                                    struct machine_metric *metric, struct machine_learned *learned);

/* L of a metric: given, or a multiple of the median distance of rows in it. */
gram_status gram_machine_bandwidth(gram_context *g, const struct machine_params *params,
                                   const struct machine_data *z, double *out);

/* Trains a leaf; valid may be empty (rows 0): then every round is done and the last is kept. */
gram_status gram_machine_leaf_fit(gram_context *g, const struct machine_params *params,
                                  const struct machine_data *train,
                                  const struct machine_data *valid, struct machine_leaf *out,
                                  struct machine_report *report);

/* Solves (K + diag(ridge / weights)) alpha = y.  Where f32 breaks down, f64 does it; a ridge that
 * was chosen from fewer rows may be too small even so, and grows; at once where the matrix is not
 * stored.  z are the features in the metric; z.x and alpha are where the context computes, z.y and
 * z.weights on the host.  The report has the ridge. */
gram_status gram_machine_leaf_solve(gram_context *g, const struct machine_params *params,
                                    double bandwidth, const struct machine_data *z, void *alpha,
                                    struct machine_report *report);

/* out (rows by outputs, column-major f64) = the leaf's expansion at rows of x (row-major), both on
 * the host; and of x where the context computes. */
gram_status gram_machine_leaf_predict(gram_context *g, const struct machine_leaf *leaf,
                                      int64_t rows, const void *x, double *out);
/* machine_refit.c: whether a leaf that `seen` rows have taught its metric is to have its ridge and
 * its score from a part of the others; and the ridge of params that these choose, with their
 * outputs (held.f is NULL where no ridge can be solved) and the leaf of the other rows.  After
 * `ends`, in gram_seconds(), no other ridge is tried; 0: no such time. */
bool gram_machine_refit_pays(const struct machine_job *job, int64_t rows, int64_t seen);
gram_status gram_machine_refit(gram_context *g, struct machine_params *params,
                               const struct machine_data *data, double ends,
                               struct machine_report *report, struct machine_held_out *held,
                               struct machine_leaf *leaf);
/* g may be NULL for a leaf on the CPU. */
void gram_machine_leaf_destroy(gram_context *g, struct machine_leaf *leaf);
/* Brings a leaf that was trained on a GPU to the CPU, where it outlives the context. */
gram_status gram_machine_leaf_settle(gram_context *g, struct machine_leaf *leaf);
/* The leaf's rows and coefficients where the context computes: its own, or copies of those of the
 * CPU.  Freed by the caller, on an error too. */
gram_status gram_machine_leaf_place(gram_context *g, const struct machine_leaf *leaf,
                                    struct krr_array *x, struct krr_array *alpha);

/* k alpha = alpha, k becoming its factor; GRAM_NUMERICAL if it has none.  Waits for the device. */
gram_status gram_machine_factorise(gram_context *g, gram_tensor *k, gram_tensor *alpha);

/* A copy in f64 of numbers that are where the context computes, in the same place. */
gram_status gram_machine_widen(gram_context *g, gram_dtype dtype, const void *x, int64_t count,
                               struct krr_array *out);

/* machine_loo.c: the outputs of a leaf at its own rows, each without that row, for count ridges. */
struct machine_loo {
    const gram_kernel_options *kernel;
    const struct machine_data *z; /* x in the metric, where the context computes */
    const double *ridge;
    int count;
    double *out; /* ridges by outputs by rows, on the host; NaN where a ridge is too small */
    void *alpha; /* the coefficients with every row, of z's dtype, where the context computes */
};
gram_status gram_machine_loo(gram_context *g, const struct machine_loo *loo);
/* The most rows for which the call takes so many bytes, the outputs apart. */
int64_t gram_machine_loo_rows(const gram_context *g, double bytes);

/* machine_tree.c splits rows until every leaf has at most leaf_rows.  `row` lists the rows of the
 * leaves, one leaf after the other, and `first` where each leaf begins (leaves + 1 entries). */
struct machine_leaf_rows {
    int64_t leaves;
    int64_t *first, *row;
};
gram_status gram_machine_tree_build(gram_context *g, const struct machine_params *params,
                                    const struct machine_data *data, int64_t leaf_rows, int trees,
                                    struct machine_tree *tree, struct machine_leaf_rows *rows);
void gram_machine_leaf_rows_destroy(struct machine_leaf_rows *rows);
void gram_machine_tree_destroy(struct machine_tree *tree);
/* machine_routing.c: the place of a row at a node, the share of the right side there, and leaves.
 * A row in a leaf, with the leaf's weight there: more than 0, or NaN. */
struct machine_place {
    int64_t leaf, row;
    double weight;
};
struct machine_places {
    struct machine_place *at; /* for free() */
    int64_t count, room;
};
double gram_machine_node_place(const struct machine_node *node, int64_t width, gram_dtype dtype,
                               const void *x, int64_t row);
double gram_machine_node_share(const struct machine_node *node, double temperature, double t);
/* Where rows of x belong, by leaf and then by row. */
gram_status gram_machine_tree_places(gram_context *g, const struct machine_tree *tree,
                                     gram_dtype dtype, const void *x, int64_t rows,
                                     struct machine_places *out);

/* What leaves say about rows that are held out and that they have learned, had they not learned
 * them.  Of leaf i, entries first[i] to first[i + 1] - 1 are which of the rows held out, ascending,
 * and their outputs, side by side. */
struct machine_left_out {
    int64_t *first, *row;
    double *f;
};

/* The temperature that predicts the rows of valid best (or the one that the option gives), and
 * their outputs, column-major, with base (NULL: 0) added.  known (or NULL) has outputs of leaves at
 * these rows to be taken in place of their own. */
gram_status gram_machine_routing_choose(gram_context *g, gram_machine *machine,
                                        const struct machine_data *valid,
                                        const struct machine_left_out *known, const double *base,
                                        double temperature, double *f);

/* The weighted sum of the values of all members at rows of x in a leaf, column-major. */
gram_status gram_machine_leaf_values(gram_context *g, const gram_machine *machine, int64_t leaf,
                                     int64_t rows, const void *x, double *out);

/* Refuses what is no column, or not of the target's kind. */
gram_status gram_machine_target_check(gram_context *g, const struct machine_target *target,
                                      const gram_column *column);

/* Checks that a tensor is of dtype and the given shape (cols 0: a vector) on the CPU, whatever g's
 * device. */
gram_status gram_machine_check_out(gram_context *g, const char *name, const gram_tensor *out,
                                   gram_dtype dtype, int64_t rows, int64_t cols,
                                   struct gram_view *view);

/* The outputs at the rows of a table, which is checked; from malloc, NULL on an error. */
gram_status gram_machine_table_outputs(gram_context *g, const gram_machine *machine,
                                       const gram_table *table, double **out);

/* The outputs at encoded rows, column-major. */
gram_status gram_machine_encoded_outputs(gram_context *g, const gram_machine *machine, int64_t rows,
                                         const void *x, double *out);

/* Scores outputs f (count by outputs, column-major) of rows (NULL: 0, 1, ...) of a target. */
gram_status gram_machine_score_outputs(gram_context *g, const struct machine_target *target,
                                       const gram_column *column, const int64_t *rows,
                                       int64_t count, const double *f, gram_machine_score *out);

/* Gathers rows of a row-major matrix, or of a column-major one with count rows. */
void gram_machine_gather(gram_dtype dtype, int64_t width, const void *x, const int64_t *rows,
                         int64_t count, void *out);
void gram_machine_gather_columns(gram_dtype dtype, int64_t n, int64_t columns, const void *y,
                                 const int64_t *rows, int64_t count, void *out);

/* The rows of data from first on, with their weights; their targets are copied to y, output after
 * output, and all else is borrowed. */
struct machine_data gram_machine_part(const struct machine_data *data, int64_t first, int64_t rows,
                                      char *y);

/* ---- A fit, from the caller's table to the finished machine ---------------------------------- */

/* Everything that is chosen before training. */
struct machine_recipe {
    enum gram_scaling scaling;
    gram_transform transform; /* regression; never AUTO */
    int members;              /* 1: no ensemble */
    struct {
        struct machine_params params;
        double weight; /* sum 1 */
    } member[MOST_MEMBERS];
};

/* One choice of hyperparameters that a search has scored. */
struct machine_tried {
    struct machine_params params;
    gram_transform transform; /* AUTO: of a classification */
    int64_t number, rows;     /* number: 1, 2, ... in order of time */
    int64_t centres, held;    /* of a machine of few centres, and the rows held out that have
                                 scored it; 0: leave-one-out has */
    int level;                /* 1, 2, ...: a later one has more rows, or all rows at once */
    double score, spread;     /* lower is better; its standard error */
    double weight;            /* in what was chosen; 0: it was not */
    double *outputs;          /* rows by outputs, column-major, from malloc; or NULL */
    double seconds;
};

struct machine_trials {
    struct machine_tried *at; /* from malloc */
    int64_t count, room;
};

/* machine_trials.c: _add takes a copy, and sets its number.  _sort puts the best first: those of
 * the last level by their scores, then those of the one before.  _json adds the member "search"
 * with the first `most` of them, with their seconds or without.  _level is the last level that has
 * a trial, or 0. */
gram_status gram_machine_trials_add(gram_context *g, struct machine_trials *all,
                                    const struct machine_tried *one);
void gram_machine_trials_sort(struct machine_trials *all);
int gram_machine_trials_level(const struct machine_trials *all);
void gram_machine_trials_json(struct gram_json_text *t, const struct machine_trials *all,
                              int64_t most, bool timed);
void gram_machine_trials_destroy(struct machine_trials *all);

/* Members of a JSON object. */
void gram_machine_params_json(struct gram_json_text *t, const struct machine_params *params);
/* The form of the metric, and its power where it has one. */
void gram_machine_metric_json(struct gram_json_text *t, const struct machine_params *params);
const char *gram_machine_transform_name(gram_transform transform);

struct machine_job {
    const gram_table *table;
    const gram_column *target; /* one, or several side by side: */
    int64_t targets;
    gram_machine_options o;
    struct machine_target kind; /* task and classes; its scale is set by gram_machine_encode */
    int64_t rows, *row;         /* that have a target, shuffled by the seed */
    double *weights;            /* of the table's rows, where classes have weights; else NULL */
    double *class_weight;       /* of every class, then; from malloc, as weights */
    double mean_weight;         /* of the rows that have a target */
    double memory;              /* bytes that a fit may take */
    int64_t leaf_rows;          /* most rows of one leaf within that */
    int64_t stored_rows;        /* most rows whose kernel matrix is within that */
    char about[80];             /* the stage of a leaf that is larger; "": there is none */
    double started;             /* gram_seconds() */
    double until, ends; /* of a search with a time limit: of its choices, and of the fit; or 0 */
    double from, to;    /* of the whole work: the part that is being done */
    struct machine_report report;
    struct machine_trials trials; /* of the search */
    struct machine_held_out held; /* of what the search chose; f NULL: none */
    int64_t centres;              /* of what a large table has learned; 0: none */
    bool held_apart;              /* its rows were not learned from, in place of leave-one-out */
    bool ended;                   /* ranks know of a failure: none waits for this one */
    bool shares;                  /* ranks wait for solves that they are to share */
    struct machine_lanes *lanes;  /* GPUs of options.group that share solves; or NULL */
    double without, with;         /* the best scores without and with a metric; 0: not known */
};

/* Whether the choices of a fit with a time limit are to end. */
static inline bool gram_machine_late(const struct machine_job *job)
{
    return job->until > 0 && gram_seconds() > job->until;
}

/* Rows as features and targets, in memory of the context's allocator. */
struct machine_encoded {
    struct machine_data data;
    char *memory;
    size_t bytes;
};

/* Room for rows_width[0] rows of rows_width[1] features and their targets, undefined. */
gram_status gram_machine_encoded_create(gram_context *g, const struct machine_job *job,
                                        const int64_t rows_width[2], int64_t outputs,
                                        struct machine_encoded *out);

void gram_machine_encoded_destroy(gram_context *g, struct machine_encoded *e);

/* Scales of one target. */
struct machine_scales {
    int count;
    const struct machine_target *of;
};

/* Learns a metric from some of the rows, which come shuffled: that of the best round on rows that
 * are held out, or of the last one where their number is known. */
gram_status gram_machine_learn_metric(gram_context *g, const struct machine_job *job,
                                      const struct machine_params *params,
                                      const struct machine_data *all, struct machine_metric *out,
                                      struct machine_report *report);

/* The rows of so many that teach a metric. */
int64_t gram_machine_metric_rows(const struct machine_job *job, const struct machine_params *params,
                                 int64_t rows, int64_t width);

/* machine_leaves.c: trains a tree of leaves on all rows, or the machine of a large table
 * (machine_large.c), and weighs features. */
gram_status gram_machine_train_leaves(gram_context *g, struct machine_job *job,
                                      struct machine_recipe *recipe, const struct machine_data *all,
                                      gram_machine *machine);
gram_status gram_machine_train_large(gram_context *g, struct machine_job *job,
                                     struct machine_recipe *recipe, const struct machine_data *all,
                                     gram_machine *machine);

/* How the options say that columns are encoded. */
struct gram_encoding gram_machine_encoding(const struct machine_job *job,
                                           enum gram_scaling scaling);

/* machine_statistics.c: an encoder from the first rows of the job. */
gram_status gram_machine_encoder_fit(gram_context *g, const struct machine_job *job,
                                     enum gram_scaling scaling, int64_t count,
                                     struct gram_encoder **out);

/* Encodes some of the job's rows, on which the encoder was fitted, with the targets under all
 * scales side by side. */
gram_status gram_machine_encode(gram_context *g, const struct machine_job *job,
                                const struct gram_encoder *encoder, const int64_t *rows,
                                int64_t count, struct machine_scales scales,
                                struct machine_encoded *out);

/* machine_weights.c: what is wrong with the options of class weights, before anything is done; the
 * rows' weights times those of their classes, which become options.weights of the job; the
 * member "class_weight" of a description; and how much a row counts in a mean over rows. */
gram_status gram_machine_class_weights_check(gram_context *g, const gram_machine_options *o);
gram_status gram_machine_class_weights(gram_context *g, struct machine_job *job);
void gram_machine_class_weights_json(struct gram_json_text *t, const struct machine_job *job,
                                     const struct machine_target *target);
double gram_machine_row_weight(const struct machine_job *job, int64_t row);

/* machine_loss.c: refuses the logistic loss where there is none. */
gram_status gram_machine_loss_check(gram_context *g, const struct machine_job *job);

/* machine_limits.c: memory, leaf_rows and stored_rows of a job; and, when the recipe is chosen,
 * leaf_rows or stage of a leaf that is larger than what is stored. */
void gram_machine_limits(gram_context *g, struct machine_job *job);
gram_status gram_machine_look_at_time(gram_context *g, struct machine_job *job,
                                      const struct machine_recipe *recipe,
                                      const struct machine_data *data);

/* Whether a metric by likelihood, or a full one, may be learned of `width` features.  Their number
 * is known only when they are encoded, later than the recipe. */
bool gram_machine_may_be_ard(const struct machine_job *job, int64_t width);
bool gram_machine_full_metric(const struct machine_job *job, int64_t width);

/* Chooses what the options leave open by leave-one-out; recipe comes with the defaults.  out has
 * the outputs of what was chosen, for free(). */
gram_status gram_machine_search(gram_context *g, struct machine_job *job,
                                struct machine_recipe *recipe, struct machine_held_out *out);

/* Writes the description and the summary of a machine; sorts the trials. */
gram_status gram_machine_describe_fit(gram_context *g, struct machine_job *job,
                                      const struct machine_recipe *recipe, gram_machine *machine);

/* Tells the caller how far the fit is: `done`, from 0 to 1, of the present part. */
void gram_machine_progress(const struct machine_job *job, double done, const char *stage);
#endif
