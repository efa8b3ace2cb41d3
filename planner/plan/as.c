/* ffplan as: the flags of another tool that come nearest to a plan, and what they lose.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "columns.h"
#include "explain/text.h"
#include "ff/name_fold.h"
#include "ff/nearest.h"
#include "pricing.h"
#include "regular.h"

#define NAME 96
#define TOLD 24 /* lines of operators that are cut otherwise */

/* ---- tools ---- */

/* Samples that a device has at a time. */
static uint32_t share_of(const struct ff_megatron *h, const struct ff_graph *g)
{
	return (uint32_t)g->batch / h->data / h->micro;
}

/* Gradients that travel together, counted by elements, as most tools do. */
static long long bucket_elements(const struct ff_regular *r)
{
	return r->strategy.bucket_bytes / FF_F32_BYTES;
}

/* Groups of devices, each of which holds all that updates cut: one where shares do not divide those
 * that hold the same, as everywhere. */
static uint32_t groups_of(const struct ff_regular *r)
{
	uint32_t shards = r->h.hybrid ? r->strategy.shards : 0;
	uint32_t same = r->h.data * (r->h.context ? r->h.context : 1);

	return shards && same % shards == 0 ? same / shards : 1;
}

/* Blocks of each stage, with `between` the stages. */
static void write_blocks(
		const struct ff_regular *r, const char *each, const char *between, FILE *to)
{
	for (uint32_t i = 0; i < r->n_stages; i++)
		fprintf(to, "%s%s%u", i ? between : "", each, r->blocks[i]);
}

/* Stages a share of the devices: Megatron's layout tells both (docs, "Custom Pipeline Model
 * Parallel Layout"). */
static void write_stages(const struct ff_regular *r, FILE *to)
{
	if (r->blocks) {
		fprintf(to, "--pipeline-model-parallel-layout \"E");
		write_blocks(r, "t*", "|", to);
		fprintf(to, "L\"\n");
	} else if (r->h.interleave) {
		fprintf(to, "--num-virtual-stages-per-pipeline-rank %u\n", r->h.interleave);
	}
}

/* Arguments of pretrain_gpt.py (Megatron-LM, docs "Megatron FSDP" and arguments.py). */
static void write_megatron(const struct ff_regular *r, const struct ff_graph *g, FILE *to)
{
	const struct ff_megatron *h = &r->h;
	fprintf(to, "--tensor-model-parallel-size %u\n", h->tensor);
	fprintf(to, "--pipeline-model-parallel-size %u\n", h->pipeline);
	write_stages(r, to);
	fprintf(to, "--micro-batch-size %u\n", share_of(h, g));
	fprintf(to, "--global-batch-size %d\n", g->batch);
	if (h->updates)
		fprintf(to, "--use-distributed-optimizer\n");
	if (h->data > 1 && h->updates < FF_MEGATRON_ZERO_2)
		fprintf(to, "--overlap-grad-reduce --ddp-bucket-size %lld\n", bucket_elements(r));
	if (h->updates >= FF_MEGATRON_ZERO_2)
		fprintf(to,
				"--use-megatron-fsdp\n"
				"--data-parallel-sharding-strategy optim_grads%s\n"
				"--no-gradient-accumulation-fusion\n"
				"--ckpt-format fsdp_dtensor\n",
				h->updates == FF_MEGATRON_ZERO_3 ? "_params" : "");
	if (groups_of(r) > 1)
		fprintf(to, "--num-distributed-optimizer-instances %u\n%s", groups_of(r),
				h->updates >= FF_MEGATRON_ZERO_2
						? "--outer-dp-sharding-strategy no_shard\n"
						: "");
	if (h->recomputed == FF_MEGATRON_FULL)
		fprintf(to, "--recompute-granularity full --recompute-method uniform "
			    "--recompute-num-layers 1\n");
	if (h->recomputed_blocks)
		fprintf(to,
				"--recompute-granularity full --recompute-method block "
				"--recompute-num-layers %u\n",
				h->recomputed_blocks);
	if (h->recomputed == FF_MEGATRON_LIGHT)
		fprintf(to, "--recompute-granularity selective\n");
	if (h->context)
		fprintf(to, "--context-parallel-size %u\n", h->context);
	if (h->sequence)
		fprintf(to, "--sequence-parallel\n");
	if (h->experts)
		fprintf(to, "--expert-model-parallel-size %u\n", h->tensor);
}

