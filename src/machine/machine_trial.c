/*
 * machine_trial.c - one trial of a search: its score by leave-one-out, at every ridge and transform
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_trial.h"
#include "machine_deal.h"
#include "machine_hands.h"
#include "machine_logistic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Contexts -------------------------------------------------------------------------------- */

/* On the CPU each half has half of the threads: what they do is too small for all of them, and much
 * of it is for one alone. */
gram_status gram_machine_sides_open(gram_context *g, struct search *s)
{
    const gram_group *group = s->job->o.group;
    const bool on_cpu = gram_context_device(g).type == GRAM_CPU;
    const bool limited = g->scratch_given || g->options.scratch_limit > 0;

    s->dealt = on_cpu && gram_machine_ranks(s->job) > 1;
    for (int p = 0; p < PARTS && s->dealt; p++)
        s->side[p] = g;
    if (s->dealt)
        return GRAM_OK;
    for (int p = 0; p < PARTS; p++)
        s->side[p] = !on_cpu && group && group->count >= PARTS ? group->contexts[p] : g;
    s->beside = on_cpu && g->threads >= PARTS && !limited;
    for (int p = 0; s->beside && p < PARTS; p++)
        s->side[p] = NULL;
    for (int p = 0; s->beside && p < PARTS; p++)
        TRY(gram_context_beside(g, (g->threads + p) / PARTS, &s->side[p]));
    return GRAM_OK;
}

void gram_machine_sides_close(struct search *s)
{
    for (int p = 0; s->beside && p < PARTS; p++)
        gram_context_destroy(s->side[p]);
}

/* ---- Levels ---------------------------------------------------------------------------------- */

/* Which transforms a target without a given one is tried under: a positive one that leans to small
 * values also by its root and its logarithm. */
static int transforms_of(const struct machine_job *job, gram_transform *out)
{
    double n = (double)job->rows, mean = 0, m2 = 0, m3 = 0, least = INFINITY;

    out[0] = job->o.target_transform;
    if (job->kind.classes > 0 ||
        (out[0] == GRAM_TRANSFORM_AUTO && (job->o.search < 0 || job->targets > 1)))
        out[0] = GRAM_TRANSFORM_NONE;
    if (out[0] != GRAM_TRANSFORM_AUTO)
        return 1;
    for (int64_t i = 0; i < job->rows; i++)
        mean += job->target->numbers[job->row[i]] / n;
    for (int64_t i = 0; i < job->rows; i++) {
        double v = job->target->numbers[job->row[i]], d = v - mean;
        m2 += d * d / n;
        m3 += d * d * d / n;
        least = fmin(least, v);
    }
    out[0] = GRAM_TRANSFORM_NONE;
    out[1] = GRAM_TRANSFORM_SQRT;
    out[2] = GRAM_TRANSFORM_LOG;
    return least > 0 && m3 > pow(m2, 1.5) ? TRANSFORMS : 1;
}

/* Features and all targets of a part's rows, and room for what trials find for them. */
static gram_status part_open(const struct machine_job *job, const struct gram_encoder *encoder,
                             const struct level *level, struct part *part)
{
    const size_t size = gram_dtype_size(job->o.dtype);
    size_t bytes = (size_t)(part->count * encoder->width) * size, entries;
    gram_context *g = part->g;

    TRY(gram_machine_encode(g, job, encoder, job->row + part->first, part->count,
                            (struct machine_scales){level->transforms, level->target},
                            &part->memory));
    part->data = part->memory.data;
    TRY(gram_krr_send(g, part->data.x, bytes, &part->x));
    part->data.x = part->x.data;
    TRY(gram_krr_allocate(g, bytes + 1, &part->z));
    entries = (size_t)(part->count * part->data.outputs) * MOST_RIDGES;
    TRY(gram_krr_allocate(g, entries * size, &part->alpha));
    part->path_bytes = entries * sizeof(double);
    part->path = gram_alloc(g, part->path_bytes);
    return part->path ? GRAM_OK
                      : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                                  (long long)part->count);
}

