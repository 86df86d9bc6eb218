/*
 * machine_large.c - large tables: a machine of few centres on all rows, and leaves that correct it
 *
 * A part of the rows is held out, and every choice is made by its mean squared error:
 *
 *   1. kernels, forms and powers of the metric, rounds of feature learning, bandwidths, with 1,000
 *      centres on 12,000 rows: a metric from many rows is sharper than one from few, and a round
 *      costs n m^2 multiplications instead of n^3;
 *   2. more rounds of the winner on up to 100,000 rows;
 *   3. the base: as many centres as the work allows, on all rows but those held out, at ridges
 *      around that of the winner;
 *   4. a tree whose leaves are fitted to what the base leaves over, each by a solve of all of its
 *      rows, in the metric and at the bandwidth of the base.  Their ridge is chosen by
 *      leave-one-out in the first of them, because what is left over is mostly noise.  They are
 *      kept if the rows that were held out are predicted better with them.
 *
 * The outputs of these rows also give the score, the probabilities and the intervals.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include "core/view.h"
#include "machine_centres.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* From here on this pays: an exact solve of all rows takes twice as long.  With 30,000 rows
     * it is as quick, and better by a thirtieth.  SPLIT_ROWS: where memory wants a tree anyway. */
    LARGE_ROWS = 60000,
    SPLIT_ROWS = 30000,
    HELD_ROWS = 4000, /* most rows that are held out, at most a tenth */
    FIRST_CENTRES = 1000,
    FIRST_ROWS = 12000,
    SECOND_ROWS = 100000,
    POINTS = 4096, /* at which gradients are averaged */
    LEAST_CENTRES = 16,
    MOST_CENTRES = 10000,
    FEW_LEAF_ROWS = 4000,
    LOO_ROWS = 2500, /* of the first leaf, by which the ridge of corrections is chosen */
    FEW_ROUNDS = 2,  /* which say what a kernel or a metric is good for */
    FIRST_ROUNDS = 6,
    MORE_ROUNDS = 3
};

/* The work of a fit on each device: multiplications n m^2 of the base, of which a core does some
 * 2e10 a second in f64, and pairs n n_leaf of the corrections, of which it does some 1e7, all
 * iterations included (AMD EPYC, Zen 4). */
static const double host_products = 2e12, host_pairs = 2e9, device_products = 1e14;

/* A choice and its error on the rows that are held out. */
struct choice {
    struct machine_params params; /* iterations: rounds that the metric has had */
    struct machine_metric metric;
    double error;
};

struct large {
    struct machine_job *job;
    struct machine_data train, valid;
    int64_t centres; /* of the base */
    int tried;
};

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
    const double most = on_host(g) ? host_products : device_products;
    const double memory = job->memory / (4.0 * (double)gram_machine_centres_bytes(1));
    int64_t train = rows - held_rows(rows), m = (int64_t)sqrt(most / (double)train);

    if (job->o.centres > 0)
        return gram_least(job->o.centres, train / 2);
    if (job->o.centres < 0 || job->o.search < 0 || job->o.ensemble > 1 || job->o.weights ||
        rows < (job->leaf_rows < rows ? SPLIT_ROWS : LARGE_ROWS))
        return 0;
    m = gram_least(gram_most(m, 2 * FIRST_CENTRES), MOST_CENTRES);
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

/* ---- Errors ---------------------------------------------------------------------------------- */

static double squared_error(const struct machine_data *data, const double *f)
{
    const int64_t count = data->rows * data->outputs;
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        double d = f[i] - krr_element(data->dtype, data->y, i);

        sum += d * d;
    }
    return sum / (double)count;
}

