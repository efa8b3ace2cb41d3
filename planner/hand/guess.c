/* What a place of the grid comes to, in closed form.  Sums take their bytes at the rate of usual
 * messages by the evaluator's prices; nothing is said of how well kernels do on small parts, or of
 * what is uneven: who tries places scales a guess by what a neighbour came to.
 * SPDX-License-Identifier: Apache-2.0 */
#include "guess.h"

#include <math.h>

#include "ff/bucketing.h"
#include "propose/recompute.h"

#define STATE_BYTES 12.0  /* an element: what optimizers keep in float32 */
#define FORWARD (1.0 / 3) /* of forward and backward */
#define SUMS_FORWARD 2    /* of what a block passes on, where products are shared, */
#define SUMS_BACKWARD 2   /* and of its gradient */
#define GATHERED 6        /* keys and values of each other share of places, and gradients */
#define HALVES_FILL 0.4   /* of bubbles that are left where halves of backward fill them */
#define LACKING 4.0       /* by so many times what memory lacks, as a share, a step is slower */
#define HIDDEN (2.0 / 3)  /* of the last micro-batch: backward, beside which gradients travel */

static double bytes_of(const struct ff_graph *g, const struct ff_node *n)
{
	double all = 0;

	for (uint32_t k = 0; k < n->n_out; k++)
		all += (double)ff_value_bytes(&g->values[n->out + k]);
	return all;
}

static double mean_memory(const struct ff_machine *m, const struct ff_evaluator *e)
{
	double all = 0;

	for (uint32_t d = 0; d < m->n_devices; d++)
		all += (double)ff_evaluator_memory_bytes(e, d);
	return all / m->n_devices;
}

/* Bytes a second that a device has for sums over `n` devices, `apart` from one to the next, in
 * messages of so many bytes, at least one, by their price; those of a node share its network. */
static double rate(const struct ff_guesser *x, const struct ff_pricer *prices, uint32_t n,
		uint32_t apart, double message)
{
	const struct ff_machine *m = x->places->machine;
	const struct ff_machine_node *node = &m->nodes[0];
	double inside = node->inside.bytes_per_us * 1e6, network = node->network.bytes_per_us * 1e6;
	double bytes = fmax(message, 1);
	uint32_t groups =
			apart < node->count ? apart : node->count; /* that leave it side by side */
	uint16_t device[FF_MAX_DEVICES];
	double us;

	if (n < 2)
		return inside;
	for (uint32_t i = 0; i < n; i++)
		device[i] = (uint16_t)(i * apart);
	us = ff_price_sync(prices, n, device, (int64_t)bytes);
	if (n * apart > node->count && m->n_nodes > 1)
		inside = fmin(inside, network / groups);
	return us > 0 ? fmin(inside, 2e6 * bytes * (n - 1) / n / us) : inside;
}

/* A message from one stage to the next takes a fixed time, and some for each byte: by the prices of
 * one sample and of two. */
static void find_passing(struct ff_guesser *x, const struct ff_pricer *prices, uint32_t p)
{
	const struct ff_places *places = x->places;
	uint32_t stages = places->divisor[FF_PLACE_STAGES][p];
	const uint16_t device[] = {0, (uint16_t)(places->machine->n_devices / stages)};
	double bytes = fmax(x->passed_bytes / (double)places->graph->batch, 1);
	double one = ff_price_sync(prices, 2, device, (int64_t)bytes);
	double two = ff_price_sync(prices, 2, device, (int64_t)(2 * bytes));

	x->rates.stages[p] = 1e6 * bytes / fmax(two - one, FF_PRICE_STEP_US);
	x->rates.stage_s[p] = fmax(0, 2 * one - two) / 1e6;
}