static void part_close(struct part *part)
{
    gram_context *g = part->g;

    if (!g)
        return;
    gram_krr_free(g, &part->x);
    gram_krr_free(g, &part->z);
    gram_krr_free(g, &part->alpha);
    gram_free(g, part->path, part->path_bytes);
    gram_machine_encoded_destroy(g, &part->memory);
}

void gram_machine_level_close(gram_context *g, struct level *level)
{
    for (int p = 0; p < PARTS; p++) {
        part_close(&level->part[p]);
        part_close(&level->whole[p]);
    }
    for (int t = 0; t < TRANSFORMS; t++)
        gram_machine_target_return(&level->target[t]);
    gram_free(g, level->out, level->out_bytes);
    *level = (struct level){0};
}

/* Opens parts on contexts that may not be g; says what theirs say. */
static gram_status parts_open(gram_context *g, const struct search *s, struct level *level,
                              const struct gram_encoder *encoder)
{
    for (int p = 0; p < level->parts; p++) {
        struct part *both[] = {&level->part[p], &level->whole[p]};

        level->part[p].first = level->rows * p / level->parts;
        level->part[p].count = level->rows * (p + 1) / level->parts - level->part[p].first;
        level->whole[p].count = level->rows;
        for (int i = 0; i < (level->joint ? 2 : 1); i++) {
            gram_status status;

            if (i == 1 && p > 0 && s->side[p] == s->side[0])
                continue; /* one context scores both halves among the same rows */
            both[i]->g = s->side[p];
            status = part_open(s->job, encoder, level, both[i]);
            if (status != GRAM_OK && s->side[p] != g)
                return gram_fail(g, status, "%s", gram_message(s->side[p]));
            TRY(status);
        }
    }
    return GRAM_OK;
}

/* The first rows of the job, which are in random order, in so many parts. */
static gram_status level_fill(gram_context *g, const struct search *s, struct level *level)
{
    struct machine_job *job = s->job;
    gram_transform transform[TRANSFORMS] = {0};
    struct gram_encoder *encoder = NULL;
    int64_t each = gram_machine_target_outputs(&job->kind);
    gram_status status = gram_machine_encoder_fit(g, job, GRAM_STANDARDISE, level->rows, &encoder);

    level->transforms = transforms_of(job, transform);
    for (int t = 0; status == GRAM_OK && t < level->transforms; t++) {
        status = gram_machine_target_borrow(g, &job->kind, &level->target[t]);
        if (status == GRAM_OK && job->kind.classes == 0)
            status = gram_machine_target_scale(g, job->target, transform[t], job->row, level->rows,
                                               &level->target[t]);
    }
    if (status == GRAM_OK)
        status = parts_open(g, s, level, encoder);
    gram_encoder_destroy(encoder);
    TRY(status);
    level->out_bytes = (size_t)(level->rows * (each + 1)) * sizeof *level->out;
    level->out = gram_alloc(g, level->out_bytes);
    if (!level->out)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)level->rows);
    level->loss = level->out + level->rows * each;
    return GRAM_OK;
}

gram_status gram_machine_level_open(gram_context *g, struct search *s, int64_t rows, bool joint)
{
    gram_status status;

    if (s->dealt)
        TRY(gram_machine_halves_open(g, s, rows, joint));
    gram_machine_level_close(g, &s->level);
    s->levels++;
    s->level.rows = gram_least(rows, s->job->rows);
    s->level.parts = s->level.rows >= LEAST_ROWS ? PARTS : 1;
    s->level.joint = joint;
    status = level_fill(g, s, &s->level);
    if (s->dealt)
        status = gram_machine_ranks_end(g, s->job, status);
    if (status != GRAM_OK)
        gram_machine_level_close(g, &s->level);
    return status;
}

