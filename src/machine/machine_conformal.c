/*
 * machine_conformal.c - intervals and sets of a level, from the errors of rows that were left out
 *
 * The score of a row is |y - f| of a regression, in units of its scale and after its transform, and
 * 1 - p of the true class of a classification, where f and p come from leaving the row out.  Let n
 * rows and a new one be exchangeable.  The rank of the new score among all n + 1 is uniform, so
 * that it is at most the ceil((n + 1) level)-th smallest score of the n with a probability of at
 * least `level` (Vovk, Gammerman and Shafer, 2005; Lei et al., JASA 113, 2018).  With weights, a
 * rank is a mass: the new row weighs W / n_e, where W is the sum of the weights and
 * n_e = W^2 / sum w^2.
 *
 * The hyperparameters were chosen by the same errors, which are therefore too small: those of a
 * regression are multiplied by sqrt(n / (n - k)) for k choices, as the deviation of residuals is
 * after k parameters were fitted.  With 60 rows and all four chosen, intervals of 0.9 cover 0.88 to
 * 0.90 without the factor, and 0.89 to 0.91 with it.
 *
 * Of the scores m = min(n_e, 999) are kept: the j-th is the one of mass j / (m + 1) of the whole.
 * The ceil((m + 1) level)-th of these is never below the one that is meant.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/view.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>

struct scored {
    double score, weight;
};

static int by_score(const void *a, const void *b)
{
    double x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;

    return (x > y) - (x < y);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* One row's score from its outputs; NaN if it has none. */
static double score_of(const struct machine_target *target, const struct machine_held_out *held,
                       const gram_column *column, int64_t row, int64_t i, double *p)
{
    double y;
    int64_t class;

    if (target->classes == 0) {
        gram_machine_target_encode(&held->scale, column, &row, 1, GRAM_F64, &y);
        return fabs(y - held->f[i]) * (held->scale.scale / target->scale);
    }
    class = gram_machine_target_class(target, column, row);
    if (class < 0)
        return NAN;
    gram_machine_target_probabilities(target, held->f + i, held->count, p, 1);
    return 1 - p[class];
}

/* Takes m scores of equal distances in mass from sorted ones. */
static void choose(const struct scored *s, int64_t count, int64_t m, double mass, double *out)
{
    double below = s[0].weight;
    int64_t at = 0;

    for (int64_t j = 1; j <= m; j++) {
        double wanted = (double)j / (double)(m + 1) * mass * (1 - 1e-12); /* sums are rounded */

        while (below < wanted && at < count - 1)
            below += s[++at].weight;
        out[j - 1] = s[at].score;
    }
}

/* Keeps what is needed of the scores, which are sorted here. */
static gram_status keep(gram_context *g, struct scored *s, int64_t count,
                        struct machine_target *target)
{
    double sum = 0, squares = 0, effective, largest = 0;
    int64_t m;

    if (count == 0)
        return GRAM_OK;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, s[i].weight);
    for (int64_t i = 0; i < count; i++) {
        s[i].weight /= largest;
        sum += s[i].weight;
        squares += s[i].weight * s[i].weight;
    }
    effective = sum * sum / squares;
    m = gram_least((int64_t)(effective + 1e-9), MOST_SCORES);
    target->score = malloc((size_t)m * sizeof *target->score);
    if (!target->score)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the errors of %lld rows",
                         (long long)count);
    qsort(s, (size_t)count, sizeof *s, by_score);
    choose(s, count, m, sum + sum / effective, target->score);
    target->scores = m;
    return GRAM_OK;
}

static gram_status conform_one(gram_context *g, const gram_column *column, const int64_t *rows,
                               const double *weights, const struct machine_held_out *held,
                               int chosen, struct machine_target *target)
{
    double n = (double)held->count;
    double widened = target->classes ? 1 : sqrt(n / fmax(n - chosen, n / 2));
    struct scored *s = malloc((size_t)held->count * sizeof *s + 1);
    double *p = malloc((size_t)target->classes * sizeof *p + 1);
    int64_t count = 0;
    gram_status status;

    free(target->score);
    target->score = NULL;
    target->scores = 0;
    if (!s || !p) {
        free(s);
        free(p);
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the errors of %lld rows",
                         (long long)held->count);
    }
    for (int64_t i = 0; i < held->count; i++) {
        double score = widened * score_of(target, held, column, rows[i], i, p);

        if (isfinite(score))
            s[count++] = (struct scored){score, weights ? weights[rows[i]] : 1};
    }
    status = keep(g, s, count, target);
    free(s);
    free(p);
    return status;
}

