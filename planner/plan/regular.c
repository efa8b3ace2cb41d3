/* The regular plan that is nearest to a plan.  SPDX-License-Identifier: Apache-2.0 */
#include "regular.h"

#include <math.h>
#include <stdio.h>

#include "ff/micro.h"
#include "space/repeats.h"
#include "space/tensor.h"

/* How far apart two plans are, in halvings of an operator, and of that a stage or a recomputation
 * that differs. */
#define STAGE_APART 2.0
#define AGAIN_APART 0.5

struct walk {
	const struct ff_graph *g;
	const struct ff_machine *m;
	const struct ff_strategy *plan;
	const struct ff_regular_limits *limits;
	struct ff_arena *a;
	uint32_t stages, updates, recomputed; /* the plan's */
	uint32_t context;                     /* shares of places that some operators have */
	uint32_t recomputed_blocks;           /* of a stage, recomputed whole; 0: all, or none */
	double apart;                         /* of the nearest so far; INFINITY: none */
	struct ff_regular best;
};

/* ---- what the plan is like ---- */

/* How most of the trained elements are updated. */
static uint32_t updates_of(const struct ff_graph *g, const struct ff_strategy *s)
{
	double all = 0, flat = 0, cut = 0, dropped = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];
		double n = (double)ff_value_volume(v);

		if (!ff_node_is_parameter(g, i))
			continue;
		all += n;
		flat += s->config[i].flat ? n : 0;
		cut += ff_config_is_cut(&s->config[i]) ? n : 0;
		dropped += s->config[i].flat && s->recompute[i] ? n : 0;
	}
	if (2 * (flat + cut) <= all)
		return 0;
	/* gradients of what is cut are scattered once a step */
	return 2 * dropped > all                                     ? FF_MEGATRON_ZERO_3
	       : s->scatter || (cut > flat && s->micro_batches == 1) ? FF_MEGATRON_ZERO_2
								     : FF_MEGATRON_ZERO_1;
}

/* What is recomputed: most operators, some, or none. */
static uint32_t recomputed_of(const struct ff_graph *g, const struct ff_strategy *s)
{
	uint32_t all = 0, recomputed = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		all += ff_node_needs_config(g, i);
		recomputed += ff_node_needs_config(g, i) && s->recompute[i];
	}
	return 10 * recomputed > 7 * all ? FF_MEGATRON_FULL
	       : 10 * recomputed > all   ? FF_MEGATRON_LIGHT
					 : 0;
}

/* How many blocks of a stage are recomputed whole, in the mean; 0: all are, or none is. */
static int count_recomputed_blocks(struct walk *x, struct ff_error *err)
{
	struct ff_repeats r;
	uint32_t n = 0, whole = 0, *all, *recomputed;
	int code = ff_repeats_find(x->g, x->m, x->stages, x->a, &r, err);

	if (code < 0)
		return code;
	all = ff_arena_array(x->a, r.n_blocks + 1, sizeof(*all));
	recomputed = ff_arena_array(x->a, r.n_blocks + 1, sizeof(*recomputed));
	if (!all || !recomputed)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->g->n_nodes; i++) {
		if (!ff_node_needs_config(x->g, i) || r.block[i] == FF_NONE)
			continue;
		all[r.block[i]]++;
		recomputed[r.block[i]] += x->plan->recompute[i];
	}
	for (; n < r.n_blocks; n++)
		whole += 10 * recomputed[n] > 7 * all[n];
	if (whole < n)
		x->recomputed_blocks = (whole + x->stages / 2) / x->stages;
	return FF_OK;
}

/* Into how many shares places are cut at most, where sequences have any that all layers share. */
static int find_context(struct walk *x, struct ff_error *err)
{
	struct ff_sequence seq;
	struct ff_repeats r;
	int code = ff_repeats_find(x->g, NULL, 1, x->a, &r, err);

	if (code == FF_OK)
		code = ff_sequence_find(x->g, r.n_blocks ? r.block : NULL, x->a, &seq, err);
	for (uint32_t i = 0; i < x->g->n_nodes && code == FF_OK; i++)
		if (seq.dim[i] != FF_NONE && x->plan->config[i].degree[seq.dim[i]] > x->context)
			x->context = x->plan->config[i].degree[seq.dim[i]];
	return code;
}

/* ---- how near another one is ---- */

static double config_apart(
		const struct ff_node *n, const struct ff_config *a, const struct ff_config *b)
{
	double apart = fabs(log2((double)a->replicas / b->replicas));

	for (uint32_t d = 0; d < n->n_dims; d++)
		apart += fabs(log2((double)a->degree[d] / b->degree[d]));
	return apart;
}

