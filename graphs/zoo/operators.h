/* The operators and what each can be cut along.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ZOO_OPERATORS_H
#define FF_ZOO_OPERATORS_H

#include <stdbool.h>

#include "ff/json.h"

/* A table for docs/operators.md, or JSON (docs/schema/operators.schema.json). */
int ff_operators_write(bool json, struct ff_out *o, struct ff_error *err);

#endif
