/*
 * cuda_soap.c - SOAP's bases on the device: eigenvectors at first, then steps of power iteration,
 * for all items together that are due
 *
 * An item has a factor L and a basis Q, whose row j is vector number j.  The new basis is made from
 *   P = Q L:
 * its rows are sorted by falling q L q^T, q being the row of Q, and made orthonormal from the first
 * to the last.  The first moment is brought into the new basis, and the second is sorted as the
 * vectors are.  Only the device knows which items get a new basis (soap_basis.cu); it is computed
 * for the others too, and dropped.
 *
 * Vectors are made orthonormal as the columns of A.  A panel of SOAP_PANEL columns gives reflectors
 * V and a triangle T (soap_qr.cu):
 *   H_1 H_2 ... = I - V T V^T.
 * The columns A' behind the panel are multiplied from the left:
 *   A' <- (I - V T^T V^T) A'.
 * Q is the product of I - V T V^T over all panels; the last panel is applied to I first.  cuBLAS
 * does the products, for all items at once.  Bischof and Van Loan 1987; Schreiber and Van Loan
 * 1989.
 *
 * cuBLAS is column-major: it sees a row-major matrix as its transpose, and the rows of a basis as
 * columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_count_failures = {"optimizer_matrix.cu",
                                                            "optimizer_count_failures"};
static const struct cuda_kernel optimizer_unpack_items = {"optimizer_matrix.cu",
                                                          "optimizer_unpack_items"};
static const struct cuda_kernel soap_check_finite = {"soap_basis.cu", "soap_check_finite"};
static const struct cuda_kernel soap_commit = {"soap_basis.cu", "soap_commit"};
static const struct cuda_kernel soap_count_outcome = {"soap_basis.cu", "soap_count_outcome"};
static const struct cuda_kernel soap_estimate = {"soap_basis.cu", "soap_estimate"};
static const struct cuda_kernel soap_load = {"soap_basis.cu", "soap_load"};
static const struct cuda_kernel soap_load_moments = {"soap_basis.cu", "soap_load_moments"};
static const struct cuda_kernel soap_rank = {"soap_basis.cu", "soap_rank"};
static const struct cuda_kernel soap_sort = {"soap_basis.cu", "soap_sort"};
static const struct cuda_kernel soap_still_fits = {"soap_basis.cu", "soap_still_fits"};
static const struct cuda_kernel soap_store = {"soap_basis.cu", "soap_store"};
static const struct cuda_kernel soap_identity = {"soap_qr.cu", "soap_identity"};
static const struct cuda_kernel soap_panel = {"soap_qr.cu", "soap_panel"};

enum {
    BATCH_BYTES = 1 << 30, /* about, of a batch: many items, since a panel has few blocks */
    SQUARES = 4,           /* matrices of an item: factor, basis, product, new basis */
    ARRAYS = 3,            /* of an item: the first moment, a copy of it, the second moment */
    MOST_BLOCKS = 1 << 16
};

/* ---- Products along a dimension -------------------------------------------------------------- */

/* Multiplies the matrix by count slices of n by `after` elements: it combines their rows. */
static gram_status multiply_rows(gram_context *g, const struct cuda_blas *blas,
                                 const struct cuda_soap_product *m, int64_t item, int64_t count)
{
    const struct optimizer_params *p = m->p;
    const bool shared = p->before > 1; /* the matrix serves all slices of an item */
    const int64_t size = (int64_t)gram_dtype_size(m->work);
    struct cuda_gemm_items gemm = {
        .dtype = m->work,
        .compute = m->compute,
        .m = p->after,
        .n = p->n,
        .k = p->n,
        .count = count,
        .a = {        .data = m->x + item * p->array * size,
              .ld = p->after,
              .stride = shared ? p->n * p->after : p->array           },
        .b = { .data = m->matrix + item * p->n * p->n * size,
              .ld = p->n,
              .stride = shared ? 0 : p->n * p->n,.transposed = m->back},
        .c = m->to + item * p->array * size,
        .ldc = p->after,
        .alpha = 1,
    };

    gemm.stride_c = gemm.a.stride;
    return gram_cuda_gemm_items(g, blas, &gemm);
}

