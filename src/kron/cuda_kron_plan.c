/*
 * cuda_kron_plan.c - the plan of a product with Kronecker factors: which factors each launch
 * applies together, by which kernel, and the sizes of tiles
 *
 * Every launch reads and writes all elements, so there are as few launches as shared memory allows:
 * factors of at most SMALL by SMALL are fused, from the last one on, as long as a tile fits.  Of
 * the plans with the fewest launches the one with the smallest tiles is taken, since more blocks
 * then share a processor.  Launches and the contractions in them are ordered as on the CPU
 * (cpu_kron_matmul_plan.c): factors that shrink x come first.  For each pass the solvers of its
 * kind of factors are asked in turn, the fastest first, and the first that does not refuse plans
 * it.
 *
 * Making a plan takes longer than a launch, so the last ones are remembered.  A plan depends on
 * sizes, strides, and how addresses are aligned: calls that agree in these share a plan, and the
 * kernels that it has found.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <string.h>

enum {
    SMALL = 32,           /* largest P and Q of a fused factor */
    LEAST_MMA = 16,       /* least P and Q of a factor for tensor cores */
    MOST_PAIRED = 8,      /* P of factors that kron_matmul.cu takes two at a time */
    RUN_BYTES = 64,       /* neighbours in memory that a tile should read at least */
    LEAST_BUDGET = 16384, /* least limit of a tile: smaller tiles are no better */
    WANTED_BYTES = 32768, /* size to aim at of a tile that may have any size */
    MANY_TILES = 8,       /* tiles for a processor: with more, tiles are made larger */
    MMA_BK = 16,          /* as in kron_matmul_mma.cu */
    MMA_STAGES = 3,       /* chunks of that kernel that are in shared memory at a time */
    SINGLE_THREADS = 256, /* of kron_matmul_one.cu and kron_matmul_mma.cu */
    REMEMBERED = 8,       /* plans */
    ALIGNED = 16,         /* bytes: addresses count modulo this */
};

/* The most shared memory of a block on a chip, less the offsets that a kernel keeps there. */
int64_t cuda_kron_shared(int arch)
{
    int64_t kib = arch == 80 || arch == 87 ? 163 : arch >= 90 && arch < 120 ? 227 : 99;

    return kib * 1024 - 4096;
}

/* ---- The factors of each pass ---------------------------------------------------------------- */

/* True if a factor goes to tensor cores by itself: one that is too large to be fused, and in f64
 * one of 32 by 32 where kron_matmul_tile.cu does not use them. */
static bool is_large(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct gram_view *f = &op->factor[factor];
    int64_t least = gram_least(f->rows, f->cols), most = gram_most(f->rows, f->cols);

    return !cuda_kron_is_whole(op->x.dtype) && least >= LEAST_MMA &&
           (most > SMALL ||
            (op->x.dtype == GRAM_F64 && least == SMALL && !cuda_kron_tile_by_mma(plan, factor)));
}

/* True if a factor is fused with its neighbours. */
static bool is_small(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_view *f = &plan->op->factor[factor];

    return f->rows <= SMALL && f->cols <= SMALL && f->rows > 0 && !is_large(plan, factor);
}

/* True if all factors of a pass are square, so that a step can work in place. */
static bool all_square(const struct gram_kron_matmul_op *op, const struct cuda_kron_pass *pass)
{
    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        if (op->factor[f].rows != op->factor[f].cols)
            return false;
    return true;
}

/* The elements that factors take in shared memory, with a gap behind each row. */
static int64_t factors_elements(const struct gram_kron_matmul_op *op, int first, int count)
{
    int64_t elements = 0;

    for (int f = first; f < first + count; f++)
        elements += op->factor[f].rows * (op->factor[f].cols + 4);
    return elements;
}

/* The shared memory of a block in bytes: the factors, one tile, or two where a step cannot work in
 * place, and padding. */
static double tile_bytes(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                         int64_t most, int64_t width)
{
    double buffers = all_square(plan->op, pass) ? 1 : 2;

    return ((double)most * (double)width * buffers * 33 / 32 + 2 +
            (double)factors_elements(plan->op, pass->span.first, pass->span.count)) *
           (double)plan->element;
}

