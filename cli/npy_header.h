/*
 * npy_header.h - the Python dict at the start of a .npy file
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_NPY_HEADER_H
#define GRAM_CLI_NPY_HEADER_H
#include "npy.h"

/*
 * Parses header (NUL-terminated) into type, fortran, ndim, shape and count.  swapped: the elements
 * are big-endian.  Strict: each key once, no other key, nothing after the dict but blanks.
 */
enum exit_status npy_parse_header(const char *header, const char *path, struct npy *out,
                                  int *swapped, struct failure *why);
#endif
