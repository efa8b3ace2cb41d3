/* Groups of parameters, as rules have them.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/groups.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/rewrite.h"

struct rule {
	const char *text; /* as it was told */
	char *select;     /* what stands before the colon: words, each with its NUL */
	uint32_t n_words;
	double told[FF_SETTING_COUNT]; /* NAN: nothing */
	double factor;                 /* likewise */
	bool used;
};

void ff_groups_single(const double *setting, struct ff_groups *ret)
{
	*ret = (struct ff_groups){.n = 1};
	memcpy(ret->setting[0], setting, sizeof(ret->setting[0]));
}

/* ---- reading rules ---- */

static int refuse(const struct rule *r, const char *what, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"option --group %.200s: expected SELECT:NAME=VALUE, as in "
			"norm,bias:decay=0, %s",
			r->text, what);
}

/* Cuts `text` into words. */
static uint32_t cut(char *text)
{
	uint32_t n = 1;

	for (; *text; text++)
		if (*text == ',') {
			*text = '\0';
			n++;
		}
	return n;
}

static int set(struct rule *r, const struct ff_optimizer *o, const char *name, double value,
		struct ff_error *err)
{
	char prefix[256];

	if (!strcmp(name, "factor")) {
		r->factor = value;
		return value >= 0 ? FF_OK : refuse(r, "and a factor from 0", err);
	}
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++) {
		enum ff_setting_id id = (enum ff_setting_id)i;

		if (strcmp(name, ff_setting(id)->name) != 0)
			continue;
		r->told[i] = value;
		snprintf(prefix, sizeof(prefix), "option --group %.200s: ", r->text);
		return ff_optimizer_check(o, id, value, prefix, err);
	}
	return refuse(r, "where NAME is factor or a setting of the optimizer", err);
}

static int read_setting(
		struct rule *r, const struct ff_optimizer *o, char *word, struct ff_error *err)
{
	char *value = strchr(word, '='), *end;
	double number;

	if (!value)
		return refuse(r, "and = behind each name", err);
	*value++ = '\0';
	number = strtod(value, &end);
	if (end == value || *end || !isfinite(number))
		return refuse(r, "and a number for each name", err);
	return set(r, o, word, number, err);
}

static int read_rule(const char *text, const struct ff_optimizer *o, struct ff_arena *a,
		struct rule *ret, struct ff_error *err)
{
	struct rule r = {.text = text, .factor = NAN};
	char *colon, *word;
	uint32_t n;
	int code = FF_OK;

	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		r.told[i] = NAN;
	r.select = ff_arena_strdup(a, text);
	if (!r.select)
		return ff_fail_memory(err);
	colon = strrchr(r.select, ':');
	if (!colon || colon == r.select)
		return refuse(&r, colon ? "with something to select" : "with a colon", err);
	*colon = '\0';
	r.n_words = cut(r.select);
	word = colon + 1;
	for (n = cut(word); n-- && code == FF_OK;) {
		char *next = word + strlen(word) + 1;

		code = read_setting(&r, o, word, err);
		word = next;
	}
	*ret = r;
	return code;
}

/* ---- what they select ---- */

/* What the operator that reads `param` first calls it, and whether that normalises. */
static const char *first_name(const struct ff_graph *g, uint32_t param, bool *norm)
{
	const struct ff_edge *e = &g->edges[ff_value_use(g, &g->values[g->nodes[param].out], 0)];
	const struct ff_node *n = &g->nodes[e->node];

	*norm = ff_op_row(n->op)->normalises;
	return ff_op_row(n->op)->param[e->slot - n->n_data];
}

/* `called`: its name before rewrites. */
static bool selects(
		const struct rule *r, const struct ff_graph *g, uint32_t param, const char *called)
{
	const char *word = r->select, *name;
	bool norm, found = false;

	name = first_name(g, param, &norm);
	for (uint32_t i = 0; i < r->n_words && !found; i++, word += strlen(word) + 1)
		found = !strcmp(word, "bias")   ? !strcmp(name, word)
			: !strcmp(word, "norm") ? norm
						: !fnmatch(word, called, 0);
	return found;
}

