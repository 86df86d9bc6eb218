/*
 * machine_targets.c - several targets of one machine
 *
 * A machine of several targets is a regression of each: the targets are right-hand sides of the
 * same systems, so that the kernel, the metric, the bandwidth and the ridge are those that are best
 * on average, with every target in units of its standard deviation.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <stdlib.h>
#include <string.h>

/* A part is a regression.  Two values would make a target of its own a classification. */
static gram_status fit_part(gram_context *g, const gram_column *column, gram_task task,
                            const int64_t *rows, int64_t count, struct machine_target *out)
{
    if (column->labels || task == GRAM_CLASSIFICATION)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "target \"%s\" %s, expected numbers: several targets are regressions",
                         column->name, column->labels ? "holds labels" : "is a classification");
    TRY(gram_machine_target_fit(g, column, task, rows, count, out));
    if (out->classes == 0)
        return GRAM_OK;
    gram_machine_target_destroy(out);
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "target \"%s\" has two values, which are classes, but several targets are "
                     "regressions; options.task = GRAM_REGRESSION takes them as numbers",
                     column->name);
}

gram_status gram_machine_targets_fit(gram_context *g, const gram_column *column, int64_t columns,
                                     gram_task task, const int64_t *rows, int64_t count,
                                     struct machine_target *out)
{
    struct machine_target all = {
        .task = GRAM_REGRESSION, .transform = GRAM_TRANSFORM_NONE, .scale = 1};
    gram_status status = GRAM_OK;

    if (columns == 1)
        return gram_machine_target_fit(g, column, task, rows, count, out);
    *out = (struct machine_target){0};
    all.part = calloc((size_t)columns, sizeof *all.part);
    if (!all.part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld targets", (long long)columns);
    for (; status == GRAM_OK && all.parts < columns; all.parts++)
        status = fit_part(g, &column[all.parts], task, rows, count, &all.part[all.parts]);
    if (status != GRAM_OK)
        gram_machine_target_destroy(&all);
    *out = all;
    return status;
}

bool gram_machine_targets_missing(const gram_column *column, int64_t columns, int64_t row)
{
    bool missing = false;

    for (int64_t c = 0; c < columns; c++)
        missing |= gram_machine_target_missing(&column[c], row);
    return missing;
}

gram_status gram_machine_target_borrow(gram_context *g, const struct machine_target *from,
                                       struct machine_target *to)
{
    const size_t bytes = (size_t)from->parts * sizeof *from->part;

    *to = *from;
    if (from->parts == 0)
        return GRAM_OK;
    to->part = malloc(bytes);
    if (!to->part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld targets",
                         (long long)from->parts);
    memcpy(to->part, from->part, bytes);
    return GRAM_OK;
}

void gram_machine_target_return(struct machine_target *target)
{
    free(target->part);
    *target = (struct machine_target){0};
}

int64_t gram_machine_target_parts(const struct machine_target *target)
{
    return target->parts > 0 ? target->parts : 1;
}

const struct machine_target *gram_machine_target_part(const struct machine_target *target,
                                                      int64_t index)
{
    return target->parts > 0 ? &target->part[index] : target;
}

gram_status gram_machine_target_find(gram_context *g, const struct machine_target *target,
                                     const gram_column *column, int64_t *index)
{
    *index = 0;
    if (target->parts == 0)
        return gram_machine_target_check(g, target, column);
    TRY(gram_machine_target_check(g, &target->part[0], column));
    while (*index < target->parts && strcmp(target->part[*index].name, column->name) != 0)
        ++*index;
    if (*index < target->parts)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "target \"%s\" is none of the %lld targets of the machine", column->name,
                     (long long)target->parts);
}