/* ---- A trial --------------------------------------------------------------------------------- */

/* The mean over several targets of squared errors, each in units of its scale. */
static double joint_loss(const struct part *part, int64_t at, int64_t first, int64_t each,
                         const double *f, int64_t stride)
{
    double e = 0;

    for (int64_t j = 0; j < each; j++) {
        double y = krr_element(part->data.dtype, part->data.y, (first + j) * part->count + at);

        e += (f[j * stride] - y) * (f[j * stride] - y) / (double)each;
    }
    return e;
}

/*
 * What a row adds to the loss of outputs f (stride apart): its squared error or, of a class,
 * whether it is wrong plus the squared error of the outputs; times the row's weight.  at is its
 * place in the part.
 */
static double row_loss(const struct search *s, const struct part *part, int64_t at, int transform,
                       const double *f, int64_t stride)
{
    const struct machine_job *job = s->job;
    const struct machine_target *target = &s->level.target[transform];
    int64_t row = job->row[part->first + at], each = gram_machine_target_outputs(target);
    double found, e = 0, y = 0, p;

    if (target->parts > 0)
        return gram_machine_row_weight(job, row) *
               joint_loss(part, at, transform * each, each, f, stride);
    found = gram_machine_target_decode(target, f, stride);
    for (int64_t j = 0; target->classes && j < each; j++) {
        double one = krr_element(part->data.dtype, part->data.y, j * part->count + at);

        y = one > 0.5 ? (each == 1 ? 1 : (double)j) : y;
        p = s->loss == GRAM_LOSS_LOGISTIC ? gram_machine_logistic_probability(f[j * stride])
                                          : f[j * stride];
        e += (p - one) * (p - one);
    }
    if (!target->classes)
        e = (found - job->target->numbers[row]) * (found - job->target->numbers[row]);
    return gram_machine_row_weight(job, row) * (e + (target->classes && found != y));
}

/* The losses of a part at every ridge and under every transform. */
static void add_part(const struct search *s, const struct part *part, struct losses *l)
{
    int64_t outputs = part->data.outputs, each = outputs / s->level.transforms;

    for (int r = 0; r < l->count; r++)
        for (int t = 0; t < s->level.transforms; t++) {
            const double *f = part->path + (r * outputs + t * each) * part->count;

            for (int64_t i = 0; i < part->count; i++)
                l->sum[r][t] += row_loss(s, part, i, t, f + i, part->count);
        }
}

/* The same by the logistic loss: leave-one-out of the last system of each ridge. */
static gram_status logistic_outputs(gram_context *g, const struct machine_params *params,
                                    double bandwidth, const struct machine_loo *all)
{
    struct machine_params one = *params;
    struct machine_logistic system = {0};
    struct machine_data z = *all->z;
    gram_status status = gram_machine_logistic_open(g, z.rows, &system);

    for (int r = 0; status == GRAM_OK && r < all->count; r++) {
        struct machine_report report = {0};
        struct machine_loo loo = *all;

        one.ridge = all->ridge[r];
        one.solver = GRAM_SOLVER_CHOLESKY;
        status =
            gram_machine_logistic_fit(g, &one, bandwidth, all->z, all->alpha, &system, &report);
        z.y = system.target;
        z.weights = system.weight;
        loo.z = &z;
        loo.ridge = &report.ridge;
        loo.count = 1;
        loo.out = all->out + (int64_t)r * z.rows;
        gram_scratch_release(g);
        if (status == GRAM_OK)
            status = gram_machine_loo(g, &loo);
    }
    gram_machine_logistic_close(g, &system);
    return status;
}

/* The rows of a part in a metric, if there is one. */
static gram_status place_part(const struct part *part, const struct machine_metric *metric,
                              struct machine_data *z)
{
    if (!metric->w)
        return GRAM_OK;
    z->x = part->z.data;
    return gram_machine_metric_apply(part->g, metric, z->dtype, z->rows, part->x.data,
                                     part->z.data);
}

