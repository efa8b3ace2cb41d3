/* One step of the plan without updates: compared with the same step on one
 * device, or written down.  SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "ff/philox.h"
#include "ff/rewrite.h"
#include "process/agree.h"

/* The plan on all ranks, the whole graph on one device in rank 0. */
struct trial {
	const struct ff_run_options *opt;
	struct ff_run_plan *plan;
	struct ff_comm *comm, *alone;
	struct ff_machine machine;
	struct ff_strategy strategy;
	struct ff_schedule schedule;
	struct ff_dataset *data; /* of a rewritten graph: for the graph before */
	struct ff_executor *split, *whole;
	struct ff_verdict verdict;
};

/* What one device runs: the graph as its file has it. */
static const struct ff_graph *graph_of_whole(const struct trial *t)
{
	return t->plan->graph.rewritten ? &t->plan->given : &t->plan->graph;
}

/* One device's executor, and the weights that it begins with. */
static int create_whole(
		struct trial *t, const struct ff_executor_options *opt, struct ff_error *err)
{
	struct ff_run_plan *p = t->plan;
	uint64_t hash = p->weights_hash; /* in the order of the graph that all ranks have */
	int code = FF_OK;

	if (p->graph.rewritten)
		code = ff_dataset_open(
				t->opt->train.data, &p->given, t->opt->train.seed, &t->data, err);
	if (code == FF_OK)
		code = ff_executor_create(&t->schedule, p->backend, t->alone,
				t->data ? t->data : p->data, opt, &t->whole, err);
	if (code == FF_OK)
		code = ff_weights_load(p, graph_of_whole(t), t->whole, err);
	p->weights_hash = hash;
	return code;
}

static int create(struct trial *t, struct ff_error *err)
{
	struct ff_run_plan *p = t->plan;
	struct ff_executor_options opt = {
			.seed = t->opt->train.seed, .keep_gradients = true, .beside = p->progress};
	int code = ff_executor_create(&p->candidate[0].schedule, p->backend, t->comm, p->data, &opt,
			&t->split, err);

	if (code == FF_OK)
		code = ff_weights_load(p, &p->graph, t->split, err);
	if (code < 0 || t->comm->rank || !t->opt->check.verify)
		return code;
	if ((code = ff_machine_subset(&p->machine, 1, &p->arena, &t->machine, err)) < 0 ||
			(code = ff_strategy_single(
					 graph_of_whole(t), 0, &p->arena, &t->strategy, err)) < 0 ||
			(code = ff_run_plan_lower_given(
					 p, &t->machine, &t->strategy, &t->schedule, err)) < 0 ||
			(code = ff_run_plan_fits("single, which --verify compares with,",
					 &t->schedule, &p->candidate[0].schedule, err)) < 0 ||
			(code = ff_comm_local(1, &t->alone, err)) < 0)
		return code;
	return create_whole(t, &opt, err);
}

static int check_figures(struct trial *t, struct ff_error *err)
{
	const struct ff_schedule *s = &t->plan->candidate[0].schedule;

	for (uint32_t d = 0; d < t->plan->machine.n_devices; d++) {
		int64_t bytes = ff_executor_memory(t->split, d);

		if (t->comm->hosts(t->comm, d) && bytes != s->memory_bytes[d])
			return ff_fail(err, FF_E_RUN,
					"device %u has %" PRId64
					" bytes of memory, but its plan says %" PRId64,
					d, bytes, s->memory_bytes[d]);
	}
	if (t->verdict.sent_bytes != s->network_bytes)
		return ff_fail(err, FF_E_RUN,
				"the step sent %" PRId64 " bytes, but its plan says %" PRId64,
				t->verdict.sent_bytes, s->network_bytes);
	return FF_OK;
}

