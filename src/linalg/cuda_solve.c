/*
 * cuda_solve.c - Cholesky and LU on the device: small matrices in one launch, others by cuSOLVER
 *
 * Nothing waits: what became of an item is in info, and its x is NaN if the factorisation failed.
 *
 * Large matrices go through cuSOLVER one after the other.  It is column-major, as LAPACK is: a
 * row-major triangle is its other triangle of the transpose, which for a symmetric matrix is the
 * matrix; a row-major LU is a factorisation of A^T, solved transposed.  So every matrix with a unit
 * stride is used where it lies.  Others, and matrices that must survive, are copied to a scratch
 * matrix (or to the factor asked for).  Right-hand sides that are not columns with unit stride pass
 * through a block of at most RHS_BLOCK columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_solve.h"
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cusolver.h"

enum {
    FEW = 4,                /* matrices that cuSOLVER takes one after the other where both can */
    MANY = 16,              /* that are quicker side by side though they lie in scratch */
    MOST_IN_SCRATCH = 512,  /* order of these */
    BLOCKS_A_PROCESSOR = 4, /* of solve_small: as many as its shared memory allows */
    MOST_BLOCKS_Y = 65535,
    RHS_BLOCK = 512,       /* enough for full speed of the triangular solve */
    COPY_BLOCKS = 1 << 16, /* most of a strided copy, which then loops */
    CODE_WORDS = 16,       /* of cuSOLVER's factorisation, the verdict, of its solve */
    CODES = (CODE_WORDS + SOLVE_SCANS) * (int)sizeof(int), /* bytes: behind them what scans find */
};

/* ---- Launches -------------------------------------------------------------------------------- */

/* The most that a block may have, by the table of compute capabilities in the CUDA programming
 * guide. */
size_t cuda_solve_most_shared(int arch)
{
    size_t kib = arch == 80 || arch == 87 ? 163 : arch >= 90 && arch < 120 ? 227 : 99;

    return kib << 10;
}

/* Kernels of solve_large.cu are compiled one at a time, since a call needs few of them. */
void cuda_solve_variant(int kernel, bool lu, gram_dtype dtype, struct cuda_variant *v)
{
    static const struct cuda_kernel kernels[] = {
        [SOLVE_SMALL] = {"solve_small.cu",   "solve_small"},
        [SOLVE_COPY] = {"solve_large.cu",    "solve_copy"},
        [SOLVE_VERDICT] = {"solve_large.cu", "solve_verdict"},
        [SOLVE_SCAN] = {"solve_large.cu",    "solve_scan"},
    };

    cuda_variant(v, &kernels[kernel], CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"LU", lu}));
    if (kernel != SOLVE_SMALL)
        cuda_option(v, "KERNEL", kernel);
}

/* Bytes of a small matrix, and whether it fits a block's shared memory with all else. */
static size_t matrix_bytes(const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows;

    return SOLVE_SMALL_MATRIX(n, gram_dtype_size(plan->op->a.dtype));
}

static bool fits(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows, most = cuda_solve_most_shared(device->arch);

    return matrix_bytes(plan) + SOLVE_SMALL_REST(n, gram_dtype_size(plan->op->a.dtype)) <= most;
}

/* The bytes of dynamic shared memory; a matrix that does not fit lies in scratch. */
static size_t small_bytes(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows;

    return SOLVE_SMALL_REST(n, gram_dtype_size(plan->op->a.dtype)) +
           (fits(device, plan) ? matrix_bytes(plan) : 0);
}

static gram_status launch(gram_context *g, const struct cuda_solve_plan *plan, int kernel,
                          void *params, const unsigned blocks[2])
{
    const bool small = kernel == SOLVE_SMALL;
    const struct cuda_grid grid = {
        .blocks = blocks[0],
        .blocks_y = blocks[1],
        .threads = small ? (unsigned)SOLVE_SMALL_THREADS(plan->op->a.rows) : SOLVE_THREADS,
        .shared = small ? small_bytes(g->device, plan) : 0,
    };
    struct cuda_variant v;

    cuda_solve_variant(kernel, plan->lu, plan->op->a.dtype, &v);
    return cuda_launch(g, &v, &grid, (void *[]){params});
}

/* ---- Small matrices -------------------------------------------------------------------------- */

