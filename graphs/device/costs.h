/* The cost database's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_COSTS_H
#define FF_DEVICE_COSTS_H

#include "ff/costs.h"
#include "ff/hash.h"

#define FF_COSTS_FORMAT "ffsoap-costs"
#define FF_COSTS_VERSION 5
#define FF_COST_MAX_US 1e15                  /* thirty years: anything above is a typing error */
#define FF_COST_MAX_BYTES 9007199254740992.0 /* 2^53: doubles count in ones up to here */

struct ff_costs {
	struct ff_arena arena; /* strings, entries, tables */
	const char *device_kind;
	struct ff_origin origin;
	struct ff_cost **entry; /* by order of arrival: their addresses stay */
	uint32_t n_entries, cap_entries;
	struct ff_table table; /* keys to entries */
	struct ff_comm_cost **comm;
	uint32_t n_comm, cap_comm;
	struct ff_rates {
		struct ff_rate *rate; /* ascending by sample_bytes, then reuse_bytes */
		uint32_t n, cap;
	} rates[FF_RATE_COUNT];
	struct ff_rate link;
	struct ff_steadiness steadiness;
	struct ff_launches launch;
	struct ff_overlap_cost overlap;
};

/* costs_overlap.c: in cost files. */
int ff_costs_read_overlap(struct ff_costs *c, const struct ff_json *at, struct ff_error *err);
void ff_costs_write_overlap(const struct ff_costs *c, struct ff_out *o);

#endif
