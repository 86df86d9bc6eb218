/*
 * machine_large.c - large tables: a machine of few centres on all rows, and leaves beside it
 *
 * A part of the rows is held out, and every choice is made by its mean squared error, in which rows
 * count by their weights:
 *
 *   1. kernels, forms and powers of the metric, rounds of feature learning, bandwidths, with 1,000
 *      centres on 12,000 rows: a metric from many rows is sharper than one from few, and a round
 *      costs n m^2 multiplications instead of n^3 (machine_choice.c);
 *   2. more rounds of the winner with 3,000 centres on up to 36,000 rows, and beside it the metric
 *      that the search's choice learns where every row is a centre;
 *   3. the base: as many centres as the work allows, on all rows but those held out, at ridges
 *      around that of the winner;
 *   4. a tree of leaves, each a solve of all of its rows, in the metric and at the bandwidth of the
 *      base.  The first leaf says, at some ridges, whether they are to learn what the base leaves
 *      over or to stand alone.  They are kept if the rows held out are predicted better with them.
 *
 * The outputs of these rows also give the score, the probabilities and the intervals.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include "core/view.h"
#include "machine_centres.h"
#include "machine_deal.h"
#include <math.h>
#include <stdlib.h>

enum {
    /* From here on a table is large by itself, on a CPU: an exact solve of 30,000 rows takes 72 s
     * of a core, and its time grows with the square of the rows.  SPLIT_ROWS: where memory wants a
     * tree anyway.  A GPU solves large leaves so quickly that centres only took longer. */
    LARGE_ROWS = 80000,
    SPLIT_ROWS = 50000,
    HELD_ROWS = 4000, /* most rows that are held out, at most a tenth */
    LEAST_CENTRES = 16,
    FEW_CENTRES = 2000, /* of a table that is large by itself */
    MOST_CENTRES = 10000,
    FEW_LEAF_ROWS = 4000,
    LEAST_FIRST = 30 /* rows held out in the first leaf, by which the leaves are chosen */
};

/* The work of a fit on a CPU: multiplications n m^2 of the base, of which a core does some 2e10 a
 * second in f64, and pairs n n_leaf of the corrections, of which it does some 1e7, all iterations
 * included (AMD EPYC, Zen 4). */
static const double host_products = 2e12, host_pairs = 1e9;

static bool on_host(const gram_context *g)
{
    return gram_context_device(g).type == GRAM_CPU;
}

/* ---- Whether, and how many centres ----------------------------------------------------------- */

static int64_t held_rows(int64_t rows)
{
    return gram_least(HELD_ROWS, rows / 10);
}

/* The centres of the base for that many rows; 0 where a table is not large. */
static int64_t centres_of(const gram_context *g, const struct machine_job *job, int64_t rows)
{
    const double memory = job->memory / (4.0 * (double)gram_machine_centres_bytes(1));
    int64_t train = rows - held_rows(rows), m = (int64_t)sqrt(host_products / (double)train);

    if (job->o.centres > 0)
        return gram_least(job->o.centres, train / 2);
    if (job->o.centres < 0 || !on_host(g) || job->o.search < 0 || job->o.ensemble > 1 ||
        rows < (job->leaf_rows < rows ? SPLIT_ROWS : LARGE_ROWS))
        return 0;
    m = gram_least(gram_most(m, FEW_CENTRES), MOST_CENTRES);
    m = gram_least(gram_least(m, train / 8), (int64_t)sqrt(memory));
    return m < LEAST_CENTRES ? 0 : m;
}

bool gram_machine_is_large(const gram_context *g, const struct machine_job *job, int64_t rows)
{
    return rows >= 100 && centres_of(g, job, rows) > 0;
}

/* The most rows of a leaf of corrections. */
static int64_t leaf_rows(const gram_context *g, const struct large *l)
{
    int64_t most = l->job->leaf_rows;

    if (l->job->o.leaf_rows > 0 || !on_host(g))
        return most;
    return gram_least(most,
                      gram_most((int64_t)(host_pairs / (double)l->train.rows), FEW_LEAF_ROWS));
}

/* ---- Corrections ----------------------------------------------------------------------------- */

/* What the base leaves over of the targets, column-major, of the data's dtype.  */
static gram_status residuals(gram_context *g, const struct machine_data *data,
                             const struct machine_leaf *base, char *out)
{
    const int64_t count = data->rows * data->outputs;
    const size_t bytes = (size_t)count * sizeof(double);
    double *f = gram_alloc(g, bytes);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict(g, base, data->rows, data->x, f);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        krr_set_element(data->dtype, out, i, krr_element(data->dtype, data->y, i) - f[i]);
    gram_free(g, f, bytes);
    return status;
}

