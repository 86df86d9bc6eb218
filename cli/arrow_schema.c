/*
 * arrow_schema.c - the columns that an Arrow file says it has, and what a batch holds of each
 *
 * A batch lists the arrays of all columns one behind the other, those of children behind their
 * parents, and their buffers likewise.  A column that is not read is stepped over, so that what its
 * type has is counted, however deep it is.  No field may be named twice: a small schema could
 * otherwise stand for a number of fields that grows like a power.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow_schema.h"
#include <stdlib.h>

enum {
    MOST_DEPTH = 64, /* of types in types, as Arrow's own libraries have it */
    VARIADIC = 1,    /* has further buffers, whose number a batch tells */
    PARENT = 2       /* has children */
};

static const struct {
    const char *name;
    int buffers; /* of its own */
    int flags;
} types[ARROW_TYPES] = {
    [ARROW_NULL] = {             "null", 0,        0},
    [ARROW_INT] = {              "int", 2,        0},
    [ARROW_FLOAT] = {            "float", 2,        0},
    [ARROW_BINARY] = {           "binary", 3,        0},
    [ARROW_UTF8] = {             "utf8", 3,        0},
    [ARROW_BOOL] = {             "bool", 2,        0},
    [ARROW_DECIMAL] = {          "decimal", 2,        0},
    [ARROW_DATE] = {             "date", 2,        0},
    [ARROW_TIME] = {             "time", 2,        0},
    [ARROW_TIMESTAMP] = {        "timestamp", 2,        0},
    [ARROW_INTERVAL] = {         "interval", 2,        0},
    [ARROW_LIST] = {             "list", 2,   PARENT},
    [ARROW_STRUCT] = {           "struct", 1,   PARENT},
    [ARROW_UNION] = {            "union", 1,   PARENT},
    [ARROW_FIXED_SIZE_BINARY] = {"fixed_size_binary", 2,        0},
    [ARROW_FIXED_SIZE_LIST] = {  "fixed_size_list", 1,   PARENT},
    [ARROW_MAP] = {              "map", 2,   PARENT},
    [ARROW_DURATION] = {         "duration", 2,        0},
    [ARROW_LARGE_BINARY] = {     "large_binary", 3,        0},
    [ARROW_LARGE_UTF8] = {       "large_utf8", 3,        0},
    [ARROW_LARGE_LIST] = {       "large_list", 2,   PARENT},
    [ARROW_RUN_END_ENCODED] = {  "run_end_encoded", 0,   PARENT},
    [ARROW_BINARY_VIEW] = {      "binary_view", 2, VARIADIC},
    [ARROW_UTF8_VIEW] = {        "utf8_view", 2, VARIADIC},
    [ARROW_LIST_VIEW] = {        "list_view", 3,   PARENT},
    [ARROW_LARGE_LIST_VIEW] = {  "large_list_view", 3,   PARENT},
};

struct counting {
    uint64_t fields_left; /* a field has four bytes in the vector that names it */
    bool old;             /* metadata of version 4, in which unions have a bitmap */
    struct arrow_field *of;
};

const char *arrow_type_name(enum arrow_type type)
{
    return types[type].name;
}

/* The type of a field; 0: there is none of that number. */
static enum arrow_type type_of(const struct flat_table *field)
{
    const int64_t number = flat_number(field, 2, 1, 0);

    return number > 0 && number < ARROW_TYPES ? (enum arrow_type)number : (enum arrow_type)0;
}

/* Adds what a field and its children have in a batch.  False: they cannot be counted. */
static bool count_arrays(const struct flat_table *field, int depth, struct counting *c)
{
    const enum arrow_type type = type_of(field);
    const struct flat_table about = flat_child(field, 3);
    struct flat_vector children;

    if (depth > MOST_DEPTH || c->fields_left == 0 || type == 0 || field->at == 0)
        return false;
    c->fields_left--;
    c->of->nodes++;
    if (flat_child(field, 4).at != 0) { /* indices into a dictionary */
        c->of->buffers += 2;
        return true;
    }
    c->of->buffers += types[type].buffers;
    c->of->views += types[type].flags == VARIADIC;
    if (type == ARROW_UNION) /* one that is dense (1) has offsets too */
        c->of->buffers += (flat_number(&about, 0, 2, 0) == 1) + c->old;
    if (types[type].flags != PARENT)
        return true;
    children = flat_elements(field, 5, 4);
    for (uint64_t i = 0; i < children.count; i++) {
        const struct flat_table child = flat_element_table(&children, i);
        if (!count_arrays(&child, depth + 1, c))
            return false;
    }
    return true;
}

static bool is_one_of_sizes(int64_t bits, int64_t least, int64_t most)
{
    return bits >= least && bits <= most && (bits & (bits - 1)) == 0;
}

static struct arrow_values read_int(const struct flat_table *about)
{
    const int64_t bits = flat_number(about, 0, 4, 0);

    return (struct arrow_values){.type = ARROW_INT,
                                 .bits = is_one_of_sizes(bits, 8, 64) ? (int)bits : 0,
                                 .is_signed = flat_number(about, 1, 1, 0) != 0};
}

