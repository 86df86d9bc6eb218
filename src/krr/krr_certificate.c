/*
 * krr_certificate.c - how wrong an answer of gram_krr_solve is
 *
 * With A = K + D, D = diag(ridge / weight), the error of alpha is e = A^-1 r, so that predictions
 * change by K A^-1 r at the points and by k(z)^T A^-1 r elsewhere.  D^(-1/2) K D^(-1/2) = S gives
 *   |K A^-1 r|_2 = |D^(1/2) S (S + I)^-1 D^(-1/2) r|_2 <= sqrt(max D / min D) |r|_2,
 * and with K = F F^T, k(z) = F f, |f|_2^2 = k(z, z), G = D^(-1/2) F, whose singular values are s,
 *   |k(z)^T A^-1 r| = |f^T G^T (G G^T + I)^-1 D^(-1/2) r|
 *                   <= sqrt(k(z, z)) max s / (s^2 + 1) |r|_2 / sqrt(min D),
 * where s / (s^2 + 1) <= 1/2.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/context.h"
#include "krr_ranks.h"
#include "krr_solve.h"
#include <float.h>
#include <math.h>
#include <string.h>

gram_status gram_krr_multiply_wide(gram_context *g, struct krr_problem *p, int64_t columns,
                                   const void *v, void *out)
{
    const gram_tensor x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64);
    struct krr_kernel k = {.x = &x, .kernel = &p->wide_kernel, .call = p->call, .ranks = p->ranks};

    p->products++;
    if (p->rows.read)
        return gram_krr_rows_multiply(g, p, true, columns, v, out);
    return gram_krr_kernel_multiply(g, &k, columns, v, out);
}

/* Of column j, from the product that lies in residual. */
static void column_residual(struct krr_problem *p, int64_t j)
{
    const double *y = p->y + j * p->n, *alpha = p->alpha + j * p->n;
    double *r = p->residual + j * p->n, sum = 0, length = 0;

    for (int64_t i = 0; i < p->n; i++) {
        r[i] = y[i] - r[i] - p->ridge[i] * alpha[i];
        sum += r[i] * r[i];
        length += alpha[i] * alpha[i];
    }
    p->norm_r[j] =
        sqrt(sum) + 16 * DBL_EPSILON * sqrt((double)p->n) * p->most_diagonal * sqrt(length);
}

gram_status gram_krr_residual(gram_context *g, struct krr_problem *p)
{
    size_t bytes = (size_t)(p->n * p->columns) * sizeof(double);
    struct krr_array v = {0}, out = {0};
    gram_status status;

    if (p->narrow_alpha)
        for (int64_t i = 0; i < p->n * p->columns; i++)
            p->alpha[i] = (double)(float)p->alpha[i];
    status = gram_krr_send(g, p->alpha, bytes, &v);
    if (status == GRAM_OK && p->ranks) /* one alpha on all ranks, to the last bit */
        status = gram_krr_ranks_gather(g, p->ranks, GRAM_F64, p->columns, v.data);
    if (status == GRAM_OK && p->ranks)
        status = gram_krr_fetch(g, p->alpha, v.data, bytes);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, bytes, &out);
    if (status == GRAM_OK)
        status = gram_krr_multiply_wide(g, p, p->columns, v.data, out.data);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, p->residual, out.data, bytes);
    gram_krr_free(g, &out);
    gram_krr_free(g, &v);
    for (int64_t j = 0; status == GRAM_OK && j < p->columns; j++)
        column_residual(p, j);
    return status;
}

gram_status gram_krr_first_residual(gram_context *g, struct krr_problem *p)
{
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof *p->residual;

    if (p->options.warm_start) /* which ranks have in common */
        return gram_krr_residual(g, p);
    memcpy(p->residual, p->y, bytes);
    memcpy(p->norm_r, p->norm_y, (size_t)p->columns * sizeof *p->norm_r);
    return GRAM_OK;
}

void gram_krr_targets(struct krr_problem *p)
{
    const gram_krr_options *o = &p->options;

    for (int64_t j = 0; j < p->columns; j++)
        p->target[j] = o->held_out_rmse > 0
                           ? o->tolerance * o->held_out_rmse * sqrt((double)p->n) / p->room
                           : o->tolerance * p->norm_y[j];
}

double gram_krr_excess(const struct krr_problem *p)
{
    double most = 0;

    for (int64_t j = 0; j < p->columns; j++) {
        double excess = p->norm_r[j] / p->target[j];
        if (p->norm_r[j] == 0)
            continue;
        if (!(excess <= most)) /* NaN too */
            most = excess;
    }
    return most;
}

double gram_krr_singular_ridge(const struct krr_problem *p)
{
    double eps = p->dtype == GRAM_F32 && !p->options.refine ? FLT_EPSILON : DBL_EPSILON;
    double least = eps * (double)p->n * p->most_diagonal;

    return p->least_ridge < least ? least : 0;
}

void gram_krr_bounds(const struct krr_problem *p, gram_krr_report *report)
{
    double most = 0;

    report->residual = 0;
    for (int64_t j = 0; j < p->columns; j++) {
        double relative = p->norm_r[j] == 0 ? 0 : p->norm_r[j] / p->norm_y[j];
        if (!(relative <= report->residual))
            report->residual = relative;
        if (!(p->norm_r[j] <= most))
            most = p->norm_r[j];
    }
    report->residual_rms = p->n > 0 ? most / sqrt((double)p->n) : 0;
    report->prediction_rms = report->residual_rms * p->room;
    report->prediction_sup =
        most == 0 ? 0 : sqrt(p->most_diagonal) * most / (2 * sqrt(p->least_ridge));
}
