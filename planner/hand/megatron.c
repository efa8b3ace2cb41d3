/* Strategies as people write them by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "megatron.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/micro.h"
#include "ff/nearest.h"
#include "propose/extras.h"
#include "propose/recompute.h"
#include "space/carry_config.h"
#include "space/gcd.h"
#include "space/repeats.h"
#include "space/tensor.h"
#include "stage_cuts.h"

static const char prefix[] = "megatron:";

/* ---- what was written ---- */

bool ff_is_megatron(const char *name)
{
	return !strncmp(name, prefix, sizeof(prefix) - 1);
}

/* Words, the field that each sets, and to what. */
#define AT(field) offsetof(struct ff_megatron, field)
static const struct {
	const char *name;
	size_t field;
	uint32_t value;
} words[] = {{"zero-1", AT(updates), FF_MEGATRON_ZERO_1},
		{"zero-2", AT(updates), FF_MEGATRON_ZERO_2},
		{"zero-3", AT(updates), FF_MEGATRON_ZERO_3},
		{"recompute", AT(recomputed), FF_MEGATRON_FULL},
		{"recompute=light", AT(recomputed), FF_MEGATRON_LIGHT},
		{"sequence", AT(sequence), 1}, {"experts", AT(experts), 1},
		{"zb-h1", AT(rule), FF_ORDER_ZB_H1}, {"zb-v", AT(rule), FF_ORDER_ZB_V},
		{"even", AT(even), 1}, {"hybrid", AT(hybrid), 1},
		{"uneven-batch", AT(uneven_batch), 1}};

/* The same of those that say a number. */
static const struct {
	const char *name;
	size_t field;
	uint32_t least, most;
} counts[] = {{"interleave=", AT(interleave), 2, FF_MOST_CHUNKS},
		{"cp=", AT(context), 2, FF_MAX_DEVICES},
		{"recompute=", AT(recomputed_blocks), 1, UINT16_MAX}};
#undef AT
#define N_WORDS (sizeof(words) / sizeof(words[0]))
#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

static int fail_name(const char *name, const char *hint, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"strategy %.100s: expected megatron:T,D,P,M, degrees of tensor, data and "
			"pipeline parallelism and micro-batches, and behind them any of zero-1, "
			"zero-2 or zero-3, recompute or recompute=light, recompute=N, "
			"interleave=V, "
			"zb-h1 or zb-v, hybrid, cp=C, sequence, experts, even and "
			"uneven-batch%s",
			name, hint);
}

/* A word that sets `field`, which an earlier one may have set. */
static int set_word(const char *name, const char *word, uint32_t value, uint32_t *field,
		struct ff_error *err)
{
	char hint[FF_NEAREST_LENGTH + 64];

	snprintf(hint, sizeof(hint), "; %s repeats or contradicts a word before it", word);
	if (*field)
		return fail_name(name, hint, err);
	*field = value;
	return FF_OK;
}

static int parse_count(const char *name, const char *word, uint32_t row, struct ff_megatron *h,
		struct ff_error *err)
{
	const char *number = word + strlen(counts[row].name);
	char hint[64], *end = NULL;
	const long v = strtol(number, &end, 10);

	snprintf(hint, sizeof(hint), "; %s goes from %u to %u", counts[row].name, counts[row].least,
			counts[row].most);
	if (*end || v < counts[row].least || v > counts[row].most)
		return fail_name(name, hint, err);
	return set_word(name, word, (uint32_t)v, (uint32_t *)((char *)h + counts[row].field), err);
}

static int parse_word(const char *name, const char *at, size_t length, struct ff_megatron *h,
		struct ff_error *err)
{
	char text[FF_NEAREST_LENGTH], hint[FF_NEAREST_LENGTH + 64];
	struct ff_nearest near;

	snprintf(text, sizeof(text), "%.*s", (int)length, at);
	for (uint32_t i = 0; i < N_COUNTS; i++) {
		const size_t n = strlen(counts[i].name);

		if (!strncmp(text, counts[i].name, n) && text[n] >= '0' && text[n] <= '9')
			return parse_count(name, text, i, h, err);
	}
	ff_nearest_init(&near, text);
	ff_nearest_try(&near, "interleave=2");
	ff_nearest_try(&near, "recompute=1");
	ff_nearest_try(&near, "cp=2");
	for (uint32_t i = 0; i < N_WORDS; i++) {
		ff_nearest_try(&near, words[i].name);
		if (!strcmp(words[i].name, text))
			return set_word(name, text, words[i].value,
					(uint32_t *)((char *)h + words[i].field), err);
	}
	snprintf(hint, sizeof(hint), "; \"%s\" is none of these", text);
	return fail_name(name, *ff_nearest_hint(&near) ? ff_nearest_hint(&near) : hint, err);
}

