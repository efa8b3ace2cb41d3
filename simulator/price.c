/* Prices: memoised costs of work, rates for local copies and updates, and the
 * link model for messages and rings.  docs/simulator.md derives the formulas.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/price.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/hash.h"
#include "ff/micro.h"
#include "ff/passed.h"

_Static_assert(FF_KEY_BYTES <= FF_COST_KEY_BYTES, "every work's key must fit a cost's");

/* Analytic: starting a pass of an operator, a copy or an update costs this
 * much beside the roofline; what one CUDA kernel launch takes. */
#define LAUNCH_US 5.0
/* Analytic: how often a byte crosses the memory bus when it is copied (read,
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
	double us;
	int64_t workspace_bytes;
};

/* What caches hold when batches are cut into so many micro-batches, and the rates that go
 * with it. */
struct state {
	int64_t passed_bytes;
	const struct ff_rate *rate[FF_RATE_COUNT];
};
#define MOST_STATES (2 * 64) /* as ff_passed_bytes rounds: two for each power of two */

/* Bytes of one move, by node; zero between moves. */
struct node_tally {
	double inside_bytes, out_bytes, in_bytes;
};

struct ff_pricer {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	const struct ff_costs *costs; /* NULL: analytic */
	const char *costs_path, *graph_path;
	const struct ff_optimizer *optimizer;
	struct ff_link *inside; /* by node: the machine's, or as calibrated */
	struct ff_table table;  /* ff_work_hash to memo */
	struct memo *memo;
	uint32_t memo_cap;
	struct node_tally *node; /* scratch of ff_price_move */
	uint32_t n_states;
	struct state state[MOST_STATES];
	uint8_t state_of[FF_MAX_MICRO_BATCHES + 1];
};

/* All that updates by `o` and everything else need. */
static int check_rates(
		const struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	const enum ff_rate_kind needed[] = {FF_RATE_COPY, FF_RATE_ADD, FF_RATE_ACCUMULATE,
			FF_RATE_LOAD, ff_optimizer_rate(o, p->graph->dtype)};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!ff_costs_rate(p->costs, needed[i], 0))
			return ff_fail(err, FF_E_INPUT,
					"%s has no \"%s\" rate: run ffprof %s --machine %s -o %s",
					p->costs_path, ff_rate_name(needed[i]), p->graph_path,
					p->machine->name, p->costs_path);
	return FF_OK;
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

static void fill_states(struct ff_pricer *p)
{
	for (uint32_t m = 1; m <= FF_MAX_MICRO_BATCHES; m++)
		if (p->graph->batch % (int32_t)m == 0)
			p->state_of[m] = add_state(
					p, ff_passed_bytes(p->graph, p->machine->n_devices, m));
}

/* Of `g`, a micro-batch's graph; of the whole batch's where it is another one. */
static const struct state *find_state(const struct ff_pricer *p, const struct ff_graph *g)
{
	int32_t m = g->batch > 0 ? p->graph->batch / g->batch : 1;

	return &p->state[p->state_of[m > 0 && m <= FF_MAX_MICRO_BATCHES ? m : 1]];
}

static void fill_links(struct ff_pricer *p)
{
	struct ff_rate link = {0};

	if (p->costs)
		link = ff_costs_link(p->costs);
	for (uint32_t i = 0; i < p->machine->n_nodes; i++) {
		p->inside[i] = p->machine->nodes[i].inside;
		if (link.bytes_per_us > 0) {
			p->inside[i].latency_us = link.latency_us;
			p->inside[i].bytes_per_us = link.bytes_per_us;
		}
	}
}

int ff_pricer_create(const struct ff_graph *g, const struct ff_machine *m,
		const struct ff_costs *costs, const char *costs_path, const char *graph_path,
		struct ff_pricer **ret, struct ff_error *err)
{
	struct ff_pricer *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return ff_fail_memory(err);
	p->graph = g;
	p->machine = m;
	p->costs = costs;
	p->costs_path = costs_path ? costs_path : "COSTS";
	p->graph_path = graph_path ? graph_path : "GRAPH";
	p->optimizer = ff_optimizer_preset();
	p->inside = calloc(m->n_nodes, sizeof(*p->inside));
	p->node = calloc(m->n_nodes, sizeof(*p->node));
	code = p->inside && p->node ? FF_OK : ff_fail_memory(err);
	if (code == FF_OK && costs)
		code = check_costs(p, err);
	if (code < 0) {
		ff_pricer_destroy(p);
		return code;
	}
	if (costs)
		fill_states(p);
	fill_links(p);
	*ret = p;
	return FF_OK;
}

