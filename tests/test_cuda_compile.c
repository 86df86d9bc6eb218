/*
 * test_cuda_compile.c - every kind of kernel compiles for every chip, without a device
 *
 * NVRTC needs none.  A kernel that spills registers to memory is a failure; so is one that two
 * blocks of do not fit a multiprocessor, which its launch bounds make a spill.  Without NVRTC:
 * skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/cuda_cdist_grad.h"
#include "harness.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

static const char *const chips[] = {"sm_80", "sm_90", "sm_90a", "sm_100"};

/* A problem that makes its kernel; the rest as in a large row-major one of f32. */
struct row {
    double p;
    int64_t rows;
    gram_dtype dtype;
    gram_inner inner;
    gram_function function;
    gram_kernel_output output;
    int layout;         /* 0: aligned rows; 1: rows; 2: columns */
    bool root, tensors; /* tensors: the bandwidth is one */
    bool everywhere;    /* for all chips */
};

/* clang-format off */
static const struct row problems[] = {
    {.p = 0, .rows = 9999}, {.p = 0.5, .root = true, .rows = 9999}, {.p = 1, .rows = 9999, .everywhere = true},
    {.p = 1.5, .root = true, .rows = 9999}, {.p = 2, .root = true, .rows = 9999, .everywhere = true},
    {.p = 3, .root = true, .rows = 9999}, {.p = 15, .root = true, .rows = 9999},
    {.p = 0.7, .root = true, .rows = 9999}, {.p = 1.3, .root = true, .rows = 9999, .everywhere = true},
    {.p = 7.7, .root = true, .rows = 9999}, {.p = 17.5, .root = true, .rows = 9999},
    {.p = (double)__builtin_inff(), .rows = 9999},
    {.p = 1, .layout = 1, .rows = 9999}, {.p = 1, .layout = 2, .rows = 9999},
    {.p = 1.3, .layout = 2, .root = true, .rows = 9999},
    {.p = 2, .root = true, .rows = 900}, {.p = 2, .root = true, .rows = 9},
    {.dtype = GRAM_F16, .p = 2, .root = true, .rows = 9999}, {.dtype = GRAM_BF16, .p = 1.3, .root = true, .rows = 9999},
    {.dtype = GRAM_F64, .p = 1, .rows = 9999, .everywhere = true}, {.dtype = GRAM_F64, .p = 2, .root = true, .rows = 9999},
    {.dtype = GRAM_F64, .p = 1.3, .root = true, .rows = 9999}, {.dtype = GRAM_F64, .p = 0, .rows = 9999},
    {.dtype = GRAM_F64, .p = 4, .layout = 2, .root = true, .rows = 9999},
    {.p = 1, .function = GRAM_LAPLACE, .rows = 9999},
    {.p = 2, .function = GRAM_GAUSSIAN, .rows = 9999, .everywhere = true},
    {.p = 1.3, .function = GRAM_EXPONENTIAL_POWER, .rows = 9999},
    {.p = 2, .function = GRAM_MATERN32, .rows = 9999}, {.p = 2, .function = GRAM_MATERN52, .rows = 9999},
    {.p = 2, .function = GRAM_RATIONAL_QUADRATIC, .rows = 9999},
    {.inner = GRAM_DOT, .function = GRAM_POLYNOMIAL, .rows = 9999},
    {.inner = GRAM_DOT, .function = GRAM_SIGMOID, .rows = 9999},
    {.inner = GRAM_DOT, .function = GRAM_COSINE, .rows = 9999, .everywhere = true},
    {.inner = GRAM_DOT, .function = GRAM_SIGMOID, .output = GRAM_WEIGHT, .rows = 9999},
    {.p = 1.3, .function = GRAM_EXPONENTIAL_POWER, .output = GRAM_WEIGHT, .rows = 9999},
    {.p = 2, .function = GRAM_MATERN52, .output = GRAM_WEIGHT, .rows = 9999},
    {.p = 2, .function = GRAM_GAUSSIAN, .output = GRAM_BANDWIDTH_DERIVATIVE, .rows = 9999},
    {.p = 2, .function = GRAM_GAUSSIAN, .tensors = true, .rows = 9999},
    {.dtype = GRAM_F64, .p = 1.3, .function = GRAM_EXPONENTIAL_POWER, .tensors = true, .output = GRAM_WEIGHT, .rows = 9999},
    {.dtype = GRAM_F64, .inner = GRAM_DOT, .function = GRAM_COSINE, .rows = 9999},
};
/* clang-format on */

