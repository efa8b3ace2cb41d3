/* Folding over equal layers, in one pass (layers.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LAYERING_H
#define FF_SIMULATOR_LAYERING_H

#include "folding.h"

/* Repeated steps of one micro-batch: `n` times `period` steps from `first` on, one time a layer.
 * Each time the nodes' numbers differ from the time before by the same amount. */
struct ff_layer_run {
	uint32_t first, period, n;
	uint32_t low, high; /* the range of nodes of the first time */
	bool back;          /* from the last layer to the first (backward) */
	bool limited;       /* it has limited moves */
	bool still;         /* results are read in the same time or the next one, or never */
	/* Results of the first time that the next one reads. */
	uint32_t n_live, cap_live;
	struct ff_layer_live {
		enum ff_phase phase;
		uint32_t node;
	} * live;
};

#define FF_LAYERS_LAST 2 /* the last times of a run, which are never skipped */

/* The differences between numbers of nodes, edges and values of a layer and the next; 0 nodes:
 * there are no layers. regular, by node: it has a counterpart in the next layer, as far as the
 * order is concerned. */
struct ff_layers {
	uint32_t nodes, edges, values;
	const bool *regular;
	struct ff_layer_run *run;
	uint32_t n_runs;
};

/* An arrival that was not read yet. */
struct ff_pending {
	struct ff_arrival at;
	enum ff_phase phase;
	uint32_t node;
	uint32_t read; /* the step that reads it */
	double *times;
};
#define FF_MOST_PENDING 32

/* The state of folding in a pass. */
struct ff_layering {
	bool off;
	uint32_t at;          /* the next step at which the pass compares; FF_NONE: none */
	uint32_t next, times; /* the next or current run, and its times so far */
	uint32_t wait, fails; /* times to skip before the next comparison; failures in a row */
	bool kept;            /* the state of one time before is kept: */
	struct ff_base base;
	double *live; /* by number in the run's list, by device */
	struct ff_pending was[FF_MOST_PENDING], now[FF_MOST_PENDING];
	uint32_t n_was, n_now, n_arrivals;
	/* By node, for the current blocks: the first node from it on that differs from its
	 * counterpart in the next layer, or the number of nodes; one more than the last such node
	 * up to it, or 0. */
	uint32_t *ahead, *behind;
	bool known;
	uint64_t n_folded; /* steps that passes skipped */
};

#endif
