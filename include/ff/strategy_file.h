/* Strategy files, read and written (docs/formats.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_FILE_H
#define FF_STRATEGY_FILE_H

#include "ff/json.h"
#include "ff/strategy_info.h"

#define FF_STRATEGY_VERSION 2 /* of the file format */

/* Reads a strategy for `g` on at most `n_devices` devices.  A strategy for
 * another graph (hash) or for one that is rewritten otherwise, or for more devices, is a named
 * FF_E_INPUT. */
int ff_strategy_load(const char *path, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err);
/* Without a graph: format and members of the strategy file `root`, those of an entry. */
int ff_strategy_check_header(const struct ff_json *root, struct ff_error *err);
int ff_strategy_check_entry(const struct ff_json *op, struct ff_error *err);
/* "order" of the strategy file `root`; without one *ret stays. */
int ff_strategy_read_order(
		const struct ff_json *root, enum ff_order_rule *ret, struct ff_error *err);
/* "ticks" of the strategy file `root`: s->ticks. */
int ff_strategy_read_ticks(const struct ff_json *root, struct ff_strategy *s, struct ff_error *err);
/* "gradients" of the strategy file `root`: s->scatter. */
int ff_strategy_read_scatter(
		const struct ff_json *root, struct ff_strategy *s, struct ff_error *err);
/* "shards" of the strategy file `root`: s->shards. */
int ff_strategy_read_shards(
		const struct ff_json *root, struct ff_strategy *s, struct ff_error *err);
/* Rewrites `g` as the file has it, then loads the strategy for that. */
int ff_strategy_load_rewritten(const char *path, struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err);
void ff_strategy_write(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_out *o);

#endif
