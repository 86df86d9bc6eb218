/*
 * reference_sample_grad.c - a layer's gradients of one sample and its Kronecker factors, as the
 * formulas say
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

static double element(const gram_tensor *t, const int64_t *index)
{
    const struct reference_batch none = {.count = 1};

    return reference_element(t, &none, 0, t->ndim, index);
}

/* Number s as indices of dimensions [first, last) of t. */
static void unravel(const gram_tensor *t, int first, int last, int64_t s, int64_t *index)
{
    for (int d = last - 1; d >= first; d--) {
        index[d] = s % t->shape[d];
        s /= t->shape[d];
    }
}

static bool in_front(gram_layer_kind kind)
{
    return kind == GRAM_LAYER_CONVOLUTION || kind == GRAM_LAYER_GROUP_NORM;
}

/* Feature f at position s of sample n: own trailing dimensions are features, or the second is. */
static double feature_at(const gram_layer *layer, const gram_tensor *t, int own,
                         const int64_t n_s_f[3])
{
    int64_t index[GRAM_MAX_DIMS] = {n_s_f[0]};

    if (in_front(layer->kind)) {
        index[1] = n_s_f[2];
        unravel(t, 2, t->ndim, n_s_f[1], index);
    } else {
        unravel(t, 1, t->ndim - own, n_s_f[1], index);
        unravel(t, t->ndim - own, t->ndim, n_s_f[2], index);
    }
    return element(t, index);
}

/* Element f of the patch of channels of a group at position s, 0 beside the input. */
static double patch_at(const struct reference_layer *r, const int64_t n_s_f[3], int64_t group)
{
    const gram_layer *l = r->layer;
    int64_t index[GRAM_MAX_DIMS] = {n_s_f[0]}, place[GRAM_MAX_DIMS], s = n_s_f[1], f = n_s_f[2];

    for (int d = l->spatial - 1; d >= 0; d--) {
        int64_t x = r->a->shape[d + 2];
        int64_t places =
            (x + 2 * l->padding[d] - l->dilation[d] * (l->kernel[d] - 1) - 1) / l->stride[d] + 1;
        place[d] = s % places;
        s /= places;
    }
    for (int d = l->spatial - 1; d >= 0; d--) {
        index[d + 2] = place[d] * l->stride[d] - l->padding[d] + f % l->kernel[d] * l->dilation[d];
        f /= l->kernel[d];
        if (index[d + 2] < 0 || index[d + 2] >= r->a->shape[d + 2])
            return 0;
    }
    index[1] = group * (r->a->shape[1] / l->groups) + f;
    return element(r->a, index);
}

/* What multiplies the gradients of a normalisation: (a - mean) / sqrt(variance + epsilon); size:
 * the same of absolute values, which do not cancel. */
static double normalised(const struct reference_layer *r, const int64_t n_s_f[3], double *size)
{
    bool whole = r->layer->kind == GRAM_LAYER_NORM;
    int own = r->layer->normalized;
    int64_t features = whole ? r->out : r->out / r->layer->groups;
    int64_t first = n_s_f[2] / features * features, positions = whole ? 1 : r->positions;
    double mean = 0, variance = 0, absolute = 0, count = (double)(features * positions);
    double own_value = feature_at(r->layer, r->a, own, n_s_f);

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t s = 0; s < positions; s++)
            for (int64_t f = 0; f < features; f++) {
                double v = feature_at(r->layer, r->a, own,
                                      (int64_t[]){n_s_f[0], whole ? n_s_f[1] : s, first + f});
                if (pass == 0)
                    mean += v, absolute += fabs(v) / count;
                else
                    variance += (v - mean) * (v - mean);
            }
        mean /= pass == 0 ? count : 1;
    }
    *size = (fabs(own_value) + absolute) / sqrt(variance / count + r->layer->epsilon);
    return (own_value - mean) / sqrt(variance / count + r->layer->epsilon);
}

/* The row that goes into an embedding. */
static int64_t row_at(const struct reference_layer *r, const int64_t n_s[2])
{
    int64_t index[GRAM_MAX_DIMS] = {n_s[0]};

    unravel(r->a, 1, r->a->ndim, n_s[1], index);
    return (int64_t)element(r->a, index);
}

/* What goes in, and how large what it is the difference of is. */
static double input_at(const struct reference_layer *r, const int64_t n_s_f[3], int64_t group,
                       double *size)
{
    if (r->layer->kind == GRAM_LAYER_NORM || r->layer->kind == GRAM_LAYER_GROUP_NORM)
        return normalised(r, n_s_f, size);
    *size = reference_layer_input(r, n_s_f, group);
    return *size;
}

