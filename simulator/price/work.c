/* Prices of what is computed: as measured, by a model of the device, or by its peak rates, each
 * found once.  docs/simulator.md derives the formulas.  SPDX-License-Identifier: Apache-2.0 */
#include "pricer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/fusion.h"

_Static_assert(FF_KEY_BYTES <= FF_COST_KEY_BYTES, "every work's key must fit a cost's");

static const struct ff_priced *memo_find(const struct ff_pricer *p, uint64_t hash)
{
	uint32_t at, i = ff_table_first(&p->table, hash, &at);

	return i == FF_NONE ? NULL : &p->memo[i];
}

static int memo_add(struct ff_pricer *p, uint64_t hash, struct ff_priced new, struct ff_error *err)
{
	if (!p->memo || p->table.n == p->memo_cap) {
		uint32_t cap = p->memo_cap ? 2 * p->memo_cap : 1024;
		struct ff_priced *memo = realloc(p->memo, cap * sizeof(*memo));

		if (!memo)
			return ff_fail_memory(err);
		p->memo = memo;
		p->memo_cap = cap;
	}
	p->memo[p->table.n] = new;
	return ff_table_put(&p->table, hash, p->table.n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* The whole command must fit behind the key, so a very long key is cut. */
static int missing_cost(const struct ff_pricer *p, const char *key, struct ff_error *err)
{
	char command[FF_ERROR_TEXT / 2];
	int used, room, length;

	snprintf(command, sizeof(command), "run ffprof %s --machine %s -o %s", p->graph_path,
			p->machine->name, p->costs_path);
	used = (int)(strlen(command) + strnlen(p->costs_path, 128));
	room = FF_ERROR_TEXT - 40 - used;
	length = (int)strlen(key);
	return ff_fail(err, FF_E_INPUT, "%.128s has no cost for \"%.*s%s\": %s", p->costs_path,
			length < room ? length : room - 3, key, length < room ? "" : "...",
			command);
}

/* The roofline (Williams, Waterman, Patterson 2009): bound by arithmetic or by
 * memory, whichever takes longer. */
static double roofline_us(const struct ff_device_kind *kind, const struct ff_work *w)
{
	double peak = ff_device_flops_per_s(kind, ff_work_type(w));
	double flops_us = (double)ff_work_flops(w) * 1e6 / peak;
	double bytes_us = (double)ff_work_bytes(w) * 1e6 / kind->memory_bytes_per_s;

	return FF_LAUNCH_US + fmax(flops_us, bytes_us);
}

/* Products of what is written transposed: the same, but for how their rows lie.  Gradients arrive
 * as features x places. */
static void transpose(const struct ff_work *w, struct ff_kernel_shape *s)
{
	double m = s->m;

	if (s->class != FF_KERNEL_PRODUCT)
		return;
	if (w->pass == FF_BACKWARD) {
		s->a_transposed = !s->a_transposed;
		return;
	}
	s->m = s->n;
	s->n = m;
}

/* The kernels of `w` that its runtime launches: a framework, or our CUDA backend. */
static uint32_t kernels_of(const struct ff_pricer *p, const struct ff_work *w,
		struct ff_kernel_shape ret[FF_FRAMEWORK_KERNELS])
{
	int64_t fused = p->framework ? -1 : ff_fused_bytes(w);
	uint32_t n;

	if (p->framework)
		return ff_framework_kernels(p->framework, w, ret);
	if (fused < 0) {
		n = ff_work_kernels(w, ret);
		for (uint32_t i = 0; i < n && ff_is_written_transposed(w); i++)
			transpose(w, &ret[i]);
		return n;
	}
	ret[0] = ff_kernel_of_bytes(w, FF_KERNEL_STREAM);
	ret[0].bytes = (double)fused;
	ret[0].fused = true;
	return fused > 0;
}

/* What a price has from nodes beside its own, as a number. */
static uint64_t neighbours(const struct ff_work *w)
{
	return ff_is_written_transposed(w) ? 1 : (uint64_t)ff_fused_bytes(w) << 1;
}

/* How often a model's time its kernels take: of a framework also on the slowest device. */
static double kernels_times(const struct ff_pricer *p)
{
	const struct ff_framework *f = p->framework;

	if (!f)
		return 1;
	return (f->times > 0 ? f->times : 1) * ff_framework_slowest(f, p->machine->n_devices);
}

/* By a model: kernels are worth the memo. */
static int price_by_model(struct ff_pricer *p, const struct ff_work *w, uint32_t device,
		struct ff_priced *ret, struct ff_error *err)
{
	uint64_t hash = ff_hash_mix(ff_work_hash(w), ff_pricer_kind(p, device));
	struct ff_kernel_shape kernel[FF_FRAMEWORK_KERNELS];
	struct ff_priced new = {0};
	const struct ff_priced *found;
	double times;
	uint32_t n;
	int code;

	hash = ff_hash_mix(
			hash, p->framework ? ff_framework_place(p->framework, w) : neighbours(w));
	found = memo_find(p, hash);
	if (found) {
		*ret = *found;
		return FF_OK;
	}
	n = kernels_of(p, w, kernel);
	times = kernels_times(p);
	new.us = ff_device_model_kernels_us(ff_pricer_model(p, device), kernel, n, &new.inferred);
	new.us = ff_price_on_grid(times * new.us);
	new.inferred.us *= times;
	new.alone_us = new.us;
	code = memo_add(p, hash, new, err);
	if (code == FF_OK)
		*ret = new;
	return code;
}

/* What `w` costs, a whole pass; measured costs, which are of one kind of device, are taken into
 * the memo. */
static int price_whole(struct ff_pricer *p, const struct ff_work *w, uint32_t device,
		struct ff_priced *ret, struct ff_error *err)
{
	const struct ff_priced *found;
	const struct ff_cost *cost;
	struct ff_priced new = {0};
	int64_t reuse_bytes;
	char key[FF_KEY_BYTES];
	uint64_t hash;
	int code;

	if (ff_pricer_model(p, device))
		return price_by_model(p, w, device, ret, err);
	if (!p->costs) { /* less work than to look it up */
		new.us = ff_price_on_grid(roofline_us(ff_device_kind(p->machine, device), w));
		new.alone_us = new.us;
		*ret = new;
		return FF_OK;
	}
	reuse_bytes = ff_reuse_node(&p->reuse, ff_pricer_micro(p, w->graph),
			(uint32_t)(w->node - w->graph->nodes), w->pass);
	hash = ff_hash_mix(ff_work_hash(w), (uint64_t)reuse_bytes);
	found = memo_find(p, hash);
	if (found) {
		*ret = *found;
		return FF_OK;
	}
	ff_work_key(w, key);
	cost = ff_costs_find(p->costs, key, reuse_bytes);
	if (!cost)
		return missing_cost(p, key, err);
	new.us = ff_price_on_grid(cost->median_us);
	new.alone_us = cost->alone_us > 0 ? ff_price_on_grid(cost->alone_us) : new.us;
	new.workspace_bytes = cost->workspace_bytes;
	code = memo_add(p, hash, new, err);
	if (code == FF_OK)
		*ret = new;
	return code;
}

/* Of a backward, the share of the gradients of data: by a model of the device, else by arithmetic,
 * as either half multiplies as much. */
static double data_share(struct ff_pricer *p, const struct ff_work *whole, uint32_t device)
{
	double us[2] = {1, 1};

	for (int half = 0; half < 2 && ff_pricer_model(p, device); half++) {
		struct ff_kernel_shape kernel[FF_FRAMEWORK_KERNELS];
		struct ff_inferred inferred;
		struct ff_work w = *whole;
		uint32_t n;

		ff_work_keep(&w, half ? FF_GRADS_PARAMS : FF_GRADS_DATA);
		n = kernels_of(p, &w, kernel);
		us[half] = ff_device_model_kernels_us(
				ff_pricer_model(p, device), kernel, n, &inferred);
	}
	return us[0] / (us[0] + us[1]);
}

static double half_us(double us, double share, enum ff_grads grads)
{
	double data = ff_price_on_grid(us * share);

	return grads == FF_GRADS_DATA ? data : us - data;
}

/* A backward that is computed in two takes as long as the whole: what runs are the same kernels. */
static int price(struct ff_pricer *p, const struct ff_work *w, uint32_t device,
		struct ff_priced *ret, struct ff_error *err)
{
	struct ff_priced new;
	struct ff_work whole;
	double share;
	int code;

	if (w->grads == FF_GRADS_ALL)
		return price_whole(p, w, device, ret, err);
	ff_work_fill(w->graph, (uint32_t)(w->node - w->graph->nodes), &w->box, FF_BACKWARD, &whole);
	if ((code = price_whole(p, &whole, device, &new, err)) < 0)
		return code;
	share = data_share(p, &whole, device);
	new.us = half_us(new.us, share, w->grads);
	new.alone_us = half_us(new.alone_us, share, w->grads);
	new.inferred.us *= w->grads == FF_GRADS_DATA ? share : 1 - share;
	*ret = new;
	return FF_OK;
}

int ff_price_work(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err)
{
	struct ff_priced memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*us = memo.us;
	return code;
}

const struct ff_device_kind *ff_price_unmodelled(const struct ff_pricer *p)
{
	const struct ff_machine *m = p->machine;

	for (uint32_t i = 0; i < m->n_devices; i++)
		if (!p->costs && p->estimate == FF_ESTIMATE_MODEL && !ff_pricer_model(p, i))
			return ff_device_kind(m, i);
	return NULL;
}

double ff_price_peak_flops_per_s(const struct ff_pricer *p)
{
	double flops = 0;

	for (uint32_t i = 0; i < p->machine->n_devices; i++) {
		const struct ff_device_model *model = ff_pricer_model(p, i);

		flops += model ? model->flops_per_s[p->graph->dtype == FF_BF16]
			       : ff_device_flops_per_s(
						 ff_device_kind(p->machine, i), p->graph->dtype);
	}
	return flops;
}

static void fill_whole(
		const struct ff_graph *g, uint32_t node, enum ff_pass pass, struct ff_work *ret)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_region box = {.rank = n->n_dims};

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	ff_work_fill(g, node, &box, pass, ret);
}

uint64_t ff_price_place(const struct ff_pricer *p, uint32_t node)
{
	uint64_t hash = p->costs && p->alone[node];
	bool models = !p->costs && p->estimate == FF_ESTIMATE_MODEL;

	for (int pass = 0; pass < 2 && models && ff_node_is_computed(p->graph, node); pass++) {
		struct ff_work w;

		fill_whole(p->graph, node, (enum ff_pass)pass, &w);
		hash = ff_hash_mix(hash, neighbours(&w));
	}
	for (uint32_t m = 1; m <= FF_MAX_MICRO_BATCHES && p->costs; m++)
		for (int pass = 0; pass < 2 && p->graph->batch % (int32_t)m == 0; pass++)
			hash = ff_hash_mix(hash, (uint64_t)ff_reuse_node(&p->reuse, m, node,
								 (enum ff_pass)pass));
	return hash;
}

int ff_price_part(struct ff_pricer *p, const struct ff_work *w, uint32_t node, uint32_t n_parts,
		uint32_t device, double *us, struct ff_inferred *inferred, struct ff_error *err)
{
	/* of several micro-batches others may be under way */
	bool alone = n_parts == 1 && p->alone[node] && w->graph->batch == p->graph->batch;
	struct ff_priced memo;
	int code = price(p, w, device, &memo, err);

	if (code < 0)
		return code;
	*us = alone ? memo.alone_us : memo.us;
	if (inferred)
		*inferred = memo.inferred;
	return FF_OK;
}

int ff_price_least(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err)
{
	struct ff_priced memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*us = fmin(memo.us, memo.alone_us);
	return code;
}

int64_t ff_price_workspace(void *p, const struct ff_work *w)
{
	struct ff_pricer *pricer = p;
	struct ff_priced memo;

	if (!pricer->costs)
		return ff_scratch_bytes(&pricer->scratch, w);
	/* A cost that is missing is reported by whoever asks for its time. */
	if (price(pricer, w, 0, &memo, NULL) != FF_OK)
		return 0;
	return memo.workspace_bytes;
}
