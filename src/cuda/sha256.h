/*
 * sha256.h - SHA-256 (FIPS 180-4): texts of callers told apart where they are not kept
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SHA256_H
#define GRAM_CUDA_SHA256_H
#include <stddef.h>

enum {
    SHA256_TEXT = 65 /* hexadecimal digits and an end */
};

void gram_sha256(const void *data, size_t bytes, char text[SHA256_TEXT]);
#endif
