/*
 * device.h - the device on which a command computes, and the matrices on it
 *
 * On the CPU a matrix stays where it is; for a GPU it is copied there, and results come back.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_DEVICE_H
#define GRAM_CLI_DEVICE_H
#include "matrix.h"

/* --device, for commands that can compute on a GPU: stored in the common settings. */
extern const struct option_row device_options[];

/* "auto", "cpu", "cuda" or "cuda:N"; NULL is the CPU. */
enum exit_status device_choose(const char *text, gram_device *out, struct failure *why);

/* A matrix where the context computes: device_matrix_free when done. */
struct device_matrix {
    gram_tensor t;
    void *memory; /* NULL: somebody else's */
    size_t bytes;
};

/* Row-major, elements undefined. */
enum exit_status device_matrix_allocate(gram_context *g, gram_dtype dtype, int ndim,
                                        const int64_t *shape, struct device_matrix *out,
                                        struct failure *why);
/* Copies a matrix that was read; makes room for a result that goes to m. */
enum exit_status device_matrix_send(gram_context *g, const struct matrix *m,
                                    struct device_matrix *out, struct failure *why);
enum exit_status device_matrix_result(gram_context *g, const struct matrix *m,
                                      struct device_matrix *out, struct failure *why);
/* Waits for the work, and copies a result to its matrix. */
enum exit_status device_matrix_fetch(gram_context *g, const struct device_matrix *from,
                                     struct matrix *to, struct failure *why);
void device_matrix_free(gram_context *g, struct device_matrix *m);
#endif
