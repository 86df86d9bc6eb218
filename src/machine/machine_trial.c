/*
 * machine_trial.c - one trial of a search: its score by leave-one-out, at every ridge and transform
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_trial.h"
#include "machine_logistic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Features and all targets of a part's rows. */
static gram_status part_open(gram_context *g, const struct machine_job *job,
                             const struct gram_encoder *encoder, const struct level *level,
                             struct part *part)
{
    size_t bytes = (size_t)(part->count * encoder->width) * gram_dtype_size(job->o.dtype);

    TRY(gram_machine_encode(g, job, encoder, job->row + part->first, part->count,
                            (struct machine_scales){level->transforms, level->target},
                            &part->memory));
    part->data = part->memory.data;
    TRY(gram_krr_send(g, part->data.x, bytes, &part->x));
    part->data.x = part->x.data;
    return gram_krr_allocate(g, bytes + 1, &part->z);
}

static void part_close(gram_context *g, struct part *part)
{
    gram_krr_free(g, &part->x);
    gram_krr_free(g, &part->z);
    gram_machine_encoded_destroy(g, &part->memory);
}

void gram_machine_level_close(gram_context *g, struct level *level)
{
    for (int p = 0; p < level->parts; p++)
        part_close(g, &level->part[p]);
    part_close(g, &level->whole);
    gram_krr_free(g, &level->alpha);
    for (int t = 0; t < TRANSFORMS; t++)
        gram_machine_target_return(&level->target[t]);
    gram_free(g, level->path, level->path_bytes);
    gram_free(g, level->out, level->out_bytes);
    *level = (struct level){0};
}

/* Room for the outputs and coefficients of a trial. */
static gram_status level_room(gram_context *g, struct level *level)
{
    const struct machine_data *largest =
        level->joint ? &level->whole.data : &level->part[level->parts - 1].data;
    size_t entries = (size_t)(largest->rows * largest->outputs) * MOST_RIDGES;

    level->path_bytes = (size_t)(level->rows * largest->outputs) * MOST_RIDGES * sizeof(double) *
                        (level->joint ? 2 : 1);
    level->out_bytes = (size_t)(level->rows * (largest->outputs + 1)) * sizeof *level->out;
    level->path = gram_alloc(g, level->path_bytes);
    level->out = gram_alloc(g, level->out_bytes);
    if (!level->path || !level->out)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)level->rows);
    level->loss = level->out + level->rows * largest->outputs;
    return gram_krr_allocate(g, entries * gram_dtype_size(largest->dtype), &level->alpha);
}

/* The first rows of the job, which are in random order, in so many parts. */
static gram_status level_fill(gram_context *g, struct machine_job *job, struct level *level)
{
    gram_transform transform[TRANSFORMS] = {0};
    struct gram_encoder *encoder = NULL;
    gram_status status = gram_machine_encoder_fit(g, job, GRAM_STANDARDISE, level->rows, &encoder);

    level->transforms = transforms_of(job, transform);
    for (int t = 0; status == GRAM_OK && t < level->transforms; t++) {
        status = gram_machine_target_borrow(g, &job->kind, &level->target[t]);
        if (status == GRAM_OK && job->kind.classes == 0)
            status = gram_machine_target_scale(g, job->target, transform[t], job->row, level->rows,
                                               &level->target[t]);
    }
    for (int p = 0; status == GRAM_OK && p < level->parts; p++) {
        struct part *part = &level->part[p];

        part->first = level->rows * p / level->parts;
        part->count = level->rows * (p + 1) / level->parts - part->first;
        status = part_open(g, job, encoder, level, part);
    }
    level->whole.count = level->rows;
    if (status == GRAM_OK && level->joint)
        status = part_open(g, job, encoder, level, &level->whole);
    gram_encoder_destroy(encoder);
    return status == GRAM_OK ? level_room(g, level) : status;
}

/* Where the outputs of a part begin. */
static double *path_of(const struct level *level, const struct part *part)
{
    int64_t before = part == &level->whole ? level->rows : part->first;

    return level->path + before * part->data.outputs * MOST_RIDGES;
}

