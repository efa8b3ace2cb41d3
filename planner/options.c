/* Whether what ffsearch is asked for makes sense.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ff/nearest.h"
#include "hand/megatron.h"
#include "job.h"
#include "vary.h"

#define TORCH 256u /* --space torch, beside FF_SPACE_* */

bool ff_job_is_start(const char *name)
{
	struct ff_tables tables;
	uint32_t n;

	for (uint32_t i = 0; ff_starts[i]; i++)
		if (!strcmp(name, ff_starts[i]))
			return true;
	return ff_is_pipeline(name, &n) || ff_is_tables(name, &tables) || ff_is_megatron(name);
}

static const char *near_start(struct ff_nearest *near, const char *name)
{
	ff_nearest_init(near, name);
	for (uint32_t i = 0; ff_starts[i]; i++)
		ff_nearest_try(near, ff_starts[i]);
	return ff_nearest_hint(near);
}

/* A word was meant, but is read as a file's name, and there is no such file. */
static int check_word(const char *path, const char *hint, struct ff_error *err)
{
	if (!*hint || !access(path, F_OK))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "%.200s: cannot be read: %s%s", path, strerror(errno),
			hint);
}

static int check_words(struct ff_job_options *o, struct ff_error *err)
{
	enum ff_estimate estimate;
	struct ff_nearest near;

	ff_nearest_init(&near, o->costs_path);
	ff_nearest_try_choices(&near, FF_ESTIMATES);
	if (!ff_estimate_named(o->costs_path, &estimate) &&
			check_word(o->costs_path, ff_nearest_hint(&near), err) < 0)
		return err->code;
	if (o->simulate && !ff_job_is_start(o->simulate))
		return check_word(o->simulate, near_start(&near, o->simulate), err);
	return FF_OK;
}

/* "updates,replicas", "none", "torch". */
static int read_space(const char *text, uint32_t *ret, bool *torch, struct ff_error *err)
{
	static const struct {
		const char *name;
		uint32_t what;
	} words[] = {{"updates", FF_SPACE_UPDATES}, {"replicas", FF_SPACE_REPLICAS},
			{"micro-batches", FF_SPACE_MICRO}, {"recompute", FF_SPACE_RECOMPUTE},
			{"none", 0}, {"torch", TORCH}};
	size_t n_words = sizeof(words) / sizeof(*words);
	char word[FF_NEAREST_LENGTH];
	struct ff_nearest near;
	uint32_t what = 0;

	for (const char *at = text; *at; at += *at == ',') {
		size_t n = strcspn(at, ","), i = 0;

		while (i < n_words &&
				(strlen(words[i].name) != n || memcmp(words[i].name, at, n) != 0))
			i++;
		if (i == n_words) {
			snprintf(word, sizeof(word), "%.*s", (int)n, at);
			ff_nearest_init(&near, word);
			for (i = 0; i < n_words; i++)
				ff_nearest_try(&near, words[i].name);
			return ff_fail(err, FF_E_INPUT,
					"option --space: expected none, or some of updates, "
					"replicas, micro-batches, recompute and torch with "
					"commas between, not \"%.100s\"%s",
					text, ff_nearest_hint(&near));
		}
		what |= words[i].what;
		at += n;
	}
	*torch = what & TORCH;
	*ret = what == TORCH ? FF_SPACE_ALL : what & ~TORCH;
	return FF_OK;
}

/* Plans that are trained in PyTorch. */
static int check_torch(const struct ff_job_options *o, struct ff_error *err)
{
	if (o->limits.torch != (o->limits.map != NULL))
		return ff_fail(err, FF_E_INPUT, "option %s: expected %s beside it%s",
				o->limits.torch ? "--space torch" : "--map",
				o->limits.torch ? "--map FILE" : "--space torch",
				o->limits.torch ? ", which ffsoap_torch export writes" : "");
	for (enum ff_way_id id = 0; o->limits.torch && id < FF_WAY_COUNT; id++)
		if (ff_travel_asked(&o->travel, id))
			return ff_fail(err, FF_E_INPUT,
					"option --space torch: expected no %s, which PyTorch has "
					"nothing for",
					ff_way(id)->option);
	return FF_OK;
}

/* Whether anything is said that only a search can keep to. */
static bool is_choosy(const struct ff_job_options *o)
{
	const struct ff_job_limits *l = &o->limits;
	const struct ff_job_choice *c = &o->choice;

	return l->pin.n || l->no_pipeline || l->tensor_inside_node ||
	       l->max_micro != FF_NOT_GIVEN || c->top != FF_NOT_GIVEN || c->seeds != FF_NOT_GIVEN ||
	       !isnan(c->reserve) || !isnan(c->regular);
}

