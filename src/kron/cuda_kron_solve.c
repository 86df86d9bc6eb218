/*
 * cuda_kron_solve.c - gram_kron_solve on the device: operations of the backend, one after the other
 *
 * With eigenvectors, F_i = V_i diag(w_i) V_i^T, there are a product with the V_i, a division, and a
 * product with the V_i^T.  By LU and Cholesky, the dimension of the last factor lies as columns
 * without gaps, so that one solve serves all other indices, and a transposition brings the next
 * dimension to that place.  Where no factor changes from item to item the rows of all items are one
 * matrix.
 *
 * Small factors need no transpositions.  One launch factorises all of them.  Then each factor has
 * one pass over the unknowns where they lie: the first from b to x, the others within x.  Only
 * where the elements of b and x are not side by side, or not in the same order, do they go through
 * scratch, column by column.
 *
 * Nothing waits: info alone says which items have failed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_solve.h"
#include "kron_vjp_params.h"

static const struct cuda_kernel scan = {"kron_solve.cu", "kron_solve_scan"},
                                divide = {"kron_solve.cu", "kron_solve_divide"},
                                store = {"kron_solve.cu", "kron_solve_store"},
                                finish = {"kron_solve.cu", "kron_solve_finish"},
                                factor_small = {"kron_solve_factor.cu", "kron_solve_factor"},
                                solve_pass = {"kron_solve_pass.cu", "kron_solve_pass"},
                                vjp_load = {"kron_vjp.cu", "kron_vjp_load"};

enum {
    WARP = 32,
    WIDE = 32,   /* in f64 a thread has two right-hand sides up to this order */
    BLOCKS = 16, /* most blocks for a processor: each reads the LU once */
};

struct solve_job {
    const struct gram_kron_solve_op *op;
    struct cuda_kron_factors f;
    bool eigen, small;
    int64_t groups, group_rows; /* LU and Cholesky: see cuda_kron_matmul_vjp.h */
    size_t rows_at[2];          /* a copy of b, and a second one for factors that are not small */
    size_t singular_at;         /* ints, one for each item */
};

/* ---- Factors -------------------------------------------------------------------------------- */

/* The batch of the matrices that differ.  Dimensions stay where they are, with 1 in place of those
 * along which the matrix does not change, so that the strides of the result fit the batch of the
 * call. */
static struct gram_batch distinct_batch(const struct gram_batch *batch, const struct gram_view *v)
{
    struct gram_batch own = *batch;

    own.count = 1;
    for (int d = 0; d < own.ndim; d++) {
        own.shape[d] = v->batch_stride[d] ? own.shape[d] : 1;
        own.count *= own.shape[d];
    }
    return own;
}

/* A factor that does not change along a dimension of the batch is factorised once for all of it, so
 * each factor has a batch of its own. */
void cuda_kron_factors_open(struct cuda_kron_factors *s, const struct gram_batch *batch,
                            const struct gram_view *views, int count, int64_t order)
{
    size_t ints = 0;

    *s = (struct cuda_kron_factors){.batch = batch, .count = count, .order = order};
    for (int i = 0; i < count; i++) {
        struct cuda_kron_factor *f = &s->factor[i];
        f->view = &views[i];
        f->distinct = distinct_batch(batch, &views[i]);
        f->code_at = ints * sizeof(int);
        ints += (size_t)f->distinct.count;
    }
    s->codes_bytes = gram_round64(ints * sizeof(int));
    s->bytes = 2 * s->codes_bytes;
}

/* While the scratch is only measured there is no memory yet.  The descriptions of inner operations
 * are made all the same, and need an address that is not NULL: that of a tensor of the caller. */
void *cuda_kron_at(const struct cuda_kron_factors *s, size_t at, void *otherwise)
{
    return s->memory ? s->memory + at : otherwise;
}

/* Codes lie apart from the info of the call, because one factorisation may serve many items. */
struct gram_view cuda_kron_code(const struct cuda_kron_factors *s, int i)
{
    const struct cuda_kron_factor *f = &s->factor[i];

