/* Communication that the host carries out: posted as a host function of the stream,
 * by way of host memory where the host cannot read the backend's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_POST_H
#define FF_COMM_POST_H

#include "posted.h"

/* Fills what is posted in base, and all below run_exchange. */
void ff_host_comm_init(struct ff_host_comm *h);
void ff_host_comm_finish(struct ff_host_comm *h);
/* Less than the preset, for tests; and what came of it.  An element of each array goes at once in
 * any case, and begins on 64 bytes. */
void ff_host_comm_limit(struct ff_comm *c, int64_t most_bytes);
size_t ff_host_comm_bounced(const struct ff_comm *c);

#endif
