/* Prices: memoised costs of work, rates for local copies and updates.  docs/simulator.md
 * derives the formulas.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/price.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/alone.h"
#include "ff/device_model.h"
#include "ff/hash.h"
#include "ff/micro.h"
#include "ff/passed.h"
#include "ff/scratch.h"
#include "links.h"

_Static_assert(FF_KEY_BYTES <= FF_COST_KEY_BYTES, "every work's key must fit a cost's");

/* By peak rates: starting a pass of an operator, a copy or an update costs this
 * much beside the roofline; what one CUDA kernel launch takes. */
#define LAUNCH_US 5.0
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

struct memo {
	double us, alone_us;
	struct ff_inferred inferred; /* of `us` */
	int64_t workspace_bytes;
};

/* What goes by when batches are cut into so many micro-batches, and the rates that go with it. */
struct state {
	int64_t passed_bytes;
	const struct ff_rate *rate[FF_RATE_COUNT];
};
#define MOST_STATES (2 * 64) /* as ff_passed_bytes rounds: two for each power of two */

struct ff_pricer {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	enum ff_estimate estimate;            /* without costs */
	const struct ff_costs *costs;         /* NULL: nothing was measured */
	const struct ff_device_model **model; /* by kind; NULL: by its peak rates */
	const char *costs_path, *graph_path;
	const struct ff_optimizer *optimizer;
	bool clip;
	const struct ff_codec *codec;
	struct ff_overlap_cost overlap;
	struct ff_links links;
	struct ff_scratch scratch; /* without costs */
	struct ff_table table;     /* ff_work_hash to memo */
	struct memo *memo;
	uint32_t memo_cap;
	struct ff_arena arena;
	bool *alone;             /* by node */
	struct ff_passed passed; /* if measured */
	uint32_t n_states;
	struct state state[MOST_STATES];
	uint8_t state_of[FF_MAX_MICRO_BATCHES + 1];
};

static int check_rate(const struct ff_pricer *p, enum ff_rate_kind kind, struct ff_error *err)
{
	if (ff_costs_rate(p->costs, kind, 0))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "%s has no \"%s\" rate: run ffprof %s --machine %s -o %s",
			p->costs_path, ff_rate_name(kind), p->graph_path, p->machine->name,
			p->costs_path);
}

/* Those of the graph's inputs; whole numbers may be loaded as others are. */
static int check_loads(const struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_graph *g = p->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_source(g, i) &&
				(g->values[g->nodes[i].out].dtype != FF_I32 ||
						!ff_costs_rate(p->costs, FF_RATE_LOAD_IDS, 0)))
			code = check_rate(p, FF_RATE_LOAD, err);
	return code;
}

/* All that updates by `o` and everything else need. */
static int check_rates(
		const struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	const enum ff_rate_kind needed[] = {FF_RATE_COPY, FF_RATE_ADD, FF_RATE_ACCUMULATE,
			ff_optimizer_rate(o, p->graph->dtype)};
	int code = FF_OK;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed) && code == FF_OK; i++)
		code = check_rate(p, needed[i], err);
	return code == FF_OK ? check_loads(p, err) : code;
}

static int check_costs(const struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_machine *m = p->machine;
	const char *kind = ff_costs_device_kind(p->costs);

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const char *have = m->kinds[m->nodes[i].kind].name;

		if (strcmp(have, kind))
			return ff_fail(err, FF_E_INPUT,
					"%s prices devices of kind \"%s\", but node %u of machine "
					"%s "
					"has \"%s\": profile those, or use --costs analytic",
					p->costs_path, kind, i, m->name, have);
	}
	return check_rates(p, p->optimizer, err);
}

static uint8_t add_state(struct ff_pricer *p, int64_t passed_bytes)
{
	struct state *s = &p->state[p->n_states];

	for (uint32_t i = 0; i < p->n_states; i++)
		if (p->state[i].passed_bytes == passed_bytes)
			return (uint8_t)i;
	s->passed_bytes = passed_bytes;
	for (int k = 0; k < FF_RATE_COUNT; k++)
		s->rate[k] = ff_costs_rate(p->costs, (enum ff_rate_kind)k, passed_bytes);
	return (uint8_t)p->n_states++;
}

