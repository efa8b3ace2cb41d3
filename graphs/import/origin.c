/* Which initializers are parameters.  PyTorch's exporter writes the signature of the program that
 * it exported (what is a parameter, what a buffer), of constants that it folded what they were
 * computed from, and by node what that was in the program.  SPDX-License-Identifier: Apache-2.0 */
#include "origin.h"

#include <string.h>

#include "metadata.h"

#define SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"
#define FOLDED_FROM "pkg.onnxscript.optimizer.folded_from"
#define PROGRAM_NODE "pkg.torch.onnx.fx_node"
#define REWRITTEN "pkg.onnxscript.rewriter.rule_name"
/* metadata_props of onnx.proto since version 10 of it */
#define OF_GRAPH 16
#define OF_NODE 9
#define OF_VALUE 4

#define REMADE "onnx::Conv_" /* a convolution's weights that are no module's any more */

#define MASKED -1e4f /* what scores get that are to count for nothing */
#define MENTIONED 16

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* ---- what the file says ---- */

static int put(struct ff_import *im, struct ff_names *names, const char *name, uint32_t index)
{
	if (ff_names_find(names, name) != FF_NONE)
		return FF_OK;
	return ff_names_put(names, name, index) < 0 ? ff_fail_memory(im->err) : FF_OK;
}

/* "p_fc_weight: PARAMETER target='fc.weight'" */
static int read_spec(struct ff_import *im, const char *line, size_t len)
{
	struct ff_origins *o = im->origins;
	struct ff_onnx_spec *s = &o->spec[o->n];
	char *text = ff_arena_printf(im->arena, "%.*s", (int)len, line);
	char *colon = text ? strstr(text, ": ") : NULL,
	     *target = colon ? strstr(colon, " target='") : NULL, *end;
	int code;

	if (!text)
		return ff_fail_memory(im->err);
	if (!target || !(end = strchr(target + 9, '\'')))
		return FF_OK; /* what the user gives, and other things */
	*colon = *end = '\0';
	*s = (struct ff_onnx_spec){.placeholder = text,
			.target = target + 9,
			.parameter = !strncmp(colon + 2, "PARAMETER ", 10)};
	if ((code = put(im, &o->by_placeholder, s->placeholder, o->n)) < 0 ||
			(code = put(im, &o->by_target, s->target, o->n)) < 0)
		return code;
	o->told = o->told || s->parameter;
	o->n++;
	return FF_OK;
}

static int read_signature(struct ff_import *im, const char *text)
{
	const char *from = strstr(text, "# inputs"), *to = strstr(text, "# outputs");
	size_t lines = 1;
	int code = FF_OK;

	if (!from)
		return FF_OK;
	if (!to || to < from)
		to = text + strlen(text);
	for (const char *c = from; c < to; c++)
		lines += *c == '\n';
	im->origins->spec = ff_arena_array(im->arena, lines, sizeof(*im->origins->spec));
	if (!im->origins->spec)
		return ff_fail_memory(im->err);
	for (const char *next; from < to && code == FF_OK; from = next) {
		size_t len = strcspn(from, "\n");

		code = read_spec(im, from, len < (size_t)(to - from) ? len : (size_t)(to - from));
		next = from + len + 1;
	}
	return code;
}

/* The next text between quotes, of which there are two kinds; NULL behind the last. */
static const char *next_quoted(const char *at, size_t *len)
{
	const char *end;

	at += strcspn(at, "'\"");
	end = *at ? strchr(at + 1, *at) : NULL;
	if (!end)
		return NULL;
	*len = (size_t)(end - at - 1);
	return at + 1;
}

static int find_target(struct ff_import *im, const char *text, size_t len, uint32_t *ret)
{
	const char *name = ff_arena_printf(im->arena, "%.*s", (int)len, text);

	if (!name)
		return ff_fail_memory(im->err);
	*ret = ff_names_find(&im->origins->by_target, name);
	return FF_OK;
}

