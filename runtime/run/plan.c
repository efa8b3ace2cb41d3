/* What ffrun is asked to run: graph, strategies, machine, backend and data.
 * SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ff/backends.h"
#include "ff/costs.h"
#include "ff/graph_file.h"
#include "ff/instance.h"
#include "ff/scratch.h"
#include "ff/workspace.h"
#include "process/launch.h"

/* Ranks on this computer, for plans that name no machine: `here` of them share its
 * memory.  Beside that only whether communication overlaps matters for what is
 * executed. */
static int local_machine(uint32_t n, uint32_t here, struct ff_arena *a, struct ff_machine *ret,
		struct ff_error *err)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	struct ff_machine m = {.name = "local", .n_devices = n, .n_nodes = 1, .n_kinds = 1};

	m.kinds = ff_arena_alloc(a, sizeof(*m.kinds));
	m.nodes = ff_arena_alloc(a, sizeof(*m.nodes));
	m.node_of = ff_arena_array(a, n, sizeof(*m.node_of));
	if (!m.kinds || !m.nodes || !m.node_of)
		return ff_fail_memory(err);
	*m.kinds = (struct ff_device_kind){.name = "cpu",
			.flops_per_s = 1e10,
			.memory_bytes_per_s = 1e10,
			.memory_bytes = pages > 0 && page > 0
							? (int64_t)pages * page / (here ? here : n)
							: 1 << 30};
	*m.nodes = (struct ff_machine_node){
			.count = n, .inside = {1, 1e4, false}, .network = {1, 1e4, true}};
	*ret = m;
	return FF_OK;
}

static bool is_rule(const char *strategy)
{
	return !strcmp(strategy, "data-parallel") || !strcmp(strategy, "single");
}

/* How many devices run, in this order: as asked, as started, as the strategy
 * says, as the machine has, as there are cores. */
static int choose_devices(const struct ff_subject_options *opt, uint32_t ranks,
		const struct ff_machine *machine, const struct ff_candidate *c, int32_t batch,
		uint32_t *ret, struct ff_error *err)
{
	uint32_t devices = (uint32_t)opt->devices;

	if (opt->devices > FF_MAX_DEVICES)
		return ff_fail(err, FF_E_INPUT, "--devices %" PRIu64 ": at most %d are possible",
				opt->devices, FF_MAX_DEVICES);
	if (!devices)
		devices = ranks;
	if (!devices)
		devices = !strcmp(opt->strategy, "single") ? 1 : c->info.devices;
	if (!devices)
		devices = machine ? machine->n_devices : ff_launch_cores();
	if (ranks && devices != ranks)
		return ff_fail(err, FF_E_INPUT,
				"--devices %u: expected the number of ranks that were started, %u",
				devices, ranks);
	if (machine && devices > machine->n_devices)
		return ff_fail(err, FF_E_INPUT, "machine %s has %u device%s, %u were asked for",
				machine->name, machine->n_devices,
				machine->n_devices == 1 ? "" : "s", devices);
	if (!strcmp(c->name, "data-parallel") && devices > (uint32_t)batch)
		return ff_fail(err, FF_E_INPUT,
				"data-parallel on %u devices: expected no more than the %d samples "
				"of "
				"the batch",
				devices, batch);
	if (c->info.devices > devices)
		return ff_fail(err, FF_E_INPUT,
				"%s: expected at least the %u devices that the strategy is for, "
				"not %u",
				c->name, c->info.devices, devices);
	*ret = devices;
	return FF_OK;
}

/* The machine that the strategy was made for, as far as it is known here and large
 * enough; else this computer, and a note that says so.  A file that is there but
 * cannot be read is an error: guessing would run something else than was planned. */
static int load_planned_machine(
		struct ff_run_plan *p, uint32_t devices, uint32_t here, struct ff_error *err)
{
	const struct ff_candidate *c = &p->candidate[0];
	struct ff_machine found;
	int code;