/* The same for blocks with nothing behind dimension k: all their columns are one product. */
static gram_status multiply_columns(gram_context *g, const struct cuda_blas *blas,
                                    const struct cuda_soap_product *m)
{
    const struct optimizer_params *p = m->p;
    const struct cuda_gemm_items gemm = {
        .dtype = m->work,
        .compute = m->compute,
        .m = p->n,
        .n = p->before,
        .k = p->n,
        .count = m->count,
        .a = {.data = m->matrix, .ld = p->n, .stride = p->n * p->n, .transposed = !m->back},
        .b = {     .data = m->x, .ld = p->n,    .stride = p->array                       },
        .c = m->to,
        .ldc = p->n,
        .stride_c = p->array,
        .alpha = 1,
    };

    return gram_cuda_gemm_items(g, blas, &gemm);
}

gram_status cuda_soap_multiply(gram_context *g, const struct cuda_blas *blas,
                               const struct cuda_soap_product *m)
{
    if (m->p->before == 1)
        return multiply_rows(g, blas, m, 0, m->count);
    if (m->p->after == 1)
        return multiply_columns(g, blas, m);
    for (int64_t item = 0; item < m->count; item++)
        TRY(multiply_rows(g, blas, m, item, m->p->before));
    return GRAM_OK;
}

/* ---- Orthonormal vectors --------------------------------------------------------------------- */

/* make_orthonormal makes the vectors of each item orthonormal, from the first to the last, by
 * Householder's reflections of SOAP_PANEL vectors at a time. */
struct cuda_soap_qr {
    gram_dtype work;
    int64_t n, count;
    char *a;          /* its rows are the vectors; it is overwritten */
    char *reflectors; /* scratch as large as a */
    char *triangles;  /* scratch: cuda_soap_triangles(n) elements for each item */
    char *rows;       /* scratch: 2 n SOAP_PANEL elements for each item */
    char *q;          /* receives the orthonormal vectors */
};

static inline int64_t cuda_soap_triangles(int64_t n)
{
    return gram_ceil_div(n, SOAP_PANEL) * SOAP_PANEL * SOAP_PANEL;
}
struct panel {
    const struct cuda_soap_qr *qr;
    const struct cuda_blas *blas;
    int64_t column, width;
};

static char *element(const struct panel *p, char *matrix, int64_t row, int64_t column)
{
    return matrix + (column * p->qr->n + row) * (int64_t)gram_dtype_size(p->qr->work);
}

/* c = alpha a b + beta c for all items, where gemm has the matrices and their sizes. */
static gram_status multiply_panel(gram_context *g, const struct panel *p,
                                  struct cuda_gemm_items gemm)
{
    gemm.dtype = p->qr->work;
    gemm.compute = gram_cuda_compute_of(p->qr->work);
    gemm.count = p->qr->count;
    return gram_cuda_gemm_items(g, p->blas, &gemm);
}

/* Multiplies the columns of a matrix from `from` on, in the rows from p->column on, by
 * I - V T V^T, or with transposed by I - V T^T V^T. */
