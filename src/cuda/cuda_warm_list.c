/*
 * cuda_warm_list.c - the kernels that gram_cache_warm compiles
 *
 * Those of common problems, as their own plans choose them: distances and kernels, with tensor
 * cores where they serve; the weights and gradients that learning takes; products with Kronecker
 * factors of equal sizes that are powers of two; and all kernels that have
 * little more than a dtype as their parameter: outer products, medians, solves, the machine's rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_warm.h"
#include "eigh/cuda_eigh.h"
#include "kron/cuda_kron_matmul_vjp.h"
#include "linalg/cuda_solve.h"
#include "pairwise/cuda_cdist.h"
#include <assert.h>
#include <string.h>

enum {
    PROCESSORS = 100 /* of the chips whose GPU is not here: decides between tiles only */
};

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

static void add_variant(struct warm_list *list, const struct cuda_variant *v)
{
    char text[CUDA_TEXT_BYTES];
    const struct jit_request request = cuda_variant_request(v, text);

    add(list, &request);
}

/* Never read: only addresses count. */
static _Alignas(16) char memory[16];

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

static void add_common(const gram_context *g, const struct cuda_device *device,
                       struct warm_list *list, const struct common *c, const struct shape *shape)
{
    struct gram_cdist_op op;

    describe(c, shape, &op);
    add_pairs(g, device, list, &op);
}

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

static void add_kron(const struct cuda_device *device, struct warm_list *list,
                     const struct kron *row, gram_dtype dtype)
{
    const int64_t m = 1024;
    struct gram_kron_matmul_op op = {.batch.count = 1, .count = row->count, .alpha.value = 1};
    struct cuda_kron_plan plan;
    struct kron_params params;
    char text[CUDA_TEXT_BYTES];
    struct cuda_variant v;
    int64_t columns = 1;

    for (int i = 0; i < row->count; i++, columns *= row->order)
        op.factor[i] = rows_of(dtype, row->order, row->order);
    op.x = op.y = rows_of(dtype, m, columns);
    cuda_kron_plan(device, &op, 0, &plan);
    for (int i = 0; i < plan.passes; i++) {
        struct jit_request request;
        cuda_kron_params(&plan, NULL, i, &params);
        cuda_kron_variant(&plan, i, &params, &v);
        request = cuda_variant_request(&v, text);
        add(list, &request);
    }
}

/* The gradients of a factor of such an order, the last one and others. */
static void add_kron_gradient(struct warm_list *list, int order, gram_dtype dtype)
{
    char text[CUDA_TEXT_BYTES];
    struct cuda_variant v;
    struct cuda_kron_join j = {.p = order, .q = order};
    struct jit_request request;

    cuda_kron_vjp_choose_tile(dtype, &j);
    for (j.after = 1; j.after <= order; j.after += order - 1) {
        cuda_kron_vjp_gradient_variant(dtype, &j, dtype == GRAM_F64 ? 2 : 4, &v);
        request = cuda_variant_request(&v, text);
        add(list, &request);
    }
}

/* ---- What has little but a dtype ------------------------------------------------------------ */

static void add_plain(struct warm_list *list, gram_dtype dtype)
{
    char text[CUDA_TEXT_BYTES];
    struct jit_request request;
    struct cuda_variant v;

    for (const struct cuda_kernel *kernel = cuda_plain_kernels; kernel->file; kernel++) {
        cuda_variant(&v, kernel, CUDA_OPTIONS({"REAL", cuda_type(dtype)}));
        request = cuda_variant_request(&v, text);
        add(list, &request);
    }
    for (int kernel = SOLVE_SMALL; kernel <= SOLVE_SCAN; kernel++)
        for (int lu = 0; lu < 2; lu++) {
            cuda_solve_variant(kernel, lu, dtype, &v);
            request = cuda_variant_request(&v, text);
            add(list, &request);
        }
    for (int kernel = 0; kernel < EIGH_KERNELS; kernel++)
        if (cuda_eigh_variant(kernel, dtype, &v)) {
            request = cuda_variant_request(&v, text);
            add(list, &request);
        }
}

void cuda_warm_list(const gram_context *g, int arch, struct warm_list *list)
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

bool cuda_warm_list_op(const gram_context *g, int arch, const struct gram_cdist_op *op,
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
