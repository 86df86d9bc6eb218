/*
 * first_look.c - what is worth knowing about a table before a machine is trained on it
 *
 * Everything here is linear in the size of the table, but for sorts of columns whose values may
 * all be different, and of 20,000 rows per column (explained.h).
 *
 * SPDX-License-Identifier: MIT
 */
#include "first_look.h"
#include "cell.h"
#include "explained.h"
#include "number.h"
#include "src/machine/date.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROWS = 20,  /* fewer say nothing about what a column is */
    MOST_CLASSES = 20 /* whole numbers of more values are hardly classes */
};

/* A look, and what is done with it. */
struct look {
    const struct first_look *at;
    struct remarks *out;
    struct failure *why;
};

#define REMARK(l, column, row, code, ...) \
  remarks_add((l)->out, (l)->at->table, column, row, code, (l)->why, __VA_ARGS__)

/* The end of a remark about a column of texts: what was made of it. */
static const char *taken(const struct look *l, int64_t column)
{
    return column == l->at->target ? "they were taken as classes" : "they were taken as categories";
}

/* ---- Texts that are numbers to a person ------------------------------------------------------ */

struct cells {
    int64_t present, count[CELL_KINDS], first[CELL_KINDS]; /* row */
    int64_t order[GRAM_DATE_ORDERS];                       /* dates that can be read so */
};

static enum cell kind_of(const char *text, int comma)
{
    double ignored;
    enum cell kind;

    if (csv_is_number(text, strlen(text), comma, &ignored))
        return CELL_NUMBER;
    kind = cell_of(text);
    if (kind != CELL_NUMBER)
        return kind;
    return comma ? CELL_POINT : CELL_TEXT; /* a minus that is no hyphen, a line end inside */
}

static struct cells count_cells(const struct column *c, int64_t rows, int comma)
{
    struct cells cells = {0};

    for (int64_t row = 0; row < rows; row++) {
        enum cell kind;
        if (!c->texts[row])
            continue;
        kind = kind_of(c->texts[row], comma);
        if (cells.count[kind]++ == 0)
            cells.first[kind] = row;
        cells.present++;
        for (int order = 0; kind == CELL_DATE && order < GRAM_DATE_ORDERS; order++)
            cells.order[order] += cell_dates(c->texts[row]) >> order & 1;
        /* Half of the first thousand are texts: the column is of texts, whatever follows. */
        if (cells.present == 1000 && cells.count[CELL_TEXT] > 500)
            break;
    }
    return cells;
}

/* What a column of texts was made of, and what would make numbers of it.  The first that occurs in
 * a column is what is said about it. */
static const struct form {
    enum cell kind;
    int comma; /* only with --decimal comma, or only without; -1: both */
    const char *code, *text;
} forms[] = {
    {     CELL_UNIT, -1,          "unit",
     "are numbers with the sign of a currency or of percent; without it they "
     "are numbers"                       },
    {CELL_THOUSANDS, -1,     "thousands",
     "are numbers with separators between thousands; without these "
     "they are numbers"                  },
    {    CELL_COMMA,  0, "decimal-comma",
     "look like numbers with a decimal comma, which --decimal comma "
     "reads"                             },
    {    CELL_COMMA,  1,     "thousands",
     "are numbers with points between thousands; without these they are "
     "numbers"                           },
    {    CELL_POINT,  1, "decimal-point",
     "look like numbers with a decimal point, which --decimal comma "
     "does not read"                     },
    {   CELL_EITHER, -1,     "thousands",
     "are numbers with a comma between thousands, or with a decimal "
     "comma, which --decimal comma reads"},
};

static enum exit_status say_form(const struct look *l, int64_t column, const struct form *form,
                                 const struct cells *n)
{
    const struct column *c = &l->at->table->columns[column];
    const int64_t row = n->first[form->kind];
    char quoted[TEXT_QUOTED];

    return REMARK(l, column, row, form->code, "%lld of %lld values %s (the first is %s): %s",
                  (long long)(n->present - n->count[CELL_TEXT]), (long long)n->present, form->text,
                  text_quote(quoted, c->texts[row], c->texts[row] + strlen(c->texts[row])),
                  taken(l, column));
}

