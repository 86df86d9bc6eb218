/*
 * launch.c - from a kernel and its options to a launch: tables of the context and of the process
 *
 * A context finds what it has launched before in a hash table of its own.  The process has one list
 * of loaded kernels, since a module lives in a device's primary context, which all contexts of gram
 * share.  A thread that wants a kernel which another one is making waits for it; different kernels
 * are made side by side.  Nothing is ever unloaded.
 *
 * SPDX-License-Identifier: MIT
 */
#include "launch.h"
#include "core/process.h"
#include "core/scratch.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options --------------------------------------------------------------------------------- */

/* Values from here on are types. */
#define TYPES INT64_MIN

static const char *const types[] = {"float", "double", "unsigned", "whole64"};

enum {
    TYPE_COUNT = sizeof types / sizeof *types
};

/* Halves are stored as such but computed in f32, so their kernels are those of float. */
int64_t cuda_type(gram_dtype dtype)
{
    static const int of[] = {[GRAM_F32] = 0, [GRAM_F16] = 0, [GRAM_BF16] = 0,
                             [GRAM_F64] = 1, [GRAM_I32] = 2, [GRAM_I64] = 3};

    return TYPES + of[dtype];
}

void cuda_variant(struct cuda_variant *v, const struct cuda_kernel *kernel,
                  const struct cuda_option *options, size_t count)
{
    assert(count <= CUDA_MOST_OPTIONS);
    v->kernel = kernel;
    v->code = NULL;
    v->known = NULL;
    v->chip_alone = false;
    v->count = (int)count;
    for (size_t i = 0; i < count; i++)
        v->option[i] = options[i];
}

void cuda_option(struct cuda_variant *v, const char *name, int64_t value)
{
    assert(v->count < CUDA_MOST_OPTIONS);
    v->option[v->count++] = (struct cuda_option){name, value};
}

/* Types have the lowest numbers there are, which no other option of a kernel has. */
static bool is_type(int64_t value)
{
    return value < TYPES + TYPE_COUNT;
}

/* The options as the compiler gets them: "-DREAL=float -DORDER=8". */
static void write_options(const struct cuda_variant *v, char text[CUDA_TEXT_BYTES])
{
    const char *before = "";
    int used = 0;

    text[0] = '\0';
    for (int i = 0; i < v->count; i++) {
        const struct cuda_option *o = &v->option[i];
        const bool goes_on = strcmp(o->name, before) == 0, own = o->name[0] == '-';
        const size_t room = CUDA_TEXT_BYTES - (size_t)used;
        if (goes_on)
            used += snprintf(text + used, room, ",");
        else
            used += snprintf(text + used, room, "%s%s%s%s", i > 0 ? " " : "", own ? "" : "-D",
                             o->name, own ? "" : "=");
        used += is_type(o->value) ? snprintf(text + used, CUDA_TEXT_BYTES - (size_t)used, "%s",
                                             types[o->value - TYPES])
                                  : snprintf(text + used, CUDA_TEXT_BYTES - (size_t)used, "%lld",
                                             (long long)o->value);
        assert(used < CUDA_TEXT_BYTES);
        before = o->name;
    }
}

/* The text is what the compiler and the cache on disk see; the table of a context compares
 * numbers. */
struct jit_request cuda_variant_request(const struct cuda_variant *v, char text[CUDA_TEXT_BYTES])
{
    write_options(v, text);
    return (struct jit_request){.file = v->kernel->file,
                                .kernel = v->kernel->function,
                                .defines = text,
                                .chip_alone = v->chip_alone};
}

/* ---- The process's kernels ------------------------------------------------------------------- */

/* A kernel of the process. Its name has all that tells it from others, but for the chip. */
struct cuda_loaded {
    struct cuda_loaded *next;
    int chip;
    bool ready, debug;
    CUfunction function;
    size_t shared; /* dynamic shared memory that launches may ask for */
    char name[];   /* file, function, options and own code */
};

/* Under GRAM_LOCK_KERNELS.  A child after fork() has no device, and so never looks in here. */
static struct {
    pthread_cond_t changed;
    struct cuda_loaded *first;
} process = {.changed = PTHREAD_COND_INITIALIZER};

/* A device and what it is: an emulated one can become another. */
static int chip_of(const struct cuda_device *device)
{
    return device->index * 1024 + device->arch;
}

/* The text of an expression is a part of the identity of its kernel, since two expressions have the
 * same file and the same options. */
static const char *own_text(const struct jit_request *request)
{
    return request->own.name ? request->own.text : "";
}