    return cuda_dense_view(cuda_kron_at(s, s->codes_at + f->code_at, f->view->data), GRAM_I32,
                           &f->distinct, 1, 1);
}

/* Kernels find out from the strides of a code, which are 0 where the factor does not change, which
 * factorisation an item uses. */
void cuda_kron_factors_params(const struct cuda_kron_factors *s, struct kron_solve_params *p)
{
    *p = (struct kron_solve_params){.items = s->batch->count,
                                    .count = s->count,
                                    .order = s->order,
                                    .found = (long long)(s->codes_bytes / sizeof(int))};
    cuda_set_batch(s->batch, &p->ndim, p->shape);
    for (int i = 0; i < s->count; i++) {
        const struct gram_view code = cuda_kron_code(s, i);
        p->factor[i] = cuda_device_view(s->factor[i].view);
        p->n[i] = s->factor[i].view->rows;
        p->code[i] = cuda_device_view(&code);
    }
}

/* Each factor has a scan of its own, since their orders and batches differ.  Factorisations may
 * spread a number that is not finite over x without a word in info. */
gram_status cuda_kron_check_finite(gram_context *g, const struct cuda_kron_factors *s, int triangle)
{
    const struct cuda_device *device = g->device;
    char *codes = cuda_kron_at(s, s->codes_at, NULL);
    struct kron_solve_params all;

    TRY(gram_cuda_check(g, device->driver,
                        device->driver->memory_set((CUdeviceptr)(uintptr_t)codes, 0,
                                                   2 * s->codes_bytes, device->stream),
                        "cuMemsetD8Async"));
    cuda_kron_factors_params(s, &all);
    for (int i = 0; i < s->count; i++) {
        struct kron_solve_params p = {.items = s->factor[i].distinct.count,
                                      .count = 1,
                                      .factor = {all.factor[i]},
                                      .n = {all.n[i]},
                                      .code = {all.code[i]},
                                      .triangle = triangle,
                                      .found = all.found};
        cuda_set_batch(&s->factor[i].distinct, &p.ndim, p.shape);
        TRY(cuda_launch_plain(g, &scan, s->factor[i].view->dtype,
                              gram_ceil_div(p.n[0] * p.n[0], KRON_SOLVE_PART) * p.items,
                              KRON_SOLVE_THREADS, &p));
    }
    return GRAM_OK;
}

/* ---- The unknowns, in and out --------------------------------------------------------------- */

/* Copies b to rows_at[0], with by_columns as [group][column][row]. */
static gram_status load_rows(gram_context *g, const struct solve_job *job, bool by_columns)
{
    const struct gram_kron_solve_op *op = job->op;
    struct kron_vjp_move_params in = {.side = cuda_device_view(&op->b),
                                      .item_rows = op->b.rows,
                                      .cols = op->b.cols,
                                      .groups = job->groups,
                                      .row_count = job->group_rows,
                                      .count = job->group_rows,
                                      .by_columns = by_columns,
                                      .buffer = job->f.memory + job->rows_at[0]};

    cuda_set_batch(&op->batch, &in.ndim, in.shape);
    return cuda_launch_plain(g, &vjp_load, op->b.dtype,
                             gram_ceil_div(in.count, KRON_VJP_TILE) *
                                 gram_ceil_div(in.cols, KRON_VJP_TILE) * in.groups,
                             KRON_VJP_THREADS, &in);
}

/* Copies p->rows to x. */
static gram_status store_rows(gram_context *g, const struct solve_job *job,
                              struct kron_solve_params *p)
{
    return cuda_launch_plain(g, &store, job->op->b.dtype,
                             gram_ceil_div(p->group_rows, KRON_SOLVE_TILE) *
                                 gram_ceil_div(p->order, KRON_SOLVE_TILE) * p->groups,
                             KRON_SOLVE_THREADS, p);
}

/* ---- Small factors -------------------------------------------------------------------------- */

/* How the unknowns lie in memory, as [group][unit][.][after] for the last factor. */
struct layout {
    bool direct;          /* b and x are read and written where they are */
    int64_t units, after; /* indices of a group before and after all factors */
};

