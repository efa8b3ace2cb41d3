/* Degrees of parallelism of a whole network.  SPDX-License-Identifier: Apache-2.0 */
#include "degrees.h"

#include <math.h>
#include <string.h>

#include "space/carry_config.h"
#include "space/tensor.h"

/* ---- within samples, and by sample ---- */

static bool has_room(const struct ff_node *n, const uint16_t *degree, uint32_t d, uint32_t by)
{
	return by * degree[d] <= (uint32_t)n->dim[d].extent;
}

int ff_proposer_find_chains(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err)
{
	struct ff_tensor t;
	int code = ff_tensor_find(p->graph, 2, a, &t, err);

	if (code == FF_OK && t.n_rows)
		p->chain_dim = t.dim;
	return code;
}

/* The dim but that of samples that is split most of those that may be split `by` times as much or,
 * if not `more`, a `by`-th as much; FF_NONE: there is none. */
static uint32_t split_dim(const struct ff_node *n, const uint16_t *degree, uint32_t by, bool more)
{
	uint32_t sample = ff_node_sample_dim(n), best = FF_NONE;

	for (uint32_t d = 0; d < n->n_dims; d++) {
		bool may = more ? has_room(n, degree, d, by) : degree[d] % by == 0;

		if (d != sample && degree[d] > 1 && may &&
				(best == FF_NONE || degree[d] > degree[best]))
			best = d;
	}
	return best;
}

/* What is split otherwise, or computed by several alike, gives a factor of `by` to samples. */
static bool to_samples(const struct ff_node *n, uint32_t by, uint16_t *degree, uint16_t *replicas)
{
	uint32_t sample = ff_node_sample_dim(n), from = split_dim(n, degree, by, false);

	if (sample == FF_NONE || !has_room(n, degree, sample, by))
		return false;
	if (from == FF_NONE && *replicas % by)
		return false;
	if (from == FF_NONE)
		*replicas = (uint16_t)(*replicas / by);
	else
		degree[from] = (uint16_t)(degree[from] / by);
	degree[sample] = (uint16_t)(by * degree[sample]);
	return true;
}

/* Samples give one to what is split otherwise, to the dim that chains of products are split along,
 * or to replicas of what lies between chains. */
static bool from_samples(const struct ff_proposer *p, uint32_t node, uint32_t by, uint16_t *degree,
		uint16_t *replicas)
{
	const struct ff_node *n = &p->graph->nodes[node];
	uint32_t sample = ff_node_sample_dim(n), to = split_dim(n, degree, by, true);

	if (sample == FF_NONE || degree[sample] % by)
		return false;
	if (to == FF_NONE && p->chain_dim)
		to = p->chain_dim[node];
	if (to == sample || (to != FF_NONE && !has_room(n, degree, to, by)))
		return false;
	if (to == FF_NONE && !p->chain_dim && *replicas == 1)
		return false;
	if (to == FF_NONE)
		*replicas = (uint16_t)(by * *replicas);
	else
		degree[to] = (uint16_t)(by * degree[to]);
	degree[sample] = (uint16_t)(degree[sample] / by);
	return true;
}

/* Neighbours share what is within samples, then replicas, and samples are the furthest apart: from
 * the same first device on, as far apart as before. */
static void lay_out(const struct ff_node *n, const struct ff_progression *on,
		const uint16_t *degree, uint16_t replicas, struct ff_config *ret)
{
	uint32_t sample = ff_node_sample_dim(n), stride = on->step;

	*ret = (struct ff_config){.replicas = replicas, .start = (uint16_t)on->start};
	memcpy(ret->degree, degree, sizeof(ret->degree));
	for (uint32_t d = n->n_dims; d-- > 0;) {
		if (d == sample)
			continue;
		ret->stride[d] = degree[d] > 1 ? (uint16_t)stride : 0;
		stride *= degree[d];
	}
	ret->replica_stride = replicas > 1 ? (uint16_t)stride : 0;
	stride *= replicas;
	ret->stride[sample] = degree[sample] > 1 ? (uint16_t)stride : 0;
	ret->n_parts = stride * degree[sample] / on->step;
}

