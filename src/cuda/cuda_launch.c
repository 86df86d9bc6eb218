/*
 * cuda_launch.c - what every operation does: queues a kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_ops.h"

gram_status gram_cuda_launch(gram_context *g, const struct jit_request *request, int64_t blocks,
                             unsigned threads, void *params)
{
    struct cuda_device *device = g->device;
    CUfunction function = gram_jit_recall(device, request->variant);
    unsigned grid = (unsigned)(blocks < INT32_MAX ? blocks : INT32_MAX);
    void *arguments[] = {params};

    if (!function)
        TRY(gram_jit_kernel(g, device, request, &function));
    return gram_cuda_check(g, device->driver,
                           device->driver->launch(function, grid, 1, 1, threads, 1, 1, 0,
                                                  device->stream, arguments, NULL),
                           "cuLaunchKernel");
}

struct jit_request gram_cuda_plain_request(enum cuda_variant_file file, gram_dtype dtype)
{
    static const struct {
        const char *file, *kernel;
    } names[] = {
        [CUDA_VARIANT_GRAD_SUM] = {    "cdist_grad_sum.cu",     "cdist_grad_sum"},
        [CUDA_VARIANT_AGOP] = {              "agop.cu",               "agop"},
        [CUDA_VARIANT_AGOP_DIAGONAL] = {     "agop_diagonal.cu",      "agop_diagonal"},
        [CUDA_VARIANT_AGOP_SUM] = {          "agop_sum.cu",           "agop_sum"},
        [CUDA_VARIANT_VJP_SUMS] = {   "kernel_vjp_sums.cu",    "kernel_vjp_sums"},
        [CUDA_VARIANT_VJP_NUMBER] = { "kernel_vjp_number.cu",  "kernel_vjp_number"},
        [CUDA_VARIANT_VJP_WEIGH] = {  "kernel_vjp_weigh.cu",   "kernel_vjp_weigh"},
        [CUDA_VARIANT_VJP_CORRECT] = {"kernel_vjp_correct.cu", "kernel_vjp_correct"},
        [CUDA_VARIANT_MEDIAN_ROWS] = {       "median_rows.cu",        "median_rows"},
        [CUDA_VARIANT_MEDIAN_COUNT] = {      "median_count.cu",       "median_count"},
        [CUDA_VARIANT_MEDIAN_PICK] = {       "median_pick.cu",        "median_pick"},
    };
    bool is_double = dtype == GRAM_F64;

    return (struct jit_request){.file = names[file].file,
                                .kernel = names[file].kernel,
                                .defines = is_double ? "-DREAL=double" : "-DREAL=float",
                                .variant = gram_cuda_variant(file, is_double)};
}

gram_status gram_cuda_launch_plain(gram_context *g, enum cuda_variant_file file, gram_dtype dtype,
                                   int64_t blocks, unsigned threads, void *params)
{
    const struct jit_request request = gram_cuda_plain_request(file, dtype);

    return gram_cuda_launch(g, &request, blocks, threads, params);
}
