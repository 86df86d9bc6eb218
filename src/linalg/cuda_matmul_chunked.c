/*
 * cuda_matmul_chunked.c - gram_matmul_chunked on the device: pieces, and copies of the host's
 * beside them
 *
 * While the device multiplies, the pieces of the next product are copied in on one stream, and what
 * the one before gave is copied out on another.  Events keep a slot from being filled while it is
 * read.  Where nothing is the host's, pieces are only queued.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matmul_chunked.h"
#include "cuda/arena.h"
#include "cuda/transfer.h"
#include "matmul_piece.h"

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
    CUevent begun, arrived; /* scratch is there; copies for the next product */
    bool copying;           /* something is on its way for the next product */
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
    struct cuda_borrowed before;
    gram_status status = GRAM_OK;

    gram_cuda_scratch_begin(job->g, job->product, c->product_bytes, &before);
    for (int64_t item = 0; item < c->op.batch.count; item++)
        for (int64_t i = 0; i < c->op.out.rows; i += c->m)
            for (int64_t j = 0; j < c->op.out.cols && status == GRAM_OK; j += c->n)
                status = run_tile(job, (struct gram_matmul_place){item, i, j, 0});
    gram_cuda_scratch_end(job->g, &before);
    return status;
}

static gram_status make_slots(struct job *job, char *scratch)
{
    const struct cuda_chunks *c = job->c;

    for (int which = 0; which < CHUNK_OPERANDS; which++)
        for (int i = 0; i < c->slots[which] && c->host[which]; i++) {
            struct slot *slot = &job->slot[which][i];
            slot->memory = scratch + c->slots_at[which] + (size_t)i * c->slot_bytes[which];
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
static gram_status stream_tiles(struct job *job, char *scratch)
{
    TRY(make_slots(job, scratch));
    TRY(gram_cuda_transfer_order(&job->transfer, job->begun, stream_of(job), job->transfer.in));
    TRY(gram_cuda_transfer_order(&job->transfer, job->begun, stream_of(job), job->transfer.out));
    TRY(run_tiles(job));
    return store(job);
}

static gram_status stream(struct job *job, char *scratch)
{
    const struct cuda_chunks *c = job->c;
    size_t most = 0;
    gram_status status, waited;

    for (int i = 0; i < CHUNK_OPERANDS; i++)
        most = c->slot_bytes[i] > most ? c->slot_bytes[i] : most;
    status = gram_cuda_transfer_open(job->g, job->parallel, most, &job->transfer);
    if (status == GRAM_OK)
        status = stream_tiles(job, scratch);
    waited = gram_cuda_transfer_close(&job->transfer);
    drop_slots(job);
    gram_cuda_scratch_release(job->g);
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
    void *scratch;

    if (c->all)
        return cuda_matmul_batched(g, &c->op);
    if (c->streamed && !c->all)
        TRY(check_capture(g));
    TRY(gram_cuda_scratch(g, c->bytes, &scratch));
    job.product = (char *)scratch + c->product_at;
    return c->streamed ? stream(&job, scratch) : run_tiles(&job);
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

    TRY(cuda_matmul_chunks(g, op, &c));
    TRY(check(g, &c));
    entered = gram_cuda_enter(g->device);
    status = run(g, op->parallel, &c);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_matmul_chunked_workspace(gram_context *g, const struct gram_matmul_chunked_op *op,
                                          size_t *bytes)
{
    struct cuda_chunks c;

    TRY(cuda_matmul_chunks(g, op, &c));
    *bytes = c.bytes;
    return GRAM_OK;
}
