/* A data set for graphs that no data set fits: any number of float32 inputs,
 * labels with axes of their own, one in eight of them -1.  Linked into ffrun in
 * place of runtime/data/dataset.c.  --data NAME=X@I,... puts X, which may be nan or inf, in
 * place of element I of input NAME, NAME=X@I-K of all from I to K.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "ff/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "ff/philox.h"

struct ff_dataset {
	const struct ff_graph *graph;
	uint64_t seed;
	const char *spec; /* of the command line */
};

int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err)
{
	struct ff_dataset *d = malloc(sizeof(*d));

	if (!d)
		return ff_fail_memory(err);
	*d = (struct ff_dataset){g, seed, spec};
	*ret = d;
	return FF_OK;
}

void ff_dataset_close(struct ff_dataset *d)
{
	free(d);
}

int64_t ff_dataset_samples(const struct ff_dataset *d, bool train)
{
	(void)train;
	return d->graph->batch;
}

int64_t ff_dataset_steps(const struct ff_dataset *d, bool train)
{
	(void)d;
	(void)train;
	return 1;
}

static int32_t label_of(uint32_t word, uint32_t classes)
{
	return word % 8 ? (int32_t)(word / 8 % classes) : -1;
}

/* Of labels those that are not -1, of other targets all. */
static int64_t count_targets(const struct ff_dataset *d, uint32_t input)
{
	const struct ff_node *node = &d->graph->nodes[input];
	const struct ff_value *t = &d->graph->values[node->out];
	uint64_t volume = 1, stream = ff_philox_stream(UINT32_MAX, input);
	int64_t n = 0;

	for (uint32_t k = 0; k < t->rank; k++)
		volume *= (uint64_t)t->shape[k];
	for (uint64_t k = 0; k < volume; k++)
		n += t->dtype != FF_I32 ||
		     label_of(ff_philox_at(d->seed, stream, k),
				     (uint32_t)node->attrs.input.classes) >= 0;
	return n;
}

int ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step, int64_t *ret,
		struct ff_error *err)
{
	const struct ff_graph *g = d->graph;

	(void)train;
	(void)step;
	(void)err;
	for (uint32_t i = 0; i < g->n_losses; i++)
		ret[i] = count_targets(d, ff_edge_source(g, g->nodes[g->loss[i]].in + 1));
	return FF_OK;
}

/* Element `index` of `input`, unless the command line puts another in its place. */
static float element_of(const struct ff_dataset *d, const char *input, uint64_t index, float x)
{
	size_t n = strlen(input);

	for (const char *at = d->spec; at; at = strchr(at, ','), at += at != NULL) {
		uint64_t first, last;
		float other;
		char *end;

		if (strncmp(at, input, n) != 0 || at[n] != '=')
			continue;
		other = strtof(at + n + 1, &end);
		if (*end != '@')
			continue;
		first = last = strtoull(end + 1, &end, 10);
		if (*end == '-')
			last = strtoull(end + 1, NULL, 10);
		if (index >= first && index <= last)
			return other;
	}
	return x;
}

int ff_dataset_fingerprint(const struct ff_dataset *d, uint64_t *ret, struct ff_error *err)
{
	(void)err;
	*ret = d->seed;
	return FF_OK;
}

/* Every step has the same batch. */
int ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard, struct ff_error *err)
{
	const struct ff_node *n = &d->graph->nodes[node];
	const struct ff_value *t = &d->graph->values[n->out];
	uint32_t classes = (uint32_t)n->attrs.input.classes;
	int32_t at[FF_MAX_RANK];
	int64_t left = ff_region_volume(region);

	(void)train;
	(void)step;
	(void)err;
	for (uint32_t i = 0; i < region->rank; i++)
		at[i] = region->lo[i];
	for (; left > 0; left--) {
		int64_t offset = ff_region_offset(t->order, region, at);
		uint64_t index = 0;
		uint32_t word;
		float x;

		for (uint32_t i = 0; i < t->rank; i++)
			index = index * (uint64_t)t->shape[i] + (uint64_t)at[i];
		word = ff_philox_at(d->seed, ff_philox_stream(UINT32_MAX, node), index);
		x = element_of(d, n->name, index, (float)word * 0x1p-31f - 1);
		if (t->dtype == FF_I32)
			((int32_t *)shard)[offset] = label_of(word, classes);
		else if (t->dtype == FF_BF16)
			((uint16_t *)shard)[offset] = ff_bf16_from_f32(x);
		else
			((float *)shard)[offset] = x;
		for (uint32_t i = region->rank; i-- > 0 && ++at[i] == region->hi[i];)
			at[i] = region->lo[i];
	}
	return FF_OK;
}
