/*
 * harness_roof_device.c - measures the roof of a GPU, by kernels of its own
 *
 * Work grows until a call takes long against what a launch costs, so that the emulation of CUDA
 * ends as soon as a GPU.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_roof.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* REAL comes from the options.  Each turn of copy and read goes over the memory the other way
 * round, so that no thread finds its own bytes in its cache. */
static const char source[] =
    "struct alignas(16) four { float a, b, c, d; };\n"
    "extern \"C\" __global__ void roof_fma(REAL *out, int turns)\n"
    "{\n"
    "    REAL sum[8], factor = (REAL)0.999, step = (REAL)0.001;\n"
    "    for (int i = 0; i < 8; i++)\n"
    "        sum[i] = step * (REAL)(i + (int)threadIdx.x);\n"
    "    for (int t = 0; t < turns; t++)\n"
    "        for (int i = 0; i < 8; i++)\n"
    "            sum[i] = sum[i] * factor + step;\n"
    "    for (int i = 1; i < 8; i++)\n"
    "        sum[0] += sum[i];\n"
    "    out[blockIdx.x * blockDim.x + threadIdx.x] = sum[0];\n"
    "}\n"
    "extern \"C\" __global__ void roof_copy(four *x, four *y, long long count, int turns)\n"
    "{\n"
    "    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    long long step = (long long)gridDim.x * blockDim.x;\n"
    "    for (int t = 0; t < turns; t++)\n"
    "        for (long long i = first; i < count; i += step) {\n"
    "            if (t % 2)\n"
    "                x[count - 1 - i] = y[count - 1 - i];\n"
    "            else\n"
    "                y[i] = x[i];\n"
    "        }\n"
    "}\n"
    "extern \"C\" __global__ void roof_read(four *x, four *y, long long count, int turns)\n"
    "{\n"
    "    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    long long step = (long long)gridDim.x * blockDim.x;\n"
    "    float sum = 0;\n"
    "    for (int t = 0; t < turns; t++)\n"
    "        for (long long i = first; i < count; i += step) {\n"
    "            four v = x[t % 2 ? count - 1 - i : i];\n"
    "            sum += v.a + v.b + v.c + v.d;\n"
    "        }\n"
    "    if (sum == 1)\n"
    "        y[0].a = sum;\n"
    "}\n";

static const double enough_seconds = 2e-3;
enum {
    THREADS = 256,          /* of a block */
    LEAST_BLOCKS = 16,      /* to begin with */
    MOST_BLOCKS = 4096,     /* several on every multiprocessor of any GPU */
    MOST_TURNS = 1 << 16,   /* of a loop */
    ELEMENT = 16,           /* bytes */
    MOST_BYTES = 512 << 20, /* beyond every cache */
    LEAST_ORDER = 64,
    MOST_ORDER = 8192 /* of matrices */
};

/* A launch and its wait; NaN if it fails. */
static double seconds_of(struct harness *h, gram_module *module, const char *kernel, int64_t blocks,
                         void *const *arguments)
{
    const int64_t grid[3] = {blocks, 1, 1}, block[3] = {THREADS, 1, 1};
    double start = harness_seconds();
    gram_status status = gram_kernel_launch(module, kernel, grid, block, 0, arguments);

    if (status == GRAM_OK)
        status = gram_context_synchronize(h->g);
    return status == GRAM_OK ? harness_seconds() - start : NAN;
}

static double fma_rate(struct harness *h, gram_module *module)
{
    const size_t bytes = (size_t)MOST_BLOCKS * THREADS * sizeof(double);
    double best = 0, seconds = 0;
    int64_t blocks = LEAST_BLOCKS;
    int turns = 64;
    void *out;

    if (gram_memory_allocate(h->g, bytes, &out) != GRAM_OK)
        return 0;
    while (turns < MOST_TURNS && !isnan(seconds) && seconds < enough_seconds) {
        seconds = seconds_of(h, module, "roof_fma", blocks, (void *[]){&out, &turns});
        best = fmax(best, 8.0 * turns * (double)blocks * THREADS / seconds);
        if (blocks < MOST_BLOCKS)
            blocks *= 4;
        else
            turns *= 4;
    }
    gram_memory_free(h->g, out, bytes);
    return best;
}

