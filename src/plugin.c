/*
 * plugin.c - finds and loads libgram_cuda.so
 *
 * Looked for in GRAM_PLUGIN_DIR, beside the file that holds this function, and along the loader's
 * path.  It stays loaded for the life of the process (its compiled kernels are the process's), so
 * handles only count.
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char file_name[] = "libgram_cuda.so";

static void *open_in(const char *folder, size_t length)
{
    char path[4096];
    int used = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file_name);

    if (used < 0 || (size_t)used >= sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_anywhere(const gram_context *g)
{
    void *handle = NULL;
    const char *slash;
    Dl_info self;

    if (g->plugin_folder)
        handle = open_in(g->plugin_folder, strlen(g->plugin_folder));
    if (!handle && dladdr(file_name, &self) && (slash = strrchr(self.dli_fname, '/')))
        handle = open_in(self.dli_fname, (size_t)(slash - self.dli_fname));
    if (!handle)
        handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return handle;
}

const struct gram_backend *gram_plugin_load(const gram_context *g, void **handle, char *why,
                                            size_t why_bytes)
{
    const struct gram_backend *table;
    const char *error;

    *handle = open_anywhere(g);
    if (!*handle) {
        error = dlerror();
        snprintf(why, why_bytes, "the CUDA backend cannot be loaded: %s",
                 error ? error : "no reason is given");
        return NULL;
    }
    table = dlsym(*handle, "gram_cuda_backend");
    if (table && strcmp(table->version, gram_version()) == 0)
        return table;
    snprintf(why, why_bytes, "%s is of version %s, expected %s", file_name,
             table ? table->version : "unknown", gram_version());
    dlclose(*handle);
    *handle = NULL;
    return NULL;
}
