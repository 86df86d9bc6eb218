/*
 * machine_leaves.c - the leaves of a machine, each on its own rows
 *
 * With feature learning, a leaf first learns its metric on a part of its rows against a validation
 * part, then solves once more for all its rows in the best metric.
 *
 * Where there are several leaves, some rows are left out of what predicts them, so that they can
 * say how softly rows are best routed to leaves, and how good the machine is.  They teach no
 * metric.  A factorisation of a leaf also tells what the leaf would be without them, so that
 * nothing is lost; where iterations solve, the leaves do without them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/view.h"
#include "machine_deal.h"
#include "machine_large.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALIDATION_ROWS = 8000, /* most rows that are held out to choose a metric */
    /* A metric is an average over rows: it settles long before the machine itself does, whose
     * solves grow with the square of the rows and more. */
    METRIC_ROWS = 6000,
    HALF_ROWS = 12000, /* or half of the rows up to so many: the others are left to be scored */
    METRIC_ROWS_EACH = 400, /* feature */
    ARD_ROWS = 1200         /* from which a metric is learned by a likelihood, once */
};

/* Some rows of encoded data, gathered. */
static gram_status part_of(gram_context *g, const struct machine_job *job,
                           const struct machine_data *all, const int64_t *rows, int64_t count,
                           struct machine_encoded *out)
{
    TRY(gram_machine_encoded_create(g, job, (int64_t[2]){count, all->width}, all->outputs, out));
    gram_machine_gather(all->dtype, all->width, all->x, rows, count, (char *)out->data.x);
    gram_machine_gather_columns(all->dtype, all->rows, all->outputs, all->y, rows, count,
                                (char *)out->data.y);
    for (int64_t i = 0; out->data.weights && all->weights && i < count; i++)
        ((double *)out->data.weights)[i] = all->weights[rows[i]];
    return GRAM_OK;
}

/* The last rows, by which the best round is chosen. */
static int64_t validation_rows(const struct machine_job *job, const struct machine_params *params,
                               int64_t rows)
{
    double fraction = job->o.validation > 0 ? job->o.validation : 0.2;

    if (params->rounds_known)
        return 0;
    return gram_least(gram_most(1, (int64_t)(fraction * (double)rows)), VALIDATION_ROWS);
}

/* The first rows, from which a metric is learned. */
static int64_t metric_rows(const struct machine_job *job, const struct machine_params *params,
                           const struct machine_data *all)
{
    int64_t most = job->o.metric_rows;

    if (most == 0 && params->ard)
        most = ARD_ROWS;
    else if (most == 0)
        most = gram_most(gram_most(METRIC_ROWS, METRIC_ROWS_EACH * all->width),
                         gram_least(all->rows / 2, HALF_ROWS));
    return gram_least(most, all->rows - validation_rows(job, params, all->rows));
}

int64_t gram_machine_metric_rows(const struct machine_job *job, const struct machine_params *params,
                                 int64_t rows, int64_t width)
{
    return metric_rows(job, params, &(struct machine_data){.rows = rows, .width = width});
}

/* The tolerance of solves whose gradients are averaged, in units of the one that was asked for. */
static const double coarse = 3;

/* A number of rounds that is known: the last metric comes from the leaf in the one before. */
static gram_status learn_rounds(gram_context *g, const struct machine_params *params,
                                const struct machine_data *train, struct machine_metric *out,
                                struct machine_report *report)
{
    const struct machine_data none = {0};
    struct machine_params before = *params;
    struct machine_data z = *train;
    struct machine_leaf leaf = {0};
    double start;
    gram_status status;

