/* What a device sends in ring collectives: the figures that ff_comm.sent_bytes
 * counts.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_RING_H
#define FF_COMM_RING_H

#include "ff/comm.h"

/* A ring moves its array as n_devices chunks, each a device's own.  Gathering,
 * a device passes on every chunk but its successor's; scattering, every chunk
 * but its own.  Over all devices that is (p - 1) n bytes each way, whatever the
 * chunks' sizes (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009). */
enum ff_ring { FF_RING_GATHER, FF_RING_SCATTER, FF_RING_ALL_REDUCE };

/* Bytes that the device at `position` sends. */
int64_t ff_ring_bytes(enum ff_ring kind, const struct ff_collective *x, uint32_t position);

#endif
