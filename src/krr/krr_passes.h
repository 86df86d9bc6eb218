/*
 * krr_passes.h - what a device brings to kernel ridge regression: a table of passes
 *
 * All pointers of a pass are where the context computes, all vectors are columns without gaps.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_PASSES_H
#define GRAM_KRR_PASSES_H
#include "core/context.h"
#include "core/view.h"
#include "krr.h"

struct krr_diagonal { /* matrix[i][i] += add[i] */
    gram_dtype dtype;
    int64_t rows;
    void *matrix;
    const double *add;
};

/*
 * A stored kernel matrix, symmetric.  Where the device takes it whole it is n by n without gaps.
 * Else it is the blocks (i, j), j <= i, of its lower triangle, half the memory: each is row-major
 * with leading dimension ld, also those at the ragged end.
 */
struct krr_matrix {
    int64_t n, size, count; /* rows; rows of a block; blocks along an edge */
    int64_t ld;             /* of a block, in elements */
    gram_dtype dtype;
    struct krr_array memory; /* the blocks, and behind them what multiply needs */
    char *extra;             /* the latter */
};

/* The first element of block (i, j), j <= i. */
static inline char *krr_block(const struct krr_matrix *k, int64_t i, int64_t j)
{
    return (char *)k->memory.data +
           (size_t)((i * (i + 1) / 2 + j) * k->size * k->ld) * gram_dtype_size(k->dtype);
}

static inline int64_t krr_block_rows(const struct krr_matrix *k, int64_t i)
{
    return gram_least(k->n - i * k->size, k->size);
}

struct krr_product { /* product = K v, or (K + diag(ridge)) v: see krr_passes.wide_product */
    const struct krr_matrix *k;
    const double *ridge;
    int64_t columns;
    const void *v;
    void *product;
};

/* What conjugate gradients do to every column.  A is the matrix with its ridge. */
enum krr_step {
    KRR_START,    /* x = 0; r = b; norm_b = norm_r = |b| */
    KRR_RESIDUAL, /* r = b - A x, of which product is a part; norm_r = |r| */
    KRR_RESTART,  /* d = 0; rz = 0 */
    KRR_DESCEND,  /* curvature = d . A d; s = rz / curvature, or 0 unless the curvature is positive;
                     x += s d; r -= s A d; norm_r = |r| */
    KRR_TURN      /* d = z + ((r . z) / rz) d; rz = r . z */
};

/* The columns at work lie side by side in r, z, d and product.  Column j of these belongs to column
 * which[j] of b and x, and to number which[j] of the norms, rz and curvature. */
struct krr_cg_step {
    enum krr_step step;
    gram_dtype dtype;
    int64_t n, columns;   /* at work */
    const int64_t *which; /* one per column */
    const void *b;
    void *x, *r, *z, *d;
    const void *product; /* of x for KRR_RESIDUAL, of d for KRR_DESCEND */
    const double *ridge; /* n */
    double *norm_b, *norm_r, *rz, *curvature;
};

/* to[i][j] = from[i][j], between arrays of any strides, which are counted in elements. */
struct krr_move {
    gram_dtype dtype;
    int64_t rows, columns;
    void *to;
    const void *from;
    int64_t to_stride[2], from_stride[2]; /* from row to row, and from column to column */
    bool wide;                            /* `to` is f64; only where the products are */
};

/* Just below 1, so that rounding leaves the inverse of the preconditioner positive definite: what
 * is applied is (I - KRR_KEEP F (F^T F + lambda I)^-1 F^T) / lambda. */
#define KRR_KEEP (1 - 1e-6)

struct krr_ranks; /* krr_ranks.h; NULL: a process alone */
/* Each of count numbers, which are where the context computes, becomes the sum of those of all. */
typedef gram_status krr_add(gram_context *g, struct krr_ranks *ranks, double *numbers,
                            int64_t count);

/* P = F F^T + lambda I, whose inverse is (I - F (F^T F + lambda I)^-1 F^T) / lambda.  Of ranks each
 * has n of the rows of F, to which v and P^-1 v of its passes belong: see gram_krr_ranks_apply. */
struct krr_preconditioner {
    int64_t n, rank, columns; /* columns: right-hand sides; rank 0: P = lambda I */
    int64_t all;              /* rows of all ranks; without any it is n */
    struct krr_ranks *ranks;  /* NULL: a process alone */
    krr_add *add;             /* of them; NULL with the former */
    gram_dtype dtype;
    double lambda;
    struct krr_array factor;  /* F: n by rank, column-major */
    struct krr_array inner;   /* f64, rank by rank: the inverse of F^T F + lambda I; or its lower
                                 Cholesky factor, column-major, where the device has `factorise` */
    struct krr_array scratch; /* of apply */
    /* For further columns, on the host: what is left of the diagonal of K, and the sum of that
     * after so many columns, 0 where no step ended with them. */
    int64_t room; /* columns that there is memory for */
    double *left, *sums;
};

