/* What machines that are known by name need of the reader of their files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_MACHINE_H
#define FF_DEVICE_MACHINE_H

#include "ff/machine.h"

/* Of a parsed file; with `n_nodes` > 0 so many like the only one in it. */
int ff_machine_read(const struct ff_json *root, uint32_t n_nodes, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err);

#endif