static gram_status reflect(gram_context *g, const struct panel *p, char *matrix, int64_t from,
                           bool transposed)
{
    const struct cuda_soap_qr *qr = p->qr;
    const int64_t n = qr->n, square = n * n, rows = n - p->column, columns = n - from;
    const int64_t room = n * SOAP_PANEL, size = (int64_t)gram_dtype_size(qr->work);
    char *first = qr->rows, *second = qr->rows + qr->count * room * size;
    const struct cuda_gemm_side v = {element(p, qr->reflectors, p->column, p->column), n, square,
                                     false};
    struct cuda_gemm_items gemm = {
        .m = p->width,
        .n = columns,
        .k = rows,
        .a = v,
        .b = {element(p, matrix, p->column, from), n, square, false},
        .c = first,
        .ldc = SOAP_PANEL,
        .stride_c = room,
        .alpha = 1
    };

    if (columns == 0)
        return GRAM_OK;
    gemm.a.transposed = true;
    TRY(multiply_panel(g, p, gemm));
    gemm.k = p->width;
    gemm.a = (struct cuda_gemm_side){qr->triangles + p->column * SOAP_PANEL * size, SOAP_PANEL,
                                     cuda_soap_triangles(n), transposed};
    gemm.b = (struct cuda_gemm_side){first, SOAP_PANEL, room, false};
    gemm.c = second;
    TRY(multiply_panel(g, p, gemm));
    gemm.m = rows;
    gemm.a = v;
    gemm.b.data = second;
    gemm.c = element(p, matrix, p->column, from);
    gemm.ldc = n;
    gemm.stride_c = square;
    gemm.alpha = -1;
    gemm.beta = 1;
    return multiply_panel(g, p, gemm);
}

static gram_status factor_panel(gram_context *g, const struct panel *p)
{
    const struct cuda_soap_qr *qr = p->qr;
    struct soap_panel params = {
        .n = qr->n,
        .column = p->column,
        .width = p->width,
        .triangle = cuda_soap_triangles(qr->n),
        .a = qr->a,
        .reflectors = qr->reflectors,
        .triangles = qr->triangles,
    };

    return cuda_launch_plain(g, &soap_panel, qr->work, qr->count, SOAP_PANEL_THREADS, &params);
}

static gram_status make_orthonormal(gram_context *g, const struct cuda_blas *blas,
                                    const struct cuda_soap_qr *qr)
{
    struct panel p = {.qr = qr, .blas = blas};
    struct soap_panel identity = {.n = qr->n, .count = qr->count, .a = qr->q};
    const int64_t all = qr->count * qr->n * qr->n;

    for (p.column = 0; p.column < qr->n; p.column += SOAP_PANEL) {
        p.width = gram_least(SOAP_PANEL, qr->n - p.column);
        TRY(factor_panel(g, &p));
        TRY(reflect(g, &p, qr->a, p.column + p.width, true));
    }
    TRY(cuda_launch_plain(g, &soap_identity, qr->work,
                          gram_least(gram_ceil_div(all, OPTIMIZER_TILE), MOST_BLOCKS),
                          OPTIMIZER_THREADS, &identity));
    for (p.column = (qr->n - 1) / SOAP_PANEL * SOAP_PANEL; p.column >= 0; p.column -= SOAP_PANEL) {
        p.width = gram_least(SOAP_PANEL, qr->n - p.column);
        TRY(reflect(g, &p, qr->q, p.column, false));
    }
    return GRAM_OK;
}

/* ---- Scratch of bases ------------------------------------------------------------------------ */

/* A batch of bases of one dimension, whose kernels are told where most of its scratch is.  At the
 * end of it is that of eigenvectors, then the arrays of moments. */
struct batch {
    const struct cuda_optimizer_job *job;
    const struct cuda_optimizer_kind *kind;
    struct soap_batch soap;
    char *triangles, *rows; /* of make_orthonormal */
    char *copy;             /* of the moment */
    char *end;
    size_t eigh_bytes;
};

static struct gram_eigh_op eigenproblem(const struct cuda_optimizer_kind *kind, int64_t n,
                                        int64_t count)
{
    struct gram_eigh_op op = {
        .batch = {.ndim = 1, .shape = {count}, .count = count},
        .a = gram_view_dense(NULL, kind->work, n, n),
        .values = gram_view_dense(NULL, kind->work, 1, n),
        .vectors = gram_view_dense(NULL, kind->work, n, n),
        .info = gram_view_dense(NULL, GRAM_I32, 1, 1),
        .has_vectors = true,
        .has_info = true,
        .uplo = GRAM_UPPER,
        .count = n,
    };

    op.a.batch_stride[0] = op.vectors.batch_stride[0] = n * n;
    op.values.batch_stride[0] = n;
    op.info.batch_stride[0] = 1;
    op.vectors.row_stride = 1; /* vector j is row n - 1 - j: the largest eigenvalue comes first */
    op.vectors.col_stride = -n;
    return op;
}

