/* What costs were measured on.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ORIGIN_H
#define FF_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_out; /* ff/json.h */

/* Figures of another one are figures of something else. */
struct ff_origin {
	const char *processor;                /* model */
	const char *kernels;                  /* their library and its version */
	const char *mpi;                      /* likewise, or "none" */
	uint32_t cores, threads;              /* that each rank may use, and uses */
	uint32_t ranks, hosts;                /* measured at once; ranks 0: nothing is known */
	const char *driver;                   /* its versions; NULL or "": there is none */
	uint32_t clock_mhz, memory_clock_mhz; /* of the device, at most; 0: not told */
	const char *communication; /* what ranks talk over, as ff_comm.name; NULL or "": not told */
	const char *topology;      /* fingerprint of hosts and where ranks lie; likewise */
};

/* FF_E_INPUT unless both are the same; the sentence names `file` and what differs.  A
 * communication or topology that is not told may be any. */
int ff_origin_check(const char *file, const struct ff_origin *was, const struct ff_origin *is,
		struct ff_error *err);
/* Whether the communication sent collectives in stages (ff/nodes.h). */
bool ff_origin_is_by_nodes(const struct ff_origin *origin);
void ff_origin_write(const struct ff_origin *origin, const char *key, struct ff_out *o);

#endif
