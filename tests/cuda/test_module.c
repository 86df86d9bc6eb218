/*
 * test_module.c - device code of the caller: the example of docs/guide/gpu.md, and what goes wrong
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t one[] = {1, 1, 1};

/* ---- Without a device ------------------------------------------------------------------------ */

static void refused(struct harness *h, const gram_module_options *options, const char *source,
                    gram_status status, const char *part)
{
    gram_module *module = (gram_module *)h;
    gram_status got = gram_module_compile(h->g, source, options, &module);

    CHECK(h, got == status && !module && strstr(gram_message(h->g), part), "%s: %s",
          gram_status_name(got), gram_message(h->g));
}

static const char long_name[] =
    "01234567890123456789012345678901234567890123456789012345678901234.cu"; /* 68 bytes */

static void on_the_cpu(struct harness *h)
{
    static const char *const names[] = {"", "a b", "../x.cu", "\n", long_name};
    static const char *const bad[] = {"-I/tmp", "-DA -std=c++11", "--gpu-architecture=sm_80",
                                      "-DA\n-DB", "x"};
    gram_module_options o = GRAM_MODULE_OPTIONS_INIT;
    char many[600];

    gram_module_destroy(NULL);
    refused(h, NULL, "", GRAM_UNSUPPORTED,
            "gram_module_compile: a context on the CPU cannot compile a module");
    refused(h, NULL, NULL, GRAM_INVALID_ARGUMENT, "source is NULL");
    CHECK(h, gram_module_compile(h->g, "", NULL, NULL) == GRAM_INVALID_ARGUMENT, "out");
    for (int i = 0; i < LENGTH(names); i++) {
        o.name = names[i];
        refused(h, &o, "", GRAM_INVALID_ARGUMENT, "expected 1 to 64 letters, digits, _ . and -");
    }
    o.name = "-ok_.cu";
    for (int i = 0; i < LENGTH(bad); i++) {
        o.options = bad[i];
        refused(h, &o, "", GRAM_INVALID_ARGUMENT, "expected -D, -U, --use_fast_math");
    }
    o.options = " -DA=1  -UB --use_fast_math --fmad=false --maxrregcount=32 ";
    refused(h, &o, "", GRAM_UNSUPPORTED, "a context on the CPU cannot compile a module");
    memset(many, ' ', sizeof many);
    o.options = many;
    many[512] = '\0';
    refused(h, &o, "", GRAM_INVALID_ARGUMENT, "options.options has 512 bytes or more");
    many[511] = '\0';
    refused(h, &o, "", GRAM_UNSUPPORTED, "a context on the CPU cannot compile a module");
    for (int i = 0; i < 25; i++)
        memcpy(many + 4 * i, "-DA ", 4);
    refused(h, &o, "", GRAM_INVALID_ARGUMENT, "more than 24 options");
    o.size = 3;
    refused(h, &o, "", GRAM_INVALID_ARGUMENT, "size");
}

/* ---- With a device --------------------------------------------------------------------------- */

static gram_module *module_of(struct harness *h, gram_context *g, const char *source,
                              const char *name, const char *options)
{
    gram_module_options o = GRAM_MODULE_OPTIONS_INIT;
    gram_module *module = NULL;

    o.name = name, o.options = options;
    CHECK(h, gram_module_compile(g, source, &o, &module) == GRAM_OK, "%s", gram_message(g));
    return module;
}

/* The first ```cuda block of docs/guide/gpu.md, for free(). */
static char *documented_source(void)
{
    const char *folder = getenv("GRAM_SOURCE_DIR");
    char path[4096], *text = calloc(1, 1 << 16), *begin, *end;
    FILE *file;

    snprintf(path, sizeof path, "%s/docs/guide/gpu.md", folder ? folder : ".");
    file = fopen(path, "rb");
    if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    begin = strstr(text, "```cuda\n");
    end = begin ? strstr(begin + 8, "```") : NULL;
    if (end) {
        memmove(text, begin + 8, (size_t)(end - begin - 8));
        text[end - begin - 8] = '\0';
    }
    return text;
}

static void the_documented_example(struct harness *h)
{
    enum {
        ROWS = 50,
        COLS = 300
    };
    gram_context *g = test_cuda_context(h, NULL);
    char *source = documented_source();
    gram_module *module = g ? module_of(h, g, source, "standardise.cu", "-DSCALE=2.0f") : NULL;
    float host[ROWS * COLS], *x = device_allocate(sizeof host);
    int64_t rows = ROWS, cols = COLS;
    const int64_t grid[] = {(COLS + 127) / 128, 1, 1}, block[] = {128, 1, 1};
    void *arguments[] = {&x, &rows, &cols};

    for (int i = 0; i < ROWS * COLS; i++)
        host[i] = (float)test_uniform(h);
    if (module && CHECK(h, x && device_upload(x, host, sizeof host), "no memory")) {
        CHECK(h,
              gram_kernel_launch(module, "standardise", grid, block, 0, arguments) == GRAM_OK &&
                  gram_context_synchronize(g) == GRAM_OK && device_download(host, x, sizeof host),
              "%s", gram_message(g));
        for (int j = 0; j < COLS; j++) {
            double mean = 0, square = 0;
            for (int i = 0; i < ROWS; i++) {
                mean += (double)host[i * COLS + j] / ROWS;
                square += (double)host[i * COLS + j] * (double)host[i * COLS + j] / ROWS;
            }
            CHECK(h, fabs(mean) < 1e-5 && fabs(square - 4) < 1e-4, "column %d: %g, %g", j, mean,
                  square);
        }
    }
    gram_module_destroy(module);
    gram_context_destroy(g);
    device_release(x);
    free(source);
}