static struct arrow_values read_decimal(const struct flat_table *about)
{
    const int64_t scale = flat_number(about, 1, 4, 0), bits = flat_number(about, 2, 4, 128);
    struct arrow_values v = {.type = ARROW_DECIMAL};

    if (is_one_of_sizes(bits, 32, 256) && scale >= -ARROW_MOST_SCALE && scale <= ARROW_MOST_SCALE) {
        v.bits = (int)bits;
        v.scale = (int)scale;
    }
    return v;
}

/* Values of a time: those of seconds and milliseconds have 32 bits, the others 64. */
static struct arrow_values read_time(const struct flat_table *about)
{
    const int64_t unit = flat_number(about, 0, 2, ARROW_MILLISECOND);
    const int64_t bits = flat_number(about, 1, 4, 32);
    struct arrow_values v = {.type = ARROW_TIME};

    if (unit >= 0 && unit <= ARROW_NANOSECOND && bits == (unit <= ARROW_MILLISECOND ? 32 : 64)) {
        v.bits = (int)bits;
        v.unit = (enum arrow_unit)unit;
    }
    return v;
}

static struct arrow_values read_date(const struct flat_table *about)
{
    const int64_t unit = flat_number(about, 0, 2, 1);

    return (struct arrow_values){.type = ARROW_DATE,
                                 .bits = unit == 0   ? 32
                                         : unit == 1 ? 64
                                                     : 0,
                                 .unit = unit == 0 ? ARROW_DAY : ARROW_MILLISECOND};
}

/* Values of 64 bits that count a unit, which is `other` where none is named. */
static struct arrow_values read_count(const struct flat_table *about, enum arrow_type type,
                                      enum arrow_unit other)
{
    const int64_t unit = flat_number(about, 0, 2, other);
    const bool known = unit >= 0 && unit <= ARROW_NANOSECOND;

    return (struct arrow_values){
        .type = type, .bits = known ? 64 : 0, .unit = known ? (enum arrow_unit)unit : other};
}

static struct arrow_values read_values(enum arrow_type type, const struct flat_table *about)
{
    const int64_t precision = flat_number(about, 0, 2, 0);

    switch (type) {
    case ARROW_INT:
        return read_int(about);
    case ARROW_DECIMAL:
        return read_decimal(about);
    case ARROW_TIME:
        return read_time(about);
    case ARROW_DATE:
        return read_date(about);
    case ARROW_TIMESTAMP:
        return read_count(about, type, ARROW_SECOND);
    case ARROW_DURATION:
        return read_count(about, type, ARROW_MILLISECOND);
    case ARROW_FLOAT:
        return (struct arrow_values){
            .type = type, .bits = precision >= 0 && precision <= 2 ? 16 << precision : 0};
    case ARROW_BOOL:
        return (struct arrow_values){.type = type, .bits = 1};
    default:
        return (struct arrow_values){.type = type};
    }
}

static void read_field(const struct flat_table *field, struct arrow_field *out)
{
    const struct flat_table about = flat_child(field, 3), dictionary = flat_child(field, 4);
    const struct flat_table index = flat_child(&dictionary, 1);

    out->name = flat_text(field, 0, &out->name_size);
    out->values = read_values(type_of(field), &about);
    out->encoded = dictionary.at != 0;
    out->dictionary = flat_number(&dictionary, 0, 8, 0);
    out->index = index.at != 0 ? read_int(&index)
                               : (struct arrow_values){ARROW_INT, .bits = 32, .is_signed = true};
}

enum exit_status arrow_read_schema(struct arrow_input *in, struct arrow_schema *out,
                                   struct failure *why)
{
    struct arrow_message message = {.kind = ARROW_SCHEMA};
    struct counting counting;
    struct flat_vector fields;
    int64_t version;
    uint64_t named = 0; /* bytes of names */

    TRY(arrow_schema_message(in, &message, &version, why));
    if (flat_number(&message.header, 0, 2, 0) != 0)
        return fail(why, CLI_UNSUPPORTED,
                    "%s: its values are big-endian; write the file on another machine",
                    text_name(in->path));
    fields = flat_elements(&message.header, 1, 4);
    counting = (struct counting){.fields_left = message.metadata.size / 4, .old = version < 4};
    if (fields.count > counting.fields_left)
        message.metadata.broken = true, fields.count = 0;
    out->width = (int64_t)fields.count;
    out->fields = calloc((size_t)fields.count + 1, sizeof *out->fields);
    if (!out->fields)
        return fail_memory(why, "the columns of the table");
    for (uint64_t c = 0; c < fields.count && !message.metadata.broken; c++) {
        const struct flat_table field = flat_element_table(&fields, c);
        counting.of = &out->fields[c];
        if (!count_arrays(&field, 0, &counting))
            message.metadata.broken = true;
        read_field(&field, counting.of);
        named += counting.of->name_size;
    }
    if (message.metadata.broken || named > message.metadata.size)
        return arrow_broken(in, why, "its schema is damaged, or has types that are not known");
    return CLI_OK;
}
