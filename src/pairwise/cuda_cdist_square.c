/*
 * cuda_cdist_square.c - squared distances and inner products by tensor cores: when, in which
 * rounds, and the launches
 *
 * A round over some items of the batch: the centre of y, rows of x and y as 16-bit panels
 * (cdist_pack.cu), tiles by tensor cores (cdist_mma.cu), and by cdist.cu those that the expansion
 * would spoil, whose list stays on the device.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include <float.h>

enum {
    SHORTEST = 32,   /* columns from which panels are worth their time */
    THREADS = 256,   /* that pack, sum directly, or multiply */
    PACK_GROUPS = 8, /* of eight rows that a block packs */
    PACK_BLOCKS = 16 /* a processor */
};

static const int64_t round_bytes = 1 << 28;
/* This many terms take 30 us as differences on an H200; packing and four launches take 15. */
static const double least_work = 0x1p29;

/* How the cores of cdist_mma.cu work.  On an H200 wgmma with stages of 32 columns multiplies
 * [30000, 30000, 1024] in 7 ms; a partial sum for every 32 columns cost 2 ms more, one for all
 * columns an error of 3e-6. */
static const struct core {
    int core, depth, stages, promoted;
    int threads, blocks; /* blocks: per processor; 0: one per tile */
} mma = {1, 32, 3, 0, THREADS, 0}, wgmma = {2, 32, 4, 4, THREADS + 128, 1},
  mma64 = {3, 16, 3, 0, THREADS, 0};

struct square {
    const struct cuda_cdist_plan *direct; /* the same problem for cdist.cu */
    const struct core *core;
    const struct square_filter *filter; /* or NULL: elements are stored */
    int planes;
    int64_t items;                                                 /* of a round */
    size_t panel_bytes[2], row_bytes[2], centre_bytes, list_bytes; /* of an item */
};

/* Chips whose tensor cores know f64, and whose multiprocessors have the memory for a tile of it. */
static bool has_fast_f64(int arch)
{
    return arch == 80 || arch == 90 || arch == 100;
}

