/* Strategies written as JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/graph_file.h"
#include "ff/optimizer.h"
#include "ff/rewrite.h"
#include "ff/strategy_file.h"

#define LONGEST_LIST 16 /* devices written one by one */

/* Lists are easier to read and to edit; views stay short. */
static void write_devices(const struct ff_node *n, const struct ff_config *c, struct ff_out *o)
{
	uint16_t device[FF_MAX_DEVICES];

	if (c->list || c->n_parts <= LONGEST_LIST) {
		ff_config_devices(n, c, device);
		ff_out_array(o, "devices");
		for (uint32_t p = 0; p < c->n_parts; p++)
			ff_out_int(o, NULL, device[p]);
		ff_out_close(o);
		return;
	}
	ff_out_object(o, "devices");
	ff_out_int(o, "start", c->start);
	ff_out_object(o, "strides");
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (c->degree[d] > 1)
			ff_out_int(o, n->dim[d].name, c->stride[d]);
	ff_out_close(o);
	if (c->replicas > 1)
		ff_out_int(o, "replica_stride", c->replica_stride);
	ff_out_close(o);
}

static void write_parts(const struct ff_node *n, const struct ff_config *c, struct ff_out *o)
{
	ff_out_object(o, "degrees");
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (c->degree[d] > 1)
			ff_out_int(o, n->dim[d].name, c->degree[d]);
	ff_out_close(o);
	if (c->replicas > 1)
		ff_out_int(o, "replicas", c->replicas);
	write_devices(n, c, o);
}

static void write_operator(const struct ff_graph *g, const struct ff_strategy *s, uint32_t node,
		struct ff_out *o)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_config *c = &s->config[node];

	ff_out_object(o, NULL);
	ff_out_string(o, "name", n->name);
	if (c->flat)
		ff_out_string(o, "update", "flat");
	else
		write_parts(n, c, o);
	if (s->priority[node])
		ff_out_int(o, "priority", s->priority[node]);
	if (s->stage[node])
		ff_out_int(o, "stage", s->stage[node]);
	if (s->recompute[node])
		ff_out_bool(o, "recompute", true);
	ff_out_close(o);
}

/* Waits of those that have any; none at all says so. */
static void write_classes(const struct ff_strategy_info *info, struct ff_out *o)
{
	ff_out_object(o, "predicted_tasks");
	for (uint32_t i = 0; i < info->n_classes; i++)
		ff_out_real(o, info->classes[i].name, info->classes[i].us);
	ff_out_close(o);
	if (isnan(info->classes[0].waited_us))
		return;
	ff_out_object(o, "predicted_waits");
	for (uint32_t i = 0; i < info->n_classes; i++)
		if (info->classes[i].waited_us > 0)
			ff_out_real(o, info->classes[i].name, info->classes[i].waited_us);
	ff_out_close(o);
}

/* What the plan is for. */
static void write_subject(
		const struct ff_graph *g, const struct ff_strategy_info *info, struct ff_out *o)
{
	ff_graph_write_reference(g, o);
	if (g->rewritten) {
		ff_out_array(o, "rewrites");
		for (uint32_t i = 0; i < g->rewritten->n; i++)
			ff_out_string(o, NULL, g->rewritten->text[i]);
		ff_out_close(o);
	}
	ff_out_string(o, "machine", info->machine);
	ff_out_int(o, "devices", info->devices);
	if (info->optimizer)
		ff_out_string(o, "optimizer", info->optimizer->name);
	if (info->clip)
		ff_out_bool(o, "clip", true);
	ff_travel_write(&info->travel, o);
}

/* What is predicted of it, and by what. */
static void write_prediction(const struct ff_strategy_info *info, struct ff_out *o)
{
	if (info->predicted_us > 0)
		ff_out_real(o, "predicted_us", info->predicted_us);
	if (info->n_classes)
		write_classes(info, o);
	if (info->disturbed_share > 0)
		ff_out_real(o, "steadiness", 1 - info->disturbed_share);
	if (info->costs)
		ff_out_string(o, "costs", info->costs);
	if (info->framework)
		ff_out_string(o, "framework", info->framework);
	if (info->communication && *info->communication)
		ff_out_string(o, "communication", info->communication);
	if (info->memory_bytes) {
		ff_out_array(o, "memory_bytes");
		for (uint32_t i = 0; i < info->devices; i++)
			ff_out_int(o, NULL, info->memory_bytes[i]);
		ff_out_close(o);
	}
}

/* What holds for all operators: micro-batches and their order, how gradients are summed. */
static void write_step(const struct ff_strategy *s, struct ff_out *o)
{
	if (s->micro_batches > 1)
		ff_out_int(o, "micro_batches", s->micro_batches);
	if (s->rule)
		ff_out_string(o, "order", ff_order_name(s->rule));
	if (s->rule == FF_ORDER_INTERLEAVED)
		ff_out_int(o, "chunks", s->chunks);
	if (s->ticks[0]) {
		ff_out_array(o, "ticks");
		for (int k = 0; k < FF_STAGE_PASSES; k++)
			ff_out_int(o, NULL, s->ticks[k]);
		ff_out_close(o);
	}
	if (s->bucket_bytes)
		ff_out_int(o, "bucket_bytes", s->bucket_bytes);
	if (s->scatter)
		ff_out_string(o, "gradients", "scattered");
	if (s->shards)
		ff_out_int(o, "shards", s->shards);
}

void ff_strategy_write(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-strategy");
	ff_out_int(o, "version", FF_STRATEGY_VERSION);
	write_subject(g, info, o);
	write_prediction(info, o);
	write_step(s, o);
	if (info->data_parallel_bucket_bytes)
		ff_out_int(o, "data_parallel_bucket_bytes", info->data_parallel_bucket_bytes);
	ff_out_array(o, "operators");
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (s->config[i].n_parts || s->config[i].flat)
			write_operator(g, s, i, o);
	ff_out_close(o);
	ff_out_close(o);
}