/* Cuts the factors into passes whose tiles fit into the budget, and returns how many there are. */
static int cut(struct cuda_kron_plan *plan, double budget)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t run = RUN_BYTES / (int64_t)plan->element, after = plan->inside;

    plan->passes = 0;
    for (int last = op->count - 1; last >= 0;) {
        struct cuda_kron_pass *pass = &plan->pass[plan->passes++];
        *pass = (struct cuda_kron_pass){
            .span = {.first = last, .count = 1}
        };
        bool small = is_small(plan, last), tiled = plan->tiled && cuda_kron_tile_takes(op, last);
        if (plan->pairs && last == op->count - 1)
            pass->span.first--, pass->span.count = 2;
        while (small && pass->span.first > 0 && is_small(plan, pass->span.first - 1)) {
            struct cuda_kron_pass longer = {
                .span = {.first = pass->span.first - 1, .count = pass->span.count + 1}
            };
            int64_t most = gram_kron_span_order(op, &longer.span);
            bool fits = tiled && cuda_kron_tile_takes(op, longer.span.first)
                            ? cuda_kron_tile_holds(plan, &longer.span, after) &&
                                  tile_bytes(plan, &longer, most, gram_least(after, run)) <=
                                      (double)plan->shared_bytes
                            : tile_bytes(plan, &longer, most, gram_least(after, run)) <= budget;
            if (!fits)
                break;
            tiled = tiled && cuda_kron_tile_takes(op, longer.span.first);
            pass->span.first = longer.span.first, pass->span.count = longer.span.count;
        }
        gram_kron_span_order(op, &pass->span);
        last = pass->span.first - 1;
        if (after < run)
            after *= gram_most(pass->span.in, pass->span.out);
    }
    return plan->passes;
}

/* Makes the passes with the budget of a choice; 0 takes the least budget with which there are as
 * few passes as with all memory. */
static void make_passes(const struct cuda_device *device, int choice, struct cuda_kron_plan *plan)
{
    double budget = (double)plan->shared_bytes;
    const int64_t large = cuda_kron_tile_size(device, plan, choice);
    const int64_t small = plan->tile_bytes;
    int passes = cut(plan, budget);

    plan->tile_bytes = large;
    if (large == small || cut(plan, budget) >= passes)
        plan->tile_bytes = small;
    passes = cut(plan, budget);

    if (choice > 0) {
        cut(plan, budget / (1 << (choice - 1) / CUDA_KRON_TILES));
        return;
    }
    while (budget / 2 >= LEAST_BUDGET && cut(plan, budget / 2) == passes)
        budget /= 2;
    cut(plan, budget);
}

/* ---- kron_matmul.cu: small factors and a tile in shared memory ------------------------------- */

/* True if the kernel takes factors two at a time, so that a thread has more elements. */
static bool is_paired(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass)
{
    bool paired = pass->fused.in_place && plan->element == 4 && pass->span.count > 1;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        paired = paired && plan->op->factor[f].rows <= MOST_PAIRED;
    return paired;
}

static bool is_power(int64_t n)
{
    return (n & (n - 1)) == 0;
}

/* Threads for a tile, of which each has `each` elements, as were fastest on an H200. */
static int choose_threads(int64_t elements, int64_t each, int64_t most)
{
    return (int)gram_most(64, gram_least(most, gram_round_up(elements / each, 32)));
}

/* Makes a tile larger, along the indices after the factors and then by more units, as long as it
 * stays below the size to aim at and there are tiles enough. */
