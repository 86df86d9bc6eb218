/*
 * plugin.c - plugins, and what only they need: memory of a device, its kernels and the caller's
 *
 * Plugins (libgram_cuda.so, libgram_mpi.so) are looked for in GRAM_PLUGIN_DIR, beside the file that
 * holds these functions, and along the loader's path.  They stay loaded for the life of the process
 * (compiled kernels are the process's), so handles only count.
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include "database.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- Plugins --------------------------------------------------------------------------------- */

static void *open_in(const char *folder, size_t length, const char *file)
{
    char path[4096];
    int used = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);

    if (used < 0 || (size_t)used >= sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_anywhere(const gram_context *g, const char *file)
{
    static const char here = 0;
    void *handle = NULL;
    const char *slash;
    Dl_info self;

    if (g->plugin_folder)
        handle = open_in(g->plugin_folder, strlen(g->plugin_folder), file);
    if (!handle && dladdr(&here, &self) && (slash = strrchr(self.dli_fname, '/')))
        handle = open_in(self.dli_fname, (size_t)(slash - self.dli_fname), file);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return handle;
}

const void *gram_plugin_open(const gram_context *g, const struct gram_plugin *plugin, void **handle,
                             char *why, size_t why_bytes)
{
    const char *const *table; /* its first member is the version */
    const char *error;

    *handle = open_anywhere(g, plugin->file);
    if (!*handle) {
        error = dlerror();
        snprintf(why, why_bytes, "%s cannot be loaded: %s", plugin->what,
                 error ? error : "the system gives no reason");
        return NULL;
    }
    table = dlsym(*handle, plugin->table);
    if (table && strcmp(*table, gram_version()) == 0)
        return table;
    snprintf(why, why_bytes, "%s has version %s, expected %s", plugin->file,
             table ? *table : "unknown", gram_version());
    dlclose(*handle);
    *handle = NULL;
    return NULL;
}

const struct gram_backend *gram_plugin_load(const gram_context *g, void **handle, char *why,
                                            size_t why_bytes)
{
    static const struct gram_plugin cuda = {
        .file = "libgram_cuda.so", .table = "gram_cuda_backend", .what = "the CUDA backend"};

    return gram_plugin_open(g, &cuda, handle, why, why_bytes);
}

/* ---- Memory that a context computes in ------------------------------------------------------- */

static gram_status allocate(gram_context *g, size_t bytes, void **out)
{
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "out is NULL, expected a place for the pointer to the memory");
    *out = NULL;
    if (bytes == 0)
        return GRAM_OK;
    if (g->backend->memory_allocate)
        return g->backend->memory_allocate(g, bytes, out);
    *out = gram_alloc(g, bytes);
    return *out ? GRAM_OK : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
}

gram_status gram_memory_allocate(gram_context *g, size_t bytes, void **out)
{
    TRY(gram_begin_without_blas(g, __func__));
    return allocate(g, bytes, out);
}

gram_status gram_memory_allocate_zeros(gram_context *g, size_t bytes, void **out)
{
    gram_status status;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(allocate(g, bytes, out));
    if (bytes == 0)
        return GRAM_OK;
    if (!g->backend->memory_zero) {
        memset(*out, 0, bytes);
        return GRAM_OK;
    }
    status = g->backend->memory_zero(g, *out, bytes);
    if (status != GRAM_OK) {
        g->backend->memory_free(g, *out);
        *out = NULL;
    }
    return status;
}

void gram_memory_free(gram_context *g, void *memory, size_t bytes)
{
    if (!g || !memory)
        return;
    if (g->backend->memory_free)
        g->backend->memory_free(g, memory);
    else
        gram_free(g, memory, bytes);
}

gram_status gram_memory_copy(gram_context *g, void *to, const void *from, size_t bytes)
{
    TRY(gram_begin_beside(g, __func__, "g"));
    if (bytes == 0)
        return GRAM_OK;
    if (!to || !from)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL, expected memory of %zu bytes",
                         to ? "from" : "to", bytes);
    if (g->backend->memory_copy)
        return g->backend->memory_copy(g, to, from, bytes);
    memmove(to, from, bytes);
    return GRAM_OK;
}

/* ---- Compiled kernels that the CUDA backend keeps, without a GPU ----------------------------- */

/* The plugin is loaded for a context of any device; no device is opened. */
static gram_status load(gram_context *g, void **handle, const struct gram_backend **table)
{
    char why[384];

    *table = gram_plugin_load(g, handle, why, sizeof why);
    return *table ? GRAM_OK : gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
}

gram_status gram_cache_info(gram_context *g, gram_cache *cache)
{
    const struct gram_backend *table;
    size_t size = cache ? cache->size : 0;
    gram_cache result = {.size = size};
    void *handle;

    TRY(gram_begin_without_blas(g, __func__));
    if (size < sizeof size || size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "cache.size is %zu, expected at most %zu", size,
                         sizeof result);
    TRY(load(g, &handle, &table));
    table->cache_info(g, &result);
    dlclose(handle);
    memcpy(cache, &result, size);
    return GRAM_OK;
}

gram_status gram_cache_list(gram_context *g, gram_cache_visit visit, void *user)
{
    const struct gram_backend *table;
    gram_status status;
    void *handle;

    TRY(gram_begin_without_blas(g, __func__));
    if (!visit)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "visit is NULL");
    TRY(load(g, &handle, &table));
    status = table->cache_list(g, visit, user);
    dlclose(handle);
    return status;
}

gram_status gram_cache_clear(gram_context *g, const char *pattern, int64_t *removed)
{
    const struct gram_backend *table;
    int64_t count = 0;
    gram_status status;
    void *handle;

    TRY(gram_begin_without_blas(g, __func__));
    if (removed)
        *removed = 0;
    if (!pattern)
        gram_tuned_clear(g);
    TRY(load(g, &handle, &table));
    status = table->cache_clear(g, pattern, &count);
    dlclose(handle);
    if (removed)
        *removed = count;
    return status;
}