void ff_pricer_destroy(struct ff_pricer *p)
{
	if (!p)
		return;
	ff_table_finish(&p->table);
	free(p->memo);
	free(p->inside);
	free(p->node);
	free(p);
}

int ff_pricer_set_optimizer(struct ff_pricer *p, const struct ff_optimizer *o, struct ff_error *err)
{
	int code = p->costs ? check_rates(p, o, err) : FF_OK;

	if (code == FF_OK)
		p->optimizer = o;
	return code;
}

const struct ff_optimizer *ff_price_optimizer(const struct ff_pricer *p)
{
	return p->optimizer;
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
static double analytic_us(const struct ff_device_kind *kind, double passes, double bytes)
{
	return LAUNCH_US + passes * bytes * 1e6 / kind->memory_bytes_per_s;
}

/* The roofline (Williams, Waterman, Patterson 2009): bound by arithmetic or by
 * memory, whichever takes longer. */
static double roofline_us(const struct ff_device_kind *kind, const struct ff_work *w)
{
	double peak = ff_device_flops_per_s(kind, ff_work_type(w));
	double flops_us = (double)ff_work_flops(w) * 1e6 / peak;
	double memory_us = (double)ff_work_bytes(w) * 1e6 / kind->memory_bytes_per_s;

	return LAUNCH_US + fmax(flops_us, memory_us);
}

/* To the nearest step of the grid that prices stand on (ff/price.h), at least one: where the
 * number that is added has its last bit. */
static double on_grid(double us)
{
	const double shift = 1.5 * 4503599627370496.0 * FF_PRICE_STEP_US;

	us = us + shift - shift;
	return us > FF_PRICE_STEP_US ? us : FF_PRICE_STEP_US;
}

/* What `w` costs; measured costs, which are of one kind of device, are taken into
 * the memo. */
static int price(struct ff_pricer *p, const struct ff_work *w, uint32_t device, struct memo *ret,
		struct ff_error *err)
{
	const struct memo *found;
	const struct ff_cost *cost;
	const struct state *state;
	struct memo new = {0};
	char key[FF_KEY_BYTES];
	uint64_t hash;
	int code;

	if (!p->costs) { /* less work than to look it up */
		*ret = (struct memo){
				.us = on_grid(roofline_us(ff_device_kind(p->machine, device), w))};
		return FF_OK;
	}
	state = find_state(p, w->graph);
	hash = ff_hash_mix(ff_work_hash(w), (uint64_t)state->passed_bytes);
	found = memo_find(p, hash);
	if (found) {
		*ret = *found;
		return FF_OK;
	}
	ff_work_key(w, key);
	cost = ff_costs_find(p->costs, key, state->passed_bytes);
	if (!cost)
		return missing_cost(p, key, err);
	new.us = on_grid(cost->median_us);
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

int64_t ff_price_workspace(void *p, const struct ff_work *w)
{
	struct ff_pricer *pricer = p;
	struct memo memo;

	/* A cost that is missing is reported by whoever asks for its time. */
	if (!pricer->costs || price(pricer, w, 0, &memo, NULL) != FF_OK)
		return 0;
	return memo.workspace_bytes;
}

/* Rates. */

/* At the measured rate `k`, or in so many passes over memory. */
static double line_us(const struct ff_pricer *p, const struct ff_graph *g, uint32_t device,
		enum ff_rate_kind k, double passes, double bytes)
{
	const struct ff_rate *r;

	if (!p->costs)
		return analytic_us(ff_device_kind(p->machine, device), passes, bytes);
	r = find_state(p, g)->rate[k];
	return r->latency_us + bytes / r->bytes_per_us;
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

double ff_price_norm(const struct ff_pricer *p, uint32_t device, int64_t bytes)
{
	return on_grid(line_us(p, p->graph, device, FF_RATE_COPY, 1, (double)bytes));
}

/* What the slowest device of `mv` takes for `bytes` at rate `k`. */
static double local_us(const struct ff_pricer *p, const struct ff_graph *g,
		const struct ff_move *mv, enum ff_rate_kind k, int64_t bytes)
{
	double worst = 0;

	for (uint32_t i = 0; i < mv->n_devices && bytes; i++)
		worst = fmax(worst, rate_us(p, g, mv->device[i], k, (double)bytes));
	return worst;
}

/* Links. */

/* `device` is ascending and a node's devices follow each other. */
static bool one_node(const struct ff_machine *m, uint32_t n, const uint16_t *device)
{
	return !n || m->node_of[device[0]] == m->node_of[device[n - 1]];
}

/* Piecewise linear; below the first size its time, beyond the last the last
 * slope (or proportional, where noise made that slope useless). */
static double table_us(const struct ff_comm_cost *t, double bytes)
{
	uint32_t i = 1;
	double last, size;
	double slope = 0;

	if (bytes <= t->bytes[0])
		return t->us[0];
	while (i < t->n && t->bytes[i] < bytes)
		i++;
	if (i < t->n) {
		double share = (bytes - t->bytes[i - 1]) / (t->bytes[i] - t->bytes[i - 1]);

		return t->us[i - 1] + share * (t->us[i] - t->us[i - 1]);
	}
	last = t->us[t->n - 1];
	size = t->bytes[t->n - 1];
	if (t->n > 1)
		slope = (last - t->us[t->n - 2]) / (size - t->bytes[t->n - 2]);
	if (!(slope > 0))
		slope = size > 0 ? last / size : 0;
	return last + slope * (bytes - size);
}

/* The measured table that applies, or NULL. */
static const struct ff_comm_cost *find_table(const struct ff_pricer *p, enum ff_move_kind kind,
		uint32_t n, const uint16_t *device)
{
	if (!p->costs || !one_node(p->machine, n, device))
		return NULL;
	return ff_costs_comm(p->costs, kind, n);
}

/* One step of a ring in which every device sends `bytes` to its successor: the
 * slowest of the links used.  A shared link carries all hops of its node. */
static double ring_step_us(
		const struct ff_pricer *p, uint32_t n, const uint16_t *device, double bytes)
{
	const struct ff_machine *m = p->machine;
	double worst = 0;

	for (uint32_t i = 0, k; i < n; i += k) {
		uint32_t node = m->node_of[device[i]];
		const struct ff_link *in, *net;
		uint32_t hops;

		for (k = 1; i + k < n && m->node_of[device[i + k]] == node;)
			k++;
		in = &p->inside[node];
		net = &m->nodes[node].network;
		hops = k == n ? n : k - 1;
		if (hops)
			worst = fmax(worst, in->latency_us + bytes * (in->shared ? hops : 1) /
									     in->bytes_per_us);
		if (k < n)
			worst = fmax(worst, net->latency_us + bytes / net->bytes_per_us);
	}
	return worst;
}

/* Rings of Thakur, Rabenseifner, Gropp 2005: all-reduce is a reduce-scatter
 * and an all-gather, each p - 1 steps of the largest chunk. */
static double collective_us(const struct ff_pricer *p, enum ff_move_kind kind, uint32_t n,
		const uint16_t *device, double bytes, double chunk_bytes)
{
	const struct ff_comm_cost *table = find_table(p, kind, n, device);
	double steps = kind == FF_MOVE_ALL_REDUCE ? 2.0 * (n - 1) : n - 1.0;

	if (table)
		return table_us(table, bytes);
	return steps * ring_step_us(p, n, device, chunk_bytes);
}

static double reduce_chunk_bytes(int64_t elements, uint32_t n)
{
	int64_t chunk = (elements + n - 1) / n;

	return (double)(chunk * FF_F32_BYTES);
}

double ff_price_sync(const struct ff_pricer *p, uint32_t n, const uint16_t *device, int64_t bytes)
{
	if (n < 2)
		return 0;
	return on_grid(collective_us(p, FF_MOVE_ALL_REDUCE, n, device, (double)bytes,
			reduce_chunk_bytes(bytes / FF_F32_BYTES, n)));
}

static double move_collective_us(const struct ff_pricer *p, const struct ff_move *mv)
{
	int64_t bytes = ff_region_volume(&mv->region) * ff_dtype_bytes(mv->type);

	if (mv->n_devices < 2)
		return 0;
	return collective_us(p, mv->kind, mv->n_devices, mv->device, (double)bytes,
			(double)mv->chunk_bytes);
}

/* Widens `us` and `latency_us` to a link that carries `bytes`, if any. */
static void use_link(const struct ff_link *link, double bytes, double *us, double *latency_us)
{
	if (!(bytes > 0))
		return;
	*us = fmax(*us, bytes / link->bytes_per_us);
	*latency_us = fmax(*latency_us, link->latency_us);
}

/* Where the busiest device has messages with all others that was measured as such; else the
 * first of its rounds was, where every device sends to one. */
static bool by_table(const struct ff_pricer *p, const struct ff_move *mv, uint32_t rounds,
		double latency_us, double *us)
{
	bool all = rounds + 1 == mv->n_devices;
	const struct ff_comm_cost *table =
			all ? find_table(p, FF_MOVE_ALL_TO_ALL, mv->n_devices, mv->device) : NULL;

	if (table) {
		*us = table_us(table, (double)mv->busiest_bytes);
		return true;
	}
	table = find_table(p, FF_MOVE_POINT_TO_POINT, mv->n_devices, mv->device);
	if (!rounds || !table)
		return false;
	*us = table_us(table, (double)mv->busiest_bytes) + (rounds - 1) * latency_us;
	return true;
}

/* The busiest link's time, and a latency for each message of the busiest device. */
static double messages_us(const struct ff_pricer *p, const struct ff_move *mv)
{
	const uint32_t *node_of = p->machine->node_of;
	double us = 0, latency_us = 0, measured_us;
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_traffic *t = &mv->traffic[i];
		struct node_tally *node = &p->node[node_of[mv->device[i]]];

		node->inside_bytes += (double)t->sent_inside;
		node->out_bytes += (double)t->sent_outside;
		node->in_bytes += (double)t->received_outside;
		rounds = t->n_sent > rounds ? t->n_sent : rounds;
		rounds = t->n_received > rounds ? t->n_received : rounds;
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		uint32_t node = node_of[mv->device[i]];
		const struct ff_link *in = &p->inside[node];
		const struct ff_traffic *t = &mv->traffic[i];
		const struct node_tally *all = &p->node[node];

		use_link(in,
				in->shared ? all->inside_bytes
					   : fmax((double)t->sent_inside,
							     (double)t->received_inside),
				&us, &latency_us);
		use_link(&p->machine->nodes[node].network, fmax(all->out_bytes, all->in_bytes), &us,
				&latency_us);
	}
	for (uint32_t i = 0; i < mv->n_devices; i++)
		p->node[node_of[mv->device[i]]] = (struct node_tally){0};
	return by_table(p, mv, rounds, latency_us, &measured_us) ? measured_us
								 : us + rounds * latency_us;
}

double ff_price_move(const struct ff_pricer *p, const struct ff_graph *g, const struct ff_move *mv)
{
	double us;

	if (mv->kind == FF_MOVE_LOAD)
		return on_grid(local_us(p, g, mv, FF_RATE_LOAD,
				ff_region_volume(&mv->region) * ff_dtype_bytes(mv->type)));
	us = local_us(p, g, mv, FF_RATE_COPY, mv->copied_bytes) +
	     local_us(p, g, mv, FF_RATE_ADD, mv->added_bytes);
	us += ff_move_is_messages(mv->kind) ? messages_us(p, mv) : move_collective_us(p, mv);
	return on_grid(us);
}

double ff_price_add(
		const struct ff_pricer *p, const struct ff_graph *g, uint32_t device, int64_t bytes)
{
	return bytes ? on_grid(rate_us(p, g, device, FF_RATE_ACCUMULATE, (double)bytes)) : 0;
}
