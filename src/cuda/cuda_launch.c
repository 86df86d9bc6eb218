/*
 * cuda_launch.c - what every operation does: queues a kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_ops.h"
#include <pthread.h>
#include <string.h>

gram_status gram_cuda_queue(gram_context *g, CUfunction function, const unsigned grid[3],
                            const unsigned block[3], size_t shared_bytes, void *const *arguments)
{
    const struct cuda_device *device = g->device;

    return gram_cuda_check(g, device->driver,
                           device->driver->launch(function, grid[0], grid[1], grid[2], block[0],
                                                  block[1], block[2], (unsigned)shared_bytes,
                                                  device->stream, (void **)arguments, NULL),
                           "cuLaunchKernel");
}

gram_status gram_cuda_queue_early(gram_context *g, CUfunction function, const unsigned grid[3],
                                  const unsigned block[3], size_t shared_bytes,
                                  void *const *arguments)
{
    const struct cuda_device *device = g->device;
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {.gridDimX = grid[0],
                                   .gridDimY = grid[1],
                                   .gridDimZ = grid[2],
                                   .blockDimX = block[0],
                                   .blockDimY = block[1],
                                   .blockDimZ = block[2],
                                   .sharedMemBytes = (unsigned)shared_bytes,
                                   .hStream = device->stream,
                                   .attrs = &early,
                                   .numAttrs = 1};

    return gram_cuda_check(g, device->driver,
                           device->driver->launch_with(&config, function, (void **)arguments, NULL),
                           "cuLaunchKernelEx");
}

gram_status gram_cuda_launch(gram_context *g, const struct jit_request *request, int64_t blocks,
                             unsigned threads, void *params)
{
    struct cuda_device *device = g->device;
    CUfunction function = gram_jit_recall(device, request->variant);
    const unsigned grid[] = {(unsigned)gram_least(blocks, INT32_MAX), 1, 1};
    void *arguments[] = {params};

    if (!function)
        TRY(gram_jit_kernel(g, device, request, &function));
    return gram_cuda_queue(g, function, grid, (const unsigned[]){threads, 1, 1},
                           request->shared_bytes, arguments);
}

uint64_t gram_cuda_pack(const int (*field)[2], size_t count)
{
    uint64_t number = 0;

    for (size_t i = 0; i < count; i++)
        number = number << field[i][1] | (uint64_t)field[i][0];
    return number;
}

/* The kernels that have one parameter. */
static const struct {
    const char *file, *kernel;
} plain_kernels[] = {
    [CUDA_VARIANT_GRAD_SUM] = {      "cdist_grad_sum.cu",        "cdist_grad_sum"},
    [CUDA_VARIANT_GRAD_RANGE] = {    "cdist_grad_range.cu",      "cdist_grad_range"},
    [CUDA_VARIANT_GRAD_LARGEST] = {  "cdist_grad_largest.cu",    "cdist_grad_largest"},
    [CUDA_VARIANT_GRAD_WHERE] = {  "cdist_grad_largest.cu",      "cdist_grad_where"},
    [CUDA_VARIANT_AGOP] = {                "agop.cu",                  "agop"},
    [CUDA_VARIANT_AGOP_DIAGONAL] = {       "agop_diagonal.cu",         "agop_diagonal"},
    [CUDA_VARIANT_AGOP_SUM] = {            "agop_sum.cu",              "agop_sum"},
    [CUDA_VARIANT_VJP_SUMS] = {     "kernel_vjp_sums.cu",       "kernel_vjp_sums"},
    [CUDA_VARIANT_VJP_NUMBER] = {   "kernel_vjp_number.cu",     "kernel_vjp_number"},
    [CUDA_VARIANT_VJP_WEIGH] = {    "kernel_vjp_weigh.cu",      "kernel_vjp_weigh"},
    [CUDA_VARIANT_VJP_CORRECT] = {  "kernel_vjp_correct.cu",    "kernel_vjp_correct"},
    [CUDA_VARIANT_MEDIAN_ROWS] = {         "median_rows.cu",           "median_rows"},
    [CUDA_VARIANT_MEDIAN_COUNT] = {        "median_count.cu",          "median_count"},
    [CUDA_VARIANT_MEDIAN_PICK] = {         "median_pick.cu",           "median_pick"},
    [CUDA_VARIANT_MEDIAN_SMALL] = {        "median_small.cu",          "median_small"},
    [CUDA_VARIANT_CG_STEP] = {             "cg_step.cu",               "cg_step"},
    [CUDA_VARIANT_CG_PRECONDITION] = {     "cg_precondition.cu",       "cg_precondition"},
    [CUDA_VARIANT_ROWS_ADD] = {            "rows_add.cu",              "rows_add"},
    [CUDA_VARIANT_MATRIX_MOVE] = {         "matrix_move.cu",           "matrix_move"},
    [CUDA_VARIANT_EMA_LOOK] = {            "syrk_ema.cu",         "syrk_ema_look"},
    [CUDA_VARIANT_EMA_ADD] = {            "syrk_ema.cu",          "syrk_ema_add"},
    [CUDA_VARIANT_KRYLOV_PRODUCT] = {    "krylov_symmetric.cu",        "krylov_product"},
    [CUDA_VARIANT_KRYLOV_SUM] = {    "krylov_symmetric.cu",            "krylov_sum"},
    [CUDA_VARIANT_KRYLOV_PROJECT] = {      "krylov_project.cu",        "krylov_project"},
    [CUDA_VARIANT_KRYLOV_SUBTRACT] = {      "krylov_project.cu",       "krylov_subtract"},
    [CUDA_VARIANT_KRYLOV_WHITEN] = {        "krylov_basis.cu",         "krylov_whiten"},
    [CUDA_VARIANT_KRYLOV_COMBINE] = {        "krylov_basis.cu",        "krylov_combine"},
    [CUDA_VARIANT_KRYLOV_RESIDUAL] = {        "krylov_basis.cu",       "krylov_residual"},
    [CUDA_VARIANT_KRYLOV_BLEND] = {        "krylov_basis.cu",          "krylov_blend"},
    [CUDA_VARIANT_KRYLOV_COPY] = {        "krylov_basis.cu",           "krylov_copy"},
    [CUDA_VARIANT_POWER_BEGIN] = {   "matrix_power_load.cu",    "matrix_power_begin"},
    [CUDA_VARIANT_POWER_MEASURE] = {   "matrix_power_load.cu",  "matrix_power_measure"},
    [CUDA_VARIANT_POWER_LOAD] = {   "matrix_power_load.cu",     "matrix_power_load"},
    [CUDA_VARIANT_POWER_FINISH] = {   "matrix_power_load.cu",   "matrix_power_finish"},
    [CUDA_VARIANT_POWER_VERDICT] = {   "matrix_power_load.cu",  "matrix_power_verdict"},
    [CUDA_VARIANT_POWER_STORE] = {   "matrix_power_load.cu",    "matrix_power_store"},
    [CUDA_VARIANT_POWER_TURN] = {"matrix_power_largest.cu",     "matrix_power_turn"},
    [CUDA_VARIANT_POWER_TIMES] = {"matrix_power_largest.cu",    "matrix_power_times"},
    [CUDA_VARIANT_POWER_BOUND] = {"matrix_power_largest.cu",    "matrix_power_bound"},
    [CUDA_VARIANT_POWER_COMBINE] = {   "matrix_power_step.cu",  "matrix_power_combine"},
    [CUDA_VARIANT_POWER_DECIDE] = {   "matrix_power_step.cu",   "matrix_power_decide"},
    [CUDA_VARIANT_POWER_DISTANCE] = {   "matrix_power_step.cu", "matrix_power_distance"},
    [CUDA_VARIANT_POWER_SPLIT] = {   "matrix_power_step.cu",    "matrix_power_split"},
    [CUDA_VARIANT_POWER_MIRROR] = {   "matrix_power_step.cu",   "matrix_power_mirror"},
    [CUDA_VARIANT_POWER_SUM] = {    "matrix_power_sum.cu",      "matrix_power_sum"},
    [CUDA_VARIANT_POWER_VALUES] = {   "matrix_power_eigh.cu",   "matrix_power_values"},
    [CUDA_VARIANT_POWER_COLUMNS] = {   "matrix_power_eigh.cu",  "matrix_power_columns"},
    [CUDA_VARIANT_KRON_VJP_LOAD] = {            "kron_vjp.cu",         "kron_vjp_load"},
    [CUDA_VARIANT_KRON_VJP_ADD] = {            "kron_vjp.cu",          "kron_vjp_add"},
    [CUDA_VARIANT_KRON_VJP_SUM] = {            "kron_vjp.cu",          "kron_vjp_sum"},
    [CUDA_VARIANT_KRON_VJP_SUMS] = {            "kron_vjp.cu",         "kron_vjp_sums"},
    [CUDA_VARIANT_KRON_VJP_STORE] = {            "kron_vjp.cu",        "kron_vjp_store"},
    [CUDA_VARIANT_KRON_SOLVE_SCAN] = {          "kron_solve.cu",       "kron_solve_scan"},
    [CUDA_VARIANT_KRON_SOLVE_DIVIDE] = {          "kron_solve.cu",     "kron_solve_divide"},
    [CUDA_VARIANT_KRON_SOLVE_STORE] = {          "kron_solve.cu",      "kron_solve_store"},
    [CUDA_VARIANT_KRON_SOLVE_FINISH] = {          "kron_solve.cu",     "kron_solve_finish"},
    [CUDA_VARIANT_KRON_SOLVE_FACTOR] = {   "kron_solve_factor.cu",     "kron_solve_factor"},
    [CUDA_VARIANT_KRON_LOGDET_LOAD] = {         "kron_logdet.cu",      "kron_logdet_load"},
    [CUDA_VARIANT_KRON_LOGDET_FINISH] = {         "kron_logdet.cu",    "kron_logdet_finish"},
    [CUDA_VARIANT_SOLVE_LOAD] = {         "solve_extra.cu",            "solve_load"},
    [CUDA_VARIANT_SOLVE_NORM] = {         "solve_extra.cu",            "solve_norm"},
    [CUDA_VARIANT_SOLVE_LIFT] = {         "solve_extra.cu",            "solve_lift"},
    [CUDA_VARIANT_SOLVE_SHIFT] = {         "solve_extra.cu",           "solve_shift"},
    [CUDA_VARIANT_SOLVE_VERDICT] = {         "solve_extra.cu",         "solve_verdict"},
    [CUDA_VARIANT_SOLVE_DECIDE] = {         "solve_extra.cu",          "solve_decide"},
    [CUDA_VARIANT_SOLVE_TELL] = {         "solve_extra.cu",            "solve_tell"},
    [CUDA_VARIANT_SOLVE_KEEP] = {         "solve_extra.cu",            "solve_keep"},
    [CUDA_VARIANT_SOLVE_MOVE] = {         "solve_extra.cu",            "solve_move"},
    [CUDA_VARIANT_SOLVE_RESULT] = {         "solve_extra.cu",          "solve_result"},
    [CUDA_VARIANT_SOLVE_TILES] = {         "solve_tiles.cu",           "solve_tiles"},
    [CUDA_VARIANT_SOLVE_LU_PANEL] = {      "solve_lu_panel.cu",        "solve_lu_panel"},
    [CUDA_VARIANT_SOLVE_LU_ROWS] = {            "solve_lu.cu",         "solve_lu_rows"},
    [CUDA_VARIANT_SOLVE_LU_REST] = {       "solve_lu_rest.cu",         "solve_lu_rest"},
    [CUDA_VARIANT_SOLVE_SWEEP] = {         "solve_sweep.cu",           "solve_sweep"},
    [CUDA_VARIANT_SOLVE_PERMUTE] = {       "solve_permute.cu",         "solve_permute"},
    [CUDA_VARIANT_SOLVE_PERMUTATION] = {       "solve_permute.cu",     "solve_permutation"},
    [CUDA_VARIANT_SOLVE_ESTIMATE] = {      "solve_estimate.cu",        "solve_estimate"},
    [CUDA_VARIANT_SOLVE_REFINE] = {        "solve_refine.cu",          "solve_refine"},
    [CUDA_VARIANT_SOLVE_MULTIPLY] = {        "solve_refine.cu",        "solve_multiply"},
    [CUDA_VARIANT_SOLVE_GMRES] = {         "solve_gmres.cu",           "solve_gmres"},
    [CUDA_VARIANT_NATURAL_SHIFT] = {    "natural_gradient.cu",         "natural_shift"},
    [CUDA_VARIANT_NATURAL_FINISH] = {    "natural_gradient.cu",        "natural_finish"},
    [CUDA_VARIANT_FACTOR_PRODUCTS] = {        "kfac_factors.cu",       "factor_products"},
    [CUDA_VARIANT_FACTOR_SUMS] = {        "kfac_factors.cu",           "factor_sums"},
    [CUDA_VARIANT_FACTOR_STORE] = {        "kfac_factors.cu",          "factor_store"},
    [CUDA_VARIANT_FACTOR_REDUCE] = {        "kfac_factors.cu",         "factor_reduce"},
    [CUDA_VARIANT_FACTOR_CLEAR] = {        "kfac_factors.cu",          "factor_clear"},
    [CUDA_VARIANT_FACTOR_COUNT] = {        "kfac_factors.cu",          "factor_count"},
    [CUDA_VARIANT_FACTOR_ROWS_STORE] = {        "kfac_factors.cu",     "factor_rows_store"},
    [CUDA_VARIANT_KFAC_LOOK] = {                "kfac.cu",     "kfac_check_finite"},
    [CUDA_VARIANT_KFAC_MIX] = {                "kfac.cu",     "kfac_move_average"},
    [CUDA_VARIANT_KFAC_TAKEN] = {                "kfac.cu",     "kfac_count_update"},
    [CUDA_VARIANT_KFAC_SHIFT] = {                "kfac.cu",    "kfac_split_damping"},
    [CUDA_VARIANT_KFAC_LOAD] = {                "kfac.cu",      "kfac_add_damping"},
    [CUDA_VARIANT_KFAC_KEEP] = {                "kfac.cu",            "kfac_store"},
    [CUDA_VARIANT_KFAC_SETTLE] = {                "kfac.cu",           "kfac_commit"},
    [CUDA_VARIANT_KFAC_GATHER] = {                "kfac.cu",           "kfac_gather"},
    [CUDA_VARIANT_KFAC_SCATTER] = {                "kfac.cu",          "kfac_scatter"},
    [CUDA_VARIANT_KFAC_SCALE] = {                "kfac.cu",            "kfac_scale"},
    [CUDA_VARIANT_KFAC_SQUARES] = {                "kfac.cu",          "kfac_squares"},
    [CUDA_VARIANT_KFAC_DIRECTION] = {                "kfac.cu",   "kfac_take_direction"},
    [CUDA_VARIANT_KFAC_NU] = {                "kfac.cu",             "kfac_clip"},
    [CUDA_VARIANT_SAMPLE_BLOCKS] = {      "sample_product.cu",         "sample_blocks"},
    [CUDA_VARIANT_SAMPLE_MMA_BLOCKS] = {          "sample_mma.cu",     "sample_mma_blocks"},
    [CUDA_VARIANT_SAMPLE_MMA_GHOST] = {          "sample_mma.cu",      "sample_mma_ghost"},
    [CUDA_VARIANT_SAMPLE_SUMS] = {      "sample_product.cu",           "sample_sums"},
    [CUDA_VARIANT_SAMPLE_GHOST] = {        "sample_ghost.cu",          "sample_ghost"},
    [CUDA_VARIANT_SAMPLE_GHOST_ONE] = {        "sample_ghost.cu",      "sample_ghost_one"},
    [CUDA_VARIANT_SAMPLE_MOMENTS] = {       "sample_affine.cu",        "sample_moments"},
    [CUDA_VARIANT_SAMPLE_AFFINE] = {       "sample_affine.cu",         "sample_affine"},
    [CUDA_VARIANT_SAMPLE_AFFINE_SUMS] = {       "sample_affine.cu",    "sample_affine_sums"},
    [CUDA_VARIANT_SAMPLE_FACTORS] = {       "sample_finish.cu",        "sample_factors"},
    [CUDA_VARIANT_SAMPLE_REDUCE] = {       "sample_finish.cu",         "sample_reduce"},
    [CUDA_VARIANT_SAMPLE_FILL] = {       "sample_finish.cu",           "sample_fill"},
    [CUDA_VARIANT_SAMPLE_LINK] = {        "sample_table.cu",           "sample_link"},
    [CUDA_VARIANT_SAMPLE_TABLE] = {        "sample_table.cu",          "sample_table"},
    [CUDA_VARIANT_SAMPLE_TABLE_SUMS] = {        "sample_table.cu",     "sample_table_sums"},
};

