/*
 * cuda_warm.c - gram_cache_warm: the common kernels compiled ahead, for any chip, without a GPU
 *
 * The kernels are those of common problems, as their own plans choose them: distances and kernels,
 * with tensor cores where they serve; the weights and gradients that learning takes; products with
 * Kronecker factors of equal sizes that are powers of two.  All kernels that have little more than
 * a dtype as their parameter come with them.  Given a problem, its own kernels are compiled
 * instead.  Threads share the list, and each kernel that the file of the cache lacks is compiled
 * and put there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cuda_ops.h"
#include "eigh/cuda_eigh.h"
#include "kron/cuda_kron_matmul_vjp.h"
#include "linalg/cuda_solve.h"
#include "pairwise/cuda_cdist.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHIP_BYTES = 32,
    MOST_HERE = 16,   /* kinds of GPUs in a machine */
    WARM_MOST = 320,  /* kernels of a chip: more than there are */
    PROCESSORS = 100, /* of the chips whose GPU is not here: decides between tiles only */
};

/* A kernel to compile, with a text of its own for its options. */
struct warm_kernel {
    struct jit_request request;
    char defines[CUDA_TEXT_BYTES]; /* request's */
};

struct warm_list {
    int count;
    char *expression; /* the device code of one, which some kernels include; owned, NULL: none */
    struct warm_kernel kernel[WARM_MOST];
};

/* ---- Common problems ------------------------------------------------------------------------- */

