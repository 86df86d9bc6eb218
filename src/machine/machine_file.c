/*
 * machine_file.c - a machine to a model file and back
 *
 * Texts: "format" (gram.machine.1; with dates gram.machine.2; of an ensemble gram.machine.3; with a
 * base gram.machine.4; of several targets gram.machine.5; with statistics of levels
 * gram.machine.6; of several trees, or with a temperature, gram.machine.7), "version", "summary"
 * (JSON).
 * Arrays: encoder.* (table_file.c), target.* (of several, "targets", how many, and target.<i>.*),
 * importance, tree.numbers (nodes by width + 2: direction, low, high; since gram.machine.7 by
 * width + 3: scale), tree.links (nodes by 4), tree.temperature, "members" (the weights of an
 * ensemble), and for every leaf i, member after member, leaf.<i>.x (rows by width), leaf.<i>.alpha
 * (outputs by rows), leaf.<i>.metric (width, or width by width), leaf.<i>.kernel (p, q, L); a base
 * follows the leaves as one more.
 *
 * A file is believed only after everything in it was checked: no index leads outside, no number
 * that must be positive is anything else.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT         "gram.machine.1"
#define FORMAT_DATES   "gram.machine.2"
#define FORMAT_MEMBERS "gram.machine.3"
#define FORMAT_BASE    "gram.machine.4"
#define FORMAT_TARGETS "gram.machine.5" /* with members or a base, or without */
#define FORMAT_LEVELS  "gram.machine.6" /* with any of these, or without */
#define FORMAT_ROUTING "gram.machine.7" /* likewise */

enum {
    TARGET_NUMBERS = 3, /* transform, shift, scale */
    NAME_BYTES = 48
};

/* ---- What makes sense: asked before a file is written, and after it was read --------------- */

static bool target_holds(const struct machine_target *target)
{
    return (target->transform == GRAM_TRANSFORM_NONE || target->transform == GRAM_TRANSFORM_LOG ||
            target->transform == GRAM_TRANSFORM_SQRT) &&
           isfinite(target->shift) && isfinite(target->scale) && target->classes != 1;
}

/* A positive slope, finite offsets, and a share. */
static bool calibration_holds(const struct machine_target *target)
{
    const double *c = target->calibration;
    bool finite = true;

    for (int64_t i = 0; c && i < target->classes + CALIBRATION_NUMBERS; i++)
        finite &= isfinite(c[i]) != 0;
    return !c || (target->classes > 0 && finite && c[0] > 0 && c[1 + target->classes] >= 0 &&
                  c[1 + target->classes] <= 1);
}

static bool node_holds(const struct machine_node *node, int64_t width)
{
    bool finite = isfinite(node->low) && isfinite(node->high) && isfinite(node->scale);

    for (int64_t i = 0; i < width; i++)
        finite &= isfinite(node->direction[i]) != 0;
    return finite && node->low <= node->high && node->scale >= 0;
}

static bool tree_holds(const struct machine_tree *tree)
{
    return tree->temperature >= 0 && isfinite(tree->temperature);
}

static bool leaf_holds(const struct machine_leaf *leaf, gram_dtype dtype)
{
    return leaf->p > 0 && leaf->p <= 2 && leaf->q > 0 && leaf->q <= leaf->p &&
           leaf->bandwidth > 0 && isfinite(leaf->bandwidth) && leaf->rows >= 1 &&
           leaf->dtype == dtype;
}

/* Positive weights whose sum is 1. */
static bool members_hold(const gram_machine *machine)
{
    bool positive = machine->members >= 1 && machine->members <= MOST_MEMBERS;
    double sum = 0;

    for (int m = 0; positive && m < machine->members; m++) {
        positive = machine->weight[m] > 0;
        sum += machine->weight[m];
    }
    return positive && fabs(sum - 1) < 1e-9;
}

static gram_status check_target(gram_context *g, const struct machine_target *target)
{
    if (!target_holds(target))
        return gram_fail(g, GRAM_BAD_DATA,
                         "the target has shift %g and scale %g, expected finite numbers",
                         target->shift, target->scale);
    if (!calibration_holds(target))
        return gram_fail(g, GRAM_BAD_DATA, "the calibration of the classes is not valid");
    if (!gram_machine_target_scores_hold(target))
        return gram_fail(g, GRAM_BAD_DATA, "the errors of rows that were left out are not valid");
    return GRAM_OK;
}

