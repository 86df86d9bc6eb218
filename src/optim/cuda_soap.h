/*
 * cuda_soap.h - the declarations that the files of SOAP share on the device
 *
 * A basis q is n by n, and its row j is vector number j.  cuBLAS is column-major: it sees a
 * row-major matrix as its transpose, and the rows of a basis as columns.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SOAP_H
#define GRAM_CUDA_SOAP_H
#include "cuda_optimizer.h"

/* A product for blocks of one shape that lie one after the other: each x is multiplied by its
 * matrix along dimension p->k. */
struct cuda_soap_product {
    const struct optimizer_params *p; /* its dimension k is set */
    gram_dtype work;
    int compute;
    int64_t count; /* of blocks */
    const char *matrix;
    bool back; /* multiplies by the transposed matrices */
    const char *x;
    char *to;
};

/* cuda_soap.c */
gram_status cuda_soap_multiply(gram_context *g, const struct cuda_blas *blas,
                               const struct cuda_soap_product *m);

/* cuda_soap_qr.c makes the vectors of each item orthonormal, from the first to the last, by
 * Householder's reflections of SOAP_PANEL vectors at a time. */
struct cuda_soap_qr {
    gram_dtype work;
    int64_t n, count;
    char *a;          /* its rows are the vectors; it is overwritten */
    char *reflectors; /* scratch as large as a */
    char *triangles;  /* scratch: cuda_soap_triangles(n) elements for each item */
    char *rows;       /* scratch: 2 n SOAP_PANEL elements for each item */
    char *q;          /* receives the orthonormal vectors */
};

static inline int64_t cuda_soap_triangles(int64_t n)
{
    return gram_ceil_div(n, SOAP_PANEL) * SOAP_PANEL * SOAP_PANEL;
}
gram_status cuda_soap_orthonormalize(gram_context *g, const struct cuda_blas *blas,
                                     const struct cuda_soap_qr *qr);
#endif