static const char *const adding =
    "extern \"C\" __global__ void add(float *to, float a)\n"
    "{\n    to[0] += a * FACTOR;\n}\n"
    "extern \"C\" __global__ void twice(float *to)\n"
    "{\n    to[0] *= 2;\n}\n";

/* Two modules of one name, of different options, and two kernels of one module. */
static void modules_side_by_side(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_module *a = g ? module_of(h, g, adding, NULL, "-DFACTOR=1") : NULL;
    gram_module *b = g ? module_of(h, g, adding, NULL, "-DFACTOR=10") : NULL;
    float value = 1, *x = device_allocate(sizeof *x), add = 3;
    void *arguments[] = {&x, &add};

    if (a && b && CHECK(h, x && device_upload(x, &value, sizeof value), "no memory")) {
        for (int i = 0; i < 2; i++) { /* ((1 + 3) * 2 + 30): 38, then 112 */
            CHECK(h,
                  gram_kernel_launch(a, "add", one, one, 0, arguments) == GRAM_OK &&
                      gram_kernel_launch(a, "twice", one, one, 0, arguments) == GRAM_OK &&
                      gram_kernel_launch(b, "add", one, one, 0, arguments) == GRAM_OK,
                  "%s", gram_message(g));
        }
        CHECK(h,
              gram_context_synchronize(g) == GRAM_OK && device_download(&value, x, sizeof value) &&
                  value == 112,
              "%g: %s", (double)value, gram_message(g));
    }
    gram_module_destroy(a);
    gram_module_destroy(b);
    gram_context_destroy(g);
    device_release(x);
}

struct captured {
    gram_module *module;
    float *x;
};

static bool add_one(void *arg)
{
    struct captured *c = arg;
    float add = 1;
    void *arguments[] = {&c->x, &add};

    return gram_kernel_launch(c->module, "add", one, one, 0, arguments) == GRAM_OK;
}

/* The first launch of a kernel, too, can be captured. */
static void a_launch_is_captured(struct harness *h)
{
    void *stream = device_stream();
    gram_context *g = test_cuda_context(h, stream);
    struct captured c = {g ? module_of(h, g, adding, "graph.cu", "-DFACTOR=1") : NULL,
                         device_allocate(sizeof(float))};
    float value = 0;

    if (c.module && CHECK(h, c.x && device_upload(c.x, &value, sizeof value), "no memory"))
        CHECK(h,
              device_replay(stream, 5, add_one, &c) && device_download(&value, c.x, sizeof value) &&
                  value == 5,
              "%g: %s", (double)value, gram_message(g));
    gram_module_destroy(c.module);
    gram_context_destroy(g);
    device_release(c.x);
}

static const char *const reversing =
    "extern __shared__ int room[];\n"
    "extern \"C\" __global__ void reverse(int *x, int n)\n"
    "{\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x)\n"
    "        room[i] = x[i];\n"
    "    __syncthreads();\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x)\n"
    "        x[i] = room[n - 1 - i];\n"
    "}\n";

/* Dynamic shared memory, more than 48 KiB of it, and more than there is. */
static void shared_memory(struct harness *h)
{
    enum {
        N = 15000 /* 60000 bytes */
    };
    gram_context *g = test_cuda_context(h, NULL);
    gram_module *module = g ? module_of(h, g, reversing, NULL, NULL) : NULL;
    static int host[N];
    int *x = device_allocate(sizeof host), n = N;
    const int64_t block[] = {64, 2, 1};
    const int64_t threads[] = {128, 1, 1};
    void *arguments[] = {&x, &n};

    for (int i = 0; i < N; i++)
        host[i] = i;
    if (module && CHECK(h, x && device_upload(x, host, sizeof host), "no memory")) {
        CHECK(h,
              gram_kernel_launch(module, "reverse", one, threads, sizeof host, arguments) ==
                      GRAM_OK &&
                  gram_context_synchronize(g) == GRAM_OK && device_download(host, x, sizeof host),
              "%s", gram_message(g));
        for (int i = 0; i < N; i++)
            CHECK(h, host[i] == N - 1 - i, "[%d] is %d", i, host[i]);
        CHECK(h,
              gram_kernel_launch(module, "reverse", one, block, 1 << 24, arguments) ==
                      GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(g),
                         "shared_bytes is 16777216, which is more than CUDA "
                         "device 0 has"),
              "%s", gram_message(g));
    }
    gram_module_destroy(module);
    gram_context_destroy(g);
    device_release(x);
}

