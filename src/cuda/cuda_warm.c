/*
 * cuda_warm.c - gram_cache_warm: the common kernels compiled ahead, for any chip, without a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_warm.h"
#include "core/threads.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHIP_BYTES = 32,
    MOST_HERE = 16 /* kinds of GPUs in a machine */
};

/* ---- The work ------------------------------------------------------------------------------- */

struct chip {
    char name[CHIP_BYTES]; /* "sm_90", or "compute_90" for newer ones */
    struct warm_list list;
};

struct work {
    const gram_context *g;
    const struct cuda_compiler *compiler;
    const struct gram_cdist_op *op; /* NULL: the common kernels */
    struct chip *chips;
    int chip_count, count; /* count: of the kernels of all */
    atomic_int next;
    gram_cache_visit visit;
    void *user;
    pthread_mutex_t lock; /* of what follows, and held during a visit */
    gram_status status;
    char message[512];
};

static void tell(struct work *work, char *key, size_t bytes, double ms)
{
    gram_cache_entry entry = {.size = sizeof entry,
                              .bytes = (int64_t)bytes,
                              .used = (int64_t)time(NULL),
                              .compile_ms = ms};

    if (!work->visit || !gram_jit_entry_of_key(key, &entry))
        return;
    pthread_mutex_lock(&work->lock);
    work->visit(work->user, &entry);
    pthread_mutex_unlock(&work->lock);
}

/* The index'th kernel of all chips. */
static gram_status warm_one(gram_context *g, struct work *work, int index)
{
    const struct chip *chip = work->chips;
    const struct jit_request *request;
    char name[CHIP_BYTES + 1], key[JIT_KEY_BYTES], not_kept[256];
    struct jit_code code;
    gram_status status = GRAM_OK;
    const int64_t start = gram_nanoseconds();
    double ms = 0;

    for (; index >= chip->list.count; chip++)
        index -= chip->list.count;
    request = &chip->list.kernel[index].request;
    gram_jit_chip_for(request, chip->name, name, sizeof name);
    gram_jit_key(g, work->compiler, request, name, key);
    if (!gram_jit_cache_get(g, key, &code)) {
        TRY(gram_jit_compile(g, work->compiler, request, name, &code));
        ms = gram_milliseconds_since(start);
        if (!gram_jit_cache_put(g, key, &code, not_kept, sizeof not_kept))
            status = gram_fail(g, GRAM_IO, "a kernel cannot be kept: %s", not_kept);
    }
    if (status == GRAM_OK)
        tell(work, key, code.size, ms);
    free(code.bytes);
    return status;
}