/* What fits a block's shared memory, or many that do not; few are as quick in cuSOLVER. */
static bool is_small(const gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct cuda_device *device = g->device;
    const int64_t n = plan->op->a.rows;

    return n <= SOLVE_MOST || (plan->own.count >= MANY && n <= MOST_IN_SCRATCH) ||
           (plan->own.count >= FEW && n <= MOST_IN_SCRATCH && fits(device, plan));
}

/* A grid has at least one block. */
static unsigned at_most(int64_t count, int64_t most)
{
    return (unsigned)(count < 1 ? 1 : count < most ? count : most);
}

/* Blocks whose matrices lie in scratch; 0: in shared memory. */
static int64_t scratch_blocks(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    if (fits(device, plan))
        return 0;
    return gram_least(plan->own.count, (int64_t)device->processors * BLOCKS_A_PROCESSOR);
}

/* Groups of right-hand sides of one matrix go to several blocks where matrices alone do not fill
 * the device.  Each of them factorises: not over a matrix that another one still has to read. */
static gram_status solve_small(gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    const struct cuda_device *device = g->device;
    int64_t groups = gram_ceil_div(op->x.cols, SOLVE_WIDTH) * plan->shared.count;
    int64_t room = (int64_t)device->processors * BLOCKS_A_PROCESSOR / plan->own.count;
    int64_t outside = scratch_blocks(device, plan);
    unsigned blocks[2] = {at_most(plan->own.count, INT32_MAX), at_most(groups, MOST_BLOCKS_Y)};
    struct solve_small_params params = {
        .items = plan->items,
        .a = cuda_given_view(&op->a, true),
        .b = cuda_given_view(&op->b, true),
        .x = cuda_given_view(&op->x, true),
        .factor = cuda_given_view(&op->factor, op->has_factor),
        .pivots = cuda_given_view(&op->pivots, op->has_pivots),
        .info = cuda_given_view(&op->info, op->has_info),
        .n = op->a.rows,
        .columns = op->x.cols,
        .flip = plan->lu ? gram_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER,
        .factored = op->factored,
    };

    struct gram_layout layout = {0};

    gram_take_many(&layout, &params.scratch, (size_t)outside, matrix_bytes(plan));
    TRY(gram_layout_open(g, &layout));
    if (blocks[1] > room)
        blocks[1] = at_most(room, MOST_BLOCKS_Y);
    if (outside > 0)
        blocks[0] = (unsigned)outside, blocks[1] = 1;
    if (blocks[1] > 1 && op->has_factor && op->factor_is_a) {
        params.columns = 0;
        TRY(launch(g, plan, SOLVE_SMALL, &params, (unsigned[2]){blocks[0], 1}));
        params.columns = op->x.cols;
        params.factor.data = NULL;
        params.factored = true;
    }
    return launch(g, plan, SOLVE_SMALL, &params, blocks);
}

/* ---- Large matrices -------------------------------------------------------------------------- */

/* A matrix as cuSOLVER is to work on it. */
struct large_matrix {
    char *data;
    struct gram_solve_layout layout;
};

/* What a call works with. */
struct large {
    const struct cuda_solve_plan *plan;
    struct cuda_solver *solver;
    /* Scratch; no matrix and no right-hand sides where the caller's memory serves. */
    char *matrix, *rhs;
    int64_t *exchanges;
    int *codes;
    void *work, *host;             /* cuSOLVER's, on the device and on the host */
    size_t work_bytes, host_bytes; /* of these */
};

/* The factor that is asked for is made in its own place, and else over a copy. */
static const struct gram_view *kept_view(const struct gram_solve_op *op)
{
    return op->has_factor ? &op->factor : &op->a;
}

/* cuSOLVER works in place and needs a unit stride: what the caller wants to keep, or what has none,
 * is copied. */
static bool needs_matrix(const struct gram_solve_op *op)
{
    return (!op->has_factor && !op->factored) || !gram_solve_layout(kept_view(op)).direct;
}

static int64_t leading_dimension(const struct gram_solve_op *op)
{
    return needs_matrix(op) ? op->a.rows : gram_solve_layout(kept_view(op)).ld;
}

static int type_of(const struct gram_solve_op *op)
{
    return op->a.dtype == GRAM_F64 ? CUSOLVER_F64 : CUSOLVER_F32;
}

