/*
 * cuda_kron_matmul.c - products with Kronecker factors on the device: a launch for each pass
 *
 * A call finds its plan (cuda_kron_plan.c), takes scratch for what lies between passes, and
 * launches the passes one after the other.  With more than two passes there are two such buffers,
 * which take turns.
 *
 * gram_tune_kron measures the choices that a plan has, groups of factors and tiles, and keeps the
 * fastest for problems of the same class.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda_kron.h"

// NOLINTNEXTLINE(misc-redundant-expression): two constants of the same number
_Static_assert((int)KRON_MOST == (int)GRAM_MAX_FACTORS, "kron_params.h repeats a number of gram.h");

static const double least_gain = 0.98; /* times the model's time: a smaller gain is noise */

/* ---- The kernel of a pass ------------------------------------------------------------------- */

size_t cuda_kron_stored(const struct cuda_kron_plan *plan, bool is_factor, int number)
{
    return is_factor || number == 0 ? gram_dtype_size(plan->op->x.dtype) : plan->element;
}

int cuda_kron_moved(const struct device_view *side, size_t bytes, int64_t after, int64_t width,
                    int64_t group)
{
    int most = (int)(16 / bytes);
    int64_t run = after == 1 ? group : width;

    if (side->col_stride != 1)
        return 1;
    for (; most > 1; most /= 2) {
        bool fits = run % most == 0 && (after == 1 || after % most == 0) &&
                    side->row_stride % most == 0 &&
                    (uintptr_t)side->data % ((size_t)most * bytes) == 0;
        for (int d = 0; d < DEVICE_DIMS; d++)
            fits = fits && side->batch_stride[d] % most == 0;
        if (fits)
            break;
    }
    return most;
}

void cuda_kron_variant(const struct cuda_kron_plan *plan, int number,
                       const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_solver *solver = plan->pass[number].solver;
    const gram_dtype dtype = plan->op->x.dtype;
    const int kind = cuda_stored_as(dtype);
    const bool first = number == 0, last = number + 1 == plan->passes;

    cuda_variant(v, &solver->kernel,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"WHOLE", cuda_kron_is_whole(dtype)},
                              {"X_KIND", first ? kind : DEVICE_REAL},
                              {"Y_KIND", last ? kind : DEVICE_REAL}, {"F_KIND", kind}));
    solver->add_options(plan, number, params, v);
}

/* ---- The parameters of a pass --------------------------------------------------------------- */

/* A buffer between passes, in which items and rows lie one after the other. */
static struct device_view between(const struct cuda_kron_plan *plan, void *scratch, size_t at,
                                  int64_t columns)
{
    const struct gram_batch *batch = &plan->op->batch;
    struct device_view side = {
        .data = (char *)scratch + at, .row_stride = columns, .col_stride = 1};
    int64_t step = plan->rows * columns;

    for (int d = batch->ndim - 1; d >= 0; d--) {
        side.batch_stride[d] = step;
        step *= batch->shape[d];
    }
    return side;
}

void cuda_kron_params(const struct cuda_kron_plan *plan, void *scratch, int number,
                      struct kron_params *params)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct gram_kron_span *span = &plan->pass[number].span;
    size_t half = plan->passes > 2 ? gram_round64((size_t)plan->bytes / 2) : 0;
    int64_t columns = span->before * span->after;

    *params = (struct kron_params){.items = op->batch.count,
                                   .z = cuda_device_view(&plan->z),
                                   .alpha = cuda_device_number(&op->alpha),
                                   .beta = cuda_device_number(&op->beta),
                                   .rows = plan->rows,
                                   .before = span->before,
                                   .after = span->after,
                                   .depth = span->in,
                                   .outs = span->out,
                                   .last = number + 1 == plan->passes};
    cuda_set_batch(&op->batch, &params->ndim, params->shape);
    for (int f = 0; f < span->count; f++)
        params->factor[f] = cuda_device_view(&op->factor[span->first + f]);
    params->x = number == 0 ? cuda_device_view(&plan->x)
                            : between(plan, scratch, number % 2 ? 0 : half, columns * span->in);
    params->y = params->last ? cuda_device_view(&plan->y)
                             : between(plan, scratch, number % 2 ? half : 0, columns * span->out);
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* Compiles the kernels of all passes side by side, at the first call of a process. */
static void load_ahead(const gram_context *g, const struct cuda_kron_plan *plan, void *scratch)
{
    struct cuda_variant variants[GRAM_MAX_FACTORS];
    struct kron_params params;

    for (int i = 0; i < plan->passes; i++) {
        cuda_kron_params(plan, scratch, i, &params);
        cuda_kron_variant(plan, i, &params, &variants[i]);
    }
    cuda_load_ahead(g, variants, plan->passes);
}

