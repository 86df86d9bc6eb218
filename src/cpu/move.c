/*
 * move.c - the strided move of the CPU: move_loops.h for each pair of types
 *
 * Rows are the inner loop.  Where both sides have a unit stride down their columns, a column is one
 * run; else the move goes through tiles of 32 rows, so that neither side leaves the cache where the
 * other one goes along its rows.  What is contiguous along rows is turned first, rows for columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "move.h"
#include "core/threads.h"
#include "half.h"
#include <math.h>

enum {
    TILE = 32,         /* rows: two tiles of 32 by 32 doubles fit the first-level cache */
    PIECE_COLUMNS = 32 /* that a thread takes at a time: a column of tiles */
};

/* Elements of any type that has so many bytes. */
typedef uint16_t __attribute__((may_alias)) word16;
typedef uint32_t __attribute__((may_alias)) word32;
typedef uint64_t __attribute__((may_alias)) word64;

typedef void move_columns(const struct cpu_move *m, int64_t first, int64_t last);

struct span {
    int64_t first, end;
};

/* Those of some rows that are moved of column j. */
static inline struct span rows_of_column(const struct cpu_move *m, int64_t j, struct span rows)
{
    if (m->part == CPU_MOVE_LOWER)
        rows.first = gram_most(rows.first, j - m->diagonal);
    else if (m->part == CPU_MOVE_UPPER)
        rows.end = gram_least(rows.end, j - m->diagonal + 1);
    return rows;
}

/* ---- Of one dtype ---------------------------------------------------------------------------- */

#define NAME        copy_16
#define to_type     word16
#define from_type   word16
#define VALUE(t, f) (f)
#include "move_loops.h"

#define NAME        copy_32
#define to_type     word32
#define from_type   word32
#define VALUE(t, f) (f)
#include "move_loops.h"

#define NAME        copy_64
#define to_type     word64
#define from_type   word64
#define VALUE(t, f) (f)
#include "move_loops.h"

#define NAME        add_f32
#define to_type     float
#define from_type   float
#define VALUE(t, f) ((t) + (f))
#include "move_loops.h"

#define NAME        add_f64
#define to_type     double
#define from_type   double
#define VALUE(t, f) ((t) + (f))
#include "move_loops.h"

static move_columns *const copiers[] = {
    [GRAM_F32] = copy_32,  [GRAM_F64] = copy_64, [GRAM_F16] = copy_16,
    [GRAM_BF16] = copy_16, [GRAM_I32] = copy_32, [GRAM_I64] = copy_64,
};

static inline move_columns *mover(gram_dtype dtype, bool add)
{
    if (add)
        return dtype == GRAM_F32 ? add_f32 : add_f64;
    return copiers[dtype];
}

/* ---- From one dtype to another --------------------------------------------------------------- */

#define NAME        f32_to_f64
#define to_type     double
#define from_type   float
#define VALUE(t, f) ((double)(f))
#include "move_loops.h"

#define NAME        f64_to_f32
#define to_type     float
#define from_type   double
#define VALUE(t, f) ((float)(f))
#include "move_loops.h"

#define NAME        f16_to_f32
#define to_type     float
#define from_type   uint16_t
#define VALUE(t, f) from_f16(f)
#include "move_loops.h"

#define NAME        f16_to_f64
#define to_type     double
#define from_type   uint16_t
#define VALUE(t, f) ((double)from_f16(f))
#include "move_loops.h"

#define NAME        bf16_to_f32
#define to_type     float
#define from_type   uint16_t
#define VALUE(t, f) from_bf16(f)
#include "move_loops.h"

#define NAME        bf16_to_f64
#define to_type     double
#define from_type   uint16_t
#define VALUE(t, f) ((double)from_bf16(f))
#include "move_loops.h"

#define NAME        f32_to_f16
#define to_type     uint16_t
#define from_type   float
#define VALUE(t, f) to_f16(f)
#include "move_loops.h"

#define NAME        f64_to_f16
#define to_type     uint16_t
#define from_type   double
#define VALUE(t, f) to_f16((float)(f))
#include "move_loops.h"

#define NAME        f32_to_bf16
#define to_type     uint16_t
#define from_type   float
#define VALUE(t, f) to_bf16(f)
#include "move_loops.h"

