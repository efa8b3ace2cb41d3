/* Data sets: which samples a global batch has, and the shards of its tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ff/philox.h"
#include "source.h"

#define SYNTHETIC_SAMPLES 4096
#define SYNTHETIC_MOST 100000000
#define DATA_FOLDER "/usr/share/datasets" /* Debian's dataset-* packages */
#define SHUFFLE_STREAM ff_philox_stream(UINT32_MAX - 1, 0)

/* The order of the epoch last asked for. */
struct shuffle {
	pthread_mutex_t lock;
	uint64_t epoch;
	bool valid;
	uint32_t *order; /* one a training sample */
};

struct ff_dataset {
	struct ff_source *source;
	struct shuffle *shuffle;
	uint64_t seed;
	uint32_t values, labels, ids; /* the graph's input nodes; of ids the first, or FF_NONE */
	const struct ff_graph *graph;
	uint32_t rank; /* of the values, samples included; 0: there are none */
	int32_t shape[FF_MAX_RANK];
	int64_t batch;
};

/* The labels are what the loss reads; other int32 inputs are ids. */
static int add_input(struct ff_dataset *d, uint32_t node, struct ff_error *err)
{
	const struct ff_graph *g = d->graph;
	const struct ff_node *n = &g->nodes[node];
	const struct ff_value *t = &g->values[n->out];

	if (t->dtype == FF_I32 && node != d->labels) {
		d->ids = d->ids == FF_NONE ? node : d->ids;
		return FF_OK;
	}
	if (t->dtype == FF_I32)
		return t->rank == 1 ? FF_OK
				    : ff_fail(err, FF_E_INPUT,
						      "graph %s: input %s: data sets have one "
						      "label a "
						      "sample, so its rank must be 1, not %u",
						      g->name, n->name, t->rank);
	if (d->values != FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"graph %s: inputs %s and %s are both values; data sets have one "
				"input of values and one of labels",
				g->name, g->nodes[d->values].name, n->name);
	d->values = node;
	if (t->rank < 2)
		return ff_fail(err, FF_E_INPUT,
				"graph %s: input %s: samples need a rank of at least 2, not %u",
				g->name, n->name, t->rank);
	d->rank = t->rank;
	memcpy(d->shape, t->shape, sizeof(d->shape));
	return FF_OK;
}

static int find_inputs(const struct ff_graph *g, struct ff_dataset *d,
		struct ff_sample_shape *shape, struct ff_error *err)
{
	int code = FF_OK;

	d->graph = g;
	d->values = d->ids = FF_NONE;
	d->labels = ff_edge_source(g, g->nodes[g->loss].in + 1);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_source(g, i))
			code = add_input(d, i, err);
	if (code < 0)
		return code;
	if (d->values == FF_NONE && d->ids == FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"graph %s: has no input of float32 values or int32 "
				"ids beside its labels",
				g->name);
	shape->classes = g->nodes[d->labels].attrs.input.classes;
	shape->rank = d->rank ? d->rank - 1 : 0;
	shape->elements = 1;
	for (uint32_t i = 1; i < d->rank; i++) {
		shape->shape[i - 1] = d->shape[i];
		shape->elements *= d->shape[i];
	}
	return FF_OK;
}

static int open_synthetic(const char *spec, const struct ff_sample_shape *shape, uint64_t seed,
		struct ff_source **ret, struct ff_error *err)
{
	int64_t samples = SYNTHETIC_SAMPLES;
	const char *number = strchr(spec, ':');
	char *end;

	if (number) {
		errno = 0;
		samples = strtoll(number + 1, &end, 10);
		if (number[1] < '0' || number[1] > '9' || *end || errno || samples < 1 ||
				samples > SYNTHETIC_MOST)
			return ff_fail(err, FF_E_INPUT,
					"data %s: expected synthetic:SAMPLES with SAMPLES from 1 "
					"to %d",
					spec, SYNTHETIC_MOST);
	}
	return ff_synthetic_open(samples, shape, seed, ret, err);
}

