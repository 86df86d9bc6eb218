/*
 * plugin.c - finds and loads libgram_cuda.so and libgram_mpi.so
 *
 * Looked for in GRAM_PLUGIN_DIR, beside the file that holds this function, and along the loader's
 * path.  They stay loaded for the life of the process (compiled kernels are the process's), so
 * handles only count.
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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
                 error ? error : "no reason is given");
        return NULL;
    }
    table = dlsym(*handle, plugin->table);
    if (table && strcmp(*table, gram_version()) == 0)
        return table;
    snprintf(why, why_bytes, "%s is of version %s, expected %s", plugin->file,
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
