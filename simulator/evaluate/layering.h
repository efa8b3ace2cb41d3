/* Equal layers, and one pass over them (layers.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LAYERING_H
#define FF_SIMULATOR_LAYERING_H

#include "folding.h"

/* Steps of a program that repeat, `n` times `period` steps from `first` on, all of one micro-batch,
 * each time for nodes that stand so many behind (or before) those of the time before. */
struct ff_layer_run {
	uint32_t first, period, n;
	uint32_t low, high; /* nodes that the first time comes to, and who lies between them */
	bool back;          /* from the last layer to the first */
	bool limited;       /* something limited is moved */
	bool still;         /* what is computed is read the same time, the next one, or never */
	/* What one time computes and the next reads: of the first. */
	uint32_t n_live, cap_live;
	struct ff_layer_live {
		enum ff_phase phase;
		uint32_t node;
	} * live;
};

#define FF_LAYERS_LAST 2 /* times of a run, at its end, that are never left out */

/* By how much numbers of nodes, edges and values of a layer differ from those of the one before,
 * and which nodes are as the one in the next layer, as far as the order can say.  nodes: 0: no
 * layers. */
struct ff_layers {
	uint32_t nodes, edges, values;
	const bool *regular;
	struct ff_layer_run *run;
	uint32_t n_runs;
};

/* Something has arrived, and waits to be read. */
struct ff_pending {
	struct ff_arrival at;
	enum ff_phase phase;
	uint32_t node;
	uint32_t read; /* the step that does */
	double *times;
};
#define FF_MOST_PENDING 32

/* One pass over the runs of layers. */
struct ff_layering {
	bool off;
	uint32_t at;          /* the step at which the pass asks again; FF_NONE: none */
	uint32_t next, times; /* the run that comes next or is under way; how often until then */
	uint32_t wait, fails; /* so many times are not looked at; in a row that were no others */
	bool kept;            /* as it was one time before: */
	struct ff_base base;
	double *live; /* by number in the run's list, by device */
	struct ff_pending was[FF_MOST_PENDING], now[FF_MOST_PENDING];
	uint32_t n_was, n_now, n_arrivals;
	/* By node: the first from it on that is not as the one in the next layer, or one behind the
	 * last; the last up to it, plus one, or 0.  Of the blocks in place. */
	uint32_t *ahead, *behind;
	bool known;
	uint64_t n_folded; /* steps that passes left out */
};

#endif