/* Items of dimension k that are done at a time. */
static int64_t items_of(const struct cuda_optimizer_kind *kind, int k)
{
    const int64_t n = kind->block->factor[k].n, size = (int64_t)gram_dtype_size(kind->work);
    const int64_t item = (SQUARES * n * n + ARRAYS * kind->array) * size;

    return gram_least(gram_least(kind->count, OPTIMIZER_ITEMS), BATCH_BYTES / item + 1);
}

static void take_arrays(struct batch *b, int64_t count, struct gram_layout *l)
{
    const size_t all = (size_t)(count * b->kind->array), size = gram_dtype_size(b->kind->work);

    gram_take_many(l, &b->soap.moment, all, size);
    gram_take_many(l, &b->soap.second, all, size);
    gram_take_many(l, &b->copy, all, size);
}

static gram_status take_batch(gram_context *g, struct batch *b, int k, struct gram_layout *l)
{
    const size_t size = gram_dtype_size(b->kind->work);
    const int64_t n = b->kind->block->factor[k].n, count = items_of(b->kind, k);
    const size_t square = (size_t)(count * n * n);
    const struct gram_eigh_op op = eigenproblem(b->kind, n, count);
    struct gram_layout arrays = {0};
    struct soap_batch *t = &b->soap;

    TRY(gram_measure(g, &b->eigh_bytes, cuda_eigh(g, &op)));
    take_arrays(b, count, &arrays);
    gram_take_many(l, &t->r.a.matrix, square, size); /* factors */
    gram_take_many(l, &t->q, square, size);
    gram_take_many(l, &t->product, square, size);
    gram_take_many(l, &t->next, square, size);
    gram_take_many(l, &b->triangles, (size_t)(count * cuda_soap_triangles(n)), size);
    gram_take_many(l, &b->rows, (size_t)(2 * count * n * SOAP_PANEL), size);
    gram_take_many(l, &t->values, (size_t)(count * n), sizeof(double));
    gram_take_many(l, &t->order, (size_t)(count * n), sizeof(int));
    gram_take_many(l, &t->outcome, (size_t)count, sizeof(int));
    gram_take(l, &b->end, gram_most_bytes(arrays.bytes, b->eigh_bytes));
    return GRAM_OK;
}

gram_status cuda_soap_bytes(gram_context *g, const struct cuda_optimizer_kind *kind, int k,
                            size_t *bytes)
{
    struct batch b = {.kind = kind};
    struct gram_layout layout = {0};

    if (kind->block->factor[k].dtype)
        TRY(take_batch(g, &b, k, &layout));
    *bytes = gram_layout_bytes(&layout);
    return GRAM_OK;
}

/* ---- Launches -------------------------------------------------------------------------------- */

static gram_status launch(struct batch *b, const struct cuda_kernel *kernel, int64_t blocks)
{
    return cuda_optimizer_launch(b->job, b->kind->work, kernel, b->soap.r.items * blocks, &b->soap);
}

/* Launches a block of threads for each tile of a matrix. */
static gram_status for_tiles(struct batch *b, const struct cuda_kernel *kernel)
{
    const int64_t n = b->soap.r.a.n;

    return launch(b, kernel, gram_ceil_div(n * n, OPTIMIZER_TILE));
}

/* to = left right, or left^T right, as cuBLAS sees the matrices. */
static gram_status multiply(const struct batch *b, const char *left, bool transposed,
                            const char *right, char *to)
{
    const int64_t n = b->soap.r.a.n;
    struct cuda_gemm_items gemm = {
        .dtype = b->kind->work,
        .compute = gram_cuda_compute_of(b->kind->work),
        .m = n,
        .n = n,
        .k = n,
        .count = b->soap.r.items,
        .a = { left, n, n * n, transposed},
        .b = {right, n, n * n,      false},
        .ldc = n,
        .stride_c = n * n,
        .alpha = 1,
    };

    gemm.c = to;
    return gram_cuda_gemm_items(b->job->step.g, b->job->blas, &gemm);
}

