/*
 * communicator.c - gram_communicator_*: the processes that share a call, and how they agree
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include "backend.h"
#include <dlfcn.h>
#include <stdio.h>

static gram_status open_transport(gram_context *g, const struct gram_plugin *plugin,
                                  const void *handle, size_t bytes, gram_communicator *c)
{
    char why[384];

    c->transport = gram_plugin_open(g, plugin, &c->plugin, why, sizeof why);
    if (!c->transport)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    return c->transport->open(g, handle, bytes, c);
}

static void close_transport(gram_communicator *c)
{
    if (c->transport)
        c->transport->close(c->g, c);
    if (c->plugin)
        dlclose(c->plugin);
}

/* The communicator with its tables behind it. */
static size_t all_bytes(const gram_communicator *c)
{
    return gram_round64(sizeof *c) + 2 * (size_t)c->size * sizeof *c->send_bytes;
}

/* No rank leaves the others alone: memory is wanted only when all of them can be told. */
gram_status gram_communicator_open(gram_context *g, const struct gram_plugin *plugin,
                                   const void *handle, size_t bytes, gram_communicator **out)
{
    gram_communicator here = {.g = g}, *c = NULL;
    gram_status status = open_transport(g, plugin, handle, bytes, &here);

    if (status == GRAM_OK) {
        c = gram_alloc(g, all_bytes(&here));
        if (!c)
            status =
                gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a table of %d ranks", here.size);
        status = gram_agree(g, &here, status, NULL, 0);
    }
    if (status != GRAM_OK) {
        gram_free(g, c, all_bytes(&here));
        close_transport(&here);
        return status;
    }
    here.send_bytes = (size_t *)(void *)((char *)c + gram_round64(sizeof *c));
    here.receive_bytes = here.send_bytes + here.size;
    *c = here;
    *out = c;
    return GRAM_OK;
}

gram_status gram_communicator_create_mpi(gram_context *g, const void *mpi_comm, size_t bytes,
                                         gram_communicator **out)
{
    static const struct gram_plugin mpi = {
        .file = "libgram_mpi.so", .table = "gram_mpi_transport", .what = "the MPI transport"};

    g->call = __func__;
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!mpi_comm)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "mpi_comm is NULL, expected an MPI_Comm");
    return gram_communicator_open(g, &mpi, mpi_comm, bytes, out);
}

void gram_communicator_destroy(gram_communicator *c)
{
    if (!c)
        return;
    close_transport(c);
    gram_free(c->g, c, all_bytes(c));
}

int gram_communicator_rank(const gram_communicator *communicator)
{
    return communicator->rank;
}

int gram_communicator_size(const gram_communicator *communicator)
{
    return communicator->size;
}

/* ---- Agreement ----------------------------------------------------------------------------- */

static gram_status differs(gram_context *g, const struct gram_common *common, int64_t least,
                           int64_t most)
{
    char name[64];

    snprintf(name, sizeof name, "%s", common->name);
    if (common->index >= 0)
        snprintf(name, sizeof name, "%s of factors[%d]", common->name, common->index);
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "the ranks disagree: %s is %lld on one of them and %lld on another", name,
                     (long long)least, (long long)most);
}

gram_status gram_agree(gram_context *g, gram_communicator *c, gram_status status,
                       const struct gram_common *common, int count)
{
    int64_t values[1 + 2 * GRAM_MAX_COMMON];
    gram_status worst;

    if (status == GRAM_OK && c->transport->look)
        status = c->transport->look(g, c);
    /* Of ranks with one status the first is named. */
    values[0] = status == GRAM_OK ? 0 : (int64_t)status << 32 | (INT32_MAX - c->rank);
    for (int i = 0; i < count; i++) {
        values[1 + 2 * i] = common[i].value;
        values[2 + 2 * i] = ~common[i].value; /* the largest of these is the least value */
    }
    TRY(c->transport->largest(g, c, values, 1 + 2 * count));
    if (status != GRAM_OK)
        return status;
    worst = (gram_status)(values[0] >> 32);
    if (worst != GRAM_OK)
        return gram_fail(g, worst, "rank %d failed with %s",
                         INT32_MAX - (int)(values[0] & INT32_MAX), gram_status_name(worst));
    for (int i = 0; i < count; i++)
        if (values[1 + 2 * i] != ~values[2 + 2 * i])
            return differs(g, &common[i], ~values[2 + 2 * i], values[1 + 2 * i]);
    return GRAM_OK;
}
