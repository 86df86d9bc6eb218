/*
 * cmd_info.c - `gram info`: what this machine and this build offer, or what a model is
 *
 * SPDX-License-Identifier: MIT
 */
#include "command.h"
#include "json.h"
#include "model_info.h"
#include <stdlib.h>
#include <string.h>

enum {
    MANY_THREADS = 8 /* from where the release of OpenBLAS matters */
};

struct settings {
    struct common_settings common;
    int json;
};

static const struct option_group groups[] = {
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

/* A GPU that can be used. */
struct gpu {
    int index;
    char name[96];
    int64_t total, available; /* bytes */
};

/* False if the GPU turns out to be unusable. */
static int describe_gpu(int index, struct gpu *out)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_info info = {.size = sizeof info};
    gram_context *g;
    int known;

    options.device = (gram_device){GRAM_CUDA, index};
    if (gram_context_create(&options, &g) != GRAM_OK)
        return 0;
    known = gram_context_info(g, &info) == GRAM_OK;
    *out = (struct gpu){index, "", info.device_memory_total, info.device_memory_available};
    snprintf(out->name, sizeof out->name, "%s", info.device_name ? info.device_name : "unknown");
    gram_context_destroy(g);
    return known;
}

static void json_gpus(struct json *j, int count)
{
    struct gpu gpu;

    json_array(j, "devices");
    for (int i = 0; i < count; i++) {
        char name[32];
        if (!describe_gpu(i, &gpu))
            continue;
        snprintf(name, sizeof name, "cuda:%d", gpu.index);
        json_object(j, NULL);
        json_string(j, "device", name);
        json_string(j, "name", gpu.name);
        json_integer(j, "memory_total", gpu.total);
        json_integer(j, "memory_available", gpu.available);
        json_end(j);
    }
    json_end(j);
}

/* What OpenBLAS would be quicker with, if it runs the kernels of a processor without FMA on one
 * that has it, as where a hypervisor gives the processor a model that it does not know; else NULL.
 */
static const char *old_kernels(const gram_info *info)
{
    static const char *const old[] = {
        "Prescott", "Core2",       "Penryn", "Dunnington", "Atom",   "Nehalem",     "Opteron",
        "Bobcat",   "SSE_GENERIC", "Katmai", "Barcelona",  "Athlon", "Sandybridge", "Generic"};

    for (int i = 0; i < LENGTH(old); i++) {
        const char *at = strstr(info->blas, old[i]);
        const size_t length = strlen(old[i]);

        if (!at || at[-1] != ' ' || (at[length] && at[length] != ' '))
            continue;
        if (strstr(info->cpu_isas, "avx512"))
            return "OpenBLAS takes kernels of an older processor; OPENBLAS_CORETYPE=SKYLAKEX in "
                   "the environment makes it several times as fast";
        if (strstr(info->cpu_isas, "avx2"))
            return "OpenBLAS takes kernels of an older processor; OPENBLAS_CORETYPE=HASWELL in the "
                   "environment makes it several times as fast";
    }
    return NULL;
}

/* A warning about a BLAS that is known to be slow; NULL: there is none. */
static const char *slow_blas(const gram_info *info)
{
    static const char openblas[] = "OpenBLAS 0.";
    const char *version = info->blas;
    char *end;
    long minor;

    if (!info->blas || strcmp(info->blas, "BLAS") == 0)
        return "this is not OpenBLAS, MKL or BLIS: the reference BLAS is many times slower";
    if (strncmp(version, openblas, strlen(openblas)) != 0)
        return NULL;
    if (old_kernels(info) || info->threads < MANY_THREADS)
        return old_kernels(info);
    minor = strtol(version + strlen(openblas), &end, 10);
    if (minor < 3 || (minor == 3 && *end == '.' && strtol(end + 1, NULL, 10) < 26))
        return "OpenBLAS before 0.3.26 takes 1.5 to 5 times as long on many threads";
    return NULL;
}

static void write_json(struct output *out, const gram_info *info)
{
    struct json j = json_to(out);
    const char *isa = info->cpu_isas;

    json_object(&j, NULL);
    json_string(&j, "version", info->version);
    json_string(&j, "isa", info->cpu_isa);
    json_flat_array(&j, "isas");
    while (*isa) {
        char name[32];
        size_t size = strcspn(isa, " ");
        snprintf(name, sizeof name, "%.*s", (int)size, isa);
        json_string(&j, NULL, name);
        isa += size + (isa[size] == ' ');
    }
    json_end(&j);
    json_string(&j, "blas", info->blas);
    json_string(&j, "blas_slow", slow_blas(info));
    json_integer(&j, "threads", info->threads);
    json_integer(&j, "memory_total", info->memory_total);
    json_integer(&j, "memory_available", info->memory_available);
    json_integer(&j, "cuda_devices", info->cuda_devices);
    json_gpus(&j, info->cuda_devices);
    json_end(&j);
}

static void write_text(struct output *out, const gram_info *info)
{
    const double gib = 1024.0 * 1024 * 1024;

    output_format(out, "version           %s\n", info->version);
    output_format(out, "instruction set   %s (this processor has: %s)\n", info->cpu_isa,
                  info->cpu_isas);
    output_format(out, "BLAS              %s\n", info->blas ? info->blas : "unknown");
    if (slow_blas(info))
        output_format(out, "                  slow: %s\n", slow_blas(info));
    output_format(out, "threads           %d\n", info->threads);
    output_format(out, "memory            %.1f GiB, %.1f GiB available\n",
                  (double)info->memory_total / gib, (double)info->memory_available / gib);
    output_format(out, "CUDA devices      %d\n", info->cuda_devices);
    for (int i = 0; i < info->cuda_devices; i++) {
        struct gpu gpu;
        if (describe_gpu(i, &gpu))
            output_format(out, "  cuda:%-11d%s, %.1f GiB, %.1f GiB available\n", gpu.index,
                          gpu.name, (double)gpu.total / gib, (double)gpu.available / gib);
    }
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    gram_info info = {.size = sizeof info};
    gram_context *g;
    struct output out;
    gram_status done;
    enum exit_status status = CLI_OK;

    if (count > 0)
        return model_info(operands[0], &s->common, s->json, why);
    TRY(open_context(&s->common, &g, why));
    done = gram_context_info(g, &info);
    if (done != GRAM_OK)
        status = fail_gram(why, done, g);
    if (status == CLI_OK)
        status = output_open(&out, "-", why);
    if (status == CLI_OK) {
        if (s->json)
            write_json(&out, &info);
        else
            write_text(&out, &info);
        status = output_close(&out, why);
    }
    gram_context_destroy(g);
    return status;
}

const struct command cmd_info = {
    .name = "info",
    .operands = "[MODEL]",
    .summary = "show what this machine and this build offer, or what a model is",
    .details =
        "Prints the instruction sets of this processor and the one that is used, the BLAS library "
        "and whether it is known to be slow, the number of threads, the memory and the devices.\n\n"
        "Of a MODEL file it prints what it predicts from how many rows, its classes, its columns "
        "with their kinds and their importance, and its hyperparameters. A number may be missing "
        "in the rows to predict, and so may a category.",
    .examples =
        "  gram info --json\n"
        "  gram info model.gram",
    .most = 1,
    .reads = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .run = run,
};
