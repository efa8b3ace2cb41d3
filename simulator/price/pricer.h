/* The state of a pricer, shared by its files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PRICER_H
#define FF_SIMULATOR_PRICER_H

#include "ff/device_model.h"
#include "ff/hash.h"
#include "ff/micro.h"
#include "ff/price.h"
#include "ff/reuse.h"
#include "ff/scratch.h"
#include "links.h"

/* Prices by peak rates: added to the roofline of each pass of an operator, copy and update; about a
 * CUDA kernel launch. */
#define FF_LAUNCH_US 5.0

/* The memoised price of a kernel. */
struct ff_priced {
	double us, alone_us;
	struct ff_inferred inferred; /* of `us` */
	int64_t workspace_bytes;
};

/* The reuse distance in a micro-batch, and the rates for it. */
struct ff_price_state {
	int64_t reuse_bytes;
	const struct ff_rate *rate[FF_RATE_COUNT];
};
#define FF_PRICE_STATES (2 * 64) /* ff_reuse_bytes rounds to two values a power of two */

struct ff_pricer {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	enum ff_estimate estimate;            /* without costs */
	const struct ff_costs *costs;         /* NULL: nothing was measured */
	const struct ff_device_model **model; /* by kind; NULL: by its peak rates */
	const char *costs_path, *graph_path;
	const struct ff_optimizer *optimizer;
	bool clip;
	const struct ff_codec *codec;
	bool averaged;                        /* local SGD */
	const struct ff_framework *framework; /* NULL: our runtime */
	struct ff_overlap_cost overlap;
	struct ff_links links;
	struct ff_scratch scratch; /* estimates, without costs */
	struct ff_table table;     /* ff_work_hash to memo */
	struct ff_priced *memo;
	uint32_t memo_cap;
	struct ff_arena arena;
	bool *alone;           /* by node */
	struct ff_reuse reuse; /* if measured */
	uint32_t n_states;
	struct ff_price_state state[FF_PRICE_STATES];
	uint8_t state_of[FF_MAX_MICRO_BATCHES + 1];
};

/* The number of micro-batches for which `g` is the graph of one. */
static inline uint32_t ff_pricer_micro(const struct ff_pricer *p, const struct ff_graph *g)
{
	int32_t m = g->batch > 0 ? p->graph->batch / g->batch : 1;

	return m > 0 && m <= FF_MAX_MICRO_BATCHES ? (uint32_t)m : 1;
}

static inline const struct ff_price_state *ff_pricer_state(
		const struct ff_pricer *p, const struct ff_graph *g)
{
	return &p->state[p->state_of[ff_pricer_micro(p, g)]];
}

static inline uint32_t ff_pricer_kind(const struct ff_pricer *p, uint32_t device)
{
	return p->machine->nodes[p->machine->node_of[device]].kind;
}

static inline const struct ff_device_model *ff_pricer_model(
		const struct ff_pricer *p, uint32_t device)
{
	return p->model[ff_pricer_kind(p, device)];
}

/* The time of `passes` passes over `bytes` of memory. */
static inline double ff_price_memory_us(
		const struct ff_device_kind *kind, double passes, double bytes)
{
	return FF_LAUNCH_US + passes * bytes * 1e6 / kind->memory_bytes_per_s;
}

/* Rounds to the nearest multiple of FF_PRICE_STEP_US, at least one: the unit in the last place of
 * the number that is added and subtracted. */
static inline double ff_price_on_grid(double us)
{
	const double shift = 1.5 * 4503599627370496.0 * FF_PRICE_STEP_US;

	us = us + shift - shift;
	return us > FF_PRICE_STEP_US ? us : FF_PRICE_STEP_US;
}

#endif