/* What it was computed from: the last parameter among it, how many of them, and how many in all. */
static int read_sources(struct ff_import *im, const char *from, uint32_t *last,
		uint32_t *parameters, uint32_t *all)
{
	size_t len;

	*last = FF_NONE;
	*parameters = *all = 0;
	while ((from = next_quoted(from, &len))) {
		uint32_t i;
		int code = find_target(im, from, len, &i);

		if (code < 0)
			return code;
		if (i != FF_NONE && im->origins->spec[i].parameter) {
			*last = i;
			++*parameters;
		}
		++*all;
		from += len + 1;
	}
	return FF_OK;
}

/* Parameters that something was computed from are there. */
static int mark_sources(struct ff_import *im, const char *from)
{
	size_t len;

	while ((from = next_quoted(from, &len))) {
		uint32_t i;
		int code = find_target(im, from, len, &i);

		if (code < 0)
			return code;
		if (i != FF_NONE)
			im->origins->spec[i].there = true;
		from += len + 1;
	}
	return FF_OK;
}

static int read_folded(struct ff_import *im)
{
	const Onnx__GraphProto *g = im->graph;
	struct ff_origins *o = im->origins;
	int code = FF_OK;

	o->folded_from = ff_arena_array(im->arena, g->n_value_info + 1, sizeof(*o->folded_from));
	if (!o->folded_from)
		return ff_fail_memory(im->err);
	for (size_t i = 0; i < g->n_value_info && code == FF_OK; i++) {
		const char *from = NULL;

		if (g->value_info[i]->name)
			code = ff_onnx_metadata(
					im, &g->value_info[i]->base, OF_VALUE, FOLDED_FROM, &from);
		if (!from || code < 0)
			continue;
		o->folded_from[o->n_folded] = from;
		if ((code = put(im, &o->folded, g->value_info[i]->name, o->n_folded++)) == FF_OK)
			code = mark_sources(im, from);
	}
	return code;
}

/* Of the module's parameters those that a node of the program takes. */
static uint32_t read_mentioned(struct ff_import *im, const char *program, uint32_t ret[MENTIONED])
{
	uint32_t n = 0;

	while (n < MENTIONED && (program = strchr(program, '%'))) {
		size_t len = 0;
		const char *name;
		uint32_t i;

		for (program++; is_letter(program[len]); len++)
			;
		name = ff_arena_printf(&im->scratch, "%.*s", (int)len, program);
		i = name ? ff_names_find(&im->origins->by_placeholder, name) : FF_NONE;
		if (i != FF_NONE && im->origins->spec[i].parameter)
			ret[n++] = i;
	}
	return n;
}

/* Where all parameters are accounted for, what else there is, is none. */
static int read_program(struct ff_import *im)
{
	struct ff_origins *o = im->origins;

	for (size_t i = 0; i < im->graph->n_node; i++) {
		uint32_t mentioned[MENTIONED], n = 0;
		const char *program;
		int code = ff_onnx_metadata(
				im, &im->graph->node[i]->base, OF_NODE, PROGRAM_NODE, &program);

		if (code < 0)
			return code;
		if (program)
			n = read_mentioned(im, program, mentioned);
		for (uint32_t k = 0; k < n; k++)
			o->spec[mentioned[k]].wanted = true;
	}
	o->complete = o->told;
	for (uint32_t i = 0; i < o->n; i++)
		o->complete = o->complete &&
			      (!o->spec[i].parameter || o->spec[i].there || o->spec[i].wanted);
	return FF_OK;
}