    before.iterations--;
    before.loss = GRAM_LOSS_SQUARED;
    before.tolerance = fmin(coarse * params->tolerance, 0.5);
    status = gram_machine_leaf_fit(g, &before, train, &none, &leaf, report);
    start = gram_seconds();
    z.x = leaf.x;
    if (status == GRAM_OK)
        status = gram_machine_metric_copy(g, &leaf.metric, out);
    if (status == GRAM_OK)
        status = gram_machine_metric_learn(
            g, &(struct machine_gradients){params, leaf.bandwidth, &z, &z, leaf.alpha}, out, NULL);
    report->feature_seconds += gram_seconds() - start;
    report->rounds = params->iterations;
    gram_machine_leaf_destroy(g, &leaf);
    return status;
}

gram_status gram_machine_learn_metric(gram_context *g, const struct machine_job *job,
                                      const struct machine_params *params,
                                      const struct machine_data *all, struct machine_metric *out,
                                      struct machine_report *report)
{
    int64_t held = validation_rows(job, params, all->rows);
    int64_t *rows = malloc((size_t)all->rows * sizeof *rows + 1);
    struct machine_encoded train = {0}, valid = {0};
    struct machine_params once = *params;
    struct machine_leaf leaf = {0};
    gram_status status;

    once.loss = GRAM_LOSS_SQUARED;
    if (!rows)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)all->rows);
    once.ard_rows = (int64_t)(ARD_ROWS * fmin(1, sqrt(16.0 / (double)all->width)));
    once.ard_rows = gram_most(once.ard_rows, ARD_ROWS / 2);
    for (int64_t i = 0; i < all->rows; i++)
        rows[i] = i;
    status = part_of(g, job, all, rows, metric_rows(job, params, all), &train);
    if (status == GRAM_OK)
        status = part_of(g, job, all, rows + all->rows - held, held, &valid);
    if (status == GRAM_OK && held == 0)
        status = learn_rounds(g, &once, &train.data, out, report);
    else if (status == GRAM_OK)
        status = gram_machine_leaf_fit(g, &once, &train.data, &valid.data, &leaf, report);
    if (status == GRAM_OK && held > 0)
        status = gram_machine_metric_copy(g, &leaf.metric, out);
    gram_machine_leaf_destroy(g, &leaf);
    gram_machine_encoded_destroy(g, &train);
    gram_machine_encoded_destroy(g, &valid);
    free(rows);
    return status;
}

/* Outputs of rows that nothing has learned from become those of the job. */
static gram_status take_held(gram_context *g, struct machine_job *job, struct machine_held_out held)
{
    free(job->held.f);
    gram_machine_target_return(&job->held.scale);
    job->held = held;
    job->held_apart = true;
    return gram_machine_target_borrow(g, &job->kind, &job->held.scale);
}

/* The ridge of params is chosen once more, and the outputs of rows that were held out for it become
 * those of the job.  leaf is that of the other rows. */
static gram_status refit(gram_context *g, struct machine_job *job, struct machine_params *params,
                         const struct machine_data *data, struct machine_report *report,
                         struct machine_leaf *leaf)
{
    struct machine_held_out held;

    TRY(gram_machine_refit(g, params, data, job->ends, report, &held, leaf));
    params->guess = leaf->rows > 0 ? leaf : NULL;
    return held.f ? take_held(g, job, held) : GRAM_OK;
}

/* What a leaf is trained on. */
struct task {
    struct machine_job *job;
    const struct machine_data *data;
    int64_t held; /* the last rows of data, to be left out of their outputs */
    double *f;    /* to which these are added, those of a row side by side */
    bool alone;   /* the leaf is the whole machine */
};

/* f += weight times the outputs at the rows that are held, from alpha (rows by outputs + held) with
 * a unit vector of each of them as a further right-hand side: with the rows and columns B of
 * (K + D)^-1 that are theirs, y - B^-1 alpha is what all other rows alone would predict.  NaN where
 * B cannot be factorised. */
