/*
 * machine.c - a trained machine: predictions, probabilities, features, classes, description, end
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include "core/view.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Predictions ----------------------------------------------------------------------------- */

gram_status gram_machine_leaf_values(gram_context *g, const gram_machine *machine, int64_t leaf,
                                     int64_t rows, const void *x, double *out)
{
    const int64_t count = rows * machine->leaf->outputs;
    double *one;
    gram_status status = GRAM_OK;

    if (machine->members == 1)
        return gram_machine_leaf_predict(g, &machine->leaf[leaf], rows, x, out);
    one = malloc((size_t)count * sizeof *one + 1);
    if (!one)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)rows);
    memset(out, 0, (size_t)count * sizeof *out);
    for (int m = 0; status == GRAM_OK && m < machine->members; m++) {
        status =
            gram_machine_leaf_predict(g, &machine->leaf[m * machine->leaves + leaf], rows, x, one);
        for (int64_t i = 0; status == GRAM_OK && i < count; i++)
            out[i] += machine->weight[m] * one[i];
    }
    free(one);
    return status;
}

/* One leaf's part at the count rows of x that have a place there. */
static gram_status add_leaf(gram_context *g, const gram_machine *machine,
                            const struct machine_place *place, int64_t count, int64_t rows,
                            const void *x, double *out)
{
    const struct machine_leaf *leaf = &machine->leaf[place->leaf];
    const size_t bytes = (size_t)leaf->width * gram_dtype_size(machine->dtype);
    double *values = malloc((size_t)(count * leaf->outputs) * sizeof *values + 1);
    char *part = malloc((size_t)count * bytes + 1);
    gram_status status;

    if (!values || !part)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    else {
        for (int64_t i = 0; i < count; i++)
            memcpy(part + (size_t)i * bytes, (const char *)x + (size_t)place[i].row * bytes, bytes);
        status = gram_machine_leaf_values(g, machine, place->leaf, count, part, values);
    }
    for (int64_t j = 0; status == GRAM_OK && j < leaf->outputs; j++)
        for (int64_t i = 0; i < count; i++)
            out[j * rows + place[i].row] += place[i].weight * values[j * count + i];
    free(values);
    free(part);
    return status;
}

/* out (rows by outputs, column-major) = the weighted leaves at encoded rows. */
static gram_status weighted_outputs(gram_context *g, const gram_machine *machine, int64_t rows,
                                    const void *x, double *out)
{
    struct machine_places places;
    gram_status status = GRAM_OK;

    if (machine->tree.count == 0)
        return gram_machine_leaf_values(g, machine, 0, rows, x, out);
    TRY(gram_machine_tree_places(g, &machine->tree, machine->dtype, x, rows, &places));
    memset(out, 0, (size_t)(rows * machine->leaf->outputs) * sizeof *out);
    for (int64_t i = 0, end; i < places.count && status == GRAM_OK; i = end) {
        for (end = i + 1; end < places.count && places.at[end].leaf == places.at[i].leaf; end++)
            continue;
        status = add_leaf(g, machine, &places.at[i], end - i, rows, x, out);
    }
    free(places.at);
    return status;
}

gram_status gram_machine_encoded_outputs(gram_context *g, const gram_machine *machine, int64_t rows,
                                         const void *x, double *out)
{
    const int64_t count = rows * machine->leaf->outputs;
    double *base;
    gram_status status;

    TRY(weighted_outputs(g, machine, rows, x, out));
    if (machine->base.rows == 0)
        return GRAM_OK;
    base = malloc((size_t)count * sizeof *base + 1);
    if (!base)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)rows);
    status = gram_machine_leaf_predict(g, &machine->base, rows, x, base);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        out[i] += base[i];
    free(base);
    return status;
}

