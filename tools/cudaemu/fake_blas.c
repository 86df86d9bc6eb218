/*
 * fake_blas.c - what src/core/blas.c asks for in the fake libraries, which leave BLAS's threads
 * alone
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas_process.h"

bool gram_blas_begin(double work)
{
    (void)work;
    return false;
}

void gram_blas_end(bool lent)
{
    (void)lent;
}
