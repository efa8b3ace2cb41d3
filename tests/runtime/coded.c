/* Codecs under test.  SPDX-License-Identifier: Apache-2.0 */
#include "coded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "ff/workspace.h"

void coded_bench_open(struct coded_bench *t)
{
	struct ff_error err;

	t->b = chosen_backend();
	RIG_OK(t->b->device.open(0, &t->dev, &err));
	RIG_OK(t->b->stream.open(t->dev, false, &t->stream, &err));
}

void coded_bench_close(struct coded_bench *t)
{
	t->b->stream.close(t->stream);
	t->b->device.close(t->dev);
}

void coded_say(struct coded_bench *t, const struct ff_codec *c, int64_t n, const float *v,
		float *rest, float *said)
{
	size_t bytes = (size_t)n * sizeof(float);
	struct ff_coding x = {.codec = c, .n = n};
	struct ff_error err;
	float *twice;

	x.values = chosen_put(t->dev, t->stream, v, bytes);
	x.residual = chosen_put(t->dev, t->stream, rest, bytes);
	x.message = chosen_put(t->dev, t->stream, NULL, (size_t)ff_codec_bytes(c, n));
	RIG_OK(t->b->math.encode(t->stream, &x, &err));
	chosen_get(t->stream, rest, x.residual, bytes);
	RIG_OK(t->b->math.decode(t->stream, &x, &err));
	chosen_get(t->stream, said, x.values, bytes);
	/* once more on top of it */
	x.add = true;
	RIG_OK(t->b->math.decode(t->stream, &x, &err));
	twice = malloc(bytes);
	chosen_get(t->stream, twice, x.values, bytes);
	for (int64_t i = 0; i < n; i++)
		ck_assert(twice[i] == 2 * said[i] || isnan(said[i]));
	free(twice);
	t->b->memory.free(t->dev, x.values);
	t->b->memory.free(t->dev, x.residual);
	t->b->memory.free(t->dev, x.message);
}

static float draw(struct ff_random *r, float size)
{
	return size * (float)(ff_random_unit(r) + ff_random_unit(r) + ff_random_unit(r) - 1.5);
}

float *coded_numbers(struct ff_random *r, int64_t n)
{
	float *v = malloc((size_t)n * sizeof(*v)), size = 1;

	for (int64_t i = 0; i < n; i++) {
		if (i % 256 == 0)
			size = ff_random_below(r, 6) ? exp2f((float)ff_random_below(r, 30) - 15)
						     : 0;
		v[i] = draw(r, size);
	}
	return v;
}

void coded_open(struct rig *r, struct scene *s, const struct ff_codec *codec, int64_t bucket_bytes,
		const struct ff_executor_options *opt)
{
	const struct ff_backend *b = rig_backend(opt->seed % 3 == 0);
	struct ff_workspace_query query = {.backend = b};
	struct ff_lower_options lower = {.bucket_bytes = bucket_bytes,
			.optimizer = s->optimizer,
			.group = opt->groups.of,
			.clip = opt->clip > 0,
			.travel.codec = codec,
			.workspace = ff_backend_workspace,
			.ctx = &query};
	struct ff_error err;

	RIG_OK(b->device.open(0, &query.device, &err));
	RIG_OK(ff_lower(&s->graph, &s->machine, &s->strategy, &lower, &s->arena, &r->schedule,
			&err));
	b->device.close(query.device);
	ff_workspace_finish(&query);
	r->own_comm = true;
	RIG_OK(ff_comm_local(s->machine.n_devices, &r->comm, &err));
	RIG_OK(ff_executor_create(&r->schedule, b, r->comm, s->data, opt, &r->x, &err));
}

static void place_update(const struct scene *s, uint32_t kind, uint32_t node, struct ff_random *r)
{
	const struct ff_value *v = &s->graph.values[s->graph.nodes[node].out];
	struct ff_config *c = &s->strategy.config[node];
	uint32_t axis = ff_random_below(r, v->rank), n = s->machine.n_devices;

	if (kind == SERVED) {
		c->n_parts = 1;
		c->start = (uint16_t)ff_random_below(r, n);
		return;
	}
	n = n < (uint32_t)v->shape[axis] ? n : (uint32_t)v->shape[axis];
	c->n_parts = c->degree[axis] = (uint16_t)n;
	c->stride[axis] = 1;
}

void coded_scene(struct scene *s, uint32_t i, uint32_t max_devices, struct ff_random *r)
{
	uint32_t kind = i / FF_CODEC_COUNT % KINDS;
	struct ff_error err;

	scene_open(s, FF_F32, max_devices, r);
	if (kind == RANDOM)
		return;
	RIG_OK(ff_strategy_data_parallel(
			&s->graph, s->machine.n_devices, &s->arena, &s->strategy, &err));
	for (uint32_t k = 0; k < s->graph.n_nodes && kind != SUMMED; k++)
		if (ff_node_is_parameter(&s->graph, k))
			place_update(s, kind, k, r);
}

const struct ff_codec *coded_by(uint32_t i)
{
	return ff_codec((enum ff_codec_id)(i % FF_CODEC_COUNT));
}