static enum exit_status say_bad(const struct look *l, int64_t column, const struct cells *n)
{
    const struct table *t = l->at->table;
    const int64_t texts = n->count[CELL_TEXT], row = n->first[CELL_TEXT];
    const char *bad = t->columns[column].texts[row];
    char quoted[TEXT_QUOTED], where[64] = "";

    if (t->lines)
        snprintf(where, sizeof where, ", line %lld", (long long)t->lines[row]);
    text_quote(quoted, bad, bad + strlen(bad));
    return REMARK(l, column, row, "bad-cell",
                  "%lld number%s and %lld text%s (%s%s%s): %s; an empty field or NA is a missing "
                  "number",
                  (long long)(n->present - texts), n->present - texts == 1 ? "" : "s",
                  (long long)texts, texts == 1 ? "" : "s", texts == 1 ? "" : "the first is ",
                  quoted, where, taken(l, column));
}

/* The library makes days of dates that have one order; the others have a reason. */
static enum exit_status say_dates(const struct look *l, int64_t column, const struct cells *n)
{
    const struct column *c = &l->at->table->columns[column];
    int64_t best = 0, row = n->first[CELL_DATE];
    int ways = 0, order = 0;
    char quoted[TEXT_QUOTED];
    const char *what;

    for (int i = 0; i < GRAM_DATE_ORDERS; i++) {
        ways += n->order[i] == n->present;
        if (n->order[i] > best)
            best = n->order[i], order = i;
    }
    if (ways == 1 && column != l->at->target)
        return CLI_OK;
    if (ways == 0) /* the first that is no date as most are */
        for (row = 0; !c->texts[row] || (cell_dates(c->texts[row]) >> order & 1);)
            row++;
    what = ways > 1    ? "are dates whose day and month cannot be told apart; write 2024-03-01"
           : ways == 1 ? "are dates; a number of days could be predicted"
                       : "are dates with the same order of day, month and year, but not all";
    return REMARK(l, column, row, "date", "%lld of %lld values %s (the first%s is %s): %s",
                  (long long)best, (long long)n->present, what, ways == 0 ? " other" : "",
                  text_quote(quoted, c->texts[row], c->texts[row] + strlen(c->texts[row])),
                  taken(l, column));
}

/* Sets *said if the column is explained: its texts are not what they are for. */
static enum exit_status look_at_cells(const struct look *l, int64_t column, int *said)
{
    const struct table *t = l->at->table;
    const struct cells n = count_cells(&t->columns[column], t->rows, l->at->comma);
    const int64_t texts = n.count[CELL_TEXT], dates = n.count[CELL_DATE];

    /* Of fewer than five values none may be a text: 1, 2 and more are categories. */
    *said = 0;
    if (n.present == 0 || texts > (n.present < 5 ? 0 : n.present < 10 ? 1 : n.present / 10))
        return CLI_OK;
    if (dates > 0 && dates + texts < n.present)
        return CLI_OK; /* neither dates nor numbers */
    *said = 1;
    if (dates > 0)
        return say_dates(l, column, &n);
    for (int i = 0; i < LENGTH(forms); i++)
        if (n.count[forms[i].kind] > 0 && (forms[i].comma < 0 || forms[i].comma == l->at->comma))
            return say_form(l, column, &forms[i], &n);
    return texts > 0 && n.count[CELL_NUMBER] > 0 ? say_bad(l, column, &n) : CLI_OK;
}

/* ---- Values that are all different, or all the same ------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How the values of a column that are there differ. */
struct values {
    int64_t present;
    int same;                       /* all of them */
    int whole;                      /* all are whole numbers */
    int rising;                     /* each is above the one before */
    double least, most;             /* of numbers */
    int64_t different;              /* up to MOST_CLASSES + 1; beyond, it stays there */
    double value[MOST_CLASSES + 1]; /* the different ones, of numbers */
};

