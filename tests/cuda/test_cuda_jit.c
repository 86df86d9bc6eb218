/*
 * test_cuda_jit.c - kernels on demand: one compilation a kernel and process, whoever asks
 *
 * NVRTC compiles; a table of functions stands in for the driver.  Without NVRTC: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cache_folder.h"
#include "cuda_stubs.h"
#include "pairwise/pair_params.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum {
    THREADS = 8,
    PATIENCE_MS = 1200000
};

/* ---- The driver ----------------------------------------------------------------------------- */

static struct {
    atomic_int loads;
    atomic_int expected; /* loads that must be under way at once; each waits for the others */
    atomic_int waited_in_vain;
    atomic_int shared; /* what the last function_set has allowed */
} fake;

static CUresult function_set(CUfunction function, CUfunction_attribute which, int value)
{
    (void)function, (void)which;
    atomic_store(&fake.shared, value);
    return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *module, const void *image)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    intptr_t number = atomic_fetch_add(&fake.loads, 1) + 1;
    int waits = 0;

    (void)image;
    while (atomic_load(&fake.loads) < atomic_load(&fake.expected) && waits++ < PATIENCE_MS)
        (void)nanosleep(&moment, NULL);
    if (waits >= PATIENCE_MS)
        atomic_fetch_add(&fake.waited_in_vain, 1);
    *module = (CUmodule)number; // NOLINT(performance-no-int-to-ptr)
    return CUDA_SUCCESS;
}

/* What the thread has launched last. */
static _Thread_local CUfunction launched;
static _Thread_local unsigned launched_shared;

// NOLINTNEXTLINE(readability-function-size): the driver has so many parameters
static CUresult launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                       unsigned threads_y, unsigned threads_z, unsigned shared, CUstream stream,
                       void **arguments, void **extra)
{
    (void)x, (void)y, (void)z, (void)threads_x, (void)threads_y, (void)threads_z;
    (void)stream, (void)arguments, (void)extra;
    launched = function;
    launched_shared = shared;
    return CUDA_SUCCESS;
}

static const struct cuda_driver driver = {
    .context_current = stub_context_current,
    .capture_mode = stub_capture_mode,
    .module_load = module_load,
    .module_function = stub_module_function,
    .function_attribute = stub_function_attribute,
    .function_set = function_set,
    .launch = launch,
};

/* ---- Launches ------------------------------------------------------------------------------- */

/* The kernel of |x - y|^whole. */
static void variant_of(int whole, int tile, struct cuda_variant *v)
{
    static const struct cuda_kernel cdist = {"cdist.cu", "cdist"};

    cuda_variant(v, &cdist,
                 CUDA_OPTIONS({"REAL", cuda_type(GRAM_F32)}, {"IS_DOUBLE", 0}, {"STORED", 0},
                              {"TM", tile}, {"STEP", PAIR_POWER}, {"WHOLE", whole}, {"FRACTION", 0},
                              {"MIX", 0}, {"X_LOAD", 0}, {"Y_LOAD", 0}, {"FUNCTION", 0},
                              {"OUTPUT", 0}, {"BASE", 0}, {"SLOPE", 0}, {"HYPERS", 0},
                              {"LISTED", 0}, {"PACKED", 0}));
}

static gram_status launch_variant(gram_context *g, const struct cuda_variant *v, size_t shared)
{
    const struct cuda_grid grid = {.blocks = 1, .threads = 256, .shared = shared};

    launched = NULL;
    return cuda_launch(g, v, &grid, NULL);
}

struct want {
    int whole; /* makes the variant */
    int device;
    bool debug, no_jit, wrong;
    /* What came */
    gram_status status;
    CUfunction function;
    char message[512];
};

static void *ask(void *arg)
{
    struct want *want = arg;
    struct cuda_device device = {.driver = &driver, .index = want->device, .arch = 80};
    struct cuda_variant v;
    gram_context *g;

    if (gram_context_create(NULL, &g) != GRAM_OK)
        return NULL;
    g->call = "ask";
    g->device = &device;
    g->cache_folder = folder;
    g->debug_jit = want->debug;
    g->no_jit = want->no_jit;
    variant_of(want->whole, want->wrong ? 3 : 2, &v);
    want->status = launch_variant(g, &v, 0);
    want->function = launched;
    if (want->status == GRAM_OK && !cuda_is_loaded(g, &v))
        want->status = GRAM_DEVICE_FAILED;
    memcpy(want->message, gram_message(g), sizeof want->message);
    cuda_forget_kernels(g, &device);
    g->device = NULL;
    gram_context_destroy(g);
    return NULL;
}

