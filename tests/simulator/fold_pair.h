/* A network with two evaluators, one of which folds equal micro-batches and layers: what it leaves
 * out changes nothing.  Step time to the bit and memory to the byte are those of the other one, and
 * of a fresh lowering and simulation.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_FOLD_PAIR_H
#define FF_TEST_FOLD_PAIR_H

#include "../../simulator/evaluate/home.h"
#include "check_main.h"
#include "simulator/drawn.h"

#define PROPOSALS 8

/* What was met. */
struct seen {
	uint32_t deep, folded, stages, recomputed, gpipe, live, limited, fits, misfits, slower,
			kept;
	uint32_t summed;         /* gradients in what was folded */
	uint32_t tried, in_vain; /* trials that were right, that were not */
};

struct pair {
	struct ff_random *r;
	struct hand_machine h;
	struct ff_arena a, scratch;
	struct ff_graph g, micro;
	struct ff_strategy s;
	struct ff_pricer *p;
	struct ff_evaluator *folds, *plain;
	int64_t limit, bucket;
	struct ff_error err;
};

/* A random graph of as many samples as 64 allow. */
void draw_deep_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret);
/* A network of some equal layers. */
void draw_layered_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret);
void pair_open(struct pair *w,
		void (*draw)(struct ff_random *, struct ff_arena *, struct ff_graph *));
void pair_close(struct pair *w);
/* Both evaluate w->s. */
void pair_evaluate(struct pair *w);
/* A strategy in several micro-batches. */
void pair_set(struct pair *w);
/* Counts what the pass over the current strategy folded, and of what kind it was. */
void pair_look(const struct pair *w, struct seen *seen);
struct ff_change pair_draw_change(struct pair *w);
/* Some operators or parameters elsewhere, now and then with a limit. */
void pair_propose(struct pair *w, const struct ff_change *change, uint32_t n, struct seen *seen);

#endif