static void find_rates(struct ff_guesser *x, const struct ff_pricer *prices)
{
	const struct ff_places *places = x->places;
	uint32_t devices = places->machine->n_devices, node = places->machine->nodes[0].count;
	double passed_on = x->passed_bytes / (double)places->graph->batch;
	double bucket = (double)ff_bucket_bytes(places->graph, places->machine);

	for (uint32_t p = 1; p < places->sizes[FF_PLACE_STAGES]; p++)
		find_passing(x, prices, p);
	for (uint32_t t = 0; t < places->sizes[FF_PLACE_TENSOR]; t++) {
		uint32_t tensor = places->divisor[FF_PLACE_TENSOR][t];
		double own = x->parameters * sizeof(float) / tensor;
		double message = fmin(own, bucket);

		x->rates.tensor[t] = rate(x, prices, tensor, 1, passed_on);
		x->rates.context[t] = rate(x, prices, node / tensor, tensor, passed_on);
		x->rates.inside[t] = rate(x, prices, node / tensor, tensor, message);
		for (uint32_t p = 0; p < places->sizes[FF_PLACE_STAGES]; p++) {
			uint32_t stages = places->divisor[FF_PLACE_STAGES][p];
			uint32_t data = devices / tensor / stages;

			message = fmin(own / stages, bucket);
			x->rates.data[p][t] = rate(x, prices, data, tensor, message);
		}
	}
}

void ff_guesser_init(const struct ff_places *places, const struct ff_repeats *r,
		const struct ff_evaluator *e, struct ff_guesser *ret)
{
	const struct ff_graph *g = places->graph;
	struct ff_guesser x = {.places = places,
			.memory_bytes = mean_memory(places->machine, e),
			.parameters = (double)ff_graph_parameters(g),
			.parameter_bytes = (double)ff_dtype_bytes(g->dtype)};

	for (uint32_t i = 0, next = FF_NONE; i < g->n_nodes; i++) {
		double bytes, s;
		bool light, whole;

		if (!ff_node_needs_config(g, i))
			continue;
		bytes = bytes_of(g, &g->nodes[i]);
		s = ff_node_roofline_s(g, places->machine, i);
		whole = r->n_blocks && r->block[i] != FF_NONE;
		light = whole && ff_recompute_is_light(g, r, i);
		if (whole && next != FF_NONE && r->block[next] != r->block[i])
			x.between_bytes += bytes;
		next = i;
		x.compute_s += s;
		x.again_s[FF_PLACE_LIGHT] += light ? FORWARD * s : 0;
		x.again_s[FF_PLACE_WHOLE] += whole ? FORWARD * s : 0;
		x.kept_bytes[FF_PLACE_NOTHING] += bytes;
		x.kept_bytes[FF_PLACE_LIGHT] += light ? 0 : bytes;
		x.kept_bytes[FF_PLACE_WHOLE] += whole ? 0 : bytes;
	}
	x.kept_bytes[FF_PLACE_WHOLE] += x.between_bytes;
	x.passed_bytes = x.between_bytes / fmax(r->n_blocks, 1);
	find_rates(&x, ff_evaluator_pricer(e));
	*ret = x;
}

/* Seconds that parameters travel and nothing else is done.  Over a node's devices they are cut
 * there; over nodes sums of what each device has left travel once. */
static double traffic_s(
		const struct ff_guesser *x, const struct ff_place *p, double micro, double busy_s)
{
	const struct ff_machine *m = x->places->machine;
	uint32_t tensor = ff_place_tensor(x->places, p);
	uint32_t each = tensor * ff_place_stages(x->places, p), data = m->n_devices / each;
	bool inside = p->at[FF_PLACE_OVER] == FF_PLACE_NODE;
	uint32_t shards = inside ? m->nodes[0].count / tensor : data;
	double elements = x->parameters / each, parts = (double)(shards - 1) / shards;
	uint8_t cut = p->at[FF_PLACE_UPDATES], t = p->at[FF_PLACE_TENSOR];
	double over_all = x->rates.data[p->at[FF_PLACE_STAGES]][t], sums_s = 0;
	double once = elements * parts / (inside ? x->rates.inside[t] : over_all);
	double gathered_s = once * x->parameter_bytes, scattered_s = once * FF_F32_BYTES;

	if (inside && data > shards)
		sums_s = 2 * elements * FF_F32_BYTES / shards / over_all;
	if (cut == FF_PLACE_ZERO_3) /* gathered for forward and backward, and scattered */
		return fmax(0, micro * (2 * gathered_s + scattered_s + sums_s) - HIDDEN * busy_s) +
		       gathered_s / 2;
	if (cut == FF_PLACE_ZERO_2 && micro > 1) /* of one micro-batch it is ZeRO-1 */
		return fmax(0, micro * scattered_s + sums_s - HIDDEN * busy_s) + gathered_s;
	return fmax(0, gathered_s + scattered_s + sums_s - HIDDEN * busy_s / micro) +
	       gathered_s / 8;
}