bool cuda_cdist_squares(const gram_context *g, const struct cuda_device *device,
                        const struct cuda_cdist_plan *plan)
{
    const struct cuda_cdist_options *o = &plan->options;
    const struct pair_params *p = &plan->params;

    if (plan->tiles == 0 || plan->expression || o->metric ||
        (o->is_double && !has_fast_f64(device->arch)) ||
        (o->step != PAIR_TWO && o->step != PAIR_DOT) || p->depth == 0)
        return false;
    if (g->cdist_form != GRAM_FORM_AUTO)
        return g->cdist_form == GRAM_FORM_EXPANSION;
    return p->depth >= SHORTEST && p->rows >= SQUARE_ROWS && p->cols >= SQUARE_ROWS &&
           (double)p->items * (double)p->rows * (double)p->cols * (double)p->depth >= least_work;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* The core that serves a problem, the bytes of an item, and the items of a round. */
static void cut(const struct cuda_device *device, const struct cuda_cdist_plan *plan,
                struct square *s)
{
    const struct pair_params *p = &plan->params;
    const struct cuda_cdist_options *o = &plan->options;
    int64_t depth, rows[2], left;
    size_t item_bytes;

    s->direct = plan;
    s->core = o->is_double ? &mma64 : device->arch == 90 ? &wgmma : &mma;
    s->planes = o->stored && o->step == PAIR_DOT ? 1 : 2;
    left = SQUARE_ROWS / SQUARE_LEFT_ROWS(o->is_double);
    depth = gram_round_up(p->depth, s->core->depth);
    rows[0] = gram_round_up(p->rows, SQUARE_ROWS);
    rows[1] = gram_round_up(p->cols, SQUARE_ROWS);
    for (int i = 0; i < 2; i++) {
        bool packed = !o->is_double && (i == 0 || !p->symmetric);
        s->panel_bytes[i] = packed ? (size_t)(rows[i] * depth * 2 * s->planes) : 0;
        s->row_bytes[i] = packed ? (size_t)rows[i] * sizeof(struct square_row) : 0;
    }
    s->centre_bytes =
        o->step == PAIR_TWO && !o->is_double ? gram_round64((size_t)p->depth * sizeof(float)) : 0;
    s->list_bytes = (size_t)(rows[0] / SQUARE_ROWS * (rows[1] / SQUARE_ROWS) * left * left) *
                    sizeof(struct square_tile);
    item_bytes = s->panel_bytes[0] + s->panel_bytes[1] + s->row_bytes[0] + s->row_bytes[1] +
                 s->centre_bytes + s->list_bytes;
    s->items = round_bytes / (int64_t)item_bytes;
    s->items = s->items < 1 ? 1 : gram_least(s->items, p->items);
}

/* What the kernels are told, in scratch for a round: panels and rows of each side, the centre, the
 * list. */
static gram_status open_params(gram_context *g, const struct square *s, struct square_params *out)
{
    const struct pair_params *p = &s->direct->params;
    const size_t items = (size_t)s->items;
    struct gram_layout layout = {0};
    int sides = p->symmetric ? 1 : 2;

    for (int i = 0; i < sides; i++)
        gram_take_many(&layout, &out->side[i].data, items, s->panel_bytes[i]);
    for (int i = 0; i < sides; i++)
        gram_take_many(&layout, &out->side[i].rows, items, s->row_bytes[i]);
    gram_take_many(&layout, &out->centre, items, s->centre_bytes);
    gram_take(&layout, &out->list,
              items * s->list_bytes + gram_round64(sizeof(struct square_list)));
    TRY(gram_layout_open(g, &layout));
    out->pair = *p;
    out->pair.tile_rows = gram_ceil_div(p->rows, SQUARE_ROWS);
    out->pair.tile_cols = gram_ceil_div(p->cols, SQUARE_ROWS);
    out->sides = sides;
    out->chunks = gram_ceil_div(p->depth, s->core->depth);
    for (int i = 0; i < sides; i++) {
        out->side[i].item_bytes = (int64_t)s->panel_bytes[i];
        out->side[i].item_rows = (int64_t)(s->row_bytes[i] / sizeof(struct square_row));
    }
    if (sides == 1)
        out->side[1] = out->side[0];
    return GRAM_OK;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

enum kind {
    CENTRE,
    PACK,
    MULTIPLY,
    KINDS
};

/* The kernels that pack share the options of the sums alone; products have those of cdist.cu. */
static void describe(const struct square *s, enum kind kind, struct cuda_variant *v)
{
    static const struct cuda_kernel kernels[KINDS] = {
        [CENTRE] = {"cdist_pack.cu", "cdist_centre"},
        [PACK] = {"cdist_pack.cu",   "cdist_pack"},
        [MULTIPLY] = { "cdist_mma.cu",    "cdist_mma"},
    };
    const struct cuda_cdist_options *o = &s->direct->options;
    const struct core *c = s->core;

    cuda_variant(v, &kernels[kind],
                 CUDA_OPTIONS({"STORED", o->stored}, {"STEP", o->step}, {"PLANES", s->planes},
                              {"BK", c->depth}));
    if (kind != MULTIPLY) {
        cuda_option(v, "COSINE", o->function == PAIR_COSINE);
        return;
    }
    cuda_option(v, "CORE", c->core);
    cuda_option(v, "STAGES", c->stages);
    cuda_option(v, "PROMOTED", c->promoted);
    cuda_option(v, "X_LOAD", o->is_double ? o->x_load : 0);
    cuda_option(v, "Y_LOAD", o->is_double ? o->y_load : 0);
    cuda_option(v, "FUNCTION", o->function);
    cuda_option(v, "OUTPUT", o->output);
    cuda_option(v, "BASE", o->base);
    cuda_option(v, "SLOPE", o->slope);
    cuda_option(v, "HYPERS", o->hypers);
    if (s->filter)
        cuda_option(v, "FILTER", 1);
    v->chip_alone = c == &wgmma;
}

bool cuda_cdist_square_variant(const struct cuda_device *device, const struct cuda_cdist_plan *plan,
                               int which, struct cuda_variant *v)
{
    const int kind = which + (plan->options.is_double ? PACK : CENTRE);
    struct square s = {0};

    cut(device, plan, &s);
    if (kind < KINDS)
        describe(&s, (enum kind)kind, v);
    return kind < KINDS;
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* The dynamic shared memory of cdist_mma.cu: stages and staged sums, which mma_core.cuh keeps in
 * the same place and wgmma_core.cuh in one of their own, before its barriers. */
static size_t shared_bytes(const struct square *s)
{
    const struct core *c = s->core;
    const size_t size = c == &mma64 ? sizeof(double) : sizeof(float);
    size_t stages = 2 * SQUARE_ROWS * (size_t)(c->stages * c->depth * 2 * s->planes);
    size_t staged = (size_t)(SQUARE_ROWS * (SQUARE_ROWS + 8)) * size;

    if (c == &mma64) /* a row of the centre, four numbers beside each row */
        stages = (2 * SQUARE_ROWS + 1) * (size_t)(c->stages * (c->depth + 4)) * size;
    if (c == &wgmma)
        return stages + staged + (size_t)c->stages * 2 * sizeof(uint64_t);
    return stages > staged ? stages : staged;
}

/* The kernels of a round; the first call of a process compiles them side by side. */
static void describe_all(const gram_context *g, const struct square *s,
                         struct cuda_variant v[KINDS])
{
    struct cuda_variant ahead[KINDS + 1];

    for (int kind = 0; kind < KINDS; kind++)
        describe(s, (enum kind)kind, &v[kind]);
    if (cuda_is_loaded(g, &v[MULTIPLY]))
        return;
    ahead[0] = v[MULTIPLY], ahead[1] = v[PACK], ahead[2] = v[CENTRE];
    if (!s->filter)
        cuda_cdist_variant(s->direct, &ahead[KINDS]);
    cuda_load_ahead(g, ahead, s->filter ? KINDS : KINDS + 1);
}

/* The centre is only wanted for squared distances in f32; in f64 the tiles find their own. */
static gram_status run_round(gram_context *g, const struct square *s, struct square_params *a)
{
    const struct cuda_device *device = g->device;
    const struct pair_params *p = &a->pair;
    const int64_t tiles = p->items * p->tile_rows * p->tile_cols;
    const int64_t groups = (a->side[0].item_rows + (a->sides > 1 ? a->side[1].item_rows : 0)) / 8;
    /* Without rows to pack, as in f64, this one still empties the list. */
    const int64_t packs = 1 + p->items * groups / PACK_GROUPS;
    const struct cuda_grid centre = {.blocks = p->items * gram_ceil_div(p->depth, 32),
                                     .threads = THREADS};
    const struct cuda_grid pack = {
        .blocks = gram_least(packs, (int64_t)PACK_BLOCKS * device->processors), .threads = THREADS};
    struct cuda_grid multiply = {
        .blocks = tiles, .threads = (unsigned)s->core->threads, .shared = shared_bytes(s)};
    struct cuda_variant v[KINDS];

    if (s->core->blocks)
        multiply.blocks = gram_least(tiles, (int64_t)s->core->blocks * device->processors);
    describe_all(g, s, v);
    if (s->centre_bytes > 0)
        TRY(cuda_launch(g, &v[CENTRE], &centre, (void *[]){a}));
    TRY(cuda_launch(g, &v[PACK], &pack, (void *[]){a}));
    TRY(cuda_launch(g, &v[MULTIPLY], &multiply, (void *[]){a}));
    return s->filter ? GRAM_OK : cuda_cdist_launch(g, s->direct, a->list);
}

/* Rounds share the scratch: work on the stream is in order. */
static gram_status run(gram_context *g, struct cuda_cdist_plan *plan,
                       const struct square_filter *filter)
{
    const struct cuda_device *device = g->device;
    struct square_params params = {0};
    struct square s = {.filter = filter};

    cut(device, plan, &s);
    TRY(open_params(g, &s, &params));
    if (filter)
        params.filter = *filter;
    else
        cuda_cdist_plan_listed(plan);
    for (params.first = 0; params.first < plan->params.items; params.first += s.items) {
        params.pair.items = gram_least(s.items, plan->params.items - params.first);
        TRY(run_round(g, &s, &params));
    }
    return GRAM_OK;
}

gram_status cuda_cdist_square(gram_context *g, struct cuda_cdist_plan *plan)
{
    return run(g, plan, NULL);
}

gram_status cuda_cdist_filter(gram_context *g, struct cuda_cdist_plan *plan,
                              const struct square_filter *filter)
{
    return run(g, plan, filter);
}

/* Of the errors that cdist_mma.cu states, those that do not grow, and six for each product of 16
 * columns, as if no partial sum were promoted. */
float cuda_cdist_filter_margin(int64_t depth)
{
    return FLT_EPSILON * (16 + 6 * (float)gram_ceil_div(depth, 16));
}