	if (!ff_machine_known(c->info.machine)) {
		ff_error_write(&p->note[FF_NOTE_MACHINE], FF_OK,
				"%.200s is for machine \"%.100s\", which is not known here; this "
				"computer is assumed (--machine names another)",
				c->name, c->info.machine);
		return local_machine(devices, here, &p->arena, &p->machine, err);
	}
	if ((code = ff_machine_load(c->info.machine, &p->arena, &found, err)) < 0)
		return code;
	if (devices <= found.n_devices)
		return ff_machine_subset(&found, devices, &p->arena, &p->machine, err);
	ff_error_write(&p->note[FF_NOTE_MACHINE], FF_OK,
			"%.200s is for machine \"%.100s\", which has %u of the %u devices that "
			"are to run; this computer is assumed (--machine names another)",
			c->name, c->info.machine, found.n_devices, devices);
	return local_machine(devices, here, &p->arena, &p->machine, err);
}

/* The machine asked for, or the one the strategy was made for, or this computer. */
static int load_machine(const struct ff_subject_options *opt, uint32_t ranks, uint32_t here,
		struct ff_run_plan *p, struct ff_error *err)
{
	const struct ff_candidate *c = &p->candidate[0];
	struct ff_machine found;
	uint32_t devices = 1;
	int code = FF_OK;

	if (opt->machine)
		code = ff_machine_load(opt->machine, &p->arena, &found, err);
	if (code < 0 || (code = choose_devices(opt, ranks, opt->machine ? &found : NULL, c,
					 p->graph.batch, &devices, err)) < 0)
		return code;
	if (opt->machine)
		return ff_machine_subset(&found, devices, &p->arena, &p->machine, err);
	if (c->info.machine)
		return load_planned_machine(p, devices, here, err);
	return local_machine(devices, here, &p->arena, &p->machine, err);
}

/* Strategies that are rules are made once the number of devices is known. */
static int make_rule(struct ff_run_plan *p, struct ff_candidate *c, struct ff_error *err)
{
	int code;

	if (!is_rule(c->name))
		return FF_OK;
	c->info.devices = p->machine.n_devices;
	if (!strcmp(c->name, "single"))
		return ff_strategy_single(&p->graph, 0, &p->arena, &c->strategy, err);
	code = ff_strategy_data_parallel(
			&p->graph, p->machine.n_devices, &p->arena, &c->strategy, err);
	/* as the plan's search had it beside the plan */
	if (code == FF_OK)
		c->strategy.bucket_bytes = p->candidate[0].info.data_parallel_bucket_bytes;
	return code;
}

static int load_candidate(
		struct ff_run_plan *p, const char *name, uint32_t devices, struct ff_error *err)
{
	struct ff_candidate *c = &p->candidate[p->n_candidates++];
	int code;

	c->name = name;
	if (is_rule(name))
		return FF_OK;
	/* the first says what the graph is */
	code = (c == p->candidate ? ff_strategy_load_rewritten(name, &p->graph, devices, &p->arena,
						    &c->strategy, &c->info, err)
				  : ff_strategy_load(name, &p->graph, devices, &p->arena,
						    &c->strategy, &c->info, err));
	if (code == FF_OK && 1 - c->info.disturbed_share < FF_STEADY)
		ff_error_write(&p->note[FF_NOTE_DISTURBED], FF_OK,
				"%.200s: %.0f %% of the costs behind its prediction rest on "
				"samples "
				"that something else disturbed, so measured times may differ",
				name, 100 * c->info.disturbed_share);
	return code;
}

static int choose_backend(
		const struct ff_subject_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	p->backend = opt->device ? ff_backend_find(opt->device) : ff_backend_preset();
	if (!p->backend)
		return ff_fail(err, FF_E_INPUT, "--device %s: expected cpu, cuda or null",
				opt->device);
	return ff_backend_computes(p->backend, p->graph.dtype, err);
}