/* ---- Bases ----------------------------------------------------------------------------------- */

static gram_status take_eigenvectors(struct batch *b)
{
    const int64_t n = b->soap.r.a.n;
    gram_context *g = b->job->step.g;
    struct gram_eigh_op op = eigenproblem(b->kind, n, b->soap.r.items);
    struct gram_scratch_before before;
    gram_status status;

    op.a.data = b->soap.r.a.matrix;
    op.values.data = (char *)b->soap.values;
    op.vectors.data = b->soap.next + (n - 1) * n * (int64_t)gram_dtype_size(b->kind->work);
    op.info.data = (char *)b->soap.order;
    gram_scratch_lend(g, b->end, b->eigh_bytes, &before);
    status = cuda_eigh(g, &op);
    gram_scratch_return(g, &before);
    return status;
}

static gram_status multiply_factor(void *of)
{
    struct batch *b = of;

    return multiply(b, b->soap.r.a.matrix, false, b->soap.q, b->soap.product);
}

static gram_status rotate(void *of)
{
    struct batch *b = of;

    return multiply(b, b->soap.q, true, b->soap.product, b->soap.next);
}

static gram_status check_finite(void *of)
{
    struct batch *b = of;

    b->soap.checked = b->soap.product;
    return for_tiles(b, &soap_check_finite);
}

static gram_status judge(void *of)
{
    return launch(of, &soap_still_fits, 1);
}

static gram_status sort(void *of)
{
    struct batch *b = of;
    const int64_t n = b->soap.r.a.n;

    TRY(launch(b, &soap_estimate, gram_ceil_div(n, OPTIMIZER_THREADS / 32)));
    TRY(launch(b, &soap_rank, gram_ceil_div(n, OPTIMIZER_THREADS)));
    return for_tiles(b, &soap_sort);
}

static gram_status orthonormalise(void *of)
{
    const struct batch *b = of;
    const struct soap_batch *t = &b->soap;
    const struct cuda_soap_qr qr = {
        .work = b->kind->work,
        .n = t->r.a.n,
        .count = t->r.items,
        .a = t->r.a.matrix,
        .reflectors = t->product,
        .triangles = b->triangles,
        .rows = b->rows,
        .q = t->next,
    };

    return make_orthonormal(b->job->step.g, b->job->blas, &qr);
}

/* ---- Refreshes ------------------------------------------------------------------------------- */

static gram_status load(void *of)
{
    struct batch *b = of;

    TRY(cuda_optimizer_launch(b->job, b->kind->work, &optimizer_unpack_items,
                              b->soap.r.items * cuda_optimizer_pairs(b->soap.r.a.n), &b->soap.r));
    return for_tiles(b, &soap_load);
}

static gram_status find_basis(void *of, bool first)
{
    static const struct gram_soap_basis_ops ops = {multiply_factor, rotate, check_finite,
                                                   judge,           sort,   orthonormalise};
    struct batch *b = of;
    struct soap_batch *t = &b->soap;

    TRY(first ? take_eigenvectors(b) : gram_soap_iterate(&ops, b, t->skip));
    t->checked = t->next;
    TRY(for_tiles(b, &soap_check_finite));
    return cuda_optimizer_launch(b->job, b->kind->work, &soap_count_outcome,
                                 gram_ceil_div(t->r.items, OPTIMIZER_THREADS), t);
}

static gram_status load_moments(void *of)
{
    struct batch *b = of;

    return launch(b, &soap_load_moments, b->soap.r.a.tiles);
}

/* The moment times the bases, or with back times their transposes. */
// NOLINTBEGIN(readability-non-const-parameter): the product is written to it
static gram_status multiply_moment(struct batch *b, const char *bases, bool back, const char *from,
                                   char *to)
