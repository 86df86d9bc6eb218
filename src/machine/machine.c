/*
 * machine.c - what a trained machine is asked for: features, classes, description; its end
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include "model_file.h"
#include <stdlib.h>
#include <string.h>

void gram_machine_destroy(gram_machine *machine)
{
    if (!machine)
        return;
    for (int64_t i = 0; machine->leaf && i < machine->leaves; i++)
        gram_machine_leaf_destroy(NULL, &machine->leaf[i]);
    free(machine->leaf);
    gram_machine_tree_destroy(&machine->tree);
    gram_machine_target_destroy(&machine->target);
    gram_encoder_destroy(machine->encoder);
    free(machine->importance);
    free(machine->description);
    free(machine->summary);
    gram_model_file_destroy(machine->file);
    free(machine);
}

int64_t gram_machine_feature_count(const gram_machine *machine)
{
    return machine ? machine->encoder->columns : 0;
}

gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine, int64_t index,
                                    gram_machine_feature *feature)
{
    gram_machine_feature result = {.size = sizeof result};
    const struct gram_encoded_column *column;
    size_t size;

    TRY(gram_begin_without_blas(g, __func__));
    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    if (index < 0 || index >= machine->encoder->columns)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "index is %lld, expected 0 to %lld",
                         (long long)index, (long long)machine->encoder->columns - 1);
    if (!feature || feature->size < sizeof feature->size || feature->size > sizeof result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "feature.size is %zu, expected at most %zu",
                         feature ? feature->size : 0, sizeof result);
    column = &machine->encoder->column[index];
    result.name = column->name;
    result.categories = (int)column->categories;
    result.importance = machine->importance[index];
    size = feature->size;
    result.size = size;
    memcpy(feature, &result, size);
    return GRAM_OK;
}

const char *gram_machine_target(const gram_machine *machine)
{
    return machine ? machine->target.name : NULL;
}

gram_task gram_machine_task(const gram_machine *machine)
{
    return machine ? machine->target.task : (gram_task)0;
}

int64_t gram_machine_class_count(const gram_machine *machine)
{
    return machine ? machine->target.classes : 0;
}

const char *gram_machine_class_name(const gram_machine *machine, int64_t index)
{
    return machine && index >= 0 && index < machine->target.classes
               ? machine->target.class_name[index]
               : NULL;
}

int gram_machine_classes_are_numbers(const gram_machine *machine)
{
    return machine && machine->target.class_value != NULL;
}

const char *gram_machine_describe(const gram_machine *machine)
{
    if (!machine)
        return NULL;
    return machine->description ? machine->description : machine->summary;
}
