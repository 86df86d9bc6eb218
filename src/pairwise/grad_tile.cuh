/*
 * grad_tile.cuh - the tiles that a gradient is cut into, for cdist_grad.cu and cdist_grad_mma.cu
 *
 * Used with REAL, TO, BN and BM: outputs, features and points of a tile; P_TENSOR as in
 * cdist_grad.cu.
 *
 * SPDX-License-Identifier: MIT
 */

/* A tile and where its data begin: the same for the whole block, in shared memory, so that it takes
 * no registers while the sums do. */
struct grad_tile {
    long long item;
    int outputs, features, points;            /* that it has */
    long long output, feature, point, centre; /* its first ones */
    long long centres;                        /* that are summed */
    const REAL *a, *b, *c, *d;                /* its first element of each */
    REAL *out;
    double exponent;
    bool valid;
};

static __device__ const REAL *begin_of(const struct grad_params *a, const struct device_view *side,
                                       long long item)
{
    return (const REAL *)side->data +
           batch_offset(a->batch_shape, a->batch_ndim, side->batch_stride, item);
}

static __device__ void find_exponent(const struct grad_params *a, struct grad_tile *tile)
{
    tile->exponent = a->exponent;
    tile->valid = true;
#if P_TENSOR
    const double p = number_at(a->batch_shape, a->batch_ndim, a->p.number, tile->item);
    tile->exponent = p - 1;
    tile->valid = p > a->p.least && p <= a->p.most;
#endif
}

static __device__ int part_of(long long all, long long first, int most)
{
    return all - first < most ? (int)(all - first) : most;
}

/* The at'th tile: features first, since they share a. */
static __device__ void find_tile(const struct grad_params *a, long long at, struct grad_tile *tile)
{
    const long long n = at % a->feature_tiles * BN,
                    o = at / a->feature_tiles % a->output_tiles * TO;
    const long long rest = at / a->feature_tiles / a->output_tiles;
    const long long m = rest % a->point_tiles * BM, split = rest / a->point_tiles % a->splits;
    const long long item = rest / a->point_tiles / a->splits, k = split * a->split_centres;

    tile->item = item;
    tile->output = o, tile->feature = n, tile->point = m, tile->centre = k;
    tile->outputs = part_of(a->outputs, o, TO);
    tile->features = part_of(a->features, n, BN);
    tile->points = part_of(a->points, m, BM);
    tile->centres = a->centres - k < a->split_centres ? a->centres - k : a->split_centres;
    tile->a = begin_of(a, &a->a, item) + k * a->a.row_stride + m * a->a.col_stride;
    tile->b = begin_of(a, &a->b, item) + n * a->b.row_stride + k * a->b.col_stride;
    tile->c = begin_of(a, &a->c, item) + o * a->c.row_stride + k * a->c.col_stride;
    tile->d = begin_of(a, &a->d, item) + n * a->d.row_stride + m * a->d.col_stride;
    tile->out = (REAL *)a->out.data +
                batch_offset(a->batch_shape, a->batch_ndim, a->out.batch_stride, item) +
                split * a->split_stride + o * a->plane_stride + n * a->out.row_stride +
                m * a->out.col_stride;
    find_exponent(a, tile);
}

/* d at a feature and a point of the tile, 0 outside. */
static __device__ REAL coordinate(const struct grad_params *a, const struct grad_tile *tile,
                                  int feature, int point)
{
    return feature < tile->features && point < tile->points
               ? tile->d[feature * a->d.row_stride + point * a->d.col_stride]
               : (REAL)0;
}

static __device__ void store(const struct grad_params *a, const struct grad_tile *tile, int o,
                             int feature, int point, REAL value)
{
    REAL *to =
        tile->out + o * a->plane_stride + feature * a->out.row_stride + point * a->out.col_stride;

    if (o >= tile->outputs || feature >= tile->features || point >= tile->points)
        return;
    if (!tile->valid)
        value = (REAL)__int_as_float(0x7fc00000);
    *to = a->add ? *to + value : value;
}
