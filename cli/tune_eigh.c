/*
 * tune_eigh.c - `gram tune eigh`: finds the fastest driver for eigenproblems of a shape
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_eigh.h"
#include "tune_report.h"
#include <math.h>

static enum exit_status print(const gram_eigh_tuning *t, int json, struct failure *why)
{
    struct tune_report r;

    TRY(tune_report_open(&r, json, why));
    if (json) {
        json_string(&r.j, "driver", eigh_driver_names[t->driver]);
        json_string(&r.j, "table_driver", eigh_driver_names[t->table_driver]);
        json_integer(&r.j, "candidates", t->candidates);
        json_bool(&r.j, "kept", t->kept);
        json_object(&r.j, "ms");
        for (int i = 1; eigh_driver_names[i]; i++)
            if (!isnan(t->driver_seconds[i]))
                json_number(&r.j, eigh_driver_names[i], t->driver_seconds[i] * 1e3);
        json_end(&r.j);
        return tune_report_close(&r, t->kept, why);
    }
    for (int i = 1; eigh_driver_names[i]; i++)
        if (!isnan(t->driver_seconds[i]))
            output_format(&r.out, "%-9s  %12.4f ms per call%s%s\n", eigh_driver_names[i],
                          t->driver_seconds[i] * 1e3, i == (int)t->driver ? ", the fastest" : "",
                          i == (int)t->table_driver ? ", the table's choice" : "");
    return tune_report_close(&r, t->kept, why);
}

enum exit_status tune_eigh(gram_context *g, const struct tune_eigh *t, struct failure *why)
{
    gram_eigh_tuning result = {.size = sizeof result};
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    struct eigh_sample p;
    enum exit_status status;

    options.count = t->shape.n;
    if (t->largest >= 0 || t->smallest >= 0) {
        options.select = t->largest >= 0 ? GRAM_EIGH_LARGEST : GRAM_EIGH_SMALLEST;
        options.count = t->largest >= 0 ? t->largest : t->smallest;
    }
    status = eigh_sample_make(g, &t->shape, options.count, !t->no_vectors, &p, why);
    if (status == CLI_OK) {
        gram_status done = gram_tune_eigh(g, &p.a.t, &options, &p.values.t,
                                          t->no_vectors ? NULL : &p.vectors.t, NULL, &result);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    eigh_sample_free(g, &p);
    return status == CLI_OK ? print(&result, t->json, why) : status;
}
