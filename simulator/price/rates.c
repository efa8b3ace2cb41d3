/* Prices of what is moved, added and updated: by rates, links and codecs.  docs/simulator.md
 * derives the formulas.  SPDX-License-Identifier: Apache-2.0 */
#include "pricer.h"

#include <math.h>

#include "least.h"

/* Long runs save no more than this share of the time that was measured. */
#define MOST_OF_RUNS 0.5
/* By peak rates: how often a byte crosses the memory bus when it is copied (read,
 * write) or added (two reads, a write). */
static const double memory_passes[FF_RATE_COUNT] = {
		[FF_RATE_COPY] = 2,
		[FF_RATE_ADD] = 3,
		[FF_RATE_LOAD] = 2,
		[FF_RATE_ACCUMULATE] = 3,
};

/* And when it is updated: reads of weight, gradient and states, writes of weight and
 * states, and of the weight once more where it is read as a shorter type. */
static double update_passes(const struct ff_optimizer *o, enum ff_dtype type)
{
	double rounded = type == FF_F32 ? 0 : (double)ff_dtype_bytes(type) / FF_F32_BYTES;

	return 3 + 2.0 * o->states + rounded;
}

/* At a measured rate, or (NULL) in so many passes over memory, as a model or its peak has it. */
static double rated_us(const struct ff_pricer *p, uint32_t device, const struct ff_rate *r,
		double passes, double bytes)
{
	if (!r && ff_pricer_model(p, device))
		return ff_device_model_stream_us(ff_pricer_model(p, device), passes * bytes);
	if (!r)
		return ff_price_memory_us(ff_device_kind(p->machine, device), passes, bytes);
	return r->latency_us + bytes / r->bytes_per_us;
}

static double line_us(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		enum ff_rate_kind k, double passes, double bytes)
{
	const struct ff_rate *r = p->costs ? ff_pricer_state(p, g)->rate[k] : NULL;

	return rated_us(p, device, r, passes, bytes);
}

static double rate_us(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		enum ff_rate_kind k, double bytes)
{
	return line_us(p, g, device, k, memory_passes[k], bytes);
}

double ff_price_update(const struct ff_pricer *p, uint32_t device, int64_t bytes)
{
	const struct ff_optimizer *o = p->optimizer;
	enum ff_dtype type = p->graph->dtype;
	double passes = update_passes(o, type);

	if (p->framework && type != FF_F32)
		passes += p->framework->gradient_passes;
	return ff_price_on_grid(line_us(
			p, p->graph, device, ff_optimizer_rate(o, type), passes, (double)bytes));
}

double ff_price_copied(const struct ff_pricer *p, uint32_t device, int64_t bytes)
{
	return ff_price_on_grid(line_us(p, p->graph, device, FF_RATE_COPY, 1, (double)bytes));
}

/* What runs of `run_bytes` make of it beside those that rates were measured with.  Each run takes
 * some time of its own: two lengths of runs tell how much of the time is theirs. */
static double runs_us(const struct ff_rate *r, double bytes, double run_bytes)
{
	const double longer = 1.0 / FF_LONG_RUN_BYTES, shorter = 1.0 / FF_SHORT_RUN_BYTES;
	double each_us, apart;

	if (!(r->short_bytes_per_us > 0) || !(run_bytes > 0))
		return 0;
	each_us = (1 / r->short_bytes_per_us - 1 / r->bytes_per_us) / (shorter - longer);
	apart = fmax(each_us, 0) * (1 / run_bytes - longer);
	return bytes * fmax(apart, -MOST_OF_RUNS / r->bytes_per_us);
}

/* On the slowest device of `mv`. */
static double slowest_us(const struct ff_pricer *p, const struct ff_move *mv,
		const struct ff_rate *r, double passes, int64_t bytes)
{
	double worst = 0;

	for (uint32_t i = 0; i < mv->n_devices && bytes; i++)
		worst = fmax(worst, rated_us(p, mv->device[i], r, passes, (double)bytes));
	return worst;
}

/* What the slowest device of `mv` takes for `bytes` at rate `k`.  What is added to was brought by
 * the same move. */
static double local_us(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_move *mv, enum ff_rate_kind k, int64_t bytes)
{
	const struct ff_rate *r = NULL;
	double worst;

	if (p->costs)
		r = mv->gradients || k == FF_RATE_ADD ? ff_costs_rate(p->costs, k, FF_REUSE_NEAR)
						      : ff_pricer_state(p, g)->rate[k];
	worst = slowest_us(p, mv, r, memory_passes[k], bytes);
	if (r && bytes)
		worst += runs_us(r, (double)bytes, (double)mv->run_bytes);
	return worst;
}

double ff_price_sync(const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes)
{
	const struct ff_shared x = {.kind = FF_MOVE_ALL_REDUCE,
			.reduce = FF_REDUCE_SUM,
			.n = n,
			.device = device,
			.size = FF_F32_BYTES,
			.elements = bytes / FF_F32_BYTES};

	return n < 2 ? 0 : ff_price_on_grid(ff_links_shared_us(&p->links, &x));
}

