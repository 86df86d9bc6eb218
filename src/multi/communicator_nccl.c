/*
 * communicator_nccl.c - communicators over NCCL: of one rank, and of all GPUs of this process
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include "core/backend.h"
#include "core/threads.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

enum {
    TIMEOUT = 600, /* seconds */
    MOST_GPUS = 64 /* of one process */
};

/* It is the backend that holds NCCL's transport. */
static const struct gram_plugin nccl = {
    .file = "libgram_cuda.so", .table = "gram_nccl_transport", .what = "the CUDA backend"};

static gram_status check_gpu(gram_context *g, const gram_context *of, const char *name)
{
    if (of->options.device.type == GRAM_CUDA)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "%s is a context on the CPU, expected a context on a GPU", name);
}

gram_status gram_nccl_id(gram_context *g, void *id, size_t bytes)
{
    const struct gram_transport *transport;
    gram_status status;
    char why[384];
    void *plugin;

    TRY(gram_begin(g, __func__));
    if (!id)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "id is NULL");
    if (bytes != GRAM_NCCL_ID_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "bytes is %zu, expected %d", bytes,
                         (int)GRAM_NCCL_ID_BYTES);
    TRY(check_gpu(g, g, "g"));
    transport = gram_plugin_open(g, &nccl, &plugin, why, sizeof why);
    if (!transport)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    status = transport->make_id(g, id);
    dlclose(plugin);
    return status;
}

static gram_status take_options(gram_context *g, const gram_nccl_options *given,
                                struct gram_nccl_rank *rank)
{
    gram_nccl_options o = GRAM_NCCL_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, given));
    if (!(o.timeout >= 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.timeout is %g, expected 0 or more",
                         o.timeout);
    rank->timeout = o.timeout > 0 ? o.timeout : TIMEOUT;
    return GRAM_OK;
}

gram_status gram_communicator_create_nccl(gram_context *g, const void *id, size_t bytes, int rank,
                                          int size, const gram_nccl_options *options,
                                          gram_communicator **out)
{
    struct gram_nccl_rank handle = {.id = id, .rank = rank, .size = size};

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!id)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "id is NULL, expected an id of gram_nccl_id");
    if (bytes != GRAM_NCCL_ID_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "bytes is %zu, expected %d", bytes,
                         (int)GRAM_NCCL_ID_BYTES);
    if (size < 1 || rank < 0 || rank >= size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "rank is %d of size %d, expected 0 <= rank < size", rank, size);
    TRY(check_gpu(g, g, "g"));
    TRY(take_options(g, options, &handle));
    return gram_communicator_open(g, &nccl, &handle, sizeof handle, out);
}

/* ---- All GPUs of this process -------------------------------------------------------------- */

struct lane {
    struct gram_gate *gate;
    pthread_t thread;
    gram_context *g;
    struct gram_nccl_rank handle;
    gram_communicator **out;
    gram_status status;
};

static void *run_lane(void *argument)
{
    struct lane *lane = argument;

    if (gram_gate_wait(lane->gate))
        lane->status =
            gram_communicator_open(lane->g, &nccl, &lane->handle, sizeof lane->handle, lane->out);
    return NULL;
}

static gram_status check_contexts(gram_context *const *contexts, int count)
{
    gram_context *g = contexts[0];
    char name[48];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "contexts[%d]", i);
        if (!contexts[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
        TRY(check_gpu(g, contexts[i], name));
        for (int j = 0; j < i; j++)
            if (contexts[j]->options.device.index == contexts[i]->options.device.index)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "contexts[%d] and contexts[%d] are both on CUDA device %d, "
                                 "expected one context per device",
                                 j, i, (int)contexts[i]->options.device.index);
    }
    return GRAM_OK;
}

static gram_status run_lanes(gram_context *g, struct gram_gate *gate, struct lane *lanes, int count)
{
    int started = 1;

    while (started < count &&
           pthread_create(&lanes[started].thread, NULL, run_lane, &lanes[started]) == 0)
        started++;
    gram_gate_decide(gate, started == count);
    run_lane(&lanes[0]);
    for (int i = 1; i < started; i++)
        (void)pthread_join(lanes[i].thread, NULL);
    if (started < count)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot start %d threads", count);
    if (lanes[0].status != GRAM_OK)
        return lanes[0].status;
    for (int i = 1; i < count; i++)
        if (lanes[i].status != GRAM_OK)
            return gram_fail(g, lanes[i].status, "contexts[%d]: %s", i, lanes[i].g->message);
    return GRAM_OK;
}

gram_status gram_communicator_create_nccl_all(gram_context *const *contexts, int count,
                                              const gram_nccl_options *options,
                                              gram_communicator **out)
{
    struct gram_gate gate = GRAM_GATE_INIT;
    struct lane lanes[MOST_GPUS] = {{.gate = &gate}};
    char id[GRAM_NCCL_ID_BYTES];
    gram_context *g;
    gram_status status;

    if (!contexts)
        return gram_begin_as(NULL, __func__, "contexts");
    g = contexts[0];
    TRY(gram_begin_as(g, __func__, "contexts[0]"));
    if (count < 1 || count > MOST_GPUS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "count is %d, expected 1 to %d", count,
                         (int)MOST_GPUS);
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    TRY(check_contexts(contexts, count));
    TRY(take_options(g, options, &lanes[0].handle));
    TRY(gram_nccl_id(g, id, sizeof id));
    g->call = __func__;
    for (int i = 0; i < count; i++) {
        contexts[i]->call = __func__;
        lanes[i].gate = &gate, lanes[i].g = contexts[i], lanes[i].out = &out[i];
        lanes[i].handle = (struct gram_nccl_rank){id, i, count, lanes[0].handle.timeout};
    }
    status = run_lanes(g, &gate, lanes, count);
    for (int i = 0; status != GRAM_OK && i < count; i++) {
        gram_communicator_destroy(out[i]);
        out[i] = NULL;
    }
    return status;
}
