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
 * Pieces of the host are copied beside what the device computes, on two streams of their own.
 * Memory that CUDA has pinned is copied from and to where it lies; any other passes through two
 * pinned stages each way, which the threads of the context fill and empty, so that the host waits
 * for no more than the stage before the last.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "core/threads.h"
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "cuda/driver.h"
#include "matmul_batched.h"
#include <math.h>
#include <string.h>

enum cuda_chunk_operand {
    CHUNK_A,
    CHUNK_B,
    CHUNK_C,
    CHUNK_OUT,
    CHUNK_OPERANDS
};

enum {
    CHUNK_SLOTS = 16, /* copies of pieces of an operand, at most */
    HOST_ROWS = 8192,
    HOST_COLUMNS = 2048,
    LEAST_SIDE = 256,       /* of pieces with all terms */
    ROUND = 128,            /* cuBLAS's tiles */
    STAGE_BYTES = 16 << 20, /* long enough for the bus, and several threads' work */
    GRAIN = 1 << 15         /* elements that a thread moves at a time */
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

/* ---- Transfers: the host's memory and the device's ------------------------------------------- */

struct stage {
    void *memory; /* pinned, of the host */
    CUevent done; /* the copy that used it last */
    bool used;
};

struct transfer {
    gram_context *g;
    gram_loop *parallel;
    CUstream in, out;
    struct stage stage[2][2]; /* in and out, by turns */
    size_t stage_bytes;
    int turn;
};

/* A matrix as lines of elements: rows, or columns where these lie next to each other. */
struct lines {
    char *data;
    int64_t count, length; /* lines, elements of one */
    int64_t stride, step;  /* from a line to the next, from an element to the next */
    size_t size;           /* bytes of an element */
};

/* True if the columns of a matrix are its lines. */
static bool by_columns(const struct gram_view *v)
{
    return v->row_stride == 1 && v->col_stride != 1;
}

static struct lines lines_of(const struct gram_view *v)
{
    struct lines lines = {v->data,       v->rows,       v->cols,
                          v->row_stride, v->col_stride, gram_dtype_size(v->dtype)};

    if (by_columns(v)) {
        lines.count = v->cols, lines.length = v->rows;
        lines.stride = v->col_stride, lines.step = v->row_stride;
    }
    return lines;
}

/* The copy on the device has no gaps and keeps the order of the host's elements, so that neither
 * side transposes. */
static struct gram_view copy_view(const struct gram_view *host, void *device)
{
    struct gram_view view = gram_view_dense(device, host->dtype, host->rows, host->cols);

    if (by_columns(host))
        view.row_stride = 1, view.col_stride = host->rows;
    return view;
}

static gram_status make_event(gram_context *g, CUevent *event)
{
    const struct cuda_device *device = g->device;

    return gram_cuda_check(g, device->driver,
                           device->driver->event_create(event, CU_EVENT_DISABLE_TIMING),
                           "cuEventCreate");
}

static gram_status wait_on(gram_context *g, CUstream stream, CUevent event)
{
    const struct cuda_device *device = g->device;

    return gram_cuda_check(g, device->driver, device->driver->stream_wait(stream, event, 0),
                           "cuStreamWaitEvent");
}

static gram_status record(gram_context *g, CUevent event, CUstream stream)
{
    const struct cuda_device *device = g->device;

    return gram_cuda_check(g, device->driver, device->driver->event_record(event, stream),
                           "cuEventRecord");
}

/* What is queued on `then` from now on waits for what is on `first`. */
static gram_status order(gram_context *g, CUevent event, CUstream first, CUstream then)
{
    TRY(record(g, event, first));
    return wait_on(g, then, event);
}

/* ---- Transfers: through a pinned stage ------------------------------------------------------- */

struct gather {
    const struct lines *lines;
    char *dense;
    int64_t first, count; /* elements, counted along the lines */
    bool back;            /* from dense to the lines */
};

/* Copies elements between steps; neighbours at once. */
static void move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                 size_t size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
}

/* One thread's share of a piece, which may begin and end in the middle of lines. */
static void gather_grain(void *arg, int64_t index, int thread)
{
    const struct gather *w = arg;
    const struct lines *lines = w->lines;
    int64_t at = index * GRAIN, end = gram_least(at + GRAIN, w->count), size, count;

    (void)thread;
    for (size = (int64_t)lines->size; at < end; at += count) {
        int64_t line = (w->first + at) / lines->length, place = (w->first + at) % lines->length;
        char *there = lines->data + (line * lines->stride + place * lines->step) * size;
        count = gram_least(lines->length - place, end - at);
        if (w->back)
            move(there, lines->step, w->dense + at * size, 1, count, lines->size);
        else
            move(w->dense + at * size, 1, there, lines->step, count, lines->size);
    }
}