static gram_status add_left_out(gram_context *g, const struct task *t, const void *alpha,
                                double weight)
{
    const struct machine_data *data = t->data;
    const int64_t n = data->rows, each = data->outputs, h = t->held;
    const size_t bytes = (size_t)(h * (h + each)) * sizeof(double);
    double *b = gram_alloc(g, bytes), *r = b + h * h;
    bool factorised;

    if (!b)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t j = 0; j < h + each; j++)
        for (int64_t i = 0; i < h; i++)
            (j < each ? r + j * h : b + (j - each) * h)[i] =
                krr_element(data->dtype, alpha, j * n + n - h + i);
    gram_blas_threads(g);
    factorised = gram_blas_potrf(GRAM_F64, GRAM_LOWER, h, b, h) == 0;
    if (factorised)
        gram_blas_potrs(GRAM_F64, GRAM_LOWER, h, each, b, h, r, h);
    for (int64_t j = 0; j < each; j++)
        for (int64_t i = 0; i < h; i++) {
            const double y = krr_element(data->dtype, data->y, j * n + n - h + i);

            t->f[i * each + j] += factorised ? weight * (y - r[j * h + i]) : NAN;
        }
    gram_free(g, b, bytes);
    return GRAM_OK;
}

/* The leaf of all rows by a factorisation, and what it is without those that are held. */
static gram_status solve_and_leave_out(gram_context *g, const struct task *t,
                                       const struct machine_params *params, double weight,
                                       struct machine_report *report, struct machine_leaf *out)
{
    const struct machine_data none = {0};
    const int64_t n = t->data->rows, each = t->data->outputs;
    const size_t size = gram_dtype_size(t->data->dtype);
    const size_t bytes = (size_t)(n * (each + t->held)) * size;
    struct machine_data more = *t->data;
    char *y = gram_alloc(g, bytes), *less;
    gram_status status;

    if (!y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(y, 0, bytes);
    memcpy(y, t->data->y, (size_t)(n * each) * size);
    for (int64_t i = 0; i < t->held; i++)
        krr_set_element(more.dtype, y, (each + i) * n + n - t->held + i, 1);
    more.y = y;
    more.outputs += t->held;
    status = gram_machine_leaf_fit(g, params, &more, &none, out, report);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, y, out->alpha, bytes);
    if (status == GRAM_OK)
        status = add_left_out(g, t, y, weight);
    out->outputs = each;
    less = out->device.type == GRAM_CPU && out->alpha
               ? realloc(out->alpha, (size_t)(n * each) * size + 1)
               : NULL;
    out->alpha = less ? less : out->alpha;
    gram_free(g, y, bytes);
    return status;
}

/* The leaf of the rows that are not held, and its outputs at the others. */
static gram_status solve_without(gram_context *g, const struct task *t,
                                 const struct machine_data *rest,
                                 const struct machine_params *params, double weight,
                                 struct machine_report *report, struct machine_leaf *out)
{
    const struct machine_data none = {0}, *data = t->data;
    const size_t row = (size_t)data->width * gram_dtype_size(data->dtype);
    const size_t bytes = (size_t)(t->held * data->outputs) * sizeof(double);
    double *f = gram_alloc(g, bytes);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_fit(g, params, rest, &none, out, report);
    if (status == GRAM_OK)
        status = gram_machine_leaf_predict(g, out, t->held, data->x + (size_t)rest->rows * row, f);
    for (int64_t j = 0; status == GRAM_OK && j < data->outputs; j++)
        for (int64_t i = 0; i < t->held; i++)
            t->f[i * data->outputs + j] += weight * f[j * t->held + i];
    gram_free(g, f, bytes);
    return status;
}

void gram_machine_report_add(struct machine_report *sum, const struct machine_report *one)
{
    sum->kernel_seconds += one->kernel_seconds;
    sum->solve_seconds += one->solve_seconds;
    sum->feature_seconds += one->feature_seconds;
    sum->iterations = one->iterations > sum->iterations ? one->iterations : sum->iterations;
    sum->residual = fmax(sum->residual, one->residual);
    sum->change = fmax(sum->change, one->change);
    sum->ridge = fmax(sum->ridge, one->ridge);
}