/* All at once, a thread each. */
static void ask_all(struct harness *h, struct want *wants, int count)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < count; i++)
        CHECK(h, pthread_create(&thread[i], NULL, ask, &wants[i]) == 0, "pthread_create");
    for (int i = 0; i < count; i++)
        (void)pthread_join(thread[i], NULL);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void one_kernel_for_all_threads(struct harness *h)
{
    struct want wants[THREADS] = {0};
    int before = atomic_load(&fake.loads);

    fresh(h);
    for (int i = 0; i < THREADS; i++)
        wants[i].whole = 6;
    ask_all(h, wants, THREADS);
    CHECK(h, atomic_load(&fake.loads) == before + 1, "%d loads", atomic_load(&fake.loads) - before);
    for (int i = 0; i < THREADS; i++)
        CHECK(h, wants[i].status == GRAM_OK && wants[i].function == wants[0].function, "%d: %s", i,
              wants[i].message);
    clean(h);
}

static void different_kernels_side_by_side(struct harness *h)
{
    struct want wants[] = {{.whole = 2}, {.whole = 7}, {.whole = 3}};

    fresh(h);
    atomic_store(&fake.expected, atomic_load(&fake.loads) + LENGTH(wants));
    ask_all(h, wants, LENGTH(wants));
    CHECK(h, atomic_load(&fake.waited_in_vain) == 0, "one waits for the other");
    for (int i = 0; i < LENGTH(wants); i++)
        CHECK(h, wants[i].status == GRAM_OK, "%s", wants[i].message);
    CHECK(h, wants[0].function != wants[1].function && wants[1].function != wants[2].function,
          "one kernel for two variants");
    clean(h);
}

/* What one call wants is made at once, and is there when its turn comes; one that cannot be made
 * says why then. */
static void kernels_of_one_call(struct harness *h)
{
    static const struct cuda_kernel products = {"matrix_power_step.cu", "matrix_power_combine"},
                                    decide = {"matrix_power_step.cu", "matrix_power_decide"},
                                    copy = {"move.cu", "move_matrices"},
                                    sum = {"natural_gradient.cu", "natural_shift"};
    const struct cuda_kernel *const kernels[] = {&products, &copy, &sum, &copy, &decide};
    struct cuda_device device = {.driver = &driver, .index = 3, .arch = 80};
    struct cuda_variant variants[LENGTH(kernels)];
    int loads = atomic_load(&fake.loads) + 3;

    fresh(h);
    h->g->call = "test";
    h->g->cache_folder = folder;
    h->g->device = &device;
    for (int i = 0; i < LENGTH(kernels); i++)
        cuda_variant(&variants[i], kernels[i], CUDA_OPTIONS({"REAL", cuda_type(GRAM_F32)}));
    cuda_option(&variants[3], "REAL", 1); /* float,1 is no type */
    /* the last one is of the first one's file: it is left to the cache */
    atomic_store(&fake.expected, loads);
    cuda_load_ahead(h->g, variants, LENGTH(variants));
    CHECK(h, atomic_load(&fake.waited_in_vain) == 0, "one waits for the other");
    CHECK(h, atomic_load(&fake.loads) == loads, "%d loads", atomic_load(&fake.loads) - loads);
    for (int i = 0; i < 3; i++)
        CHECK(h, launch_variant(h->g, &variants[i], 0) == GRAM_OK && launched, "%s",
              gram_message(h->g));
    CHECK(h, atomic_load(&fake.loads) == loads, "loaded again");
    CHECK(h, launch_variant(h->g, &variants[3], 0) == GRAM_UNSUPPORTED && !launched, "made");
    CHECK(h, strstr(gram_message(h->g), "move.cu"), "%s", gram_message(h->g));
    CHECK(h, launch_variant(h->g, &variants[4], 0) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, atomic_load(&fake.loads) == loads + 1, "two functions of a file are one kernel");
    cuda_load_ahead(h->g, variants, 3); /* all are there */
    CHECK(h, atomic_load(&fake.loads) == loads + 1, "loaded again");
    cuda_forget_kernels(h->g, &device);
    h->g->device = NULL;
    h->g->cache_folder = NULL;
    clean(h);
}

enum {
    KERNELS = 30,
    VARIANTS = 2 * KERNELS, /* more than the first table of a context has room for */
    NAME = 8
};

/* A context finds each of its variants again; what a launch asks of shared memory is allowed once,
 * and never taken back. */