/* The right-hand sides that a thread solves for at a time. */
static int rights_of(gram_dtype dtype, int64_t n)
{
    return dtype == GRAM_F32 || n <= WIDE ? 2 : 1;
}

/* The shared memory of a block.  Units are not cut, so that a block may begin in one more of
 * them. */
static size_t shared_bytes(gram_dtype dtype, int64_t n, bool staged)
{
    const int64_t size = (int64_t)gram_dtype_size(dtype);
    const int64_t side = (int64_t)KRON_SOLVE_PASS_THREADS * rights_of(dtype, n);

    return (size_t)(KRON_SOLVE_FACTOR_BYTES(n, size) +
                    (staged ? (side + WARP) * KRON_SOLVE_ODD(n) : side * n) * size);
}

/* True if all factors are small enough for the kernels of this section. */
static bool is_small(const struct cuda_device *device, const struct gram_kron_solve_op *op)
{
    if (op->method == GRAM_KRON_EIGEN)
        return false;
    for (int i = 0; i < op->count; i++)
        if (op->factor[i].rows > KRON_SOLVE_SMALL ||
            (int64_t)shared_bytes(op->b.dtype, op->factor[i].rows, true) >
                cuda_kron_shared(device->arch))
            return false;
    return true;
}

/* Nothing moves: the view is described the other way. */
static struct gram_view transposed(const struct gram_view *v)
{
    struct gram_view t = *v;

    t.rows = v->cols, t.cols = v->rows;
    t.row_stride = v->col_stride, t.col_stride = v->row_stride;
    return t;
}

/* Finds out how b and x lie: both row by row, both column by column, or else in scratch. */
static struct layout layout_of(const struct solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct gram_view b = transposed(&op->b), x = transposed(&op->x);

    if (cuda_is_dense(&op->batch, &op->b) && cuda_is_dense(&op->batch, &op->x))
        return (struct layout){.direct = true, .units = job->group_rows, .after = 1};
    if (cuda_is_dense(&op->batch, &b) && cuda_is_dense(&op->batch, &x))
        return (struct layout){
            .direct = true, .units = job->group_rows / op->b.rows, .after = op->b.rows};
    return (struct layout){.units = 1, .after = job->group_rows};
}

/* Adds the scratch of small factors. */
static void lay_out_small(struct solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    const size_t size = gram_dtype_size(op->b.dtype);

    for (int i = 0; i < op->count; i++) {
        struct cuda_kron_factor *f = &job->f.factor[i];
        const size_t n = (size_t)f->view->rows, items = (size_t)f->distinct.count;
        f->matrix_at = job->f.bytes;
        f->values_at = f->matrix_at + gram_round64(items * n * KRON_SOLVE_STEP(n) * size);
        job->f.bytes = f->values_at + gram_round64(items * n * sizeof(int));
    }
    job->rows_at[0] = job->f.bytes;
    if (!layout_of(job).direct)
        job->f.bytes += gram_round64((size_t)(op->b.rows * op->b.cols * op->batch.count) * size);
}

/* Where the LU of a factor is, for every item in which it differs; the pivots in the same way. */
static struct device_view lu_of(const struct solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    const int64_t n = f->view->rows;
    const struct gram_view v = cuda_dense_view(job->f.memory + f->matrix_at, job->op->b.dtype,
                                               &f->distinct, n, KRON_SOLVE_STEP(n));

    return cuda_device_view(&v);
}

static struct device_view pivots_of(const struct solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    const struct gram_view v =
        cuda_dense_view(job->f.memory + f->values_at, GRAM_I32, &f->distinct, 1, f->view->rows);

    return cuda_device_view(&v);
}

/* Factorises all factors in one launch, a block for each factor of each item. */
static gram_status factorise(gram_context *g, const struct solve_job *job,
                             const struct kron_solve_params *p)
{
    struct kron_logdet_params all = {.of = *p};

    for (int i = 0; i < job->op->count; i++)
        all.lu[i] = lu_of(job, i), all.pivots[i] = pivots_of(job, i);
    if (job->groups == 1)
        all.of.items = 1;
    return cuda_launch_plain(g, &factor_small, job->op->b.dtype, all.of.items * job->op->count,
                             KRON_SOLVE_THREADS, &all);
}

