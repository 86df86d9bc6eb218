/*
 * element.cuh - a coordinate of x or y as it is stored
 *
 * Part of files whose parameter HALF it uses: 0: REAL; 1: binary16; 2: bfloat16, REAL is float.
 *
 * SPDX-License-Identifier: MIT
 */

#if HALF
typedef unsigned short element;
#else
typedef REAL element;
#endif

static __device__ REAL value_of(element e)
{
#if HALF == 1
    return ptx_float_of_half(e);
#elif HALF == 2
    return ptx_float_of_bfloat(e);
#else
    return e;
#endif
}
