/*
 * cuda_matmul_chunked.c - gram_matmul_chunked on the device: how a product is cut, and its pieces
 *
 * While the device multiplies, the pieces of the next product are copied in on one stream, and what
 * the one before gave is copied out on another.  Events keep a slot from being filled while it is
 * read.  Where nothing is the host's, pieces are only queued.
 *
 * A piece has all terms of its sums where 256 rows and columns with all of them fit: then an
 * element of out is one sum as in the whole product.  Pieces of the host's operands lie in two
 * slots each, one in use, the other on its way.  A row of pieces keeps its piece of a while those
 * of b pass; 8192 rows give the multiplications of an H200 (50 Tflop/s in f32) 12 GB/s of b to wait
 * for, a fifth of what the bus brings, and 2048 columns make the first piece come soon.  Where all
 * pieces of b have room they stay, and b is read once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "cuda/transfer.h"
#include "matmul_batched.h"
#include <math.h>

enum cuda_chunk_operand {
    CHUNK_A,
    CHUNK_B,
    CHUNK_C,
    CHUNK_OUT,
    CHUNK_OPERANDS
};

enum {
    CHUNK_SLOTS = 16 /* copies of pieces of an operand, at most */
};

struct cuda_chunks {
    struct gram_matmul_batched_op op; /* turned where b is the one to be read once */
    bool host[CHUNK_OPERANDS];
    bool streamed;   /* any of them */
    bool all;        /* one call, no pieces */
    int64_t m, n, k; /* of a piece */
    int slots[CHUNK_OPERANDS];
    size_t slot_bytes[CHUNK_OPERANDS];
    size_t product_bytes; /* scratch of the product of a piece, or of the whole */
};

enum {
    HOST_ROWS = 8192,
    HOST_COLUMNS = 2048,
    LEAST_SIDE = 256, /* of pieces with all terms */
    ROUND = 128       /* cuBLAS's tiles */
};

/* What a piece costs, in elements. */
struct weights {
    double a, b, out; /* out: with c */
};

static struct weights weigh(const struct cuda_chunks *c)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double of_c = !op->has_c || (op->c_is_out && !c->host[CHUNK_C]) ? 0 : 1 + c->host[CHUNK_C];

    return (struct weights){1 + c->host[CHUNK_A], 1 + c->host[CHUNK_B],
                            1 + c->host[CHUNK_OUT] + of_c};
}

static double cost(const struct weights *w, double m, double n, double k)
{
    return w->a * m * k + w->b * k * n + w->out * m * n;
}

/* As many parts as there are of this size, of nearly one size. */
static int64_t even(int64_t total, double part)
{
    int64_t most = gram_least(total, (int64_t)part);
    int64_t size = gram_ceil_div(total, gram_ceil_div(total, most));
    int64_t rounded = gram_ceil_div(size, ROUND) * ROUND;

    return rounded <= most ? rounded : size;
}

/* Pieces with all terms. */
static bool cut_sides(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double k = (double)op->a.cols, ratio = c->streamed ? (double)HOST_ROWS / HOST_COLUMNS : 1;
    double m = (double)op->out.rows, n = (double)op->out.cols;
    double least_m = fmin(m, LEAST_SIDE), least_n = fmin(n, LEAST_SIDE);

    if (c->streamed)
        m = fmin(m, HOST_ROWS), n = fmin(n, HOST_COLUMNS);
    while (cost(w, m, n, k) > elements) {
        if (m <= least_m && n <= least_n)
            return false;
        if (n <= least_n || (m > least_m && m >= ratio * n))
            m = fmax(floor(m * 0.95), least_m);
        else
            n = fmax(floor(n * 0.95), least_n);
    }
    c->m = even(op->out.rows, m);
    c->n = even(op->out.cols, n);
    c->k = op->a.cols > 0 ? op->a.cols : 1;
    return true;
}

/* Half of the memory is out's, so that the sums of a piece are few. */
static bool cut_sums(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double side = floor(sqrt(elements / (2 * w->out)));
    double m = fmin((double)op->out.rows, side), n = fmin((double)op->out.cols, side);
    double k = floor((elements - w->out * m * n) / (w->a * m + w->b * n));

    if (side < 1 || k < 1)
        return false;
    c->m = (int64_t)m, c->n = (int64_t)n;
    c->k = gram_least(op->a.cols, (int64_t)fmin(k, 0x1p62));
    return true;
}

static int most_slots(double pieces)
{
    return pieces < 2 ? 1 : 2;
}