/* For passes: F^T v or F^T F of the rows of all ranks, from those of this one. */
static inline gram_status krr_add_ranks(gram_context *g, const struct krr_preconditioner *p,
                                        double *numbers, int64_t count)
{
    return p->add ? p->add(g, p->ranks, numbers, count) : GRAM_OK;
}

/* A step of the pivoted Cholesky factorisation: X = C R^-T in the place of C, and from each
 * diagonal[i] the squares of row i of X are subtracted, down to 0 at the lowest. */
struct krr_whiten {
    gram_dtype dtype;
    int64_t n, count;
    void *columns;       /* C: n by count, column-major */
    const double *lower; /* R: count by count, lower triangle, column-major */
    double *diagonal;    /* n */
    void *scratch;       /* count by count of dtype */
};

struct gram_krr_passes {
    int64_t dense_rows;    /* up to here a factorisation is quicker than iterations */
    int64_t block_entries; /* see gram_krr_block_entries */
    int64_t block_rows;    /* of a block of a stored matrix; 0: it is whole */
    int64_t pad_bytes;     /* behind each row of a block */
    bool wide_product;     /* a product is f64 and without the ridge; else of the dtype, with it */
    /* Refuses a call that waits for the device, where that cannot be; NULL: it never waits. */
    gram_status (*may_wait)(gram_context *g);
    gram_status (*map)(gram_context *g, const struct krr_map *op);
    gram_status (*gather)(gram_context *g, const struct krr_gather *op);
    gram_status (*combine)(gram_context *g, const struct krr_combine *op);
    size_t (*combine_bytes)(int64_t rows, int64_t terms, int64_t outputs); /* NULL: no scratch */
    gram_status (*add_diagonal)(gram_context *g, const struct krr_diagonal *op);
    /* out = from in f64, or zeros where from is NULL */
    gram_status (*widen)(gram_context *g, gram_dtype dtype, int64_t count, const void *from,
                         double *out);
    size_t (*multiply_bytes)(int64_t n); /* NULL: no scratch */
    gram_status (*multiply)(gram_context *g, const struct krr_product *op);
    gram_status (*cg_step)(gram_context *g, const struct krr_cg_step *op);
    gram_status (*move)(gram_context *g, const struct krr_move *op);
    gram_status (*whiten)(gram_context *g, const struct krr_whiten *op);
    /* p->inner from p->factor; where rounding made it indefinite p->rank becomes 0.  NULL:
     * it is made by the operations of gram.h. */
    gram_status (*factorise)(gram_context *g, struct krr_preconditioner *p);
    double apply_cost; /* of an element of F in one product, in operations: see krr_rank.c */
    size_t (*apply_bytes)(int64_t n, int64_t rank, int64_t columns, gram_dtype dtype);
    /* out = P^-1 v; they do not overlap */
    gram_status (*apply)(gram_context *g, const struct krr_preconditioner *p, const void *v,
                         void *out);
    /* The same of vectors in f64 where F is f32, with sums in f64.  NULL: `apply` has such sums,
     * and takes what f32 has of a vector, and then the rest. */
    gram_status (*apply_wide)(gram_context *g, const struct krr_preconditioner *p, const double *v,
                              double *out);
};

/* ---- Between the files of this folder -------------------------------------------------------- */

/* krr.c: queues a copy where the context computes; the mean of n numbers on the host. */
gram_status gram_krr_copy(gram_context *g, void *to, const void *from, size_t bytes);
double gram_krr_mean(const double *v, int64_t n);

struct krr_kernel;

/* A solve that goes on; x and b are n by columns, where the context computes, as is ridge. */
struct krr_iteration {
    const struct krr_matrix *k;
    struct krr_kernel *kernel; /* not NULL: k stores nothing */
    const struct krr_preconditioner *p;
    const double *ridge;
    int64_t columns;
    double tolerance;
    bool warm, look; /* x comes with a guess; no more is done than to find its residual */
    const void *b;
    void *x;
};

/* krr.c */
gram_status gram_krr_iterate(gram_context *g, const struct krr_iteration *it,
                             struct krr_report *report);
size_t gram_krr_iterate_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype);

