/*
 * matmul_params.h - what the host tells syrk_ema.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATMUL_PARAMS_H
#define GRAM_MATMUL_PARAMS_H
#include "device_params.h"

#define EMA_THREADS 256
#define EMA_PARTS   64 /* most blocks of an item of syrk_ema_check_finite */

/* l = beta l + weight product: weight is alpha, or (1 - beta) alpha without sum */
struct ema_params {
    long long ndim, shape[DEVICE_DIMS];
    long long begin, count;
    long long rows, cols;      /* of x */
    struct device_view x, l;   /* packed: l is a vector, its col_stride counts */
    struct device_number info; /* data NULL: not wanted */
    struct device_number beta, alpha;
    long long sum, packed, keep;
    long long checked;   /* squares holds what syrk_ema_check_finite found */
    long long parts;     /* blocks of an item of syrk_ema_check_finite */
    double *squares;     /* parts an item, of this launch's items */
    const char *product; /* rows by rows, dense, of this launch's items */
    long long blocks;    /* of an item of syrk_ema_add */
};
#endif
