/* Groups of parameters: those of one group are updated by the same settings.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GROUPS_H
#define FF_GROUPS_H

#include "ff/graph.h"
#include "ff/optimizer.h"

struct ff_groups {
	uint32_t n; /* at least 1: the first is of parameters that no rule is about */
	double setting[FF_MAX_GROUPS][FF_SETTING_COUNT];
	const uint8_t *of; /* by node: a parameter's; NULL: all are of the first */
};

/* All parameters of `g` by `setting`, in one group. */
void ff_groups_single(const double *setting, struct ff_groups *ret);
/* Rules are SELECT[,SELECT...]:NAME=VALUE[,NAME=VALUE...].  SELECT is bias (parameters that
 * operators call so), norm (those of normalisations) or a pattern of names (* and ?); NAME is a
 * setting of `o`, or factor, what the rate is multiplied by.  All rules that select a
 * parameter hold for it, later ones before earlier ones.  FF_E_INPUT for what is none of that,
 * and for rules that select nothing.  Memory from `a`. */
int ff_groups_make(const struct ff_graph *g, const struct ff_optimizer *o, const double *setting,
		const char *const *rule, uint32_t n_rules, struct ff_arena *a,
		struct ff_groups *ret, struct ff_error *err);

#endif