static void add_number(struct values *v, double value, double before)
{
    int64_t known = 0;

    v->whole = v->whole && value == floor(value) && fabs(value) <= 0x1p53;
    v->rising &= v->present == 0 || value > before;
    v->least = v->present == 0 || value < v->least ? value : v->least;
    v->most = v->present == 0 || value > v->most ? value : v->most;
    if (v->different > MOST_CLASSES)
        return;
    while (known < v->different && v->value[known] != value)
        known++;
    if (known == v->different)
        v->value[v->different++] = value;
}

static struct values count_values(const struct column *c, int64_t rows)
{
    struct values v = {.same = 1, .whole = c->numbers != NULL, .rising = c->numbers != NULL};
    int64_t first = -1;
    double before = 0;

    if (!c->texts && !c->numbers)
        return v;
    for (int64_t row = 0; row < rows; row++) {
        if (c->texts ? !c->texts[row] : isnan(c->numbers[row]))
            continue;
        if (c->numbers) {
            add_number(&v, c->numbers[row], before);
            before = c->numbers[row];
        } else if (v.same && first >= 0) {
            v.same = strcmp(c->texts[first], c->texts[row]) == 0;
        }
        first = first < 0 ? row : first;
        v.present++;
    }
    v.same &= !c->numbers || v.different <= 1;
    return v;
}

/* Whether all values that are there are the same, which the first ones mostly tell. */
static int one_value(const struct column *c, int64_t rows)
{
    int64_t first = 0;

    while (first < rows && (c->texts ? !c->texts[first] : !c->numbers || isnan(c->numbers[first])))
        first++;
    for (int64_t row = first + 1; row < rows; row++)
        if (c->texts ? c->texts[row] && strcmp(c->texts[row], c->texts[first]) != 0
                     : !isnan(c->numbers[row]) && c->numbers[row] != c->numbers[first])
            return 0;
    return 1;
}

/* Whether no two of the sorted values are equal. */
static int distinct(const void *values, int64_t count, size_t size,
                    int (*compare)(const void *, const void *))
{
    const char *at = values;

    for (int64_t i = 1; i < count; i++, at += size)
        if (compare(at, at + size) == 0)
            return 0;
    return 1;
}

/* Whether all values that are there differ: first the values of some rows, which mostly decides
 * it, then all. */
static enum exit_status all_differ(const struct column *c, int64_t rows, int *differ,
                                   struct failure *why)
{
    const size_t size = c->texts ? sizeof *c->texts : sizeof *c->numbers;
    char *values = malloc((size_t)rows * size + 1);

    if (!values)
        return fail_memory(why, "a first look at the table");
    *differ = 1;
    for (int64_t most = rows < 1000 ? rows : 1000; *differ; most = rows) {
        int64_t present = 0;
        for (int64_t row = 0; row < most; row++)
            if (c->texts ? c->texts[row] != NULL : !isnan(c->numbers[row]))
                memcpy(values + (size_t)present++ * size,
                       c->texts ? (const void *)&c->texts[row] : (const void *)&c->numbers[row],
                       size);
        qsort(values, (size_t)present, size, c->texts ? by_text : by_value);
        *differ = distinct(values, present, size, c->texts ? by_text : by_value);
        if (most == rows)
            break;
    }
    free(values);
    return CLI_OK;
}

static enum exit_status look_at_differences(const struct look *l, int64_t column,
                                            const struct values *v)
{
    const struct table *t = l->at->table;
    const struct column *c = &t->columns[column];
    const int target = column == l->at->target;
    int differ = 0;

    if (v->present < LEAST_ROWS || 2 * v->present <= t->rows || (!c->texts && target))
        return CLI_OK;
    /* Numbers are measured, and then mostly differ, or they count: 1, 2, 3, in any order. */
    if (!c->texts && (!v->whole || (!v->rising && v->most - v->least >= 2 * (double)v->present)))
        return CLI_OK;
    if (!c->texts && v->most - v->least + 1 < (double)v->present)
        return CLI_OK; /* they cannot */
    TRY(all_differ(c, t->rows, &differ, l->why));
    if (!differ)
        return CLI_OK;
    return REMARK(l, column, -1, "different",
                  target ? "%lld texts, each different: each is a class of its own"
                  : c->texts
                      ? "%lld texts, each different, which tell nothing about other rows; --ignore "
                        "leaves the column out"
                      : "%lld whole numbers, each different, as if they number the rows; --ignore "
                        "leaves the column out",
                  (long long)v->present);
}