static bool plan_fused(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                       int number, struct cuda_kron_pass *pass)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t most = gram_kron_span_order(op, &pass->span), run = RUN_BYTES / (int64_t)plan->element;
    int64_t units = plan->rows * op->batch.count * pass->span.before;
    int64_t many = (int64_t)MANY_TILES * device->processors, size, buffers;
    int64_t wanted = plan->wanted_bytes / (int64_t)plan->element;

    (void)number;
    pass->columns = gram_least(pass->span.after, run);
    pass->units = 1;
    while (pass->columns < pass->span.after && most * pass->columns * 2 <= wanted &&
           units * (pass->span.after / pass->columns) / 2 >= many)
        pass->columns = gram_least(pass->span.after, pass->columns * 2);
    while (pass->columns == pass->span.after && most * pass->columns * pass->units * 2 <= wanted &&
           units / pass->units / 2 >= many && pass->units < plan->rows * pass->span.before)
        pass->units *= 2;
    pass->fused = (struct cuda_kron_fused_pass){.in_place = all_square(op, pass),
                                                .padded = is_power(pass->columns)};
    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        pass->fused.padded =
            pass->fused.padded && is_power(op->factor[f].rows) && is_power(op->factor[f].cols);
    size = most * pass->columns * pass->units * (int64_t)plan->element;
    buffers = pass->fused.in_place ? 1 : 2;
    size = size / (int64_t)plan->element;
    pass->threads =
        is_paired(plan, pass) ? choose_threads(size, 128, 256) : choose_threads(size, 32, 512);
    size += (pass->fused.padded ? size / (32 * 4 / (int64_t)plan->element) : 0) + 1;
    pass->shared_bytes =
        (size_t)(size * buffers + factors_elements(op, pass->span.first, pass->span.count)) *
        plan->element;
    return true;
}

static void add_fused_options(const struct cuda_kron_plan *plan, int number,
                              const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct gram_kron_span *span = &pass->span;
    const struct gram_view *f = &plan->op->factor[span->first];
    const size_t x_bytes = cuda_kron_stored(plan, false, number);
    const size_t y_bytes =
        number + 1 == plan->passes ? gram_dtype_size(plan->op->x.dtype) : plan->element;

    for (int i = 0; i < span->count; i++)
        cuda_option(v, "P_OF", f[i].rows);
    for (int i = 0; i < span->count; i++)
        cuda_option(v, "Q_OF", f[i].cols);
    for (int i = 0; i < span->count; i++)
        cuda_option(v, "ORDER", span->order[i] - span->first);
    cuda_option(v, "TB", pass->units);
    cuda_option(v, "TA", pass->columns);
    cuda_option(v, "THREADS", pass->threads);
    cuda_option(v, "IN_PLACE", pass->fused.in_place);
    cuda_option(v, "PADDED", pass->fused.padded);
    cuda_option(v, "X_LOAD",
                cuda_kron_moved(&params->x, x_bytes, span->after, pass->columns, span->in));
    cuda_option(v, "Y_LOAD",
                cuda_kron_moved(&params->y, y_bytes, span->after, pass->columns, span->out));
}

/* A block has one tile. */
static int64_t count_fused_blocks(const struct cuda_device *device,
                                  const struct cuda_kron_plan *plan,
                                  const struct cuda_kron_pass *pass, struct kron_params *params)
{
    (void)device;
    params->unit_tiles = gram_ceil_div(plan->rows * pass->span.before, pass->units);
    params->col_tiles = gram_ceil_div(pass->span.after, pass->columns);
    return cuda_kron_count_tiles(params, INT32_MAX);
}

const struct cuda_kron_solver cuda_kron_fused = {
    .kernel = {"kron_matmul.cu", "kron_matmul"},
    .plan = plan_fused,
    .add_options = add_fused_options,
    .count_blocks = count_fused_blocks,
};

/* ---- kron_matmul_one.cu and kron_matmul_mma.cu: one factor ----------------------------------- */

/* The columns of a matrix whose rows are the factor's index. */
static double count_columns(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass)
{
    return (double)plan->rows * (double)pass->span.before * (double)pass->span.after *
           (double)plan->op->batch.count;
}

/* True if elements that are neighbours along the factor's index are so in x. */
static bool is_along(const struct cuda_kron_plan *plan, int number,
                     const struct cuda_kron_pass *pass)
{
    return pass->span.after == 1 && (number > 0 || plan->x.col_stride == 1);
}

