/* Configs carried to another node and to another number of devices.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PLAN_CARRY_H
#define FF_PLANNER_PLAN_CARRY_H

#include "ff/config.h"
#include "ff/json.h"

/* What became of a config. */
enum ff_carried {
	FF_CARRIED,      /* as it was, on all devices that it is to be on */
	FF_CARRIED_LESS, /* cut less often, or on fewer devices than it could be on */
	FF_CARRIED_NOT,
};

/* What the entry `op` of a plan for `from` devices is for node `n` on `to`: the batch's shares grow
 * and shrink with the devices where they can, copies and other cuts where those cannot. */
enum ff_carried ff_carry_config(const struct ff_json *op, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret);

#endif