/* Idle share of a step beside what is computed. */
static double bubble(const struct ff_guesser *x, const struct ff_place *p, double micro)
{
	double idle = (ff_place_stages(x->places, p) - 1) / micro;
	uint8_t order = p->at[FF_PLACE_ORDER];

	if (order < FF_PLACE_1F1B)
		return HALVES_FILL * idle / ff_place_chunks(x->places, p);
	return idle / ff_place_chunks(x->places, p);
}

/* Seconds that activations and their gradients travel from stage to stage.  Who shares products,
 * but not sequences, has them whole. */
static double between_s(const struct ff_guesser *x, const struct ff_place *p, double micro)
{
	uint32_t stages = ff_place_stages(x->places, p), tensor = ff_place_tensor(x->places, p);
	double data = x->places->machine->n_devices / tensor / stages;
	double each = x->passed_bytes / data * (p->at[FF_PLACE_SPLIT] & 1 ? 1 : tensor);
	double fixed_s = micro * x->rates.stage_s[p->at[FF_PLACE_STAGES]];

	if (stages == 1)
		return 0;
	return 2 * ff_place_chunks(x->places, p) *
	       (each / x->rates.stages[p->at[FF_PLACE_STAGES]] + fixed_s);
}

/* Micro-batches of which a stage keeps something, as many as there are behind it; where devices
 * have several stages more are under way (Narayanan et al., SC 2021). */
static double under_way(const struct ff_guesser *x, const struct ff_place *p, double micro)
{
	double stages = ff_place_stages(x->places, p), more = 0;

	if (p->at[FF_PLACE_ORDER] > FF_PLACE_1F1B)
		more = (stages - 1) / ff_place_chunks(x->places, p);
	return fmin(micro, stages + more);
}

/* What forward keeps until backward, if `again` is recomputed. */
static double kept_of(
		const struct ff_guesser *x, const struct ff_place *p, uint8_t again, double micro)
{
	return x->kept_bytes[again] / x->places->machine->n_devices / micro *
	       under_way(x, p, micro);
}

static double memory_of(const struct ff_guesser *x, const struct ff_place *p, double micro)
{
	uint32_t tensor = ff_place_tensor(x->places, p), stages = ff_place_stages(x->places, p);
	double data = x->places->machine->n_devices / tensor / stages;
	double own = x->parameters / tensor / stages;
	double shards = p->at[FF_PLACE_OVER] == FF_PLACE_NODE
					? fmin(data, x->places->machine->nodes[0].count / tensor)
					: data;
	uint8_t cut = p->at[FF_PLACE_UPDATES];
	double weights = own * x->parameter_bytes / (cut == FF_PLACE_ZERO_3 ? shards : 1);
	double gradients = own * sizeof(float) / (cut >= FF_PLACE_ZERO_2 ? shards : 1);
	double states = own * STATE_BYTES / (cut >= FF_PLACE_ZERO_1 ? shards : 1);

	return weights + gradients + states + kept_of(x, p, p->at[FF_PLACE_AGAIN], micro);
}

