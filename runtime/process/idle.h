/* What a thread does that has looked for other ranks in vain.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_IDLE_H
#define FF_IDLE_H

#include <stdbool.h>

/* Whether it has nothing else to do: then it may wait as whatever it waits for has it. */
bool ff_idle_may_block(void);
/* Between two looks: leaves the thread to what is computed (in a fiber), or the core to others. */
void ff_idle(void);

#endif