/* Learns the metric of a leaf from the rows that are not held. */
static gram_status learn_metric(gram_context *g, const struct task *t,
                                const struct machine_params *params,
                                const struct machine_data *rest, struct machine_metric *metric,
                                struct machine_report *report)
{
    struct machine_job *job = t->job;

    gram_machine_progress(job, 0, "learning which features matter");
    TRY(gram_machine_learn_metric(g, job, params, rest, metric, report));
    job->report.rounds = report->rounds > job->report.rounds ? report->rounds : job->report.rounds;
    job->report.score += report->score * (double)t->data->rows;
    report->ridge = 0; /* that of the last solve is told */
    gram_machine_progress(job, 0.7, *job->about ? job->about : "training"); /* after two solves */
    return GRAM_OK;
}

/* Trains one leaf on all rows of data, its metric first if the recipe learns one. */
static gram_status train_leaf(gram_context *g, const struct task *t, struct machine_params *params,
                              double weight, struct machine_leaf *out)
{
    const struct machine_data none = {0}, *data = t->data;
    const size_t bytes = (size_t)(data->rows * data->outputs) * gram_dtype_size(data->dtype);
    struct machine_params last = *params;
    struct machine_data rest = *data;
    struct machine_metric metric = {0};
    struct machine_leaf without = {0};
    struct machine_report report = {0};
    char *y = t->held > 0 ? gram_alloc(g, bytes) : NULL;
    int64_t seen = 0;
    gram_status status = GRAM_OK;

    if (t->held > 0 && !y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    if (t->held > 0)
        rest = gram_machine_part(data, 0, data->rows - t->held, y);
    gram_machine_progress(t->job, 0, *t->job->about ? t->job->about : "training");
    if (params->iterations > 0 && rest.rows >= 10) {
        status = learn_metric(g, t, params, &rest, &metric, &report);
        last.start = &metric;
        seen = metric_rows(t->job, params, &rest);
    }
    last.iterations = 0;
    last.shared = t->job;
    if (status == GRAM_OK && t->alone && gram_machine_refit_pays(t->job, data->rows, seen))
        status = refit(g, t->job, &last, data, &report, &without);
    if (status == GRAM_OK && t->held == 0)
        status = gram_machine_leaf_fit(g, &last, data, &none, out, &report);
    else if (status == GRAM_OK && gram_machine_by_cholesky(g, last.solver, data->rows))
        status = solve_and_leave_out(g, t, &last, weight, &report, out);
    else if (status == GRAM_OK)
        status = solve_without(g, t, &rest, &last, weight, &report, out);
    params->ridge = last.ridge;
    gram_machine_leaf_destroy(g, &without);
    gram_machine_metric_destroy(&metric);
    gram_free(g, y, bytes);
    gram_machine_report_add(&t->job->report, &report);
    return status;
}

/* Variance of every feature: how much of its range the data use.  Rows after rows, as they lie. */
static void variances(const struct machine_data *data, double *mean, double *variance)
{
    for (int64_t j = 0; j < data->width; j++)
        mean[j] = variance[j] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < data->rows; i++)
            for (int64_t j = 0; j < data->width; j++) {
                double v = krr_element(data->dtype, data->x, i * data->width + j);

                if (pass == 0)
                    mean[j] += v / (double)data->rows;
                else
                    variance[j] += (v - mean[j]) * (v - mean[j]) / (double)data->rows;
            }
}

/* Adds a leaf's mean squared gradient, times the variance of the feature, the weight of its member
 * and its rows, to its column. */
