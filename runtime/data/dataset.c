/* Data sets: which samples a global batch has, and the shards of its tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/dataset.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ff/hash.h"
#include "order.h"
#include "source.h"

#define LINE 256 /* numbers that are converted at once */

struct ff_dataset {
	struct ff_arena arena;
	struct ff_spec spec;
	struct ff_fields fields;
	struct ff_source *source;
	struct ff_order *order;
	const struct ff_graph *graph;
	uint32_t targets[FF_MAX_LOSSES]; /* by loss: of the fields, what it counts */
	int64_t batch;
	pthread_mutex_t *
			lock; /* who reads the source and asks for the order; NULL: not there yet */
};

static const struct ff_field *field_of(const struct ff_dataset *d, uint32_t node)
{
	const struct ff_field *f = d->fields.field;

	while (f->node != node)
		f++;
	return f;
}

static int check_samples(const struct ff_dataset *d, struct ff_error *err)
{
	int64_t n = d->source->samples[1];

	if (n < d->batch)
		return ff_fail(err, FF_E_INPUT,
				"data %s: has %" PRId64
				" training samples, fewer than the graph's batch of %" PRId64,
				d->spec.text, n, d->batch);
	return FF_OK;
}

static int open_source(struct ff_dataset *d, const char *spec, uint64_t seed, struct ff_error *err)
{
	struct ff_opening *o = ff_arena_alloc(&d->arena, sizeof(*o));
	const char *text = ff_arena_strdup(&d->arena, spec);
	int code;

	if (!o || !text)
		return ff_fail_memory(err);
	if ((code = ff_fields_of(d->graph, &d->arena, &d->fields, err)) < 0 ||
			(code = ff_spec_parse(text, &d->arena, &d->spec, err)) < 0)
		return code;
	*o = (struct ff_opening){&d->spec, &d->fields, &d->arena, seed};
	return d->spec.format->open(o, &d->source, err);
}

static int open_all(struct ff_dataset *d, const char *spec, uint64_t seed, struct ff_error *err)
{
	pthread_mutex_t *lock = ff_arena_alloc(&d->arena, sizeof(*lock));
	int code;

	if (!lock || pthread_mutex_init(lock, NULL))
		return ff_fail_memory(err);
	d->lock = lock;
	if ((code = open_source(d, spec, seed, err)) < 0 || (code = check_samples(d, err)) < 0)
		return code;
	for (uint32_t i = 0; i < d->graph->n_losses; i++) {
		uint32_t edge = d->graph->nodes[d->graph->loss[i]].in + 1;

		d->targets[i] = (uint32_t)(field_of(d, ff_edge_source(d->graph, edge)) -
					   d->fields.field);
	}
	return ff_order_create(d->source->samples[1], seed, &d->order, err);
}

int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err)
{
	struct ff_dataset *d = calloc(1, sizeof(*d));
	int code;

	if (!d)
		return ff_fail_memory(err);
	ff_arena_init(&d->arena);
	d->graph = g;
	d->batch = g->batch;
	code = open_all(d, spec, seed, err);
	if (code < 0)
		ff_dataset_close(d);
	else
		*ret = d;
	return code;
}

void ff_dataset_close(struct ff_dataset *d)
{
	if (!d)
		return;
	if (d->lock)
		pthread_mutex_destroy(d->lock);
	ff_order_destroy(d->order);
	if (d->source)
		d->source->close(d->source);
	ff_arena_finish(&d->arena);
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

/* The sample at row `row` of the batch, or -1 behind the last one.  The lock is held. */
static int64_t sample_at(const struct ff_dataset *d, bool train, uint64_t step, int32_t row)
{
	uint64_t steps = (uint64_t)ff_dataset_steps(d, true);
	int64_t at;

	if (!train) {
		at = (int64_t)step * d->batch + row;
		return at < d->source->samples[0] ? at : -1;
	}
	return ff_order_at(d->order, step / steps, (int64_t)(step % steps) * d->batch + row);
}

/* ---- targets that count ---- */

/* What an integer counts for. */
static double of_runs(const struct ff_numbers *runs, int32_t at)
{
	for (int64_t i = 0; i < runs->n && at >= 0; i += 2) {
		if (at < runs->at[i])
			return runs->at[i + 1];
		at -= (int32_t)runs->at[i];
	}
	return 0;
}

/* What an element counts for: by `sums`, or one if it is told (NULL). */
static double worth(
		const struct ff_field *f, const struct ff_numbers *sums, int32_t label, float value)
{
	if (f->whole)
		return sums ? of_runs(sums, label) : label != f->none;
	if (isnan(value))
		return 0;
	return sums ? (double)value * sums->at[0] : 1;
}

/* What the elements of one sample count for is added to *sum.  The lock is held. */
static int add_sample(const struct ff_dataset *d, const struct ff_pick *p,
		const struct ff_numbers *sums, double *sum, struct ff_error *err)
{
	const struct ff_field *f = &d->fields.field[p->field];
	struct ff_source *s = d->source;
	int32_t label[LINE] = {0};
	float value[LINE] = {0};

	for (int64_t k = 0; k < f->elements; k += LINE) {
		int32_t some = f->elements - k < LINE ? (int32_t)(f->elements - k) : LINE;
		int code = f->whole ? s->wholes(s, p, k, some, label, 1, err)
				    : s->reals(s, p, k, some, value, 1, err);

		if (code < 0)
			return code;
		for (int32_t i = 0; i < some; i++)
			*sum += worth(f, sums, label[i], value[i]);
	}
	return FF_OK;
}

/* Whether some may not. */
static bool must_count(const struct ff_dataset *d, const struct ff_field *f)
{
	return d->source->ignores || (f->whole && f->none >= 0 && f->none < f->classes);
}

static int count_targets(const struct ff_dataset *d, bool train, uint64_t step, uint32_t field,
		int64_t *ret, struct ff_error *err)
{
	struct ff_pick p = {.field = field, .train = train};
	double n = 0;
	int64_t rows;
	int code = FF_OK;

	rows = train ? d->batch : d->source->samples[0] - (int64_t)step * d->batch;
	rows = rows < d->batch ? rows : d->batch;
	if (!must_count(d, &d->fields.field[field])) {
		*ret = rows * d->fields.field[field].elements;
		return FF_OK;
	}
	pthread_mutex_lock(d->lock);
	for (int32_t row = 0; row < (int32_t)rows && code == FF_OK; row++) {
		p.sample = sample_at(d, train, step, row);
		code = add_sample(d, &p, NULL, &n, err);
	}
	pthread_mutex_unlock(d->lock);
	if (code == FF_OK)
		*ret = (int64_t)n;
	return code;
}

int ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step, int64_t *ret,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < d->graph->n_losses && code == FF_OK; i++)
		code = count_targets(d, train, step, d->targets[i], &ret[i], err);
	return code;
}

