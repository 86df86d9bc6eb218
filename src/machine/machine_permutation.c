/*
 * machine_permutation.c - how much worse a machine predicts when one column is shuffled
 *
 * The error is that of gram_machine_evaluate: the root mean squared error, or the log loss.  Every
 * column of the encoder is shuffled whole, before it is encoded, so that all its features move
 * together, missing values with it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "core/view.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPEATS = 5 /* where nothing is said: enough to tell the spread */
};

/* Everything that a call works with; all memory from malloc. */
struct permutation {
    const gram_machine *machine;
    const gram_column *target;
    int64_t index;       /* of the target among those of the machine */
    gram_table table;    /* the caller's, with columns of its own */
    gram_column *column; /* of table */
    int64_t *row, rows;  /* that have a target */
    int64_t *order;      /* the same, shuffled */
    void *values;        /* of the column that is shuffled: doubles or pointers */
    uint64_t random;
    double error; /* with nothing shuffled */
};

static void permutation_free(struct permutation *p)
{
    free(p->column);
    free(p->row);
    free(p->order);
    free(p->values);
}

static gram_status permutation_open(gram_context *g, const gram_table *table, struct permutation *p)
{
    const size_t rows = (size_t)table->rows + 1,
                 widest = sizeof(double) > sizeof(char *) ? sizeof(double) : sizeof(char *);

    p->column = malloc(((size_t)table->columns + 1) * sizeof *p->column);
    p->row = malloc(rows * sizeof *p->row);
    p->order = malloc(rows * sizeof *p->order);
    p->values = malloc(rows * widest);
    if (!p->column || !p->row || !p->order || !p->values)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows",
                         (long long)table->rows);
    for (int64_t i = 0; i < table->columns; i++)
        p->column[i] = table->column[i];
    p->table = (gram_table){table->rows, table->columns, p->column};
    for (int64_t i = 0; i < table->rows; i++)
        if (!gram_machine_target_missing(p->target, i))
            p->row[p->rows++] = i;
    if (p->rows == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "no row has a target, expected at least one");
    return GRAM_OK;
}

static gram_status error_of(gram_context *g, const struct permutation *p, double *error)
{
    const struct machine_target *of = gram_machine_target_part(&p->machine->target, p->index);
    gram_machine_score score;
    double *f;

    TRY(gram_machine_table_outputs(g, p->machine, &p->table, &f));
    gram_status status = gram_machine_score_outputs(g, of, p->target, NULL, p->table.rows,
                                                    f + p->index * p->table.rows, &score);
    free(f);
    *error = of->classes ? score.log_loss : score.score;
    return status;
}

/* Puts a shuffled copy of a column into the table. */
static void shuffle(struct permutation *p, const gram_column *from, gram_column *to)
{
    const double *numbers = from->numbers;
    const char *const *labels = from->labels;

    memcpy(p->order, p->row, (size_t)p->rows * sizeof *p->order);
    gram_random_choose(&p->random, p->order, p->rows, p->rows);
    if (numbers) {
        double *out = p->values;
        memcpy(out, numbers, (size_t)p->table.rows * sizeof *out);
        for (int64_t i = 0; i < p->rows; i++)
            out[p->row[i]] = numbers[p->order[i]];
        to->numbers = out;
    } else {
        const char **out = p->values;
        memcpy(out, labels, (size_t)p->table.rows * sizeof *out);
        for (int64_t i = 0; i < p->rows; i++)
            out[p->row[i]] = labels[p->order[i]];
        to->labels = out;
    }
}

static bool has_influence(const struct gram_encoded_column *c)
{
    return c->category ? c->width > 0 : c->scale > 0 || c->missing;
}

/* The increases of one column, each with its own order of the rows. */
static gram_status try_column(gram_context *g, struct permutation *p, int64_t index,
                              int64_t repeats, double *out, int64_t stride)
{
    const struct gram_encoded_column *c = &p->machine->encoder->column[index];
    int64_t at = 0;

    while (strcmp(p->column[at].name, c->name) != 0)
        at++; /* it is there: the table was predicted */
    for (int64_t r = 0; r < repeats; r++) {
        const gram_column whole = p->column[at];
        double error = p->error;

        if (has_influence(c)) {
            shuffle(p, &whole, &p->column[at]);
            gram_status status = error_of(g, p, &error);
            p->column[at] = whole;
            TRY(status);
        }
        out[r * stride] = error - p->error;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    return GRAM_OK;
}

static gram_status run(gram_context *g, struct permutation *p, const gram_table *table,
                       const gram_permutation_options *o, const struct gram_view *out)
{
    const int64_t columns = p->machine->encoder->columns, repeats = out->cols;

    TRY(permutation_open(g, table, p));
    TRY(error_of(g, p, &p->error));
    for (int64_t i = 0; i < columns; i++) {
        p->random = o->seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
        TRY(try_column(g, p, i, repeats, (double *)out->data + i * out->row_stride,
                       out->col_stride));
        if (o->progress)
            o->progress(o->progress_user, (double)(i + 1) / (double)columns, "shuffling columns");
    }
    return GRAM_OK;
}

gram_status gram_machine_permutation_importance(gram_context *g, const gram_machine *machine,
                                                const gram_table *table, const gram_column *target,
                                                const gram_permutation_options *options,
                                                gram_tensor *out)
{
    gram_permutation_options o = GRAM_PERMUTATION_OPTIONS_INIT;
    struct permutation p = {.machine = machine, .target = target};
    struct gram_view view;
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    TRY(gram_options_copy(g, &o, sizeof o, options));
    if (o.repeats < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.repeats is %lld, expected at least 0",
                         (long long)o.repeats);
    TRY(gram_table_check(g, table));
    TRY(gram_machine_target_find(g, &machine->target, target, &p.index));
    TRY(gram_machine_check_out(g, "out", out, GRAM_F64, machine->encoder->columns,
                               o.repeats ? o.repeats : REPEATS, &view));
    status = run(g, &p, table, &o, &view);
    permutation_free(&p);
    return gram_call_ended(g, status);
}
