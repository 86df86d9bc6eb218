/*
 * backend.c - which backend serves a device, and what a context offers
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include "process.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef GRAM_VERSION
#  error "GRAM_VERSION must be set by the build, as \"0.1.0\""
#endif

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

gram_status gram_backend_open(gram_context *g)
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

void gram_backend_close(gram_context *g)
{
    if (g->backend && g->backend->close)
        g->backend->close(g);
    if (g->plugin)
        dlclose(g->plugin);
    g->plugin = NULL;
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

/* Bytes that the kernel says can be had without swapping; free pages where it does not say. */
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
