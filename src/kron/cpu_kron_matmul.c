/*
 * cpu_kron_matmul.c - products with Kronecker factors: units through groups of passes
 *
 * A unit (a row of x, several, or some lanes) goes through the groups of cpu_kron_matmul_plan.c one
 * after the other, tile by tile; between groups it lies in a buffer.  Units are the parallel loop;
 * where there are few, the tiles of one group of one unit are.
 *
 * In a group, the first pass reads the tile where it is, the passes on the way use two buffers that
 * stay in the cache, and the last one writes where the tile belongs.  Only where strides, dtypes,
 * alpha, beta or vectors that are not full ask for it, a tile is copied before its first or after
 * its last pass.  No pass moves data just to transpose them: a contraction in the middle of the
 * indices leaves its result in the middle.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kron_matmul.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"

/* The packed factors, buffers of units and buffers of tiles, in bytes; buffers are a thread's,
 * where tiles are the loop those of the unit are everybody's. */
struct kron_layout {
    size_t row, tile;         /* of one buffer */
    size_t rows_at, tiles_at; /* those of thread 0 */
    size_t thread_rows, thread_tiles;
    size_t all;
};

struct kron_unit {
    int64_t item, first, rows; /* first row of x; rows is 1 if they are lanes */
    double scale[2];
};

struct kron_loop {
    gram_context *g;
    const struct kron_plan *plan;
    const struct kron_layout *layout;
    char *scratch;
    struct kron_unit unit; /* where tiles are the loop, and the group they are of */
    int group;
};

/* Where the elements of a unit are at one time: strides of the indices before a group, of the
 * group's, of those after it, and of lanes, in elements of the dtype. */
struct kron_place {
    char *data;
    int64_t size, before, index, column, lane;
    bool exact; /* memory that others own: nothing beyond an element may be touched */
    bool moved; /* needs load or store */
};

/* ---- Places -------------------------------------------------------------------------------- */

/* x, y or z where the unit begins. */
static struct kron_place place_view(const struct kron_plan *plan, const struct gram_view *v,
                                    const struct kron_unit *unit, const struct kron_group *group,
                                    int64_t in_group)
{
    int64_t size = (int64_t)gram_dtype_size(v->dtype), after = group->span.after / plan->lanes;
    struct kron_place place = {.size = size, .exact = true};

    place.data =
        gram_view_item(v, &plan->op->batch, unit->item) + unit->first * v->row_stride * size;
    place.before = plan->groups == 1 ? v->row_stride : in_group * after * v->col_stride;
    place.index = after * v->col_stride;
    place.column = v->col_stride;
    place.lane = v->row_stride;
    return place;
}

/* A buffer between groups. */
static struct kron_place place_buffer(const struct kron_plan *plan, char *data,
                                      const struct kron_group *group, int64_t in_group)
{
    return (struct kron_place){.data = data,
                               .size = (int64_t)plan->moves->element,
                               .before = in_group * group->span.after,
                               .index = group->span.after,
                               .column = plan->lanes,
                               .lane = 1};
}

struct kron_tile {
    int64_t block, blocks, column, width; /* of before, and of after */
};

static void go_to_tile(const struct kron_plan *plan, const struct kron_tile *t,
                       struct kron_place *place)
{
    place->data +=
        (t->block * place->before + t->column / plan->lanes * place->column) * place->size;
}

/* True if the columns of a tile follow each other. */
static bool is_packed(const struct kron_plan *plan, const struct kron_tile *t,
                      const struct kron_place *place)
{
    bool lanes = plan->lanes == 1 || place->lane == 1;

    return lanes && (t->width == plan->lanes || place->column == plan->lanes);
}

/* The piece of a tile at a place, for load and store. */
static struct kron_piece piece_of(const struct kron_plan *plan, const struct kron_tile *t,
                                  const struct kron_place *place, int64_t in_group)
{
    int64_t columns = t->width / plan->lanes;
    struct kron_piece piece;

    if (plan->lanes > 1)
        piece = (struct kron_piece){
            .data = place->data,
            .size = {    t->blocks,     in_group,       columns, plan->lanes},
            .stride = {place->before, place->index, place->column, place->lane}
        };
    else if (columns > 1)
        piece = (struct kron_piece){
            .data = place->data,
            .size = {1,     t->blocks,     in_group,       columns},
            .stride = {0, place->before, place->index, place->column}
        };
    else
        piece = (struct kron_piece){
            .data = place->data,
            .size = {1, 1,     t->blocks,     in_group},
            .stride = {0, 0, place->before, place->index}
        };
    return piece;
}