struct jit_request gram_cuda_plain_request(enum cuda_variant_file file, gram_dtype dtype)
{
    bool is_double = dtype == GRAM_F64;

    return (struct jit_request){.file = plain_kernels[file].file,
                                .kernel = plain_kernels[file].kernel,
                                .defines = is_double ? "-DREAL=double" : "-DREAL=float",
                                .variant = CUDA_PLAIN_VARIANTS + (uint64_t)file * 2 + is_double};
}

gram_status gram_cuda_launch_plain(gram_context *g, enum cuda_variant_file file, gram_dtype dtype,
                                   int64_t blocks, unsigned threads, void *params)
{
    const struct jit_request request = gram_cuda_plain_request(file, dtype);

    return gram_cuda_launch(g, &request, blocks, threads, params);
}

enum {
    MEMO = 64 /* kernels that a context finds without a lock; a power of two */
};

struct cuda_kernel_memo {
    struct {
        uint64_t variant;
        CUfunction function; /* NULL: free */
        void *identity;      /* owned; NULL: the number says all */
        size_t identity_bytes;
    } at[MEMO];
};

static unsigned slot_of(uint64_t variant)
{
    return (unsigned)(variant * 0x9E3779B97F4A7C15u >> 32) % MEMO;
}

/* A caller who chooses the text of an expression can choose its number as well: two texts of one
 * number must not be one kernel. */
