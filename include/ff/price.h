/* Prices: how long each task of a schedule takes.  docs/simulator.md has the
 * model.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PRICE_H
#define FF_PRICE_H

#include "ff/costs.h"
#include "ff/device_model.h"
#include "ff/framework.h"
#include "ff/schedule.h"
#include "ff/travel.h"

struct ff_pricer;

/* Prices are positive multiples of this step (about a picosecond).  So sums of prices below
 * FF_TIMES_EXACT_US are exact in any order, and a task that begins later by some time ends later by
 * the same time, to the bit. */
#define FF_PRICE_STEP_US (1.0 / (1 << 20))
#define FF_TIMES_EXACT_US ((double)(1ull << 32)) /* over an hour */

/* Prices for `g` on `m`, from the measurements in `costs`; NULL: by `estimate`.  All three must
 * outlive the pricer.  `costs_path` and `graph_path` only serve the error for a missing cost. */
int ff_pricer_create(const struct ff_graph *g, const struct ff_machine *m,
		enum ff_estimate estimate, const struct ff_costs *costs, const char *costs_path,
		const char *graph_path, struct ff_pricer **ret, struct ff_error *err);
void ff_pricer_destroy(struct ff_pricer *p);
/* Sets the optimizer, for these prices and every evaluation with them.  FF_E_INPUT if its updates
 * were never measured. */
int ff_pricer_set_optimizer(
		struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err);
/* Whether collectives run in stages, inside and between nodes, where possible (ff/nodes.h).  The
 * preset is how costs were measured; without measured costs, no. */
void ff_pricer_set_by_nodes(struct ff_pricer *p, bool by_nodes);
/* Overrides the measured costs of overlap. */
void ff_pricer_set_overlap(struct ff_pricer *p, struct ff_overlap_cost o);
const struct ff_optimizer *ff_price_optimizer(const struct ff_pricer *p);
/* Whether evaluations with these prices clip gradients by their global norm; the preset is no. */
void ff_pricer_set_clip(struct ff_pricer *p, bool clip);
bool ff_price_clips(const struct ff_pricer *p);
/* How gradients travel (ff/travel.h); the preset is uncompressed, in the same step. */
void ff_pricer_set_travel(struct ff_pricer *p, const struct ff_travel *t);
const struct ff_codec *ff_price_codec(const struct ff_pricer *p);

/* Prices for execution by framework `f`; NULL, the preset: our runtime.  Must be called before
 * anything is priced.  Measured costs do not change. */
void ff_pricer_set_framework(struct ff_pricer *p, const struct ff_framework *f);
const struct ff_framework *ff_price_framework(const struct ff_pricer *p);

/* The time of `w` on `device` in microseconds, >= 0.  Of several measurements it takes the one
 * whose caches were most like those of the node in a step (ff/reuse.h).  FF_E_INPUT if there is
 * none: the sentence names the key and the ffprof command that measures it.  Memoised by
 * ff_work_hash. */
int ff_price_work(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err);
/* The time of one of `n_parts` parts of operator `node`.  A single part that no other device
 * computes beside (ff/alone.h) takes the time measured alone, if there is one.  `inferred` may be
 * NULL; else it gets the share of the time that a device model inferred from other kinds of
 * devices. */
int ff_price_part(struct ff_pricer *p, const struct ff_work *w, uint32_t node, uint32_t n_parts,
		uint32_t device, double *us, struct ff_inferred *inferred, struct ff_error *err);
/* With FF_ESTIMATE_MODEL: a kind of devices without a model, which is priced by its peak rates;
 * NULL: there is none. */
const struct ff_device_kind *ff_price_unmodelled(const struct ff_pricer *p);
/* Peak FLOP/s of all devices together for matrix products in the graph's type. */
double ff_price_peak_flops_per_s(const struct ff_pricer *p);
/* A lower bound of ff_price_part for that work. */
int ff_price_least(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err);
/* What the prices of a node's parts depend on besides its kernels.  Nodes of one class
 * (ff/node_class.h) with an equal value here have equal prices. */
uint64_t ff_price_place(const struct ff_pricer *p, uint32_t node);
/* The time that `mv` occupies its lanes.  `g`: the graph of one micro-batch; the state of caches
 * depends on it. */
double ff_price_move(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv);
/* All-reduce of `bytes` among `device` (ascending); 0 for one device. */
double ff_price_sync(const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes);
/* All-reduce of a bucket of gradients, compressed where the pricer has a codec. */
double ff_price_bucket(
		const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes);
/* A flat bucket (ff/bucket.h): `bytes` of float32 weights in `runs` runs. */
struct ff_runs {
	uint32_t n, runs;
	const uint16_t *device; /* n, ascending */
	int64_t bytes;
};
/* The all-gather of its weights in the operators' type, in all groups at once. */
double ff_price_gather(const struct ff_pricer *p, const struct ff_runs *x);
/* The reduce-scatter of its gradients, in all groups at once.  With `adds` each device adds the
 * result to that of earlier micro-batches.  `g` as above. */
double ff_price_scatter(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_runs *x, bool adds);
/* The all-reduce of each run between groups, all runs at once; 0 for one group. */
double ff_price_across(const struct ff_pricer *p, const struct ff_runs *x);
/* Local SGD: averaging a bucket's weights and states, divided by the `every` steps between. */
double ff_price_average(const struct ff_pricer *p, uint32_t n, const uint16_t *device,
		int64_t bytes, uint32_t every);
/* How much longer each of `device` computes because of a transfer of `us` that overlaps; 0: nothing
 * overlaps, or it was not measured. */
double ff_price_beside(const struct ff_pricer *p, uint32_t n, const uint16_t *device, double us);
/* Accumulating `bytes` of gradients in memory.  `g` as above. */
double ff_price_add(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		int64_t bytes);
/* Lower bounds of communication, for ff_lower_bound (docs/simulator.md). */

/* Microseconds that a device needs, at least, for every byte that it receives from others, in
 * whatever moves; 0: unknown. */
double ff_price_received_us(const struct ff_pricer *p);
/* The least time to receive b bytes, in whatever moves: the minimum over the lines of
 * base_us + byte_us b + root_us sqrt(b), plus what receiving from several devices adds. */
#define FF_LEAST_LINES 16
struct ff_least_wait {
	uint32_t n;
	struct ff_least_line {
		double base_us, byte_us, root_us;
	} line[FF_LEAST_LINES];
	uint32_t most;   /* length of more_us */
	double *more_us; /* by number of other devices: added time */
};
/* n is 0 where ff_price_received_us is.  Memory from `a`. */
int ff_price_least_wait(const struct ff_pricer *p, struct ff_arena *a, struct ff_least_wait *ret,
		struct ff_error *err);
/* That bound for `bytes` bytes from at least `others` other devices; 0 for none. */
double ff_least_wait_us(const struct ff_least_wait *w, double bytes, double others);
/* The least time to reduce `elements` among any `n` devices, so that all of them have the result;
 * 0: unknown. */
double ff_price_sum_us(
		const struct ff_pricer *p, uint32_t n, enum ff_reduce reduce, int64_t elements);
/* An update of `bytes` of float32 weights. */
double ff_price_update(const struct ff_pricer *p, uint32_t device, int64_t bytes);
/* A copy of `bytes` of gradients, which also prices reading them for the global norm. */
double ff_price_copied(const struct ff_pricer *p, uint32_t device, int64_t bytes);
/* Bytes of scratch that the kernel was measured to need, or an upper estimate.  For
 * ff_lower_options.workspace, with `p` as ctx. */
int64_t ff_price_workspace(void *p, const struct ff_work *w);

#endif