static void count_slots(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double m = (double)gram_ceil_div(op->out.rows, c->m), batch = (double)op->batch.count;
    double n = (double)gram_ceil_div(op->out.cols, c->n);
    double k = op->a.cols > 0 ? (double)gram_ceil_div(op->a.cols, c->k) : 1;
    double used = cost(w, (double)c->m, (double)c->n, (double)c->k);

    c->slots[CHUNK_A] = most_slots(batch * m * k);
    c->slots[CHUNK_B] = most_slots(batch * n * k);
    c->slots[CHUNK_C] = c->slots[CHUNK_OUT] = most_slots(batch * m * n);
    if (m > 1 && n * k > 2 && n * k <= CHUNK_SLOTS &&
        used + (n * k - 2) * (double)c->n * (double)c->k <= elements)
        c->slots[CHUNK_B] = (int)(n * k);
}

/* The bytes of a slot of each operand, and of the scratch of a product. */
static gram_status measure(gram_context *g, struct cuda_chunks *c)
{
    const size_t size = gram_dtype_size(c->op.out.dtype);
    const int64_t counts[] = {c->m * c->k, c->k * c->n, c->m * c->n, c->m * c->n};
    const struct gram_matmul_place first = {0};
    struct gram_matmul_batched_op op = gram_matmul_piece(&c->op, &first, c->m, c->n, c->k);
    struct gram_view *const views[] = {&op.a, &op.b, &op.c, &op.out};

    for (int i = 0; i < CHUNK_OPERANDS; i++) {
        c->slot_bytes[i] = c->host[i] ? gram_round64((size_t)counts[i] * size) : 0;
        if (c->host[i])
            *views[i] = gram_cuda_transfer_view(views[i], views[i]->data);
    }
    if (c->host[CHUNK_C])
        op.c_is_out = false;
    return gram_measure(g, &c->product_bytes, cuda_matmul_batched(g, &op));
}

static void describe_chunks(const struct gram_matmul_chunked_op *op, struct cuda_chunks *c)
{
    *c = (struct cuda_chunks){
        .op = op->product,
        .host = {op->host_a, op->host_b, op->host_c && op->product.has_c, op->host_out},
    };
    c->streamed = op->host_a || op->host_b || c->host[CHUNK_C] || op->host_out;
    if (c->host[CHUNK_B] && !c->host[CHUNK_A]) {
        gram_matmul_transpose(&c->op);
        c->host[CHUNK_A] = true, c->host[CHUNK_B] = false;
    }
}

static gram_status cut(gram_context *g, const struct gram_matmul_chunked_op *op,
                       struct cuda_chunks *c)
{
    const struct gram_matmul_batched_op *w = &op->product;
    const double elements = floor((double)op->memory / (double)gram_dtype_size(w->out.dtype));
    struct weights weights;

    describe_chunks(op, c);
    weights = weigh(c);
    c->all =
        gram_matmul_is_empty(w) ||
        (!c->streamed && (double)w->batch.count * cost(&weights, (double)w->out.rows,
                                                       (double)w->out.cols, (double)w->a.cols) <=
                             elements);
    if (c->all)
        return GRAM_OK;
    if (!cut_sides(c, &weights, elements) && !cut_sums(c, &weights, elements))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "memory is %zu bytes, too few for one element of a, b and out",
                         op->memory);
    count_slots(c, &weights, elements);
    return measure(g, c);
}

/* ---- Pieces on their way --------------------------------------------------------------------- */

/* The place of a copy of a piece, and the piece that is there. */
struct slot {
    char *memory;
    const char *data;
    int64_t rows, cols;
    CUevent used;     /* by a product; of out: copied to the host */
    CUevent computed; /* of out */
    bool is_used;
};

struct job {
    gram_context *g;
    gram_loop *parallel;
    const struct cuda_chunks *c;
    struct cuda_transfer transfer;
    struct slot slot[CHUNK_OPERANDS][CHUNK_SLOTS];
    struct slot *now[CHUNK_OPERANDS]; /* of the product that is made ready; NULL: not the host's */
    int turn[CHUNK_OPERANDS];
    CUevent begun, arrived;      /* scratch is there; copies for the next product */
    bool copying;                /* something is on its way for the next product */
    char *slots[CHUNK_OPERANDS]; /* scratch: the slots of each operand, and that of a product */
    void *product;
    struct slot *finished; /* of out, to be copied to its view; NULL: none */
    struct gram_view finished_view;
};

static CUstream stream_of(const struct job *job)
{
    return ((const struct cuda_device *)job->g->device)->stream;
}

static gram_status wait_on(const struct job *job, CUstream stream, CUevent event)
{
    const struct cuda_device *device = job->g->device;

    return gram_cuda_check(job->g, device->driver, device->driver->stream_wait(stream, event, 0),
                           "cuStreamWaitEvent");
}

static gram_status record(const struct job *job, CUevent event, CUstream stream)
{
    const struct cuda_device *device = job->g->device;

    return gram_cuda_check(job->g, device->driver, device->driver->event_record(event, stream),
                           "cuEventRecord");
}

