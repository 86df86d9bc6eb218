/*
 * module.c - gram_module_compile, gram_kernel_launch: kernels of the caller's own
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include <string.h>

enum {
    MOST_BYTES = 64,  /* of a name */
    MOST_OPTIONS = 24 /* words */
};

/* Options that change nothing beyond the text: with folders of headers or another chip, the cache
 * could not tell two kernels apart. */
static const char *const allowed[] = {"-D", "-U", "--use_fast_math", "--fmad=", "--maxrregcount="};

static gram_status check_name(gram_context *g, const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (length == 0 || length > MOST_BYTES || name[length])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.name is \"%.80s\", expected 1 to %d letters, digits, _ . and -",
                         name, (int)MOST_BYTES);
    return GRAM_OK;
}

static bool is_allowed(const char *word)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strncmp(word, allowed[i], strlen(allowed[i])) == 0)
            return true;
    return false;
}

static gram_status check_options(gram_context *g, const char *options)
{
    int words = 0;

    if (strnlen(options, GRAM_MODULE_OPTIONS_BYTES) == GRAM_MODULE_OPTIONS_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.options has %d bytes or more, expected less",
                         (int)GRAM_MODULE_OPTIONS_BYTES);
    for (const char *at = options + strspn(options, " "); *at; at += strspn(at, " ")) {
        int length = (int)strcspn(at, " ");
        if (strpbrk(at, "\t\r\n") || !is_allowed(at))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.options has \"%.*s\", expected -D, -U, --use_fast_math, "
                             "--fmad= or --maxrregcount=, separated by blanks",
                             length < 80 ? length : 80, at);
        if (++words > MOST_OPTIONS)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.options has more than %d options, expected no more",
                             (int)MOST_OPTIONS);
        at += length;
    }
    return GRAM_OK;
}

gram_status gram_module_compile(gram_context *g, const char *source,
                                const gram_module_options *options, gram_module **out)
{
    gram_module_options o = GRAM_MODULE_OPTIONS_INIT;
    struct gram_module_op op = {.source = source};

    TRY(gram_begin_without_blas(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!source)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "source is NULL");
    if (options)
        TRY(gram_options_copy(g, &o, sizeof o, options));
    op.name = o.name ? o.name : "module.cu";
    op.options = o.options ? o.options : "";
    TRY(check_name(g, op.name));
    TRY(check_options(g, op.options));
    if (!g->backend->module_compile)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "%s has no modules, which are device code for a CUDA context",
                         g->backend->name);
    return g->backend->module_compile(g, &op, out);
}

static gram_status check_sizes(gram_context *g, const char *name, const int64_t *sizes,
                               const int64_t most[4])
{
    int64_t product = 1;

    if (!sizes)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    for (int i = 0; i < 3; i++) {
        if (sizes[i] < 1 || sizes[i] > most[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s[%d] is %lld, expected 1 to %lld", name,
                             i, (long long)sizes[i], (long long)most[i]);
        if (product > most[3] / sizes[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s is %lld by %lld by %lld, expected at most %lld in all", name,
                             (long long)sizes[0], (long long)sizes[1], (long long)sizes[2],
                             (long long)most[3]);
        product *= sizes[i];
    }
    return GRAM_OK;
}

gram_status gram_kernel_launch(gram_module *module, const char *kernel, const int64_t grid[3],
                               const int64_t block[3], size_t shared_bytes, void *const *arguments)
{
    /* CUDA's limits, the same on all chips: of the three sizes, and of their product */
    static const int64_t most_blocks[] = {INT32_MAX, 65535, 65535, INT64_MAX},
                         most_threads[] = {1024, 1024, 64, 1024};
    gram_context *g;
    struct gram_launch_op op = {.kernel = kernel, .shared_bytes = shared_bytes};

    if (!module)
        return gram_begin_as(NULL, __func__, "module");
    g = module->g;
    TRY(gram_begin_without_blas(g, __func__));
    if (!kernel)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel is NULL");
    if (strnlen(kernel, GRAM_KERNEL_NAME_BYTES) == GRAM_KERNEL_NAME_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel is a name of %d bytes or more, expected less",
                         (int)GRAM_KERNEL_NAME_BYTES);
    TRY(check_sizes(g, "grid", grid, most_blocks));
    TRY(check_sizes(g, "block", block, most_threads));
    for (int i = 0; i < 3; i++)
        op.grid[i] = (unsigned)grid[i], op.block[i] = (unsigned)block[i];
    op.arguments = arguments;
    return g->backend->module_launch(module, &op);
}

void gram_module_destroy(gram_module *module)
{
    if (module)
        module->g->backend->module_destroy(module);
}
