/* What ranks have to be started with alike: all that the result depends on, and all that they do
 * together.  What only the first one reads or writes may differ, and so may paths.
 * SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/hash.h"
#include "process/agree.h"

#define MOST 64

struct list {
	uint32_t n;
	struct ff_same all[MOST];
};

__attribute__((format(printf, 3, 4))) static void add(
		struct list *l, const char *name, const char *format, ...)
{
	struct ff_same *s = &l->all[l->n++];
	va_list args;

	snprintf(s->name, sizeof(s->name), "%s", name);
	va_start(args, format);
	vsnprintf(s->text, sizeof(s->text), format, args);
	va_end(args);
}

static void add_count(struct list *l, const char *name, uint64_t n)
{
	add(l, name, "%" PRIu64, n);
}

static void add_real(struct list *l, const char *name, double x)
{
	add(l, name, "%.9g", x);
}

static void add_flag(struct list *l, const char *name, bool is)
{
	add(l, name, "%s", is ? "given" : "not given");
}

/* Rules as told, and a hash of them, as many are longer than a sentence. */
static void add_groups(struct list *l, const struct ff_texts *rules)
{
	uint64_t hash = rules->n;
	char text[64] = "";

	for (uint32_t i = 0; i < rules->n; i++) {
		size_t at = strlen(text);

		hash = ff_hash_mix(hash, ff_fnv1a(rules->text[i], strlen(rules->text[i])));
		snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "", rules->text[i]);
	}
	if (rules->n)
		add(l, "--group", "%s (%08" PRIx32 ")", text, (uint32_t)hash);
	else
		add(l, "--group", "none");
}

static void add_update(struct list *l, const struct ff_run_options *o, const struct ff_run_plan *p)
{
	const struct ff_rate_options *r = &p->rates.told;

	add(l, "--optimizer", "%s", p->optimizer->name);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++) {
		char name[32];

		snprintf(name, sizeof(name), "--%s", ff_setting((enum ff_setting_id)i)->name);
		add_real(l, name, p->groups.setting[0][i]);
	}
	add_groups(l, &o->train.groups);
	add_real(l, "--clip", p->clip);
	add(l, "--schedule", "%s", r->schedule ? r->schedule : "none");
	add_count(l, "--step-size", r->step_size);
	add_real(l, "--gamma", r->gamma);
	add_real(l, "--floor", r->floor);
	add_count(l, "--ramp", r->ramp);
	add_real(l, "--ramp-from", r->ramp_from);
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		char value[FF_TRAVEL_TEXT];

		ff_travel_value(&p->travel, id, value);
		add(l, ff_way(id)->option, "%s", value);
	}
}

/* Steps first: epochs are steps. */
static void add_course(struct list *l, const struct ff_run_options *o, const struct ff_run_plan *p)
{
	add_count(l, "checkpoints to go on from (steps behind them)", p->first);
	add_count(l, "--steps or --epochs (steps to run)", p->steps);
	add_count(l, "--warmup", p->warmup);
	add_flag(l, "--test", o->check.test);
	add_count(l, "--test-every", o->check.test_every);
	add_count(l, "--top", p->top);
	add_flag(l, "--verify", o->check.verify);
	add_flag(l, "--compare", o->what.compare);
	add_flag(l, "--dump", o->check.dump);
	add_flag(l, "--save", o->store.save);
	add_flag(l, "--trace", o->tell.trace);
	add_flag(l, "--html", o->tell.html);
	add_count(l, "--profile", o->tell.profile);
	add_flag(l, "--checkpoint", o->store.checkpoint);
	add_count(l, "--every", o->store.checkpoint ? p->checkpoint.every : 0);
	add_count(l, "--keep", p->checkpoint.keep);
}

int ff_run_plan_same(const struct ff_run_options *o, const struct ff_run_plan *p,
		struct ff_comm *comm, struct ff_error *err)
{
	struct list *l = comm->n_ranks > 1 ? calloc(1, sizeof(*l)) : NULL;
	uint64_t data = 0;
	int code;

	if (comm->n_ranks == 1)
		return FF_OK;
	code = l ? ff_dataset_fingerprint(p->data, &data, err) : ff_fail_memory(err);
	code = ff_agree_code(comm, code, err);
	if (code == FF_OK) {
		add(l, "GRAPH", "%016" PRIx64, p->graph.hash);
		add(l, "--device", "%s", p->backend->name);
		add_count(l, "--seed", o->train.seed);
		add(l, "--data", "%" PRId64 " samples, %" PRId64 " for testing (%016" PRIx64 ")",
				ff_dataset_samples(p->data, true),
				ff_dataset_samples(p->data, false), data);
		add_flag(l, "--weights", o->train.weights);
		add_update(l, o, p);
		add_course(l, o, p);
		code = ff_agree_same(comm, l->all, l->n, err);
	}
	free(l);
	return code;
}

int ff_weights_same(const struct ff_run_plan *p, struct ff_comm *comm, struct ff_error *err)
{
	struct list l = {0};

	if (!p->weights)
		return FF_OK;
	add(&l,
			p->first ? "checkpoints to go on from (their contents)"
				 : "--weights (their contents)",
			"%016" PRIx64, p->weights_hash);
	return ff_agree_same(comm, l.all, l.n, err);
}
