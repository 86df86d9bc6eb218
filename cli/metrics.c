/*
 * metrics.c - the weights of a metric, which --weights names
 *
 * SPDX-License-Identifier: MIT
 */
#include "metrics.h"
#include "text.h"
#include <math.h>

enum exit_status metric_weights_check(int metric, const char *path, struct failure *why)
{
    return path && metric_kinds[metric] == GRAM_DISTANCE_HAVERSINE
               ? fail(why, CLI_USAGE, "--weights means nothing with --metric haversine")
               : CLI_OK;
}

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

static enum exit_status check_weights(const char *path, const struct matrix *m, struct failure *why)
{
    for (int64_t i = 0; i < m->t.shape[0]; i++) {
        const double w = ((const double *)m->t.data)[i];
        if (!(w >= 0) || isinf(w))
            return fail(why, CLI_BAD_DATA, "%s has the weight %g, expected finite numbers from 0",
                        text_name(path), w);
    }
    return CLI_OK;
}

enum exit_status metric_weights_load(gram_context *g, const struct metric_weights_file *file,
                                     const gram_tensor *x, struct metric_weights *w,
                                     struct failure *why)
{
    if (!file->path)
        return CLI_OK;
    TRY(matrix_load(file->path, file->input, DTYPE_F64, &w->read, why));
    TRY(see_vector(file->path, x, &w->read, why));
    TRY(check_weights(file->path, &w->read, why));
    return device_matrix_send(g, &w->read, &w->there, why);
}

void metric_weights_free(gram_context *g, struct metric_weights *w)
{
    device_matrix_free(g, &w->there);
    matrix_free(&w->read);
}
