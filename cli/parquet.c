/*
 * parquet.c - reads tables of Parquet files with the library of DuckDB
 *
 * Parquet is a family of encodings and compressions that only its own libraries know whole.
 * DuckDB's has a stable interface of C and is one file without dependencies; the libraries of Arrow
 * have interfaces of C++, or need GLib.  It is opened when the first such file is read, so that
 * gram needs it neither where it is built nor where no file is Parquet.  The part of its interface
 * (duckdb.h, since version 1.0) that is used here is repeated.
 *
 * DuckDB casts every column to DOUBLE or to VARCHAR, so that two kinds of vectors are read here.
 * The table is measured before it is read: its texts take one block of memory.
 *
 * SPDX-License-Identifier: MIT
 */
#include "parquet.h"
#include "typed.h"
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- DuckDB ---------------------------------------------------------------------------------- */

#ifdef __APPLE__
#  define LIBRARY "libduckdb.dylib"
#else
#  define LIBRARY "libduckdb.so"
#endif

/* duckdb_result */
struct duckdb_result {
    uint64_t column_count, row_count, rows_changed;
    void *columns;
    char *error_message;
    void *internal_data;
};

/* duckdb_string_t: up to twelve bytes are in the structure itself, from `prefix` on */
struct duckdb_string {
    uint32_t length;
    char prefix[4];
    union {
        char inlined[8];
        const char *data;
    } rest;
};

enum {
    INLINED = 12 /* bytes of a text that a duckdb_string holds itself */
};

struct duckdb {
    int (*open)(const char *path, void **database);
    int (*connect)(void *database, void **connection);
    void (*disconnect)(void **connection);
    void (*close)(void **database);
    int (*query)(void *connection, const char *sql, struct duckdb_result *out);
    const char *(*result_error)(struct duckdb_result *result);
    void (*destroy_result)(struct duckdb_result *result);
    void *(*fetch_chunk)(struct duckdb_result result);
    void (*destroy_chunk)(void **chunk);
    uint64_t (*chunk_size)(void *chunk);
    void *(*chunk_vector)(void *chunk, uint64_t column);
    void *(*vector_data)(void *vector);
    uint64_t *(*vector_validity)(void *vector); /* NULL: all are valid */
};

#define FUNCTION(name, member)                       \
  {                                                  \
    "duckdb_" #name, offsetof(struct duckdb, member) \
  }

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct duckdb */
} functions[] = {
    FUNCTION(open, open),
    FUNCTION(connect, connect),
    FUNCTION(disconnect, disconnect),
    FUNCTION(close, close),
    FUNCTION(query, query),
    FUNCTION(result_error, result_error),
    FUNCTION(destroy_result, destroy_result),
    FUNCTION(fetch_chunk, fetch_chunk),
    FUNCTION(destroy_data_chunk, destroy_chunk),
    FUNCTION(data_chunk_get_size, chunk_size),
    FUNCTION(data_chunk_get_vector, chunk_vector),
    FUNCTION(vector_get_data, vector_data),
    FUNCTION(vector_get_validity, vector_validity),
};

/* What GRAM_DUCKDB says, unless the process has privileges that its caller lacks; else NULL. */
static const char *named_library(void)
{
#ifdef __APPLE__
    const char *named = issetugid() ? NULL : getenv("GRAM_DUCKDB");
#else
    const char *named = secure_getenv("GRAM_DUCKDB");
#endif

    return named && *named ? named : NULL;
}

