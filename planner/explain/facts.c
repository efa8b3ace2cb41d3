/* Facts of a plan, found and written.  SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include "ff/bucket.h"

static double model_flops(const struct ff_graph *g)
{
	double flops = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_computed(g, i))
			flops += (double)g->nodes[i].flops_forward +
				 (double)g->nodes[i].flops_backward;
	return flops;
}

/* Of all losses, places that a class is said of, where they are those of sequences: a sample and
 * one other dim beside what is predicted. */
static double tokens(const struct ff_graph *g)
{
	double n = 0;

	for (uint32_t i = 0; i < g->n_losses; i++) {
		const struct ff_node *loss = &g->nodes[g->loss[i]];
		uint32_t attributes = 0;
		double places = 1;

		for (uint32_t d = 0; d < loss->n_dims; d++) {
			enum ff_label label = loss->dim[d].label;

			attributes += label == FF_DIM_ATTRIBUTE;
			if (label == FF_DIM_ATTRIBUTE || label == FF_DIM_SAMPLE)
				places *= loss->dim[d].extent;
		}
		if (ff_op_row(loss->op)->predicts != FF_PREDICTS_CLASSES || attributes != 1)
			return 0;
		n = places > n ? places : n;
	}
	return n;
}

/* What most of the step goes to. */
static const char *bound_of(const struct ff_times *t)
{
	double exposed = t->us[FF_TIME_EXPOSED], idle = t->us[FF_TIME_IDLE];

	if (t->compute_us >= exposed && t->compute_us >= idle)
		return "computing";
	return exposed >= idle ? "communication" : "waiting";
}

int ff_facts_find(const struct ff_graph *g, const struct ff_machine *m, const struct ff_plan *p,
		int64_t limit_bytes, struct ff_arena *a, struct ff_facts *ret, struct ff_error *err)
{
	struct ff_facts f = {.step_us = p->simulation.step_us,
			.sent_bytes = ff_schedule_sent_bytes(&p->schedule),
			.held = p->held};
	int64_t bucket = p->strategy.bucket_bytes;
	double s = f.step_us / 1e6;
	bool told = p->schedule.n_tasks > 0; /* what its time is made of */
	int code = FF_OK;

	f.times.node_us = ff_arena_array(a, g->n_nodes, sizeof(double));
	if (!f.times.node_us)
		return ff_fail_memory(err);
	if (told)
		code = ff_times_find(p, a, &f.times, err);

	if (code == FF_OK)
		code = ff_layers_find(g, a, &f.layers, err);
	if (code == FF_OK)
		code = ff_splits_find(g, p, &f.layers, &f.times, a, &f.splits, err);
	if (code == FF_OK && told)
		code = ff_critical_find(p, &f.layers, a, &f.path, err);
	if (code < 0)
		return code;
	ff_shape_find(g, p, &f.times, bucket, &f.shape);
	f.limit_bytes = limit_bytes ? limit_bytes : ff_device_kind(m, f.held.device)->memory_bytes;
	f.bound = told ? bound_of(&f.times) : "unknown";
	if (s > 0) {
		f.samples_per_s = g->batch / s;
		f.tokens_per_s = tokens(g) / s;
		f.mfu = model_flops(g) / s / p->peak_flops_per_s;
	}
	*ret = f;
	return FF_OK;
}

struct ff_rival ff_rival_of(const char *name, const struct ff_plan *p)
{
	struct ff_rival r = {.name = name,
			.step_us = p->simulation.step_us,
			.sent_bytes = ff_schedule_sent_bytes(&p->schedule),
			.fits = ff_plan_fits(p)};

	for (uint32_t i = 0; i < p->schedule.machine->n_devices; i++)
		if (p->schedule.memory_bytes[i] > r.memory_bytes)
			r.memory_bytes = p->schedule.memory_bytes[i];
	return r;
}

/* ---- as JSON ---- */