/* A file that nobody could load is not written. */
static gram_status check_machine(gram_context *g, const gram_machine *machine)
{
    const char *column, *wrong;

    for (int64_t p = 0; p < gram_machine_target_parts(&machine->target); p++)
        TRY(check_target(g, gram_machine_target_part(&machine->target, p)));
    wrong = gram_model_encoder_wrong(machine->encoder, &column);
    if (wrong)
        return gram_fail(g, GRAM_BAD_DATA, "column \"%s\" %s", column, wrong);
    for (int64_t i = 0; i < machine->tree.count; i++)
        if (!node_holds(&machine->tree.node[i], machine->tree.width))
            return gram_fail(g, GRAM_BAD_DATA, "node %lld of the tree is not valid", (long long)i);
    if (!tree_holds(&machine->tree))
        return gram_fail(g, GRAM_BAD_DATA, "the temperature is %g", machine->tree.temperature);
    if (!members_hold(machine))
        return gram_fail(g, GRAM_BAD_DATA, "the weights of the members are not valid");
    for (int64_t i = 0; i < machine->members * machine->leaves; i++)
        if (!leaf_holds(&machine->leaf[i], machine->leaf[0].dtype))
            return gram_fail(g, GRAM_BAD_DATA, "leaf %lld is not valid", (long long)i);
    if (machine->base.rows > 0 && !leaf_holds(&machine->base, machine->leaf[0].dtype))
        return gram_fail(g, GRAM_BAD_DATA, "the machine under the leaves is not valid");
    return GRAM_OK;
}

/* ---- Saving ------------------------------------------------------------------------------- */

static void put_target(struct gram_model_writer *w, const struct machine_target *target)
{
    double numbers[TARGET_NUMBERS] = {target->transform, target->shift, target->scale};

    gram_model_put_strings(w, "target.name", 1, &target->name);
    gram_model_put_copy(w, "target.scale", GRAM_F64, TARGET_NUMBERS, numbers);
    gram_model_put_strings(w, "target.classes", target->classes, target->class_name);
    if (target->class_value)
        gram_model_put(w, "target.values", GRAM_F64, 1, &target->classes, target->class_value);
    if (target->calibration)
        gram_model_put_copy(w, "target.calibration", GRAM_F64,
                            target->classes + CALIBRATION_NUMBERS, target->calibration);
    if (target->score)
        gram_model_put(w, "target.scores", GRAM_F64, 1, &target->scores, target->score);
}

/* The name of an array of a part. */
static void part_name(char *out, int64_t part, const char *what)
{
    (void)snprintf(out, NAME_BYTES, "target.%lld.%s", (long long)part, what);
}

static void put_targets(struct gram_model_writer *w, const struct machine_target *target)
{
    char name[NAME_BYTES];

    if (target->parts == 0) {
        put_target(w, target);
        return;
    }
    gram_model_put_copy(w, "targets", GRAM_I64, 1, &target->parts);
    for (int64_t p = 0; p < target->parts; p++) {
        const struct machine_target *one = &target->part[p];
        double numbers[TARGET_NUMBERS] = {one->transform, one->shift, one->scale};

        part_name(name, p, "name");
        gram_model_put_strings(w, name, 1, &one->name);
        part_name(name, p, "scale");
        gram_model_put_copy(w, name, GRAM_F64, TARGET_NUMBERS, numbers);
        part_name(name, p, "scores");
        if (one->score)
            gram_model_put(w, name, GRAM_F64, 1, &one->scores, one->score);
    }
}

static bool has_routing(const struct machine_tree *tree)
{
    return tree->trees > 1 || tree->temperature > 0;
}

/* Numbers of a node: the direction, low, high, and with routing the scale. */
static int64_t node_numbers(int64_t width, bool routing)
{
    return width + (routing ? 3 : 2);
}

