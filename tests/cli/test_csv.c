/*
 * test_csv.c - delimited text: what is read, and what is said about text that cannot be
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum exit_status parse(const char *bytes, size_t size, const struct csv_options *options,
                              struct table *t, struct failure *why)
{
    static const struct csv_options defaults = {.delimiter = '\0'};
    struct text text = {malloc(size + 1), size};

    *why = (struct failure){""};
    if (!text.data)
        exit(2);
    memcpy(text.data, bytes, size);
    text.data[size] = '\0';
    return csv_parse(text, "t.csv", options ? options : &defaults, t, why);
}

/* The table as one line: names and kinds, then rows; "~" is missing. */
static void flatten(const struct table *t, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int64_t c = 0; c < t->width && used < size; c++)
        used += (size_t)snprintf(out + used, size - used, "%s:%c ", t->columns[c].name,
                                 "?nti"[t->columns[c].kind]);
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t c = 0; c < t->width && used < size; c++) {
            const struct column *column = &t->columns[c];
            const char *end = c + 1 < t->width ? "," : "/";
            if (column->kind == COLUMN_NUMBER && !isnan(column->numbers[row]))
                used +=
                    (size_t)snprintf(out + used, size - used, "%g%s", column->numbers[row], end);
            else if (column->kind == COLUMN_TEXT && column->texts[row])
                used += (size_t)snprintf(out + used, size - used, "%s%s", column->texts[row], end);
            else
                used += (size_t)snprintf(out + used, size - used, "~%s", end);
        }
}

/* What is read, and why the row is here. */
/* clang-format off */
static const struct {
    const char *text, *table, *why;
} good[] = {
    {"a,b\n1,2\n3,4\n", "a:n b:n 1,2/3,4/", "the plain case"},
    {"a,b\n1,2\n3,4", "a:n b:n 1,2/3,4/", "no newline at the end"},
    {"a,b\r\n1,2\r\n", "a:n b:n 1,2/", "CRLF"},
    {"a,b\r1,2\r", "a:n b:n 1,2/", "CR alone"},
    {"\xef\xbb\xbf" "a,b\n1,2\n", "a:n b:n 1,2/", "byte order mark"},
    {"a;b\n1;2\n", "a:n b:n 1,2/", "semicolons"},
    {"a\tb c\n1\t2\n", "a:n b c:n 1,2/", "tabs"},
    {"\"a,b;;\";c;d\n1;2;3\n", "a,b;;:n c:n d:n 1,2,3/", "delimiters in quotes do not count"},
    {"a,b\n\n1,2\n   \n3,4\n\n", "a:n b:n 1,2/3,4/", "blank lines"},
    {"a,b\n1,\n,2\n", "a:n b:n 1,~/~,2/", "empty fields"},
    {"a,b\nNA,x\nnan,NULL\nN/A,?\nnull,NaN\n", "a:n b:t ~,x/~,~/~,~/~,~/", "names of missing"},
    {"a\n\"\"\n1\n", "a:n ~/1/", "a quoted empty field is missing"},
    {"a,b\n1,x\n2,3\n", "a:n b:t 1,x/2,3/", "a column that begins with text"},
    {"a,b\n1,2\n2,x\n", "a:n b:t 1,2/2,x/", "a column that turns to text keeps its texts"},
    {"a,b\n 1 , x y \n", "a:n b:t 1,x y/", "blanks around fields"},
    {"a,b\n\"1\",\" x \"\n", "a:n b:t 1, x /", "quoted numbers; blanks in quotes stay"},
    {"a,b\n1, \"x,y\" \n", "a:n b:t 1,x,y/", "blanks around quotes"},
    {"a\n\"say \"\"hi\"\"\"\n", "a:t say \"hi\"/", "doubled quotes"},
    {"a\n\"\"\"\"\n", "a:t \"/", "nothing but a quote"},
    {"a,b\n\"x\ny\r\nz\",1\n", "a:t b:n x\ny\r\nz,1/", "line ends in quotes"},
    {"a\n5\" pipe\n", "a:t 5\" pipe/", "a quote inside an unquoted field"},
    {"a,b\n1e3,-.5e-1\n+7,inf\n", "a:n b:n 1000,-0.05/7,inf/", "forms of numbers"},
    {"a\n0x10\n1_0\n", "a:t 0x10/1_0/", "what looks like a number to others"},
    {"a,b\n", "a:n b:n ", "a header only"},
    {"a\n1\n", "a:n 1/", "one column, one row"},
    {",b,\n1,2,3\n", "0:n b:n 2:n 1,2,3/", "columns without names"},
    {"a,b,c\n1,2,\n", "a:n b:n c:n 1,2,~/", "a delimiter at the end is an empty field"},
    {"\"a \"\"q\"\"\",b\n1,2\n", "a \"q\":n b:n 1,2/", "quotes in a name"},
    {"a,b\nNA,NA\n,\n", "a:n b:n ~,~/~,~/", "columns with nothing in them"},
    {"gr\xc3\xb6\xc3\x9f" "e\n\xe2\x82\xac\n", "gr\xc3\xb6\xc3\x9f" "e:t \xe2\x82\xac/", "UTF-8"},
};
/* clang-format on */

