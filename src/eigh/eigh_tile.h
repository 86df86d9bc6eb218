/*
 * eigh_tile.h - template: eigenpairs of as many small symmetric matrices as a vector has lanes
 *
 * Cyclic Jacobi: a rotation by the smaller of the angles that make a[p][q] zero.  A lane whose
 * a[p][q] is at most 1/8 eps of its largest element is not rotated; the sweeps end when no lane
 * was. The pairs of a sweep come in rounds of n / 2 that are disjoint, as in a tournament (R. Brent
 * and F. Luk, 1985): their divisions and roots do not wait for each other, and elements are loaded
 * once for two rotations.  That takes half of the time of pairs row by row.
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

/* ---- Into lanes and out of them, and what LAPACK works on ------------------------------------ */

static inline vec FN(eigh_pick)(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

/* The exponent that brings largest to [1/2, 1); kept where 2^-exponent and its inverse are finite.
 */
static int FN(eigh_exponent)(real largest)
{
    int exponent, low = sizeof(real) == 4 ? -120 : -1000, high = sizeof(real) == 4 ? 127 : 1023;

    frexp((double)largest, &exponent);
    if (exponent < low)
        return low;
    return exponent > high ? high : exponent;
}

static uint32_t FN(eigh_load)(struct gram_eigh_load *load)
{
    int64_t count = load->n * (load->n + 1) / 2;
    vec *a = load->a, largest = {0}, factor = {0};
    uint32_t bad = 0;

    for (int l = 0; l < LANES; l++) {
        const real *item = load->item[l];
        real *to = (real *)load->a + l;
        for (int64_t i = 0; i < load->n; i++)
            for (int64_t j = 0; j <= i; j++, to += LANES)
                *to = item ? item[i * load->stride[0] + j * load->stride[1]] : 0;
    }
    for (int64_t i = 0; i < count; i++) /* NaN and infinity are above every number */
        largest = v_max_bits(largest, v_abs(a[i]));
    for (int l = 0; l < LANES; l++) {
        real most = largest[l];
        bad |= (uint32_t)!isfinite(most) << l;
        load->exponent[l] = isfinite(most) ? FN(eigh_exponent)(most) : 0;
        factor[l] = (real)ldexp(1, -load->exponent[l]);
    }
    for (int l = 0; l < LANES; l++)
        for (int64_t i = 0; (bad >> l & 1) && i < count; i++)
            a[i][l] = 0;
    for (int64_t i = 0; i < count; i++)
        a[i] *= factor;
    return bad;
}

static void FN(eigh_sift)(int64_t end, const real *w, int32_t *order, int64_t at)
{
    int32_t moved = order[at];

    for (int64_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
        child += child + 1 < end && w[order[child + 1]] > w[order[child]];
        if (w[order[child]] <= w[moved])
            break;
        order[at] = order[child];
        at = child;
    }
    order[at] = moved;
}

static void FN(eigh_sort)(int64_t n, const void *w, int32_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = n / 2; i-- > 0;)
        FN(eigh_sift)(n, w, order, i);
    for (int64_t end = n; end-- > 1;) {
        int32_t largest = order[0];
        order[0] = order[end];
        order[end] = largest;
        FN(eigh_sift)(end, w, order, 0);
    }
}

/* Neighbours are exchanged, n times over the odd and the even pairs: the same steps in all lanes.
 */
static void FN(eigh_sort_lanes)(int64_t n, void *values, int32_t *order)
{
    vec *w = values;
    ivec index[EIGH_SMALL];

    for (int64_t i = 0; i < n; i++)
        index[i] = (ivec){0} + (ireal)i;
    for (int64_t round = 0; round < n; round++)
        for (int64_t i = round % 2; i + 1 < n; i += 2) {
            ivec wrong = w[i] > w[i + 1], low = index[i];
            vec least = FN(eigh_pick)(wrong, w[i + 1], w[i]);
            w[i + 1] = FN(eigh_pick)(wrong, w[i], w[i + 1]);
            w[i] = least;
            index[i] = (wrong & index[i + 1]) | (~wrong & low);
            index[i + 1] = (wrong & low) | (~wrong & index[i + 1]);
        }
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < LANES; l++)
            order[l * EIGH_SMALL + i] = (int32_t)index[i][l];
}

static void FN(eigh_raise)(int64_t n, void *values, int64_t stride, int exponent)
{
    real *w = values;

    for (int64_t i = 0; exponent && i < n; i++)
        w[i * stride] = (real)ldexp((double)w[i * stride], exponent);
}

static int64_t FN(eigh_count)(int64_t n, const void *values, double limit)
{
    const real *w = values;
    int64_t count = 0;

    while (count < n && (double)w[count] <= limit)
        count++;
    return count;
}

