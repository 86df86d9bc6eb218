/*
 * pair_params.h - what the host tells the kernels of cdist: shapes, strides, hyperparameters
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes only ours,
 * and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIR_PARAMS_H
#define GRAM_PAIR_PARAMS_H
#include "device_params.h"

/* ---- cdist.cu ------------------------------------------------------------------------------- */

/* -DSTEP: the term of the inner sum; d is the difference of two coordinates. */
#define PAIR_ZERO         0  /* 1 where they differ */
#define PAIR_HALF         1  /* |d|^(1/2) */
#define PAIR_ONE          2  /* |d| */
#define PAIR_THREE_HALVES 3  /* |d|^(3/2) */
#define PAIR_TWO          4  /* d^2 */
#define PAIR_POWER        5  /* |d|^WHOLE, times |d|^fraction with -DFRACTION=1 */
#define PAIR_INFINITY     6  /* |d|, and the largest is taken instead of the sum */
#define PAIR_DOT          7  /* the product of the coordinates */
#define PAIR_ANY          8  /* |d|^p, any p, known only on the device */
#define PAIR_MOST_WHOLE   15 /* of PAIR_POWER */
/* Terms of metrics: see metric_terms.cuh. */
#define PAIR_CANBERRA         9
#define PAIR_CHI2             10
#define PAIR_DIFFERS          11
#define PAIR_KULLBACK_LEIBLER 12
#define PAIR_JENSEN_SHANNON   13
#define PAIR_BRAYCURTIS       14
#define PAIR_PRESENT          15
#define PAIR_HAVERSINE        16

/* -DFINISH: what becomes of a metric's sums s and t. */
#define PAIR_AS_IT_IS      0
#define PAIR_DIVIDE        1 /* s / divisor, at most `most` */
#define PAIR_DIVIDE_ROOT   2 /* sqrt(s / divisor) */
#define PAIR_RATIO         3 /* s / t */
#define PAIR_UNION         4 /* 2 s / (s + t), 0 where s = 0 */
#define PAIR_PRESENT_SHARE 5 /* s divisor / t */
#define PAIR_PRESENT_ROOT  6 /* its square root */
#define PAIR_ANGLE         7 /* 2 asin(sqrt(s)) */

/* How a hyperparameter's power e of x is taken; PAIR_RUN_TIME as -DBASE: known on the device. */
#define PAIR_RUN_TIME -1
#define PAIR_SAME     0 /* x */
#define PAIR_UNIT     1 /* 1 */
#define PAIR_SQRT     2
#define PAIR_POW      3

/* -DFUNCTION, -DOUTPUT: gram_function and gram_kernel_output. */
#define PAIR_IDENTITY             0
#define PAIR_LAPLACE              1
#define PAIR_GAUSSIAN             2
#define PAIR_EXPONENTIAL_POWER    3
#define PAIR_MATERN32             4
#define PAIR_MATERN52             5
#define PAIR_RATIONAL_QUADRATIC   6
#define PAIR_POLYNOMIAL           7
#define PAIR_SIGMOID              8
#define PAIR_COSINE               9
#define PAIR_EXPRESSION           10
#define PAIR_VALUE                0
#define PAIR_WEIGHT               1
#define PAIR_BANDWIDTH_DERIVATIVE 2

#define PAIR_PARAMETERS 8  /* of an expression */
#define PAIR_CONSTANTS  16 /* that depend on them and on nothing else */

enum pair_hyper_name {
    PAIR_P,
    PAIR_OUTER, /* NaN: 1 / p, and none for p = 0 and infinity */
    PAIR_BANDWIDTH,
    PAIR_EXPONENT,
    PAIR_ALPHA,
    PAIR_GAMMA,
    PAIR_COEF0,
    PAIR_DEGREE,
    PAIR_REGULARIZATION,
    PAIR_HYPERS
};

/* A hyperparameter and its range. */
struct pair_hyper {
    struct device_number number;
    double least, most; /* a value outside of these gives the item NaN */
    long long open;     /* least itself is outside too */
};

/* x^e */
struct pair_raise {
    long long kind;
    double e;
};

/* What the hyperparameters of an item come to: see pair_map_params.h. */
struct pair_map {
    double p, fraction; /* of the inner sum */
    double scale, shift, factor, c[4];
    double regularization;
    struct pair_raise base, raise, slope;
    long long sloped, valid;
    double constant[PAIR_CONSTANTS]; /* of PAIR_EXPRESSION */
};

/* For |d|^g, 1 < g < 2: see pair_terms.cuh. */
#define PAIR_POWER_MIDDLE 4.125
#define PAIR_POWER_TERMS  10
struct pair_power {
    double mantissa[8], shrink[10], grow[10], f32_most;
    double f64[PAIR_POWER_TERMS]; /* of powers of P - PAIR_POWER_MIDDLE */
    float f32[4];                 /* of powers of P */
};

