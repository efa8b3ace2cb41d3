/* What ffsearch says about a plan: a table for people, a report for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/block.h"

#define TEXT 160
#define NAME_WIDTH 32

static void time_text(double us, char buf[TEXT])
{
	if (us >= 1e6)
		snprintf(buf, TEXT, "%.3f s", us / 1e6);
	else if (us >= 1e3)
		snprintf(buf, TEXT, "%.3f ms", us / 1e3);
	else
		snprintf(buf, TEXT, "%.1f us", us);
}

static void bytes_text(int64_t bytes, char buf[TEXT])
{
	static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes / 1024;
	uint32_t u = 0;

	if (bytes < 1024) {
		snprintf(buf, TEXT, "%lld B", (long long)bytes);
		return;
	}
	for (; v >= 1024 && u < 3; u++)
		v /= 1024;
	snprintf(buf, TEXT, "%.1f %s", v, unit[u]);
}

static void memory_text(const struct ff_plan *p, uint32_t n_devices, char buf[TEXT])
{
	int64_t low = INT64_MAX, high = 0;
	char a[TEXT], b[TEXT];

	for (uint32_t i = 0; i < n_devices; i++) {
		int64_t v = p->schedule.memory_bytes[i];

		low = v < low ? v : low;
		high = v > high ? v : high;
	}
	bytes_text(low, a);
	bytes_text(high, b);
	if (!strcmp(a, b))
		snprintf(buf, TEXT, "%s", a);
	else
		snprintf(buf, TEXT, "%.40s to %.40s", a, b);
}

/* Of kernels that nobody has measured: estimated. */
static int64_t most_scratch(const struct ff_plan *p, uint32_t n_devices)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < n_devices; i++)
		if (p->schedule.workspace_bytes[i] > most)
			most = p->schedule.workspace_bytes[i];
	return most;
}

static void split_text(const struct ff_node *n, const struct ff_config *c, char buf[TEXT])
{
	size_t used = 0;

	snprintf(buf, TEXT, "whole");
	for (uint32_t i = 0; i < n->n_dims && used < TEXT; i++)
		if (c->degree[i] > 1)
			used += (size_t)snprintf(buf + used, TEXT - used, "%s%s %u",
					used ? ", " : "", n->dim[i].name, c->degree[i]);
	if (c->replicas > 1 && used < TEXT)
		snprintf(buf + used, TEXT - used, "%s%u times", used ? ", " : "", c->replicas);
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* "3", "0-7", "0-12 step 4", "0-3,8-11". */
static void devices_text(const struct ff_node *node, const struct ff_config *c, char buf[TEXT])
{
	uint16_t device[FF_MAX_DEVICES], sorted[FF_MAX_DEVICES];
	uint32_t n = c->n_parts, step, i;
	size_t used = 0;

	ff_config_devices(node, c, device);
	memcpy(sorted, device, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_number);
	step = n > 1 ? (uint32_t)(sorted[1] - sorted[0]) : 1;
	for (i = 1; i < n && (uint32_t)(sorted[i] - sorted[i - 1]) == step; i++)
		;
	if (i >= n && n > 2 && step > 1) {
		used = (size_t)snprintf(buf, TEXT, "%u-%u step %u", sorted[0], sorted[n - 1], step);
	} else {
		for (uint32_t first = 0; first < n && used < TEXT / 2; first = i) {
			for (i = first + 1; i < n && sorted[i] == sorted[i - 1] + 1; i++)
				;
			used += (size_t)snprintf(buf + used, TEXT - used,
					i - first > 1 ? "%s%u-%u" : "%s%u", used ? "," : "",
					sorted[first], sorted[i - 1]);
		}
		if (used >= TEXT / 2 && i < n)
			used += (size_t)snprintf(buf + used, TEXT - used, ",...");
	}
	if (memcmp(sorted, device, n * sizeof(*sorted)) != 0)
		snprintf(buf + used, TEXT - used, ", permuted");
}

/* "sample 4", "sample 4, stage 2, again". */
static void operator_text(const struct ff_summary *s, uint32_t node, char buf[TEXT])
{
	const struct ff_strategy *plan = &s->plan.strategy;
	size_t used;

	split_text(&s->graph->nodes[node], &plan->config[node], buf);
	used = strlen(buf);
	if (plan->stage[node] && used < TEXT)
		used += (size_t)snprintf(buf + used, TEXT - used, ", stage %u", plan->stage[node]);
	if (plan->recompute[node] && used < TEXT)
		snprintf(buf + used, TEXT - used, ", again");
}

static void print_operators(const struct ff_summary *s, FILE *to)
{
	const struct ff_graph *g = s->graph;
	char split[TEXT], devices[TEXT];
	int width = 8, split_width = 5;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int n = (int)strnlen(g->nodes[i].name, NAME_WIDTH), k;

		if (!s->plan.strategy.config[i].n_parts)
			continue;
		operator_text(s, i, split);
		k = (int)strlen(split);
		width = n > width ? n : width;
		split_width = k > split_width ? k : split_width;
	}
	fprintf(to, "%-*s  %-*s  %s\n", width, "operator", split_width, "split", "devices");
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_config *c = &s->plan.strategy.config[i];

		if (c->n_parts == 0)
			continue;
		operator_text(s, i, split);
		devices_text(&g->nodes[i], c, devices);
		fprintf(to, "%-*s  %-*s  %s\n", width, g->nodes[i].name, split_width, split,
				devices);
	}
}