/* Divides the unknowns by factor i. */
static gram_status run_pass(gram_context *g, const struct solve_job *job, int i,
                            const struct kron_solve_pass_params *p)
{
    const gram_dtype dtype = job->op->b.dtype;
    const int64_t n = job->op->factor[i].rows;
    const int64_t side = (int64_t)KRON_SOLVE_PASS_THREADS * rights_of(dtype, n);
    const int64_t tiles = p->after < WARP ? gram_ceil_div(p->units, side / p->after)
                                          : gram_ceil_div(p->units * p->after, side);
    const struct cuda_device *device = g->device;
    const bool staged = p->after < WARP;
    const struct cuda_grid grid = {
        .blocks = gram_least(tiles * p->groups, (int64_t)device->processors * BLOCKS),
        .threads = KRON_SOLVE_PASS_THREADS,
        .shared = shared_bytes(dtype, n, staged)};
    struct cuda_variant v;
    struct kron_solve_pass_params of = *p;

    of.lu = lu_of(job, i), of.row = pivots_of(job, i);
    if (job->groups > 1)
        cuda_set_batch(&job->op->batch, &of.ndim, of.shape);
    cuda_variant(&v, &solve_pass,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"ORDER", n},
                              {"RIGHTS", rights_of(dtype, n)}, {"STAGED", staged}));
    return cuda_launch(g, &v, &grid, (void *[]){&of});
}

/* Factorises all factors, and makes a pass for each. */
static gram_status run_small(gram_context *g, const struct solve_job *job,
                             struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct layout at = layout_of(job);
    struct kron_solve_pass_params of = {.groups = job->groups, .after = at.after};

    TRY(factorise(g, job, p));
    if (!at.direct)
        TRY(load_rows(g, job, true));
    of.to = at.direct ? op->x.data : job->f.memory + job->rows_at[0];
    of.from = at.direct ? op->b.data : of.to;
    for (int i = op->count - 1; i >= 0; i--) {
        of.units = at.units * (job->f.order * at.after) / (op->factor[i].rows * of.after);
        TRY(run_pass(g, job, i, &of));
        of.after *= op->factor[i].rows;
        of.from = of.to;
    }
    return at.direct ? GRAM_OK : store_rows(g, job, p);
}

/* ---- The parts ------------------------------------------------------------------------------ */

/* The eigenvectors of factor i; values_of are its eigenvalues. */
static struct gram_view vectors_of(const struct solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every factor has a view
    return cuda_dense_view(cuda_kron_at(&job->f, f->matrix_at, f->view->data), job->op->b.dtype,
                           &f->distinct, f->view->rows, f->view->rows);
}

/* They lie behind the eigenvectors, one row for each item in which the factor differs. */
static struct gram_view values_of(const struct solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    return cuda_dense_view(cuda_kron_at(&job->f, f->values_at, f->view->data), job->op->b.dtype,
                           &f->distinct, 1, f->view->rows);
}

/* The eigenproblem of a factor.  Single matrices go to XsyevBatched too, since it does not wait. */
static struct gram_eigh_op eigenproblem(const struct solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    return (struct gram_eigh_op){.batch = f->distinct,
                                 .a = *f->view,
                                 .values = values_of(job, i),
                                 .vectors = vectors_of(job, i),
                                 .info = cuda_kron_code(&job->f, i),
                                 .has_vectors = true,
                                 .has_info = true,
                                 .uplo = job->op->uplo,
                                 .count = f->view->rows,
                                 .driver = cuda_eigh_is_small(f->view->rows)
                                               ? GRAM_EIGH_DRIVER_AUTO
                                               : GRAM_EIGH_DRIVER_BATCHED};
}

