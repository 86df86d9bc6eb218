/*
 * cuda_jobs.h - what test_cuda_compile compiles: a job for every row of cuda_variants.h and chip
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_JOBS_H
#define GRAM_TEST_CUDA_JOBS_H
#include "check/harness/harness.h"
#include "cuda_variants.h"
#include "eigh/cuda_eigh.h"
#include "linalg/cuda_solve.h"
#include <stdlib.h>
#include <string.h>

enum {
    LINE = 1024
};

static const char *const chips[] = {"sm_80",   "sm_86",   "sm_89", "sm_90a",
                                    "sm_100a", "sm_103a", "sm_120"};

enum {
    CHIPS = LENGTH(chips),
    MAIN_CHIP = 3 /* every kernel is compiled for it */
};

/* No fewer than there are. */
static size_t most_jobs(void)
{
    size_t plain = 0;

    while (cuda_plain_kernels[plain].file)
        plain++;
    return CHIPS *
           (8 * LENGTH(problems) + 2 * LENGTH(gradients) + 2 * plain + 96 + LENGTH(kernels));
}

static bool all; /* kernels for all chips */

struct job {
    const char *chip;
    struct jit_request request;
    char defines[CUDA_TEXT_BYTES];
    char name[LINE]; /* of its line in the table */
    gram_status status;
    char message[512];
    int64_t frame, registers;
};

static struct gram_view view_of(gram_dtype dtype, int layout, int64_t rows, int64_t cols)
{
    static _Alignas(16) char memory[16]; /* never read: only its address counts */
    struct gram_view v = {.data = memory, .dtype = dtype, .planes = 1, .rows = rows, .cols = cols};

    v.row_stride = layout == 2 ? 1 : layout == 1 ? cols + 1 : cols;
    v.col_stride = layout == 2 ? rows : 1;
    return v;
}

static void describe(const struct variant_problem *row, struct gram_cdist_op *op)
{
    static double number = 1;
    const gram_dtype dtype = row->dtype ? row->dtype : GRAM_F32;
    const gram_dtype result = dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    const int64_t rows = row->rows ? row->rows : 9999;

    *op = (struct gram_cdist_op){
        .batch.count = 1,
        .x = view_of(dtype, row->layout, rows, 64),
        .y = view_of(dtype, row->layout, rows, 64),
        .out = view_of(result, 0, rows, rows),
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
        .metric.kind = row->metric,
        .condensed = row->condensed,
    };
    if (row->weighted)
        op->metric.weights.data = (char *)&number;
    if (row->tensors)
        op->bandwidth.tensor = (struct gram_view){.data = (char *)&number, .dtype = GRAM_F64};
}

/* Neighbours: along the columns, but for layout 2. */
static struct gram_view grad_view(const struct variant_gradient *row, int64_t rows, int64_t cols)
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

static void plan_gradient(const struct variant_gradient *row, struct cuda_grad_plan *plan)
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

static void name_gradient(struct job *job, const struct variant_gradient *row)
{
    snprintf(job->name, sizeof job->name, "%s %s p=%g outputs=%lld dtype=%d layout=%d tensor=%d",
             job->chip, job->request.kernel, row->p, (long long)row->outputs, (int)row->dtype,
             row->layout, row->tensor);
}

static void job_of_kernel(struct job *job, const struct variant_kernel *row)
{
    job->request =
        (struct jit_request){.file = row->file, .kernel = row->kernel, .defines = row->defines};
    snprintf(job->name, sizeof job->name, "%s %s %s %s", job->chip, row->file, row->kernel,
             row->defines);
}

/* The jobs so far, and the chip for which they are made. */
struct list {
    const gram_context *g;
    struct job *jobs;
    int count, chip;
};

/* A new job, where a row is to be compiled for the list's chip; else NULL. */
static struct job *next_job(struct list *list, int where, const char *only)
{
    struct job *job = &list->jobs[list->count];

    if (only ? strcmp(only, chips[list->chip]) != 0
             : !all && where != CLASS && list->chip != MAIN_CHIP)
        return NULL;
    list->count++;
    job->chip = chips[list->chip];
    return job;
}

static void job_of_variant(struct job *job, const struct cuda_variant *v)
{
    if (job)
        job->request = cuda_variant_request(v, job->defines);
}

static void name_problem(struct job *job, const struct variant_problem *row)
{
    snprintf(job->name, sizeof job->name,
             "%s %s%s p=%g dtype=%d inner=%d function=%d output=%d rows=%lld layout=%d root=%d "
             "tensors=%d",
             job->chip, job->request.kernel,
             strstr(job->request.defines, "-DLISTED=1")   ? " listed"
             : strstr(job->request.defines, "-DPACKED=1") ? " packed"
                                                          : "",
             row->p, (int)row->dtype, (int)row->inner, (int)row->function, (int)row->output,
             (long long)row->rows, row->layout, row->root, row->tensors);
    if (row->metric != GRAM_DISTANCE_MINKOWSKI || row->condensed) {
        const size_t at = strlen(job->name);
        snprintf(job->name + at, sizeof job->name - at, " metric=%d weighted=%d condensed=%d",
                 (int)row->metric, row->weighted, row->condensed);
    }
}

