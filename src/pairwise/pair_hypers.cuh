/*
 * pair_hypers.cuh - the hyperparameters of an item, where the device reads them
 *
 * Part of files whose parameters IS_DOUBLE, STEP, FUNCTION and OUTPUT it uses, and which include
 * device_view.cuh and pair_terms.cuh before it.
 *
 * SPDX-License-Identifier: MIT
 */

static __device__ void prepare(const struct pair_params *a, long long item, struct pair_map *map)
{
    const struct pair_what what = {FUNCTION, OUTPUT, STEP == PAIR_DOT, IS_DOUBLE};
    __shared__ double value[PAIR_HYPERS + PAIR_PARAMETERS]; /* of one thread: no local memory */
    bool valid = true;

    for (int i = 0; i < PAIR_HYPERS + (FUNCTION == PAIR_EXPRESSION ? PAIR_PARAMETERS : 0); i++) {
        const struct pair_hyper *h = &a->hyper[i]; /* parameters lie behind them */
        value[i] = number_at(a->batch_shape, a->batch_ndim, h->number, item);
        if (h->number.data)
            valid = valid && value[i] >= h->least && value[i] <= h->most &&
                    !(h->open && value[i] == h->least);
    }
    pair_map_prepare(map, &what, value);
#if FUNCTION == PAIR_EXPRESSION
    expression_constants(value + PAIR_HYPERS, map->constant);
#endif
    map->valid = valid;
}
