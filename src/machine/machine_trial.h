/*
 * machine_trial.h - candidates of the search, and the rows that they are tried on
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_TRIAL_H
#define GRAM_MACHINE_TRIAL_H
#include "machine_fit.h"

enum {
    MACHINE_FOLDS = 5,     /* where there are few rows */
    MACHINE_TRANSFORMS = 3 /* none, sqrt, log */
};

struct machine_candidate {
    struct machine_params params;
    gram_transform transform; /* AUTO: the best of the level's is filled in by gram_machine_try */
    double score;             /* lower is better: rmse, or error rate + mean squared error */
};

/* A training and a validation part; the targets under every transform are outputs side by side. */
struct machine_fold {
    struct machine_encoded train, valid;
    int transforms; /* targets side by side */
    int64_t count;  /* rows of valid */
    int64_t *row;   /* its rows, borrowed from rows of the level */
    struct machine_target target[MACHINE_TRANSFORMS]; /* scales of this fold; names borrowed */
};

struct machine_level {
    int folds, transforms;
    int64_t *rows;    /* of all folds, from the context's allocator */
    size_t row_bytes; /* of rows */
    struct machine_fold fold[MACHINE_FOLDS];
};

/* Draws at most `rows` rows of the job, in folds if there are few. */
gram_status gram_machine_level_open(gram_context *g, struct machine_job *job, int64_t rows,
                                    struct machine_level *out);
void gram_machine_level_close(gram_context *g, struct machine_level *level);

/* Trains and scores a candidate on every fold: fills in its score (infinite if it cannot be
 * trained) and transform. */
gram_status gram_machine_try(gram_context *g, struct machine_job *job,
                             const struct machine_level *level, struct machine_candidate *c);
#endif
