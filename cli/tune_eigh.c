/*
 * tune_eigh.c - `gram tune eigh`: which driver does eigenproblems of a shape fastest
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_eigh.h"
#include "device.h"
#include "json.h"
#include <math.h>

static const char *const drivers[] = {"auto",      "closed", "jacobi", "divide",
                                      "bisection", "krylov", "batched"};

/* Element i, j of a random symmetric matrix, between -1 and 1. */
static double random_element(int64_t item, int64_t i, int64_t j)
{
    uint64_t state = (uint64_t)(i < j ? i : j) * 0x9E3779B97F4A7C15u ^ (uint64_t)(i < j ? j : i);

    state = (state ^ (uint64_t)item << 40) * 6364136223846793005u + 1442695040888963407u;
    state ^= state >> 29;
    state *= 0xBF58476D1CE4E5B9u;
    return (double)(int64_t)(state ^ state >> 32) / 0x1p63;
}

/* Of the Gaussian kernel of points on a line, ten of them within a bandwidth. */
static double kernel_element(int64_t item, int64_t i, int64_t j)
{
    double distance = (double)(i - j) / 10 * (1 + 1e-3 * (double)item);

    return exp(-distance * distance / 2);
}

static void fill(const struct tune_eigh *t, void *to)
{
    int64_t at = 0;

    for (int64_t item = 0; item < t->items; item++)
        for (int64_t i = 0; i < t->n; i++)
            for (int64_t j = 0; j < t->n; j++, at++) {
                double value = t->kernel ? kernel_element(item, i, j) : random_element(item, i, j);
                if (t->dtype == GRAM_F64)
                    ((double *)to)[at] = value;
                else
                    ((float *)to)[at] = (float)value;
            }
}

struct problem {
    struct matrix host;
    struct device_matrix a, values, vectors;
};

static enum exit_status make(gram_context *g, const struct tune_eigh *t, int64_t k,
                             struct problem *p, struct failure *why)
{
    int64_t shape[] = {t->items, t->n, t->n};

    if (t->n > INT64_MAX / 16 / t->n / t->items)
        return fail_memory(why, "the matrices");
    TRY(matrix_allocate(&p->host, t->dtype, 3, shape, why));
    fill(t, p->host.t.data);
    TRY(device_matrix_send(g, &p->host, &p->a, why));
    shape[2] = k;
    if (!t->no_vectors)
        TRY(device_matrix_allocate(g, t->dtype, 3, shape, &p->vectors, why));
    shape[1] = k;
    return device_matrix_allocate(g, t->dtype, 2, shape, &p->values, why);
}

static enum exit_status print(const gram_eigh_tuning *t, int json, struct failure *why)
{
    struct output out;
    struct json j;

    TRY(output_open(&out, "-", why));
    j = json_to(&out);
    if (json) {
        json_object(&j, NULL);
        json_string(&j, "driver", drivers[t->driver]);
        json_string(&j, "table_driver", drivers[t->table_driver]);
        json_integer(&j, "candidates", t->candidates);
        json_bool(&j, "kept", t->kept);
        json_object(&j, "ms");
        for (int i = 1; i < (int)(sizeof drivers / sizeof *drivers); i++)
            if (!isnan(t->driver_seconds[i]))
                json_number(&j, drivers[i], t->driver_seconds[i] * 1e3);
        json_end(&j);
        json_end(&j);
        return output_close(&out, why);
    }
    for (int i = 1; i < (int)(sizeof drivers / sizeof *drivers); i++)
        if (!isnan(t->driver_seconds[i]))
            output_format(&out, "%-9s  %12.4f ms a call%s%s\n", drivers[i],
                          t->driver_seconds[i] * 1e3, i == (int)t->driver ? ", the fastest" : "",
                          i == (int)t->table_driver ? ", the table's choice" : "");
    if (!t->kept)
        output_text(&out, "It is not kept: gram cache info says why.\n");
    return output_close(&out, why);
}

enum exit_status tune_eigh(gram_context *g, const struct tune_eigh *t, struct failure *why)
{
    gram_eigh_tuning result = {.size = sizeof result};
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    struct problem p = {.host.memory = NULL};
    enum exit_status status;

    options.count = t->n;
    if (t->largest >= 0 || t->smallest >= 0) {
        options.select = t->largest >= 0 ? GRAM_EIGH_LARGEST : GRAM_EIGH_SMALLEST;
        options.count = t->largest >= 0 ? t->largest : t->smallest;
    }
    status = make(g, t, options.count, &p, why);
    if (status == CLI_OK) {
        gram_status done = gram_tune_eigh(g, &p.a.t, &options, &p.values.t,
                                          t->no_vectors ? NULL : &p.vectors.t, NULL, &result);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    device_matrix_free(g, &p.a);
    device_matrix_free(g, &p.values);
    device_matrix_free(g, &p.vectors);
    matrix_free(&p.host);
    return status == CLI_OK ? print(&result, t->json, why) : status;
}
