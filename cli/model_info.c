/*
 * model_info.c - what a model file holds, for `gram info`
 *
 * The columns are in the order of the table that the model was trained on.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model_info.h"
#include "json_member.h"
#include "targets.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

/* The columns of the model in their own order; free(*out) when done. */
static enum exit_status columns_of(const struct model *m, gram_machine_feature **out,
                                   struct failure *why)
{
    *out = calloc((size_t)m->count + 1, sizeof **out);
    if (!*out)
        return fail_memory(why, "the columns of the model");
    for (int64_t i = 0; i < m->count; i++) {
        gram_status status;
        (*out)[i].size = sizeof **out;
        status = gram_machine_feature_at(m->g, m->machine, i, &(*out)[i]);
        if (status != GRAM_OK)
            return fail_gram(why, status, m->g);
    }
    return CLI_OK;
}

/* A member of the library's description of the machine, or "{}". */
static const char *member(const struct model *m, const char *name, size_t *size)
{
    const char *found = json_member(gram_machine_describe(m->machine), name, size);

    if (found)
        return found;
    *size = 2;
    return "{}";
}

static const char *kind_of(const gram_machine_feature *column)
{
    return column->dates ? "date" : column->labels > 0 ? "text" : "number";
}

static void write_json(struct output *out, const char *path, const struct model *m,
                       const gram_machine_feature *columns)
{
    const char *description = gram_machine_describe(m->machine), *text;
    const int64_t classes = gram_machine_class_count(m->machine);
    struct json j = json_to(out);
    size_t size;

    json_object(&j, NULL);
    json_string(&j, "model", path);
    json_string(&j, "target", gram_machine_target(m->machine));
    targets_json(&j, m->machine);
    json_string(&j, "task", task_name(gram_machine_task(m->machine)));
    text = member(m, "rows", &size);
    json_raw(&j, "rows", text, size);
    if (classes > 0) {
        json_flat_array(&j, "classes");
        for (int64_t k = 0; k < classes; k++)
            json_string(&j, NULL, gram_machine_class_name(m->machine, k));
        json_end(&j);
    }
    json_array(&j, "columns");
    for (int64_t i = 0; i < m->count; i++) {
        json_flat_object(&j, NULL);
        json_string(&j, "name", columns[i].name);
        json_string(&j, "kind", kind_of(&columns[i]));
        if (columns[i].categories)
            json_integer(&j, "categories", columns[i].categories);
        json_number(&j, "importance", columns[i].importance);
        json_end(&j);
    }
    json_end(&j);
    text = member(m, "hyperparameters", &size);
    json_raw(&j, "hyperparameters", text, size);
    class_weight_json(&j, description);
    json_raw(&j, "machine", description, strlen(description));
    json_end(&j);
}

static void write_name(struct output *out, const char *name)
{
    output_name(out, name, strlen(name));
}

static void write_classes(struct output *out, const struct model *m)
{
    const int64_t classes = gram_machine_class_count(m->machine), most = 20;

    if (classes == 0)
        return;
    output_format(out, "%lld classes: ", (long long)classes);
    for (int64_t k = 0; k < classes && k < most; k++) {
        output_text(out, k ? ", " : "");
        write_name(out, gram_machine_class_name(m->machine, k));
    }
    output_text(out, classes > most ? ", ...\n" : "\n");
}

/* An object of numbers and texts for people: {"p": 2, "q": 1} becomes p: 2, q: 1. */
static void write_settings(struct output *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr("{}\"", text[i]))
            output_write(out, &text[i], 1);
    output_text(out, "\n");
}

/* What else the model tells of its fit, without what it does not have. */
static void write_others(struct output *out, const struct model *m)
{
    static const char *const others[] = {"version", "solver",      "dtype", "leaves",
                                         "trees",   "temperature", "seed"};
    const char *between = "";

    for (int i = 0; i < LENGTH(others); i++) {
        size_t size = 0;
        const char *text = json_member(gram_machine_describe(m->machine), others[i], &size);

        if (!text)
            continue;
        output_format(out, "%s%s: ", between, others[i]);
        between = ", ";
        for (size_t k = 0; k < size; k++)
            if (text[k] != '"')
                output_write(out, &text[k], 1);
    }
}

static void write_text(struct output *out, const struct model *m,
                       const gram_machine_feature *columns)
{
    size_t size;
    const char *text = member(m, "rows", &size);
    int room = 0;

    output_format(out, "%s of ", task_name(gram_machine_task(m->machine)));
    targets_text(out, m->machine);
    output_format(out, " from %lld columns, learned from %.*s rows\n", (long long)m->count,
                  (int)size, text);
    write_classes(out, m);
    ensemble_text(out, gram_machine_describe(m->machine));
    text = member(m, "hyperparameters", &size);
    output_text(out, "hyperparameters: ");
    write_settings(out, text, size);
    class_weight_text(out, gram_machine_describe(m->machine));
    category_statistics_text(out, gram_machine_describe(m->machine));
    write_others(out, m);
    output_text(out, "\ncolumns:\n");
    for (int64_t i = 0; i < m->count; i++) {
        const int characters = text_characters(columns[i].name);
        room = characters > room ? characters : room;
    }
    room = room < 40 ? room : 40;
    for (int64_t i = 0; i < m->count; i++) {
        const int blanks = room - text_characters(columns[i].name);
        output_text(out, "  ");
        write_name(out, columns[i].name);
        output_format(out, "%*s %6.1f %%  ", blanks > 0 ? blanks : 0, "",
                      columns[i].importance * 100);
        output_text(out, kind_of(&columns[i]));
        if (columns[i].categories)
            output_format(out, ", %d categories", columns[i].categories);
        output_text(out, "\n");
    }
}

enum exit_status model_info(const char *path, const struct common_settings *common, int json,
                            struct failure *why)
{
    struct model model;
    gram_machine_feature *columns = NULL;
    struct output out;
    enum exit_status status;

    TRY(model_load(path, common, &model, why));
    status = columns_of(&model, &columns, why);
    if (status == CLI_OK)
        status = output_open(&out, "-", why);
    if (status == CLI_OK) {
        if (json)
            write_json(&out, path, &model, columns);
        else
            write_text(&out, &model, columns);
        status = output_close(&out, why);
    }
    free(columns);
    model_free(&model);
    return status;
}