static void list_packed(struct list *list, const struct variant_problem *row,
                        const struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_plan packed = *plan;
    struct job *job = next_job(list, row->where, NULL);
    struct cuda_variant v;

    cuda_cdist_panels_variant(plan, &v);
    job_of_variant(job, &v);
    name_problem(job, row);
    job = next_job(list, row->where, NULL);
    (void)cuda_cdist_plan_packed(&packed);
    cuda_cdist_variant(&packed, &v);
    job_of_variant(job, &v);
    name_problem(job, row);
}

/* The kernel of a problem, and those for tensor cores where they serve its class. */
static void list_problem(struct list *list, const struct variant_problem *row)
{
    struct job *job = next_job(list, row->where, NULL);
    const struct cuda_device device = {.arch = list->chip == MAIN_CHIP ? 90 : 80};
    struct cuda_cdist_plan plan = {0};
    struct gram_cdist_op op;
    struct cuda_variant v;

    if (!job)
        return;
    describe(row, &op);
    cuda_cdist_plan(&op, 132, &plan);
    cuda_cdist_variant(&plan, &v);
    job_of_variant(job, &v);
    name_problem(job, row);
    if (cuda_cdist_packs(list->g, &device, &plan))
        list_packed(list, row, &plan);
    if ((row->where != CLASS && row->dtype != GRAM_F64 && !all) ||
        !cuda_cdist_squares(list->g, &device, &plan))
        return;
    for (int k = 0;; k++) {
        job = &list->jobs[list->count];
        job->chip = chips[list->chip];
        if (!cuda_cdist_square_variant(&device, &plan, k, &v))
            break;
        job_of_variant(job, &v);
        name_problem(job, row);
        list->count++;
    }
    cuda_cdist_plan_listed(&plan);
    cuda_cdist_variant(&plan, &v);
    job_of_variant(job, &v);
    name_problem(job, row);
    list->count++;
}

static void list_gradients(struct list *list)
{
    for (int i = 0; i < LENGTH(gradients); i++) {
        struct job *job = next_job(list, gradients[i].where, NULL);
        struct cuda_grad_plan plan;
        struct cuda_variant v;
        if (!job)
            continue;
        plan_gradient(&gradients[i], &plan);
        cuda_cdist_grad_variant(&plan, &v);
        job_of_variant(job, &v);
        name_gradient(job, &gradients[i]);
    }
}

/* A kernel that has little but a dtype.  Of these, `where` is CLASS only for one of a kind. */
static void list_variant(struct list *list, int where, const struct cuda_variant *v)
{
    struct job *job = next_job(list, where, NULL);
    struct variant_kernel row;

    if (!job)
        return;
    job_of_variant(job, v);
    row =
        (struct variant_kernel){where, job->request.file, job->request.kernel, job->defines, NULL};
    job_of_kernel(job, &row);
}

/* Plain kernels with every type that they are launched with: only move.cu moves integers. */
static void list_plain(struct list *list)
{
    static const gram_dtype types[] = {GRAM_F32, GRAM_F64, GRAM_I32, GRAM_I64};
    struct cuda_variant v;

    for (const struct cuda_kernel *kernel = cuda_plain_kernels; kernel->file; kernel++)
        for (int i = 0; i < (strcmp(kernel->file, "move.cu") == 0 ? 4 : 2); i++) {
            const bool of_class = strcmp(kernel->function, "rows_combine") == 0 && i == 1;
            cuda_variant(&v, kernel, CUDA_OPTIONS({"REAL", cuda_type(types[i])}));
            list_variant(list, of_class ? CLASS : SOME, &v);
        }
}

/* Those that have few options beside it, from their launchers. */
static void list_nearly_plain(struct list *list)
{
    struct cuda_variant v;

    for (int kernel = SOLVE_SMALL; kernel <= SOLVE_SCAN; kernel++)
        for (int kind = 0; kind < 4; kind++) {
            const bool of_class = kind == 3 && (kernel == SOLVE_SMALL || kernel == SOLVE_VERDICT);
            cuda_solve_variant(kernel, kind / 2, kind % 2 ? GRAM_F64 : GRAM_F32, &v);
            list_variant(list, of_class ? CLASS : SOME, &v);
        }
    for (int kernel = 0; kernel < 2 * EIGH_KERNELS; kernel++)
        if (cuda_eigh_variant(kernel / 2, kernel % 2 ? GRAM_F64 : GRAM_F32, &v))
            list_variant(list, SOME, &v);
}

static void list_chip(struct list *list)
{
    for (int i = 0; i < LENGTH(problems); i++)
        list_problem(list, &problems[i]);
    list_gradients(list);
    list_plain(list);
    list_nearly_plain(list);
    for (int i = 0; i < LENGTH(kernels); i++) {
        struct job *job = next_job(list, kernels[i].where, kernels[i].chip);
        if (job)
            job_of_kernel(job, &kernels[i]);
    }
}
#endif