static int count_steps(
		const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	uint64_t epoch = (uint64_t)ff_dataset_steps(p->data, true);
	int code;

	if (opt->train.steps && opt->train.epochs)
		return ff_fail(err, FF_E_INPUT, "--steps and --epochs exclude each other");
	if (!opt->train.steps && !opt->train.epochs && !opt->check.verify && !opt->check.dump)
		return ff_fail(err, FF_E_INPUT, "expected --steps N or --epochs N, above 0");
	if (opt->train.steps > UINT32_MAX || opt->train.epochs > UINT32_MAX / epoch)
		return ff_fail(err, FF_E_INPUT, "%s: at most %u steps are possible",
				opt->train.steps ? "--steps" : "--epochs", UINT32_MAX);
	p->steps = opt->train.epochs ? opt->train.epochs * epoch : opt->train.steps;
	p->finished = p->steps && p->first >= p->steps;
	if (p->finished)
		ff_error_write(&p->note[FF_NOTE_FINISHED], FF_OK,
				"%.300s has %" PRIu64 " steps behind it, and %" PRIu64
				" were asked for: nothing is left to be trained",
				p->weights->path, p->first, p->steps);
	code = ff_rate_plan_make(&opt->train.rates, p->steps, &p->rates, err);
	if (code < 0)
		return code;
	if (p->steps)
		p->steps -= p->finished ? p->steps : p->first;
	p->checkpoint.every = opt->store.every          ? opt->store.every
			      : opt->store.interval > 0 ? UINT64_MAX
							: epoch;
	p->warmup = opt->tell.warmup;
	if (p->warmup == UINT64_MAX || p->finished)
		p->warmup = p->steps > 3 ? 3 : p->steps ? p->steps - 1 : 0;
	if (p->steps && p->warmup >= p->steps)
		return ff_fail(err, FF_E_INPUT,
				"--warmup %" PRIu64 " leaves none of the %" PRIu64
				" steps to measure",
				p->warmup, p->steps);
	return FF_OK;
}

/* What a plan predicts is of one optimizer; with another one it is not known. */
static void note_optimizer(struct ff_run_plan *p, uint32_t i)
{
	struct ff_candidate *c = &p->candidate[i];
	const struct ff_optimizer *planned = c->info.optimizer;

	if (!planned || planned == p->optimizer ||
			!(c->info.predicted_us > 0 || c->info.memory_bytes))
		return;
	ff_error_write(&p->note[FF_NOTE_TRAINED + i], FF_OK,
			"%.200s was searched for optimizer %s: with %s neither its predicted time "
			"nor its predicted memory holds (ffsearch --optimizer %s searches for it)",
			c->name, planned->name, p->optimizer->name, p->optimizer->name);
	c->info.predicted_us = 0;
}

/* Nor where gradients are clipped and the plan is of such that are not, or the other way round. */
static void note_clip(struct ff_run_plan *p, uint32_t i)
{
	struct ff_candidate *c = &p->candidate[i];
	bool clips = p->clip > 0;

	if (c->info.clip == clips || !(c->info.predicted_us > 0))
		return;
	ff_error_write(&p->note[FF_NOTE_TRAINED + i], FF_OK,
			"%.200s was searched for gradients that are %sclipped: its predicted time "
			"and "
			"memory do not hold (search %s --clip)",
			c->name, clips ? "not " : "", clips ? "with" : "without");
	c->info.predicted_us = 0;
}

/* Nor where gradients travel otherwise. */
static void note_travel(struct ff_run_plan *p, uint32_t i, enum ff_way_id id)
{
	struct ff_candidate *c = &p->candidate[i];
	char planned[FF_TRAVEL_TEXT], asked[FF_TRAVEL_TEXT];

	if (ff_travel_alike(&c->info.travel, &p->travel, id) || !(c->info.predicted_us > 0))
		return;
	ff_travel_say(&c->info.travel, id, planned);
	ff_travel_say(&p->travel, id, asked);
	ff_error_write(&p->note[FF_NOTE_TRAINED + i], FF_OK,
			"%.200s is for gradients that are %s, and here they are %s: its predicted "
			"time and memory do not hold (ffsearch %s%s predicts it)",
			c->name, planned, asked, ff_way(id)->beside ? "--simulate with " : "",
			ff_way(id)->option);
	c->info.predicted_us = 0;
}

/* Only what is asked for, here or by who searched: it changes what is computed. */
static int choose_travel(
		const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	int code;

	p->travel = p->candidate[0].info.travel;
	if ((code = ff_travel_choose(&opt->train.travel, &p->travel, err)) < 0)
		return code;
	for (uint32_t i = 0; i < p->n_candidates; i++)
		for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++)
			note_travel(p, i, id);
	if (p->travel.average_every && opt->check.test_every % p->travel.average_every)
		return ff_fail(err, FF_E_INPUT,
				"option --test-every: expected a multiple of the %u steps between "
				"two averages, as between them each device has weights of its own",
				p->travel.average_every);
	return FF_OK;
}

