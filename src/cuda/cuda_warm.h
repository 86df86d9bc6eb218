/*
 * cuda_warm.h - the list of kernels that are compiled ahead
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_WARM_H
#define GRAM_CUDA_WARM_H
#include "cuda_ops.h"

enum {
    WARM_MOST = 320 /* more than there are */
};

struct warm_kernel {
    struct jit_request request;
    char defines[CUDA_CDIST_DEFINES]; /* request's */
};

struct warm_list {
    int count;
    struct warm_kernel kernel[WARM_MOST];
};

/* The kernels of a GPU of this arch (90), each once. */
void cuda_warm_list(const gram_context *g, int arch, struct warm_list *list);
#endif
