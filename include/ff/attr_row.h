/* How attributes of operators are read, written and checked: one row each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ATTR_ROW_H
#define FF_ATTR_ROW_H

#include <stddef.h>

/* How one attribute is read, written and checked. */
enum ff_attr_type {
	FF_ATTR_INT,
	FF_ATTR_AXES, /* one number for each of the row's spatial axes */
	FF_ATTR_PADS, /* two: all those before, then, FF_MAX_SPATIAL behind, those after */
	FF_ATTR_SHAPE,
	FF_ATTR_BOOL,
	FF_ATTR_REAL,
	FF_ATTR_CHOICE,
	FF_ATTR_LIST /* required; not in keys */
};
enum { FF_KEY_UNLESS_PRESET = 2 };

struct ff_attr_row {
	const char *name;
	enum ff_attr_type type;
	int required;
	size_t offset;       /* in union ff_attrs; SHAPE: of its rank, shape follows */
	double min, max;     /* legal range of each number */
	double preset;       /* when absent; unused if required */
	const char *choices; /* CHOICE: "max|avg", stored as the index */
	int of_batch;        /* SHAPE: where the first is the number of samples, it stays that */
	int in_key;          /* part of the cost key: changes the kernel beyond what the shapes say;
			      * FF_KEY_UNLESS_PRESET: INT, where it is not the preset */
	int later;           /* came later: not written where preset, so older graphs keep hashes */
};

#endif