static struct gram_view view_of(gram_dtype dtype, int layout, int64_t rows, int64_t cols)
{
    static _Alignas(16) char memory[16]; /* never read: only its address counts */
    struct gram_view v = {.data = memory, .dtype = dtype, .planes = 1, .rows = rows, .cols = cols};

    v.row_stride = layout == 2 ? 1 : layout == 1 ? cols + 1 : cols;
    v.col_stride = layout == 2 ? rows : 1;
    return v;
}

static void describe(const struct row *row, struct gram_cdist_op *op)
{
    static double number = 1;
    gram_dtype dtype = row->dtype ? row->dtype : GRAM_F32;
    gram_dtype result = dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    *op = (struct gram_cdist_op){
        .batch.count = 1,
        .x = view_of(dtype, row->layout, row->rows, 64),
        .y = view_of(dtype, row->layout, row->rows, 64),
        .out = view_of(result, 0, row->rows, row->rows),
        .inner = row->inner ? row->inner : GRAM_DIFFERENCE,
        .function = row->function,
        .output = row->output,
        .root = row->root,
        .p.value = row->p,
        .outer_power.value = row->function == GRAM_LAPLACE ? 0.5 : 1,
        .bandwidth.value = 1.5,
        .exponent.value = 0.9,
        .alpha.value = 1.1,
        .gamma.value = 1,
        .degree.value = 2.5,
    };
    if (row->tensors)
        op->bandwidth.tensor = (struct gram_view){.data = (char *)&number, .dtype = GRAM_F64};
}

/* Bytes of local memory of the kernel: what a cubin, an ELF file, reserves a thread's stack with.
 * EIATTR 0x1e04..: the frame size is attribute 0x11 of section .nv.info, as words {symbol, bytes}.
 */
static int64_t frame_bytes(const struct jit_code *code)
{
    const Elf64_Ehdr *file = (const void *)code->bytes;
    const Elf64_Shdr *sections = (const void *)(code->bytes + file->e_shoff);
    const char *names = code->bytes + sections[file->e_shstrndx].sh_offset;
    int64_t most = -1;

    for (int i = 0; i < file->e_shnum; i++) {
        const char *at = code->bytes + sections[i].sh_offset, *end = at + sections[i].sh_size;
        if (strcmp(names + sections[i].sh_name, ".nv.info") != 0)
            continue;
        while (at + 4 <= end) { /* format, attribute, size or value, then size bytes */
            uint16_t size;
            uint32_t words[2];
            memcpy(&size, at + 2, sizeof size);
            if (at[0] == 4 && at[1] == 0x11 && size >= sizeof words) {
                memcpy(words, at + 4, sizeof words);
                most = (int64_t)words[1] > most ? (int64_t)words[1] : most;
            }
            at += 4 + (at[0] == 4 ? size : 0);
        }
    }
    return most;
}

static void compile(struct harness *h, const struct cuda_compiler *compiler,
                    const struct jit_request *request, const char *chip)
{
    struct jit_code code;
    int64_t frame;

    h->g->call = "compile";
    if (!CHECK(h, gram_jit_compile(h->g, compiler, request, chip, &code) == GRAM_OK, "%s %s: %s",
               chip, request->defines, gram_message(h->g)))
        return;
    frame = frame_bytes(&code);
    CHECK(h, frame == 0, "%s %s %s: %lld bytes of local memory a thread", chip, request->file,
          request->defines, (long long)frame);
    free(code.bytes);
}