/* A problem whose kernel is worth having: out = f((sum |x - y|^p)^(root ? 1/p : 1)). */
static const struct common {
    double p;
    gram_dtype dtype;
    gram_function function;
    gram_kernel_output output;
    bool root;
} commons[] = {
    {  1, GRAM_F32,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {1.3, GRAM_F32,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {1.5, GRAM_F32,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {  2, GRAM_F32,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {  1, GRAM_F32, GRAM_EXPONENTIAL_POWER,  GRAM_VALUE,  true},
    {1.3, GRAM_F32, GRAM_EXPONENTIAL_POWER,  GRAM_VALUE,  true},
    {  2, GRAM_F32, GRAM_EXPONENTIAL_POWER,  GRAM_VALUE,  true},
    {1.3, GRAM_F32,           GRAM_LAPLACE,  GRAM_VALUE, false},
    {  2, GRAM_F32,          GRAM_GAUSSIAN,  GRAM_VALUE, false},
    {  2, GRAM_F32,          GRAM_MATERN52,  GRAM_VALUE,  true},
    {  1, GRAM_F64,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {  2, GRAM_F64,          GRAM_IDENTITY,  GRAM_VALUE,  true},
    {  2, GRAM_F64,          GRAM_GAUSSIAN,  GRAM_VALUE, false},
    {  1, GRAM_F32, GRAM_EXPONENTIAL_POWER, GRAM_WEIGHT,  true},
    {1.3, GRAM_F32, GRAM_EXPONENTIAL_POWER, GRAM_WEIGHT,  true},
    {  2, GRAM_F32, GRAM_EXPONENTIAL_POWER, GRAM_WEIGHT,  true},
    {  2, GRAM_F32,          GRAM_GAUSSIAN, GRAM_WEIGHT, false},
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

/* Gradients of an expansion over 10000 centres at as many points in 128 dimensions. */
static const struct gradient {
    double p;
    int64_t outputs;
    gram_dtype dtype;
} gradients[] = {
    {  1,  1, GRAM_F32},
    {  1, 10, GRAM_F32},
    {1.3,  1, GRAM_F32},
    {1.3, 10, GRAM_F32},
    {1.5,  1, GRAM_F32},
    {1.5, 10, GRAM_F32},
    {  2,  1, GRAM_F32},
    {  2, 10, GRAM_F32},
    {  1,  1, GRAM_F64},
    {  2,  1, GRAM_F64},
};

/* Kronecker products of 1024 rows with `count` factors of order `order`, on the right. */
static const struct kron {
    int order, count;
} krons[] = {
    {  2, 10},
    {  4,  6},
    {  8,  5},
    { 16,  4},
    { 32,  3},
    { 64,  2},
    {128,  2},
};

enum {
    KRONS = sizeof krons / sizeof *krons,
    COMMONS = sizeof commons / sizeof *commons,
    SHAPES = sizeof shapes / sizeof *shapes,
    GRADIENTS = sizeof gradients / sizeof *gradients
};

/* Files and defines are what is compiled: kernels of one file share them. */
static void add(struct warm_list *list, const struct jit_request *request)
{
    struct warm_kernel *new = &list->kernel[list->count];

    for (int i = 0; i < list->count; i++)
        if (strcmp(list->kernel[i].request.file, request->file) == 0 &&
            strcmp(list->kernel[i].defines, request->defines) == 0)
            return;
    assert(list->count < WARM_MOST);
    new->request = *request;
    strcpy(new->defines, request->defines); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    new->request.defines = new->defines;
    list->count++;
}

/* The request refers to the text, of which the list keeps a copy. */
static void add_variant(struct warm_list *list, const struct cuda_variant *v)
{
    char text[CUDA_TEXT_BYTES];
    const struct jit_request request = cuda_variant_request(v, text);

    add(list, &request);
}

/* Never read: only addresses count. */
static _Alignas(16) char memory[16];

/* Plans read sizes, strides and the alignment of addresses, never the elements. */
static struct gram_view rows_of(gram_dtype dtype, int64_t rows, int64_t cols)
{
    return gram_view_dense(memory, dtype, rows, cols);
}

/* The features of rows_of: its transpose. */
static struct gram_view features_of(gram_dtype dtype, int64_t rows, int64_t cols)
{
    struct gram_view v = rows_of(dtype, cols, rows);

    v.row_stride = 1, v.col_stride = cols;
    return v;
}

/* ---- Distances and kernels ------------------------------------------------------------------ */

/* The problem as gram_cdist or gram_kernel would hand it to the backend. */
static void describe(const struct common *c, const struct shape *shape, struct gram_cdist_op *op)
{
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .x = rows_of(c->dtype, shape->rows, shape->cols),
                                 .y = rows_of(c->dtype, shape->rows, shape->cols),
                                 .out = rows_of(c->dtype, shape->rows, shape->rows),
                                 .inner = GRAM_DIFFERENCE,
                                 .function = c->function,
                                 .output = c->output,
                                 .p.value = c->p,
                                 .outer_power.value = c->root ? 1 / c->p : 1,
                                 .bandwidth.value = 1,
                                 .exponent.value = c->p,
                                 .alpha.value = 1,
                                 .gamma.value = 1};
    if (c->function == GRAM_IDENTITY)
        op->root = c->root;
}

/* The kernel of a plan, with the list's expression where it has one. */
static void add_plan(struct warm_list *list, const struct cuda_cdist_plan *plan)
{
    char text[CUDA_TEXT_BYTES];
    struct jit_request request;
    struct cuda_variant v;

    cuda_cdist_variant(plan, &v);
    request = cuda_variant_request(&v, text);
    if (plan->expression)
        request.own = (struct cuda_source){.name = "pair_expression.cuh", .text = list->expression};
    add(list, &request);
}

/* A problem has several kernels, of which the launch chooses by what the device offers: all of them
 * are listed. */
static void add_pairs(const gram_context *g, const struct cuda_device *device,
                      struct warm_list *list, const struct gram_cdist_op *op)
{
    struct cuda_cdist_plan plan = {0};
    struct cuda_variant v;

    cuda_cdist_plan(op, PROCESSORS, &plan);
    if (plan.tiles == 0)
        return;
    add_plan(list, &plan);
    if (cuda_cdist_packs(g, device, &plan)) {
        cuda_cdist_panels_variant(&plan, &v);
        add_variant(list, &v);
        (void)cuda_cdist_plan_packed(&plan);
        add_plan(list, &plan);
    }
    if (!cuda_cdist_squares(g, device, &plan))
        return;
    for (int k = 0; cuda_cdist_square_variant(device, &plan, k, &v); k++)
        add_variant(list, &v);
    cuda_cdist_plan_listed(&plan);
    add_plan(list, &plan);
}

/* A common problem goes through the same plan as a call, so that what is compiled here is what a
 * call asks for. */
static void add_common(const gram_context *g, const struct cuda_device *device,
                       struct warm_list *list, const struct common *c, const struct shape *shape)
{
    struct gram_cdist_op op;

    describe(c, shape, &op);
    add_pairs(g, device, list, &op);
}

/* Long sums are cut into pieces, which other kernels add up. */
static void add_pieces(struct warm_list *list, const struct gram_cdist_op *op)
{
    struct cuda_cdist_plan plan = {0};
    struct cuda_variant v;

    if (!cuda_cdist_splits(op, PROCESSORS))
        return;
    cuda_cdist_plan(op, PROCESSORS, &plan);
    for (int k = 0; cuda_cdist_split_variant(op, &plan, PROCESSORS, k, &v); k++)
        add_variant(list, &v);
}

/* ---- Gradients ------------------------------------------------------------------------------ */

static void add_gradient(struct warm_list *list, const struct gradient *row)
{
    const int64_t n = 10000, k = 128;
    struct gram_cdist_grad_op op = {
        .batch.count = 1,
        .a = rows_of(row->dtype, n, n),
        .b = features_of(row->dtype, k, n),
        .c = rows_of(row->dtype, row->outputs, n),
        .d = features_of(row->dtype, k, n),
        .out = rows_of(row->dtype, k, n),
        .p.value = row->p,
    };
    struct cuda_grad_plan plan;
    struct cuda_variant v;

    op.out.planes = row->outputs;
    cuda_cdist_grad_plan(&op, false, PROCESSORS, &plan);
    cuda_cdist_grad_variant(&plan, &v);
    add_variant(list, &v);
}

/* ---- Kronecker products ---------------------------------------------------------------------- */

/* A product may have several passes, each with a kernel of its own. */
static void add_kron(const struct cuda_device *device, struct warm_list *list,
                     const struct kron *row, gram_dtype dtype)
{
    const int64_t m = 1024;
    struct gram_kron_matmul_op op = {.batch.count = 1, .count = row->count, .alpha.value = 1};
    struct cuda_kron_plan plan;
    struct kron_params params;
    struct cuda_variant v;
    int64_t columns = 1;

    for (int i = 0; i < row->count; i++, columns *= row->order)
        op.factor[i] = rows_of(dtype, row->order, row->order);
    op.x = op.y = rows_of(dtype, m, columns);
    cuda_kron_plan(device, &op, 0, &plan);
    for (int i = 0; i < plan.passes; i++) {
        cuda_kron_params(&plan, NULL, i, &params);
        cuda_kron_variant(&plan, i, &params, &v);
        add_variant(list, &v);
    }
}

/* The gradients of a factor of such an order, the last one and others. */
static void add_kron_gradient(struct warm_list *list, int order, gram_dtype dtype)
{
    struct cuda_variant v;
    struct cuda_kron_join j = {.p = order, .q = order};

    cuda_kron_vjp_choose_tile(dtype, &j);
    for (j.after = 1; j.after <= order; j.after += order - 1) {
        cuda_kron_vjp_gradient_variant(dtype, &j, dtype == GRAM_F64 ? 2 : 4, &v);
        add_variant(list, &v);
    }
}

/* ---- What has little but a dtype ------------------------------------------------------------ */

/* Kernels of which no plan is needed: their options are a dtype, or one of a few numbers. */
static void add_plain(struct warm_list *list, gram_dtype dtype)
{
    struct cuda_variant v;

    for (const struct cuda_kernel *kernel = cuda_plain_kernels; kernel->file; kernel++) {
        cuda_variant(&v, kernel, CUDA_OPTIONS({"REAL", cuda_type(dtype)}));
        add_variant(list, &v);
    }
    for (int kernel = SOLVE_SMALL; kernel <= SOLVE_SCAN; kernel++)
        for (int lu = 0; lu < 2; lu++) {
            cuda_solve_variant(kernel, lu, dtype, &v);
            add_variant(list, &v);
        }
    for (int kernel = 0; kernel < EIGH_KERNELS; kernel++)
        if (cuda_eigh_variant(kernel, dtype, &v))
            add_variant(list, &v);
}

/* The common kernels of a GPU of this arch (90), each once. */
static void list_common(const gram_context *g, int arch, struct warm_list *list)
{
    const struct cuda_device device = {.arch = arch, .processors = PROCESSORS};

    list->count = 0;
    for (int i = 0; i < COMMONS * SHAPES; i++)
        add_common(g, &device, list, &commons[i / SHAPES], &shapes[i % SHAPES]);
    for (int i = 0; i < GRADIENTS; i++)
        add_gradient(list, &gradients[i]);
    for (int i = 0; i < KRONS; i++) {
        add_kron(&device, list, &krons[i], GRAM_F32);
        add_kron(&device, list, &krons[i], GRAM_F64);
        add_kron_gradient(list, krons[i].order, GRAM_F32);
        add_kron_gradient(list, krons[i].order, GRAM_F64);
    }
    add_plain(list, GRAM_F32);
    add_plain(list, GRAM_F64);
}

/* Those of op instead, which cuda_cdist would launch; false if memory runs out. */
static bool list_op(const gram_context *g, int arch, const struct gram_cdist_op *op,
                    struct warm_list *list)
{
    const struct cuda_device device = {.arch = arch, .processors = PROCESSORS};

    list->count = 0;
    if (op->expression && !(list->expression = gram_cuda_expression_text(op->expression)))
        return false;
    if (op->batch.count > 0 && op->out.rows > 0 && op->out.cols > 0) {
        add_pairs(g, &device, list, op);
        add_pieces(list, op);
    }
    return true;
}

/* ---- The work ------------------------------------------------------------------------------- */

struct chip {
    char name[CHIP_BYTES]; /* "sm_90", or "compute_90" for newer ones */
    struct warm_list list;
};

/* What the threads share: they take kernels off one list, whatever chip these are for, so that none
 * is idle while another chip still has many. */
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

/* Visits come one at a time, from whichever thread has made the kernel. */
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
            status = gram_fail(g, GRAM_IO, "a kernel cannot be stored in the cache: %s", not_kept);
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

/* An unknown chip would fail in the compiler, kernel after kernel, with a message that does not
 * name the choices. */
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
        list_common(g, text ? number + 1 : number, &chip->list);
    else if (!list_op(g, text ? number + 1 : number, work->op, &chip->list))
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
        return gram_fail(g, GRAM_UNSUPPORTED, "%s; name the chips for which to compile", why);
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

/* The message of a thread that failed becomes that of the call. */
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

/* All that can be refused is refused before the first kernel is compiled, which takes long. */
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
        return gram_fail(g, GRAM_IO, "the cache cannot be used: %.400s", cache.why);
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
