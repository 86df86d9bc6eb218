/*
 * cuda_kron_matmul_request.c - the request of a pass's kernel: its file and its defines (-D)
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <stdio.h>

size_t cuda_kron_stored(const struct cuda_kron_plan *plan, bool is_factor, int number)
{
    return is_factor || number == 0 ? gram_dtype_size(plan->op->x.dtype) : plan->element;
}

int cuda_kron_moved(const struct kron_side *side, size_t bytes, int64_t after, int64_t width,
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
        for (int d = 0; d < KRON_DIMS; d++)
            fits = fits && side->batch_stride[d] % most == 0;
        if (fits)
            break;
    }
    return most;
}

int cuda_kron_kind(gram_dtype dtype)
{
    return dtype == GRAM_F16 ? KRON_HALF : dtype == GRAM_BF16 ? KRON_BFLOAT : KRON_REAL;
}

const char *cuda_kron_real(gram_dtype dtype)
{
    static const char *const names[] = {
        [GRAM_F32] = "float",  [GRAM_F64] = "double",   [GRAM_F16] = "float",
        [GRAM_BF16] = "float", [GRAM_I32] = "unsigned", [GRAM_I64] = "whole64"};

    return names[dtype];
}

/* Writes "-DNAME=a,b,c" for the rows, the columns and the order of the pass's factors. */
static int list_sizes(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                      char *to, size_t room)
{
    static const char *const names[] = {" -DP_OF=", " -DQ_OF=", " -DORDER="};
    int used = 0;

    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < pass->span.count; i++) {
            const struct gram_view *f = &plan->op->factor[pass->span.first + i];
            int64_t number = kind == 0   ? f->rows
                             : kind == 1 ? f->cols
                                         : pass->span.order[i] - pass->span.first;
            used += snprintf(to + used, room - (size_t)used, "%s%lld", i == 0 ? names[kind] : ",",
                             (long long)number);
        }
    return used;
}

static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

static void define_fused(const struct cuda_kron_plan *plan, int number,
                         const struct kron_params *params, char *to, size_t room)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const size_t y_bytes =
        number + 1 == plan->passes ? gram_dtype_size(plan->op->x.dtype) : plan->element;
    int used = list_sizes(plan, pass, to, room);

    snprintf(to + used, room - (size_t)used,
             " -DTB=%lld -DTA=%lld -DTHREADS=%d -DIN_PLACE=%d -DPADDED=%d -DX_LOAD=%d -DY_LOAD=%d",
             (long long)pass->units, (long long)pass->columns, pass->threads, pass->in_place,
             pass->padded,
             cuda_kron_moved(&params->x, cuda_kron_stored(plan, false, number), pass->span.after,
                             pass->columns, pass->span.in),
             cuda_kron_moved(&params->y, y_bytes, pass->span.after, pass->columns, pass->span.out));
}

static void define_mma(const struct cuda_kron_plan *plan, int number,
                       const struct kron_params *params, char *to, size_t room)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];

    snprintf(to, room, " -DDOUBLES=%d -DMT=%d -DNT=%d -DWQ=%d -DALONG=%d -DX_LOAD=%d -DF_LOAD=%d",
             plan->element == 8, pass->mt, pass->nt, pass->wq, pass->along,
             cuda_kron_moved(&params->x, cuda_kron_stored(plan, false, number), pass->span.after,
                             pass->columns, pass->span.in),
             cuda_kron_moved(&params->factor[0], cuda_kron_stored(plan, true, number), 1, 1,
                             pass->span.out));
}

struct jit_request cuda_kron_request(const struct cuda_kron_plan *plan, int number,
                                     const struct kron_params *params,
                                     char defines[CUDA_KRON_DEFINES])
{
    static const char *const files[] = {"kron_matmul.cu", "kron_matmul_one.cu",
                                        "kron_matmul_mma.cu", "kron_matmul_tile.cu",
                                        "kron_matmul_resident.cu"};
    static const char *const kernels[] = {"kron_matmul", "kron_matmul_one", "kron_matmul_mma",
                                          "kron_matmul_tile", "kron_matmul_resident"};
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const gram_dtype dtype = plan->op->x.dtype;
    const bool first = number == 0, last = number + 1 == plan->passes;
    const int x_kind = first ? cuda_kron_kind(dtype) : KRON_REAL;
    const int y_kind = last ? cuda_kron_kind(dtype) : KRON_REAL;
    int used =
        snprintf(defines, CUDA_KRON_DEFINES,
                 "-DREAL=%s -DWHOLE=%d -DX_KIND=%d -DY_KIND=%d -DF_KIND=%d", cuda_kron_real(dtype),
                 dtype == GRAM_I32 || dtype == GRAM_I64, x_kind, y_kind, cuda_kron_kind(dtype));

    if (pass->kernel == CUDA_KRON_FUSED)
        define_fused(plan, number, params, defines + used, CUDA_KRON_DEFINES - (size_t)used);
    else if (pass->kernel == CUDA_KRON_TILE)
        cuda_kron_tile_define(plan, number, defines + used, CUDA_KRON_DEFINES - (size_t)used);
    else if (pass->kernel == CUDA_KRON_MMA)
        define_mma(plan, number, params, defines + used, CUDA_KRON_DEFINES - (size_t)used);
    else if (pass->kernel == CUDA_KRON_KEPT)
        cuda_kron_kept_defines(plan, number, params, defines + used,
                               CUDA_KRON_DEFINES - (size_t)used);
    else
        snprintf(defines + used, CUDA_KRON_DEFINES - (size_t)used,
                 " -DBQ=%lld -DBN=%lld -DBK=16 -DALONG=%d", (long long)pass->units,
                 (long long)pass->columns, pass->along);
    return (struct jit_request){.file = files[pass->kernel],
                                .kernel = kernels[pass->kernel],
                                .defines = defines,
                                .variant = CUDA_KRON_VARIANTS | hash(defines) >> 1,
                                .chip_alone = pass->kernel == CUDA_KRON_KEPT && plan->element == 4,
                                .shared_bytes = pass->shared_bytes};
}