static gram_status add_importance(gram_context *g, const struct machine_params *params,
                                  const double *variance, const struct machine_leaf *leaf,
                                  double weight, gram_machine *machine)
{
    const struct gram_encoder *encoder = machine->encoder;
    const int64_t width = leaf->width, step = leaf->metric.full ? width + 1 : 1;
    const size_t bytes = (size_t)(leaf->metric.full ? width * width : width) * sizeof(double);
    struct machine_data z = {
        .rows = leaf->rows, .width = width, .outputs = leaf->outputs, .dtype = leaf->dtype};
    double *agop = gram_alloc(g, bytes);
    struct krr_array x = {0}, alpha = {0};
    gram_status status;

    if (!agop)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_place(g, leaf, &x, &alpha);
    z.x = x.data;
    if (status == GRAM_OK)
        status = gram_machine_metric_agop(
            g, &(struct machine_gradients){params, leaf->bandwidth, &z, &z, alpha.data},
            &leaf->metric, agop);
    gram_krr_free(g, &x);
    gram_krr_free(g, &alpha);
    for (int64_t c = 0; status == GRAM_OK && c < encoder->columns; c++)
        for (int64_t j = 0; j < encoder->column[c].width; j++) {
            const int64_t at = encoder->column[c].first + j;

            machine->importance[c] += weight * agop[at * step] * variance[at] * (double)leaf->rows;
        }
    gram_free(g, agop, bytes);
    return status;
}

/* The same of some leaves, with the variances of data. */
static gram_status weigh(gram_context *g, const struct machine_params *params,
                         const struct machine_data *data, const struct machine_leaf *leaf,
                         int64_t leaves, double weight, gram_machine *machine)
{
    const size_t bytes = 2 * (size_t)data->width * sizeof(double);
    double *variance = gram_alloc(g, bytes);
    gram_status status = GRAM_OK;

    if (!variance)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    variances(data, variance + data->width, variance);
    for (int64_t i = 0; status == GRAM_OK && i < leaves; i++)
        status = add_importance(g, params, variance, &leaf[i], weight, machine);
    gram_free(g, variance, bytes);
    return status;
}

/* One member's leaf on the rows of data, and what it adds to the importances. */
static gram_status train_member(gram_context *g, const struct task *t,
                                struct machine_params *params, double weight, gram_machine *machine,
                                struct machine_leaf *leaf)
{
    gram_status status = train_leaf(g, t, params, weight, leaf);

    gram_machine_progress(t->job, 0.9, "weighing features");
    if (status == GRAM_OK)
        status = weigh(g, params, t->data, leaf, 1, weight, machine);
    if (status == GRAM_OK)
        status = gram_machine_leaf_settle(g, leaf);
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, leaf);
    return status;
}

/* All members of one leaf. */
static gram_status train_members(gram_context *g, const struct task *t,
                                 struct machine_recipe *recipe, int64_t leaf, gram_machine *machine)
{
    struct machine_job *job = t->job;
    const double from = job->from, to = job->to;
    gram_status status = GRAM_OK;

    for (int m = 0; status == GRAM_OK && m < recipe->members; m++) {
        job->from = from + (to - from) * m / recipe->members;
        job->to = from + (to - from) * (m + 1) / recipe->members;
        status = train_member(g, t, &recipe->member[m].params, recipe->member[m].weight, machine,
                              &machine->leaf[m * machine->leaves + leaf]);
    }
    return status;
}

/* ---- Rows that are left out ------------------------------------------------------------------ */

enum {
    HELD_SHARE = 25, /* one row in so many, where that costs no rows, but a column of the solve */
    LOST_SHARE = 50, /* or where it does */
    MOST_HELD = 2000,
    LEAST_HELD = 50
};

/* How many of the last rows of all are left out of what predicts them; 0: none. */
static int64_t held_rows(const gram_context *g, const struct machine_job *job, int64_t rows,
                         int64_t leaves)
{
    const bool exact = gram_machine_by_cholesky(g, job->o.solver, job->leaf_rows);
    const int64_t held = gram_least(rows / (exact ? HELD_SHARE : LOST_SHARE), MOST_HELD);

    return leaves < 2 || job->o.search < 0 || held < LEAST_HELD ? 0 : held;
}

