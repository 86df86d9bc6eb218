/*
 * machine_trial.h - what a search compares: trials, and the levels that have their rows
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_TRIAL_H
#define GRAM_MACHINE_TRIAL_H
#include "machine.h"
#include <math.h>

enum {
    PARTS = 2,
    TRANSFORMS = 3,   /* none, sqrt, log */
    MOST_RIDGES = 5,  /* of a trial */
    LAST_ROWS = 3000, /* most rows of the last level */
    LEAST_ROWS = 40   /* with fewer, a half says nothing, and no metric is learned */
};

#define LEAST_RIDGE 1e-5 /* of a trial, below which single precision resolves nothing */

struct trial {
    struct machine_params params; /* iterations: the rounds that the metric has had */
    gram_transform transform;
    int powers;    /* of metrics that were learned from its kernel */
    double score;  /* lower is better: rmse, or error rate + mean squared error */
    double spread; /* standard error of the score */
};

/* Rows of a level, and the context that computes with them. */
struct part {
    gram_context *g;
    int64_t first, count; /* of the level's rows */
    struct machine_encoded memory;
    struct machine_data data; /* x is where the context computes; targets side by side */
    struct krr_array x, z;    /* z: features in a metric */
    struct krr_array alpha;   /* coefficients of all ridges */
    double *path;             /* outputs: ridges by targets by rows */
    size_t path_bytes;
};

struct level {
    int parts, transforms;
    bool joint; /* a half is scored among all rows */
    int64_t rows;
    struct machine_target target[TRANSFORMS]; /* scales; names borrowed */
    struct part part[PARTS];
    struct part whole[PARTS]; /* where joint: all rows, once for each context */
    double *out;              /* of the last trial, rows by outputs and column-major */
    double *loss;             /* of its rows, behind them */
    size_t out_bytes;
};

struct search {
    struct machine_job *job;
    gram_context *side[PARTS]; /* which the parts of levels have: distinct ones, or the caller's */
    bool beside;               /* they are distinct, and made for the search */
    bool dealt;                /* a rank has a half: see machine_halves.c */
    struct level level;
    double deadline;     /* of the level, in gram_seconds(); 0: none */
    double opened, last; /* when the search began, and the last deadline */
    double ends, shown;  /* about when it ends, and the share of it that was told */
    double before;       /* when the last trial ended */
    double work;         /* of all trials until now; see machine_search.c */
    bool cut;            /* a trial was left out, because the time was up */
    int tried, levels;   /* trials, and levels that were opened */
    bool given_ridge;
    gram_loss loss; /* of the last trial */
    bool wide;      /* there are more rows than its levels look at */
    uint64_t random;
    int members;                       /* the most of an ensemble */
    bool keeps;                        /* the outputs of trials are kept */
    bool given_transform;              /* trials are scored under one transform alone: */
    int transform;                     /* its index */
    struct trial usual;                /* what the levels without a time limit have chosen */
    struct trial picked[MOST_MEMBERS]; /* of the first level, for an ensemble */
    int picks;
};

/* Everything that a trial adds up: for each ridge and each transform. */
struct losses {
    int count;
    double ridge[MOST_RIDGES], sum[MOST_RIDGES][TRANSFORMS];
};

/* Work on the parts of a level, each by its own context or by its own rank: it is scored in the
 * metric of the other part, or its next metric is learned. */
struct sides {
    struct search *s;
    const struct trial *t;
    struct machine_metric *metric;   /* of each part */
    struct losses *losses;           /* of each part: what to score; or NULL */
    struct machine_learned *learned; /* of each part: what was learned; or NULL */
};

/* One part; arg is a struct sides. */
gram_status gram_machine_side_work(void *arg, gram_context *g, int64_t part, bool tells);

/* machine_halves.c, on the first rank of a search that is dealt: the others open the level; and
 * the first part is worked on here, the second one by the second rank. */
gram_status gram_machine_halves_open(gram_context *g, const struct search *s, int64_t rows,
                                     bool joint);
gram_status gram_machine_halves_work(gram_context *g, struct sides *sides);

/* Contexts for two halves at once, where there are several GPUs or threads; and their end. */
gram_status gram_machine_sides_open(gram_context *g, struct search *s);
void gram_machine_sides_close(struct search *s);

/* The first rows of the job, which are in random order, in two halves; joint: each half is scored
 * among all rows.  What was open is closed before. */
gram_status gram_machine_level_open(gram_context *g, struct search *s, int64_t rows, bool joint);
void gram_machine_level_close(gram_context *g, struct level *level);

