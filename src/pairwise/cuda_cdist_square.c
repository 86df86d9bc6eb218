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
#include "cuda/cuda_ops.h"
#include <stdio.h>

enum {
    SHORTEST = 32,   /* columns from which panels are worth their time */
    THREADS = 256,   /* that pack, sum directly, or multiply */
    PACK_GROUPS = 8, /* of eight rows that a block packs */
    PACK_BLOCKS = 16 /* a processor */
};

static const int64_t most_blocks = INT32_MAX, round_bytes = 1 << 28;
/* This many terms take 30 us as differences on an H200; packing and four launches take 15. */
static const double least_work = 0x1p29;

/* How the cores of cdist_mma.cu work.  On an H200 wgmma with stages of 32 columns multiplies
 * [30000, 30000, 1024] in 7 ms; a partial sum for every 32 columns cost 2 ms more, one for all
 * columns an error of 3e-6. */
static const struct core {
    int core, depth, stages, promoted;
    int threads, blocks; /* blocks: a processor; 0: one a tile */
} mma = {1, 32, 3, 0, THREADS, 0}, wgmma = {2, 32, 4, 4, THREADS + 128, 1},
  mma64 = {3, 16, 3, 0, THREADS, 0};

struct square {
    struct cuda_cdist_plan *direct; /* the same problem for cdist.cu */
    const struct core *core;
    int planes;
    int64_t items; /* of a round */
    size_t panel_bytes[2], row_bytes[2], centre_bytes, bytes;
};

/* Chips whose tensor cores know f64, and whose multiprocessors have the memory for a tile of it. */
static bool has_fast_f64(int arch)
{
    return arch == 80 || arch == 90 || arch == 100;
}