/* ---- Passes -------------------------------------------------------------------------------- */

/* A pass of a group: the indices of the group before and after the factor's. */
struct kron_step {
    int factor;
    int64_t before, after;
};

static struct kron_step step_of(const struct kron_plan *plan, const struct kron_group *group,
                                int number)
{
    struct kron_step s = {.factor = group->span.order[number], .before = 1, .after = 1};

    for (int i = 0; i < group->span.count; i++) {
        const struct gram_view *f = &plan->op->factor[group->span.order[i]];
        if (i != number)
            *(group->span.order[i] < s.factor ? &s.before : &s.after) *=
                i < number ? f->cols : f->rows;
    }
    return s;
}

/* A side of a pass: rows of a tile's width, one for each element of the group's indices; strides
 * of these and of blocks. */
struct kron_side {
    char *data;
    int64_t index, block;
};

/*
 * Describes the pass on a block.  False if no single one can do it: where neither side is without
 * gaps, the factor must be the first or the last of those in the group.
 */
static bool describe_pass(const struct kron_plan *plan, const struct kron_step *s, int64_t width,
                          int64_t from, int64_t to, struct gram_kron_pass *pass)
{
    const struct gram_view *f = &plan->op->factor[s->factor];
    int64_t inside = s->after * width;

    *pass = (struct gram_kron_pass){.depth = f->rows, .outs = f->cols};
    if (from == width && to == width) {
        pass->blocks = s->before, pass->cols = inside;
        pass->x_step = pass->y_step = inside;
        pass->x_block = f->rows * inside, pass->y_block = f->cols * inside;
    } else if (s->after == 1) {
        pass->blocks = s->before, pass->cols = width;
        pass->x_step = from, pass->y_step = to;
        pass->x_block = f->rows * from, pass->y_block = f->cols * to;
    } else if (s->before == 1) {
        pass->blocks = s->after, pass->cols = width;
        pass->x_step = s->after * from, pass->y_step = s->after * to;
        pass->x_block = from, pass->y_block = to;
    } else {
        return false;
    }
    return !plan->slices[s->factor] || pass->y_step == 1; /* which slices take for granted */
}

/* True if the vectors that a pass writes (reads) end where its rows do. */
static bool is_exact(const struct kron_plan *plan, const struct kron_step *s,
                     const struct gram_kron_pass *pass, bool reads)
{
    bool slices = plan->slices[s->factor];
    int64_t row = slices ? pass->outs : pass->cols;

    return (slices && reads) || row >= plan->kernels->few_lanes;
}

/* A tile on its way through a group. */
struct kron_work {
    const struct kron_loop *loop;
    const struct kron_unit *unit;
    const struct kron_group *group;
    struct kron_tile tile;
    struct kron_place from, to;
    char *buffer[2];
};

static void run_pass(const struct kron_work *w, const struct kron_step *s,
                     const struct kron_side *from, const struct kron_side *to)
{
    const struct kron_plan *plan = w->loop->plan;
    const struct gram_view *f = &plan->op->factor[s->factor];
    int64_t at = plan->packed_at[s->factor] + w->unit->item * plan->packed_step[s->factor];
    int64_t size = (int64_t)plan->moves->element, blocks = w->tile.blocks, others;
    struct kron_step together = *s;
    struct gram_kron_pass pass;

    others = s->before * s->after;
    together.before *= blocks;
    if (from->block == others * f->rows * from->index &&
        to->block == others * f->cols * to->index &&
        describe_pass(plan, &together, w->tile.width, from->index, to->index, &pass))
        blocks = 1;
    else
        describe_pass(plan, s, w->tile.width, from->index, to->index, &pass);
    pass.factor = w->loop->scratch + at * size;
    for (int64_t b = 0; b < blocks; b++) {
        pass.x = from->data + b * from->block * size;
        pass.y = to->data + b * to->block * size;
        (plan->slices[s->factor] ? plan->kernels->slices : plan->kernels->columns)(&pass);
    }
}

/* A buffer of the tile, without gaps. */
static struct kron_side in_buffer(const struct kron_work *w, int buffer, int64_t in_group)
{
    return (struct kron_side){w->buffer[buffer], w->tile.width, in_group * w->tile.width};
}