/* The kernel of a problem, and those for tensor cores where they serve it. */
static void compile_pair(struct harness *h, const struct cuda_compiler *compiler,
                         const struct row *row, const char *chip)
{
    const struct cuda_device device = {.arch = strcmp(chip, "sm_90a") == 0 ? 90 : 80};
    struct cuda_cdist_plan plan = {0};
    char defines[CUDA_CDIST_DEFINES];
    struct jit_request request;
    struct gram_cdist_op op;

    describe(row, &op);
    cuda_cdist_plan(&op, 132, &plan);
    request = cuda_cdist_request(&plan, defines);
    compile(h, compiler, &request, chip);
    if (!cuda_cdist_squares(h->g, &plan))
        return;
    for (int k = 0; cuda_cdist_square_request(&device, &plan, k, defines, &request); k++)
        compile(h, compiler, &request, chip);
    cuda_cdist_plan_listed(&plan);
    request = cuda_cdist_request(&plan, defines);
    compile(h, compiler, &request, chip);
}

static const struct cuda_compiler *compiler_or_skip(const struct harness *h)
{
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);

    if (!compiler) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    return compiler;
}

static void every_kernel_compiles(struct harness *h)
{
    const struct cuda_compiler *compiler = compiler_or_skip(h);

    for (int chip = 0; chip < LENGTH(chips); chip++)
        for (int i = 0; i < LENGTH(problems); i++)
            if (problems[i].everywhere || strcmp(chips[chip], "sm_90") == 0)
                compile_pair(h, compiler, &problems[i], chips[chip]);
}

/* ---- Gradients ------------------------------------------------------------------------------ */

struct grad_row {
    double p;
    int64_t outputs;
    gram_dtype dtype;
    int layout;  /* 0: points and features are aligned neighbours; 1: neighbours; 2: centres are */
    bool tensor; /* p is one */
    bool everywhere;
};

/* clang-format off */
static const struct grad_row gradients[] = {
    {.p = 1, .outputs = 1, .everywhere = true}, {.p = 1, .outputs = 1, .layout = 1},
    {.p = 1, .outputs = 1, .layout = 2}, {.p = 1, .outputs = 2}, {.p = 1, .outputs = 4},
    {.p = 1, .outputs = 5, .layout = 2}, {.p = 1, .outputs = 10, .everywhere = true},
    {.p = 1, .outputs = 16, .layout = 1},
    {.p = 1.5, .outputs = 1}, {.p = 1.5, .outputs = 10, .layout = 2},
    {.p = 2, .outputs = 1, .everywhere = true}, {.p = 2, .outputs = 1, .layout = 2},
    {.p = 2, .outputs = 2}, {.p = 2, .outputs = 4}, {.p = 2, .outputs = 16, .layout = 1, .everywhere = true},
    {.p = 3, .outputs = 1}, {.p = 16, .outputs = 10, .layout = 2},
    {.p = 1.3, .outputs = 1, .everywhere = true}, {.p = 1.3, .outputs = 2, .layout = 2},
    {.p = 1.3, .outputs = 10, .everywhere = true}, {.p = 1.3, .outputs = 16},
    {.p = 7.7, .outputs = 1}, {.p = 7.7, .outputs = 10, .layout = 1},
    {.p = 0.7, .outputs = 1}, {.p = 0.7, .outputs = 10, .layout = 2},
    {.p = 17.5, .outputs = 1}, {.p = 1, .tensor = true, .outputs = 10},
    {.dtype = GRAM_F64, .p = 1, .outputs = 1, .everywhere = true}, {.dtype = GRAM_F64, .p = 1, .outputs = 8, .layout = 2},
    {.dtype = GRAM_F64, .p = 2, .outputs = 1}, {.dtype = GRAM_F64, .p = 2, .outputs = 4, .layout = 2},
    {.dtype = GRAM_F64, .p = 1.5, .outputs = 1}, {.dtype = GRAM_F64, .p = 4, .outputs = 2, .layout = 1},
    {.dtype = GRAM_F64, .p = 1.3, .outputs = 1}, {.dtype = GRAM_F64, .p = 1.3, .outputs = 8, .layout = 2},
    {.dtype = GRAM_F64, .p = 1, .tensor = true, .outputs = 3, .layout = 1},
};
/* clang-format on */

