/* Model zoo: networks by name, their sizes as parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ZOO_H
#define FF_ZOO_H

#include "ff/graph.h"

/* One size that --set changes. */
struct ff_zoo_param {
	const char *name, *help;
	int32_t min, max, preset;
	const char *choices; /* "avg|max": the value is the index; NULL: a number */
};

/* A network under construction: value[] is by parameter. */
struct ff_zoo_net {
	struct ff_builder *builder;
	int32_t batch;
	const int32_t *value;
	/* Convolutions have no bias, and norms of batches are added: with this epsilon, of so many
	 * samples (0: all) at a time. */
	bool batch_norm;
	int32_t norm_group;
	double epsilon;
};

struct ff_zoo_row {
	const char *name, *summary;
	int32_t batch; /* preset */
	const struct ff_zoo_param *params;
	uint32_t n_params;
	/* Adds the nodes; errors stick in the builder. */
	void (*build)(const struct ff_zoo_net *n);
};

/* What every network can be told beside its own: "dtype", what it computes in. */
extern const struct ff_zoo_param ff_zoo_dtype;

/* Network number `i`, NULL behind the last. */
const struct ff_zoo_row *ff_zoo_row(uint32_t i);

/* Builds `name` for a global batch of `batch` samples (0: the network's
 * preset).  `sets` are "key=value".  Unknown names, keys and values out of
 * range are FF_E_INPUT in a sentence that lists what there is.  Memory from `a`. */
int ff_zoo_build(const char *name, uint64_t batch, const char *const *sets, uint32_t n_sets,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

#endif