#define NAME        f64_to_bf16
#define to_type     uint16_t
#define from_type   double
#define VALUE(t, f) to_bf16((float)(f))
#include "move_loops.h"

/* By the dtypes of from and of to; NULL: they are the same, or two different ones of 16 bits. */
static move_columns *const converters[GRAM_BF16 + 1][GRAM_BF16 + 1] = {
    [GRAM_F32] = { [GRAM_F64] = f32_to_f64,  [GRAM_F16] = f32_to_f16, [GRAM_BF16] = f32_to_bf16},
    [GRAM_F64] = { [GRAM_F32] = f64_to_f32,  [GRAM_F16] = f64_to_f16, [GRAM_BF16] = f64_to_bf16},
    [GRAM_F16] = { [GRAM_F32] = f16_to_f32,  [GRAM_F64] = f16_to_f64                          },
    [GRAM_BF16] = {[GRAM_F32] = bf16_to_f32, [GRAM_F64] = bf16_to_f64                          },
};

/* ---- The move -------------------------------------------------------------------------------- */

/* The same move with the rows of both sides called columns. */
static struct cpu_move turned(const struct cpu_move *m)
{
    struct cpu_move t = *m;

    t.rows = m->cols, t.cols = m->rows;
    for (int i = 0; i < 2; i++) {
        t.to_stride[i] = m->to_stride[1 - i];
        t.from_stride[i] = m->from_stride[1 - i];
    }
    t.part = m->part == CPU_MOVE_LOWER   ? CPU_MOVE_UPPER
             : m->part == CPU_MOVE_UPPER ? CPU_MOVE_LOWER
                                         : CPU_MOVE_ALL;
    t.diagonal = -m->diagonal;
    return t;
}

/* The same move with the longest runs as columns: m, or its turned form, which `other` receives. */
static const struct cpu_move *by_runs(const struct cpu_move *m, struct cpu_move *other)
{
    bool columns, rows;

    if (m->order || m->cols == 1)
        return m;
    columns = m->rows > 1 && m->to_stride[0] == 1 && m->from_stride[0] == 1;
    rows = m->to_stride[1] == 1 && m->from_stride[1] == 1;
    if (!(rows != columns ? rows : m->rows < TILE && m->rows < m->cols))
        return m;
    *other = turned(m);
    return other;
}

void cpu_move(gram_dtype dtype, const struct cpu_move *m)
{
    struct cpu_move other;
    const struct cpu_move *move = by_runs(m, &other);

    mover(dtype, m->add)(move, 0, move->cols);
}

void cpu_convert(gram_dtype to, gram_dtype from, const struct cpu_move *m)
{
    struct cpu_move other;
    const struct cpu_move *move = by_runs(m, &other);
    move_columns *run = to == from ? mover(to, false) : converters[from][to];

    run(move, 0, move->cols);
}

struct pieces {
    const struct cpu_move *move;
    move_columns *run;
};

static void move_piece(void *arg, int64_t index, int thread)
{
    const struct pieces *p = arg;
    int64_t first = index * PIECE_COLUMNS;

    (void)thread;
    p->run(p->move, first, gram_least(first + PIECE_COLUMNS, p->move->cols));
}

void cpu_move_parallel(gram_context *g, gram_dtype dtype, const struct cpu_move *m)
{
    struct cpu_move other;
    struct pieces p = {.move = by_runs(m, &other), .run = mover(dtype, m->add)};

    gram_for(g, (double)m->rows * (double)m->cols, gram_ceil_div(p.move->cols, PIECE_COLUMNS),
             move_piece, &p);
}

void cpu_mirror(gram_dtype dtype, int64_t n, void *matrix)
{
    const struct cpu_move m = {
        .to = matrix,
        .from = matrix,
        .to_stride = {n, 1},
        .from_stride = {1, n},
        .rows = n,
        .cols = n,
        .part = CPU_MOVE_LOWER,
        .diagonal = -1,
    };

    cpu_move(dtype, &m);
}

/* ---- NaN ------------------------------------------------------------------------------------- */

void cpu_fill_nan(const struct gram_view *v, void *item)
{
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j < v->cols; j++) {
            int64_t at = i * v->row_stride + j * v->col_stride;
            if (v->dtype == GRAM_F32)
                ((float *)item)[at] = NAN;
            else
                ((double *)item)[at] = NAN;
        }
}
