/* Plans lowered and timed.  SPDX-License-Identifier: Apache-2.0 */
#include "pricing.h"

#include "ff/bucketing.h"
#include "ff/evaluate.h"
#include "ff/graph_file.h"
#include "ff/optimizer.h"
#include "hand/buckets.h"

int ff_pricing_load_graph(struct ff_pricing *p, struct ff_error *err)
{
	return ff_graph_load(p->graph_path, p->a, &p->graph, err);
}

int ff_pricing_load_machine(struct ff_pricing *p, uint32_t devices, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_machine_load(p->machine_name, p->a, &whole, err);

	if (code < 0)
		return code;
	if (devices)
		code = ff_machine_subset(&whole, devices, p->a, &p->machine, err);
	else
		p->machine = whole;
	if (code == FF_OK && !ff_estimate_named(p->costs_path, &p->estimate))
		code = ff_costs_load(p->costs_path, &p->costs, err);
	return code;
}

static int open_pricer(struct ff_pricing *p, const struct ff_strategy_info *info,
		struct ff_pricer **ret, struct ff_error *err)
{
	int code = ff_pricer_create(&p->graph, &p->machine, p->estimate, p->costs,
			p->costs ? p->costs_path : NULL, p->graph_path, ret, err);

	if (code < 0)
		return code;
	ff_pricer_set_clip(*ret, info->clip);
	ff_pricer_set_travel(*ret, &info->travel);
	return ff_pricer_set_optimizer(*ret, info->optimizer, err);
}

static int fill(const struct ff_pricing *p, const struct ff_schedule *s, double step_us,
		struct ff_priced *ret, struct ff_error *err)
{
	*ret = (struct ff_priced){.step_us = step_us,
			.least_bytes = INT64_MAX,
			.sent_bytes = ff_schedule_sent_bytes(s),
			.fits = true};
	ret->memory_bytes = ff_arena_copy(
			p->a, s->memory_bytes, p->machine.n_devices, sizeof(*s->memory_bytes));
	if (!ret->memory_bytes)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < p->machine.n_devices; d++) {
		int64_t bytes = s->memory_bytes[d];

		ret->least_bytes = bytes < ret->least_bytes ? bytes : ret->least_bytes;
		ret->most_bytes = bytes > ret->most_bytes ? bytes : ret->most_bytes;
		ret->fits = ret->fits && bytes <= ff_device_kind(&p->machine, d)->memory_bytes;
	}
	return FF_OK;
}

/* What a step takes, without its tasks: on 1,024 devices these take gigabytes. */
static int find_step(struct ff_pricing *p, struct ff_pricer *pricer, const struct ff_strategy *s,
		double *us, struct ff_error *err)
{
	struct ff_evaluator *evaluator;
	struct ff_evaluation at;
	int code = ff_evaluator_create(&p->graph, &p->machine, pricer, 0, 0, &evaluator, err);

	if (code < 0)
		return code;
	code = ff_evaluator_set(evaluator, s, &at, err);
	*us = at.step_us;
	ff_evaluator_destroy(evaluator);
	return code;
}

int ff_pricing_do(struct ff_pricing *p, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_priced *ret, struct ff_error *err)
{
	struct ff_lower_options opt = {.optimizer = info->optimizer,
			.clip = info->clip,
			.travel = info->travel,
			.workspace = ff_price_workspace,
			.what = FF_LOWER_SIZES};
	struct ff_pricer *pricer = NULL;
	struct ff_schedule schedule;
	struct ff_arena scratch;
	double us = 0;
	int code = open_pricer(p, info, &pricer, err);

	ff_arena_init(&scratch);
	opt.ctx = pricer;
	if (code == FF_OK)
		code = find_step(p, pricer, s, &us, err);
	if (code == FF_OK)
		code = ff_lower(&p->graph, &p->machine, s, &opt, &scratch, &schedule, err);
	if (code == FF_OK)
		code = fill(p, &schedule, us, ret, err);
	ff_arena_finish(&scratch);
	ff_pricer_destroy(pricer);
	return code;
}

int ff_pricing_tune(struct ff_pricing *p, const struct ff_strategy_info *info,
		struct ff_strategy *s, struct ff_error *err)
{
	int64_t preset = ff_bucket_bytes(&p->graph, &p->machine);
	struct ff_evaluator *evaluator = NULL;
	struct ff_pricer *pricer = NULL;
	struct ff_evaluation at;
	int code = open_pricer(p, info, &pricer, err);

	if (code == FF_OK)
		code = ff_evaluator_create(&p->graph, &p->machine, pricer, 0, 0, &evaluator, err);
	if (!s->bucket_bytes)
		s->bucket_bytes = preset;
	if (code == FF_OK)
		code = ff_evaluator_set(evaluator, s, &at, err);
	if (code == FF_OK)
		code = ff_buckets_tune(evaluator, s, preset, &at, err);
	ff_evaluator_destroy(evaluator);
	ff_pricer_destroy(pricer);
	return code;
}

int ff_pricing_file(
		struct ff_pricing *p, const char *path, struct ff_priced *ret, struct ff_error *err)
{
	struct ff_strategy_info info;
	struct ff_strategy s;
	int code = ff_strategy_load_rewritten(
			path, &p->graph, p->machine.n_devices, p->a, &s, &info, err);

	return code == FF_OK ? ff_pricing_do(p, &s, &info, ret, err) : code;
}

void ff_pricing_finish(struct ff_pricing *p)
{
	ff_costs_destroy(p->costs);
	p->costs = NULL;
}