/* The weights of some rows of data, gathered into e. */
static void gather_weights(const struct machine_data *data, const int64_t *rows, int64_t count,
                           struct machine_encoded *e)
{
    for (int64_t i = 0; data->weights && i < count; i++)
        ((double *)e->data.weights)[i] = data->weights[rows[i]];
}

/* Some rows of data, gathered into the memory of e, which is created. */
static gram_status part_of(gram_context *g, const struct large *l, const struct machine_data *data,
                           const int64_t *rows, int64_t count, struct machine_encoded *e)
{
    TRY(gram_machine_encoded_create(g, l->job, (int64_t[2]){count, data->width}, data->outputs, e));
    gram_machine_gather(data->dtype, data->width, data->x, rows, count, (char *)e->data.x);
    gram_machine_gather_columns(data->dtype, data->rows, data->outputs, data->y, rows, count,
                                (char *)e->data.y);
    gather_weights(data, rows, count, e);
    return GRAM_OK;
}

/* Rows by which the first leaf says how the leaves are to be trained. */
struct first_leaf {
    struct machine_encoded train; /* targets: what the base leaves over, and then all of it */
    struct machine_encoded valid; /* those of the rows held out that are in this leaf alone */
    double *base, *values;        /* of the base, and of a leaf at valid */
    size_t bytes;
};

static void first_leaf_destroy(gram_context *g, struct first_leaf *f)
{
    gram_machine_encoded_destroy(g, &f->train);
    gram_machine_encoded_destroy(g, &f->valid);
    gram_free(g, f->base, f->bytes);
}

/* The rows held out whose leaf is the first one, to memory for free(). */
static gram_status first_rows(gram_context *g, const struct large *l, const gram_machine *machine,
                              int64_t **out, int64_t *count)
{
    struct machine_places places = {0};

    *count = 0;
    *out = malloc((size_t)l->valid.rows * sizeof **out + 1);
    if (!*out)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows",
                         (long long)l->valid.rows);
    if (machine->tree.count > 0)
        TRY(gram_machine_tree_places(g, &machine->tree, l->valid.dtype, l->valid.x, l->valid.rows,
                                     &places));
    for (int64_t i = 0; machine->tree.count == 0 && i < l->valid.rows; i++)
        (*out)[(*count)++] = i;
    for (int64_t i = 0; i < places.count; i++)
        if (places.at[i].leaf == 0 && places.at[i].weight * machine->tree.trees > 0.999)
            (*out)[(*count)++] = places.at[i].row;
    free(places.at);
    return GRAM_OK;
}

static gram_status first_leaf_create(gram_context *g, const struct large *l,
                                     const struct machine_data *rest,
                                     const struct machine_leaf_rows *rows,
                                     const gram_machine *machine, struct first_leaf *f)
{
    const size_t size = gram_dtype_size(rest->dtype);
    const int64_t trained = rows->first[1], each = rest->outputs;
    int64_t *held, count;
    gram_status status = first_rows(g, l, machine, &held, &count);

    if (status == GRAM_OK)
        status = gram_machine_encoded_create(g, l->job, (int64_t[2]){trained, rest->width},
                                             2 * each, &f->train);
    if (status == GRAM_OK) {
        char *y = (char *)f->train.data.y;

        gram_machine_gather(rest->dtype, rest->width, rest->x, rows->row, trained,
                            (char *)f->train.data.x);
        gram_machine_gather_columns(rest->dtype, rest->rows, each, rest->y, rows->row, trained, y);
        gram_machine_gather_columns(rest->dtype, rest->rows, each, l->train.y, rows->row, trained,
                                    y + (size_t)(trained * each) * size);
        gather_weights(rest, rows->row, trained, &f->train);
        status = part_of(g, l, &l->valid, held, count, &f->valid);
    }
    free(held);
    TRY(status);
    f->bytes = (size_t)(3 * count * each) * sizeof *f->base;
    f->base = gram_alloc(g, f->bytes);
    if (!f->base)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    f->values = f->base + count * each;
    return count > 0 ? gram_machine_leaf_predict(g, &machine->base, count, f->valid.data.x, f->base)
                     : GRAM_OK;
}