/* Launches a pass.  A remembered plan keeps its kernels, so that their options are made only
 * once. */
static gram_status launch_pass(gram_context *g, struct cuda_kron_plan *plan, void *scratch,
                               int number)
{
    const struct cuda_device *device = g->device;
    struct cuda_kron_pass *pass = &plan->pass[number];
    struct cuda_grid grid = {.threads = (unsigned)pass->threads,
                             .shared = pass->shared_bytes,
                             .early = number > 0 && device->overlaps && pass->solver->early};
    struct kron_params params;
    struct cuda_variant v;

    cuda_kron_params(plan, scratch, number, &params);
    grid.blocks = pass->solver->count_blocks(device, plan, pass, &params);
    if (pass->function)
        return cuda_launch_function(g, pass->function, &grid, (void *[]){&params});
    cuda_kron_variant(plan, number, &params, &v);
    if (!cuda_is_loaded(g, &v))
        load_ahead(g, plan, scratch);
    v.known = &pass->function;
    return cuda_launch(g, &v, &grid, (void *[]){&params});
}

/* Takes the scratch, and launches all passes. */
static gram_status run(gram_context *g, struct cuda_kron_plan *plan)
{
    struct gram_layout layout = {0};
    void *scratch;

    gram_take(&layout, &scratch, gram_round64((size_t)plan->bytes));
    TRY(gram_layout_open(g, &layout));
    for (int i = 0; i < plan->passes; i++)
        TRY(launch_pass(g, plan, scratch, i));
    return GRAM_OK;
}

/* ---- Entry points --------------------------------------------------------------------------- */

static bool is_empty(const struct gram_kron_matmul_op *op)
{
    return op->batch.count == 0 || op->y.rows == 0 || op->y.cols == 0;
}

/* Returns op, or a product in its place that the passes can do.  Where x has no columns, the
 * factors become one factor without rows.  In place, the blocks of a single factor would read
 * columns that others write; a second factor, which is the number 1 (its data are NULL), makes a
 * pass that copies x. */
static struct gram_kron_matmul_op complete(const struct gram_kron_matmul_op *op)
{
    struct gram_kron_matmul_op one = *op;

    if (op->x.cols == 0) {
        one.count = 1;
        one.factor[0] = (struct gram_view){
            .dtype = op->x.dtype, .planes = 1, .cols = op->y.cols, .row_stride = op->y.cols};
    } else if (op->in_place && op->count == 1) {
        one.count = 2;
        one.factor[1] = (struct gram_view){
            .dtype = op->x.dtype, .planes = 1, .rows = 1, .cols = 1, .row_stride = 1};
    }
    return one;
}

/* Finds the plan, and refuses one whose scratch cannot be counted. */
static gram_status make_plan(gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                             struct cuda_kron_plan **out)
{
    const struct cuda_kron_plan *plan = *out = cuda_kron_remembered(g, op, choice);

    if (!plan)
        return GRAM_OUT_OF_MEMORY;
    if (plan->bytes > 0x1p58)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a row of x or y is too long: the size of the scratch memory overflows");
    return GRAM_OK;
}

static gram_status check_pointers(gram_context *g, const struct gram_kron_matmul_op *op)
{
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "y", &op->y));
    for (int i = 0; i < op->count; i++)
        TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
    if (op->z.data)
        TRY(gram_cuda_check_pointer(g, "options.z", &op->z));
    if (op->alpha.tensor.data)
        TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    if (op->beta.tensor.data)
        TRY(gram_cuda_check_pointer(g, "options.beta", &op->beta.tensor));
    return GRAM_OK;
}