static uint32_t count_stages(const struct ff_strategy *s)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		last = s->stage[i] > last ? s->stage[i] : last;
	return last + 1;
}

static uint32_t count_again(const struct ff_strategy *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		n += s->recompute[i];
	return n;
}

/* Parameters that are updated flat, and of those what is dropped besides. */
static uint32_t count_flat(const struct ff_strategy *s, uint32_t *dropped)
{
	uint32_t n = 0;

	*dropped = 0;
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		n += s->config[i].flat;
		*dropped += s->config[i].flat && s->recompute[i];
	}
	return n;
}

static void print_phases(const struct ff_strategy *s, FILE *to)
{
	uint32_t stages = count_stages(s), dropped, flat = count_flat(s, &dropped);
	char bucket[TEXT];

	if (s->micro_batches == 1 && stages > 1)
		fprintf(to, "\noperators issued in %u stages\n", stages);
	if (s->micro_batches > 1)
		fprintf(to, "\n%u micro-batches, ", s->micro_batches);
	if (s->micro_batches > 1 && stages > 1)
		fprintf(to, "%u stages, ", stages);
	if (s->micro_batches > 1)
		fprintf(to, "%s\n", ff_order_name(s->rule));
	if (s->bucket_bytes) {
		bytes_text(s->bucket_bytes, bucket);
		fprintf(to, "\ngradients travel in buckets of %s\n", bucket);
	}
	if (flat)
		fprintf(to,
				"\n%u parameters updated flat: of what devices have alike, each "
				"updates an equal run (%s)\n",
				flat, dropped ? "ZeRO" : "ZeRO-1");
	if (dropped)
		fprintf(to,
				"%u of them dropped while nobody reads them: gathered for forward "
				"and "
				"again for backward (ZeRO-3)\n",
				dropped);
}

/* One line of the comparison: the plan's figure, then the baseline's. */
static void row(const struct ff_summary *s, FILE *to, const char *what, const char *plan,
		const char *baseline)
{
	if (s->is_data_parallel)
		fprintf(to, "%-18s %s\n", what, plan);
	else
		fprintf(to, "%-18s %-24s %s\n", what, plan, baseline);
}

static void print_comparison(const struct ff_summary *s, FILE *to)
{
	const struct ff_plan *p = &s->plan, *d = s->baseline;
	char a[TEXT], b[TEXT];

	row(s, to, "", s->title, s->baseline_name);
	time_text(p->simulation.step_us, a);
	time_text(d->simulation.step_us, b);
	row(s, to, "step time", a, b);
	memory_text(p, s->machine->n_devices, a);
	memory_text(d, s->machine->n_devices, b);
	row(s, to, "memory per device", a, b);
	if (!s->measured) {
		bytes_text(most_scratch(p, s->machine->n_devices), a);
		bytes_text(most_scratch(d, s->machine->n_devices), b);
		row(s, to, "  scratch, at most", a, b);
	}
	bytes_text(ff_schedule_sent_bytes(&p->schedule), a);
	bytes_text(ff_schedule_sent_bytes(&d->schedule), b);
	row(s, to, "moved per step", a, b);
}

/* Speedups below this are within the error of prediction (bench/results/predictions.json). */
#define SURE 1.05

/* Up to here a bound tells how good a plan is. */
#define NEAR 1.2

