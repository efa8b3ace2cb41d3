/* The rewrites that a strategy file names.  SPDX-License-Identifier: Apache-2.0 */
#include "rewrites.h"

#include <string.h>

#include "ff/rewrite.h"
#include "ff/strategy.h"

static int read_rewrites(const struct ff_json *root, struct ff_arena *a, const char *const **ret,
		uint32_t *n, struct ff_error *err)
{
	const struct ff_json *list = ff_json_get(root, "rewrites");
	const char **text;

	*n = list ? list->n : 0;
	text = ff_arena_array(a, *n, sizeof(*text));
	if (!text)
		return ff_fail_memory(err);
	if (list && list->type != FF_JSON_ARRAY)
		return ff_json_fail(list, err, "expected an array of rewrites");
	for (uint32_t i = 0; i < *n; i++) {
		if (list->child[i].type != FF_JSON_STRING)
			return ff_json_fail(&list->child[i], err,
					"expected merge_products:NODE+NODE...");
		text[i] = list->child[i].text;
	}
	*ret = text;
	return FF_OK;
}

int ff_rewrites_check(const struct ff_json *root, const struct ff_graph *g, struct ff_arena *a,
		struct ff_error *err)
{
	const char *const *text;
	uint32_t n, have = g->rewritten ? g->rewritten->n : 0;
	int code = read_rewrites(root, a, &text, &n, err);
	bool same = n == have;

	for (uint32_t i = 0; code == FF_OK && same && i < n; i++)
		same = !strcmp(text[i], g->rewritten->text[i]);
	if (code == FF_OK && !same)
		return ff_json_fail(root, err,
				"the strategy is for graph %s with %u rewrites, where %u %s: they "
				"must be the same",
				g->name, n, have, have == 1 ? "was done" : "were done");
	return code;
}

int ff_strategy_rewrite(const struct ff_json *root, struct ff_arena *a, struct ff_graph *g,
		struct ff_error *err)
{
	const char *const *text;
	struct ff_error inner;
	uint32_t n;
	int code = read_rewrites(root, a, &text, &n, err);

	if (code < 0 || !n || g->rewritten)
		return code;
	code = ff_graph_rewrite(g, text, n, a, g, &inner);
	if (code == FF_E_INPUT)
		return ff_json_fail(ff_json_get(root, "rewrites"), err, "%s", inner.text);
	return code < 0 ? ff_fail_memory(err) : FF_OK;
}