/* The library stays open until the process ends: its threads may outlive a connection. */
static enum exit_status duckdb_load(struct duckdb *d, const char *path, struct failure *why)
{
    const char *named = named_library();
    void *library = dlopen(named ? named : LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;

    for (int i = 0; found && i < LENGTH(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        memcpy((char *)d + functions[i].offset, &function, sizeof function);
        found = function != NULL;
    }
    if (found)
        return CLI_OK;
    return fail(why, CLI_UNSUPPORTED,
                "%s: this is Parquet, and %s %s; install DuckDB's library of C, or make CSV of the "
                "file, as in: python3 -c 'import pandas; pandas.read_parquet(\"%.200s\")"
                ".to_csv(\"data.csv\", index=False)'",
                text_name(path), named ? named : "DuckDB (" LIBRARY ")",
                library ? "lacks functions of DuckDB 1.0" : "cannot be opened on this machine",
                path);
}

/* ---- A file that is being read --------------------------------------------------------------- */

struct source {
    enum source_kind kind;
    bool whole; /* whole numbers */
    bool zoned; /* times, which are stored as those of UTC */
    bool fine;  /* times in nanoseconds */
};

struct reading {
    struct duckdb duckdb;
    void *database, *connection;
    const char *path;
    const struct csv_options *options;
    const struct parquet_rows *rows; /* NULL: all */
    struct source *sources;
    struct table *table;
    size_t bytes, used; /* of the table's names or texts */
    int64_t row;
    struct failure *why;
};

/* The file as a table of SQL.  DuckDB's paths may be patterns or addresses; this one may not. */
static void put_file_with(FILE *sql, const struct reading *r, const char *options)
{
    fputs(r->path[0] == '/' ? "read_parquet('" : "read_parquet('./", sql);
    for (const char *c = r->path; *c; c++)
        fprintf(sql, strchr("*?[", *c) ? "[%c]" : *c == '\'' ? "'%c" : "%c", *c);
    fprintf(sql, "'%s)", options);
}

static void put_file(FILE *sql, const struct reading *r)
{
    put_file_with(sql, r, "");
}

/* The file with columns called c0, c1, ..., and which of its rows are wanted: the last thing of a
 * query. */
static void put_columns(FILE *sql, const struct reading *r)
{
    const struct parquet_rows *rows = r->rows;

    put_file_with(sql, r, rows ? ", file_row_number = true" : "");
    for (int64_t c = 0; c < r->table->width; c++)
        fprintf(sql, "%sc%lld", c == 0 ? " AS t(" : ", ", (long long)c);
    fputs(rows ? ", place)" : ")", sql);
    if (rows)
        fprintf(sql, " WHERE place >= %lld AND place < %lld AND (place - %lld) %% %lld = 0",
                (long long)rows->first, (long long)rows->end, (long long)rows->first,
                (long long)rows->step);
}

static void put_value(FILE *sql, const struct reading *r, int64_t c)
{
    const long long column = (long long)c;

    if (r->sources[c].zoned)
        fprintf(sql,
                r->sources[c].fine ? "CAST(make_timestamp_ns(epoch_ns(c%lld)) AS VARCHAR)"
                                   : "CAST(make_timestamp(epoch_us(c%lld)) AS VARCHAR)",
                column);
    else
        fprintf(sql, "CAST(c%lld AS %s)", column,
                r->sources[c].kind == SOURCE_NUMBER ? "DOUBLE" : "VARCHAR");
}

static void put_description(FILE *sql, const struct reading *r)
{
    fputs("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM ", sql);
    put_file(sql, r);
    fputs(")", sql);
}

static void put_size_of_description(FILE *sql, const struct reading *r)
{
    fputs(
        "SELECT CAST(count(*) AS DOUBLE), CAST(coalesce(sum(strlen(column_name) + 1), 0) AS "
        "DOUBLE) FROM (DESCRIBE SELECT * FROM ",
        sql);
    put_file(sql, r);
    fputs(")", sql);
}

static void put_count(FILE *sql, const struct reading *r)
{
    fputs("SELECT CAST(count(*) AS DOUBLE), CAST(0 AS DOUBLE) FROM ", sql);
    put_file(sql, r);
}

static void put_size_of_values(FILE *sql, const struct reading *r)
{
    fputs("SELECT CAST(count(*) AS DOUBLE), CAST(0", sql);
    for (int64_t c = 0; c < r->table->width; c++)
        if (r->sources[c].kind == SOURCE_TEXT) {
            fputs(" + coalesce(sum(strlen(", sql);
            put_value(sql, r, c);
            fputs(") + 1), 0)", sql);
        }
    fputs(" AS DOUBLE) FROM ", sql);
    put_columns(sql, r);
}

static void put_values(FILE *sql, const struct reading *r)
{
    const char *before = "SELECT ";

    for (int64_t c = 0; c < r->table->width; c++)
        if (r->sources[c].kind != SOURCE_IGNORED) {
            fputs(before, sql);
            put_value(sql, r, c);
            before = ", ";
        }
    fputs(" FROM ", sql);
    put_columns(sql, r);
}

typedef void putter(FILE *sql, const struct reading *r);
typedef enum exit_status taker(struct reading *r, void *chunk, int64_t rows);

/* The first line of what DuckDB says. */
static enum exit_status refused(const struct reading *r, const char *message)
{
    const char *said = message ? message : "it says no more";

    return fail(r->why, CLI_BAD_DATA, "%s: DuckDB cannot read this Parquet file: %.*s",
                text_name(r->path), (int)strcspn(said, "\n"), said);
}

/* Runs a query and gives its chunks to `take`. */
static enum exit_status run_query(struct reading *r, const char *sql, taker *take)
{
    const struct duckdb *d = &r->duckdb;
    struct duckdb_result result = {0};
    enum exit_status status = CLI_OK;
    void *chunk;

    if (d->query(r->connection, sql, &result) != 0)
        status = refused(r, d->result_error(&result));
    while (status == CLI_OK && take && (chunk = d->fetch_chunk(result))) {
        status = take(r, chunk, (int64_t)d->chunk_size(chunk));
        d->destroy_chunk(&chunk);
    }
    d->destroy_result(&result);
    return status;
}

static enum exit_status ask(struct reading *r, putter *put, taker *take)
{
    char *text = NULL;
    size_t size;
    FILE *sql = open_memstream(&text, &size);
    enum exit_status status;
    bool whole;

    if (!sql)
        return fail_memory(r->why, "a query");
    put(sql, r);
    whole = !ferror(sql);
    whole = fclose(sql) == 0 && whole;
    status = whole ? run_query(r, text, take) : fail_memory(r->why, "a query");
    free(text);
    return status;
}

/* ---- Chunks of its values -------------------------------------------------------------------- */

struct vector {
    const void *data;
    const uint64_t *validity;
};

static struct vector vector_of(const struct reading *r, void *chunk, int64_t place)
{
    void *vector = r->duckdb.chunk_vector(chunk, (uint64_t)place);

    return (struct vector){r->duckdb.vector_data(vector), r->duckdb.vector_validity(vector)};
}

static bool is_null(const struct vector *v, int64_t row)
{
    return v->validity && !(v->validity[row / 64] >> (row % 64) & 1);
}

static const char *text_at(const struct vector *v, int64_t row, size_t *size)
{
    const struct duckdb_string *s = (const struct duckdb_string *)v->data + row;

    *size = s->length;
    return s->length <= INLINED ? (const char *)s + offsetof(struct duckdb_string, prefix)
                                : s->rest.data;
}

/* The file has changed since it was measured. */
static enum exit_status changed(const struct reading *r)
{
    return fail(r->why, CLI_IO, "%s changed while it was read", text_name(r->path));
}

/* A copy in the block of memory that was measured. */
static enum exit_status keep(struct reading *r, char *block, const char *text, size_t size,
                             const char **out)
{
    if (size + 1 > r->bytes - r->used)
        return changed(r);
    TRY(typed_check_text(r->path, text, size, r->why));
    *out = memcpy(block + r->used, text, size);
    block[r->used + size] = '\0';
    r->used += size + 1;
    return CLI_OK;
}

/* Two numbers: how many rows the next query has, and the bytes of their texts with their NULs. */
static enum exit_status take_size(struct reading *r, void *chunk, int64_t rows)
{
    const struct vector count = vector_of(r, chunk, 0), bytes = vector_of(r, chunk, 1);

    if (rows != 1 || is_null(&count, 0) || is_null(&bytes, 0))
        return refused(r, "its size is not known");
    r->row = (int64_t) * (const double *)count.data;
    r->bytes = (size_t) * (const double *)bytes.data;
    r->used = 0;
    return CLI_OK;
}

static bool is_one_of(const char *type, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(type, names[i]) == 0)
            return true;
    return false;
}

static bool begins(const char *type, const char *with)
{
    return strncmp(type, with, strlen(with)) == 0;
}

/* What the values of a type of DuckDB are, and how they are cast. */
static enum typed_values values_of(const char *type, struct source *out)
{
    static const char *const whole[] = {"TINYINT",  "SMALLINT",  "INTEGER",  "BIGINT",  "HUGEINT",
                                        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"};
    static const char *const real[] = {"FLOAT", "DOUBLE", "NULL", "\"NULL\""};
    static const char *const text[] = {"VARCHAR", "UUID", "DATE", "TIME", "TIME_NS", "INTERVAL"};
    const size_t length = strlen(type);

    *out = (struct source){.whole = is_one_of(type, whole, LENGTH(whole)),
                           .zoned = strcmp(type, "TIMESTAMP WITH TIME ZONE") == 0 ||
                                    strcmp(type, "TIMESTAMPTZ_NS") == 0,
                           .fine = strcmp(type, "TIMESTAMPTZ_NS") == 0};
    if (length > 0 && type[length - 1] == ']') /* a list */
        return TYPED_OTHERS;
    if (out->whole || is_one_of(type, real, LENGTH(real)) || begins(type, "DECIMAL("))
        return TYPED_NUMBERS;
    if (strcmp(type, "BOOLEAN") == 0)
        return TYPED_TRUTH;
    if (is_one_of(type, text, LENGTH(text)) || begins(type, "ENUM(") || begins(type, "TIMESTAMP"))
        return TYPED_TEXTS;
    return TYPED_OTHERS;
}

/* The names and the types of the columns. */
static enum exit_status take_description(struct reading *r, void *chunk, int64_t rows)
{
    const struct vector names = vector_of(r, chunk, 0), types = vector_of(r, chunk, 1);
    struct table *t = r->table;