static int fill_states(struct ff_pricer *p, struct ff_error *err)
{
	int code = ff_passed_find(p->graph, p->machine->n_devices, &p->arena, &p->passed, err);

	for (uint32_t m = 1; m <= FF_MAX_MICRO_BATCHES && code == FF_OK; m++)
		if (p->graph->batch % (int32_t)m == 0)
			p->state_of[m] = add_state(p, ff_passed_bytes(&p->passed, m));
	return code;
}

/* What `g` is the graph of one of; one where it is another graph. */
static uint32_t micro_batches(const struct ff_pricer *p, const struct ff_graph *g)
{
	int32_t m = g->batch > 0 ? p->graph->batch / g->batch : 1;

	return m > 0 && m <= FF_MAX_MICRO_BATCHES ? (uint32_t)m : 1;
}

static const struct state *find_state(const struct ff_pricer *p, const struct ff_graph *g)
{
	return &p->state[p->state_of[micro_batches(p, g)]];
}

/* Where costs are to come from models, those of all kinds that have one. */
static int find_models(struct ff_pricer *p, struct ff_error *err)
{
	const struct ff_machine *m = p->machine;
	int code = FF_OK;

	p->model = ff_arena_array(&p->arena, m->n_kinds, sizeof(*p->model));
	if (!p->model)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < m->n_kinds && code == FF_OK; i++) {
		p->model[i] = NULL;
		if (!p->costs && p->estimate == FF_ESTIMATE_MODEL)
			code = ff_device_model_find(&m->kinds[i], &p->arena, &p->model[i], err);
	}
	return code;
}

static uint32_t kind_of(const struct ff_pricer *p, uint32_t device)
{
	return p->machine->nodes[p->machine->node_of[device]].kind;
}

static const struct ff_device_model *model_of(const struct ff_pricer *p, uint32_t device)
{
	return p->model[kind_of(p, device)];
}

int ff_pricer_create(const struct ff_graph *g, const struct ff_machine *m,
		enum ff_estimate estimate, const struct ff_costs *costs, const char *costs_path,
		const char *graph_path, struct ff_pricer **ret, struct ff_error *err)
{
	struct ff_pricer *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return ff_fail_memory(err);
	p->graph = g;
	p->machine = m;
	p->estimate = estimate;
	p->costs = costs;
	p->costs_path = costs_path ? costs_path : "COSTS";
	p->graph_path = graph_path ? graph_path : "GRAPH";
	p->optimizer = ff_optimizer_preset();
	p->overlap = costs ? ff_costs_overlap(costs) : (struct ff_overlap_cost){-1, -1};
	ff_arena_init(&p->arena);
	ff_scratch_init(m, &p->scratch);
	code = find_models(p, err);
	if (code == FF_OK)
		code = ff_links_init(&p->links, m, estimate, costs, err);
	if (code == FF_OK)
		code = ff_alone_find(g, &p->arena, &p->alone, err);
	if (code == FF_OK && costs)
		code = check_costs(p, err);
	if (code == FF_OK && costs)
		code = fill_states(p, err);
	if (code < 0) {
		ff_pricer_destroy(p);
		return code;
	}
	*ret = p;
	return FF_OK;
}

void ff_pricer_destroy(struct ff_pricer *p)
{
	if (!p)
		return;
	ff_table_finish(&p->table);
	free(p->memo);
	ff_links_finish(&p->links);
	ff_arena_finish(&p->arena);
	free(p);
}

int ff_pricer_set_optimizer(struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	int code = p->costs ? check_rates(p, o, err) : FF_OK;

	if (code == FF_OK)
		p->optimizer = o;
	return code;
}

void ff_pricer_set_by_nodes(struct ff_pricer *p, bool by_nodes)
{
	p->links.by_nodes = by_nodes;
}

