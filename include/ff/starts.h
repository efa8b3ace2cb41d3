/* Starts: strategies by name, from which searches begin.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STARTS_H
#define FF_STARTS_H

#include "ff/space.h"
#include "ff/strategy.h"

/* Names of all starts, in the order in which a search takes them; NULL-terminated. */
extern const char *const ff_starts[];

/* Starts for recommender models: embedding tables are cut by column over `columns` neighbouring
 * devices, and by row or by sample over such groups; all other operators are cut by sample. */
struct ff_tables {
	uint32_t columns;
	uint32_t devices; /* the first so many hold tables; 0: all */
	uint32_t others;  /* so many after these, or else the first, compute all other operators; 0:
			   * all */
	bool replicas;    /* groups hold copies of the tables, instead of rows */
	bool apart;       /* tables are on the second half of the devices; operators that need no
			   * table are on the first */
	bool stages; /* operators that need tables are a stage of their own: their gradients are
		      * sent first */
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
 *   "zero-N[-hybrid]" data-parallel, with optimizer states (1), gradients (2), weights (3) sharded
 *   "frugal"          data-parallel, with all that saves memory
 *   "megatron:..."    tensor, data and pipeline parallelism in fixed degrees
 *   "tables-N..."     struct ff_tables
 * FF_E_INPUT for any other name, and for a start that the network or machine does not admit.
 */
int ff_init_strategy(const char *name, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);

#endif