static enum exit_status look_at_same(const struct look *l, int64_t column, const struct values *v)
{
    const struct table *t = l->at->table;
    const int64_t missing = t->rows - v->present;

    if (t->rows < 2 || column == l->at->target)
        return CLI_OK;
    if (v->present == 0)
        return REMARK(l, column, -1, "empty", "all %lld values are missing", (long long)t->rows);
    if (!v->same || missing > 0)
        return CLI_OK; /* where it is missing can tell rows apart */
    return REMARK(l, column, -1, "constant", "all %lld values are the same", (long long)t->rows);
}

/* ---- The target ------------------------------------------------------------------------------ */

/* Pairs of numbers that are classes beyond doubt. */
static int usual_pair(double low, double high)
{
    return high - low == 1 || (low == -1 && high == 1);
}

static enum exit_status look_at_target(const struct look *l, int64_t column, const struct values *v)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT];

    if (l->at->task != GRAM_TASK_AUTO || !l->at->table->columns[column].numbers)
        return CLI_OK;
    number_format(low, v->least);
    number_format(high, v->most);
    if (v->different == 2 && !usual_pair(v->least, v->most))
        return REMARK(l, column, -1, "two-values",
                      "2 different numbers, %s and %s: they were taken as two classes; --task "
                      "regression takes them as numbers",
                      low, high);
    if (v->present < LEAST_ROWS || !v->whole || v->different < 3 || v->different > MOST_CLASSES)
        return CLI_OK;
    return REMARK(l, column, -1, "whole-target",
                  "%lld different whole numbers, %s to %s: they were taken as numbers, not as "
                  "classes; --task classification takes them as classes, --task regression as now",
                  (long long)v->different, low, high);
}

/* ---- Columns beside others ------------------------------------------------------------------- */

struct print {
    uint64_t hash;
    int64_t column;
};

