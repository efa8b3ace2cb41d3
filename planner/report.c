/* What ffsearch says about a plan, for programs.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/bucketing.h"
#include "ff/rewrite.h"
#include "summary.h"

static void write_bytes(struct ff_out *o, const char *key, const int64_t *bytes, uint32_t n)
{
	ff_out_array(o, key);
	for (uint32_t i = 0; i < n; i++)
		ff_out_int(o, NULL, bytes[i]);
	ff_out_close(o);
}

static uint32_t count_recomputed(const struct ff_strategy *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		n += s->recompute[i];
	return n;
}

static void write_search(const struct ff_summary *s, struct ff_out *o)
{
	ff_out_u64(o, "seed", s->seed);
	ff_out_u64(o, "jobs", s->jobs);
	ff_out_string(o, "space", s->space);
	ff_out_array(o, "starts");
	for (const char *const *name = s->starts; name && *name; name++)
		ff_out_string(o, NULL, *name);
	ff_out_close(o);
	ff_found_write(&s->found, o);
	ff_out_u64(o, "proposals", s->proposals);
	ff_out_u64(o, "accepted", s->accepted);
	ff_out_real(o, "proposals_per_s", s->seconds > 0 ? (double)s->proposals / s->seconds : 0);
	ff_out_real(o, "seconds", s->seconds);
	ff_out_bool(o, "interrupted", s->interrupted);
}

/* Of estimated costs: of the step the share that is inferred, and by which classes of kernels. */
static void write_basis(const struct ff_summary *s, struct ff_out *o)
{
	if (s->measured)
		return;
	if (s->framework)
		ff_out_string(o, "framework", s->framework->name);
	if (s->unmodelled)
		ff_out_string(o, "without_model", s->unmodelled->name);
	ff_out_real(o, "inferred_share", ff_inferred_share(&s->plan));
	ff_out_array(o, "inferred");
	for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT; c++)
		if (s->plan.simulation.inferred.classes >> c & 1)
			ff_out_string(o, NULL, ff_kernel_class_name((enum ff_kernel_class)c));
	ff_out_close(o);
}

static int64_t bucket_bytes(const struct ff_summary *s, const struct ff_plan *p)
{
	int64_t bytes = p->strategy.bucket_bytes;

	return bytes ? bytes : ff_bucket_bytes(s->graph, s->machine);
}

/* What was rewritten in the graph, and what data parallelism gains by it. */
static void write_rewriting(const struct ff_summary *s, struct ff_out *o)
{
	const struct ff_rewritten *rewritten = s->graph->rewritten;

	if (!rewritten)
		return;
	ff_out_array(o, "rewrites");
	for (uint32_t i = 0; i < rewritten->n; i++)
		ff_out_string(o, NULL, rewritten->text[i]);
	ff_out_close(o);
	if (isnan(s->rewriting.before_us))
		return;
	ff_out_real(o, "data_parallel_before_us", s->rewriting.before_us);
	ff_out_real(o, "data_parallel_rewritten_us", s->rewriting.with_us);
}

/* What the strategy is like. */
static void write_shape(const struct ff_summary *s, struct ff_out *o)
{
	const struct ff_shape *shape = &s->facts.shape;
	const struct ff_plan *p = &s->plan;

	ff_out_int(o, "micro_batches", p->strategy.micro_batches);
	ff_out_int(o, "stages", shape->pipeline);
	ff_out_int(o, "recomputed", count_recomputed(&p->strategy));
	ff_out_int(o, "updated_flat", shape->n_flat);
	ff_out_bool(o, "scattered", shape->scatters);
	ff_out_int(o, "dropped", shape->n_dropped);
	ff_out_int(o, "bucket_bytes", bucket_bytes(s, p));
	ff_out_int(o, "data_parallel_bucket_bytes", bucket_bytes(s, s->baseline));
}

/* On each device, and what is sent. */
static void write_all_bytes(const struct ff_summary *s, struct ff_out *o)
{
	const struct ff_schedule *plan = &s->plan.schedule, *base = &s->baseline->schedule;

	write_bytes(o, "memory_bytes", plan->memory_bytes, s->machine->n_devices);
	if (!s->measured)
		write_bytes(o, "estimated_workspace_bytes", plan->workspace_bytes,
				s->machine->n_devices);
	write_bytes(o, "data_parallel_memory_bytes", base->memory_bytes, s->machine->n_devices);
	ff_out_int(o, "comm_bytes", ff_schedule_sent_bytes(plan));
	ff_out_int(o, "data_parallel_comm_bytes", ff_schedule_sent_bytes(base));
}

void ff_summary_write(const struct ff_summary *s, struct ff_out *o)
{
	const struct ff_plan *p = &s->plan, *d = s->baseline;
	double us = p->simulation.step_us, dp_us = d->simulation.step_us;

	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-search-report");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "graph", s->graph->name);
	write_rewriting(s, o);
	ff_out_string(o, "machine", s->machine->name);
	ff_out_int(o, "devices", s->machine->n_devices);
	ff_out_string(o, "costs", s->costs);
	if (s->measured)
		ff_origin_write(ff_costs_origin(s->measured), "costs_machine", o);
	if (s->measured)
		ff_out_real(o, "steadiness", ff_costs_steady_share(s->measured));
	ff_out_string(o, "strategy", s->title);
	ff_out_string(o, "optimizer", p->schedule.optimizer->name);
	ff_out_bool(o, "clip", p->schedule.clip != FF_NONE);
	ff_travel_write(&p->schedule.travel, o);
	write_basis(s, o);
	write_search(s, o);
	ff_out_real(o, "predicted_us", us);
	write_shape(s, o);
	ff_out_string(o, "baseline", s->baseline_name);
	ff_out_real(o, "data_parallel_us", dp_us);
	ff_out_real(o, "speedup", dp_us / us);
	ff_out_bool(o, "is_data_parallel", s->is_data_parallel);
	ff_out_real(o, "lower_bound_us", s->lower_bound_us);
	ff_out_int(o, "memory_limit_bytes", s->memory_limit);
	ff_out_bool(o, "fits", ff_plan_fits(p));
	ff_out_bool(o, "data_parallel_fits", ff_plan_fits(&s->data_parallel));
	write_all_bytes(s, o);
	ff_facts_write(&s->facts, o);
	ff_rivals_write(s->rivals, s->n_rivals, o);
	if (s->why.asked)
		ff_why_write(s, o);
	if (s->varied)
		ff_varied_write(s, o);
	ff_out_close(o);
}