/* Operators on the longest way from the data to the loss. */
static double depth(const struct ff_graph *g)
{
	int32_t *behind = calloc((size_t)g->n_nodes + 1, sizeof(*behind)), most = 1;

	for (uint32_t i = 0; behind && i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		for (uint32_t e = n->in; e < n->in + n->n_in; e++) {
			int32_t before = behind[ff_edge_source(g, e)];

			behind[i] = before > behind[i] ? before : behind[i];
		}
		behind[i] += ff_node_is_computed(g, i) && !ff_node_is_parameter(g, i);
		most = behind[i] > most ? behind[i] : most;
	}
	free(behind);
	return most;
}

/* The relative difference of gradients that rounding in another order explains. */
static double gradient_tolerance(const struct ff_graph *g)
{
	return g->dtype == FF_BF16 ? sqrt(depth(g)) / 32 : 1e-4;
}

double ff_loss_tolerance(const struct ff_graph *g)
{
	return g->dtype == FF_BF16 ? 4.0 / 256 : 1e-4;
}

static int64_t count_elements(const struct ff_graph *g, uint32_t node)
{
	return ff_value_volume(&g->values[g->nodes[node].out]);
}

/* How far a gradient is from another one, and how large that is, in its measure. */
struct far {
	double apart, size;
};

/* By the largest element. */
static struct far largest_apart(const float *a, const float *b, int64_t n)
{
	struct far ret = {0, 0};

	for (int64_t i = 0; i < n; i++) {
		double d = fabs((double)a[i] - (double)b[i]);

		ret.apart = d > ret.apart || isnan(d) ? d : ret.apart;
		ret.size = fabs((double)b[i]) > ret.size ? fabs((double)b[i]) : ret.size;
	}
	return ret;
}

/* By the length. */
static struct far length_apart(const float *a, const float *b, int64_t n)
{
	double apart = 0, size = 0;

	for (int64_t i = 0; i < n; i++) {
		double d = (double)a[i] - (double)b[i];

		apart += d * d;
		size += (double)b[i] * (double)b[i];
	}
	return (struct far){sqrt(apart), sqrt(size)};
}

/* What bfloat16 rounds turns choices, a relu's or a maximum's, which moves single elements
 * far and the whole little. */
static struct far distance(const struct ff_graph *g, const float *a, const float *b, int64_t n)
{
	return g->dtype == FF_BF16 ? length_apart(a, b, n) : largest_apart(a, b, n);
}

/* The greatest share of its size that a parameter's gradient is apart.  One that is zero but for
 * rounding, as that of a bias which a norm or a softmax takes out again, is no measure of itself:
 * sizes count as so much of the largest one, at least. */
static double find_worst(const struct ff_graph *g, const struct far *far, const char **name)
{
	double least = g->dtype == FF_BF16 ? 1e-2 : 1e-4, largest = 0, worst = 0;

	*name = NULL;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		largest = far[i].size > largest ? far[i].size : largest;
	for (uint32_t i = 0; i < g->n_nodes && !isnan(worst); i++) {
		double size = fmax(far[i].size, least * largest);
		double share = far[i].apart != 0 ? far[i].apart / size : 0;

		if (!ff_node_is_parameter(g, i) || (*name && share <= worst))
			continue;
		worst = share;
		*name = g->nodes[i].name;
	}
	return worst;
}

/* What was sent of a gradient, and, where it was compressed, what is still to be sent. */
static int gather_gradient(
		struct trial *t, uint32_t node, int64_t n, float *whole, struct ff_error *err)
{
	int code = ff_executor_parameter(t->split, node, FF_ARRAY_GRADIENTS, whole, err);
	float *rest;

	if (code < 0 || !t->plan->travel.codec)
		return code;
	rest = malloc((size_t)n * sizeof(*rest));
	if (!rest)
		return ff_fail_memory(err);
	code = ff_executor_parameter(t->split, node, FF_ARRAY_RESIDUALS, rest, err);
	for (int64_t i = 0; i < n && code == FF_OK; i++)
		whole[i] += rest[i];
	free(rest);
	return code;
}

/* An array of a parameter of the rewritten graph as one device has it, out of it or, with `back`,
 * to it: piece by piece. */
