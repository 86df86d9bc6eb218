/*
 * cpu_muon.c - Muon's orthogonalisation on the CPU, by BLAS or by products of bf16
 *
 * By BLAS: Y is of the smaller side's order.  It and its square are symmetric, so that only a
 * triangle of each is computed, and one whole product a step is left: 4 n^3 multiply-adds for an n
 * by n matrix where the formula as written has 6 n^3.
 *
 * By bf16, summed in f32, on processors with AVX512_BF16, which multiply twice as many of them as
 * f32: the polynomial leaves singular values anywhere between 0.7 and 1.2, for which 8 bits are
 * enough.  X has its smaller side as rows (else it is loaded transposed).  The right operand of a
 * product is packed into panels of COLUMNS columns, in which two elements that follow each other in
 * a column are one word of 32 bits; a tile of ROWS by COLUMNS sums is in registers.  Of symmetric
 * products the tiles on and below the diagonal are made, and mirrored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/cpu.h"
#include "cpu/cpu_kernels.h"
#include "cpu/move.h"
#include "cpu_optimizer.h"
#include <limits.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#  include "core/threads.h"
#  include "cpu/half.h"
#  include <immintrin.h>
#endif

/* ---- By BLAS --------------------------------------------------------------------------------- */

struct muon_blas {
    const struct muon_matrix *matrix;
    struct cpu_mode mode; /* of the smaller side */
    char *x, *to;         /* the matrix, and where it goes next */
    char *y, *p;          /* scratch */
};

static void take_squares(const struct muon_matrix *m, struct gram_layout *l, struct muon_blas *w)
{
    const size_t n = (size_t)gram_least(m->rows, m->cols);

    gram_take_many(l, &w->y, n * n, gram_dtype_size(m->dtype));
    gram_take_many(l, &w->p, n * n, gram_dtype_size(m->dtype));
}

size_t cpu_muon_bytes(const struct muon_matrix *m)
{
    struct gram_layout l = {0};
    struct muon_blas w;

    take_squares(m, &l, &w);
    return gram_layout_bytes(&l);
}

static gram_status normalise(void *of)
{
    struct muon_blas *w = of;
    const struct muon_matrix *m = w->matrix;
    const struct cpu_optimizer_math *math = cpu_optimizer_math(m->dtype);
    int64_t count = m->rows * m->cols;
    double norm = fmax(sqrt(math->squares(count, w->x)), m->least);

    if (norm > 0)
        math->scale(count, 1 / norm, w->x);
    return GRAM_OK;
}

static void add_diagonal(gram_dtype dtype, int64_t n, double value, void *matrix)
{
    for (int64_t i = 0; i < n; i++)
        if (dtype == GRAM_F32)
            ((float *)matrix)[i * (n + 1)] += (float)value;
        else
            ((double *)matrix)[i * (n + 1)] += value;
}

static gram_status make_polynomial(void *of, double a, double b, double c)
{
    struct muon_blas *w = of;
    const struct muon_matrix *m = w->matrix;
    const int64_t n = w->mode.n;

    gram_blas_syrk(m->dtype, GRAM_LOWER, n, w->mode.before * w->mode.after, 1,
                   (struct gram_blas_matrix){w->x, m->cols, w->mode.before == 1}, 0, w->y, n);
    cpu_mirror(m->dtype, n, w->y);
    memcpy(w->p, w->y, (size_t)(n * n) * gram_dtype_size(m->dtype));
    gram_blas_syrk(m->dtype, GRAM_LOWER, n, n, c, (struct gram_blas_matrix){w->y, n, false}, b,
                   w->p, n);
    cpu_mirror(m->dtype, n, w->p);
    add_diagonal(m->dtype, n, a, w->p);
    return GRAM_OK;
}

static gram_status apply(void *of, bool last)
{
    struct muon_blas *w = of;
    char *other = w->x;

    (void)last;
    cpu_mode_product(w->matrix->dtype, &w->mode, w->x, w->p, false, w->to);
    w->x = w->to;
    w->to = other;
    return GRAM_OK;
}

void *cpu_muon_orthogonalise(const struct muon_matrix *m, void *x, void *spare, void *scratch)
{
    static const struct gram_muon_ops ops = {normalise, make_polynomial, apply};
    const int64_t shape[] = {m->rows, m->cols};
    struct muon_blas w = {.matrix = m,
                          .mode = cpu_mode_of(shape, 2, m->rows <= m->cols ? 0 : 1),
                          .x = x,
                          .to = spare};
    struct gram_layout l = {0};

    take_squares(m, &l, &w);
    gram_layout_place(&l, scratch);
    (void)gram_muon_orthogonalise(&ops, &w, m->steps); /* nothing of it can fail */
    return w.x;
}

