/*
 * fit_trials.c - the trials of `gram fit` as a table, the best first
 *
 * SPDX-License-Identifier: MIT
 */
#include "fit.h"
#include "json_member.h"
#include <string.h>

/* The columns, which are members of the library's objects too. */
static const char *const columns[] = {
    "rank",
    "trial",
    "level",
    "rows",
    "centres",
    "held_out",
    "score",
    "spread",
    "p",
    "q",
    "bandwidth_in_medians",
    "bandwidth",
    "regularization",
    "iterations",
    "metric",
    "metric_power",
    "loss",
    "target_transform",
    "weight",
    "seconds",
};

/* A value without its quotes; empty if the object has none, or null. */
static void write_value(struct output *out, const char *object, const char *name)
{
    size_t size;
    const char *value = json_member(object, name, &size);

    if (!value || *value == 'n')
        return;
    if (*value == '"')
        output_write(out, value + 1, size - 2); /* a word of ours, with nothing to escape */
    else
        output_write(out, value, size);
}

enum exit_status fit_trials(const char *path, const gram_machine *machine, struct failure *why)
{
    struct output out;
    size_t size;
    const char *all = json_member(gram_machine_describe(machine), "search", &size);

    TRY(output_open(&out, path, why));
    for (size_t i = 0; i < LENGTH(columns); i++)
        output_format(&out, "%s%s", i ? "," : "", columns[i]);
    output_text(&out, "\n");
    for (const char *one = all ? json_element(all, NULL, &size) : NULL; one;
         one = json_element(all, one, &size))
        for (size_t i = 0; i < LENGTH(columns); i++) {
            write_value(&out, one, columns[i]);
            output_text(&out, i + 1 < LENGTH(columns) ? "," : "\n");
        }
    return output_close(&out, why);
}
