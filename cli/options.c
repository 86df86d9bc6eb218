/*
 * options.c - parses the command line of a command into its settings
 *
 * SPDX-License-Identifier: MIT
 */
#include "closest.h"
#include "device.h"
#include "number.h"
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OPTIONS = 64,
    FIRST_LONG = 256, /* getopt_long returns FIRST_LONG + place for every option */
};

/* All rows of a command in one list, with the addresses that they store to. */
struct flat {
    const struct option_row *row[MAX_OPTIONS];
    char *to[MAX_OPTIONS];
    int count;
};

const struct option_row threads_options[] = {
    INTEGER("threads", 't', "N", offsetof(struct common_settings, threads), NULL, 1, 1024,
            "use N threads (default: one for each processor that this process may run on)"),
    OPTION_END,
};

const struct option_row common_options[] = {
    FLAG("help", 'h', offsetof(struct common_settings, help), "show this help"),
    OPTION_END,
};

const struct option_row input_options[] = {
    CHARACTER(
        "delimiter", 0, "CHAR", offsetof(struct input_settings, delimiter),
        "the separator of fields in text input: one character, or \"tab\" (default: comma, tab, "
        "semicolon or |, whichever is most frequent in the first line)"),
    CHOICE("decimal", 0, "MARK", offsetof(struct input_settings, decimal), "point", "point|comma",
           "the decimal mark of numbers in text input"),
    FLAG("no-header", 0, offsetof(struct input_settings, no_header),
         "treat the first line of text input as data; columns are called 0, 1, 2, ..."),
    OPTION_END,
};

const struct option_row json_options[] = {
    FLAG("json", 0, 0, "write JSON"),
    OPTION_END,
};

static enum exit_status parse_number(const struct option_row *row, const char *text, double *value,
                                     struct failure *why)
{
    if (!number_parse_all(text, value))
        return fail(why, CLI_USAGE, "--%s is \"%s\", which is not a number", row->name, text);
    if ((row->low != 0 || row->high != 0) && !(*value >= row->low && *value <= row->high))
        return fail(why, CLI_USAGE, "--%s is %s, expected a number from %g to %g", row->name, text,
                    row->low, row->high);
    return CLI_OK;
}

static enum exit_status parse_integer(const struct option_row *row, const char *text,
                                      int64_t *value, struct failure *why)
{
    double number;

    if (!number_parse_all(text, &number) || number != floor(number) || fabs(number) > 0x1p53)
        return fail(why, CLI_USAGE, "--%s is \"%s\", which is not a whole number", row->name, text);
    if ((row->low != 0 || row->high != 0) && !(number >= row->low && number <= row->high))
        return fail(why, CLI_USAGE, "--%s is %s, expected a whole number from %.0f to %.0f",
                    row->name, text, row->low, row->high);
    *value = (int64_t)number;
    return CLI_OK;
}

static enum exit_status parse_choice(const struct option_row *row, const char *text, int *value,
                                     struct failure *why)
{
    const char *choice = row->choices;

    for (*value = 0; choice; (*value)++) {
        size_t size = strcspn(choice, "|");
        if (strlen(text) == size && memcmp(text, choice, size) == 0)
            return CLI_OK;
        choice = choice[size] ? choice + size + 1 : NULL;
    }
    return fail(why, CLI_USAGE, "--%s is \"%s\", expected one of %s", row->name, text,
                row->choices);
}

/* Reads a delimiter.  It cannot be part of a number, a quote or a line end. */
static enum exit_status parse_character(const struct option_row *row, const char *text, char *value,
                                        struct failure *why)
{
    *value = strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0 ? '\t' : text[0];
    if (*value != '\t' && (strlen(text) != 1 || isalnum((unsigned char)*value) ||
                           strchr("\"\n\r+-.?", *value) || !isprint((unsigned char)*value)))
        return fail(why, CLI_USAGE,
                    "--%s is \"%s\", expected one character that cannot be part of a number or a "
                    "name, or \"tab\"",
                    row->name, text);
    return CLI_OK;
}

static enum exit_status add_text(const struct option_row *row, const char *text,
                                 struct option_texts *texts, struct failure *why)
{
    if (texts->count == OPTION_MOST_TEXTS)
        return fail(why, CLI_USAGE, "--%s \"%s\" is one too many, expected it at most %d times",
                    row->name, text, OPTION_MOST_TEXTS);
    texts->text[texts->count++] = text;
    return CLI_OK;
}

static enum exit_status store(const struct option_row *row, char *to, const char *text,
                              struct failure *why)
{
    switch (row->kind) {
    case OPTION_FLAG:
        *(int *)(void *)to = 1;
        return CLI_OK;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_COLUMN:
    case OPTION_COLUMNS:
        *(const char **)(void *)to = text;
        return CLI_OK;
    case OPTION_INTEGER:
        return parse_integer(row, text, (int64_t *)(void *)to, why);
    case OPTION_NUMBER:
        return parse_number(row, text, (double *)(void *)to, why);
    case OPTION_CHOICE:
        return parse_choice(row, text, (int *)(void *)to, why);
    case OPTION_CHARACTER:
        return parse_character(row, text, to, why);
    case OPTION_TEXTS:
        return add_text(row, text, (struct option_texts *)(void *)to, why);
    }
    return CLI_OK;
}

