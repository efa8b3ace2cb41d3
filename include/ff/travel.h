/* How gradients travel from backward to the update: as they are, unless the user asks for a way
 * that changes what is computed (docs/gradients.md).  A way is a row of one table, which says what
 * files, options and messages call it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TRAVEL_H
#define FF_TRAVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/command.h"
#include "ff/error.h"

struct ff_codec;
struct ff_json;
struct ff_out;

enum ff_way_id { FF_WAY_AVERAGED, FF_WAY_LATE, FF_WAY_COMPRESSED, FF_WAY_COUNT };

/* All zero: as they are. */
struct ff_travel {
	uint32_t average_every;       /* steps; parameters are sent instead of gradients */
	uint32_t staleness;           /* steps that gradients wait until they are applied */
	const struct ff_codec *codec; /* that compresses them */
};

struct ff_way {
	enum ff_way_id id;
	const char *key, *option; /* in files; on command lines */
	const char *beside; /* what an option of ffsearch needs beside it, and why; NULL: nothing */
	const char *verified; /* gradients that --verify compares: "gradients%s" */
};
const struct ff_way *ff_way(enum ff_way_id id);

/* Whether gradients travel so, and whether so as in `other`. */
bool ff_travel_has(const struct ff_travel *t, enum ff_way_id id);
bool ff_travel_alike(const struct ff_travel *t, const struct ff_travel *other, enum ff_way_id id);
/* The way in use that `ffsearch` takes with --simulate alone; NULL: there is none. */
const struct ff_way *ff_travel_unsearched(const struct ff_travel *t);

#define FF_TRAVEL_TEXT 96
/* What gradients are: "sent as ternary", "not compressed". */
void ff_travel_say(const struct ff_travel *t, enum ff_way_id id, char text[FF_TRAVEL_TEXT]);
/* What an option is given: "ternary", "none", "4". */
void ff_travel_value(const struct ff_travel *t, enum ff_way_id id, char text[FF_TRAVEL_TEXT]);

/* Members of an object; those that are not there are ways that are not in use. */
int ff_travel_read(const struct ff_json *object, struct ff_travel *ret, struct ff_error *err);
void ff_travel_write(const struct ff_travel *t, struct ff_out *o);

/* What a command line asked for. */
struct ff_travel_options {
	const char *word[FF_WAY_COUNT]; /* NULL: nothing */
	uint64_t count[FF_WAY_COUNT];   /* FF_TRAVEL_UNASKED: nothing */
};
#define FF_TRAVEL_UNASKED UINT64_MAX
#define FF_TRAVEL_HELP 384

void ff_travel_options_init(struct ff_travel_options *o);
/* The option that fills `o`, with help in `text` that ends with what holds without it, as in
 * "the strategy's". */
struct ff_option ff_travel_option(struct ff_travel_options *o, enum ff_way_id id,
		const char *otherwise, char text[FF_TRAVEL_HELP]);
bool ff_travel_asked(const struct ff_travel_options *o, enum ff_way_id id);
/* Sets in *t what was asked for.  FF_E_INPUT names the option. */
int ff_travel_choose(const struct ff_travel_options *o, struct ff_travel *t, struct ff_error *err);

#endif