static void run_passes(const struct kron_work *w)
{
    const struct kron_plan *plan = w->loop->plan;
    const struct kron_group *group = w->group;
    int64_t in_group = group->span.in;
    int buffer = 0;
    struct kron_side from = in_buffer(w, 0, in_group), to;

    if (w->from.moved) {
        struct kron_piece piece = piece_of(plan, &w->tile, &w->from, in_group);
        plan->moves->load(&piece, from.data);
    } else {
        from = (struct kron_side){w->from.data, w->from.index, w->from.before};
        buffer = 1;
    }
    for (int i = 0; i < group->span.count; i++) {
        struct kron_step s = step_of(plan, group, i);
        const struct gram_view *f = &plan->op->factor[s.factor];
        in_group = in_group / f->rows * f->cols;
        buffer = !buffer;
        to = in_buffer(w, buffer, in_group);
        if (i == group->span.count - 1 && !w->to.moved)
            to = (struct kron_side){w->to.data, w->to.index, w->to.before};
        run_pass(w, &s, &from, &to);
        from = to;
    }
}

/* ---- Tiles --------------------------------------------------------------------------------- */

/* True if a pass can read its tile, or write it, where the tile is. */
static bool can_pass(const struct kron_work *w, int number, int64_t from, int64_t to, bool reads)
{
    const struct kron_plan *plan = w->loop->plan;
    struct kron_step s = step_of(plan, w->group, number);
    struct gram_kron_pass pass;

    return describe_pass(plan, &s, w->tile.width, from, to, &pass) &&
           ((reads && !w->from.exact) || is_exact(plan, &s, &pass, reads));
}

static void choose_moves(struct kron_work *w)
{
    const struct kron_plan *plan = w->loop->plan;
    int64_t width = w->tile.width, from;
    int last = w->group->span.count - 1;

    w->from.moved = w->from.moved || !is_packed(plan, &w->tile, &w->from) ||
                    !can_pass(w, 0, w->from.index, width, true);
    from = last == 0 && !w->from.moved ? w->from.index : width;
    w->to.moved = w->to.moved || !is_packed(plan, &w->tile, &w->to) ||
                  !can_pass(w, last, from, w->to.index, false);
}

/* Where the group's tiles come from and go to. */
static void find_places(struct kron_work *w, int number, char *rows)
{
    const struct kron_plan *plan = w->loop->plan;
    const struct gram_kron_matmul_op *op = plan->op;
    const struct kron_group *group = w->group;
    bool first = number == 0, last = number == plan->groups - 1;
    bool converted = op->x.dtype != plan->moves->arithmetic;

    if (first) {
        w->from = place_view(plan, &op->x, w->unit, group, group->span.in);
        w->from.moved = converted || (op->in_place && last && group->span.count == 1);
    } else {
        w->from = place_buffer(plan, rows + (size_t)((number - 1) % 2) * w->loop->layout->row,
                               group, group->span.in);
    }
    if (last) {
        w->to = place_view(plan, &op->y, w->unit, group, group->span.out);
        w->to.moved = converted || w->unit->scale[0] != 1 || w->unit->scale[1] != 0;
    } else {
        w->to = place_buffer(plan, rows + (size_t)(number % 2) * w->loop->layout->row, group,
                             group->span.out);
    }
}

/* What a tile becomes in y, or in the buffer of the unit. */
static void store_tile(const struct kron_work *w, bool last)
{
    const struct kron_plan *plan = w->loop->plan;
    static const double plain[2] = {1, 0};
    struct kron_piece to = piece_of(plan, &w->tile, &w->to, w->group->span.out), z;
    const void *tile = w->buffer[(w->group->span.count - w->from.moved + 1) % 2];

    if (!last) {
        cpu_kron_moves(plan->moves->arithmetic)->store(&to, NULL, plain, tile);
    } else if (w->unit->scale[1] == 0) {
        plan->moves->store(&to, NULL, w->unit->scale, tile);
    } else {
        struct kron_place place =
            place_view(plan, &plan->op->z, w->unit, w->group, w->group->span.out);
        go_to_tile(plan, &w->tile, &place);
        z = piece_of(plan, &w->tile, &place, w->group->span.out);
        plan->moves->store(&to, &z, w->unit->scale, tile);
    }
}

static int64_t tiles_of(const struct kron_unit *unit, const struct kron_group *group)
{
    return gram_ceil_div(group->span.before * unit->rows, group->blocks) * group->col_tiles;
}

