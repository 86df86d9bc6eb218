/*
 * fake_rewrite.c - turns `__shared__`, `__global__` and `__launch_bounds__` into C++
 *
 * The text is preprocessed: it has no comments and no macros, but line markers, literals.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_rewrite.h"
#include "fake_device.h"
#include <ctype.h>
#include <string.h>

enum {
    MOST = 64,
    NAME = 128
};

/* All else is hidden: modules have functions and variables of the same names. */
#define VISIBLE "__attribute__((visibility(\"default\")))"

struct rewrite {
    FILE *out;
    bool sectioned;
    char kernel[MOST][NAME], bounds[MOST][NAME], dynamic[MOST][NAME];
    int kernels, dynamics;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_length(const char *at)
{
    size_t n = 0;

    while (is_word(at[n]))
        n++;
    return n;
}

static bool is(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

static void keep(char name[NAME], const char *at, size_t length)
{
    snprintf(name, NAME, "%.*s", (int)length, at);
}

/* The end of what stands between at, an opening bracket, and its partner. */
static const char *skip_brackets(const char *at)
{
    int depth = 0;

    do {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        at++;
    } while (*at && depth > 0);
    return at;
}

/* The first of the arguments of __launch_bounds__. */
static void keep_bounds(char bounds[NAME], const char *open)
{
    const char *end = skip_brackets(open), *at = open + 1;
    int depth = 0;

    for (; at < end - 1 && !(*at == ',' && depth == 0); at++)
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
    keep(bounds, open + 1, (size_t)(at - open - 1));
    for (char *c = bounds; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

/* From behind __global__ to the kernel's name: attributes and bounds stand between. */
static const char *find_kernel(struct rewrite *r, const char *at)
{
    char *bounds = r->bounds[r->kernels];

    strcpy(bounds, "0"); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    fputs(VISIBLE, r->out);
    while (*at && *at != ';' && *at != '{') {
        size_t length = word_length(at);
        const char *after = at + length;
        if (length == 0) {
            fputc(*at++, r->out);
            continue;
        }
        while (isspace((unsigned char)*after))
            after++;
        if (*after == '(' && is(at, length, "__launch_bounds__")) {
            keep_bounds(bounds, after);
            at = skip_brackets(after);
            continue;
        }
        fwrite(at, 1, length, r->out);
        if (*after == '(' && !is(at, length, "__attribute__")) {
            keep(r->kernel[r->kernels++], at, length);
            return at + length;
        }
        if (*after == '(') {
            const char *end = skip_brackets(after);
            fwrite(after, 1, (size_t)(end - after), r->out);
            at = end;
            continue;
        }
        at += length;
    }
    return NULL;
}

/* The array's name stands before its bracket. */
static void keep_dynamic(struct rewrite *r, const char *at)
{
    const char *end = at + strcspn(at, "[;");
    char name[NAME];

    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    at = end;
    while (is_word(at[-1]))
        at--;
    keep(name, at, (size_t)(end - at));
    for (int i = 0; i < r->dynamics; i++)
        if (strcmp(r->dynamic[i], name) == 0)
            return;
    if (r->dynamics < MOST)
        memcpy(r->dynamic[r->dynamics++], name, sizeof name);
}

static void rewrite_shared(struct rewrite *r, const char *after, const char *before, size_t length)
{
    bool external = before && is(before, length, "extern"),
         declared = before && is(before, length, "static");

    if (external) {
        keep_dynamic(r, after);
        fputs("__attribute__((visibility(\"hidden\")))", r->out);
        return;
    }
    fprintf(r->out, "%s %s", declared ? "" : "static",
            r->sectioned ? "__attribute__((section(\"fake_shared\")))" : "");
}

/* Copies a literal; returns its end. */
static const char *copy_literal(const char *at, FILE *out)
{
    const char *end = at + 1;

    while (*end && *end != *at && *end != '\n')
        end += *end == '\\' && end[1] ? 2 : 1;
    end += *end == *at;
    fwrite(at, 1, (size_t)(end - at), out);
    return end;
}

static bool rewrite_text(struct rewrite *r, const char *at)
{
    const char *before = NULL;
    size_t before_length = 0;

    while (*at) {
        size_t length = word_length(at);
        if (length == 0) {
            if (*at == '"' || *at == '\'')
                at = copy_literal(at, r->out);
            else
                fputc(*at++, r->out);
            continue;
        }
        if (is(at, length, "__global__")) {
            at = r->kernels < MOST ? find_kernel(r, at + length) : NULL;
            if (!at)
                return false;
            before = NULL;
            continue;
        }
        if (is(at, length, "__shared__"))
            rewrite_shared(r, at + length, before, before_length);
        else
            fwrite(at, 1, length, r->out);
        before = at, before_length = length;
        at += length;
    }
    return true;
}

bool fake_rewrite(const char *text, bool sectioned, FILE *out)
{
    static struct rewrite r; /* large; callers hold a lock */

    memset(&r, 0, sizeof r);
    r.out = out, r.sectioned = sectioned;
    if (!rewrite_text(&r, text))
        return false;
    fprintf(out,
            "\n# 1 \"fake_rewrite.c\"\n"
            "extern \"C\" {\n__attribute__((section(\".data\"))) struct fake_device fake_device;\n"
            "__attribute__((aligned(4096), section(\".fake_dynamic,\\\"aw\\\",@nobits#\")))\n"
            "char fake_dynamic[%d + 8192];\n",
            (int)FAKE_MOST_SHARED);
    for (int i = 0; i < r.dynamics; i++)
        fprintf(out, "__asm__(\".globl %s\\n.hidden %s\\n.set %s, fake_dynamic\");\n", r.dynamic[i],
                r.dynamic[i], r.dynamic[i]);
    for (int i = 0; i < r.kernels; i++)
        fprintf(out,
                "extern " VISIBLE
                " struct fake_kernel fake_kernel_%s;\n"
                "__attribute__((section(\".data\"))) struct fake_kernel fake_kernel_%s =\n"
                "    fake_describe<%s>(%s);\n",
                r.kernel[i], r.kernel[i], r.kernel[i], r.bounds[i]);
    fprintf(out, "}\n");
    return !ferror(out);
}
