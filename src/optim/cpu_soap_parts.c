/*
 * cpu_soap_parts.c - the small loops of SOAP, in f32 and f64
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_soap.h"
#include <string.h>

#define SUFFIX f32
#define real   float
#include "soap_tile.h"

#define SUFFIX f64
#define real   double
#include "soap_tile.h"

const struct soap_kernels *cpu_soap_kernels(gram_dtype dtype)
{
    return dtype == GRAM_F32 ? &cpu_soap_f32 : &cpu_soap_f64;
}