static int by_hash(const void *a, const void *b)
{
    const struct print *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_column(const struct column *c, int64_t rows)
{
    uint64_t hash = c->numbers != NULL;

    for (int64_t row = 0; row < rows; row++) {
        uint64_t bits = 1;
        const double value = c->numbers ? c->numbers[row] + 0.0 : 0; /* -0 is 0 */
        if (c->numbers && !isnan(value))
            memcpy(&bits, &value, sizeof bits);
        for (const char *at = c->texts ? c->texts[row] : NULL; at && *at; at++)
            bits = mix(bits, (unsigned char)*at);
        hash = mix(hash, bits);
    }
    return hash;
}

static int same_values(const struct column *a, const struct column *b, int64_t rows)
{
    if (!a->numbers != !b->numbers)
        return 0;
    for (int64_t row = 0; row < rows; row++) {
        const double x = a->numbers ? a->numbers[row] : 0, y = b->numbers ? b->numbers[row] : 0;
        const char *s = a->texts ? a->texts[row] : NULL, *t = b->texts ? b->texts[row] : NULL;
        if (a->numbers ? x != y && !(isnan(x) && isnan(y)) : s && t ? strcmp(s, t) != 0 : s != t)
            return 0;
    }
    return 1;
}

static int is_feature(const struct first_look *at, int64_t column)
{
    for (int64_t i = 0; i < at->several; i++)
        if (column == at->targets[i])
            return 0;
    return column != at->target && column != at->weights &&
           at->table->columns[column].kind != COLUMN_IGNORED;
}

/* Columns of one value are not called duplicates of each other as well. */
static enum exit_status look_for_duplicates(const struct look *l)
{
    const struct table *t = l->at->table;
    struct print *print = malloc(((size_t)t->width + 1) * sizeof *print);
    enum exit_status status = CLI_OK;
    int64_t count = 0, first = 0;

    if (!print)
        return fail_memory(l->why, "a first look at the table");
    for (int64_t c = 0; c < t->width; c++)
        if (is_feature(l->at, c) && !one_value(&t->columns[c], t->rows))
            print[count++] = (struct print){hash_column(&t->columns[c], t->rows), c};
    qsort(print, (size_t)count, sizeof *print, by_hash);
    for (int64_t i = 1; i < count && status == CLI_OK; i++) {
        const int64_t a = print[first].column, b = print[i].column;
        if (print[i].hash != print[first].hash)
            first = i;
        else if (same_values(&t->columns[a], &t->columns[b], t->rows))
            status = REMARK(l, b, -1, "duplicate", "the same as column \"%.200s\" in every row",
                            t->columns[a].name);
    }
    free(print);
    return status;
}

/* A table of one column is meant to be explained by it. */
static enum exit_status look_for_leaks(const struct look *l)
{
    const struct table *t = l->at->table;
    const char *target = l->at->several ? t->columns[l->at->target].name : NULL;
    const struct column *c = &t->columns[l->at->target];
    const int classes =
        l->at->task == GRAM_CLASSIFICATION ||
        (l->at->task == GRAM_TASK_AUTO && c->numbers && count_values(c, t->rows).different == 2);
    struct explained e;
    enum exit_status status = CLI_OK;
    int64_t features = 0;

    for (int64_t i = 0; i < t->width; i++)
        features += is_feature(l->at, i);
    if (features < 2)
        return CLI_OK;
    TRY(explained_begin(t, l->at->target, classes, &e, l->why));
    for (int64_t i = 0; i < t->width && status == CLI_OK; i++) {
        const double share = is_feature(l->at, i) ? explained_by(&e, &t->columns[i]) : 0;
        if (share >= 0.99)
            status = REMARK(l, i, -1, "leak",
                            "it explains %.1f %% of the target %s%.200s%salone; is it known when a "
                            "prediction is made?",
                            floor(1000 * share) / 10, target ? "\"" : "", target ? target : "",
                            target ? "\" " : "");
    }
    explained_end(&e);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static enum exit_status look_at_column(const struct look *l, int64_t column)
{
    const struct table *t = l->at->table;
    const struct column *c = &t->columns[column];
    struct values v;
    int said = 0;

    if (c->kind == COLUMN_IGNORED || column == l->at->weights || t->rows == 0)
        return CLI_OK;
    v = count_values(c, t->rows);
    if (c->texts && !c->asked)
        TRY(look_at_cells(l, column, &said));
    if (column == l->at->target)
        TRY(look_at_target(l, column, &v));
    if (!c->texts && c->long_row >= 0)
        TRY(REMARK(l, column, c->long_row, "precision",
                   "a whole number of more than 15 digits, of which only the first 15 are sure to "
                   "be kept; --categorical keeps texts apart, and --ignore leaves the column out"));
    TRY(look_at_same(l, column, &v));
    return said ? CLI_OK : look_at_differences(l, column, &v);
}

enum exit_status first_look(const struct first_look *look, struct remarks *out, struct failure *why)
{
    const struct look l = {look, out, why};
    const struct table *t = look->table;

    for (int64_t c = 0; c < t->width; c++)
        TRY(look_at_column(&l, c));
    if (t->rows < 2)
        return CLI_OK;
    TRY(look_for_duplicates(&l));
    return look_for_leaks(&l);
}

enum exit_status first_look_target(const struct first_look *look, struct remarks *out,
                                   struct failure *why)
{
    const struct look l = {look, out, why};
    const struct table *t = look->table;
    const struct column *c = &t->columns[look->target];
    struct values v;

    if (t->rows == 0 || !c->numbers)
        return CLI_OK;
    v = count_values(c, t->rows);
    TRY(look_at_target(&l, look->target, &v));
    return t->rows < 2 ? CLI_OK : look_for_leaks(&l);
}