static int open_folder(const char *spec, const struct ff_dataset *d,
		const struct ff_sample_shape *shape, struct ff_source **ret, struct ff_error *err)
{
	char path[sizeof(DATA_FOLDER) + NAME_MAX + 1] = DATA_FOLDER "/";
	size_t len = strlen(spec);
	struct stat st;

	/* a plain name also means the folder of a Debian package */
	if (stat(spec, &st) != 0 && !strchr(spec, '/') && len <= NAME_MAX) {
		memcpy(path + sizeof(DATA_FOLDER), spec, len + 1);
		if (stat(path, &st) == 0)
			spec = path;
	}
	if (stat(spec, &st) != 0)
		return ff_fail(err, FF_E_INPUT,
				"data %s: %s; expected synthetic[:SAMPLES] or a folder with IDX "
				"files",
				spec, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return ff_fail(err, FF_E_INPUT,
				"data %s: is not a folder; expected synthetic[:SAMPLES] or a "
				"folder with IDX files",
				spec);
	if (d->ids != FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"data %s: holds images and labels, but input %s of graph %s is "
				"int32 ids, which only synthetic[:SAMPLES] has",
				spec, d->graph->nodes[d->ids].name, d->graph->name);
	return ff_idx_open(spec, shape, ret, err);
}

static int open_shuffle(int64_t samples, struct shuffle **ret, struct ff_error *err)
{
	struct shuffle *s = calloc(1, sizeof(*s));

	if (!s)
		return ff_fail_memory(err);
	s->order = malloc((size_t)samples * sizeof(*s->order));
	if (!s->order || pthread_mutex_init(&s->lock, NULL)) {
		free(s->order);
		free(s);
		return ff_fail_memory(err);
	}
	*ret = s;
	return FF_OK;
}

int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err)
{
	struct ff_dataset *d = calloc(1, sizeof(*d));
	struct ff_sample_shape shape = {0};
	int code;

	if (!d)
		return ff_fail_memory(err);
	d->seed = seed;
	d->batch = g->batch;
	code = find_inputs(g, d, &shape, err);
	if (code == FF_OK && (!strcmp(spec, "synthetic") || !strncmp(spec, "synthetic:", 10)))
		code = open_synthetic(spec, &shape, seed, &d->source, err);
	else if (code == FF_OK)
		code = open_folder(spec, d, &shape, &d->source, err);
	if (code == FF_OK && d->source && d->source->samples[1] < d->batch)
		code = ff_fail(err, FF_E_INPUT,
				"data %s: has %" PRId64
				" training samples, fewer than the graph's batch of %" PRId64,
				spec, d->source->samples[1], d->batch);
	if (code == FF_OK && d->source)
		code = open_shuffle(d->source->samples[1], &d->shuffle, err);
	if (code < 0) {
		ff_dataset_close(d);
		return code;
	}
	*ret = d;
	return FF_OK;
}

void ff_dataset_close(struct ff_dataset *d)
{
	if (!d)
		return;
	if (d->shuffle) {
		pthread_mutex_destroy(&d->shuffle->lock);
		free(d->shuffle->order);
		free(d->shuffle);
	}
	if (d->source)
		d->source->close(d->source);
	free(d);
}

int64_t ff_dataset_samples(const struct ff_dataset *d, bool train)
{
	return d->source->samples[train];
}

int64_t ff_dataset_steps(const struct ff_dataset *d, bool train)
{
	int64_t n = d->source->samples[train];

	return train ? n / d->batch : (n + d->batch - 1) / d->batch;
}

/* Fisher and Yates' shuffle, from scratch for every epoch, so that an epoch's
 * order does not depend on which were asked for before. */
static void reshuffle(const struct ff_dataset *d, uint64_t epoch)
{
	struct ff_random random = {d->seed, SHUFFLE_STREAM + epoch, 0};
	uint32_t n = (uint32_t)d->source->samples[1], *order = d->shuffle->order;

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = ff_random_below(&random, i), keep = order[i - 1];

		order[i - 1] = order[k];
		order[k] = keep;
	}
	d->shuffle->epoch = epoch;
	d->shuffle->valid = true;
}

/* The sample at row `row` of the batch, or -1 behind the last one.  The lock is held. */
static int64_t sample_at(const struct ff_dataset *d, bool train, uint64_t step, int32_t row)
{
	uint64_t steps = (uint64_t)ff_dataset_steps(d, true);
	int64_t at;

	if (!train) {
		at = (int64_t)step * d->batch + row;
		return at < d->source->samples[0] ? at : -1;
	}
	if (!d->shuffle->valid || d->shuffle->epoch != step / steps)
		reshuffle(d, step / steps);
	return d->shuffle->order[(int64_t)(step % steps) * d->batch + row];
}

/* The label at row `row` of the batch; -1 behind the last sample.  The lock is held. */
static int32_t label_at(const struct ff_dataset *d, bool train, uint64_t step, int32_t row)
{
	int64_t sample = sample_at(d, train, step, row);

	return sample < 0 ? -1 : d->source->label(d->source, train, sample);
}

int64_t ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step)
{
	int64_t n = 0;

	pthread_mutex_lock(&d->shuffle->lock);
	for (int32_t row = 0; row < (int32_t)d->batch; row++)
		n += label_at(d, train, step, row) != -1;
	pthread_mutex_unlock(&d->shuffle->lock);
	return n;
}

