/*
 * cuda_kron_matmul_vjp_chain.c - the steps of the chains: by cuBLAS, or by kernels of ours where a
 * factor is small
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"

static struct cuda_gemm_items product_of(const struct cuda_kron_chain *c)
{
    const gram_dtype dtype = c->plan->op->x.dtype;

    return (struct cuda_gemm_items){.dtype = dtype,
                                    .compute = gram_cuda_compute_of(dtype),
                                    .count = c->plan->groups,
                                    .alpha = 1};
}

static const void *factor_of(const struct cuda_kron_chain *c, const struct cuda_kron_join *j)
{
    return j->copied ? c->memory + j->at : c->plan->op->factor[j->first].data;
}

/* What the kernels of small factors are told of a step. */
static struct kron_vjp_step_params step_of(const struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_join *j = &c->plan->join[i];

    return (struct kron_vjp_step_params){.left = c->left[i],
                                         .right = c->right,
                                         .factor = factor_of(c, j),
                                         .left_stride = c->left_stride[i],
                                         .right_stride = c->count * j->per_row * j->q,
                                         .factor_stride = j->stride,
                                         .factor_row = j->by_columns ? 1 : j->ld,
                                         .factor_col = j->by_columns ? j->ld : 1,
                                         .groups = c->plan->groups,
                                         .s = c->count * j->per_row,
                                         .p = j->p,
                                         .q = j->q,
                                         .slice = j->slice,
                                         .slots = j->slots,
                                         .accumulate = c->first > 0};
}

static gram_status launch_step(gram_context *g, const struct cuda_kron_chain *c,
                               enum cuda_variant_file file, int64_t blocks,
                               struct kron_vjp_step_params *p)
{
    return gram_cuda_launch_plain(g, file, c->plan->op->x.dtype, blocks, KRON_VJP_THREADS, p);
}

/* left[i-1] = F^T left^T: q by s, of which cuBLAS sees s by q. */
gram_status cuda_kron_vjp_contract(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_join *j = &c->plan->join[i];
    struct cuda_gemm_items p = product_of(c);
    struct kron_vjp_step_params step = step_of(c, i);

    if (j->small) {
        step.out = (char *)c->left[i - 1], step.out_stride = c->left_stride[i - 1];
        return launch_step(g, c, CUDA_VARIANT_KRON_VJP_CONTRACT,
                           gram_ceil_div(step.s, KRON_VJP_ROWS) * step.groups, &step);
    }
    p.m = c->count * j->per_row, p.n = j->q, p.k = j->p;
    p.a.data = c->left[i], p.a.ld = j->p, p.a.transposed = true;
    p.a.stride = c->left_stride[i];
    p.b.data = factor_of(c, j), p.b.ld = j->ld, p.b.transposed = !j->by_columns;
    p.b.stride = j->stride;
    p.c = (char *)c->left[i - 1], p.ldc = p.m;
    p.stride_c = c->left_stride[i - 1];
    return gram_cuda_gemm_items(g, c->blas, &p);
}

/* right[i+1] = right^T F^T: s by p, of which cuBLAS sees p by s. */
gram_status cuda_kron_vjp_take_back(gram_context *g, struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const struct cuda_kron_join *j = &plan->join[i];
    const bool to_x = i + 1 == plan->joins && plan->to_x_direct;
    struct cuda_gemm_items p = product_of(c);
    char *out = to_x ? op->to_x.data + c->first * op->x.cols * cuda_kron_vjp_size(plan)
                     : c->memory + plan->right_at[(i + 1) % 2];
    struct kron_vjp_step_params step = step_of(c, i);

    p.m = j->p, p.n = c->count * j->per_row, p.k = j->q;
    p.a.data = factor_of(c, j), p.a.ld = j->ld, p.a.transposed = !j->by_columns;
    p.a.stride = j->stride;
    p.b.data = c->right, p.b.ld = p.n, p.b.transposed = true;
    p.b.stride = p.n * j->q;
    p.c = out, p.ldc = j->p;
    p.stride_c = to_x ? plan->group_rows * op->x.cols : p.n * j->p;
    p.alpha = to_x ? op->alpha.value : 1;
    c->right = out;
    if (!j->small)
        return gram_cuda_gemm_items(g, c->blas, &p);
    step.out = out, step.out_stride = p.stride_c, step.alpha = p.alpha;
    return launch_step(g, c, CUDA_VARIANT_KRON_VJP_BACK,
                       gram_ceil_div(step.s, KRON_VJP_ROWS) * step.groups, &step);
}

/* A product of slices, one after the other, each with a place of its own; the rest is one more. */
static gram_status add_slices(gram_context *g, struct cuda_gemm_items *p,
                              const struct cuda_kron_chain *c, const struct cuda_kron_join *j,
                              int64_t s)
{
    const int64_t size = cuda_kron_vjp_size(c->plan), whole = s / j->slice;

    p->count = whole, p->k = j->slice;
    p->a.stride = j->slice, p->b.stride = j->slice * j->p, p->stride_c = j->p * j->q;
    if (whole > 0)
        TRY(gram_cuda_gemm_items(g, c->blas, p));
    p->a.data = (const char *)p->a.data + whole * p->a.stride * size;
    p->b.data = (const char *)p->b.data + whole * p->b.stride * size;
    p->c = (char *)p->c + whole * p->stride_c * size;
    p->count = 1, p->k = s - whole * j->slice;
    return p->k > 0 ? gram_cuda_gemm_items(g, c->blas, p) : GRAM_OK;
}

/* The gradient of joined factors, p by q, of which cuBLAS sees q by p. */
gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_join *j = &c->plan->join[i];
    const int64_t s = c->count * j->per_row, size = cuda_kron_vjp_size(c->plan);
    struct cuda_gemm_items p = product_of(c);
    struct kron_vjp_step_params step = step_of(c, i);

    if (j->small) {
        step.out = c->memory + j->sums_at;
        return launch_step(g, c, CUDA_VARIANT_KRON_VJP_GRADIENT, step.slots * step.groups, &step);
    }
    p.m = j->q, p.n = j->p, p.k = s;
    p.a.data = c->right, p.a.ld = s, p.a.transposed = true, p.a.stride = s * j->q;
    p.b.data = c->left[i], p.b.ld = j->p, p.b.transposed = true, p.b.stride = c->left_stride[i];
    p.c = c->memory + j->sums_at, p.ldc = j->q, p.stride_c = j->slots * j->p * j->q;
    p.beta = c->first > 0;
    if (j->slots == 1)
        return gram_cuda_gemm_items(g, c->blas, &p);
    for (int64_t group = 0; group < c->plan->groups; group++) {
        struct cuda_gemm_items one = p;
        one.a.data = (const char *)p.a.data + group * p.a.stride * size;
        one.b.data = (const char *)p.b.data + group * p.b.stride * size;
        one.c = (char *)p.c + group * p.stride_c * size;
        TRY(add_slices(g, &one, c, j, s));
    }
    return GRAM_OK;
}