/* True if name is "file function options code". */
static bool is_named(const char *name, const struct jit_request *request)
{
    const char *const parts[] = {request->file, request->kernel, request->defines,
                                 own_text(request)};
    const size_t count = sizeof parts / sizeof *parts;

    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(parts[i]);
        if (strncmp(name, parts[i], length) != 0 || name[length] != (i + 1 < count ? ' ' : '\0'))
            return false;
        name += length + 1;
    }
    return true;
}

/* The list is searched only where a context launches a variant for the first time, so it needs no
 * order. */
static struct cuda_loaded *find_loaded(int chip, bool debug, const struct jit_request *request)
{
    for (struct cuda_loaded *k = process.first; k; k = k->next)
        if (k->chip == chip && k->debug == debug && is_named(k->name, request))
            return k;
    return NULL;
}

/* The entry is added before its kernel is made: other threads that want the same kernel find it,
 * and wait until it is ready. */
static struct cuda_loaded *add_loaded(int chip, bool debug, const struct jit_request *request)
{
    const size_t bytes = strlen(request->file) + strlen(request->kernel) +
                         strlen(request->defines) + strlen(own_text(request)) + 4;
    struct cuda_loaded *k = calloc(1, sizeof *k + bytes);

    if (!k)
        return NULL;
    k->chip = chip;
    k->debug = debug;
    snprintf(k->name, bytes, "%s %s %s %s", request->file, request->kernel, request->defines,
             own_text(request));
    k->next = process.first;
    process.first = k;
    return k;
}

/* An entry whose kernel could not be made goes, so that the next launch tries again, and says what
 * is wrong in its own context. */