static int check_choice(struct ff_job_options *o, struct ff_error *err)
{
	struct ff_job_choice *c = &o->choice;

	if (o->limits.max_micro == 0)
		return ff_fail(err, FF_E_INPUT, "option --max-micro-batches: expected more than 0");
	if (c->top != FF_NOT_GIVEN && (c->top < 1 || c->top > FF_MOST_TOP))
		return ff_fail(err, FF_E_INPUT, "option --top: expected 1 to %d", FF_MOST_TOP);
	if (c->seeds != FF_NOT_GIVEN && (c->seeds < 1 || c->seeds > FF_MOST_SEEDS))
		return ff_fail(err, FF_E_INPUT, "option --seeds: expected 1 to %d", FF_MOST_SEEDS);
	if (c->seeds != FF_NOT_GIVEN && o->jobs > 1)
		return ff_fail(err, FF_E_INPUT,
				"option --seeds: expected no --jobs beside it, as each of those is "
				"a "
				"seed");
	if (!isnan(c->reserve) && !(c->reserve >= 0 && c->reserve < 100))
		return ff_fail(err, FF_E_INPUT,
				"option --reserve: expected 0 or more and less than 100, not %g",
				c->reserve);
	if (!isnan(c->regular) && !(c->regular >= 0 && c->regular <= 100))
		return ff_fail(err, FF_E_INPUT, "option --regular: expected 0 to 100, not %g",
				c->regular);
	c->regular = isnan(c->regular) ? FF_PRESET_REGULAR : c->regular;
	c->top = c->top == FF_NOT_GIVEN ? 1 : c->top;
	c->seeds = c->seeds == FF_NOT_GIVEN ? 0 : c->seeds;
	c->reserve_given = !isnan(c->reserve);
	c->reserve = c->reserve_given ? c->reserve : FF_PRESET_RESERVE;
	return FF_OK;
}

static int check_search(struct ff_job *j, struct ff_error *err)
{
	struct ff_nearest near;
	uint32_t n = j->opt.init.n, n_named = 0;

	if (!j->opt.strategy_path)
		return ff_fail(err, FF_E_INPUT,
				"option -o is missing: expected the file for the strategy found");
	if (j->opt.proposals == 0 || j->opt.seconds == 0)
		return ff_fail(err, FF_E_INPUT, "option %s: expected more than 0",
				j->opt.proposals == 0 ? "--proposals" : "--budget");
	if (!isnan(j->opt.choice.beta) && !(j->opt.choice.beta > 0))
		return ff_fail(err, FF_E_INPUT, "option --beta: expected a number above 0, not %g",
				j->opt.choice.beta);
	for (uint32_t i = 0; i < n; i++) {
		j->starts[i] = j->opt.init.text[i];
		if (ff_job_is_start(j->starts[i]))
			j->named[n_named++] = j->starts[i];
		else if (!access(j->starts[i], F_OK))
			j->init_path[j->n_init++] = j->starts[i];
		else
			return ff_fail(err, FF_E_INPUT,
					"option --init: expected data-parallel, single, expert, "
					"random, elimination, pipeline, pipeline-N, zero-1, "
					"zero-2, zero-3, these with -hybrid, frugal, megatron, "
					"tables, tables-N or the file of a plan, "
					"not "
					"\"%.100s\"%s",
					j->starts[i], near_start(&near, j->starts[i]));
	}
	j->summary.starts = n ? j->starts : ff_starts;
	if (check_choice(&j->opt, err) < 0)
		return err->code;
	if (j->opt.jobs < 1 || j->opt.jobs > FF_MOST_JOBS)
		return ff_fail(err, FF_E_INPUT, "option --jobs: expected 1 to %d", FF_MOST_JOBS);
	if (j->opt.proposals == FF_NOT_GIVEN) {
		j->opt.proposals = 0;
		if (j->opt.seconds < 0)
			j->opt.seconds = FF_PRESET_SECONDS;
	}
	if (j->opt.seconds < 0)
		j->opt.seconds = 0;
	if (isnan(j->opt.choice.beta))
		j->opt.choice.beta = 0;
	return FF_OK;
}