/* ---- By bf16 --------------------------------------------------------------------------------- */

#if defined(__x86_64__)

#  define BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

enum {
    ROWS = 8,
    VECTOR = 16, /* floats of a register */
    VECTORS = 3, /* of a tile's row: 24 sums, and what they are made of, in 32 registers */
    COLUMNS = VECTORS * VECTOR,
    PACKED = 16 /* words of a row that are packed before the next row's */
};

enum what {
    SQUARE,     /* y = x x^T */
    POLYNOMIAL, /* p = a I + b y + c y y */
    APPLY,      /* next = p x */
    LAST        /* the caller's matrix = p x */
};

struct muon_bf16 {
    const struct muon_matrix *matrix;
    int64_t n, m;           /* rows and columns of x, n <= m */
    int64_t rows, ldx, ldy; /* those that there is room for: y has ldy columns */
    uint16_t *x, *next, *y, *p;
    uint32_t *panels;
    float *out;
    float a, b, c; /* of the polynomial */
    enum what what;
    gram_context *g;
    bool threads; /* loops are by those of the context */
};

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static struct muon_bf16 describe(const struct muon_matrix *m)
{
    struct muon_bf16 w = {
        .matrix = m, .n = gram_least(m->rows, m->cols), .m = gram_most(m->rows, m->cols)};

    w.rows = up(w.n, ROWS);
    w.ldx = up(w.m, COLUMNS);
    w.ldy = up(w.n, COLUMNS);
    return w;
}

static void take_bf16(struct muon_bf16 *w, struct gram_layout *l)
{
    const int64_t panels = gram_most(w->ldy * ((w->m + 1) / 2), w->ldx * ((w->n + 1) / 2));

    gram_take_many(l, &w->x, (size_t)(w->rows * w->ldx), sizeof *w->x);
    gram_take_many(l, &w->next, (size_t)(w->rows * w->ldx), sizeof *w->next);
    gram_take_many(l, &w->y, (size_t)(w->rows * w->ldy), sizeof *w->y);
    gram_take_many(l, &w->p, (size_t)(w->rows * w->ldy), sizeof *w->p);
    gram_take_many(l, &w->panels, (size_t)panels, sizeof *w->panels);
}

/* x of the caller's matrix, divided by its norm. */
static void load(struct muon_bf16 *w, double scale)
{
    const struct muon_matrix *m = w->matrix;
    const bool wide = m->rows <= m->cols;

    memset(w->x, 0, (size_t)(w->rows * w->ldx) * sizeof *w->x);
    memset(w->y, 0, (size_t)(w->rows * w->ldy) * sizeof *w->y);
    memset(w->p, 0, (size_t)(w->rows * w->ldy) * sizeof *w->p);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++)
            w->x[wide ? i * w->ldx + j : j * w->ldx + i] =
                to_bf16((float)(scale * (double)w->out[i * m->cols + j]));
}

/* A panel of the columns of x^T, which are rows of x. */
static void pack_rows(const struct muon_bf16 *w, int64_t first, uint32_t *to)
{
    const int64_t pairs = (w->m + 1) / 2;

    for (int64_t k = 0; k < pairs; k += PACKED)
        for (int64_t j = 0; j < COLUMNS; j++)
            for (int64_t i = k; i < k + PACKED && i < pairs; i++) {
                uint32_t word = 0;
                if (first + j < w->n)
                    memcpy(&word, w->x + (first + j) * w->ldx + 2 * i, sizeof word);
                to[i * COLUMNS + j] = word;
            }
}

/* A panel of the columns of a matrix of n rows, below which is one of zeros where n is odd. */
static BF16 void pack_pairs(const uint16_t *from, int64_t ld, int64_t n, int64_t first,
                            uint32_t *to)
{
    for (int64_t i = 0; i < (n + 1) / 2; i++)
        for (int64_t j = 0; j < COLUMNS; j += VECTOR) {
            const uint16_t *even = from + 2 * i * ld + first + j;
            __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)even));
            __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(even + ld)));
            _mm512_storeu_si512(to + i * COLUMNS + j,
                                _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
}

/* c = ROWS rows of a times a panel. */
static BF16 void multiply(int64_t pairs, const uint16_t *a, int64_t ld, const uint32_t *panel,
                          float c[ROWS][COLUMNS])
{
    __m512 sum[ROWS][VECTORS];

#  pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#  pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (int64_t k = 0; k < pairs; k++) {
        __m512i b[VECTORS];
#  pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            b[v] = _mm512_loadu_si512(panel + k * COLUMNS + v * VECTOR);
#  pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            int32_t pair;
            memcpy(&pair, a + r * ld + 2 * k, sizeof pair);
#  pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] =
                    _mm512_dpbf16_ps(sum[r][v], (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b[v]);
        }
    }
