/* Changes of all operators at once.  SPDX-License-Identifier: Apache-2.0 */
#include "at_once.h"

#include "degrees.h"
#include "extras.h"
#include "heavy.h"
#include "space/carry_config.h"

/* Where those are that had a share of the devices. */
enum width { APART, TOGETHER, SPREAD, NARROW, WIDTHS };

/* By sample over `on`, or, where that has one device, there. */
static void put(const struct ff_node *n, const struct ff_progression *on, struct ff_config *ret)
{
	uint32_t sample = ff_node_sample_dim(n);

	*ret = (struct ff_config){.replicas = 1, .start = (uint16_t)on->start, .n_parts = on->n};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = 1;
	ret->degree[sample] = (uint16_t)on->n;
	ret->stride[sample] = on->n > 1 ? (uint16_t)on->step : 0;
}

/* `by` times as many devices. */
static void widen(enum width how, uint32_t by, uint32_t n_devices, struct ff_progression *on)
{
	on->n *= by;
	if (how == APART)
		on->start *= by;
	if (how == TOGETHER)
		on->start -= on->start % (on->n * on->step);
	if (how != SPREAD)
		return;
	on->step = n_devices / on->n;
	on->start %= on->step ? on->step : 1;
}

static bool change(const struct ff_proposer *p, uint32_t node, enum width how, uint32_t by,
		struct ff_config *ret)
{
	const struct ff_config *own = ff_proposer_config(p, node);
	const struct ff_node *n = &p->graph->nodes[node];
	struct ff_progression on = ff_config_progression(n, own);
	uint32_t sample = ff_node_sample_dim(n);
	struct ff_error why;

	if (sample == FF_NONE || own->list || own->n_parts != own->degree[sample])
		return false;
	if (how == NARROW && on.n % by)
		return false;
	if (how == NARROW)
		on.n /= by;
	else
		widen(how, by, p->space->n_devices, &on);
	if (on.n > (uint32_t)n->dim[sample].extent ||
			on.start + (on.n - 1) * on.step >= p->space->n_devices)
		return false;
	put(n, &on, ret);
	return ff_config_check(n, ret, p->space->n_devices, &why) == FF_OK;
}

static void change_all(struct ff_proposer *p, enum width how, uint32_t by)
{
	struct ff_config config;

	for (uint32_t k = 0; k < p->n_nodes; k++)
		if (change(p, p->node[k], how, by, &config))
			ff_transaction_set(p->t, p->node[k], &config);
}

bool ff_proposer_at_once(struct ff_proposer *p, uint32_t i)
{
	uint32_t updates = p->space->what & FF_SPACE_UPDATES ? FF_UPDATE_PROPOSALS : 0;
	uint32_t widths = WIDTHS * (p->space->n_divisors - 1);

	if (ff_proposer_share(p, &i))
		return true;
	for (uint32_t k = 0; k < p->n_readers && i < updates; k++)
		ff_proposer_update(p, p->reader[k], (enum ff_update_proposal)i, k);
	if (i < updates)
		return true;
	i -= updates;
	if (i < widths)
		change_all(p, (enum width)(i % WIDTHS), p->space->divisor[1 + i / WIDTHS]);
	return i < widths || ff_proposer_shrink(p, i - widths);
}