/* What a proposal does to the degrees of all operators on as many devices: within samples they are
 * divided by `give`, or multiplied by `take`, or both; 1: neither. */
struct exchange {
	uint32_t give, take;
};

static bool change(const struct ff_proposer *p, uint32_t node, const struct exchange *e,
		struct ff_config *ret)
{
	const struct ff_config *own = ff_proposer_config(p, node);
	const struct ff_node *n = &p->graph->nodes[node];
	struct ff_progression on = ff_config_progression(n, own);
	uint16_t degree[FF_MAX_DIMS], replicas = own->replicas;
	struct ff_error why;

	memcpy(degree, own->degree, sizeof(degree));
	if (e->take > 1 && !from_samples(p, node, e->take, degree, &replicas))
		return false;
	if (e->give > 1 && !to_samples(n, e->give, degree, &replicas))
		return false;
	if (replicas > 1 && !(p->space->what & FF_SPACE_REPLICAS))
		return false;
	lay_out(n, &on, degree, replicas, ret);
	return ff_config_check(n, ret, p->space->n_devices, &why) == FF_OK;
}

/* The least prime factor of `n`, and the greatest; 2 for 1. */
static void find_factors(uint32_t n, uint32_t *least, uint32_t *greatest)
{
	*least = *greatest = 2;
	for (uint32_t k = 2, first = 1; n > 1; k++)
		for (; n % k == 0; n /= k, first = 0) {
			*least = first ? k : *least;
			*greatest = k;
		}
}

/* Factors of the number of devices, 2 where it is a power of that; where there are two primes they
 * may also change places, as three shares of samples by two do with two by three. */
static struct exchange draw_exchange(struct ff_proposer *p, uint32_t parts)
{
	bool more = ff_random_below(&p->random, 2);
	uint32_t least, greatest, by;

	find_factors(parts, &least, &greatest);
	if (least == greatest)
		return more ? (struct exchange){1, least} : (struct exchange){least, 1};
	by = ff_random_below(&p->random, 2) ? least : greatest;
	if (ff_random_below(&p->random, 2))
		return (struct exchange){by, least + greatest - by};
	return more ? (struct exchange){1, by} : (struct exchange){by, 1};
}

void ff_propose_degrees(struct ff_proposer *p)
{
	uint32_t like = p->node[ff_random_below(&p->random, p->n_nodes)];
	uint32_t parts = ff_proposer_config(p, like)->n_parts;
	struct exchange e = draw_exchange(p, parts);
	struct ff_config config;

	for (uint32_t i = 0; i < p->n_nodes; i++) {
		const struct ff_config *own = ff_proposer_config(p, p->node[i]);

		if (own->n_parts == parts && !own->list && change(p, p->node[i], &e, &config))
			ff_transaction_set(p->t, p->node[i], &config);
	}
}

/* ---- shares of all operators at once ---- */

static bool is_cut(const struct ff_operand *o, uint32_t d)
{
	for (uint32_t axis = 0; axis < o->rank; axis++)
		if (o->axis[axis].n_terms > 0 && (uint32_t)o->axis[axis].term[0].dim == d)
			return true;
	return false;
}

/* Elements of data read and written that are cut where dim `d` is. */
static double cut_elements(const struct ff_graph *g, const struct ff_node *n, uint32_t d)
{
	double sum = 0;

	for (uint32_t k = 0; k < n->n_data; k++)
		if (is_cut(&n->in_map[k], d))
			sum += (double)ff_value_volume(&g->values[g->edges[n->in + k].value]);
	for (uint32_t k = 0; k < ff_node_outputs(n); k++)
		if (is_cut(&n->out_map[k], d))
			sum += (double)ff_value_volume(&g->values[n->out + k]);
	return sum;
}

/* The dim but that of samples, long enough for `shares`, along which most data is cut, so that it
 * need not be gathered; of equals the one that its input is cut along, or the first.  FF_NONE:
 * there is none. */
