/*
 * context.c - create and destroy contexts, grow scratch memory, report traces, run plans
 *
 * SPDX-License-Identifier: MIT
 */
#include "context.h"
#include "backend.h"
#include "blas_process.h"
#include "process.h"
#include "scratch.h"
#include "threads.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The message of a call that had no context to hold it, as gram_context_create. */
static _Thread_local char thread_message[512];

static gram_status keep_message(const gram_context *g, gram_status status)
{
    memcpy(thread_message, g->message, sizeof thread_message);
    return status;
}

gram_status gram_begin_as(gram_context *g, const char *call, const char *name)
{
    if (g)
        g->message[0] = '\0';
    TRY(gram_begin_beside(g, call, name));
    return gram_blas_memory_is_limited() ? gram_blas_memory_reserve(g) : GRAM_OK;
}

gram_status gram_begin_without_blas(gram_context *g, const char *call)
{
    if (g)
        g->message[0] = '\0';
    return gram_begin_beside(g, call, "g");
}

gram_status gram_begin_beside(gram_context *g, const char *call, const char *name)
{
    gram_context none = {.call = call};

    if (!g)
        return keep_message(&none, gram_fail(&none, GRAM_INVALID_ARGUMENT, "%s is NULL", name));
    g->call = call;
    if (g->options.device.type != GRAM_CPU && gram_process_is_child(g))
        return gram_fail(g, GRAM_DEVICE_FAILED,
                         "a context on a GPU cannot be used in a child process after fork(): "
                         "start the child with spawn, or create its context before the parent "
                         "process creates one");
    return GRAM_OK;
}

gram_status gram_context_create(const gram_context_options *options, gram_context **out)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context first = {.call = __func__}, *g;
    gram_status status;

    thread_message[0] = '\0';
    if (!out)
        return keep_message(&first, gram_fail(&first, GRAM_INVALID_ARGUMENT, "out is NULL"));
    *out = NULL;
    if (options && (options->size < sizeof(size_t) || options->size > sizeof o))
        return keep_message(&first, gram_fail(&first, GRAM_INVALID_ARGUMENT,
                                              "options.size is %zu, expected at most %zu",
                                              options->size, sizeof o));
    if (options)
        memcpy(&o, options, options->size);
    first.options = o;
    if (!o.allocate != !o.release)
        return keep_message(&first, gram_fail(&first, GRAM_INVALID_ARGUMENT,
                                              "options.allocate and options.release must both "
                                              "be given or both be NULL"));
    if (!o.allocate_device != !o.release_device)
        return keep_message(&first,
                            gram_fail(&first, GRAM_INVALID_ARGUMENT,
                                      "options.allocate_device and options.release_device must "
                                      "both be given or both be NULL"));
    g = gram_alloc(&first, sizeof *g);
    if (!g)
        return keep_message(
            &first, gram_fail(&first, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *g));
    memset(g, 0, sizeof *g);
    TRY(gram_begin_without_blas(g, __func__));
    gram_blas_memory_detect();
    g->options = o;
    g->process = gram_process();
    atomic_init(&g->cancelled, false);
    status = g->process
                 ? gram_settings_apply(g)
                 : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot register the handlers of fork()");
    if (g->process)
        g->children = g->process->children;
    if (status == GRAM_OK)
        status = gram_backend_open(g);
    if (status == GRAM_OK)
        *out = g;
    else {
        keep_message(g, status);
        gram_context_destroy(g);
    }
    return status;
}

static void release_host_scratch(gram_context *g)
{
    if (g->scratch_given)
        return;
    gram_free(g, g->scratch, g->scratch_bytes);
    g->scratch = NULL;
    g->scratch_bytes = 0;
}

void gram_scratch_release(gram_context *g)
{
    if (g->backend->release_scratch)
        g->backend->release_scratch(g);
    release_host_scratch(g);
}

void gram_context_destroy(gram_context *g)
{
    if (!g)
        return;
    gram_backend_close(g);
    gram_pool_destroy(g);
    release_host_scratch(g);
    gram_settings_release(g);
    gram_free(g, g, sizeof *g);
}

const char *gram_message(const gram_context *g)
{
    return g ? g->message : thread_message;
}