/* `pipeline`: shares of the devices that hold the stages of `s`. */
static double measure(
		const struct walk *x, const struct ff_strategy *s, uint32_t pipeline, double *alike)
{
	double all = 0, apart = 0, same = 0;
	double shares = (double)x->stages / ff_strategy_chunks(x->plan);
	uint32_t stages = pipeline * ff_strategy_chunks(s);

	for (uint32_t i = 0; i < x->g->n_nodes; i++) {
		const struct ff_node *n = &x->g->nodes[i];
		double flops = (double)(n->flops_forward + n->flops_backward) + 1, own, at;

		if (!ff_node_needs_config(x->g, i))
			continue;
		own = config_apart(n, &x->plan->config[i], &s->config[i]);
		at = fabs((double)x->plan->stage[i] / x->stages - (double)s->stage[i] / stages);
		all += flops;
		same += own > 0 ? 0 : flops;
		apart += flops *
			 (own + STAGE_APART * at +
					 AGAIN_APART * (x->plan->recompute[i] != s->recompute[i]));
	}
	*alike = same / all;
	return apart / all + fabs(log2(shares / pipeline)) +
	       fabs(log2((double)x->plan->micro_batches / s->micro_batches));
}

static int try(struct walk *x, const struct ff_megatron *h, struct ff_error *err)
{
	struct ff_regular made = {.h = *h};
	struct ff_error why;
	double apart;
	int code = ff_start_megatron(h, x->g, x->m, x->a, &made.strategy, &why);

	if (code == FF_E_INPUT)
		return FF_OK; /* not for this network */
	if (code < 0) {
		*err = why;
		return code;
	}
	apart = measure(x, &made.strategy, h->pipeline, &made.alike);
	if (apart < x->apart) {
		x->apart = apart;
		x->best = made;
	}
	return FF_OK;
}

/* ---- all that there are ---- */

/* The divisor of `share` samples that is nearest to the plan's number of micro-batches. */
static uint32_t choose_micro(const struct walk *x, uint32_t share)
{
	uint32_t best = 1, wanted = x->plan->micro_batches;

	for (uint32_t m = 1; m <= share && m <= FF_MAX_MICRO_BATCHES; m++)
		if (share % m == 0 &&
				fabs(log2((double)m / wanted)) < fabs(log2((double)best / wanted)))
			best = m;
	return best;
}

static uint32_t allowed_updates(const struct walk *x, const struct ff_megatron *h)
{
	uint32_t most = x->updates;

	if (h->tensor > 1 && most > x->limits->tensor_updates)
		most = x->limits->tensor_updates;
	if (h->pipeline > 1 && most > x->limits->pipeline_updates)
		most = x->limits->pipeline_updates;
	return most;
}

/* As many stages a share of the devices as the plan has, if the tool can do that. */
static uint32_t allowed_chunks(const struct walk *x, const struct ff_megatron *h)
{
	uint32_t chunks = x->plan->rule == FF_ORDER_INTERLEAVED ? x->plan->chunks : 0;

	return h->pipeline > 1 && h->micro % h->pipeline == 0 && chunks <= x->limits->chunks
			       ? chunks
			       : 0;
}

/* With places and experts split and not. */
static int try_degrees(struct walk *x, struct ff_megatron h, struct ff_error *err)
{
	static const uint32_t recomputed[] = {FF_MEGATRON_FULL, FF_MEGATRON_LIGHT, 0};
	uint32_t blocks = x->limits->blocks ? x->recomputed_blocks : 0;
	int code = FF_OK;

	h.micro = choose_micro(x, (uint32_t)x->g->batch / h.data);
	h.updates = allowed_updates(x, &h);
	h.hybrid = h.updates && x->plan->shards && x->limits->hybrid;
	h.interleave = allowed_chunks(x, &h);
	h.rule = x->plan->rule == FF_ORDER_ZB_V && x->limits->zb_v && h.pipeline > 1 ? FF_ORDER_ZB_V
										     : 0;
	for (uint32_t i = 0; i < 4 && code == FF_OK; i++) {
		struct ff_arena_mark mark = ff_arena_mark(x->a);
		double before = x->apart;

		h.sequence = i & 1;
		h.experts = i >> 1;
		if (i && h.tensor == 1 && !h.experts)
			continue;
		for (uint32_t k = 0; k < 3 && code == FF_OK; k++) {
			h.recomputed = recomputed[k];
			if (h.recomputed == x->recomputed || (!h.recomputed && !isfinite(x->apart)))
				code = try(x, &h, err);
		}
		h.recomputed_blocks = blocks;
		if (blocks && code == FF_OK)
			code = try(x, &h, err);
		h.recomputed_blocks = 0;
		if (x->apart == before)
			ff_arena_rewind(x->a, mark);
	}
	return code;
}

