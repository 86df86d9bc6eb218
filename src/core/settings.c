/*
 * settings.c - the environment: every variable that begins with GRAM_, and others' of threads
 *
 * Read once, when a context is created, which keeps copies: what it points to is its own whatever
 * becomes of the environment.  An option given by the caller wins.  A program that has privileges
 * which its caller lacks (set-user-ID, file capabilities) reads none: they name code to run.
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include "context.h"
#include "threads.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CACHE_MIB = 256,
    MOST_CACHE_MIB = 1 << 20
};

static gram_status apply_threads(gram_context *g, const char *text)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > GRAM_MAX_THREADS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "GRAM_NUM_THREADS is \"%s\", expected a number from 1 to %d", text,
                         GRAM_MAX_THREADS);
    if (g->options.threads == 0)
        g->options.threads = (int)value;
    return GRAM_OK;
}

/* What others are told counts where nothing is said to us: "4", or "4,2" for nested loops, of which
 * the first is ours.  Texts that say nothing are for others to complain about. */
static gram_status apply_others_threads(gram_context *g, const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end != text && (!*end || *end == ',') && value >= 1 && value <= GRAM_MAX_THREADS &&
        (g->threads == 0 || value < g->threads))
        g->threads = (int)value;
    return GRAM_OK;
}

static gram_status apply_isa(gram_context *g, const char *text)
{
    if (!g->options.cpu_isa)
        g->options.cpu_isa = text;
    return GRAM_OK;
}

/* For tests: both forms of p = 2 can be had on every processor. */
static gram_status apply_form(gram_context *g, const char *text)
{
    if (strcmp(text, "direct") == 0)
        g->cdist_form = GRAM_FORM_DIRECT;
    else if (strcmp(text, "expansion") == 0)
        g->cdist_form = GRAM_FORM_EXPANSION;
    else
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "GRAM_CDIST_FORM is \"%s\", expected direct or expansion", text);
    return GRAM_OK;
}

/* For tests and measurements: each way can be had for every problem that has it. */
static gram_status apply_matmul(gram_context *g, const char *text)
{
    if (strcmp(text, "panels") == 0)
        g->matmul_form = GRAM_MATMUL_PANELS;
    else if (strcmp(text, "fused") == 0)
        g->matmul_form = GRAM_MATMUL_FUSED;
    else if (strcmp(text, "blocks") == 0)
        g->matmul_form = GRAM_MATMUL_BLOCKS;
    else if (strcmp(text, "tensor") == 0)
        g->matmul_form = GRAM_MATMUL_TENSOR;
    else if (strcmp(text, "tensor-blocks") == 0)
        g->matmul_form = GRAM_MATMUL_TENSOR_BLOCKS;
    else
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "GRAM_KERNEL_MATMUL is \"%s\", expected panels, fused, blocks, tensor or "
                         "tensor-blocks",
                         text);
    return GRAM_OK;
}

static gram_status apply_log(gram_context *g, const char *text)
{
    if (strcmp(text, "debug") != 0 && strcmp(text, "off") != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "GRAM_LOG is \"%s\", expected debug or off",
                         text);
    g->log = strcmp(text, "debug") == 0;
    return GRAM_OK;
}

static gram_status apply_jit(gram_context *g, const char *text)
{
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "GRAM_JIT is \"%s\", expected on or off", text);
    g->no_jit = strcmp(text, "off") == 0;
    return GRAM_OK;
}

static gram_status apply_jit_debug(gram_context *g, const char *text)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "GRAM_JIT_DEBUG is \"%s\", expected 0 or 1",
                         text);
    g->debug_jit = text[0] == '1';
    return GRAM_OK;
}

static gram_status apply_cache_mib(gram_context *g, const char *text)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > MOST_CACHE_MIB)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "GRAM_CACHE_MIB is \"%s\", expected a number from 1 to %d", text,
                         (int)MOST_CACHE_MIB);
    g->cache_bytes = (int64_t)value << 20;
    return GRAM_OK;
}

static gram_status apply_plugin_folder(gram_context *g, const char *text)
{
    g->plugin_folder = text;
    return GRAM_OK;
}

static gram_status apply_cuda_folder(gram_context *g, const char *text)
{
    g->cuda_folder = text;
    return GRAM_OK;
}

