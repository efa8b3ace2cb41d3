/* What is recorded of a strategy.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "check/memory.h"
#include "ff/search.h"
#include "ff/simulate.h"
#include "made.h"

const char *const column_names[COLUMNS] = {"input", "schedule", "step time", "memory", "bytes"};

static uint64_t hash_config(uint64_t h, const struct ff_node *n, const struct ff_config *c)
{
	h = ff_hash_mix(h, (uint64_t)c->n_parts << 32 | c->replicas);
	for (uint32_t d = 0; d < n->n_dims; d++)
		h = ff_hash_mix(h, c->degree[d]);
	for (uint32_t p = 0; p < c->n_parts; p++)
		h = ff_hash_mix(h, ff_config_device(n, c, p));
	return h;
}

static uint64_t hash_machine(const struct ff_machine *m)
{
	struct ff_out o;
	uint64_t h;

	ff_out_init(&o);
	ff_machine_write(m, &o);
	h = o.failed ? 0 : ff_fnv1a(o.text, o.len);
	ff_out_finish(&o);
	return h;
}

/* Field by field, so that no layout of a struct is in it. */
static uint64_t hash_input(const struct made *m)
{
	const struct ff_strategy *s = &m->strategy;
	uint64_t h = ff_hash_mix(m->graph.hash, hash_machine(&m->machine));

	h = ff_hash_mix(h, (uint64_t)s->micro_batches << 8 | (uint64_t)s->rule);
	if (s->bucket_bytes)
		h = ff_hash_mix(h, (uint64_t)s->bucket_bytes);
	if (s->scatter)
		h = ff_hash_mix(h, s->scatter);
	if (s->shards)
		h = ff_hash_mix(h, s->shards);
	for (uint32_t i = 0; i < m->micro.n_nodes; i++) {
		h = hash_config(h, &m->micro.nodes[i], &s->config[i]);
		h = ff_hash_mix(h, (uint64_t)(uint32_t)s->priority[i]);
		h = ff_hash_mix(h, (uint64_t)s->stage[i] << 1 | s->recompute[i]);
		if (s->config[i].flat)
			h = ff_hash_mix(h, i);
	}
	return h;
}

/* Equal figures in a row are written once. */
static const char *memory_text(const struct ff_schedule *s, struct ff_arena *a)
{
	uint32_t n = s->machine->n_devices;
	const char *text;
	struct ff_out o;

	ff_out_init(&o);
	for (uint32_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && s->memory_bytes[k] == s->memory_bytes[i];)
			k++;
		ff_out_printf(&o, i ? ",%" PRId64 : "%" PRId64, s->memory_bytes[i]);
		if (k > i + 1)
			ff_out_printf(&o, "*%u", k - i);
	}
	text = o.failed ? NULL : ff_arena_strdup(a, o.text);
	ff_out_finish(&o);
	return text;
}

/* It knows nothing of averages and late gradients, which are not searched. */
static int check_evaluator(struct made *m, double step_us, struct ff_error *err)
{
	struct ff_evaluation got;
	struct ff_evaluator *e;
	int code;

	if (ff_travel_unsearched(&m->options.travel))
		return FF_OK;
	code = ff_evaluator_create(&m->graph, &m->machine, m->pricer, INT64_MAX, 0, &e, err);
	if (code < 0)
		return code;
	code = ff_evaluator_set(e, &m->strategy, &got, err);
	ff_evaluator_destroy(e);
	if (code == FF_OK && got.step_us != step_us)
		return ff_fail(err, FF_E_RUN,
				"the evaluator takes the step for %.17g us, but simulated it takes "
				"%.17g us",
				got.step_us, step_us);
	return code;
}

/* The bound of as many micro-batches is not above it. */
static int check_bound(struct made *m, double step_us, struct ff_error *err)
{
	double us;
	int code = ff_lower_bound(&m->graph, m->strategy.micro_batches, &m->machine, m->pricer,
			NULL, NULL, &us, err);

	if (code == FF_OK && !(us > 0 && us <= step_us * (1 + 1e-9)))
		return ff_fail(err, FF_E_RUN, "the bound is %.17g us, but the step takes %.17g us",
				us, step_us);
	return code;
}

/* Nor does it take less memory than none does without. */
static int check_memory(struct made *m, const struct ff_schedule *s, struct ff_error *err)
{
	int64_t least = ff_least_memory_bytes(&m->graph, s->optimizer), sum = 0;

	for (uint32_t i = 0; i < m->machine.n_devices; i++)
		sum += s->memory_bytes[i];
	if (sum < least)
		return ff_fail(err, FF_E_RUN,
				"it takes %" PRId64 " bytes, but none less than %" PRId64, sum,
				least);
	return FF_OK;
}

int made_digest(struct made *m, const char *ret[COLUMNS], struct ff_error *err)
{
	struct ff_schedule schedule;
	struct ff_simulation sim;
	struct ff_arena *a = &m->arena;
	int code = ff_lower(&m->graph, &m->machine, &m->strategy, &m->options, a, &schedule, err);

	if (code == FF_OK)
		code = ff_simulate(&schedule, m->pricer, a, &sim, err);
	if (code == FF_OK)
		code = check_evaluator(m, sim.step_us, err);
	if (code == FF_OK)
		code = check_bound(m, sim.step_us, err);
	if (code == FF_OK)
		code = check_memory(m, &schedule, err);
	if (code < 0)
		return code;
	ret[COLUMN_INPUT] = ff_arena_printf(a, "%016" PRIx64, hash_input(m));
	ret[COLUMN_SCHEDULE] = ff_arena_printf(a, "%016" PRIx64, ff_schedule_hash(&schedule));
	ret[COLUMN_TIME] = ff_arena_printf(a, "%a", sim.step_us);
	ret[COLUMN_MEMORY] = memory_text(&schedule, a);
	ret[COLUMN_BYTES] = ff_arena_printf(a, "%" PRId64 "/%" PRId64 "/%" PRId64,
			schedule.network_bytes, schedule.plain_bytes, schedule.averaged_bytes);
	for (int i = 0; i < COLUMNS; i++)
		if (!ret[i])
			return ff_fail_memory(err);
	return FF_OK;
}