gram_status gram_machine_target_conform(gram_context *g, const gram_column *column,
                                        const int64_t *rows, const double *weights,
                                        const struct machine_held_out *held, int chosen,
                                        struct machine_target *target)
{
    if (target->parts == 0)
        return conform_one(g, column, rows, weights, held, chosen, target);
    for (int64_t p = 0; p < target->parts; p++) {
        const struct machine_held_out of = {
            .count = held->count, .scale = held->scale.part[p], .f = held->f + p * held->count};

        TRY(conform_one(g, &column[p], rows, weights, &of, chosen, &target->part[p]));
    }
    return GRAM_OK;
}

bool gram_machine_target_scores_hold(const struct machine_target *target)
{
    const double *s = target->score;
    bool holds = target->scores >= 0 && target->scores <= MOST_SCORES && !s == !target->scores;

    for (int64_t i = 0; holds && i < target->scores; i++)
        holds = isfinite(s[i]) && s[i] >= (i > 0 ? s[i - 1] : 0) && (!target->classes || s[i] <= 1);
    return holds;
}

/* ---- Levels ---------------------------------------------------------------------------------- */

double gram_machine_highest_level(const gram_machine *machine)
{
    double least = machine ? INFINITY : 0;

    for (int64_t p = 0; machine && p < gram_machine_target_parts(&machine->target); p++)
        least = fmin(least, (double)gram_machine_target_part(&machine->target, p)->scores);
    return least / (least + 1);
}

gram_status gram_machine_target_threshold(gram_context *g, const struct machine_target *target,
                                          double level, double *out)
{
    const char *what = target->classes ? "sets" : "intervals";
    int64_t m = target->scores, rank;

    if (!(level > 0 && level < 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "level is %g, expected a number between 0 and 1",
                         level);
    if (m == 0)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "the machine has no leave-one-out errors, from which %s are made: it was "
                         "saved by an older version, or its search had no time for them; fit it "
                         "again",
                         what);
    rank =
        (int64_t)ceil((double)(m + 1) * level - 1e-9); /* 0.9 is a little more than nine tenths */
    if (rank > m)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "level is %g, expected at most %.6g, because %s come from the "
                         "leave-one-out errors of %lld rows",
                         level, (double)m / (double)(m + 1), what, (long long)m);
    *out = target->score[rank < 1 ? 0 : rank - 1];
    return GRAM_OK;
}

void gram_machine_target_interval(const struct machine_target *target, const double *f,
                                  double threshold, double *out, int64_t out_stride)
{
    double low = f[0] - threshold, high = f[0] + threshold;

    out[0] = gram_machine_target_decode(target, &low, 1);
    out[out_stride] = gram_machine_target_decode(target, &high, 1);
}

/* A class of a set, as it is sorted. */
struct member {
    double p;
    int64_t class;
    bool first; /* the class that is predicted */
};

/* Room for a row's. */
struct members {
    double threshold, *p;
    struct member *set;
};

static int by_place(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->first != y->first)
        return y->first - x->first;
    if (x->p != y->p && !isnan(x->p) && !isnan(y->p))
        return x->p > y->p ? -1 : 1;
    return (x->class > y->class) - (x->class < y->class);
}

/* One row's set: the place of each of its classes, from 1, and 0 for the others. */
static void place_row(const struct machine_target *target, const double *f, int64_t stride,
                      const struct members *m, int32_t *place, int64_t place_stride)
{
    double best = gram_machine_target_decode(target, f, stride);
    int64_t size = 0;

    gram_machine_target_probabilities(target, f, stride, m->p, 1);
    for (int64_t k = 0; k < target->classes; k++) {
        bool first = (double)k == best;

        place[k * place_stride] = 0;
        if (first || !(1 - m->p[k] > m->threshold)) /* without a probability: all of them */
            m->set[size++] = (struct member){m->p[k], k, first};
    }
    qsort(m->set, (size_t)size, sizeof *m->set, by_place);
    for (int64_t j = 0; j < size; j++)
        place[m->set[j].class * place_stride] = (int32_t)(j + 1);
}

gram_status gram_machine_target_sets(gram_context *g, const struct machine_target *target,
                                     const double *f, int64_t rows, double threshold,
                                     const struct gram_view *out)
{
    struct members m = {.threshold = threshold};

    m.p = malloc((size_t)target->classes * sizeof *m.p + 1);
    m.set = malloc((size_t)target->classes * sizeof *m.set + 1);
    for (int64_t i = 0; m.p && m.set && i < rows; i++)
        place_row(target, f + i, rows, &m, (int32_t *)(void *)out->data + i * out->row_stride,
                  out->col_stride);
    free(m.p);
    free(m.set);
    return m.p && m.set ? GRAM_OK
                        : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld classes",
                                    (long long)target->classes);
}