/* With samples alone in shares, and places in as many as the plan has, or fewer. */
static int try_shares(struct walk *x, uint32_t tensor, uint32_t pipeline, struct ff_error *err)
{
	uint32_t n = x->m->n_devices / pipeline / tensor;
	int code = FF_OK;

	for (uint32_t c = 1; c <= x->context && c <= n && code == FF_OK; c++)
		if (x->context % c == 0 && n % c == 0 && (uint32_t)x->g->batch % (n / c) == 0)
			code = try_degrees(x,
					(struct ff_megatron){.tensor = tensor,
							.data = n / c,
							.pipeline = pipeline,
							.context = c > 1 ? c : 0},
					err);
	return code;
}

static int count_blocks(const struct walk *x, struct ff_regular *r, struct ff_error *err)
{
	uint32_t n = ff_strategy_stages(x->g, &r->strategy), next = 0, *blocks;
	struct ff_repeats repeats;
	int code = ff_repeats_find(x->g, x->m, n, x->a, &repeats, err);
	bool even = true;

	if (code < 0 || !repeats.n_blocks)
		return code;
	blocks = ff_arena_array(x->a, n, sizeof(*blocks));
	if (!blocks)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->g->n_nodes; i++)
		if (ff_node_needs_config(x->g, i) && repeats.block[i] == next) {
			blocks[r->strategy.stage[i]]++;
			next++;
		}
	for (uint32_t s = 1; s < n; s++)
		even = even && blocks[s] == blocks[0];
	r->blocks = even ? NULL : blocks;
	r->n_stages = n;
	return FF_OK;
}

int ff_regular_find(const struct ff_graph *g, const struct ff_machine *m,
		const struct ff_strategy *plan, const struct ff_regular_limits *limits,
		struct ff_arena *a, struct ff_regular *ret, bool *found, struct ff_error *err)
{
	struct walk x = {.g = g,
			.m = m,
			.plan = plan,
			.limits = limits,
			.a = a,
			.stages = ff_strategy_stages(g, plan),
			.updates = updates_of(g, plan),
			.recomputed = recomputed_of(g, plan),
			.context = 1,
			.apart = INFINITY};
	uint32_t n = m->n_devices;
	int code = count_recomputed_blocks(&x, err);

	if (code == FF_OK && limits->context)
		code = find_context(&x, err);
	for (uint32_t p = 1; p <= (limits->pipeline ? n : 1) && code == FF_OK; p++)
		for (uint32_t t = 1; t <= (limits->tensor ? n / p : 1) && code == FF_OK; t++)
			if (n % p == 0 && n / p % t == 0)
				code = try_shares(&x, t, p, err);
	*found = code == FF_OK && isfinite(x.apart);
	if (*found)
		code = count_blocks(&x, &x.best, err);
	if (*found && code == FF_OK)
		*ret = x.best;
	return code;
}

void ff_regular_name(const struct ff_megatron *h, char *buf, size_t size)
{
	static const char *const updates[] = {"", ",zero-1", ",zero-2", ",zero-3"};
	static const char *const recomputed[] = {"", ",recompute=light", ",recompute"};

	char context[32] = "", chunks[32] = "", blocks[32] = "";

	if (h->recomputed_blocks)
		snprintf(blocks, sizeof(blocks), ",recompute=%u", h->recomputed_blocks);
	if (h->rule)
		snprintf(chunks, sizeof(chunks), ",%s", ff_order_name((enum ff_order_rule)h->rule));
	if (h->interleave)
		snprintf(chunks, sizeof(chunks), ",interleave=%u", h->interleave);
	if (h->context)
		snprintf(context, sizeof(context), ",cp=%u", h->context);
	snprintf(buf, size, "megatron:%u,%u,%u,%u%s%s%s%s%s%s%s%s", h->tensor, h->data, h->pipeline,
			h->micro, context, updates[h->updates], h->hybrid ? ",hybrid" : "",
			recomputed[h->recomputed], blocks, chunks, h->sequence ? ",sequence" : "",
			h->experts ? ",experts" : "");
}