void ff_pricer_set_overlap(struct ff_pricer *p, struct ff_overlap_cost o)
{
	p->overlap = o;
}

const struct ff_optimizer *ff_price_optimizer(const struct ff_pricer *p)
{
	return p->optimizer;
}

void ff_pricer_set_clip(struct ff_pricer *p, bool clip)
{
	p->clip = clip;
}

bool ff_price_clips(const struct ff_pricer *p)
{
	return p->clip;
}

void ff_pricer_set_codec(struct ff_pricer *p, const struct ff_codec *codec)
{
	p->codec = codec;
}

const struct ff_codec *ff_price_codec(const struct ff_pricer *p)
{
	return p->codec;
}

/* Work. */

static const struct memo *memo_find(const struct ff_pricer *p, uint64_t hash)
{
	uint32_t at, i = ff_table_first(&p->table, hash, &at);

	return i == FF_NONE ? NULL : &p->memo[i];
}

static int memo_add(struct ff_pricer *p, uint64_t hash, struct memo new, struct ff_error *err)
{
	if (!p->memo || p->table.n == p->memo_cap) {
		uint32_t cap = p->memo_cap ? 2 * p->memo_cap : 1024;
		struct memo *memo = realloc(p->memo, cap * sizeof(*memo));

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

/* Time of `bytes` bytes that cross the memory bus of `kind` so many times. */
static double memory_us(const struct ff_device_kind *kind, double passes, double bytes)
{
	return LAUNCH_US + passes * bytes * 1e6 / kind->memory_bytes_per_s;
}

/* The roofline (Williams, Waterman, Patterson 2009): bound by arithmetic or by
 * memory, whichever takes longer. */
static double roofline_us(const struct ff_device_kind *kind, const struct ff_work *w)
{
	double peak = ff_device_flops_per_s(kind, ff_work_type(w));
	double flops_us = (double)ff_work_flops(w) * 1e6 / peak;
	double bytes_us = (double)ff_work_bytes(w) * 1e6 / kind->memory_bytes_per_s;

	return LAUNCH_US + fmax(flops_us, bytes_us);
}

/* To the nearest step of the grid that prices stand on (ff/price.h), at least one: where the
 * number that is added has its last bit. */
static double on_grid(double us)
{
	const double shift = 1.5 * 4503599627370496.0 * FF_PRICE_STEP_US;

	us = us + shift - shift;
	return us > FF_PRICE_STEP_US ? us : FF_PRICE_STEP_US;
}

/* By a model: kernels are worth the memo. */
static int price_by_model(struct ff_pricer *p, const struct ff_work *w, uint32_t device,
		struct memo *ret, struct ff_error *err)
{
	uint64_t hash = ff_hash_mix(ff_work_hash(w), kind_of(p, device));
	const struct memo *found = memo_find(p, hash);
	struct memo new = {0};
	int code;

	if (found) {
		*ret = *found;
		return FF_OK;
	}
	new.us = on_grid(ff_device_model_work_us(model_of(p, device), w, &new.inferred));
	new.alone_us = new.us;
	code = memo_add(p, hash, new, err);
	if (code == FF_OK)
		*ret = new;
	return code;
}

/* What `w` costs; measured costs, which are of one kind of device, are taken into
 * the memo. */
static int price(struct ff_pricer *p, const struct ff_work *w, uint32_t device, struct memo *ret,
		struct ff_error *err)
{
	const struct memo *found;
	const struct ff_cost *cost;
	struct memo new = {0};
	int64_t passed_bytes;
	char key[FF_KEY_BYTES];
	uint64_t hash;
	int code;

	if (model_of(p, device))
		return price_by_model(p, w, device, ret, err);
	if (!p->costs) { /* less work than to look it up */
		new.us = on_grid(roofline_us(ff_device_kind(p->machine, device), w));
		new.alone_us = new.us;
		*ret = new;
		return FF_OK;
	}
	passed_bytes = ff_passed_node(&p->passed, micro_batches(p, w->graph),
			(uint32_t)(w->node - w->graph->nodes), w->pass);
	hash = ff_hash_mix(ff_work_hash(w), (uint64_t)passed_bytes);
	found = memo_find(p, hash);
	if (found) {
		*ret = *found;
		return FF_OK;
	}
	ff_work_key(w, key);
	cost = ff_costs_find(p->costs, key, passed_bytes);
	if (!cost)
		return missing_cost(p, key, err);
	new.us = on_grid(cost->median_us);
	new.alone_us = cost->alone_us > 0 ? on_grid(cost->alone_us) : new.us;
	new.workspace_bytes = cost->workspace_bytes;
	code = memo_add(p, hash, new, err);
	if (code == FF_OK)
		*ret = new;
	return code;
}

int ff_price_work(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err)
{
	struct memo memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*us = memo.us;
	return code;
}

int ff_price_inferred(struct ff_pricer *p, const struct ff_work *w, uint32_t device,
		struct ff_inferred *ret, struct ff_error *err)
{
	struct memo memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*ret = memo.inferred;
	return code;
}

const struct ff_device_kind *ff_price_unmodelled(const struct ff_pricer *p)
{
	const struct ff_machine *m = p->machine;

	for (uint32_t i = 0; i < m->n_devices; i++)
		if (!p->costs && p->estimate == FF_ESTIMATE_MODEL && !model_of(p, i))
			return ff_device_kind(m, i);
	return NULL;
}

uint64_t ff_price_place(const struct ff_pricer *p, uint32_t node)
{
	uint64_t hash = p->costs && p->alone[node];

	for (uint32_t m = 1; m <= FF_MAX_MICRO_BATCHES && p->costs; m++)
		for (int pass = 0; pass < 2 && p->graph->batch % (int32_t)m == 0; pass++)
			hash = ff_hash_mix(hash, (uint64_t)ff_passed_node(&p->passed, m, node,
								 (enum ff_pass)pass));
	return hash;
}

int ff_price_part(struct ff_pricer *p, const struct ff_work *w, uint32_t node, uint32_t n_parts,
		uint32_t device, double *us, struct ff_error *err)
{
	/* of several micro-batches others may be under way */
	bool alone = n_parts == 1 && p->alone[node] && w->graph->batch == p->graph->batch;
	struct memo memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*us = alone ? memo.alone_us : memo.us;
	return code;
}

int ff_price_least(struct ff_pricer *p, const struct ff_work *w, uint32_t device, double *us,
		struct ff_error *err)
{
	struct memo memo;
	int code = price(p, w, device, &memo, err);

	if (code == FF_OK)
		*us = fmin(memo.us, memo.alone_us);
	return code;
}

int64_t ff_price_workspace(void *p, const struct ff_work *w)
{
	struct ff_pricer *pricer = p;
	struct memo memo;

	if (!pricer->costs)
		return ff_scratch_bytes(&pricer->scratch, w);
	/* A cost that is missing is reported by whoever asks for its time. */
	if (price(pricer, w, 0, &memo, NULL) != FF_OK)
		return 0;
	return memo.workspace_bytes;
}

/* Rates. */

/* At a measured rate, or (NULL) in so many passes over memory, as a model or its peak has it. */
static double rated_us(const struct ff_pricer *p, uint32_t device, const struct ff_rate *r,
		double passes, double bytes)
{
	if (!r && model_of(p, device))
		return ff_device_model_stream_us(model_of(p, device), passes * bytes);
	if (!r)
		return memory_us(ff_device_kind(p->machine, device), passes, bytes);
	return r->latency_us + bytes / r->bytes_per_us;
}

static double line_us(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		enum ff_rate_kind k, double passes, double bytes)
{
	const struct ff_rate *r = p->costs ? find_state(p, g)->rate[k] : NULL;

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

	return on_grid(line_us(p, p->graph, device, ff_optimizer_rate(o, type),
			update_passes(o, type), (double)bytes));
}

double ff_price_copied(const struct ff_pricer *p, uint32_t device, int64_t bytes)
{
	return on_grid(line_us(p, p->graph, device, FF_RATE_COPY, 1, (double)bytes));
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
		r = mv->gradients || k == FF_RATE_ADD ? ff_costs_rate(p->costs, k, FF_PASSED_NEAR)
						      : find_state(p, g)->rate[k];
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

	return n < 2 ? 0 : on_grid(ff_links_shared_us(&p->links, &x));
}

double ff_price_flat(const struct ff_pricer *p, enum ff_move_kind kind, uint32_t n,
		const uint16_t *device, int64_t bytes)
{
	int64_t elements = bytes / FF_F32_BYTES;
	enum ff_dtype type = kind == FF_MOVE_ALL_GATHER ? p->graph->dtype : FF_F32;
	const struct ff_shared x = {.kind = kind,
			.reduce = FF_REDUCE_SUM,
			.n = n,
			.device = device,
			.size = ff_dtype_bytes(type),
			.elements = elements,
			.chunk_bytes = elements / n * ff_dtype_bytes(type),
			.regular = true};

	return n < 2 ? 0 : on_grid(ff_links_shared_us(&p->links, &x));
}

/* To encode or decode `bytes` in so many kernels, as measured; else as often as the codec's row
 * says what adding gradients to others takes. */
static double code_us(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_codec *c,
		uint32_t device, enum ff_rate_kind of, double times, double bytes)
{
	enum ff_rate_kind kind = (enum ff_rate_kind)(of + c->id);
	const struct ff_rate *r = p->costs ? find_state(p, g)->rate[kind] : NULL;
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

	if (!c || n < 2)
		return ff_price_sync(p, n, device, bytes);
	chunk = ff_codec_bytes(c, ff_codec_most(c, elements, n));
	gather.elements = ff_codec_bytes(c, elements);
	gather.chunk_bytes = chunk;
	gather.regular = ff_codec_most(c, elements, n) * n == elements;
	return on_grid(coding_us(p, n, device, elements) +
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
	return on_grid((us + worst) / every);
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
		r = ff_costs_load_rate(
				p->costs, FF_RATE_LOAD_IDS, each, find_state(p, g)->passed_bytes);
	if (p->costs && !r)
		r = ff_costs_load_rate(
				p->costs, FF_RATE_LOAD, each, find_state(p, g)->passed_bytes);
	return slowest_us(p, mv, r, memory_passes[FF_RATE_LOAD], bytes);
}

double ff_price_move(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv)
{
	double us;

	if (mv->kind == FF_MOVE_LOAD)
		return on_grid(load_us(p, g, mv));
	us = local_us(p, g, mv, FF_RATE_COPY, mv->copied_bytes) +
	     local_us(p, g, mv, FF_RATE_ADD, mv->added_bytes) + messages_coding_us(p, g, mv);
	us += ff_move_is_messages(mv->kind) ? ff_links_messages_us(&p->links, mv)
					    : collective_us(p, mv);
	return on_grid(us);
}

/* What one device does by itself is its processor's alone. */
double ff_price_beside(const struct ff_pricer *p, uint32_t n, const uint16_t *device, double us)
{
	const uint32_t *node_of = p->machine->node_of;
	struct ff_overlap_cost o = p->overlap;
	double share;

	if (!p->machine->overlap || !(us > 0))
		return 0;
	if (n < 2)
		share = o.inside >= 0 || o.between >= 0 ? 1 : 0;
	else
		share = node_of[device[0]] == node_of[device[n - 1]] ? o.inside : o.between;
	return share > 0 ? on_grid(share * us) : 0;
}

double ff_price_add(
		const struct ff_pricer *p, const struct ff_graph *g, uint32_t device, int64_t bytes)
{
	return bytes ? on_grid(rate_us(p, g, device, FF_RATE_ACCUMULATE, (double)bytes)) : 0;
}
