/*
 * cpu_eigh_krylov.c - few pairs of a large matrix by krylov.c: stored, a kernel, or products
 *
 * A stored symmetric matrix is cut into square blocks on one side of its diagonal; each is read
 * from memory once and used twice, as itself and transposed (symmetric_tile.h), so a product moves
 * half the matrix.  Blocks are dealt to a fixed number of parts with a sum of their own each, which
 * are added up at the end: the same result for any number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu_eigh.h"
#include "krylov.h"
#include "pairwise/pairwise.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = 8,        /* columns of products that are not stored */
    MORE = 160,       /* vectors of a basis, as struct krylov counts them */
    SMALL_FLOPS = 72, /* of a small eigenproblem, as struct krylov counts them */
    PARTS = 6,        /* of a product of a stored matrix */
    EDGE = 256        /* of a block of it: x and y of its columns take 32 KiB */
};

/* ---- Products of a stored matrix ------------------------------------------------------------- */

/* A stored symmetric matrix, of which one triangle is read. */
struct gram_symmetric {
    gram_context *g;
    struct gram_view view; /* of one matrix */
    gram_uplo uplo;
    /* Scratch: the vectors in rows of 64 bytes; of each part a sum like them, a copy of a block,
     * and the product of its transpose. */
    char *x, *sums, *blocks, *others;
    /* Set by symmetric_prepare. */
    gram_symmetric_kernel *multiply_block;
    double scale; /* a power of 2: products are those of scale^2 A, out of danger */
};

static size_t rows_bytes(int64_t n)
{
    return (size_t)n * SYMMETRIC_ROW_BYTES;
}

/* Rows and columns of the largest block, and the bytes of a copy of it. */
static int64_t edge_of(const struct gram_symmetric *a)
{
    return gram_least(EDGE, a->view.rows);
}

static size_t block_bytes(const struct gram_symmetric *a)
{
    return gram_round64((size_t)(edge_of(a) * edge_of(a)) * gram_dtype_size(a->view.dtype));
}

/* Takes the scratch of products, for the shape and the dtype of the view. */
static void symmetric_take(struct gram_symmetric *a, struct gram_layout *l)
{
    gram_take(l, &a->x, rows_bytes(a->view.rows));
    gram_take_many(l, &a->sums, PARTS, rows_bytes(a->view.rows));
    gram_take_many(l, &a->blocks, PARTS, block_bytes(a));
    gram_take_many(l, &a->others, PARTS, rows_bytes(edge_of(a)));
}

/* The most columns of a product: 64 bytes. */
static int64_t symmetric_columns(gram_dtype dtype)
{
    return SYMMETRIC_ROW_BYTES / (int64_t)gram_dtype_size(dtype);
}

static char *sum_of(const struct gram_symmetric *a, int64_t part)
{
    return a->sums + (size_t)part * rows_bytes(a->view.rows);
}

static char *block_of(const struct gram_symmetric *a, int64_t part)
{
    return a->blocks + (size_t)part * block_bytes(a);
}

static double number_at(gram_dtype dtype, const char *from, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)from)[i]
                             : ((const double *)(const void *)from)[i];
}

static void put_number(gram_dtype dtype, char *to, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)(void *)to)[i] = (float)value;
    else
        ((double *)(void *)to)[i] = value;
}

/* The block of rows from i and columns from j on: where it is, or a copy. */
static void take_block(const struct gram_symmetric *a, int64_t part, const int64_t ij[2],
                       struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + (ij[0] * v->row_stride + ij[1] * v->col_stride) * size;
    char *to = block_of(a, part);

    block->a = from;
    block->lda = v->row_stride;
    if (v->col_stride == 1)
        return;
    for (int64_t r = 0; r < block->rows; r++)
        for (int64_t c = 0; c < block->cols; c++)
            put_number(v->dtype, to, r * block->cols + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
    block->a = to;
    block->lda = block->cols;
}

/* A block on the diagonal: a copy of its stored half, half of the diagonal itself, since it counts
 * twice. */
static void take_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                          struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + i * (v->row_stride + v->col_stride) * size;
    char *to = block_of(a, part);

    memset(to, 0, (size_t)(block->rows * block->cols * size));
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : r, at = r * block->cols,
                end = a->uplo == GRAM_LOWER ? r + 1 : block->cols;
        if (v->col_stride == 1)
            memcpy(to + (at + first) * size, from + (r * v->row_stride + first) * size,
                   (size_t)((end - first) * size));
        for (int64_t c = first; v->col_stride != 1 && c < end; c++)
            put_number(v->dtype, to, at + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
        put_number(v->dtype, to, at + r, number_at(v->dtype, to, at + r) / 2);
    }
    block->a = to;
    block->lda = block->cols;
}

