/* Model zoo: networks by name, their sizes as parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ZOO_H
#define FF_ZOO_H

#include "ff/zoo_net.h"

/* What every network can be told beside its own: "dtype", what it computes in. */
extern const struct ff_zoo_param ff_zoo_dtype;

/* Network number `i`, NULL behind the last. */
const struct ff_zoo_row *ff_zoo_row(uint32_t i);

/* Builds `name` for a global batch of `batch` samples (0: the network's
 * preset).  `sets` are "key=value".  Unknown names, keys and values out of
 * range are FF_E_INPUT in a sentence that lists what there is.  Memory from `a`. */
int ff_zoo_build(const char *name, uint64_t batch, const char *const *sets, uint32_t n_sets,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

#endif
