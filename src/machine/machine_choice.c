/*
 * machine_choice.c - the kernel, the metric and the ridge of a large table, by rows held out
 *
 * Machines of few centres (machine_centres.c) are compared; machine_large.c says in which order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/view.h"
#include "machine_large.h"
#include <math.h>

enum {
    FIRST_CENTRES = 1000,
    FIRST_ROWS = 12000,
    SECOND_CENTRES = 3000, /* a metric from fewer is duller than that of 11,000 rows all of which
                              are centres */
    SECOND_ROWS = 36000,
    POINTS = 4096,  /* at which gradients are averaged */
    FEW_ROUNDS = 2, /* which say what a kernel or a metric is good for */
    FIRST_ROUNDS = 6,
    MORE_ROUNDS = 3
};

/* ---- Errors ---------------------------------------------------------------------------------- */

double gram_machine_squared_error(const struct machine_data *data, const double *f)
{
    double sum = 0, weights = 0;

    for (int64_t j = 0; j < data->outputs; j++)
        for (int64_t i = 0; i < data->rows; i++) {
            const int64_t at = j * data->rows + i;
            const double d = f[at] - krr_element(data->dtype, data->y, at);
            const double w = data->weights ? data->weights[i] : 1;

            sum += w * d * d;
            weights += w;
        }
    return sum / weights;
}

/* The standard error of such an error. */
static double spread_of(const struct machine_data *data, const double *f, double error)
{
    double weights = 0, squares = 0;

    for (int64_t i = 0; data->weights && i < data->rows; i++)
        weights += data->weights[i] / (double)data->rows;
    for (int64_t i = 0; i < data->rows; i++) {
        double sum = 0;

        for (int64_t j = 0; j < data->outputs; j++) {
            const int64_t at = j * data->rows + i;
            const double d = f[at] - krr_element(data->dtype, data->y, at);

            sum += d * d / (double)data->outputs;
        }
        sum = (data->weights ? data->weights[i] / weights : 1) * sum - error;
        squares += sum * sum;
    }
    return data->rows > 1 ? sqrt(squares / (double)(data->rows - 1) / (double)data->rows) : NAN;
}

static gram_status error_of(gram_context *g, const struct large *l, const struct machine_leaf *leaf,
                            double *out, double *spread)
{
    const size_t bytes = (size_t)(l->valid.rows * l->valid.outputs) * sizeof(double);
    double *f = gram_alloc(g, bytes);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict(g, leaf, l->valid.rows, l->valid.x, f);
    if (status == GRAM_OK)
        *out = gram_machine_squared_error(&l->valid, f);
    if (status == GRAM_OK)
        *spread = spread_of(&l->valid, f, *out);
    gram_free(g, f, bytes);
    return status;
}

/* ---- One choice ------------------------------------------------------------------------------ */

enum {
    MOST_RIDGES = 5
};

/* Ridges that are tried: the given one, a path, or those near the one of params. */
static int ridges_of(const struct large *l, const struct machine_params *params, bool near,
                     double *out)
{
    static const double path[] = {1e-3, 1e-2, 1e-1, 1}, around[] = {1, 0.1, 10};
    const int count = near ? 3 : 4;

    if (l->job->o.regularization > 0) {
        out[0] = l->job->o.regularization;
        return 1;
    }
    for (int i = 0; i < count; i++)
        out[i] = near ? params->ridge * around[i] : path[i];
    return count;
}

/* The best leaf of some ridges; its error is INFINITY where none can be solved.  */
static gram_status best_ridge(gram_context *g, const struct large *l,
                              const struct machine_centres *centres, const double *ridge, int count,
                              struct choice *c, struct machine_leaf *best)
{
    gram_status status = GRAM_OK;

    c->error = INFINITY;
    c->spread = NAN;
    for (int r = 0; status == GRAM_OK && r < count; r++) {
        struct machine_leaf leaf;
        double error = INFINITY, spread = NAN;

        status = gram_machine_centres_leaf(g, centres, ridge[r], &leaf);
        if (status == GRAM_OK)
            status = error_of(g, l, &leaf, &error, &spread);
        if (status == GRAM_OK && error < c->error) {
            struct machine_leaf former = *best;

            *best = leaf;
            leaf = former;
            c->error = error;
            c->spread = spread;
            c->params.ridge = ridge[r];
        }
        gram_machine_leaf_destroy(g, &leaf);
        if (status == GRAM_NUMERICAL) /* the ridge is too small */
            status = GRAM_OK;
    }
    return status;
}