/* Words that each may be said, but not together. */
static const char *find_clash(const struct ff_megatron *h)
{
	if (h->interleave && h->rule)
		return "; interleave goes with neither zb-h1 nor zb-v";
	if (h->recomputed == FF_MEGATRON_FULL && h->recomputed_blocks)
		return "; recompute already takes all blocks, recompute=N the first N";
	if (h->hybrid && !h->updates)
		return "; hybrid says over which devices zero-1, zero-2 or zero-3 cut";
	return NULL;
}

int ff_megatron_parse(const char *name, struct ff_megatron *ret, struct ff_error *err)
{
	struct ff_megatron h = {0};
	uint32_t *const number[] = {&h.tensor, &h.data, &h.pipeline, &h.micro};
	const char *at = name + sizeof(prefix) - 1;
	int code = FF_OK;

	for (uint32_t i = 0; i < 4; i++) {
		char *end = NULL;
		long n = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;

		if (n < 1 || n > FF_MAX_DEVICES || (i < 3 ? *end != ',' : *end && *end != ','))
			return fail_name(name, "", err);
		*number[i] = (uint32_t)n;
		at = end + (i < 3);
	}
	while (*at && code == FF_OK) {
		size_t length = strcspn(++at, ",");

		code = parse_word(name, at, length, &h, err);
		at += length;
	}
	if (code == FF_OK && find_clash(&h))
		return fail_name(name, find_clash(&h), err);
	if (code == FF_OK)
		*ret = h;
	return code;
}

/* ---- what is asked of a network ---- */

/* All that a strategy is made from. */
struct hand {
	const struct ff_megatron *h;
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	struct ff_arena *a;
	struct ff_repeats repeats;
	struct ff_tensor tensor; /* dims FF_NONE where the degree is 1 */
	struct ff_sequence sequence;
	uint32_t context;   /* shares of the places */
	uint32_t each;      /* devices of a stage */
	uint32_t *expert;   /* by node: dim; NULL: they are not split */
	uint32_t n_experts; /* into how many parts */
	struct ff_strategy s;
};

static int check_samples(const struct ff_megatron *h, uint32_t batch, struct ff_error *err)
{
	if (h->uneven_batch && (batch % h->micro || batch / h->micro < h->data))
		return ff_fail(err, FF_E_INPUT,
				"megatron: M %u does not divide the batch of %u into micro-batches "
				"of D %u or more samples: expected a divisor of at most %u",
				h->micro, batch, h->data, batch / h->data);
	if (h->uneven_batch)
		return FF_OK;
	if (batch % h->data)
		return ff_fail(err, FF_E_INPUT,
				"megatron: D %u does not divide the batch of %u: expected a "
				"divisor, a batch of %u, or uneven-batch behind the numbers",
				h->data, batch, (batch / h->data + 1) * h->data);
	if (batch / h->data % h->micro)
		return ff_fail(err, FF_E_INPUT,
				"megatron: M %u micro-batches do not divide the %u samples that "
				"each of D %u has: expected a divisor, such as %u",
				h->micro, batch / h->data, h->data,
				ff_gcd(batch / h->data, h->micro));
	return FF_OK;
}

static int check_numbers(const struct ff_megatron *h, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_error *err)
{
	uint64_t n = (uint64_t)h->tensor * h->data * h->pipeline * (h->context ? h->context : 1);

	if (n != m->n_devices && h->context)
		return ff_fail(err, FF_E_INPUT,
				"megatron: T %u times D %u times P %u times cp %u are %" PRIu64
				" devices, there are %u: expected degrees whose product is that",
				h->tensor, h->data, h->pipeline, h->context, n, m->n_devices);
	if (n != m->n_devices)
		return ff_fail(err, FF_E_INPUT,
				"megatron: T %u times D %u times P %u are %" PRIu64
				" devices, there are %u: expected degrees whose product is that",
				h->tensor, h->data, h->pipeline, n, m->n_devices);
	return check_samples(h, (uint32_t)g->batch, err);
}

static enum ff_order_rule rule_of(const struct ff_megatron *h)
{
	return h->interleave ? FF_ORDER_INTERLEAVED
	       : h->rule     ? (enum ff_order_rule)h->rule
			     : FF_ORDER_1F1B;
}