static uint32_t data_dim(struct ff_proposer *p, uint32_t node, uint32_t shares)
{
	const struct ff_node *n = &p->graph->nodes[node];
	struct ff_config follows = {.replicas = 1};
	uint32_t best = FF_NONE;
	double most = 0;

	if (!n->n_data || !ff_proposer_follow(p, node, 0, &follows))
		follows = (struct ff_config){.replicas = 1};

	for (uint32_t d = 0; d < n->n_dims; d++) {
		double cut;

		if (d == ff_node_sample_dim(n) || n->dim[d].label == FF_DIM_REDUCTION ||
				n->dim[d].extent < (int32_t)shares)
			continue;
		cut = cut_elements(p->graph, n, d);
		if (cut > most || (cut == most && cut > 0 && follows.degree[d] > 1)) {
			most = cut;
			best = d;
		}
	}
	return best;
}

/* Some number of shares of samples on some devices: of chains, cut as these are, or along the dim
 * that cuts most data. */
struct shares {
	struct ff_progression on;
	uint32_t samples;
	bool chains;
};

static bool share(
		struct ff_proposer *p, uint32_t node, const struct shares *s, struct ff_config *ret)
{
	const struct ff_node *n = &p->graph->nodes[node];
	uint32_t sample = ff_node_sample_dim(n), rest = s->on.n / s->samples, to;
	uint16_t degree[FF_MAX_DIMS], replicas = 1;
	struct ff_error why;

	if (sample == FF_NONE || n->dim[sample].extent < (int32_t)s->samples)
		return false;
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		degree[d] = 1;
	degree[sample] = (uint16_t)s->samples;
	to = s->chains ? p->chain_dim[node] : data_dim(p, node, rest);
	if (rest > 1 && to == FF_NONE && !(p->space->what & FF_SPACE_REPLICAS))
		return false;
	if (to == FF_NONE)
		replicas = (uint16_t)rest;
	else
		degree[to] = (uint16_t)(degree[to] * rest);
	lay_out(n, &s->on, degree, replicas, ret);
	return ff_config_check(n, ret, p->space->n_devices, &why) == FF_OK;
}

uint32_t ff_proposer_usual_parts(const struct ff_proposer *p, const struct ff_strategy *s)
{
	uint32_t best = 0, most = 0;

	for (uint32_t i = 0; i < p->space->n_divisors; i++) {
		uint32_t n = 0;

		for (uint32_t k = 0; k < p->n_nodes; k++)
			n += s->config[p->node[k]].n_parts == p->space->divisor[i];
		if (n > most) {
			most = n;
			best = p->space->divisor[i];
		}
	}
	return best;
}

/* Samples in as many shares as the divisors of `on`, one after another; false: there are not `i`.
 */
static bool find_shares(const struct ff_proposer *p, struct ff_progression on, uint32_t *i,
		struct shares *ret)
{
	for (uint32_t k = 0; k < p->space->n_divisors && p->space->divisor[k] <= on.n; k++)
		for (uint32_t chains = 0; chains < (p->chain_dim ? 2 : 1); chains++) {
			uint32_t samples = p->space->divisor[k];

			if (on.n % samples || (chains && samples == on.n) || (*i)--)
				continue;
			*ret = (struct shares){on, samples, chains};
			return true;
		}
	return false;
}

static bool is_on(const struct ff_progression *on, uint32_t device)
{
	return on->n && device >= on->start && (device - on->start) % on->step == 0 &&
	       (device - on->start) / on->step < on->n;
}

/* The devices of an operator, or, if it is on some of those that most before it are on, these;
 * false: it is elsewhere. */
static bool find_usual(const struct ff_proposer *p, uint32_t node, uint32_t usual,
		struct ff_progression *on)
{
	const struct ff_config *own = ff_proposer_config(p, node);
	struct ff_progression at = ff_config_progression(&p->graph->nodes[node], own);

