/* A plan under other circumstances: priced there, and searched again from there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "vary.h"

#include <stdlib.h>
#include <string.h>

#include "explain/text.h"
#include "ff/bucketing.h"
#include "ff/micro.h"
#include "ff/nearest.h"
#include "hand/buckets.h"
#include "hand/carry.h"

/* ---- what is changed ---- */

static int vary_links(struct ff_machine *m, const struct ff_variation *v, struct ff_arena *a)
{
	double inside = v->inside_times > 0 ? v->inside_times : 1;
	double network = v->network_times > 0 ? v->network_times : 1;
	struct ff_machine_node *nodes = ff_arena_copy(a, m->nodes, m->n_nodes, sizeof(*nodes));

	if (!nodes)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		struct ff_machine_node *n = &nodes[i];

		n->inside.bytes_per_us *= inside;
		n->network.bytes_per_us *= network;
		if (v->network_bytes_per_us > 0)
			n->network.bytes_per_us = v->network_bytes_per_us;
		if (n->wiring.mesh) {
			struct ff_mesh *mesh = ff_arena_copy(a, n->wiring.mesh, 1, sizeof(*mesh));

			if (!mesh)
				return FF_E_NOMEM;
			mesh->otherwise.bytes_per_us *= inside;
			n->wiring.mesh = mesh;
		}
	}
	m->nodes = nodes;
	return FF_OK;
}

static int vary_machine(const struct ff_job *j, const struct ff_variation *v, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err)
{
	uint32_t n = v->devices ? v->devices : j->in.machine.n_devices;
	int code = ff_machine_subset(&j->in.whole, n, a, ret, err);

	if (code == FF_OK && vary_links(ret, v, a) < 0)
		code = ff_fail_memory(err);
	return code;
}

/* ---- one of them ---- */

static int open_case(struct ff_job *k, const struct ff_job *j, const struct ff_variation *v,
		struct ff_error *err)
{
	int code = FF_OK;

	k->opt = j->opt;
	k->in = j->in;
	k->from = ff_job_now_s();
	if (v->memory_bytes)
		k->opt.memory = v->memory_bytes;
	code = vary_machine(j, v, &k->arena, &k->in.machine, err);
	if (code == FF_OK && v->batch)
		code = ff_graph_batch(
				&j->in.graph, (int32_t)v->batch, &k->arena, &k->in.graph, err);
	if (code == FF_OK)
		code = ff_job_open(k, err);
	return code == FF_OK ? ff_job_limit(k, err) : code;
}

/* On 1,024 devices lowering all takes seconds and gigabytes, evaluating does not. */
static int price_step(struct ff_job *k, const char *name, const struct ff_strategy *s,
		struct ff_rival *ret, struct ff_error *err)
{
	struct ff_evaluation at;
	struct ff_rival r = {.name = name};
	int code = ff_evaluator_set(k->tools.evaluator, s, &at, err);

	if (code == FF_OK)
		code = ff_evaluator_lays_out(k->tools.evaluator, &r.fits, err);
	if (code < 0)
		return code;
	r.step_us = at.step_us;
	*ret = r;
	return FF_OK;
}

static int price(struct ff_job *k, const char *name, struct ff_strategy *s, struct ff_rival *ret,
		struct ff_answer *answer, struct ff_error *err)
{
	struct ff_facts facts;
	struct ff_plan plan;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	code = ff_job_predict(k, s, &a, &plan, err);
	if (code == FF_OK)
		code = ff_facts_find(&k->in.graph, &k->in.machine, &plan, k->opt.memory, &a, &facts,
				err);
	if (code == FF_OK) {
		*ret = ff_rival_of(name, &plan);
		answer->shape = facts.shape;
		answer->samples_per_s = facts.samples_per_s;
	}
	ff_arena_finish(&a);
	return code;
}

static int price_as_asked(struct ff_job *k, const struct ff_variation *v, const char *name,
		struct ff_strategy *s, struct ff_rival *ret, struct ff_answer *answer,
		struct ff_error *err)
{
	/* what hosts launch, and gradients that come late, an evaluation does not know */
	bool known = !ff_price_framework(k->tools.pricer) && !ff_travel_unsearched(&k->in.travel);