static uint32_t count_stages(const struct ff_megatron *h)
{
	return h->pipeline * (h->interleave ? h->interleave : ff_order_row(rule_of(h))->chunks);
}

/* As Megatron-LM has it. */
static int check_order(const struct ff_megatron *h, struct ff_error *err)
{
	if (h->rule == FF_ORDER_ZB_V && h->pipeline == 1)
		return ff_fail(err, FF_E_INPUT,
				"megatron: zb-v gives each of P shares of the devices two stages, "
				"down and up again: expected P above 1");
	if (h->interleave && h->pipeline == 1)
		return ff_fail(err, FF_E_INPUT,
				"megatron: interleave=%u gives each of P shares of the devices as "
				"many stages: expected P above 1",
				h->interleave);
	if (h->interleave && h->micro % h->pipeline)
		return ff_fail(err, FF_E_INPUT,
				"megatron: interleave=%u takes P %u micro-batches at a time, and "
				"that does not divide M %u: expected a multiple, such as %u",
				h->interleave, h->pipeline, h->micro,
				(h->micro / h->pipeline + 1) * h->pipeline);
	return FF_OK;
}

static int check_tensor(const struct hand *x, struct ff_error *err)
{
	const struct ff_tensor *t = &x->tensor;
	uint32_t degree = x->h->tensor;

	if (degree == 1)
		return FF_OK;
	if (!t->n_rows)
		return ff_fail(err, FF_E_INPUT,
				"megatron: graph %s has no chain of products that T %u could "
				"split: expected T 1",
				x->g->name, degree);
	if ((uint32_t)t->divisor % degree)
		return ff_fail(err, FF_E_INPUT,
				"megatron: T %u does not divide the heads or features of %s and "
				"other products: expected a divisor of %d",
				degree, x->g->nodes[t->narrowest].name, t->divisor);
	return FF_OK;
}

static int check_words(const struct hand *x, struct ff_error *err)
{
	const struct ff_megatron *h = x->h;
	int32_t places = x->sequence.places;
	uint32_t shares = x->context * (h->sequence ? h->tensor : 1);

	if (h->sequence && (h->tensor == 1 || !places))
		return ff_fail(err, FF_E_INPUT,
				"megatron: sequence splits places over the T devices of a product: "
				"expected T above 1, and a network of sequences");
	if (h->context && !places)
		return ff_fail(err, FF_E_INPUT,
				"megatron: cp splits the places of sequences, and the layers of "
				"graph %s share none: expected no cp",
				x->g->name);
	if (h->sequence && !h->context && (uint32_t)places % h->tensor)
		return ff_fail(err, FF_E_INPUT,
				"megatron: sequence with T %u does not divide the %d places: "
				"expected a T that does, such as %u",
				h->tensor, places, ff_gcd((uint32_t)places, h->tensor));
	if (shares > 1 && (uint32_t)places % shares)
		return ff_fail(err, FF_E_INPUT,
				"megatron: cp %u%s does not divide the %d places: expected shares "
				"that do, such as %u",
				h->context, h->sequence ? " times T" : "", places,
				ff_gcd((uint32_t)places, shares));
	if (h->experts && x->n_experts < 2)
		return ff_fail(err, FF_E_INPUT,
				"megatron: experts splits products of groups of channels, and "
				"graph %s has none that %u devices can share: expected no experts",
				x->g->name, x->each);
	if ((h->recomputed || h->recomputed_blocks) && !x->repeats.n_blocks)
		return ff_fail(err, FF_E_INPUT,
				"megatron: graph %s repeats no block to recompute: expected no "
				"recompute",
				x->g->name);
	return FF_OK;
}

static int look(struct hand *x, struct ff_error *err)
{
	const struct ff_megatron *h = x->h;
	int32_t groups = 0;
	uint32_t stages = count_stages(h);
	int code = ff_repeats_find(x->g, x->m, stages, x->a, &x->repeats, err);

	if (code == FF_OK && x->repeats.n_units < stages)
		return ff_fail(err, FF_E_INPUT,
				"megatron: P %u stages are more than the %u operators of graph "
				"%s: expected at most as many",
				stages, x->repeats.n_units, x->g->name);
	if (code == FF_OK)
		code = ff_tensor_find(x->g, h->tensor, x->a, &x->tensor, err);
	if (code == FF_OK)
		code = ff_sequence_find(x->g, x->repeats.n_blocks ? x->repeats.block : NULL, x->a,
				&x->sequence, err);
	if (code == FF_OK)
		code = check_tensor(x, err);
	for (uint32_t i = 0; i < x->g->n_nodes && code == FF_OK && h->tensor == 1; i++)
		x->tensor.dim[i] = FF_NONE;
	if (code == FF_OK && h->experts)
		code = ff_experts_find(x->g, x->a, &x->expert, &groups, err);
	if (code == FF_OK && groups)
		x->n_experts = ff_gcd((uint32_t)groups, x->each);
	return code == FF_OK ? check_words(x, err) : code;
}