    for (int64_t i = 0; i < rows; i++, r->row++) {
        struct source *source = r->sources + r->row;
        enum typed_values values;
        char type[64];
        size_t size;
        const char *text;
        if (r->row >= t->width)
            return changed(r);
        text = text_at(&names, i, &size);
        TRY(keep(r, t->names, text, size, &t->columns[r->row].name));
        text = text_at(&types, i, &size);
        /* The end tells a list from its elements. */
        if (size < sizeof type || text[size - 1] != ']')
            snprintf(type, sizeof type, "%.*s", (int)size, text);
        else
            snprintf(type, sizeof type, "%.*s...]", 40, text);
        values = values_of(type, source);
        TRY(typed_choose(&t->columns[r->row], (struct typed_type){values, type}, r->options,
                         r->path, &source->kind, r->why));
    }
    return CLI_OK;
}

static enum exit_status take_texts(struct reading *r, int64_t c, const struct vector *v,
                                   int64_t rows)
{
    const char **out = r->table->columns[c].texts + r->row;

    for (int64_t i = 0; i < rows; i++) {
        size_t size = 0;
        const char *text = is_null(v, i) ? NULL : text_at(v, i, &size);
        out[i] = NULL;
        if (text && !typed_is_missing(text, size))
            TRY(keep(r, r->table->text, text, size, &out[i]));
    }
    return CLI_OK;
}

static enum exit_status take_parsed(struct reading *r, int64_t c, const struct vector *v,
                                    int64_t rows)
{
    double *out = r->table->columns[c].numbers + r->row;

    for (int64_t i = 0; i < rows; i++) {
        size_t size = 0;
        const char *text = is_null(v, i) ? NULL : text_at(v, i, &size);
        out[i] = NAN;
        if (!text || typed_is_missing(text, size))
            continue;
        TRY(typed_parse(r->table, r->path, r->row + i, c, r->options,
                        (struct typed_text){text, size}, r->why));
    }
    return CLI_OK;
}

static void take_numbers(struct reading *r, int64_t c, const struct vector *v, int64_t rows)
{
    struct column *column = &r->table->columns[c];
    double *out = column->numbers + r->row;

    for (int64_t i = 0; i < rows; i++) {
        out[i] = is_null(v, i) ? NAN : ((const double *)v->data)[i];
        if (r->sources[c].whole)
            typed_note_whole(column, r->row + i);
    }
}

static enum exit_status take_values(struct reading *r, void *chunk, int64_t rows)
{
    int64_t place = 0;