/* Of a kernel that goes over count elements of x, and where it copies also of y. */
static double byte_rate(struct harness *h, gram_module *module, const char *kernel, void *x,
                        void *y, int64_t count, double bytes)
{
    int64_t blocks = (count + THREADS - 1) / THREADS;
    long long elements = count;
    double best = 0, seconds = 0;

    blocks = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
    for (int turns = 1; turns < MOST_TURNS && !isnan(seconds) && seconds < enough_seconds;
         turns *= 4) {
        seconds = seconds_of(h, module, kernel, blocks, (void *[]){&x, &y, &elements, &turns});
        best = fmax(best, turns * bytes / seconds);
    }
    return best;
}

static double memory_rate(struct harness *h, gram_module *module, double bytes)
{
    double all = bytes > 0 && bytes < MOST_BYTES ? bytes : MOST_BYTES, copied = 0, read = 0;
    int64_t count = (int64_t)(all / 2 / ELEMENT) + 1;
    size_t size = (size_t)(2 * count) * ELEMENT;
    char *memory;

    if (gram_memory_allocate_zeros(h->g, size, (void **)&memory) != GRAM_OK)
        return 0;
    copied = byte_rate(h, module, "roof_copy", memory, memory + size / 2, count, (double)size);
    read = byte_rate(h, module, "roof_read", memory, memory, 2 * count, (double)size);
    gram_memory_free(h->g, memory, size);
    return fmax(copied, read);
}

/* A product of matrices of order n and its wait, after one that compiles; NaN if it fails. */
static double product_seconds(struct harness *h, gram_dtype dtype, int64_t n)
{
    size_t step = (size_t)(n * n) * gram_dtype_size(dtype);
    gram_tensor a = gram_matrix(NULL, n, n, dtype), b, out;
    double seconds = NAN;
    void *memory;

    if (gram_memory_allocate_zeros(h->g, 3 * step, &memory) != GRAM_OK)
        return NAN;
    a.device = h->device;
    b = out = a;
    a.data = memory, b.data = (char *)memory + step, out.data = (char *)memory + 2 * step;
    for (int call = 0; call < 2; call++) {
        double start = harness_seconds();
        gram_status status = gram_matmul_batched(h->g, &a, &b, NULL, &out);
        if (status == GRAM_OK)
            status = gram_context_synchronize(h->g);
        seconds = status == GRAM_OK ? harness_seconds() - start : NAN;
    }
    gram_memory_free(h->g, memory, 3 * step);
    return seconds;
}

/* Of products of square matrices, the larger the faster. */
static double product_rate(struct harness *h, gram_dtype dtype)
{
    double best = 0, seconds = 0;

    for (int64_t n = LEAST_ORDER; n <= MOST_ORDER && seconds < enough_seconds; n *= 2) {
        seconds = product_seconds(h, dtype, n);
        if (isnan(seconds))
            break;
        best = fmax(best, (double)n * (double)n * (double)n / seconds);
    }
    return best;
}

struct roof roof_measure_device(struct harness *h, gram_dtype dtype, double bytes)
{
    gram_module_options options = GRAM_MODULE_OPTIONS_INIT;
    struct roof roof = {0, 0};
    gram_module *module;

    dtype = dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    options.name = "roof.cu";
    options.options = dtype == GRAM_F64 ? "-DREAL=double" : "-DREAL=float";
    if (gram_module_compile(h->g, source, &options, &module) != GRAM_OK) {
        fprintf(stderr, "no roof: %s\n", gram_message(h->g));
        return roof;
    }
    roof.fma = fmax(fma_rate(h, module), product_rate(h, dtype));
    roof.memory = memory_rate(h, module, bytes);
    gram_module_destroy(module);
    return roof;
}