/* ---- stages ---- */

/* Whose a stage is: shares of the devices hold stages in turn, or down and up again. */
static uint32_t share_of(const struct hand *x, uint32_t stage)
{
	uint32_t p = x->h->pipeline;

	return x->h->rule == FF_ORDER_ZB_V && stage >= p ? 2 * p - 1 - stage : stage % p;
}

/* What all operators take on one device of a kind. */
static double total_on(const struct hand *x, const struct ff_device_kind *kind)
{
	double s = 0;

	for (uint32_t i = 0; i < x->g->n_nodes; i++)
		if (ff_node_needs_config(x->g, i))
			s += ff_node_roofline_on_s(x->g, kind, i);
	return s;
}

/* Where devices are of several kinds: how many times as long as on the first one operators take in
 * each stage, whose slowest device counts.  NULL otherwise. */
static int find_slowness(const struct hand *x, uint32_t stages, double **ret, struct ff_error *err)
{
	uint32_t each = x->each, kinds = x->m->n_kinds;
	double *slow, *total;

	*ret = NULL;
	if (kinds < 2 || x->h->even)
		return FF_OK;
	slow = ff_arena_array(x->a, stages, sizeof(*slow));
	total = ff_arena_array(x->a, kinds, sizeof(*total));
	if (!slow || !total)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < kinds; k++)
		total[k] = total_on(x, &x->m->kinds[k]);
	for (uint32_t s = 0; s < stages; s++)
		for (uint32_t d = share_of(x, s) * each; d < (share_of(x, s) + 1) * each; d++)
			slow[s] = fmax(slow[s], total[ff_device_kind(x->m, d) - x->m->kinds] /
								total[ff_device_kind(x->m, 0) -
										x->m->kinds]);
	*ret = slow;
	return FF_OK;
}

static int set_stages(struct hand *x, struct ff_error *err)
{
	const struct ff_repeats *r = &x->repeats;
	double *cost = ff_arena_array(x->a, r->n_units, sizeof(*cost)), *slow;
	uint16_t *stage = ff_arena_array(x->a, r->n_units, sizeof(*stage));
	uint32_t stages = count_stages(x->h);
	int code;

	if (!cost || !stage)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->g->n_nodes; i++)
		if (ff_node_needs_config(x->g, i))
			cost[r->unit[i]] += x->h->even ? 0 : ff_node_roofline_s(x->g, x->m, i);
	for (uint32_t i = 0; i < r->n_units && x->h->even; i++)
		cost[i] = 1;
	code = find_slowness(x, stages, &slow, err);
	if (code == FF_OK)
		code = ff_stages_balance(cost, r->n_units, slow, stages, x->a, stage, err);
	for (uint32_t i = 0; i < x->g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(x->g, i))
			x->s.stage[i] = stage[r->unit[i]];
	return code;
}

/* ---- configs ---- */

/* How many of `samples` shares the samples are cut into. */
static uint32_t shares_of(const struct hand *x, const struct ff_node *n, uint32_t samples)
{
	uint32_t s = ff_node_sample_dim(n), extent = s == FF_NONE ? 1 : (uint32_t)n->dim[s].extent;

	return x->h->uneven_batch && extent >= samples ? samples : ff_gcd(samples, extent);
}

/* A dim in parts, FF_NONE: none, each as many devices from the one before as `apart` says. */
static void cut(struct ff_config *c, uint32_t dim, uint32_t degree, uint32_t *apart)
{
	if (dim == FF_NONE || degree == 1)
		return;
	if (c->degree[dim] == 1)
		c->stride[dim] = (uint16_t)*apart;
	c->degree[dim] = (uint16_t)(c->degree[dim] * degree);
	*apart *= degree;
}

/* Dims in parts on neighbours, the first on the nearest, samples in up to `samples` shares; on what
 * is left of the stage's devices the same once more. */