static int move_whole(struct trial *t, uint32_t node, uint32_t array, bool back, float *all,
		struct ff_error *err)
{
	const struct ff_graph *g = &t->plan->graph;
	const struct ff_value *v = &g->values[g->nodes[node].out];
	int64_t row = count_elements(g, node) / v->shape[0];
	int code = FF_OK;

	for (uint32_t k = 0; k < ff_parameter_pieces(g, node) && code == FF_OK; k++) {
		const struct ff_parameter_piece p = ff_parameter_piece(g, node, k);
		float *at = all + p.first * row;

		code = back ? ff_executor_put_parameter(t->whole, p.stream, array, at, err)
			    : ff_executor_parameter(t->whole, p.stream, array, at, err);
	}
	return code;
}

static int compare_gradient(struct trial *t, uint32_t node, struct far *ret, struct ff_error *err)
{
	int64_t size = count_elements(&t->plan->graph, node);
	float *split, *whole;
	int code;

	split = malloc((size_t)size * sizeof(*split));
	whole = malloc((size_t)size * sizeof(*whole));
	if (!split || !whole)
		code = ff_fail_memory(err);
	else
		code = gather_gradient(t, node, size, split, err);
	if (code == FF_OK && t->whole)
		code = move_whole(t, node, FF_ARRAY_GRADIENTS, false, whole, err);
	if (code == FF_OK && t->whole)
		*ret = distance(&t->plan->graph, split, whole, size);
	free(split);
	free(whole);
	return code;
}

/* All that operators keep from step to step, out of `x` into all[] or back. */
static int move_kept(const struct ff_graph *g, struct ff_executor *x, bool back, float *all,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		if (!ff_value_is_kept(g, i))
			continue;
		code = back ? ff_executor_put_kept(x, i, all, err)
			    : ff_executor_kept(x, i, all, err);
		all += ff_value_volume(&g->values[i]);
	}
	return code;
}

static int64_t count_kept(const struct ff_graph *g)
{
	int64_t all = 1; /* so that there is something to allocate */

	for (uint32_t i = 0; i < g->n_values; i++)
		all += ff_value_is_kept(g, i) ? ff_value_volume(&g->values[i]) : 0;
	return all;
}

/* As if all of every gradient had been sent. */
static int forget_residuals(const struct ff_graph *g, struct ff_executor *x, struct ff_error *err)
{
	int64_t most = 0;
	float *zeros;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i) && count_elements(g, i) > most)
			most = count_elements(g, i);
	zeros = calloc((size_t)most + 1, sizeof(*zeros));
	if (!zeros)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_parameter(g, i))
			code = ff_executor_put_parameter(x, i, FF_ARRAY_RESIDUALS, zeros, err);
	free(zeros);
	return code;
}

/* The first step once more: nothing has been updated, and what operators keep is as it was, so it
 * is the same, up to `most` of the loss where ranks may add up in another order each time. */
static int run_again(const struct ff_graph *g, struct ff_executor *x, double most, float *kept,
		double *loss, struct ff_error *err)
{
	double once = *loss;
	int code = move_kept(g, x, true, kept, err);

	if (code == FF_OK)
		code = forget_residuals(g, x, err);
	if (code == FF_OK)
		code = ff_executor_step(x, 0, err);
	if (code == FF_OK)
		code = ff_executor_losses(x, loss, 1, err);
	if (code < 0 || isnan(once) || once == *loss || fabs(once - *loss) <= most * fabs(once))
		return code;
	return ff_fail(err, FF_E_RUN,
			"the loss is %.9g where the first step is run once more, else %.9g", *loss,
			once);
}

/* The first step, as often as it takes until its gradients are applied, and where those behind it
 * are captured, once more, as they are. */
static int run_steps(const struct ff_graph *g, struct ff_executor *x, uint32_t staleness,
		double most, float *kept, double *loss, struct ff_error *err)
{
	int code = move_kept(g, x, false, kept, err);
	bool captured;

	if (code == FF_OK)
		code = ff_executor_step(x, 0, err);
	if (code == FF_OK)
		code = ff_executor_losses(x, loss, 1, err);
	captured = ff_executor_runs_ahead(x);
	for (uint32_t i = 0; i < staleness + captured && code == FF_OK; i++)
		code = run_again(g, x, most, kept, loss, err);
	return code;
}