int ff_origins_read(struct ff_import *im)
{
	struct ff_origins *o = ff_arena_alloc(im->arena, sizeof(*o));
	const char *text;
	int code;

	if (!o)
		return ff_fail_memory(im->err);
	memset(o, 0, sizeof(*o));
	im->origins = o;
	ff_names_init(&o->by_placeholder, im->arena);
	ff_names_init(&o->by_target, im->arena);
	ff_names_init(&o->folded, im->arena);
	for (size_t i = 0; i < FF_ONNX_LISTS; i++)
		ff_names_init(&o->listed[i], im->arena);
	code = ff_onnx_metadata(im, &im->graph->base, OF_GRAPH, SIGNATURE, &text);
	if (code == FF_OK && text)
		code = read_signature(im, text);
	for (size_t i = 0; i < im->graph->n_initializer && code == FF_OK; i++) {
		const char *name = im->graph->initializer[i]->name;
		uint32_t at = name ? ff_names_find(&o->by_target, name) : FF_NONE;

		if (at != FF_NONE)
			o->spec[at].there = true;
	}
	if (code == FF_OK && o->told && (code = read_folded(im)) == FF_OK)
		code = read_program(im);
	return code;
}

/* ---- what is trained ---- */

enum origin { ORIGIN_UNKNOWN, ORIGIN_PARAMETER, ORIGIN_OTHER };

static enum origin origin_of(struct ff_import *im, const char *name)
{
	struct ff_origins *o = im->origins;
	uint32_t i = ff_names_find(&o->by_target, name), last, parameters, all;

	if (!o->told)
		return ORIGIN_UNKNOWN;
	if (i != FF_NONE)
		return o->spec[i].parameter ? ORIGIN_PARAMETER : ORIGIN_OTHER;
	i = ff_names_find(&o->folded, name);
	if (i == FF_NONE || read_sources(im, o->folded_from[i], &last, &parameters, &all) < 0)
		return ORIGIN_UNKNOWN;
	return parameters ? ORIGIN_PARAMETER : ORIGIN_OTHER;
}

/* A name that no module has given: val_12, onnx::Mul_12, /block/Constant_output_0, 12. */
static bool is_invented(const char *name)
{
	size_t n = strlen(name), digits = n;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	return strstr(name, "::") || name[0] == '/' || !digits ||
	       (digits == 4 && digits < n && !strncmp(name, "val_", 4));
}

/* Zeros, and numbers so small that softmax leaves nothing of them. */
static bool is_mask(const struct ff_constant *c)
{
	bool masks = false;

	for (int64_t i = 0; i < c->n; i++) {
		if (c->f[i] != 0 && !(c->f[i] <= MASKED))
			return false;
		masks = masks || c->f[i] != 0;
	}
	return masks;
}

static void list(struct ff_import *im, enum ff_onnx_list which, const char *name)
{
	struct ff_names *l = &im->origins->listed[which];

	if (ff_names_find(l, name) == FF_NONE)
		(void)ff_names_put(l, name, 0); /* a name less in a sentence */
}

bool ff_origin_trains(struct ff_import *im, const struct ff_constant *c)
{
	enum origin from = c->whole ? ORIGIN_OTHER : origin_of(im, c->weight);

	if (from != ORIGIN_UNKNOWN)
		return from == ORIGIN_PARAMETER;
	return !im->origins->complete && !is_mask(c) &&
	       !(c->n == 1 && (im->origins->told || is_invented(c->weight)));
}

bool ff_origin_is_guess(struct ff_import *im, const struct ff_constant *c)
{
	if (origin_of(im, c->weight) != ORIGIN_UNKNOWN)
		return false;
	list(im, FF_ONNX_GUESSED, c->weight);
	return true;
}

void ff_origin_doubt(struct ff_import *im, const struct ff_constant *c)
{
	if (!c->weight || c->whole || im->origins->complete ||
			origin_of(im, c->weight) != ORIGIN_UNKNOWN)
		return;
	if (!c->trained)
		list(im, FF_ONNX_GUESSED, c->weight);
	else if (is_invented(c->weight))
		list(im, FF_ONNX_DOUBTED, c->weight);
}

/* ---- which parameter ---- */

