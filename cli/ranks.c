/*
 * ranks.c - commands with --mpi: the processes that mpirun or srun has started
 *
 * SPDX-License-Identifier: MIT
 */
#include "ranks.h"
#include <stdlib.h>
#include <string.h>

enum exit_status ranks_open(const struct common_settings *common, struct ranks *ranks,
                            struct failure *why)
{
    gram_status status;

    TRY(open_context(common, &ranks->g, why));
    status = gram_communicator_create_mpi_world(ranks->g, &ranks->c);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, ranks->g);
}

void ranks_close(struct ranks *ranks)
{
    gram_communicator_destroy(ranks->c);
    gram_context_destroy(ranks->g);
}

int ranks_first(const struct ranks *ranks)
{
    return gram_communicator_rank(ranks->c) == 0;
}

/* ---- Agreement ------------------------------------------------------------------------------ */

/* How a rank has fared. */
struct account {
    enum exit_status status;
    struct failure why;
};

/* The first process takes the message of the first rank that failed. */
static void take_over(const struct account *all, int size, enum exit_status *status,
                      struct failure *why)
{
    int rank = 0;

    while (rank < size - 1 && all[rank].status == CLI_OK)
        rank++;
    *status = all[rank].status;
    if (rank == 0)
        *why = all[0].why;
    else
        failure_write(why, "rank %d: %s", rank, all[rank].why.text);
}

static enum exit_status tell(struct ranks *ranks, enum exit_status status, struct failure *why)
{
    size_t size = (size_t)gram_communicator_size(ranks->c);
    struct account own = {.status = status}, few[1], *all = few;
    gram_status done;

    if (status != CLI_OK)
        own.why = *why;
    if (ranks_first(ranks) && size > 1)
        all = calloc(size, sizeof *all);
    done = gram_communicator_gather(ranks->g, ranks->c, &own, sizeof own, all, size * sizeof *all);
    if (!ranks_first(ranks))
        why->text[0] = '\0';
    else if (done == GRAM_OK)
        take_over(all, (int)size, &status, why);
    if (all != few)
        free(all);
    return status;
}

enum exit_status ranks_agree(struct ranks *ranks, enum exit_status status, struct failure *why)
{
    /* This status of the library is the closest to everything that can fail here. */
    gram_status own = status == CLI_OK ? GRAM_OK : GRAM_BAD_DATA;
    gram_status all = gram_communicator_agree(ranks->g, ranks->c, own);

    if (all == GRAM_OK)
        return CLI_OK;
    status = tell(ranks, status, why);
    return status != CLI_OK ? status : CLI_FAILURE;
}

enum exit_status ranks_check(const struct common_settings *common, int count, char *const *operands,
                             struct failure *why)
{
    if (common->device && strcmp(common->device, "cpu") != 0)
        return fail(why, CLI_USAGE,
                    "--device %s cannot be used with --mpi, whose processes compute on the CPU",
                    common->device);
    for (int i = 0; i < count; i++)
        if (strcmp(operands[i], "-") == 0)
            return fail(why, CLI_USAGE,
                        "an operand is -, expected a file, because with --mpi every process reads "
                        "it");
    return CLI_OK;
}

int64_t ranks_rows(const struct ranks *ranks, int64_t rows, int64_t *first)
{
    const int64_t rank = gram_communicator_rank(ranks->c), size = gram_communicator_size(ranks->c);
    const int64_t each = rows / size, more = rows % size;

    *first = rank * each + (rank < more ? rank : more);
    return each + (rank < more);
}

static size_t row_bytes(const struct matrix *m)
{
    return (size_t)(m->t.ndim == 2 ? m->t.shape[1] : 1) * gram_dtype_size(m->t.dtype);
}

static enum exit_status allocate_like(const struct matrix *m, int64_t rows, struct matrix *out,
                                      struct failure *why)
{
    const int64_t shape[2] = {rows, m->t.ndim == 2 ? m->t.shape[1] : 1};

    return matrix_allocate(out, m->t.dtype, m->t.ndim, shape, why);
}

void ranks_copy_rows(const struct matrix *m, const int64_t first_step[2], int64_t rows, void *out)
{
    const int64_t columns = m->t.ndim == 2 ? m->t.shape[1] : 1;
    const int64_t size = (int64_t)gram_dtype_size(m->t.dtype);
    char *to = out;

    for (int64_t i = 0; i < rows; i++) {
        const char *row =
            (const char *)m->t.data + (first_step[0] + i * first_step[1]) * m->t.stride[0] * size;

        for (int64_t j = 0; j < columns; j++, to += size)
            memcpy(to, row + (m->t.ndim == 2 ? j * m->t.stride[1] * size : 0), (size_t)size);
    }
}

enum exit_status ranks_keep(struct matrix *m, int64_t first, int64_t rows, struct failure *why)
{
    struct matrix own = {.memory = NULL};

    TRY(allocate_like(m, rows, &own, why));
    ranks_copy_rows(m, (const int64_t[2]){first, 1}, rows, own.t.data);
    matrix_free(m);
    *m = own;
    return CLI_OK;
}

enum exit_status ranks_collect(struct ranks *ranks, struct matrix *m, int64_t rows,
                               struct failure *why)
{
    const size_t bytes = row_bytes(m), own = (size_t)m->t.shape[0] * bytes;
    struct matrix whole = {.memory = NULL};
    enum exit_status status = CLI_OK;
    gram_status done;

    if (ranks_first(ranks))
        status = allocate_like(m, rows, &whole, why);
    status = ranks_agree(ranks, status, why);
    if (status == CLI_OK) {
        done = gram_communicator_gather(ranks->g, ranks->c, m->t.data, own, whole.t.data,
                                        ranks_first(ranks) ? (size_t)rows * bytes : 0);
        status = ranks_agree(ranks, done == GRAM_OK ? CLI_OK : fail_gram(why, done, ranks->g), why);
    }
    if (status == CLI_OK && ranks_first(ranks)) {
        matrix_free(m);
        *m = whole;
    } else
        matrix_free(&whole);
    return status;
}