    if (rows > r->table->rows - r->row)
        return changed(r);
    for (int64_t c = 0; c < r->table->width; c++) {
        struct vector v;
        if (r->sources[c].kind == SOURCE_IGNORED)
            continue;
        v = vector_of(r, chunk, place++);
        if (r->sources[c].kind == SOURCE_NUMBER)
            take_numbers(r, c, &v, rows);
        else if (r->sources[c].kind == SOURCE_TEXT)
            TRY(take_texts(r, c, &v, rows));
        else
            TRY(take_parsed(r, c, &v, rows));
    }
    r->row += rows;
    return CLI_OK;
}

/* ---- A table --------------------------------------------------------------------------------- */

static enum exit_status read_columns(struct reading *r)
{
    struct table *t = r->table;

    TRY(ask(r, put_size_of_description, take_size));
    t->width = r->row;
    t->columns = calloc((size_t)t->width + 1, sizeof *t->columns);
    r->sources = calloc((size_t)t->width + 1, sizeof *r->sources);
    t->names = malloc(r->bytes + 1);
    if (!t->columns || !r->sources || !t->names)
        return fail_memory(r->why, "the columns of the table");
    r->row = 0;
    TRY(ask(r, put_description, take_description));
    return r->row == t->width ? CLI_OK : changed(r);
}

static enum exit_status read_rows(struct reading *r)
{
    struct table *t = r->table;
    int64_t wanted = 0;