static gram_status put_tree(gram_context *g, struct gram_model_writer *w,
                            const struct machine_tree *tree)
{
    const bool routing = has_routing(tree);
    const int64_t n = tree->count, width = tree->width, row = node_numbers(width, routing);
    double *numbers = malloc((size_t)(n * row) * sizeof *numbers + 1);
    int64_t *links = malloc((size_t)(4 * n) * sizeof *links + 1);

    for (int64_t i = 0; numbers && links && i < n; i++) {
        const struct machine_node *node = &tree->node[i];

        memcpy(numbers + i * row, node->direction, (size_t)width * sizeof *numbers);
        numbers[i * row + width] = node->low;
        numbers[i * row + width + 1] = node->high;
        if (routing)
            numbers[i * row + width + 2] = node->scale;
        links[4 * i] = node->child[0];
        links[4 * i + 1] = node->child[1];
        links[4 * i + 2] = node->parent;
        links[4 * i + 3] = node->side;
    }
    if (numbers && links) {
        gram_model_put_copy(w, "tree.numbers", GRAM_F64, n * row, numbers);
        gram_model_put_copy(w, "tree.links", GRAM_I64, 4 * n, links);
        if (routing)
            gram_model_put_copy(w, "tree.temperature", GRAM_F64, 1, &tree->temperature);
    }
    free(numbers);
    free(links);
    return numbers && links ? GRAM_OK
                            : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the tree");
}

static void leaf_name(char *out, int64_t leaf, const char *part)
{
    (void)snprintf(out, NAME_BYTES, "leaf.%lld.%s", (long long)leaf, part);
}

static void put_leaf(struct gram_model_writer *w, const struct machine_leaf *leaf, int64_t index)
{
    const double kernel[3] = {leaf->p, leaf->q, leaf->bandwidth};
    char name[NAME_BYTES];

    leaf_name(name, index, "x");
    gram_model_put(w, name, leaf->dtype, 2, (int64_t[2]){leaf->rows, leaf->width}, leaf->x);
    leaf_name(name, index, "alpha");
    gram_model_put(w, name, leaf->dtype, 2, (int64_t[2]){leaf->outputs, leaf->rows}, leaf->alpha);
    leaf_name(name, index, "metric");
    gram_model_put(w, name, GRAM_F64, leaf->metric.full ? 2 : 1,
                   (int64_t[2]){leaf->width, leaf->width}, leaf->metric.w);
    leaf_name(name, index, "kernel");
    gram_model_put_copy(w, name, GRAM_F64, 3, kernel);
}

static const char *format_of(const gram_machine *machine)
{
    if (has_routing(&machine->tree))
        return FORMAT_ROUTING;
    if (gram_encoder_has_levels(machine->encoder))
        return FORMAT_LEVELS;
    if (machine->target.parts > 0)
        return FORMAT_TARGETS;
    if (machine->base.rows > 0)
        return FORMAT_BASE;
    if (machine->members > 1)
        return FORMAT_MEMBERS;
    return gram_encoder_has_dates(machine->encoder) ? FORMAT_DATES : FORMAT;
}