/* The squared errors at one ridge, of the base with the leaf, and of the leaf alone. */
static gram_status first_errors(gram_context *g, struct large *l, const struct choice *c,
                                const struct first_leaf *f, double *error)
{
    const struct machine_data none = {0};
    const int64_t count = f->valid.data.rows * f->valid.data.outputs;
    struct machine_leaf leaf = {0};
    gram_status status =
        gram_machine_leaf_fit(g, &c->params, &f->train.data, &none, &leaf, &l->job->report);

    if (status == GRAM_OK)
        status =
            gram_machine_leaf_predict(g, &leaf, f->valid.data.rows, f->valid.data.x, f->values);
    error[0] = error[1] = INFINITY;
    if (status == GRAM_OK) {
        error[1] = gram_machine_squared_error(&f->valid.data, f->values + count);
        for (int64_t i = 0; i < count; i++)
            f->values[i] += f->base[i];
        error[0] = gram_machine_squared_error(&f->valid.data, f->values);
    }
    gram_machine_leaf_destroy(g, &leaf);
    return status == GRAM_NUMERICAL ? GRAM_OK : status;
}

/* The ridge of the leaves, and whether they are better alone than on what the base leaves over. */
static gram_status choose_correction(gram_context *g, struct large *l, struct choice *c,
                                     const struct machine_data *rest,
                                     const struct machine_leaf_rows *rows, gram_machine *machine)
{
    static const double factors[] = {1, 6, 0.16, 36};
    const double ridge = c->params.ridge;
    const size_t count = l->job->o.regularization > 0 ? 1 : sizeof factors / sizeof *factors;
    struct first_leaf f = {0};
    double best = INFINITY, before = INFINITY;
    gram_status status = first_leaf_create(g, l, rest, rows, machine, &f);

    for (size_t r = 0; status == GRAM_OK && r < count && f.valid.data.rows >= LEAST_FIRST; r++) {
        struct choice other = *c;
        double error[2];

        other.params.ridge = ridge * factors[r];
        status = first_errors(g, l, &other, &f, error);
        for (int alone = 0; status == GRAM_OK && alone < 2; alone++)
            if (error[alone] < best) {
                best = error[alone];
                l->alone = alone;
                c->params.ridge = other.params.ridge;
            }
        if (r > 1 && best == before) /* neither way is better any more */
            break;
        before = best;
    }
    first_leaf_destroy(g, &f);
    return status;
}

/* What leaves are trained on and by. */
struct leaves {
    const struct large *l;
    const struct machine_params *params;
    const struct machine_data *data;
    const struct machine_leaf_rows *rows;
};

/* One leaf, for gram_machine_deal. */
static gram_status train_one(gram_context *g, const struct machine_deal *d, struct machine_job *job,
                             int64_t leaf, gram_machine *machine)
{
    const struct machine_data none = {0};
    const struct leaves *of = d->user;
    const int64_t *first = of->rows->first + leaf;
    struct machine_params params = *of->params;
    struct machine_encoded part = {0};
    gram_status status;

    params.shared = job;
    gram_machine_progress(job, 0, "correcting it in leaves");
    status = part_of(g, of->l, of->data, of->rows->row + first[0], first[1] - first[0], &part);
    if (status == GRAM_OK)
        status = gram_machine_leaf_fit(g, &params, &part.data, &none, &machine->leaf[leaf],
                                       &job->report);
    if (status == GRAM_OK)
        status = gram_machine_leaf_settle(g, &machine->leaf[leaf]);
    gram_machine_encoded_destroy(g, &part);
    return status;
}

/* All leaves; c is the choice of the base at its bandwidth. */
static gram_status train_leaves(gram_context *g, struct large *l, struct choice *c,
                                const struct machine_data *data,
                                const struct machine_leaf_rows *rows, gram_machine *machine)
{
    const double from = l->job->from, to = l->job->to;
    struct leaves of = {l, &c->params, data, rows};
    const struct machine_deal deal = {.job = l->job,
                                      .machine = machine,
                                      .leaves = rows->leaves,
                                      .from = from + 0.6 * (to - from),
                                      .to = to,
                                      .train = train_one,
                                      .user = &of};
    const gram_status status = gram_machine_deal(g, &deal);

    l->job->from = from, l->job->to = to;
    return status;
}

/* What the first rank has found for the leaves, which all of them train: how, and on what. */
static gram_status share_choice(gram_context *g, struct large *l, gram_status status,
                                struct choice *c, char *y, size_t bytes)
{
    struct machine_job *job = l->job;
    struct machine_params params = c->params;
    int64_t about[3] = {c->metric.width, c->metric.full, l->alone};
    size_t numbers;