/* The product that turns b into coefficients of the eigenvectors, or with back these into x. */
static struct gram_kron_matmul_op product(const struct solve_job *job, bool back)
{
    const struct gram_kron_solve_op *op = job->op;
    struct gram_view rows = cuda_dense_view(cuda_kron_at(&job->f, job->rows_at[0], op->b.data),
                                            op->b.dtype, &op->batch, op->b.rows, op->b.cols);
    struct gram_kron_matmul_op p = {.batch = op->batch,
                                    .x = back ? rows : op->b,
                                    .y = back ? op->x : rows,
                                    .count = op->count,
                                    .alpha.value = 1};

    for (int i = 0; i < op->count; i++) {
        struct gram_view v = vectors_of(job, i);
        if (back) {
            int64_t stride = v.row_stride;
            v.row_stride = v.col_stride, v.col_stride = stride;
        }
        p.factor[i] = v;
    }
    return p;
}

/* The system F^T z = b, whose right-hand sides are columns: one for each index of b but the
 * factor's. */
static struct gram_solve_op system_of(const struct solve_job *job, int i, size_t at)
{
    const struct gram_kron_solve_op *op = job->op;
    int64_t n = op->factor[i].rows, s = job->group_rows * (job->f.order / n);
    struct gram_batch one = {.count = 1};
    struct gram_solve_op p = {.batch = job->groups > 1 ? op->batch : one,
                              .a = op->factor[i],
                              .info = cuda_kron_code(&job->f, i),
                              .has_info = true,
                              .x_is_b = true,
                              .uplo = op->uplo};

    if (op->method == GRAM_KRON_LU) {
        p.a.row_stride = op->factor[i].col_stride;
        p.a.col_stride = op->factor[i].row_stride;
    }
    p.x = cuda_dense_view(cuda_kron_at(&job->f, at, op->b.data), op->b.dtype, &p.batch, s, n);
    p.x.rows = n, p.x.cols = s;
    p.x.row_stride = 1, p.x.col_stride = n;
    p.b = p.x;
    return p;
}

/* One call solves for all other indices at once, since the dimension of the factor lies as columns
 * without gaps. */
