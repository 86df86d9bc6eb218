/*
 * machine_logistic.c - kernel logistic regression: two classes by their log loss
 *
 * The outputs f are on the scale of a target that is 0 or 1, like those of least squares, and mean
 * the probability p = 1 / (1 + exp(-4 (f - 1/2))) of the second class.  The coefficients are the
 * minimum of
 *   J = sum_i s_i log(1 + exp(-4 y_i (f_i - 1/2))) / 4 + r / 2 a^T K a,   f = K a,
 * with y_i = 1 or -1 and the weights s of the rows.  The factors make the loss at f = 1/2 that of
 * least squares to second order, so that a ridge means the same for both.
 *
 * Newton's method is least squares again and again (IRLS: Green, JRSS B 46, 1984; Zhu and Hastie,
 * JCGS 14, 2005): with w = 4 s p (1 - p) and z = f + (t - p) s / w, where t is the target,
 *   (K + r diag(1 / w)) a = z,   f = z - r a / w.
 * The first step, from f = 1/2, is the solve of least squares; other ridges begin where the last
 * one has ended, and all rows where a leaf of a part of them has.  A step is halved as long as J
 * rises.  Curvatures below a thousandth count as that, which shortens steps and leaves the minimum
 * where it is.
 *
 * What a row's output would be without it, is taken from the last of these systems, whose weights
 * and targets stand: an approximation, because the row had a part in them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_logistic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_STEPS = 15,
    MOST_HALVINGS = 8
};

static const double least_curvature = 1e-3;
static const double settled = 1e-3; /* of J: the step that lowers it by less is the last, since the
                                      next one would by about the square of that */

double gram_machine_logistic_probability(double f)
{
    return 1 / (1 + exp(-4 * (f - 0.5)));
}

double gram_machine_logistic_loss(double f, double target)
{
    const double u = 4 * (target > 0.5 ? 0.5 - f : f - 0.5);

    return (u > 0 ? u + log1p(exp(-u)) : log1p(exp(u))) / 4;
}

static double target_of(const struct machine_data *z, int64_t i)
{
    return krr_element(z->dtype, z->y, i);
}

static double share_of(const struct machine_data *z, int64_t i)
{
    return z->weights ? z->weights[i] : 1;
}

double gram_machine_logistic_error(const struct machine_data *data, const double *f)
{
    double sum = 0, weights = 0;

    for (int64_t i = 0; i < data->rows; i++) {
        sum += share_of(data, i) * gram_machine_logistic_loss(f[i], target_of(data, i));
        weights += share_of(data, i);
    }
    return sum / weights;
}

/* What a fit works with, numbers of the rows one after the other. */
struct fit {
    const struct machine_params *params;
    const struct machine_data *z; /* whose targets are 0 or 1 */
    double bandwidth;
    struct machine_logistic *system;
    double *f, *a;           /* of the present point */
    double *next_f, *next_a; /* of the one that is tried */
    char *there;             /* coefficients in the data's dtype */
    double ridge;            /* that was solved with */
    struct machine_report *report;
};

/* The weights and targets of the next system. */
static void linearise(const struct fit *t)
{
    const struct machine_data *z = t->z;

    for (int64_t i = 0; i < z->rows; i++) {
        const double p = gram_machine_logistic_probability(t->f[i]), curved = 4 * p * (1 - p);
        const double w = curved > least_curvature ? curved : least_curvature;

        t->system->weight[i] = share_of(z, i) * w;
        krr_set_element(z->dtype, t->system->target, i, t->f[i] + (target_of(z, i) - p) / w);
    }
}

static double objective(const struct fit *t, const double *f, const double *a)
{
    double loss = 0, norm = 0;

    for (int64_t i = 0; i < t->z->rows; i++) {
        loss += share_of(t->z, i) * gram_machine_logistic_loss(f[i], target_of(t->z, i));
        norm += a[i] * f[i];
    }
    return loss + t->ridge / 2 * norm;
}

/* Solves the system; next_a and next_f become its answer. */
static gram_status solve(gram_context *g, struct fit *t, bool begun, void *alpha)
{
    const int64_t n = t->z->rows;
    const struct machine_leaf guess = {.rows = n, .outputs = 1, .alpha = alpha};
    struct machine_params params = *t->params;
    struct machine_report report = {0};
    struct machine_data z = *t->z;

    z.y = t->system->target;
    z.weights = t->system->weight;
    if (begun)
        params.guess = &guess;
    TRY(gram_machine_leaf_solve(g, &params, t->bandwidth, &z, alpha, &report));
    TRY(gram_krr_fetch(g, t->there, alpha, (size_t)n * gram_dtype_size(z.dtype)));
    t->ridge = report.ridge;
    for (int64_t i = 0; i < n; i++) {
        t->next_a[i] = krr_element(z.dtype, t->there, i);
        t->next_f[i] =
            krr_element(z.dtype, z.y, i) - report.ridge * t->next_a[i] / t->system->weight[i];
    }
    report.kernel_seconds += t->report->kernel_seconds;
    report.solve_seconds += t->report->solve_seconds;
    report.feature_seconds = t->report->feature_seconds;
    report.rounds = t->report->rounds;
    report.score = t->report->score;
    if (report.iterations < t->report->iterations)
        report.iterations = t->report->iterations;
    *t->report = report; /* residual and ridge are those of the last system */
    return GRAM_OK;
}