    TRY(ask(r, put_size_of_values, take_size));
    t->rows = r->row;
    t->text = malloc(r->bytes + 1);
    if (!t->text)
        return fail_memory(r->why, "the text of the table");
    TRY(typed_allocate(t, r->why));
    for (int64_t c = 0; c < t->width; c++)
        wanted += t->columns[c].kind != COLUMN_IGNORED;
    r->row = 0;
    if (wanted == 0)
        return CLI_OK;
    TRY(ask(r, put_values, take_values));
    return r->row == t->rows ? CLI_OK : changed(r);
}

static enum exit_status open_database(struct reading *r)
{
    const struct duckdb *d = &r->duckdb;

    if (d->open(NULL, &r->database) != 0 || d->connect(r->database, &r->connection) != 0)
        return fail_memory(r->why, "DuckDB");
    /* What reads Parquet is part of the library: nothing is to be fetched from anywhere. */
    return run_query(r, "SET autoinstall_known_extensions = false", NULL);
}

static void close_database(struct reading *r)
{
    if (r->connection)
        r->duckdb.disconnect(&r->connection);
    if (r->database)
        r->duckdb.close(&r->database);
}

int parquet_is(const char *path)
{
    struct stat about;
    char first[4];
    FILE *file = NULL;
    int is = 0;

    if (strcmp(path, "-") != 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode))
        file = fopen(path, "rb");
    if (file) {
        is = fread(first, 1, sizeof first, file) == sizeof first && memcmp(first, "PAR1", 4) == 0;
        fclose(file);
    }
    return is;
}

enum exit_status parquet_count(const char *path, int64_t *rows, struct failure *why)
{
    struct reading r = {.path = path, .why = why};
    enum exit_status status;

    TRY(duckdb_load(&r.duckdb, path, why));
    status = open_database(&r);
    if (status == CLI_OK)
        status = ask(&r, put_count, take_size);
    close_database(&r);
    *rows = r.row;
    return status;
}

enum exit_status parquet_read_rows(const char *path, const struct csv_options *options,
                                   const struct parquet_rows *rows, struct table *out,
                                   struct failure *why)
{
    struct reading r = {.path = path, .options = options, .rows = rows, .table = out, .why = why};
    enum exit_status status;

    *out = (struct table){0};
    if (rows) {
        out->first = rows->first;
        out->step = rows->step;
    }
    TRY(duckdb_load(&r.duckdb, path, why));
    status = open_database(&r);
    if (status == CLI_OK)
        status = read_columns(&r);
    if (status == CLI_OK)
        status = read_rows(&r);
    close_database(&r);
    free(r.sources);
    if (status != CLI_OK)
        table_free(out);
    return status;
}

enum exit_status parquet_read(const char *path, const struct csv_options *options,
                              struct table *out, struct failure *why)
{
    return parquet_read_rows(path, options, NULL, out, why);
}
