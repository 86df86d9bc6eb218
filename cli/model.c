/*
 * model.c - tables in the library's form, and models that were loaded
 *
 * SPDX-License-Identifier: MIT
 */
#include "model.h"
#include "closest.h"
#include "load.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gram_column table_column(const struct table *t, int64_t column, int64_t first)
{
    const struct column *c = &t->columns[column];
    gram_column out = {
        .name = c->name,
        .numbers = c->numbers ? c->numbers + first : NULL,
        .labels = c->texts ? (const char *const *)c->texts + first : NULL,
    };

    return out;
}

enum exit_status table_view_make(const struct table *t, int64_t first, int64_t rows,
                                 const int64_t except[2], struct table_view *out,
                                 struct failure *why)
{
    *out = (struct table_view){.t = {.rows = rows}};
    out->columns = calloc((size_t)t->width + 1, sizeof *out->columns);
    if (!out->columns)
        return fail_memory(why, "the columns of the table");
    for (int64_t c = 0; c < t->width; c++)
        if (t->columns[c].kind != COLUMN_IGNORED && c != except[0] && c != except[1])
            out->columns[out->t.columns++] = table_column(t, c, first);
    out->t.column = out->columns;
    return CLI_OK;
}

enum exit_status table_require(const struct table *t, const char *path, const char *name,
                               const char *what, int64_t *index, struct failure *why)
{
    struct closest closest = {.wanted = name};
    char names[400] = "", hint[CLOSEST_HINT];
    size_t used = 0;

    *index = table_find(t, name);
    if (*index >= 0)
        return CLI_OK;
    for (int64_t c = 0; c < t->width; c++)
        closest_offer(&closest, t->columns[c].name);
    for (int64_t c = 0; c < t->width && used < sizeof names - 1; c++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", c ? ", " : "",
                                 t->columns[c].name);
    return fail(why, CLI_BAD_DATA, "%s: no column \"%.200s\"%s; the columns are %s%s%s%s%s",
                text_name(path), name, what, names, used >= sizeof names ? " ..." : "",
                closest_hint(&closest, "\"", "\"", hint), table_header_hint(t),
                t->width > 1 ? ""
                             : "; fields are separated by a comma, a tab, a semicolon, | or what "
                               "--delimiter says");
}

int name_listed(const char *list, const char *name)
{
    size_t size = strlen(name);

    for (; list; list = list[strcspn(list, ",")] ? list + strcspn(list, ",") + 1 : NULL)
        if (strcspn(list, ",") == size && memcmp(list, name, size) == 0)
            return 1;
    return 0;
}

enum exit_status name_next(const struct table *t, const char *path, const char **list,
                           const char *what, int64_t *column, struct failure *why)
{
    const char *at = *list;
    const size_t size = strcspn(at, ",");
    char name[256];

    snprintf(name, sizeof name, "%.*s", (int)size, at);
    *list = at[size] ? at + size + 1 : NULL;
    return table_require(t, path, name, what, column, why);
}

/* ---- Models ------------------------------------------------------------------------------- */

static int compare_features(const void *a, const void *b)
{
    return strcmp(((const gram_machine_feature *)a)->name, ((const gram_machine_feature *)b)->name);
}

static enum exit_status get_features(gram_context *g, const gram_machine *machine,
                                     gram_machine_feature **out, int64_t *count,
                                     struct failure *why)
{
    *count = gram_machine_feature_count(machine);
    *out = calloc((size_t)*count + 1, sizeof **out);
    if (!*out)
        return fail_memory(why, "the features of the model");
    for (int64_t i = 0; i < *count; i++) {
        (*out)[i].size = sizeof **out;
        gram_status status = gram_machine_feature_at(g, machine, i, &(*out)[i]);
        if (status != GRAM_OK)
            return fail_gram(why, status, g);
    }
    return CLI_OK;
}

