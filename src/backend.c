/*
 * backend.c - which backend serves a device, and what a context offers
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
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
        "GRAM_OK",          "GRAM_INVALID_ARGUMENT",
        "GRAM_UNSUPPORTED", "GRAM_OUT_OF_MEMORY",
        "GRAM_CANCELLED",   "GRAM_IO",
        "GRAM_BAD_DATA",    "GRAM_NUMERICAL",
    };

    if ((size_t)status < sizeof names / sizeof *names)
        return names[status];
    return "unknown status";
}

gram_status gram_backend_open(gram_context *g)
{
    gram_device d = g->options.device;

    if (d.type == GRAM_CPU && d.index == 0)
        g->backend = &gram_cpu_backend;
    else if (d.type == GRAM_CUDA)
        return gram_fail(g, GRAM_UNSUPPORTED, "this build has no CUDA backend");
    else
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.device is %d:%d, expected GRAM_CPU:0",
                         (int)d.type, (int)d.index);
    return g->backend->open(g);
}

gram_device gram_best_device(void)
{
    return (gram_device){GRAM_CPU, 0};
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
    gram_info result = {.size = sizeof result, .version = gram_version(), .threads = g->threads};
    struct rlimit limit;
    size_t size;

    g->call = __func__;
    if (!info || info->size < sizeof info->size || info->size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "info.size is %zu, expected at most %zu",
                         info ? info->size : 0, sizeof result);
    result.memory_total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    result.memory_available = memory_available();
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (int64_t)limit.rlim_cur < result.memory_available)
        result.memory_available = (int64_t)limit.rlim_cur;
    g->backend->describe(g, &result);
    size = info->size;
    result.size = size;
    memcpy(info, &result, size);
    return GRAM_OK;
}