/* Outputs at the rows of a table, from malloc. */
gram_status gram_machine_table_outputs(gram_context *g, const gram_machine *machine,
                                       const gram_table *table, double **out)
{
    int64_t outputs = gram_machine_target_outputs(&machine->target);
    char *x;
    gram_status status;

    *out = NULL;
    TRY(gram_table_check(g, table));
    x = malloc((size_t)(table->rows * machine->encoder->width) * gram_dtype_size(machine->dtype) +
               1);
    *out = malloc((size_t)(table->rows * outputs) * sizeof **out + 1);
    if (!x || !*out)
        status =
            gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)table->rows);
    else
        status =
            gram_encoder_apply(g, machine->encoder, table, NULL, table->rows, machine->dtype, x);
    if (status == GRAM_OK)
        status = gram_machine_encoded_outputs(g, machine, table->rows, x, *out);
    free(x);
    if (status != GRAM_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

gram_status gram_machine_check_out(gram_context *g, const char *name, const gram_tensor *out,
                                   gram_dtype dtype, int64_t rows, int64_t cols,
                                   struct gram_view *view)
{
    const struct gram_batch batch = {.count = 1};
    const gram_device device = g->options.device;
    int core = cols ? 2 : 1;
    gram_status status;

    g->options.device = (gram_device){GRAM_CPU, 0};
    status = gram_view_of(g, &batch, name, out, core, GRAM_WRITE, view);
    g->options.device = device;
    TRY(status);
    if (out->dtype != dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected %s", name,
                         gram_dtype_name(out->dtype), gram_dtype_name(dtype));
    if (out->shape[0] != rows || (cols && out->shape[1] != cols))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has %lld rows and %lld columns, expected %lld and %lld", name,
                         (long long)out->shape[0], (long long)(cols ? out->shape[1] : 1),
                         (long long)rows, (long long)(cols ? cols : 1));
    return GRAM_OK;
}

/* ---- Predictions ----------------------------------------------------------------------------- */

static gram_status check_task(gram_context *g, const gram_machine *machine, gram_task task)
{
    static const char *const names[] = {"regression", "classification"};
    const bool classes = task == GRAM_CLASSIFICATION;

    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    if ((machine->target.classes > 0) == classes)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "the machine is a %s, expected a %s",
                     names[!classes], names[classes]);
}

/* How the caller calls what is wanted, for messages. */
struct names {
    const char *prediction, *proba, *interval, *set;
};

/* What is wanted, checked.  Several targets have columns side by side. */
struct answer {
    struct gram_view prediction, proba, interval, set;
};

static gram_status check_wanted(gram_context *g, const gram_machine *machine,
                                const gram_table *table, const gram_machine_wanted *w,
                                const struct names *names, struct answer *a)
{
    const int64_t rows = table->rows, classes = machine->target.classes;
    const int64_t parts = gram_machine_target_parts(&machine->target);

    if (w->interval)
        TRY(gram_machine_check_out(g, names->interval, w->interval, GRAM_F64, rows, 2 * parts,
                                   &a->interval));
    if (w->set)
        TRY(gram_machine_check_out(g, names->set, w->set, GRAM_I32, rows, classes, &a->set));
    if (w->prediction)
        TRY(gram_machine_check_out(g, names->prediction, w->prediction, GRAM_F64, rows,
                                   parts > 1 ? parts : 0, &a->prediction));
    if (w->prediction && parts == 1)
        a->prediction.row_stride = a->prediction.col_stride; /* a vector is a column here */
    if (w->proba)
        TRY(gram_machine_check_out(g, names->proba, w->proba, GRAM_F64, rows, classes, &a->proba));
    return GRAM_OK;
}

/* Writes what is wanted of one target from its outputs, the sets apart. */
static void put_part(const struct machine_target *target, const gram_machine_wanted *w,
                     const struct answer *a, const double *f, int64_t rows, int64_t part,
                     double threshold)
{
    for (int64_t i = 0; w->prediction && i < rows; i++)
        ((double *)(void *)
             a->prediction.data)[i * a->prediction.row_stride + part * a->prediction.col_stride] =
            gram_machine_target_decode(target, f + i, rows);
    for (int64_t i = 0; w->proba && i < rows; i++)
        gram_machine_target_probabilities(target, f + i, rows,
                                          (double *)(void *)a->proba.data + i * a->proba.row_stride,
                                          a->proba.col_stride);
    for (int64_t i = 0; w->interval && i < rows; i++)
        gram_machine_target_interval(target, f + i, threshold,
                                     (double *)(void *)a->interval.data +
                                         i * a->interval.row_stride +
                                         2 * part * a->interval.col_stride,
                                     a->interval.col_stride);
}

/* Writes all that is wanted from the outputs f; with f NULL only looks whether every target has
 * scores for the level. */