	if (own->list)
		return false;
	if (at.n == usual)
		*on = at;
	return is_on(on, at.start) && is_on(on, at.start + (at.n - 1) * at.step);
}

bool ff_proposer_share(struct ff_proposer *p, uint32_t *i)
{
	uint32_t usual = ff_proposer_usual_parts(p, p->base), all = p->space->n_devices;
	struct ff_progression node = {p->alone->first, 1, p->alone->count}, on = {0};
	struct ff_config config;
	struct shares s;
	bool here = find_shares(p, (struct ff_progression){0, 1, usual}, i, &s);
	bool found = here ||
		     (all != usual && find_shares(p, (struct ff_progression){0, 1, all}, i, &s));

	if (!found && node.n < all && (node.n != usual || node.start))
		found = find_shares(p, node, i, &s);
	for (uint32_t k = 0; found && k < p->n_nodes; k++) {
		if (here && !find_usual(p, p->node[k], usual, &on))
			continue;
		if (here)
			s.on = on;
		if (share(p, p->node[k], &s, &config))
			ff_transaction_set(p->t, p->node[k], &config);
	}
	return found;
}

/* ---- stages ---- */

/* A stage's devices, and what of it comes before its cut. */
struct ff_depths_stage {
	uint32_t first, n;               /* devices */
	double all_s, before_s, least_s; /* of its operators; before the next one; how far the
					  * halves of the best cut so far are apart */
	uint32_t last, cut; /* operator before the next one; first of the second half */
};

int ff_depths_init(struct ff_depths *d, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_arena *a, struct ff_error *err)
{
	int code;

	*d = (struct ff_depths){.graph = g};
	code = ff_repeats_find(g, NULL, 1, a, &d->repeats, err);
	d->cost_s = ff_arena_array(a, g->n_nodes, sizeof(*d->cost_s));
	d->stage = ff_arena_array(a, g->n_nodes, sizeof(*d->stage));
	if (code == FF_OK && (!d->cost_s || !d->stage))
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i))
			d->cost_s[i] = ff_node_roofline_s(g, m, i);
	return code;
}

static uint32_t last_device(const struct ff_node *n, const struct ff_config *c)
{
	uint32_t last = c->start + (c->replicas - 1u) * c->replica_stride;

	for (uint32_t d = 0; d < n->n_dims; d++)
		last += (c->degree[d] - 1u) * c->stride[d];
	return last;
}

/* Devices and times of all stages; 0: they are not numbered as they follow each other, or someone
 * is on a list of devices. */
static uint32_t find_stages(const struct ff_depths *d, const struct ff_strategy *s)
{
	const struct ff_graph *g = d->graph;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_config *c = &s->config[i];
		struct ff_depths_stage *at;
		uint32_t end;

		if (!ff_node_needs_config(g, i))
			continue;
		if (c->list || s->stage[i] > n)
			return 0;
		at = &d->stage[s->stage[i]];
		if (s->stage[i] == n)
			d->stage[n++] = (struct ff_depths_stage){.first = c->start,
					.n = 1,
					.least_s = INFINITY,
					.last = FF_NONE,
					.cut = FF_NONE};
		end = at->first + at->n;
		at->first = c->start < at->first ? c->start : at->first;
		end = last_device(&g->nodes[i], c) + 1 > end ? last_device(&g->nodes[i], c) + 1
							     : end;
		at->n = end - at->first;
		at->all_s += d->cost_s[i];
	}
	return n;
}

/* Cuts each stage between two units where its halves take most alike; false: one has no such place.
 */
static bool cut_stages(const struct ff_depths *d, const struct ff_strategy *s, uint32_t n_stages)
{
	for (uint32_t i = 0; i < d->graph->n_nodes; i++) {
		struct ff_depths_stage *at;
		double apart_s;

		if (!ff_node_needs_config(d->graph, i))
			continue;
		at = &d->stage[s->stage[i]];
		apart_s = fabs(at->all_s - 2 * at->before_s);
		if (at->last != FF_NONE && d->repeats.unit[i] != d->repeats.unit[at->last] &&
				apart_s < at->least_s) {
			at->least_s = apart_s;
			at->cut = i;
		}
		at->before_s += d->cost_s[i];
		at->last = i;
	}
	for (uint32_t i = 0; i < n_stages; i++)
		if (d->stage[i].cut == FF_NONE)
			return false;
	return true;
}