/* Neighbours: along the columns, but for layout 2. */
static struct gram_view grad_view(const struct grad_row *row, int64_t rows, int64_t cols)
{
    return view_of(row->dtype ? row->dtype : GRAM_F32, row->layout, rows, cols);
}

static struct gram_view transposed(struct gram_view v)
{
    struct gram_view t = v;

    t.rows = v.cols, t.cols = v.rows;
    t.row_stride = v.col_stride, t.col_stride = v.row_stride;
    return t;
}

static void plan_gradient(const struct grad_row *row, struct cuda_grad_plan *plan)
{
    static double number = 1;
    struct gram_cdist_grad_op op = {
        .batch.count = 1,
        .a = grad_view(row, 10000, 10000),
        .b = transposed(grad_view(row, 10000, 128)),
        .c = grad_view(row, row->outputs, 10000),
        .d = transposed(grad_view(row, 10000, 128)),
        .out = grad_view(row, 128, 10000),
        .p.value = row->p,
    };

    op.out.planes = row->outputs;
    if (row->tensor)
        op.p.tensor = (struct gram_view){.data = (char *)&number, .dtype = GRAM_F64};
    cuda_cdist_grad_plan(&op, false, 132, plan);
}

static void every_gradient_compiles(struct harness *h)
{
    const struct cuda_compiler *compiler = compiler_or_skip(h);

    for (int chip = 0; chip < LENGTH(chips); chip++)
        for (int i = 0; i < LENGTH(gradients); i++) {
            struct cuda_grad_plan plan;
            char defines[CUDA_GRAD_DEFINES];
            struct jit_request request;
            if (!gradients[i].everywhere && strcmp(chips[chip], "sm_90") != 0)
                continue;
            plan_gradient(&gradients[i], &plan);
            request = cuda_cdist_grad_request(&plan, defines);
            compile(h, compiler, &request, chips[chip]);
            if (plan.variant.step != GRAD_SQUARE)
                continue;
            request = cuda_cdist_grad_mean_request(&plan, defines);
            compile(h, compiler, &request, chips[chip]);
        }
}

/* Those whose one parameter is the dtype. */
static void plain_kernels_compile(struct harness *h)
{
    const struct cuda_compiler *compiler = compiler_or_skip(h);

    for (int chip = 0; chip < LENGTH(chips); chip++)
        for (int file = CUDA_VARIANT_PLAIN; file < CUDA_VARIANTS; file++)
            for (int wide = 0; wide < 2; wide++) {
                const struct jit_request request = gram_cuda_plain_request(
                    (enum cuda_variant_file)file, wide ? GRAM_F64 : GRAM_F32);
                compile(h, compiler, &request, chips[chip]);
            }
}

/* Sources that are wrong are told with the compiler's own words. */
static void the_log_reaches_the_message(struct harness *h)
{
    const struct jit_request request = {.file = "cdist.cu", .kernel = "cdist", .defines = "-DTM=3"};
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    struct jit_code code;
    gram_status status;

    h->g->call = "compile";
    status = gram_jit_compile(h->g, compiler, &request, "sm_90", &code);
    CHECK(h, status == GRAM_UNSUPPORTED && !code.bytes, "TM=3 gives %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), "TM must be 8, 4 or 2"), "%s", gram_message(h->g));
}

static void chips_that_are_newer(struct harness *h)
{
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    char chip[32];

    gram_jit_chip(compiler, 90, chip, sizeof chip);
    CHECK(h, strcmp(chip, "sm_90") == 0, "%s", chip);
    gram_jit_chip(compiler, 990, chip, sizeof chip);
    CHECK(h, strncmp(chip, "compute_", 8) == 0 && strcmp(chip, "compute_990") != 0, "%s", chip);
}

static const struct test_function tests[] = {
    {      "every_kernel_compiles",       every_kernel_compiles},
    {    "every_gradient_compiles",     every_gradient_compiles},
    {      "plain_kernels_compile",       plain_kernels_compile},
    {"the_log_reaches_the_message", the_log_reaches_the_message},
    {       "chips_that_are_newer",        chips_that_are_newer},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