double reference_layer_input(const struct reference_layer *r, const int64_t n_s_f[3], int64_t group)
{
    double size;

    switch (r->layer->kind) {
    case GRAM_LAYER_LINEAR:
        return feature_at(r->layer, r->a, 1, n_s_f);
    case GRAM_LAYER_CONVOLUTION:
        return patch_at(r, n_s_f, group);
    case GRAM_LAYER_EMBEDDING:
        return n_s_f[2] != r->layer->padding_row && row_at(r, n_s_f) == n_s_f[2];
    case GRAM_LAYER_NORM:
    case GRAM_LAYER_GROUP_NORM:
        return normalised(r, n_s_f, &size);
    }
    return NAN;
}

double reference_layer_gradient(const struct reference_layer *r, const int64_t n_s_o[3],
                                int64_t group)
{
    int own = r->layer->kind == GRAM_LAYER_NORM ? r->layer->normalized : 1;
    int64_t o = n_s_o[2] + (r->layer->kind == GRAM_LAYER_CONVOLUTION ? group * r->out : 0);

    if (r->layer->kind == GRAM_LAYER_EMBEDDING && row_at(r, n_s_o) == r->layer->padding_row)
        return 0;
    return feature_at(r->layer, r->d, own, (int64_t[]){n_s_o[0], n_s_o[1], o});
}

double reference_sample_weight(const struct reference_layer *r, const int64_t n_o_i[3],
                               double *magnitude)
{
    bool affine = r->layer->kind == GRAM_LAYER_NORM || r->layer->kind == GRAM_LAYER_GROUP_NORM;
    int64_t n = n_o_i[0], group = affine ? 0 : n_o_i[1] / r->out, o = n_o_i[1] % r->out;
    double sum = 0;

    *magnitude = 0;
    for (int64_t s = 0; s < r->positions; s++) {
        double size, d = reference_layer_gradient(r, (int64_t[]){n, s, o}, group);
        double input = input_at(r, (int64_t[]){n, s, affine ? o : n_o_i[2]}, group, &size);
        if (input == 0 && r->layer->kind == GRAM_LAYER_EMBEDDING)
            continue; /* another row: no term, whatever the gradient is */
        sum += input * d;
        *magnitude += fabs(size * d);
    }
    return sum;
}

double reference_sample_bias(const struct reference_layer *r, const int64_t n_o[2],
                             double *magnitude)
{
    int64_t group = n_o[1] / r->out, o = n_o[1] % r->out;
    double sum = 0;

    *magnitude = 0;
    for (int64_t s = 0; s < r->positions; s++) {
        double term = reference_layer_gradient(r, (int64_t[]){n_o[0], s, o}, group);
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

/* Feature i of A's or B's vector of sample n at position s, the bias's 1 included. */
static double factor_input(const struct reference_layer *r, const int64_t n_s_i[3], int64_t group,
                           bool gradients)
{
    if (gradients)
        return reference_layer_gradient(r, n_s_i, group);
    return n_s_i[2] == r->in ? 1 : reference_layer_input(r, n_s_i, group);
}

double reference_kfac_factor(const struct reference_layer *r, bool reduced, bool gradients,
                             const int64_t group_ij[3], double *magnitude)
{
    int64_t group = group_ij[0], positions = r->positions, samples = r->samples;
    double sum = 0, all = (double)samples * (gradients || reduced ? 1 : (double)positions);

    *magnitude = 0;
    for (int64_t n = 0; n < samples; n++) {
        double u[2] = {0}, absolute[2] = {0};
        for (int64_t s = 0; s < positions; s++) {
            double v[2];
            for (int k = 0; k < 2; k++) {
                v[k] = factor_input(r, (int64_t[]){n, s, group_ij[1 + k]}, group, gradients);
                u[k] += v[k], absolute[k] += fabs(v[k]);
            }
            sum += reduced ? 0 : v[0] * v[1];
            *magnitude += reduced ? 0 : fabs(v[0] * v[1]);
        }
        for (int k = 0; k < 2 && !gradients && reduced; k++)
            u[k] /= (double)positions, absolute[k] /= (double)positions;
        sum += reduced ? u[0] * u[1] : 0;
        *magnitude += reduced ? absolute[0] * absolute[1] : 0;
    }
    *magnitude /= all;
    return sum / all;
}
