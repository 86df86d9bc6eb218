/*
 * metrics.c - what --metric, --weights and --bits say of a distance
 *
 * SPDX-License-Identifier: MIT
 */
#include "metrics.h"
#include "text.h"
#include <math.h>
#include <string.h>

enum exit_status metric_check(const struct metric_settings *s, int dtype, struct failure *why)
{
    const gram_distance_kind kind = metric_kinds[s->metric];

    if (s->weights && kind == GRAM_DISTANCE_HAVERSINE)
        return fail(why, CLI_USAGE, "--weights means nothing with --metric haversine");
    if (!s->weights && kind == GRAM_DISTANCE_SEUCLIDEAN)
        return fail(why, CLI_USAGE,
                    "--metric seuclidean is given without --weights, the variances of the columns");
    if (s->bits < 1)
        return CLI_OK;
    if (kind != GRAM_DISTANCE_HAMMING && kind != GRAM_DISTANCE_JACCARD)
        return fail(why, CLI_USAGE,
                    "--bits is given without --metric hamming or jaccard, which it needs");
    if (s->weights)
        return fail(why, CLI_USAGE, "--weights and --bits are given, expected only one of them");
    return dtype == DTYPE_F64
               ? fail(why, CLI_USAGE, "--dtype is f64 with --bits, whose distances are f32")
               : CLI_OK;
}

/* ---- Packed bits ---------------------------------------------------------------------------- */

enum exit_status metric_pack(const struct metric_settings *s, const char *path, struct matrix *m,
                             struct failure *why)
{
    const int64_t count = matrix_count(m), cols = m->t.shape[m->t.ndim - 1];
    const int64_t expected = s->bits / 8 + (s->bits % 8 > 0);
    const float *from = m->t.data;
    struct matrix bytes;

    if (s->bits < 1)
        return CLI_OK;
    if (cols != expected)
        return fail(why, CLI_BAD_DATA,
                    "%s has %lld column%s, expected %lld, the bytes of --bits %lld",
                    text_name(path), (long long)cols, cols == 1 ? "" : "s", (long long)expected,
                    (long long)s->bits);
    for (int64_t i = 0; i < count; i++)
        if (!(from[i] >= 0 && from[i] <= UINT8_MAX && from[i] == floorf(from[i])))
            return fail(why, CLI_BAD_DATA,
                        "%s has the number %g, expected bytes with --bits: whole numbers from 0 to "
                        "255",
                        text_name(path), (double)from[i]);
    TRY(matrix_allocate(&bytes, GRAM_U8, m->t.ndim, m->t.shape, why));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)bytes.t.data)[i] = (uint8_t)from[i];
    memcpy(bytes.t.stride, m->t.stride, sizeof m->t.stride);
    matrix_free(m);
    *m = bytes;
    return CLI_OK;
}

/* ---- Weights -------------------------------------------------------------------------------- */

/* A row or a column as a vector. */
static enum exit_status see_vector(const char *path, const gram_tensor *x, struct matrix *m,
                                   struct failure *why)
{
    const int64_t count = matrix_count(m), cols = x->shape[x->ndim - 1];
    int longest = 0;

    for (int i = 1; i < m->t.ndim; i++)
        longest = m->t.shape[i] > m->t.shape[longest] ? i : longest;
    if (count != cols || (m->t.ndim > 0 && m->t.shape[longest] != count))
        return fail(why, CLI_BAD_DATA,
                    "%s has %lld number%s, expected a row or a column of %lld, one per column of X",
                    text_name(path), (long long)count, count == 1 ? "" : "s", (long long)cols);
    m->t.ndim = 1, m->t.shape[0] = count, m->t.stride[0] = 1;
    return CLI_OK;
}

/* Variances must not be 0 either. */
static enum exit_status check_weights(const char *path, bool variances, const struct matrix *m,
                                      struct failure *why)
{
    for (int64_t i = 0; i < m->t.shape[0]; i++) {
        const double w = ((const double *)m->t.data)[i];
        if (!(w >= 0) || isinf(w))
            return fail(why, CLI_BAD_DATA, "%s has the weight %g, expected finite numbers from 0",
                        text_name(path), w);
        if (w == 0 && variances)
            return fail(why, CLI_BAD_DATA, "%s has the variance 0, expected positive numbers",
                        text_name(path));
    }
    return CLI_OK;
}

enum exit_status metric_weights_load(gram_context *g, const struct metric_settings *s,
                                     const struct input_settings *input, const gram_tensor *x,
                                     struct metric_weights *w, struct failure *why)
{
    if (!s->weights)
        return CLI_OK;
    TRY(matrix_load(s->weights, input, DTYPE_F64, &w->read, why));
    TRY(see_vector(s->weights, x, &w->read, why));
    TRY(check_weights(s->weights, metric_kinds[s->metric] == GRAM_DISTANCE_SEUCLIDEAN, &w->read,
                      why));
    return device_matrix_send(g, &w->read, &w->there, why);
}

void metric_weights_free(gram_context *g, struct metric_weights *w)
{
    device_matrix_free(g, &w->there);
    matrix_free(&w->read);
}

bool metric_describe(const struct metric_settings *s, double p, const struct metric_weights *w,
                     gram_distance *metric)
{
    *metric = (gram_distance)GRAM_DISTANCE_INIT;
    metric->kind = metric_kinds[s->metric];
    metric->p = gram_number(p);
    metric->weights = s->weights ? &w->there.t : NULL;
    metric->bits = s->bits > 0 ? s->bits : 0;
    return metric->kind != GRAM_DISTANCE_MINKOWSKI || metric->weights;
}
