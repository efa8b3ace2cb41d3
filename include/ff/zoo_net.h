/* Networks of the zoo, as they are written down.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ZOO_NET_H
#define FF_ZOO_NET_H

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

#endif