/* The micro-kernel cannot add to one place in two ways: the transpose's product takes a detour. */
static void add_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                         struct gram_symmetric_block *block)
{
    gram_dtype dtype = a->view.dtype;
    int64_t count = block->rows * symmetric_columns(dtype);
    char *to = block->y_j, *other = a->others + (size_t)part * rows_bytes(edge_of(a));

    take_diagonal(a, part, i, block);
    memset(other, 0, rows_bytes(block->rows));
    block->y_j = other;
    a->multiply_block(block);
    for (int64_t e = 0; e < count; e++)
        put_number(dtype, to, e, number_at(dtype, to, e) + number_at(dtype, other, e));
}

static void add_block(const struct gram_symmetric *a, int64_t part, int64_t i, int64_t j)
{
    const int64_t n = a->view.rows, ij[2] = {i, j};
    struct gram_symmetric_block block = {
        .rows = gram_least(EDGE, n - i),
        .cols = gram_least(EDGE, n - j),
        .x_i = a->x + rows_bytes(i),
        .x_j = a->x + rows_bytes(j),
        .y_i = sum_of(a, part) + rows_bytes(i),
        .y_j = sum_of(a, part) + rows_bytes(j),
    };

    if (i == j) {
        add_diagonal(a, part, i, &block);
        return;
    }
    take_block(a, part, ij, &block);
    a->multiply_block(&block);
}

static void multiply_part(void *arg, int64_t part, int thread)
{
    const struct gram_symmetric *a = arg;
    int64_t number = 0, blocks = gram_ceil_div(a->view.rows, EDGE);

    (void)thread;
    memset(sum_of(a, part), 0, rows_bytes(a->view.rows));
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t j = 0; j <= i; j++, number++) {
            if (number % PARTS != part)
                continue;
            if (a->uplo == GRAM_LOWER)
                add_block(a, part, i * EDGE, j * EDGE);
            else
                add_block(a, part, j * EDGE, i * EDGE);
        }
}

/* A share of the rows on their way in, scaled, or out: the sum of the parts, scaled. */
struct move {
    const struct gram_symmetric *a;
    int64_t columns;
    const char *in;
    char *out; /* or NULL */
};

static void move_share(void *arg, int64_t share, int thread)
{
    const struct move *m = arg;
    const struct gram_symmetric *a = m->a;
    gram_dtype dtype = a->view.dtype;
    int64_t n = a->view.rows, each = gram_ceil_div(n, PARTS), b = m->columns,
            width = symmetric_columns(dtype);
    int64_t first = gram_least(share * each, n), end = gram_least(first + each, n);

    (void)thread;
    if (!m->out)
        memset(a->x + rows_bytes(first), 0, rows_bytes(end - first));
    for (int64_t r = first; r < end; r++)
        for (int64_t c = 0; c < b; c++) {
            double sum = 0;
            if (!m->out) {
                put_number(dtype, a->x, r * width + c,
                           a->scale * number_at(dtype, m->in, r * b + c));
                continue;
            }
            for (int64_t part = 0; part < PARTS; part++)
                sum += number_at(dtype, sum_of(a, part), r * width + c);
            put_number(dtype, m->out, r * b + c, a->scale * sum);
        }
}

/* A krylov_multiply; user is a struct gram_symmetric. */
static gram_status symmetric_multiply(void *user, int64_t columns, const void *in, void *out)
{
    struct gram_symmetric *a = user;
    struct move move = {.a = a, .columns = columns, .in = in};

    gram_parallel_for(a->g, PARTS, move_share, &move);
    gram_parallel_for(a->g, PARTS, multiply_part, a);
    move.out = out;
    gram_parallel_for(a->g, PARTS, move_share, &move);
    return GRAM_OK;
}

/* The largest magnitude in some rows of the triangle. */
struct largest {
    const struct gram_symmetric *a;
    double most[PARTS]; /* INFINITY where something is not finite */
};

static void largest_part(void *arg, int64_t part, int thread)
{
    struct largest *job = arg;
    const struct gram_symmetric *a = job->a;
    const struct gram_view *v = &a->view;
    double most = 0;

    (void)thread;
    for (int64_t i = part; i < v->rows; i += PARTS) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : i,
                end = a->uplo == GRAM_LOWER ? i + 1 : v->rows;
        for (int64_t j = first; j < end; j++) {
            double value =
                fabs(number_at(v->dtype, v->data, i * v->row_stride + j * v->col_stride));
            most = value <= most ? most : value; /* NaN stays */
        }
    }
    job->most[part] = isfinite(most) ? most : INFINITY;
}

