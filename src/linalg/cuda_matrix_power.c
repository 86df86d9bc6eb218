/*
 * cuda_matrix_power.c - gram_matrix_power on the device: by products, and by eigenvectors
 *
 * A job is a chunk of the batch: every launch and every product is for all of its items.  Matrices
 * in scratch are column-major with leading dimension ld, one item after the other.  Nothing waits:
 * how an item fares is known to the device alone, in its struct power_state.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matrix_power.h"
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "cuda/cusolver.h"
#include "cuda_solve.h"
#include "matrix_power_params.h"
#include <float.h>
#include <limits.h>
#include <math.h>

static const struct cuda_kernel matrix_power_split = {"matrix_power_step.cu", "matrix_power_split"};
static const struct cuda_kernel matrix_power_mirror = {"matrix_power_step.cu",
                                                       "matrix_power_mirror"};
static const struct cuda_kernel matrix_power_begin = {"matrix_power_load.cu", "matrix_power_begin"};
static const struct cuda_kernel matrix_power_verdict = {"matrix_power_load.cu",
                                                        "matrix_power_verdict"};
static const struct cuda_kernel matrix_power_measure = {"matrix_power_load.cu",
                                                        "matrix_power_measure"};
static const struct cuda_kernel matrix_power_load = {"matrix_power_load.cu", "matrix_power_load"};
static const struct cuda_kernel matrix_power_finish = {"matrix_power_load.cu",
                                                       "matrix_power_finish"};
static const struct cuda_kernel matrix_power_store = {"matrix_power_load.cu", "matrix_power_store"};
static const struct cuda_kernel matrix_power_combine = {"matrix_power_step.cu",
                                                        "matrix_power_combine"};
static const struct cuda_kernel matrix_power_decide = {"matrix_power_step.cu",
                                                       "matrix_power_decide"};
static const struct cuda_kernel matrix_power_sum = {"matrix_power_step.cu", "matrix_power_sum"};
static const struct cuda_kernel matrix_power_lanczos_step = {"matrix_power_largest.cu",
                                                             "matrix_power_lanczos_step"};
static const struct cuda_kernel matrix_power_matvec = {"matrix_power_largest.cu",
                                                       "matrix_power_matvec"};
static const struct cuda_kernel matrix_power_bound = {"matrix_power_largest.cu",
                                                      "matrix_power_bound"};
static const struct cuda_kernel matrix_power_values = {"matrix_power_load.cu",
                                                       "matrix_power_values"};
static const struct cuda_kernel matrix_power_columns = {"matrix_power_load.cu",
                                                        "matrix_power_columns"};
static const struct cuda_kernel matrix_power_distance = {"matrix_power_step.cu",
                                                         "matrix_power_distance"};

enum {
    MATRICES = 5,
    HALVES = 4,
    CHUNK_BYTES = 1 << 30,   /* of matrices: enough to fill any device */
    BLOCKS_A_PROCESSOR = 16, /* of a pass over all matrices */
    LOWER_LEAST = 512,       /* the order from which on half of a symmetric product pays */
    LOWER_BLOCKS = 4,        /* 10 of 16 blocks; more are too narrow for cuBLAS's tiles */
    LOWER_ROUND = 64,        /* these tiles' */
    NEWTON_LEAST = 256,      /* the order from which on Newton is faster than eigenvectors */
    NEWTON_STEPS = 40,       /* more than it takes for most_newton_condition */
    RIDGE_OF_ROUNDING = 8,   /* times n eps: twice the largest negative eigenvalue of rounding */
    MOST_ORDER = 30000,      /* n * n items of cuBLAS and cuSOLVER are counted in 32 bits */
    VECTORS = 1              /* cusolverEigMode_t */
};

_Static_assert(POWER_EIGH == GRAM_POWER_EIGH && POWER_NEWTON == GRAM_POWER_COUPLED_NEWTON &&
                   POWER_SCHULZ == GRAM_POWER_NEWTON_SCHULZ && POWER_MINIMAX == GRAM_POWER_MINIMAX,
               "matrix_power_params.h repeats numbers of gram.h");
