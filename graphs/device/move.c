/* Names of the kinds of moves, as cost files and timelines have them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/move.h"

const char *ff_move_name(enum ff_move_kind kind)
{
	static const char *const names[] = {"load", "copy", "point-to-point", "halo", "all-to-all",
			"all-gather", "reduce-scatter", "all-reduce"};

	return names[kind];
}
