/*
 * solve_options_params.h - what the host tells the kernels of solves with rcond, jitter and refine
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.  Matrices in scratch are column-major, n apart, one item after the other.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_OPTIONS_PARAMS_H
#define GRAM_SOLVE_OPTIONS_PARAMS_H
#include "solve_params.h"

#define SOLVE_TILE          64 /* rows and columns of a tile; columns of a panel of LU */
#define SOLVE_TILE_DEPTH    32
#define SOLVE_PANEL_THREADS 512
#define SOLVE_STRIP         16 /* most columns of a panel that are in shared memory at a time */
#define SOLVE_MULTIPLY_ROWS 32 /* of a block of solve_multiply */

/* Rows that a block of solve_sweep takes for elements of size bytes. */
#define SOLVE_SWEEP_ROWS(size) (256 / (size) < 64 ? 32 : 64)

/* Shared memory of a block of solve_lu_panel beside a strip's, for elements of size bytes. */
#define SOLVE_PANEL_SHARED(size) ((SOLVE_TILE + SOLVE_STRIP + 4) * SOLVE_TILE * (size) + 2048)

/* Words of an item and group of columns that places of solve_sweep pass on what they solved in. */
#define SOLVE_SWEEP_WORDS (3 * 64 * SOLVE_WIDTH)

/* Ints that solve_tiles and solve_sweep need in params.control beside those of progress: zero at
 * first, and zero again when a launch has ended, but for solve_sweep's count of launches. */
#define SOLVE_CONTROL 4

#define SOLVE_NONE     0x7FFFFFFF /* bad: nothing is */
#define SOLVE_GMRES    20         /* vectors of one cycle */
#define SOLVE_CYCLES   3
#define SOLVE_PLAIN    10    /* steps before them */
#define SOLVE_PERMUTED 10240 /* most order of a permutation that fits shared memory */

/* solve_decide: what is decided */
#define SOLVE_BEGIN    0 /* nothing is known of an item */
#define SOLVE_TRY      1 /* items without a factor are to be factored, in f32 if low, with jitter */
#define SOLVE_VERDICTS 2 /* what became of that */
#define SOLVE_SETTLED  3 /* no more is tried */
#define SOLVE_CHOOSE   4 /* go = items with a sound factor: in f32 if low, else the others */
#define SOLVE_RESCUE   5 /* items with columns that need f64 get a factor in f64 */
#define SOLVE_RESCUED  6 /* what became of that */
#define SOLVE_COUNT    7 /* go = columns in the given mode */

/* solve_estimate: what was done before */
#define SOLVE_ESTIMATE_BEGIN      0
#define SOLVE_ESTIMATE_FIRST      1 /* A^-1 for two columns */
#define SOLVE_ESTIMATE_TRANSPOSED 2
#define SOLVE_ESTIMATE_SOLVED     3
#define SOLVE_ESTIMATED           4
#define SOLVE_ESTIMATE_TURNS      4 /* times that A^-T and A^-1 follow */

/* solve_refine, solve_gmres */
#define SOLVE_REFINE_BEGIN  0
#define SOLVE_REFINE_UPDATE 1
#define SOLVE_REFINE_JUDGE  2
#define SOLVE_REFINE_CYCLE  3 /* the judgement after a cycle of GMRES */
#define SOLVE_REFINE_COPY   4 /* r = b for columns that need f64 */
#define SOLVE_REFINE_TAKE   5 /* x = r for these */
#define SOLVE_REFINE_LAST   6 /* their error */
#define SOLVE_REFINE_SUM    7 /* an item's numbers are raised by those of its columns */
#define SOLVE_GMRES_BEGIN   0
#define SOLVE_GMRES_SPREAD  1 /* z = what the factor made of v */
#define SOLVE_GMRES_STEP    2 /* A z is made orthogonal */
#define SOLVE_GMRES_END     3

/* Modes of a column that is refined. */
#define SOLVE_STEPPING 0 /* plain steps */
#define SOLVE_KRYLOV   1 /* GMRES */
#define SOLVE_REFINED  2
#define SOLVE_WIDE     3 /* needs a factor in f64 */
#define SOLVE_HOPELESS 4 /* its item has no factor */
#define SOLVE_SOLVED   5 /* by the factor in f64 */