/* Waits until the device has read or written a stage the last time. */
static gram_status wait_for(gram_context *g, const struct stage *stage)
{
    const struct cuda_device *device = g->device;

    if (!stage->used)
        return GRAM_OK;
    return gram_cuda_check(g, device->driver, device->driver->event_synchronize(stage->done),
                           "cuEventSynchronize");
}

/* Copies bytes between a stage and the device; the stage is in use from here on. */
static gram_status copy_stage(struct transfer *t, struct stage *stage, CUdeviceptr to,
                              CUdeviceptr from, size_t bytes, CUstream stream)
{
    const struct cuda_device *device = t->g->device;

    stage->used = true;
    TRY(gram_cuda_check(t->g, device->driver, device->driver->memory_copy(to, from, bytes, stream),
                        "cuMemcpyAsync"));
    return record(t->g, stage->done, stream);
}

/* The pinned pieces of one way, allocated when they are first needed. */
static gram_status stages_of(struct transfer *t, int way, struct stage **out)
{
    const struct cuda_device *device = t->g->device;
    struct stage *stage = t->stage[way];

    *out = stage;
    for (int i = 0; i < 2; i++) {
        if (stage[i].memory)
            continue;
        TRY(gram_cuda_check(
            t->g, device->driver,
            device->driver->memory_host_allocate(&stage[i].memory, t->stage_bytes, 0),
            "cuMemHostAlloc"));
        TRY(make_event(t->g, &stage[i].done));
    }
    return GRAM_OK;
}

/* While the device reads one stage, the host fills the other. */
static gram_status stage_in(struct transfer *t, const struct lines *lines, CUdeviceptr device)
{
    const int64_t total = lines->count * lines->length, size = (int64_t)lines->size;
    const int64_t most = (int64_t)t->stage_bytes / size;
    struct stage *stages;

    TRY(stages_of(t, 0, &stages));
    for (int64_t first = 0; first < total; first += most) {
        struct stage *stage = &stages[t->turn++ & 1];
        struct gather w = {lines, stage->memory, first, gram_least(most, total - first), false};
        TRY(wait_for(t->g, stage));
        t->parallel(t->g, gram_ceil_div(w.count, GRAIN), gather_grain, &w);
        TRY(copy_stage(t, stage, device + (CUdeviceptr)(first * size),
                       (CUdeviceptr)(uintptr_t)stage->memory, (size_t)(w.count * size), t->in));
    }
    return GRAM_OK;
}

/* While the device writes one stage, the host empties the other: the loop makes one more round than
 * there are pieces. */
static gram_status stage_out(struct transfer *t, CUdeviceptr device, const struct lines *lines)
{
    const int64_t total = lines->count * lines->length, size = (int64_t)lines->size;
    const int64_t most = (int64_t)t->stage_bytes / size;
    struct stage *stages;

    TRY(stages_of(t, 1, &stages));
    for (int64_t first = 0; first < total + most; first += most) {
        struct stage *now = &stages[first / most & 1], *last = &stages[(first / most + 1) & 1];
        struct gather w = {lines, last->memory, first - most, 0, true};
        if (first < total)
            TRY(copy_stage(t, now, (CUdeviceptr)(uintptr_t)now->memory,
                           device + (CUdeviceptr)(first * size),
                           (size_t)(gram_least(most, total - first) * size), t->out));
        if (first == 0)
            continue;
        TRY(wait_for(t->g, last));
        w.count = gram_least(most, total - w.first);
        t->parallel(t->g, gram_ceil_div(w.count, GRAIN), gather_grain, &w);
    }
    return GRAM_OK;
}

/* ---- Transfers: memory that is pinned already ------------------------------------------------ */

