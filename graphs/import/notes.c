/* What the user should know of an import.  SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"

#include <stdio.h>
#include <string.h>

#include "origin.h"

#define MOST_NAMED 4 /* names in a sentence */
#define EXPORT_ANEW                                                                                \
	"for training export it with optimize=False, or with dynamo=False, "                       \
	"training=TrainingMode.TRAINING and do_constant_folding=False (docs/formats.md)"

static int note(struct ff_import *im, char *text)
{
	struct ff_import_notes *notes = im->opt->notes;

	if (!text)
		return ff_fail_memory(im->err);
	if (notes && notes->n < FF_IMPORT_NOTES)
		notes->text[notes->n++] = text;
	return FF_OK;
}

/* "a, b and 3 more"; NULL without memory. */
static const char *enumerate(struct ff_import *im, const struct ff_names *names)
{
	const char *text = names->name[0];

	for (uint32_t i = 1; i < names->n && i < MOST_NAMED && text; i++)
		text = ff_arena_printf(im->arena, "%s%s%s", text,
				i + 1 == names->n ? " and " : ", ", names->name[i]);
	if (names->n > MOST_NAMED && text)
		text = ff_arena_printf(im->arena, "%s and %u more", text, names->n - MOST_NAMED);
	return text;
}

/* FORMAT has the model and the names. */
static int note_names(struct ff_import *im, const char *format, const struct ff_names *names)
{
	const char *text = names->n ? enumerate(im, names) : NULL;
	char whole[FF_ERROR_TEXT];

	if (!names->n)
		return FF_OK;
	if (!text)
		return ff_fail_memory(im->err);
	snprintf(whole, sizeof(whole), format, im->opt->model, text);
	return note(im, ff_arena_strdup(im->arena, whole));
}

static int add(struct ff_import *im, struct ff_names *names, const char *name)
{
	if (ff_names_find(names, name) != FF_NONE)
		return FF_OK;
	return ff_names_put(names, name, 0) < 0 ? ff_fail_memory(im->err) : FF_OK;
}

/* The module "layer.norm" of "layer.norm.running_mean"; "" where that is not what it is called. */
static const char *norm_of(struct ff_import *im, const char *target)
{
	static const char statistic[] = ".running_mean";
	size_t n = strlen(target), own = sizeof(statistic) - 1;

	return n > own && !strcmp(target + n - own, statistic)
			       ? ff_arena_printf(im->arena, "%.*s", (int)(n - own), target)
			       : "";
}

static bool is_of(const struct ff_names *modules, const char *target)
{
	for (uint32_t i = 0; i < modules->n; i++) {
		size_t n = strlen(modules->name[i]);

		if (!strncmp(modules->name[i], target, n) && target[n] == '.')
			return true;
	}
	return false;
}

/* What the module has and the file has not: batch norms, whose statistics are gone, and other
 * parameters. */
static int note_missing(struct ff_import *im)
{
	const struct ff_origins *o = im->origins;
	struct ff_names norms, others;
	int code = FF_OK;

	ff_names_init(&norms, im->arena);
	ff_names_init(&others, im->arena);
	for (uint32_t i = 0; i < o->n && code == FF_OK; i++) {
		const char *norm = o->spec[i].there || o->spec[i].parameter
						   ? ""
						   : norm_of(im, o->spec[i].target);

		code = !norm ? ff_fail_memory(im->err) : *norm ? add(im, &norms, norm) : FF_OK;
	}
	for (uint32_t i = 0; i < o->n && code == FF_OK; i++)
		if (o->spec[i].parameter && o->spec[i].wanted && !o->spec[i].there &&
				!o->spec[i].used && !is_of(&norms, o->spec[i].target))
			code = add(im, &others, o->spec[i].target);
	if (code == FF_OK)
		code = note_names(im,
				"%s: has no batch norms any more: its exporter made %s part of "
				"other weights, which fits evaluation; " EXPORT_ANEW,
				&norms);
	return code < 0 ? code
			: note_names(im,
					  "%s: has the module's %s no more (an exporter may leave "
					  "out what is zero): "
					  "not trained here; optimize=False keeps them",
					  &others);
}

int ff_origin_notes(struct ff_import *im)
{
	static const char *const format[FF_ONNX_LISTS] = {
			[FF_ONNX_GUESSED] = "%s: does not say what %s are; taken for constants",
			[FF_ONNX_DOUBTED] = "%s: does not say what %s are; taken for parameters, "
					    "and trained",
			[FF_ONNX_BUFFERS] = "%s: %s are buffers of the module, but parameters "
					    "here; ffrun --group 'NAME:factor=0,decay=0' leaves "
					    "one as it is",
			[FF_ONNX_TIED] = "%s: %s are one with other parameters in the file, and "
					 "stay so",
			[FF_ONNX_REMADE] = "%s: its exporter made weights of %s anew, as it makes "
					   "batch norms part of them, which fits "
					   "evaluation; " EXPORT_ANEW,
	};
	int code = im->opt->notes ? note_missing(im) : FF_OK;

	for (size_t i = 0; i < FF_ONNX_LISTS && im->opt->notes && code == FF_OK; i++)
		code = note_names(im, format[i], &im->origins->listed[i]);
	return code;
}