/* PyTorch's fully_shard, or where nothing is sharded its DistributedDataParallel. */
static void write_fsdp(const struct ff_regular *r, const struct ff_graph *g, FILE *to)
{
	const struct ff_megatron *h = &r->h;
	const char *reshard = h->updates == FF_MEGATRON_ZERO_3 ? "True" : "False";

	if (groups_of(r) > 1)
		fprintf(to,
				"mesh = init_device_mesh(\"cuda\", (%u, %u), "
				"mesh_dim_names=(\"replicate\", \"shard\"))\n",
				groups_of(r), r->strategy.shards);
	else
		fprintf(to, "mesh = init_device_mesh(\"cuda\", (%u,))\n", h->data);
	if (h->recomputed)
		fprintf(to, "apply_activation_checkpointing(model, "
			    "check_fn=lambda m: isinstance(m, Block))\n");
	if (!h->updates)
		fprintf(to,
				"model = DistributedDataParallel(model, device_mesh=mesh, "
				"bucket_cap_mb=%.4g)\n",
				(double)r->strategy.bucket_bytes / (1 << 20));
	else
		fprintf(to,
				"for block in model.blocks:\n"
				"    fully_shard(block, mesh=mesh, reshard_after_forward=%s)\n"
				"fully_shard(model, mesh=mesh, reshard_after_forward=%s)\n",
				reshard, reshard);
	fprintf(to, "# %u sample%s a device at a time", share_of(h, g),
			share_of(h, g) == 1 ? "" : "s");
	if (h->micro > 1)
		fprintf(to, ", an optimizer step behind each %u of these micro-batches", h->micro);
	fprintf(to, "\n");
}

/* Its configuration; stages are PipelineModule(num_stages=...) in the model's code. */
static void write_deepspeed(const struct ff_regular *r, const struct ff_graph *g, FILE *to)
{
	const struct ff_megatron *h = &r->h;

	fprintf(to, "{\n  \"train_batch_size\": %d,\n", g->batch);
	fprintf(to, "  \"train_micro_batch_size_per_gpu\": %u,\n", share_of(h, g));
	fprintf(to, "  \"gradient_accumulation_steps\": %u,\n", h->micro);
	if (h->tensor > 1)
		fprintf(to, "  \"tensor_parallel\": {\"autotp_size\": %u},\n", h->tensor);
	fprintf(to, "  \"zero_optimization\": {\"stage\": %u", h->updates);
	if (h->updates && h->data > 1)
		fprintf(to, ", \"reduce_bucket_size\": %lld, \"%s\": %lld", bucket_elements(r),
				h->updates == FF_MEGATRON_ZERO_3 ? "stage3_prefetch_bucket_size"
								 : "allgather_bucket_size",
				bucket_elements(r));
	fprintf(to, "}\n}\n");
	if (h->pipeline > 1)
		fprintf(to, "and in the model's code: PipelineModule(layers, num_stages=%u%s)\n",
				h->pipeline,
				h->recomputed ? ", activation_checkpoint_interval=1" : "");
	if (r->blocks) {
		fprintf(to, "whose stages have ");
		write_blocks(r, "", ", ", to);
		fprintf(to, " blocks\n");
	}
	if (h->pipeline == 1 && h->recomputed)
		fprintf(to, "and in the model's code: deepspeed.checkpointing.checkpoint around "
			    "each block\n");
}

/* A change of a configuration (torchtitan, config/training.py, config/parallelism.py and
 * distributed/activation_checkpoint.py), which counts tokens, not samples. */
static void write_torchtitan(const struct ff_regular *r, const struct ff_graph *g, FILE *to)
{
	const struct ff_megatron *h = &r->h;
	static const char *const recomputed[] = {"None", "SelectiveAC.Config()", "FullAC.Config()"};
	const char *schedule = h->rule         ? "ZBVZeroBubble"
			       : h->interleave ? "Interleaved1F1B"
					       : "1F1B";

	fprintf(to, "from torchtitan.distributed.activation_checkpoint import FullAC, "
		    "SelectiveAC\n\n"
		    "def planned(config):\n"
		    "    training, parallelism = config.training, config.parallelism\n");
	fprintf(to,
			"    training.num_tokens_per_microbatch_per_dp_rank = %u * "
			"training.max_context_length\n"
			"    training.num_tokens_per_train_step = %d * "
			"training.max_context_length\n",
			share_of(h, g), g->batch);
	fprintf(to, "    parallelism.data_parallel_replicate_degree = %u\n",
			h->updates ? groups_of(r) : h->data);
	fprintf(to, "    parallelism.data_parallel_shard_degree = %u\n",
			h->updates ? h->data / groups_of(r) : 1);
	if (h->updates)
		fprintf(to, "    parallelism.fsdp_reshard_after_forward = \"%s\"\n",
				h->updates == FF_MEGATRON_ZERO_3 ? "always" : "never");
	fprintf(to, "    parallelism.tensor_parallel_degree = %u\n", h->tensor);
	if (h->tensor > 1)
		fprintf(to, "    parallelism.enable_sequence_parallel = %s\n",
				h->sequence ? "True" : "False");
	if (h->experts)
		fprintf(to, "    parallelism.expert_parallel_degree = %u\n", h->tensor);
	fprintf(to, "    parallelism.pipeline_parallel_degree = %u\n", h->pipeline);
	if (h->pipeline > 1)
		fprintf(to,
				"    parallelism.pipeline_parallel_schedule = \"%s\"\n"
				"    parallelism.num_pp_microbatches = %u\n",
				schedule, h->micro);
	if (r->blocks) {
		fprintf(to, "    # name its modules in module_fqns_per_model_part: stages have ");
		write_blocks(r, "", ", ", to);
		fprintf(to, " blocks\n");
	}
	fprintf(to, "    config.activation_checkpoint = %s\n    return config\n",
			recomputed[h->recomputed]);
}

