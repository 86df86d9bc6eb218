/*
 * cpu_kron_matmul_tile.c - a tile through a group of passes
 *
 * The first pass reads the tile where it is, the passes on the way use two buffers that stay in the
 * cache, and the last one writes where the tile belongs.  Only where strides, dtypes, alpha, beta
 * or vectors that are not full ask for it, a tile is copied before its first or after its last
 * pass. No pass moves data just to transpose them: a contraction in the middle of the indices
 * leaves its result in the middle.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kron_matmul.h"

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

int64_t cpu_kron_tiles(const struct kron_unit *unit, const struct kron_group *group)
{
    return gram_ceil_div(group->span.before * unit->rows, group->blocks) * group->col_tiles;
}

void cpu_kron_tile(const struct kron_loop *loop, const struct kron_unit *unit, int number,
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