static gram_status solve(gram_context *g, const struct solve_job *job,
                         const struct gram_solve_op *system)
{
    return job->op->method == GRAM_KRON_LU ? cuda_solve_lu(g, system)
                                           : cuda_solve_cholesky(g, system);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

/* The scratch that the factorisation of factor i takes for itself. */
static gram_status inner_bytes(gram_context *g, const struct solve_job *job, int i, size_t *bytes)
{
    struct gram_eigh_op eigen;
    struct gram_solve_op system;

    if (job->eigen) {
        eigen = eigenproblem(job, i);
        return gram_measure(g, bytes, cuda_eigh(g, &eigen));
    }
    system = system_of(job, i, 0);
    return gram_measure(g, bytes,
                        job->op->method == GRAM_KRON_LU ? cuda_solve_lu(g, &system)
                                                        : cuda_solve_cholesky(g, &system));
}

/* Lays out the scratch: codes, factorisations, rows of b, and what inner operations take. */
static gram_status lay_out(gram_context *g, struct solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    size_t size = gram_dtype_size(op->b.dtype), bytes;
    double most = (double)op->b.rows * (double)op->b.cols * (double)op->batch.count * 8;

    for (int i = 0; i < op->count; i++)
        most +=
            (double)op->factor[i].rows * (double)op->factor[i].rows * (double)op->batch.count * 8;
    if (most > 0x1p58)
        return gram_fail(
            g, GRAM_OUT_OF_MEMORY,
            "b or the factors are too large: the size of the scratch memory overflows");
    if (job->small) {
        lay_out_small(job);
        return GRAM_OK;
    }
    for (int i = 0; job->eigen && i < op->count; i++) {
        struct cuda_kron_factor *f = &job->f.factor[i];
        size_t n = (size_t)f->view->rows, items = (size_t)f->distinct.count;
        f->matrix_at = job->f.bytes;
        f->values_at = f->matrix_at + gram_round64(items * n * n * size);
        job->f.bytes = f->values_at + gram_round64(items * n * size);
    }
    job->singular_at = job->f.bytes;
    if (job->eigen)
        job->f.bytes += gram_round64((size_t)op->batch.count * sizeof(int));
    for (int i = 0; i < (job->eigen ? 1 : 2); i++) {
        job->rows_at[i] = job->f.bytes;
        job->f.bytes += gram_round64((size_t)(op->b.rows * op->b.cols * op->batch.count) * size);
    }
    job->f.inner_at = job->f.bytes;
    for (int i = 0; i < op->count; i++) {
        TRY(inner_bytes(g, job, i, &bytes));
        job->f.inner_bytes = gram_most_bytes(job->f.inner_bytes, bytes);
    }
    for (int back = 0; job->eigen && back < 2; back++) {
        const struct gram_kron_matmul_op p = product(job, back);
        TRY(gram_measure(g, &bytes, cuda_kron_matmul(g, &p)));
        job->f.inner_bytes = gram_most_bytes(job->f.inner_bytes, bytes);
    }
    job->f.bytes += gram_round64(job->f.inner_bytes);
    return GRAM_OK;
}

/* Describes the work, and lays out its scratch. */
static gram_status make_job(gram_context *g, const struct gram_kron_solve_op *op,
                            struct solve_job *job)
{
    bool shared = true;

    *job = (struct solve_job){
        .op = op, .eigen = op->method == GRAM_KRON_EIGEN, .small = is_small(g->device, op)};
    cuda_kron_factors_open(&job->f, &op->batch, op->factor, op->count, op->b.cols);
    for (int i = 0; i < op->count; i++)
        shared = shared && cuda_is_shared(&op->batch, &op->factor[i]);
    job->groups = shared ? 1 : op->batch.count;
    job->group_rows = shared ? op->b.rows * op->batch.count : op->b.rows;
    return lay_out(g, job);
}

/* ---- The work ------------------------------------------------------------------------------- */

/* Describes the work to the kernels of kron_solve.cu. */
static void fill_params(const struct solve_job *job, struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;

    cuda_kron_factors_params(&job->f, p);
    for (int i = 0; job->eigen && i < op->count; i++) {
        const struct gram_view values = values_of(job, i);
        p->values[i] = cuda_device_view(&values);
    }
    p->shift = cuda_device_number(&op->shift);
    p->rows = job->f.memory + job->rows_at[0];
    p->groups = job->groups, p->group_rows = job->group_rows, p->row_count = op->b.rows;
    p->singular = job->eigen ? (int *)(void *)(job->f.memory + job->singular_at) : NULL;
    p->x = cuda_device_view(&op->x);
    if (op->has_info)
        p->info = cuda_device_view(&op->info);
}

/* Solves in the basis of the eigenvectors, where the product is diagonal. */
static gram_status run_eigen(gram_context *g, const struct solve_job *job,
                             struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct cuda_device *device = g->device;
    const struct gram_kron_matmul_op forth = product(job, false), back = product(job, true);

    TRY(gram_cuda_check(g, device->driver,
                        device->driver->memory_set((CUdeviceptr)(uintptr_t)p->singular, 0,
                                                   (size_t)op->batch.count * sizeof(int),
                                                   device->stream),
                        "cuMemsetD8Async"));
    for (int i = 0; i < op->count; i++) {
        const struct gram_eigh_op eigen = eigenproblem(job, i);
        TRY(cuda_eigh(g, &eigen));
    }
    TRY(cuda_kron_matmul(g, &forth));
    TRY(cuda_launch_plain(g, &divide, op->b.dtype,
                          gram_ceil_div(p->order, KRON_SOLVE_THREADS) *
                              gram_ceil_div(p->row_count, KRON_SOLVE_ROWS) * p->items,
                          KRON_SOLVE_THREADS, p));
    return cuda_kron_matmul(g, &back);
}

/* Transposes [group][row][column] to [group][column][row]. */
static gram_status transpose(gram_context *g, const struct solve_job *job, int64_t rows,
                             int64_t cols, const size_t at[2])
{
    struct kron_vjp_move_params p = {
        .ndim = 1,
        .shape = {                  job->groups},
        .side = { .data = job->f.memory + at[0],.row_stride = cols,
                  .col_stride = 1,
                  .batch_stride = {rows * cols}},
        .item_rows = rows,
        .cols = cols,
        .groups = job->groups,
        .row_count = rows,
        .count = rows,
        .by_columns = true,
        .buffer = job->f.memory + at[1],
    };

    return cuda_launch_plain(g, &vjp_load, job->op->b.dtype,
                             gram_ceil_div(rows, KRON_VJP_TILE) *
                                 gram_ceil_div(cols, KRON_VJP_TILE) * job->groups,
                             KRON_VJP_THREADS, &p);
}

/* Solves with one factor after the other, the last one first, in two buffers that take turns. */
static gram_status run_chain(gram_context *g, const struct solve_job *job,
                             struct kron_solve_params *p)
{
    size_t at[2] = {job->rows_at[0], job->rows_at[1]};

    TRY(load_rows(g, job, false));
    for (int i = job->op->count - 1; i >= 0; i--) {
        const struct gram_solve_op system = system_of(job, i, at[0]);
        size_t other = at[0];
        TRY(solve(g, job, &system));
        TRY(transpose(g, job, system.x.cols, system.x.rows, at));
        at[0] = at[1], at[1] = other;
    }
    p->rows = job->f.memory + at[0];
    return store_rows(g, job, p);
}

/* Solves by operations of the backend, with the inner scratch lent to them. */
static gram_status run_parts(gram_context *g, const struct solve_job *job,
                             struct kron_solve_params *p)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, job->f.memory + job->f.inner_at, job->f.inner_bytes, &before);
    status = job->eigen ? run_eigen(g, job, p) : run_chain(g, job, p);
    gram_scratch_return(g, &before);
    return status;
}