static void flatten(const struct command *command, char *settings, struct flat *flat)
{
    for (const struct option_group *g = command->groups; g->title; g++)
        for (const struct option_row *row = g->rows; row->name; row++) {
            flat->row[flat->count] = row;
            flat->to[flat->count] = settings + g->base + row->offset;
            flat->count++;
        }
}

static enum exit_status set_fallbacks(const struct flat *flat, struct failure *why)
{
    for (int i = 0; i < flat->count; i++) {
        const struct option_row *row = flat->row[i];
        if (row->fallback)
            TRY(store(row, flat->to[i], row->fallback, why));
        else if (row->kind == OPTION_NUMBER)
            *(double *)(void *)flat->to[i] = NAN;
        else if (row->kind == OPTION_INTEGER)
            *(int64_t *)(void *)flat->to[i] = -1;
        else if (row->kind == OPTION_CHOICE)
            *(int *)(void *)flat->to[i] = -1;
    }
    return CLI_OK;
}

/* Fails with "--m could be --metric or --memory": the names that begin like the argument. */
static enum exit_status ambiguous(const struct flat *flat, const char *argument,
                                  struct failure *why)
{
    char names[400] = "";
    size_t used = 0;

    for (int i = 0; i < flat->count && used < sizeof names - 1; i++)
        if (strncmp(flat->row[i]->name, argument + 2, strcspn(argument + 2, "=")) == 0)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s",
                                     used ? " or " : "", flat->row[i]->name);
    return fail(why, CLI_USAGE, "%.100s could be %s", argument, names);
}

/* Fails for an argument that is not an option of this command, or that is an incomplete name. */
static enum exit_status unknown(const struct command *command, const struct flat *flat,
                                const char *argument, struct failure *why)
{
    char wanted[100], hint[CLOSEST_HINT];
    struct closest closest = {.wanted = wanted};
    size_t size = strcspn(argument + 2, "=");
    int begin_so = 0;

    snprintf(wanted, sizeof wanted, "%.*s", size < 99 ? (int)size : 99, argument + 2);
    for (int i = 0; i < flat->count; i++) {
        begin_so += strncmp(flat->row[i]->name, argument + 2, size) == 0;
        closest_offer(&closest, flat->row[i]->name);
    }
    if (begin_so > 1)
        return ambiguous(flat, argument, why);
    return fail(why, CLI_USAGE, "unknown option --%s%s (see gram %s --help)", wanted,
                closest_hint(&closest, "--", "", hint), command->name);
}

/* Fails for an argument that getopt_long does not accept. */
static enum exit_status misuse(const struct command *command, const struct flat *flat, int result,
                               const char *argument, struct failure *why)
{
    if (optopt > 0 && optopt < FIRST_LONG)
        return result == ':' ? fail(why, CLI_USAGE, "-%c needs a value", optopt)
                             : fail(why, CLI_USAGE, "unknown option -%c (see gram %s --help)",
                                    optopt, command->name);
    if (result == ':')
        return fail(why, CLI_USAGE, "%s needs a value", argument);
    if (optopt >= FIRST_LONG)
        return fail(why, CLI_USAGE, "--%s takes no value", flat->row[optopt - FIRST_LONG]->name);
    return unknown(command, flat, argument, why);
}

enum exit_status options_parse(const struct command *command, int argc, char **argv, void *settings,
                               int *count, struct failure *why)
{
    struct flat flat = {.count = 0};
    struct option names[MAX_OPTIONS + 1] = {0};
    char letters[2 * MAX_OPTIONS + 2] = ":";
    size_t used = 1;
    int result;

    flatten(command, settings, &flat);
    TRY(set_fallbacks(&flat, why));
    for (int i = 0; i < flat.count; i++) {
        const struct option_row *row = flat.row[i];
        int argument = row->kind == OPTION_FLAG ? no_argument : required_argument;
        names[i] = (struct option){row->name, argument, NULL, FIRST_LONG + i};
        if (row->letter) {
            letters[used++] = row->letter;
            if (argument == required_argument)
                letters[used++] = ':';
        }
    }
    opterr = 0;
    while ((result = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        int i = result - FIRST_LONG;
        if (result == '?' || result == ':')
            return misuse(command, &flat, result, argv[optind - 1], why);
        for (int k = 0; i < 0 && k < flat.count; k++)
            if (flat.row[k]->letter == result)
                i = k;
        TRY(store(flat.row[i], flat.to[i], optarg, why));
    }
    *count = argc - optind;
    memmove(argv, argv + optind, (size_t)(*count + 1) * sizeof *argv);
    return CLI_OK;
}

enum exit_status open_context(const struct common_settings *common, gram_context **g,
                              struct failure *why)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_status status;

    TRY(device_choose(common->device, &options.device, why));
    options.threads = common->threads > 0 ? (int)common->threads : 0;
    status = gram_context_create(&options, g);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, NULL);
}
