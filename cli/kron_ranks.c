/*
 * kron_ranks.c - `gram kron --mpi`: a product that is shared by the processes of mpirun
 *
 * Every process has read X and the factors, and multiplies its part of X.  The first process
 * receives all parts of Y and writes them.  Between the steps the processes agree that none has
 * failed; otherwise all of them end, and one message is printed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_ranks.h"
#include <stdlib.h>
#include <string.h>

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Of all ranks; there is none to receive them on ranks other than the first. */
struct parts {
    gram_kron_part own, *all;
    struct matrix y;  /* this rank's */
    char *gathered;   /* those of all */
    int ndim, m, e;   /* which dimension of y has rows of op(x), and which the elements of one */
    size_t item_size; /* bytes of an element */
};

static gram_tensor part_of_x(const gram_tensor *x, const struct kron_ranks_product *p,
                             const gram_kron_part *part)
{
    int turned = (p->options.side == GRAM_LEFT) != (p->options.transpose_x != 0);
    int m = x->ndim - (turned ? 1 : 2), e = x->ndim - (turned ? 2 : 1);
    int64_t skip = part->first_row * x->stride[m] + part->first_column * x->stride[e];
    gram_tensor mine = *x;

    mine.shape[m] = part->rows, mine.shape[e] = part->columns;
    mine.data = (char *)mine.data + skip * (int64_t)gram_dtype_size(x->dtype);
    return mine;
}

static enum exit_status multiply(struct ranks *ranks, const struct kron_ranks_product *p,
                                 struct parts *parts, struct failure *why)
{
    int left = p->options.side == GRAM_LEFT;
    gram_kron_options options = p->options;
    int64_t shape[GRAM_MAX_DIMS];
    gram_status status;
    gram_tensor x;

    options.communicator = ranks->c;
    parts->ndim = p->ndim;
    parts->m = p->ndim - (left ? 1 : 2), parts->e = p->ndim - (left ? 2 : 1);
    parts->item_size = gram_dtype_size(p->x->dtype);
    status = gram_kron_matmul_part(ranks->g, p->shape[parts->m], p->factors, p->count, &options,
                                   &parts->own);
    if (status != GRAM_OK)
        return ranks_agree(ranks, fail_gram(why, status, ranks->g), why);
    memcpy(shape, p->shape, sizeof shape);
    shape[parts->m] = parts->own.rows, shape[parts->e] = parts->own.outs;
    TRY(ranks_agree(ranks, matrix_allocate(&parts->y, p->x->dtype, p->ndim, shape, why), why));
    options.split = parts->own.split;
    x = part_of_x(p->x, p, &parts->own);
    status = gram_kron_matmul_multi(ranks->g, &x, p->factors, p->count, &options, &parts->y.t);
    return ranks_agree(ranks, status == GRAM_OK ? CLI_OK : fail_gram(why, status, ranks->g), why);
}

/* Copies the block of a rank into y, and returns its number of bytes. */
static size_t place(const struct parts *parts, const gram_kron_part *part, const char *from,
                    const struct matrix *y)
{
    const int64_t *shape = y->t.shape;
    int by_rows = parts->m < parts->e; /* of the block */
    int64_t rows = by_rows ? part->rows : part->outs, cols = by_rows ? part->outs : part->rows;
    int64_t row = by_rows ? part->first_row : part->first_out;
    int64_t col = by_rows ? part->first_out : part->first_row;
    int64_t all_rows = shape[parts->ndim - 2], all_cols = shape[parts->ndim - 1];
    size_t run = (size_t)cols * parts->item_size, done = 0;
    int64_t items = 1;

    for (int d = 0; d < parts->ndim - 2; d++)
        items *= shape[d];
    for (int64_t item = 0; item < items && run > 0; item++)
        for (int64_t i = 0; i < rows; i++, done += run)
            memcpy((char *)y->memory +
                       (size_t)((item * all_rows + row + i) * all_cols + col) * parts->item_size,
                   from + done, run);
    return done;
}

static enum exit_status reserve(struct ranks *ranks, const struct kron_ranks_product *p,
                                struct parts *parts, struct matrix *y, struct failure *why)
{
    size_t size = (size_t)gram_communicator_size(ranks->c);

    if (!ranks_first(ranks))
        return CLI_OK;
    TRY(matrix_allocate(y, p->x->dtype, p->ndim, p->shape, why));
    parts->all = calloc(size, sizeof *parts->all);
    parts->gathered = malloc((size_t)matrix_count(y) * parts->item_size + 1);
    return parts->all && parts->gathered ? CLI_OK : fail_memory(why, "the parts of the result");
}

static enum exit_status gather(struct ranks *ranks, const struct kron_ranks_product *p,
                               struct parts *parts, struct matrix *y, struct failure *why)
{
    size_t size = (size_t)gram_communicator_size(ranks->c);
    size_t bytes = (size_t)matrix_count(&parts->y) * parts->item_size, room = 0, at = 0;
    gram_status status;

    TRY(ranks_agree(ranks, reserve(ranks, p, parts, y, why), why));
    if (ranks_first(ranks))
        room = (size_t)matrix_count(y) * parts->item_size;
    status = gram_communicator_gather(ranks->g, ranks->c, &parts->own, sizeof parts->own,
                                      parts->all, size * sizeof *parts->all);
    if (status == GRAM_OK)
        status = gram_communicator_gather(ranks->g, ranks->c, parts->y.memory, bytes,
                                          parts->gathered, room);
    if (status != GRAM_OK)
        return ranks_agree(ranks, fail_gram(why, status, ranks->g), why);
    for (size_t rank = 0; parts->all && rank < size; rank++)
        at += place(parts, &parts->all[rank], parts->gathered + at, y);
    return CLI_OK;
}

enum exit_status kron_ranks_multiply(struct ranks *ranks, const struct kron_ranks_product *p,
                                     struct matrix *y, struct failure *why)
{
    struct parts parts = {.all = NULL};
    enum exit_status status = multiply(ranks, p, &parts, why);

    if (status == CLI_OK)
        status = gather(ranks, p, &parts, y, why);
    matrix_free(&parts.y);
    free(parts.all);
    free(parts.gathered);
    return status;
}
