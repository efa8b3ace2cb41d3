/* Kinds of nodes, as bounds see them: nodes with equal prices for equal degrees, of which all
 * prices are gathered once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_KINDS_H
#define FF_CHECK_KINDS_H

#include "ff/intervals.h"
#include "ff/price.h"

#define FF_RECEIVED_DEVICES 8 /* on more, classes of degree vectors are looked at (dims.h) */

/* Which inputs a part reads; and of the parts of one kind of node that read just
 * these, what the recursion over chains asks for. */
struct ff_reads {
	uint64_t input[FF_MAX_INPUTS / 64 + 1];
	double first_us;   /* cheapest part of any degree vector */
	double forward_us; /* its forward alone, cheapest likewise */
	double last_us;    /* of the degree vectors all of whose parts are such: least of the
			    * dearest */
};

/* The dearest part that reads `reads` of a degree vector whose parts do not all
 * read the same; those of one vector follow each other. */
struct ff_mixed {
	uint32_t reads;
	bool ends;
	double us;
};

/* What one degree vector costs: its first part and its cheapest, as in a chain, and all of them;
 * both passes, on the kind of device that is fastest at each. */
struct ff_split_us {
	double first_us, least_us, all_us;
	/* Of parts that are the first along all places the cheapest; the same for each pass by
	 * itself; forward the cheapest channels, all parts of them, and backward all (section.h).
	 */
	double placed_us, wide_us, open_us;
	double sum_us;   /* until its prelude's parts know what they sum up to, at least */
	uint32_t number; /* of its class (classes.h); where all vectors are kept, its own */
};

/* Nodes with equal prices. */
struct ff_kind {
	double all_us;           /* device time of all parts: the least of any degrees */
	uint32_t reads, n_reads; /* slices of the arrays in struct ff_kinds */
	uint32_t mixed, n_mixed;
	uint32_t split, n_split; /* only such as no other of their class is below in all figures,
				  * unless all are kept */
};

struct ff_part_us {
	double us;
	double chain_us; /* without what nobody in a chain waits for; its forward alone: */
	double forward_us;
	uint32_t reads;
};

/* Which splits of a kind are kept. */
struct ff_kept_splits {
	bool every;          /* those of all degree vectors, in their order, */
	bool classes;        /* or those of each class that may be the least */
	uint32_t most_every; /* devices on which all are kept, where moves count */
};

/* Splits of the node at hand that may be the least, by class. */
struct ff_class_lists {
	uint32_t *first; /* [class] */
	uint32_t *next;  /* [split] */
	uint32_t cap;
};

/* What moves take at least. */
struct ff_least_moves {
	struct ff_least_wait wait;
	double *sum_us[2]; /* by number of devices: ff_price_sum_us, of FF_REDUCE_SUM and others */
	uint32_t lanes;    /* of communication that a device has */
};

struct ff_kinds {
	const struct ff_graph *graph; /* of one micro-batch */
	struct ff_pricer *pricer;
	bool (*stop)(void *ctx);
	void *ctx;
	bool stopped;
	bool halves; /* gradients of parameters may be made apart, and nobody waits for them */
	struct ff_kept_splits kept;
	uint32_t look_in;
	uint32_t n_devices;
	uint32_t n_device_kinds;
	uint32_t *device; /* one of each kind in use */
	struct ff_least_moves moves;
	struct ff_intervals dim[FF_MAX_DIMS]; /* of the node at hand */
	struct ff_table kinds, parts;         /* parts: of the node at hand */
	struct ff_kind *kind;
	struct ff_part_us *part;
	struct ff_reads *reads;
	struct ff_mixed *mixed;
	struct ff_split_us *split;
	struct ff_class_lists lists;
	uint32_t kind_cap, part_cap, n_reads, reads_cap, n_mixed, mixed_cap, n_split, split_cap;
	struct ff_work work;
};

/* Nothing is gathered yet.  `g`, of one micro-batch, must outlive it, as must `p`.  `stop` is asked
 * now and then, and may be NULL.  `halves`: of several micro-batches, in the order zb-h1.
 * Which splits are kept is set afterwards. */
int ff_kinds_init(struct ff_kinds *k, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, bool halves, bool (*stop)(void *ctx), void *ctx,
		struct ff_arena *a, struct ff_error *err);
void ff_kinds_finish(struct ff_kinds *k);
/* That of a computed node; where k->stopped is true afterwards it is not whole. */
int ff_kinds_find(struct ff_kinds *k, uint32_t node, struct ff_kind *ret, struct ff_error *err);
/* Sets k->dim to the intervals of `n`, of as many degrees as there are devices at most. */
int ff_kinds_intervals(struct ff_kinds *k, const struct ff_node *n, struct ff_error *err);
/* All that prices of a computed node's parts, and their regions, depend on but their boxes. */
uint64_t ff_kinds_hash(const struct ff_kinds *k, uint32_t node);
/* Whether to give up; asked now and then. */
bool ff_kinds_look(struct ff_kinds *k);
/* How many others have some of `all` elements, at least, if none has more than `own` of them, and
 * so many have the same, each a part of a sum; 0 where `own` is. */
double ff_kinds_others(double all, double own, double copies);
/* Adding so many bytes of gradients to others. */
double ff_kinds_add_us(const struct ff_kinds *k, double bytes);
/* Updates of all weights, once. */
double ff_kinds_updates_us(const struct ff_kinds *k);

#endif
