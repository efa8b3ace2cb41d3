/* What cuBLASLt and cuDNN chose for a problem, kept on disk from run to run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PLANS_H
#define FF_CUDA_PLANS_H

#include "cuda/core/device.h"

#define FF_PLANS_TEXT 2048 /* bytes of a problem, of a choice, at most */

struct ff_plans;

/* A line that was kept for `problem`, a line too, by such a device with these libraries; false
 * where there is none that is whole.  Nobody is told why. */
bool ff_plans_find(struct ff_device *dev, const char *problem, char choice[FF_PLANS_TEXT]);
/* Whether this process times what libraries offer (FF_CUDA_TUNE): only where choices are kept,
 * since another time might choose another, with a larger workspace. */
int ff_plans_tune(struct ff_device *dev, bool *ret, struct ff_error *err);
/* Nothing is kept where that cannot be. */
void ff_plans_keep(struct ff_device *dev, const char *problem, const char *choice);
void ff_plans_close(struct ff_plans *p);

/* Bytes as hexadecimal digits, behind what is in `text`; false where there is no room. */
bool ff_plans_print(char text[FF_PLANS_TEXT], const void *bytes, size_t n);
/* And back: exactly so many, followed by nothing. */
bool ff_plans_scan(const char *text, void *bytes, size_t n);

#endif
