/*
 * test_cuda_tune.c - tiles that were measured: which one wins, where it is kept, what it serves
 *
 * A table of functions stands in for the driver: it is slow for all grids but one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cache_folder.h"
#include "cuda_stubs.h"
#include "tests/core/tuned_choice.h"
#include <sys/stat.h>
#include <time.h>

enum {
    ARCH = 80,
    PROCESSORS = 100,
    FAST_US = 30,
    SLOW_US = 400
};

/* ---- The driver ----------------------------------------------------------------------------- */

static struct {
    unsigned fast;   /* blocks of the grid that is fast */
    unsigned blocks; /* of the last launch */
    int64_t now_ns;  /* launches alone take time */
} fake;

/* Instead of the C library's: what is measured is what the table below takes. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(fake.now_ns / 1000000000),
                             .tv_nsec = (long)(fake.now_ns % 1000000000)};
    return 0;
}

// NOLINTNEXTLINE(readability-function-size): the driver's
static CUresult launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
                       void **arguments, void **extra)
{
    (void)function, (void)y, (void)z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)stream, (void)arguments, (void)extra;
    fake.blocks = x;
    fake.now_ns += 1000L * (x == fake.fast ? FAST_US : SLOW_US);
    return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *module, const void *image)
{
    *module = (CUmodule)(uintptr_t)image; // NOLINT(performance-no-int-to-ptr)
    return CUDA_SUCCESS;
}

static gram_status synchronize(gram_context *g)
{
    (void)g;
    return GRAM_OK;
}

static const struct cuda_driver driver = {
    .launch = launch,
    .capture_mode = stub_capture_mode,
    .module_load = module_load,
    .module_function = stub_module_function,
    .function_attribute = stub_function_attribute,
    .function_set = stub_function_set,
    .pointer_attributes = stub_pointer_attributes,
    .context_current = stub_context_current,
};
static const struct gram_backend backend = {.name = "a table", .synchronize = synchronize};

/* ---- Problems ------------------------------------------------------------------------------- */

static struct cuda_device device;
static const struct gram_backend *cpu;

static void begin(struct harness *h)
{
    fresh(h);
    device = (struct cuda_device){.driver = &driver, .arch = ARCH, .processors = PROCESSORS};
    cpu = h->g->backend;
    h->g->backend = &backend;
    h->g->device = &device;
    h->g->call = "test";
    gram_tuned_forget(h->g);
}

static void end(struct harness *h)
{
    cuda_forget_kernels(h->g, &device);
    gram_tuned_forget(h->g);
    h->g->backend = cpu;
    h->g->device = NULL;
    clean(h);
}

static struct gram_view rows_of(gram_dtype dtype, int64_t rows, int64_t cols)
{
    static _Alignas(16) char memory[16]; /* never read */

    return (struct gram_view){.data = memory,
                              .dtype = dtype,
                              .planes = 1,
                              .rows = rows,
                              .cols = cols,
                              .row_stride = cols,
                              .col_stride = 1};
}

static struct gram_cdist_op problem(gram_dtype dtype, int64_t rows, int64_t depth)
{
    return (struct gram_cdist_op){.batch.count = 1,
                                  .x = rows_of(dtype, rows, depth),
                                  .y = rows_of(dtype, rows, depth),
                                  .out = rows_of(dtype, rows, rows),
                                  .inner = GRAM_DIFFERENCE,
                                  .outer_power.value = 1,
                                  .p.value = 1};
}

/* How many blocks tiles of 16 tm rows and columns make. */
static unsigned blocks_of(int64_t rows, int tm)
{
    int64_t side = (rows + 16L * tm - 1) / (16L * tm);

    return (unsigned)(side * side);
}

