/*
 * kernel_ridge.c - regression with a Gaussian kernel, step by step
 *
 * Learns sin from 200 points: K = k(x, x) + r I, alpha = K^-1 y, prediction = k(z, x) alpha.  The
 * factor of K overwrites K and alpha overwrites y, so there is one matrix in memory.
 *
 *   cc kernel_ridge.c $(pkg-config --cflags --libs gram) -lm -o kernel_ridge
 *
 * SPDX-License-Identifier: MIT
 */
#include <gram/gram.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TRAIN = 200,
    TEST = 50
};

/* Evenly spaced points in [-5, 5]. */
static double point(int i, int count)
{
    return -5 + 10.0 * i / (count - 1);
}

static gram_status run(gram_context *g, double *matrix, double *prediction)
{
    double x[TRAIN], y[TRAIN], z[TEST], typical;
    gram_tensor tx = gram_matrix(x, TRAIN, 1, GRAM_F64), tz = gram_matrix(z, TEST, 1, GRAM_F64);
    gram_tensor ty = gram_matrix(y, TRAIN, 1, GRAM_F64);
    gram_tensor k = gram_matrix(matrix, TRAIN, TRAIN, GRAM_F64);
    gram_tensor median = {.data = &typical, .dtype = GRAM_F64}; /* no dimensions: one number */
    gram_solve_options solve = GRAM_SOLVE_OPTIONS_INIT;
    gram_kernel_options gaussian;
    gram_status status;

    for (int i = 0; i < TRAIN; i++) {
        x[i] = point(i, TRAIN);
        y[i] = sin(x[i]);
    }
    for (int i = 0; i < TEST; i++)
        z[i] = point(i, TEST);

    if ((status = gram_median_distance(g, &tx, gram_number(2), NULL, &median)) != GRAM_OK)
        return status;
    gaussian = gram_gaussian(typical / 3);
    gaussian.regularization = gram_number(1e-8);
    if ((status = gram_kernel(g, &tx, NULL, &gaussian, &k)) != GRAM_OK)
        return status;
    solve.factor = &k;
    if ((status = gram_solve_cholesky(g, &k, &ty, &solve, &ty, NULL)) != GRAM_OK)
        return status;

    /* The matrix is no longer needed: its memory takes k(z, x). */
    k = gram_matrix(matrix, TEST, TRAIN, GRAM_F64);
    gaussian.regularization = gram_number(0);
    if ((status = gram_kernel(g, &tz, &tx, &gaussian, &k)) != GRAM_OK)
        return status;
    for (int i = 0; i < TEST; i++) {
        prediction[i] = 0;
        for (int j = 0; j < TRAIN; j++)
            prediction[i] += matrix[i * TRAIN + j] * y[j];
    }
    return GRAM_OK;
}

int main(void)
{
    double prediction[TEST], worst = 0;
    double *matrix = malloc(sizeof(double) * TRAIN * TRAIN);
    gram_context *g = NULL;
    gram_status status = gram_context_create(NULL, &g);

    if (status == GRAM_OK && matrix)
        status = run(g, matrix, prediction);
    if (status != GRAM_OK || !matrix) {
        fprintf(stderr, "%s\n", matrix ? gram_message(g) : "out of memory");
        gram_context_destroy(g);
        free(matrix);
        return 1;
    }
    for (int i = 0; i < TEST; i++)
        worst = fmax(worst, fabs(prediction[i] - sin(point(i, TEST))));
    printf("largest error at %d new points: %.1e\n", (int)TEST, worst);
    gram_context_destroy(g);
    free(matrix);
    return worst < 1e-4 ? 0 : 1;
}
