/* Synchronisations of weights and of the optimizer's states, which become the mean of what the
 * devices have (local SGD: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019;
 * with the states: Yu et al., "On the Linear Speedup Analysis of Communication Efficient Momentum
 * SGD", ICML 2019).  SPDX-License-Identifier: Apache-2.0 */
#include "averaging.h"

#include "address.h"
#include "ff/bucket_layout.h"

/* Weights and, behind the gradients, states: `n` arrays, each hosted device's, and their sums. */
struct ff_averaging {
	uint32_t n, n_hosts;
	float **values[2]; /* n_hosts */
	int64_t count[2];
	struct ff_collective sum[2];
	float factor;
};

static int add_array(struct ff_transfer *t, struct ff_averaging *v, int64_t offset, int64_t bytes,
		struct ff_error *err)
{
	const struct ff_bucket *b = &t->x->s->buckets[t->task->bucket];
	struct ff_arena *a = &t->x->arena;
	uint32_t k = v->n++, hosts = 0;
	void **at = ff_arena_array(a, b->n_devices, sizeof(*at));

	v->values[k] = ff_arena_array(a, b->n_devices, sizeof(**v->values));
	if (!at || !v->values[k])
		return ff_fail_memory(err);
	v->count[k] = bytes / FF_F32_BYTES;
	for (uint32_t i = 0; i < b->n_devices; i++) {
		char *memory = ff_address_bucket(t->x, t->task->bucket, i);

		if (!memory)
			continue;
		at[i] = memory + offset;
		v->values[k][hosts++] = at[i];
	}
	v->n_hosts = hosts;
	v->sum[k] = (struct ff_collective){.kind = FF_MOVE_ALL_REDUCE,
			.type = FF_F32,
			.reduce = FF_REDUCE_SUM,
			.n_devices = b->n_devices,
			.device = b->device,
			.send = (const void *const *)at,
			.recv = at,
			.count = &v->count[k]};
	return FF_OK;
}

int ff_averaging_build(struct ff_transfer *t, struct ff_error *err)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_bucket *b = &s->buckets[t->task->bucket];
	struct ff_averaging *v = ff_arena_alloc(&t->x->arena, sizeof(*v));
	int code;

	if (!v)
		return ff_fail_memory(err);
	*v = (struct ff_averaging){.factor = 1 / (float)b->n_devices};
	t->averaging = v;
	code = add_array(t, v, 0, b->bytes, err);
	if (code == FF_OK && s->optimizer->states)
		code = add_array(t, v, ff_bucket_arrays(b, s->optimizer, FF_F32).states,
				s->optimizer->states * b->bytes, err);
	return code;
}

int ff_averaging_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_averaging *v = t->averaging;
	const struct ff_channel on = {t->x->b, stream};
	int code = FF_OK;

	for (uint32_t k = 0; k < v->n; k++) {
		for (uint32_t i = 0; i < v->n_hosts && code == FF_OK; i++)
			code = t->x->b->math.scale(
					stream, v->values[k][i], v->count[k], v->factor, err);
		if (code == FF_OK)
			code = t->x->comm->collective(t->x->comm, &on, &v->sum[k], err);
	}
	return code;
}