/* Chooses the scale and the order of rows and columns.  False: the triangle holds NaN or
 * infinity. */
static bool symmetric_prepare(struct gram_symmetric *a)
{
    struct largest job = {.a = a};
    int exponent, far = a->view.dtype == GRAM_F32 ? 40 : 300;
    double most = 0;

    if (a->view.row_stride == 1 && a->view.col_stride != 1) { /* the same matrix by its columns */
        a->view.row_stride = a->view.col_stride;
        a->view.col_stride = 1;
        a->uplo = a->uplo == GRAM_LOWER ? GRAM_UPPER : GRAM_LOWER;
    }
    a->multiply_block = gram_cpu_kernels_of(a->g)->symmetric_block[a->view.dtype];
    gram_parallel_for(a->g, PARTS, largest_part, &job);
    for (int i = 0; i < PARTS; i++)
        most = fmax(most, job.most[i]);
    a->scale = 1;
    if (!isfinite(most))
        return false;
    frexp(most, &exponent);
    if (most > 0 && (exponent > far || exponent < -far))
        a->scale = ldexp(1, -exponent / 2);
    return true;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* What an item's products need. */
struct source {
    gram_context *g;
    const struct gram_eigh_op *op;
    struct gram_symmetric stored;
    struct gram_kernel_matmul_op product; /* of the item */
    char *product_memory;
    size_t product_bytes;
};

/* A call, and its scratch: that of the solver and of products, the values in ascending order, their
 * columns of V.  The driver that does what the solver gives up takes all of it instead. */
struct work {
    struct krylov z;
    struct source from;
    char *values;
    int32_t *order;
    char *memory; /* of all this */
    size_t bytes;
};

static struct krylov problem(gram_context *g, const struct eigh_plan *plan)
{
    const struct gram_eigh_op *op = plan->op;
    struct krylov z = gram_krylov_problem(g, op, plan->fallback != GRAM_EIGH_DRIVER_AUTO);

    z.ops = &cpu_krylov_ops;
    z.more = MORE;
    z.small_flops = SMALL_FLOPS;
    z.block =
        gram_least(op->apply || op->product ? BLOCK : symmetric_columns(op->a.dtype), op->a.rows);
    gram_krylov_plan(&z);
    return z;
}

/* ---- Products -------------------------------------------------------------------------------- */

static gram_status multiply_operator(void *user, int64_t columns, const void *in, void *out)
{
    const struct source *from = user;
    const gram_operator *a = from->op->apply;
    const gram_tensor x = gram_matrix((void *)in, a->n, columns, a->dtype);
    gram_tensor y = gram_matrix(out, a->n, columns, a->dtype);

    return a->apply(a->user, &x, &y);
}

static void view_product(struct source *from, int64_t columns, const void *in, void *out)
{
    const struct gram_view *a = &from->op->a;

    from->product.v = gram_view_dense((void *)in, a->dtype, a->rows, columns);
    from->product.out = gram_view_dense(out, a->dtype, a->rows, columns);
}

static gram_status multiply_kernel(void *user, int64_t columns, const void *in, void *out)
{
    struct source *from = user;

    view_product(from, columns, in, out);
    return cpu_kernel_matmul_in(from->g, &from->product, from->product_memory, from->product_bytes);
}

static gram_status take_product(struct source *from, int64_t columns, struct gram_layout *l)
{
    const struct gram_eigh_op *op = from->op;

    if (op->apply)
        return GRAM_OK;
    if (!op->product) {
        from->stored.view = gram_view_alone(&op->a, &op->batch, 0);
        symmetric_take(&from->stored, l);
        return GRAM_OK;
    }
    from->product.kernel = gram_cdist_alone(&op->product->kernel, 0);
    view_product(from, columns, NULL, NULL);
    TRY(gram_measure(from->g, &from->product_bytes, cpu_kernel_matmul(from->g, &from->product)));
    gram_take(l, &from->product_memory, from->product_bytes);
    return GRAM_OK;
}

/* Brings the item to where z multiplies by it.  False: it holds NaN or infinity. */
static bool open_source(struct source *from, int64_t item, struct krylov *z)
{
    const struct gram_eigh_op *op = from->op;

    z->user = from;
    from->stored.scale = 1;
    if (op->apply) {
        z->multiply = multiply_operator;
    } else if (op->product) {
        z->multiply = multiply_kernel;
        from->product.kernel = gram_cdist_alone(&op->product->kernel, item);
    } else {
        z->multiply = symmetric_multiply;
        z->user = &from->stored;
        from->stored.g = from->g;
        from->stored.view = gram_view_alone(&op->a, &op->batch, item);
        from->stored.uplo = op->uplo;
        return symmetric_prepare(&from->stored);
    }
    return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void store(const struct eigh_plan *plan, int64_t item, const struct work *w)
{
    const struct krylov *z = &w->z;
    const double scale = w->from.stored.scale;
    struct eigh_pairs pairs = {
        .w = w->values,
        .v = z->v,
        .stride = {z->most, 1},
        .order = w->order,
        .stored = z->k,
    };

    gram_krylov_order(z, w->order);
    for (int64_t i = 0; i < z->k; i++) {
        double value = z->wanted[w->order[i]] / scale / scale;
        if (z->dtype == GRAM_F32)
            ((float *)(void *)w->values)[i] = (float)value;
        else
            ((double *)(void *)w->values)[i] = value;
    }
    cpu_eigh_store(plan, item, &pairs);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* An item by the plan's second driver. */
static struct gram_eigh_op dense_item(const struct eigh_plan *plan, int64_t item)
{
    const struct gram_eigh_op *op = plan->op;
    struct gram_eigh_op one = *op;

    one.batch = (struct gram_batch){.count = 1};
    one.a = gram_view_alone(&op->a, &op->batch, item);
    one.values = gram_view_alone(&op->values, &op->batch, item);
    one.vectors = gram_view_alone(&op->vectors, &op->batch, item);
    one.info = gram_view_alone(&op->info, &op->batch, item);
    one.driver = plan->fallback;
    one.report = NULL;
    return one;
}

/* Where the context's scratch may grow there is no room for the second driver yet. */
static gram_status open_scratch(gram_context *g, const struct eigh_plan *plan, struct work *w)
{
    struct gram_layout layout = {0}, own = {0};
    struct gram_eigh_op one;

    *w = (struct work){
        .z = problem(g, plan), .from = {.g = g, .op = plan->op}
    };
    w->z.ops->take(&w->z, &own);
    gram_krylov_take(&w->z, &own);
    gram_take_many(&own, &w->values, (size_t)w->z.k, w->z.element);
    gram_take_many(&own, &w->order, (size_t)w->z.k, sizeof(int32_t));
    TRY(take_product(&w->from, w->z.block, &own));
    if (plan->fallback != GRAM_EIGH_DRIVER_AUTO && !plan->grows) {
        one = dense_item(plan, 0);
        TRY(gram_measure(g, &w->bytes, cpu_eigh(g, &one)));
    }
    w->bytes = gram_most_bytes(w->bytes, gram_layout_bytes(&own));
    gram_take(&layout, &w->memory, w->bytes);
    TRY(gram_layout_open(g, &layout));
    gram_layout_place(&own, w->memory);
    return GRAM_OK;
}

/* In the scratch of the call, or in that of the context, which may grow, and then move. */
static gram_status fall_back(gram_context *g, struct eigh_plan *plan, int64_t item, struct work *w)
{
    struct gram_eigh_op one = dense_item(plan, item);
    struct gram_scratch_before before;
    gram_status status;

    if (plan->op->report)
        plan->op->report->dense++;
    if (plan->grows) {
        TRY(cpu_eigh(g, &one));
        return open_scratch(g, plan, w);
    }
    gram_scratch_lend(g, w->memory, w->bytes, &before);
    status = cpu_eigh(g, &one);
    gram_scratch_return(g, &before);
    return status;
}

static gram_status run_item(gram_context *g, struct eigh_plan *plan, int64_t item, struct work *w)
{
    struct work now = *w; /* its iteration begins anew */

    if (now.z.k == 0) {
        cpu_eigh_store(plan, item, &(struct eigh_pairs){0});
        return GRAM_OK;
    }
    if (!open_source(&now.from, item, &now.z)) {
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
        return GRAM_OK;
    }
    TRY(gram_krylov_run(&now.z));
    gram_krylov_report(&now.z, plan->op->report);
    if (now.z.not_finite)
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
    else if (now.z.complete && now.z.converged == now.z.k)
        store(plan, item, &now);
    else if (plan->fallback != GRAM_EIGH_DRIVER_AUTO)
        return fall_back(g, plan, item, w);
    else
        cpu_eigh_fail(plan, item, EIGH_NOT_CONVERGED);
    return GRAM_OK;
}

static gram_status run(gram_context *g, struct eigh_plan *plan)
{
    struct work w;

    TRY(open_scratch(g, plan, &w));
    for (int64_t i = 0; i < plan->op->batch.count; i++)
        TRY(run_item(g, plan, i, &w));
    return GRAM_OK;
}

const struct eigh_driver cpu_eigh_krylov = {"block Lanczos", gram_krylov_takes, run};
