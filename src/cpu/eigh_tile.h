/*
 * eigh_tile.h - template: eigenpairs of as many small symmetric matrices as a vector has lanes
 *
 * Cyclic Jacobi in Rutishauser's form: a rotation by the angle with tangent t of |t| <= 1 makes
 * a[p][q] zero; other elements x, y become x - s (y + tau x), y + s (x - tau y), tau = s / (1 + c).
 * A lane whose a[p][q] is at most 1/8 eps of its largest element is not rotated; the sweeps end
 * when no lane was.
 *
 * n = 3: with B = (A - q I) / p, q the mean of the diagonal and p its spread, the roots of
 * x^3 - 3 x - det B solve the problem.  The outer one on the side of the determinant's sign lies in
 * [sqrt 3, 2] and apart from the others, so Newton's iteration from 2 has it in five steps, and the
 * largest cross product of two rows of B - x I is its vector without cancellation.  What is left is
 * a matrix of order 2 in the plane across it, and one rotation.
 *
 * From the caller: DTYPE, real, ireal, vec, ivec (see kernels.h).  Contracts are in eigh_kernels.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define LANES    ((int)(VBYTES / sizeof(real)))
#define EPS      ((real)(sizeof(real) == 4 ? 0x1p-23 : 0x1p-52))

/* Bit l is set where lane l of a mask is. */
static inline uint32_t FN(eigh_bits)(ivec mask)
{
    uint32_t bits = 0;

    for (int l = 0; l < LANES; l++)
        bits |= (uint32_t)(mask[l] != 0) << l;
    return bits;
}

static inline bool FN(eigh_any)(ivec mask)
{
    ireal any = 0;

    for (int l = 0; l < LANES; l++)
        any |= mask[l];
    return any != 0;
}

/* ---- Jacobi ---------------------------------------------------------------------------------- */

struct FN(eigh_turn) {
    vec s, tau, t;
};

/* The rotation that makes apq zero; none where a lane is not active. */
static inline struct FN(eigh_turn) FN(eigh_turn_of)(vec app, vec aqq, vec apq, ivec active)
{
    const vec one = (vec){0} + 1;
    struct FN(eigh_turn) r;
    vec d = aqq - app, twice = apq + apq, root = v_sqrt(d * d + twice * twice), c;

    r.t = FN(eigh_pick)(d < 0, -twice, twice) / (v_abs(d) + root);
    r.t = (vec)((ivec)r.t & active); /* 0 / 0 too */
    c = one / v_sqrt(one + r.t * r.t);
    r.s = r.t * c;
    r.tau = r.s / (one + c);
    return r;
}

static inline void FN(eigh_rotate)(vec *x, vec *y, struct FN(eigh_turn) r)
{
    vec p = *x, q = *y;

    *x = p - r.s * (q + r.tau * p);
    *y = q + r.s * (p - r.tau * q);
}

/* Numbers (i, p) and (i, q) of the packed triangle, for every i that is neither. */
static inline void FN(eigh_rotate_packed)(int64_t n, vec *a, int64_t p, int64_t q,
                                          struct FN(eigh_turn) r)
{
    vec *row_p = a + p * (p + 1) / 2, *row_q = a + q * (q + 1) / 2, *row;

    for (int64_t i = 0; i < p; i++)
        FN(eigh_rotate)(row_p + i, row_q + i, r);
    row = row_p + p + 1;
    for (int64_t i = p + 1; i < q; row += ++i)
        FN(eigh_rotate)(row + p, row_q + i, r);
    row = row_q + q + 1;
    for (int64_t i = q + 1; i < n; row += ++i)
        FN(eigh_rotate)(row + p, row + q, r);
}

/* What is negligible beside the largest element. */
static vec FN(eigh_limit)(int64_t n, const vec *a)
{
    vec largest = {0};

    for (int64_t i = 0; i < n * (n + 1) / 2; i++)
        largest = v_max_bits(largest, v_abs(a[i]));
    return largest * (EPS / 8);
}

