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

/* Prices of tasks are whole numbers of these steps, at least one (about a picosecond).  So
 * sums of times below FF_TIMES_EXACT_US are exact in whatever order they come about, and what
 * begins later by some time ends later by it, to the bit. */
#define FF_PRICE_STEP_US (1.0 / (1 << 20))
#define FF_TIMES_EXACT_US ((double)(1ull << 32)) /* over an hour */

/* Prices for `g` on `m`, which must outlive it: those of `costs`, as they were measured; NULL:
 * by `estimate`.  `costs_path` and `graph_path` only word the error for a missing cost. */
int ff_pricer_create(const struct ff_graph *g, const struct ff_machine *m,
		enum ff_estimate estimate, const struct ff_costs *costs, const char *costs_path,
		const char *graph_path, struct ff_pricer **ret, struct ff_error *err);
void ff_pricer_destroy(struct ff_pricer *p);
/* Updates by `o` instead of the preset optimizer, here and in whatever evaluates with
 * these prices.  FF_E_INPUT when its updates were never measured. */
int ff_pricer_set_optimizer(
		struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err);
/* Whether collectives go in stages where they can (ff/nodes.h); without it, as the costs were
 * measured, and not where there are none. */
void ff_pricer_set_by_nodes(struct ff_pricer *p, bool by_nodes);
/* As if that had been measured of overlapping. */
void ff_pricer_set_overlap(struct ff_pricer *p, struct ff_overlap_cost o);
const struct ff_optimizer *ff_price_optimizer(const struct ff_pricer *p);
/* Whether whatever evaluates with these prices clips gradients by their global norm; it does not
 * unless told. */
void ff_pricer_set_clip(struct ff_pricer *p, bool clip);
bool ff_price_clips(const struct ff_pricer *p);
/* How gradients travel; at first as they are.  Prices know by what they are compressed. */
void ff_pricer_set_travel(struct ff_pricer *p, const struct ff_travel *t);
const struct ff_codec *ff_price_codec(const struct ff_pricer *p);

/* As that framework would execute it; NULL, as at first: our runtime.  Before anything is priced;
 * costs that were measured stay as they are. */
void ff_pricer_set_framework(struct ff_pricer *p, const struct ff_framework *f);
const struct ff_framework *ff_price_framework(const struct ff_pricer *p);

/* Microseconds, >= 0: as measured with caches most like those that its node finds in a step or a
 * micro-batch (ff/reuse.h).  A cost that was never measured is FF_E_INPUT: the sentence names the
 * key and the ffprof command that measures it.  Measured ones are memoised by ff_work_hash. */
int ff_price_work(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err);
/* Of the only part of `n_parts` == 1, or of one of several, of operator `node`: a part that
 * nothing runs beside (ff/alone.h) takes what was measured alone, where that was.  `inferred`, if
 * it is not NULL, becomes what of ff_price_work's rests on no measurement of such a device: by a
 * model. */
int ff_price_part(struct ff_pricer *p, const struct ff_work *w, uint32_t node, uint32_t n_parts,
		uint32_t device, double *us, struct ff_inferred *inferred, struct ff_error *err);
/* A kind of devices that has no model, where those were asked for, and so costs what its peak
 * rates say; NULL: there is none. */
const struct ff_device_kind *ff_price_unmodelled(const struct ff_pricer *p);
/* FLOP/s of all devices together at which prices have products of the graph's type, at most. */
double ff_price_peak_flops_per_s(const struct ff_pricer *p);
/* The least that ff_price_part may say of it. */
int ff_price_least(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err);
/* What prices of a node's parts depend on beside its kernels: equal nodes (ff/node_class.h) of
 * which this is equal, too, have the same. */
uint64_t ff_price_place(const struct ff_pricer *p, uint32_t node);
/* Time that `mv` holds its lanes.  `g` is the graph of one micro-batch, as a work's is: what
 * caches hold depends on it. */
double ff_price_move(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv);
/* All-reduce of `bytes` among `device` (ascending); 0 for one device. */
double ff_price_sync(const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes);
/* All-reduce of a bucket of gradients, compressed where the pricer has a codec. */
double ff_price_bucket(
		const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes);
/* A flat bucket: `bytes` are of all its float32 weights, cut in so many runs (ff/bucket.h). */
struct ff_runs {
	uint32_t n, runs;
	const uint16_t *device; /* n, ascending */
	int64_t bytes;
};
/* The all-gather of its weights, as operators read them, in all groups at once. */
double ff_price_gather(const struct ff_pricer *p, const struct ff_runs *x);
/* The reduce-scatter of its gradients, likewise, to which each device adds (`adds`) what earlier
 * micro-batches have left.  `g` as above. */
double ff_price_scatter(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_runs *x, bool adds);
/* Behind it the all-reduce of each run among groups, all runs at once; 0 for one group. */
double ff_price_across(const struct ff_pricer *p, const struct ff_runs *x);
/* A bucket's weights and states become the mean of all: what that takes in each of `every` steps.
 */
double ff_price_average(const struct ff_pricer *p, uint32_t n, const uint16_t *device,
		int64_t bytes, uint32_t every);
/* What a transfer among `device` that takes `us`, on their communication lanes, takes from what
 * each of them computes: as measured; 0 where that was not, or nothing overlaps. */
double ff_price_beside(const struct ff_pricer *p, uint32_t n, const uint16_t *device, double us);
/* Adding so many bytes of gradients to others in memory; 0 for none.  `g` as above. */
double ff_price_add(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		int64_t bytes);
/* Each move takes every device that it is among at least so long for a byte that it receives, of
 * gradients, weights or data, from others (docs/simulator.md); 0: nothing is known. */
double ff_price_received_us(const struct ff_pricer *p);
/* What a device waits, at least, for what it receives of others, in whatever moves: the least of
 * the lines, each base_us + byte_us b + root_us sqrt(b) of b bytes, and what hearing of several
 * devices takes more. */
#define FF_LEAST_LINES 16
struct ff_least_wait {
	uint32_t n;
	struct ff_least_line {
		double base_us, byte_us, root_us;
	} line[FF_LEAST_LINES];
	uint32_t most;   /* others that more_us knows of */
	double *more_us; /* by how many others have some of it, each */
};
/* Where ff_price_received_us knows something; memory from `a`. */
int ff_price_least_wait(const struct ff_pricer *p, struct ff_arena *a, struct ff_least_wait *ret,
		struct ff_error *err);
/* Of so many bytes, which at least so many others have; 0 of none. */
double ff_least_wait_us(const struct ff_least_wait *w, double bytes, double others);
/* Until each of `n` devices has what `elements` reduced by `reduce` come to of what all of them
 * have, wherever they are, it takes at least so long; 0: nothing is known. */
double ff_price_sum_us(
		const struct ff_pricer *p, uint32_t n, enum ff_reduce reduce, int64_t elements);
/* Updating so many bytes of weights. */
double ff_price_update(const struct ff_pricer *p, uint32_t device, int64_t bytes);
/* So many bytes of gradients that are copied; as long takes reading them for their norm. */
double ff_price_copied(const struct ff_pricer *p, uint32_t device, int64_t bytes);
/* Scratch that the kernel was measured to need; when analytic an upper estimate.  Fits
 * ff_lower_options.workspace with `p` as ctx. */
int64_t ff_price_workspace(void *p, const struct ff_work *w);

#endif
