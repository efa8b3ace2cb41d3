/* What a schedule says of parameters.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_PARAMETERS_H
#define FF_TESTS_PARAMETERS_H

#include "ff/schedule.h"

void check_parameters(const struct ff_schedule *s, uint32_t *seen);

#endif
