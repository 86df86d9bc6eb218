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

enum exit_status ranks_gather(struct ranks *ranks, const void *data, size_t bytes, void *into,
                              size_t room, struct failure *why)
{
    const gram_status status =
        gram_communicator_gather(ranks->g, ranks->c, data, bytes, into, room);

    return ranks_agree(ranks, status == GRAM_OK ? CLI_OK : fail_gram(why, status, ranks->g), why);
}

int64_t ranks_rows(const struct ranks *ranks, int64_t rows, int64_t *first)
{
    const int64_t rank = gram_communicator_rank(ranks->c), size = gram_communicator_size(ranks->c);
    const int64_t each = rows / size, more = rows % size;

    *first = rank * each + (rank < more ? rank : more);
    return each + (rank < more);
}
