/*
 * csv_scan.c - the fields of delimited text, one after the other
 *
 * Only csv_unquote changes the text, so that the text can be scanned twice.
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_scan.h"
#include "csv.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char csv_sniff(const char *text)
{
    static const char candidates[] = ",\t;|";
    int64_t count[4] = {0};
    int quoted = 0, best = 0;

    for (; *text && (quoted || (*text != '\n' && *text != '\r')); text++) {
        const char *found = strchr(candidates, *text);
        quoted ^= *text == '"';
        if (found && !quoted)
            count[found - candidates]++;
    }
    for (int i = 1; i < LENGTH(count); i++)
        if (count[i] > count[best])
            best = i;
    return candidates[best];
}

static inline int is_blank(const struct csv_scan *s, char c)
{
    return (c == ' ' || c == '\t') && c != s->delimiter;
}

int csv_scan_record(struct csv_scan *s)
{
    for (;;) {
        char *at = s->at;
        while (is_blank(s, *at))
            at++;
        if (*at != '\n' && *at != '\r')
            return at < s->end;
        s->at = at + (*at == '\r' && at[1] == '\n' ? 2 : 1);
        s->line++;
    }
}

enum exit_status csv_fail(const struct csv_scan *s, struct failure *why, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!s->column)
        return fail(why, CLI_BAD_DATA, "%s:%lld: %s", s->path, (long long)s->field_line, text);
    return fail(why, CLI_BAD_DATA, "%s:%lld: column \"%.200s\": %s", s->path,
                (long long)s->field_line, s->column, text);
}

static enum exit_status nul_byte(const struct csv_scan *s, struct failure *why)
{
    return csv_fail(s, why, "there is a NUL byte; is this a text file?");
}

static enum exit_status too_long(const struct csv_scan *s, struct failure *why)
{
    return csv_fail(s, why, "a field is longer than %d bytes; is a closing quote missing?",
                    CSV_FIELD_LIMIT);
}

/* Scans from after the opening quote to after the closing one. */
static enum exit_status scan_quoted(struct csv_scan *s, struct csv_field *out, struct failure *why)
{
    out->begin = s->at;
    for (;; s->at++) {
        char c = *s->at;
        if (c == '"' && s->at[1] != '"')
            break;
        if (c == '"') {
            out->doubled = 1;
            s->at++;
        } else if (c == '\n' || (c == '\r' && s->at[1] != '\n')) {
            s->line++;
        } else if (c == '\0') {
            if (s->at != s->end)
                return nul_byte(s, why);
            return csv_fail(s, why, "a quote is opened but never closed");
        }
        if (s->at - out->begin >= CSV_FIELD_LIMIT)
            return too_long(s, why);
    }
    out->end = s->at++;
    while (is_blank(s, *s->at))
        s->at++;
    if (!csv_scan_end(s, &out->last)) {
        char quoted[TEXT_QUOTED];
        if (*s->at == '\0')
            return nul_byte(s, why);
        return csv_fail(s, why, "there is text after a closing quote: %s",
                        text_quote(quoted, s->at, s->at + strcspn(s->at, "\r\n")));
    }
    return CLI_OK;
}

enum exit_status csv_scan_field(struct csv_scan *s, struct csv_field *out, struct failure *why)
{
    const char delimiter = s->delimiter;

    out->doubled = 0;
    s->field_line = s->line;
    while (is_blank(s, *s->at))
        s->at++;
    if (*s->at == '"') {
        s->at++;
        return scan_quoted(s, out, why);
    }
    char *at = s->at;
    while (*at != delimiter && (unsigned char)*at > '\r')
        at++;
    while (*at != delimiter && *at != '\n' && *at != '\r' && *at != '\0')
        at++; /* the rare field with a control character inside */
    out->begin = s->at;
    out->end = s->at = at;
    while (out->end > out->begin && is_blank(s, out->end[-1]))
        out->end--;
    if (!csv_scan_end(s, &out->last))
        return nul_byte(s, why);
    if (out->end - out->begin > CSV_FIELD_LIMIT)
        return too_long(s, why);
    return CLI_OK;
}

void csv_unquote(struct csv_field *f)
{
    if (f->doubled) {
        char *to = f->begin;
        for (const char *from = f->begin; from < f->end; from++) {
            *to++ = *from;
            from += *from == '"'; /* its twin */
        }
        f->end = to;
        f->doubled = 0;
    }
    *f->end = '\0';
}

int csv_is_missing(const struct csv_field *f)
{
    static const char *const names[] = {"?", "NA", "N/A", "NaN", "nan", "null", "NULL"};
    size_t size = (size_t)(f->end - f->begin);

    if (size == 0)
        return 1;
    if (size > 4 || (*f->begin != 'N' && *f->begin != 'n' && *f->begin != '?'))
        return 0;
    for (int i = 0; i < LENGTH(names); i++)
        if (strlen(names[i]) == size && memcmp(names[i], f->begin, size) == 0)
            return 1;
    return 0;
}