static int run_step(
		const struct trial *t, struct ff_executor *x, double *loss, struct ff_error *err)
{
	const struct ff_graph *g = x == t->whole ? graph_of_whole(t) : &t->plan->graph;
	float *kept = malloc((size_t)count_kept(g) * sizeof(*kept));
	double most = t->comm->n_ranks > 1 ? ff_loss_tolerance(g) : 0;
	int code = kept ? run_steps(g, x, t->plan->travel.staleness, most, kept, loss, err)
			: ff_fail_memory(err);

	free(kept);
	return code;
}

/* ---- what rounding does to the network itself ---- */

/* Differences that a gradient may have beside what rounding its weights makes of it: sums in
 * another order round at every operator, not once. */
#define ROUNDINGS 8
/* Beyond that a comparison says nothing. */
#define BLIND 0.5

/* Every weight moved by its last bits, up or down as random numbers say. */
static int round_weights(
		struct trial *t, uint32_t node, float *whole, int64_t n, struct ff_error *err)
{
	int code = move_whole(t, node, FF_ARRAY_WEIGHTS, false, whole, err);

	if (code < 0)
		return code;
	for (int64_t k = 0; k < n; k++)
		whole[k] *= ff_philox_at(t->opt->train.seed, node, (uint64_t)k) & 1 ? 1 + 0x1p-22f
										    : 1 - 0x1p-22f;
	return move_whole(t, node, FF_ARRAY_WEIGHTS, true, whole, err);
}

/* Of one device, its gradients first, all of them; then beside those after rounding. */
static int gather_gradients(struct trial *t, float *all, struct far *far, struct ff_error *err)
{
	const struct ff_graph *g = &t->plan->graph;
	float *own = NULL;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		int64_t n = count_elements(g, i);

		if (!ff_node_is_parameter(g, i))
			continue;
		if (far && !(own = malloc((size_t)n * sizeof(*own))))
			return ff_fail_memory(err);
		code = move_whole(t, i, FF_ARRAY_GRADIENTS, false, far ? own : all, err);
		if (code == FF_OK && far)
			far[i] = distance(g, own, all, n);
		if (code == FF_OK && !far) /* the weights, now that this is kept */
			code = round_weights(t, i, all + n, n, err);
		free(own);
		own = NULL;
		all += n;
	}
	return code;
}

/* How far one device's gradients move when its weights are rounded otherwise, which
 * networks of many normalisations and few samples make much of. */
static int measure_rounding(struct trial *t, double *ret, struct ff_error *err)
{
	const struct ff_graph *g = &t->plan->graph;
	int64_t most = 0, total = ff_graph_parameters(g);
	struct far *far;
	const char *name;
	double loss;
	float *all;
	int code;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i) && count_elements(g, i) > most)
			most = count_elements(g, i);
	all = malloc((size_t)(total + most) * sizeof(*all));
	far = calloc((size_t)g->n_nodes + 1, sizeof(*far));
	code = all && far ? gather_gradients(t, all, NULL, err) : ff_fail_memory(err);
	if (code == FF_OK)
		code = run_step(t, t->whole, &loss, err);
	if (code == FF_OK)
		code = gather_gradients(t, all, far, err);
	if (code == FF_OK)
		*ret = find_worst(g, far, &name);
	free(all);
	free(far);
	return code;
}

/* The gradients differ by more than summing in another order makes of a network that does
 * not enlarge it: whether this one does. */