/* Tiles have 16 columns instead of 64 where processors would be idle. */
static bool plan_single(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                        int number, struct cuda_kron_pass *pass)
{
    pass->threads = SINGLE_THREADS;
    pass->single = (struct cuda_kron_single_pass){.along = is_along(plan, number, pass)};
    pass->units = pass->span.out <= 16 ? 16 : pass->span.out <= 32 ? 32 : 64;
    pass->columns = 64;
    if (count_columns(plan, pass) / 64 * (double)gram_ceil_div(pass->span.out, pass->units) <
        2.0 * device->processors)
        pass->columns = 16;
    return true;
}

static void add_single_options(const struct cuda_kron_plan *plan, int number,
                               const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];

    (void)params;
    cuda_option(v, "BQ", pass->units);
    cuda_option(v, "BN", pass->columns);
    cuda_option(v, "BK", 16);
    cuda_option(v, "ALONG", pass->single.along);
}

/* A block has one tile of `columns` columns and `units` of the factor's. */
static int64_t count_single_blocks(const struct cuda_device *device,
                                   const struct cuda_kron_plan *plan,
                                   const struct cuda_kron_pass *pass, struct kron_params *params)
{
    (void)device;
    params->unit_tiles =
        gram_ceil_div(plan->rows * pass->span.before * pass->span.after, pass->columns);
    params->col_tiles = gram_ceil_div(pass->span.out, pass->units);
    return cuda_kron_count_tiles(params, INT32_MAX);
}

const struct cuda_kron_solver cuda_kron_single = {
    .kernel = {"kron_matmul_one.cu", "kron_matmul_one"},
    .plan = plan_single,
    .add_options = add_single_options,
    .count_blocks = count_single_blocks,
};

/* The shared memory that the stages of kron_matmul_mma.cu take. */
static size_t mma_bytes(const struct cuda_kron_plan *plan, int number)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    size_t x = cuda_kron_stored(plan, false, number), f = cuda_kron_stored(plan, true, number);
    size_t columns = (size_t)pass->columns, units = (size_t)pass->units;
    size_t pad = 16 / x < 4 ? 4 : 16 / x;

    x *= pass->single.along ? columns * (MMA_BK + pad) : MMA_BK * (columns + 32 / x);
    f *= MMA_BK * (units + 32 / f);
    return MMA_STAGES * (x + f);
}

/* A tile has 16, 32, 64 or 128 of the factor's columns: the number that leaves the fewest unused.
 * It becomes narrower in the other direction where processors would be idle. */
static bool plan_mma(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                     int number, struct cuda_kron_pass *pass)
{
    int64_t across; /* columns of the warps that stand side by side, 8 each */
    bool is_double = plan->element == 8;
    const double columns = count_columns(plan, pass);

    pass->threads = SINGLE_THREADS;
    pass->single = (struct cuda_kron_single_pass){.along = is_along(plan, number, pass)};
    pass->units = 128;
    while (pass->units > 16 && gram_round_up(pass->span.out, pass->units / 2) <
                                   gram_round_up(pass->span.out, pass->units))
        pass->units /= 2;
    pass->single.mt = pass->units == 16 ? 1 : 2;
    pass->single.wq = (int)(pass->units / 16 / pass->single.mt);
    pass->single.nt = is_double && pass->units < 128 ? 2 : 4;
    across = 8 * (int64_t)(8 / pass->single.wq);
    while (pass->single.nt > 1 && columns / (double)(pass->single.nt * across) *
                                          (double)gram_ceil_div(pass->span.out, pass->units) <
                                      device->processors)
        pass->single.nt /= 2;
    pass->columns = pass->single.nt * across;
    pass->shared_bytes = mma_bytes(plan, number);
    return true;
}

static void add_mma_options(const struct cuda_kron_plan *plan, int number,
                            const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct cuda_kron_single_pass *s = &pass->single;

    cuda_option(v, "DOUBLES", plan->element == 8);
    cuda_option(v, "MT", s->mt);
    cuda_option(v, "NT", s->nt);
    cuda_option(v, "WQ", s->wq);
    cuda_option(v, "ALONG", s->along);
    cuda_option(v, "X_LOAD",
                cuda_kron_moved(&params->x, cuda_kron_stored(plan, false, number), pass->span.after,
                                pass->columns, pass->span.in));
    cuda_option(v, "F_LOAD",
                cuda_kron_moved(&params->factor[0], cuda_kron_stored(plan, true, number), 1, 1,
                                pass->span.out));
}

