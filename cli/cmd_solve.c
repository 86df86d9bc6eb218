/*
 * cmd_solve.c - `gram solve`: systems of linear equations
 *
 * The matrix is factored in place, and the solution overwrites the right-hand sides.  Memory
 * therefore holds only A and B.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "solve_extras.h"
#include "text.h"
#include <stdlib.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    struct solve_extras_settings extras;
    int method, uplo, dtype;
};

enum {
    METHOD_LU,
    METHOD_CHOLESKY
};

static const struct option_row rows[] = {
    CHOICE("method", 'm', "NAME", offsetof(struct settings, method), "lu", "lu|cholesky",
           "lu: for any square matrix; cholesky: for a symmetric positive definite one, in half "
           "the time"),
    UPLO(offsetof(struct settings, uplo),
         "cholesky: the triangle of A that is read; the other one may hold anything"),
    DTYPE(offsetof(struct settings, dtype),
          "auto: f32 if both inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Method", rows, 0),
    GROUP("Accuracy", solve_extras_options, offsetof(struct settings, extras)),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", output_options, offsetof(struct settings, output)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

struct system {
    struct matrix a, b, x;
    int vector; /* b was a vector, and so x is one */
};

static enum exit_status load(const struct settings *s, char **operands, struct system *out,
                             struct failure *why)
{
    gram_tensor *a = &out->a.t, *b = &out->b.t;

    TRY(matrix_load(operands[0], &s->input, (enum dtype_choice)s->dtype, &out->a, why));
    TRY(matrix_load(operands[1], &s->input, (enum dtype_choice)s->dtype, &out->b, why));
    TRY(matrix_check_square(&out->a, operands[0], why));
    if (b->ndim == 1) {
        b->ndim = 2;
        b->shape[1] = b->stride[1] = 1;
        out->vector = 1;
    }
    if (b->ndim < 2 || b->shape[b->ndim - 2] != a->shape[a->ndim - 1])
        return fail(why, CLI_BAD_DATA, "%s has %lld rows, expected %lld, the order of %s",
                    text_name(operands[1]), (long long)(b->ndim > 1 ? b->shape[b->ndim - 2] : 0),
                    (long long)a->shape[a->ndim - 1], text_name(operands[0]));
    TRY(matrix_common_dtype(&out->a, &out->b, why));
    if (a->dtype == GRAM_F16) {
        TRY(matrix_convert(&out->a, GRAM_F32, why));
        TRY(matrix_convert(&out->b, GRAM_F32, why));
    }
    return matrix_result(&out->a, &out->b, b->shape[b->ndim - 2], b->shape[b->ndim - 1], &out->x,
                         why);
}

/* Reports the first item of the batch whose factorisation failed. */
static enum exit_status check_info(const struct settings *s, const struct matrix *info,
                                   struct failure *why)
{
    const int32_t *code = info->t.data;
    int64_t items = matrix_count(info);

    for (int64_t i = 0; i < items; i++) {
        char name[MATRIX_NAME_BYTES];
        const char *item = matrix_name(name, i, items);
        if (code[i] != 0 && s->method == METHOD_CHOLESKY)
            return fail(why, CLI_FAILURE,
                        "%s is not positive definite (its leading minor of order %d is not)", item,
                        code[i]);
        if (code[i] != 0)
            return fail(why, CLI_FAILURE, "%s is singular (pivot %d is zero or NaN)", item,
                        code[i]);
    }
    return CLI_OK;
}

/* The same matrices where the context computes. */
struct there {
    struct device_matrix a, b, x, pivots, info;
    struct solve_extras extras;
};

static enum exit_status send(gram_context *g, const struct settings *s, const struct system *system,
                             struct there *to, struct failure *why)
{
    const gram_tensor *a = &system->a.t, *x = &system->x.t;

    TRY(device_matrix_send(g, &system->a, &to->a, why));
    TRY(device_matrix_send(g, &system->b, &to->b, why));
    TRY(device_matrix_result(g, &system->x, &to->x, why));
    if (s->method == METHOD_LU)
        TRY(device_matrix_allocate(g, GRAM_I32, a->ndim - 1, a->shape, &to->pivots, why));
    return device_matrix_allocate(g, GRAM_I32, x->ndim - 2, x->shape, &to->info, why);
}

static enum exit_status call(gram_context *g, const struct settings *s, struct there *at,
                             struct failure *why)
{
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    gram_status done;

    options.uplo = s->uplo ? GRAM_UPPER : GRAM_LOWER;
    TRY(solve_extras_take(g, &s->extras, &at->a.t, &at->x.t, &at->extras, &options, why));
    if (!options.refine) {
        options.factor = &at->a.t;
        options.pivots = s->method == METHOD_LU ? &at->pivots.t : NULL;
    }
    done = s->method == METHOD_LU
               ? gram_solve_lu(g, &at->a.t, &at->b.t, &options, &at->x.t, &at->info.t)
               : gram_solve_cholesky(g, &at->a.t, &at->b.t, &options, &at->x.t, &at->info.t);
    return done == GRAM_OK ? CLI_OK : fail_gram(why, done, g);
}

static enum exit_status solve(gram_context *g, const struct settings *s, struct system *system,
                              struct there *at, struct failure *why)
{
    struct matrix info = {.memory = NULL};
    enum exit_status status;

    TRY(send(g, s, system, at, why));
    TRY(call(g, s, at, why));
    TRY(device_matrix_fetch(g, &at->x, &system->x, why));
    TRY(matrix_allocate(&info, GRAM_I32, at->info.t.ndim, at->info.t.shape, why));
    status = device_matrix_fetch(g, &at->info, &info, why);
    if (status == CLI_OK)
        status = check_info(s, &info, why);
    if (status == CLI_OK)
        status = solve_extras_fetch(g, &at->extras, why);
    if (status == CLI_OK)
        status = solve_extras_report(&s->extras, &system->x.t, &at->extras, why);
    matrix_free(&info);
    return status;
}

static enum exit_status compute(const struct settings *s, struct system *system,
                                struct failure *why)
{
    struct there there = {.info.memory = NULL};
    enum exit_status status;
    gram_context *g;

    TRY(open_context(&s->common, &g, why));
    status = solve(g, s, system, &there, why);
    device_matrix_free(g, &there.a);
    device_matrix_free(g, &there.b);
    device_matrix_free(g, &there.x);
    device_matrix_free(g, &there.pivots);
    device_matrix_free(g, &there.info);
    solve_extras_free(g, &there.extras);
    gram_context_destroy(g);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct system system = {.vector = 0};
    enum exit_status status = load(s, operands, &system, why);

    (void)count;
    if (status == CLI_OK)
        status = compute(s, &system, why);
    if (status == CLI_OK) {
        if (system.vector && system.x.t.ndim == 2)
            system.x.t.ndim = 1;
        status = matrix_save(&system.x, &s->output, why);
    }
    matrix_free(&system.a);
    matrix_free(&system.b);
    matrix_free(&system.x);
    return status;
}

const struct command cmd_solve = {
    .name = "solve",
    .operands = "A B",
    .summary = "solve systems of linear equations A X = B",
    .details =
        "Solves A X = B for a square matrix A, with the right-hand sides in the columns of B, and "
        "writes X. A and B are numeric tables in text or .npy arrays. Arrays with more than two "
        "dimensions are batches of matrices, and a vector B is one right-hand side.\n\n"
        "The exit status is 1, and nothing is written, if a matrix is singular or, with --method "
        "cholesky, not positive definite.",
    .examples = "  gram solve kernel.npy targets.csv --method cholesky -o coefficients.npy",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
