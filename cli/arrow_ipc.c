/*
 * arrow_ipc.c - the messages of Arrow's files and streams, and the buffers of their batches
 *
 * The libraries of Arrow have interfaces of C++, and that of DuckDB reads this format only with an
 * extension, which it fetches.  The format is a few flatbuffers and the buffers that they name, so
 * that it is read here.
 *
 * A message is four bytes of ones (not before Arrow 0.15), four of the length of the metadata, the
 * metadata, and the body.  A length of 0 ends a stream; so does the end of the input behind a
 * message.
 *
 * What an input costs in memory is bounded by what is really there: the messages of a file may not
 * overlap, nor the buffers of a message, and no compressed buffer may state a size to which its
 * bytes cannot be unpacked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow_ipc.h"
#include <stdarg.h>
#include <string.h>

enum {
    MAGIC = 6,         /* bytes of "ARROW1" */
    BEFORE_FIRST = 8,  /* the magic of a file and two more bytes */
    BEHIND_FOOTER = 10 /* its length and the magic */
};

static const char magic[] = "ARROW1";

enum {
    VERSION_4 = 3, /* of Message.version and Footer.version */
    VERSION_5 = 4
};

enum exit_status arrow_broken(const struct arrow_input *in, struct failure *why, const char *format,
                              ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail(why, CLI_BAD_DATA, "%s: this Arrow file is broken: %s", text_name(in->path), text);
}

static enum exit_status cut(const struct arrow_input *in, struct failure *why)
{
    return arrow_broken(in, why, "it ends too early");
}

static enum exit_status bad_metadata(const struct arrow_input *in, struct failure *why)
{
    return arrow_broken(in, why, "its metadata are damaged");
}