#  pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#  pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            _mm512_storeu_ps(&c[r][v * VECTOR], sum[r][v]);
}

/* Row i of c becomes one of p. */
static BF16 void polynomial_row(const struct muon_bf16 *w, int64_t i, int64_t first, float *c)
{
    for (int64_t j = 0; j < COLUMNS; j += VECTOR) {
        __m512i y = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256((const __m256i *)(w->y + i * w->ldy + first + j)));
        __m512 by =
            _mm512_mul_ps(_mm512_set1_ps(w->b), _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)));
        _mm512_storeu_ps(c + j, _mm512_fmadd_ps(_mm512_set1_ps(w->c), _mm512_loadu_ps(c + j), by));
    }
    if (i >= first && i < first + COLUMNS && i < w->n)
        c[i - first] += w->a;
}

static BF16 void store_row(const float *c, uint16_t *to)
{
    for (int64_t j = 0; j < COLUMNS; j += VECTOR)
        _mm256_storeu_si256((__m256i *)(to + j),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(c + j)));
}

/* The elements below the diagonal of a tile to their places above it. */
static void mirror(int64_t i, int64_t first, int64_t ld, uint16_t *to)
{
    for (int64_t j = first; j < first + COLUMNS && j < i + ROWS - 1; j++)
        for (int64_t r = gram_most(i, j + 1); r < i + ROWS; r++)
            to[j * ld + r] = to[r * ld + j];
}

/* A tile of the result to the caller's matrix. */
static void store_result(const struct muon_bf16 *w, int64_t i, int64_t first,
                         float c[ROWS][COLUMNS])
{
    const struct muon_matrix *m = w->matrix;
    const bool wide = m->rows <= m->cols;

    for (int64_t r = i; r < gram_least(i + ROWS, w->n); r++)
        for (int64_t j = first; j < gram_least(first + COLUMNS, w->m); j++)
            w->out[wide ? r * m->cols + j : j * m->cols + r] = c[r - i][j - first];
}

static void store_tile(const struct muon_bf16 *w, int64_t i, int64_t first, float c[ROWS][COLUMNS])
{
    uint16_t *to = w->what == SQUARE ? w->y : w->what == POLYNOMIAL ? w->p : w->next;
    const int64_t ld = w->what == APPLY ? w->ldx : w->ldy;

    if (w->what == LAST) {
        store_result(w, i, first, c);
        return;
    }
    for (int r = 0; r < ROWS; r++) {
        if (w->what == POLYNOMIAL)
            polynomial_row(w, i + r, first, c[r]);
        store_row(c[r], to + (i + r) * ld + first);
    }
    if (w->what != APPLY)
        mirror(i, first, ld, to);
}

/* A panel of a product. */
static void one_panel(void *arg, int64_t index, int thread)
{
    const struct muon_bf16 *w = arg;
    const int64_t pairs = ((w->what == SQUARE ? w->m : w->n) + 1) / 2, first = index * COLUMNS;
    const bool symmetric = w->what == SQUARE || w->what == POLYNOMIAL;
    const uint16_t *a = w->what == SQUARE ? w->x : w->what == POLYNOMIAL ? w->y : w->p;
    const int64_t ld = w->what == SQUARE ? w->ldx : w->ldy;
    uint32_t *panel = w->panels + index * COLUMNS * pairs;

    (void)thread;
    if (w->what == SQUARE)
        pack_rows(w, first, panel);
    else if (w->what == POLYNOMIAL)
        pack_pairs(w->y, w->ldy, w->n, first, panel);
    else
        pack_pairs(w->x, w->ldx, w->n, first, panel);
    for (int64_t i = symmetric ? first : 0; i < w->rows; i += ROWS) {
        float c[ROWS][COLUMNS];
        multiply(pairs, a + i * ld, ld, panel, c);
        store_tile(w, i, first, c);
    }
}

static void multiply_all(struct muon_bf16 *w, enum what what)
{
    const bool whole = what == APPLY || what == LAST;
    const int64_t panels = (whole ? w->ldx : w->ldy) / COLUMNS;

    w->what = what;
    if (w->threads)
        gram_parallel_for(w->g, panels, one_panel, w);
    for (int64_t i = 0; i < panels && !w->threads; i++)
        one_panel(w, i, 0);
}

static gram_status normalise_bf16(void *of)
{
    struct muon_bf16 *w = of;
    const struct muon_matrix *m = w->matrix;
    const struct cpu_optimizer_math *math = cpu_optimizer_math(GRAM_F32);
    double norm = fmax(sqrt(math->squares(m->rows * m->cols, w->out)), m->least);

    load(w, norm > 0 ? 1 / norm : 1);
    return GRAM_OK;
}