static int judge_gradients(struct trial *t, double most, struct ff_error *err)
{
	struct ff_verdict *v = &t->verdict;
	const char *measure = ff_gradient_measure(&t->plan->graph);
	int code = isnan(t->opt->check.tolerance) ? measure_rounding(t, &v->rounding, err) : FF_OK;

	if (code < 0)
		return code;
	if (v->worst <= ROUNDINGS * v->rounding && v->worst <= BLIND)
		return FF_OK;
	if (v->rounding > most)
		return ff_fail(err, FF_E_RUN,
				"the gradient of %s differs from one device's by %.3g of its %s; "
				"rounding "
				"the weights alone moves gradients by %.3g",
				v->worst_name, v->worst, measure, v->rounding);
	return ff_fail(err, FF_E_RUN,
			"the gradient of %s differs from one device's by %.3g of its %s, more than "
			"%.3g",
			v->worst_name, v->worst, measure, most);
}

static int compare_gradients(struct trial *t, struct ff_error *err)
{
	const struct ff_graph *g = &t->plan->graph;
	struct far *far = calloc((size_t)g->n_nodes + 1, sizeof(*far));
	int code = far ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_parameter(g, i))
			code = compare_gradient(t, i, &far[i], err);
	if (code == FF_OK)
		t->verdict.worst = find_worst(g, far, &t->verdict.worst_name);
	free(far);
	return code;
}

/* A loss is the difference of larger numbers: one of nothing but their rounding, or of exactly 0,
 * is no measure of itself. */
#define LEAST_LOSS 1e-3

static int compare(struct trial *t, struct ff_error *err)
{
	struct ff_verdict *v = &t->verdict;
	const struct ff_graph *g = &t->plan->graph;
	double most = t->opt->check.tolerance, most_loss = most, apart;
	int code = compare_gradients(t, err);

	if (code < 0 || !t->whole)
		return code;
	if (isnan(most))
		most = gradient_tolerance(g);
	if (isnan(most_loss))
		most_loss = ff_loss_tolerance(g);
	apart = fabs(v->loss - v->reference) / fmax(fabs(v->reference), LEAST_LOSS);
	if (!(apart <= most_loss))
		return ff_fail(err, FF_E_RUN,
				"the loss is %.9g, but %.9g on one device: relative difference "
				"%.3g",
				v->loss, v->reference, apart);
	return v->worst_name && !(v->worst <= most) ? judge_gradients(t, most, err) : FF_OK;
}

static int try_step(struct trial *t, struct ff_error *err)
{
	int64_t sent = t->comm->sent_bytes;
	int code = run_step(t, t->split, &t->verdict.loss, err);

	if (code < 0)
		return code;
	t->verdict.sent_bytes = t->comm->sent_bytes - sent;
	t->verdict.sent_bytes /= 1 + t->plan->travel.staleness + ff_executor_runs_ahead(t->split);
	code = ff_agree_sum(t->comm, &t->verdict.sent_bytes, 1, err);
	return code < 0 || !t->whole ? code : run_step(t, t->whole, &t->verdict.reference, err);
}

static int run(struct trial *t, struct ff_error *err)
{
	int code = ff_agree_code(t->comm, create(t, err), err);

	if (code == FF_OK)
		code = ff_weights_same(t->plan, t->comm, err);
	if (code < 0 || (code = try_step(t, err)) < 0)
		return code;
	if (t->opt->check.dump && (code = ff_dump(t->opt->check.dump, t->plan, t->split,
						   t->comm->rank == 0, t->verdict.loss, err)) < 0)
		return code;
	if (!t->opt->check.verify)
		return FF_OK;
	if ((code = ff_agree_code(t->comm, check_figures(t, err), err)) < 0)
		return code;
	code = compare(t, err);
	t->verdict.done = true;
	return ff_agree_code(t->comm, code, err);
}

int ff_verify(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_verdict *ret, struct ff_error *err)
{
	struct trial t = {.opt = opt, .plan = p, .comm = comm};
	int code = run(&t, err);

	ff_executor_destroy(t.split);
	ff_executor_destroy(t.whole);
	ff_dataset_close(t.data);
	if (t.alone)
		t.alone->destroy(t.alone);
	if (code == FF_OK)
		*ret = t.verdict;
	return code;
}
