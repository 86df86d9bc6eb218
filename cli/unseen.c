/*
 * unseen.c - remarks on what a table has that the training table of a model did not have
 *
 * SPDX-License-Identifier: MIT
 */
#include "unseen.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARE = 64 /* bytes of "3 of 400 values are", or less */
};

static const char *share(int64_t count, int64_t rows, char text[SHARE])
{
    snprintf(text, SHARE, "%lld of %lld values %s", (long long)count, (long long)rows,
             count == 1 ? "is" : "are");
    return text;
}

static enum exit_status remark_unknown(const gram_machine_feature *feature,
                                       const gram_machine_unseen *u, const struct table *t,
                                       int64_t column, struct remarks *out, struct failure *why)
{
    const char *first = t->columns[column].texts[u->first_unknown];
    char quoted[TEXT_QUOTED], text[SHARE];

    text_quote(quoted, first, first + strlen(first));
    share(u->unknown, t->rows, text);
    if (feature->dates)
        return remarks_add(out, t, column, u->first_unknown, "unknown-date", why,
                           "%s no date in the order of the training table; the first is %s", text,
                           quoted);
    return remarks_add(out, t, column, u->first_unknown, "unknown-category", why,
                       "%s of a category that the training table did not have; the first is %s",
                       text, quoted);
}

static enum exit_status remark_far(const gram_machine_unseen *u, const struct table *t,
                                   int64_t column, struct remarks *out, struct failure *why)
{
    const struct column *c = &t->columns[column];
    char first[NUMBER_TEXT], least[NUMBER_TEXT], most[NUMBER_TEXT], text[SHARE];

    share(u->far, t->rows, text);
    if (c->texts)
        return remarks_add(out, t, column, u->first_far, "far", why,
                           "%s far outside of the dates of the training table; the first is %.40s",
                           text, c->texts[u->first_far]);
    number_format(first, c->numbers[u->first_far]);
    number_format(least, u->least);
    number_format(most, u->most);
    return remarks_add(out, t, column, u->first_far, "far", why,
                       "%s far outside of %s to %s, the range of the training table; the first is "
                       "%s",
                       text, least, most, first);
}

static enum exit_status look_at(const struct model *m, const gram_table *table, int64_t index,
                                const struct table *t, struct remarks *out, struct failure *why)
{
    gram_machine_feature feature = {.size = sizeof feature};
    gram_machine_unseen u = {.size = sizeof u};
    gram_status status = gram_machine_feature_at(m->g, m->machine, index, &feature);
    char text[SHARE];
    int64_t column;

    if (status == GRAM_OK)
        status = gram_machine_unseen_at(m->g, m->machine, table, index, &u);
    if (status != GRAM_OK)
        return fail_gram(why, status, m->g);
    column = table_find(t, feature.name);
    if (u.unknown > 0)
        TRY(remark_unknown(&feature, &u, t, column, out, why));
    if (u.missing > 0)
        TRY(remarks_add(out, t, column, u.first_missing, "missing", why,
                        "%s missing, and none was in the training table",
                        share(u.missing, t->rows, text)));
    return u.far > 0 ? remark_far(&u, t, column, out, why) : CLI_OK;
}

enum exit_status unseen_look(const struct model *m, const struct table *t, struct remarks *out,
                             struct failure *why)
{
    const int64_t none[2] = {-1, -1};
    struct table_view view;
    enum exit_status status = table_view_make(t, 0, t->rows, none, &view, why);

    for (int64_t i = 0; status == CLI_OK && i < m->count; i++)
        status = look_at(m, &view.t, i, t, out, why);
    free(view.columns);
    return status;
}