/* "weight" of fc.weight */
static const char *own_name(const char *target)
{
	const char *dot = strrchr(target, '.');

	return dot ? dot + 1 : target;
}

/* The exporter keeps one of equal initializers, such as the ones of all norms: the program's node
 * says which parameter it has.  Those that are tied in the module have one name in the program. */
static uint32_t apart(struct ff_import *im, const char *program, uint32_t own)
{
	struct ff_origins *o = im->origins;
	uint32_t mentioned[MENTIONED], n = read_mentioned(im, program, mentioned);
	uint32_t other = FF_NONE, like = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ff_onnx_spec *s = &o->spec[mentioned[i]];

		if (mentioned[i] == own)
			return own;
		if (!s->there && !strcmp(own_name(s->target), own_name(o->spec[own].target))) {
			other = mentioned[i];
			like++;
		}
	}
	if (like == 1)
		return other;
	if (n)
		list(im, FF_ONNX_TIED, o->spec[own].target);
	return own;
}

/* The module's parameter that an initializer is, or (`folded`) is the transposed of. */
static int find_source(struct ff_import *im, const char *name, const char *program, uint32_t *ret,
		bool *folded)
{
	struct ff_origins *o = im->origins;
	uint32_t i = ff_names_find(&o->by_target, name), parameters, all;
	int code = FF_OK;

	*ret = i != FF_NONE && o->spec[i].parameter ? i : FF_NONE;
	*folded = false;
	if (i != FF_NONE || (i = ff_names_find(&o->folded, name)) == FF_NONE)
		return FF_OK;
	code = read_sources(im, o->folded_from[i], ret, &parameters, &all);
	*folded = true;
	/* a product with the transposed weight: nothing else was done to it alone */
	if (all != 1 || !strstr(program, "aten.linear."))
		*ret = FF_NONE;
	return code;
}

int ff_origin_name(struct ff_import *im, const Onnx__NodeProto *n, struct ff_constant *c)
{
	const char *program, *rule = NULL;
	uint32_t own;
	bool folded;
	int code;

	if (!c->weight || c->whole)
		return FF_OK;
	if (!strncmp(c->weight, REMADE, sizeof(REMADE) - 1))
		list(im, FF_ONNX_REMADE, n->name && n->name[0] ? n->name : c->weight);
	if (!im->origins->told)
		return FF_OK;
	if (origin_of(im, c->weight) == ORIGIN_OTHER)
		list(im, FF_ONNX_BUFFERS, c->weight);
	code = ff_onnx_metadata(im, &n->base, OF_NODE, PROGRAM_NODE, &program);
	if (code < 0 || !program)
		return code;
	code = ff_onnx_metadata(im, &n->base, OF_NODE, REWRITTEN, &rule);
	if (code < 0 || (code = find_source(im, c->weight, program, &own, &folded)) < 0 ||
			own == FF_NONE || (folded && c->rank != 2))
		return code;
	if (!rule || !strstr(rule, "BatchNorm")) /* that node is of two of the program */
		own = apart(im, program, own);
	im->origins->spec[own].used = true;
	c->weight = im->origins->spec[own].target;
	c->swapped = c->swapped != folded;
	return FF_OK;
}

const char *ff_origin_sole(struct ff_import *im, const char *name)
{
	struct ff_origins *o = im->origins;
	uint32_t i = ff_names_find(&o->folded, name), last, parameters, all;
	const char *from;
	size_t len;

	if (!o->told || i == FF_NONE ||
			read_sources(im, o->folded_from[i], &last, &parameters, &all) < 0 ||
			parameters != 1)
		return name;
	for (from = o->folded_from[i]; (from = next_quoted(from, &len)); from += len + 1) {
		uint32_t other;

		if (find_target(im, from, len, &other) < 0 || (other != FF_NONE && other != last))
			return name;
	}
	o->spec[last].used = true;
	return o->spec[last].target;
}