const struct cuda_kron_solver cuda_kron_mma = {
    .kernel = {"kron_matmul_mma.cu", "kron_matmul_mma"},
    .plan = plan_mma,
    .add_options = add_mma_options,
    .count_blocks = count_single_blocks,
};

/* ---- The whole plan ------------------------------------------------------------------------- */

/* Has the first solver that does not refuse it plan a pass. */
static void choose_solver(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                          int number, struct cuda_kron_pass *pass)
{
    static const struct cuda_kron_solver *const small[] = {&cuda_kron_tile, &cuda_kron_fused},
                                                *const large[] = {&cuda_kron_resident,
                                                                  &cuda_kron_mma},
                                                *const other[] = {&cuda_kron_single};
    const int first = pass->span.first;
    const struct cuda_kron_solver *const *solver = is_large(plan, first)   ? large
                                                   : is_small(plan, first) ? small
                                                                           : other;

    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the last of a list refuses nothing
    while (!(*solver)->plan(device, plan, number, pass))
        solver++;
    pass->solver = *solver;
}

/* True if the elements of a column are neighbours, and the columns follow without gaps.  Such a
 * matrix is seen as one long row, whose index after the factors is the row. */
static bool rows_are_inside(const struct gram_view *v)
{
    return v->rows > 1 && v->row_stride != 0 && v->col_stride == v->rows * v->row_stride;
}

/* Sees a matrix as one long row, column by column. */
static void lay_flat(struct gram_view *v)
{
    v->cols *= v->rows;
    v->col_stride = v->row_stride;
    v->rows = 1, v->row_stride = 0;
}

/* Binds a plan to another op of the same sizes and layouts: to its addresses and its numbers alpha
 * and beta. */
static void rebind(const struct gram_kron_matmul_op *op, struct cuda_kron_plan *plan)
{
    plan->op = op;
    plan->x = op->x, plan->y = op->y, plan->z = op->z;
    plan->rows = op->x.rows, plan->inside = gram_most(1, op->after);
    if (op->after > 1 || !rows_are_inside(&op->x) || !rows_are_inside(&op->y) ||
        (op->z.data && !rows_are_inside(&op->z)))
        return;
    plan->inside = plan->rows, plan->rows = 1;
    lay_flat(&plan->x);
    lay_flat(&plan->y);
    lay_flat(&plan->z);
}

/* True if no pass takes more shared memory than a block can have. */
static bool fits(const struct cuda_kron_plan *plan)
{
    for (int i = 0; i < plan->passes; i++)
        if (plan->pass[i].shared_bytes > (size_t)plan->shared_bytes)
            return false;
    return true;
}

/* Makes the plan of a choice, which may not fit. */
static void make(const struct cuda_device *device, const struct gram_kron_matmul_op *op, int choice,
                 struct cuda_kron_plan *plan)
{
    static const int64_t wanted[CUDA_KRON_TILES] = {WANTED_BYTES, WANTED_BYTES / 2,
                                                    WANTED_BYTES * 2};

    *plan = (struct cuda_kron_plan){
        .element = op->x.dtype == GRAM_F64 || op->x.dtype == GRAM_I64 ? 8 : 4,
        .shared_bytes = cuda_kron_shared(device->arch),
        .wanted_bytes = wanted[choice > 0 ? (choice - 1) % CUDA_KRON_TILES : 0]};
    rebind(op, plan);
    plan->tiled = plan->x.col_stride == 1 && plan->y.col_stride == 1 &&
                  (!cuda_kron_adds(op) || plan->z.col_stride == 1);
    plan->tensor = plan->tiled && cuda_kron_tile_has_tensor(device->arch, op);
    plan->pairs = cuda_kron_resident_pairs(device, plan) && is_large(plan, op->count - 1) &&
                  is_large(plan, op->count - 2);
    make_passes(device, choice, plan);
    plan->between =
        gram_kron_spans_arrange(plan->pass, sizeof plan->pass[0], plan->passes, plan->inside);
    for (int i = 0; i < plan->passes; i++)
        choose_solver(device, plan, i, &plan->pass[i]);
    plan->bytes = (double)plan->between * (double)plan->rows * (double)op->batch.count *
                  (double)plan->element;
    plan->bytes = plan->passes > 2 ? 2 * (plan->bytes + 64) : plan->bytes;
}

