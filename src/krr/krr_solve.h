/*
 * krr_solve.h - what the files of gram_krr_solve share: a problem, and its numbers in f64
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_SOLVE_H
#define GRAM_KRR_SOLVE_H
#include "core/model_file.h"
#include "krr_passes.h"

enum {
    KRR_GROWTH_STEPS = 300 /* iterations after which a rank is as large as it becomes */
};

/* A rank that is not the caller's, and the iteration since it last began: see krr_rank.c. */
struct krr_growth {
    bool on;
    int64_t most;          /* columns of the preconditioner that there is memory for */
    int64_t column, steps; /* what is looked at, and how many coefficients it has */
    double coefficients[2 * KRR_GROWTH_STEPS]; /* rz and curvature of each iteration */
};

/* Where the passes of BLOCKS stand between two blocks, beside alpha and best: see krr_blocks.c. */
struct krr_passes_state {
    int64_t rows, done; /* of a block; how many rows of order the pass has taken */
    uint64_t random;    /* of which the orders of further passes are drawn */
    double rate;
    const double *momentum; /* n by columns */
    const double *squares;  /* 2 by columns: of the residuals of this pass, and of the one before */
    const int64_t *order;   /* n */
};

/* What a solve keeps on the disk, and what it goes on from: see krr_checkpoint.c. */
struct krr_checkpoint {
    const char *path;                        /* NULL: none */
    uint64_t x, y, weights, kernel, centres; /* hashes */
    double seconds, last;                    /* between two files; when the last one was written */
    int64_t every, since;                    /* the same in iterations */
    double *history; /* of the residual over that of y, after each iteration */
    int64_t iterations, room;
    double scale; /* of the residuals that the iteration of this round tells */
    /* Where the solve stands outside of the iteration. */
    struct krr_pivots pivots;
    int64_t rank, round; /* rank: room of the pivots; round: those that are over */
    bool preconditioned, shifted;
    bool wide; /* the iteration is in f64, though the points are not */
    struct krr_growth growth;
    const double *norms; /* norm_r, and further ones of CENTRES: norm_rows by columns */
    int64_t norm_rows;
    const double *residual; /* unknowns by columns, by which a round begins */
    int64_t part;           /* iterations that end a round, not the call */
    bool kept;              /* the file is that of a limit, from where more can be done */
    bool written;
    gram_status failed; /* of the last write */
    char message[512];
    /* What is gone on from: arrays of file. */
    struct gram_model_file *file; /* NULL: from the beginning */
    struct krr_cg_state state;
    struct krr_passes_state passes; /* BLOCKS; also what is written */
    int stage;                      /* enum krr_stage */
    const double *norms_before, *residual_before;
};

enum krr_stage {
    KRR_ITERATING,  /* within conjugate gradients: there is a state */
    KRR_LOOKED_AT,  /* between rounds; the residual of alpha is known */
    KRR_TO_LOOK_AT, /* alpha is new; best, residual and norms are those of the round before */
    KRR_STAGES
};

/* (K + diag(ridge)) alpha = y.  Vectors are n by columns, column-major, on the host. */
struct krr_problem {
    gram_krr_options options;                 /* with defaults filled in */
    gram_kernel_options kernel, wide_kernel;  /* of x, and of wide_x */
    gram_tensor lengths;                      /* of wide_kernel, where there are any */
    struct krr_array x, wide_x, wide_lengths; /* row-major, where the context computes */
    gram_dtype dtype;
    int64_t n, width, columns;
    bool narrow_alpha;        /* alpha is f32: it is rounded before a residual is computed */
    double *ridge, *diagonal; /* n; of K */
    double *y, *alpha, *residual, *best; /* best: the alpha of the least residual so far */
    double *norm_y, *norm_r;             /* one per column; with the allowance for rounding */
    double *target;                      /* norm_r that is good enough */
    void *memory;
    size_t bytes;
    double least_ridge, most_diagonal, room; /* room: sqrt(most / least weight) */
    /* CENTRES: alpha has so many rows, else n; ridge has the weights of rows alone. */
    int64_t unknowns;
    struct krr_array centres, wide_centres;
    double least_weight, floor;
    int64_t products;
    double start;                    /* seconds */
    const char *call;                /* for messages, which other public calls on the way change */
    struct krr_preconditioner *kept; /* CG: made at the first rounds, and then used; or NULL */
    /* options.rows, where rows.read is not NULL; there is no x and no wide_x then. */
    gram_rows rows;
    int64_t block;     /* of rows that are read at a time */
    void *narrow_rows; /* a block of the dtype, on the host */
    double *wide_rows; /* the same in f64, where the dtype is f32 */
    struct krr_checkpoint keep;
    struct krr_ranks *ranks; /* that solve the same problem, and share its products; or NULL */
};

/* Checks what a Gaussian process of all rows is asked for: a method by all of them, a ridge. */
gram_status gram_krr_check_process(gram_context *g, gram_krr_method method, double ridge);