/* Outputs of a part at the ridges of l, in the metric. */
static gram_status part_outputs(const struct part *part, const struct machine_params *params,
                                const struct machine_metric *metric, const struct losses *l)
{
    gram_context *g = part->g;
    struct machine_data z = part->data;
    struct machine_loo loo = {.z = &z,
                              .ridge = l->ridge,
                              .count = l->count,
                              .out = part->path,
                              .alpha = part->alpha.data};
    gram_kernel_options kernel;
    double bandwidth;

    TRY(place_part(part, metric, &z));
    TRY(gram_machine_bandwidth(g, params, &z, &bandwidth));
    kernel = gram_machine_kernel(params->p, params->q, bandwidth);
    loo.kernel = &kernel;
    gram_scratch_release(g);
    if (params->loss == GRAM_LOSS_LOGISTIC)
        return logistic_outputs(g, params, bandwidth, &loo);
    return gram_machine_loo(g, &loo);
}

/* The least loss; a NaN never is. */
static void choose(const struct search *s, const struct losses *l, int *ridge, int *transform)
{
    double best = INFINITY;

    *ridge = *transform = 0;
    for (int r = 0; r < l->count; r++)
        for (int t = 0; t < s->level.transforms; t++)
            if (l->sum[r][t] < best && (!s->given_transform || t == s->transform)) {
                best = l->sum[r][t];
                *ridge = r;
                *transform = t;
            }
}

void gram_machine_trial_losses(const struct search *s, int transform, const double *f, double *loss)
{
    const struct level *level = &s->level;

    for (int p = 0; p < level->parts; p++) {
        const struct part *part = &level->part[p];

        for (int64_t i = 0; i < part->count; i++)
            loss[part->first + i] =
                row_loss(s, part, i, transform, f + part->first + i, level->rows);
    }
}

double gram_machine_mean(int64_t rows, const double *a, const double *b, double *error)
{
    const double n = (double)rows;
    double mean = 0, squares = 0;

    for (int64_t i = 0; i < rows; i++)
        mean += (b ? a[i] - b[i] : a[i]) / n;
    for (int64_t i = 0; i < rows; i++) {
        const double d = (b ? a[i] - b[i] : a[i]) - mean;

        squares += d * d;
    }
    *error = n > 1 ? sqrt(squares / (n - 1) / n) : NAN;
    return mean;
}

/* The standard error of the score of the losses of rows. */
static double spread_of(const struct search *s, const double *loss)
{
    double spread, mean = gram_machine_mean(s->level.rows, loss, NULL, &spread);

    return s->job->kind.classes ? spread : mean > 0 ? spread / (2 * sqrt(mean)) : 0;
}

/* Adds a trial to those that the description lists. */
static gram_status remember(gram_context *g, struct search *s, const struct trial *t)
{
    struct machine_tried one = {
        .params = t->params,
        .transform = s->job->kind.classes ? GRAM_TRANSFORM_AUTO : t->transform,
        .level = s->levels,
        .rows = s->level.rows,
        .score = t->score,
        .spread = t->spread,
    };
    double now = gram_seconds();

    one.seconds = now - (s->before > 0 ? s->before : s->opened);
    s->before = now;
    if (s->keeps)
        TRY(gram_machine_outputs_keep(g, s, &one));
    return gram_machine_trials_add(g, &s->job->trials, &one);
}

/* Keeps the outputs of a part at a ridge and a transform. */
static void keep_outputs(struct level *level, const struct part *part, int ridge, int transform)
{
    int64_t outputs = part->data.outputs, each = outputs / level->transforms;
    const double *from = part->path + (ridge * outputs + transform * each) * part->count;

    for (int64_t j = 0; j < each; j++)
        memcpy(level->out + j * level->rows + part->first, from + j * part->count,
               (size_t)part->count * sizeof *from);
}