/* How a matrix is multiplied, and a preconditioner P applied: v is n by columns, column-major.  The
 * product of a matrix is what krr_passes.wide_product says; P^-1 v is of the dtype. */
typedef gram_status krr_apply(gram_context *g, void *user, int64_t columns, const void *v,
                              void *out);

/* A look at the true residuals costs a product, so that there is one in so many iterations. */
enum {
    KRR_CG_CHECK = 50
};

/* What an iteration that is under way goes on with. */
enum krr_cg_phase {
    KRR_CG_BETWEEN, /* x alone: the next round begins with the true residuals */
    KRR_CG_READY,   /* x, r and d of the last iteration */
    KRR_CG_TURNED   /* d is the next direction, which is not multiplied yet */
};

/* Where an iteration stands, on the host.  which and left have a number per column, of which the
 * first `working` and `waiting` mean something; r and d have the columns at work alone. */
struct krr_cg_state {
    enum krr_cg_phase phase;
    int64_t iterations, round, step; /* step: iterations of this round */
    int64_t least_step, renewed_step;
    int64_t working, waiting;
    const int64_t *which, *left;
    const double *numbers; /* of each column: norm_b, norm_r, rz, what the round began with, or the
                              largest residual since they were renewed, and the least of these */
    const void *x, *r, *d;
};

/* A solve that is kept from time to time, and that goes on from what was kept. */
struct krr_cg_keeper {
    /* Told the largest carried residual after each iteration; true: the state is wanted now. */
    bool (*told)(gram_context *g, void *user, double residual);
    /* The state; `limits`: the iteration ends here because its limits say so. */
    gram_status (*take)(gram_context *g, void *user, const struct krr_cg_state *s, bool limits);
    void *user;
    const struct krr_cg_state *from; /* NULL: from the beginning */
};

/* Looks on, and may exchange the preconditioner. */
struct krr_cg_adviser {
    /* The method begins with the residuals that there are, among whose columns is this one. */
    void (*begins)(void *user, int64_t column);
    /* r . P^-1 r and d . A d of each column in an iteration: they make its Lanczos process. */
    void (*told)(void *user, int64_t column, double rz, double curvature);
    /* After an iteration: columns at work, and the largest of their carried residuals over what is
     * wanted of it.  *changed: the preconditioner is another one, so that the method begins again
     * from where it is. */
    gram_status (*review)(gram_context *g, void *user, int64_t columns, double excess,
                          bool *changed);
    void *user;
};

/*
 * Conjugate gradients for the columns of A X = B.  Every pointer to numbers is where the context
 * computes; b and x are n by columns, column-major.  A column that has converged leaves, and
 * products then have fewer columns.
 */
struct krr_cg {
    gram_dtype dtype;
    int64_t n, columns;
    krr_apply *multiply;
    void *matrix; /* user of multiply */
    krr_apply *precondition;
    void *preconditioner; /* user of precondition; NULL: P = I */
    const double *ridge;  /* n numbers that the steps add to a wide product; else unused */
    const void *b;
    void *x;
    bool warm;          /* x holds a first guess; else it is 0 at first */
    double tolerance;   /* of |b - A x| / |b| of each column */
    int64_t iterations; /* most of them */
    int rounds;         /* most rounds, each of which begins with the true residuals */
    int64_t check;      /* iterations between two looks at the true residuals; 0: none */
    double seconds;     /* the most time; INFINITY: any */
    bool lenient;       /* a column that breaks down leaves, and is as good as it is */
    /* Told rz and the curvature of a column in each iteration, which are the coefficients of its
     * Lanczos process; there is one round then, and the residual is the carried one.  Or NULL. */
    void (*observe)(void *observer, int64_t column, double rz, double curvature);
    void *observer;
    /* NULL, or with one round and no looks: adds x of all columns to what the caller keeps, makes x
     * 0, and writes the exact residuals of the columns at work in the place of r, and their norms,
     * and those of what changed, to the numbers of all columns, which are on the host.  b is then
     * not read again. */
    gram_status (*renew)(gram_context *g, void *renewer, int64_t working, const int64_t *which,
                         void *r, double *norms, double *gaps);
    void *renewer;
    /* NULL: nobody.  A call that is cancelled gives it the state, too. */
    const struct krr_cg_keeper *keeper;
    const struct krr_cg_adviser *adviser; /* NULL: nobody */
    struct krr_ranks *ranks;              /* that take the same steps */
};