    if (!job->o.communicator)
        return status;
    TRY(gram_machine_ranks_spread(g, job, status, about, sizeof about));
    TRY(gram_machine_ranks_spread(g, job, GRAM_OK, &params, sizeof params));
    numbers = (size_t)(about[1] ? about[0] * about[0] : about[0]);
    if (!gram_machine_first(job)) {
        c->params = params;
        c->params.start = &c->metric;
        l->alone = about[2] != 0;
        status = gram_machine_metric_create(g, about[0], about[1] != 0, &c->metric);
    }
    TRY(gram_machine_ranks_spread(g, job, status, c->metric.w, numbers * sizeof *c->metric.w));
    return gram_machine_ranks_spread(g, job, GRAM_OK, y, bytes);
}

static gram_status make_leaves(gram_context *g, gram_machine *machine, int64_t leaves)
{
    machine->leaf = calloc((size_t)leaves + 1, sizeof *machine->leaf);
    machine->leaves = machine->leaf ? leaves : 0;
    return machine->leaf ? GRAM_OK : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves");
}

/* The tree, and how its leaves are to be trained on `rest`, whose targets are made here. */
static gram_status plan_leaves(gram_context *g, struct large *l, const struct choice *best,
                               struct choice *c, const struct machine_data *rest,
                               struct machine_leaf_rows *rows, gram_machine *machine)
{
    TRY(gram_machine_choice_copy(g, best, c));
    c->params.relative_bandwidth = false;
    c->params.bandwidth = machine->base.bandwidth;
    c->params.iterations = 0;
    c->params.start = &c->metric;
    c->params.ridge_chosen = l->job->o.regularization == 0;
    c->params.ridge = l->ridge;
    TRY(residuals(g, &l->train, &machine->base, (char *)rest->y));
    TRY(gram_machine_tree_build(g, &best->params, &l->train, leaf_rows(g, l), l->job->o.trees,
                                &machine->tree, rows));
    TRY(make_leaves(g, machine, rows->leaves));
    return choose_correction(g, l, c, rest, rows, machine);
}