static void FN(eigh_identity)(int64_t n, vec *v)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] = (vec){0} + (real)(i == j);
}

/* One sweep; gives the lanes in which something was rotated. */
static ivec FN(eigh_sweep)(int64_t n, vec *a, vec *v, vec limit)
{
    ivec moved = {0};

    for (int64_t q = 1; q < n; q++)
        for (int64_t p = 0; p < q; p++) {
            vec *apq = a + q * (q + 1) / 2 + p, *app = a + p * (p + 3) / 2;
            vec *aqq = a + q * (q + 3) / 2, change;
            ivec active = v_abs(*apq) > limit;
            struct FN(eigh_turn) r;

            if (!FN(eigh_any)(active))
                continue;
            moved |= active;
            r = FN(eigh_turn_of)(*app, *aqq, *apq, active);
            change = r.t * *apq;
            *app -= change;
            *aqq += change;
            *apq = (vec)((ivec)*apq & ~active);
            FN(eigh_rotate_packed)(n, a, p, q, r);
            for (int64_t i = 0; v && i < n; i++)
                FN(eigh_rotate)(v + p * n + i, v + q * n + i, r);
        }
    return moved;
}

static uint32_t FN(eigh_jacobi)(int64_t n, void *packed, void *vectors, void *values)
{
    vec *a = packed, *w = values, limit = FN(eigh_limit)(n, a);
    ivec moved = {0};

    if (vectors)
        FN(eigh_identity)(n, vectors);
    for (int sweep = 0; sweep < EIGH_SWEEPS; sweep++) {
        moved = FN(eigh_sweep)(n, a, vectors, limit);
        if (!FN(eigh_any)(moved))
            break;
    }
    for (int64_t i = 0; i < n; i++)
        w[i] = a[i * (i + 3) / 2];
    return FN(eigh_bits)(moved);
}

/* ---- n = 3 ----------------------------------------------------------------------------------- */

static inline vec FN(eigh_dot)(const vec x[3], const vec y[3])
{
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
}

static inline void FN(eigh_cross)(const vec x[3], const vec y[3], vec out[3])
{
    out[0] = x[1] * y[2] - x[2] * y[1];
    out[1] = x[2] * y[0] - x[0] * y[2];
    out[2] = x[0] * y[1] - x[1] * y[0];
}

/* The unit vector that B - root I takes to zero. */
static void FN(eigh_null_vector)(vec b[3][3], vec root, vec out[3])
{
    const vec one = (vec){0} + 1;
    vec best = {0}, scale;

    for (int i = 0; i < 3; i++)
        b[i][i] -= root;
    for (int k = 0; k < 3; k++) {
        vec cross[3], length;
        FN(eigh_cross)(b[k], b[(k + 1) % 3], cross);
        length = FN(eigh_dot)(cross, cross);
        for (int i = 0; i < 3; i++)
            out[i] = FN(eigh_pick)(length > best, cross[i], k ? out[i] : cross[i]);
        best = FN(eigh_pick)(length > best, length, best);
    }
    for (int i = 0; i < 3; i++)
        b[i][i] += root;
    scale = one / v_sqrt(best);
    for (int i = 0; i < 3; i++)
        out[i] *= scale;
}

/* Two unit vectors across v and each other: the larger of v's first elements is kept in u. */
static void FN(eigh_plane)(const vec v[3], vec u[3], vec w[3])
{
    const vec zero = {0}, one = zero + 1;
    ivec first = v_abs(v[0]) > v_abs(v[1]);
    vec big = FN(eigh_pick)(first, v[0], v[1]);
    vec scale = one / v_sqrt(big * big + v[2] * v[2]);

    u[0] = FN(eigh_pick)(first, -v[2], zero) * scale;
    u[1] = FN(eigh_pick)(first, zero, v[2]) * scale;
    u[2] = FN(eigh_pick)(first, v[0], -v[1]) * scale;
    FN(eigh_cross)(v, u, w);
}

