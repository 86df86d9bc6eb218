/*
 * cdist_square_tile.h - template: squared distances as |x|^2 + |y|^2 - 2 x.y, where that is exact
 * enough
 *
 * From the caller: DTYPE, real, vec, ivec, MR, NV and the tiles cdist_dot and cdist_two.
 *
 * x and y are shifted by one vector first, which changes no distance.  With N = |x|^2 + |y|^2 and
 * u = eps / 2: the sums of the norms and of 2 x.y are each off by at most k u N, three roundings of
 * the shift and of the last additions by 4 u N: altogether (k + 2) eps N.  Where the result s is at
 * least N / 2 its relative error is at most 2 (k + 2) eps, and the distance's half of that.  Else,
 * and where N leaves the normal range, the tile is summed again from differences, all of it: points
 * nearer to each other than to the centre come in clusters.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES  ((int)(VBYTES / sizeof(real)))
#define SQUARE CAT(CAT(cdist_square, DTYPE), ISA)
#define CENTRE CAT(CAT(cdist_centre, DTYPE), ISA)
/* Between these norms neither overflow nor denormals cost digits, for k up to 4096. */
#define SMALLEST_NORM ((real)(sizeof(real) == 4 ? 0x1p-114 : 0x1p-1010))
#define LARGEST_NORM  ((real)(sizeof(real) == 4 ? 0x1p127 : 0x1p1023))

static void SQUARE(const struct gram_square_tile *t)
{
    const int64_t ldc = t->direct.ldc / LANES;
    const real *x_norms = t->x_norms;
    const vec *y_norms = t->y_norms;
    vec dots[MR * NV], *c = t->direct.c;
    ivec good = (ivec){0} == 0;
    struct gram_tile product = t->direct;
    int spoiled = 0;

    product.x = t->x, product.y = t->y;
    product.c = dots, product.ldc = NV * LANES;
    product.accumulate = false;
    CAT(CAT(cdist_dot, DTYPE), ISA)(&product);
    for (int i = 0; i < MR; i++)
        for (int v = 0; v < NV; v++) {
            vec norm = x_norms[i] + y_norms[v], s = norm - 2 * dots[i * NV + v];
            good &= (2 * s >= norm) & (norm >= SMALLEST_NORM) & (norm <= LARGEST_NORM);
            dots[i * NV + v] = s;
        }
    for (int l = 0; l < LANES; l++)
        spoiled |= good[l] == 0;
    if (spoiled) {
        CAT(CAT(cdist_two, DTYPE), ISA)(&t->direct);
        return;
    }
    for (int i = 0; i < MR; i++)
        for (int v = 0; v < NV; v++) {
            vec *to = &c[i * ldc + v];
            *to = t->direct.accumulate ? *to + dots[i * NV + v] : dots[i * NV + v];
        }
}

static void CENTRE(const struct gram_centre *t)
{
    const real *from = t->panel, *centre = t->centre;
    real *to = t->centred, *norms = t->norms;

    for (int64_t r = 0; r < t->width; r++)
        norms[r] = 0;
    for (int64_t k = 0; k < t->depth; k++, from += t->width, to += t->width) {
        for (int64_t r = 0; r < t->count; r++) {
            real e = from[r] - centre[k];
            to[r] = e;
            norms[r] += e * e;
        }
        for (int64_t r = t->count; r < t->width; r++)
            to[r] = 0;
    }
}

#undef LANES
#undef SQUARE
#undef CENTRE
#undef SMALLEST_NORM
#undef LARGEST_NORM