/* Whether a call takes tiles of 16 tm. */
static bool takes(struct harness *h, const struct gram_cdist_op *op, int tm)
{
    return cuda_cdist(h->g, op) == GRAM_OK && fake.blocks == blocks_of(op->out.rows, tm);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void the_fastest_is_taken_and_kept(struct harness *h)
{
    const struct gram_cdist_op op = problem(GRAM_F32, 1000, 40), near = problem(GRAM_F32, 1020, 60),
                               far = problem(GRAM_F32, 1100, 40),
                               other = problem(GRAM_F64, 1000, 40);
    gram_tuning result = {.size = sizeof result};
    gram_cache cache = {.size = sizeof cache};
    int64_t removed;

    begin(h);
    CHECK(h, takes(h, &op, 4) && takes(h, &near, 4), "the table has changed: %u blocks",
          fake.blocks);
    fake.fast = blocks_of(1000, 8);
    CHECK(h, cuda_tune(h->g, &op, &result) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, result.tile == 128 && result.table_tile == 64 && result.candidates == 3,
          "%d of %d, the table has %d", result.tile, result.candidates, result.table_tile);
    CHECK(h, result.tile_ms < result.table_ms && result.tile_ms > 0 && result.kept, "%g against %g",
          result.tile_ms, result.table_ms);
    CHECK(h, takes(h, &op, 8) && takes(h, &near, 8), "it is not taken");
    CHECK(h, takes(h, &far, 4) && takes(h, &other, 4), "it is taken for another class");
    gram_tuned_forget(h->g); /* another process */
    CHECK(h, takes(h, &op, 8) && takes(h, &far, 4), "it is not kept");
    gram_jit_cache_info(h->g, &cache);
    CHECK(h, cache.tuned == 1, "%lld are kept", (long long)cache.tuned);
    CHECK(h, gram_jit_cache_clear(h->g, "cdist", &removed) == GRAM_OK && takes(h, &op, 8),
          "gone with kernels");
    CHECK(h, gram_jit_cache_clear(h->g, NULL, &removed) == GRAM_OK && takes(h, &op, 4),
          "it cannot be removed");
    end(h);
}

static void the_table_stays_where_nothing_is_faster(struct harness *h)
{
    const struct gram_cdist_op op = problem(GRAM_F32, 1000, 40);
    gram_tuning result = {.size = sizeof result};

    begin(h);
    fake.fast = blocks_of(1000, 4);
    CHECK(h, cuda_tune(h->g, &op, &result) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, result.tile == 64 && result.tile_ms == result.table_ms, "%d", result.tile);
    CHECK(h, takes(h, &op, 4), "%u blocks", fake.blocks);
    end(h);
}

static void without_a_cache_the_process_keeps_it(struct harness *h)
{
    const struct gram_cdist_op op = problem(GRAM_F32, 1000, 40);
    gram_tuning result = {.size = sizeof result};

    begin(h);
    h->g->cache_folder = "/proc/nowhere";
    fake.fast = blocks_of(1000, 2);
    CHECK(h, cuda_tune(h->g, &op, &result) == GRAM_OK && !result.kept && result.tile == 32,
          "tile %d, kept %d", result.tile, result.kept);
    CHECK(h, takes(h, &op, 2), "%u blocks", fake.blocks);
    gram_tuned_forget(h->g);
    CHECK(h, takes(h, &op, 4), "%u blocks", fake.blocks);
    h->g->cache_folder = folder;
    end(h);
}

/* What stands in the file is not trusted to be a tile of the kernel. */
static void choices_that_are_none(struct harness *h)
{
    static const int wrong[] = {8, 3, -1, 1 << 20};
    const struct gram_cdist_op op = problem(GRAM_F64, 1000, 40);
    gram_tuning result = {.size = sizeof result};

    begin(h);
    fake.fast = blocks_of(1000, 2);
    CHECK(h, cuda_tune(h->g, &op, &result) == GRAM_OK && result.candidates == 2 && takes(h, &op, 2),
          "%d candidates", result.candidates);
    for (int i = 0; i < LENGTH(wrong); i++) {
        tuned_choice(h, wrong[i]);
        CHECK(h, takes(h, &op, 4), "a choice of %d is taken", wrong[i]);
    }
    end(h);
}

static void what_cannot_be_tuned(struct harness *h)
{
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    const struct gram_cdist_op none = problem(GRAM_F32, 0, 40);
    gram_tuning result = {.size = sizeof result}, longer = {.size = sizeof result + 8};
    float numbers[4] = {0, 1, 2, 3}, distances[4];
    gram_tensor x = gram_matrix(numbers, 2, 2, GRAM_F32),
                out = gram_matrix(distances, 2, 2, GRAM_F32);

    CHECK(h, gram_tune(h->g, &x, NULL, &options, &out, &result) == GRAM_UNSUPPORTED, "the CPU");
    CHECK(h, strstr(gram_message(h->g), "gram_tune: "), "%s", gram_message(h->g));
    CHECK(h, gram_tune(h->g, &x, NULL, &options, &out, NULL) == GRAM_INVALID_ARGUMENT, "NULL");
    CHECK(h, gram_tune(h->g, &x, NULL, &options, &out, &longer) == GRAM_INVALID_ARGUMENT, "size");
    CHECK(h, gram_tune(h->g, &x, NULL, NULL, &out, &result) == GRAM_INVALID_ARGUMENT, "options");
    begin(h);
    CHECK(h, cuda_tune(h->g, &none, &result) == GRAM_INVALID_ARGUMENT, "an empty problem");
    CHECK(h, rmdir(folder) == 0 && mkdir(folder, 0700) == 0, "something was kept");
    end(h);
}

static const struct test_function tests[] = {
    {          "the_fastest_is_taken_and_kept",           the_fastest_is_taken_and_kept},
    {"the_table_stays_where_nothing_is_faster", the_table_stays_where_nothing_is_faster},
    {   "without_a_cache_the_process_keeps_it",    without_a_cache_the_process_keeps_it},
    {                  "choices_that_are_none",                   choices_that_are_none},
    {                   "what_cannot_be_tuned",                    what_cannot_be_tuned},
};

int main(void)
{
    if (stub_compiler_is_missing())
        return 77;
    return harness_run_tests(tests, LENGTH(tests));
}