/* What each can do: DeepSpeed's tensor parallelism goes up to its ZeRO stage 2, its pipelines up to
 * 1 (deepspeed.ai: "Automatic Tensor Parallelism (Training)", "Pipeline Parallelism"); torchtitan
 * makes two stages a rank of an interleaved schedule, unless layers a stage are told. */
static const struct tool {
	const char *name;
	struct ff_regular_limits limits;
	void (*write)(const struct ff_regular *r, const struct ff_graph *g, FILE *to);
} tools[] = {
		{"megatron",
				{true, true, true, FF_MEGATRON_ZERO_3, FF_MEGATRON_ZERO_1, true,
						FF_MOST_CHUNKS, false, true},
				write_megatron},
		{"fsdp",
				{false, false, false, FF_MEGATRON_ZERO_3, FF_MEGATRON_ZERO_3, false,
						0, false, true},
				write_fsdp},
		{"deepspeed",
				{true, true, false, FF_MEGATRON_ZERO_2, FF_MEGATRON_ZERO_1, false,
						0, false, false},
				write_deepspeed},
		{"torchtitan",
				{true, true, false, FF_MEGATRON_ZERO_3, FF_MEGATRON_ZERO_3, false,
						2, true, true},
				write_torchtitan},
};
#define N_TOOLS (sizeof(tools) / sizeof(tools[0]))
_Static_assert(N_TOOLS <= FF_MOST_TOOLS, "a list has room for all");

void ff_as_tools(const char *ret[FF_MOST_TOOLS])
{
	for (size_t i = 0; i < N_TOOLS; i++)
		ret[i] = tools[i].name;
}

static int find_tool(const char *name, const struct tool **ret, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (size_t i = 0; i < N_TOOLS; i++) {
		ff_nearest_try(&near, tools[i].name);
		if (strcmp(tools[i].name, name) != 0)
			continue;
		*ret = &tools[i];
		return FF_OK;
	}
	return ff_fail(err, FF_E_INPUT, "unknown tool \"%.60s\"%s", name, ff_nearest_known(&near));
}

/* ---- what is lost ---- */

struct as {
	const struct ff_ask *ask;
	const struct tool *tool;
	struct ff_pricing p;
	struct ff_strategy plan;
	struct ff_strategy_info info;
	struct ff_regular regular;
	struct ff_priced at[2]; /* the plan, the regular one */
};

static int print_prices(const struct as *x, struct ff_error *err)
{
	char cell[9][FF_TEXT] = {"", "", "", "step time", "", "", "memory per device, at most"};
	const char *table[9];
	double times = x->at[1].step_us / x->at[0].step_us;

	(void)err;
	snprintf(cell[1], FF_TEXT, "%.*s", FF_TEXT - 1, x->ask->operand[1]);
	snprintf(cell[2], FF_TEXT, "%s", x->tool->name);
	for (uint32_t k = 0; k < 2; k++) {
		ff_time_text(x->at[k].step_us, cell[4 + k]);
		ff_bytes_text(x->at[k].most_bytes, cell[7 + k]);
		if (!x->at[k].fits)
			strncat(cell[7 + k], ", does not fit", FF_TEXT - strlen(cell[7 + k]) - 1);
	}
	for (uint32_t i = 0; i < 9; i++)
		table[i] = cell[i];
	ff_columns_print(table, 3, 3, x->ask->to);
	fprintf(x->ask->to, "\n%s takes %.2f times the plan's step.  ", x->tool->name, times);
	fprintf(x->ask->to, "Operators with %.1f %% of the FLOPs are cut as in the plan.\n",
			100 * x->regular.alike);
	return FF_OK;
}

