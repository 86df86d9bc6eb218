/*
 * machine_large.h - what large tables are learned by
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_LARGE_H
#define GRAM_MACHINE_LARGE_H
#include "machine_centres.h"

/* A choice and its error on the rows that are held out. */
struct choice {
    struct machine_params params; /* iterations: rounds that the metric has had */
    struct machine_metric metric;
    double error, spread; /* spread: the standard error of error */
};

enum {
    MOST_KEPT_LEAVES = 32
};

/* A leaf of centres, what it depends on, and what it was found to be worth. */
struct machine_kept_leaf {
    double p, q, bandwidth;
    bool relative;
    int64_t centres, rows;
    struct machine_metric metric;
    struct machine_leaf leaf; /* rows 0: no ridge could be solved */
    double error, spread, ridge;
};

struct machine_kept {
    int count;
    struct machine_kept_leaf at[MOST_KEPT_LEAVES];
};

/* machine_kept.c: takes a leaf, on an error too, and copies its metric; finds it again, or NULL;
 * and forgets all of them. */
gram_status gram_machine_kept_add(gram_context *g, struct machine_kept *kept,
                                  struct machine_kept_leaf *one,
                                  const struct machine_metric *metric);
const struct machine_kept_leaf *gram_machine_kept_find(const struct machine_kept *kept,
                                                       const struct machine_params *params,
                                                       const struct machine_metric *metric,
                                                       int64_t centres, int64_t rows);
void gram_machine_kept_close(gram_context *g, struct machine_kept *kept);

/* What the scores of trials are told in. */
struct told {
    gram_transform transform;
    double unit; /* of a regression: the scale of its target; 0: classes */
};

struct large {
    struct machine_job *job;
    struct machine_data train, valid;
    int64_t centres; /* of the base */
    double ridge;    /* of solves of all rows of a leaf */
    bool alone;      /* the leaves stand without the base */
    int tried;
    int level; /* of its trials among those of the job */
    struct told told;
    struct machine_kept kept;
};

/* How errors of the outputs of a target become scores of trials. */
struct told gram_machine_told(const struct machine_target *target);

/* machine_choice.c: the weighted mean squared error of outputs; a copy in place of another choice;
 * the best leaf of so many centres on the first rows, at a path of ridges or near that of the
 * choice, whose error and ridge are set; params and rounds of feature learning, and such rounds
 * from a choice on, until one is worse; the rounds by which kernels and metrics are compared; and
 * the best choice of all that are tried, from params, of which begun (or NULL) has had these. */
double gram_machine_squared_error(const struct machine_data *data, const double *f);
gram_status gram_machine_choice_copy(gram_context *g, const struct choice *from, struct choice *to);
gram_status gram_machine_choice_train(gram_context *g, struct large *l, int64_t count, int64_t rows,
                                      bool near, struct choice *c, struct machine_leaf *leaf);
gram_status gram_machine_choice_try(gram_context *g, struct large *l,
                                    const struct machine_params *params, int64_t rows, int rounds,
                                    struct choice *best);
gram_status gram_machine_choice_go_on(gram_context *g, struct large *l, const struct choice *from,
                                      int64_t rows, int most, struct choice *best);
int gram_machine_choice_rounds(const struct large *l);
gram_status gram_machine_choose(gram_context *g, struct large *l,
                                const struct machine_params *params, const struct choice *begun,
                                struct choice *best);

/* machine_wide.c: whether a table has more rows than the search looks at, and is not large; and the
 * search's choice (params), which becomes that of machines of few centres if theirs is better. */
bool gram_machine_is_wide(const gram_context *g, const struct machine_job *job);
gram_status gram_machine_wide_choose(gram_context *g, struct machine_job *job,
                                     gram_transform transform, struct machine_params *params);

/* Whether that many rows are learned by centres and corrections. */
bool gram_machine_is_large(const gram_context *g, const struct machine_job *job, int64_t rows);

/* Trains on all rows, which come in random order.  params come as the search has chosen them, and
 * become those of the base.  The job gets the outputs of the rows that were held out. */
gram_status gram_machine_large_fit(gram_context *g, struct machine_job *job,
                                   const struct machine_data *all, struct machine_params *params,
                                   gram_machine *machine);

#endif
