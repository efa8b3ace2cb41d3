/* What can be trained in PyTorch: limits that the map of an exported module says.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TORCH_H
#define FF_PLANNER_TORCH_H

#include "space.h"

/* Adds to `l` what ffsoap_torch can do of `g`, whose map is in file `path`
 * (docs/schema/torch-map.schema.json): its operators' cuts, on a mesh; no stages and micro-batches
 * where there are statistics of the batch, no micro-batches where the map says why.  FF_E_INPUT
 * where the map is of another graph, or a pin asks for what cannot be.  Memory from `a`. */
int ff_torch_limit(const char *path, const struct ff_graph *g, struct ff_arena *a,
		struct ff_limits *l, struct ff_error *err);

#endif
