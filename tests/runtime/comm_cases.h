/* What every way of communicating must do; run with all devices in one process
 * and with one a rank.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_COMM_CASES_H
#define FF_TEST_COMM_CASES_H

#include "ff/comm.h"
#include "ff/philox.h"

/* Random groups, sizes and contents; all ranks draw the same from `r`. */
void comm_all_reduce(struct ff_comm *c, struct ff_random *r);
void comm_all_gather(struct ff_comm *c, struct ff_random *r);
void comm_reduce_scatter(struct ff_comm *c, struct ff_random *r);
void comm_exchange(struct ff_comm *c, struct ff_random *r);

#endif
