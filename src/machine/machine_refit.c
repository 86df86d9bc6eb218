/*
 * machine_refit.c - the ridge and the score of a leaf of many rows, by a part of them
 *
 * The search leaves out each of 3,000 rows at most, and a machine of many more rows wants another
 * ridge, is better than its score says, and surer than its calibration.  So the last rows, which
 * have not taught the metric, are held out of solves at some ridges.  Their outputs at the best one
 * give the score, and the leaf is solved once more with them.
 *
 * Where iterations solve, each begins with the coefficients of the best ridge so far, the last one
 * with them for the rows that were not held out.  While ridges are compared a larger residual will
 * do: what it changes in the outputs is a few hundredths of their errors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/view.h"
#include "machine_large.h"
#include "machine_logistic.h"
#include <math.h>
#include <stdlib.h>

enum {
    LEAST_ROWS = 6000, /* of a leaf: of fewer the search looks at half of them or more */
    SHARE = 10,        /* of the rows that are held out: one in so many */
    MOST_HELD = 2000,
    MOST_STEPS = 3 /* from the ridge that was chosen from fewer rows, up or down */
};

static const double step = 4, least_ridge = 1e-5; /* what single precision resolves */

/* The tolerance of the solves that are compared, in units of the one that was asked for; and the
 * share of the error that is left by a ridge that is better. */
static const double coarse = 3, better_share = 0.999;

/* The rows that are held out, those that are not, and the outputs of the best solve so far. */
struct refit {
    struct machine_data valid, train;
    char *y; /* of both, so that each part's targets lie output after output */
    size_t bytes;
    double *f, *tried; /* column-major, from malloc */
    double error;
    struct machine_leaf leaf; /* of the best solve */
    double ends;              /* gram_seconds() after which no other ridge is tried; 0: none */
    struct machine_report *report;
};

static int64_t held_rows(int64_t rows)
{
    return gram_least(rows / SHARE, MOST_HELD);
}

static void refit_close(gram_context *g, struct refit *r)
{
    gram_machine_leaf_destroy(g, &r->leaf);
    gram_free(g, r->y, r->bytes);
    free(r->f);
    free(r->tried);
}

static gram_status refit_open(gram_context *g, const struct machine_data *data,
                              struct machine_report *report, struct refit *r)
{
    const int64_t held = held_rows(data->rows), rest = data->rows - held;
    const size_t size = gram_dtype_size(data->dtype);
    const size_t outputs = (size_t)(held * data->outputs) * sizeof *r->f;

    *r = (struct refit){
        .bytes = (size_t)(data->rows * data->outputs) * size, .error = INFINITY, .report = report};
    r->y = gram_alloc(g, r->bytes);
    r->f = malloc(outputs);
    r->tried = malloc(outputs);
    if (!r->y || !r->f || !r->tried)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the targets of %lld rows",
                         (long long)data->rows);
    r->train = gram_machine_part(data, 0, rest, r->y);
    r->valid = gram_machine_part(data, rest, held, r->y + (size_t)(rest * data->outputs) * size);
    return GRAM_OK;
}

/* A solve at a ridge; whether it is better than those before.  One that breaks down is not. */
static gram_status attempt(gram_context *g, struct refit *r, const struct machine_params *params,
                           bool *better)
{
    const struct machine_data none = {0};
    struct machine_params rough = *params;
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    double error = INFINITY;
    gram_status status;

    rough.tolerance = fmin(coarse * params->tolerance, 0.5);
    rough.guess = r->leaf.rows > 0 ? &r->leaf : NULL;
    status = gram_machine_leaf_fit(g, &rough, &r->train, &none, &leaf, &report);

    if (status == GRAM_OK)
        status = gram_machine_leaf_predict(g, &leaf, r->valid.rows, r->valid.x, r->tried);
    if (status == GRAM_OK)
        error = params->loss == GRAM_LOSS_LOGISTIC
                    ? gram_machine_logistic_error(&r->valid, r->tried)
                    : gram_machine_squared_error(&r->valid, r->tried);
    r->report->kernel_seconds += report.kernel_seconds;
    r->report->solve_seconds += report.solve_seconds;
    *better = error < better_share * r->error;
    if (*better) {
        struct machine_leaf worse = r->leaf;
        double *former = r->f;

        r->f = r->tried;
        r->tried = former;
        r->error = error;
        r->leaf = leaf;
        leaf = worse;
    }
    gram_machine_leaf_destroy(g, &leaf);
    return status == GRAM_NUMERICAL ? GRAM_OK : status;
}

/* Ridges in one direction, as long as they are better. */
static gram_status walk(gram_context *g, struct refit *r, double factor,
                        struct machine_params *params)
{
    bool more = true;

    for (int i = 0; more && i < MOST_STEPS; i++) {
        struct machine_params other = *params;

        other.ridge *= factor;
        more = other.ridge >= least_ridge && (r->ends == 0 || gram_seconds() < r->ends);
        if (more)
            TRY(attempt(g, r, &other, &more));
        if (more)
            params->ridge = other.ridge;
    }
    return GRAM_OK;
}

bool gram_machine_refit_pays(const struct machine_job *job, int64_t rows, int64_t seen)
{
    return job->o.search >= 0 && rows >= LEAST_ROWS && rows - seen >= held_rows(rows);
}

gram_status gram_machine_refit(gram_context *g, struct machine_params *params,
                               const struct machine_data *data, double ends,
                               struct machine_report *report, struct machine_held_out *held,
                               struct machine_leaf *leaf)
{
    const double ridge = params->ridge;
    /* By the logistic loss a ridge takes as long as some by least squares. */
    const bool varies = params->ridge_chosen && params->loss != GRAM_LOSS_LOGISTIC;
    struct refit r;
    bool better;
    gram_status status = refit_open(g, data, report, &r);

    r.ends = ends;
    if (status == GRAM_OK)
        status = attempt(g, &r, params, &better);
    if (status == GRAM_OK && varies)
        status = walk(g, &r, step, params);
    if (status == GRAM_OK && varies && params->ridge == ridge)
        status = walk(g, &r, 1 / step, params);
    *held = (struct machine_held_out){0};
    *leaf = (struct machine_leaf){0};
    if (status == GRAM_OK && isfinite(r.error)) {
        *held = (struct machine_held_out){
            .first = data->rows - r.valid.rows, .count = r.valid.rows, .f = r.f};
        r.f = NULL;
        *leaf = r.leaf;
        r.leaf = (struct machine_leaf){0};
    }
    refit_close(g, &r);
    return status;
}
