/*
 * solve_extras.c - the options of `gram solve` besides the method, and its report
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extras.h"
#include "number.h"
#include "output.h"

const struct option_row solve_extras_options[] = {
    TEXT("jitter", 0, "S,S,...", offsetof(struct solve_extras_settings, jitter), NULL,
         "cholesky: ascending numbers; the first is taken for which A + S I is positive definite"),
    FLAG("refine", 0, offsetof(struct solve_extras_settings, refine),
         "f64: factor in f32 and refine to the accuracy of f64"),
    FILE_NAME(
        "report", 0, "FILE", offsetof(struct solve_extras_settings, report), NULL,
        "write CSV: the reciprocal condition number of each matrix, the S that was taken, the "
        "backward error and the steps of --refine"),
    OPTION_END,
};

static enum exit_status parse_jitters(const char *text, struct solve_extras *extras, int *count,
                                      struct failure *why)
{
    const char *at = text;

    for (*count = 0; at && *count < SOLVE_MOST_JITTERS;) {
        at = number_parse(at, &extras->jitter[*count]);
        ++*count;
        if (at && *at == '\0')
            return CLI_OK;
        at = at && *at == ',' ? at + 1 : NULL;
    }
    return fail(why, CLI_USAGE,
                "--jitter is \"%s\", expected at most %d numbers that are separated by commas",
                text, SOLVE_MOST_JITTERS);
}

/* Room for an answer, here and where the context computes; *option is where the library puts it. */
static enum exit_status ask(gram_context *g, struct solve_answer *answer, gram_dtype dtype,
                            const gram_tensor *of, gram_tensor **option, struct failure *why)
{
    TRY(matrix_allocate(&answer->here, dtype, of->ndim - 2, of->shape, why));
    TRY(device_matrix_result(g, &answer->here, &answer->there, why));
    *option = &answer->there.t;
    return CLI_OK;
}

enum exit_status solve_extras_take(gram_context *g, const struct solve_extras_settings *s,
                                   const gram_tensor *a, const gram_tensor *x,
                                   struct solve_extras *extras, gram_solve_options *options,
                                   struct failure *why)
{
    if (s->jitter) {
        TRY(parse_jitters(s->jitter, extras, &options->jitters, why));
        options->jitter = extras->jitter;
    }
    options->refine = s->refine;
    if (!s->report)
        return CLI_OK;
    TRY(ask(g, &extras->rcond, a->dtype, a, &options->rcond, why));
    if (s->jitter)
        TRY(ask(g, &extras->jittered, a->dtype, a, &options->jittered, why));
    if (!s->refine)
        return CLI_OK;
    TRY(ask(g, &extras->backward, GRAM_F64, x, &options->backward, why));
    return ask(g, &extras->refinings, GRAM_I32, x, &options->refinings, why);
}

enum exit_status solve_extras_fetch(gram_context *g, struct solve_extras *extras,
                                    struct failure *why)
{
    struct solve_answer *const all[] = {&extras->rcond, &extras->jittered, &extras->backward,
                                        &extras->refinings};

    for (int i = 0; i < LENGTH(all); i++)
        TRY(device_matrix_fetch(g, &all[i]->there, &all[i]->here, why));
    return CLI_OK;
}

/* The number for an item of x's batch, to which that of t broadcasts. */
static double number_of(const gram_tensor *t, const gram_tensor *x, int64_t item)
{
    int64_t at = 0;

    for (int d = x->ndim - 3, k = t->ndim - 1; k >= 0; d--, k--) {
        at += t->shape[k] > 1 ? item % x->shape[d] * t->stride[k] : 0;
        item /= x->shape[d];
    }
    if (t->dtype == GRAM_I32)
        return ((const int32_t *)t->data)[at];
    return t->dtype == GRAM_F32 ? (double)((const float *)t->data)[at]
                                : ((const double *)t->data)[at];
}

static void write_number(struct output *out, const struct matrix *m, const gram_tensor *x,
                         int64_t item)
{
    char text[NUMBER_TEXT] = "";

    if (m->memory)
        number_format(text, number_of(&m->t, x, item));
    output_format(out, ",%s", text);
}

enum exit_status solve_extras_report(const struct solve_extras_settings *s, const gram_tensor *x,
                                     const struct solve_extras *extras, struct failure *why)
{
    struct output out;
    int64_t items = 1;

    if (!s->report)
        return CLI_OK;
    for (int d = 0; d < x->ndim - 2; d++)
        items *= x->shape[d];
    TRY(output_open(&out, s->report, why));
    output_text(&out, "item,rcond,jitter,backward_error,refinings\n");
    for (int64_t i = 0; i < items; i++) {
        output_format(&out, "%lld", (long long)i);
        write_number(&out, &extras->rcond.here, x, i);
        write_number(&out, &extras->jittered.here, x, i);
        write_number(&out, &extras->backward.here, x, i);
        write_number(&out, &extras->refinings.here, x, i);
        output_text(&out, "\n");
    }
    return output_close(&out, why);
}

void solve_extras_free(gram_context *g, struct solve_extras *extras)
{
    struct solve_answer *const all[] = {&extras->rcond, &extras->jittered, &extras->backward,
                                        &extras->refinings};

    for (int i = 0; i < LENGTH(all); i++) {
        device_matrix_free(g, &all[i]->there);
        matrix_free(&all[i]->here);
    }
}