/* ---- what a batch adds up to ---- */

/* Every sample of `region` has the same. */
static int fill_sum(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard, struct ff_error *err)
{
	const struct ff_input_attrs *a = &d->graph->nodes[node].attrs.input;
	uint32_t of = ff_graph_source(d->graph, node, (uint32_t)a->of);
	struct ff_pick p = {.field = (uint32_t)(field_of(d, of) - d->fields.field), .train = train};
	enum ff_dtype type = d->graph->values[d->graph->nodes[node].out].dtype;
	double sum = 0;
	int code = FF_OK;

	pthread_mutex_lock(d->lock);
	for (int32_t row = 0; row < (int32_t)d->batch && code == FF_OK; row++) {
		p.sample = sample_at(d, train, step, row);
		if (p.sample >= 0)
			code = add_sample(d, &p, &a->sums, &sum, err);
	}
	pthread_mutex_unlock(d->lock);
	for (int32_t i = 0; i < ff_region_size(region, 0) && code == FF_OK; i++)
		if (type == FF_F32)
			((float *)shard)[i] = (float)sum;
		else
			((uint16_t *)shard)[i] = ff_bf16_from_f32((float)sum);
	return code;
}

/* ---- what tells data sets apart ---- */

/* Of one sample, all fields.  The lock is held. */
static int hash_sample(const struct ff_dataset *d, bool train, int64_t sample, uint64_t *hash,
		struct ff_error *err)
{
	struct ff_source *s = d->source;
	int code = FF_OK;

	for (uint32_t i = 0; i < d->fields.n && code == FF_OK; i++) {
		const struct ff_field *f = &d->fields.field[i];
		const struct ff_pick p = {i, train, sample};

		for (int64_t k = 0; k < f->elements && code == FF_OK; k += LINE) {
			int32_t some = f->elements - k < LINE ? (int32_t)(f->elements - k) : LINE;
			int32_t line[LINE]; /* float32 are as many bytes */

			code = f->whole ? s->wholes(s, &p, k, some, line, 1, err)
					: s->reals(s, &p, k, some, (float *)(void *)line, 1, err);
			if (code == FF_OK)
				*hash = ff_hash_mix(*hash,
						ff_fnv1a(line, (size_t)some * sizeof(*line)));
		}
	}
	return code;
}

int ff_dataset_fingerprint(const struct ff_dataset *d, uint64_t *ret, struct ff_error *err)
{
	uint64_t hash = 0;
	int code = FF_OK;

	pthread_mutex_lock(d->lock);
	for (int train = 0; train < 2; train++) {
		int64_t n = d->source->samples[train], some[] = {0, n / 2, n - 1};

		hash = ff_hash_mix(hash, (uint64_t)n);
		for (int i = 0; i < 3 && n && code == FF_OK; i++)
			code = hash_sample(d, train, some[i], &hash, err);
	}
	pthread_mutex_unlock(d->lock);
	if (code == FF_OK)
		*ret = hash;
	return code;
}

/* ---- shards ---- */

/* A shard on its way: one sample's sub-box after the other, each by lines along the last axis,
 * wherever storage puts them. */