static struct slot *next_slot(struct job *job, int which)
{
    return &job->slot[which][job->turn[which]++ % job->c->slots[which]];
}

/* The view of a piece of the host becomes that of its copy, which is put on its way if it is not
 * there already. */
static gram_status fetch(struct job *job, int which, struct gram_view *view)
{
    const struct gram_view host = *view;
    struct slot *slot = NULL;

    job->now[which] = NULL;
    if (!job->c->host[which] || host.rows == 0 || host.cols == 0)
        return GRAM_OK;
    for (int i = 0; i < job->c->slots[which] && which != CHUNK_C; i++) {
        struct slot *s = &job->slot[which][i];
        if (s->data == host.data && s->rows == host.rows && s->cols == host.cols)
            slot = s;
    }
    if (!slot) {
        slot = next_slot(job, which);
        if (slot->is_used)
            TRY(wait_on(job, job->transfer.in, slot->used));
        TRY(gram_cuda_transfer_in(&job->transfer, &host, slot->memory));
        slot->data = host.data, slot->rows = host.rows, slot->cols = host.cols;
        job->copying = true;
    }
    job->now[which] = slot;
    *view = gram_cuda_transfer_view(&host, slot->memory);
    return GRAM_OK;
}

/* The same of out, where the first product of a sum waits until its slot has been copied. */
static gram_status aim(struct job *job, bool first, struct gram_matmul_batched_op *op)
{
    struct slot **now = &job->now[CHUNK_OUT];

    if (!job->c->host[CHUNK_OUT])
        return GRAM_OK;
    if (first) {
        *now = next_slot(job, CHUNK_OUT);
        if ((*now)->is_used)
            TRY(wait_on(job, stream_of(job), (*now)->used));
    }
    op->out = gram_cuda_transfer_view(&op->out, (*now)->memory);
    if (!first)
        op->c = op->out;
    return GRAM_OK;
}

static gram_status multiply(struct job *job, const struct gram_matmul_place *at)
{
    const struct cuda_chunks *c = job->c;
    struct gram_matmul_batched_op op = gram_matmul_piece(&c->op, at, c->m, c->n, c->k);

    TRY(fetch(job, CHUNK_A, &op.a));
    TRY(fetch(job, CHUNK_B, &op.b));
    job->now[CHUNK_C] = NULL;
    if (at->l == 0 && c->host[CHUNK_C]) {
        TRY(fetch(job, CHUNK_C, &op.c));
        op.c_is_out = false;
    }
    TRY(aim(job, at->l == 0, &op));
    if (job->copying)
        TRY(gram_cuda_transfer_order(&job->transfer, job->arrived, job->transfer.in,
                                     stream_of(job)));
    job->copying = false;
    TRY(cuda_matmul_batched(job->g, &op));
    for (int i = 0; i < CHUNK_OUT; i++)
        if (job->now[i]) {
            TRY(record(job, job->now[i]->used, stream_of(job)));
            job->now[i]->is_used = true;
        }
    return GRAM_OK;
}

/* What the tile before gave goes to the host, while the device is at the next one. */
static gram_status store(struct job *job)
{
    struct slot *slot = job->finished;

    if (!slot)
        return GRAM_OK;
    TRY(wait_on(job, job->transfer.out, slot->computed));
    TRY(gram_cuda_transfer_out(&job->transfer, slot->memory, &job->finished_view));
    job->finished = NULL;
    slot->is_used = true;
    return record(job, slot->used, job->transfer.out);
}

/* A tile of out: the pieces of its sums. */
static gram_status run_tile(struct job *job, struct gram_matmul_place at)
{
    const struct cuda_chunks *c = job->c;

    do { /* once even without terms */
        if (gram_cancelled(job->g))
            return gram_fail(job->g, GRAM_CANCELLED, "cancelled");
        TRY(multiply(job, &at));
        at.l += c->k;
    } while (at.l < c->op.a.cols);
    at.l = 0;
    if (!c->host[CHUNK_OUT])
        return GRAM_OK;
    TRY(record(job, job->now[CHUNK_OUT]->computed, stream_of(job)));
    TRY(store(job));
    job->finished = job->now[CHUNK_OUT];
    job->finished_view = gram_matmul_piece(&c->op, &at, c->m, c->n, c->k).out;
    return GRAM_OK;
}

static gram_status run_tiles(struct job *job)
{
    const struct cuda_chunks *c = job->c;
    struct gram_scratch_before before;
    gram_status status = GRAM_OK;

    gram_scratch_lend(job->g, job->product, c->product_bytes, &before);
    for (int64_t item = 0; item < c->op.batch.count; item++)
        for (int64_t i = 0; i < c->op.out.rows; i += c->m)
            for (int64_t j = 0; j < c->op.out.cols && status == GRAM_OK; j += c->n)
                status = run_tile(job, (struct gram_matmul_place){item, i, j, 0});
    gram_scratch_return(job->g, &before);
    return status;
}

