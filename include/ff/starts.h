/* Starts: strategies by name, from which searches begin.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STARTS_H
#define FF_STARTS_H

#include "ff/space.h"
#include "ff/strategy.h"

/* Names of all starts, in the order in which a search takes them; NULL-terminated. */
extern const char *const ff_starts[];

/* Tables of vectors (embeddings), cut by column over `columns` neighbours, and by row or by sample
 * over such groups of devices; all else is cut by sample. */
struct ff_tables {
	uint32_t columns;
	uint32_t devices; /* the first so many have tables; 0: all */
	uint32_t others;  /* so many behind these, or else the first, have what joins the tables'
			   * vectors and all else; 0: all */
	bool replicas;    /* what would be cut by row is the same in all groups */
	bool apart;       /* tables are on the second half of the devices, and what waits for none
			   * on the first */
	bool stages; /* what waits for tables is a stage of its own: its gradients are sent first */
};
/* Whether `name` is "pipeline-N". */
bool ff_is_pipeline(const char *name, uint32_t *stages);
/* Whether `name` is "tables-N[,replicas][,apart][,devices=N][,others=N]"; `stages` is left alone.
 */
bool ff_is_tables(const char *name, struct ff_tables *ret);

/* The start called `name`, all memory from `a`:
 *   "data-parallel", "single", "expert", "random" (by `seed`)
 *   "pipeline-N"      N stages of about equal work, each data-parallel on its share of the devices,
 *                     1F1B, with as many micro-batches as the space allows up to 4 N
 *   "zero-N[-hybrid]" data-parallel, with updates (1), gradients (2) and weights (3) in parts
 *   "frugal"          data-parallel, with whatever saves memory
 *   "megatron:..."    tensor, data and pipeline parallelism in fixed degrees
 *   "tables-N..."     struct ff_tables
 * FF_E_INPUT for a name that is none of these, and for what the network or machine has no room for.
 */
int ff_init_strategy(const char *name, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);

#endif
