/*
 * fake_rewrite.h - CUDA's words that no macro can turn into C++
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_REWRITE_H
#define FAKE_REWRITE_H
#include <stdbool.h>
#include <stdio.h>

/*
 * Copies preprocessed device code to `out` and adds what the driver needs to find its kernels:
 *   __shared__ x          a static variable in the section fake_shared (sectioned), or anywhere
 *   extern __shared__ x[] another name of fake_dynamic, which is added
 *   __global__, __launch_bounds__(n, ..)  visibility; a struct fake_kernel is added
 * False: a kernel without a name, or too many of them.
 */
bool fake_rewrite(const char *text, bool sectioned, FILE *out);
#endif
