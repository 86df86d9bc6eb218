/*
 * cuda_nearest.c - nearest neighbours on the device: panels of distances, and what is kept of them
 *
 * Panels come from cuda_pair_panels.c, and nearest.cu reads each once.  Scratch: a panel, and the
 * neighbours so far of its rows.  Many points at p = 2 go another way: cuda_nearest_points.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_nearest.h"
#include "cuda_pair_panels.h"
#include "pairwise.h"

enum {
    LEAST_CAPACITY = 2 * NEAREST_THREADS,
    BLOCKS = 1 << 20
};

static const struct cuda_kernel nearest_take = {"nearest.cu", "nearest_take"};

/* ---- What both ways share -------------------------------------------------------------------- */

/* Room for all that are kept, and for what a block appends before it sorts: a power of 2. */
static int64_t capacity_of(int64_t count)
{
    int64_t capacity = LEAST_CAPACITY;

    while (capacity < count + NEAREST_THREADS)
        capacity *= 2;
    return capacity;
}

void cuda_nearest_describe(const struct gram_nearest_op *op, struct nearest_params *p)
{
    p->count = op->count;
    p->capacity = capacity_of(op->count);
    p->radius = op->radius;
    p->exclude_self = op->exclude_self;
    p->self = op->self;
    p->step = 1;
    p->indices = cuda_given_view(&op->indices, op->has_indices);
    p->distances = cuda_given_view(&op->distances, op->has_distances);
    p->counts = cuda_given_view(&op->counts, op->has_counts);
}

size_t cuda_nearest_shared(const struct nearest_params *p, gram_dtype dtype)
{
    return (size_t)p->capacity * (gram_dtype_size(dtype) + sizeof(int)) +
           NEAREST_THREADS / 32 * sizeof(int);
}

gram_status cuda_nearest_take(gram_context *g, const struct nearest_params *p, gram_dtype dtype)
{
    const struct cuda_grid grid = {.blocks = gram_least(p->panel.items * p->panel.rows, BLOCKS),
                                   .threads = NEAREST_THREADS,
                                   .shared = cuda_nearest_shared(p, dtype)};
    struct cuda_variant v;

    cuda_variant(&v, &nearest_take, CUDA_OPTIONS({"REAL", cuda_type(dtype)}));
    return cuda_launch(g, &v, &grid, (void *[]){(void *)p});
}

/* ---- Panels ---------------------------------------------------------------------------------- */

struct nearest_job {
    const struct gram_nearest_op *op;
    struct cuda_panels panels;
    struct nearest_params params;
};

static void take_rows(void *of, struct gram_layout *layout, size_t rows)
{
    struct nearest_job *job = of;
    const size_t count = (size_t)job->op->count;

    gram_take_many(layout, &job->params.values, rows, count * gram_dtype_size(job->panels.dtype));
    gram_take_many(layout, &job->params.places, rows, count * sizeof(int));
    gram_take_many(layout, &job->params.state, rows, sizeof(struct nearest_state));
}

static gram_status queue_search(gram_context *g, void *of)
{
    const struct nearest_job *job = of;

    return cuda_nearest_take(g, &job->params, job->panels.dtype);
}

static void describe(const struct gram_nearest_op *op, struct nearest_job *job)
{
    struct nearest_params *p = &job->params;
    const size_t size = op->distance.x.dtype == GRAM_F64 ? sizeof(double) : sizeof(float);

    *job = (struct nearest_job){
        .op = op,
        .panels = {.op = &op->distance, .take = take_rows, .queue = queue_search, .of = job}
    };
    job->panels.row_bytes = (size_t)op->count * (size + sizeof(int)) + sizeof(struct nearest_state);
    job->panels.panel = &p->panel;
    cuda_panels_plan(&job->panels);
    cuda_nearest_describe(op, p);
}

static gram_status check_pointers(gram_context *g, const struct gram_nearest_op *op)
{
    TRY(cuda_panels_check(g, &op->distance, &op->distances));
    if (op->has_indices)
        TRY(gram_cuda_check_pointer(g, "indices", &op->indices));
    if (op->has_distances)
        TRY(gram_cuda_check_pointer(g, "distances", &op->distances));
    return op->has_counts ? gram_cuda_check_pointer(g, "options.counts", &op->counts) : GRAM_OK;
}

static gram_status run_call(gram_context *g, const void *work)
{
    const struct gram_nearest_op *op = work;
    struct nearest_job job;

    TRY(check_pointers(g, op));
    if (cuda_nearest_filters(g, op))
        return cuda_nearest_points(g, op);
    describe(op, &job);
    return cuda_panels_run(g, &job.panels);
}

gram_status cuda_nearest(gram_context *g, const struct gram_nearest_op *op)
{
    struct gram_nearest_op rows = *op;

    if (op->distance.batch.count == 0 || op->distance.x.rows == 0)
        return GRAM_OK;
    return cuda_metric_call(g, &rows.distance, run_call, &rows);
}