static int print_folded(const struct as *x, const struct ff_fold_row *row, const char *const *text,
		uint32_t n, struct ff_error *err)
{
	const char **cell = ff_arena_array(x->p.a, 3 * ((size_t)TOLD + 1), sizeof(*cell));
	struct ff_folded *fold;
	uint32_t folds, i;
	int code = cell ? ff_fold(row, n, x->p.a, &fold, &folds, err) : ff_fail_memory(err);

	if (code < 0)
		return code;
	cell[0] = "operator";
	cell[1] = "plan";
	cell[2] = x->tool->name;
	for (i = 0; i < folds && i < TOLD; i++) {
		cell[3 * i + 3] = fold[i].n == 1 ? fold[i].name
						 : ff_arena_printf(x->p.a, "%s (x%u)", fold[i].name,
								   fold[i].n);
		cell[3 * i + 4] = text[2 * (size_t)fold[i].first];
		cell[3 * i + 5] = text[2 * (size_t)fold[i].first + 1];
		if (!cell[3 * i + 3])
			return ff_fail_memory(err);
	}
	fprintf(x->ask->to, "\n");
	ff_columns_print(cell, i + 1, 3, x->ask->to);
	if (folds > i)
		fprintf(x->ask->to, "... and %u more\n", folds - i);
	return FF_OK;
}

/* Operators that are not cut as in the plan. */
static int print_lost(const struct as *x, struct ff_error *err)
{
	const struct ff_graph *g = &x->p.graph;
	struct ff_fold_row *row = ff_arena_array(x->p.a, g->n_nodes, sizeof(*row));
	const char **text = ff_arena_array(x->p.a, 2 * (size_t)g->n_nodes, sizeof(*text));
	uint32_t n = 0;

	if (!row || !text)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		char a[FF_TEXT], b[FF_TEXT];

		if (!ff_node_needs_config(g, i))
			continue;
		ff_split_text(&g->nodes[i], &x->plan.config[i], a);
		ff_split_text(&g->nodes[i], &x->regular.strategy.config[i], b);
		if (!strcmp(a, b))
			continue;
		text[2 * (size_t)n] = ff_arena_strdup(x->p.a, a);
		text[2 * (size_t)n + 1] = ff_arena_strdup(x->p.a, b);
		row[n].name = g->nodes[i].name;
		row[n].says = ff_arena_printf(x->p.a, "%s\n%s", a, b);
		if (!text[2 * (size_t)n] || !text[2 * (size_t)n + 1] || !row[n++].says)
			return ff_fail_memory(err);
	}
	return n ? print_folded(x, row, text, n, err) : FF_OK;
}

static int find(struct as *x, struct ff_error *err)
{
	bool found = false;
	int code = ff_regular_find(&x->p.graph, &x->p.machine, &x->plan, &x->tool->limits, x->p.a,
			&x->regular, &found, err);

	if (code == FF_OK && !found)
		return ff_fail(err, FF_E_INPUT,
				"%s: %s has no plan for graph %s on %u devices, of whose batch of "
				"%d each would have an equal share",
				x->ask->operand[1], x->tool->name, x->p.graph.name,
				x->p.machine.n_devices, x->p.graph.batch);
	if (code == FF_OK)
		code = ff_pricing_tune(&x->p, &x->info, &x->regular.strategy, err);
	return code;
}

static int load(struct as *x, struct ff_error *err)
{
	int code = ff_pricing_load_graph(&x->p, err);

	if (code == FF_OK)
		code = ff_pricing_load_machine(&x->p, 0, err);
	if (code == FF_OK)
		code = ff_strategy_load_rewritten(x->ask->operand[1], &x->p.graph,
				x->p.machine.n_devices, x->p.a, &x->plan, &x->info, err);
	if (code == FF_OK && x->info.devices < x->p.machine.n_devices)
		code = ff_machine_subset(
				&x->p.machine, x->info.devices, x->p.a, &x->p.machine, err);
	return code;
}

int ff_ask_as(const struct ff_ask *ask, struct ff_error *err)
{
	struct as x = {.ask = ask,
			.p = {.graph_path = ask->graph,
					.machine_name = ask->machine,
					.costs_path = ask->costs,
					.a = ask->a}};
	char name[NAME];
	int code = find_tool(ask->operand[0], &x.tool, err);

	if (code == FF_OK)
		code = load(&x, err);
	if (code == FF_OK)
		code = find(&x, err);
	if (code == FF_OK)
		code = ff_pricing_do(&x.p, &x.plan, &x.info, &x.at[0], err);
	if (code == FF_OK)
		code = ff_pricing_do(&x.p, &x.regular.strategy, &x.info, &x.at[1], err);
	if (code == FF_OK) {
		ff_regular_name(&x.regular.h, name, sizeof(name));
		fprintf(ask->to, "nearest for %s (%s):\n\n", x.tool->name, name);
		x.tool->write(&x.regular, &x.p.graph, ask->to);
		fprintf(ask->to, "\n");
		code = print_prices(&x, err);
	}
	if (code == FF_OK)
		code = print_lost(&x, err);
	ff_pricing_finish(&x.p);
	return code;
}
