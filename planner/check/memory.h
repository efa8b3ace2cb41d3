/* Memory that no strategy does without.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_MEMORY_H
#define FF_CHECK_MEMORY_H

#include "ff/graph.h"
#include "ff/optimizer.h"

/* Of all devices together: each weight, and its states, lie somewhere at all times. */
int64_t ff_least_memory_bytes(const struct ff_graph *g, const struct ff_optimizer *o);

#endif