static gram_status apply_cache_folder(gram_context *g, const char *text)
{
    g->cache_folder = text;
    return GRAM_OK;
}

static const struct setting {
    const char *name;
    gram_status (*apply)(gram_context *g, const char *text);
} settings[] = {
    {    "GRAM_NUM_THREADS",        apply_threads},
    {     "OMP_NUM_THREADS", apply_others_threads},
    {"OPENBLAS_NUM_THREADS", apply_others_threads},
    {     "MKL_NUM_THREADS", apply_others_threads},
    {  "LOKY_MAX_CPU_COUNT", apply_others_threads},
    {    "PYTHON_CPU_COUNT", apply_others_threads},
    {        "GRAM_CPU_ISA",            apply_isa},
    {            "GRAM_LOG",            apply_log},
    {            "GRAM_JIT",            apply_jit},
    {      "GRAM_JIT_DEBUG",      apply_jit_debug},
    {      "GRAM_CACHE_MIB",      apply_cache_mib},
    {     "GRAM_PLUGIN_DIR",  apply_plugin_folder},
    {   "GRAM_CUDA_LIB_DIR",    apply_cuda_folder},
    {      "GRAM_CACHE_DIR",   apply_cache_folder},
    {     "GRAM_CDIST_FORM",           apply_form},
    {  "GRAM_KERNEL_MATMUL",         apply_matmul},
};

enum {
    COUNT = sizeof settings / sizeof *settings
};

/* The text of a variable that is set and may be believed; else NULL. */
static const char *variable(const char *name)
{
#ifdef __APPLE__
    const char *text = issetugid() ? NULL : getenv(name);
#else
    const char *text = secure_getenv(name);
#endif

    return text && *text ? text : NULL;
}

/* The folder of the cache where no variable of ours names one: $XDG_CACHE_HOME/gram, else
 * ~/.cache/gram.  Its length, 0 where there is none, as snprintf. */
static size_t usual_cache_folder(char *to, size_t bytes)
{
    const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    int length = 0;

    if (cache && cache[0] == '/')
        length = snprintf(to, bytes, "%s/gram", cache);
    else if (home && home[0] == '/')
        length = snprintf(to, bytes, "%s/.cache/gram", home);
    return length > 0 ? (size_t)length : 0;
}

/* Copies what is set into memory of the context: text[i], NULL where settings[i] is not set. */
static gram_status copy_texts(gram_context *g, const char *text[COUNT])
{
    size_t length[COUNT], cache = usual_cache_folder(NULL, 0), bytes = cache + 1;
    char *to;

    for (int i = 0; i < COUNT; i++) {
        text[i] = variable(settings[i].name);
        length[i] = text[i] ? strlen(text[i]) : 0;
        bytes += length[i] + 1;
    }
    to = gram_alloc(g, bytes);
    if (!to)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    g->texts = to;
    g->texts_bytes = bytes;
    g->cache_folder = cache > 0 && usual_cache_folder(to, cache + 1) == cache ? to : NULL;
    to += cache + 1;
    for (int i = 0; i < COUNT; to += length[i++] + 1) {
        if (text[i]) {
            memcpy(to, text[i], length[i]);
            to[length[i]] = '\0';
            text[i] = to;
        }
    }
    return GRAM_OK;
}

void gram_settings_release(gram_context *g)
{
    gram_free(g, g->texts, g->texts_bytes);
    g->texts = NULL;
}

gram_status gram_settings_apply(gram_context *g)
{
    const char *text[COUNT];

    g->cache_bytes = (int64_t)CACHE_MIB << 20;
    TRY(copy_texts(g, text));
    for (int i = 0; i < COUNT; i++)
        if (text[i])
            TRY(settings[i].apply(g, text[i]));
    if (g->options.threads < 0 || g->options.threads > GRAM_MAX_THREADS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.threads is %d, expected 1 to %d, or 0 for all processors",
                         g->options.threads, GRAM_MAX_THREADS);
    if (g->options.threads)
        g->threads = g->options.threads;
    else if (g->threads == 0 || g->threads > gram_processors())
        g->threads = gram_processors();
    return GRAM_OK;
}
