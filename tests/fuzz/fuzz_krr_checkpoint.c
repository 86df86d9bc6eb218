/*
 * fuzz_krr_checkpoint.c - any bytes as a checkpoint of a solve: refused with a message, or such
 * that everything it points to is there
 *
 * The checksum is not looked at, which would keep the fuzzer out.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr/krr_solve.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROWS = 5,
    WIDTH = 2,
    COLUMNS = 2,
    CENTRES = 3
};

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Reads everything: a sanitizer sees what is not there. */
static double walk(const struct krr_problem *p)
{
    const struct krr_checkpoint *c = &p->keep;
    const int64_t count = p->unknowns * COLUMNS;
    double sum = 0;

    for (int64_t i = 0; i < c->iterations; i++)
        sum += c->history[i];
    for (int64_t i = 0; i < c->pivots.rows; i++)
        require(c->pivots.row[i] >= 0 && c->pivots.row[i] < ROWS);
    for (int64_t i = 0; i < count; i++)
        sum += p->alpha[i] + p->best[i] + c->residual_before[i];
    for (int64_t i = 0; i < COLUMNS * (p->unknowns == ROWS ? 1 : 4); i++)
        sum += c->norms_before[i];
    for (int64_t i = 0; p->options.method == GRAM_KRR_BLOCKS && i < ROWS; i++) {
        require(c->passes.order[i] >= 0 && c->passes.order[i] < ROWS);
        sum += c->passes.momentum[i] + c->passes.momentum[count - 1 - i];
    }
    for (int64_t i = 0; p->options.method == GRAM_KRR_BLOCKS && i < 2 * COLUMNS; i++)
        sum += c->passes.squares[i];
    if (c->stage != KRR_ITERATING)
        return sum;
    require(p->options.method != GRAM_KRR_BLOCKS);
    for (int64_t i = 0; i < count; i++)
        sum += krr_element(GRAM_F64, c->state.x, i);
    for (int64_t i = 0; i < c->state.working * p->unknowns; i++)
        sum += krr_element(GRAM_F64, c->state.r, i) + krr_element(GRAM_F64, c->state.d, i);
    for (int64_t i = 0; i < 5 * COLUMNS; i++)
        sum += c->state.numbers[i];
    for (int64_t i = 0; i < c->state.working; i++)
        require(c->state.which[i] >= 0 && c->state.which[i] < COLUMNS);
    for (int64_t i = 0; i < c->state.waiting; i++)
        require(c->state.left[i] >= 0 && c->state.left[i] < COLUMNS);
    return sum;
}

static void take(gram_context *g, struct gram_model_file *file, gram_krr_method method)
{
    double alpha[ROWS * COLUMNS], best[ROWS * COLUMNS], sum;
    struct krr_problem p = {.options = {.method = method},
                            .dtype = GRAM_F64,
                            .n = ROWS,
                            .width = WIDTH,
                            .columns = COLUMNS,
                            .unknowns = method == GRAM_KRR_CENTRES ? CENTRES : ROWS,
                            .alpha = alpha,
                            .best = best};
    gram_status status = gram_krr_checkpoint_take(g, &p, file);

    require(status == GRAM_OK || (status == GRAM_BAD_DATA && *gram_message(g)));
    if (status != GRAM_OK)
        return;
    sum = walk(&p);
    require(sum == walk(&p) || sum != sum);
    p.keep.file = NULL; /* it is the caller's here */
    gram_krr_checkpoint_close(g, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    struct gram_model_file *file;
    gram_context *g = NULL;

    options.threads = 1;
    require(gram_context_create(&options, &g) == GRAM_OK);
    g->call = "fuzz";
    if (gram_model_parse(g, "fuzz", data, size, &file) == GRAM_OK) {
        take(g, file, GRAM_KRR_CG);
        take(g, file, GRAM_KRR_CENTRES);
        take(g, file, GRAM_KRR_BLOCKS);
    }
    gram_model_file_destroy(file);
    gram_context_destroy(g);
    return 0;
}
