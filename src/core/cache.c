/*
 * cache.c - gram_cache_*: the compiled kernels that the CUDA backend keeps, without a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "cache.h"
#include "tuned.h"
#include <dlfcn.h>
#include <string.h>

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
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "count is %d with chips %s, expected 0 or more",
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
