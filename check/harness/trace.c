/*
 * trace.c - appends lines to the file that GRAM_TEST_TRACE names
 *
 * The file is opened for every line: tests fork, close what they did not open and count their
 * files.
 *
 * SPDX-License-Identifier: MIT
 */
#include "trace.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LONGEST = 4096
};

static const char *wanted_file(void)
{
    const char *name = getenv("GRAM_TEST_TRACE");

    return name && *name ? name : NULL;
}

bool trace_wanted(void)
{
    return wanted_file() != NULL;
}

void trace_line(const char *format, ...)
{
    const char *name = wanted_file();
    char text[LONGEST];
    int length, file;
    va_list args;

    if (!name)
        return;
    va_start(args, format);
    length = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (length < 0 || length >= (int)sizeof text - 1 || file < 0) {
        fprintf(stderr, "trace: a line of %d bytes does not go to %s\n", length, name);
        abort(); /* a trace that lacks a line would prove nothing */
    }
    text[length++] = '\n';
    if (write(file, text, (size_t)length) != length) {
        fprintf(stderr, "trace: %s cannot be written\n", name);
        abort();
    }
    (void)close(file);
}

uint64_t trace_hash(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}

/* One conversion of a format, behind its %. */
struct conversion {
    int stars; /* ints before the value, for the width and the precision */
    int wide;  /* l, ll, z, j or t: 64 bits */
    char kind;
};

static const char *read_conversion(const char *at, struct conversion *c)
{
    *c = (struct conversion){0};
    for (; *at && strchr("-+ #0123456789.*hlzjt", *at); at++) {
        c->stars += *at == '*';
        c->wide |= strchr("lzjt", *at) != NULL;
    }
    c->kind = *at;
    return *at ? at + 1 : at;
}

uint64_t trace_numbers(uint64_t hash, int64_t *count, const char *format, va_list args)
{
    struct conversion c;

    while ((format = strchr(format, '%')) != NULL) {
        format = read_conversion(format + 1, &c);
        if (c.kind == '%')
            continue;
        if (!c.kind || !strchr("fFeEgGaAdiouxXcsp", c.kind))
            break; /* not known, nor what follows it */
        for (; c.stars > 0; c.stars--)
            (void)va_arg(args, int);
        if (strchr("fFeEgGaA", c.kind)) {
            double value = va_arg(args, double);
            hash = trace_hash(hash, &value, sizeof value);
            ++*count;
            continue;
        }
        c.wide |= c.kind == 's' || c.kind == 'p';
        (void)(c.wide ? va_arg(args, int64_t) : va_arg(args, int));
    }
    return hash;
}