static gram_status make_slots(struct job *job)
{
    const struct cuda_chunks *c = job->c;

    for (int which = 0; which < CHUNK_OPERANDS; which++)
        for (int i = 0; i < c->slots[which] && c->host[which]; i++) {
            struct slot *slot = &job->slot[which][i];
            slot->memory = job->slots[which] + (size_t)i * c->slot_bytes[which];
            TRY(gram_cuda_transfer_event(job->g, &slot->used));
            if (which == CHUNK_OUT)
                TRY(gram_cuda_transfer_event(job->g, &slot->computed));
        }
    TRY(gram_cuda_transfer_event(job->g, &job->begun));
    return gram_cuda_transfer_event(job->g, &job->arrived);
}

static void drop_slots(const struct job *job)
{
    const struct cuda_device *device = job->g->device;
    const struct slot *slots = &job->slot[0][0];

    for (int i = 0; i < CHUNK_OPERANDS * CHUNK_SLOTS; i++) {
        if (slots[i].used)
            (void)device->driver->event_destroy(slots[i].used);
        if (slots[i].computed)
            (void)device->driver->event_destroy(slots[i].computed);
    }
    if (job->begun)
        (void)device->driver->event_destroy(job->begun);
    if (job->arrived)
        (void)device->driver->event_destroy(job->arrived);
}

/* Between the host and the device; scratch is the device's as of its stream. */
static gram_status stream_tiles(struct job *job)
{
    TRY(make_slots(job));
    TRY(gram_cuda_transfer_order(&job->transfer, job->begun, stream_of(job), job->transfer.in));
    TRY(gram_cuda_transfer_order(&job->transfer, job->begun, stream_of(job), job->transfer.out));
    TRY(run_tiles(job));
    return store(job);
}

static gram_status stream(struct job *job)
{
    const struct cuda_chunks *c = job->c;
    size_t most = 0;
    gram_status status, waited;

    for (int i = 0; i < CHUNK_OPERANDS; i++)
        most = c->slot_bytes[i] > most ? c->slot_bytes[i] : most;
    status = gram_cuda_transfer_open(job->g, job->parallel, most, &job->transfer);
    if (status == GRAM_OK)
        status = stream_tiles(job);
    waited = gram_cuda_transfer_close(&job->transfer);
    drop_slots(job);
    gram_cuda_scratch_release(job->g); /* it dwarfs that of other calls */
    return status == GRAM_OK ? waited : status;
}

/* A graph cannot wait for the host. */
static gram_status check_capture(gram_context *g)
{
    bool capturing;

    TRY(gram_cuda_capturing(g, &capturing));
    if (capturing)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "an operand is on the CPU, for which a graph cannot wait: expected all of "
                         "them on the device");
    return GRAM_OK;
}

static gram_status run(gram_context *g, gram_loop *parallel, const struct cuda_chunks *c)
{
    struct job job = {.g = g, .parallel = parallel, .c = c};
    struct gram_layout layout = {0};

    if (c->all)
        return cuda_matmul_batched(g, &c->op);
    if (c->streamed)
        TRY(check_capture(g));
    for (int i = 0; i < CHUNK_OPERANDS; i++)
        gram_take_many(&layout, &job.slots[i], (size_t)c->slots[i], c->slot_bytes[i]);
    gram_take(&layout, &job.product, c->product_bytes);
    TRY(gram_layout_open(g, &layout));
    return c->streamed ? stream(&job) : run_tiles(&job);
}

/* All pointers, before anything is written. */
static gram_status check(gram_context *g, const struct cuda_chunks *c)
{
    static const char *const names[] = {"a", "b", "options.c", "out"};
    const struct gram_matmul_batched_op *op = &c->op;
    const struct gram_view *const views[] = {&op->a, &op->b, &op->c, &op->out};

    for (int i = 0; i < CHUNK_OPERANDS; i++)
        if (!c->host[i] && (i != CHUNK_C || op->has_c))
            TRY(gram_cuda_check_pointer(g, names[i], views[i]));
    TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    TRY(gram_cuda_check_pointer(g, "options.beta", &op->beta.tensor));
    return GRAM_OK;
}

gram_status cuda_matmul_chunked(gram_context *g, const struct gram_matmul_chunked_op *op)
{
    struct cuda_chunks c;
    gram_status status;
    bool entered;

    TRY(cut(g, op, &c));
    TRY(check(g, &c));
    entered = gram_cuda_enter(g->device);
    status = run(g, op->parallel, &c);
    gram_cuda_leave(g->device, entered);
    return status;
}