static void left_out_close(struct machine_left_out *l)
{
    free(l->first);
    free(l->row);
    free(l->f);
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Puts the rows that are held last in every leaf, in order, and notes them. */
static gram_status left_out_open(gram_context *g, const struct machine_data *all, int64_t held,
                                 struct machine_leaf_rows *rows, struct machine_left_out *l)
{
    const int64_t entries = rows->first[rows->leaves];
    const size_t room = (size_t)entries * sizeof(int64_t) + 1;
    int64_t *back = malloc(room);

    l->first = calloc((size_t)rows->leaves + 1, sizeof *l->first);
    l->row = malloc(room);
    for (int64_t i = 0; back && l->first && l->row && i < rows->leaves; i++) {
        int64_t *row = rows->row + rows->first[i], count = rows->first[i + 1] - rows->first[i];
        int64_t kept = 0, out = 0;

        for (int64_t r = 0; r < count; r++)
            if (row[r] < all->rows - held)
                row[kept++] = row[r];
            else
                back[out++] = row[r];
        memcpy(row + kept, back, (size_t)out * sizeof *row);
        qsort(row + kept, (size_t)out, sizeof *row, by_number);
        for (int64_t r = 0; r < out; r++)
            l->row[l->first[i] + r] = row[kept + r] - (all->rows - held);
        l->first[i + 1] = l->first[i] + out;
    }
    if (l->first && l->row)
        l->f = calloc((size_t)(l->first[rows->leaves] * all->outputs) + 1, sizeof *l->f);
    free(back);
    return back && l->f
               ? GRAM_OK
               : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)entries);
}

/* The temperature by the rows that are held, whose outputs become those of the job. */
static gram_status choose_routing(gram_context *g, struct machine_job *job,
                                  const struct machine_data *all, int64_t held,
                                  const struct machine_left_out *l, gram_machine *machine)
{
    const int64_t count = held * all->outputs;
    const size_t bytes = (size_t)count * gram_dtype_size(all->dtype);
    char *y = gram_alloc(g, bytes);
    double *f = malloc((size_t)count * sizeof *f + 1);
    struct machine_data valid;
    bool finite = true;
    gram_status status = GRAM_OK;

    if (!y || !f)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)held);
    if (status == GRAM_OK) {
        valid = gram_machine_part(all, all->rows - held, held, y);
        status = gram_machine_routing_choose(g, machine, &valid, l, NULL, job->o.temperature, f);
    }
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        finite &= isfinite(f[i]) != 0;
    if (status == GRAM_OK && finite) {
        status = take_held(
            g, job, (struct machine_held_out){.first = all->rows - held, .count = held, .f = f});
        f = NULL;
    }
    gram_free(g, y, bytes);
    free(f);
    return status;
}

/* ---- All leaves ------------------------------------------------------------------------------ */

/* What leaves are trained on and by. */
struct leaves {
    struct machine_recipe *recipe;
    const struct machine_data *all;
    const struct machine_leaf_rows *rows;
    const struct machine_left_out *left_out; /* f NULL: nothing is */
};

/* One leaf, for gram_machine_deal. */
static gram_status train_one(gram_context *g, const struct machine_deal *d, struct machine_job *job,
                             int64_t leaf, gram_machine *machine)
{
    const struct leaves *of = d->user;
    const struct machine_left_out *l = of->left_out;
    const int64_t *first = of->rows->first + leaf;
    struct machine_recipe recipe = *of->recipe; /* contexts have one each */
    struct machine_encoded part = {0};
    struct task t = {.job = job, .data = &part.data, .alone = d->leaves * recipe.members == 1};
    gram_status status = GRAM_OK;

    if (l->f) {
        t.held = l->first[leaf + 1] - l->first[leaf];
        t.f = l->f + l->first[leaf] * of->all->outputs;
    }
    if (d->leaves == 1)
        part.data = *of->all;
    else
        status = part_of(g, job, of->all, of->rows->row + first[0], first[1] - first[0], &part);
    if (status == GRAM_OK)
        status = train_members(g, &t, &recipe, leaf, machine);
    gram_machine_encoded_destroy(g, &part);
    if (d->leaves == 1)
        *of->recipe = recipe; /* with the ridges that were chosen */
    return status;
}