// NOLINTEND(readability-non-const-parameter)
{
    const struct cuda_soap_product product = {
        .p = &b->soap.r.a,
        .work = b->kind->work,
        .compute = gram_cuda_compute_of(b->kind->work),
        .count = b->soap.r.items,
        .matrix = bases,
        .back = back,
        .x = from,
        .to = to,
    };

    return cuda_soap_multiply(b->job->step.g, b->job->blas, &product);
}

static gram_status leave_basis(void *of)
{
    struct batch *b = of;

    return multiply_moment(b, b->soap.q, true, b->soap.moment, b->copy);
}

static gram_status enter_basis(void *of)
{
    struct batch *b = of;

    return multiply_moment(b, b->soap.next, false, b->copy, b->soap.moment);
}

static gram_status store_moments(void *of)
{
    struct batch *b = of;

    return launch(b, &soap_commit, b->soap.r.a.tiles);
}

static gram_status store(void *of)
{
    return for_tiles(of, &soap_store);
}

/* Refreshes the bases of dimension k of a batch. */
static gram_status refresh_bases(struct batch *b, int k)
{
    static const struct gram_soap_refresh_ops ops = {
        .load = load,
        .find_basis = find_basis,
        .load_moments = load_moments,
        .leave_basis = leave_basis,
        .enter_basis = enter_basis,
        .store_moments = store_moments,
        .store = store,
    };
    struct soap_batch *t = &b->soap;
    struct gram_layout layout = {0}, arrays = {0};

    TRY(take_batch(b->job->step.g, b, k, &layout));
    gram_layout_place(&layout, b->job->shared);
    take_arrays(b, items_of(b->kind, k), &arrays);
    gram_layout_place(&arrays, b->end);
    cuda_optimizer_dimension(b->kind->block, k, &t->r.a);
    t->r.info = t->order;
    return gram_soap_refresh(&ops, b, t->first);
}

/* ---- Items that are due ---------------------------------------------------------------------- */

/* True if a block's bases are due: with first, its first ones. */
static bool is_due(const struct cuda_optimizer_job *job, int64_t number, bool first)
{
    const struct gram_optimizer_block *b = &job->step.o->block[number];

    return job->step.op->gradients[b->parameter] &&
           (job->step.o->steps[b->parameter] == 0) == first && gram_soap_due(&job->step, b);
}

/* The number of items of the smallest batch of any dimension; 0: there are no bases. */
static int64_t least_batch(const struct cuda_optimizer_kind *kind)
{
    int64_t room = 0;

    for (int k = 0; k < kind->block->order; k++)
        if (kind->block->factor[k].dtype)
            room = room ? gram_least(room, items_of(kind, k)) : items_of(kind, k);
    return room;
}

static gram_status refresh(struct batch *b, int64_t room)
{
    const int64_t *order = b->job->c->order + b->kind->first;
    struct optimizer_roots *r = &b->soap.r;

    for (int64_t next = 0; next < b->kind->count;) {
        for (r->items = 0; next < b->kind->count && r->items < room; next++)
            if (is_due(b->job, order[next], b->soap.first))
                r->item[r->items++] = (int)next;
        for (int k = 0; r->items > 0 && k < b->kind->block->order; k++)
            if (b->kind->block->factor[k].dtype)
                TRY(refresh_bases(b, k));
        if (r->items > 0)
            TRY(cuda_optimizer_launch(b->job, b->kind->work, &optimizer_count_failures,
                                      gram_ceil_div(r->items, OPTIMIZER_THREADS), r));
    }
    return GRAM_OK;
}

gram_status cuda_soap_refresh(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind)
{
    struct batch b = {.job = job, .kind = kind};
    const int64_t room = least_batch(kind);

    if (room == 0)
        return GRAM_OK;
    b.soap.r.a = cuda_optimizer_wave(job, kind, 0, kind->count);
    b.soap.skip = job->step.o->options.skip;
    b.soap.first = true;
    TRY(refresh(&b, room));
    b.soap.first = false;
    return refresh(&b, room);
}
