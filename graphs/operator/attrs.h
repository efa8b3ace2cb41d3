/* Attributes as the operators' rows describe them: read, check, write.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_ATTRS_H
#define FF_GRAPHS_ATTRS_H

#include "ff/json.h"
#include "ff/op.h"

/* Reads the attributes in the node object `node`; absent ones get their
 * preset, lists lie in `a`.  FF_E_INPUT names the place. */
int ff_attrs_read(const struct ff_op_row *row, const struct ff_json *node, struct ff_arena *a,
		union ff_attrs *ret, struct ff_error *err);
/* Gives lists a place of their own in `a`. */
int ff_attrs_keep(const struct ff_op_row *row, union ff_attrs *attrs, struct ff_arena *a,
		struct ff_error *err);
/* Writes all of them as members of the open object. */
void ff_attrs_write(const struct ff_op_row *row, const union ff_attrs *attrs, struct ff_out *o);
/* The first attribute outside its range (presets are always inside), or NULL. */
const struct ff_attr_row *ff_attrs_check(const struct ff_op_row *row, const union ff_attrs *attrs);

/* Word number `i` of choices such as "max|avg" and its length; NULL behind the last. */
const char *ff_choice_word(const char *choices, int32_t i, size_t *len);
/* The number of `word`, or -1. */
int32_t ff_choice_find(const char *choices, const char *word);

#endif
