/*
 * kron_parts.c - products with Kronecker factors of which every rank has a part
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_parts.h"
#include <math.h>

/* clang-format off */
const struct kron_parts_row kron_parts_table[KRON_PARTS_ROWS] = {
    {4, {2, 2}, {2, 2}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},
    {37, {8, 8, 8}, {8, 8, 8}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},
    {1, {4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 4, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR}, /* fewer rows than ranks */
    {2, {5, 7, 3}, {5, 7, 3}, 0, GRAM_F64, false, false, -2, 0, ROW_MAJOR},       /* nothing divides */
    {5, {3, 4, 5}, {6, 2, 7}, 0, GRAM_F64, false, false, 0.5, 2, PADDED},         /* rectangles, z */
    {3, {7, 2}, {1, 9}, 0, GRAM_F64, false, false, 1, -1, COLUMN_MAJOR},
    {6, {1, 1, 5}, {1, 1, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},        /* no more than one index in front */
    {4, {9}, {5}, 0, GRAM_F64, false, false, 3, 0, ROW_MAJOR},                    /* one factor: an empty group */
    {1, {9}, {5}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},                    /* one rank does it all */
    {4, {3, 4, 2}, {2, 3, 4}, 5, GRAM_F32, false, false, 2, 1, ROW_MAJOR},        /* a batch */
    {4, {3, 4, 2}, {2, 3, 4}, 3, GRAM_F64, true, true, 2, 1, EVERY_SECOND},
    {5, {6}, {4}, 2, GRAM_F64, false, false, 1, 1, ROW_MAJOR},                    /* a batch and an empty group */
    {7, {6, 5, 4}, {6, 5, 4}, 0, GRAM_F32, true, false, 1, 0, ROW_MAJOR},
    {7, {6, 5, 4}, {5, 6, 3}, 0, GRAM_F64, true, true, 1, 0.25, COLUMN_MAJOR},
    {1, {8, 8, 8}, {8, 8, 8}, 0, GRAM_F64, true, false, 1, 0, ROW_MAJOR},
    {9, {4, 6, 3}, {3, 5, 4}, 0, GRAM_I32, false, true, 3, -7, ROW_MAJOR},        /* they wrap around */
    {3, {4, 6, 3}, {3, 5, 4}, 2, GRAM_I64, false, false, -5, 2, REVERSED},
    {1, {2, 3, 2, 3}, {3, 2, 3, 2}, 0, GRAM_I64, true, false, 1, 0, ROW_MAJOR},
    {0, {4, 3}, {4, 3}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},              /* no rows */
    {2000, {3, 3}, {2, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},           /* the move is cut into pieces */
};
/* clang-format on */

const struct kron_parts_row kron_parts_square = {
    .m = 6, .in = {6, 6, 6},
         .out = {6, 6, 6},
         .dtype = GRAM_F64, .alpha = 1
};

static void make(struct harness *h, struct test_tensor *t, const struct kron_parts_row *row,
                 const int64_t shape[2])
{
    int64_t with_items[3] = {row->items, shape[0], shape[1]};
    bool batch = row->items > 0;

    test_tensor_create(h, t, row->dtype, row->layout, batch ? 3 : 2, batch ? with_items : shape);
    if (row->dtype == GRAM_I32 || row->dtype == GRAM_I64)
        test_fill_integers(h, t, 2000000000);
    else
        test_fill_uniform(h, t, -1, 1);
}

void kron_parts_make(struct harness *h, struct kron_parts *p, const struct kron_parts_row *row)
{
    int64_t in = 1, out = 1;

    *p = (struct kron_parts){.row = row, .options = GRAM_KRON_OPTIONS_INIT};
    for (; p->count < 6 && row->in[p->count] > 0; p->count++) {
        struct kron_parts_row plain = {.dtype = row->dtype, .layout = ROW_MAJOR};
        int64_t shape[2] = {row->in[p->count], row->out[p->count]};
        if (row->left != row->transposed)
            shape[0] = row->out[p->count], shape[1] = row->in[p->count];
        make(h, &p->factor[p->count], &plain, shape);
        p->factors[p->count] = &p->factor[p->count].t;
        in *= row->in[p->count], out *= row->out[p->count];
    }
    make(h, &p->x, row, row->left ? (int64_t[]){in, row->m} : (int64_t[]){row->m, in});
    for (int i = 0; i < 3; i++) {
        struct test_tensor *const like[] = {&p->y, &p->z, &p->whole};
        make(h, like[i], row, row->left ? (int64_t[]){out, row->m} : (int64_t[]){row->m, out});
    }
    p->options.alpha.value = row->alpha;
    p->options.beta.value = row->beta;
    p->options.side = row->left ? GRAM_LEFT : GRAM_RIGHT;
    p->options.transpose_factors = row->transposed ? UINT32_MAX : 0;
    if (row->beta != 0)
        p->options.z = &p->z.t;
}

void kron_parts_drop(struct harness *h, struct kron_parts *p)
{
    struct test_tensor *const all[] = {&p->x, &p->y, &p->z, &p->whole};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
    for (int i = 0; i < p->count; i++)
        test_tensor_destroy(h, &p->factor[i], "a factor");
}

/* Rows and columns of t, which are exchanged if the factors are on the left. */
static gram_tensor block(const gram_tensor *t, bool left, const int64_t first[2],
                         const int64_t shape[2])
{
    gram_tensor r = *t;
    int64_t offset = 0;

    for (int i = 0; i < 2; i++) {
        int d = t->ndim - 2 + (left ? 1 - i : i);
        r.shape[d] = shape[i];
        offset += first[i] * t->stride[d];
    }
    r.data = (char *)t->data + offset * (int64_t)gram_dtype_size(t->dtype);
    return r;
}

void kron_parts_take(struct harness *h, struct kron_parts *p, gram_communicator *c,
                     gram_kron_split split)
{
    const gram_kron_part *part = &p->part;
    bool left = p->row->left;
    int64_t at[2], shape[2];

    p->options.communicator = c;
    p->options.split = split;
    CHECK(h,
          gram_kron_matmul_part(h->g, p->row->m, p->factors, p->count, &p->options, &p->part) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, part->split == split, "split %d", (int)part->split);
    at[0] = part->first_row, at[1] = part->first_column;
    shape[0] = part->rows, shape[1] = part->columns;
    p->my_x = block(&p->x.t, left, at, shape);
    at[1] = part->first_out, shape[1] = part->outs;
    p->my_y = block(&p->y.t, left, at, shape);
    p->my_z = block(&p->z.t, left, at, shape);
    if (p->row->beta != 0)
        p->options.z = &p->my_z;
}

void kron_parts_spoil(struct kron_parts *p)
{
    for (int64_t i = 0; i < test_count(&p->y.t); i++)
        test_put(&p->y.t, i, 77);
}

void kron_parts_compare(struct harness *h, const struct kron_parts *p)
{
    const gram_tensor *y = &p->y.t, *whole = &p->whole.t;
    bool whole_numbers = y->dtype == GRAM_I32 || y->dtype == GRAM_I64, left = p->row->left;
    double bound = whole_numbers ? 0 : 100 * test_eps(y->dtype);
    int64_t rows = y->shape[y->ndim - 2], cols = y->shape[y->ndim - 1], wrong = 0, mine = 0;

    for (int64_t i = 0; i < test_count(y); i++) {
        int64_t row = i / cols % rows, col = i % cols;
        int64_t m = left ? col : row, q = left ? row : col;
        bool here = m >= p->part.first_row && m < p->part.first_row + p->part.rows &&
                    q >= p->part.first_out && q < p->part.first_out + p->part.outs;
        double got = test_at(y, i), want = here ? test_at(whole, i) : 77;
        double scale = here && !whole_numbers ? 1 + fabs(want) : 1;
        mine += here;
        if (y->dtype == GRAM_I64 && here)
            wrong += *(int64_t *)test_address(y, i) != *(int64_t *)test_address(whole, i);
        else
            wrong += !(fabs(got - want) <= bound * scale);
    }
    CHECK(h, wrong == 0, "%lld of %lld elements, %lld of them this rank's, are wrong",
          (long long)wrong, (long long)test_count(y), (long long)mine);
}
