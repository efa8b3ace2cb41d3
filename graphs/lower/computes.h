/* Tasks that compute.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_COMPUTES_H
#define FF_LOWER_COMPUTES_H

#include "lower/state/lowering.h"

/* Before all. */
int ff_computes_init(struct ff_lowering *l, struct ff_error *err);
/* What the kernel of a part needs besides, in bytes. */
int64_t ff_computes_scratch(struct ff_lowering *l, uint32_t node, enum ff_pass pass, uint32_t part);
/* What step `s` computes: begun, one part after another, ended. */
void ff_computes_begin(struct ff_lowering *l, const struct ff_step *s);
void ff_computes_part(struct ff_lowering *l, const struct ff_step *s, uint32_t part);
void ff_computes_end(struct ff_lowering *l);

#endif