/* The triangle of cuSOLVER's, which sees a row-major matrix transposed. */
static int triangle_of(const struct gram_solve_op *op)
{
    return (op->uplo == GRAM_LOWER) != gram_solve_layout(kept_view(op)).row_major ? CUSOLVER_LOWER
                                                                                  : CUSOLVER_UPPER;
}

/* Asks cuSOLVER what it needs, and opens the scratch. */
static gram_status open_scratch(gram_context *g, struct large *l)
{
    const struct gram_solve_op *op = l->plan->op;
    const struct cuda_solver *s = l->solver;
    const size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    const size_t columns = (size_t)gram_least(op->x.cols, RHS_BLOCK);
    int64_t ld = leading_dimension(op);
    int type = type_of(op), status = CUSOLVER_SUCCESS;
    struct gram_layout layout = {0};

    if (n > SIZE_MAX / 64 / n)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a has %zu rows, and the size of a copy of it overflows", n);
    if (!op->factored && l->plan->lu)
        status = s->call->getrf_bytes(s->handle, s->params, op->a.rows, op->a.rows, type,
                                      op->a.data, ld, type, &l->work_bytes, &l->host_bytes);
    else if (!op->factored)
        status = s->call->potrf_bytes(s->handle, s->params, triangle_of(op), op->a.rows, type,
                                      op->a.data, ld, type, &l->work_bytes, &l->host_bytes);
    TRY(gram_cuda_solver_check(
        g, status, l->plan->lu ? "cusolverDnXgetrf_bufferSize" : "cusolverDnXpotrf_bufferSize"));
    gram_take_many(&layout, &l->matrix, needs_matrix(op) ? n * n : 0, size);
    gram_take_many(&layout, &l->rhs, gram_solve_columns_direct(&op->x) ? 0 : n * columns, size);
    gram_take_many(&layout, &l->exchanges, l->plan->lu ? n : 0, sizeof(int64_t));
    gram_take(&layout, &l->codes, CODES);
    gram_take(&layout, &l->work, l->work_bytes);
    return gram_layout_open(g, &layout);
}

/* Address of the matrix of v at an item of own and one of shared. */
static char *item_of(const struct cuda_solve_plan *plan, const struct gram_view *v, int64_t own,
                     int64_t shared)
{
    int64_t offset = 0;

    for (int d = plan->op->batch.ndim - 1; d >= 0; d--) {
        offset += (own % plan->own.shape[d] + shared % plan->shared.shape[d]) * v->batch_stride[d];
        own /= plan->own.shape[d];
        shared /= plan->shared.shape[d];
    }
    return v->data + offset * (int64_t)gram_dtype_size(v->dtype);
}

static gram_status copy(gram_context *g, const struct cuda_solve_plan *plan,
                        struct solve_copy_params *c)
{
    int64_t pieces = gram_ceil_div(c->rows * c->cols, SOLVE_THREADS);
    unsigned blocks[2] = {(unsigned)(pieces < COPY_BLOCKS ? pieces : COPY_BLOCKS), 1};

    return pieces > 0 ? launch(g, plan, SOLVE_COPY, c, blocks) : GRAM_OK;
}

static long long part_of(const struct cuda_solve_plan *plan)
{
    if (plan->lu)
        return SOLVE_PART_ALL;
    return plan->op->uplo == GRAM_LOWER ? SOLVE_PART_LOWER : SOLVE_PART_UPPER;
}

/* Copies between a matrix of the caller's and where cuSOLVER works on it, if these are two. */
static gram_status copy_matrix(gram_context *g, const struct large *l, const struct gram_view *v,
                               char *item, const struct large_matrix *m, bool back)
{
    long long outside[2] = {v->row_stride, v->col_stride};
    long long inside[2] = {m->layout.row_major ? m->layout.ld : 1,
                           m->layout.row_major ? 1 : m->layout.ld};
    struct solve_copy_params c = {.rows = v->rows, .cols = v->cols, .part = part_of(l->plan)};

    c.to = back ? item : m->data;
    c.from = back ? m->data : item;
    for (int d = 0; d < 2; d++) {
        c.to_stride[d] = back ? outside[d] : inside[d];
        c.from_stride[d] = back ? inside[d] : outside[d];
    }
    return item == m->data ? GRAM_OK : copy(g, l->plan, &c);
}

