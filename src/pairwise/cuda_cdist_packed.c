/*
 * cuda_cdist_packed.c - sums of differences with x and y in panels: when, and the two launches
 *
 * cdist_panels.cu writes panels of x and y in the order in which cdist.cu reads them, who then
 * fetches them by a thread instead of by all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include <stdio.h>

enum {
    THREADS = 256,
    LEAST_ROWS = 1024, /* from which packing a row is little beside using it */
    LEAST_COLS = 32,
    BLOCKS = 16 /* a processor */
};

static const double least_work = 0x1p31; /* 130 us on an H200; packing and a launch take 10 */

bool cuda_cdist_packs(const gram_context *g, const struct cuda_device *device,
                      const struct cuda_cdist_plan *plan)
{
    const struct pair_params *p = &plan->params;
    struct cuda_cdist_plan packed = *plan;
    bool pays = p->x.rows >= LEAST_ROWS && p->y.rows >= LEAST_ROWS && p->depth >= LEAST_COLS &&
                (double)p->x.rows * (double)p->y.rows * (double)p->depth >= least_work;

    return plan->tiles > 0 && device->arch >= 90 && p->items == 1 && p->depth > 0 &&
           (pays || g->cdist_form == GRAM_FORM_EXPANSION) && cuda_cdist_plan_packed(&packed);
}

static uint64_t number_of(const struct cuda_cdist_variant *v)
{
    const int field[][2] = {
        {v->is_double, 1},
        {     v->half, 2},
    };

    return gram_cuda_variant(CUDA_VARIANT_PANELS,
                             gram_cuda_pack(field, sizeof field / sizeof *field));
}

struct jit_request cuda_cdist_panels_request(const struct cuda_cdist_plan *plan, char *defines)
{
    const struct cuda_cdist_variant *v = &plan->variant;

    snprintf(defines, CUDA_CDIST_DEFINES, "-DREAL=%s -DIS_DOUBLE=%d -DHALF=%d",
             v->is_double ? "double" : "float", v->is_double, v->half);
    return (struct jit_request){.file = "cdist_panels.cu",
                                .kernel = "cdist_panels",
                                .defines = defines,
                                .variant = number_of(v)};
}

static size_t panel_bytes(const struct cuda_cdist_plan *plan, int64_t rows)
{
    const size_t size = plan->variant.is_double ? sizeof(double) : sizeof(float);

    return (size_t)(gram_round_up(rows, PANEL_ROWS) *
                    gram_round_up(plan->params.depth, PANEL_COLS)) *
           size;
}

size_t cuda_cdist_packed_bytes(const struct cuda_cdist_plan *plan)
{
    return panel_bytes(plan, plan->params.x.rows) + panel_bytes(plan, plan->params.y.rows);
}

static gram_status fill_panels(gram_context *g, const struct cuda_cdist_plan *plan,
                               struct panel_params *params)
{
    struct cuda_device *device = g->device;
    const struct pair_params *p = &plan->params;
    CUfunction function = gram_jit_recall(device, number_of(&plan->variant));
    const unsigned block[] = {THREADS, 1, 1};
    unsigned grid[] = {0, 1, 1};

    if (!function) {
        char defines[CUDA_CDIST_DEFINES];
        const struct jit_request request = cuda_cdist_panels_request(plan, defines);
        TRY(gram_jit_kernel(g, device, &request, &function));
    }
    params->side[0] = p->x, params->side[1] = p->y;
    params->tiles[0] = gram_ceil_div(p->x.rows, PANEL_ROWS);
    params->tiles[1] = gram_ceil_div(p->y.rows, PANEL_ROWS);
    params->depth = p->depth;
    params->chunks = gram_ceil_div(p->depth, PANEL_COLS);
    grid[0] = (unsigned)gram_least((params->tiles[0] + params->tiles[1]) * params->chunks,
                                   (int64_t)BLOCKS * device->processors);
    return gram_cuda_queue(g, function, grid, block, 0, (void *[]){params});
}

gram_status cuda_cdist_packed(gram_context *g, const struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_plan packed = *plan;
    struct panel_params params;
    void *scratch;

    TRY(gram_cuda_scratch(g, cuda_cdist_packed_bytes(plan), &scratch));
    params.panels[0] = scratch;
    params.panels[1] = params.panels[0] + panel_bytes(plan, plan->params.x.rows);
    TRY(fill_panels(g, plan, &params));
    (void)cuda_cdist_plan_packed(&packed);
    packed.params.x.data = params.panels[0];
    packed.params.y.data = params.panels[1];
    return cuda_cdist_launch(g, &packed, NULL);
}
