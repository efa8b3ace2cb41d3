/* Cost database: what ffprof measured and the simulator prices with.
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

/* What prices rest on where nothing was measured. */
enum ff_estimate {
	FF_ESTIMATE_PEAK,  /* the roofline of a device's peak rates */
	FF_ESTIMATE_MODEL, /* models of devices; of those without one, their peak rates */
};
#define FF_ESTIMATES "analytic|peak" /* the words for them */
/* Whether `costs` is one of those words, and which. */
bool ff_estimate_named(const char *costs, enum ff_estimate *ret);

struct ff_cost {
	const char *key;                  /* what was measured, as ff_work_key says it */
	double median_us, p10_us, p90_us; /* on all devices of a node at once */
	uint32_t samples;
	int64_t workspace_bytes; /* scratch of the kernel */
	uint32_t disturbed;      /* of them: something else ran, and nothing better was had */
	int64_t reuse_bytes;     /* that went by before each sample (ff/reuse.h) */
	double alone_us; /* the median while the node's other devices wait; 0: not measured */
};

/* Who communicates: `ranks` devices of one node, or as many of each of several `nodes`. */
struct ff_comm_shape {
	enum ff_move_kind kind;
	uint32_t ranks, nodes;
	bool one_way; /* POINT_TO_POINT of two: one sends, the other does not */
};

/* Measured at several sizes; between sizes the time is interpolated, beyond the last it grows
 * at the last slope.  Of collectives `bytes` are the whole region's, else what one device sends.
 * All send at once: POINT_TO_POINT to the successor in one node, or to the peer in the next of
 * several nodes; ALL_TO_ALL to all others. */
struct ff_comm_cost {
	struct ff_comm_shape shape;
	uint32_t n;
	double *bytes, *us; /* n, ascending */
	uint32_t disturbed; /* sizes whose times rest on such samples */
};

/* How quiet the machine was, over all that was ever timed for a file. */
struct ff_steadiness {
	uint64_t samples, disturbed; /* taken; disturbed ones, most of which were repeated */
	double reference_spread;     /* slow tenth against fast tenth of work that is always the
				      * same; 0: nothing was timed */
};
#define FF_STEADY 0.9 /* where fewer of the samples are undisturbed predictions get a warning */

/* Launches of a kernel that does next to nothing, on a device that is not the host.  Measured
 * kernels have `stream_us` in them, but not what `alone_us` is more.  All 0: not measured. */
struct ff_launches {
	double host_us;   /* what the host needs to queue one */
	double stream_us; /* how long the stream is busy with each of many in a row */
	double alone_us;  /* and with one alone */
};

/* What communication and compute that overlap take from each other, as shares of the
 * communication's time alone: within a node, and between nodes. */
struct ff_overlap_cost {
	double inside, between; /* compute takes so much longer; less than 0: not measured */
	double inside_longer, between_longer; /* so does communication; 0: not measured */
};
#define FF_OVERLAP_PAYS 0.8 /* overlap is worth while if compute takes less than this longer */

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
/* What was measured after as much had gone by as next to nothing else: caches are then most
 * alike.  NULL when the key was never measured. */
const struct ff_cost *ff_costs_find(const struct ff_costs *c, const char *key, int64_t reuse_bytes);
/* Adds, or replaces what has the key and reuse_bytes; strings and arrays are copied. */
int ff_costs_put(struct ff_costs *c, const struct ff_cost *cost, struct ff_error *err);

const struct ff_steadiness *ff_costs_steadiness(const struct ff_costs *c);
void ff_costs_set_steadiness(struct ff_costs *c, const struct ff_steadiness *s);
const struct ff_launches *ff_costs_launch(const struct ff_costs *c);
void ff_costs_set_launch(struct ff_costs *c, const struct ff_launches *l);
struct ff_overlap_cost ff_costs_overlap(const struct ff_costs *c);
/* At most 16 is kept, as a file may say: more is measured where other programs have the cores. */
void ff_costs_set_overlap(struct ff_costs *c, struct ff_overlap_cost o);
/* Share of the figures that rest on undisturbed samples alone, 0 to 1: of the kernels'
 * time, or of the number of rates and tables where that is less. */
double ff_costs_steady_share(const struct ff_costs *c);

/* As ff_costs_find has it; NULL when that kind was never measured. */
const struct ff_rate *ff_costs_rate(
		const struct ff_costs *c, enum ff_rate_kind k, int64_t reuse_bytes);
/* Of loads: of what was measured with samples most alike in size, since looking up each sample
 * takes time of its own. */
const struct ff_rate *ff_costs_load_rate(const struct ff_costs *c, enum ff_rate_kind k,
		int64_t sample_bytes, int64_t reuse_bytes);
/* Adds, or replaces what has the same reuse_bytes and sample_bytes. */
int ff_costs_set_rate(
		struct ff_costs *c, enum ff_rate_kind k, struct ff_rate r, struct ff_error *err);

/* NULL when exactly that was not measured. */
const struct ff_comm_cost *ff_costs_comm(const struct ff_costs *c, struct ff_comm_shape shape);
int ff_costs_put_comm(struct ff_costs *c, const struct ff_comm_cost *cc, struct ff_error *err);
/* Calibrated link inside a node (the latency and bandwidth of messages);
 * bytes_per_us is 0 when not measured.  Kept in whole bytes a second, as files
 * have it: machines that are written from it agree with a costs file. */
struct ff_rate ff_costs_link(const struct ff_costs *c);
void ff_costs_set_link(struct ff_costs *c, struct ff_rate r);

#endif
