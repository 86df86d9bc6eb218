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
    char defines[CUDA_TEXT_BYTES]; /* request's */
};

struct warm_list {
    int count;
    char *expression; /* the device code of one, which some kernels include; owned, NULL: none */
    struct warm_kernel kernel[WARM_MOST];
};

/* The common kernels of a GPU of this arch (90), each once. */
void cuda_warm_list(const gram_context *g, int arch, struct warm_list *list);

/* Those of op instead, which cuda_cdist would launch; false if memory runs out. */
bool cuda_warm_list_op(const gram_context *g, int arch, const struct gram_cdist_op *op,
                       struct warm_list *list);
#endif