_Static_assert(POWER_COPY == (int)GRAM_POWER_COPY && POWER_IDENTITY == (int)GRAM_POWER_IDENTITY &&
                   POWER_RIDGE == (int)GRAM_POWER_RIDGE && POWER_FIRST == (int)GRAM_POWER_FIRST &&
                   POWER_STEP == (int)GRAM_POWER_STEP && POWER_LAST == (int)GRAM_POWER_LAST,
               "matrix_power_params.h repeats numbers of matrix_power.h");
_Static_assert((int)POWER_DONE == GRAM_POWER_DONE && POWER_INEXACT == GRAM_POWER_INEXACT &&
                   (int)POWER_NOT_FINITE == GRAM_POWER_NOT_FINITE &&
                   (int)POWER_NOT_DEFINITE == GRAM_POWER_NOT_DEFINITE &&
                   (int)POWER_NOT_CONVERGED == GRAM_POWER_NOT_CONVERGED,
               "matrix_power_params.h repeats numbers of gram.h");

struct power_job {
    struct gram_power_run run; /* of all items of a chunk; the first member */
    gram_context *g;
    struct gram_matrix_power_op chosen; /* the caller's, its method not AUTO */
    const struct gram_matrix_power_op *op;
    gram_dtype work; /* what is computed in */
    int compute;     /* of cuBLAS */
    bool eigh, split;
    bool rough;    /* TF32 where it does little harm */
    int64_t chunk; /* items at a time */
    struct power_steps steps;
    struct power_plan plan;
    /* Scratch of a chunk: all matrices, the libraries' own; the rest is in params. */
    char *matrices;
    void *blas_memory, *solver_memory;
    size_t matrix_bytes;
    size_t solver_bytes, host_bytes; /* cuSOLVER's */
    struct cuda_blas *blas;
    struct cuda_solver *solver;
    void *host;
    struct power_params params; /* of this chunk */
    char *halves[4];            /* of the factors of a product, where it is split */
};

/* ---- The choice ------------------------------------------------------------------------------ */

static const double most_newton_condition = 0x1p24; /* of AUTO's Newton */

/* On these chips f64 is at least half as fast as f32, on most others 1/32 or 1/64 of it. */
static bool has_f64_tensor_cores(int arch)
{
    return arch == 80 || arch == 90 || arch == 100;
}

/* Eigenvectors are always taken in f64, since those of f32 would lose small eigenvalues. */
static void choose_precision(const struct cuda_device *device, struct power_job *job)
{
    gram_power_precision precision = job->op->precision;

    if (job->eigh || job->op->a.dtype == GRAM_F64)
        precision = GRAM_POWER_PRECISION_F64;
    if (precision == GRAM_POWER_PRECISION_AUTO)
        precision = has_f64_tensor_cores(device->arch) ? GRAM_POWER_PRECISION_F64
                                                       : GRAM_POWER_PRECISION_F32;
    job->work = precision == GRAM_POWER_PRECISION_F64 ? GRAM_F64 : GRAM_F32;
    job->compute = job->work == GRAM_F64                      ? CUBLAS_COMPUTE_F64
                   : precision == GRAM_POWER_PRECISION_TF32X3 ? CUBLAS_COMPUTE_TF32
                                                              : CUBLAS_COMPUTE_F32;
    job->split = precision == GRAM_POWER_PRECISION_TF32X3;
    job->rough = precision == GRAM_POWER_PRECISION_TF32;
}

/*
 * Of AUTO: Newton in f64 where a is of f32 and f64 is as fast, from the order on from which it is
 * faster than the eigendecomposition.  Its error, (2 kappa + 16 n) 2^-52, is that of rounding to
 * f32 while kappa is below 2^24, of which a condition has to be known, and negative eigenvalues,
 * which it does not take for 0, have to be made small by the ridge.
 */
