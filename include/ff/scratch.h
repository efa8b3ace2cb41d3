/* Scratch of kernels that nobody has prepared or measured: an upper estimate from their shapes,
 * for planning without a file of costs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SCRATCH_H
#define FF_SCRATCH_H

#include "ff/machine.h"
#include "ff/work.h"

/* What the kernels of a machine are taken for: those of each backend that its devices may have. */
struct ff_scratch {
	bool cpu, cuda;
	int64_t threads; /* of a CPU's device */
};

/* A kind of device that does not name its backend is a CPU. */
void ff_scratch_init(const struct ff_machine *m, struct ff_scratch *ret);
/* Bytes; fits ff_lower_options.workspace with a struct ff_scratch as ctx. */
int64_t ff_scratch_bytes(void *scratch, const struct ff_work *w);

#endif