gram_status gram_machine_save(gram_context *g, const gram_machine *machine, const char *path)
{
    struct gram_model_writer *w;
    gram_status status;

    TRY(gram_begin_without_blas(g, __func__));
    if (!machine || !path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", machine ? "path" : "machine");
    TRY(check_machine(g, machine));
    w = gram_model_writer_create();
    gram_model_put_text(w, "format", format_of(machine));
    gram_model_put_text(w, "version", gram_version());
    gram_model_put_text(w, "summary", machine->summary);
    gram_model_put_encoder(w, machine->encoder);
    put_targets(w, &machine->target);
    gram_model_put(w, "importance", GRAM_F64, 1, &machine->encoder->columns, machine->importance);
    gram_model_put_copy(w, "leaves", GRAM_I64, 1, &machine->leaves);
    status = put_tree(g, w, &machine->tree);
    if (machine->members > 1)
        gram_model_put_copy(w, "members", GRAM_F64, machine->members, machine->weight);
    for (int64_t i = 0; i < machine->members * machine->leaves; i++)
        put_leaf(w, &machine->leaf[i], i);
    if (machine->base.rows > 0)
        put_leaf(w, &machine->base, machine->members * machine->leaves);
    if (status == GRAM_OK)
        status = gram_model_commit(g, w, path);
    gram_model_writer_destroy(w);
    return status;
}

/* ---- Loading ------------------------------------------------------------------------------ */

static void free_strings(int64_t *count, char ***strings)
{
    for (; *strings && *count > 0; --*count)
        free((*strings)[*count - 1]);
    free(*strings);
    *strings = NULL;
    *count = 0;
}

static gram_status need_strings_copied(gram_context *g, const struct gram_model_file *file,
                                       const char *name, int64_t *found, char ***out)
{
    char **block, **copy;
    int64_t count;

    TRY(gram_model_need_strings(g, file, name, -1, &count, &block));
    copy = calloc((size_t)count + 1, sizeof *copy);
    for (*found = 0; copy && *found < count; ++*found)
        if (!(copy[*found] = strdup(block[*found])))
            break;
    free(block);
    *out = copy;
    if (copy && *found == count)
        return GRAM_OK;
    free_strings(found, out);
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %s", name);
}

/* False where a number is none of the transforms; it is not made one before that is known. */
static bool find_transform(double number, gram_transform *transform)
{
    static const gram_transform known[] = {GRAM_TRANSFORM_NONE, GRAM_TRANSFORM_LOG,
                                           GRAM_TRANSFORM_SQRT};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (number == known[i]) {
            *transform = known[i];
            return true;
        }
    return false;
}

/* A copy of an array of so many numbers, or NULL if the file does not have it. */
static gram_status optional_numbers(gram_context *g, const struct gram_model_file *file,
                                    const char *name, int64_t count, double **out)
{
    const void *numbers;

    if (!gram_model_find(file, name))
        return GRAM_OK;
    TRY(gram_model_need_vector(g, file, name, GRAM_F64, count, &numbers, NULL));
    *out = malloc((size_t)count * sizeof **out + 1);
    if (!*out)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the classes");
    memcpy(*out, numbers, (size_t)count * sizeof **out);
    return GRAM_OK;
}

/* A file of before intervals has none. */
static gram_status need_scores(gram_context *g, const struct gram_model_file *file,
                               const char *name, struct machine_target *target)
{
    const struct gram_model_array *a = gram_model_find(file, name);

    if (!a)
        return GRAM_OK;
    TRY(gram_model_need(g, file, name, GRAM_F64, 1, (int64_t[1]){-1}, &a));
    if (a->shape[0] < 1 || a->shape[0] > MOST_SCORES)
        return gram_model_bad(g, file, "%s has %lld numbers, expected 1 to %d", name,
                              (long long)a->shape[0], MOST_SCORES);
    TRY(optional_numbers(g, file, name, a->shape[0], &target->score));
    target->scores = a->shape[0];
    if (!gram_machine_target_scores_hold(target))
        return gram_model_bad(g, file, "%s is not sorted, or out of range", name);
    return GRAM_OK;
}

static gram_status need_name(gram_context *g, const struct gram_model_file *file, const char *array,
                             char **out)
{
    int64_t names;
    char **name;

    TRY(need_strings_copied(g, file, array, &names, &name));
    if (names != 1) {
        free_strings(&names, &name);
        return gram_model_bad(g, file, "%s has more or less than one text", array);
    }
    *out = name[0];
    free(name);
    return GRAM_OK;
}

static gram_status need_scale(gram_context *g, const struct gram_model_file *file,
                              const char *array, struct machine_target *target)
{
    const void *numbers;

    TRY(gram_model_need_vector(g, file, array, GRAM_F64, TARGET_NUMBERS, &numbers, NULL));
    target->shift = ((const double *)numbers)[1];
    target->scale = ((const double *)numbers)[2];
    if (!find_transform(((const double *)numbers)[0], &target->transform) || !target_holds(target))
        return gram_model_bad(g, file, "%s is not valid", array);
    return GRAM_OK;
}

/* Several regressions. */
static gram_status need_parts(gram_context *g, const struct gram_model_file *file,
                              struct machine_target *target)
{
    const void *numbers;
    char name[NAME_BYTES];
    int64_t parts;

    TRY(gram_model_need_vector(g, file, "targets", GRAM_I64, 1, &numbers, NULL));
    parts = *(const int64_t *)numbers;
    /* Each has arrays of its own, so that there cannot be more than there are arrays. */
    if (parts < 2 || (uint64_t)parts > file->arrays)
        return gram_model_bad(g, file, "targets is %lld, expected 2 or more, each with its arrays",
                              (long long)parts);
    target->task = GRAM_REGRESSION;
    target->part = calloc((size_t)parts, sizeof *target->part);
    if (!target->part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld targets", (long long)parts);
    while (target->parts < parts) {
        struct machine_target *one = &target->part[target->parts++];

        one->task = GRAM_REGRESSION;
        part_name(name, target->parts - 1, "name");
        TRY(need_name(g, file, name, &one->name));
        part_name(name, target->parts - 1, "scale");
        TRY(need_scale(g, file, name, one));
        part_name(name, target->parts - 1, "scores");
        TRY(need_scores(g, file, name, one));
    }
    return GRAM_OK;
}

static gram_status need_target(gram_context *g, const struct gram_model_file *file,
                               struct machine_target *target)
{
    TRY(need_name(g, file, "target.name", &target->name));
    TRY(need_scale(g, file, "target.scale", target));
    TRY(need_strings_copied(g, file, "target.classes", &target->classes, &target->class_name));
    target->task = target->classes ? GRAM_CLASSIFICATION : GRAM_REGRESSION;
    if (target->classes == 1)
        return gram_model_bad(g, file, "there is only one class");
    TRY(optional_numbers(g, file, "target.values", target->classes, &target->class_value));
    TRY(optional_numbers(g, file, "target.calibration", target->classes + CALIBRATION_NUMBERS,
                         &target->calibration));
    if (!calibration_holds(target))
        return gram_model_bad(g, file, "target.calibration is not valid");
    return need_scores(g, file, "target.scores", target);
}

/* True if the links of node i keep to its tree, whose nodes begin at root: children come later and
 * before the next root, or are leaves; every other node is the child that it says it is. */
static bool links_hold(const int64_t *links, int64_t i, int64_t root, int64_t end, int64_t leaves)
{
    int64_t parent = links[4 * i + 2], side = links[4 * i + 3];

    for (int s = 0; s < 2; s++) {
        int64_t child = links[4 * i + s];
        if (child >= 0 ? child <= i || child >= end : ~child >= leaves)
            return false;
    }
    if (i == root)
        return parent == -1;
    return parent >= root && parent < i && (side == 0 || side == 1) &&
           links[4 * parent + side] == i;
}

/* The trees of an array of links: their roots have no parent. */
static gram_status find_roots(gram_context *g, const struct gram_model_file *file,
                              const int64_t *links, int64_t nodes, int most,
                              struct machine_tree *tree)
{
    for (int64_t i = 0; i < nodes; i++)
        if (i == 0 || links[4 * i + 2] == -1) {
            if (tree->trees == most)
                return gram_model_bad(g, file, "node %lld of the tree has wrong links",
                                      (long long)i);
            tree->root[tree->trees++] = i;
        }
    return GRAM_OK;
}

/* The numbers of one node. */
static bool read_node(const double *numbers, const int64_t *links, int64_t width, bool routing,
                      struct machine_node *node)
{
    node->direction = malloc((size_t)width * sizeof *node->direction + 1);
    if (!node->direction)
        return false;
    memcpy(node->direction, numbers, (size_t)width * sizeof *numbers);
    node->low = numbers[width];
    node->high = numbers[width + 1];
    node->scale = routing ? numbers[width + 2] : 0;
    node->child[0] = links[0];
    node->child[1] = links[1];
    node->parent = links[2];
    node->side = (int)links[3];
    return true;
}

/* All nodes, which are believed one by one. */
static gram_status read_nodes(gram_context *g, const struct gram_model_file *file,
                              const double *numbers, const int64_t *links, int64_t leaves,
                              bool routing, struct machine_tree *tree)
{
    const int64_t nodes = leaves - (tree->trees ? tree->trees : 1);
    const int64_t row = node_numbers(tree->width, routing);

    tree->node = calloc((size_t)nodes + 1, sizeof *tree->node);
    for (int64_t i = 0, t = 0; tree->node && i < nodes; i++) {
        struct machine_node *node = &tree->node[i];
        int64_t end;

        t += t + 1 < tree->trees && i == tree->root[t + 1];
        end = t + 1 < tree->trees ? tree->root[t + 1] : nodes;
        if (!links_hold(links, i, tree->root[t], end, leaves))
            return gram_model_bad(g, file, "node %lld of the tree has wrong links", (long long)i);
        tree->count++;
        if (!read_node(numbers + i * row, links + 4 * i, tree->width, routing, node))
            break;
        if (!node_holds(node, tree->width))
            return gram_model_bad(g, file, "node %lld of the tree is not valid", (long long)i);
    }
    return tree->node && tree->count == nodes && (nodes == 0 || tree->node[nodes - 1].direction)
               ? GRAM_OK
               : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the tree");
}

static gram_status need_tree(gram_context *g, const struct gram_model_file *file, int64_t width,
                             int64_t leaves, bool routing, struct machine_tree *tree)
{
    int64_t nodes = leaves - 1, row = node_numbers(width, routing), found;
    const int64_t *links;
    const double *numbers;
    const void *temperature;

    if (nodes > INT32_MAX || (nodes > 0 && row > INT64_MAX / nodes))
        return gram_model_bad(g, file, "there are too many leaves");
    TRY(gram_model_need_vector(g, file, "tree.links", GRAM_I64, routing ? -1 : 4 * nodes,
                               (const void **)&links, &found));
    if (routing) {
        TRY(gram_model_need_vector(g, file, "tree.temperature", GRAM_F64, 1, &temperature, NULL));
        tree->temperature = *(const double *)temperature;
        nodes = found / 4;
    }
    TRY(find_roots(g, file, links, nodes, routing ? MOST_TREES : 1, tree));
    if (!tree_holds(tree) || (routing && (found % 4 != 0 || nodes + tree->trees != leaves)))
        return gram_model_bad(g, file, "the trees have %lld links and the temperature %g",
                              (long long)found, tree->temperature);
    TRY(gram_model_need_vector(g, file, "tree.numbers", GRAM_F64, nodes * row,
                               (const void **)&numbers, NULL));
    tree->width = width;
    return read_nodes(g, file, numbers, links, leaves, routing, tree);
}

/* A copy of an array of the file, from malloc. */
static gram_status copy_array(gram_context *g, const struct gram_model_array *a, void *out)
{
    size_t bytes = gram_dtype_size((gram_dtype)a->type);
    void *copy;

    for (int i = 0; i < a->ndim; i++)
        bytes *= (size_t)a->shape[i];
    copy = malloc(bytes + 1);
    if (!copy)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memcpy(copy, a->data, bytes);
    memcpy(out, &copy, sizeof copy);
    return GRAM_OK;
}

static gram_status need_metric(gram_context *g, const struct gram_model_file *file,
                               const char *name, int64_t width, struct machine_metric *out)
{
    const struct gram_model_array *a = gram_model_find(file, name);

    out->width = width;
    out->full = a && a->ndim == 2;
    TRY(gram_model_need(g, file, name, GRAM_F64, out->full ? 2 : 1, (int64_t[2]){width, width},
                        &a));
    return copy_array(g, a, &out->w);
}

static gram_status need_leaf(gram_context *g, const struct gram_model_file *file, int64_t index,
                             const gram_machine *machine, struct machine_leaf *leaf)
{
    const struct gram_model_array *x, *alpha;
    const void *kernel;
    char name[NAME_BYTES];

    leaf->width = machine->encoder->width;
    leaf->outputs = gram_machine_target_outputs(&machine->target);
    leaf_name(name, index, "x");
    x = gram_model_find(file, name);
    leaf->dtype = x && x->type == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    TRY(gram_model_need(g, file, name, leaf->dtype, 2, (int64_t[2]){-1, leaf->width}, &x));
    leaf->rows = x->shape[0];
    leaf->borrowed = true;
    leaf->x = (char *)x->data;
    leaf_name(name, index, "alpha");
    TRY(gram_model_need(g, file, name, leaf->dtype, 2, (int64_t[2]){leaf->outputs, leaf->rows},
                        &alpha));
    leaf->alpha = (char *)alpha->data;
    leaf_name(name, index, "metric");
    TRY(need_metric(g, file, name, leaf->width, &leaf->metric));
    leaf_name(name, index, "kernel");
    TRY(gram_model_need_vector(g, file, name, GRAM_F64, 3, &kernel, NULL));
    leaf->p = ((const double *)kernel)[0];
    leaf->q = ((const double *)kernel)[1];
    leaf->bandwidth = ((const double *)kernel)[2];
    if (!leaf_holds(leaf, machine->leaf[0].dtype))
        return gram_model_bad(g, file, "leaf %lld is not valid", (long long)index);
    return GRAM_OK;
}

/* One member, or those of an ensemble. */
static gram_status need_members(gram_context *g, const struct gram_model_file *file, bool several,
                                gram_machine *machine)
{
    const void *weights;
    int64_t count;

    machine->members = 1;
    machine->weight[0] = 1;
    if (!several)
        return GRAM_OK;
    TRY(gram_model_need_vector(g, file, "members", GRAM_F64, -1, &weights, &count));
    machine->members = 0;
    if (count >= 1 && count <= MOST_MEMBERS) {
        machine->members = (int)count;
        memcpy(machine->weight, weights, (size_t)count * sizeof *machine->weight);
    }
    if (!members_hold(machine))
        return gram_model_bad(g, file, "members is not 1 to %d positive numbers with the sum 1",
                              MOST_MEMBERS);
    return GRAM_OK;
}

/* The leaves of all members. */
static gram_status need_leaves(gram_context *g, const struct gram_model_file *file,
                               gram_machine *machine)
{
    machine->leaves = machine->tree.count + (machine->tree.trees ? machine->tree.trees : 1);
    machine->leaf = calloc((size_t)(machine->members * machine->leaves), sizeof *machine->leaf);
    if (!machine->leaf)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the machine");
    for (int64_t i = 0; i < machine->members * machine->leaves; i++)
        TRY(need_leaf(g, file, i, machine, &machine->leaf[i]));
    machine->dtype = machine->leaf[0].dtype;
    return GRAM_OK;
}

static bool known_format(const char *format)
{
    return format && (strcmp(format, FORMAT) == 0 || strcmp(format, FORMAT_DATES) == 0 ||
                      strcmp(format, FORMAT_MEMBERS) == 0 || strcmp(format, FORMAT_BASE) == 0 ||
                      strcmp(format, FORMAT_TARGETS) == 0 || strcmp(format, FORMAT_LEVELS) == 0 ||
                      strcmp(format, FORMAT_ROUTING) == 0);
}

static gram_status read_machine(gram_context *g, const struct gram_model_file *file,
                                gram_machine *machine)
{
    const char *format = gram_model_text(file, "format"), *summary;
    const void *importance, *leaves;
    char name[NAME_BYTES];
    size_t bytes;
    bool routing, any, targets, base, several;

    if (!known_format(format))
        return gram_model_bad(g, file, "its format is \"%s\", expected \"%s\"",
                              format ? format : "none", FORMAT);
    routing = strcmp(format, FORMAT_ROUTING) == 0;
    any = routing || strcmp(format, FORMAT_LEVELS) == 0;
    targets = any ? gram_model_find(file, "targets") != NULL : strcmp(format, FORMAT_TARGETS) == 0;
    any |= targets;
    TRY(gram_model_need_encoder(g, file, &machine->encoder));
    TRY(targets ? need_parts(g, file, &machine->target) : need_target(g, file, &machine->target));
    bytes = (size_t)machine->encoder->columns * sizeof *machine->importance;
    TRY(gram_model_need_vector(g, file, "importance", GRAM_F64, machine->encoder->columns,
                               &importance, NULL));
    TRY(gram_model_need_vector(g, file, "leaves", GRAM_I64, 1, &leaves, NULL));
    if (*(const int64_t *)leaves < 1)
        return gram_model_bad(g, file, "there are no leaves");
    TRY(need_tree(g, file, machine->encoder->width, *(const int64_t *)leaves, routing,
                  &machine->tree));
    summary = gram_model_text(file, "summary");
    machine->summary = strdup(summary ? summary : "{}");
    machine->importance = malloc(bytes + 1);
    if (!machine->summary || !machine->importance)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the machine");
    memcpy(machine->importance, importance, bytes);
    several = any ? gram_model_find(file, "members") != NULL : strcmp(format, FORMAT_MEMBERS) == 0;
    TRY(need_members(g, file, several, machine));
    TRY(need_leaves(g, file, machine));
    leaf_name(name, machine->members * machine->leaves, "x");
    base = any ? gram_model_find(file, name) != NULL : strcmp(format, FORMAT_BASE) == 0;
    if (!base)
        return GRAM_OK;
    return need_leaf(g, file, machine->members * machine->leaves, machine, &machine->base);
}

gram_status gram_machine_load(gram_context *g, const char *path, gram_machine **out)
{
    struct gram_model_file *file;
    gram_machine *machine;
    gram_status status;

    TRY(gram_begin_without_blas(g, __func__));
    if (!path || !out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", path ? "out" : "path");
    *out = NULL;
    TRY(gram_model_read(g, path, &file));
    machine = calloc(1, sizeof *machine);
    status = machine ? read_machine(g, file, machine)
                     : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a machine");
    if (status == GRAM_OK) {
        machine->file = file;
        *out = machine;
    } else {
        gram_machine_destroy(machine);
        gram_model_file_destroy(file);
    }
    return status;
}