gram_status gram_cache_warm_op(gram_context *g, const struct gram_cdist_op *op,
                               const gram_warm_options *options)
{
    const struct gram_backend *table;
    gram_status status;
    void *handle;

    if (options->count < 0 || (options->count > 0 && !options->chips))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "count is %d and chips is %s, expected a count of 0 or more, and as many "
                         "chips",
                         options->count, options->chips ? "given" : "NULL");
    for (int i = 0; i < options->count; i++)
        if (!options->chips[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "chips[%d] is NULL", i);
    TRY(load(g, &handle, &table));
    status = table->cache_warm(g, op, options);
    dlclose(handle);
    return status;
}

gram_status gram_cache_warm(gram_context *g, const char *const *chips, int count,
                            gram_cache_visit visit, void *user)
{
    const gram_warm_options options = {sizeof options, chips, count, visit, user};

    TRY(gram_begin_without_blas(g, __func__));
    return gram_cache_warm_op(g, NULL, &options);
}

/* ---- Kernels of the caller's own ------------------------------------------------------------- */

enum {
    MOST_BYTES = 64,  /* of a name */
    MOST_OPTIONS = 24 /* words */
};

/* Options that change nothing beyond the text: with folders of headers or another chip, the cache
 * could not tell two kernels apart. */
static const char *const allowed[] = {"-D", "-U", "--use_fast_math", "--fmad=", "--maxrregcount="};

static gram_status check_name(gram_context *g, const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (length == 0 || length > MOST_BYTES || name[length])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.name is \"%.80s\", expected 1 to %d letters, digits, _ . and -",
                         name, (int)MOST_BYTES);
    return GRAM_OK;
}

static bool is_allowed(const char *word)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strncmp(word, allowed[i], strlen(allowed[i])) == 0)
            return true;
    return false;
}

static gram_status check_options(gram_context *g, const char *options)
{
    int words = 0;

    if (strnlen(options, GRAM_MODULE_OPTIONS_BYTES) == GRAM_MODULE_OPTIONS_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.options has %d bytes or more, expected fewer",
                         (int)GRAM_MODULE_OPTIONS_BYTES);
    for (const char *at = options + strspn(options, " "); *at; at += strspn(at, " ")) {
        int length = (int)strcspn(at, " ");
        if (strpbrk(at, "\t\r\n") || !is_allowed(at))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.options has \"%.*s\", expected -D, -U, --use_fast_math, "
                             "--fmad= or --maxrregcount=, separated by blanks",
                             length < 80 ? length : 80, at);
        if (++words > MOST_OPTIONS)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.options has more than %d options, but no more are supported",
                             (int)MOST_OPTIONS);
        at += length;
    }
    return GRAM_OK;
}

gram_status gram_module_compile(gram_context *g, const char *source,
                                const gram_module_options *options, gram_module **out)
{
    gram_module_options o = GRAM_MODULE_OPTIONS_INIT;
    struct gram_module_op op = {.source = source};

    TRY(gram_begin_without_blas(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!source)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "source is NULL");
    if (options)
        TRY(gram_options_copy(g, &o, sizeof o, options));
    op.name = o.name ? o.name : "module.cu";
    op.options = o.options ? o.options : "";
    TRY(check_name(g, op.name));
    TRY(check_options(g, op.options));
    if (!g->backend->module_compile)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a context on %s cannot compile a module, expected a context on a GPU",
                         g->backend->name);
    return g->backend->module_compile(g, &op, out);
}

static gram_status check_sizes(gram_context *g, const char *name, const int64_t *sizes,
                               const int64_t most[4])
{
    int64_t product = 1;

    if (!sizes)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    for (int i = 0; i < 3; i++) {
        if (sizes[i] < 1 || sizes[i] > most[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s[%d] is %lld, expected 1 to %lld", name,
                             i, (long long)sizes[i], (long long)most[i]);
        if (product > most[3] / sizes[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s is %lld by %lld by %lld, expected at most %lld in all", name,
                             (long long)sizes[0], (long long)sizes[1], (long long)sizes[2],
                             (long long)most[3]);
        product *= sizes[i];
    }
    return GRAM_OK;
}

gram_status gram_kernel_launch(gram_module *module, const char *kernel, const int64_t grid[3],
                               const int64_t block[3], size_t shared_bytes, void *const *arguments)
{
    /* CUDA's limits, the same on all chips: of the three sizes, and of their product */
    static const int64_t most_blocks[] = {INT32_MAX, 65535, 65535, INT64_MAX},
                         most_threads[] = {1024, 1024, 64, 1024};
    gram_context *g;
    struct gram_launch_op op = {.kernel = kernel, .shared_bytes = shared_bytes};

    if (!module)
        return gram_begin_as(NULL, __func__, "module");
    g = module->g;
    TRY(gram_begin_without_blas(g, __func__));
    if (!kernel)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel is NULL");
    if (strnlen(kernel, GRAM_KERNEL_NAME_BYTES) == GRAM_KERNEL_NAME_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel is a name of %d bytes or more, expected fewer",
                         (int)GRAM_KERNEL_NAME_BYTES);
    TRY(check_sizes(g, "grid", grid, most_blocks));
    TRY(check_sizes(g, "block", block, most_threads));
    for (int i = 0; i < 3; i++)
        op.grid[i] = (unsigned)grid[i], op.block[i] = (unsigned)block[i];
    op.arguments = arguments;
    return g->backend->module_launch(module, &op);
}

void gram_module_destroy(gram_module *module)
{
    if (module)
        module->g->backend->module_destroy(module);
}