/* The optimizer asked for, or the one the plan was searched for, or the preset. */
static int choose_optimizer(
		const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	double setting[FF_SETTING_COUNT];
	struct ff_error inner;
	int code;

	p->optimizer = p->candidate[0].info.optimizer;
	if (!p->optimizer)
		p->optimizer = ff_optimizer_preset();
	if (opt->train.optimizer &&
			ff_optimizer_find(opt->train.optimizer, &p->optimizer, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --optimizer: %s", inner.text);
	for (uint32_t i = 0; i < p->n_candidates; i++)
		note_optimizer(p, i);
	if (!isnan(opt->train.clip) && !(opt->train.clip > 0 && isfinite(opt->train.clip)))
		return ff_fail(err, FF_E_INPUT, "option --clip: expected a number above 0");
	p->clip = isnan(opt->train.clip) ? 0 : opt->train.clip;
	for (uint32_t i = 0; i < p->n_candidates; i++)
		note_clip(p, i);
	if (opt->check.top > INT32_MAX)
		return ff_fail(err, FF_E_INPUT, "option --top: expected at most %d", INT32_MAX);
	p->top = opt->check.test || opt->check.test_every ? (uint32_t)opt->check.top : 0;
	code = ff_optimizer_set(p->optimizer, opt->train.setting, setting, err);
	return code < 0 ? code
			: ff_groups_make(&p->graph, p->optimizer, setting, opt->train.groups.text,
					  opt->train.groups.n, &p->arena, &p->groups, err);
}

static int open_data(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	int code = ff_dataset_open(opt->train.data, &p->graph, opt->train.seed, &p->data, err);

	if (code == FF_OK && (opt->check.test || opt->check.test_every) &&
			!ff_dataset_samples(p->data, false))
		return ff_fail(err, FF_E_INPUT, "%s: data %s has no samples for testing",
				opt->check.test ? "--test" : "--test-every", opt->train.data);
	return code;
}

/* A plan may rewrite it. */
static int load_graph(const char *path, struct ff_run_plan *p, struct ff_error *err)
{
	int code = ff_graph_load(path, &p->arena, &p->graph, err);

	p->given = p->graph;
	return code;
}

static int load(const struct ff_run_options *opt, uint32_t ranks, uint32_t here, bool leads,
		struct ff_run_plan *p, struct ff_error *err)
{
	int code;

	if ((code = ff_run_check(opt, err)) < 0 ||
			(code = ff_run_check_shared(opt, ranks, err)) < 0 ||
			(code = load_graph(opt->what.graph, p, err)) < 0 ||
			(code = load_candidate(p, opt->what.strategy, FF_MAX_DEVICES, err)) < 0 ||
			(code = load_machine(&opt->what, ranks, here, p, err)) < 0)
		return code;
	if (opt->what.compare &&
			(code = load_candidate(p,
					 opt->what.against ? opt->what.against : "data-parallel",
					 p->machine.n_devices, err)) < 0)
		return code;
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++)
		code = make_rule(p, &p->candidate[i], err);
	if (code < 0 || (code = choose_optimizer(opt, p, err)) < 0 ||
			(code = choose_travel(opt, p, err)) < 0 ||
			(code = choose_backend(&opt->what, p, err)) < 0 ||
			(code = ff_run_check_shared(opt, p->machine.n_devices, err)) < 0 ||
			(code = open_data(opt, p, err)) < 0 ||
			(code = ff_checkpoint_open(&opt->store, opt->train.seed, p, leads, err)) <
					0 ||
			(code = ff_weights_open(opt->train.weights, p, err)) < 0)
		return code;
	return count_steps(opt, p, err);
}

int ff_run_plan_load(const struct ff_run_options *opt, uint32_t ranks, uint32_t here, bool leads,
		struct ff_run_plan *ret, struct ff_error *err)
{
	int code;

	*ret = (struct ff_run_plan){0};
	ff_arena_init(&ret->arena);
	code = load(opt, ranks, here, leads, ret, err);
	if (code < 0)
		ff_run_plan_finish(ret);
	return code;
}

void ff_run_plan_finish(struct ff_run_plan *p)
{
	ff_dataset_close(p->data);
	ff_checkpoint_close(p);
	ff_weights_close(p);
	ff_arena_finish(&p->arena);
	*p = (struct ff_run_plan){0};
}

void ff_run_plan_communicate(struct ff_run_plan *p, const char *name)
{
	p->communication = name;
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct ff_candidate *c = &p->candidate[i];
		const char *planned = c->info.communication;

		if (planned && strcmp(planned, name) != 0)
			ff_error_write(&p->note[FF_NOTE_COMMUNICATION + i], FF_OK,
					"%.200s was planned for ranks that communicate over %.60s, "
					"but these do over %.60s, so measured times may differ",
					c->name, planned, name);
	}
}