CUfunction gram_jit_recall_own(const struct cuda_device *device, uint64_t variant,
                               const void *identity, size_t bytes)
{
    const unsigned slot = slot_of(variant);
    const struct cuda_kernel_memo *memo = device->memo;

    if (!memo || memo->at[slot].variant != variant || memo->at[slot].identity_bytes != bytes ||
        (bytes > 0 && memcmp(memo->at[slot].identity, identity, bytes) != 0))
        return NULL;
    return memo->at[slot].function;
}

CUfunction gram_jit_recall(const struct cuda_device *device, uint64_t variant)
{
    return gram_jit_recall_own(device, variant, NULL, 0);
}

/* What cannot be remembered for want of memory is found again in the process. */
static void remember(gram_context *g, struct cuda_kernel_memo *memo,
                     const struct jit_request *request, CUfunction function)
{
    const unsigned slot = slot_of(request->variant);
    void *identity = NULL;

    if (request->identity_bytes > 0) {
        identity = gram_alloc(g, request->identity_bytes);
        if (!identity)
            return;
        memcpy(identity, request->identity, request->identity_bytes);
    }
    gram_free(g, memo->at[slot].identity, memo->at[slot].identity_bytes);
    memo->at[slot].identity = identity;
    memo->at[slot].identity_bytes = request->identity_bytes;
    memo->at[slot].variant = request->variant;
    memo->at[slot].function = function;
}