/* Of -DMETRIC=1. */
struct pair_metric {
    const void *weights;     /* of an item after the other: one per column, and behind them their
                                sum; NULL: all are 1 */
    long long weight_stride; /* from an item to the next one */
    double divisor, most;    /* divisor 0: the sum of the weights */
};

struct pair_params {
    struct device_view x, y, out;
    long long rows, cols, depth; /* of an item: rows of x, rows of y, columns of both */
    long long items, batch_ndim, batch_shape[DEVICE_DIMS];
    long long tile_rows, tile_cols; /* of an item of out */
    long long symmetric;
    long long diagonal;      /* column_offset - row_offset: r is added where i - j is this */
    struct pair_power power; /* with -DFRACTION=1 and -DWHOLE=1 or more */
    struct pair_map map;     /* without -DHYPERS=1 */
    /* Last: a kernel without them takes fewer bytes. */
#if !defined(HYPERS) || (defined(METRIC) && METRIC) || \
    (HYPERS && defined(FUNCTION) && FUNCTION == PAIR_EXPRESSION)
    struct pair_hyper hyper[PAIR_HYPERS + PAIR_PARAMETERS];
#elif HYPERS
    struct pair_hyper hyper[PAIR_HYPERS];
#endif
#if !defined(HYPERS) || (defined(METRIC) && METRIC)
    struct pair_metric metric;
#endif
};

/* ---- cdist_panels.cu: x and y in the order in which cdist.cu reads them --------------------- */

#define PANEL_ROWS 128
#define PANEL_COLS 32 /* that panels are filled up to with zeros */

struct panel_params {
    struct device_view side[2]; /* x and y, of one item */
    long long rows[2];
    char *panels[2];
    long long tiles[2]; /* of PANEL_ROWS rows */
    long long depth, chunks;
};

/* ---- cdist_reduce.cu: where pieces of sums lie, and where out is ---------------------------- */

struct reduce_params {
    const void *sums; /* pieces of elements, item after item, row after row */
    char *out;
    long long pieces, elements; /* elements of a piece: of all items */
    long long rows, cols, row_stride, col_stride;
    long long diagonal; /* r is added where i - j is this */
    long long batch_ndim, batch_shape[DEVICE_DIMS], batch_stride[DEVICE_DIMS];
    struct pair_map map;
};

/* ---- cdist_pack.cu and cdist_mma.cu: panels of 16-bit numbers ------------------------------- */

/*
 * Both sides of a product are cut into panels of whole tiles of rows.  A panel is a sequence of
 * chunks of BK columns; a chunk holds a plane of leading digits and, of numbers that need it, one
 * of trailing digits; a plane is [BK / 8][rows of the panel][8] numbers of 16 bits: eight
 * neighbouring columns of a row are 16 bytes, and eight neighbouring rows of them lie side by side,
 * as the tensor cores read them.  A chunk is one contiguous piece.
 */
#define SQUARE_ROWS    128 /* of a panel, rows and columns of a tile */
#define SQUARE_SPOILED 512 /* elements that a tile sums again itself; see cdist_mma.cu */
#define SQUARE_SAMPLE  64  /* rows that the centre is the mean of: any centre is right */

/* Rows and columns of the tiles of a list. */
#define SQUARE_LEFT_ROWS(is_double) ((is_double) ? 64 : SQUARE_ROWS)

/* A row's share of the end of a sum: see scale_of in cdist_pack.cu. */
struct square_row {
    float limit, factor;
};

struct square_panels {
    char *data; /* of the first item of the round */
    struct square_row *rows;
    long long item_bytes, item_rows; /* rows: whole panels */
};

/* A tile of out for cdist.cu. */
struct square_tile {
    long long item;
    int row, col; /* in tiles */
};

struct square_list {
    unsigned long long count;
    struct square_tile tile[1]; /* as many as there are */
};

/* With -DFILTER: elements are not stored; those that may be at most the bound of their row are
 * listed by their columns. */
struct square_filter {
    float *bound;       /* of each row */
    int *count;         /* of the elements of each row, also of those beyond capacity */
    int *place;         /* their columns, `capacity` for each row, in no order */
    long long capacity; /* at least 1 */
    float margin;       /* the error of an element is at most this times |e_x|^2 + |e_y|^2 */
};

struct square_params {
    struct square_panels side[2]; /* of x and y; alike where y is x */
    struct square_list *list;     /* tiles that are left to cdist.cu */
    float *centre;                /* of the items of the round, depth numbers each */
    long long sides;              /* to pack: 1 where y is x */
    long long chunks;             /* of BK columns */
    long long first;              /* item of the batch that the round begins with */
    struct square_filter filter;
    struct pair_params pair; /* items: of the round */
};
#endif
