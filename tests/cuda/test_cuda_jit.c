/*
 * test_cuda_jit.c - kernels on demand: one compilation a kernel and process, whoever asks
 *
 * NVRTC compiles; a table of functions stands in for the driver.  Without NVRTC: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cache_folder.h"
#include "cuda_stubs.h"
#include <math.h>
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
} fake;

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

static const struct cuda_driver driver = {
    .context_current = stub_context_current,
    .capture_mode = stub_capture_mode,
    .module_load = module_load,
    .module_function = stub_module_function,
    .function_attribute = stub_function_attribute,
    .function_set = stub_function_set,
};

/* ---- Requests ------------------------------------------------------------------------------- */

struct want {
    double p; /* makes the variant */
    int device;
    bool debug, no_jit, wrong;
    /* What came */
    gram_status status;
    CUfunction function;
    char message[512];
};

static struct gram_view rows_of(int64_t rows, int64_t cols)
{
    static _Alignas(16) char memory[16]; /* never read */

    return (struct gram_view){.data = memory,
                              .dtype = GRAM_F32,
                              .planes = 1,
                              .rows = rows,
                              .cols = cols,
                              .row_stride = cols,
                              .col_stride = 1};
}

static void *ask(void *arg)
{
    const struct gram_cdist_op op = {.batch.count = 1,
                                     .x = rows_of(9, 4),
                                     .y = rows_of(9, 4),
                                     .out = rows_of(9, 9),
                                     .inner = GRAM_DIFFERENCE,
                                     .outer_power.value = 1,
                                     .p.value = ((struct want *)arg)->p};
    struct want *want = arg;
    struct cuda_device device = {.driver = &driver, .index = want->device, .arch = 80};
    struct cuda_cdist_plan plan = {0};
    char defines[CUDA_CDIST_DEFINES];
    struct jit_request request;
    gram_context *g;

    if (gram_context_create(NULL, &g) != GRAM_OK)
        return NULL;
    g->call = "ask";
    g->cache_folder = folder;
    g->debug_jit = want->debug;
    g->no_jit = want->no_jit;
    cuda_cdist_plan(&op, 1, &plan);
    request = cuda_cdist_request(&plan, defines);
    if (want->wrong)
        request.defines = "-DTM=3", request.variant = 1;
    want->status = gram_jit_kernel(g, &device, &request, &want->function);
    if (want->status == GRAM_OK && gram_jit_recall(&device, request.variant) != want->function)
        want->status = GRAM_DEVICE_FAILED;
    memcpy(want->message, gram_message(g), sizeof want->message);
    gram_jit_forget(g, &device);
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
        wants[i].p = 1;
    ask_all(h, wants, THREADS);
    CHECK(h, atomic_load(&fake.loads) == before + 1, "%d loads", atomic_load(&fake.loads) - before);
    for (int i = 0; i < THREADS; i++)
        CHECK(h, wants[i].status == GRAM_OK && wants[i].function == wants[0].function, "%d: %s", i,
              wants[i].message);
    clean(h);
}

static void different_kernels_side_by_side(struct harness *h)
{
    struct want wants[] = {{.p = 2}, {.p = (double)INFINITY}, {.p = 3}};

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
 * tells why then. */
static void kernels_of_one_call(struct harness *h)
{
    struct cuda_device device = {.driver = &driver, .index = 3, .arch = 80};
    char defines[4][CUDA_ROWS_DEFINES];
    struct jit_request requests[5];
    CUfunction function = NULL;
    int loads = atomic_load(&fake.loads) + 3;

    fresh(h);
    h->g->call = "test";
    h->g->cache_folder = folder;
    for (int i = 0; i < 4; i++)
        requests[i] = cuda_rows_request(i, GRAM_F32, defines[i]);
    requests[3].defines = "-DREAL=nothing";
    requests[4] = requests[0]; /* the same text: it is left to the cache */
    requests[4].variant++;
    atomic_store(&fake.expected, loads);
    gram_jit_ahead(h->g, &device, requests, LENGTH(requests));
    CHECK(h, atomic_load(&fake.waited_in_vain) == 0, "one waits for the other");
    CHECK(h, atomic_load(&fake.loads) == loads, "%d loads", atomic_load(&fake.loads) - loads);
    for (int i = 0; i < 3; i++)
        CHECK(h, gram_jit_kernel(h->g, &device, &requests[i], &function) == GRAM_OK && function,
              "%s", gram_message(h->g));
    CHECK(h, atomic_load(&fake.loads) == loads, "loaded again");
    CHECK(h, gram_jit_kernel(h->g, &device, &requests[3], &function) == GRAM_UNSUPPORTED, "made");
    CHECK(h, strstr(gram_message(h->g), "nothing"), "%s", gram_message(h->g));
    gram_jit_ahead(h->g, &device, requests, 3); /* all are there */
    CHECK(h, atomic_load(&fake.loads) == loads, "loaded again");
    gram_jit_forget(h->g, &device);
    h->g->cache_folder = NULL;
    clean(h);
}

/* All threads are told of the error; later ones may try again. */
static void a_failure_is_everybodys(struct harness *h)
{
    struct want wants[THREADS] = {0}, again = {.wrong = true, .p = 1};
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
    struct want off = {.p = 4, .device = 1, .no_jit = true}, on = {.p = 4, .device = 2},
                debug = {.p = 4, .device = 2, .debug = true};

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
    struct want want = {.p = 5};
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
                 "gram_cdist: CUDA device 0 failed: cuX gave error 700, "
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
