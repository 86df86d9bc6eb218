/*
 * library.c - where NVIDIA's libraries are looked for
 *
 * SPDX-License-Identifier: MIT
 */
#include "library.h"
#include "core/process.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool gram_cuda_symbols(void *library, const struct cuda_symbol *symbols, void *into, char *why,
                       size_t why_bytes)
{
    for (; symbols->name; symbols++) {
        const bool optional = symbols->name[0] == '?';
        void *found = dlsym(library, symbols->name + optional);
        if (!found && !optional) {
            snprintf(why, why_bytes, "%s is not in it", symbols->name);
            return false;
        }
        memcpy((char *)into + symbols->at, &found, sizeof found);
    }
    return true;
}

static void *open_in(const char *folder, const char *below, const char *name)
{
    char path[4096];
    int used = snprintf(path, sizeof path, "%s%s/%s", folder, below, name);

    return used > 0 && (size_t)used < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Where pip puts NVIDIA's packages, from this file's folder (which in a build has them in itself):
 * one folder for all of CUDA 13, one a library before. */
static void *open_wheel(const char *name)
{
    static const char *const below[] = {"/../nvidia/cu13/lib",     "/../nvidia/cuda_nvrtc/lib",
                                        "/../nvidia/cusolver/lib", "/../nvidia/cublas/lib",
                                        "/../nvidia/nccl/lib",     "/nvidia/cu13/lib",
                                        "/nvidia/cuda_nvrtc/lib"};
    static const char anchor = 0;
    char folder[2048];
    void *library = NULL;
    Dl_info self;
    char *slash;

    if (!dladdr(&anchor, &self) || strlen(self.dli_fname) >= sizeof folder)
        return NULL;
    strcpy(folder, self.dli_fname); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    slash = strrchr(folder, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; !library && i < sizeof below / sizeof *below; i++)
        library = open_in(folder, below[i], name);
    return library;
}

void *gram_cuda_library(const gram_context *g, const char *const *names)
{
    void *library = NULL;

    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; !library && names[i] && g->cuda_folder; i++)
        library = open_in(g->cuda_folder, "", names[i]);
    for (int i = 0; !library && names[i]; i++)
        library = open_wheel(names[i]);
    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; !library && names[i]; i++)
        library = open_in("/usr/local/cuda", "/lib64", names[i]);
    return library;
}

/* What was found, before it is noted: the functions' addresses have no lasting place yet. */
struct found {
    bool has;
    char why[sizeof((struct cuda_opened *)0)->why];
    union {
        void *address[CUDA_MOST_SYMBOLS];
        unsigned char bytes[CUDA_MOST_SYMBOLS * sizeof(void *)];
    } into;
};

static void open_now(const gram_context *g, const struct cuda_opened *l, struct found *found)
{
    void *library = gram_cuda_library(g, l->files);
    char missing[128];

    *found = (struct found){.has = false};
    if (!library)
        snprintf(found->why, sizeof found->why,
                 "%s cannot be opened (%s or older: install %s, or set GRAM_CUDA_LIB_DIR)", l->name,
                 l->files[0], l->package);
    else if (!gram_cuda_symbols(library, l->symbols, found->into.bytes, missing, sizeof missing))
        snprintf(found->why, sizeof found->why, "%s is too old: %s", l->name, missing);
    else
        found->has = true;
}

gram_status gram_cuda_open(gram_context *g, struct cuda_opened *l)
{
    struct found found;
    bool tried;

    gram_process_lock(g, GRAM_LOCK_LIBRARIES);
    tried = l->tried;
    gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    if (!tried) {
        open_now(g, l, &found);
        gram_process_lock(g, GRAM_LOCK_LIBRARIES);
        if (!l->tried) {
            memcpy(l->into, found.into.bytes, l->bytes);
            memcpy(l->why, found.why, sizeof l->why);
            l->has = found.has;
            l->tried = true;
        }
        gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    }
    return l->has ? GRAM_OK : gram_fail(g, GRAM_UNSUPPORTED, "%s", l->why);
}
