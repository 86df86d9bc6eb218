/*
 * harness_args.c - reads sizes and name=value parameters and checks them against the operation's
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_args.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The index'th of the words that blanks separate; its length, 0 if there is none. */
static size_t word_of(const char *text, int index, const char **word)
{
    text += strspn(text, " ");
    for (; index > 0; index--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    *word = text;
    return strcspn(text, " ");
}

static int word_count(const char *text)
{
    const char *word;
    int count = 0;

    while (word_of(text, count, &word) > 0)
        count++;
    return count;
}

const struct case_op *request_op(const char *name)
{
    const struct case_op *op = harness_find(name);

    if (op)
        return op;
    fprintf(stderr, "no operation is called '%s'; there are:", name);
    for (int i = 0; harness_ops[i]; i++)
        fprintf(stderr, " %s", harness_ops[i]->name);
    fputc('\n', stderr);
    return NULL;
}

static int usage(const struct case_op *op)
{
    fprintf(stderr, "usage: %s %s%s [%s]\n", op->name, op->sizes, op->open ? "..." : "",
            op->params);
    return HARNESS_USAGE;
}

/* True if params of the operation have a default for the name in "name=value". */
static bool known_param(const struct case_op *op, const char *param)
{
    size_t length = strcspn(param, "=") + 1, size;
    const char *word;

    for (int i = 0; (size = word_of(op->params, i, &word)) > 0; i++)
        if (size >= length && strncmp(word, param, length) == 0)
            return true;
    return false;
}

/* A size, or P and Q of PxQ where the operation is open. */
static bool parse_size(const char *text, bool open, int64_t *out, int64_t *width)
{
    char *end;

    errno = 0;
    *out = *width = strtoll(text, &end, 10);
    if (open && end != text && *end == 'x') {
        text = end + 1;
        *width = strtoll(text, &end, 10);
    }
    return end != text && !*end && !errno && *out >= 0 && *width >= 0;
}

static bool parse_dtype(const char *text, gram_dtype *out)
{
    static const struct {
        const char *name;
        gram_dtype dtype;
    } names[] = {
        { "f32",  GRAM_F32},
        { "f64",  GRAM_F64},
        { "f16",  GRAM_F16},
        {"bf16", GRAM_BF16},
        { "i32",  GRAM_I32},
        { "i64",  GRAM_I64},
    };

    for (int i = 0; i < LENGTH(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            *out = names[i].dtype;
            return true;
        }
    return false;
}

static int parse_param(struct request *r, int *count, const char *word)
{
    if (!known_param(r->op, word)) {
        fprintf(stderr, "%s has no parameter '%.*s'\n", r->op->name, (int)strcspn(word, "="), word);
        return usage(r->op);
    }
    if (*count == HARNESS_MAX_PARAMS) {
        fprintf(stderr, "more than %d parameters\n", HARNESS_MAX_PARAMS);
        return HARNESS_USAGE;
    }
    r->params[(*count)++] = word;
    return HARNESS_RIGHT;
}

int request_parse(struct request *r, const struct case_op *op, int count, char *const *words)
{
    int wanted = word_count(op->sizes), params = 0, status;

    *r = (struct request){.op = op};
    for (int i = 0; i < count; i++) {
        if (strchr(words[i], '=')) {
            status = parse_param(r, &params, words[i]);
            if (status != HARNESS_RIGHT)
                return status;
            continue;
        }
        if ((r->size_count == wanted && !op->open) || r->size_count == HARNESS_MAX_SIZES ||
            !parse_size(words[i], op->open && r->size_count > 0, &r->sizes[r->size_count],
                        &r->widths[r->size_count])) {
            fprintf(stderr, "'%s' is not a size of %s\n", words[i], op->name);
            return usage(op);
        }
        r->size_count++;
    }
    if (r->size_count < wanted) {
        fprintf(stderr, "%s takes %d sizes, %d are given\n", op->name, wanted, r->size_count);
        return usage(op);
    }
    r->args = (struct case_args){
        .sizes = r->sizes,
        .widths = r->widths,
        .size_count = r->size_count,
        .dtype = GRAM_F32,
        .params = r->params,
    };
    if (!parse_dtype(case_param(&r->args, "dtype", "f32"), &r->args.dtype)) {
        fprintf(stderr, "dtype=%s, expected f32, f64, f16, bf16, i32 or i64\n",
                case_param(&r->args, "dtype", "f32"));
        return HARNESS_USAGE;
    }
    return HARNESS_RIGHT;
}

void request_print(const struct request *r, FILE *out)
{
    const char *word;

    fputs(r->op->name, out);
    for (int i = 0; i < r->size_count; i++) {
        int length = (int)word_of(r->op->sizes, i, &word);
        fprintf(out, " %.*s=%lld", length, word, (long long)r->sizes[i]);
    }
    for (int i = 0; r->params[i]; i++)
        fprintf(out, " %s", r->params[i]);
}

/* One line of a file of shapes; cut into words in place. */
static int each_line(char *line, const struct case_op *op,
                     int (*body)(const struct request *r, void *arg), void *arg)
{
    char *words[HARNESS_MAX_SIZES + HARNESS_MAX_PARAMS], *rest = NULL;
    struct request r;
    int count = 0, status;

    line[strcspn(line, "#\r\n")] = '\0';
    for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count == LENGTH(words)) {
            fprintf(stderr, "more than %d words in a line\n", LENGTH(words));
            return HARNESS_USAGE;
        }
        words[count++] = word;
    }
    if (count == 0)
        return HARNESS_RIGHT;
    status = request_parse(&r, op, count, words);
    if (status == HARNESS_RIGHT)
        status = body(&r, arg);
    (void)fflush(stdout); /* a later problem may be killed by a time limit */
    return status;
}

static int each_of_file(const char *path, const struct case_op *op,
                        int (*body)(const struct request *r, void *arg), void *arg)
{
    FILE *file = fopen(path, "r");
    char line[512];
    int worst = HARNESS_RIGHT;

    if (!file) {
        fprintf(stderr, "cannot open %s: %s\n", path, strerror(errno));
        return HARNESS_NO_INPUT;
    }
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        int status = each_line(line, op, body, arg);
        if (status == HARNESS_USAGE)
            fprintf(stderr, "%s:%d\n", path, number);
        worst = status > worst ? status : worst;
    }
    fclose(file);
    return worst;
}

int request_each(int argc, char *const *argv, int (*body)(const struct request *r, void *arg),
                 void *arg)
{
    const struct case_op *op;
    struct request r;
    int status;

    if (argc < 1) {
        fprintf(stderr, "no operation is given\n");
        return HARNESS_USAGE;
    }
    op = request_op(argv[0]);
    if (!op)
        return HARNESS_USAGE;
    if (argc == 2 && argv[1][0] == '@')
        return each_of_file(argv[1] + 1, op, body, arg);
    status = request_parse(&r, op, argc - 1, argv + 1);
    return status == HARNESS_RIGHT ? body(&r, arg) : status;
}

const char *case_param(const struct case_args *args, const char *name, const char *otherwise)
{
    size_t length = strlen(name);

    for (int i = 0; args->params && args->params[i]; i++)
        if (strncmp(args->params[i], name, length) == 0 && args->params[i][length] == '=')
            return args->params[i] + length + 1;
    return otherwise;
}

double case_number(const struct case_args *args, const char *name, double otherwise)
{
    const char *text = case_param(args, name, NULL);
    double value;
    char *end;

    if (!text)
        return otherwise;
    value = strtod(text, &end);
    if (end != text && !*end)
        return value;
    fprintf(stderr, "%s=%s is not a number\n", name, text);
    return NAN;
}