/* Of the slowest group. */
static double flat_us(const struct ff_pricer *p, enum ff_move_kind kind, const struct ff_runs *runs)
{
	int64_t elements = runs->bytes / FF_F32_BYTES;
	enum ff_dtype type = kind == FF_MOVE_ALL_GATHER ? p->graph->dtype : FF_F32;
	struct ff_shared x = {.kind = kind,
			.reduce = FF_REDUCE_SUM,
			.n = runs->runs,
			.size = ff_dtype_bytes(type),
			.elements = elements,
			.chunk_bytes = elements / runs->runs * ff_dtype_bytes(type),
			.regular = true};
	double worst = 0;

	for (uint32_t i = 0; i < runs->n && x.n > 1; i += runs->runs) {
		x.device = runs->device + i;
		worst = fmax(worst, ff_links_shared_us(&p->links, &x));
	}
	return ff_price_on_grid(worst);
}

double ff_price_gather(const struct ff_pricer *p, const struct ff_runs *x)
{
	return flat_us(p, FF_MOVE_ALL_GATHER, x);
}

double ff_price_scatter(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_runs *x, bool adds)
{
	double worst = 0;

	for (uint32_t i = 0; i < x->n && adds; i++)
		worst = fmax(worst, ff_price_add(p, g, x->device[i], x->bytes / x->runs));
	return flat_us(p, FF_MOVE_REDUCE_SCATTER, x) + worst;
}

double ff_price_across(const struct ff_pricer *p, const struct ff_runs *x)
{
	if (x->n == x->runs)
		return 0;
	return ff_price_on_grid(ff_links_across_us(&p->links, x->n, x->runs, x->device,
			x->bytes / FF_F32_BYTES / x->runs, FF_F32_BYTES));
}

/* To encode or decode `bytes` in so many kernels, as measured; else as often as the codec's row
 * says what adding gradients to others takes. */
static double code_us(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_codec *c,
		uint32_t device, enum ff_rate_kind of, double times, double bytes)
{
	enum ff_rate_kind kind = (enum ff_rate_kind)(of + c->id);
	const struct ff_rate *r = p->costs ? ff_pricer_state(p, g)->rate[kind] : NULL;
	double cost = of == FF_RATE_ENCODE ? c->encode_cost : c->decode_cost;

	if (r)
		return times * r->latency_us + bytes / r->bytes_per_us;
	return rate_us(p, g, device, FF_RATE_ACCUMULATE, cost * bytes);
}

/* What the slowest device takes to encode all and its chunk, and to decode that chunk of everyone
 * and all. */
static double coding_us(
		const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t elements)
{
	const struct ff_codec *c = p->codec;
	double all = (double)(elements * FF_F32_BYTES), worst = 0;
	double most = (double)(ff_codec_most(c, elements, n) * FF_F32_BYTES);

	for (uint32_t i = 0; i < n; i++)
		worst = fmax(worst,
				code_us(p, p->graph, c, device[i], FF_RATE_ENCODE, 2, all + most) +
						code_us(p, p->graph, c, device[i], FF_RATE_DECODE,
								2.0 * n, all + n * most));
	return worst;
}

/* As runtime/exec/messages/packing.c has it: everybody's chunk from everybody, then all chunks to
 * all. */
double ff_price_bucket(const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes)
{
	const struct ff_codec *c = p->codec;
	int64_t elements = bytes / FF_F32_BYTES, chunk;
	struct ff_shared gather = {.kind = FF_MOVE_ALL_GATHER, .n = n, .device = device, .size = 1};

	if (p->framework && p->framework->narrow)
		return ff_price_sync(p, n, device, elements * ff_dtype_bytes(p->graph->dtype));
	if (!c || n < 2)
		return ff_price_sync(p, n, device, bytes);
	chunk = ff_codec_bytes(c, ff_codec_most(c, elements, n));
	gather.elements = ff_codec_bytes(c, elements);
	gather.chunk_bytes = chunk;
	gather.regular = ff_codec_most(c, elements, n) * n == elements;
	return ff_price_on_grid(coding_us(p, n, device, elements) +
				ff_links_all_to_all_us(&p->links, n, device, chunk) +
				ff_links_shared_us(&p->links, &gather));
}

double ff_price_average(const struct ff_pricer *p, uint32_t n, const uint16_t *device,
		int64_t bytes, uint32_t every)
{
	int64_t states = (int64_t)p->optimizer->states * bytes;
	double us = ff_price_sync(p, n, device, bytes), worst = 0;

	if (states)
		us += ff_price_sync(p, n, device, states);
	for (uint32_t i = 0; i < n; i++)
		worst = fmax(worst, rate_us(p, p->graph, device[i], FF_RATE_COPY,
						    (double)(bytes + states)));
	return ff_price_on_grid((us + worst) / every);
}