static gram_power_method choose_method(const gram_context *g, const struct gram_matrix_power_op *op)
{
    const struct cuda_device *device = g->device;
    const double rounding = RIDGE_OF_ROUNDING * (double)op->a.rows * (double)FLT_EPSILON;
    const bool small = op->factor || op->condition > 0 || op->ridge.value >= rounding;

    if (op->method != GRAM_POWER_AUTO)
        return op->method;
    if (op->a.dtype == GRAM_F32 && op->precision <= GRAM_POWER_PRECISION_F64 &&
        has_f64_tensor_cores(device->arch) && op->a.rows >= NEWTON_LEAST && op->numerator < 0 &&
        op->iterations >= NEWTON_STEPS && small &&
        cuda_power_condition(op, GRAM_F64) <= most_newton_condition)
        return GRAM_POWER_COUPLED_NEWTON;
    return GRAM_POWER_EIGH;
}

/* Shampoo has to know it beforehand, to judge whether a root still fits. */
double cuda_matrix_power_least_ridge(const gram_context *g, const struct gram_matrix_power_op *op)
{
    struct power_job job = {.op = op, .eigh = choose_method(g, op) == GRAM_POWER_EIGH};

    choose_precision(g->device, &job);
    return gram_power_least_ridge(op, job.work);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static gram_status launch_pass(gram_context *g, struct power_job *job,
                               const struct cuda_kernel *kernel)
{
    const struct power_params *p = &job->params;

    return cuda_launch_plain(g, kernel, job->work, p->count * p->parts, POWER_THREADS,
                             &job->params);
}

/* A block for each item, for kernels that work on a few numbers of it. */
static gram_status launch_items(gram_context *g, struct power_job *job,
                                const struct cuda_kernel *kernel, unsigned threads)
{
    return cuda_launch_plain(g, kernel, job->work, job->params.count, threads, &job->params);
}

/* One thread per item. */
static gram_status for_threads(gram_context *g, struct power_job *job,
                               const struct cuda_kernel *kernel)
{
    return cuda_launch_plain(g, kernel, job->work, gram_ceil_div(job->params.count, POWER_THREADS),
                             POWER_THREADS, &job->params);
}

/* Brings A' to scratch, as matrix_power_load.cu describes it. */
static gram_status load(gram_context *g, struct power_job *job, char *to)
{
    job->params.to = to;
    return launch_pass(g, job, &matrix_power_load);
}

/* ---- Products -------------------------------------------------------------------------------- */

static gram_status multiply(gram_context *g, const struct power_job *job, const char *const ab[2],
                            bool transposed, double beta, void *c)
{
    const struct cuda_gemm gemm = {
        .dtype = job->work,
        .compute = job->compute,
        .n = job->params.n,
        .ld = job->params.ld,
        .count = job->params.count,
        .a = ab[0],
        .b = ab[1],
        .transposed_b = transposed,
        .c = c,
        .alpha = 1,
        .beta = beta,
    };

    return gram_cuda_gemm(g, job->blas, &gemm);
}

/* Each number becomes a sum of two that TF32 holds, so that three products are nearly those of
 * f32. */
static gram_status split(gram_context *g, struct power_job *job, const char *from,
                         char *const to[2])
{
    job->params.from = (char *)from;
    job->params.to = to[0];
    job->params.other = to[1];
    return launch_pass(g, job, &matrix_power_split);
}

/* Small products first, so that the sum loses little. */
static gram_status multiply_split(gram_context *g, struct power_job *job, const char *a,
                                  const char *b, char *c)
{
    char *const *left = job->halves, *const *right = a == b ? left : left + 2;

    if (!job->split)
        return multiply(g, job, (const char *[]){a, b}, false, 0, c);
    TRY(split(g, job, a, left));
    if (a != b)
        TRY(split(g, job, b, right));
    TRY(multiply(g, job, (const char *[]){left[1], right[0]}, false, 0, c));
    TRY(multiply(g, job, (const char *[]){left[0], right[1]}, false, 1, c));
    return multiply(g, job, (const char *[]){left[0], right[0]}, false, 1, c);
}

/* c of the two, on and below the diagonal: columns of it, which are half of the whole, and the
 * blocks on the diagonal. */
static gram_status multiply_lower(gram_context *g, const struct power_job *job, const char *a,
                                  const char *b, void *c)
{
    const struct power_params *p = &job->params;
    const int64_t size = (int64_t)gram_dtype_size(job->work), stride = p->n * p->ld;
    const int64_t width = gram_ceil_div(p->n, LOWER_BLOCKS * LOWER_ROUND) * LOWER_ROUND;

    for (int64_t j = 0; j < p->n; j += width) {
        const struct cuda_gemm_items gemm = {
            .dtype = job->work,
            .compute = job->compute,
            .m = p->n - j,
            .n = gram_least(width, p->n - j),
            .k = p->n,
            .count = p->count,
            .a = {        a + j * size, p->ld, stride, false},
            .b = {b + j * p->ld * size, p->ld, stride, false},
            .c = (char *)c + (j + j * p->ld) * size,
            .ldc = p->ld,
            .stride_c = stride,
            .alpha = 1,
        };
        TRY(gram_cuda_gemm_items(g, job->blas, &gemm));
    }
    return GRAM_OK;
}

/* Products on TF32's tensor cores wait for memory, not for arithmetic: whole ones are faster. */
static gram_status multiply_symmetric(gram_context *g, struct power_job *job, const char *a,
                                      const char *b, char *c)
{
    if (job->params.n < LOWER_LEAST || job->compute == CUBLAS_COMPUTE_TF32)
        return multiply_split(g, job, a, b, c);
    TRY(multiply_lower(g, job, a, b, c));
    job->params.to = c;
    return launch_pass(g, job, &matrix_power_mirror);
}

/* a times its own transpose: so X is made of the eigenvectors, scaled. */
static gram_status multiply_square(gram_context *g, struct power_job *job, const char *a, char *c)
{
    return multiply(g, job, (const char *[]){a, a}, true, 0, c);
}

/* ---- The passes ------------------------------------------------------------------------------ */

static struct power_job *job_of(struct gram_power_run *r)
{
    return (struct power_job *)(void *)r;
}

static gram_status combine(struct gram_power_run *r, enum gram_power_numbers what, const char *from,
                           char *to)
{
    struct power_job *job = job_of(r);

    job->params.what = what;
    job->params.from = (char *)from;
    job->params.to = to;
    return launch_pass(job->g, job, &matrix_power_combine);
}

/* The next number of the state, from what is POWER_AFTER_STEP, ... */
static gram_status decide(struct power_job *job, int what)
{
    job->params.what = what;
    return launch_items(job->g, job, &matrix_power_decide, POWER_THREADS);
}

static gram_status multiply_pass(struct gram_power_run *r, const char *a, const char *b, char *c)
{
    return multiply_split(job_of(r)->g, job_of(r), a, b, c);
}

/* Rounding errors do not grow from products made symmetric here: b^(-1/4) of condition 1e4 to 1e12
 * is within 1.2 times the error of whole products. */
static gram_status commute(struct gram_power_run *r, const char *a, const char *b, char *c)
{
    return multiply_symmetric(job_of(r)->g, job_of(r), a, b, c);
}

static gram_status restart(struct gram_power_run *r)
{
    return decide(job_of(r), POWER_RESTART);
}

/* What the products of a step are computed in. */
static gram_status begin_step(struct gram_power_run *r, int step)
{
    struct power_job *job = job_of(r);

    if (job->rough)
        job->compute = step < job->steps.exact ? CUBLAS_COMPUTE_F32 : CUBLAS_COMPUTE_TF32;
    return GRAM_OK;
}

/* W = factor[0] I + factor[1] M + factor[2] M^2. */
static gram_status planned_polynomial(struct power_job *job, const double factor[3])
{
    struct gram_power_matrices *s = &job->run.s;
    const bool square = factor[2] != 0;

    if (square)
        TRY(multiply_symmetric(job->g, job, s->m, s->m, s->t));
    for (int i = 0; i < 3; i++)
        job->params.factor[i] = factor[i];
    job->params.from = s->m;
    job->params.other = square ? s->t : NULL;
    job->params.to = s->w;
    return launch_pass(job->g, job, &matrix_power_sum);
}

static gram_status polynomial(struct gram_power_run *r, int step, const char *from, bool *last)
{
    struct power_job *job = job_of(r);

    *last = step >= (job->plan.steps > 0 ? job->plan.steps : job->steps.all) - 1;
    if (job->plan.steps > 0)
        return planned_polynomial(job, job->plan.factor[step]);
    TRY(combine(r, GRAM_POWER_STEP, from, r->s.w));
    return decide(job, POWER_AFTER_STEP);
}

/* Estimates after the iteration are products of full accuracy again. */
static gram_status end(struct gram_power_run *r)
{
    struct power_job *job = job_of(r);

    if (job->rough)
        job->compute = CUBLAS_COMPUTE_F32;
    return job->plan.steps > 0 ? GRAM_OK : decide(job, POWER_END);
}

static gram_status reload(struct gram_power_run *r)
{
    TRY(load(job_of(r)->g, job_of(r), r->s.b));
    return combine(r, GRAM_POWER_RIDGE, r->s.b, r->s.b);
}

static gram_status distance(struct gram_power_run *r, int which, const char *from, double shift,
                            const char *other)
{
    struct power_job *job = job_of(r);

    job->params.from = (char *)from;
    job->params.shift = shift;
    job->params.other = (char *)other;
    job->params.what = which;
    return launch_pass(job->g, job, &matrix_power_distance);
}

static const struct gram_power_passes passes_here = {
    .combine = combine,
    .multiply = multiply_pass,
    .commute = commute,
    .raise = multiply_pass,
    .restart = restart,
    .begin_step = begin_step,
    .polynomial = polynomial,
    .end = end,
    .reload = reload,
    .distance = distance,
};

/* The largest eigenvalue, the ridge, and what follows from both. */
static gram_status bound(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;

    p->from = job->run.s.b;
    p->turn = 0;
    TRY(launch_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    for (int k = 1; k <= POWER_LANCZOS && k <= p->n; k++) {
        TRY(launch_pass(g, job, &matrix_power_matvec));
        p->turn = k;
        TRY(launch_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    }
    TRY(launch_items(g, job, &matrix_power_bound, 32));
    return combine(&job->run, GRAM_POWER_RIDGE, job->run.s.b, job->run.s.b);
}

static gram_status by_products(gram_context *g, struct power_job *job)
{
    TRY(bound(g, job));
    return gram_power_iterate(&job->run);
}

/* ---- By eigenvectors ------------------------------------------------------------------------- */

/* X = (V f(L)^(1/2)) (V f(L)^(1/2))^T, by cuSOLVER's batched decomposition, always in f64. */
static gram_status count_solver_bytes(gram_context *g, struct power_job *job)
{
    const struct power_params *p = &job->params;
    const struct cuda_cusolver *call;

    TRY(gram_cuda_solver(g, &job->solver));
    call = job->solver->call;
    if (!call->syev_batched_bytes || !call->syev_batched)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "this cuSOLVER does not have XsyevBatched, which came with CUDA 12.6.2: "
                         "choose another options.method");
    return gram_cuda_solver_check(
        g,
        call->syev_batched_bytes(job->solver->handle, job->solver->params, VECTORS, CUSOLVER_LOWER,
                                 p->n, CUSOLVER_F64, job->op->a.data, p->ld, CUSOLVER_F64,
                                 job->op->a.data, CUSOLVER_F64, &job->solver_bytes,
                                 &job->host_bytes, job->chunk),
        "cusolverDnXsyevBatched_bufferSize");
}

static gram_status by_eigenvectors(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;
    const struct cuda_solver *s = job->solver;

    TRY(gram_cuda_solver_check(
        g,
        s->call->syev_batched(s->handle, s->params, VECTORS, CUSOLVER_LOWER, p->n, CUSOLVER_F64,
                              job->run.s.b, p->ld, CUSOLVER_F64, p->values, CUSOLVER_F64,
                              job->solver_memory, job->solver_bytes, job->host, job->host_bytes,
                              (int *)p->codes, p->count),
        "cusolverDnXsyevBatched"));
    TRY(launch_items(g, job, &matrix_power_values, POWER_THREADS));
    p->to = job->run.s.b;
    TRY(launch_pass(g, job, &matrix_power_columns));
    return multiply_square(g, job, job->run.s.b, job->run.s.x);
}

/* ---- The job --------------------------------------------------------------------------------- */

/* Lays out the scratch of a chunk. */
static gram_status lay_out(gram_context *g, struct power_job *job)
{
    const size_t count = (size_t)job->chunk, n = (size_t)job->params.n;
    const size_t size = gram_dtype_size(job->work);
    struct power_params *p = &job->params;
    struct gram_layout l = {0};

    if (n == 0) { /* info and error are all there is */
        gram_take(&l, &p->state, count * sizeof(struct power_state));
        return gram_layout_open(g, &l);
    }
    job->matrix_bytes = gram_round64(count * n * (size_t)p->ld * size);
    gram_take(&l, &job->matrices,
              (size_t)(MATRICES + (job->split ? HALVES : 0)) * job->matrix_bytes);
    gram_take(&l, &p->state, count * sizeof(struct power_state));
    gram_take(&l, &p->vectors, count * 3 * n * size);
    gram_take(&l, &p->sums, count * POWER_PARTS * sizeof(double));
    gram_take(&l, &p->values, job->eigh ? count * n * size : 0);
    gram_take(&l, &p->codes, job->eigh ? count * sizeof(int) : 0);
    gram_take(&l, &job->blas_memory, CUDA_BLAS_BYTES);
    gram_take(&l, &job->solver_memory, job->solver_bytes);
    return gram_layout_open(g, &l);
}

/* The chunk is bounded by memory, and for eigenvectors by what cuSOLVER can count. */
static gram_status make_job(gram_context *g, const struct gram_matrix_power_op *op,
                            struct power_job *job)
{
    const int64_t n = op->a.rows;
    int64_t item;

    *job = (struct power_job){.g = g, .chosen = *op, .op = &job->chosen};
    job->run = (struct gram_power_run){.op = job->op, .passes = &passes_here};
    job->chosen.method = choose_method(g, op);
    job->eigh = job->chosen.method == GRAM_POWER_EIGH;
    if (n > MOST_ORDER)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a has %lld rows, but at most %d are supported on CUDA", (long long)n,
                         MOST_ORDER);
    choose_precision(g->device, job);
    job->params.n = n;
    job->params.ld = (n + 3) / 4 * 4; /* for loads of 16 bytes */
    item = n * job->params.ld * (int64_t)gram_dtype_size(job->work) *
           (MATRICES + (job->split ? HALVES : 0));
    job->chunk = gram_least(op->batch.count, n ? CHUNK_BYTES / item + 1 : INT_MAX / POWER_PARTS);
    if (job->eigh && n) /* cuSOLVER's limit: 3 n^2 numbers per item, counted in 31 bits */
        job->chunk = gram_least(gram_least(job->chunk, CUSOLVER_MOST_ITEMS),
                                INT_MAX / (3 * n * n) + (3 * n * n > INT_MAX));
    if (!job->eigh)
        job->steps = cuda_power_steps(job->op, job->work);
    cuda_power_polynomials(job->op, job->work, &job->plan);
    if (job->eigh && n && job->chunk)
        TRY(count_solver_bytes(g, job));
    return GRAM_OK;
}

/* Blocks of an item: no more than its columns fill, nor than fill the device. */
static void choose_blocks(const struct cuda_device *device, struct power_job *job)
{
    struct power_params *p = &job->params;
    int64_t items = job->chunk > 0 ? job->chunk : 1;
    int64_t fill = gram_ceil_div((int64_t)device->processors * BLOCKS_A_PROCESSOR, items);
    int64_t most;

    for (p->width = 32; p->width < POWER_THREADS && p->width < p->n;)
        p->width *= 2;
    most = gram_ceil_div(p->n ? p->n : 1, POWER_THREADS / p->width);
    p->parts = gram_least(POWER_PARTS, gram_least(fill, most));
}

/* What the kernels need to know of the call is the same for all chunks. */
static void fill_params(const struct cuda_device *device, struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    struct power_params *p = &job->params;
    const bool narrow = op->a.dtype == GRAM_F32;

    p->ndim = op->batch.ndim;
    for (int d = 0; d < op->batch.ndim; d++)
        p->shape[d] = op->batch.shape[d];
    p->a = cuda_given_view(&op->a, true);
    p->out = cuda_given_view(&op->out, true);
    p->info = cuda_given_view(&op->info, op->has_info);
    p->error = cuda_given_view(&op->error, op->has_error);
    p->ridge = cuda_given_view(&op->ridge.tensor, op->ridge.tensor.data != NULL);
    p->dtype = op->a.dtype;
    p->ridge_dtype = op->ridge.tensor.dtype;
    p->upper = op->uplo == GRAM_UPPER;
    p->relative = op->ridge_relative;
    p->keep = op->keep;
    p->estimate = op->has_error || op->tolerance < (double)INFINITY;
    p->numerator = op->numerator;
    p->denominator = op->denominator;
    p->is_real = op->is_real;
    p->power = gram_power_exponent(op);
    p->floor = op->floor;
    p->method = op->method;
    p->ridge_value = op->ridge.value;
    p->condition = op->condition;
    p->tolerance = op->tolerance;
    p->least_ridge = op->factor ? gram_power_least_ridge(op, job->work) : 0;
    p->nearly = narrow ? 3e-4 : 1e-8;
    p->enough = narrow ? 1e-7 : 1e-15;
    choose_blocks(device, job);
}

/* The matrices of a chunk are where they were at first: the one before has exchanged them. */
static void place_matrices(struct power_job *job)
{
    char *m = job->matrices;

    job->run.s = (struct gram_power_matrices){m, m + job->matrix_bytes, m + 2 * job->matrix_bytes,
                                              m + 3 * job->matrix_bytes, m + 4 * job->matrix_bytes};
    for (int i = 0; i < HALVES; i++)
        job->halves[i] = m + (size_t)(MATRICES + i) * job->matrix_bytes;
}

/* Everything of a chunk is queued; what has become of an item is known to the verdict, on the
 * device, which also decides what is stored. */
static gram_status run_chunk(gram_context *g, struct power_job *job)
{
    TRY(for_threads(g, job, &matrix_power_begin));
    if (job->params.n == 0)
        return for_threads(g, job, &matrix_power_verdict);
    place_matrices(job);
    TRY(launch_pass(g, job, &matrix_power_measure));
    TRY(load(g, job, job->run.s.b));
    TRY(job->eigh ? by_eigenvectors(g, job) : by_products(g, job));
    job->params.to = job->run.s.x;
    TRY(launch_pass(g, job, &matrix_power_finish)); /* what is estimated is stored */
    if (job->params.estimate)
        TRY(gram_power_estimate(&job->run));
    TRY(for_threads(g, job, &matrix_power_verdict));
    job->params.from = job->run.s.x;
    return launch_pass(g, job, &matrix_power_store);
}

/* Libraries are opened only where there is something to compute with them. */
static gram_status run(gram_context *g, const struct gram_matrix_power_op *op)
{
    struct power_job job;

    TRY(make_job(g, op, &job));
    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(lay_out(g, &job));
    fill_params(g->device, &job);
    if (op->a.rows > 0)
        TRY(gram_cuda_blas(g, job.blas_memory, &job.blas));
    if (job.eigh && op->a.rows > 0)
        TRY(gram_cuda_solver_host(g, job.solver, job.host_bytes, &job.host));
    for (int64_t begin = 0; begin < op->batch.count; begin += job.chunk) {
        job.params.begin = begin;
        job.params.count = gram_least(job.chunk, op->batch.count - begin);
        TRY(run_chunk(g, &job));
    }
    return GRAM_OK;
}

gram_status cuda_matrix_power(gram_context *g, const struct gram_matrix_power_op *op)
{
    gram_status status;
    bool entered;

    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    TRY(gram_cuda_check_pointer(g, "options.ridge", &op->ridge.tensor));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    if (op->has_error)
        TRY(gram_cuda_check_pointer(g, "options.error", &op->error));
    entered = gram_cuda_enter(g->device);
    status = run(g, op);
    gram_cuda_leave(g->device, entered);
    return status;
}
