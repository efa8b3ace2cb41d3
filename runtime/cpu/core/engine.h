/* oneDNN, where it is.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_ENGINE_H
#define FF_CPU_ENGINE_H

#include <stddef.h>

#include "ff/dtype.h"
#include "ff/error.h"

struct ff_dnnl; /* dnnl.h; NULL in a build without oneDNN */

/* dnnl.c, or without.c, which says that there is none where something is to be computed. */
int ff_dnnl_open(struct ff_dnnl **ret, struct ff_error *err);
void ff_dnnl_close(struct ff_dnnl *d);
/* "oneDNN 2.6.3" */
void ff_dnnl_version(char *text, size_t size);
/* FF_E_INPUT with a sentence unless the library computes in `type` (float32, bfloat16) on
 * this processor. */
int ff_dnnl_computes(const struct ff_dnnl *d, enum ff_dtype type, struct ff_error *err);

#endif
