/* Configs carried to another node and to another number of devices: plans that are gone on from,
 * and what they would come to elsewhere.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CARRY_CONFIG_H
#define FF_PLANNER_CARRY_CONFIG_H

#include "ff/config.h"
#include "ff/json.h"

/* What became of a config. */
enum ff_carried {
	FF_CARRIED,      /* as it was, on all devices that it is to be on */
	FF_CARRIED_LESS, /* cut less often, or on fewer devices than it could be on */
	FF_CARRIED_NOT,
};

/* The number that `object` (NULL: there is none) of a strategy file has for `key`, at most
 * FF_MAX_DEVICES; `otherwise` where it has none such. */
uint32_t ff_carry_number(const struct ff_json *object, const char *key, uint32_t otherwise);
/* The config that the entry `op` of a strategy file gives node `n`, by names of dims.  False: it
 * cuts a dim that the node has not, or says nothing that makes sense.  Lists of devices that are no
 * view are from `a`. */
bool ff_carry_read(const struct ff_json *op, const struct ff_node *n, struct ff_arena *a,
		struct ff_config *ret);
/* What `c`, a config on `from` devices, is for node `n` on `to`: the batch's shares grow and shrink
 * with the devices where they can, copies and other cuts where those cannot.  On as many devices,
 * and where nothing divides, it stays as it is, if those devices are there. */
enum ff_carried ff_carry_config(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret);
/* What `c`, where a parameter is updated, is on `to` devices.  On fewer than its readers it would
 * travel alone, not in a bucket: what cannot be cut more often has copies, and what is cut less
 * often is flat. */
void ff_carry_parameter(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret);
/* The node's samples over `width` devices from `first` on, or as many as there are samples. */
void ff_carry_samples(
		const struct ff_node *n, uint32_t first, uint32_t width, struct ff_config *ret);

#endif