/* clang-format off */
static const struct {
    const char *text;
    size_t size; /* 0: strlen */
    const char *message;
} bad[] = {
    {"", 0, "t.csv: the file is empty"},
    {"\n \n", 0, "t.csv: the file is empty"},
    {"a,b\n1\n", 0, "t.csv:2: 1 field, but the first line has 2"},
    {"a,b\n1,2\n\n1,2,3,4\n", 0, "t.csv:4: 4 fields, but the first line has 2"},
    {"a,b\n\"x\ny\",1\n5\n", 0, "t.csv:4: 1 field, but the first line has 2"},
    {"a,b\n1,\"2\n3,4\n", 0, "t.csv:2: column \"b\": a quote is opened but never closed"},
    {"a,\"b\n1,2\n", 0, "t.csv:1: a quote is opened but never closed"},
    {"a,b\n1,\"2\"x\n", 0, "t.csv:2: column \"b\": there is text after a closing quote: \"x\""},
    {"a,b\n1,\0002\n", 8, "t.csv:2: column \"b\": there is a NUL byte; is this a text file?"},
    {"a,b\n1,2\n\0", 9, "t.csv:3: column \"a\": there is a NUL byte; is this a text file?"},
    {"a,b,a\n1,2,3\n", 0, "t.csv: two columns are called \"a\""},
    {"1,,1\n", 0, "t.csv: two columns are called \"1\"; if the first line is data, use --no-header"},
    {"a,b\n1,caf\xe9\n", 0,
     "t.csv:2: column \"b\": byte 0xe9 is not UTF-8; convert the file, for example with iconv -f "
     "latin1 -t utf-8"},
    {"caf\xe9\n1\n", 0,
     "t.csv:1: byte 0xe9 is not UTF-8; convert the file, for example with iconv -f latin1 -t "
     "utf-8"},
    {"\xff\xfe" "a\0", 4, "t.csv: the text is UTF-16; save it as UTF-8"},
};
/* clang-format on */

static void test_good(struct harness *h)
{
    for (int i = 0; i < LENGTH(good); i++) {
        struct table t;
        struct failure why;
        char line[512];
        h->where = good[i].why;
        enum exit_status status = parse(good[i].text, strlen(good[i].text), NULL, &t, &why);
        CHECK(h, status == CLI_OK, "%s", why.text);
        flatten(&t, line, sizeof line);
        CHECK(h, strcmp(line, good[i].table) == 0, "read %s, expected %s", line, good[i].table);
        table_free(&t);
    }
}

static void test_bad(struct harness *h)
{
    for (int i = 0; i < LENGTH(bad); i++) {
        struct table t;
        struct failure why;
        size_t size = bad[i].size ? bad[i].size : strlen(bad[i].text);
        h->where = bad[i].message;
        CHECK(h, parse(bad[i].text, size, NULL, &t, &why) == CLI_BAD_DATA, "not refused");
        CHECK(h, strcmp(why.text, bad[i].message) == 0, "said %s", why.text);
        CHECK(h, t.width == 0 && t.columns == NULL, "the table is not empty");
        table_free(&t);
    }
}

static enum column_kind kind(const void *user, const char *name)
{
    const char *kinds = user;

    return (enum column_kind)(kinds[name[0] - 'a'] - '0');
}

static void test_kinds(struct harness *h)
{
    static const char text[] = "a,b,c\n1,x,2\n3,y,4\n";
    struct csv_options options = {.kind = kind};
    struct table t;
    struct failure why;
    char line[128];

    h->where = "kinds from the caller";
    options.user = "230"; /* text, ignored, any */
    CHECK(h, parse(text, strlen(text), &options, &t, &why) == CLI_OK, "%s", why.text);
    flatten(&t, line, sizeof line);
    CHECK(h, strcmp(line, "a:t b:i c:n 1,~,2/3,~,4/") == 0, "read %s", line);
    table_free(&t);
    options.user = "011"; /* b must be a number */
    CHECK(h, parse(text, strlen(text), &options, &t, &why) == CLI_BAD_DATA, "not refused");
    CHECK(h, strcmp(why.text, "t.csv:2: column \"b\": \"x\" is not a number") == 0, "said %s",
          why.text);
    table_free(&t);
}