/* The arguments of a call, and views of them. */
struct krr_call {
    const gram_tensor *x, *y, *alpha;
    const gram_kernel_options *kernel;
    struct gram_view views[5]; /* x, y, alpha, weights, centres */
    gram_dtype dtype;          /* of the points */
    int64_t unknowns;
};

/* krr_solve.c: checks all arguments; then the call itself, in a process that has all rows. */
gram_status gram_krr_describe(gram_context *g, struct krr_call *c, const gram_krr_options *given,
                              struct krr_problem *p);
gram_status gram_krr_solve_whole(gram_context *g, struct krr_call *c,
                                 const gram_krr_options *options, struct krr_ranks *ranks);
/* krr_solve_ranks.c: the call of options->communicator, of whose rows c has some. */
gram_status gram_krr_solve_ranks(gram_context *g, struct krr_call *c,
                                 const gram_krr_options *options);

/* krr_solve.c: a problem of p->columns right sides that are the caller's to set, as are all its
 * numbers of columns; options as of gram_krr_solve.  It is to be closed whatever the status. */
gram_status gram_krr_open(gram_context *g, const gram_tensor *x, const gram_kernel_options *kernel,
                          const gram_krr_options *options, struct krr_problem *p);
void gram_krr_close(gram_context *g, struct krr_problem *p);
/* An array of rows_columns[0] by rows_columns[1] finite numbers where the context computes, in
 * f64. */
gram_status gram_krr_widen(gram_context *g, const char *name, const int64_t rows_columns[2],
                           gram_dtype dtype, const struct krr_array *from, struct krr_array *out);
/* The same of the elements of a view. */
gram_status gram_krr_widen_view(gram_context *g, const char *name, const struct gram_view *v,
                                struct krr_array *out);
/* p->columns right sides by columns, in f64 where the context computes, become A^-1 of them.  The
 * Cholesky factor of A, n by n, is there (factored) or is made there.  code is not 0 where A is not
 * positive definite. */
gram_status gram_krr_cholesky(gram_context *g, const struct krr_problem *p,
                              const struct krr_array *factor, bool factored,
                              const struct krr_array *right, int32_t *code);
/* Of options.time_limit; INFINITY and false without one. */
double gram_krr_seconds_left(const struct krr_problem *p);
bool gram_krr_out_of_time(const struct krr_problem *p);
/* Why a solve by CG ended that did not reach its tolerance. */
gram_krr_end gram_krr_end_of(const struct krr_cg_report *last);
/* Elements of f64 on the host to those of a view. */
gram_status gram_krr_put(gram_context *g, const struct gram_view *v, const double *from);

/* krr_certificate.c */

/* out = K v in f64, of points in f64: n by columns, where the context computes. */
gram_status gram_krr_multiply_wide(gram_context *g, struct krr_problem *p, int64_t columns,
                                   const void *v, void *out);
/* residual and norm_r of alpha, by a product in f64. */
gram_status gram_krr_residual(gram_context *g, struct krr_problem *p);
/* The same where a solve begins: without a warm start alpha is 0, and y is what is left. */
gram_status gram_krr_first_residual(gram_context *g, struct krr_problem *p);
/* The largest norm_r / target, at most 1 where every column is good enough. */
double gram_krr_excess(const struct krr_problem *p);
/* target of the options. */
void gram_krr_targets(struct krr_problem *p);
/* Where the least ridge is below what rounding makes of the diagonal: the ridge that is not; else
 * 0.  The matrix may be singular to working precision then. */
double gram_krr_singular_ridge(const struct krr_problem *p);
/* What the report says of residual and norm_r: residuals and bounds. */
void gram_krr_bounds(const struct krr_problem *p, gram_krr_report *report);

/* krr_diagonal.c */

/* k(x_i, x_i) of p->wide_x or p->rows, which messages call `name`. */
gram_status gram_krr_load_diagonal(gram_context *g, const char *name, struct krr_problem *p);
/* An expression of norms may be another one way than the other: some rows of x show it. */
gram_status gram_krr_check_expression(gram_context *g, struct krr_problem *p);

/* krr_rows.c */

gram_status gram_krr_rows_check(gram_context *g, const gram_rows *given, gram_rows *out);
gram_status gram_krr_rows_open(gram_context *g, struct krr_problem *p);
void gram_krr_rows_close(gram_context *g, struct krr_problem *p);
/* Some rows of the dtype, one after the other, to the host. */
gram_status gram_krr_rows_read(gram_context *g, struct krr_problem *p, int64_t first, int64_t count,
                               void *out);
/* The rows of p->narrow_rows in f64, which are there until the next ones are. */
const double *gram_krr_rows_widen(const struct krr_problem *p, int64_t count);
/* Reads all rows once, refuses those that are not finite, makes their hash, and tells each block,
 * which is f64 and where the context computes. */
typedef gram_status krr_rows_scan(gram_context *g, struct krr_problem *p, int64_t first,
                                  int64_t count, const double *rows);