enum krr_cg_end {
    KRR_CG_REACHED,    /* the tolerance, in every column */
    KRR_CG_STALLED,    /* rounding allows no more */
    KRR_CG_ITERATIONS, /* the limits are used up */
    KRR_CG_SECONDS,
    KRR_CG_INDEFINITE,     /* d . A d is not positive */
    KRR_CG_PRECONDITIONER, /* r . P^-1 r is not positive */
    KRR_CG_NOT_FINITE      /* NaN or infinity in b (iteration 0), or in a product */
};

struct krr_cg_report {
    enum krr_cg_end end;
    int64_t iterations;
    int64_t products; /* columns that were multiplied, in all */
    int64_t column;   /* of the largest residual, or where it ended too early */
    double residual;  /* the largest |b - A x| / |b|, computed afresh */
    double curvature; /* d . A d, or r . P^-1 r, that is not positive */
};

gram_status gram_krr_cg(gram_context *g, const struct krr_cg *it, struct krr_cg_report *report);
size_t gram_krr_cg_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype);

/* Refuses a kernel whose matrix is not symmetric, whatever the points are. */
gram_status gram_krr_check_symmetric(gram_context *g, const gram_kernel_options *kernel);
/* krr.c: a tensor of the caller's as a matrix: itself, or a vector as one column. */
gram_status gram_krr_view(gram_context *g, const char *name, const gram_tensor *t,
                          enum gram_access access, struct gram_view *out);
/* Its elements without gaps, by columns or by rows; and back from vectors by columns. */
gram_status gram_krr_pack(gram_context *g, const struct gram_view *v, bool by_columns, void *to);
gram_status gram_krr_unpack(gram_context *g, const struct gram_view *v, const void *from);

/* A kernel matrix K(x, x) that is not stored, of the dtype of vectors: f64 if x is, else f32. */
struct krr_kernel {
    const gram_tensor *x;
    const gram_kernel_options *kernel;
    const char *call;        /* the public one that it serves, for messages */
    void *narrow;            /* room for a product in f32, where products are wide */
    struct krr_ranks *ranks; /* that share the product */
};
krr_apply gram_krr_kernel_multiply; /* takes a struct krr_kernel */
/* out += diag(ridge) v on the host, for a product that is not wide. */
void gram_krr_add_ridge(gram_dtype dtype, int64_t n, int64_t columns, const double *ridge,
                        const void *v, void *out);

/* solve_operator.c: a matrix of the caller's, and what its products need. */
struct krr_operator {
    const gram_operator *given;
    const char *name; /* of the argument, for messages */
    struct krr_array memory;
};

gram_status gram_krr_operator_check(gram_context *g, const char *name, const gram_operator *a);
/* The buffers of its products; to be freed by gram_krr_free(g, &o->memory). */
gram_status gram_krr_operator_open(gram_context *g, const char *name, const gram_operator *a,
                                   struct krr_operator *out);
/* Both take a struct krr_operator: the product of a matrix, and P^-1 v. */
krr_apply gram_krr_operator_multiply, gram_krr_operator_precondition;
/* What `ridge` of a struct krr_cg wants where there is none. */
gram_status gram_krr_no_ridge(gram_context *g, int64_t n, struct krr_array *out);
/* The status of a solve that ended as the report says, and its message. */
gram_status gram_krr_cg_verdict(gram_context *g, const struct krr_cg_report *report);

/* pivoted_cholesky.c; ridge is the mean of what is added to the diagonal.  On an error nothing is
 * left to destroy. */
int64_t gram_krr_rank(int64_t n, int64_t asked); /* at most; asked 0: the one that pays */
gram_status gram_krr_precondition(gram_context *g, const struct krr_system *system, double ridge,
                                  struct krr_preconditioner *out);
/* Draws further pivots, up to so many columns in all, and notes them; p->rank is what could be had.
 * If the memory for it is not there p is as it was; after other errors nothing is left of it.
 * system->rank and pivots that are given are not read. */
gram_status gram_krr_append(gram_context *g, const struct krr_system *system, double ridge,
                            int64_t rank, struct krr_preconditioner *p);
void gram_krr_preconditioner_destroy(gram_context *g, struct krr_preconditioner *p);
size_t gram_krr_preconditioner_bytes(const gram_context *g, int64_t n, int64_t columns,
                                     gram_dtype dtype);

/* krr.c: K, of the rows of x. */
gram_status gram_krr_matrix_create(gram_context *g, const gram_tensor *x,
                                   const gram_kernel_options *kernel, struct krr_matrix *out);

extern const struct gram_krr_passes cpu_krr_passes, cuda_krr_passes;
#endif