/* The tree and its leaves, under the base.  Ranks but the first have no base. */
static gram_status correct(gram_context *g, struct large *l, const struct choice *best,
                           gram_machine *machine)
{
    const size_t bytes =
        (size_t)(l->train.rows * l->train.outputs) * gram_dtype_size(l->train.dtype);
    const bool first = gram_machine_first(l->job);
    struct machine_data rest = l->train;
    struct machine_leaf_rows rows = {0};
    struct choice c = {0};
    char *y = gram_alloc(g, bytes);
    gram_status status;

    if (!y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    rest.y = y;
    status = first ? plan_leaves(g, l, best, &c, &rest, &rows, machine) : GRAM_OK;
    status = share_choice(g, l, status, &c, y, bytes);
    if (status == GRAM_OK)
        status = gram_machine_ranks_rows(g, l->job, status, &rows);
    if (status == GRAM_OK && !first)
        status = make_leaves(g, machine, rows.leaves);
    if (status == GRAM_OK)
        status = train_leaves(g, l, &c, l->alone ? &l->train : &rest, &rows, machine);
    l->ridge = c.params.ridge;
    gram_machine_leaf_rows_destroy(&rows);
    gram_machine_metric_destroy(&c.metric);
    gram_free(g, y, bytes);
    return status;
}

/* Without corrections the base is the only leaf. */
static gram_status drop_corrections(gram_context *g, gram_machine *machine)
{
    struct machine_leaf *only = calloc(1, sizeof *only);

    if (!only)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf");
    for (int64_t i = 0; i < machine->leaves; i++)
        gram_machine_leaf_destroy(NULL, &machine->leaf[i]);
    free(machine->leaf);
    gram_machine_tree_destroy(&machine->tree);
    machine->tree.width = machine->base.width;
    *only = machine->base;
    machine->base = (struct machine_leaf){0};
    machine->leaf = only;
    machine->leaves = 1;
    return GRAM_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* The outputs of the machine at the rows that are held out, which choose how they are routed to
 * leaves. */
static gram_status route(gram_context *g, const struct large *l, gram_machine *machine, double *f)
{
    const double temperature = l->job->o.temperature;
    const size_t bytes = (size_t)(l->valid.rows * l->valid.outputs) * sizeof(double);
    double *base;
    gram_status status;

    if (l->alone)
        return gram_machine_routing_choose(g, machine, &l->valid, NULL, NULL, temperature, f);
    base = gram_alloc(g, bytes);
    if (!base)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict(g, &machine->base, l->valid.rows, l->valid.x, base);
    if (status == GRAM_OK)
        status = gram_machine_routing_choose(g, machine, &l->valid, NULL, base, temperature, f);
    gram_free(g, base, bytes);
    return status;
}

/* The outputs of the rows that are held out, which decide about the leaves. */
static gram_status judge(gram_context *g, struct large *l, double error, gram_machine *machine)
{
    struct machine_held_out *held = &l->job->held;
    const size_t count = (size_t)(l->valid.rows * l->valid.outputs);
    double *f = malloc(count * sizeof *f + 1);

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu outputs", count);
    free(held->f);
    gram_machine_target_return(&held->scale);
    *held = (struct machine_held_out){.count = l->valid.rows, .f = f};
    TRY(gram_machine_target_borrow(g, &l->job->kind, &held->scale));
    l->job->held_apart = true;
    TRY(route(g, l, machine, f));
    if (gram_machine_squared_error(&l->valid, f) < error) {
        if (l->alone)
            gram_machine_leaf_destroy(g, &machine->base);
        l->job->centres = l->alone ? 0 : l->centres;
        return GRAM_OK;
    }
    l->job->centres = l->centres;
    TRY(drop_corrections(g, machine));
    return gram_machine_encoded_outputs(g, machine, l->valid.rows, l->valid.x, f);
}

/* The first rows of all are held out, the others are learned. */
static gram_status divide(gram_context *g, const struct machine_data *all, struct large *l,
                          struct machine_encoded *targets)
{
    const int64_t held = held_rows(all->rows), rest = all->rows - held;
    char *y;

    TRY(gram_machine_encoded_create(g, l->job, (int64_t[2]){all->rows, 0}, all->outputs, targets));
    y = (char *)targets->data.y;
    l->valid = gram_machine_part(all, 0, held, y);
    y += (size_t)(held * all->outputs) * gram_dtype_size(all->dtype);
    l->train = gram_machine_part(all, held, rest, y);
    return GRAM_OK;
}

/* The base, by all rows that are not held out. */
static gram_status train_base(gram_context *g, struct large *l, const struct machine_params *params,
                              struct choice *best, gram_machine *machine)
{
    struct machine_trials *trials = &l->job->trials;

    l->level = gram_machine_trials_level(trials) + 1;
    TRY(gram_machine_choose(g, l, params, NULL, best));
    gram_machine_kept_close(g, &l->kept);
    l->level++;
    gram_machine_progress(l->job, 0.4, "training centres on all rows");
    TRY(gram_machine_choice_train(g, l, l->centres, l->train.rows, true, best, &machine->base));
    if (!isfinite(best->error))
        return gram_fail(g, GRAM_NUMERICAL, "no machine of centres could be trained");
    for (int64_t i = 0; i < trials->count; i++)
        trials->at[i].weight = i + 1 == trials->count;
    gram_machine_progress(l->job, 0.6, "correcting it in leaves");
    return GRAM_OK;
}

static gram_status train(gram_context *g, struct large *l, struct machine_params *params,
                         gram_machine *machine)
{
    const bool first = gram_machine_first(l->job);
    struct choice best = {0};
    gram_status status = first ? train_base(g, l, params, &best, machine) : GRAM_OK;

    if (status == GRAM_OK)
        status = correct(g, l, &best, machine);
    if (status == GRAM_OK && first)
        status = judge(g, l, best.error, machine);
    best.params.start = NULL;
    best.params.rounds_known = true;
    if (l->job->centres == 0)
        best.params.ridge = l->ridge;
    *params = best.params;
    l->job->report.ridge = best.params.ridge;
    gram_machine_metric_destroy(&best.metric);
    return status;
}

gram_status gram_machine_large_fit(gram_context *g, struct machine_job *job,
                                   const struct machine_data *all, struct machine_params *params,
                                   gram_machine *machine)
{
    struct large l = {.job = job,
                      .centres = centres_of(g, job, all->rows),
                      .ridge = params->ridge,
                      .told = gram_machine_told(&job->kind)};
    struct machine_encoded targets = {0};
    gram_status status = divide(g, all, &l, &targets);

    machine->members = 1;
    machine->weight[0] = 1;
    if (status == GRAM_OK)
        status = train(g, &l, params, machine);
    gram_machine_kept_close(g, &l.kept);
    gram_machine_encoded_destroy(g, &targets);
    return status;
}