/* Lines that the driver can copy from and to where they are. */
static bool is_direct(const gram_context *g, const struct lines *lines)
{
    const struct cuda_device *device = g->device;
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void *value = &type;

    return lines->step == 1 && (lines->count == 1 || lines->stride >= lines->length) &&
           lines->stride <= INT32_MAX / (int64_t)lines->size &&
           device->driver->pointer_attributes(
               1, &which, &value, (CUdeviceptr)(uintptr_t)lines->data) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

/* Lines of pinned memory in one copy, which skips the gaps between them. */
static gram_status copy_lines(struct transfer *t, const struct lines *lines, CUdeviceptr there,
                              bool back)
{
    const struct cuda_device *device = t->g->device;
    const size_t width = (size_t)lines->length * lines->size;
    const size_t pitch = lines->count == 1 ? width : (size_t)lines->stride * lines->size;
    CUDA_MEMCPY2D copy = {.WidthInBytes = width, .Height = (size_t)lines->count};

    if (back) {
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcDevice = there, copy.dstHost = lines->data;
        copy.srcPitch = width, copy.dstPitch = pitch;
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcHost = lines->data, copy.dstDevice = there;
        copy.srcPitch = pitch, copy.dstPitch = width;
    }
    return gram_cuda_check(t->g, device->driver,
                           device->driver->memory_copy_rows(&copy, back ? t->out : t->in),
                           "cuMemcpy2DAsync");
}

/* Queues the copy of a matrix of the host to the device on t->in, or back on t->out.  The host's
 * pageable memory has been read or written when it returns. */
static gram_status transfer(struct transfer *t, const struct gram_view *host, void *device,
                            bool back)
{
    const struct lines lines = lines_of(host);
    const CUdeviceptr there = (CUdeviceptr)(uintptr_t)device;

    if (is_direct(t->g, &lines))
        return copy_lines(t, &lines, there, back);
    return back ? stage_out(t, there, &lines) : stage_in(t, &lines, there);
}

/* For matrices of at most `bytes` bytes.  transfer_close undoes it, whether it failed or not. */
static gram_status transfer_open(gram_context *g, gram_loop *parallel, size_t bytes,
                                 struct transfer *t)
{
    const struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;

    *t = (struct transfer){
        .g = g, .parallel = parallel, .stage_bytes = bytes < STAGE_BYTES ? bytes : STAGE_BYTES};
    TRY(gram_cuda_check(g, driver, driver->stream_create(&t->in, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate"));
    return gram_cuda_check(g, driver, driver->stream_create(&t->out, CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate");
}

/* Waits for all three streams even if one has failed, since memory is freed afterwards. */
static gram_status wait_all(const struct transfer *t)
{
    const struct cuda_device *device = t->g->device;
    const CUstream streams[] = {t->in, device->stream, t->out};
    gram_status status = GRAM_OK;

    for (int i = 0; i < 3; i++) {
        CUresult result = CUDA_SUCCESS;
        if (i == 1 || streams[i])
            result = device->driver->stream_synchronize(streams[i]);
        if (status == GRAM_OK)
            status = gram_cuda_check(t->g, device->driver, result, "cuStreamSynchronize");
    }
    return status;
}

static gram_status transfer_close(struct transfer *t)
{
    const struct cuda_device *device = t->g->device;
    gram_status status = wait_all(t);

    for (int i = 0; i < 4; i++) {
        struct stage *stage = &t->stage[i / 2][i % 2];
        if (stage->done)
            (void)device->driver->event_destroy(stage->done);
        if (stage->memory)
            (void)device->driver->memory_host_free(stage->memory);
    }
    if (t->in)
        (void)device->driver->stream_destroy(t->in);
    if (t->out)
        (void)device->driver->stream_destroy(t->out);
    return status;
}

/* ---- How a product is cut -------------------------------------------------------------------- */

/* What a piece costs, in elements. */
struct weights {
    double a, b, out; /* out: with c */
};

/* Pieces of the host count twice: one is in use while the next one is on its way. */
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
            *views[i] = copy_view(views[i], views[i]->data);
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
                         "memory is %zu bytes, which is too small for one element each of a, b "
                         "and out",
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
    struct transfer transfer;
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
            TRY(wait_on(job->g, job->transfer.in, slot->used));
        TRY(transfer(&job->transfer, &host, slot->memory, false));
        slot->data = host.data, slot->rows = host.rows, slot->cols = host.cols;
        job->copying = true;
    }
    job->now[which] = slot;
    *view = copy_view(&host, slot->memory);
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
            TRY(wait_on(job->g, stream_of(job), (*now)->used));
    }
    op->out = copy_view(&op->out, (*now)->memory);
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
        TRY(order(job->g, job->arrived, job->transfer.in, stream_of(job)));
    job->copying = false;
    TRY(cuda_matmul_batched(job->g, &op));
    for (int i = 0; i < CHUNK_OUT; i++)
        if (job->now[i]) {
            TRY(record(job->g, job->now[i]->used, stream_of(job)));
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
    TRY(wait_on(job->g, job->transfer.out, slot->computed));
    TRY(transfer(&job->transfer, &job->finished_view, slot->memory, true));
    job->finished = NULL;
    slot->is_used = true;
    return record(job->g, slot->used, job->transfer.out);
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
    TRY(record(job->g, job->now[CHUNK_OUT]->computed, stream_of(job)));
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
            TRY(make_event(job->g, &slot->used));
            if (which == CHUNK_OUT)
                TRY(make_event(job->g, &slot->computed));
        }
    TRY(make_event(job->g, &job->begun));
    return make_event(job->g, &job->arrived);
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
    TRY(order(job->g, job->begun, stream_of(job), job->transfer.in));
    TRY(order(job->g, job->begun, stream_of(job), job->transfer.out));
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
    status = transfer_open(job->g, job->parallel, most, &job->transfer);
    if (status == GRAM_OK)
        status = stream_tiles(job);
    waited = transfer_close(&job->transfer);
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
                         "an operand is on the CPU, and a captured graph cannot wait for it: "
                         "expected all operands on the device");
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