static gram_status train_each(gram_context *g, struct machine_job *job,
                              struct machine_recipe *recipe, const struct machine_data *all,
                              const struct machine_leaf_rows *rows,
                              const struct machine_left_out *l, gram_machine *machine)
{
    struct leaves of = {recipe, all, rows, l};
    const struct machine_deal deal = {.job = job,
                                      .machine = machine,
                                      .leaves = rows->leaves,
                                      .columns = machine->encoder->columns,
                                      .from = job->from,
                                      .to = 1,
                                      .train = train_one,
                                      .user = &of,
                                      .first = l->first,
                                      .each = all->outputs,
                                      .at = l->f};

    return gram_machine_deal(g, &deal);
}

/* The tree, the rows of its leaves, and how many rows are left out: those of the first rank. */
static gram_status split(gram_context *g, struct machine_job *job,
                         const struct machine_recipe *recipe, const struct machine_data *all,
                         gram_machine *machine, struct machine_leaf_rows *rows, int64_t *held)
{
    const bool first = gram_machine_first(job);
    gram_status status = GRAM_OK;

    *held = 0;
    gram_machine_progress(job, 0, all->rows > job->leaf_rows ? "splitting" : "training");
    if (first)
        status = gram_machine_tree_build(g, &recipe->member[0].params, all, job->leaf_rows,
                                         job->o.trees, &machine->tree, rows);
    machine->tree.temperature = fmax(0, job->o.temperature);
    if (first && status == GRAM_OK)
        *held = held_rows(g, job, all->rows, rows->leaves);
    TRY(gram_machine_ranks_rows(g, job, status, rows));
    return gram_machine_ranks_spread(g, job, GRAM_OK, held, sizeof *held);
}

gram_status gram_machine_train_leaves(gram_context *g, struct machine_job *job,
                                      struct machine_recipe *recipe, const struct machine_data *all,
                                      gram_machine *machine)
{
    struct machine_leaf_rows rows = {0};
    struct machine_left_out l = {0};
    int64_t held = 0;
    gram_status status;

    job->from = job->to, job->to = 1; /* after the search's share, if there was one */
    machine->members = recipe->members;
    status = split(g, job, recipe, all, machine, &rows, &held);
    if (status == GRAM_OK)
        machine->leaf = calloc((size_t)(rows.leaves * recipe->members), sizeof *machine->leaf);
    if (status == GRAM_OK && !machine->leaf)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves");
    machine->leaves = machine->leaf ? rows.leaves : 0;
    if (status == GRAM_OK && held > 0)
        status = left_out_open(g, all, held, &rows, &l);
    if (status == GRAM_OK)
        status = train_each(g, job, recipe, all, &rows, &l, machine);
    if (status == GRAM_OK && held > 0 && gram_machine_first(job))
        status = choose_routing(g, job, all, held, &l, machine);
    left_out_close(&l);
    gram_machine_leaf_rows_destroy(&rows);
    return status;
}

/* A large table: what all rows have trained says which features matter, or all leaves, by their
 * rows, where these stand alone. */
gram_status gram_machine_train_large(gram_context *g, struct machine_job *job,
                                     struct machine_recipe *recipe, const struct machine_data *all,
                                     gram_machine *machine)
{
    struct machine_params *params = &recipe->member[0].params;

    job->from = job->to;
    job->to = 1;
    recipe->members = 1;
    TRY(gram_machine_large_fit(g, job, all, params, machine));
    if (!gram_machine_first(job)) /* which has all leaves */
        return GRAM_OK;
    gram_machine_progress(job, 0.95, "weighing features");
    if (machine->base.rows > 0)
        return weigh(g, params, all, &machine->base, 1, 1, machine);
    return weigh(g, params, all, machine->leaf, machine->leaves, 1, machine);
}
