/*
 * kernel_options.h - the options that describe a kernel, and what they mean to the library
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_KERNEL_OPTIONS_H
#define GRAM_CLI_KERNEL_OPTIONS_H
#include "device.h"
#include "metrics.h"

struct kernel_settings {
    int kernel;
    const char *expression; /* instead of a kernel; or NULL */
    int of;                 /* what its s is */
    struct metric_settings metric;
    struct option_texts parameters;
    double p, exponent, bandwidth, alpha, gamma, coef0, degree;
    int64_t seed; /* of the sample for the median distance */
};

extern const struct option_row kernel_rows[];

/* The numbers of an expression. */
struct kernel_parameters {
    gram_parameter at[GRAM_MAX_PARAMETERS];
    char names[GRAM_MAX_PARAMETERS][64];
    int count;
};

/* The library's options, and what they point to: kernel_taken_free when done.  It begins as zeros,
 * and stays where it is. */
struct kernel_taken {
    gram_kernel_options options;
    struct kernel_parameters parameters;
    gram_distance metric;
    struct device_matrix median;
    struct metric_weights weights;
};

/* Checks that are possible before a file is read; dtype is the command's choice. */
enum exit_status kernel_check(const struct kernel_settings *s, int dtype, struct failure *why);

/* The kernel for points x, which are where the context computes: the median distance of their rows
 * is the length unless one is given. */
enum exit_status kernel_take(gram_context *g, const struct kernel_settings *s,
                             const struct input_settings *input, const gram_tensor *x,
                             struct kernel_taken *out, struct failure *why);
void kernel_taken_free(gram_context *g, struct kernel_taken *k);
#endif