/* What the slowest device takes to encode all messages that it sends and to decode those that it
 * gets: a kernel each. */
static double messages_coding_us(
		const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv)
{
	double worst = 0;

	for (uint32_t i = 0; i < mv->n_devices && mv->codec; i++) {
		const struct ff_traffic *t = &mv->traffic[i];
		double us = 0;

		if (t->n_sent)
			us += code_us(p, g, mv->codec, mv->device[i], FF_RATE_ENCODE, t->n_sent,
					(double)t->encoded);
		if (t->n_received)
			us += code_us(p, g, mv->codec, mv->device[i], FF_RATE_DECODE, t->n_received,
					(double)t->decoded);
		worst = fmax(worst, us);
	}
	return worst;
}

static double collective_us(const struct ff_pricer *p, const struct ff_move *mv)
{
	const struct ff_shared x = {.kind = mv->kind,
			.reduce = mv->reduce,
			.n = mv->n_devices,
			.device = mv->device,
			.size = ff_dtype_bytes(mv->type),
			.elements = ff_region_volume(&mv->region),
			.chunk_bytes = mv->chunk_bytes,
			.regular = mv->regular};

	return mv->n_devices < 2 ? 0 : ff_links_shared_us(&p->links, &x);
}

/* Whole numbers come from elsewhere than others; of each sample there is as much to load. */
static double load_us(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv)
{
	int64_t bytes = ff_region_volume(&mv->region) * ff_dtype_bytes(mv->type), each;
	const struct ff_rate *r = NULL;

	if (!bytes)
		return 0;
	each = bytes / ff_region_size(&mv->region, 0);
	if (p->costs && mv->type == FF_I32)
		r = ff_costs_load_rate(p->costs, FF_RATE_LOAD_IDS, each,
				ff_pricer_state(p, g)->reuse_bytes);
	if (p->costs && !r)
		r = ff_costs_load_rate(
				p->costs, FF_RATE_LOAD, each, ff_pricer_state(p, g)->reuse_bytes);
	return slowest_us(p, mv, r, memory_passes[FF_RATE_LOAD], bytes);
}

/* Of parameters' gradients, as a framework has them. */
static int64_t narrowed(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_move *mv, int64_t bytes)
{
	return mv->gradients ? (int64_t)((double)bytes *
					       ff_framework_narrowed(p->framework, g, mv->type))
			     : bytes;
}

double ff_price_move(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv)
{
	double us;

	if (mv->kind == FF_MOVE_LOAD)
		return ff_price_on_grid(load_us(p, g, mv));
	us = local_us(p, g, mv, FF_RATE_COPY, narrowed(p, g, mv, mv->copied_bytes)) +
	     local_us(p, g, mv, FF_RATE_ADD, narrowed(p, g, mv, mv->added_bytes)) +
	     messages_coding_us(p, g, mv);
	us += ff_move_is_messages(mv->kind) ? ff_links_messages_us(&p->links, mv)
					    : collective_us(p, mv);
	return ff_price_on_grid(us);
}

/* What one device does by itself is its processor's alone. */
double ff_price_beside(const struct ff_pricer *p, uint32_t n, const uint16_t *device, double us)
{
	const uint32_t *node_of = p->machine->node_of;
	struct ff_overlap_cost o = p->overlap;
	double share; /* of what it takes alone */

	if (!p->machine->overlap || !(us > 0))
		return 0;
	if (n < 2)
		share = o.inside >= 0 || o.between >= 0 ? 1 : 0;
	else
		share = node_of[device[0]] == node_of[device[n - 1]]
					? o.inside / (1 + o.inside_longer)
					: o.between / (1 + o.between_longer);
	return share > 0 ? ff_price_on_grid(share * us) : 0;
}

double ff_price_received_us(const struct ff_pricer *p)
{
	return p->codec || p->averaged || p->framework ? 0 : ff_links_least_received_us(&p->links);
}

int ff_price_least_wait(const struct ff_pricer *p, struct ff_arena *a, struct ff_least_wait *ret,
		struct ff_error *err)
{
	*ret = (struct ff_least_wait){.n = 0};
	return ff_price_received_us(p) > 0 ? ff_links_least_wait(&p->links, a, ret, err) : FF_OK;
}

double ff_price_sum_us(
		const struct ff_pricer *p, uint32_t n, enum ff_reduce reduce, int64_t elements)
{
	double us = p->framework ? 0 : ff_links_least_sum_us(&p->links, n, reduce, elements);

	return us > 0 ? ff_price_on_grid(us) : 0;
}

double ff_price_add(
		const struct ff_pricer *p, const struct ff_graph *g, uint32_t device, int64_t bytes)
{
	return bytes ? ff_price_on_grid(rate_us(p, g, device, FF_RATE_ACCUMULATE, (double)bytes))
		     : 0;
}