struct filling {
	const struct ff_dataset *d;
	const struct ff_field *field;
	const struct ff_region *region;
	struct ff_pick pick; /* sample -1: behind the last one */
	enum ff_dtype type;
	int64_t stride[FF_MAX_RANK];
	int64_t step; /* from one element of a line to the next */
	void *shard;
	struct ff_error *err;
};

/* Behind the last sample there are labels that count for nothing, ids of -1, targets that are no
 * number, zeros. */
static void pad_line(const struct filling *f, int32_t n, int64_t offset)
{
	float value = f->field->compared ? NAN : 0;

	for (int32_t i = 0; i < n; i++, offset += f->step)
		if (f->type == FF_I32)
			((int32_t *)f->shard)[offset] = f->field->none;
		else if (f->type == FF_F32)
			((float *)f->shard)[offset] = value;
		else
			((uint16_t *)f->shard)[offset] = ff_bf16_from_f32(value);
}

/* Numbers to compare with may be none; none is infinite. */
static int check_line(
		const struct filling *f, int64_t first, int32_t n, const float *x, int64_t step)
{
	int32_t bad = 0, i = 0;

	for (int32_t k = 0; k < n; k++)
		bad |= !(fabsf(x[k * step]) <= FLT_MAX) &
		       !(f->field->target & (x[k * step] != x[k * step]));
	if (!bad)
		return FF_OK;
	while (isfinite(x[i * step]) || (f->field->target && isnan(x[i * step])))
		i++;
	return ff_fail(f->err, FF_E_INPUT,
			"data %s: %s sample %" PRId64 " of %s is %s at element %" PRId64
			", expected numbers",
			f->d->spec.text, f->pick.train ? "training" : "test", f->pick.sample,
			f->field->name, isnan(x[i * step]) ? "no number" : "infinite", first + i);
}

static int fill_halves(const struct filling *f, int64_t first, int32_t n, uint16_t *out)
{
	struct ff_source *s = f->d->source;
	float value[LINE];

	for (int32_t k = 0, some; k < n; k += some) {
		int code;

		some = n - k < LINE ? n - k : LINE;
		if ((code = s->reals(s, &f->pick, first + k, some, value, 1, f->err)) < 0 ||
				(code = check_line(f, first + k, some, value, 1)) < 0)
			return code;
		for (int32_t i = 0; i < some; i++)
			out[(k + i) * f->step] = ff_bf16_from_f32(value[i]);
	}
	return FF_OK;
}

/* `n` elements from the sample's `first` on, to the shard's `offset`. */
static int fill_line(const struct filling *f, int64_t first, int32_t n, int64_t offset)
{
	struct ff_source *s = f->d->source;

	if (f->pick.sample < 0) {
		pad_line(f, n, offset);
		return FF_OK;
	}
	if (f->type == FF_I32)
		return s->wholes(s, &f->pick, first, n, (int32_t *)f->shard + offset, f->step,
				f->err);
	if (f->type == FF_F32) {
		float *to = (float *)f->shard + offset;
		int code = s->reals(s, &f->pick, first, n, to, f->step, f->err);

		return code < 0 ? code : check_line(f, first, n, to, f->step);
	}
	return fill_halves(f, first, n, (uint16_t *)f->shard + offset);
}

static int fill_sample(const struct filling *f, int64_t base)
{
	const struct ff_region *r = f->region;
	uint32_t last = r->rank - 1, i;
	int32_t at[FF_MAX_RANK];

	if (!last)
		return fill_line(f, 0, 1, base);
	memcpy(at, r->lo, sizeof(at));
	do {
		int64_t first = 0, offset = base;
		int code;

		for (i = 1; i < r->rank; i++) {
			first = first * f->field->shape[i - 1] + at[i];
			offset += (at[i] - r->lo[i]) * f->stride[i];
		}
		code = fill_line(f, first, ff_region_size(r, last), offset);
		if (code < 0)
			return code;
		/* the next line: count up the axes between the first and the last */
		for (i = last; i-- > 1;) {
			if (++at[i] < r->hi[i])
				break;
			at[i] = r->lo[i];
		}
	} while (i >= 1 && i < last);
	return FF_OK;
}

int ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard, struct ff_error *err)
{
	const struct ff_value *v = &d->graph->values[d->graph->nodes[node].out];
	struct filling f = {.d = d, .region = region, .type = v->dtype, .shard = shard, .err = err};
	int code = FF_OK;

	if (!ff_region_volume(region))
		return FF_OK;
	if (d->graph->nodes[node].attrs.input.sums.n)
		return fill_sum(d, train, step, node, region, shard, err);
	f.field = field_of(d, node);
	f.pick = (struct ff_pick){(uint32_t)(f.field - d->fields.field), train, 0};
	ff_region_strides(v->order, region, f.stride);
	f.step = f.stride[region->rank - 1];
	pthread_mutex_lock(d->lock);
	for (int32_t row = region->lo[0]; row < region->hi[0] && code == FF_OK; row++) {
		f.pick.sample = sample_at(d, train, step, row);
		code = fill_sample(&f, (row - region->lo[0]) * f.stride[0]);
	}
	pthread_mutex_unlock(d->lock);
	return code;
}