struct told gram_machine_told(const struct machine_target *target)
{
    const struct machine_target *part = gram_machine_target_part(target, 0);
    struct told told = {.transform = part->transform, .unit = 1};

    if (target->classes > 0)
        return (struct told){.transform = GRAM_TRANSFORM_AUTO};
    if (target->parts == 0)
        told.unit = fabs(target->scale);
    return told;
}

/* Adds a choice that was trained to the trials of the job. */
static gram_status remember(gram_context *g, const struct large *l, const struct choice *c,
                            int64_t centres, int64_t rows, double began)
{
    const double error = c->error, outputs = (double)l->train.outputs, unit = l->told.unit;
    struct machine_tried one = {.params = c->params,
                                .transform = l->told.transform,
                                .rows = rows,
                                .centres = centres,
                                .held = l->valid.rows,
                                .level = l->level,
                                .score = unit > 0 ? unit * sqrt(error) : outputs * error,
                                .seconds = gram_seconds() - began};

    one.spread = unit > 0 ? unit * c->spread / (2 * sqrt(error)) : outputs * c->spread;
    return gram_machine_trials_add(g, &l->job->trials, &one);
}

/* Trains a choice with so many centres on the first rows; its error, its ridge and its leaf. */
gram_status gram_machine_choice_train(gram_context *g, struct large *l, int64_t count, int64_t rows,
                                      bool near, struct choice *c, struct machine_leaf *leaf)
{
    struct machine_centres centres = {0};
    double ridge[MOST_RIDGES];
    int ridges = ridges_of(l, &c->params, near, ridge);
    const double began = gram_seconds();
    gram_status status;

    l->tried++;
    *leaf = (struct machine_leaf){0};
    status = gram_machine_centres_open(g, &c->params, &c->metric, &l->train, count, &centres);
    if (status == GRAM_OK)
        status = gram_machine_centres_add(g, &centres, &l->train, rows);
    if (status == GRAM_OK)
        status = best_ridge(g, l, &centres, ridge, ridges, c, leaf);
    gram_machine_centres_close(g, &centres);
    if (status == GRAM_OK)
        status = remember(g, l, c, count, rows, began);
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, leaf);
    return status;
}

gram_status gram_machine_choice_copy(gram_context *g, const struct choice *from, struct choice *to)
{
    struct choice copy = *from;

    TRY(gram_machine_metric_copy(g, &from->metric, &copy.metric));
    gram_machine_metric_destroy(&to->metric);
    *to = copy;
    return GRAM_OK;
}

/* The next metric of a choice by the likelihood of the first rows, and its bandwidth. */
static gram_status learn_ard(gram_context *g, const struct large *l,
                             const struct machine_leaf *leaf, struct choice *c)
{
    const size_t bytes = (size_t)(l->train.rows * l->train.width) * gram_dtype_size(leaf->dtype);
    struct machine_data z = l->train;
    struct machine_learned learned = {0};
    struct krr_array there = {0}, placed = {0};
    gram_status status = gram_krr_send(g, l->train.x, bytes, &there);

    if (status == GRAM_OK)
        status = gram_krr_allocate(g, bytes + 1, &placed);
    if (status == GRAM_OK)
        status =
            gram_machine_metric_apply(g, &c->metric, leaf->dtype, z.rows, there.data, placed.data);
    z.x = placed.data;
    if (status == GRAM_OK)
        status = gram_machine_metric_learn(
            g, &(struct machine_gradients){&c->params, leaf->bandwidth, &z, &z, NULL}, &c->metric,
            &learned);
    gram_krr_free(g, &there);
    gram_krr_free(g, &placed);
    c->params.bandwidth = learned.bandwidth;
    return status;
}

/* The next metric of a choice, from the gradients of its leaf at rows that are no centres. */
static gram_status learn(gram_context *g, const struct large *l, const struct machine_leaf *leaf,
                         struct choice *c)
{
    struct machine_data at = l->train;
    int64_t first = leaf->rows;

    if (c->params.ard) {
        c->params.iterations++;
        return learn_ard(g, l, leaf, c);
    }
    at.rows = gram_least(POINTS, l->train.rows - first);
    at.x += (size_t)(first * at.width) * gram_dtype_size(at.dtype);
    c->params.iterations++;
    return gram_machine_centres_learn(g, &c->params, leaf, &at, &c->metric);
}