static void drop_loaded(struct cuda_loaded *gone)
{
    struct cuda_loaded **at = &process.first;

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

/* It is for the log alone, so a driver that does not answer is no failure. */
static int attribute(const struct cuda_device *device, CUfunction function,
                     CUfunction_attribute which)
{
    int value = 0;

    (void)device->driver->function_attribute(&value, which, function);
    return value;
}

/* A stream that is being captured forbids what loading does, unless the thread says otherwise. */
static gram_status load_code(gram_context *g, const struct cuda_device *device,
                             const struct jit_request *request, const struct jit_code *code,
                             CUfunction *function)
{
    const struct cuda_driver *driver = device->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const int64_t start = gram_nanoseconds();
    CUmodule module;
    CUresult result;

    (void)driver->capture_mode(&mode);
    result = driver->module_load(&module, code->bytes);
    if (result == CUDA_SUCCESS)
        result = driver->module_function(function, module, request->kernel);
    (void)driver->capture_mode(&mode);
    TRY(gram_cuda_check(g, driver, result, "cuModuleLoadData"));
    gram_log(g, "kernel loaded, %.1f ms: %d registers, %d bytes of shared and %d of local memory",
             gram_milliseconds_since(start),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_NUM_REGS),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    return GRAM_OK;
}

/* The code is needed only until the driver has loaded it. */
static gram_status make_function(gram_context *g, const struct cuda_device *device,
                                 const struct jit_request *request, CUfunction *function)
{
    struct jit_code code = {0};
    gram_status status = gram_jit_code(g, device, request, &code);

    if (status == GRAM_OK)
        status = load_code(g, device, request, &code, function);
    free(code.bytes);
    return status;
}

/* The process's kernel; made by this thread if no other one has made it or is about to. */
static gram_status load(gram_context *g, const struct cuda_device *device,
                        const struct jit_request *request, struct cuda_loaded **out)
{
    gram_status status = GRAM_OK;
    struct cuda_loaded *k;

    gram_process_lock(g, GRAM_LOCK_KERNELS);
    while ((k = find_loaded(chip_of(device), g->debug_jit, request)) && !k->ready)
        pthread_cond_wait(&process.changed, &g->process->lock[GRAM_LOCK_KERNELS]);
    if (!k) {
        k = add_loaded(chip_of(device), g->debug_jit, request);
        if (!k) {
            gram_process_unlock(g, GRAM_LOCK_KERNELS);
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the entry of a kernel");
        }
        gram_process_unlock(g, GRAM_LOCK_KERNELS);
        status = make_function(g, device, request, &k->function);
        gram_process_lock(g, GRAM_LOCK_KERNELS);
        k->ready = status == GRAM_OK;
        if (!k->ready)
            drop_loaded(k);
        pthread_cond_broadcast(&process.changed);
    }
    gram_process_unlock(g, GRAM_LOCK_KERNELS);
    *out = k;
    return status;
}

/* Lets launches of the kernel ask for so much dynamic shared memory.  What they may ask for only
 * grows: other contexts and graphs launch the same function. */
static gram_status allow_shared(gram_context *g, const struct cuda_device *device,
                                struct cuda_loaded *k, size_t bytes)
{
    const struct cuda_driver *driver = device->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = CUDA_SUCCESS;

    gram_process_lock(g, GRAM_LOCK_KERNELS);
    if (bytes > k->shared) {
        (void)driver->capture_mode(&mode);
        result = driver->function_set(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      (int)bytes);
        (void)driver->capture_mode(&mode);
        if (result == CUDA_SUCCESS)
            k->shared = bytes;
    }
    gram_process_unlock(g, GRAM_LOCK_KERNELS);
    return gram_cuda_check(g, driver, result, "cuFuncSetAttribute");
}

/* ---- The context's table --------------------------------------------------------------------- */

enum {
    FIRST_PLACES = 64 /* of a table; a power of two */
};

/* A variant that the context has launched. */
struct place {
    uint64_t hash;
    const struct cuda_kernel *kernel; /* NULL: the place is free */
    struct cuda_loaded *loaded;
    CUfunction function;
    size_t shared; /* loaded->shared as the context has last seen it, which takes the lock */
    int count;
    struct cuda_option *option; /* the options, then the identity of the code; owned */
    size_t code_bytes;
};

/* Options and identity are one allocation, since both are compared together. */
static size_t owned_bytes(const struct place *p)
{
    return (size_t)p->count * sizeof *p->option + p->code_bytes;
}

/* An open table, at most three quarters full.  Entries are never removed, so a search ends at the
 * first free place. */
struct cuda_kernel_table {
    size_t places, used; /* places: a power of two */
    struct place *place;
};

/* A sum alone would be the same for two options with their values exchanged. */
static uint64_t turn(uint64_t h)
{
    return h << 7 | h >> 57;
}

/* Only values enter, since variants of one kernel have the same names. */
static uint64_t hash_of(const struct cuda_variant *v)
{
    uint64_t h = (uintptr_t)v->kernel, word;

    for (int i = 0; i < v->count; i++)
        h = turn(h) + (uint64_t)v->option[i].value;
    for (size_t at = 0; v->code && at < v->code->identity_bytes; at += sizeof word) {
        memcpy(&word, (const char *)v->code->identity + at, sizeof word);
        h = (turn(h) + word) * 0x9E3779B97F4A7C15u;
    }
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* All that makes a variant counts, not its hash alone: whoever chooses the text of an expression
 * could choose its hash as well.  Names are literals, so that equal ones may only fail to be found
 * at two addresses. */
static bool is_at(const struct place *p, const struct cuda_variant *v, uint64_t hash)
{
    const size_t code_bytes = v->code ? v->code->identity_bytes : 0;

    if (p->hash != hash || p->kernel != v->kernel || p->count != v->count ||
        p->code_bytes != code_bytes)
        return false;
    for (int i = 0; i < v->count; i++)
        if (p->option[i].value != v->option[i].value || p->option[i].name != v->option[i].name)
            return false;
    return code_bytes == 0 || memcmp(p->option + p->count, v->code->identity, code_bytes) == 0;
}

/* The variant's place, or the free one that it would have; NULL: there is no table. */
static struct place *place_of(const struct cuda_kernel_table *t, const struct cuda_variant *v,
                              uint64_t hash)
{
    if (!t)
        return NULL;
    for (size_t i = hash & (t->places - 1);; i = (i + 1) & (t->places - 1))
        if (!t->place[i].kernel || is_at(&t->place[i], v, hash))
            return &t->place[i];
}

/* A table with twice as many places; false: no memory is left. */
static bool grow(gram_context *g, struct cuda_kernel_table *t)
{
    const size_t places = t->places > 0 ? 2 * t->places : FIRST_PLACES;
    struct place *new = gram_alloc(g, places * sizeof *new);

    if (!new)
        return false;
    memset(new, 0, places * sizeof *new);
    for (size_t i = 0; i < t->places; i++) {
        size_t at = t->place[i].hash & (places - 1);
        while (t->place[i].kernel && new[at].kernel)
            at = (at + 1) & (places - 1);
        if (t->place[i].kernel)
            new[at] = t->place[i];
    }
    gram_free(g, t->place, t->places * sizeof *t->place);
    t->place = new;
    t->places = places;
    return true;
}

/* The table, with a free place at least; NULL: no memory is left. */
static struct cuda_kernel_table *table_with_room(gram_context *g, struct cuda_device *device)
{
    struct cuda_kernel_table *t = device->kernels;

    if (!t) {
        t = gram_alloc(g, sizeof *t);
        if (!t)
            return NULL;
        memset(t, 0, sizeof *t);
        device->kernels = t;
    }
    return 4 * (t->used + 1) <= 3 * t->places || grow(g, t) ? t : NULL;
}

/* What cannot be remembered for want of memory is found again in the process. */
static void remember(gram_context *g, struct cuda_device *device, const struct cuda_variant *v,
                     uint64_t hash, const struct place *found)
{
    struct cuda_kernel_table *t = table_with_room(g, device);
    struct place new = *found;

    if (!t || !t->places)
        return;
    new.hash = hash;
    new.kernel = v->kernel;
    new.count = v->count;
    new.code_bytes = v->code ? v->code->identity_bytes : 0;
    new.option = gram_alloc(g, owned_bytes(&new));
    if (!new.option)
        return;
    memcpy(new.option, v->option, (size_t)v->count * sizeof *v->option);
    if (v->code)
        memcpy(new.option + new.count, v->code->identity, new.code_bytes);
    *place_of(t, v, hash) = new;
    t->used++;
}

/* Functions belong to the process, and other contexts may be launching them. */
void cuda_forget_kernels(gram_context *g, struct cuda_device *device)
{
    struct cuda_kernel_table *t = device->kernels;

    if (!t)
        return;
    for (size_t i = 0; i < t->places; i++)
        gram_free(g, t->place[i].option, owned_bytes(&t->place[i]));
    gram_free(g, t->place, t->places * sizeof *t->place);
    gram_free(g, t, sizeof *t);
    device->kernels = NULL;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The request of a variant, with the text of its code, which the caller free()s. */
static gram_status request_of(gram_context *g, const struct cuda_variant *v,
                              char text[CUDA_TEXT_BYTES], struct jit_request *out, char **code)
{
    *out = cuda_variant_request(v, text);
    *code = NULL;
    if (!v->code)
        return GRAM_OK;
    *code = v->code->write(v->code->of);
    if (!*code)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the code of an expression");
    out->own = (struct cuda_source){.name = v->code->name, .text = *code};
    return GRAM_OK;
}

/* The text of an expression is written only here: launches that find their variant in a table
 * compare identities. */
static gram_status load_variant(gram_context *g, const struct cuda_device *device,
                                const struct cuda_variant *v, struct cuda_loaded **out)
{
    struct jit_request request;
    char text[CUDA_TEXT_BYTES], *code;
    gram_status status = request_of(g, v, text, &request, &code);

    if (status == GRAM_OK)
        status = load(g, device, &request, out);
    free(code);
    return status;
}

/* The first launch of a variant in this context.  It may take locks, wait for a compiler, or fail:
 * what it finds is remembered for all later ones. */
static gram_status find_in_process(gram_context *g, const struct cuda_variant *v, uint64_t hash,
                                   size_t shared, CUfunction *out)
{
    struct cuda_device *device = g->device;
    struct place new = {.shared = shared};

    TRY(load_variant(g, device, v, &new.loaded));
    if (shared > 0)
        TRY(allow_shared(g, device, new.loaded, shared));
    *out = new.function = new.loaded->function;
    remember(g, device, v, hash, &new);
    return GRAM_OK;
}

/* The function of a variant, launches of which may ask for so much dynamic shared memory. */
static gram_status find(gram_context *g, const struct cuda_variant *v, size_t shared,
                        CUfunction *out)
{
    struct cuda_device *device = g->device;
    const uint64_t hash = hash_of(v);
    struct place *p = place_of(device->kernels, v, hash);

    if (!p || !p->kernel)
        return find_in_process(g, v, hash, shared, out);
    if (shared > p->shared) {
        TRY(allow_shared(g, device, p->loaded, shared));
        p->shared = shared;
    }
    *out = p->function;
    return GRAM_OK;
}

bool cuda_is_loaded(const gram_context *g, const struct cuda_variant *v)
{
    const struct cuda_device *device = g->device;
    const struct place *p = place_of(device->kernels, v, hash_of(v));

    return p && p->kernel;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Sizes that a launcher leaves at 0 are those of dimensions that it does not use. */
static unsigned at_least_one(int64_t number)
{
    return number > 0 ? (unsigned)number : 1;
}

/* An early launch needs the call of the driver that takes attributes. */
gram_status cuda_launch_function(gram_context *g, CUfunction function, const struct cuda_grid *grid,
                                 void *const *arguments)
{
    const struct cuda_device *device = g->device;
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {.gridDimX = (unsigned)gram_least(grid->blocks, INT32_MAX),
                                   .gridDimY = at_least_one(grid->blocks_y),
                                   .gridDimZ = at_least_one(grid->blocks_z),
                                   .blockDimX = grid->threads,
                                   .blockDimY = at_least_one(grid->threads_y),
                                   .blockDimZ = at_least_one(grid->threads_z),
                                   .sharedMemBytes = (unsigned)grid->shared,
                                   .hStream = device->stream,
                                   .attrs = &early,
                                   .numAttrs = 1};

    if (grid->early)
        return gram_cuda_check(
            g, device->driver,
            device->driver->launch_with(&config, function, (void **)arguments, NULL),
            "cuLaunchKernelEx");
    return gram_cuda_check(
        g, device->driver,
        device->driver->launch(function, config.gridDimX, config.gridDimY, config.gridDimZ,
                               config.blockDimX, config.blockDimY, config.blockDimZ,
                               config.sharedMemBytes, config.hStream, (void **)arguments, NULL),
        "cuLaunchKernel");
}

/* A plan that keeps its function does not look into the table at all. */
gram_status cuda_launch(gram_context *g, const struct cuda_variant *v, const struct cuda_grid *grid,
                        void *const *arguments)
{
    CUfunction function = v->known ? *v->known : NULL;

    if (g->measure) /* a query of an operation that takes no scratch */
        return (gram_status)GRAM_MEASURED;
    if (!function)
        TRY(find(g, v, grid->shared, &function));
    if (v->known)
        *v->known = function;
    return cuda_launch_function(g, function, grid, arguments);
}

gram_status cuda_launch_plain(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                              int64_t blocks, unsigned threads, void *params)
{
    const struct cuda_grid grid = {.blocks = blocks, .threads = threads};
    struct cuda_variant v;

    cuda_variant(&v, kernel, CUDA_OPTIONS({"REAL", cuda_type(dtype)}));
    return cuda_launch(g, &v, &grid, (void *[]){params});
}

/* ---- Ahead of launches ----------------------------------------------------------------------- */

enum {
    MOST_AHEAD = 16 /* kernels of a call */
};

/* One kernel to load.  Each thread has a context of its own for messages, which nobody reads. */
struct job {
    gram_context g;
    const struct cuda_device *device;
    const struct cuda_variant *variant;
};

/* A failure is of no consequence here: the launch itself makes the kernel again, and reports why it
 * cannot. */
static void *load_one(void *arg)
{
    struct job *job = arg;
    bool entered = gram_cuda_enter(job->device);
    struct cuda_loaded *loaded;

    (void)load_variant(&job->g, job->device, job->variant, &loaded);
    gram_cuda_leave(job->device, entered);
    return NULL;
}

/* True if one of the variants before this one compiles the same text: then its code is in the
 * cache. */
static bool is_twin(const struct cuda_variant *variants, int number)
{
    const struct cuda_variant *v = &variants[number];

    for (int i = 0; i < number; i++)
        if (strcmp(variants[i].kernel->file, v->kernel->file) == 0 &&
            variants[i].count == v->count &&
            memcmp(variants[i].option, v->option, (size_t)v->count * sizeof *v->option) == 0)
            return true;
    return false;
}

void cuda_load_ahead(const gram_context *g, const struct cuda_variant *variants, int count)
{
    struct job jobs[MOST_AHEAD];
    pthread_t thread[MOST_AHEAD];
    int wanted = 0, started = 0;

    for (int i = 0; i < count && wanted < MOST_AHEAD; i++) {
        if (cuda_is_loaded(g, &variants[i]) || is_twin(variants, i))
            continue;
        jobs[wanted++] = (struct job){
            .g = {.call = g->call,
                  .options = g->options,
                  .log = g->log,
                  .no_jit = g->no_jit,
                  .debug_jit = g->debug_jit,
                  .process = g->process,
                  .children = g->children,
                  .cache_bytes = g->cache_bytes,
                  .cuda_folder = g->cuda_folder,
                  .cache_folder = g->cache_folder},
            .device = g->device,
            .variant = &variants[i]
        };
    }
    /* The caller makes the first one: it is one of the threads, and the only one if none start. */
    while (started + 1 < wanted &&
           pthread_create(&thread[started], NULL, load_one, &jobs[started + 1]) == 0)
        started++;
    if (wanted > 1)
        (void)load_one(&jobs[0]);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
}
