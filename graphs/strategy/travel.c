/* How gradients travel, way by way.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/travel.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ff/codec.h"
#include "ff/json.h"

struct row {
	struct ff_way way;
	const char *argument, *help[2]; /* of the option; between its halves, the codecs */
	const char *is[2], *is_not;     /* of gradients; between its halves, the value */
	size_t at;                      /* in struct ff_travel; a number */
	uint32_t most;                  /* of it; 0: it is a codec */
};

static const struct row averaged = {
		.way.id = FF_WAY_AVERAGED,
		.way.key = "average_every",
		.way.option = "--average-every",
		.way.beside = "--simulate data-parallel beside it, as there is nothing to search: "
			      "devices have nothing but parameters in common then",
		.way.verified = ", all devices' together,",
		.argument = "K",
		.help = {"sum no gradients, but average parameters every K steps, which changes "
			 "what is computed; only data parallelism"},
		.is = {"not summed, but parameters averaged every ", " steps"},
		.is_not = "summed in every step",
		.at = offsetof(struct ff_travel, average_every),
		.most = 1000000,
};

static const struct row late = {
		.way.id = FF_WAY_LATE,
		.way.key = "staleness",
		.way.option = "--staleness",
		.way.beside = "--simulate beside it, as no search chooses what changes the "
			      "mathematics",
		.way.verified = ", when they are applied,",
		.argument = "S",
		.help = {"apply gradients S steps late, so that their way there overlaps with the "
			 "next step, which changes what is computed"},
		.is = {"applied with a staleness of ", ""},
		.is_not = "not applied late",
		.at = offsetof(struct ff_travel, staleness),
		.most = 64,
};

static const struct row compressed = {
		.way.id = FF_WAY_COMPRESSED,
		.way.key = "compress",
		.way.option = "--compress",
		.way.verified = ", with what was not sent of them yet,",
		.argument = "CODEC",
		.help = {"send gradients as they are (none) or as ",
				", and what that loses later, which changes what is computed"},
		.is = {"sent as ", ""},
		.is_not = "not compressed",
};

static const struct row *const rows[FF_WAY_COUNT] = {
		[FF_WAY_AVERAGED] = &averaged,
		[FF_WAY_LATE] = &late,
		[FF_WAY_COMPRESSED] = &compressed,
};

static uint32_t number(const struct ff_travel *t, enum ff_way_id id)
{
	uint32_t n;

	memcpy(&n, (const char *)t + rows[id]->at, sizeof(n));
	return n;
}

static void set_number(struct ff_travel *t, enum ff_way_id id, uint32_t n)
{
	memcpy((char *)t + rows[id]->at, &n, sizeof(n));
}

const struct ff_way *ff_way(enum ff_way_id id)
{
	return &rows[id]->way;
}

bool ff_travel_has(const struct ff_travel *t, enum ff_way_id id)
{
	return rows[id]->most ? number(t, id) > 0 : t->codec != NULL;
}

bool ff_travel_alike(const struct ff_travel *t, const struct ff_travel *other, enum ff_way_id id)
{
	return rows[id]->most ? number(t, id) == number(other, id) : t->codec == other->codec;
}

const struct ff_way *ff_travel_unsearched(const struct ff_travel *t)
{
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++)
		if (rows[id]->way.beside && ff_travel_has(t, id))
			return &rows[id]->way;
	return NULL;
}

/* ---- words ---- */

void ff_travel_value(const struct ff_travel *t, enum ff_way_id id, char text[FF_TRAVEL_TEXT])
{
	if (rows[id]->most)
		snprintf(text, FF_TRAVEL_TEXT, "%u", number(t, id));
	else
		snprintf(text, FF_TRAVEL_TEXT, "%s", t->codec ? t->codec->name : "none");
}

void ff_travel_say(const struct ff_travel *t, enum ff_way_id id, char text[FF_TRAVEL_TEXT])
{
	char value[FF_TRAVEL_TEXT];

	ff_travel_value(t, id, value);
	if (ff_travel_has(t, id))
		snprintf(text, FF_TRAVEL_TEXT, "%s%.40s%s", rows[id]->is[0], value,
				rows[id]->is[1]);
	else
		snprintf(text, FF_TRAVEL_TEXT, "%s", rows[id]->is_not);
}

/* ---- files ---- */

static int read_codec(const struct ff_json *object, const char *key, const struct ff_codec **ret,
		struct ff_error *err)
{
	struct ff_error inner;
	const char *name;
	int code = ff_json_string(object, key, &name, err);

	if (code == FF_OK && ff_codec_find(name, ret, &inner) < 0)
		return ff_json_fail(ff_json_get(object, key), err, "%s", inner.text);
	return code;
}

int ff_travel_read(const struct ff_json *object, struct ff_travel *ret, struct ff_error *err)
{
	struct ff_travel t = {0};
	int code = FF_OK;

	for (enum ff_way_id id = 0; id < FF_WAY_COUNT && code == FF_OK; id++) {
		const char *key = rows[id]->way.key;
		int64_t n = 0;

		if (!ff_json_get(object, key))
			continue;
		if (!rows[id]->most) {
			code = read_codec(object, key, &t.codec, err);
			continue;
		}
		code = ff_json_int(object, key, 1, rows[id]->most, &n, err);
		set_number(&t, id, (uint32_t)n);
	}
	if (code == FF_OK)
		*ret = t;
	return code;
}

void ff_travel_write(const struct ff_travel *t, struct ff_out *o)
{
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		if (!ff_travel_has(t, id))
			continue;
		if (rows[id]->most)
			ff_out_int(o, rows[id]->way.key, number(t, id));
		else
			ff_out_string(o, rows[id]->way.key, t->codec->name);
	}
}

/* ---- options ---- */

void ff_travel_options_init(struct ff_travel_options *o)
{
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		o->word[id] = NULL;
		o->count[id] = FF_TRAVEL_UNASKED;
	}
}

struct ff_option ff_travel_option(struct ff_travel_options *o, enum ff_way_id id,
		const char *otherwise, char text[FF_TRAVEL_HELP])
{
	const struct row *r = rows[id];
	char codecs[FF_CODEC_TEXT] = "";

	if (!r->most)
		ff_codec_list(codecs);
	snprintf(text, FF_TRAVEL_HELP, "%s%s%s; else %s", r->help[0], codecs,
			r->help[1] ? r->help[1] : "", otherwise);
	return (struct ff_option){.name = r->way.option,
			.type = r->most ? FF_OPTION_COUNT : FF_OPTION_TEXT,
			.value = r->most ? (void *)&o->count[id] : (void *)&o->word[id],
			.argument = r->argument,
			.help = text};
}

bool ff_travel_asked(const struct ff_travel_options *o, enum ff_way_id id)
{
	return rows[id]->most ? o->count[id] != FF_TRAVEL_UNASKED : o->word[id] != NULL;
}

int ff_travel_choose(const struct ff_travel_options *o, struct ff_travel *t, struct ff_error *err)
{
	struct ff_error inner;

	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		const struct row *r = rows[id];

		if (!ff_travel_asked(o, id))
			continue;
		if (!r->most && ff_codec_find(o->word[id], &t->codec, &inner) < 0)
			return ff_fail(err, FF_E_INPUT, "option %s: %s", r->way.option, inner.text);
		if (!r->most)
			continue;
		if (o->count[id] > r->most)
			return ff_fail(err, FF_E_INPUT, "option %s: expected at most %u",
					r->way.option, r->most);
		set_number(t, id, (uint32_t)o->count[id]);
	}
	return FF_OK;
}