/* Whether `c` is on all devices of a stage, and shares of samples are the furthest apart. */
static bool fills(const struct ff_node *n, const struct ff_depths_stage *at,
		const struct ff_config *c)
{
	struct ff_progression on = ff_config_progression(n, c);
	uint32_t sample = ff_node_sample_dim(n);

	if (sample == FF_NONE || on.start != at->first || on.n * on.step != at->n)
		return false;
	return c->degree[sample] == 1 || c->stride[sample] * c->degree[sample] == at->n;
}

/* Half of the shares of samples, which the stage's halves of the devices have each. */
static bool halve_samples(
		const struct ff_node *n, const struct ff_depths_stage *at, struct ff_config *c)
{
	uint32_t sample = ff_node_sample_dim(n);

	if (c->n_parts == 1)
		return true;
	if (!fills(n, at, c) || c->degree[sample] % 2)
		return false;
	c->degree[sample] /= 2;
	c->n_parts /= 2;
	if (c->degree[sample] == 1)
		c->stride[sample] = 0;
	return true;
}

/* Stages take turns on no devices: each has its own. */
static bool is_plain(const struct ff_strategy *s)
{
	return ff_strategy_chunks(s) == 1;
}

bool ff_depths_twice(const struct ff_depths *d, struct ff_strategy *s)
{
	uint32_t n = is_plain(s) ? find_stages(d, s) : 0;

	if (!n || !cut_stages(d, s, n))
		return false;
	for (uint32_t i = 0; i < d->graph->n_nodes; i++) {
		const struct ff_depths_stage *at;
		struct ff_config *c = &s->config[i];

		if (!ff_node_needs_config(d->graph, i))
			continue;
		at = &d->stage[s->stage[i]];
		if (at->n % 2 || !halve_samples(&d->graph->nodes[i], at, c))
			return false;
		if (i >= at->cut && c->start < at->first + at->n / 2)
			c->start = (uint16_t)(c->start + at->n / 2);
		s->stage[i] = (uint16_t)(2 * s->stage[i] + (i >= at->cut));
	}
	return true;
}

/* Twice the shares of samples, over the devices of two stages. */
static bool double_samples(
		const struct ff_node *n, const struct ff_depths_stage *at, struct ff_config *c)
{
	uint32_t sample = ff_node_sample_dim(n);

	if (c->n_parts == 1 && (at->n > 1 || sample == FF_NONE))
		return true; /* it is on one device */
	if (!fills(n, at, c))
		return false;
	c->stride[sample] = (uint16_t)(at->n / c->degree[sample]);
	c->degree[sample] = (uint16_t)(2 * c->degree[sample]);
	c->n_parts *= 2;
	return true;
}

bool ff_depths_half(const struct ff_depths *d, struct ff_strategy *s)
{
	uint32_t n = is_plain(s) ? find_stages(d, s) : 0;

	if (n < 2 || n % 2)
		return false;
	for (uint32_t i = 0; i < n; i += 2)
		if (d->stage[i + 1].n != d->stage[i].n ||
				d->stage[i + 1].first != d->stage[i].first + d->stage[i].n)
			return false;
	for (uint32_t i = 0; i < d->graph->n_nodes; i++) {
		const struct ff_depths_stage *at;
		struct ff_config *c = &s->config[i];

		if (!ff_node_needs_config(d->graph, i))
			continue;
		at = &d->stage[s->stage[i]];
		if (!double_samples(&d->graph->nodes[i], at, c))
			return false;
		if (s->stage[i] % 2)
			c->start = (uint16_t)(c->start - at->n);
		s->stage[i] /= 2;
	}
	return true;
}
