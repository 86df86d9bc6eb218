/*
 * harness_data.c - test tensors: guarded memory, every layout, every dtype, seeded contents
 *
 * A tensor's bytes lie between two pages that cannot be touched, against the second one (three
 * times in four) or the first.  All bytes are 0xFF at first, a NaN in every floating dtype: an
 * element that is not written and a gap that is read both show up as NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include "trace.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CANARY = 0xFF
};

/* ---- Layouts ------------------------------------------------------------------------------ */

/* Fills t's strides; the least and the largest offset of an element, in elements, follow. */
static void set_strides(gram_tensor *t, enum layout layout)
{
    int last = t->ndim - 1, order[GRAM_MAX_DIMS] = {0};
    int64_t step = layout == EVERY_SECOND ? 2 : 1;

    for (int i = 0; i < t->ndim; i++)
        order[i] = i;
    if (layout == COLUMN_MAJOR && t->ndim >= 2)
        order[last] = last - 1, order[last - 1] = last;
    for (int i = last; i >= 0; i--) {
        int d = order[i];
        int64_t pad = layout == PADDED ? (i == last ? 5 : 1) : 0;
        t->stride[d] = step;
        step *= (t->shape[d] > 0 ? t->shape[d] : 1) + pad;
    }
    for (int i = last; layout == REVERSED && i >= 0 && i >= last - 1; i--)
        t->stride[i] = -t->stride[i];
    if (layout == ROWS_REPEATED && t->ndim >= 2)
        t->stride[last - 1] = 0;
}

/* Elements before t's first one in memory, and from the lowest to the highest inclusive. */
static void reach(const gram_tensor *t, int64_t *before, int64_t *span)
{
    *before = 0, *span = 1;
    for (int i = 0; i < t->ndim; i++) {
        int64_t move = (t->shape[i] - 1) * t->stride[i];
        if (t->shape[i] == 0) {
            *before = *span = 0;
            return;
        }
        if (move < 0)
            *before -= move, *span -= move;
        else
            *span += move;
    }
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void map_guarded(struct test_tensor *out, size_t page, size_t room)
{
    size_t middle = (room + page - 1) / page * page;

    out->mapping_bytes = middle + 2 * page;
    out->mapping = mmap(NULL, out->mapping_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out->mapping == MAP_FAILED ||
        (middle && mprotect((char *)out->mapping + page, middle, PROT_READ | PROT_WRITE)))
        harness_end_without_memory("a tensor");
}

void test_tensor_create(struct harness *h, struct test_tensor *out, gram_dtype dtype,
                        enum layout layout, int ndim, const int64_t *shape)
{
    size_t size = gram_dtype_size(dtype), page = (size_t)sysconf(_SC_PAGESIZE), middle;
    int64_t before, span;
    char *base;

    memset(out, 0, sizeof *out);
    out->t.dtype = dtype;
    out->t.ndim = ndim;
    if (ndim > 0)
        memcpy(out->t.shape, shape, (size_t)ndim * sizeof *shape);
    set_strides(&out->t, layout);
    reach(&out->t, &before, &span);
    out->bytes = (size_t)span * size;
    map_guarded(out, page, out->bytes + (layout == MISALIGNED ? 64 : 0));
    middle = out->mapping_bytes - 2 * page;
    base = (char *)out->mapping + page;
    if (layout == MISALIGNED && out->bytes)
        out->offset = (middle - out->bytes - size) / 64 * 64 + size;
    else if (test_uniform(h) < 0.75)
        out->offset = middle - out->bytes;
    memset(base, CANARY, middle);
    out->t.data = base + out->offset + (size_t)before * size;
    out->offset += page;
}

void test_tensor_freeze(struct test_tensor *t)
{
    t->frozen = malloc(t->bytes ? t->bytes : 1);
    if (!t->frozen)
        harness_end_without_memory("a copy of a tensor");
    memcpy(t->frozen, (char *)t->mapping + t->offset, t->bytes);
}

void *test_address(const gram_tensor *t, int64_t item)
{
    int64_t offset = 0;

    for (int i = t->ndim - 1; i >= 0; i--) {
        offset += item % t->shape[i] * t->stride[i];
        item /= t->shape[i];
    }
    return (char *)t->data + offset * (int64_t)gram_dtype_size(t->dtype);
}

/* Bytes of [from, from + bytes) that are no canary and not marked in used (NULL: none is). */
static size_t spoiled(const unsigned char *from, size_t bytes, const unsigned char *used)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += from[i] != CANARY && !(used && used[i]);
    return count;
}

