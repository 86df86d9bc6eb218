/*
 * square_params.h - what the host tells cdist_pack.cu and cdist_mma.cu: panels of 16-bit numbers
 *
 * Both sides of a product are cut into panels of whole tiles of rows.  A panel is a sequence of
 * chunks of BK columns; a chunk holds a plane of leading digits and, of numbers that need it, one
 * of trailing digits; a plane is [BK / 8][rows of the panel][8] numbers of 16 bits: eight
 * neighbouring columns of a row are 16 bytes, and eight neighbouring rows of them lie side by side,
 * as the tensor cores read them.  A chunk is one contiguous piece.
 *
 * Read by the host's compiler and by NVRTC.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SQUARE_PARAMS_H
#define GRAM_SQUARE_PARAMS_H
#include "pair_params.h"

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

struct square_params {
    struct square_panels side[2]; /* of x and y; alike where y is x */
    struct square_list *list;     /* tiles that are left to cdist.cu */
    float *centre;                /* of the items of the round, depth numbers each */
    long long sides;              /* to pack: 1 where y is x */
    long long chunks;             /* of BK columns */
    long long first;              /* item of the batch that the round begins with */
    struct pair_params pair;      /* items: of the round */
};
#endif