static void print_bound(const struct ff_summary *s, double us, FILE *to)
{
	double times = us / s->lower_bound_us;
	char bound[TEXT];

	time_text(s->lower_bound_us, bound);
	fprintf(to, "No strategy can be faster than %s", bound);
	if (!(s->lower_bound_us > 0))
		fprintf(to, ".\n");
	else if (times <= NEAR)
		fprintf(to, "; this one takes %.1f %% more.\n", (times - 1) * 100);
	else
		fprintf(to,
				"; this one takes %.1f times that. The bound knows no "
				"communication "
				"and no memory, so it may be far off.\n",
				times);
}

/* Above this share of the step the summary says what of it was never measured. */
#define MUCH_INFERRED 0.1

static double inferred_share(const struct ff_plan *p)
{
	return p->simulation.step_us > 0 ? p->inferred.us / p->simulation.step_us : 0;
}

/* What predictions by models of devices rest on. */
static void print_basis(const struct ff_summary *s, FILE *to)
{
	const struct ff_plan *p = &s->plan;
	const char *before = "";

	if (s->unmodelled)
		fprintf(to,
				"There is no model of devices of kind \"%s\": they cost what their "
				"peak rates say.\n",
				s->unmodelled->name);
	if (inferred_share(p) <= MUCH_INFERRED)
		return;
	fprintf(to, "%.0f %% of the step rests on kernels that were not measured on such devices (",
			100 * inferred_share(p));
	for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT; c++)
		if (p->inferred.classes >> c & 1) {
			fprintf(to, "%s%s", before, ff_kernel_class_name((enum ff_kernel_class)c));
			before = ", ";
		}
	fprintf(to, "), but inferred from others.\n");
}

static void print_speedup(const struct ff_summary *s, FILE *to)
{
	double us = s->plan.simulation.step_us, base_us = s->baseline->simulation.step_us;
	char fitting[TEXT] = "";

	if (s->baseline != &s->data_parallel)
		snprintf(fitting, TEXT, " that fits (%s)", s->baseline_name);
	fprintf(to, "Predicted speedup over data parallelism%s: %.2fx%s.\n", fitting, base_us / us,
			base_us > us && base_us < SURE * us
					? ", which is less than predictions are off by: "
					  "measure it with ffrun --compare"
					: "");
}

static void print_verdict(const struct ff_summary *s, FILE *to)
{
	const struct ff_plan *d = &s->data_parallel;
	double us = s->plan.simulation.step_us;
	char a[TEXT], b[TEXT];

	if (!ff_plan_fits(d)) {
		bytes_text(d->schedule.memory_bytes[d->short_device], a);
		bytes_text(d->short_limit, b);
		fprintf(to, "Data parallelism does not fit: device %u would need %s and has %s.\n",
				d->short_device, a, b);
	}
	if (s->is_data_parallel && ff_plan_fits(d))
		fprintf(to, "%s\n",
				s->starts ? "Data parallelism is the best plan found."
					  : "This is data parallelism.");
	else if (ff_plan_fits(s->baseline))
		print_speedup(s, to);
	if (isfinite(s->lower_bound_us))
		print_bound(s, us, to);
	if (s->starts)
		fprintf(to, "Searched %llu proposals in %.1f s (%.0f a second), seed %llu%s.\n",
				(unsigned long long)s->proposals, s->seconds,
				s->seconds > 0 ? (double)s->proposals / s->seconds : 0,
				(unsigned long long)s->seed, s->interrupted ? ", interrupted" : "");
	ff_found_print(&s->found, us, to);
}

static uint32_t count_operators(const struct ff_graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += ff_node_needs_config(g, i);
	return n;
}

