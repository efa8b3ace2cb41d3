/* What the parts of a schedule take.  SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include "ff/block.h"
#include "ff/instance.h"

/* Of parts that cost alike. */
struct ff_parts_price {
	bool known;
	double us;
	struct ff_inferred inferred;
	int64_t *gradient_bytes; /* backward, by input: that it makes */
};

int ff_parts_init(struct ff_parts *x, const struct ff_schedule *s, struct ff_pricer *p,
		struct ff_arena *a, struct ff_error *err)
{
	*x = (struct ff_parts){.schedule = s, .pricer = p, .arena = a};
	x->of = ff_arena_array(a, s->graph->n_nodes, sizeof(*x->of));
	x->inferred = ff_arena_array(a, s->machine->n_devices, sizeof(*x->inferred));
	return x->of && x->inferred ? FF_OK : ff_fail_memory(err);
}

/* Cells that cost alike, and replicas, are of one kind; where devices differ each is of its own. */
static void number_kinds(const struct ff_node *n, const struct ff_config *c, bool apart,
		uint16_t *like, struct ff_parts_of *ret)
{
	uint32_t cells = ff_config_cells(c);

	if (!apart)
		ff_config_alike(n, c, like, ret->kind);
	for (uint32_t p = 0; p < c->n_parts; p++) {
		bool first = apart || (p < cells && ret->kind[p] == p);

		if (first)
			ret->kind[p] = (uint16_t)ret->n_kinds++;
		else
			ret->kind[p] = ret->kind[p < cells ? ret->kind[p] : p - cells];
	}
}

static int find_kinds(struct ff_parts *x, uint32_t node, struct ff_error *err)
{
	const struct ff_schedule *s = x->schedule;
	const struct ff_config *c = &s->config[node];
	struct ff_parts_of *of = &x->of[node];
	uint16_t like[FF_MAX_DEVICES];

	of->kind = ff_arena_array(x->arena, c->n_parts, sizeof(*of->kind));
	if (!of->kind)
		return ff_fail_memory(err);
	number_kinds(&s->graph->nodes[node], c, s->machine->n_kinds > 1, like, of);
	return FF_OK;
}

/* A framework may have gradients in another type. */
static int64_t gradient_bytes(const struct ff_parts *x, const struct ff_work *w, uint32_t i)
{
	const struct ff_framework *f = ff_price_framework(x->pricer);
	enum ff_dtype type = (enum ff_dtype)w->node->in_map[i].gradient;

	if (!w->need_din[i] || ff_framework_adds(f, w, i))
		return 0;
	return (int64_t)((double)(ff_region_volume(&w->in[i]) * ff_dtype_bytes(type)) *
			 ff_framework_narrowed(f, x->schedule->graph, type));
}

static int find_price(struct ff_parts *x, const struct ff_task *t, struct ff_parts_price *ret,
		struct ff_error *err)
{
	const struct ff_schedule *s = x->schedule;
	uint32_t n_in = s->graph->nodes[t->node].n_in;
	struct ff_work w;
	int code;

	ff_task_work(s, t, &w);
	code = ff_price_part(x->pricer, &w, t->node, s->config[t->node].n_parts, t->device,
			&ret->us, &ret->inferred, err);
	if (code == FF_OK && w.pass == FF_BACKWARD) {
		ret->gradient_bytes = ff_arena_array(x->arena, n_in, sizeof(*ret->gradient_bytes));
		if (!ret->gradient_bytes)
			return ff_fail_memory(err);
		for (uint32_t i = 0; i < n_in; i++)
			ret->gradient_bytes[i] = gradient_bytes(x, &w, i);
	}
	ret->known = code == FF_OK;
	return code;
}

static int price_of(struct ff_parts *x, const struct ff_task *t, const struct ff_parts_price **ret,
		struct ff_error *err)
{
	struct ff_parts_of *of = &x->of[t->node];
	struct ff_parts_price **all =
			&of->price[ff_task_pass(t) == FF_FORWARD ? 0 : 1 + (uint32_t)t->grads];
	int code = of->kind ? FF_OK : find_kinds(x, t->node, err);

	if (code < 0)
		return code;
	if (!*all)
		*all = ff_arena_array(x->arena, of->n_kinds, sizeof(**all));
	if (!*all)
		return ff_fail_memory(err);
	*ret = &(*all)[of->kind[t->part]];
	return (*ret)->known ? FF_OK : find_price(x, t, &(*all)[of->kind[t->part]], err);
}

/* A backward pass that adds to gradients writes its own aside and adds them. */
static int64_t added_bytes(
		const struct ff_parts *x, const struct ff_task *t, const struct ff_parts_price *p)
{
	const struct ff_schedule *s = x->schedule;
	int64_t bytes = 0;

	for (uint32_t i = 0; p->gradient_bytes && i < s->graph->nodes[t->node].n_in; i++)
		if (p->gradient_bytes[i] && (ff_task_adds(s, t, i) || ff_task_sums(s, t, i)))
			bytes += p->gradient_bytes[i];
	return bytes;
}

int ff_parts_us(struct ff_parts *x, const struct ff_task *t, double *us, struct ff_error *err)
{
	struct ff_inferred *inferred = &x->inferred[t->device];
	const struct ff_parts_price *p;
	int code = price_of(x, t, &p, err);

	if (code < 0)
		return code;
	*us = p->us + ff_price_add(x->pricer, x->schedule->graph, t->device, added_bytes(x, t, p));
	inferred->us += p->inferred.us;
	inferred->classes |= p->inferred.classes;
	return FF_OK;
}

struct ff_inferred ff_parts_inferred(const struct ff_parts *x)
{
	struct ff_inferred most = {0, 0};

	for (uint32_t i = 0; i < x->schedule->machine->n_devices; i++)
		if (x->inferred[i].us > most.us)
			most = x->inferred[i];
	return most;
}