static size_t spoiled_gaps(const struct test_tensor *t, const unsigned char *base)
{
    size_t size = gram_dtype_size(t->t.dtype), count;
    unsigned char *used;

    if ((size_t)test_count(&t->t) * size == t->bytes)
        return 0;
    used = calloc(t->bytes, 1);
    if (!used)
        return 0;
    for (int64_t i = 0; i < test_count(&t->t); i++)
        memset(used + ((unsigned char *)test_address(&t->t, i) - base), 1, size);
    count = spoiled(base, t->bytes, used);
    free(used);
    return count;
}

/* What a test read or wrote, bit for bit: the elements in index order; of none where a test has
 * pointed the tensor at memory that is not its own, which may be gone. */
static void trace_tensor(const struct test_tensor *t, const char *name)
{
    const uintptr_t begin = (uintptr_t)t->mapping, at = (uintptr_t)t->t.data;
    const bool own = at >= begin && at - begin < t->mapping_bytes;
    char shape[24 * GRAM_MAX_DIMS] = "";
    uint64_t hash = TRACE_HASH;

    for (int i = 0; i < t->t.ndim; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%lld", i ? "x" : "",
                 (long long)t->t.shape[i]);
    }
    for (int64_t i = 0; own && i < test_count(&t->t); i++)
        hash = trace_hash(hash, test_address(&t->t, i), gram_dtype_size(t->t.dtype));
    trace_line("tensor %s %s dtype=%d shape=%s %016llx", t->frozen ? "in" : "out", name,
               (int)t->t.dtype, shape, (unsigned long long)hash);
}

void test_tensor_destroy(struct harness *h, struct test_tensor *t, const char *name)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *base = (unsigned char *)t->mapping + t->offset;
    size_t end = t->mapping_bytes - page, after = t->offset + t->bytes;
    size_t bad = spoiled((unsigned char *)t->mapping + page, t->offset - page, NULL) +
                 spoiled((unsigned char *)t->mapping + after, end - after, NULL) +
                 spoiled_gaps(t, base);

    if (trace_wanted())
        trace_tensor(t, name);
    CHECK(h, bad == 0, "%s: %zu bytes between or beside its elements were written", name, bad);
    if (t->frozen)
        CHECK(h, memcmp(t->frozen, base, t->bytes) == 0, "%s was changed", name);
    free(t->frozen);
    munmap(t->mapping, t->mapping_bytes);
    memset(t, 0, sizeof *t);
}

/* ---- Elements as doubles ------------------------------------------------------------------ */

/* A 16-bit float with so many bits of fraction, the rest but the sign in its exponent. */
static double from_half(uint16_t bits, int fraction)
{
    int exponent_bits = 15 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> fraction & ((1 << exponent_bits) - 1);
    int mantissa = bits & ((1 << fraction) - 1);
    double value;

    if (exponent == (1 << exponent_bits) - 1)
        value = mantissa ? NAN : INFINITY;
    else if (exponent)
        value = ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
    else
        value = ldexp(mantissa, 1 - bias - fraction);
    return bits >> 15 ? -value : value;
}

/* To nearest, ties to even. */
static uint16_t to_half(double value, int fraction)
{
    int exponent_bits = 15 - fraction, bias = (1 << (exponent_bits - 1)) - 1, exponent;
    unsigned sign = signbit(value) ? 1u << 15 : 0;
    unsigned infinity = ((1u << exponent_bits) - 1) << fraction, bits;
    double a = fabs(value);

    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (fraction - 1));
    if (a >= ldexp(2 - ldexp(1, -fraction - 1), bias))
        return (uint16_t)(sign | infinity);
    if (a == 0)
        return (uint16_t)sign;
    exponent = ilogb(a) > 1 - bias ? ilogb(a) : 1 - bias;
    bits = (unsigned)(exponent + bias - 1) << fraction;
    /* The leading one of the steps, and a carry out of them, raise the exponent by itself. */
    bits += (unsigned)nearbyint(ldexp(a, fraction - exponent));
    return (uint16_t)(sign | bits);
}

