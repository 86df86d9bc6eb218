/*
 * context.c - contexts: their device, what there is, scratch in memory of the CPU, traces, plans
 *
 * SPDX-License-Identifier: MIT
 */
#include "context.h"
#include "backend.h"
#include "blas_process.h"
#include "process.h"
#include "scratch.h"
#include "threads.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef GRAM_VERSION
#  error "GRAM_VERSION must be set by the build, as \"0.1.0\""
#endif

/* ---- Messages, and the beginning of a call --------------------------------------------------- */

/* The message of a call that had no context to hold it, as gram_context_create. */
static _Thread_local char thread_message[512];

static gram_status keep_message(const gram_context *g, gram_status status)
{
    memcpy(thread_message, g->message, sizeof thread_message);
    return status;
}

const char *gram_message(const gram_context *g)
{
    return g ? g->message : thread_message;
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
    g->takes_bytes = false;
    if (g->options.device.type != GRAM_CPU && gram_process_is_child(g))
        return gram_fail(g, GRAM_DEVICE_FAILED,
                         "a context on a GPU cannot be used in a child process after fork(): "
                         "start the child with spawn, or create its context before the parent "
                         "process creates one");
    return GRAM_OK;
}

/* ---- The device ------------------------------------------------------------------------------ */

/* The parts of a call that stay on the CPU need its backend on every device. */
static gram_status open_plugin(gram_context *g)
{
    const gram_device device = g->options.device;
    const struct gram_backend *table;
    char why[384];
    gram_status status;

    g->options.device = (gram_device){GRAM_CPU, 0};
    status = gram_cpu_backend.open(g);
    g->options.device = device;
    if (status != GRAM_OK)
        return status;
    table = gram_plugin_load(g, &g->plugin, why, sizeof why);
    if (!table)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    g->backend = table;
    return table->open(g);
}

/* Finds the backend of g->options.device, sets g->backend and opens it. */
static gram_status open_backend(gram_context *g)
{
    gram_device d = g->options.device;

    g->backend = &gram_cpu_backend;
    if (d.type == GRAM_CUDA)
        return open_plugin(g);
    if (d.type != GRAM_CPU || d.index != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.device is %d:%d, expected GRAM_CPU:0 or a GRAM_CUDA device",
                         (int)d.type, (int)d.index);
    return g->backend->open(g);
}

/* Undoes open_backend, whether it failed or not. */
static void close_backend(gram_context *g)
{
    if (g->backend && g->backend->close)
        g->backend->close(g);
    if (g->plugin)
        dlclose(g->plugin);
    g->plugin = NULL;
}

/* ---- Scratch in memory of the CPU ------------------------------------------------------------ */

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

/* ---- Contexts -------------------------------------------------------------------------------- */

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
        status = open_backend(g);
    if (status == GRAM_OK)
        *out = g;
    else {
        keep_message(g, status);
        gram_context_destroy(g);
    }
    return status;
}

gram_status gram_context_beside(gram_context *g, int threads, gram_context **out)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_status status;

    options.threads = threads;
    options.cpu_isa = g->options.cpu_isa;
    options.allocate = g->options.allocate;
    options.release = g->options.release;
    options.user = g->options.user;
    options.trace = g->options.trace;
    options.trace_user = g->options.trace_user;
    options.scratch_limit = gram_context_device(g).type == GRAM_CPU ? g->options.scratch_limit : 0;
    status = gram_context_create(&options, out);
    if (status != GRAM_OK)
        return gram_fail(g, status, "cannot make a context on the CPU: %s", gram_message(NULL));
    (*out)->call = g->call;
    (*out)->whole = g;
    return GRAM_OK;
}

void gram_context_destroy(gram_context *g)
{
    if (!g)
        return;
    close_backend(g);
    gram_pool_destroy(g);
    release_host_scratch(g);
    gram_expression_release(g);
    gram_settings_release(g);
    gram_free(g, g, sizeof *g);
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

/* ---- What there is --------------------------------------------------------------------------- */

const char *gram_version(void)
{
    return GRAM_VERSION;
}

const char *gram_status_name(gram_status status)
{
    static const char *const names[] = {
        "GRAM_OK",
        "GRAM_INVALID_ARGUMENT",
        "GRAM_UNSUPPORTED",
        "GRAM_OUT_OF_MEMORY",
        "GRAM_CANCELLED",
        "GRAM_IO",
        "GRAM_BAD_DATA",
        "GRAM_NUMERICAL",
        "GRAM_DEVICE_FAILED",
    };

    if ((size_t)status < sizeof names / sizeof *names)
        return names[status];
    return "unknown status";
}

/* 0 without a plugin, a driver or a device. */
static int cuda_devices(const gram_context *g)
{
    const struct gram_backend *table;
    void *handle = NULL;
    char why[384];
    int count;

    table = gram_plugin_load(g, &handle, why, sizeof why);
    count = table ? table->devices(g) : 0;
    if (!table)
        gram_log(g, "%s", why);
    if (handle)
        dlclose(handle);
    return count;
}

gram_device gram_best_device(void)
{
    gram_context g = {.call = __func__, .process = gram_process()};
    bool cuda = g.process && gram_settings_apply(&g) == GRAM_OK && cuda_devices(&g) > 0;

    gram_settings_release(&g);
    return (gram_device){cuda ? GRAM_CUDA : GRAM_CPU, 0};
}

/* Bytes that Linux says can be had without swapping; free pages where it does not say. */
static int64_t memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    long long kib = -1;
    char line[128];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) // NOLINT(cert-err34-c)
            break;
    if (file)
        (void)fclose(file);
    if (kib >= 0)
        return (int64_t)kib * 1024;
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

gram_status gram_context_info(gram_context *g, gram_info *info)
{
    gram_info result = {.size = sizeof result, .version = gram_version()};
    struct rlimit limit;
    size_t size;

    TRY(gram_begin_without_blas(g, __func__));
    if (!info || info->size < sizeof info->size || info->size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "info.size is %zu, expected at most %zu",
                         info ? info->size : 0, sizeof result);
    result.threads = g->threads;
    result.memory_total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    result.memory_available = memory_available();
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (int64_t)limit.rlim_cur < result.memory_available)
        result.memory_available = (int64_t)limit.rlim_cur;
    gram_cpu_backend.describe(g, &result);
    if (g->backend != &gram_cpu_backend)
        g->backend->describe(g, &result);
    result.cuda_devices = cuda_devices(g);
    size = info->size;
    result.size = size;
    memcpy(info, &result, size);
    return GRAM_OK;
}

gram_status gram_memory_available(gram_context *g, int64_t *bytes)
{
    const char *call = g->call;
    gram_info info = {.size = sizeof info};

    TRY(gram_context_info(g, &info));
    g->call = call;
    *bytes =
        g->options.device.type == GRAM_CPU ? info.memory_available : info.device_memory_available;
    return GRAM_OK;
}

/* ---- Plans of every call --------------------------------------------------------------------- */

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