static gram_status error_of(gram_context *g, const struct large *l, const struct machine_leaf *leaf,
                            double *out)
{
    const size_t bytes = (size_t)(l->valid.rows * l->valid.outputs) * sizeof(double);
    double *f = gram_alloc(g, bytes);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict(g, leaf, l->valid.rows, l->valid.x, f);
    if (status == GRAM_OK)
        *out = squared_error(&l->valid, f);
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

/* The best leaf of some ridges; its error is INFINITY where none can be solved. */
static gram_status best_ridge(gram_context *g, const struct large *l,
                              const struct machine_centres *centres, const double *ridge, int count,
                              struct choice *c, struct machine_leaf *best)
{
    gram_status status = GRAM_OK;

    c->error = INFINITY;
    for (int r = 0; status == GRAM_OK && r < count; r++) {
        struct machine_leaf leaf;
        double error = INFINITY;

        status = gram_machine_centres_leaf(g, centres, ridge[r], &leaf);
        if (status == GRAM_OK)
            status = error_of(g, l, &leaf, &error);
        if (status == GRAM_OK && error < c->error) {
            struct machine_leaf former = *best;

            *best = leaf;
            leaf = former;
            c->error = error;
            c->params.ridge = ridge[r];
        }
        gram_machine_leaf_destroy(g, &leaf);
        if (status == GRAM_NUMERICAL) /* the ridge is too small */
            status = GRAM_OK;
    }
    return status;
}

/* Trains a choice with so many centres on the first rows; its error, its ridge and its leaf. */
static gram_status evaluate(gram_context *g, struct large *l, int64_t count, int64_t rows,
                            bool near, struct choice *c, struct machine_leaf *leaf)
{
    struct machine_centres centres = {0};
    double ridge[MOST_RIDGES];
    int ridges = ridges_of(l, &c->params, near, ridge);
    gram_status status;

    l->tried++;
    *leaf = (struct machine_leaf){0};
    status = gram_machine_centres_open(g, &c->params, &c->metric, &l->train, count, &centres);
    if (status == GRAM_OK)
        status = gram_machine_centres_add(g, &centres, &l->train, rows);
    if (status == GRAM_OK)
        status = best_ridge(g, l, &centres, ridge, ridges, c, leaf);
    gram_machine_centres_close(g, &centres);
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, leaf);
    return status;
}

static gram_status copy_choice(gram_context *g, const struct choice *from, struct choice *to)
{
    struct choice copy = *from;

    TRY(gram_machine_metric_copy(g, &from->metric, &copy.metric));
    gram_machine_metric_destroy(&to->metric);
    *to = copy;
    return GRAM_OK;
}

/* The next metric of a choice, from the gradients of its leaf at rows that are no centres. */
static gram_status learn(gram_context *g, const struct large *l, const struct machine_leaf *leaf,
                         struct choice *c)
{
    struct machine_data at = l->train;
    int64_t first = leaf->rows;

    at.rows = gram_least(POINTS, l->train.rows - first);
    at.x += (size_t)(first * at.width) * gram_dtype_size(at.dtype);
    c->params.iterations++;
    return gram_machine_centres_learn(g, &c->params, leaf, &at, &c->metric);
}

/* The choice as it is, and then at most `most` rounds of feature learning, until one is worse; best
 * becomes the best of all of them if it is better. */
