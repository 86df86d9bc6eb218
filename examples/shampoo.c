/*
 * shampoo.c - a small network trained with Shampoo
 *
 * Two layers learn which of three arms of a spiral a point lies on: h = tanh(W1 (x, 1)),
 * p = softmax(W2 (h, 1)).  The gradients are written out by hand; each step gives them to
 * gram_optimizer_step, which moves the parameters in place.  Halfway the optimizer is saved and
 * loaded again, as a program that is stopped and started would.
 *
 *   cc shampoo.c $(pkg-config --cflags --libs gram) -lm -o shampoo
 *
 * SPDX-License-Identifier: MIT
 */
#include <gram/gram.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 300,
    ARMS = 3,
    HIDDEN = 24,
    STEPS = 200
};

/* The parameters, or their gradients; the last column of each matrix meets a constant 1. */
struct network {
    double first[HIDDEN][3], second[ARMS][HIDDEN + 1];
};

struct points {
    double x[POINTS][3];
    int arm[POINTS];
};

static void make_points(struct points *p)
{
    for (int i = 0; i < POINTS; i++) {
        int place = i / ARMS, places = POINTS / ARMS;
        double radius = 0.1 + 0.9 * place / (places - 1);
        double angle = 4 * radius + 2 * 3.14159265 / ARMS * (i % ARMS);

        p->x[i][0] = radius * cos(angle);
        p->x[i][1] = radius * sin(angle);
        p->x[i][2] = 1;
        p->arm[i] = i % ARMS;
    }
}

/* Small numbers that look like chance. */
static void begin(struct network *w)
{
    for (int i = 0; i < HIDDEN; i++)
        for (int k = 0; k < 3; k++)
            w->first[i][k] = sin(12.9898 * i + 78.233 * k);
    for (int j = 0; j < ARMS; j++)
        for (int i = 0; i <= HIDDEN; i++)
            w->second[j][i] = 0.3 * sin(39.425 * i + 11.135 * j);
}

/* Adds one point's part to the gradient; its loss. */
static double learn(const struct network *w, const double *x, int arm, struct network *grad)
{
    double h[HIDDEN + 1], p[ARMS], sum = 0;

    h[HIDDEN] = 1;
    for (int i = 0; i < HIDDEN; i++)
        h[i] = tanh(w->first[i][0] * x[0] + w->first[i][1] * x[1] + w->first[i][2] * x[2]);
    for (int j = 0; j < ARMS; j++) {
        double score = 0;
        for (int i = 0; i <= HIDDEN; i++)
            score += w->second[j][i] * h[i];
        p[j] = exp(score);
        sum += p[j];
    }
    for (int i = 0; i <= HIDDEN; i++) {
        double back = 0;
        for (int j = 0; j < ARMS; j++) {
            double error = (p[j] / sum - (j == arm)) / POINTS;
            grad->second[j][i] += error * h[i];
            back += error * w->second[j][i];
        }
        for (int k = 0; i < HIDDEN && k < 3; k++)
            grad->first[i][k] += back * (1 - h[i] * h[i]) * x[k];
    }
    return -log(p[arm] / sum) / POINTS;
}

static double loss_of(const struct network *w, const struct points *p, struct network *grad)
{
    double loss = 0;

    memset(grad, 0, sizeof *grad);
    for (int i = 0; i < POINTS; i++)
        loss += learn(w, p->x[i], p->arm[i], grad);
    return loss;
}

/* Saves the optimizer and goes on with one that is loaded from the file. */
static gram_status save_and_load(gram_context *g, const gram_optimizer_options *options,
                                 gram_tensor *const *values, gram_optimizer **o)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    gram_optimizer *loaded = NULL;
    gram_status status;

    (void)snprintf(path, sizeof path, "%s/gram-example-optimizer.safetensors",
                   folder ? folder : "/tmp");
    if ((status = gram_optimizer_save(g, *o, path)) != GRAM_OK)
        return status;
    status = gram_optimizer_create(g, options, (const gram_tensor *const *)values, 2, &loaded);
    if (status == GRAM_OK)
        status = gram_optimizer_load(g, loaded, path);
    (void)remove(path);
    if (status != GRAM_OK) {
        gram_optimizer_destroy(loaded);
        return status;
    }
    gram_optimizer_destroy(*o);
    *o = loaded;
    return GRAM_OK;
}

/* Trains with these options; the last loss goes to *loss. */
static gram_status train(gram_context *g, const gram_optimizer_options *options, double *loss)
{
    struct points points;
    struct network w, grad;
    gram_tensor first = gram_matrix(w.first, HIDDEN, 3, GRAM_F64);
    gram_tensor second = gram_matrix(w.second, ARMS, HIDDEN + 1, GRAM_F64);
    gram_tensor grad_first = gram_matrix(grad.first, HIDDEN, 3, GRAM_F64);
    gram_tensor grad_second = gram_matrix(grad.second, ARMS, HIDDEN + 1, GRAM_F64);
    gram_tensor *values[2] = {&first, &second};
    const gram_tensor *gradients[2] = {&grad_first, &grad_second};
    gram_optimizer *o;
    gram_status status;

    make_points(&points);
    begin(&w);
    status = gram_optimizer_create(g, options, (const gram_tensor *const *)values, 2, &o);
    for (int step = 1; status == GRAM_OK && step <= STEPS; step++) {
        *loss = loss_of(&w, &points, &grad);
        status = gram_optimizer_step(g, o, values, gradients, NULL);
        if (status == GRAM_OK && step == STEPS / 2)
            status = save_and_load(g, options, values, &o);
        if (step % 50 == 0)
            printf("step %3d  loss %.4f\n", step, *loss);
    }
    gram_optimizer_destroy(o);
    return status;
}

int main(void)
{
    gram_optimizer_options shampoo = GRAM_OPTIMIZER_OPTIONS_INIT;
    gram_context *g;
    gram_status status = gram_context_create(NULL, &g);
    double loss = INFINITY;

    shampoo.learning_rate = 0.1;
    shampoo.beta2 = 0.95; /* forgets old gradients; 1 would sum them all */
    shampoo.epsilon = 1e-8;
    shampoo.refresh = 5; /* new roots every fifth step, the old ones in between */
    if (status == GRAM_OK)
        status = train(g, &shampoo, &loss);
    if (status != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(g));
    gram_context_destroy(g);
    return status == GRAM_OK && loss < 0.1 ? 0 : 1;
}