/* Finds the place where an item of a is factorised and brings it there. */
static gram_status load_matrix(gram_context *g, const struct large *l, int64_t own,
                               struct large_matrix *m)
{
    const struct gram_solve_op *op = l->plan->op;

    m->layout = gram_solve_layout(kept_view(op));
    m->layout.ld = leading_dimension(op);
    m->data = needs_matrix(op) ? l->matrix : item_of(l->plan, kept_view(op), own, 0);
    return copy_matrix(g, l, &op->a, item_of(l->plan, &op->a, own, 0), m, false);
}

/* Looks for NaN in a matrix whose LU follows; gives the number of places with findings. */
static gram_status scan(gram_context *g, const struct large *l, const struct large_matrix *m,
                        long long *scans)
{
    int64_t n = l->plan->op->a.rows;
    struct solve_scan_params params = {
        .matrix = m->data, .n = n, .ld = m->layout.ld, .found = l->codes + CODE_WORDS};

    *scans = n < SOLVE_SCANS ? n : SOLVE_SCANS;
    return launch(g, l->plan, SOLVE_SCAN, &params, (unsigned[2]){(unsigned)*scans, 1});
}

/* Factorises, and says what became of it. */
static gram_status factorise(gram_context *g, const struct large *l, int64_t own,
                             const struct large_matrix *m)
{
    const struct gram_solve_op *op = l->plan->op;
    const struct cuda_solver *s = l->solver;
    int64_t n = op->a.rows;
    int type = type_of(op), status = CUSOLVER_SUCCESS;
    struct solve_verdict_params params = {
        .items = l->plan->items,
        .pivots = cuda_given_view(&op->pivots, op->has_pivots),
        .info = cuda_given_view(&op->info, op->has_info),
        .own = own,
        .matrix = m->data,
        .n = n,
        .ld = m->layout.ld,
        .code = op->factored ? NULL : l->codes,
        .found = l->codes + CODE_WORDS,
        .exchanges = (long long *)l->exchanges,
        .verdict = l->codes + 1,
    };

    if (!op->factored && l->plan->lu)
        TRY(scan(g, l, m, &params.scans));
    if (!op->factored && l->plan->lu)
        status =
            s->call->getrf(s->handle, s->params, n, n, type, m->data, m->layout.ld, l->exchanges,
                           type, l->work, l->work_bytes, l->host, l->host_bytes, l->codes);
    else if (!op->factored)
        status =
            s->call->potrf(s->handle, s->params, triangle_of(op), n, type, m->data, m->layout.ld,
                           type, l->work, l->work_bytes, l->host, l->host_bytes, l->codes);
    TRY(gram_cuda_solver_check(g, status, l->plan->lu ? "cusolverDnXgetrf" : "cusolverDnXpotrf"));
    TRY(launch(g, l->plan, SOLVE_VERDICT, &params, (unsigned[2]){1, 1}));
    if (!op->has_factor)
        return GRAM_OK;
    return copy_matrix(g, l, &op->factor, item_of(l->plan, &op->factor, own, 0), m, true);
}

static gram_status solve_block(gram_context *g, const struct large *l, const struct large_matrix *m,
                               int64_t columns, char *x, int64_t ld)
{
    const struct gram_solve_op *op = l->plan->op;
    const struct cuda_solver *s = l->solver;
    int type = type_of(op), status;

    if (l->plan->lu)
        status = s->call->getrs(s->handle, s->params,
                                m->layout.row_major ? CUSOLVER_TRANSPOSED : CUSOLVER_PLAIN,
                                op->a.rows, columns, type, m->data, m->layout.ld, l->exchanges,
                                type, x, ld, l->codes + 2);
    else
        status = s->call->potrs(s->handle, s->params, triangle_of(op), op->a.rows, columns, type,
                                m->data, m->layout.ld, type, x, ld, l->codes + 2);
    return gram_cuda_solver_check(g, status, l->plan->lu ? "cusolverDnXgetrs" : "cusolverDnXpotrs");
}