/* Halves the step while J is larger than before; false if it stays so. */
static bool shorten(const struct fit *t, double before, double *now)
{
    *now = objective(t, t->next_f, t->next_a);
    for (int half = 0; half<MOST_HALVINGS && * now> before; half++) {
        for (int64_t i = 0; i < t->z->rows; i++) {
            t->next_f[i] = 0.5 * (t->f[i] + t->next_f[i]);
            t->next_a[i] = 0.5 * (t->a[i] + t->next_a[i]);
        }
        *now = objective(t, t->next_f, t->next_a);
    }
    return *now <= before;
}

static void take(struct fit *t)
{
    double *f = t->f, *a = t->a;

    t->f = t->next_f;
    t->a = t->next_a;
    t->next_f = f;
    t->next_a = a;
}

static gram_status steps(gram_context *g, struct fit *t, void *alpha)
{
    const size_t n = (size_t)t->z->rows, size = gram_dtype_size(t->z->dtype);
    struct machine_logistic *system = t->system;
    double before = INFINITY, now = INFINITY;
    bool more = true;

    for (size_t i = 0; i < n; i++) {
        t->f[i] = system->known ? system->f[i] : 0.5;
        t->a[i] = system->known ? system->a[i] : 0;
    }
    for (int step = 0; more && step < MOST_STEPS; step++) {
        linearise(t);
        TRY(solve(g, t, step > 0, alpha));
        if (step == 0 && system->known) /* with the ridge that was solved with */
            before = objective(t, t->f, t->a);
        if (isfinite(before) && !shorten(t, before, &now))
            break; /* rounding, near the minimum: the point before stays */
        if (isinf(before))
            now = objective(t, t->next_f, t->next_a);
        take(t);
        more = !(before - now <= settled * now);
        before = now;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    memcpy(system->f, t->f, n * sizeof(double));
    memcpy(system->a, t->a, n * sizeof(double));
    system->known = isfinite(before);
    for (size_t i = 0; i < n; i++)
        krr_set_element(t->z->dtype, t->there, (int64_t)i, t->a[i]);
    return gram_krr_store(g, alpha, t->there, n * size);
}

void gram_machine_logistic_close(gram_context *g, struct machine_logistic *system)
{
    gram_free(g, system->weight, system->bytes);
    *system = (struct machine_logistic){0};
}

gram_status gram_machine_logistic_open(gram_context *g, int64_t rows,
                                       struct machine_logistic *system)
{
    system->bytes = (size_t)rows * 4 * sizeof(double);
    system->weight = gram_alloc(g, system->bytes);
    if (!system->weight)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", system->bytes);
    system->f = system->weight + rows;
    system->a = system->f + rows;
    system->target = (char *)(system->a + rows);
    system->known = false;
    return GRAM_OK;
}

static gram_status fit_rows(gram_context *g, struct fit *t, void *alpha)
{
    const size_t n = (size_t)t->z->rows, bytes = 5 * n * sizeof(double);
    double *memory = gram_alloc(g, bytes);
    gram_status status;

    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    t->f = memory;
    t->a = memory + n;
    t->next_f = memory + 2 * n;
    t->next_a = memory + 3 * n;
    t->there = (char *)(memory + 4 * n);
    status = steps(g, t, alpha);
    gram_free(g, memory, bytes);
    return status;
}

/* The outputs of all rows by the coefficients of a leaf of the first: there the steps begin. */
static gram_status extend(gram_context *g, const struct fit *t, int64_t rows, const void *alpha)
{
    const struct machine_data *z = t->z;
    const size_t size = gram_dtype_size(z->dtype), n = (size_t)z->rows, m = (size_t)rows;
    const gram_kernel_options kernel =
        gram_machine_kernel(t->params->p, t->params->q, t->bandwidth);
    gram_tensor x = gram_krr_matrix(g, z->x, z->rows, z->width, z->dtype);
    gram_tensor c = gram_krr_matrix(g, z->x, rows, z->width, z->dtype);
    gram_tensor v = gram_krr_matrix(g, alpha, rows, 1, z->dtype), out;
    struct krr_array values;
    char *here = gram_alloc(g, (n + m) * size);
    gram_status status;

    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", (n + m) * size);
    status = gram_krr_allocate(g, n * size, &values);
    out = gram_krr_matrix(g, values.data, z->rows, 1, z->dtype);
    if (status == GRAM_OK)
        status = gram_kernel_matmul(g, &x, &c, &kernel, &v, NULL, &out);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, here, values.data, n * size);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, here + n * size, alpha, m * size);
    for (int64_t i = 0; status == GRAM_OK && i < z->rows; i++) {
        t->system->f[i] = krr_element(z->dtype, here, i);
        t->system->a[i] = i < rows ? krr_element(z->dtype, here + n * size, i) : 0;
    }
    t->system->known = status == GRAM_OK;
    gram_krr_free(g, &values);
    gram_free(g, here, (n + m) * size);
    return status;
}

/* Where the steps begin if there is a leaf of the first rows. */
static gram_status begin_at(gram_context *g, const struct fit *t, const struct machine_leaf *leaf)
{
    struct krr_array x, alpha;
    gram_status status = gram_machine_leaf_place(g, leaf, &x, &alpha);

    if (status == GRAM_OK)
        status = extend(g, t, leaf->rows, alpha.data);
    gram_krr_free(g, &x);
    gram_krr_free(g, &alpha);
    return status;
}

gram_status gram_machine_logistic_fit(gram_context *g, const struct machine_params *params,
                                      double bandwidth, const struct machine_data *z, void *alpha,
                                      struct machine_logistic *system,
                                      struct machine_report *report)
{
    struct fit t = {
        .params = params, .z = z, .bandwidth = bandwidth, .system = system, .report = report};

    if (!system->known && params->guess && params->guess->rows <= z->rows)
        TRY(begin_at(g, &t, params->guess));
    return fit_rows(g, &t, alpha);
}
