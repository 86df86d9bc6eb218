/*
 * cmd_kernel.c - `gram kernel`: a kernel matrix of the rows of one or two matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "kernel_options.h"
#include <string.h>

struct settings {
    struct matrix_pair_settings pair;
    struct kernel_settings kernel;
    double regularization;
};

static const struct option_row rows[] = {
    NUMBER("regularization", 'r', "R", offsetof(struct settings, regularization), "0", 0, 0,
           "added to the diagonal"),
    DTYPE(offsetof(struct settings, pair.dtype),
          "auto: f32 if all inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Kernel", kernel_rows, offsetof(struct settings, kernel)),
    GROUP("", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, pair.input)),
    GROUP("Output", output_options, offsetof(struct settings, pair.output)),
    GROUP("Device", device_options, offsetof(struct settings, pair.common)),
    GROUP("Other options", threads_options, offsetof(struct settings, pair.common)),
    GROUP("", common_options, offsetof(struct settings, pair.common)),
    GROUP_END,
};

static enum exit_status compute(gram_context *g, const void *settings, const gram_tensor *x,
                                const gram_tensor *y, gram_tensor *out, struct failure *why)
{
    const struct settings *s = settings;
    struct kernel_taken k;
    enum exit_status status;

    memset(&k, 0, sizeof k);
    status = kernel_take(g, &s->kernel, &s->pair.input, x, &k, why);
    if (status == CLI_OK) {
        gram_status done;

        k.options.regularization = gram_number(s->regularization);
        done = gram_kernel(g, x, y, &k.options, out);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    kernel_taken_free(g, &k);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    const struct matrix_pair_job job = {&s->pair, &s->kernel.metric, s, compute};

    TRY(kernel_check(&s->kernel, s->pair.dtype, why));
    return matrix_pair_run(&job, count, operands, why);
}

const struct command cmd_kernel = {
    .name = "kernel",
    .operands = "X [Y]",
    .summary = "compute a kernel matrix of the rows of matrices",
    .details =
        "Writes the matrix K[i,j] = k(X[i], Y[j]). Without Y, it is that of the rows of X with "
        "each other. With d the distance |X[i] - Y[j]| in the p-norm, and x.y the product of the "
        "rows, the kernels are\n\n"
        "  laplace             exp(-d / L)\n"
        "  lpq-laplace         exp(-d^q / L^q)\n"
        "  product-laplace     exp(-sum over k of |X[i,k] - Y[j,k]|^q / L^q)\n"
        "  gaussian            exp(-d^2 / (2 L^2)), p = 2\n"
        "  matern32            (1 + t) exp(-t), t = sqrt(3) d / L\n"
        "  matern52            (1 + t + t^2 / 3) exp(-t), t = sqrt(5) d / L\n"
        "  rational-quadratic  (1 + d^2 / (2 A L^2))^-A, p = 2\n"
        "  linear              x.y\n"
        "  polynomial          (G x.y + C)^D\n"
        "  sigmoid             tanh(G x.y + C)\n"
        "  cosine              x.y / (|x| |y|)\n\n"
        "With --expression, the kernel is a formula, which is written as in C. It may use "
        "numbers, s (see --of), norm_x, norm_y and dot (|x|, |y| and x.y), d1 and d2 (the "
        "distances of p = 1 and 2), the names of --param, "
        "+ - * /, comparisons, && || ! ?:, brackets, "
        "and exp exp2 expm1 log log2 log1p sqrt pow sin cos sinh cosh tanh asin acos atan erf "
        "fabs fmin fmax. 1/2 is 0.5.\n\n"
        "With --metric, d is another distance, such as chi2, for which laplace is the exponential "
        "chi-squared kernel. --weights multiplies each term |X[i,k] - Y[j,k]|^p of the p-norm, or "
        "the terms of the metric.\n\n"
        "X and Y are numeric tables in text, Parquet, Arrow or Feather files, or .npy "
        "arrays; arrays with more than two dimensions "
        "are batches of matrices.",
    .examples =
        "  gram kernel points.csv --kernel laplace --bandwidth 10 -o kernel.npy\n"
        "  gram kernel x.npy y.npy -k lpq-laplace -p 1.5 -q 0.9 -L 3 -o kernel.npy\n"
        "  gram kernel counts.csv -k laplace --metric chi2 -L 1 -o kernel.npy\n"
        "  gram kernel points.csv -k gaussian --weights weights.csv -L 2 -o kernel.npy\n"
        "  gram kernel points.csv -e 'exp(-s / a) * (1 + s / a)' --param a=2 -o k.npy",
    .least = 1,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