gram_status gram_krr_rows_scan(gram_context *g, struct krr_problem *p, krr_rows_scan *take);
/* Draws the centres, and tells the caller their numbers. */
gram_status gram_krr_draw_centres(gram_context *g, struct krr_problem *p);
/* The rows of these numbers, of the dtype, to `out`, which is where the context computes. */
gram_status gram_krr_rows_load(gram_context *g, struct krr_problem *p, const int64_t *row,
                               int64_t count, void *out);

/* out = K_mn W K_nm v of the rows; or K_mn W (y - K_nm v), where norm_u is given. */
struct krr_rows_pass {
    bool wide; /* in f64; else in the dtype */
    int64_t columns;
    const void *v;  /* unknowns by columns, where the context computes */
    double *norm_u; /* becomes |W (y - K_nm v)| of each column */
    double *out;    /* unknowns by columns, on the host */
};
gram_status gram_krr_rows_product(gram_context *g, struct krr_problem *p,
                                  const struct krr_rows_pass *of);

/* krr_rows_cg.c */

/* out = K v as gram_krr_kernel_multiply has it, of points in f64 (wide) or in the dtype. */
gram_status gram_krr_rows_multiply(gram_context *g, struct krr_problem *p, bool wide,
                                   int64_t columns, const void *v, void *out);
/* krr_system.column of a problem. */
gram_status gram_krr_rows_columns(gram_context *g, void *problem, const int64_t *row, int64_t count,
                                  const gram_tensor *out);

/* krr_hash.c */

/* The hash of x: begun, and with the bytes of each row in order. */
uint64_t gram_krr_hash_begin(const struct krr_problem *p);
uint64_t gram_krr_hash(uint64_t hash, const void *data, size_t bytes);
/* A number of a kernel: itself, or the first one of a tensor, which may be anywhere. */
gram_status gram_krr_scalar(gram_context *g, const gram_scalar *s, double *out);
/* The hashes of p->keep, but that of rows that are read. */
gram_status gram_krr_identify(gram_context *g, struct krr_problem *p);
/* Of what a file has. */
uint64_t gram_krr_hash_of_text(const char *key, const char *text);
uint64_t gram_krr_hash_of_array(const struct gram_model_array *a);

/* krr_checkpoint.c */

/* Of options.checkpoint, where there is one, for a problem that is loaded.  With options.resume and
 * a file alpha, best, the number of products and keep are those of the file. */
gram_status gram_krr_checkpoint_open(gram_context *g, struct krr_problem *p);
void gram_krr_checkpoint_close(gram_context *g, struct krr_problem *p);
/* The arrays of a file, whose sum is not looked at, to p->keep; both are left as they were where
 * something in it cannot be. */
gram_status gram_krr_checkpoint_take(gram_context *g, struct krr_problem *p,
                                     struct gram_model_file *file);
/* Pivots that are not those of a file lose their memory. */
void gram_krr_checkpoint_drop_pivots(gram_context *g, struct krr_checkpoint *c);
/* What a solve's iteration is given: `rows` norms, and its residual. */
struct krr_cg_keeper gram_krr_checkpoint_keeper(struct krr_problem *p, bool resumed);
/* Writes the file without a state.  What goes wrong is noted, not returned. */
void gram_krr_checkpoint_write(gram_context *g, struct krr_problem *p, enum krr_stage stage);
/* The status of the call, with what is to be said of the file. */
gram_status gram_krr_checkpoint_verdict(gram_context *g, struct krr_problem *p, gram_status status);

/* krr_solve_cg.c: from alpha, with its residual, to the best alpha and its residual.  last is the
 * report of the iteration that ended it. */
/* What a preconditioner of a problem is made of, with the rank that is to be set. */
struct krr_system gram_krr_system_of(const gram_context *g, const struct krr_problem *p,
                                     struct krr_pivots *pivots);
gram_status gram_krr_rounds(gram_context *g, struct krr_problem *p, struct krr_cg_report *last,
                            int64_t *rank);

/* krr_blocks.c: from alpha to the best alpha, of which residual is then the true one. */
gram_status gram_krr_blocks(gram_context *g, struct krr_problem *p, struct krr_cg_report *last);

/* krr_rank.c */

/* Whether columns may be appended, and up to which rank. */
gram_status gram_krr_growth_open(gram_context *g, struct krr_problem *p);
/* What krr_cg_adviser is told. */
void gram_krr_growth_begin(struct krr_growth *w, int64_t column);
void gram_krr_growth_told(struct krr_growth *w, int64_t column, double rz, double curvature);
/* The rank that is worth its cost after the iterations that were told, or 0. */
int64_t gram_krr_growth_rank(const gram_context *g, const struct krr_problem *p,
                             const struct krr_preconditioner *c, int64_t at_work, double excess);

/* krr_centres.c: alpha and what the report says of it.  minor is not 0 where the kernel matrix of
 * the centres is not positive definite, and then there is no alpha. */
gram_status gram_krr_centres(gram_context *g, struct krr_problem *p, gram_krr_report *report,
                             struct krr_cg_report *last, int32_t *minor);
#endif