/* The last launch tells the verdict on every item to info, and sets x to NaN where a factor failed:
 * only the device knows which. */
static gram_status run(gram_context *g, struct solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    struct kron_solve_params p;
    struct gram_layout layout = {0};

    gram_take(&layout, &job->f.memory, job->f.bytes);
    TRY(gram_layout_open(g, &layout));
    fill_params(job, &p);
    p.triangle = op->method == GRAM_KRON_LU ? 0 : op->uplo == GRAM_LOWER ? 1 : 2;
    if (job->small) {
        TRY(run_small(g, job, &p));
    } else {
        TRY(cuda_kron_check_finite(g, &job->f, (int)p.triangle));
        TRY(run_parts(g, job, &p));
    }
    return cuda_launch_plain(g, &finish, op->b.dtype,
                             gram_ceil_div(p.row_count * p.order, KRON_SOLVE_PART) * p.items,
                             KRON_SOLVE_THREADS, &p);
}

/* ---- Entry points --------------------------------------------------------------------------- */

/* Such a call has neither unknowns nor anything that could fail. */
static bool is_empty(const struct gram_kron_solve_op *op)
{
    return op->batch.count == 0 || op->b.rows == 0 || op->b.cols == 0;
}

static gram_status check_pointers(gram_context *g, const struct gram_kron_solve_op *op)
{
    for (int i = 0; i < op->count; i++)
        TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "options.shift", &op->shift.tensor));
    return op->has_info ? gram_cuda_check_pointer(g, "info", &op->info) : GRAM_OK;
}

/* Without unknowns nothing is factorised, and info is 0. */
static gram_status clear_info(gram_context *g, const struct gram_kron_solve_op *op)
{
    struct kron_solve_params p = {.items = op->batch.count, .row_count = 1, .order = 1};

    if (!op->has_info || op->batch.count == 0)
        return GRAM_OK;
    cuda_set_batch(&op->batch, &p.ndim, p.shape);
    p.info = cuda_device_view(&op->info);
    return cuda_launch_plain(g, &finish, op->b.dtype, p.items, KRON_SOLVE_THREADS, &p);
}

gram_status cuda_kron_solve(gram_context *g, const struct gram_kron_solve_op *op)
{
    struct solve_job job;
    gram_status status;
    bool entered;

    TRY(check_pointers(g, op));
    if (!is_empty(op))
        TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = is_empty(op) ? clear_info(g, op) : run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