/* One sample's sub-box: lines along the last axis, wherever storage puts them. */
/* A line of values on its way into a shard. */
struct line {
	const struct ff_dataset *d;
	bool train;
	int64_t sample; /* -1: behind the last one */
	enum ff_dtype type;
	void *shard;
	int64_t step; /* from one element to the next */
};

/* `n` elements from the sample's `first` on, to the shard's `offset`. */
static void fill_line(const struct line *l, int64_t first, int32_t n, int64_t offset)
{
	const struct ff_source *s = l->d->source;
	uint16_t *halves = l->shard;
	float *out = l->shard, value[256] = {0};

	if (l->type == FF_F32 && l->sample >= 0) {
		s->line(s, l->train, l->sample, first, n, out + offset, l->step);
		return;
	}
	for (int32_t k = 0, chunk; k < n; k += chunk) {
		chunk = n - k < 256 ? n - k : 256;
		if (l->sample >= 0)
			s->line(s, l->train, l->sample, first + k, chunk, value, 1);
		for (int32_t i = 0; i < chunk; i++)
			if (l->type == FF_F32)
				out[offset + (k + i) * l->step] = value[i];
			else
				halves[offset + (k + i) * l->step] = ff_bf16_from_f32(value[i]);
	}
}

static void fill_sample(const struct line *l, const struct ff_region *r, const int64_t *stride,
		int64_t base)
{
	uint32_t last = r->rank - 1;
	int32_t at[FF_MAX_RANK], n = ff_region_size(r, last);
	uint32_t i;

	memcpy(at, r->lo, sizeof(at));
	do {
		int64_t first = 0, offset = base;

		for (i = 1; i < r->rank; i++) {
			first = first * l->d->shape[i] + at[i];
			offset += (at[i] - r->lo[i]) * stride[i];
		}
		fill_line(l, first, n, offset);
		/* the next line: count up the axes between the first and the last */
		for (i = last; i-- > 1;) {
			if (++at[i] < r->hi[i])
				break;
			at[i] = r->lo[i];
		}
	} while (i >= 1 && i < last);
}

static void fill_labels(const struct ff_dataset *d, bool train, uint64_t step,
		const struct ff_region *region, int32_t *shard)
{
	for (int32_t row = region->lo[0]; row < region->hi[0]; row++)
		shard[row - region->lo[0]] = label_at(d, train, step, row);
}

static void fill_values(const struct ff_dataset *d, bool train, uint64_t step,
		const struct ff_value *v, const struct ff_region *region, void *shard)
{
	struct line l = {.d = d, .train = train, .type = v->dtype, .shard = shard};
	int64_t stride[FF_MAX_RANK] = {0};

	ff_region_strides(v->order, region, stride);
	l.step = stride[region->rank - 1];
	for (int32_t row = region->lo[0]; row < region->hi[0]; row++) {
		l.sample = sample_at(d, train, step, row);
		fill_sample(&l, region, stride, (row - region->lo[0]) * stride[0]);
	}
}

/* Ids, -1 behind the last sample. */
static void fill_ids(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, int32_t *shard)
{
	const struct ff_value *v = &d->graph->values[d->graph->nodes[node].out];
	struct ff_ids ids = {node, d->graph->nodes[node].attrs.input.classes, 1};
	int32_t at[FF_MAX_RANK];
	uint32_t i;

	for (i = 1; i < v->rank; i++)
		ids.elements *= v->shape[i];
	memcpy(at, region->lo, sizeof(at));
	do {
		int64_t sample = sample_at(d, train, step, at[0]), element = 0;

		for (i = 1; i < v->rank; i++)
			element = element * v->shape[i] + at[i];
		shard[ff_region_offset(v->order, region, at)] =
				sample < 0 ? -1
					   : d->source->id(d->source, train, sample, &ids, element);
		for (i = v->rank; i-- > 0;) {
			if (++at[i] < region->hi[i])
				break;
			at[i] = region->lo[i];
		}
	} while (i != UINT32_MAX);
}

void ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard)
{
	const struct ff_value *v = &d->graph->values[d->graph->nodes[node].out];

	if (!ff_region_volume(region))
		return;
	pthread_mutex_lock(&d->shuffle->lock);
	if (node == d->labels)
		fill_labels(d, train, step, region, shard);
	else if (v->dtype == FF_I32)
		fill_ids(d, train, step, node, region, shard);
	else
		fill_values(d, train, step, v, region, shard);
	pthread_mutex_unlock(&d->shuffle->lock);
}