static void run_tile(const struct kron_loop *loop, const struct kron_unit *unit, int number,
                     int64_t index, int thread)
{
    const struct kron_plan *plan = loop->plan;
    const struct kron_layout *l = loop->layout;
    const struct kron_group *group = &plan->group[number];
    struct kron_work w = {.loop = loop, .unit = unit, .group = group};
    bool last = number == plan->groups - 1;

    w.tile.block = index / group->col_tiles * group->blocks;
    w.tile.blocks = gram_least(group->blocks, group->span.before * unit->rows - w.tile.block);
    w.tile.column = index % group->col_tiles * group->width;
    w.tile.width = gram_least(group->width, group->span.after - w.tile.column);
    w.buffer[0] = loop->scratch + l->tiles_at + (size_t)thread * l->thread_tiles;
    w.buffer[1] = w.buffer[0] + l->tile;
    find_places(&w, number, loop->scratch + l->rows_at + (size_t)thread * l->thread_rows);
    go_to_tile(plan, &w.tile, &w.from);
    go_to_tile(plan, &w.tile, &w.to);
    choose_moves(&w);
    run_passes(&w);
    if (w.to.moved)
        store_tile(&w, last);
}

/* ---- Scratch ------------------------------------------------------------------------------- */

/* False if it is more than can be counted. */
static bool lay_out(const gram_context *g, const struct kron_plan *plan, struct kron_layout *l)
{
    size_t element = plan->moves->element, threads = (size_t)g->threads;
    size_t reach = (size_t)plan->kernels->few_lanes;
    int rows = plan->groups > 2 ? 2 : plan->groups - 1;
    int64_t packed = plan->packed_at[plan->op->count];

    if ((double)packed + 2 * (double)threads * ((double)plan->row + (double)plan->tile) > 0x1p58)
        return false;
    l->row = gram_round64(((size_t)plan->row + reach) * element);
    l->tile = gram_round64(((size_t)plan->tile + reach) * element);
    l->rows_at = gram_round64((size_t)packed * element);
    l->thread_rows = plan->tiles_apart ? 0 : (size_t)rows * l->row;
    l->tiles_at = l->rows_at + (plan->tiles_apart ? 1 : threads) * (size_t)rows * l->row;
    l->thread_tiles = 2 * l->tile;
    l->all = l->tiles_at + threads * l->thread_tiles;
    return true;
}

/* ---- Units --------------------------------------------------------------------------------- */

static struct kron_unit unit_at(const struct kron_plan *plan, int64_t index)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t rows = gram_most(plan->rows, plan->lanes);
    struct kron_unit unit = {.item = index / plan->units, .first = index % plan->units * rows};

    unit.rows = plan->lanes > 1 ? 1 : gram_least(plan->rows, op->x.rows - unit.first);
    unit.scale[0] = gram_hyper_at(&op->alpha, &op->batch, unit.item);
    unit.scale[1] = gram_hyper_at(&op->beta, &op->batch, unit.item);
    return unit;
}

static void run_unit(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    const struct kron_plan *plan = loop->plan;
    int64_t start = gram_trace_begin(loop->g);
    struct kron_unit unit = unit_at(plan, index);

    for (int i = 0; i < plan->groups; i++)
        for (int64_t t = 0, n = tiles_of(&unit, &plan->group[i]); t < n; t++)
            run_tile(loop, &unit, i, t, thread);
    gram_trace_end(loop->g, "kron unit", thread, start);
}

static void run_one_tile(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    int64_t start = gram_trace_begin(loop->g);

    run_tile(loop, &loop->unit, loop->group, index, thread);
    gram_trace_end(loop->g, "kron tile", thread, start);
}

static void pack_factor(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    const struct kron_plan *plan = loop->plan;
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t item = index / op->count, start = gram_trace_begin(loop->g), at;
    int f = (int)(index % op->count);
    const struct gram_view *v = &op->factor[f];
    struct kron_factor factor = {.data = gram_view_item(v, &op->batch, item),
                                 .depth = v->rows,
                                 .outs = v->cols,
                                 .step = v->row_stride,
                                 .next = v->col_stride};

    if (item > 0 && plan->packed_step[f] == 0)
        return;
    at = (plan->packed_at[f] + item * plan->packed_step[f]) * (int64_t)plan->moves->element;
    (plan->slices[f] ? plan->moves->pack_slices : plan->moves->pack_columns)(&factor, plan->kernels,
                                                                             loop->scratch + at);
    gram_trace_end(loop->g, "kron pack", thread, start);
}

/* Nanoseconds that the call takes one thread, about: eight multiplications each. */
static double work_of(const struct gram_kron_matmul_op *op)
{
    double rows = (double)op->x.rows * (double)op->batch.count, depth = 0;

    for (int i = 0; i < op->count; i++)
        depth += (double)op->factor[i].rows;
    return rows * (double)gram_most(op->x.cols, op->y.cols) * depth / 8;
}

