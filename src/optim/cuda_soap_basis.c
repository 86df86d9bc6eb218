/*
 * cuda_soap_basis.c - SOAP's bases on the device: eigenvectors at first, then steps of power
 * iteration, for all items together that are due
 *
 * An item has a factor L and a basis Q.  The new basis is made from
 *   P = Q L:
 * its rows are sorted by falling q L q^T, q being the row of Q, and made orthonormal from the first
 * to the last.  The first moment is brought into the new basis, and the second is sorted as the
 * vectors are.  Only the device knows which items get a new basis (soap_basis.cu); it is computed
 * for the others too, and dropped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "cuda_soap.h"

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

enum {
    BATCH_BYTES = 1 << 30, /* about, of a batch: many items, since a panel has few blocks */
    SQUARES = 4,           /* matrices of an item: factor, basis, product, new basis */
    ARRAYS = 3             /* of an item: the first moment, a copy of it, the second moment */
};

/* The offsets of a batch's scratch, which begins where the arrays of a step do. */
struct room {
    int64_t count;
    size_t q, product, next, triangles, rows, values, order, outcome, arrays, eigh;
    size_t array, eigh_bytes, bytes;
};

struct batch {
    const struct cuda_optimizer_job *job;
    const struct cuda_optimizer_kind *kind;
    struct room room;
    struct soap_batch turn;
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

static size_t place(struct room *room, int64_t elements, size_t size)
{
    size_t at = room->bytes;

    room->bytes += gram_round64((size_t)elements * size);
    return at;
}

static gram_status lay_out(gram_context *g, const struct cuda_optimizer_kind *kind, int k,
                           struct room *room)
{
    const size_t size = gram_dtype_size(kind->work);
    const int64_t n = kind->block->factor[k].n, square = n * n;
    const int64_t item = (SQUARES * square + ARRAYS * kind->array) * (int64_t)size;
    struct gram_eigh_op op;