gram_status gram_jit_kernel(gram_context *g, struct cuda_device *device,
                            const struct jit_request *request, CUfunction *out)
{
    if (!device->memo) {
        device->memo = gram_alloc(g, sizeof *device->memo);
        if (!device->memo)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes",
                             sizeof *device->memo);
        memset(device->memo, 0, sizeof *device->memo);
    }
    TRY(gram_jit_process_kernel(g, device, request, out));
    remember(g, device->memo, request, *out);
    return GRAM_OK;
}

void gram_jit_forget(gram_context *g, struct cuda_device *device)
{
    for (int i = 0; device->memo && i < MEMO; i++)
        gram_free(g, device->memo->at[i].identity, device->memo->at[i].identity_bytes);
    gram_free(g, device->memo, sizeof *device->memo);
    device->memo = NULL;
}

enum {
    MOST_AHEAD = 8 /* kernels of a call */
};

struct ahead_job {
    gram_context g;
    const struct cuda_device *device;
    const struct jit_request *request;
};

static void *make_ahead(void *arg)
{
    struct ahead_job *job = arg;
    bool entered = gram_cuda_enter(job->device);
    CUfunction function;

    (void)gram_jit_process_kernel(&job->g, job->device, job->request, &function);
    gram_cuda_leave(job->device, entered);
    return NULL;
}

/* True if one of the first count requests compiles the same text: then its code is in the cache. */
static bool is_twin(const struct jit_request *requests, int count)
{
    const struct jit_request *r = &requests[count];

    for (int i = 0; i < count; i++)
        if (strcmp(requests[i].file, r->file) == 0 && strcmp(requests[i].defines, r->defines) == 0)
            return true;
    return false;
}

void gram_jit_ahead(const gram_context *g, const struct cuda_device *device,
                    const struct jit_request *requests, int count)
{
    struct ahead_job jobs[MOST_AHEAD];
    pthread_t thread[MOST_AHEAD];
    int wanted = 0, started = 0;

    for (int i = 0; i < count && wanted < MOST_AHEAD; i++) {
        if (gram_jit_recall(device, requests[i].variant) || is_twin(requests, i))
            continue;
        jobs[wanted++] = (struct ahead_job){
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
            .device = device,
            .request = &requests[i]
        };
    }
    /* The caller makes the first one: it is one of the threads, and the only one if none start. */
    while (started + 1 < wanted &&
           pthread_create(&thread[started], NULL, make_ahead, &jobs[started + 1]) == 0)
        started++;
    if (wanted > 1)
        (void)make_ahead(&jobs[0]);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
}
