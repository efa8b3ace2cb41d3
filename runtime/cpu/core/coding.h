/* Codecs of gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_CODING_H
#define FF_CPU_CODING_H

#include "ff/backend.h"

/* The kernels of the codec. */
void ff_cpu_encode(const struct ff_coding *c);
void ff_cpu_decode(const struct ff_coding *c);

#endif