static void many_variants_of_a_context(struct harness *h)
{
    struct cuda_device device = {.driver = &driver, .index = 4, .arch = 80};
    struct cuda_kernel kernels[KERNELS];
    char names[KERNELS][NAME];
    CUfunction found[VARIANTS];
    struct cuda_variant v;
    int loads;

    fresh(h);
    h->g->call = "test";
    h->g->cache_folder = folder;
    h->g->device = &device;
    for (int i = 0; i < KERNELS; i++) {
        snprintf(names[i], NAME, "k%d", i); /* functions of one file: its code is compiled once */
        kernels[i] = (struct cuda_kernel){"move.cu", names[i]};
    }
    for (int round = 0; round < 2; round++) {
        loads = atomic_load(&fake.loads);
        for (int i = 0; i < VARIANTS; i++) {
            cuda_variant(&v, &kernels[i / 2],
                         CUDA_OPTIONS({"REAL", cuda_type(i % 2 ? GRAM_F64 : GRAM_F32)}));
            CHECK(h, cuda_is_loaded(h->g, &v) == (round > 0), "variant %d", i);
            CHECK(h, launch_variant(h->g, &v, (size_t)i) == GRAM_OK, "%s", gram_message(h->g));
            CHECK(h, launched_shared == (unsigned)i, "%u bytes", launched_shared);
            CHECK(h, round == 0 || launched == found[i], "variant %d is another kernel", i);
            found[i] = launched;
        }
        CHECK(h, atomic_load(&fake.loads) - loads == (round > 0 ? 0 : VARIANTS), "%d loads",
              atomic_load(&fake.loads) - loads);
    }
    CHECK(h, atomic_load(&fake.shared) == VARIANTS - 1, "%d", atomic_load(&fake.shared));
    CHECK(h, launch_variant(h->g, &v, 3) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, launched_shared == 3 && atomic_load(&fake.shared) == VARIANTS - 1,
          "the limit of shared memory is taken back");
    cuda_forget_kernels(h->g, &device);
    h->g->device = NULL;
    h->g->cache_folder = NULL;
    clean(h);
}

static int written; /* how often code has been written */

static char *write_code(const void *of)
{
    char *text = malloc(NAME);

    written++;
    if (text)
        snprintf(text, NAME, "/*%c*/", *(const char *)of);
    return text;
}

/* Code of a variant's own is written at its first launch alone, and what it is tells variants
 * apart. */
static void code_of_its_own(struct harness *h)
{
    static const struct cuda_kernel copy = {"move.cu", "move_matrices"};
    static const char identities[2][8] = {"aaaaaaa", "bbbbbbb"};
    struct cuda_device device = {.driver = &driver, .index = 5, .arch = 80};
    CUfunction found[2] = {NULL, NULL};
    struct cuda_variant v;

    fresh(h);
    h->g->call = "test";
    h->g->cache_folder = folder;
    h->g->device = &device;
    for (int i = 0; i < 4; i++) {
        const struct cuda_code code = {.name = "own.cuh",
                                       .identity = identities[i % 2],
                                       .identity_bytes = sizeof identities[0],
                                       .write = write_code,
                                       .of = identities[i % 2]};
        cuda_variant(&v, &copy, CUDA_OPTIONS({"REAL", cuda_type(GRAM_F32)}));
        v.code = &code;
        CHECK(h, launch_variant(h->g, &v, 0) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, i < 2 || launched == found[i % 2], "launch %d takes another kernel", i);
        found[i % 2] = launched;
    }
    CHECK(h, found[0] != found[1], "two codes are one kernel");
    CHECK(h, written == 2, "code is written %d times", written);
    v.code = NULL;
    CHECK(h, !cuda_is_loaded(h->g, &v), "without its code it is the same");
    cuda_forget_kernels(h->g, &device);
    h->g->device = NULL;
    h->g->cache_folder = NULL;
    clean(h);
}