static gram_status put_all(gram_context *g, const gram_machine *machine, int64_t rows,
                           const gram_machine_wanted *w, const struct answer *a, const double *f)
{
    for (int64_t p = 0; p < gram_machine_target_parts(&machine->target); p++) {
        const struct machine_target *one = gram_machine_target_part(&machine->target, p);
        double threshold = 0;

        if (w->interval || w->set)
            TRY(gram_machine_target_threshold(g, one, w->level, &threshold));
        if (f && w->set)
            TRY(gram_machine_target_sets(g, one, f, rows, threshold, &a->set));
        if (f)
            put_part(one, w, a, f + p * rows, rows, p, threshold);
    }
    return GRAM_OK;
}

/* Computes the outputs once, and writes all that is wanted.  The machine is of the right task. */
static gram_status answer(gram_context *g, const gram_machine *machine, const gram_table *table,
                          const gram_machine_wanted *w, const struct names *names)
{
    struct answer a = {0};
    double *f;
    gram_status status;

    TRY(put_all(g, machine, 0, w, &a, NULL));
    TRY(gram_table_check(g, table));
    TRY(check_wanted(g, machine, table, w, names, &a));
    status = gram_machine_table_outputs(g, machine, table, &f);
    if (status == GRAM_OK)
        status = put_all(g, machine, table->rows, w, &a, f);
    free(f);
    return gram_call_ended(g, status);
}

static gram_status need_out(gram_context *g, const gram_tensor *out)
{
    return out ? GRAM_OK : gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
}

gram_status gram_machine_predict(gram_context *g, const gram_machine *machine,
                                 const gram_table *table, gram_tensor *out)
{
    const gram_machine_wanted wanted = {.prediction = out};

    TRY(gram_begin(g, __func__));
    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    TRY(need_out(g, out));
    return answer(g, machine, table, &wanted, &(struct names){.prediction = "out"});
}

gram_status gram_machine_predict_proba(gram_context *g, const gram_machine *machine,
                                       const gram_table *table, gram_tensor *out)
{
    const gram_machine_wanted wanted = {.proba = out};

    TRY(gram_begin(g, __func__));
    TRY(check_task(g, machine, GRAM_CLASSIFICATION));
    TRY(need_out(g, out));
    return answer(g, machine, table, &wanted, &(struct names){.proba = "out"});
}

gram_status gram_machine_predict_interval(gram_context *g, const gram_machine *machine,
                                          const gram_table *table, double level,
                                          gram_tensor *prediction, gram_tensor *out)
{
    const gram_machine_wanted wanted = {.level = level, .prediction = prediction, .interval = out};

    TRY(gram_begin(g, __func__));
    TRY(check_task(g, machine, GRAM_REGRESSION));
    TRY(need_out(g, out));
    return answer(g, machine, table, &wanted,
                  &(struct names){.prediction = "prediction", .interval = "out"});
}

gram_status gram_machine_predict_set(gram_context *g, const gram_machine *machine,
                                     const gram_table *table, double level, gram_tensor *proba,
                                     gram_tensor *out)
{
    const gram_machine_wanted wanted = {.level = level, .proba = proba, .set = out};

    TRY(gram_begin(g, __func__));
    TRY(check_task(g, machine, GRAM_CLASSIFICATION));
    TRY(need_out(g, out));
    return answer(g, machine, table, &wanted, &(struct names){.proba = "proba", .set = "out"});
}

gram_status gram_machine_predict_all(gram_context *g, const gram_machine *machine,
                                     const gram_table *table, const gram_machine_wanted *wanted)
{
    static const struct names names = {"wanted.prediction", "wanted.proba", "wanted.interval",
                                       "wanted.set"};
    gram_machine_wanted w = {.size = sizeof w};

    TRY(gram_begin(g, __func__));
    if (!machine || !wanted)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", machine ? "wanted" : "machine");
    TRY(gram_options_copy(g, &w, sizeof w, wanted));
    if (w.proba || w.set)
        TRY(check_task(g, machine, GRAM_CLASSIFICATION));
    if (w.interval)
        TRY(check_task(g, machine, GRAM_REGRESSION));
    return answer(g, machine, table, &w, &names);
}

