/*
 * cuda_soap_qr.c - vectors of a batch made orthonormal: Householder's QR factorisation, blocked
 *
 * The vectors are the columns of A.  A panel of SOAP_PANEL columns gives reflectors V and a
 * triangle T (soap_qr.cu):
 *   H_1 H_2 ... = I - V T V^T.
 * The columns A' behind the panel are multiplied from the left:
 *   A' <- (I - V T^T V^T) A'.
 * Q is the product of I - V T V^T over all panels; the last panel is applied to I first.  cuBLAS
 * does the products, for all items at once.  Bischof and Van Loan 1987; Schreiber and Van Loan
 * 1989.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_soap.h"

static const struct cuda_kernel soap_identity = {"soap_qr.cu", "soap_identity"};
static const struct cuda_kernel soap_panel = {"soap_qr.cu", "soap_panel"};

enum {
    MOST_BLOCKS = 1 << 16
};

struct panel {
    const struct cuda_soap_qr *qr;
    const struct cuda_blas *blas;
    int64_t column, width;
};

static char *element(const struct panel *p, char *matrix, int64_t row, int64_t column)
{
    return matrix + (column * p->qr->n + row) * (int64_t)gram_dtype_size(p->qr->work);
}

/* c = alpha a b + beta c for all items, where gemm has the matrices and their sizes. */
static gram_status multiply(gram_context *g, const struct panel *p, struct cuda_gemm_items gemm)
{
    gemm.dtype = p->qr->work;
    gemm.compute = gram_cuda_compute_of(p->qr->work);
    gemm.count = p->qr->count;
    return gram_cuda_gemm_items(g, p->blas, &gemm);
}

/* Multiplies the columns of a matrix from `from` on, in the rows from p->column on, by
 * I - V T V^T, or with transposed by I - V T^T V^T. */
static gram_status reflect(gram_context *g, const struct panel *p, char *matrix, int64_t from,
                           bool transposed)
{
    const struct cuda_soap_qr *qr = p->qr;
    const int64_t n = qr->n, square = n * n, rows = n - p->column, columns = n - from;
    const int64_t room = n * SOAP_PANEL, size = (int64_t)gram_dtype_size(qr->work);
    char *first = qr->rows, *second = qr->rows + qr->count * room * size;
    const struct cuda_gemm_side v = {element(p, qr->reflectors, p->column, p->column), n, square,
                                     false};
    struct cuda_gemm_items gemm = {
        .m = p->width,
        .n = columns,
        .k = rows,
        .a = v,
        .b = {element(p, matrix, p->column, from), n, square, false},
        .c = first,
        .ldc = SOAP_PANEL,
        .stride_c = room,
        .alpha = 1
    };

    if (columns == 0)
        return GRAM_OK;
    gemm.a.transposed = true;
    TRY(multiply(g, p, gemm));
    gemm.k = p->width;
    gemm.a = (struct cuda_gemm_side){qr->triangles + p->column * SOAP_PANEL * size, SOAP_PANEL,
                                     cuda_soap_triangles(n), transposed};
    gemm.b = (struct cuda_gemm_side){first, SOAP_PANEL, room, false};
    gemm.c = second;
    TRY(multiply(g, p, gemm));
    gemm.m = rows;
    gemm.a = v;
    gemm.b.data = second;
    gemm.c = element(p, matrix, p->column, from);
    gemm.ldc = n;
    gemm.stride_c = square;
    gemm.alpha = -1;
    gemm.beta = 1;
    return multiply(g, p, gemm);
}

static gram_status factor_panel(gram_context *g, const struct panel *p)
{
    const struct cuda_soap_qr *qr = p->qr;
    struct soap_panel params = {
        .n = qr->n,
        .column = p->column,
        .width = p->width,
        .triangle = cuda_soap_triangles(qr->n),
        .a = qr->a,
        .reflectors = qr->reflectors,
        .triangles = qr->triangles,
    };

    return cuda_launch_plain(g, &soap_panel, qr->work, qr->count, SOAP_PANEL_THREADS, &params);
}

gram_status cuda_soap_orthonormalize(gram_context *g, const struct cuda_blas *blas,
                                     const struct cuda_soap_qr *qr)
{
    struct panel p = {.qr = qr, .blas = blas};
    struct soap_panel identity = {.n = qr->n, .count = qr->count, .a = qr->q};
    const int64_t all = qr->count * qr->n * qr->n;

    for (p.column = 0; p.column < qr->n; p.column += SOAP_PANEL) {
        p.width = gram_least(SOAP_PANEL, qr->n - p.column);
        TRY(factor_panel(g, &p));
        TRY(reflect(g, &p, qr->a, p.column + p.width, true));
    }
    TRY(cuda_launch_plain(g, &soap_identity, qr->work,
                          gram_least(gram_ceil_div(all, OPTIMIZER_TILE), MOST_BLOCKS),
                          OPTIMIZER_THREADS, &identity));
    for (p.column = (qr->n - 1) / SOAP_PANEL * SOAP_PANEL; p.column >= 0; p.column -= SOAP_PANEL) {
        p.width = gram_least(SOAP_PANEL, qr->n - p.column);
        TRY(reflect(g, &p, qr->q, p.column, false));
    }
    return GRAM_OK;
}
