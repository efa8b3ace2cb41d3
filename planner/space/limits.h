/* Limits: whether configs and strategies keep to those of a space, and how they are made to.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_LIMITS_H
#define FF_PLANNER_LIMITS_H

#include "space.h"

bool ff_space_is_limited(const struct ff_space *s);
/* Whether `node` may have config `c` where there are no stages; of parameters, any but on a mesh.
 */
bool ff_space_admits(const struct ff_space *s, uint32_t node, const struct ff_config *c);
/* The same instead of what it has in `plan`, which is admitted. */
bool ff_space_admits_in(const struct ff_space *s, const struct ff_strategy *plan, uint32_t node,
		const struct ff_config *c);
/* The same of all operators, stages and micro-batches. */
bool ff_space_admits_strategy(const struct ff_space *s, const struct ff_strategy *plan);
/* The first node whose config is not admitted, or FF_NONE. */
uint32_t ff_space_first_outside(const struct ff_space *s, const struct ff_strategy *plan);

/* Makes a config that is not admitted into one that is, on the same devices as far as that goes:
 * what is pinned is split between neighbours, and the samples between those; what is not pinned
 * is split by sample alone. */
void ff_space_fit(const struct ff_space *s, uint32_t node, struct ff_config *c);
/* The same of all operators, or, `exact`, of those that are pinned alone.  FF_E_INPUT where that
 * is not enough: there are stages that may not be, or too many micro-batches, or an operator that
 * is not pinned would have to be changed.  `name` is the strategy's. */
int ff_space_fit_strategy(const struct ff_space *s, struct ff_strategy *plan, bool exact,
		const char *name, struct ff_error *err);

/* Nodes of one class that are pinned in different ways no longer are: class[i] is the first node
 * like i. */
void ff_space_part_classes(const struct ff_space *s, uint32_t *class);

#endif
