/*
 * test_kron_check.c - that `gram check kron` says which output is wrong
 *
 * The linker's --wrap puts the functions below before gram_kron_matmul and gram_kron_matmul_vjp:
 * they add an error to one output of the calls that have several factors, which among the variants
 * of kron_variants.c only gram's own variant makes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness_args.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

enum {
    NOTHING = -1,
    Y,
    GRAD_X,
    GRAD_FIRST,
    GRAD_SECOND,
    OUTPUTS
};

static int spoiled = NOTHING;

static void spoil(gram_tensor *t)
{
    test_put(t, 0, test_at(t, 0) + 1);
}

gram_status __real_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y);
gram_status __wrap_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y);
gram_status __real_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads);
gram_status __wrap_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads);

gram_status __wrap_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y)
{
    const gram_status status = __real_gram_kron_matmul(g, x, factors, count, options, y);

    if (status == GRAM_OK && count > 1 && spoiled == Y)
        spoil(y);
    return status;
}

gram_status __wrap_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads)
{
    const gram_status status =
        __real_gram_kron_matmul_vjp(g, x, factors, count, options, grad, grads);

    if (status == GRAM_OK && count > 1 && spoiled >= GRAD_X)
        spoil(spoiled == GRAD_X ? grads->x : grads->factors[spoiled - GRAD_FIRST]);
    return status;
}

// NOLINTEND(bugprone-reserved-identifier, readability-*)

/* What `gram check kron 4 3 2x5` prints to standard output, and its exit status. */
static int said(char *text, size_t size)
{
    char *words[] = {"kron", "4", "3", "2x5", "dtype=f64"};
    const struct harness_options options = {
        .device = {GRAM_CPU, 0}
    };
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO), status;
    size_t read;

    if (!file || saved < 0)
        abort();
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    status = harness_main_check(5, words, &options);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    read = fread(text, 1, size - 1, file);
    text[read] = 0;
    fclose(file);
    return status;
}

/* The words True and False of a line, at most OUTPUTS + 1, as bits of what is False. */
static int verdicts(const char *line, unsigned *wrong)
{
    const char *end = strchr(line, '\n');
    int count = 0;

    *wrong = 0;
    for (const char *at = line; at < end; at++) {
        bool right = strncmp(at, " True ", 6) == 0, is_wrong = strncmp(at, " False ", 7) == 0;
        *wrong |= is_wrong ? 1u << count : 0;
        count += right || is_wrong;
    }
    return count;
}

/* Symptom: one number covered y and all gradients, so that nobody saw which of them was wrong. */
static void a_wrong_gradient_is_told_from_a_wrong_y(struct harness *h)
{
    char text[1 << 14];

    for (spoiled = NOTHING; spoiled < OUTPUTS; spoiled++) {
        const int status = said(text, sizeof text);
        int of_gram = 0, others = 0;
        CHECK(h, status == (spoiled == NOTHING ? HARNESS_RIGHT : HARNESS_WRONG),
              "output %d is wrong: status %d", spoiled, status);
        for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
            unsigned wrong, expected = 0;
            const int count = verdicts(line, &wrong);
            if (count == 0)
                continue;
            /* "naive gram base": a pair of which one is gram; "gram base gram avx2": both are */
            bool left = strncmp(line, "gram", 4) == 0, right = strncmp(line + 16, "gram", 4) == 0;
            if (left != right)
                expected = spoiled == NOTHING ? 0 : 1u << spoiled;
            of_gram += left != right, others += left == right;
            CHECK(h, count == OUTPUTS && wrong == expected,
                  "output %d is wrong: %d verdicts, False of %#x, expected %#x: %.120s", spoiled,
                  count, wrong, expected, line);
        }
        CHECK(h, of_gram >= 3 && others >= 3, "%d and %d pairs", of_gram, others);
    }
}

static const struct test_function tests[] = {
    {"a_wrong_gradient_is_told_from_a_wrong_y", a_wrong_gradient_is_told_from_a_wrong_y},
};

int main(void)
{
#ifdef __APPLE__
    return 77; /* its linker has no --wrap */
#endif
    return harness_run_tests(tests, LENGTH(tests));
}