/* The next metric of each part; a likelihood finds the bandwidth and the ridge that suit it too. */
gram_status gram_machine_trial_learn(gram_context *g, struct search *s, struct trial *t,
                                     struct machine_metric *metric);

/* Scores a trial at some ridges, and fills in the best of them and its transform.  metric has the
 * metric of each part, in which the other one is scored. */
gram_status gram_machine_trial_score(gram_context *g, struct search *s,
                                     struct machine_metric *metric, const double *ridges, int count,
                                     struct trial *t);

/*
 * What every row of the level adds to the loss of outputs f (rows by outputs, column-major) under a
 * transform (its index): its squared error or, of a class, whether it is wrong plus the squared
 * error of the outputs.
 */
void gram_machine_trial_losses(const struct search *s, int transform, const double *f,
                               double *loss);

/* The mean of a - b over rows, or of a where b is NULL, and its standard error: NAN of one row. */
double gram_machine_mean(int64_t rows, const double *a, const double *b, double *error);

/* The index of a transform among the level's. */
int gram_machine_level_transform(const struct level *level, gram_transform transform);

/* ---- Trials one after the other: machine_rounds.c -------------------------------------------- */

/* Takes a trial if it is better; sorts trials by their scores; whether one is to be left out,
 * because the time is up; and tells the job's progress, before one. */
void gram_machine_take(const struct trial *t, struct trial *best);
void gram_machine_sort_trials(struct trial *t, int count);
bool gram_machine_time_is_up(struct search *s);
void gram_machine_show(struct search *s);

/* Ridges around one, or the one that was given: how many. */
int gram_machine_ridges_near(const struct search *s, double ridge, double *out);
/* The score at ridges of all sizes. */
gram_status gram_machine_score_path(gram_context *g, struct search *s,
                                    struct machine_metric *metric, struct trial *t);
/* A trial without a metric, at every ridge; best becomes it if it is better. */
gram_status gram_machine_try_plain(gram_context *g, struct search *s, const struct trial *from,
                                   struct trial *best);
/* Rounds of feature learning from a trial's form and power; best becomes the best of them if it is
 * better.  Two rounds that are no better end them. */
gram_status gram_machine_try_rounds(gram_context *g, struct search *s, const struct trial *from,
                                    int most, struct trial *best);

/* The work of a trial on halves of so many rows, in one unit for all levels. */
static inline double gram_machine_work(double half)
{
    return 2 * pow(half, 2.5);
}

/* The outputs of the last trial, for the caller. */
gram_status gram_machine_trial_keep(gram_context *g, const struct search *s,
                                    const struct trial *best, struct machine_held_out *out);

/* machine_loss.c: whether all rows are those of one leaf of two classes; what is wrong with
 * options.loss; and whether outputs of the level's rows have less log loss than those before, by
 * more than a standard error of the difference, each calibrated. */
bool gram_machine_may_be_logistic(const gram_context *g, const struct machine_job *job);
gram_status gram_machine_loss_is_better(gram_context *g, const struct search *s,
                                        const double *before, const double *after, bool *better);

/* ---- Ensembles ------------------------------------------------------------------------------- */

/* Trials of a level, by their indices in the job, and the weights of their outputs, sum 1. */
struct machine_ensemble {
    int members;
    int64_t trial[MOST_MEMBERS];
    double weight[MOST_MEMBERS];
    double errors; /* how much less the loss is than that of the best trial alone, in standard
                      errors of the difference */
};

/* Keeps the outputs of the level's last trial in `one`, in place of those of a worse one if there
 * are many. */
gram_status gram_machine_outputs_keep(gram_context *g, const struct search *s,
                                      struct machine_tried *one);
void gram_machine_outputs_forget(struct machine_trials *all);

/* machine_search.c: the most rows that are left out at a time, for half of the memory. */
int64_t gram_machine_rows_that_fit(const gram_context *g, const struct search *s);

/* machine_last.c: the winner on the rows of the last level, its ridge, and the outputs that say how
 * good it is and calibrate probabilities.  Its rivals, and the logistic loss, may take its place
 * there.  With an ensemble, those that were picked too, and the best of all of them together. */
gram_status gram_machine_try_last(gram_context *g, struct search *s, struct trial *best,
                                  struct machine_ensemble *e, struct machine_held_out *out);

/* Chooses at most `most` trials of the level under a transform.  sure: if the mean of several is
 * not better than the best of them by a standard error of the difference, that one alone.  The
 * level's outputs become those of what was chosen.  Without a trial, members is 0. */
gram_status gram_machine_ensemble_select(gram_context *g, struct search *s,
                                         gram_transform transform, int most, bool sure,
                                         struct machine_ensemble *out);

#endif