/* The right-hand sides of one item, a block of columns at a time. */
static gram_status solve_columns(gram_context *g, const struct large *l,
                                 const struct large_matrix *m, const char *b, char *x)
{
    const struct gram_solve_op *op = l->plan->op;
    int64_t n = op->x.rows, size = (int64_t)gram_dtype_size(op->x.dtype);
    bool direct = gram_solve_columns_direct(&op->x);
    int64_t step = direct ? op->x.cols : RHS_BLOCK;
    int64_t ld = direct && op->x.cols > 1 ? op->x.col_stride : n;

    for (int64_t j = 0; j < op->x.cols; j += step) {
        int64_t columns = op->x.cols - j < step ? op->x.cols - j : step;
        char *to = x + j * op->x.col_stride * size;
        char *work = direct ? to : l->rhs;
        struct solve_copy_params in = {
            .to = work,
            .from = b + j * op->b.col_stride * size,
            .to_stride = {               1,               ld},
            .from_stride = {op->b.row_stride, op->b.col_stride},
            .rows = n,
            .cols = columns
        };
        struct solve_copy_params out = {
            .to = to,
            .from = work,
            .to_stride = {op->x.row_stride, op->x.col_stride},
            .from_stride = {               1,               ld},
            .rows = n,
            .cols = columns,
            .verdict = l->codes + 1
        };
        if (!direct || !op->x_is_b)
            TRY(copy(g, l->plan, &in));
        TRY(solve_block(g, l, m, columns, work, ld));
        TRY(copy(g, l->plan, &out));
    }
    return GRAM_OK;
}

static gram_status solve_large(gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    struct large l = {.plan = plan};

    TRY(gram_cuda_solver(g, &l.solver));
    TRY(open_scratch(g, &l));
    TRY(gram_cuda_solver_host(g, l.solver, l.host_bytes, &l.host));
    for (int64_t own = 0; own < plan->own.count; own++) {
        struct large_matrix m;

        TRY(load_matrix(g, &l, own, &m));
        TRY(factorise(g, &l, own, &m));
        for (int64_t j = 0; op->x.cols > 0 && j < plan->shared.count; j++)
            TRY(solve_columns(g, &l, &m, item_of(plan, &op->b, own, j),
                              item_of(plan, &op->x, own, j)));
    }
    return GRAM_OK;
}

/* ---- Entry points ---------------------------------------------------------------------------- */

/* The batch taken apart: matrices that differ, and right-hand sides that share one. */
static void make_plan(const struct gram_solve_op *op, bool lu, struct cuda_solve_plan *plan)
{
    *plan = (struct cuda_solve_plan){.op = op, .lu = lu};
    gram_solve_split(op, &plan->own, &plan->shared);
    plan->items.ndim = op->batch.ndim;
    plan->items.own = plan->own.count;
    plan->items.shared = plan->shared.count;
    for (int d = 0; d < op->batch.ndim; d++) {
        plan->items.own_shape[d] = plan->own.shape[d];
        plan->items.shared_shape[d] = plan->shared.shape[d];
    }
}

static gram_status check_pointers(gram_context *g, const struct gram_solve_op *op)
{
    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    if (op->has_pivots)
        TRY(gram_cuda_check_pointer(g, "options.pivots", &op->pivots));
    if (op->has_rcond)
        TRY(gram_cuda_check_pointer(g, "options.rcond", &op->rcond));
    if (op->has_jittered)
        TRY(gram_cuda_check_pointer(g, "options.jittered", &op->jittered));
    if (op->has_backward)
        TRY(gram_cuda_check_pointer(g, "options.backward", &op->backward));
    if (op->has_refinings)
        TRY(gram_cuda_check_pointer(g, "options.refinings", &op->refinings));
    return op->has_factor ? gram_cuda_check_pointer(g, "options.factor", &op->factor) : GRAM_OK;
}

static gram_status run(gram_context *g, const struct gram_solve_op *op, bool lu)
{
    struct cuda_solve_plan plan;
    gram_status status;
    bool entered;

    make_plan(op, lu, &plan);
    if (plan.own.count == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    if (cuda_solve_has_options(&plan))
        status = cuda_solve_options(g, &plan);
    else
        status = is_small(g, &plan) ? solve_small(g, &plan) : solve_large(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_solve_cholesky(gram_context *g, const struct gram_solve_op *op)
{
    return run(g, op, false);
}

gram_status cuda_solve_lu(gram_context *g, const struct gram_solve_op *op)
{
    return run(g, op, true);
}