static gram_status make_polynomial_bf16(void *of, double a, double b, double c)
{
    struct muon_bf16 *w = of;

    w->a = (float)a;
    w->b = (float)b;
    w->c = (float)c;
    multiply_all(w, SQUARE);
    multiply_all(w, POLYNOMIAL);
    return GRAM_OK;
}

static gram_status apply_bf16(void *of, bool last)
{
    struct muon_bf16 *w = of;
    uint16_t *other = w->x;

    multiply_all(w, last ? LAST : APPLY);
    w->x = w->next;
    w->next = other;
    return GRAM_OK;
}

bool cpu_muon_bf16_runs(const gram_context *g)
{
    return g->kernels == &gram_cpu_kernels_avx512 && __builtin_cpu_supports("avx512bf16");
}

size_t cpu_muon_bf16_bytes(const struct muon_matrix *m)
{
    struct muon_bf16 w = describe(m);
    struct gram_layout l = {0};

    take_bf16(&w, &l);
    return gram_layout_bytes(&l);
}

void cpu_muon_bf16(gram_context *g, bool threads, const struct muon_matrix *m, float *x,
                   void *scratch)
{
    static const struct gram_muon_ops ops = {normalise_bf16, make_polynomial_bf16, apply_bf16};
    struct muon_bf16 w = describe(m);
    struct gram_layout l = {0};

    w.g = g;
    w.threads = threads;
    w.out = x;
    take_bf16(&w, &l);
    gram_layout_place(&l, scratch);
    (void)gram_muon_orthogonalise(&ops, &w, m->steps);
}

#else /* other processors take f32 */

bool cpu_muon_bf16_runs(const gram_context *g)
{
    (void)g;
    return false;
}

size_t cpu_muon_bf16_bytes(const struct muon_matrix *m)
{
    (void)m;
    return 0;
}

void cpu_muon_bf16(gram_context *g, bool threads, const struct muon_matrix *m, float *x,
                   void *scratch)
{
    (void)g, (void)threads, (void)m, (void)x, (void)scratch;
}
#endif

/* ---- Blocks ---------------------------------------------------------------------------------- */

static struct muon_matrix matrix_of(const gram_optimizer *o, const struct gram_optimizer_block *b,
                                    gram_dtype work)
{
    return (struct muon_matrix){.dtype = work,
                                .rows = b->size[0],
                                .cols = b->size[1],
                                .steps = o->options.steps,
                                .least = o->options.epsilon};
}

/* True if a matrix may be multiplied in bf16, on a processor that does. */
static bool is_rough(const gram_optimizer *o, gram_dtype work)
{
    return work == GRAM_F32 && o->options.precision == GRAM_POWER_PRECISION_AUTO;
}

/* A matrix has one moment, which is stored before its place is scratch of the products. */
static void take(const gram_optimizer *o, const struct gram_optimizer_block *b,
                 struct gram_layout *l, struct cpu_optimizer_unit *u)
{
    gram_dtype work = o->parameter[b->parameter].work;
    struct muon_matrix m = matrix_of(o, b, work);
    size_t moment = cpu_optimizer_loaded_bytes(&b->moment, work);

    if (b->order == 2)
        moment = gram_most_bytes(moment, cpu_muon_bytes(&m));
    if (b->order == 2 && is_rough(o, work))
        moment = gram_most_bytes(moment, cpu_muon_bf16_bytes(&m));
    gram_take(l, &u->moment, moment);
    gram_take(l, &u->second, cpu_optimizer_loaded_bytes(&b->second, work));
}

void cpu_muon_run(struct cpu_optimizer_unit *u)
{
    struct muon_matrix matrix = matrix_of(u->o, u->b, u->work);
    gram_context *g = u->all.job->g;

    if (is_rough(u->o, u->work) && cpu_muon_bf16_runs(g))
        cpu_muon_bf16(g, u->alone, &matrix, u->x, u->moment);
    else
        u->x = cpu_muon_orthogonalise(&matrix, u->x, u->to, u->moment);
}

static gram_status check_sides(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    *bytes = 0;
    for (int64_t i = 0; i < o->blocks; i++)
        if (o->block[i].order == 2 && !gram_blas_fits(o->block[i].size[0], o->block[i].size[1], 0))
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] is a matrix of %lld by %lld, but BLAS takes sizes "
                             "of at most %d",
                             (long long)o->block[i].parameter, (long long)o->block[i].size[0],
                             (long long)o->block[i].size[1], INT_MAX);
    return GRAM_OK;
}

const struct cpu_optimizer_method cpu_muon = {
    .take = take,
    .refresh_bytes = check_sides,
};