static double load(const char *at, gram_dtype dtype)
{
    switch (dtype) {
    case GRAM_F32:
        return *(const float *)at;
    case GRAM_F64:
        return *(const double *)at;
    case GRAM_F16:
        return from_half(*(const uint16_t *)at, 10);
    case GRAM_BF16:
        return from_half(*(const uint16_t *)at, 7);
    case GRAM_I32:
        return *(const int32_t *)at;
    case GRAM_I64:
        return (double)*(const int64_t *)at;
    case GRAM_U8:
        return *(const uint8_t *)at;
    }
    return NAN;
}

/* Integers have no NaN: the smallest one stands for it. */
static void store(char *at, gram_dtype dtype, double value)
{
    switch (dtype) {
    case GRAM_F32:
        *(float *)at = (float)value;
        break;
    case GRAM_F64:
        *(double *)at = value;
        break;
    case GRAM_F16:
        *(uint16_t *)at = to_half(value, 10);
        break;
    case GRAM_BF16:
        *(uint16_t *)at = to_half(value, 7);
        break;
    case GRAM_I32:
        *(int32_t *)at = isnan(value) ? INT32_MIN : (int32_t)value;
        break;
    case GRAM_I64:
        *(int64_t *)at = isnan(value) ? INT64_MIN : (int64_t)value;
        break;
    case GRAM_U8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    }
}

static char *element_at(const gram_tensor *t, const int64_t *index)
{
    int64_t offset = 0;

    for (int i = 0; i < t->ndim; i++)
        offset += index[i] * t->stride[i];
    return (char *)t->data + offset * (int64_t)gram_dtype_size(t->dtype);
}

double test_get(const gram_tensor *t, const int64_t *index)
{
    return load(element_at(t, index), t->dtype);
}

void test_set(const gram_tensor *t, const int64_t *index, double value)
{
    store(element_at(t, index), t->dtype, value);
}

double test_at(const gram_tensor *t, int64_t item)
{
    return load(test_address(t, item), t->dtype);
}

void test_put(const gram_tensor *t, int64_t item, double value)
{
    store(test_address(t, item), t->dtype, value);
}

int64_t test_count(const gram_tensor *t)
{
    int64_t count = 1;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

double test_eps(gram_dtype dtype)
{
    switch (dtype) {
    case GRAM_F64:
        return ldexp(1, -52);
    case GRAM_F16:
        return ldexp(1, -10);
    case GRAM_BF16:
        return ldexp(1, -7);
    default:
        return ldexp(1, -23);
    }
}

/* ---- Contents ----------------------------------------------------------------------------- */

/* splitmix64: a Weyl sequence and a mixing of its bits (Steele, Lea and Flood, 2014). */
double test_uniform(struct harness *h)
{
    uint64_t z = h->random += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return ldexp((double)(z >> 11), -53);
}

void test_fill_uniform(struct harness *h, struct test_tensor *t, double low, double high)
{
    for (int64_t i = 0, n = test_count(&t->t); i < n; i++)
        test_put(&t->t, i, low + (high - low) * test_uniform(h));
}

/* Box and Muller's transform. */
void test_fill_normal(struct harness *h, struct test_tensor *t, double mean, double deviation)
{
    for (int64_t i = 0, n = test_count(&t->t); i < n; i++) {
        double r = sqrt(-2 * log(1 - test_uniform(h)));
        test_put(&t->t, i, mean + deviation * r * cos(2 * M_PI * test_uniform(h)));
    }
}

void test_fill_integers(struct harness *h, struct test_tensor *t, int count)
{
    for (int64_t i = 0, n = test_count(&t->t); i < n; i++)
        test_put(&t->t, i, floor(count * test_uniform(h)));
}

bool test_sampled(int64_t element, int64_t elements, int64_t steps)
{
    const double most = 4e6; /* 20 ms with powers */
    uint64_t part = (uint64_t)((double)elements * (double)steps / most) + 1;

    return ((uint64_t)element * 0x9e3779b97f4a7c15 >> 33) % part == 0; /* Fibonacci hashing */
}
