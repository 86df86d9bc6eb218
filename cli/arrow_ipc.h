/*
 * arrow_ipc.h - Arrow's format for files and streams: its messages, schema and batches
 *
 * A stream is messages: a schema, then dictionaries and batches of rows.  A message is metadata,
 * which are a flatbuffer, and a body of buffers.  A file (Feather, version 2) is a stream between
 * the bytes ARROW1, with a footer that says where the messages are.  Both are in memory as a whole.
 * Everything is checked when it is read: a piece of the input that these functions give is there.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_IPC_H
#define GRAM_CLI_ARROW_IPC_H
#include "flatbuffer.h"
#include "text.h"

/* The numbers that the format gives to types. */
enum arrow_type {
    ARROW_NULL = 1,
    ARROW_INT = 2,
    ARROW_FLOAT = 3,
    ARROW_BINARY = 4,
    ARROW_UTF8 = 5,
    ARROW_BOOL = 6,
    ARROW_DECIMAL = 7,
    ARROW_DATE = 8,
    ARROW_TIME = 9,
    ARROW_TIMESTAMP = 10,
    ARROW_INTERVAL = 11,
    ARROW_LIST = 12,
    ARROW_STRUCT = 13,
    ARROW_UNION = 14,
    ARROW_FIXED_SIZE_BINARY = 15,
    ARROW_FIXED_SIZE_LIST = 16,
    ARROW_MAP = 17,
    ARROW_DURATION = 18,
    ARROW_LARGE_BINARY = 19,
    ARROW_LARGE_UTF8 = 20,
    ARROW_LARGE_LIST = 21,
    ARROW_RUN_END_ENCODED = 22,
    ARROW_BINARY_VIEW = 23,
    ARROW_UTF8_VIEW = 24,
    ARROW_LIST_VIEW = 25,
    ARROW_LARGE_LIST_VIEW = 26,
    ARROW_TYPES
};

/* Units of times, and of dates: ARROW_DAY. */
enum arrow_unit {
    ARROW_SECOND,
    ARROW_MILLISECOND,
    ARROW_MICROSECOND,
    ARROW_NANOSECOND,
    ARROW_DAY
};

/* What the values of a column are. */
struct arrow_values {
    enum arrow_type type;
    int bits;       /* of a value; 0: it has no fixed size, or none that is read */
    bool is_signed; /* ARROW_INT */
    enum arrow_unit unit;
    int scale; /* ARROW_DECIMAL */
};

struct arrow_field {
    const char *name; /* in the input, without a NUL */
    size_t name_size;
    struct arrow_values values; /* of the dictionary, where there is one */
    bool encoded;               /* rows have indices into a dictionary */
    int64_t dictionary;         /* its number */
    struct arrow_values index;
    /* What a batch has of this field and its children. */
    int64_t nodes, buffers, views; /* views have a number of buffers that the batch tells */
};

struct arrow_schema {
    int64_t width;
    struct arrow_field *fields;
};

enum arrow_codec {
    ARROW_PLAIN,
    ARROW_LZ4,
    ARROW_ZSTD
};

/* One buffer of a body. */
struct arrow_piece {
    const unsigned char *at;
    uint64_t size;   /* of its values */
    uint64_t packed; /* bytes from `at` on, if they are compressed; else `size` */
    enum arrow_codec codec;
    void *memory; /* what `at` points to since it was unpacked (arrow_unpack.h); free() when done */
};

enum arrow_kind {
    ARROW_SCHEMA = 1,
    ARROW_DICTIONARY = 2,
    ARROW_BATCH = 3
};

struct arrow_message {
    enum arrow_kind kind;
    struct flatbuffer metadata;
    struct flat_table header;
    const unsigned char *body;
    uint64_t body_size;
};

/* An input and the place in it.  Not to be moved once it is open. */
struct arrow_input {
    const char *path;
    const unsigned char *data;
    uint64_t size;
    bool is_file;
    uint64_t at;   /* in a stream: the next message */
    uint64_t used; /* in a file: bytes of the messages that were read */
    struct flatbuffer footer;
    struct flat_table footer_root;
    struct flat_vector dictionaries, batches; /* blocks of a file */
    uint64_t block;                           /* the next one, counted over both */
};

/* A batch of rows, or of values of a dictionary, and the place in it. */
struct arrow_batch {
    const struct arrow_input *input;
    struct arrow_message *message;
    int64_t rows;
    bool is_delta;      /* of a dictionary: adds to what there is */
    int64_t dictionary; /* its number */
    enum arrow_codec codec;
    struct flat_vector nodes, buffers, views;
    uint64_t node, buffer, view; /* the next ones */
    uint64_t used;               /* bytes of the body that pieces have taken */
};

/* Whether bytes begin like a file or a stream of this format. */
bool arrow_begins(const char *data, size_t size);

enum exit_status arrow_open(struct arrow_input *in, struct text text, const char *path,
                            struct failure *why);

/* The message of the schema, or the footer, which has it too, and the version of the metadata. */
enum exit_status arrow_schema_message(struct arrow_input *in, struct arrow_message *out,
                                      int64_t *version, struct failure *why);

/* Back to the first message behind the schema. */
enum exit_status arrow_rewind(struct arrow_input *in, struct failure *why);

/* The next dictionary or batch of rows; *more is false where there is none. */
enum exit_status arrow_next(struct arrow_input *in, struct arrow_message *out, bool *more,
                            struct failure *why);

enum exit_status arrow_open_batch(const struct arrow_input *in, struct arrow_message *message,
                                  struct arrow_batch *out, struct failure *why);

/* The next node: how many values an array has, and how many of them are missing. */
enum exit_status arrow_take_node(struct arrow_batch *b, int64_t *length, int64_t *missing,
                                 struct failure *why);
enum exit_status arrow_take_piece(struct arrow_batch *b, struct arrow_piece *out,
                                  struct failure *why);
/* How many buffers of text the next array of views has. */
enum exit_status arrow_take_view(struct arrow_batch *b, int64_t *count, struct failure *why);
enum exit_status arrow_skip(struct arrow_batch *b, const struct arrow_field *field,
                            struct failure *why);

/* "this Arrow file is broken: " and the message. */
__attribute__((cold, format(printf, 3, 4))) enum exit_status
arrow_broken(const struct arrow_input *in, struct failure *why, const char *format, ...);
#endif