static void run_plan(struct kron_loop *loop)
{
    const struct kron_plan *plan = loop->plan;
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t units = plan->units * op->batch.count;
    double work = work_of(op);

    gram_for(loop->g, work, op->count * op->batch.count, pack_factor, loop);
    if (!plan->tiles_apart) {
        gram_for(loop->g, work, units, run_unit, loop);
        return;
    }
    for (int64_t u = 0; u < units; u++) {
        loop->unit = unit_at(plan, u);
        for (loop->group = 0; loop->group < plan->groups; loop->group++)
            gram_for(loop->g, work, tiles_of(&loop->unit, &plan->group[loop->group]), run_one_tile,
                     loop);
    }
}

/* ---- The whole call ------------------------------------------------------------------------ */

/* The rows from first on, as an operation of their own. */
static struct gram_kron_matmul_op rows_of(const struct gram_kron_matmul_op *op, int64_t first,
                                          int64_t rows)
{
    struct gram_kron_matmul_op part = *op;
    struct gram_view *const views[] = {&part.x, &part.y, &part.z};

    for (int i = 0; i < 3; i++) {
        if (views[i]->data)
            views[i]->data +=
                first * views[i]->row_stride * (int64_t)gram_dtype_size(views[i]->dtype);
        views[i]->rows = rows;
    }
    return part;
}

/* A part of the rows and what it needs. */
struct kron_part {
    struct gram_kron_matmul_op op;
    struct kron_plan plan;
    struct kron_layout layout;
};

/* One part or two; 0 if their scratch is more than can be counted. */
static int make_parts(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                      struct kron_part parts[2], size_t *bytes)
{
    int64_t first = cpu_kron_matmul_first_part(g, op);
    int count = first < op->x.rows ? 2 : 1;

    *bytes = 0;
    for (int i = 0; i < count; i++) {
        parts[i].op = i == 0 ? rows_of(op, 0, first) : rows_of(op, first, op->x.rows - first);
        cpu_kron_matmul_plan(g, &parts[i].op, choice, &parts[i].plan);
        if (!lay_out(g, &parts[i].plan, &parts[i].layout))
            return 0;
        *bytes = gram_most_bytes(*bytes, parts[i].layout.all);
    }
    return count;
}

/* y = beta z: x has no columns. */
static void scale_z(const struct gram_kron_matmul_op *op)
{
    const struct kron_moves *moves = cpu_kron_moves(op->y.dtype);
    static const double zeros[64];

    for (int64_t item = 0; item < op->batch.count; item++)
        for (int64_t c = 0; c < op->y.cols; c += 64) {
            const double scale[2] = {0, gram_hyper_at(&op->beta, &op->batch, item)};
            struct kron_piece piece[2];
            const struct gram_view *const views[] = {&op->y, &op->z};
            for (int64_t r = 0; r < op->y.rows; r++) {
                for (int i = 0; i < (scale[1] == 0 ? 1 : 2); i++)
                    piece[i] = (struct kron_piece){
                        .data = gram_view_item(views[i], &op->batch, item) +
                                (r * views[i]->row_stride + c * views[i]->col_stride) *
                                    (int64_t)gram_dtype_size(op->y.dtype),
                        .size = {1, 1, 1,        gram_least(64, op->y.cols - c)},
                        .stride = {0, 0, 0, views[i]->col_stride                }
                    };
                moves->store(&piece[0], scale[1] == 0 ? NULL : &piece[1], scale, zeros);
            }
        }
}

static bool is_empty(const struct gram_kron_matmul_op *op)
{
    return op->batch.count == 0 || op->y.rows == 0 || op->y.cols == 0;
}

gram_status cpu_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                   int choice)
{
    struct gram_layout layout = {0};
    struct kron_part parts[2];
    size_t bytes;
    char *scratch;
    int count;

    if (is_empty(op))
        return GRAM_OK;
    if (op->x.cols == 0) {
        TRY(gram_layout_open(g, &layout));
        scale_z(op);
        return GRAM_OK;
    }
    count = make_parts(g, op, choice, parts, &bytes);
    if (count == 0)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a row of x or y is too long: the size of the scratch memory overflows");
    gram_take(&layout, &scratch, bytes);
    TRY(gram_layout_open(g, &layout));
    for (int i = 0; i < count; i++) {
        struct kron_loop loop = {
            .g = g, .plan = &parts[i].plan, .layout = &parts[i].layout, .scratch = scratch};
        run_plan(&loop);
    }
    return GRAM_OK;
}

gram_status cpu_kron_matmul(gram_context *g, const struct gram_kron_matmul_op *op)
{
    return cpu_kron_matmul_chosen(g, op, cpu_kron_tuned(g, op));
}