static enum exit_status load(const char *path, struct model *m, struct failure *why)
{
    gram_status status;

    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
        return fail(why, CLI_NO_INPUT, "cannot open %s: %s", path, strerror(errno));
    status = gram_machine_load(m->g, path, &m->machine);
    if (status != GRAM_OK)
        return fail_gram(why, status, m->g);
    TRY(get_features(m->g, m->machine, &m->features, &m->count, why));
    qsort(m->features, (size_t)m->count, sizeof *m->features, compare_features);
    return CLI_OK;
}

enum exit_status model_load(const char *path, const struct common_settings *common,
                            struct model *out, struct failure *why)
{
    enum exit_status status;

    *out = (struct model){.count = 0};
    TRY(open_context(common, &out->g, why));
    status = load(path, out, why);
    if (status != CLI_OK)
        model_free(out);
    return status;
}

void model_free(struct model *m)
{
    free(m->features);
    gram_machine_destroy(m->machine);
    gram_context_destroy(m->g);
    *m = (struct model){.count = 0};
}

/* What model_kind is asked with. */
struct wanted {
    const struct model *model;
    int targets;      /* wanted, too */
    const char *keep; /* names of columns to copy, "all", or NULL */
};

int model_predicts(const gram_machine *machine, const char *name)
{
    for (int64_t i = 0; i < gram_machine_target_count(machine); i++)
        if (strcmp(name, gram_machine_target_name(machine, i)) == 0)
            return 1;
    return 0;
}

static enum column_kind model_kind(const void *user, const char *name)
{
    const struct wanted *w = user;
    const gram_machine_feature key = {.name = name}, *found;

    if (w->targets && model_predicts(w->model->machine, name))
        return gram_machine_task(w->model->machine) == GRAM_REGRESSION ||
                       gram_machine_classes_are_numbers(w->model->machine)
                   ? COLUMN_NUMBER
                   : COLUMN_TEXT;
    found =
        bsearch(&key, w->model->features, (size_t)w->model->count, sizeof key, compare_features);
    if (!found)
        return w->keep && (strcmp(w->keep, "all") == 0 || name_listed(w->keep, name))
                   ? COLUMN_TEXT
                   : COLUMN_IGNORED;
    return found->labels > 0 ? COLUMN_TEXT : found->labels < 0 ? COLUMN_ANY : COLUMN_NUMBER;
}

enum exit_status model_read_table(const struct model *m, const char *path,
                                  const struct input_settings *input, const char *keep,
                                  int64_t *target, struct table *out, struct failure *why)
{
    const struct wanted wanted = {m, target != NULL, keep};
    const struct csv_options options = {
        .delimiter = input->delimiter,
        .comma = input->decimal == DECIMAL_COMMA,
        .header = input->no_header ? CSV_HEADER_NO : CSV_HEADER_YES,
        .kind = model_kind,
        .user = &wanted,
    };
    enum exit_status status = load_table(path, &options, out, why);
    int64_t index;

    for (int64_t i = 0; i < m->count && status == CLI_OK; i++)
        status =
            table_require(out, path, m->features[i].name, ", which the model needs", &index, why);
    for (int64_t i = gram_machine_target_count(m->machine); target && status == CLI_OK && i > 0;
         i--)
        status =
            table_require(out, path, gram_machine_target_name(m->machine, i - 1), ", the target",
                          target, why); /* the first is the last one asked for */
    if (status == CLI_OK)
        status = table_check_finite(out, path, why);
    if (status != CLI_OK)
        table_free(out);
    return status;
}

static int compare_importance(const void *a, const void *b)
{
    const gram_machine_feature *x = a, *y = b;

    if (x->importance != y->importance)
        return x->importance < y->importance ? 1 : -1;
    return strcmp(x->name, y->name);
}

enum exit_status model_importance(gram_context *g, const gram_machine *machine,
                                  gram_machine_feature **out, int64_t *count, struct failure *why)
{
    enum exit_status status = get_features(g, machine, out, count, why);

    if (status == CLI_OK) {
        qsort(*out, (size_t)*count, sizeof **out, compare_importance);
        return CLI_OK;
    }
    free(*out);
    *out = NULL;
    return status;
}