	if (v->step_alone && known)
		return price_step(k, name, s, ret, err);
	return price(k, name, s, ret, answer, err);
}

static bool watch(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	(void)proposals, (void)seconds, (void)best_us;
	return ff_job_interrupted(ctx);
}

static int search_again(struct ff_job *k, struct ff_job *j, const struct ff_strategy *from,
		uint32_t n_from, double seconds, uint64_t proposals, struct ff_search_result *ret,
		struct ff_error *err)
{
	static const char *const starts[] = {
			"data-parallel", "zero-1", "zero-3", "frugal", "megatron", NULL};
	/* pricing what is found takes as long as pricing what was carried, with all before it */
	double left_s = seconds - 2 * (ff_job_now_s() - k->from);
	const struct ff_search_options opt = {.seed = j->opt.seed,
			.proposals = proposals,
			.seconds = seconds <= 0    ? 0
				   : left_s > 1e-3 ? left_s
						   : 1e-3,
			.given = from,
			.n_given = n_from,
			.starts = starts,
			.progress = watch,
			.ctx = j};
	int code = ff_search_mcmc(k->tools.space, k->tools.evaluator, &k->in.graph, &k->in.machine,
			&opt, &k->arena, ret, err);

	if (code == FF_OK && ret->lacked_memory)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_buckets_tune(k->tools.evaluator, &ret->best,
				ff_bucket_bytes(&k->in.graph, &k->in.machine), &ret->evaluation,
				err);
	return code;
}

/* Searches from the plan as it was carried over, if it could be, and what else `v` names; or prices
 * that alone. */
static int find_best(struct ff_job *k, struct ff_job *j, const struct ff_variation *v,
		const struct ff_strategy *carried, double seconds, uint64_t proposals,
		struct ff_answer *ret, struct ff_error *err)
{
	struct ff_strategy from[2];
	struct ff_search_result found = {.best = {0}};
	uint32_t n = 0;
	int code = FF_OK;

	if (ret->carried)
		from[n++] = *carried;
	if (v->also)
		from[n++] = *v->also;
	if (seconds > 0 || proposals)
		code = search_again(k, j, from, n, seconds, proposals, &found, err);
	else if (v->also)
		found.best = *v->also;
	if (code == FF_OK)
		code = price_as_asked(k, v, "searched", &found.best, &ret->best, ret, err);
	ret->searched = code == FF_OK;
	if (code < 0 || v->batch || v->devices)
		return code;
	code = ff_strategy_create(&j->in.graph, &j->arena, &ret->found, err);
	if (code == FF_OK)
		ff_strategy_copy(&ret->found, &found.best);
	return code;
}

/* Who asks is told what cannot be; all else ends the command. */
static int told(int code, const struct ff_error *why, struct ff_answer *ret, struct ff_error *err)
{
	if (code < 0 && code != FF_E_INPUT && code != FF_E_NOFIT) {
		*err = *why;
		return code;
	}
	if (code < 0)
		snprintf(ret->why, sizeof(ret->why), "%s", why->text);
	return FF_OK;
}

int ff_vary(struct ff_job *j, const struct ff_variation *v, double seconds, uint64_t proposals,
		struct ff_answer *ret, struct ff_error *err)
{
	struct ff_answer answer = {.carried = false};
	struct ff_job k = {.arena = {0}};
	struct ff_strategy s;
	struct ff_error why;
	bool searches = seconds > 0 || proposals || v->also;
	int code, opened;

	ff_arena_init(&k.arena);
	code = opened = open_case(&k, j, v, &why);
	if (code == FF_OK)
		code = ff_strategy_carry(&k.in.graph, &j->summary.plan.strategy,
				j->in.machine.n_devices, k.in.machine.n_devices, &k.arena, &s,
				&why);
	if (code == FF_OK)
		code = price_as_asked(&k, v, "carried", &s, &answer.plan, &answer, &why);
	answer.carried = code == FF_OK;
	if (opened == FF_OK && searches && (code == FF_OK || code == FF_E_INPUT))
		code = find_best(&k, j, v, &s, seconds, proposals, &answer, &why);
	code = told(code, &why, &answer, err);
	ff_job_close(&k);
	if (code == FF_OK)
		*ret = answer;
	return code;
}