static uint64_t read_length(const unsigned char *at, int bytes)
{
    uint64_t value = 0;

    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The bytes before the metadata of a message, and the length of these. */
static enum exit_status read_prefix(const struct arrow_input *in, uint64_t at, uint64_t end,
                                    uint64_t *prefix, uint64_t *length, struct failure *why)
{
    *prefix = 4;
    if (end - at < *prefix)
        return cut(in, why);
    *length = read_length(in->data + at, 4);
    if (*length == UINT32_MAX) {
        *prefix = 8;
        if (end - at < *prefix)
            return cut(in, why);
        *length = read_length(in->data + at + 4, 4);
    }
    return *length > end - at - *prefix ? cut(in, why) : CLI_OK;
}

/* Arrow 0.17 compressed buffers before the format said how, and told so in this place alone. */
static bool is_experimental(const struct flat_table *message)
{
    static const char name[] = "ARROW:experimental_compression";
    const struct flat_vector pairs = flat_elements(message, 4, 4);

    for (uint64_t i = 0; i < pairs.count && !pairs.of->broken; i++) {
        const struct flat_table pair = flat_element_table(&pairs, i);
        size_t size;
        const char *key = flat_text(&pair, 0, &size);
        if (key && size == sizeof name - 1 && memcmp(key, name, size) == 0)
            return true;
    }
    return false;
}

static enum exit_status check_version(const struct arrow_input *in, int64_t version,
                                      struct failure *why)
{
    if (version == VERSION_4 || version == VERSION_5)
        return CLI_OK;
    return fail(why, CLI_UNSUPPORTED,
                "%s: the version of its Arrow metadata is %lld, expected 4 or 5; write the file "
                "with another release of its program",
                text_name(in->path), (long long)version + 1);
}

/* Reads the message at `at`, which ends before `end`; *size is 0 for the end of a stream. */
static enum exit_status read_message(const struct arrow_input *in, uint64_t at, uint64_t end,
                                     struct arrow_message *out, uint64_t *size, struct failure *why)
{
    uint64_t prefix, length = 0;
    struct flat_table root;
    int64_t body;

    *size = 0;
    TRY(read_prefix(in, at, end, &prefix, &length, why));
    if (length == 0)
        return CLI_OK;
    out->metadata = (struct flatbuffer){.data = in->data + at + prefix, .size = length};
    root = flat_root(&out->metadata);
    TRY(check_version(in, flat_number(&root, 0, 2, 0), why));
    out->kind = (enum arrow_kind)flat_number(&root, 1, 1, 0);
    out->header = flat_child(&root, 2);
    body = flat_number(&root, 3, 8, 0);
    if (is_experimental(&root))
        return fail(why, CLI_UNSUPPORTED,
                    "%s: Arrow 0.17 compressed this file in a way of its own; write it with "
                    "another release",
                    text_name(in->path));
    if (out->metadata.broken || out->header.at == 0 || body < 0)
        return bad_metadata(in, why);
    if ((uint64_t)body > end - at - prefix - length)
        return cut(in, why);
    out->body = in->data + at + prefix + length;
    out->body_size = (uint64_t)body;
    *size = prefix + length + out->body_size;
    return CLI_OK;
}

bool arrow_begins(const char *data, size_t size)
{
    struct flatbuffer metadata;
    struct flat_table root;
    uint64_t length;

    if (size < 8)
        return size >= MAGIC && memcmp(data, magic, MAGIC) == 0;
    if (memcmp(data, magic, MAGIC) == 0 || memcmp(data, "\xff\xff\xff\xff", 4) == 0)
        return true;
    /* A stream before Arrow 0.15: no text has the NUL of its length, and few bytes are metadata. */
    length = read_length((const unsigned char *)data, 4);
    if (data[3] != '\0' || length < 8 || length > size - 4)
        return false;
    metadata = (struct flatbuffer){.data = (const unsigned char *)data + 4, .size = length};
    root = flat_root(&metadata);
    return flat_number(&root, 1, 1, 0) == ARROW_SCHEMA && flat_child(&root, 2).at != 0 &&
           !metadata.broken;
}

/* The footer of a file: what it is said to be in, and where. */
static enum exit_status open_footer(struct arrow_input *in, struct failure *why)
{
    const uint64_t least = BEFORE_FIRST + BEHIND_FOOTER;
    uint64_t length;

    if (in->size < least || memcmp(in->data + in->size - MAGIC, magic, MAGIC) != 0)
        return cut(in, why);
    length = read_length(in->data + in->size - BEHIND_FOOTER, 4);
    if (length > in->size - least)
        return bad_metadata(in, why);
    in->footer =
        (struct flatbuffer){.data = in->data + in->size - BEHIND_FOOTER - length, .size = length};
    in->footer_root = flat_root(&in->footer);
    in->dictionaries = flat_elements(&in->footer_root, 2, 24);
    in->batches = flat_elements(&in->footer_root, 3, 24);
    return in->footer.broken ? bad_metadata(in, why) : CLI_OK;
}

enum exit_status arrow_open(struct arrow_input *in, struct text text, const char *path,
                            struct failure *why)
{
    *in = (struct arrow_input){
        .path = path, .data = (const unsigned char *)text.data, .size = text.size};
    in->is_file = text.size >= MAGIC && memcmp(text.data, magic, MAGIC) == 0;
    return in->is_file ? open_footer(in, why) : CLI_OK;
}

enum exit_status arrow_rewind(struct arrow_input *in, struct failure *why)
{
    struct arrow_message schema;

    in->block = 0;
    in->used = 0;
    in->at = 0;
    return in->is_file ? CLI_OK : read_message(in, 0, in->size, &schema, &in->at, why);
}

/* The next message that the footer names: dictionaries first, since any batch may use them. */
static enum exit_status next_block(struct arrow_input *in, struct arrow_message *out, bool *more,
                                   struct failure *why)
{
    const bool first = in->block < in->dictionaries.count;
    const struct flat_vector *blocks = first ? &in->dictionaries : &in->batches;
    const uint64_t index = in->block - (first ? 0 : in->dictionaries.count);
    uint64_t at, end, metadata, size;

    *more = index < blocks->count;
    if (!*more)
        return CLI_OK;
    at = (uint64_t)flat_element_number(blocks, index, 0);
    metadata = (uint64_t)flat_element_number(blocks, index, 8) & UINT32_MAX;
    end = (uint64_t)(in->footer.data - in->data);
    if (at < BEFORE_FIRST || at > end || metadata > end - at)
        return bad_metadata(in, why);
    TRY(read_message(in, at, end, out, &size, why));
    if (size == 0 || out->body != in->data + at + metadata ||
        out->kind != (first ? ARROW_DICTIONARY : ARROW_BATCH))
        return bad_metadata(in, why);
    in->used += size;
    in->block++;
    return in->used > in->size ? arrow_broken(in, why, "its messages overlap") : CLI_OK;
}

/* Behind the end of a stream nothing may follow but zeros. */
static enum exit_status end_stream(const struct arrow_input *in, struct failure *why)
{
    uint64_t at = in->at + 4;

    if (read_length(in->data + in->at, 4) == UINT32_MAX)
        at += 4;
    for (; at < in->size; at++)
        if (in->data[at] != 0)
            return arrow_broken(in, why, "more bytes follow the end of the stream");
    return CLI_OK;
}

static enum exit_status next_in_stream(struct arrow_input *in, struct arrow_message *out,
                                       bool *more, struct failure *why)
{
    uint64_t size;

    *more = in->at < in->size;
    if (!*more)
        return CLI_OK;
    TRY(read_message(in, in->at, in->size, out, &size, why));
    if (size == 0) {
        *more = false;
        return end_stream(in, why);
    }
    if (out->kind != ARROW_DICTIONARY && out->kind != ARROW_BATCH)
        return arrow_broken(in, why, "a message is neither a dictionary nor a batch of rows");
    in->at += size;
    return CLI_OK;
}

enum exit_status arrow_next(struct arrow_input *in, struct arrow_message *out, bool *more,
                            struct failure *why)
{
    return in->is_file ? next_block(in, out, more, why) : next_in_stream(in, out, more, why);
}

enum exit_status arrow_schema_message(struct arrow_input *in, struct arrow_message *out,
                                      int64_t *version, struct failure *why)
{
    struct flat_table root;
    uint64_t size;

    if (in->is_file) {
        *version = flat_number(&in->footer_root, 0, 2, 0);
        TRY(check_version(in, *version, why));
        out->metadata = in->footer;
        out->header = flat_child(&in->footer_root, 1);
    } else {
        TRY(read_message(in, 0, in->size, out, &size, why));
        if (size == 0 || out->kind != ARROW_SCHEMA)
            return arrow_broken(in, why, "it does not begin with a schema");
        root = flat_root(&out->metadata);
        *version = flat_number(&root, 0, 2, 0);
    }
    out->header.of = &out->metadata;
    out->metadata.broken |= in->footer.broken;
    return out->metadata.broken || out->header.at == 0 ? bad_metadata(in, why) : CLI_OK;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static enum exit_status find_codec(const struct arrow_input *in, const struct flat_table *data,
                                   enum arrow_codec *out, struct failure *why)
{
    const struct flat_table compression = flat_child(data, 3);
    const int64_t codec = flat_number(&compression, 0, 1, 0);
    const int64_t method = flat_number(&compression, 1, 1, 0);

    *out = compression.at == 0 ? ARROW_PLAIN : codec == 0 ? ARROW_LZ4 : ARROW_ZSTD;
    if (compression.at != 0 && (codec < 0 || codec > 1 || method != 0))
        return fail(why, CLI_UNSUPPORTED,
                    "%s: its buffers are compressed by codec %lld and method %lld, which Arrow "
                    "files did not have when this was written",
                    text_name(in->path), (long long)codec, (long long)method);
    return CLI_OK;
}

enum exit_status arrow_open_batch(const struct arrow_input *in, struct arrow_message *message,
                                  struct arrow_batch *out, struct failure *why)
{
    struct flat_table data = message->header;

    *out = (struct arrow_batch){.input = in, .message = message};
    if (message->kind == ARROW_DICTIONARY) {
        out->dictionary = flat_number(&message->header, 0, 8, 0);
        out->is_delta = flat_number(&message->header, 2, 1, 0) != 0;
        data = flat_child(&message->header, 1);
    }
    out->rows = flat_number(&data, 0, 8, 0);
    out->nodes = flat_elements(&data, 1, 16);
    out->buffers = flat_elements(&data, 2, 16);
    out->views = flat_elements(&data, 4, 8);
    TRY(find_codec(in, &data, &out->codec, why));
    if (message->metadata.broken || data.at == 0 || out->rows < 0)
        return bad_metadata(in, why);
    return CLI_OK;
}

enum exit_status arrow_take_node(struct arrow_batch *b, int64_t *length, int64_t *missing,
                                 struct failure *why)
{
    *length = flat_element_number(&b->nodes, b->node, 0);
    *missing = flat_element_number(&b->nodes, b->node, 8);
    if (b->node >= b->nodes.count || *length != b->rows || *missing < 0 || *missing > *length)
        return arrow_broken(b->input, why, "the arrays of a batch do not have its %lld rows",
                            (long long)b->rows);
    b->node++;
    return CLI_OK;
}

/* The most bytes to which one can be unpacked: LZ4 counts copies in bytes of up to 255, and four
 * bytes of Zstandard are at most a block of 128 KiB. */
static uint64_t most_unpacked(enum arrow_codec codec)
{
    return codec == ARROW_LZ4 ? 255 : 32768;
}

/* A compressed buffer begins with the size of its values; -1: they are not compressed. */
static enum exit_status read_size(const struct arrow_batch *b, struct arrow_piece *p,
                                  struct failure *why)
{
    uint64_t size;

    if (p->packed < 8)
        return arrow_broken(b->input, why, "a compressed buffer has no size");
    size = read_length(p->at, 8);
    p->at += 8;
    p->packed -= 8;
    if (size == UINT64_MAX || size == 0) {
        p->size = size == 0 ? 0 : p->packed;
        return CLI_OK;
    }
    if (size / most_unpacked(b->codec) > p->packed)
        return arrow_broken(b->input, why, "%llu bytes cannot be unpacked to %llu",
                            (unsigned long long)p->packed, (unsigned long long)size);
    p->size = size;
    p->codec = b->codec;
    return CLI_OK;
}

enum exit_status arrow_take_piece(struct arrow_batch *b, struct arrow_piece *out,
                                  struct failure *why)
{
    const uint64_t at = (uint64_t)flat_element_number(&b->buffers, b->buffer, 0);
    const uint64_t size = (uint64_t)flat_element_number(&b->buffers, b->buffer, 8);
    const uint64_t all = b->message->body_size;

    *out = (struct arrow_piece){.size = size, .packed = size};
    if (b->buffer >= b->buffers.count)
        return arrow_broken(b->input, why, "a batch has only %llu buffers",
                            (unsigned long long)b->buffers.count);
    b->buffer++;
    if (size == 0)
        return CLI_OK;
    if (at > all || size > all - at)
        return arrow_broken(b->input, why, "a buffer lies outside of its message");
    if (size > all - b->used)
        return arrow_broken(b->input, why, "the buffers of a message overlap");
    b->used += size;
    out->at = b->message->body + at;
    return b->codec == ARROW_PLAIN ? CLI_OK : read_size(b, out, why);
}

enum exit_status arrow_take_view(struct arrow_batch *b, int64_t *count, struct failure *why)
{
    *count = flat_element_number(&b->views, b->view, 0);
    if (b->view >= b->views.count || *count < 0 || (uint64_t)*count > b->buffers.count)
        return arrow_broken(b->input, why, "a batch does not say how many buffers its texts have");
    b->view++;
    return CLI_OK;
}

enum exit_status arrow_skip(struct arrow_batch *b, const struct arrow_field *field,
                            struct failure *why)
{
    b->node += (uint64_t)field->nodes;
    b->buffer += (uint64_t)field->buffers;
    for (int64_t i = 0; i < field->views; i++) {
        int64_t count;
        TRY(arrow_take_view(b, &count, why));
        b->buffer += (uint64_t)count;
    }
    return CLI_OK;
}
