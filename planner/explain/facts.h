/* Facts of a plan: each figure that anybody is told of it, computed once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_FACTS_H
#define FF_PLANNER_FACTS_H

#include "bytes.h"
#include "critical.h"
#include "shape.h"

/* What a plan is compared with. */
struct ff_rival {
	const char *name; /* for --simulate */
	double step_us;
	int64_t memory_bytes; /* of the device that needs most */
	int64_t sent_bytes;
	bool fits;
};
#define FF_MOST_RIVALS 7

struct ff_facts {
	double step_us;
	double samples_per_s;
	double tokens_per_s; /* 0: its losses are not of the places of one sequence */
	double mfu; /* FLOPs of forward and backward, once, by those of all devices' peaks */
	int64_t sent_bytes;
	struct ff_times times;
	struct ff_held held;
	int64_t limit_bytes; /* of the device that needs most */
	struct ff_layers layers;
	struct ff_shape shape;
	struct ff_splits splits;
	struct ff_critical path;
	const char *bound; /* "computing", "communication", "waiting", "unknown" */
};

/* `g` is of the whole batch, `limit_bytes` 0: devices' own.  All memory from `a`. */
int ff_facts_find(const struct ff_graph *g, const struct ff_machine *m, const struct ff_plan *p,
		int64_t limit_bytes, struct ff_arena *a, struct ff_facts *ret,
		struct ff_error *err);

struct ff_rival ff_rival_of(const char *name, const struct ff_plan *p);
void ff_facts_write(const struct ff_facts *f, struct ff_out *o);
void ff_shape_write(const struct ff_shape *s, struct ff_out *o);
void ff_rival_write(const char *key, const struct ff_rival *r, struct ff_out *o);
void ff_rivals_write(const struct ff_rival *r, uint32_t n, struct ff_out *o);

#endif