/* The outputs of a part's rows among those of all rows. */
static void take_part(const struct part *whole, const struct part *part, int ridges)
{
    const double *from = whole->path + part->first;

    for (int64_t j = 0; j < ridges * part->data.outputs; j++)
        memcpy(part->path + j * part->count, from + j * whole->count,
               (size_t)part->count * sizeof *from);
}

static gram_status score_part(const struct sides *sides, gram_context *g, int64_t p)
{
    const struct level *level = &sides->s->level;
    const struct machine_metric *of = &sides->metric[level->parts - 1 - p];
    const struct part *part = &level->part[p], *all = part;

    if (level->joint)
        all = &level->whole[level->whole[p].g ? p : 0];
    if (level->joint && p > 0 && !of->w) /* without a metric the first has the outputs */
        return GRAM_OK;
    TRY(part_outputs(all, &sides->t->params, of, &sides->losses[p]));
    if (level->joint)
        take_part(all, part, sides->losses[p].count);
    return gram_cancelled(g) ? gram_fail(g, GRAM_CANCELLED, "cancelled") : GRAM_OK;
}

/* ---- Metrics --------------------------------------------------------------------------------- */

/* The next metric of a part in which its rows, z, are now, from a leaf that is trained on them. */
static gram_status learn_from_leaf(gram_context *g, struct machine_params *params,
                                   struct machine_data *z, struct machine_metric *metric)
{
    const struct machine_data none = {0}, data = *z;
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    gram_status status;

    params->start = metric->w ? metric : NULL;
    params->iterations = 0;
    params->loss = GRAM_LOSS_SQUARED;
    params->solver = GRAM_SOLVER_CHOLESKY;
    status = gram_machine_leaf_fit(g, params, &data, &none, &leaf, &report);
    z->x = leaf.x;
    if (status == GRAM_OK && !metric->w)
        status = gram_machine_metric_create(g, data.width, params->full, metric);
    if (status == GRAM_OK)
        status = gram_machine_metric_learn(
            g, &(struct machine_gradients){params, leaf.bandwidth, z, z, leaf.alpha}, metric, NULL);
    gram_machine_leaf_destroy(g, &leaf);
    return status;
}

/* The same from a likelihood, which needs no leaf. */
static gram_status learn_from_rows(const struct part *part, const struct machine_params *params,
                                   struct machine_data *z, struct machine_metric *metric,
                                   struct machine_learned *learned)
{
    double bandwidth;

    TRY(place_part(part, metric, z));
    TRY(gram_machine_bandwidth(part->g, params, z, &bandwidth));
    if (!metric->w)
        TRY(gram_machine_metric_create(part->g, z->width, params->full, metric));
    return gram_machine_metric_learn(
        part->g, &(struct machine_gradients){params, bandwidth, z, z, NULL}, metric, learned);
}

static gram_status learn_part(const struct sides *sides, gram_context *g, int64_t p)
{
    const struct level *level = &sides->s->level;
    const struct part *part = &level->part[p];
    const int64_t each = gram_machine_target_outputs(&sides->s->job->kind);
    const int at = gram_machine_level_transform(level, sides->t->transform);
    struct machine_params params = sides->t->params;
    struct machine_data z = params.ard ? part->data : part->memory.data;

    z.outputs = each;
    z.y += (size_t)(at * each * z.rows) * gram_dtype_size(z.dtype);
    if (params.ard)
        return learn_from_rows(part, &params, &z, &sides->metric[p], &sides->learned[p]);
    return learn_from_leaf(g, &params, &z, &sides->metric[p]);
}

/* ---- Both parts ------------------------------------------------------------------------------ */

gram_status gram_machine_side_work(void *arg, gram_context *g, int64_t part, bool tells)
{
    const struct sides *sides = arg;

    (void)tells;
    return sides->learned ? learn_part(sides, g, part) : score_part(sides, g, part);
}

