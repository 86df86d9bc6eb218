/*
 * transfer.c - matrices of the host to the device and back: see transfer.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "transfer.h"
#include "core/threads.h"
#include <string.h>

enum {
    STAGE_BYTES = 16 << 20, /* long enough for the bus, and several threads' work */
    GRAIN = 1 << 15         /* elements that a thread moves at a time */
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
struct gram_view gram_cuda_transfer_view(const struct gram_view *host, void *device)
{
    struct gram_view view = gram_view_dense(device, host->dtype, host->rows, host->cols);

    if (by_columns(host))
        view.row_stride = 1, view.col_stride = host->rows;
    return view;
}

gram_status gram_cuda_transfer_event(gram_context *g, CUevent *event)
{
    const struct cuda_device *device = g->device;

    return gram_cuda_check(g, device->driver,
                           device->driver->event_create(event, CU_EVENT_DISABLE_TIMING),
                           "cuEventCreate");
}

gram_status gram_cuda_transfer_order(struct cuda_transfer *t, CUevent event, CUstream first,
                                     CUstream then)
{
    const struct cuda_device *device = t->g->device;

    TRY(gram_cuda_check(t->g, device->driver, device->driver->event_record(event, first),
                        "cuEventRecord"));
    return gram_cuda_check(t->g, device->driver, device->driver->stream_wait(then, event, 0),
                           "cuStreamWaitEvent");
}

/* ---- Pieces between the host's memory and a pinned one --------------------------------------- */

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

static void gather(const struct cuda_transfer *t, struct gather *w)
{
    t->parallel(t->g, gram_ceil_div(w->count, GRAIN), gather_grain, w);
}

/* Waits until the device has read or written a stage the last time. */
static gram_status wait_for(gram_context *g, const struct cuda_stage *stage)
{
    const struct cuda_device *device = g->device;

    if (!stage->used)
        return GRAM_OK;
    return gram_cuda_check(g, device->driver, device->driver->event_synchronize(stage->done),
                           "cuEventSynchronize");
}

/* Copies bytes between a stage and the device; the stage is in use from here on. */
static gram_status copy_stage(struct cuda_transfer *t, struct cuda_stage *stage, CUdeviceptr to,
                              CUdeviceptr from, size_t bytes, CUstream stream)
{
    const struct cuda_device *device = t->g->device;
    const struct cuda_driver *driver = device->driver;

    stage->used = true;
    TRY(gram_cuda_check(t->g, driver, driver->memory_copy(to, from, bytes, stream),
                        "cuMemcpyAsync"));
    return gram_cuda_check(t->g, driver, driver->event_record(stage->done, stream),
                           "cuEventRecord");
}

/* The pinned pieces of one way, allocated when they are first needed. */
static gram_status stages_of(struct cuda_transfer *t, int way, struct cuda_stage **out)
{
    const struct cuda_device *device = t->g->device;
    struct cuda_stage *stage = t->stage[way];

    *out = stage;
    for (int i = 0; i < 2; i++) {
        if (stage[i].memory)
            continue;
        TRY(gram_cuda_check(
            t->g, device->driver,
            device->driver->memory_host_allocate(&stage[i].memory, t->stage_bytes, 0),
            "cuMemHostAlloc"));
        TRY(gram_cuda_transfer_event(t->g, &stage[i].done));
    }
    return GRAM_OK;
}

/* While the device reads one stage, the host fills the other. */
static gram_status stage_in(struct cuda_transfer *t, const struct lines *lines, CUdeviceptr device)
{
    const int64_t total = lines->count * lines->length, size = (int64_t)lines->size;
    const int64_t most = (int64_t)t->stage_bytes / size;
    struct cuda_stage *stages;

    TRY(stages_of(t, 0, &stages));
    for (int64_t first = 0; first < total; first += most) {
        struct cuda_stage *stage = &stages[t->turn++ & 1];
        struct gather w = {lines, stage->memory, first, gram_least(most, total - first), false};
        TRY(wait_for(t->g, stage));
        gather(t, &w);
        TRY(copy_stage(t, stage, device + (CUdeviceptr)(first * size),
                       (CUdeviceptr)(uintptr_t)stage->memory, (size_t)(w.count * size), t->in));
    }
    return GRAM_OK;
}

/* While the device writes one stage, the host empties the other: the loop makes one more round than
 * there are pieces. */
static gram_status stage_out(struct cuda_transfer *t, CUdeviceptr device, const struct lines *lines)
{
    const int64_t total = lines->count * lines->length, size = (int64_t)lines->size;
    const int64_t most = (int64_t)t->stage_bytes / size;
    struct cuda_stage *stages;

    TRY(stages_of(t, 1, &stages));
    for (int64_t first = 0; first < total + most; first += most) {
        struct cuda_stage *now = &stages[first / most & 1], *last = &stages[(first / most + 1) & 1];
        struct gather w = {lines, last->memory, first - most, 0, true};
        if (first < total)
            TRY(copy_stage(t, now, (CUdeviceptr)(uintptr_t)now->memory,
                           device + (CUdeviceptr)(first * size),
                           (size_t)(gram_least(most, total - first) * size), t->out));
        if (first == 0)
            continue;
        TRY(wait_for(t->g, last));
        w.count = gram_least(most, total - w.first);
        gather(t, &w);
    }
    return GRAM_OK;
}

/* ---- Memory that is pinned ------------------------------------------------------------------- */

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
static gram_status copy_lines(struct cuda_transfer *t, const struct lines *lines, CUdeviceptr there,
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

gram_status gram_cuda_transfer_in(struct cuda_transfer *t, const struct gram_view *host,
                                  void *device)
{
    const struct lines lines = lines_of(host);
    const CUdeviceptr there = (CUdeviceptr)(uintptr_t)device;

    return is_direct(t->g, &lines) ? copy_lines(t, &lines, there, false)
                                   : stage_in(t, &lines, there);
}

gram_status gram_cuda_transfer_out(struct cuda_transfer *t, const void *device,
                                   const struct gram_view *host)
{
    const struct lines lines = lines_of(host);
    const CUdeviceptr there = (CUdeviceptr)(uintptr_t)device;

    return is_direct(t->g, &lines) ? copy_lines(t, &lines, there, true)
                                   : stage_out(t, there, &lines);
}

/* ---- The streams ----------------------------------------------------------------------------- */

gram_status gram_cuda_transfer_open(gram_context *g, gram_loop *parallel, size_t bytes,
                                    struct cuda_transfer *t)
{
    const struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;

    *t = (struct cuda_transfer){
        .g = g, .parallel = parallel, .stage_bytes = bytes < STAGE_BYTES ? bytes : STAGE_BYTES};
    TRY(gram_cuda_check(g, driver, driver->stream_create(&t->in, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate"));
    return gram_cuda_check(g, driver, driver->stream_create(&t->out, CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate");
}

/* Waits for all three streams even if one has failed, since memory is freed afterwards. */
static gram_status wait_all(const struct cuda_transfer *t)
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

gram_status gram_cuda_transfer_close(struct cuda_transfer *t)
{
    const struct cuda_device *device = t->g->device;
    gram_status status = wait_all(t);

    for (int i = 0; i < 4; i++) {
        struct cuda_stage *stage = &t->stage[i / 2][i % 2];
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