/* ---- What it is asked for -------------------------------------------------------------------- */

void gram_machine_destroy(gram_machine *machine)
{
    if (!machine)
        return;
    for (int64_t i = 0; machine->leaf && i < machine->members * machine->leaves; i++)
        gram_machine_leaf_destroy(NULL, &machine->leaf[i]);
    gram_machine_leaf_destroy(NULL, &machine->base);
    free(machine->leaf);
    gram_machine_tree_destroy(&machine->tree);
    gram_machine_target_destroy(&machine->target);
    gram_encoder_destroy(machine->encoder);
    free(machine->importance);
    free(machine->description);
    free(machine->summary);
    gram_model_file_destroy(machine->file);
    free(machine);
}

int64_t gram_machine_feature_count(const gram_machine *machine)
{
    return machine ? machine->encoder->columns : 0;
}

static gram_status check_index(gram_context *g, const gram_machine *machine, int64_t index)
{
    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    if (index >= 0 && index < machine->encoder->columns)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "index is %lld, expected 0 to %lld",
                     (long long)index, (long long)machine->encoder->columns - 1);
}

gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine, int64_t index,
                                    gram_machine_feature *feature)
{
    gram_machine_feature result = {.size = sizeof result};
    const struct gram_encoded_column *column;
    size_t size;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(check_index(g, machine, index));
    if (!feature || feature->size < sizeof feature->size || feature->size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "feature.size is %zu, expected at most %zu",
                         feature ? feature->size : 0, sizeof result);
    column = &machine->encoder->column[index];
    result.name = column->name;
    result.categories = (int)column->categories;
    result.importance = machine->importance[index];
    result.dates = column->dates != 0;
    result.labels = column->category || column->dates ? 1 : -(int)gram_encoded_is_empty(column);
    size = feature->size;
    result.size = size;
    memcpy(feature, &result, size);
    return GRAM_OK;
}

gram_status gram_machine_unseen_at(gram_context *g, const gram_machine *machine,
                                   const gram_table *table, int64_t index,
                                   gram_machine_unseen *unseen)
{
    gram_machine_unseen result = {.size = sizeof result, .least = NAN, .most = NAN};
    const struct gram_encoded_column *column;
    struct gram_unseen_values found;
    size_t size;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(check_index(g, machine, index));
    if (!unseen || unseen->size < sizeof unseen->size || unseen->size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "unseen.size is %zu, expected at most %zu",
                         unseen ? unseen->size : 0, sizeof result);
    TRY(gram_table_check(g, table));
    TRY(gram_encoder_unseen(g, machine->encoder, table, index, &found));
    column = &machine->encoder->column[index];
    result.unknown = found.unknown, result.first_unknown = found.first_unknown;
    result.missing = found.missing, result.first_missing = found.first_missing;
    result.far = found.far, result.first_far = found.first_far;
    if (column->least <= column->most && isfinite(column->most - column->least))
        result.least = column->least, result.most = column->most;
    size = unseen->size;
    result.size = size;
    memcpy(unseen, &result, size);
    return GRAM_OK;
}

const char *gram_machine_target(const gram_machine *machine)
{
    return gram_machine_target_name(machine, 0);
}

int64_t gram_machine_target_count(const gram_machine *machine)
{
    return machine ? gram_machine_target_parts(&machine->target) : 0;
}

const char *gram_machine_target_name(const gram_machine *machine, int64_t index)
{
    return index >= 0 && index < gram_machine_target_count(machine)
               ? gram_machine_target_part(&machine->target, index)->name
               : NULL;
}

gram_task gram_machine_task(const gram_machine *machine)
{
    return machine ? machine->target.task : (gram_task)0;
}

int64_t gram_machine_class_count(const gram_machine *machine)
{
    return machine ? machine->target.classes : 0;
}

const char *gram_machine_class_name(const gram_machine *machine, int64_t index)
{
    return machine && index >= 0 && index < machine->target.classes
               ? machine->target.class_name[index]
               : NULL;
}

int gram_machine_classes_are_numbers(const gram_machine *machine)
{
    return machine && machine->target.class_value != NULL;
}

const char *gram_machine_describe(const gram_machine *machine)
{
    if (!machine)
        return NULL;
    return machine->description ? machine->description : machine->summary;
}
