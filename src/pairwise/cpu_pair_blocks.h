/*
 * cpu_pair_blocks.h - all blocks of a pairwise matrix, in turn, for operations that reduce its rows
 *
 * The rows of each item are cut into strips, and the columns of a strip into parts, where there are
 * few strips.  A task is one part of one strip.  It goes through the part block by block, from the
 * left to the right: the block's values are computed as cpu_cdist does it, and the operation's
 * function takes them while they are in the cache.  Tasks share nothing, so that no thread waits
 * for another one.  How rows and columns are cut depends on sizes alone.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_PAIR_BLOCKS_H
#define GRAM_CPU_PAIR_BLOCKS_H
#include "cpu_cdist.h"

/* What a task goes through: rows [i, i + rows) and columns [j, end) of an item. */
struct pair_strip {
    int64_t item, i, rows, part, j, end;
    int64_t task; /* the number of the task: item after item, strip after strip, part after part */
    int thread;
};

/* Columns [j, j + cols) of a strip: value (r, c) is at values[r*ld + c].  Rows begin at
 * multiples of 64 bytes. */
struct pair_block {
    int64_t j, cols, ld;
    void *values;
};

struct pair_walk {
    gram_context *g;
    struct gram_cdist_op op; /* the values; its out is not set */
    /* The operation: called for each task before its first block, for each block, and behind the
     * last one. */
    void (*begin)(void *of, const struct pair_strip *strip);
    void (*take)(void *of, const struct pair_strip *strip, const struct pair_block *block);
    void (*end)(void *of, const struct pair_strip *strip);
    void *of;
    void (*progress)(void *user, double fraction); /* or NULL */
    void *progress_user;
    const char *name; /* for traces */
    /* Chosen by cpu_pair_walk_plan. */
    int64_t strip_rows, strips, parts, part_cols, tasks; /* strips: of an item */
    int64_t block_cols, ld, element;
    gram_dtype dtype; /* of the values */
    size_t values_bytes, inner_bytes;
    char *values, *inner; /* scratch of all threads: blocks, and what cpu_cdist takes */
    atomic_llong done;    /* tasks */
    atomic_bool stopped;  /* a task saw that the call was cancelled */
};

/* Chooses how the matrix is cut, where a row of the operation has row_bytes of state. */
void cpu_pair_walk_plan(struct pair_walk *walk, size_t row_bytes);

/* Takes the scratch of the walk; the walk must stay where it is until the layout is open. */
void cpu_pair_walk_take(struct pair_walk *walk, struct gram_layout *layout);

/* All tasks, on the context's threads. */
gram_status cpu_pair_walk_run(struct pair_walk *walk);
#endif