gram_status gram_machine_level_open(gram_context *g, struct search *s, int64_t rows, bool joint)
{
    gram_status status;

    gram_machine_level_close(g, &s->level);
    s->levels++;
    s->level.rows = gram_least(rows, s->job->rows);
    s->level.parts = s->level.rows >= LEAST_ROWS ? PARTS : 1;
    s->level.joint = joint;
    status = level_fill(g, s->job, &s->level);
    if (status != GRAM_OK)
        gram_machine_level_close(g, &s->level);
    return status;
}

/* ---- A trial --------------------------------------------------------------------------------- */

/* Everything that a trial adds up: for each ridge and each transform. */
struct losses {
    int count;
    double ridge[MOST_RIDGES], sum[MOST_RIDGES][TRANSFORMS];
};

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
            const double *f = path_of(&s->level, part) + (r * outputs + t * each) * part->count;

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

/* Outputs of a part at the ridges of l, in the metric. */
static gram_status part_outputs(gram_context *g, const struct search *s, const struct part *part,
                                const struct machine_params *params,
                                const struct machine_metric *metric, const struct losses *l)
{
    struct machine_data z = part->data;
    struct machine_loo loo = {.z = &z,
                              .ridge = l->ridge,
                              .count = l->count,
                              .out = path_of(&s->level, part),
                              .alpha = s->level.alpha.data};
    gram_kernel_options kernel;
    double bandwidth;

    if (metric->w) {
        TRY(gram_machine_metric_apply(g, metric, z.dtype, z.rows, part->x.data, part->z.data));
        z.x = part->z.data;
    }
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

/* The standard error of the score of the losses of rows. */
static double spread_of(const struct search *s, const double *loss)
{
    double n = (double)s->level.rows, mean = 0, squares = 0, spread;

    for (int64_t i = 0; i < s->level.rows; i++)
        mean += loss[i] / n;
    for (int64_t i = 0; i < s->level.rows; i++)
        squares += (loss[i] - mean) * (loss[i] - mean);
    spread = n > 1 ? sqrt(squares / (n - 1) / n) : NAN;
    return s->job->kind.classes ? spread : mean > 0 ? spread / (2 * sqrt(mean)) : 0;
}

/* Adds a trial to those that the description lists. */
static gram_status remember(gram_context *g, struct search *s, const struct trial *t, int transform)
{
    struct machine_tried one = {
        .params = t->params,
        .transform = s->job->kind.classes ? GRAM_TRANSFORM_AUTO : t->transform,
        .level = s->levels,
        .rows = s->level.rows,
        .score = t->score,
    };
    double now = gram_seconds();

    gram_machine_trial_losses(s, transform, s->level.out, s->level.loss);
    one.spread = spread_of(s, s->level.loss);
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
    const double *from = path_of(level, part) + (ridge * outputs + transform * each) * part->count;

    for (int64_t j = 0; j < each; j++)
        memcpy(level->out + j * level->rows + part->first, from + j * part->count,
               (size_t)part->count * sizeof *from);
}

/* The outputs of a part's rows among those of all rows. */
static void take_part(const struct level *level, const struct part *part, int ridges)
{
    const double *from = path_of(level, &level->whole) + part->first;
    double *to = path_of(level, part);

    for (int64_t j = 0; j < ridges * part->data.outputs; j++)
        memcpy(to + j * part->count, from + j * level->rows, (size_t)part->count * sizeof *to);
}

gram_status gram_machine_trial_score(gram_context *g, struct search *s,
                                     const struct machine_metric *metric, const double *ridges,
                                     int count, struct trial *t)
{
    struct losses l = {.count = count};
    struct level *level = &s->level;
    gram_status status = GRAM_OK;
    int ridge, transform;

    memcpy(l.ridge, ridges, (size_t)count * sizeof *ridges);
    s->loss = t->params.loss;
    for (int p = 0; status == GRAM_OK && p < level->parts; p++) {
        const struct part *part = &level->part[p];
        const struct machine_metric *of = &metric[level->parts - 1 - p];
        bool known = level->joint && p > 0 && !of->w; /* no metric: as before */

        if (!known)
            status = part_outputs(g, s, level->joint ? &level->whole : part, &t->params, of, &l);
        if (status == GRAM_OK && level->joint)
            take_part(level, part, count);
        if (status == GRAM_OK)
            add_part(s, part, &l);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    TRY(status);
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
    return remember(g, s, t, transform);
}

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