static bool FN(eigh_scale)(int64_t n, void *matrix, int64_t ld, gram_uplo uplo, int *exponent)
{
    real *a = matrix, most = 0, factor;
    bool finite = true;

    for (int64_t j = 0; j < n; j++) {
        int64_t first = uplo == GRAM_LOWER ? j : 0, last = uplo == GRAM_LOWER ? n : j + 1;
        for (int64_t i = first; i < last; i++) {
            real size = (real)fabs((double)a[j * ld + i]);
            most = size > most ? size : most;
            finite &= isfinite(size) != 0;
        }
    }
    if (!finite)
        return false;
    *exponent = FN(eigh_exponent)(most);
    factor = (real)ldexp(1, -*exponent);
    for (int64_t j = 0; j < n; j++) {
        int64_t first = uplo == GRAM_LOWER ? j : 0, last = uplo == GRAM_LOWER ? n : j + 1;
        for (int64_t i = first; i < last; i++)
            a[j * ld + i] *= factor;
    }
    return true;
}

static void FN(eigh_transpose)(int64_t n, void *matrix, int64_t ld)
{
    const int64_t tile = 32;
    real *a = matrix;

    for (int64_t top = 0; top < n; top += tile)
        for (int64_t left = 0; left <= top; left += tile)
            for (int64_t i = top; i < top + tile && i < n; i++)
                for (int64_t j = left; j < left + tile && j < i; j++) {
                    real kept = a[i * ld + j];
                    a[i * ld + j] = a[j * ld + i];
                    a[j * ld + i] = kept;
                }
}

/* ---- Jacobi and the closed form -------------------------------------------------------------- */
#define EPS ((real)(sizeof(real) == 4 ? 0x1p-23 : 0x1p-52))

/* Bit l is set where lane l of a mask is. */
static inline uint32_t FN(eigh_bits)(ivec mask)
{
    uint32_t bits = 0;

    for (int l = 0; l < LANES; l++)
        bits |= (uint32_t)(mask[l] != 0) << l;
    return bits;
}

/* ---- Jacobi ---------------------------------------------------------------------------------- */

/* x becomes c x - s y, y becomes s x + c y. */
struct FN(eigh_turn) {
    vec c, s;
};

/* The rotation that makes apq zero; none where a lane is not active. */
static inline struct FN(eigh_turn) FN(eigh_turn_of)(vec app, vec aqq, vec apq, ivec active)
{
    const vec one = (vec){0} + 1;
    vec d = aqq - app, twice = apq + apq, sum = v_abs(d) + v_sqrt(d * d + twice * twice);
    vec scale = one / v_sqrt(sum * sum + twice * twice);
    struct FN(eigh_turn) r;

    twice = FN(eigh_pick)(d < 0, -twice, twice);
    r.c = FN(eigh_pick)(active, sum * scale, one);
    r.s = (vec)((ivec)(twice * scale) & active); /* 0 / 0 too */
    return r;
}

/* What goes from app to aqq: t apq with t the tangent, without a division. */
static inline vec FN(eigh_change)(vec app, vec aqq, vec apq, const struct FN(eigh_turn) * r)
{
    return r->s * (r->c * (apq + apq) - r->s * (aqq - app));
}

static inline void FN(eigh_rotate)(vec *x, vec *y, const struct FN(eigh_turn) * r)
{
    vec p = *x, q = *y;

    *x = r->c * p - r->s * q;
    *y = r->s * p + r->c * q;
}

/* Number (i, j) of the packed triangle. */
static inline vec *FN(eigh_at)(vec *a, int i, int j)
{
    return i > j ? a + i * (i + 1) / 2 + j : a + j * (j + 1) / 2 + i;
}

/* Disjoint pairs that are rotated together: their rows do not meet, so their rotations come from
 * one matrix, and an element is loaded once for the two that change it. */
struct FN(eigh_round) {
    struct FN(eigh_turn) turn[EIGH_SMALL / 2];
    int pairs, p[EIGH_SMALL / 2], q[EIGH_SMALL / 2];
    int left;                /* the row without a partner where n is odd, else -1 */
    bool on[EIGH_SMALL / 2]; /* some lane is rotated */
};

/* The pairs of a round: everybody meets everybody else once in n - 1 (n odd: n) rounds. */
static void FN(eigh_pair_up)(int n, int round, struct FN(eigh_round) * r)
{
    int places = n - 1 + n % 2;

    r->pairs = 0;
    r->left = n % 2 ? round : -1;
    if (n % 2 == 0) {
        r->p[0] = round, r->q[0] = n - 1;
        r->pairs = 1;
    }
    for (int k = 1; k <= (places - 1) / 2; k++) {
        r->p[r->pairs] = round + k < places ? round + k : round + k - places;
        r->q[r->pairs++] = round >= k ? round - k : round - k + places;
    }
}