/* ---- --vary ---- */

enum key { KEY_BATCH, KEY_MEMORY, KEY_DEVICES, KEY_NETWORK, KEYS };
static const char *const keys[KEYS] = {"batch", "memory", "devices", "network"};

static int fail_value(const char *word, struct ff_error *err)
{
	struct ff_nearest near;
	char key[FF_NEAREST_LENGTH];

	snprintf(key, sizeof(key), "%.*s", (int)strcspn(word, "="), word);
	ff_nearest_init(&near, key);
	for (uint32_t i = 0; i < KEYS; i++)
		ff_nearest_try(&near, keys[i]);
	for (uint32_t i = 0; i < KEYS; i++)
		if (!strcmp(keys[i], key)) /* the key is right, and its value wrong */
			ff_nearest_init(&near, key);
	return ff_fail(err, FF_E_INPUT,
			"option --vary: expected batch=N,.. (samples), memory=N,.. (GiB a "
			"device), devices=N,.. or network=N,.. (Gbit/s a node), with whole "
			"numbers above 0, not \"%.100s\"%s",
			word, ff_nearest_hint(&near));
}

static void set(struct ff_variation *v, enum key key, uint32_t value)
{
	if (key == KEY_BATCH)
		v->batch = value;
	else if (key == KEY_MEMORY)
		v->memory_bytes = (int64_t)value << 30;
	else if (key == KEY_DEVICES)
		v->devices = value;
	else
		v->network_bytes_per_us = value * 125.0;
}

/* Values behind `at`, a "=": "=512,1024". */
static int parse_values(const char *word, const char *at, uint32_t value[FF_MOST_VARIATIONS],
		uint32_t *n, struct ff_error *err)
{
	*n = 0;
	do {
		char *end;
		long v = strtol(++at, &end, 10);

		if (end == at || v < 1 || v > 1 << 20 || (*end && *end != ','))
			return fail_value(word, err);
		if (*n == FF_MOST_VARIATIONS)
			return fail_value(word, err);
		value[(*n)++] = (uint32_t)v;
		at = end;
	} while (*at == ',');
	return FF_OK;
}

/* "batch=512,1024": each of what there was before with each of these. */
static int parse_key(const char *word, struct ff_variation ret[FF_MOST_VARIATIONS], uint32_t *n,
		struct ff_error *err)
{
	struct ff_variation before[FF_MOST_VARIATIONS];
	uint32_t value[FF_MOST_VARIATIONS], n_values, key = 0, n_before = *n;
	size_t length = strcspn(word, "=");

	while (key < KEYS && (strlen(keys[key]) != length || memcmp(keys[key], word, length) != 0))
		key++;
	if (key == KEYS || !word[length])
		return fail_value(word, err);
	if (parse_values(word, word + length, value, &n_values, err) < 0)
		return FF_E_INPUT;
	if (n_values * n_before > FF_MOST_VARIATIONS)
		return ff_fail(err, FF_E_INPUT, "option --vary: expected at most %d combinations",
				FF_MOST_VARIATIONS);
	memcpy(before, ret, n_before * sizeof(*before));
	*n = 0;
	for (uint32_t i = 0; i < n_before; i++)
		for (uint32_t k = 0; k < n_values; k++) {
			ret[*n] = before[i];
			set(&ret[(*n)++], (enum key)key, value[k]);
		}
	return FF_OK;
}

int ff_variations_parse(const struct ff_texts *words, struct ff_variation ret[FF_MOST_VARIATIONS],
		uint32_t *n, struct ff_error *err)
{
	int code = FF_OK;

	*n = 1;
	ret[0] = (struct ff_variation){0};
	for (uint32_t i = 0; i < words->n && code == FF_OK; i++)
		code = parse_key(words->text[i], ret, n, err);
	return code;
}