struct ff_guess ff_guess(const struct ff_guesser *x, const struct ff_place *p)
{
	const struct ff_machine *m = x->places->machine;
	uint32_t tensor = ff_place_tensor(x->places, p), stages = ff_place_stages(x->places, p);
	double data = m->n_devices / tensor / stages, micro = ff_place_micro(x->places, p);
	uint8_t again = p->at[FF_PLACE_AGAIN];
	double busy_s = (x->compute_s + x->again_s[again]) / m->n_devices;
	uint32_t context = ff_place_context(x->places, p);
	double sums = SUMS_FORWARD * (again == FF_PLACE_WHOLE ? 2 : 1) + SUMS_BACKWARD;
	double shared_s = sums * x->between_bytes / data / stages * 2 * (tensor - 1) / tensor /
			  x->rates.tensor[p->at[FF_PLACE_TENSOR]];
	double gathered_s = GATHERED * x->between_bytes / data / stages * (context - 1) / tensor /
			    x->rates.context[p->at[FF_PLACE_TENSOR]];
	double all_s = (busy_s + shared_s + gathered_s) * (1 + bubble(x, p, micro)) +
		       between_s(x, p, micro);

	return (struct ff_guess){.step_us = 1e6 * (all_s + traffic_s(x, p, micro, busy_s)),
			.bytes = memory_of(x, p, micro),
			.again = kept_of(x, p, again, micro) - kept_of(x, p, FF_PLACE_WHOLE, micro),
			.again_us = 1e6 * (x->again_s[FF_PLACE_WHOLE] - x->again_s[again]) /
				    m->n_devices};
}

/* Of what fits the fullest device is known, of what does not the mean. */
struct ff_guess_off ff_guess_off(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at)
{
	struct ff_guess g = ff_guess(x, p);
	double over = (double)at->over_bytes / x->places->machine->n_devices;
	double bytes = x->memory_bytes + (at->fits ? -(double)at->spare_bytes : over);

	return (struct ff_guess_off){at->step_us / g.step_us, bytes / g.bytes, bytes - g.bytes};
}

/* A step of so long, if a device lacks so many bytes: blocks are recomputed until it does not, or
 * where that is not enough something else has to be done. */
static double with_lack(
		const struct ff_guesser *x, double step_us, double lacks, const struct ff_guess *g)
{
	if (lacks <= 0)
		return step_us;
	if (lacks < g->again)
		return step_us + lacks / g->again * g->again_us;
	return (step_us + g->again_us) * (1 + LACKING * (lacks - g->again) / x->memory_bytes);
}

double ff_guess_key(const struct ff_guesser *x, const struct ff_place *p, struct ff_guess_off off)
{
	struct ff_guess g = ff_guess(x, p);
	double bytes = fmin(off.bytes * g.bytes, g.bytes + off.more_bytes);

	return with_lack(x, off.step * g.step_us, bytes - x->memory_bytes, &g);
}

double ff_guess_filled(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at)
{
	struct ff_guess g = ff_guess(x, p);

	return with_lack(
			x, at->step_us, (double)at->over_bytes / x->places->machine->n_devices, &g);
}

/* Combination number `number` of all axes but those of stages, products and splits. */
static void set_others(const struct ff_places *x, uint32_t number, struct ff_place *p)
{
	for (uint32_t i = FF_PLACE_AXES; i-- > 0;) {
		if (i == FF_PLACE_STAGES || i == FF_PLACE_TENSOR || i == FF_PLACE_SPLIT)
			continue;
		p->at[i] = (uint8_t)(number % x->sizes[i]);
		number /= x->sizes[i];
	}
}

bool ff_guess_best(const struct ff_guesser *x, struct ff_place p, struct ff_place *ret)
{
	const struct ff_guess_off off = {1, 1, 0};
	const uint8_t *sizes = x->places->sizes;
	double least = INFINITY;
	uint32_t own = (uint32_t)sizes[FF_PLACE_STAGES] * sizes[FF_PLACE_TENSOR] *
		       sizes[FF_PLACE_SPLIT];
	uint32_t n = ff_places_count(x->places) / own;

	for (uint32_t number = 0; number < n; number++) {
		double key;

		set_others(x->places, number, &p);
		key = ff_place_is_there(x->places, &p) ? ff_guess_key(x, &p, off) : INFINITY;
		if (key < least) {
			least = key;
			*ret = p;
		}
	}
	return isfinite(least);
}