/* x^T B y */
static vec FN(eigh_form)(vec b[3][3], const vec x[3], const vec y[3])
{
    vec by[3];

    for (int i = 0; i < 3; i++)
        by[i] = FN(eigh_dot)(b[i], y);
    return FN(eigh_dot)(x, by);
}

/* B = (A - mean I) / spread with a determinant that is not negative: spread has the sign. */
static void FN(eigh_normal)(const vec *a, vec b[3][3], vec *mean, vec *spread, vec *half)
{
    const vec one = (vec){0} + 1;
    vec q = (a[0] + a[2] + a[5]) * (real)(1.0 / 3), minor[3], p, scale;

    b[0][0] = a[0] - q, b[1][1] = a[2] - q, b[2][2] = a[5] - q;
    b[0][1] = b[1][0] = a[1], b[0][2] = b[2][0] = a[3], b[1][2] = b[2][1] = a[4];
    p = b[0][0] * b[0][0] + b[1][1] * b[1][1] + b[2][2] * b[2][2];
    p = p + (a[1] * a[1] + a[3] * a[3] + a[4] * a[4]) * 2;
    p = v_sqrt(p * (real)(1.0 / 6));
    scale = one / FN(eigh_pick)(p > 0, p, one);
    for (int i = 0; i < 9; i++)
        b[i / 3][i % 3] *= scale;
    FN(eigh_cross)(b[1], b[2], minor);
    *half = FN(eigh_dot)(b[0], minor) * (real)0.5;
    for (int i = 0; i < 9; i++)
        b[i / 3][i % 3] = FN(eigh_pick)(*half < 0, -b[i / 3][i % 3], b[i / 3][i % 3]);
    *mean = q;
    *spread = FN(eigh_pick)(*half < 0, -p, p);
    *half = v_abs(*half);
    *half = FN(eigh_pick)(*half > 1, one, *half);
}

static uint32_t FN(eigh_three)(const vec *a, vec *v, vec *w)
{
    const vec one = (vec){0} + 1;
    vec b[3][3], own[9], mean, spread, half, root = one * 2, app, aqq, apq, change;
    struct FN(eigh_turn) r;

    v = v ? v : own;
    FN(eigh_normal)(a, b, &mean, &spread, &half);
    for (int step = 0; step < 5; step++) /* 2e-23 off at the most distant root, sqrt 3 */
        root -= ((root * root - 3) * root - half * 2) / ((root * root - 1) * 3);
    FN(eigh_null_vector)(b, root, v);
    FN(eigh_plane)(v, v + 3, v + 6);
    app = FN(eigh_form)(b, v + 3, v + 3);
    aqq = FN(eigh_form)(b, v + 6, v + 6);
    apq = FN(eigh_form)(b, v + 3, v + 6);
    r = FN(eigh_turn_of)(app, aqq, apq, v_abs(apq) > (vec){0} + EPS / 8);
    change = r.t * apq;
    for (int i = 0; i < 3; i++)
        FN(eigh_rotate)(v + 3 + i, v + 6 + i, r);
    w[0] = mean + spread * FN(eigh_form)(b, v, v);
    w[1] = mean + spread * (app - change);
    w[2] = mean + spread * (aqq + change);
    return 0;
}

static uint32_t FN(eigh_closed_form)(int64_t n, void *a, void *v, void *w)
{
    return n == 3 ? FN(eigh_three)(a, v, w) : FN(eigh_jacobi)(n, a, v, w);
}

static const struct gram_eigh_kernels FN(eigh) = {
    .lanes = LANES,
    .load = FN(eigh_load),
    .jacobi = FN(eigh_jacobi),
    .closed_form = FN(eigh_closed_form),
    .sort_lanes = FN(eigh_sort_lanes),
    .columns = FN(eigh_columns),
    .sort = FN(eigh_sort),
    .raise = FN(eigh_raise),
    .count = FN(eigh_count),
    .scale = FN(eigh_scale),
    .transpose = FN(eigh_transpose),
};

#undef EPS
#undef LANES
#undef FN