/* Trains a choice, or finds the leaf that it has had; it stays with those that are kept. */
static gram_status train_once(gram_context *g, struct large *l, int64_t count, int64_t rows,
                              struct choice *c, const struct machine_leaf **leaf)
{
    struct machine_kept_leaf one = {.p = c->params.p,
                                    .q = c->params.q,
                                    .bandwidth = c->params.bandwidth,
                                    .relative = c->params.relative_bandwidth,
                                    .centres = count,
                                    .rows = rows};
    const struct machine_kept_leaf *found =
        gram_machine_kept_find(&l->kept, &c->params, &c->metric, count, rows);

    if (!found) {
        TRY(gram_machine_choice_train(g, l, count, rows, false, c, &one.leaf));
        one.error = c->error;
        one.spread = c->spread;
        one.ridge = c->params.ridge;
        TRY(gram_machine_kept_add(g, &l->kept, &one, &c->metric));
        found = &l->kept.at[l->kept.count - 1];
    }
    c->error = found->error;
    c->spread = found->spread;
    c->params.ridge = found->ridge;
    *leaf = &found->leaf;
    return GRAM_OK;
}

/* The choice as it is, and then at most `most` rounds of feature learning, until one is worse;
 * best, which may be the choice itself, becomes the best of all of them if it is better. */