void ff_summary_print(const struct ff_summary *s, FILE *to)
{
	const struct ff_machine *m = s->machine;

	fprintf(to,
			"graph %s (batch %d, %u operators, %lld parameters) on machine %s (%u "
			"device%s), "
			"costs %s, optimizer %s%s\n\n",
			s->graph->name, s->graph->batch, count_operators(s->graph),
			(long long)ff_graph_parameters(s->graph), m->name, m->n_devices,
			m->n_devices == 1 ? "" : "s", s->costs, s->plan.schedule.optimizer->name,
			s->plan.schedule.clip == FF_NONE ? "" : ", gradients clipped");
	if (s->plan.schedule.average_every)
		fprintf(to,
				"parameters are averaged every %u steps instead of gradients in "
				"each, which changes what is computed\n\n",
				s->plan.schedule.average_every);
	if (s->plan.schedule.staleness)
		fprintf(to,
				"gradients are applied %u step%s late, which changes what is "
				"computed\n\n",
				s->plan.schedule.staleness,
				s->plan.schedule.staleness == 1 ? "" : "s");
	if (s->codec)
		fprintf(to, "gradients are sent as %s, which changes what is computed\n\n",
				s->codec->name);
	if (s->plan.schedule.plain_bytes)
		fprintf(to,
				"but for those that moves bring to several devices: %" PRId64
				" bytes a step go as they are\n\n",
				s->plan.schedule.plain_bytes);
	print_operators(s, to);
	print_phases(&s->plan.strategy, to);
	fprintf(to, "\n");
	print_comparison(s, to);
	fprintf(to, "\n");
	print_verdict(s, to);
	print_basis(s, to);
}

static void write_bytes(struct ff_out *o, const char *key, const int64_t *bytes, uint32_t n)
{
	ff_out_array(o, key);
	for (uint32_t i = 0; i < n; i++)
		ff_out_int(o, NULL, bytes[i]);
	ff_out_close(o);
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
	if (s->unmodelled)
		ff_out_string(o, "without_model", s->unmodelled->name);
	ff_out_real(o, "inferred_share", inferred_share(&s->plan));
	ff_out_array(o, "inferred");
	for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT; c++)
		if (s->plan.inferred.classes >> c & 1)
			ff_out_string(o, NULL, ff_kernel_class_name((enum ff_kernel_class)c));
	ff_out_close(o);
}

static int64_t bucket_bytes(const struct ff_summary *s, const struct ff_plan *p)
{
	int64_t bytes = p->strategy.bucket_bytes;

	return bytes ? bytes : ff_bucket_bytes(s->graph, s->machine);
}

void ff_summary_write(const struct ff_summary *s, struct ff_out *o)
{
	const struct ff_plan *p = &s->plan, *d = s->baseline;
	double us = p->simulation.step_us, dp_us = d->simulation.step_us;
	uint32_t dropped, flat = count_flat(&p->strategy, &dropped);

	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-search-report");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "graph", s->graph->name);
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
	if (p->schedule.average_every)
		ff_out_int(o, "average_every", p->schedule.average_every);
	if (p->schedule.staleness)
		ff_out_int(o, "staleness", p->schedule.staleness);
	if (s->codec)
		ff_out_string(o, "compress", s->codec->name);
	write_basis(s, o);
	write_search(s, o);
	ff_out_real(o, "predicted_us", us);
	ff_out_int(o, "micro_batches", p->strategy.micro_batches);
	ff_out_int(o, "stages", count_stages(&p->strategy));
	ff_out_int(o, "recomputed", count_again(&p->strategy));
	ff_out_int(o, "updated_flat", flat);
	ff_out_int(o, "dropped", dropped);
	ff_out_int(o, "bucket_bytes", bucket_bytes(s, p));
	ff_out_int(o, "data_parallel_bucket_bytes", bucket_bytes(s, d));
	ff_out_string(o, "baseline", s->baseline_name);
	ff_out_real(o, "data_parallel_us", dp_us);
	ff_out_real(o, "speedup", dp_us / us);
	ff_out_bool(o, "is_data_parallel", s->is_data_parallel);
	ff_out_real(o, "lower_bound_us", s->lower_bound_us);
	ff_out_int(o, "memory_limit_bytes", s->memory_limit);
	ff_out_bool(o, "fits", ff_plan_fits(p));
	ff_out_bool(o, "data_parallel_fits", ff_plan_fits(&s->data_parallel));
	write_bytes(o, "memory_bytes", p->schedule.memory_bytes, s->machine->n_devices);
	if (!s->measured)
		write_bytes(o, "estimated_workspace_bytes", p->schedule.workspace_bytes,
				s->machine->n_devices);
	write_bytes(o, "data_parallel_memory_bytes", d->schedule.memory_bytes,
			s->machine->n_devices);
	ff_out_int(o, "comm_bytes", ff_schedule_sent_bytes(&p->schedule));
	ff_out_int(o, "data_parallel_comm_bytes", ff_schedule_sent_bytes(&d->schedule));
	ff_out_close(o);
}