static gram_status try_rounds(gram_context *g, struct large *l, const struct choice *from,
                              int64_t rows, int most, struct choice *best)
{
    struct choice c = {0};
    double least = INFINITY;
    bool more = true;
    gram_status status = copy_choice(g, from, &c);

    for (int round = 0; status == GRAM_OK && more; round++) {
        struct machine_leaf leaf;

        gram_machine_progress(l->job, 0.4 * fmin(1, l->tried / 40.0), "learning from centres");
        status = evaluate(g, l, gram_least(FIRST_CENTRES, l->centres), rows, false, &c, &leaf);
        if (status == GRAM_OK && c.error < best->error)
            status = copy_choice(g, &c, best);
        more = round < most && c.error < least;
        least = fmin(least, c.error);
        if (status == GRAM_OK && more)
            status = learn(g, l, &leaf, &c);
        gram_machine_leaf_destroy(g, &leaf);
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

static gram_status try_params(gram_context *g, struct large *l, const struct machine_params *params,
                              int64_t rows, int rounds, struct choice *best)
{
    struct choice c;
    gram_status status = plain(g, l, params, &c);

    if (status == GRAM_OK)
        status = try_rounds(g, l, &c, rows, rounds, best);
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* Kernels beside the one of params. */
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

    TRY(try_params(g, l, params, rows, rounds, best));
    for (size_t i = 0; o->p == 0 && o->q == 0 && i < sizeof kernels / sizeof *kernels; i++) {
        struct machine_params other = *params;

        other.p = kernels[i].p;
        other.q = kernels[i].q;
        if (other.p != params->p || other.q != params->q)
            TRY(try_params(g, l, &other, rows, rounds, best));
    }
    return GRAM_OK;
}

/* The other form of the metric, and other powers. */
static gram_status try_metrics(gram_context *g, struct large *l, int64_t rows, int rounds,
                               struct choice *best)
{
    static const double powers[] = {0.25, 0.5, 1};
    const gram_machine_options *o = &l->job->o;
    const double power = best->params.power;
    struct machine_params other = best->params;

    if (rounds == 0)
        return GRAM_OK;
    other.full = !other.full;
    if (o->metric == GRAM_METRIC_AUTO &&
        (!other.full || gram_machine_full_metric(l->job, l->train.width)))
        TRY(try_params(g, l, &other, rows, rounds, best));
    for (size_t i = 0; o->metric_power == 0 && i < sizeof powers / sizeof *powers; i++) {
        other = best->params;
        other.power = powers[i];
        if (powers[i] != power)
            TRY(try_params(g, l, &other, rows, rounds, best));
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
            struct choice c = {0};
            const double before = best->error;
            gram_status status = copy_choice(g, best, &c);

            c.params.bandwidth *= factors[direction];
            if (status == GRAM_OK)
                status = try_rounds(g, l, &c, rows, 0, best);
            gram_machine_metric_destroy(&c.metric);
            TRY(status);
            better = best->error < before;
        }
    return GRAM_OK;
}

/* More rounds of the best choice, from its metric. */
static gram_status try_on(gram_context *g, struct large *l, int64_t rows, int rounds,
                          struct choice *best)
{
    struct choice c = {0};
    gram_status status;

    if (rounds <= 0)
        return GRAM_OK;
    status = copy_choice(g, best, &c);
    if (status == GRAM_OK)
        status = try_rounds(g, l, &c, rows, rounds, best);
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* The kernel, the metric, the bandwidth and about the ridge. */
static gram_status choose(gram_context *g, struct large *l, const struct machine_params *params,
                          struct choice *best)
{
    const gram_machine_options *o = &l->job->o;
    const int64_t first = gram_least(FIRST_ROWS, l->train.rows);
    const int64_t second = gram_least(SECOND_ROWS, l->train.rows);
    const bool learns = o->iterations >= 0 && l->train.width > 1;
    const int rounds = !learns ? 0 : o->iterations > 0 ? o->iterations : FIRST_ROUNDS;
    const int few = rounds < FEW_ROUNDS ? rounds : FEW_ROUNDS;
    int more = learns ? MORE_ROUNDS : 0;
    struct choice c = {0};
    gram_status status;

    best->error = INFINITY;
    TRY(try_kernels(g, l, first, few, params, best));
    if (!isfinite(best->error))
        return gram_fail(g, GRAM_NUMERICAL, "no machine of centres could be trained");
    TRY(try_metrics(g, l, first, few, best));
    TRY(try_on(g, l, first, rounds - best->params.iterations, best));
    TRY(try_bandwidths(g, l, first, best));
    if (second == first)
        return GRAM_OK;
    if (o->iterations > 0 && more > o->iterations - best->params.iterations)
        more = o->iterations - best->params.iterations;
    best->error = INFINITY;
    status = copy_choice(g, best, &c);
    if (status == GRAM_OK)
        status = try_rounds(g, l, &c, second, more, best);
    gram_machine_metric_destroy(&c.metric);
    return status;
}

/* ---- Corrections ----------------------------------------------------------------------------- */

/* What the base leaves over of the targets, column-major, of the data's dtype. */
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

/* Some rows of data, gathered into the memory of e, which is created. */
static gram_status part_of(gram_context *g, const struct large *l, const struct machine_data *data,
                           const int64_t *rows, int64_t count, struct machine_encoded *e)
{
    TRY(gram_machine_encoded_create(g, l->job, (int64_t[2]){count, data->width}, data->outputs, e));
    gram_machine_gather(data->dtype, data->width, data->x, rows, count, (char *)e->data.x);
    gram_machine_gather_columns(data->dtype, data->rows, data->outputs, data->y, rows, count,
                                (char *)e->data.y);
    return GRAM_OK;
}

static const double correcting_ridges[MOST_RIDGES] = {1, 4, 16, 64, 256};

/* The ridge of corrections by leave-one-out among rows of one leaf. */
static gram_status choose_ridge(gram_context *g, const struct large *l, struct choice *c,
                                const struct machine_data *part)
{
    const int64_t rows = gram_least(LOO_ROWS, part->rows), count = rows * part->outputs;
    const size_t size = gram_dtype_size(part->dtype);
    const gram_kernel_options kernel =
        gram_machine_kernel(c->params.p, c->params.q, c->params.bandwidth);
    struct machine_data z = *part;
    double ridge[MOST_RIDGES], best = INFINITY;
    struct machine_loo loo = {.kernel = &kernel, .z = &z, .ridge = ridge, .count = MOST_RIDGES};
    const size_t bytes = MOST_RIDGES * (size_t)count * sizeof(double) + (size_t)count * size;
    struct krr_array x = {0}, there = {0}, alpha = {0};
    gram_status status;

    if (l->job->o.regularization > 0)
        return GRAM_OK;
    loo.out = gram_alloc(g, bytes);
    if (!loo.out)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    z.rows = rows;
    z.y = (char *)(loo.out + MOST_RIDGES * count);
    for (int64_t j = 0; j < part->outputs; j++)
        memcpy((char *)z.y + (size_t)(j * rows) * size, part->y + (size_t)(j * part->rows) * size,
               (size_t)rows * size);
    for (int r = 0; r < MOST_RIDGES; r++)
        ridge[r] = correcting_ridges[r] * c->params.ridge;
    status = gram_krr_send(g, part->x, (size_t)(rows * part->width) * size, &there);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, (size_t)(rows * part->width) * size + 1, &x);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, MOST_RIDGES * (size_t)count * size + 1, &alpha);
    if (status == GRAM_OK)
        status = gram_machine_metric_apply(g, &c->metric, part->dtype, rows, there.data, x.data);
    z.x = x.data;
    loo.alpha = alpha.data;
    if (status == GRAM_OK)
        status = gram_machine_loo(g, &loo);
    for (int r = 0; status == GRAM_OK && r < MOST_RIDGES; r++) {
        double error = squared_error(&z, loo.out + r * count);

        if (error < best) {
            best = error;
            c->params.ridge = ridge[r];
        }
    }
    gram_krr_free(g, &x);
    gram_krr_free(g, &there);
    gram_krr_free(g, &alpha);
    gram_free(g, loo.out, bytes);
    return status;
}

/* All leaves on the residuals; c is the choice of the base at its bandwidth. */
static gram_status train_leaves(gram_context *g, struct large *l, struct choice *c,
                                const struct machine_data *data,
                                const struct machine_leaf_rows *rows, gram_machine *machine)
{
    const struct machine_data none = {0};
    struct machine_report *report = &l->job->report;
    gram_status status = GRAM_OK;

    for (int64_t i = 0; status == GRAM_OK && i < rows->leaves; i++) {
        const int64_t *first = rows->first + i;
        struct machine_encoded part = {0};

        gram_machine_progress(l->job, 0.6 + 0.4 * (double)i / (double)rows->leaves,
                              "correcting it in leaves");
        status = part_of(g, l, data, rows->row + first[0], first[1] - first[0], &part);
        if (status == GRAM_OK && i == 0)
            status = choose_ridge(g, l, c, &part.data);
        c->params.start = &c->metric;
        c->params.ridge_chosen = true;
        if (status == GRAM_OK)
            status =
                gram_machine_leaf_fit(g, &c->params, &part.data, &none, &machine->leaf[i], report);
        if (status == GRAM_OK)
            status = gram_machine_leaf_settle(g, &machine->leaf[i]);
        gram_machine_encoded_destroy(g, &part);
    }
    return status;
}

/* The tree and its leaves, under the base. */
static gram_status correct(gram_context *g, struct large *l, const struct choice *best,
                           gram_machine *machine)
{
    const size_t bytes =
        (size_t)(l->train.rows * l->train.outputs) * gram_dtype_size(l->train.dtype);
    struct machine_data rest = l->train;
    struct machine_leaf_rows rows = {0};
    struct choice c = {0};
    char *y = gram_alloc(g, bytes);
    gram_status status;

    if (!y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = copy_choice(g, best, &c);
    c.params.relative_bandwidth = false;
    c.params.bandwidth = machine->base.bandwidth;
    c.params.iterations = 0;
    if (status == GRAM_OK)
        status = residuals(g, &l->train, &machine->base, y);
    if (status == GRAM_OK)
        status = gram_machine_tree_build(g, &best->params, &l->train, leaf_rows(g, l),
                                         &machine->tree, &rows);
    if (status == GRAM_OK)
        machine->leaf = calloc((size_t)rows.leaves, sizeof *machine->leaf);
    if (status == GRAM_OK && !machine->leaf)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves");
    machine->leaves = machine->leaf ? rows.leaves : 0;
    rest.y = y;
    if (status == GRAM_OK)
        status = train_leaves(g, l, &c, &rest, &rows, machine);
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

/* The outputs of the rows that are held out, which decide about the corrections. */
static gram_status judge(gram_context *g, struct large *l, double base, gram_machine *machine)
{
    struct machine_held_out *held = &l->job->held;
    const size_t count = (size_t)(l->valid.rows * l->valid.outputs);
    double *f = malloc(count * sizeof *f + 1);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu outputs", count);
    free(held->f);
    *held = (struct machine_held_out){.count = l->valid.rows, .scale = l->job->kind, .f = f};
    l->job->held_apart = true;
    status = gram_machine_encoded_outputs(g, machine, l->valid.rows, l->valid.x, f);
    if (status != GRAM_OK || squared_error(&l->valid, f) < base)
        return status;
    TRY(drop_corrections(g, machine));
    return gram_machine_encoded_outputs(g, machine, l->valid.rows, l->valid.x, f);
}

/* The first rows of all are held out, the others are learned. */
static gram_status divide(gram_context *g, const struct machine_data *all, struct large *l,
                          struct machine_encoded *targets)
{
    const int64_t held = held_rows(all->rows), rest = all->rows - held;
    const size_t size = gram_dtype_size(all->dtype), row = (size_t)all->width * size;

    /* The targets lie output after output, so that a part of them is gathered. */
    TRY(gram_machine_encoded_create(g, l->job, (int64_t[2]){all->rows, 0}, all->outputs, targets));
    l->valid = l->train = *all;
    l->valid.weights = l->train.weights = NULL;
    l->valid.rows = held;
    l->train.rows = rest;
    l->train.x += (size_t)held * row;
    l->valid.y = targets->data.y;
    l->train.y = targets->data.y + (size_t)(held * all->outputs) * size;
    for (int64_t j = 0; j < all->outputs; j++) {
        const char *from = all->y + (size_t)(j * all->rows) * size;

        memcpy((char *)l->valid.y + (size_t)(j * held) * size, from, (size_t)held * size);
        memcpy((char *)l->train.y + (size_t)(j * rest) * size, from + (size_t)held * size,
               (size_t)rest * size);
    }
    return GRAM_OK;
}

static gram_status train(gram_context *g, struct large *l, struct machine_params *params,
                         gram_machine *machine)
{
    struct choice best = {0};
    gram_status status = choose(g, l, params, &best);

    gram_machine_progress(l->job, 0.4, "training centres on all rows");
    if (status == GRAM_OK)
        status = evaluate(g, l, l->centres, l->train.rows, true, &best, &machine->base);
    if (status == GRAM_OK && !isfinite(best.error))
        status = gram_fail(g, GRAM_NUMERICAL, "no machine of centres could be trained");
    gram_machine_progress(l->job, 0.6, "correcting it in leaves");
    if (status == GRAM_OK)
        status = correct(g, l, &best, machine);
    if (status == GRAM_OK)
        status = judge(g, l, best.error, machine);
    best.params.start = NULL;
    best.params.rounds_known = true;
    *params = best.params;
    l->job->report.ridge = best.params.ridge;
    gram_machine_metric_destroy(&best.metric);
    return status;
}

gram_status gram_machine_large_fit(gram_context *g, struct machine_job *job,
                                   const struct machine_data *all, struct machine_params *params,
                                   gram_machine *machine)
{
    struct large l = {.job = job, .centres = centres_of(g, job, all->rows)};
    struct machine_encoded targets = {0};
    gram_status status = divide(g, all, &l, &targets);

    machine->members = 1;
    machine->weight[0] = 1;
    if (status == GRAM_OK)
        status = train(g, &l, params, machine);
    gram_machine_encoded_destroy(g, &targets);
    return status;
}
