/*
 * train_soap.c - a small network trained with SOAP, in C alone
 *
 * Two layers, y = W2 tanh(W1 x + b1) + b2, learn a function of two numbers from 256 points by the
 * mean of the squared errors.  Ten steps in, the state goes to a file and comes back into a second
 * optimizer, which goes on as if nothing had happened.
 *
 *   cc train_soap.c $(pkg-config --cflags --libs gram) -lm -o train_soap
 *
 * SPDX-License-Identifier: MIT
 */
#include <gram/gram.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    POINTS = 256,
    INPUTS = 2,
    HIDDEN = 24,
    PARAMETERS = 4,
    STEPS = 200
};

/* The parameters, or their gradients. */
struct network {
    double w1[HIDDEN][INPUTS], b1[HIDDEN], w2[1][HIDDEN], b2[1];
};

/* What the optimizer sees of it. */
struct tensors {
    gram_tensor t[PARAMETERS], *list[PARAMETERS];
};

static void view(struct network *n, struct tensors *v)
{
    v->t[0] = gram_matrix(n->w1, HIDDEN, INPUTS, GRAM_F64);
    v->t[1] = gram_vector(n->b1, HIDDEN, GRAM_F64);
    v->t[2] = gram_matrix(n->w2, 1, HIDDEN, GRAM_F64);
    v->t[3] = gram_vector(n->b2, 1, GRAM_F64);
    for (int i = 0; i < PARAMETERS; i++)
        v->list[i] = &v->t[i];
}

/* Evenly spread points of the square from -1 to 1. */
static void point(int i, double x[INPUTS], double *y)
{
    int row = i / 16, column = i % 16;

    x[0] = -1 + (column + 0.5) / 8;
    x[1] = -1 + (row + 0.5) / 8;
    *y = sin(3 * x[0]) * x[1];
}

/* The loss, and its gradient. */
static double loss(const struct network *n, struct network *grad)
{
    double total = 0;

    memset(grad, 0, sizeof *grad);
    for (int i = 0; i < POINTS; i++) {
        double x[INPUTS], y, hidden[HIDDEN], error = n->b2[0];
        point(i, x, &y);
        for (int j = 0; j < HIDDEN; j++) {
            hidden[j] = tanh(n->w1[j][0] * x[0] + n->w1[j][1] * x[1] + n->b1[j]);
            error += n->w2[0][j] * hidden[j];
        }
        error -= y;
        total += error * error / POINTS;
        error *= 2.0 / POINTS;
        grad->b2[0] += error;
        for (int j = 0; j < HIDDEN; j++) {
            double back = error * n->w2[0][j] * (1 - hidden[j] * hidden[j]);
            grad->w2[0][j] += error * hidden[j];
            grad->b1[j] += back;
            grad->w1[j][0] += back * x[0];
            grad->w1[j][1] += back * x[1];
        }
    }
    return total;
}

/* Weights that differ from each other, the same every time. */
static void begin(struct network *n)
{
    memset(n, 0, sizeof *n);
    for (int j = 0; j < HIDDEN; j++) {
        n->w1[j][0] = 2 * sin(1.0 + j);
        n->w1[j][1] = 2 * cos(2.0 + 3 * j);
        n->b1[j] = sin(5.0 * j);
        n->w2[0][j] = 0.2 * cos(7.0 * j);
    }
}

/* STEPS steps of a network; after ten of them the state takes the way over the file. */
static gram_status train(gram_context *g, const char *path, double *last)
{
    static struct network weights, gradients;
    struct tensors w, d;
    gram_optimizer_options options = {.size = sizeof options};
    gram_optimizer *optimizer = NULL;
    gram_status status = GRAM_OK;

    gram_optimizer_defaults(GRAM_SOAP, &options);
    options.learning_rate = 0.02;
    options.weight_decay = 0;
    begin(&weights);
    view(&weights, &w);
    view(&gradients, &d);
    for (int step = 0; step < STEPS && status == GRAM_OK; step++) {
        if (step == 0 || step == 10) {
            gram_optimizer_destroy(optimizer);
            status = gram_optimizer_create(g, &options, (const gram_tensor *const *)w.list,
                                           PARAMETERS, &optimizer);
            if (status == GRAM_OK && step == 10)
                status = gram_optimizer_load(g, optimizer, path);
            if (status != GRAM_OK)
                break;
        }
        *last = loss(&weights, &gradients);
        if (step % 40 == 0)
            printf("step %3d, loss %.6f\n", step, *last);
        status =
            gram_optimizer_step(g, optimizer, w.list, (const gram_tensor *const *)d.list, NULL);
        if (status == GRAM_OK && step == 9)
            status = gram_optimizer_save(g, optimizer, path);
    }
    gram_optimizer_destroy(optimizer);
    return status;
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : "train_soap.safetensors";
    gram_context *g;
    double last = INFINITY;
    int failed;

    if (gram_context_create(NULL, &g) != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(NULL));
        return 1;
    }
    failed = train(g, path, &last) != GRAM_OK;
    if (failed)
        fprintf(stderr, "%s\n", gram_message(g));
    else
        printf("after %d steps, loss %.6f\n", STEPS, last);
    gram_context_destroy(g);
    return failed || !(last < 1e-3);
}
