/* Whole tensors from shards and back.  SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/core/whole.h"
#include "exec/messages/address.h"
#include "ff/arrays.h"
#include "ff/philox.h"
#include "ff/rewrite.h"
#include "replay.h"
#include "residuals.h"
#include "waiting.h"

static const struct ff_value *value_of(const struct ff_executor *x, const struct ff_shard *shard)
{
	return &x->s->graph->values[x->s->graph->nodes[shard->node].out];
}

/* The piece of a parameter that holds element `index`; rows have `row` elements. */
static struct ff_parameter_piece piece_at(
		const struct ff_graph *g, uint32_t node, int64_t index, int64_t row)
{
	struct ff_parameter_piece p = ff_parameter_piece(g, node, 0);

	for (uint32_t k = 1; index >= (p.first + (int64_t)p.n) * row; k++)
		p = ff_parameter_piece(g, node, k);
	return p;
}

static void init_shard(const struct ff_executor *x, const struct ff_shard *shard, float *out)
{
	const struct ff_value *v = value_of(x, shard);
	float bound = (float)sqrt(3.0 / (double)v->fan_in);
	uint32_t last = shard->region.rank - 1;
	int32_t n = ff_region_size(&shard->region, last);
	int64_t row = ff_shape_volume(v->rank - 1, v->shape + 1);
	struct ff_walk w;

	ff_walk_start(&w, &shard->region, v);
	do {
		float line[256];

		for (int32_t k = 0, chunk; k < n; k += chunk) {
			const struct ff_parameter_piece p =
					piece_at(x->s->graph, shard->node, w.index + k, row);
			int64_t first = p.first * row, left = first + p.n * row - w.index - k;

			chunk = n - k < 256 ? n - k : 256;
			chunk = left < chunk ? (int32_t)left : chunk;
			ff_philox_uniform(x->opt.seed, ff_philox_stream(p.stream, 0),
					(uint64_t)(w.index + k - first), (size_t)chunk, line);
			for (int32_t i = 0; i < chunk; i++)
				out[w.offset + (k + i) * w.stride[last]] =
						(2 * line[i] - 1) * bound;
		}
	} while (ff_walk_next_line(&w));
}

/* What readers get of the weights, where they are not read as they are updated. */
static int upload_rounded(struct ff_executor *x, const float *weights, int64_t n, uint16_t *to,
		struct ff_stream *stream, struct ff_error *err)
{
	uint16_t *staging = malloc((size_t)n * sizeof(*staging));
	int code;

	if (!staging)
		return ff_fail_memory(err);
	for (int64_t i = 0; i < n; i++)
		staging[i] = ff_bf16_from_f32(weights[i]);
	code = x->b->move.upload(stream, to, staging, (size_t)n * sizeof(*staging), err);
	if (code == FF_OK)
		code = x->b->stream.drain(stream, err);
	free(staging);
	return code;
}

/* Every device draws its own shards: an element's value depends on the seed,
 * the node and its index in the whole weight alone, both as they are before rewrites. */
static int init_bucket(struct ff_executor *x, uint32_t bucket, uint32_t position,
		struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[bucket];
	float *staging = calloc(1, (size_t)b->bytes), *at;
	int64_t held, end, from, to;
	uint16_t *rounded = ff_address_rounded(x, bucket, position, &from, &to);
	int code;

	if (!staging)
		return ff_fail_memory(err);
	at = ff_address_array(x, bucket, position, FF_ARRAY_WEIGHTS, &held, &end);
	for (uint32_t i = 0; i < b->n_shards; i++) {
		const struct ff_shard *shard = &x->s->shards[b->first_shard + i];

		float *first = staging + shard->offset / FF_F32_BYTES;
		int64_t fan_in = value_of(x, shard)->fan_in;

		if (fan_in > 0)
			init_shard(x, shard, first);
		for (int64_t k = 0; fan_in == FF_FAN_ONE && k < ff_region_volume(&shard->region);
				k++)
			first[k] = 1;
	}
	code = x->b->move.upload(
			stream, at, staging + held, (size_t)(end - held) * sizeof(*staging), err);
	if (code == FF_OK)
		code = x->b->stream.drain(stream, err);
	if (code == FF_OK && rounded)
		code = upload_rounded(x, staging + from, to - from, rounded, stream, err);
	free(staging);
	return code;
}

int ff_executor_init_weights(struct ff_executor *x, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < x->s->n_buckets && code == FF_OK; i++) {
		const struct ff_bucket *b = &x->s->buckets[i];

		for (uint32_t k = 0; k < b->n_devices && code == FF_OK; k++) {
			if (ff_address_bucket(x, i, k))
				code = init_bucket(x, i, k,
						x->host[x->host_of[b->device[k]]].compute, err);
		}
	}
	return code;
}