void cuda_kron_plan(const struct cuda_device *device, const struct gram_kron_matmul_op *op,
                    int choice, struct cuda_kron_plan *plan)
{
    make(device, op, choice, plan);
    if (choice > 0 && !fits(plan))
        make(device, op, 0, plan);
}

/* ---- Remembered plans ------------------------------------------------------------------------ */

struct remembered {
    bool used;
    int choice;
    struct gram_kron_matmul_op op; /* its addresses count only modulo ALIGNED */
    struct cuda_kron_plan plan;
};

struct cuda_kron_memo {
    int next; /* the entry that is overwritten next */
    struct remembered at[REMEMBERED];
};

/* True if addresses agree in what a kernel's copies depend on. */
static bool same_alignment(const char *a, const char *b)
{
    return !a == !b && (uintptr_t)a % ALIGNED == (uintptr_t)b % ALIGNED;
}

static bool same_strides(const int64_t *a, const int64_t *b, int count)
{
    for (int d = 0; d < count; d++)
        if (a[d] != b[d])
            return false;
    return true;
}

/* True if two matrices have the same sizes, strides and alignment, or neither is given. */
static bool same_view(const struct gram_view *a, const struct gram_view *b, int ndim)
{
    if (!a->data && !b->data)
        return true;
    return a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->row_stride == b->row_stride && a->col_stride == b->col_stride &&
           same_alignment(a->data, b->data) && same_strides(a->batch_stride, b->batch_stride, ndim);
}

/* Numbers count with their values: alpha 1 and beta 0 have plans of their own. */
static bool same_number(const struct gram_hyper *a, const struct gram_hyper *b)
{
    return !a->tensor.data == !b->tensor.data && (a->tensor.data || a->value == b->value);
}

/* True if two products can share a plan. */
static bool same_op(const struct gram_kron_matmul_op *a, const struct gram_kron_matmul_op *b)
{
    const int ndim = a->batch.ndim;

    if (a->count != b->count || a->in_place != b->in_place || a->after != b->after ||
        ndim != b->batch.ndim || !same_strides(a->batch.shape, b->batch.shape, ndim) ||
        !same_view(&a->x, &b->x, ndim) || !same_view(&a->y, &b->y, ndim) ||
        !same_view(&a->z, &b->z, ndim) || !same_number(&a->alpha, &b->alpha) ||
        !same_number(&a->beta, &b->beta))
        return false;
    for (int f = 0; f < a->count; f++)
        if (!same_view(&a->factor[f], &b->factor[f], ndim))
            return false;
    return true;
}

struct cuda_kron_plan *cuda_kron_remembered(gram_context *g, const struct gram_kron_matmul_op *op,
                                            int choice)
{
    struct cuda_device *device = g->device;
    struct cuda_kron_memo *memo = device->kron;
    struct remembered *entry;

    if (!memo) {
        memo = device->kron = gram_alloc(g, sizeof *memo);
        if (!memo) {
            (void)gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *memo);
            return NULL;
        }
        memset(memo, 0, sizeof *memo);
    }
    for (entry = memo->at; entry < memo->at + REMEMBERED; entry++)
        if (entry->used && entry->choice == choice && same_op(&entry->op, op)) {
            rebind(op, &entry->plan);
            return &entry->plan;
        }
    entry = &memo->at[memo->next];
    memo->next = (memo->next + 1) % REMEMBERED;
    entry->used = true, entry->choice = choice, entry->op = *op;
    cuda_kron_plan(device, op, choice, &entry->plan);
    return &entry->plan;
}

void cuda_kron_forget(gram_context *g, struct cuda_device *device)
{
    if (device->kron)
        gram_free(g, device->kron, sizeof *device->kron);
    device->kron = NULL;
}