/* What is known of an item. */
struct solve_state {
    unsigned long long norm[2]; /* largest sums of magnitudes of a column, of a row: bits */
    double jitter;              /* that was added */
    double rcond;
    double backward; /* of the item of the batch that is being solved */
    int steps;
    int bad;  /* of the last factorisation: the first bad diagonal element, from 1 on */
    int open; /* without a factor as yet */
    int low;  /* the factor is in f32, of 2^-exponent A */
    int exponent;
    int place, turns; /* of the estimate: the unit vector, how many there were */
    double estimate, other;
};

/* What is known of a column that is refined, and the least squares of its GMRES. */
struct solve_column {
    double error, before, scale, beta;
    int mode, steps, k, running;
    double r[SOLVE_GMRES][SOLVE_GMRES + 1], c[SOLVE_GMRES], s[SOLVE_GMRES], g[SOLVE_GMRES + 1];
};

struct solve_options_params {
    struct solve_items items;
    struct device_view a, b, x, factor, pivots, info, rcond, jittered, backward, refinings;
    struct solve_state *state;
    struct solve_column *column; /* width an item */
    long long begin, count;      /* items of own */
    long long n, shared;         /* the item of shared */
    long long first, width;      /* columns: of the caller's, that are worked on */
    long long lu, flip, upper, dtype, refine, mirror;
    long long what, low, rung, mode, last;
    long long parts; /* blocks of an item */
    double jitter;   /* that is tried */
    char *matrix;    /* A */
    char *lifted;    /* its factor: an item every n * n elements of a's dtype */
    char *block;     /* right-hand sides, width columns an item */
    char *solution;  /* refine: x, residuals, corrections in f32 (n * width an item) */
    char *residual;
    float *correction;
    double *basis;                /* refine: 2 SOLVE_GMRES + 1 vectors per column */
    char *probe;                  /* the estimate's two columns an item */
    char *signs;                  /* and those of the last, one byte an element */
    int *go;                      /* an item is worked on */
    int *exchanges, *permutation; /* LU: n an item, from 1 on; from 0 on */
    const long long *outside;     /* exchanges of cuSOLVER's, or NULL */
    const int *code;              /* and its info */
};

/* Triangular systems, in place. */
struct solve_sweep_params {
    const char *factor;
    char *x;
    const int *go;                   /* an item with 0 is left out */
    int *control;                    /* then one per item and group of SOLVE_WIDTH columns */
    unsigned long long *words;       /* zero at first: SOLVE_SWEEP_WORDS of each of these */
    long long factor_bytes, x_bytes; /* from item to item */
    long long n, ld, columns, ldx, items;
    long long forward, transposed, unit; /* transposed: what is stored is */
};

/* Rows exchanged by a permutation: x[i] = x[p[i]], or x[p[i]] = x[i] if back. */
struct solve_permute_params {
    char *x, *other; /* other: as large */
    const int *permutation, *go;
    long long x_bytes; /* from item to item */
    long long n, columns, ldx, items, back;
};

/* The Cholesky factor of lower triangles, in place. */
struct solve_tiles_params {
    char *matrix;
    const int *go;
    struct solve_state *state;
    int *control; /* then one per item and row of tiles */
    long long item_bytes, n, ld, items;
};

/* A step of LU, in place: columns first to first + SOLVE_TILE. */
struct solve_lu_params {
    char *matrix;
    const int *go;
    struct solve_state *state;
    int *exchanges;
    long long item_bytes, n, ld, items, first;
    long long room; /* bytes of dynamic shared memory of solve_lu_panel */
};

/* y = b - A x, or A x where b is NULL; columns of double, go as above. */
struct solve_multiply_params {
    const double *matrix, *x, *b;
    double *y;
    const struct solve_column *column; /* only of those that GMRES works on; NULL: of all */
    const int *go;
    long long n, columns, items;
    long long x_apart, y_apart; /* from column to column */
};
#endif
