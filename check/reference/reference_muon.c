/*
 * reference_muon.c - Muon of one matrix, and the step of Adam that other tensors take
 *
 * Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024; Kingma and Ba,
 * Adam, 2015.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <string.h>

enum {
    MOST = REFERENCE_SOAP_MOST
};

/* x <- a x + (b y + c y^2) x with y = x x^T. */
static void newton_schulz(int64_t rows, int64_t cols, double *x)
{
    double y[MOST], p[MOST], t[MOST];

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            y[i * rows + j] = 0;
            for (int64_t k = 0; k < cols; k++)
                y[i * rows + j] += x[i * cols + k] * x[j * cols + k];
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            double square = 0;
            for (int64_t k = 0; k < rows; k++)
                square += y[i * rows + k] * y[k * rows + j];
            p[i * rows + j] = -4.7750 * y[i * rows + j] + 2.0315 * square;
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            t[i * cols + j] = 3.4445 * x[i * cols + j];
            for (int64_t k = 0; k < rows; k++)
                t[i * cols + j] += p[i * rows + k] * x[k * cols + j];
        }
    memcpy(x, t, (size_t)(rows * cols) * sizeof *x);
}

void reference_muon_step(struct reference_muon *s, const double *g, double *u)
{
    int64_t n = s->rows * s->cols;
    double square = 0, norm;

    for (int64_t i = 0; i < n; i++) {
        s->momentum[i] = s->beta * s->momentum[i] + (1 - s->dampening) * g[i];
        u[i] = s->nesterov ? g[i] + s->beta * s->momentum[i] : s->momentum[i];
        square += u[i] * u[i];
    }
    norm = fmax(sqrt(square), s->epsilon);
    for (int64_t i = 0; i < n; i++)
        u[i] /= norm;
    for (int i = 0; i < s->steps; i++)
        newton_schulz(s->rows, s->cols, u);
    for (int64_t i = 0; i < n; i++)
        u[i] *= sqrt(fmax(1, (double)s->rows / (double)s->cols));
}

void reference_adam_step(struct reference_adam *s, int64_t n, const double *g, double *u)
{
    s->step++;
    for (int64_t i = 0; i < n; i++) {
        double mean, square;
        s->m[i] = s->beta1 * s->m[i] + (1 - s->beta1) * g[i];
        s->v[i] = s->beta2 * s->v[i] + (1 - s->beta2) * g[i] * g[i];
        mean = s->m[i], square = s->v[i];
        if (s->bias_correction) {
            mean /= 1 - pow(s->beta1, (double)s->step);
            square /= 1 - pow(s->beta2, (double)s->step);
        }
        u[i] = mean / (sqrt(square) + s->epsilon);
    }
}