/* Each thread has a context of its own for messages. */
static void *work_on(void *arg)
{
    struct work *work = arg;
    gram_context g = {.call = work->g->call,
                      .log = work->g->log,
                      .debug_jit = work->g->debug_jit,
                      .process = work->g->process,
                      .cache_bytes = work->g->cache_bytes,
                      .cache_folder = work->g->cache_folder};
    gram_status status = GRAM_OK;

    for (int i; status == GRAM_OK && (i = atomic_fetch_add(&work->next, 1)) < work->count;)
        status = warm_one(&g, work, i);
    if (status != GRAM_OK) {
        atomic_store(&work->next, work->count); /* the others stop too */
        pthread_mutex_lock(&work->lock);
        work->status = status;
        memcpy(work->message, g.message, sizeof work->message);
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

/* Fewer threads if no more can be had: the caller is one. */
static void run(struct work *work, int threads)
{
    pthread_t thread[GRAM_MAX_THREADS];
    int started = 0;

    while (started + 1 < threads && started + 1 < work->count &&
           pthread_create(&thread[started], NULL, work_on, work) == 0)
        started++;
    (void)work_on(work);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
}

/* ---- Which kernels -------------------------------------------------------------------------- */

/* The number in "sm_90", "sm_90a" and "compute_90", 0 if it is none of these. */
static int number_of(const char *chip)
{
    bool text = strncmp(chip, "compute_", 8) == 0;

    return text || strncmp(chip, "sm_", 3) == 0
               ? atoi(chip + (text ? 8 : 3)) // NOLINT(cert-err34-c): 0 is refused
               : 0;
}

static gram_status check_chip(gram_context *g, const struct cuda_compiler *compiler,
                              const char *chip)
{
    int archs[64], count = 0, used = 0;
    const int number = number_of(chip);
    char list[384] = "";

    if (compiler->arch_count(&count) != NVRTC_SUCCESS || count > 64 ||
        compiler->archs(archs) != NVRTC_SUCCESS)
        count = 0;
    for (int i = 0; i < count; i++) {
        if (archs[i] == number && number >= OLDEST_ARCH && strlen(chip) < CHIP_BYTES)
            return GRAM_OK;
        if (archs[i] >= OLDEST_ARCH && (size_t)used < sizeof list)
            used += snprintf(list + used, sizeof list - (size_t)used, " sm_%d", archs[i]);
    }
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "chip \"%.40s\" is unknown, expected one of%s", chip,
                     list);
}

/* A chip is called what its GPUs ask for: sm_90 also where sm_90a was said. */
static gram_status add_chip(gram_context *g, struct work *work, const char *name)
{
    struct chip *chip = &work->chips[work->chip_count++];
    const int number = number_of(name);
    const bool text = name[0] == 'c';

    snprintf(chip->name, sizeof chip->name, text ? "compute_%d" : "sm_%d", number);
    /* Text is for GPUs that are newer, and are none of those that have kernels of their own. */
    if (!work->op)
        cuda_warm_list(g, text ? number + 1 : number, &chip->list);
    else if (!cuda_warm_list_op(g, text ? number + 1 : number, work->op, &chip->list))
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the code of an expression");
    work->count += chip->list.count;
    return GRAM_OK;
}

/* The chips of the GPUs that are here, each once. */
static gram_status chips_here(gram_context *g, const struct cuda_compiler *compiler,
                              char (*chips)[CHIP_BYTES], int most, int *count)
{
    const char *why;
    const struct cuda_driver *driver = gram_cuda_driver(g, &why);

    *count = 0;
    if (!driver)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s; name the chips to compile for", why);
    for (int i = 0, arch; *count < most && (arch = gram_cuda_arch(driver, i)) > 0; i++) {
        bool known = false;
        if (arch < OLDEST_ARCH)
            continue;
        gram_jit_chip(compiler, arch, chips[*count], CHIP_BYTES);
        for (int k = 0; k < *count && !known; k++)
            known = strcmp(chips[k], chips[*count]) == 0;
        *count += !known;
    }
    return GRAM_OK;
}

static gram_status warm_chips(gram_context *g, struct work *work, const char *const *chips,
                              int count)
{
    for (int i = 0; i < count; i++)
        TRY(add_chip(g, work, chips[i]));
    atomic_init(&work->next, 0);
    run(work, g->threads);
    if (work->status != GRAM_OK)
        memcpy(g->message, work->message, sizeof g->message);
    return work->status;
}

gram_status cuda_warm(gram_context *g, const struct gram_cdist_op *op,
                      const gram_warm_options *options)
{
    struct work work = {.g = g,
                        .op = op,
                        .visit = options->visit,
                        .user = options->user,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    char here[MOST_HERE][CHIP_BYTES];
    const char *names[MOST_HERE];
    gram_status status;
    const char *why;
    gram_cache cache = {.size = sizeof cache};
    int found = 0;

    work.compiler = gram_cuda_compiler(g, &why);
    if (!work.compiler)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    gram_jit_cache_info(g, &cache);
    if (cache.why[0])
        return gram_fail(g, GRAM_IO, "nothing can be kept: %.400s", cache.why);
    if (op)
        TRY(cuda_cdist_check_expression(g, op));
    for (int i = 0; i < options->count; i++)
        TRY(check_chip(g, work.compiler, options->chips[i]));
    if (options->count == 0)
        TRY(chips_here(g, work.compiler, here, MOST_HERE, &found));
    for (int i = 0; i < found; i++)
        names[i] = here[i];
    work.chips = calloc((size_t)options->count + (size_t)found + 1, sizeof *work.chips);
    if (!work.chips)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the list of kernels");
    status = options->count > 0 ? warm_chips(g, &work, options->chips, options->count)
                                : warm_chips(g, &work, names, found);
    for (int i = 0; i < work.chip_count; i++)
        free(work.chips[i].list.expression);
    free(work.chips);
    return status;
}