/* Computes the product by one of the choices. */
static gram_status matmul_by(gram_context *g, const struct gram_kron_matmul_op *op, int choice)
{
    const struct gram_kron_matmul_op work = complete(op);
    struct cuda_kron_plan *plan;
    gram_status status;
    bool entered;

    if (is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, &work, choice, &plan));
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = run(g, plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* ---- Choices that were measured -------------------------------------------------------------- */

static uint64_t mix(uint64_t h, int64_t number)
{
    return (h ^ (uint64_t)number) * 0x100000001b3u;
}

/* The class of problems with the same chip, dtype, factors and layouts, whose sizes are the same to
 * the next power of two.  The numbers of these classes are above those of gram_tune and below those
 * of gram_tune_eigh. */
static uint64_t class_of(const struct cuda_device *device, const struct gram_kron_matmul_op *op)
{
    uint64_t h = mix(0xcbf29ce484222325u, device->arch);

    h = mix(h, op->x.dtype);
    for (int i = 0; i < op->count; i++)
        h = mix(mix(h, op->factor[i].rows), op->factor[i].cols);
    h = mix(mix(h, gram_octave(op->x.rows)), gram_octave(op->batch.count));
    h = mix(mix(h, op->x.col_stride == 1), op->y.col_stride == 1);
    return h >> 2 | 1ull << 62;
}

/* The choice that was fastest for problems like op; 0: none was measured. */
static int choice_for(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    int64_t choice;

    if (op->after > 1 || !gram_tuned_any(g))
        return 0;
    choice = gram_tuned_get(g, class_of(g->device, op));
    return choice > 0 && choice <= CUDA_KRON_CHOICES ? (int)choice : 0;
}

gram_status cuda_kron_matmul(gram_context *g, const struct gram_kron_matmul_op *op)
{
    return matmul_by(g, op, choice_for(g, op));
}

/* True if two plans launch the same kernels on the same tiles. */
static bool same_passes(const struct cuda_kron_plan *a, const struct cuda_kron_plan *b)
{
    bool same = a->passes == b->passes;

    for (int i = 0; i < a->passes && same; i++) {
        const struct cuda_kron_pass *p = &a->pass[i], *q = &b->pass[i];
        same = p->span.first == q->span.first && p->span.count == q->span.count &&
               p->solver == q->solver && p->units == q->units && p->columns == q->columns &&
               p->threads == q->threads;
    }
    return same;
}

/* True if a choice makes the same passes as one before it, or as the model. */
static bool is_known(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                     const struct cuda_kron_plan *plan)
{
    struct cuda_kron_plan other;

    for (int i = 0; i < choice; i++) {
        cuda_kron_plan(g->device, op, i, &other);
        if (same_passes(plan, &other))
            return true;
    }
    return false;
}

struct attempt {
    const struct gram_kron_matmul_op *op;
    int choice;
};

static gram_status run_attempt(gram_context *g, const void *attempt)
{
    const struct attempt *a = attempt;

    return matmul_by(g, a->op, a->choice);
}

gram_status cuda_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                           gram_kron_tuning *result)
{
    struct cuda_kron_plan plan;
    int best = 0;

    for (int choice = 0; choice <= CUDA_KRON_CHOICES; choice++) {
        const struct attempt attempt = {op, choice};
        double ms;
        cuda_kron_plan(g->device, op, choice, &plan);
        if (is_known(g, op, choice, &plan))
            continue;
        TRY(cuda_tune_time(g, run_attempt, &attempt, &ms));
        gram_log(g, "choice %d, %d launches: %.4f ms", choice, plan.passes, ms);
        result->candidates++;
        if (choice == 0) {
            result->table_ms = result->ms = ms;
            result->table_launches = result->launches = plan.passes;
        } else if (ms < result->ms && ms < least_gain * result->table_ms) {
            result->ms = ms;
            result->launches = plan.passes;
            best = choice;
        }
    }
    result->kept = gram_tuned_put(g, class_of(g->device, op), best);
    return GRAM_OK;
}