static void split(const struct hand *x, uint32_t node, const uint32_t dim[2],
		const uint32_t degree[2], uint32_t samples)
{
	const struct ff_node *n = &x->g->nodes[node];
	uint32_t apart = 1;
	struct ff_config *c = &x->s.config[node];

	*c = (struct ff_config){.n_parts = x->each,
			.start = (uint16_t)(share_of(x, x->s.stage[node]) * x->each)};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	cut(c, dim[0], degree[0], &apart);
	cut(c, dim[1], degree[1], &apart);
	samples = shares_of(x, n, samples);
	c->replicas = (uint16_t)(x->each / apart / samples);
	c->replica_stride = c->replicas > 1 ? (uint16_t)apart : 0;
	apart *= c->replicas;
	cut(c, ff_node_sample_dim(n), samples, &apart);
}

static void set_config(struct hand *x, uint32_t node)
{
	const struct ff_megatron *h = x->h;
	uint32_t place = x->sequence.dim[node];
	uint32_t dim[2] = {x->tensor.dim[node], x->context > 1 ? place : FF_NONE};
	uint32_t degree[2] = {h->tensor, x->context};

	if (dim[0] == FF_NONE && x->expert && x->expert[node] != FF_NONE) {
		dim[0] = x->expert[node];
		degree[0] = x->n_experts;
		dim[1] = FF_NONE;
		split(x, node, dim, degree, x->each / x->n_experts);
		return;
	}
	if (dim[0] == FF_NONE && h->sequence)
		dim[0] = place;
	split(x, node, dim, degree, h->data);
}

/* ---- parameters ---- */

static void set_parameters(struct hand *x)
{
	x->s.scatter = x->h->updates == FF_MEGATRON_ZERO_2;
	if (x->h->updates && x->h->hybrid)
		x->s.shards = ff_machine_shards(x->m, x->h->tensor);
	for (uint32_t i = 0; i < x->g->n_nodes; i++) {
		if (!ff_node_is_parameter(x->g, i) || !x->h->updates)
			continue;
		ff_param_flat(&x->s.config[i]);
		x->s.recompute[i] = x->h->updates == FF_MEGATRON_ZERO_3;
	}
}

/* ---- the order ---- */

/* Where products are shared forward and backward wait for messages inside the stage, about as long
 * as they compute, and gradients of parameters for none. */
static void set_order(struct hand *x)
{
	static const uint8_t shared[FF_STAGE_PASSES] = {2, 2, 1};
	const struct ff_megatron *h = x->h;

	x->s.micro_batches = h->micro;
	x->s.rule = rule_of(h);
	x->s.chunks = h->interleave ? h->interleave : 1;
	if (ff_order_row(x->s.rule)->halves && (h->tensor > 1 || h->experts))
		memcpy(x->s.ticks, shared, sizeof(shared));
}

/* ---- recomputation ---- */

static int set_recomputed(struct hand *x, struct ff_error *err)
{
	static const enum ff_recompute what[] = {[FF_MEGATRON_LIGHT] = FF_RECOMPUTE_LIGHT,
			[FF_MEGATRON_FULL] = FF_RECOMPUTE_FULL};
	uint32_t *place = ff_arena_array(x->a, x->repeats.n_blocks, sizeof(*place));

	if (!place)
		return ff_fail_memory(err);
	ff_recompute_blocks(x->g, &x->repeats, what[x->h->recomputed], x->h->recomputed_blocks,
			place, &x->s);
	return FF_OK;
}

int ff_start_megatron(const struct ff_megatron *h, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_graph micro;
	struct hand x = {.h = h,
			.g = &micro,
			.m = m,
			.a = a,
			.context = h->context ? h->context : 1,
			.each = m->n_devices / h->pipeline};
	int code = check_numbers(h, g, m, err);

	if (code == FF_OK)
		code = check_order(h, err);
	if (code == FF_OK)
		code = ff_strategy_create(g, a, &x.s, err);
	if (code == FF_OK)
		code = ff_graph_micro(g, h->micro, a, &micro, err);
	if (code == FF_OK)
		code = look(&x, err);
	if (code == FF_OK)
		code = set_stages(&x, err);
	if (code < 0)
		return code;
	set_order(&x);
	for (uint32_t i = 0; i < micro.n_nodes; i++)
		if (ff_node_needs_config(&micro, i))
			set_config(&x, i);
	if (h->recomputed || h->recomputed_blocks)
		code = set_recomputed(&x, err);
	if (code < 0)
		return code;
	set_parameters(&x);
	*ret = x.s;
	return FF_OK;
}