static void print_number(uint32_t value, FILE *to)
{
	if (value)
		fprintf(to, "%8u", value);
	else
		fprintf(to, "%8s", "-");
}

/* What is changed, then what comes of it. */
static void print_row(const struct ff_variation *v, const struct ff_answer *a, FILE *to)
{
	const struct ff_rival *best = a->searched ? &a->best : a->carried ? &a->plan : NULL;
	char carried[FF_TEXT] = "-", found[FF_TEXT] = "-", memory[FF_TEXT] = "-";

	print_number(v->batch, to);
	print_number((uint32_t)(v->memory_bytes >> 30), to);
	print_number(v->devices, to);
	print_number((uint32_t)(v->network_bytes_per_us / 125), to);
	if (a->carried && a->plan.fits)
		ff_time_text(a->plan.step_us, carried);
	else if (a->carried)
		snprintf(carried, FF_TEXT, "no memory");
	if (a->searched)
		ff_time_text(a->best.step_us, found);
	if (best)
		ff_bytes_text(best->memory_bytes, memory);
	fprintf(to, " %11.11s %11.11s %10.10s", carried, found, memory);
	if (best)
		fprintf(to, " %10.0f\n", a->samples_per_s);
	else
		fprintf(to, " %10s\n", "-");
	if (best) {
		ff_shape_print(&a->shape, "           ", to);
	} else {
		ff_text_wrap("           ", a->why, to);
	}
}

int ff_vary_print(struct ff_job *j, FILE *to, struct ff_error *err)
{
	struct ff_variation v[FF_MOST_VARIATIONS];
	struct ff_summary *s = &j->summary;
	uint64_t proposals = j->opt.simulate ? 0 : j->opt.proposals;
	uint32_t n;
	int code = ff_variations_parse(&j->opt.vary, v, &n, err);

	if (code == FF_OK) {
		s->varied = ff_arena_array(&j->arena, n, sizeof(*s->varied));
		code = s->varied ? FF_OK : ff_fail_memory(err);
	}
	if (code == FF_OK)
		fprintf(to, "\n%8s%8s%8s%8s %11s %11s %10s %10s\n%8s%8s%8s%8s\n", "batch", "memory",
				"devices", "network", "carried", "searched", "memory", "samples/s",
				"", "GiB", "", "Gbit/s");
	for (uint32_t i = 0; i < n && code == FF_OK && !ff_job_interrupted(j); i++) {
		struct ff_varied *row = &s->varied[i];

		row->with = v[i];
		code = ff_vary(j, &v[i], ff_job_left_s(j, n - i), proposals, &row->answer, err);
		if (code == FF_OK) {
			print_row(&row->with, &row->answer, to);
			s->n_varied++;
		}
		fflush(to);
	}
	return code;
}

static void write_with(const struct ff_variation *v, struct ff_out *o)
{
	ff_out_object(o, "with");
	if (v->batch)
		ff_out_int(o, "batch", v->batch);
	if (v->memory_bytes)
		ff_out_int(o, "memory_bytes", v->memory_bytes);
	if (v->devices)
		ff_out_int(o, "devices", v->devices);
	if (v->network_bytes_per_us > 0)
		ff_out_real(o, "network_bytes_per_s", 1e6 * v->network_bytes_per_us);
	ff_out_close(o);
}

void ff_varied_write(const struct ff_summary *s, struct ff_out *o)
{
	ff_out_array(o, "vary");
	for (uint32_t i = 0; i < s->n_varied; i++) {
		const struct ff_answer *a = &s->varied[i].answer;

		ff_out_object(o, NULL);
		write_with(&s->varied[i].with, o);
		if (a->carried)
			ff_rival_write("carried", &a->plan, o);
		if (a->searched)
			ff_rival_write("searched", &a->best, o);
		if (a->carried || a->searched) {
			ff_out_real(o, "samples_per_s", a->samples_per_s);
			ff_shape_write(&a->shape, o);
		} else {
			ff_out_string(o, "why", a->why);
		}
		ff_out_close(o);
	}
	ff_out_close(o);
}