static void what_is_refused(struct harness *h)
{
    static const struct {
        int64_t grid[3], block[3];
        const char *part;
    } sizes[] = {
        {    {0, 1, 1},   {1, 1, 1},               "grid[0] is 0, expected 1 to 2147483647"},
        {{1, 65536, 1},   {1, 1, 1},                "grid[1] is 65536, expected 1 to 65535"},
        {    {1, 1, 1},  {1, 1, 65},                     "block[2] is 65, expected 1 to 64"},
        {    {1, 1, 1}, {33, 32, 1}, "block is 33 by 32 by 1, expected at most 1024 in all"},
        {   {1, 1, -1},   {1, 1, 1},                   "grid[2] is -1, expected 1 to 65535"},
    };
    gram_context *g = test_cuda_context(h, NULL);
    gram_module *module = g ? module_of(h, g, adding, NULL, "-DFACTOR=1") : NULL, *none = NULL;
    gram_module_options o = GRAM_MODULE_OPTIONS_INIT;
    char name[129];

    for (int i = 0; module && i < LENGTH(sizes); i++)
        CHECK(h,
              gram_kernel_launch(module, "add", sizes[i].grid, sizes[i].block, 0, NULL) ==
                      GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(g), sizes[i].part),
              "%s", gram_message(g));
    if (module) {
        CHECK(h,
              gram_kernel_launch(module, "subtract", one, one, 0, NULL) == GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(g),
                         "kernel is \"subtract\", expected a function of the "
                         "module that is declared extern \"C\" __global__"),
              "%s", gram_message(g));
        CHECK(h,
              gram_kernel_launch(module, NULL, one, one, 0, NULL) == GRAM_INVALID_ARGUMENT &&
                  gram_kernel_launch(module, "add", NULL, one, 0, NULL) == GRAM_INVALID_ARGUMENT,
              "NULL was accepted");
        memset(name, 'a', 128);
        name[128] = '\0';
        CHECK(h,
              gram_kernel_launch(module, name, one, one, 0, NULL) == GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(g), "kernel is a name of 128 bytes or more"),
              "%s", gram_message(g));
    }
    o.name = "wrong.cu";
    CHECK(h,
          g &&
              gram_module_compile(g, "\nint x = nothing_of_this_name;\n", &o, &none) ==
                  GRAM_UNSUPPORTED &&
              !none && strstr(gram_message(g), "wrong.cu") &&
              strstr(gram_message(g), "nothing_of_this_name"),
          "%s", gram_message(g));
    gram_module_destroy(module);
    gram_context_destroy(g);
}

struct counted {
    int count;
};

static void count_entry(void *user, const gram_cache_entry *entry)
{
    struct counted *c = user;

    c->count += strcmp(entry->kernel, "counted.cu") == 0;
}

/* The second module of the same source and options is not compiled: in a cache that no other test
 * writes to. */
static void modules_come_from_the_cache(struct harness *h)
{
    static const char *const files[] = {"kernels-1.db", "kernels-1.db-wal", "kernels-1.db-shm"};
    const char *before = getenv("GRAM_CACHE_DIR");
    char folder[] = "/tmp/gram-module-XXXXXX", path[64], *kept;
    struct counted c = {0};
    gram_context *g;

    if (!CHECK(h, mkdtemp(folder), "mkdtemp"))
        return;
    kept = before ? strdup(before) : NULL;
    setenv("GRAM_CACHE_DIR", folder, 1);
    g = test_cuda_context(h, NULL);
    for (int i = 0; g && i < 3; i++)
        gram_module_destroy(module_of(h, g, adding, "counted.cu", i ? "-DFACTOR=2" : "-DFACTOR=1"));
    CHECK(h, g && gram_cache_list(g, count_entry, &c) == GRAM_OK && c.count == 2, "%d: %s", c.count,
          gram_message(g));
    gram_context_destroy(g);
    if (kept)
        setenv("GRAM_CACHE_DIR", kept, 1);
    else
        unsetenv("GRAM_CACHE_DIR");
    free(kept);
    for (int i = 0; i < LENGTH(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    CHECK(h, rmdir(folder) == 0, "%s is not empty", folder);
}

static const struct test_function tests[] = {
    {                 "on_the_cpu",                  on_the_cpu},
    {     "the_documented_example",      the_documented_example},
    {       "modules_side_by_side",        modules_side_by_side},
    {       "a_launch_is_captured",        a_launch_is_captured},
    {              "shared_memory",               shared_memory},
    {            "what_is_refused",             what_is_refused},
    {"modules_come_from_the_cache", modules_come_from_the_cache},
};

int main(void)
{
    bool device = gram_best_device().type == GRAM_CUDA && device_open(0);

    if (!device)
        printf("no CUDA device: %d tests are skipped\n", LENGTH(tests) - 1);
    return harness_run_tests(tests, device ? LENGTH(tests) : 1);
}