static void test_headers(struct harness *h)
{
    static const struct {
        enum csv_header header;
        const char *text, *table;
    } rows[] = {
        {  CSV_HEADER_NO,   "1,x\n2,y\n", "0:n 1:t 1,x/2,y/"},
        {CSV_HEADER_AUTO,   "1,2\n3,4\n", "0:n 1:n 1,2/3,4/"},
        {CSV_HEADER_AUTO,  "1,NA\n3,4\n", "0:n 1:n 1,~/3,4/"},
        {CSV_HEADER_AUTO,   "x,2\n3,4\n",     "x:n 2:n 3,4/"},
        {CSV_HEADER_AUTO, "NA,NA\n3,4\n",               NULL}, /* two columns of one name */
        { CSV_HEADER_YES,   "1,2\n3,4\n",     "1:n 2:n 3,4/"},
    };

    h->where = "headers";
    for (int i = 0; i < LENGTH(rows); i++) {
        struct csv_options options = {.header = rows[i].header};
        struct table t;
        struct failure why;
        char line[128];
        enum exit_status status = parse(rows[i].text, strlen(rows[i].text), &options, &t, &why);
        CHECK(h, (status == CLI_OK) == (rows[i].table != NULL), "row %d: %s", i, why.text);
        flatten(&t, line, sizeof line);
        CHECK(h, status != CLI_OK || strcmp(line, rows[i].table) == 0, "row %d: read %s", i, line);
        table_free(&t);
    }
}

static void test_decimal_comma(struct harness *h)
{
    static const char text[] = "a;b;c\n1,5;x;1.5\n-2,5e3;1,2,3;2\n7;;,5\n";
    struct csv_options options = {.comma = 1};
    struct table t;
    struct failure why;
    char line[128];

    h->where = "decimal comma";
    CHECK(h, parse(text, strlen(text), &options, &t, &why) == CLI_OK, "%s", why.text);
    flatten(&t, line, sizeof line);
    CHECK(h, strcmp(line, "a:n b:t c:t 1.5,x,1.5/-2500,1,2,3,2/7,~,,5/") == 0, "read %s", line);
    table_free(&t);
}

/* A field as long as the limit is read, a longer one is refused, quoted or not. */
static void test_long_fields(struct harness *h)
{
    char *text = malloc(CSV_FIELD_LIMIT + 64);
    struct table t;
    struct failure why;

    h->where = "long fields";
    if (!text)
        exit(2);
    for (int quoted = 0; quoted < 2; quoted++)
        for (int extra = 0; extra < 2; extra++) {
            size_t size = (size_t)CSV_FIELD_LIMIT + (size_t)extra;
            int used = sprintf(text, "a,b\n1,%s", quoted ? "\"" : "");
            memset(text + used, 'x', size);
            strcpy(text + (size_t)used + size, quoted ? "\"\n" : "\n");
            enum exit_status status = parse(text, strlen(text), NULL, &t, &why);
            CHECK(h, status == (extra ? CLI_BAD_DATA : CLI_OK), "status %d", (int)status);
            CHECK(h,
                  !extra || strcmp(why.text,
                                   "t.csv:2: column \"b\": a field is longer than 1048576 "
                                   "bytes; is a closing quote missing?") == 0,
                  "said %s", why.text);
            CHECK(h, extra || strlen(t.columns[1].texts[0]) == size, "cut");
            table_free(&t);
        }
    free(text);
}

/* Thousands of rows and columns: growth, and the place of an error far down. */
static void test_large(struct harness *h)
{
    enum {
        ROWS = 20000
    };
    char *text = malloc(ROWS * 40 + 64);
    struct table t;
    struct failure why;
    size_t used;

    h->where = "20000 rows";
    if (!text)
        exit(2);
    used = (size_t)sprintf(text, "i,half,word\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(text + used, "%d,%.1f,w%d\n", i, i / 2.0, i % 7);
    CHECK(h, parse(text, used, NULL, &t, &why) == CLI_OK, "%s", why.text);
    CHECK(h, t.rows == ROWS, "%lld rows", (long long)t.rows);
    for (int i = 0; i < ROWS && t.rows == ROWS; i++) {
        char word[16];
        sprintf(word, "w%d", i % 7);
        CHECK(h,
              t.columns[0].numbers[i] == i && t.columns[1].numbers[i] == i / 2.0 &&
                  strcmp(t.columns[2].texts[i], word) == 0,
              "row %d", i);
    }
    table_free(&t);
    used += (size_t)sprintf(text + used, "1,2\n");
    CHECK(h, parse(text, used, NULL, &t, &why) == CLI_BAD_DATA, "not refused");
    CHECK(h, strcmp(why.text, "t.csv:20002: 2 fields, but the first line has 3") == 0, "said %s",
          why.text);
    table_free(&t);
    free(text);
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    test_good(&h);
    test_bad(&h);
    test_kinds(&h);
    test_headers(&h);
    test_decimal_comma(&h);
    test_long_fields(&h);
    test_large(&h);
    printf("test_csv: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