gram_status gram_machine_choice_go_on(gram_context *g, struct large *l, const struct choice *from,
                                      int64_t rows, int most, struct choice *best)
{
    const int64_t count = rows > FIRST_ROWS ? SECOND_CENTRES : FIRST_CENTRES;
    struct choice c = {0};
    double least = INFINITY;
    bool more = true;
    gram_status status;

    if (isfinite(best->error) && gram_machine_late(l->job))
        return GRAM_OK;
    status = gram_machine_choice_copy(g, from, &c);
    for (int round = 0; status == GRAM_OK && more; round++) {
        const struct machine_leaf *leaf = NULL;

        gram_machine_progress(l->job, 0.4 * fmin(1, l->tried / 40.0), "learning from centres");
        status = train_once(g, l, gram_least(count, l->centres), rows, &c, &leaf);
        if (status == GRAM_OK && c.error < best->error)
            status = gram_machine_choice_copy(g, &c, best);
        more = round < most && c.error < least && !gram_machine_late(l->job);
        least = fmin(least, c.error);
        if (status == GRAM_OK && more)
            status = learn(g, l, leaf, &c);
    }
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* A choice of params without a metric yet. */
static gram_status plain(gram_context *g, const struct large *l,
                         const struct machine_params *params, struct choice *out)
{
    *out = (struct choice){.params = *params, .error = INFINITY};
    out->params.iterations = 0;
    out->params.start = NULL;
    return gram_machine_metric_create(g, l->train.width, params->full, &out->metric);
}

gram_status gram_machine_choice_try(gram_context *g, struct large *l,
                                    const struct machine_params *params, int64_t rows, int rounds,
                                    struct choice *best)
{
    struct choice c;
    gram_status status = plain(g, l, params, &c);

    if (status == GRAM_OK)
        status = gram_machine_choice_go_on(g, l, &c, rows, rounds, best);
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* Kernels beside the one of params, which best has had or is to have. */
static gram_status try_kernels(gram_context *g, struct large *l, int64_t rows, int rounds,
                               const struct machine_params *params, struct choice *best)
{
    static const struct {
        double p, q;
    } kernels[] = {
        {  2, 1.4},
        {1.5, 1.4},
        {  2,   1},
        {  1,   1},
    };
    const gram_machine_options *o = &l->job->o;

    if (!isfinite(best->error))
        TRY(gram_machine_choice_try(g, l, params, rows, rounds, best));
    for (size_t i = 0; o->p == 0 && o->q == 0 && i < sizeof kernels / sizeof *kernels; i++) {
        struct machine_params other = *params;

        other.p = kernels[i].p;
        other.q = kernels[i].q;
        if (other.p != params->p || other.q != params->q)
            TRY(gram_machine_choice_try(g, l, &other, rows, rounds, best));
    }
    return GRAM_OK;
}

/* The other forms of the metric, and other powers. */
static gram_status try_metrics(gram_context *g, struct large *l, int64_t rows, int rounds,
                               struct choice *best)
{
    static const double powers[] = {0.25, 0.5, 1};
    const gram_machine_options *o = &l->job->o;
    const double power = best->params.power;
    const struct machine_params first = best->params;
    struct machine_params other = first;

    if (rounds == 0)
        return GRAM_OK;
    for (int form = 0; o->metric == GRAM_METRIC_AUTO && form < 3; form++) {
        other.full = form == 0;
        other.ard = form == 2;
        if ((other.full == first.full && other.ard == first.ard) ||
            (other.full && !gram_machine_full_metric(l->job, l->train.width)) ||
            (other.ard && !gram_machine_may_be_ard(l->job, l->train.width)))
            continue;
        TRY(gram_machine_choice_try(g, l, &other, rows, rounds, best));
    }
    for (size_t i = 0;
         o->metric_power == 0 && !best->params.ard && i < sizeof powers / sizeof *powers; i++) {
        other = best->params;
        other.power = powers[i];
        if (powers[i] != power)
            TRY(gram_machine_choice_try(g, l, &other, rows, rounds, best));
    }
    return GRAM_OK;
}

/* Doubles or halves the bandwidth as long as that is better. */
static gram_status try_bandwidths(gram_context *g, struct large *l, int64_t rows,
                                  struct choice *best)
{
    static const double factors[] = {2, 0.5};

    for (int direction = 0; l->job->o.bandwidth == 0 && direction < 2; direction++)
        for (int step = 0, better = 1; better && step < 3; step++) {
            struct choice c = *best; /* whose metric is borrowed */
            const double before = best->error;

            c.params.bandwidth *= factors[direction];
            TRY(gram_machine_choice_go_on(g, l, &c, rows, 0, best));
            better = best->error < before;
        }
    return GRAM_OK;
}

/* The metric that the search's choice learns where every row is a centre, of as many rows as a
 * leaf would take for it. */
static gram_status try_exact(gram_context *g, struct large *l, const struct machine_params *params,
                             int64_t rows, struct choice *best)
{
    struct choice c = {.params = *params};
    struct machine_report report = {0};
    gram_status status =
        gram_machine_learn_metric(g, l->job, params, &l->train, &c.metric, &report);

    if (status == GRAM_OK)
        status = gram_machine_choice_go_on(g, l, &c, rows, 0, best);
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* The most rounds of feature learning with the centres of the first rows. */
static int first_rounds(const struct large *l)
{
    const gram_machine_options *o = &l->job->o;

    if (o->iterations < 0 || l->train.width < 2)
        return 0;
    return o->iterations > 0 ? o->iterations : FIRST_ROUNDS;
}

int gram_machine_choice_rounds(const struct large *l)
{
    const int rounds = first_rounds(l);

    return rounds < FEW_ROUNDS ? rounds : FEW_ROUNDS;
}

/* The kernel, the metric, the bandwidth and about the ridge. */
gram_status gram_machine_choose(gram_context *g, struct large *l,
                                const struct machine_params *params, const struct choice *begun,
                                struct choice *best)
{
    const gram_machine_options *o = &l->job->o;
    const int64_t first = gram_least(FIRST_ROWS, l->train.rows);
    const int64_t second = gram_least(SECOND_ROWS, l->train.rows);
    const int rounds = first_rounds(l), few = gram_machine_choice_rounds(l);
    int more = rounds > 0 ? MORE_ROUNDS : 0;

    best->error = INFINITY;
    if (begun)
        TRY(gram_machine_choice_copy(g, begun, best));
    TRY(try_kernels(g, l, first, few, params, best));
    if (!isfinite(best->error))
        return gram_fail(g, GRAM_NUMERICAL, "no machine of centres could be trained");
    TRY(try_metrics(g, l, first, few, best));
    if (rounds > best->params.iterations)
        TRY(gram_machine_choice_go_on(g, l, best, first, rounds - best->params.iterations, best));
    TRY(try_bandwidths(g, l, first, best));
    if (second == first || gram_machine_late(l->job))
        return GRAM_OK;
    if (o->iterations > 0 && more > o->iterations - best->params.iterations)
        more = o->iterations - best->params.iterations;
    best->error = INFINITY; /* which was that of fewer centres */
    l->level++;
    TRY(gram_machine_choice_go_on(g, l, best, second, more, best));
    if (params->iterations == 0 || gram_machine_late(l->job))
        return GRAM_OK;
    return try_exact(g, l, params, second, best);
}
