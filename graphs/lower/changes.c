/* What changes what is computed, and where it is refused.  SPDX-License-Identifier: Apache-2.0 */
#include "changes.h"

static bool is_moved(const struct ff_redistribution *r)
{
	for (uint32_t i = 0; i < r->n_moves; i++)
		if (r->move[i].network_bytes > 0)
			return true;
	return false;
}

/* Where parameters are averaged each device has a network of its own meanwhile. */
static int check_averages(const struct ff_lowering *l, struct ff_error *err)
{
	static const struct ff_travel plain;
	char is[FF_TRAVEL_TEXT];

	if (l->opt->clip || l->g->dtype != FF_F32)
		return ff_fail(err, FF_E_INPUT, "parameters are averaged only where %s",
				l->opt->clip ? "gradients are not clipped: no device has all of "
					       "them"
					     : "the graph computes in float32");
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++)
		if (id != FF_WAY_AVERAGED && ff_travel_has(&l->r.travel, id)) {
			ff_travel_say(&plain, id, is);
			return ff_fail(err, FF_E_INPUT,
					"parameters are averaged only where gradients are %s: none "
					"are sent",
					is);
		}
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		if (l->s->config[i].flat)
			return ff_fail(err, FF_E_INPUT,
					"parameters are averaged only where each device updates "
					"all "
					"of them, but %s is updated flat",
					l->g->nodes[i].name);
	for (uint32_t e = 0; e < l->g->n_edges; e++)
		if (is_moved(&l->edge[e].forward) || is_moved(&l->edge[e].backward))
			return ff_fail(err, FF_E_INPUT,
					"parameters are averaged only where devices have nothing "
					"but these in common, as in data parallelism, but what %s "
					"makes is moved to %s",
					l->g->nodes[ff_edge_source(l->g, e)].name,
					l->g->nodes[l->g->edges[e].node].name);
	return FF_OK;
}

int ff_changes_check(const struct ff_lowering *l, struct ff_error *err)
{
	if (l->r.travel.staleness && l->s->scatter)
		return ff_fail(err, FF_E_INPUT,
				"gradients that wait for later steps cannot be scattered (ZeRO-2): "
				"they wait as backward has made them, whole");
	return l->r.travel.average_every ? check_averages(l, err) : FF_OK;
}
