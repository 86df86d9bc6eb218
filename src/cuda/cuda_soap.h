/*
 * cuda_soap.h - what the parts of SOAP share on the device
 *
 * A basis q is n by n, row j is its vector number j.  cuBLAS is column-major: a row-major matrix
 * is its transpose there, and the rows of a basis its columns.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SOAP_H
#define GRAM_CUDA_SOAP_H
#include "cuda_optimizer.h"

/* Blocks of one shape, one after the other: x times their matrices along dimension p->k. */
struct cuda_soap_product {
    const struct optimizer_params *p; /* dimension k is set */
    gram_dtype work;
    int compute;
    int64_t count; /* blocks */
    const char *matrix;
    bool back; /* times the transposed matrices */
    const char *x;
    char *to;
};

/* cuda_soap.c */
gram_status cuda_soap_multiply(gram_context *g, const struct cuda_blas *blas,
                               const struct cuda_soap_product *m);

/* cuda_soap_qr.c: vectors of items made orthonormal from the first to the last, by Householder's
 * reflections, SOAP_PANEL at a time. */
struct cuda_soap_qr {
    gram_dtype work;
    int64_t n, count;
    char *a;          /* rows are the vectors; is spoilt */
    char *reflectors; /* scratch as large as a */
    char *triangles;  /* cuda_soap_triangles(n) elements an item */
    char *rows;       /* two times n SOAP_PANEL elements an item */
    char *q;          /* gets the vectors */
};

static inline int64_t cuda_soap_triangles(int64_t n)
{
    return gram_ceil_div(n, SOAP_PANEL) * SOAP_PANEL * SOAP_PANEL;
}
gram_status cuda_soap_orthonormalize(gram_context *g, const struct cuda_blas *blas,
                                     const struct cuda_soap_qr *qr);
#endif