/* All threads are told of the error; later ones may try again. */
static void a_failure_is_everybodys(struct harness *h)
{
    struct want wants[THREADS] = {0}, again = {.wrong = true, .whole = 1};
    int before = atomic_load(&fake.loads);

    fresh(h);
    for (int i = 0; i < THREADS; i++)
        wants[i] = again;
    ask_all(h, wants, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(h, wants[i].status == GRAM_UNSUPPORTED && strstr(wants[i].message, "TM must be"),
              "%d: %s", i, wants[i].message);
    ask(&again);
    CHECK(h, again.status == GRAM_UNSUPPORTED, "%s", again.message);
    CHECK(h, atomic_load(&fake.loads) == before, "something was loaded");
    CHECK(h, rmdir(folder) == 0, "something was kept");
}

/* GRAM_JIT=off: what the cache has is used, nothing is compiled. */
static void without_a_compiler(struct harness *h)
{
    struct want off = {.whole = 4, .device = 1, .no_jit = true}, on = {.whole = 4, .device = 2},
                debug = {.whole = 4, .device = 2, .debug = true};

    fresh(h);
    ask(&off);
    CHECK(h, off.status == GRAM_UNSUPPORTED && strstr(off.message, "GRAM_JIT is off"), "%s",
          off.message);
    ask(&on);
    CHECK(h, on.status == GRAM_OK, "%s", on.message);
    ask(&off);
    CHECK(h, off.status == GRAM_OK && off.function != on.function, "%s", off.message);
    debug.no_jit = true;
    ask(&debug);
    CHECK(h, debug.status == GRAM_UNSUPPORTED && strstr(debug.message, "--device-debug"), "%s",
          debug.message);
    debug.no_jit = false;
    ask(&debug);
    CHECK(h, debug.status == GRAM_OK && debug.function != on.function, "%s", debug.message);
    clean(h);
}

/* What happened is told: asked, compiled, loaded, with registers, shared memory and spills. */
static void the_log(struct harness *h)
{
    static const char *const words[] = {"kernel compiled, ", "cdist.cu", "registers", "spill",
                                        "bytes of shared",   " ms: ",    "-DTM="};
    char text[16384] = "", path[] = "/tmp/gram-log-XXXXXX";
    struct want want = {.whole = 5};
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    ssize_t size = 0;

    fresh(h);
    if (CHECK(h, file >= 0 && before >= 0 && dup2(file, STDERR_FILENO) >= 0, "no file")) {
        setenv("GRAM_LOG", "debug", 1);
        ask(&want);
        unsetenv("GRAM_LOG");
        (void)dup2(before, STDERR_FILENO);
        size = pread(file, text, sizeof text - 1, 0);
    }
    CHECK(h, want.status == GRAM_OK && size > 0, "%s", want.message);
    for (int i = 0; i < LENGTH(words); i++)
        CHECK(h, strstr(text, words[i]), "\"%s\" is not in the log:\n%s", words[i], text);
    (void)close(file);
    (void)close(before);
    (void)unlink(path);
    clean(h);
}

static CUresult error_name(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "ANOTHER";
    return CUDA_SUCCESS;
}

/* After a fault of the device a context refuses further work; after other errors it goes on. */
static void a_fault_is_the_end_of_a_context(struct harness *h)
{
    static const struct cuda_driver faulty = {.error_name = error_name, .error_string = error_name};
    float number = 1, distance = 0;
    gram_tensor x = gram_matrix(&number, 1, 1, GRAM_F32),
                out = gram_matrix(&distance, 1, 1, GRAM_F32);
    const char *message = gram_message(h->g);

    h->g->call = "test";
    CHECK(h, gram_cuda_check(h->g, &faulty, CUDA_SUCCESS, "cuX") == GRAM_OK, "%s", message);
    CHECK(h, gram_cuda_check(h->g, &faulty, CUDA_ERROR_OUT_OF_MEMORY, "cuX") == GRAM_OUT_OF_MEMORY,
          "%s", message);
    CHECK(h,
          gram_cuda_check(h->g, &faulty, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "cuX") ==
              GRAM_DEVICE_FAILED,
          "%s", message);
    CHECK(h, gram_cdist(h->g, &x, NULL, gram_number(1), NULL, &out) == GRAM_OK, "%s", message);
    CHECK(h,
          gram_cuda_check(h->g, &faulty, CUDA_ERROR_ILLEGAL_ADDRESS, "cuX") == GRAM_DEVICE_FAILED,
          "%s", message);
    distance = 7;
    CHECK(h, gram_cdist(h->g, &x, NULL, gram_number(1), NULL, &out) == GRAM_DEVICE_FAILED, "%s",
          message);
    CHECK(h,
          strstr(message,
                 "gram_cdist: CUDA device 0 failed: cuX failed with error 700, "
                 "CUDA_ERROR_ILLEGAL_ADDRESS"),
          "%s", message);
    CHECK(h, distance == 7, "something was written");
    CHECK(h, gram_context_synchronize(h->g) == GRAM_DEVICE_FAILED, "%s", message);
    h->g->fault[0] = '\0';
}

static const struct test_function tests[] = {
    {"a_fault_is_the_end_of_a_context", a_fault_is_the_end_of_a_context},
    {     "one_kernel_for_all_threads",      one_kernel_for_all_threads},
    { "different_kernels_side_by_side",  different_kernels_side_by_side},
    {            "kernels_of_one_call",             kernels_of_one_call},
    {     "many_variants_of_a_context",      many_variants_of_a_context},
    {                "code_of_its_own",                 code_of_its_own},
    {        "a_failure_is_everybodys",         a_failure_is_everybodys},
    {             "without_a_compiler",              without_a_compiler},
    {                        "the_log",                         the_log},
};

int main(void)
{
    if (stub_compiler_is_missing())
        return 77;
    return harness_run_tests(tests, LENGTH(tests));
}