    *room = (struct room){0};
    room->count = gram_least(gram_least(kind->count, OPTIMIZER_ITEMS), BATCH_BYTES / item + 1);
    (void)place(room, room->count * square, size); /* factors */
    room->q = place(room, room->count * square, size);
    room->product = place(room, room->count * square, size);
    room->next = place(room, room->count * square, size);
    room->triangles = place(room, room->count * cuda_soap_triangles(n), size);
    room->rows = place(room, 2 * room->count * n * SOAP_PANEL, size);
    room->values = place(room, room->count * n, sizeof(double));
    room->order = place(room, room->count * n, sizeof(int));
    room->outcome = place(room, room->count, sizeof(int));
    room->eigh = room->bytes;
    room->array = gram_round64((size_t)(room->count * kind->array) * size);
    room->arrays = place(room, ARRAYS * (int64_t)room->array, 1);
    op = eigenproblem(kind, n, room->count);
    TRY(cuda_eigh_workspace(g, &op, &room->eigh_bytes));
    room->bytes = gram_most_bytes(room->bytes, room->eigh + gram_round64(room->eigh_bytes));
    return GRAM_OK;
}

gram_status cuda_soap_bytes(gram_context *g, const struct cuda_optimizer_kind *kind, int k,
                            size_t *bytes)
{
    struct room room = {0};

    if (kind->block->factor[k].dtype)
        TRY(lay_out(g, kind, k, &room));
    *bytes = room.bytes;
    return GRAM_OK;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static gram_status launch(struct batch *b, const struct cuda_kernel *kernel, int64_t blocks)
{
    return cuda_optimizer_launch(b->job, b->kind->work, kernel, b->turn.r.items * blocks, &b->turn);
}

/* Launches a block of threads for each tile of a matrix. */
static gram_status for_tiles(struct batch *b, const struct cuda_kernel *kernel)
{
    const int64_t n = b->turn.r.a.n;

    return launch(b, kernel, gram_ceil_div(n * n, OPTIMIZER_TILE));
}

/* to = left right, or left^T right, as cuBLAS sees the matrices. */
static gram_status multiply(const struct batch *b, const char *left, bool transposed,
                            const char *right, char *to)
{
    const int64_t n = b->turn.r.a.n;
    struct cuda_gemm_items gemm = {
        .dtype = b->kind->work,
        .compute = gram_cuda_compute_of(b->kind->work),
        .m = n,
        .n = n,
        .k = n,
        .count = b->turn.r.items,
        .a = { left, n, n * n, transposed},
        .b = {right, n, n * n,      false},
        .ldc = n,
        .stride_c = n * n,
        .alpha = 1,
    };

    gemm.c = to;
    return gram_cuda_gemm_items(b->job->g, b->job->blas, &gemm);
}

/* ---- Bases ---------------------------------------------------------------------------------- */

static gram_status take_eigenvectors(struct batch *b)
{
    const int64_t n = b->turn.r.a.n;
    gram_context *g = b->job->g;
    char *memory = b->turn.r.a.matrix;
    struct gram_eigh_op op = eigenproblem(b->kind, n, b->turn.r.items);
    struct cuda_optimizer_given before;
    gram_status status;

    op.a.data = memory;
    op.values.data = memory + b->room.values;
    op.vectors.data = b->turn.next + (n - 1) * n * (int64_t)gram_dtype_size(b->kind->work);
    op.info.data = (char *)b->turn.order;
    before = cuda_optimizer_give(
        g, (struct cuda_optimizer_given){memory + b->room.eigh, b->room.eigh_bytes});
    status = cuda_eigh(g, &op);
    (void)cuda_optimizer_give(g, before);
    return status;
}

static gram_status iterate(struct batch *b)
{
    struct soap_batch *t = &b->turn;
    const struct cuda_soap_qr qr = {
        .work = b->kind->work,
        .n = t->r.a.n,
        .count = t->r.items,
        .a = t->r.a.matrix,
        .reflectors = t->product,
        .triangles = t->r.a.matrix + b->room.triangles,
        .rows = t->r.a.matrix + b->room.rows,
        .q = t->next,
    };

    TRY(multiply(b, t->r.a.matrix, false, t->q, t->product));
    if (t->skip > 0)
        TRY(multiply(b, t->q, true, t->product, t->next));
    t->checked = t->product;
    TRY(for_tiles(b, &soap_check_finite));
    if (t->skip > 0)
        TRY(launch(b, &soap_still_fits, 1));
    TRY(launch(b, &soap_estimate, gram_ceil_div(t->r.a.n, OPTIMIZER_THREADS / 32)));
    TRY(launch(b, &soap_rank, gram_ceil_div(t->r.a.n, OPTIMIZER_THREADS)));
    TRY(for_tiles(b, &soap_sort));
    return cuda_soap_orthonormalize(b->job->g, b->job->blas, &qr);
}

static gram_status turn_moments(struct batch *b)
{
    struct soap_batch *t = &b->turn;
    char *other = t->r.a.matrix + b->room.arrays + 2 * b->room.array;
    struct cuda_soap_product product = {
        .p = &t->r.a,
        .work = b->kind->work,
        .compute = gram_cuda_compute_of(b->kind->work),
        .count = t->r.items,
        .matrix = t->q,
        .back = true,
        .x = t->moment,
        .to = other,
    };

    TRY(launch(b, &soap_load_moments, t->r.a.tiles));
    TRY(cuda_soap_multiply(b->job->g, b->job->blas, &product));
    product.matrix = t->next;
    product.back = false;
    product.x = other;
    product.to = t->moment;
    TRY(cuda_soap_multiply(b->job->g, b->job->blas, &product));
    return launch(b, &soap_commit, t->r.a.tiles);
}

/* Refreshes the bases of dimension k of a batch. */
static gram_status turn_bases(struct batch *b, int k)
{
    struct soap_batch *t = &b->turn;
    char *memory = b->job->scratch + b->job->at.arrays;

    TRY(lay_out(b->job->g, b->kind, k, &b->room));
    cuda_optimizer_dimension(b->kind->block, k, &t->r.a);
    t->r.a.matrix = memory;
    t->q = memory + b->room.q;
    t->product = memory + b->room.product;
    t->next = memory + b->room.next;
    t->values = (double *)(void *)(memory + b->room.values);
    t->order = (int *)(void *)(memory + b->room.order);
    t->outcome = (int *)(void *)(memory + b->room.outcome);
    t->moment = memory + b->room.arrays;
    t->second = t->moment + b->room.array;
    t->r.info = t->order;
    TRY(cuda_optimizer_launch(b->job, b->kind->work, &optimizer_unpack_items,
                              t->r.items * cuda_optimizer_pairs(t->r.a.n), &t->r));
    TRY(for_tiles(b, &soap_load));
    TRY(t->first ? take_eigenvectors(b) : iterate(b));
    t->checked = t->next;
    TRY(for_tiles(b, &soap_check_finite));
    TRY(cuda_optimizer_launch(b->job, b->kind->work, &soap_count_outcome,
                              gram_ceil_div(t->r.items, OPTIMIZER_THREADS), t));
    if (!t->first)
        TRY(turn_moments(b));
    return for_tiles(b, &soap_store);
}

/* ---- Items that are due --------------------------------------------------------------------- */

/* True if a block's basis is due: with first, its first one. */
static bool is_due(const struct cuda_optimizer_job *job, int64_t number, bool first)
{
    const gram_optimizer *o = job->o;
    const struct gram_optimizer_block *b = &o->block[number];
    const int64_t done = o->steps[b->parameter], turn = done + (o->options.stagger ? number : 0);

    if (!job->op->gradients[b->parameter] || (done == 0) != first)
        return false;
    return first || turn % o->options.refresh == 0;
}

/* *room is the number of items of the smallest batch of any dimension; 0: there are no bases. */
static gram_status least_batch(struct batch *b, int64_t *room)
{
    *room = 0;
    for (int k = 0; k < b->kind->block->order; k++) {
        if (!b->kind->block->factor[k].dtype)
            continue;
        TRY(lay_out(b->job->g, b->kind, k, &b->room));
        *room = *room ? gram_least(*room, b->room.count) : b->room.count;
    }
    return GRAM_OK;
}

static gram_status refresh(struct batch *b, int64_t room)
{
    const int64_t *order = b->job->c->order + b->kind->first;
    struct optimizer_roots *r = &b->turn.r;

    for (int64_t next = 0; next < b->kind->count;) {
        for (r->items = 0; next < b->kind->count && r->items < room; next++)
            if (is_due(b->job, order[next], b->turn.first))
                r->item[r->items++] = (int)next;
        for (int k = 0; r->items > 0 && k < b->kind->block->order; k++)
            if (b->kind->block->factor[k].dtype)
                TRY(turn_bases(b, k));
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
    int64_t room;

    TRY(least_batch(&b, &room));
    if (room == 0)
        return GRAM_OK;
    b.turn.r.a = cuda_optimizer_wave(job, kind, 0, kind->count);
    b.turn.skip = job->o->options.skip;
    b.turn.first = true;
    TRY(refresh(&b, room));
    b.turn.first = false;
    return refresh(&b, room);
}