/* The settings of one parameter, by all rules. */
static void settings_of(const struct ff_graph *g, uint32_t param, const char *called,
		const double *setting, struct rule *rule, uint32_t n_rules,
		double ret[FF_SETTING_COUNT])
{
	double factor = 1;

	memcpy(ret, setting, FF_SETTING_COUNT * sizeof(*ret));
	for (uint32_t i = 0; i < n_rules; i++) {
		struct rule *r = &rule[i];

		if (!selects(r, g, param, called))
			continue;
		r->used = true;
		factor = isnan(r->factor) ? factor : r->factor;
		for (uint32_t k = 0; k < FF_SETTING_COUNT; k++)
			ret[k] = isnan(r->told[k]) ? ret[k] : r->told[k];
	}
	ret[FF_SETTING_RATE] *= factor;
}

/* The group that has these settings: one that is there, or a new one. */
static int find_group(
		struct ff_groups *groups, const double *setting, uint8_t *ret, struct ff_error *err)
{
	uint32_t i = 0;

	while (i < groups->n && memcmp(groups->setting[i], setting, sizeof(groups->setting[i])))
		i++;
	if (i == FF_MAX_GROUPS)
		return ff_fail(err, FF_E_INPUT,
				"option --group: all rules together make more than %d groups of "
				"parameters",
				FF_MAX_GROUPS);
	if (i == groups->n)
		memcpy(groups->setting[groups->n++], setting, sizeof(groups->setting[i]));
	*ret = (uint8_t)i;
	return FF_OK;
}

/* Of one that holds several parameters they are those of all. */
static int settings_of_all(const struct ff_graph *g, uint32_t param, const double *setting,
		struct rule *rule, uint32_t n_rules, double ret[FF_SETTING_COUNT],
		struct ff_error *err)
{
	const char *first = ff_parameter_piece(g, param, 0).name;

	settings_of(g, param, first, setting, rule, n_rules, ret);
	for (uint32_t k = 1; k < ff_parameter_pieces(g, param); k++) {
		const char *name = ff_parameter_piece(g, param, k).name;
		double own[FF_SETTING_COUNT];

		settings_of(g, param, name, setting, rule, n_rules, own);
		if (memcmp(own, ret, sizeof(own)) != 0)
			return ff_fail(err, FF_E_INPUT,
					"option --group: %.200s and %.200s are merged by the plan, "
					"so they need the same settings",
					first, name);
	}
	return FF_OK;
}

int ff_groups_make(const struct ff_graph *g, const struct ff_optimizer *o, const double *setting,
		const char *const *rule, uint32_t n_rules, struct ff_arena *a,
		struct ff_groups *ret, struct ff_error *err)
{
	struct rule *rules = ff_arena_array(a, n_rules, sizeof(*rules));
	uint8_t *of = ff_arena_array(a, g->n_nodes, sizeof(*of));
	struct ff_groups groups;
	int code = rules && of ? FF_OK : ff_fail_memory(err);

	ff_groups_single(setting, &groups);
	for (uint32_t i = 0; i < n_rules && code == FF_OK; i++)
		code = read_rule(rule[i], o, a, &rules[i], err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		double own[FF_SETTING_COUNT];

		if (!ff_node_is_parameter(g, i))
			continue;
		code = settings_of_all(g, i, setting, rules, n_rules, own, err);
		if (code == FF_OK)
			code = find_group(&groups, own, &of[i], err);
	}
	for (uint32_t i = 0; i < n_rules && code == FF_OK; i++)
		if (!rules[i].used)
			code = ff_fail(err, FF_E_INPUT,
					"option --group %.200s: it selects none of the graph's "
					"parameters",
					rule[i]);
	if (code < 0)
		return code;
	groups.of = n_rules ? of : NULL;
	*ret = groups;
	return FF_OK;
}