static int check_framework(struct ff_job *j, struct ff_error *err)
{
	const char *name = j->opt.framework_name;
	enum ff_estimate estimate;
	struct ff_error inner;

	if (name && ff_framework_find(name, &j->in.framework, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --framework: %s", inner.text);
	if (name && (!j->opt.simulate || !ff_estimate_named(j->opt.costs_path, &estimate) ||
				    estimate != FF_ESTIMATE_MODEL))
		return ff_fail(err, FF_E_INPUT,
				"option --framework: expected --simulate and --costs analytic "
				"beside it, as plans that are searched and costs that were "
				"measured are for our runtime");
	if (name && j->opt.beside.certificate_path)
		return ff_fail(err, FF_E_INPUT,
				"option --certificate: expected no --framework beside it, as plans "
				"that are searched are for our runtime");
	return FF_OK;
}

static int check_oracle(struct ff_job *j, struct ff_error *err)
{
	struct ff_job_options *o = &j->opt;

	if (o->simulate || o->strategy_path || o->beside.trace_path || o->list ||
			o->beside.certificate_path || o->explain || o->vary.n || o->init.n ||
			o->seconds >= 0 || o->proposals != FF_NOT_GIVEN || is_choosy(o))
		return ff_fail(err, FF_E_INPUT,
				"option --oracle prints a table of its own: expected no plan, and "
				"nothing that is asked about one, beside it");
	o->choice = (struct ff_job_choice){.top = 1};
	return FF_OK;
}

static int check_rewrite(const struct ff_job_options *o, struct ff_error *err)
{
	if (!o->rewrite.n)
		return FF_OK;
	if (o->simulate && !ff_job_is_start(o->simulate))
		return ff_fail(err, FF_E_INPUT,
				"option --rewrite: a strategy file of --simulate says what is "
				"rewritten");
	if (o->limits.torch)
		return ff_fail(err, FF_E_INPUT,
				"option --rewrite: not with --space torch, as ffsoap_torch trains "
				"no rewritten graph");
	for (uint32_t i = 0; i < o->rewrite.n && o->rewrite.n > 1; i++)
		if (!strcmp(o->rewrite.text[i], "auto") || !strcmp(o->rewrite.text[i], "none"))
			return ff_fail(err, FF_E_INPUT, "option --rewrite: %s stands alone",
					o->rewrite.text[i]);
	return FF_OK;
}

/* What is split over what; presets. */
static int check_subject(struct ff_job_options *o, enum ff_estimate *estimate, struct ff_error *err)
{
	if (!o->machine_name)
		return ff_fail(err, FF_E_INPUT,
				"option --machine is missing: expected a file or the name of a "
				"machine");
	if (!o->costs_path)
		return ff_fail(err, FF_E_INPUT,
				"option --costs is missing: expected a file that ffprof wrote, or "
				"one of the words analytic and peak");
	if (o->by_nodes && !ff_estimate_named(o->costs_path, estimate))
		return ff_fail(err, FF_E_INPUT,
				"option --by-nodes: expected --costs analytic or peak beside it, "
				"as a file of costs says how it was measured");
	if (o->devices == 0 || (o->devices > FF_MAX_DEVICES && o->devices != FF_NOT_GIVEN))
		return ff_fail(err, FF_E_INPUT, "option --devices: expected 1 to %d",
				FF_MAX_DEVICES);
	if (o->memory == 0)
		return ff_fail(err, FF_E_INPUT, "option --memory: expected more than 0");
	if (o->memory < 0)
		o->memory = 0;
	return FF_OK;
}

static int check_training(struct ff_job *j, struct ff_error *err)
{
	struct ff_job_options *o = &j->opt;
	const struct ff_way *alone;
	struct ff_error inner;

	if (o->optimizer_name && ff_optimizer_find(o->optimizer_name, &j->in.optimizer, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --optimizer: %s", inner.text);
	if (ff_travel_choose(&o->travel, &j->in.travel, err) < 0)
		return err->code;
	alone = ff_travel_unsearched(&j->in.travel);
	if (alone && !o->simulate)
		return ff_fail(err, FF_E_INPUT, "option %s: expected %s", alone->option,
				alone->beside);
	return check_framework(j, err);
}

/* Beside --simulate. */
static int check_prediction(struct ff_job_options *o, struct ff_error *err)
{
	if (o->proposals != FF_NOT_GIVEN || o->seconds >= 0 || o->init.n > 0 ||
			!isnan(o->choice.beta) || is_choosy(o))
		return ff_fail(err, FF_E_INPUT,
				"option --simulate only predicts: expected nothing beside it that "
				"a search is told, such as --budget, --init, --pin or --reserve");
	o->choice = (struct ff_job_choice){.top = 1};
	return FF_OK;
}

int ff_job_check(struct ff_job *j, struct ff_error *err)
{
	struct ff_variation v[FF_MOST_VARIATIONS];
	struct ff_job_options *o = &j->opt;
	uint32_t n;

	if (check_subject(o, &j->in.estimate, err) < 0 ||
			read_space(o->space_text, &o->what, &o->limits.torch, err) < 0 ||
			check_torch(o, err) < 0 || check_training(j, err) < 0 ||
			check_words(o, err) < 0 || check_rewrite(o, err) < 0 ||
			ff_variations_parse(&o->vary, v, &n, err) < 0)
		return err->code;
	if (o->oracle)
		return check_oracle(j, err);
	return o->simulate ? check_prediction(o, err) : check_search(j, err);
}