static gram_status on_sides(gram_context *g, struct sides *sides)
{
    const struct search *s = sides->s;
    const struct machine_hands hands = {.contexts = s->side,
                                        .count = s->side[0] == s->side[1] ? 1 : s->level.parts,
                                        .end = s->level.parts,
                                        .step = 1,
                                        .dealt = true,
                                        .work = gram_machine_side_work,
                                        .arg = sides};

    if (s->dealt && s->level.parts == PARTS)
        return gram_machine_halves_work(g, sides);
    return gram_machine_hands_run(g, &hands);
}

gram_status gram_machine_trial_score(gram_context *g, struct search *s,
                                     struct machine_metric *metric, const double *ridges, int count,
                                     struct trial *t)
{
    struct losses l = {.count = count}, of_part[PARTS];
    struct level *level = &s->level;
    struct sides sides = {.s = s, .t = t, .metric = metric, .losses = of_part};
    int ridge, transform;

    memcpy(l.ridge, ridges, (size_t)count * sizeof *ridges);
    for (int p = 0; p < PARTS; p++)
        of_part[p] = l;
    s->loss = t->params.loss;
    TRY(on_sides(g, &sides));
    for (int p = 0; p < level->parts; p++) {
        if (level->joint && p > 0 && !metric[level->parts - 1 - p].w)
            take_part(&level->whole[0], &level->part[p], count);
        add_part(s, &level->part[p], &l);
    }
    choose(s, &l, &ridge, &transform);
    for (int p = 0; p < level->parts; p++)
        keep_outputs(level, &level->part[p], ridge, transform);
    t->params.ridge = ridges[ridge];
    t->score = l.sum[ridge][transform] / (double)level->rows;
    if (!isfinite(t->score))
        t->score = INFINITY;
    if (s->job->kind.classes == 0) {
        t->score = sqrt(t->score);
        t->transform = level->target[transform].transform;
    }
    gram_machine_trial_losses(s, transform, level->out, level->loss);
    t->spread = spread_of(s, level->loss);
    return remember(g, s, t);
}

gram_status gram_machine_trial_learn(gram_context *g, struct search *s, struct trial *t,
                                     struct machine_metric *metric)
{
    struct machine_learned learned[PARTS];
    struct sides sides = {.s = s, .t = t, .metric = metric, .learned = learned};
    double bandwidth = 1, ridge = 1;

    for (int p = 0; p < PARTS; p++)
        learned[p] = (struct machine_learned){t->params.bandwidth, t->params.ridge};
    TRY(on_sides(g, &sides));
    for (int p = 0; p < s->level.parts; p++) {
        bandwidth *= pow(learned[p].bandwidth, 1.0 / s->level.parts);
        ridge *= pow(learned[p].ridge, 1.0 / s->level.parts);
    }
    if (t->params.ard && t->params.relative_bandwidth)
        t->params.bandwidth = bandwidth;
    if (t->params.ard && !s->given_ridge)
        t->params.ridge = fmax(ridge, LEAST_RIDGE);
    return GRAM_OK;
}

/* ---- The last trial -------------------------------------------------------------------------- */

int gram_machine_level_transform(const struct level *level, gram_transform transform)
{
    int at = level->transforms - 1;

    while (at > 0 && level->target[at].transform != transform)
        at--;
    return at;
}

gram_status gram_machine_trial_keep(gram_context *g, const struct search *s,
                                    const struct trial *best, struct machine_held_out *out)
{
    const struct level *level = &s->level;
    int transform = gram_machine_level_transform(level, best->transform);
    size_t each = (size_t)gram_machine_target_outputs(&s->job->kind);
    size_t bytes = (size_t)level->rows * each * sizeof(double);
    double *f = malloc(bytes + 1);

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)level->rows);
    memcpy(f, level->out, bytes);
    *out = (struct machine_held_out){.count = level->rows, .f = f};
    return gram_machine_target_borrow(g, &level->target[transform], &out->scale);
}
