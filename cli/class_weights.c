/*
 * class_weights.c - the value of --class-weight
 *
 * Classes of numbers are compared as numbers: 1.0 is the class 1.
 *
 * SPDX-License-Identifier: MIT
 */
#include "class_weights.h"
#include "closest.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_class_of(const gram_column *target, int64_t rows, const char *label)
{
    double value = 0;

    if (target->numbers && !number_parse_all(label, &value))
        return 0;
    for (int64_t row = 0; row < rows; row++)
        if (target->numbers ? target->numbers[row] == value
                            : target->labels[row] && strcmp(target->labels[row], label) == 0)
            return 1;
    return 0;
}

/* The classes, as many as there is room for, in the order of the table. */
static void list_classes(const gram_column *target, int64_t rows, struct closest *closest,
                         char *text, size_t size)
{
    char names[20][64], number[NUMBER_TEXT];
    size_t used = 0;
    int count = 0, more = 0;

    for (int64_t row = 0; row < rows && !more; row++) {
        const char *name = target->numbers ? number : target->labels[row];
        int known = 0;
        if (target->numbers ? isnan(target->numbers[row]) : !name)
            continue;
        if (target->numbers)
            number_format(number, target->numbers[row]);
        closest_offer(closest, name);
        for (int i = 0; i < count && !known; i++)
            known = strncmp(names[i], name, sizeof names[i] - 1) == 0;
        if (known)
            continue;
        more = count == LENGTH(names);
        if (!more)
            snprintf(names[count++], sizeof names[0], "%.63s", name);
    }
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    if (more && used < size)
        snprintf(text + used, size - used, ", ...");
}

static enum exit_status unknown(const char *label, const gram_column *target, int64_t rows,
                                struct failure *why)
{
    struct closest closest = {.wanted = label};
    char names[600] = "", hint[CLOSEST_HINT];

    list_classes(target, rows, &closest, names, sizeof names);
    return fail(why, CLI_BAD_DATA,
                "--class-weight names \"%.200s\", which is no class of \"%.200s\"; the classes are "
                "%s%s",
                label, target->name, names, closest_hint(&closest, "\"", "\"", hint));
}

/* One LABEL=WEIGHT, which ends with a NUL; the label may contain = too. */
static enum exit_status read_one(char *text, struct class_weights *w, struct failure *why)
{
    char *equals = strrchr(text, '=');
    double value;

    if (!equals || equals == text)
        return fail(why, CLI_USAGE,
                    "--class-weight holds \"%.200s\", expected balanced or LABEL=WEIGHT,...", text);
    *equals = '\0';
    if (!number_parse_all(equals + 1, &value) || !(value > 0) || isinf(value))
        return fail(why, CLI_USAGE,
                    "--class-weight of \"%.200s\" is \"%.100s\", expected a number of more than 0",
                    text, equals + 1);
    for (int64_t i = 0; i < w->count; i++)
        if (w->label[i] && strcmp(w->label[i], text) == 0)
            return fail(why, CLI_USAGE, "--class-weight names \"%.200s\" twice", text);
    w->label[w->count] = text;
    w->weight[w->count++] = value;
    return CLI_OK;
}

/* The name of a class as the library spells it: of a number, its shortest digits. */
static const char *respelled(const char *label, const gram_column *target, char *room)
{
    double value;

    if (!target->numbers || !number_parse_all(label, &value))
        return label;
    number_format(room, value);
    return room;
}

enum exit_status class_weights_read(const char *text, const struct table *t, int64_t target,
                                    struct class_weights *out, struct failure *why)
{
    const struct column *c = &t->columns[target];
    const gram_column column = {c->name, c->numbers, (const char *const *)c->texts};
    const size_t size = text ? strlen(text) + 1 : 0;
    size_t most = 1;
    char *next;

    *out = (struct class_weights){.count = 0};
    if (!text)
        return CLI_OK;
    if (strcmp(text, "balanced") == 0) {
        out->count = -1;
        return CLI_OK;
    }
    for (const char *at = text; *at; at++)
        most += *at == ',';
    out->label = calloc(most, sizeof *out->label);
    out->weight = calloc(most, sizeof *out->weight);
    out->memory = malloc(size + most * NUMBER_TEXT);
    if (!out->label || !out->weight || !out->memory)
        return fail_memory(why, "the weights of the classes");
    memcpy(out->memory, text, size);
    for (char *at = out->memory; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        TRY(read_one(at, out, why));
        if (!is_class_of(&column, t->rows, out->label[out->count - 1]))
            return unknown(out->label[out->count - 1], &column, t->rows, why);
    }
    for (int64_t i = 0; i < out->count; i++)
        out->label[i] =
            respelled(out->label[i], &column, out->memory + size + (size_t)i * NUMBER_TEXT);
    return CLI_OK;
}

void class_weights_give(struct class_weights *w, const gram_column *target, int64_t rows,
                        gram_machine_options *options)
{
    int64_t here = 0;

    for (int64_t i = 0; i < w->count; i++)
        if (is_class_of(target, rows, w->label[i])) {
            const char *label = w->label[i];
            const double weight = w->weight[i];
            w->label[i] = w->label[here], w->weight[i] = w->weight[here];
            w->label[here] = label, w->weight[here] = weight;
            here++;
        }
    options->class_weights = w->count < 0 ? w->count : here;
    options->class_label = here ? w->label : NULL;
    options->class_weight = here ? w->weight : NULL;
}

void class_weights_free(struct class_weights *w)
{
    free(w->label);
    free(w->weight);
    free(w->memory);
    *w = (struct class_weights){.count = 0};
}