/* Scratch of no bytes has an address too: what a call adds to it, of no elements, stays defined. */
gram_status gram_scratch(gram_context *g, size_t bytes, void **out)
{
    static const _Alignas(64) char nothing[64];

    if (g->measure) {
        *g->measure = bytes;
        return (gram_status)GRAM_MEASURED;
    }
    if (bytes > g->scratch_bytes) {
        if (g->scratch_given)
            return gram_fail(g, GRAM_OUT_OF_MEMORY,
                             "the given workspace has %zu bytes, but this call needs %zu",
                             g->scratch_bytes, bytes);
        if (g->options.scratch_limit && bytes > g->options.scratch_limit)
            return gram_fail(g, GRAM_OUT_OF_MEMORY,
                             "this call needs %zu bytes of scratch memory, but "
                             "options.scratch_limit is %zu",
                             bytes, g->options.scratch_limit);
        gram_free(g, g->scratch, g->scratch_bytes);
        g->scratch_bytes = 0;
        g->scratch = gram_alloc(g, bytes);
        if (!g->scratch)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes of scratch memory",
                             bytes);
        g->scratch_bytes = bytes;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): takes away const; nobody writes there
    *out = g->scratch ? g->scratch : (void *)(uintptr_t)nothing;
    return GRAM_OK;
}

gram_status gram_layout_open_host(gram_context *g, const struct gram_layout *l)
{
    void *memory;

    TRY(gram_scratch(g, gram_layout_bytes(l), &memory));
    gram_layout_place(l, memory);
    return GRAM_OK;
}

void gram_scratch_lend_host(gram_context *g, void *memory, size_t bytes,
                            struct gram_scratch_before *before)
{
    *before = (struct gram_scratch_before){g->scratch, g->scratch_bytes, g->scratch_given};
    g->scratch = memory;
    g->scratch_bytes = bytes;
    g->scratch_given = true;
}

void gram_scratch_return_host(gram_context *g, const struct gram_scratch_before *before)
{
    g->scratch = before->memory;
    g->scratch_bytes = before->bytes;
    g->scratch_given = before->given;
}

gram_status gram_context_use_workspace(gram_context *g, void *memory, size_t bytes)
{
    TRY(gram_begin_without_blas(g, __func__));
    if ((uintptr_t)memory % 64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "memory is at address %p, expected a multiple of 64", memory);
    if (g->backend->use_workspace)
        return g->backend->use_workspace(g, memory, bytes);
    release_host_scratch(g);
    g->scratch = memory;
    g->scratch_bytes = memory ? bytes : 0;
    g->scratch_given = memory != NULL;
    return GRAM_OK;
}

gram_device gram_context_device(const gram_context *g)
{
    return g ? g->options.device : (gram_device){GRAM_CPU, 0};
}

gram_status gram_context_synchronize(gram_context *g)
{
    TRY(gram_begin_beside(g, __func__, "g"));
    if (g->fault[0])
        return gram_fail(g, GRAM_DEVICE_FAILED, "%s", g->fault);
    return g->backend->synchronize ? g->backend->synchronize(g) : GRAM_OK;
}

void gram_context_cancel(gram_context *g)
{
    if (g)
        atomic_store(&g->cancelled, true);
}

int64_t gram_trace_begin(const gram_context *g)
{
    return g->options.trace ? gram_nanoseconds() : 0;
}

void gram_trace_end(const gram_context *g, const char *name, int thread, int64_t start_ns)
{
    gram_trace_event event = {.name = name, .thread = thread, .start_ns = start_ns};

    if (!g->options.trace)
        return;
    event.duration_ns = gram_trace_begin(g) - start_ns;
    g->options.trace(g->options.trace_user, &event);
}

/* ---- Plans of every call ------------------------------------------------------------------ */

gram_status gram_plan_allocate(gram_context *g, size_t bytes, gram_plan **plan)
{
    *plan = gram_alloc(g, bytes);
    if (!*plan)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(*plan, 0, bytes);
    (*plan)->g = g;
    (*plan)->bytes = bytes;
    return GRAM_OK;
}

gram_status gram_plan_describe(const gram_plan *plan, gram_plan_description *description)
{
    size_t size;

    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    if (!description)
        return gram_fail(plan->g, GRAM_INVALID_ARGUMENT, "description is NULL");
    size = description->size;
    if (size < sizeof size || size > sizeof *description)
        return gram_fail(plan->g, GRAM_INVALID_ARGUMENT,
                         "description.size is %zu, expected at most %zu", size,
                         sizeof *description);
    memcpy(description, &plan->description, size);
    description->size = size;
    return GRAM_OK;
}

gram_status gram_plan_execute(gram_plan *plan)
{
    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    return plan->execute(plan);
}

void gram_plan_destroy(gram_plan *plan)
{
    if (plan)
        gram_free(plan->g, plan, plan->bytes);
}