/* The columns of a pair in v. */
static inline void FN(eigh_turn_vectors)(int n, vec *v, const struct FN(eigh_round) * r, int k)
{
    vec *p = v + r->p[k] * n, *q = v + r->q[k] * n;

    for (int i = 0; r->on[k] && i < n; i++)
        FN(eigh_rotate)(p + i, q + i, &r->turn[k]);
}

/*
 * The rotations of a round, done to the diagonal; gives the lanes in which there are some.  Between
 * them the vectors are turned as the round before wanted it: multiplications that fill the time in
 * which divisions and roots are waited for.
 */
static ivec FN(eigh_aim)(int n, vec *a, vec *v, vec limit, const struct FN(eigh_round) * before,
                         struct FN(eigh_round) * r)
{
    const vec zero = {0};
    ivec moved = {0};

    for (int k = 0; k < r->pairs; k++) {
        vec *apq = FN(eigh_at)(a, r->p[k], r->q[k]), change;
        vec *app = FN(eigh_at)(a, r->p[k], r->p[k]), *aqq = FN(eigh_at)(a, r->q[k], r->q[k]);
        ivec active = v_abs(*apq) > limit;

        r->on[k] = v_any(active);
        r->turn[k] = (struct FN(eigh_turn)){zero + 1, zero};
        if (r->on[k])
            r->turn[k] = FN(eigh_turn_of)(*app, *aqq, *apq, active);
        change = FN(eigh_change)(*app, *aqq, *apq, &r->turn[k]);
        *app -= change;
        *aqq += change;
        *apq = (vec)((ivec)*apq & ~active);
        moved |= active;
        if (v)
            FN(eigh_turn_vectors)(n, v, before, k);
    }
    return moved;
}

/* What is beside the diagonal: the four numbers where two pairs meet are turned from both sides. */
static void FN(eigh_turn_matrix)(vec *a, const struct FN(eigh_round) * r)
{
    for (int k = 0; k < r->pairs; k++) {
        for (int l = 0; l < k; l++) {
            vec *pp = FN(eigh_at)(a, r->p[k], r->p[l]), *pq = FN(eigh_at)(a, r->p[k], r->q[l]);
            vec *qp = FN(eigh_at)(a, r->q[k], r->p[l]), *qq = FN(eigh_at)(a, r->q[k], r->q[l]);
            vec x[4] = {*pp, *pq, *qp, *qq};

            if (!r->on[k] && !r->on[l])
                continue;
            FN(eigh_rotate)(&x[0], &x[2], &r->turn[k]);
            FN(eigh_rotate)(&x[1], &x[3], &r->turn[k]);
            FN(eigh_rotate)(&x[0], &x[1], &r->turn[l]);
            FN(eigh_rotate)(&x[2], &x[3], &r->turn[l]);
            *pp = x[0], *pq = x[1], *qp = x[2], *qq = x[3];
        }
        if (r->left >= 0 && r->on[k])
            FN(eigh_rotate)
        (FN(eigh_at)(a, r->p[k], r->left), FN(eigh_at)(a, r->q[k], r->left), &r->turn[k]);
    }
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

/* Every pair once; gives the lanes in which something was rotated.  r[0] has the last round that
 * was: what its vectors are owed is done in the next, so that a sweep without a rotation leaves
 * nothing to do. */
static ivec FN(eigh_sweep)(int n, vec *a, vec *v, vec limit, struct FN(eigh_round) * r[2])
{
    ivec moved = {0};

    for (int round = 0; round < n - 1 + n % 2; round++) {
        struct FN(eigh_round) *before = r[0];
        ivec now;
        r[0] = r[1], r[1] = before;
        FN(eigh_pair_up)(n, round, r[0]);
        now = FN(eigh_aim)(n, a, v, limit, before, r[0]);
        moved |= now;
        if (v_any(now))
            FN(eigh_turn_matrix)(a, r[0]);
    }
    return moved;
}

static uint32_t FN(eigh_jacobi)(int64_t n, void *packed, void *vectors, void *values)
{
    vec *a = packed, *w = values, limit = FN(eigh_limit)(n, a);
    struct FN(eigh_round) rounds[2] = {{.pairs = 0}}, *r[2] = {rounds, rounds + 1};
    ivec moved = {0};

    if (vectors)
        FN(eigh_identity)(n, vectors);
    for (int sweep = 0; sweep < EIGH_SWEEPS; sweep++) {
        moved = FN(eigh_sweep)((int)n, a, vectors, limit, r);
        if (!v_any(moved))
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
    change = FN(eigh_change)(app, aqq, apq, &r);
    for (int i = 0; i < 3; i++)
        FN(eigh_rotate)(v + 3 + i, v + 6 + i, &r);
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
    .sort = FN(eigh_sort),
    .raise = FN(eigh_raise),
    .count = FN(eigh_count),
    .scale = FN(eigh_scale),
    .transpose = FN(eigh_transpose),
};

#undef EPS
#undef LANES
#undef FN
