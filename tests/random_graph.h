/* Random graphs of all operators, random legal strategies and random machines,
 * for property tests.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_RANDOM_GRAPH_H
#define FF_TEST_RANDOM_GRAPH_H

#include "ff/micro.h"
#include "ff/philox.h"
#include "ff/strategy.h"

/* A small graph with one input of images, one of labels, perhaps one of ids, and up to
 * `max_ops` operators, some of which share parameters, before what is left open is
 * flattened, joined and classified.  It computes in `type`. */
int random_graph(struct ff_random *r, enum ff_dtype type, uint32_t max_ops, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err);

/* A graph of few operators, `max_ops` of any kind and what they need around them, on an input of at
 * most 4 samples of images or vectors; what nobody reads has a loss of its own. */
int random_small_graph(struct ff_random *r, enum ff_dtype type, uint32_t max_ops,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

/* Gives some activations element types that no operator writes, so that every type is
 * moved: whole numbers and bfloat16, uint8 only where nothing is reduced.  A graph of
 * micro-batches that is derived from it has the types of the rows again. */
void random_types(struct ff_random *r, struct ff_graph *g);

/* Any degrees (uneven parts included), now and then with replicas, on any devices in
 * any order, by a view or a list; a parameter's are sharded, replicated, on one
 * device, or it follows its first reader.  The list comes from `a`. */
int random_config(struct ff_random *r, const struct ff_graph *g, uint32_t node, uint32_t n_devices,
		struct ff_arena *a, struct ff_config *ret, struct ff_error *err);

/* One time in three, where there is such: the config, of those by node, of another node that reads
 * a value which `node` reads, so that what is moved to both is shared.  Else *ret stays. */
void random_alike(struct ff_random *r, const struct ff_graph *g, uint32_t node, uint32_t n_devices,
		const struct ff_config *config, struct ff_config *ret);

/* Now and then several micro-batches, in either order, stages that ascend, values
 * recomputed and parameters gathered again.  `micro` gets the graph of one micro-batch, which
 * the configs to come are for; `s` is a plain strategy of one. */
int random_phases(struct ff_random *r, const struct ff_graph *g, struct ff_arena *a,
		struct ff_strategy *s, struct ff_graph *micro, struct ff_error *err);

/* Any order of micro-batches.  The recorded strategies are drawn without. */
void random_order(struct ff_random *r, struct ff_strategy *s);
/* Gradients that are scattered, now and then; some parameters cut by an axis over the devices that
 * read them first.  Drawn likewise. */
void random_scattered(struct ff_random *r, const struct ff_graph *g, struct ff_arena *a,
		struct ff_strategy *s);

/* Such configs for all, or but for parameters, which follow; now and then one dim
 * of each split over all devices, and now and then priorities; phases where `micro` is
 * not NULL. */
int random_strategy(struct ff_random *r, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_graph *micro,
		struct ff_error *err);

/* `n_devices` in one or two nodes, with or without overlap. */
int random_machine(struct ff_random *r, uint32_t n_devices, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err);

#endif
