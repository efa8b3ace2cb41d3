/* What has arrived at a node, and what is held back.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ARRIVALS_H
#define FF_SIMULATOR_ARRIVALS_H

#include "trial.h"

/* What has arrived is taken out. */
void ff_time_forget(struct ff_timed_node *t, uint32_t micro);
/* Who reads first what is moved again over `edge`, and in which phase. */
uint32_t ff_time_reader(const struct ff_trial *e, uint32_t edge);
enum ff_phase ff_time_reads_again(const struct ff_trial *e, uint32_t node);
/* When a limited move may begin: lowering's limit_prefetch; what is limited has been computed: its
 * note_limited. */
double ff_time_held(
		const struct ff_trial *e, const struct ff_step *s, const struct ff_memo_move *tm);
void ff_time_pace(struct ff_trial *e, const struct ff_timed_node *t);

#endif
