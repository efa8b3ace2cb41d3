/* Cost database: the measurements of ffprof, by which the simulator prices tasks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COSTS_H
#define FF_COSTS_H

#include "ff/arena.h"
#include "ff/cost_rate.h"
#include "ff/json.h"
#include "ff/machine.h"
#include "ff/move.h"
#include "ff/origin.h"

#define FF_COST_KEY_BYTES 1024 /* longest key, with its NUL */

/* Prices without measurements. */
enum ff_estimate {
	FF_ESTIMATE_PEAK,  /* the roofline of a device's peak rates */
	FF_ESTIMATE_MODEL, /* device models; for a device without one, its peak rates */
};
#define FF_ESTIMATES "analytic|peak" /* their names: MODEL, PEAK */
/* Whether `costs` is one of those names, and which. */
bool ff_estimate_named(const char *costs, enum ff_estimate *ret);

struct ff_cost {
	const char *key;                  /* ff_work_key of the kernel */
	double median_us, p10_us, p90_us; /* all devices of a node running at once */
	uint32_t samples;
	int64_t workspace_bytes; /* scratch of the kernel */
	uint32_t disturbed;      /* samples during which something else ran */
	int64_t reuse_bytes;     /* reuse distance of each sample (ff/reuse.h) */
	double alone_us; /* the median while the node's other devices idle; 0: not measured */
};

/* Who communicates: `ranks` devices in all, equally many on each of `nodes`. */
struct ff_comm_shape {
	enum ff_move_kind kind;
	uint32_t ranks, nodes;
	bool one_way; /* POINT_TO_POINT of two: one sends, the other does not */
};

/* Times at several sizes, interpolated linearly; beyond the last size the last slope holds.
 * `bytes`: of a collective the whole region, else what one device sends.  All devices send at once:
 * POINT_TO_POINT to their successor in one node, or to their peer in the next of several nodes;
 * ALL_TO_ALL to all others. */
struct ff_comm_cost {
	struct ff_comm_shape shape;
	uint32_t n;
	double *bytes, *us; /* n, ascending */
	uint32_t disturbed; /* sizes with disturbed samples */
};

/* How quiet the machine was, over all measurements of a file. */
struct ff_steadiness {
	uint64_t samples, disturbed; /* taken; disturbed, most of which were repeated */
	double reference_spread; /* of a constant piece of work, 90th over 10th percentile of its
				  * times; 0: not measured */
};
#define FF_STEADY 0.9 /* with a smaller share of undisturbed samples predictions get a warning */

/* Launch costs of an almost empty kernel, on a device that is not the host.  Measured kernel times
 * include `stream_us`, but not the excess of `alone_us` over it.  All 0: not measured. */
struct ff_launches {
	double host_us;   /* the host's time to queue one */
	double stream_us; /* the stream's time for each of many in a row */
	double alone_us;  /* the stream's time for a single one */
};

/* Costs of overlapping communication with compute, as shares of the communication's time alone,
 * within a node and between nodes. */
struct ff_overlap_cost {
	double inside, between;               /* added to compute; negative: not measured */
	double inside_longer, between_longer; /* added to the communication; 0: not measured */
};
#define FF_OVERLAP_PAYS 0.8 /* overlap pays if its share added to compute is below this */

struct ff_costs;

int ff_costs_create(const char *device_kind, struct ff_costs **ret, struct ff_error *err);
void ff_costs_destroy(struct ff_costs *c);
int ff_costs_load(const char *path, struct ff_costs **ret, struct ff_error *err);
/* Sorted by key: the same measurements give the same bytes. */
void ff_costs_write(const struct ff_costs *c, struct ff_out *o);

const char *ff_costs_device_kind(const struct ff_costs *c);
const struct ff_origin *ff_costs_origin(const struct ff_costs *c);
int ff_costs_set_origin(struct ff_costs *c, const struct ff_origin *o, struct ff_error *err);
uint32_t ff_costs_count(const struct ff_costs *c);
/* The measurement of `key` with the nearest reuse distance, so that caches are most alike; NULL if
 * there is none. */
const struct ff_cost *ff_costs_find(const struct ff_costs *c, const char *key, int64_t reuse_bytes);
/* Adds a cost, or replaces the one with the same key and reuse_bytes; strings are copied. */
int ff_costs_put(struct ff_costs *c, const struct ff_cost *cost, struct ff_error *err);

const struct ff_steadiness *ff_costs_steadiness(const struct ff_costs *c);
void ff_costs_set_steadiness(struct ff_costs *c, const struct ff_steadiness *s);
const struct ff_launches *ff_costs_launch(const struct ff_costs *c);
void ff_costs_set_launch(struct ff_costs *c, const struct ff_launches *l);
struct ff_overlap_cost ff_costs_overlap(const struct ff_costs *c);
/* Values are capped at 16, the most that a file may have: larger ones come from busy machines. */
void ff_costs_set_overlap(struct ff_costs *c, struct ff_overlap_cost o);
/* The share of figures without disturbed samples, 0 to 1: by time of kernels, or by number of rates
 * and tables, whichever is less. */
double ff_costs_steady_share(const struct ff_costs *c);

/* The rate with the nearest reuse distance; NULL if that kind was never measured. */
const struct ff_rate *ff_costs_rate(
		const struct ff_costs *c, enum ff_rate_kind k, int64_t reuse_bytes);
/* A rate of loads, measured with samples of the nearest size: looking up each sample takes time. */
const struct ff_rate *ff_costs_load_rate(const struct ff_costs *c, enum ff_rate_kind k,
		int64_t sample_bytes, int64_t reuse_bytes);
/* Adds a rate, or replaces the one with the same reuse_bytes and sample_bytes. */
int ff_costs_set_rate(
		struct ff_costs *c, enum ff_rate_kind k, struct ff_rate r, struct ff_error *err);

/* NULL if exactly that shape was not measured. */
const struct ff_comm_cost *ff_costs_comm(const struct ff_costs *c, struct ff_comm_shape shape);
int ff_costs_put_comm(struct ff_costs *c, const struct ff_comm_cost *cc, struct ff_error *err);
/* The measured link inside a node: latency and bandwidth of messages; bytes_per_us 0: not measured.
 * It is kept in whole bytes a second, as files have it, so that a machine file written from it
 * agrees. */
struct ff_rate ff_costs_link(const struct ff_costs *c);
void ff_costs_set_link(struct ff_costs *c, struct ff_rate r);

#endif