static int lower(struct ff_run_plan *p, const struct ff_graph *g, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err)
{
	struct ff_workspace_query query = {.backend = p->backend};
	struct ff_lower_options opt = {.optimizer = p->optimizer,
			.clip = p->clip > 0,
			.travel = p->travel,
			.group = g == &p->graph ? p->groups.of : NULL,
			.workspace = ff_backend_workspace,
			.ctx = &query};
	struct ff_schedule s;
	int code = p->backend->device.open(p->ordinal, &query.device, err);

	if (code < 0)
		return code;
	code = ff_lower(g, machine, strategy, &opt, &p->arena, &s, err);
	p->backend->device.close(query.device);
	ff_workspace_finish(&query);
	if (query.err.code < 0) {
		*err = query.err;
		return err->code;
	}
	if (code == FF_OK)
		*ret = s;
	return code;
}

int ff_run_plan_lower(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err)
{
	return lower(p, &p->graph, machine, strategy, ret, err);
}

int ff_run_plan_lower_given(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err)
{
	return lower(p, p->graph.rewritten ? &p->given : &p->graph, machine, strategy, ret, err);
}

/* Bytes by which a device's scratch is beyond what planners that have measured nothing take it for:
 * what a library chose to want makes no plan one that does not fit. */
static int64_t unforeseen(const struct ff_schedule *s, uint32_t device, struct ff_work *w)
{
	struct ff_scratch scratch;
	int64_t most = 0;

	ff_scratch_init(s->machine, &scratch);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		const struct ff_node *n;
		struct ff_region box;
		int64_t bytes;

		if (t->device != device || !ff_task_computes_part(t))
			continue;
		n = &s->graph->nodes[t->node];
		ff_config_box(n, &s->config[t->node], t->part, &box);
		ff_work_fill(s->graph, t->node, &box, ff_task_pass(t), w);
		bytes = ff_scratch_bytes(&scratch, w);
		for (uint32_t k = n->n_data; k < n->n_in; k++)
			if (ff_task_adds(s, t, k))
				bytes += ff_align64(ff_region_volume(&w->in[k]) *
						    ff_dtype_bytes((enum ff_dtype)n->in_map[k]
										    .gradient));
		most = bytes > most ? bytes : most;
	}
	return s->workspace_bytes[device] > most ? s->workspace_bytes[device] - most : 0;
}

int ff_run_plan_fits(const char *name, const struct ff_schedule *s,
		const struct ff_schedule *beside, struct ff_error *err)
{
	struct ff_work *w = malloc(sizeof(*w));
	int code = w ? FF_OK : ff_fail_memory(err);

	for (uint32_t d = 0; d < s->machine->n_devices && code == FF_OK; d++) {
		int64_t have = ff_device_kind(s->machine, d)->memory_bytes, need, more = 0;
		bool both = beside && d < beside->machine->n_devices;

		need = s->memory_bytes[d] + (both ? beside->memory_bytes[d] : 0);
		if (need > have)
			more = unforeseen(s, d, w) + (both ? unforeseen(beside, d, w) : 0);
		if (need - more <= have)
			continue;
		code = ff_fail(err, FF_E_NOFIT,
				"strategy %s does not fit%s: device %u needs %" PRId64
				" bytes and has %" PRId64,
				name, beside ? " beside the one it is compared with" : "", d, need,
				have);
	}
	free(w);
	return code;
}