/* What the device at `position` knows of a shard: of a flat bucket what it updates. */
static int place_own(struct ff_executor *x, const struct ff_shard *shard, uint32_t position,
		uint32_t array, float share, float *whole, struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[shard->bucket];
	int64_t begin = shard->offset / FF_F32_BYTES, first, end, held, held_end;
	int64_t stop = begin + ff_region_volume(&shard->region);
	float *at = ff_address_array(x, shard->bucket, position, array, &held, &held_end);
	struct ff_held h;

	if (!at)
		return FF_OK;
	ff_address_run(b, position, &first, &end);
	first = first > begin ? first : begin;
	end = end < stop ? end : stop;
	h = (struct ff_held){.value = value_of(x, shard),
			.region = &shard->region,
			.first = first - begin,
			.n = end - first,
			.memory = at + (first - held),
			.stream = x->host[x->host_of[b->device[position]]].compute};
	return ff_whole_add(x, &h, share, whole, err);
}

/* The owners of each shard, of replicas the first's, write it into the whole; the others add zeros.
 * Where each has its own gradients they are added; where each has its own weights, their mean is
 * what there is. */
static int place_owned(struct ff_executor *x, const struct ff_shard *shard, uint32_t array,
		float *whole, struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[shard->bucket];
	uint32_t owners = b->averaged ? b->n_devices : b->runs;
	bool adds = b->flat || array == FF_ARRAY_GRADIENTS;
	float share = adds ? 1 : 1 / (float)owners;
	int code = FF_OK;

	for (uint32_t k = 0; k < owners && !b->replica && code == FF_OK; k++)
		code = place_own(x, shard, k, array, share, whole, err);
	return code;
}

int ff_executor_parameter(struct ff_executor *x, uint32_t node, uint32_t array, float *whole,
		struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[x->s->graph->nodes[node].out];
	int code = ff_replay_wait(x, err);
	int64_t n = ff_value_volume(v);

	memset(whole, 0, (size_t)n * sizeof(*whole));
	if (code == FF_OK && array >= FF_ARRAY_WAITING && ff_waiting_is_shown(x)) {
		code = ff_waiting_show(x, array - FF_ARRAY_WAITING, err);
		array = FF_ARRAY_GRADIENTS;
	}
	if (code == FF_OK && array >= FF_ARRAY_WAITING)
		code = ff_waiting_add(x, node, array - FF_ARRAY_WAITING, whole, err);
	if (code == FF_OK && array == FF_ARRAY_RESIDUALS)
		code = ff_residuals_add(x, node, whole, err);
	for (uint32_t i = 0; array < FF_ARRAY_RESIDUALS && i < x->s->n_shards && code == FF_OK; i++)
		if (x->s->shards[i].node == node)
			code = place_owned(x, &x->s->shards[i], array, whole, err);
	return code < 0 ? code : x->comm->sum(x->comm, whole, n, err);
}

/* Elements for a device's shard of a bucket, at `to`. */
static int upload_shard(struct ff_executor *x, const struct ff_bucket *b, uint32_t position,
		const float *from, int64_t n, void *to, struct ff_error *err)
{
	struct ff_stream *stream = x->host[x->host_of[b->device[position]]].compute;
	int code = x->b->move.upload(stream, to, from, (size_t)n * sizeof(*from), err);

	return code < 0 ? code : x->b->stream.drain(stream, err);
}

/* One device's shard out of the whole, and what readers get of it. */
static int put_shard(struct ff_executor *x, const struct ff_shard *shard, uint32_t array,
		uint32_t position, const float *whole, struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[shard->bucket];
	int64_t n = ff_region_volume(&shard->region), first = shard->offset / FF_F32_BYTES;
	int64_t held, end, begin, stop, from;
	float *to = ff_address_array(x, shard->bucket, position, array, &held, &end);
	uint16_t *rounded = ff_address_rounded(x, shard->bucket, position, &begin, &stop);
	float *staging = calloc((size_t)n, sizeof(*staging));
	int code = FF_OK;

	if (!staging)
		return ff_fail_memory(err);
	ff_whole_take(value_of(x, shard), &shard->region, whole, staging);
	from = held > first ? held : first;
	end = end < first + n ? end : first + n;
	if (from < end)
		code = upload_shard(x, b, position, staging + (from - first), end - from,
				to + (from - held), err);
	from = begin > first ? begin : first;
	end = stop < first + n ? stop : first + n;
	if (code == FF_OK && rounded && array == FF_ARRAY_WEIGHTS && from < end)
		code = upload_rounded(x, staging + (from - first), end - from,
				rounded + (from - begin),
				x->host[x->host_of[b->device[position]]].compute, err);
	free(staging);
	return code;
}

int ff_executor_put_parameter(struct ff_executor *x, uint32_t node, uint32_t array,
		const float *whole, struct ff_error *err)
{
	int code = ff_replay_wait(x, err);

	if (code == FF_OK && array >= FF_ARRAY_WAITING)
		return ff_waiting_put(x, node, array - FF_ARRAY_WAITING, whole, err);
	if (code == FF_OK && array == FF_ARRAY_RESIDUALS)
		return ff_residuals_put(x, node, whole, err);
	for (uint32_t i = 0; i < x->s->n_shards && code == FF_OK; i++) {
		const struct ff_shard *shard = &x->s->shards[i];
		const struct ff_bucket *b = &x->s->buckets[shard->bucket];

		if (shard->node != node || !ff_region_volume(&shard->region))
			continue;
		for (uint32_t k = 0; k < b->n_devices && code == FF_OK; k++)
			if (ff_address_bucket(x, shard->bucket, k))
				code = put_shard(x, shard, array, k, whole, err);
	}
	return code;
}