bool cuda_cdist_squares(const gram_context *g, const struct cuda_device *device,
                        const struct cuda_cdist_plan *plan)
{
    const struct cuda_cdist_variant *v = &plan->variant;
    const struct pair_params *p = &plan->params;

    if (plan->tiles == 0 || plan->expression || (v->is_double && !has_fast_f64(device->arch)) ||
        (v->step != PAIR_TWO && v->step != PAIR_DOT) || p->depth == 0)
        return false;
    if (g->cdist_form != GRAM_FORM_AUTO)
        return g->cdist_form == GRAM_FORM_EXPANSION;
    return p->depth >= SHORTEST && p->x.rows >= SQUARE_ROWS && p->y.rows >= SQUARE_ROWS &&
           (double)p->items * (double)p->x.rows * (double)p->y.rows * (double)p->depth >=
               least_work;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void lay_out(const struct cuda_device *device, struct cuda_cdist_plan *plan,
                    struct square *s)
{
    const struct pair_params *p = &plan->params;
    const struct cuda_cdist_variant *v = &plan->variant;
    int64_t depth, rows[2], left;
    size_t item_bytes;

    s->direct = plan;
    s->core = v->is_double ? &mma64 : device->arch == 90 ? &wgmma : &mma;
    s->planes = v->half && v->step == PAIR_DOT ? 1 : 2;
    left = SQUARE_ROWS / SQUARE_LEFT_ROWS(v->is_double);
    depth = gram_round_up(p->depth, s->core->depth);
    rows[0] = gram_round_up(p->x.rows, SQUARE_ROWS);
    rows[1] = gram_round_up(p->y.rows, SQUARE_ROWS);
    for (int i = 0; i < 2; i++) {
        bool packed = !v->is_double && (i == 0 || !p->symmetric);
        s->panel_bytes[i] = packed ? (size_t)(rows[i] * depth * 2 * s->planes) : 0;
        s->row_bytes[i] = packed ? (size_t)rows[i] * sizeof(struct square_row) : 0;
    }
    s->centre_bytes =
        v->step == PAIR_TWO && !v->is_double ? gram_round64((size_t)p->depth * sizeof(float)) : 0;
    item_bytes = s->panel_bytes[0] + s->panel_bytes[1] + s->row_bytes[0] + s->row_bytes[1] +
                 s->centre_bytes +
                 (size_t)(rows[0] / SQUARE_ROWS * (rows[1] / SQUARE_ROWS) * left * left) *
                     sizeof(struct square_tile);
    s->items = round_bytes / (int64_t)item_bytes;
    s->items = s->items < 1 ? 1 : gram_least(s->items, p->items);
    s->bytes = (size_t)s->items * item_bytes + gram_round64(sizeof(struct square_list));
}

static char *take(char **at, const struct square *s, size_t item_bytes)
{
    char *taken = *at;

    *at += (size_t)s->items * item_bytes;
    return taken;
}

static void fill(const struct square *s, char *scratch, struct square_params *out)
{
    const struct pair_params *p = &s->direct->params;
    int sides = p->symmetric ? 1 : 2;

    out->pair = *p;
    out->pair.tile_rows = gram_ceil_div(p->x.rows, SQUARE_ROWS);
    out->pair.tile_cols = gram_ceil_div(p->y.rows, SQUARE_ROWS);
    out->sides = sides;
    out->chunks = gram_ceil_div(p->depth, s->core->depth);
    for (int i = 0; i < sides; i++)
        out->side[i] = (struct square_panels){
            .data = take(&scratch, s, s->panel_bytes[i]),
            .item_bytes = (int64_t)s->panel_bytes[i],
            .item_rows = (int64_t)(s->row_bytes[i] / sizeof(struct square_row))};
    for (int i = 0; i < sides; i++)
        out->side[i].rows = (struct square_row *)(void *)take(&scratch, s, s->row_bytes[i]);
    if (sides == 1)
        out->side[1] = out->side[0];
    out->centre = (float *)(void *)take(&scratch, s, s->centre_bytes);
    out->list = (struct square_list *)(void *)scratch;
}

/* ---- Launches ------------------------------------------------------------------------------- */

enum kind {
    CENTRE = 1,
    PACK,
    MULTIPLY
};

/* A launch; the number of its kernel alone finds it the next time. */
struct step {
    enum kind kind;
    int64_t blocks;
    int threads;
    size_t shared_bytes;
};

static uint64_t number_of(const struct square *s, enum kind kind)
{
    const struct cuda_cdist_variant *v = &s->direct->variant;
    const bool last = kind == MULTIPLY; /* the other parameters are those of the sums alone */
    const bool loads = last && v->is_double;
    const int field[][2] = {
        {                                           kind, 4},
        {                              s->core->core + 1, 2},
        {                                        v->half, 2},
        {                          loads ? v->x_load : 0, 2},
        {                          loads ? v->y_load : 0, 2},
        {                                        v->step, 4},
        {                                      s->planes, 2},
        {last ? v->function : v->function == PAIR_COSINE, 4},
        {                           last ? v->output : 0, 2},
        {                         last ? v->base + 1 : 0, 3},
        {                        last ? v->slope + 1 : 0, 3},
        {                           last ? v->hypers : 0, 1},
    };

    return gram_cuda_variant(CUDA_VARIANT_SQUARE,
                             gram_cuda_pack(field, sizeof field / sizeof *field));
}

static void describe(const struct square *s, enum kind kind, char *defines)
{
    const struct cuda_cdist_variant *v = &s->direct->variant;
    const struct core *c = s->core;
    int used = snprintf(defines, CUDA_CDIST_DEFINES, "-DHALF=%d -DSTEP=%d -DPLANES=%d -DBK=%d",
                        v->half, v->step, s->planes, c->depth);
    size_t left = CUDA_CDIST_DEFINES - (size_t)used;

    if (kind == MULTIPLY)
        snprintf(defines + used, left,
                 " -DCORE=%d -DSTAGES=%d -DPROMOTED=%d -DX_LOAD=%d -DY_LOAD=%d -DFUNCTION=%d "
                 "-DOUTPUT=%d -DBASE=%d -DSLOPE=%d -DHYPERS=%d",
                 c->core, c->stages, c->promoted, v->is_double ? v->x_load : 0,
                 v->is_double ? v->y_load : 0, v->function, v->output, v->base, v->slope,
                 v->hypers);
    else
        snprintf(defines + used, left, " -DCOSINE=%d", v->function == PAIR_COSINE);
}

static struct jit_request request_of(const struct square *s, const struct step *step, char *defines)
{
    static const char *const kernels[] = {
        [CENTRE] = "cdist_centre", [PACK] = "cdist_pack", [MULTIPLY] = "cdist_mma"};

    describe(s, step->kind, defines);
    return (struct jit_request){.file = step->kind == MULTIPLY ? "cdist_mma.cu" : "cdist_pack.cu",
                                .kernel = kernels[step->kind],
                                .defines = defines,
                                .variant = number_of(s, step->kind),
                                .shared_bytes = step->shared_bytes,
                                .chip_alone = step->kind == MULTIPLY && s->core == &wgmma};
}

static gram_status launch(gram_context *g, const struct square *s, const struct step *step,
                          struct square_params *params)
{
    struct cuda_device *device = g->device;
    CUfunction function = gram_jit_recall(device, number_of(s, step->kind));
    const unsigned grid[] = {(unsigned)gram_least(step->blocks, most_blocks), 1, 1};
    const unsigned block[] = {(unsigned)step->threads, 1, 1};
    void *arguments[] = {params};

    if (!function) {
        char defines[CUDA_CDIST_DEFINES];
        const struct jit_request request = request_of(s, step, defines);
        TRY(gram_jit_kernel(g, device, &request, &function));
    }
    return gram_cuda_queue(g, function, grid, block, step->shared_bytes, arguments);
}

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

/* The first call of a process compiles its kernels side by side. */
static void make_ahead(const gram_context *g, const struct square *s, const struct step *centre,
                       const struct step *pack, const struct step *multiply)
{
    char defines[4][CUDA_CDIST_DEFINES];
    const struct cuda_device *device = g->device;
    struct jit_request requests[] = {
        request_of(s, multiply, defines[0]), cuda_cdist_request(s->direct, defines[1]),
        request_of(s, pack, defines[2]), request_of(s, centre, defines[3])};

    requests[1].shared_bytes = cuda_cdist_shared(&s->direct->variant, device->arch);
    gram_jit_ahead(g, device, requests, 4);
}

static gram_status run_round(gram_context *g, const struct square *s, struct square_params *a)
{
    const struct cuda_device *device = g->device;
    const struct pair_params *p = &a->pair;
    int64_t tiles = p->items * p->tile_rows * p->tile_cols;
    int64_t groups = (a->side[0].item_rows + (a->sides > 1 ? a->side[1].item_rows : 0)) / 8;
    struct step centre = {CENTRE, p->items * gram_ceil_div(p->depth, 32), THREADS, 0};
    /* without rows to pack, as in f64, it still empties the list */
    struct step pack = {PACK, 1 + p->items * groups / PACK_GROUPS, THREADS, 0};
    struct step multiply = {MULTIPLY, tiles, s->core->threads, shared_bytes(s)};

    if (!gram_jit_recall(device, number_of(s, MULTIPLY)))
        make_ahead(g, s, &centre, &pack, &multiply);
    pack.blocks = gram_least(pack.blocks, (int64_t)PACK_BLOCKS * device->processors);
    if (s->core->blocks)
        multiply.blocks = gram_least(tiles, (int64_t)s->core->blocks * device->processors);
    if (s->centre_bytes > 0)
        TRY(launch(g, s, &centre, a));
    TRY(launch(g, s, &pack, a));
    TRY(launch(g, s, &multiply, a));
    return cuda_cdist_launch(g, s->direct, a->list);
}

size_t cuda_cdist_square_bytes(const struct cuda_device *device, struct cuda_cdist_plan *plan)
{
    struct square s = {0};

    lay_out(device, plan, &s);
    return s.bytes;
}

gram_status cuda_cdist_square(gram_context *g, struct cuda_cdist_plan *plan)
{
    const struct cuda_device *device = g->device;
    struct square_params params = {0};
    struct square s = {0};
    void *scratch;

    lay_out(device, plan, &s);
    TRY(gram_cuda_scratch(g, s.bytes, &scratch));
    cuda_cdist_plan_listed(plan);
    fill(&s, scratch, &params);
    for (params.first = 0; params.first < plan->params.items; params.first += s.items) {
        params.pair.items = gram_least(s.items, plan->params.items - params.first);
        TRY(run_round(g, &s, &params));
    }
    return GRAM_OK;
}

bool cuda_cdist_square_request(const struct cuda_device *device, struct cuda_cdist_plan *plan,
                               int which, char *defines, struct jit_request *out)
{
    struct step step = {.kind = (enum kind)(which + (plan->variant.is_double ? PACK : CENTRE))};
    struct square s = {0};

    lay_out(device, plan, &s);
    step.shared_bytes = step.kind == MULTIPLY ? shared_bytes(&s) : 0;
    if (step.kind <= MULTIPLY)
        *out = request_of(&s, &step, defines);
    return step.kind <= MULTIPLY;
}
