/* Bytes of ring collectives.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_RING_H
#define FF_COMM_RING_H

#include "ff/comm.h"

/* Bytes that the device at `position` sends in a ring, which moves its array as
 * n_devices chunks, each a device's own.  Gathering, a device passes on every chunk but
 * its successor's; scattering, every chunk but its own.  Over all devices that is
 * (p - 1) n bytes each way, whatever the chunks' sizes (Patarasuk and Yuan, J. Parallel
 * Distrib. Comput. 69, 2009). */
int64_t ff_ring_bytes(const struct ff_collective *x, uint32_t position);

#endif