void ff_shape_write(const struct ff_shape *s, struct ff_out *o)
{
	ff_out_object(o, "shape");
	ff_out_int(o, "data", s->data);
	ff_out_int(o, "spatial", s->spatial);
	ff_out_int(o, "tensor", s->tensor);
	ff_out_int(o, "replicas", s->replicas);
	ff_out_int(o, "pipeline", s->pipeline);
	ff_out_int(o, "chunks", s->chunks);
	ff_out_int(o, "micro_batches", s->micro_batches);
	ff_out_int(o, "operators", s->n_operators);
	ff_out_int(o, "otherwise", s->n_others);
	ff_out_int(o, "parameters", s->n_parameters);
	ff_out_int(o, "updated_flat", s->n_flat);
	ff_out_bool(o, "scattered", s->scatters);
	ff_out_int(o, "dropped", s->n_dropped);
	ff_out_int(o, "recomputed", s->n_again);
	ff_out_close(o);
}

static void write_splits(const struct ff_splits *s, struct ff_out *o)
{
	ff_out_array(o, "splits");
	for (uint32_t i = 0; i < s->n; i++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "split", s->row[i].split);
		ff_out_int(o, "operators", s->row[i].n);
		ff_out_real(o, "us", s->row[i].us);
		ff_out_real(o, "gain_us", s->row[i].gain_us);
		ff_out_string(o, "names", s->row[i].names);
		ff_out_close(o);
	}
	ff_out_close(o);
}

static void write_path(const struct ff_critical *p, struct ff_out *o)
{
	ff_out_array(o, "critical_path");
	for (uint32_t i = 0; i < p->n; i++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "what", p->part[i].what);
		ff_out_string(o, "on", ff_critical_kind_name(p->part[i].kind));
		ff_out_int(o, "tasks", p->part[i].tasks);
		ff_out_real(o, "us", p->part[i].us);
		ff_out_close(o);
	}
	ff_out_close(o);
}

static void write_held(const struct ff_facts *f, struct ff_out *o)
{
	ff_out_object(o, "memory");
	ff_out_int(o, "device", f->held.device);
	for (uint32_t k = 0; k < FF_HELD_COUNT; k++)
		ff_out_int(o, ff_held_name((enum ff_held_kind)k), f->held.bytes[k]);
	ff_out_int(o, "limit", f->limit_bytes);
	ff_out_int(o, "free", f->limit_bytes - f->held.all_bytes);
	ff_out_close(o);
}

void ff_facts_write(const struct ff_facts *f, struct ff_out *o)
{
	ff_out_real(o, "samples_per_s", f->samples_per_s);
	if (f->tokens_per_s > 0)
		ff_out_real(o, "tokens_per_s", f->tokens_per_s);
	ff_out_real(o, "mfu", f->mfu);
	ff_shape_write(&f->shape, o);
	write_splits(&f->splits, o);
	ff_out_object(o, "times_us");
	for (uint32_t i = 0; i < FF_TIME_COUNT; i++)
		ff_out_real(o, ff_time_class_name((enum ff_time_class)i), f->times.us[i]);
	ff_out_close(o);
	ff_out_real(o, "communication_us", f->times.communication_us);
	ff_out_string(o, "bound_by", f->bound);
	write_held(f, o);
	write_path(&f->path, o);
}

void ff_rival_write(const char *key, const struct ff_rival *r, struct ff_out *o)
{
	ff_out_object(o, key);
	ff_out_string(o, "name", r->name);
	ff_out_real(o, "predicted_us", r->step_us);
	ff_out_int(o, "memory_bytes", r->memory_bytes);
	ff_out_int(o, "comm_bytes", r->sent_bytes);
	ff_out_bool(o, "fits", r->fits);
	ff_out_close(o);
}

void ff_rivals_write(const struct ff_rival *r, uint32_t n, struct ff_out *o)
{
	ff_out_array(o, "baselines");
	for (uint32_t i = 0; i < n; i++)
		ff_rival_write(NULL, &r[i], o);
	ff_out_close(o);
}
