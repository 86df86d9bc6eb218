/*
 * kron_matmul_tile.h - template: passes of one dtype with vectors of one width
 *
 * Parameters, all undefined again at the end:
 *   DTYPE   f32, f64, i32 or i64: names the functions      real   the type of an element
 *   WIDTH   full or few: names the functions                BYTES  of a vector
 * From the caller: KRON_ROWS, the most rows of a register tile (see kernels.h).
 *
 * The register tile of both passes is rows by vectors:
 *   c[i][v] = sum_p a[p][i] b[p][v],  a a number, b and c vectors.
 * In columns a is the factor and b is x; in slices a is x and b the factor.  The sums stay in
 * registers: 12 * 2 + 2 + 1 on AVX-512, 6 * 2 + 2 + 1 on AVX2.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES    ((int)(BYTES / sizeof(real)))
#define NAME(n)  CAT(CAT(CAT(n, DTYPE), WIDTH), ISA)
#define VECTOR   NAME(kron_vector)
#define OPERANDS NAME(kron_operands)

typedef real VECTOR __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));

/* Where a tile's numbers are: strides of rows, of p, and from one vector to the next. */
struct OPERANDS {
    int64_t depth;
    const real *a, *b;
    real *c;
    int64_t a_row, a_step, b_step, b_next, c_row, c_next;
};

static inline __attribute__((always_inline)) void NAME(kron_tile)(const int rows, const int vectors,
                                                                  const struct OPERANDS *o)
{
    const real *a = o->a, *b = o->b;
    VECTOR acc[KRON_ROWS][2] = {0};

    for (int64_t p = 0; p < o->depth; p++, a += o->a_step, b += o->b_step) {
        VECTOR y[2];
        UNROLL_FOR (v, vectors)
            y[v] = *(const VECTOR *)(b + v * o->b_next);
        UNROLL_FOR (i, rows)
            UNROLL_FOR (v, vectors)
                acc[i][v] += a[i * o->a_row] * y[v];
    }
    UNROLL_FOR (v, vectors)
        UNROLL_FOR (i, rows)
            *(VECTOR *)(o->c + i * o->c_row + v * o->c_next) = acc[i][v];
}

/* A tile of any number of rows that the registers hold. */
static inline __attribute__((always_inline)) void NAME(kron_rows)(int64_t rows, const int vectors,
                                                                  const struct OPERANDS *o)
{
    switch (rows) {
    case 1:
        NAME(kron_tile)(1, vectors, o);
        break;
    case 2:
        NAME(kron_tile)(2, vectors, o);
        break;
    case 3:
        NAME(kron_tile)(3, vectors, o);
        break;
#if KRON_ROWS > 4
    case 4:
        NAME(kron_tile)(4, vectors, o);
        break;
    case 5:
        NAME(kron_tile)(5, vectors, o);
        break;
#endif
#if KRON_ROWS > 6
    case 6:
        NAME(kron_tile)(6, vectors, o);
        break;
    case 7:
        NAME(kron_tile)(7, vectors, o);
        break;
    case 8:
        NAME(kron_tile)(8, vectors, o);
        break;
    case 9:
        NAME(kron_tile)(9, vectors, o);
        break;
    case 10:
        NAME(kron_tile)(10, vectors, o);
        break;
    case 11:
        NAME(kron_tile)(11, vectors, o);
        break;
#endif
    default:
        NAME(kron_tile)(KRON_ROWS, vectors, o);
    }
}

/* All outputs of a few columns, which begin at x and y: one panel of the factor after the other. */
static inline __attribute__((always_inline)) void
NAME(kron_panels)(const struct gram_kron_pass *pass, const int vectors, int64_t x, int64_t y,
                  const int64_t next[2])
{
    int64_t panels = (pass->outs + KRON_ROWS - 1) / KRON_ROWS;
    int64_t least = pass->outs / panels, more = pass->outs % panels;
    struct OPERANDS o = {.depth = pass->depth,
                         .a = pass->factor,
                         .a_row = 1,
                         .b = (const real *)pass->x + x,
                         .b_step = pass->x_step,
                         .b_next = next[0],
                         .c = (real *)pass->y + y,
                         .c_row = pass->y_step,
                         .c_next = next[1]};

    for (int64_t i = 0; i < panels; i++) {
        o.a_step = least + (i < more);
        NAME(kron_rows)(o.a_step, vectors, &o);
        o.a += pass->depth * o.a_step;
        o.c += pass->y_step * o.a_step;
    }
}

/* Blocks of LANES columns or less: two blocks at a time, unless what is written beyond the last
 * row of one would come after the first row of the next. */
static void NAME(kron_narrow)(const struct gram_kron_pass *pass)
{
    const int64_t next[2] = {pass->x_block, pass->y_block};
    bool pairs = pass->cols == LANES || pass->outs <= KRON_ROWS;
    int64_t b = 0;

    for (; pairs && b + 2 <= pass->blocks; b += 2)
        NAME(kron_panels)(pass, 2, b * pass->x_block, b * pass->y_block, next);
    for (; b < pass->blocks; b++)
        NAME(kron_panels)(pass, 1, b * pass->x_block, b * pass->y_block, next);
}

/* More columns than LANES: the last vectors overlap those before them. */
static void NAME(kron_wide)(const struct gram_kron_pass *pass)
{
    static const int64_t next[2] = {LANES, LANES};

    for (int64_t b = 0; b < pass->blocks; b++) {
        int64_t x = b * pass->x_block, y = b * pass->y_block;
        int64_t c = 0, last_pair = pass->cols - 2 * LANES;
        for (; c + LANES < pass->cols && last_pair >= 0; c += 2 * LANES) {
            int64_t at = c < last_pair ? c : last_pair;
            NAME(kron_panels)(pass, 2, x + at, y + at, next);
        }
        for (; c < pass->cols; c += LANES) {
            int64_t at = c < pass->cols - LANES ? c : pass->cols - LANES;
            NAME(kron_panels)(pass, 1, x + at, y + at, next);
        }
    }
}

/* Outputs of one slice in vectors. */
static void NAME(kron_slices)(const struct gram_kron_pass *pass)
{
    int64_t vectors = (pass->outs + LANES - 1) / LANES, rows;
    struct OPERANDS o = {.depth = pass->depth,
                         .a_row = pass->x_block,
                         .a_step = pass->x_step,
                         .b_next = LANES,
                         .c_row = pass->y_block};

    for (int64_t s = 0; s < pass->blocks; s += rows) {
        rows = pass->blocks - s < KRON_ROWS ? pass->blocks - s : KRON_ROWS;
        o.a = (const real *)pass->x + s * pass->x_block;
        o.b = pass->factor;
        for (int64_t v = 0; v < vectors; v += 2, o.b += 2 * LANES * pass->depth) {
            int64_t first = gram_kron_slice_first(v, LANES, pass->outs);
            int64_t next = gram_kron_slice_first(v + 1, LANES, pass->outs);
            o.c = (real *)pass->y + s * pass->y_block + first;
            o.c_next = next - first;
            if (v + 1 < vectors) {
                o.b_step = 2 * LANES;
                NAME(kron_rows)(rows, 2, &o);
            } else {
                o.b_step = LANES;
                NAME(kron_rows)(rows, 1, &o);
            }
        }
    }
}

#undef LANES
#undef NAME
#undef VECTOR
#undef OPERANDS
#undef WIDTH
#undef BYTES
