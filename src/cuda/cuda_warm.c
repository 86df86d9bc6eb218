/*
 * cuda_warm.c - gram_cache_warm: the common kernels compiled ahead, for any chip, without a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "../threads.h"
#include "cuda_ops.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHIP_BYTES = 32,
    PROCESSORS = 100 /* of the chips whose GPU is not here: decides between tiles only */
};

/* A problem whose kernel is worth having: out = f((sum |x - y|^p)^(root ? 1/p : 1)). */
static const struct common {
    gram_dtype dtype;
    double p;
    bool root;
    gram_function function;
} commons[] = {
    {GRAM_F32,   1,  true,          GRAM_IDENTITY},
    {GRAM_F32, 1.3,  true,          GRAM_IDENTITY},
    {GRAM_F32, 1.5,  true,          GRAM_IDENTITY},
    {GRAM_F32,   2,  true,          GRAM_IDENTITY},
    {GRAM_F32,   1,  true, GRAM_EXPONENTIAL_POWER},
    {GRAM_F32, 1.3,  true, GRAM_EXPONENTIAL_POWER},
    {GRAM_F32,   2,  true, GRAM_EXPONENTIAL_POWER},
    {GRAM_F32, 1.3, false,           GRAM_LAPLACE},
    {GRAM_F32,   2, false,          GRAM_GAUSSIAN},
    {GRAM_F32,   2,  true,          GRAM_MATERN52},
    {GRAM_F64,   1,  true,          GRAM_IDENTITY},
    {GRAM_F64,   2,  true,          GRAM_IDENTITY},
    {GRAM_F64,   2, false,          GRAM_GAUSSIAN},
};

/* How it comes: large and small tiles, rows that can be read 16 bytes at a time or not. */
static const struct shape {
    int64_t rows, cols;
} shapes[] = {
    {20000, 64},
    {20000, 65},
    { 1000, 64},
    { 1000, 65},
};

enum {
    COMMONS = sizeof commons / sizeof *commons,
    SHAPES = sizeof shapes / sizeof *shapes
};

static struct gram_view rows_of(gram_dtype dtype, int64_t rows, int64_t cols)
{
    static _Alignas(16) char memory[16]; /* never read: only its address counts */

    return gram_view_dense(memory, dtype, rows, cols);
}

static void describe(const struct common *c, const struct shape *shape, struct gram_cdist_op *op)
{
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .x = rows_of(c->dtype, shape->rows, shape->cols),
                                 .y = rows_of(c->dtype, shape->rows, shape->cols),
                                 .out = rows_of(c->dtype, shape->rows, shape->rows),
                                 .inner = GRAM_DIFFERENCE,
                                 .function = c->function,
                                 .p.value = c->p,
                                 .outer_power.value = c->root ? 1 / c->p : 1,
                                 .bandwidth.value = 1,
                                 .exponent.value = c->p,
                                 .alpha.value = 1,
                                 .gamma.value = 1};
    if (c->function == GRAM_IDENTITY)
        op->root = c->root;
}

/* ---- The work ------------------------------------------------------------------------------- */

struct item {
    int problem; /* place in commons x shapes */
    const char *chip;
};

struct work {
    const gram_context *g;
    const struct cuda_compiler *compiler;
    struct item *items; /* no two of one kernel */
    int count;
    atomic_int next;
    gram_cache_visit visit;
    void *user;
    pthread_mutex_t lock; /* of what follows, and held during a visit */
    gram_status status;
    char message[512];
};

static struct jit_request request_of(int problem, char defines[CUDA_CDIST_DEFINES])
{
    struct cuda_cdist_plan plan = {0};
    struct gram_cdist_op op;

    describe(&commons[problem / SHAPES], &shapes[problem % SHAPES], &op);
    cuda_cdist_plan(&op, PROCESSORS, &plan);
    return cuda_cdist_request(&plan, defines);
}

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

static gram_status warm_one(gram_context *g, struct work *work, const struct item *item)
{
    char defines[CUDA_CDIST_DEFINES], key[JIT_KEY_BYTES];
    const struct jit_request request = request_of(item->problem, defines);
    struct jit_code code;
    gram_status status = GRAM_OK;
    const int64_t start = gram_nanoseconds();
    double ms = 0;
    char not_kept[256];

    gram_jit_key(g, work->compiler, &request, item->chip, key);
    if (!gram_jit_cache_get(g, key, &code)) {
        TRY(gram_jit_compile(g, work->compiler, &request, item->chip, &code));
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
                      .cache_bytes = work->g->cache_bytes,
                      .cache_folder = work->g->cache_folder};
    gram_status status = GRAM_OK;

    for (int i; status == GRAM_OK && (i = atomic_fetch_add(&work->next, 1)) < work->count;)
        status = warm_one(&g, work, &work->items[i]);
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

static gram_status check_chip(gram_context *g, const struct cuda_compiler *compiler,
                              const char *chip)
{
    int archs[64], count = 0, number = 0, used = 0;
    char list[384] = "";
    bool text = strncmp(chip, "compute_", 8) == 0;

    if (text || strncmp(chip, "sm_", 3) == 0)
        number = atoi(chip + (text ? 8 : 3)); // NOLINT(cert-err34-c): 0 is refused
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

/* The items of one chip, each kernel once. */
static void add_chip(struct work *work, const char *chip)
{
    char seen[COMMONS * SHAPES][CUDA_CDIST_DEFINES];
    int kinds = 0;

    for (int problem = 0; problem < COMMONS * SHAPES; problem++) {
        bool known = false;
        (void)request_of(problem, seen[kinds]);
        for (int i = 0; i < kinds && !known; i++)
            known = strcmp(seen[i], seen[kinds]) == 0;
        if (!known) {
            kinds++;
            work->items[work->count++] = (struct item){problem, chip};
        }
    }
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

gram_status cuda_warm(gram_context *g, const char *const *chips, int count, gram_cache_visit visit,
                      void *user)
{
    struct work work = {.g = g, .visit = visit, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
    char here[16][CHIP_BYTES];
    const char *why;
    gram_cache cache = {.size = sizeof cache};
    int found = 0;

    work.compiler = gram_cuda_compiler(g, &why);
    if (!work.compiler)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    gram_jit_cache_info(g, &cache);
    if (cache.why[0])
        return gram_fail(g, GRAM_IO, "nothing can be kept: %.400s", cache.why);
    for (int i = 0; i < count; i++)
        TRY(check_chip(g, work.compiler, chips[i]));
    if (count == 0)
        TRY(chips_here(g, work.compiler, here, 16, &found));
    work.items = calloc((size_t)(count + found + 1) * COMMONS * SHAPES, sizeof *work.items);
    if (!work.items)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the list of kernels");
    for (int i = 0; i < count; i++)
        add_chip(&work, chips[i]);
    for (int i = 0; i < found; i++)
        add_chip(&work, here[i]);
    atomic_init(&work.next, 0);
    run(&work, g->threads);
    free(work.items);
    if (work.status != GRAM_OK)
        memcpy(g->message, work.message, sizeof g->message);
    return work.status;
}
