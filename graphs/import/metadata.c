/* What exporters write beside the model, which older descriptions of the format do not know: it is
 * then among the fields that protobuf-c keeps as they came.  SPDX-License-Identifier: Apache-2.0 */
#include "metadata.h"

#include <string.h>

static bool is_key(const Onnx__StringStringEntryProto *e, const char *key)
{
	return e && e->key && e->value && !strcmp(e->key, key);
}

/* A field that the description has: where it says that it lies. */
static const char *known_entry(
		const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const char *key)
{
	const char *base = (const char *)m;
	size_t n = *(const size_t *)(const void *)(base + f->quantifier_offset);
	Onnx__StringStringEntryProto *const *e =
			*(Onnx__StringStringEntryProto *const *const *)(const void *)(base +
										      f->offset);

	for (size_t i = 0; i < n; i++)
		if (is_key(e[i], key))
			return e[i]->value;
	return NULL;
}

/* Bytes of the length that stands before the message. */
static size_t prefix(const ProtobufCMessageUnknownField *f)
{
	size_t n = 0;

	while (n < f->len && f->data[n] & 0x80)
		n++;
	return n < f->len ? n + 1 : f->len;
}

static int unknown_entry(struct ff_import *im, const ProtobufCMessageUnknownField *f,
		const char *key, const char **ret)
{
	size_t head = prefix(f);
	Onnx__StringStringEntryProto *e = onnx__string_string_entry_proto__unpack(
			NULL, f->len - head, f->data + head);
	int code = FF_OK;

	if (is_key(e, key)) {
		*ret = ff_arena_strdup(im->arena, e->value);
		code = *ret ? FF_OK : ff_fail_memory(im->err);
	}
	if (e)
		onnx__string_string_entry_proto__free_unpacked(e, NULL);
	return code;
}

int ff_onnx_metadata(struct ff_import *im, const ProtobufCMessage *m, uint32_t tag, const char *key,
		const char **ret)
{
	const ProtobufCFieldDescriptor *f =
			protobuf_c_message_descriptor_get_field(m->descriptor, tag);
	int code = FF_OK;

	*ret = NULL;
	if (f) {
		*ret = known_entry(m, f, key);
		return FF_OK;
	}
	for (unsigned i = 0; i < m->n_unknown_fields && !*ret && code == FF_OK; i++)
		if (m->unknown_fields[i].tag == tag &&
				m->unknown_fields[i].wire_type ==
						PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
			code = unknown_entry(im, &m->unknown_fields[i], key, ret);
	return code;
}

/* The last two texts between quotes; "" where there are none. */
static void last_two(const char *at, const char *begin[2], int len[2])
{
	begin[0] = begin[1] = "";
	len[0] = len[1] = 0;
	while ((at = strchr(at, '\''))) {
		const char *end = strchr(at + 1, '\'');

		if (!end)
			return;
		begin[0] = begin[1];
		len[0] = len[1];
		begin[1] = at + 1;
		len[1] = end - at - 1 < 200 ? (int)(end - at - 1) : 200;
		at = end + 1;
	}
}

#define OF_NODE 9
#define SCOPES "pkg.torch.onnx.name_scopes" /* "['', 'layer1', 'layer1.conv', 'conv2d_3']" */

const char *ff_onnx_module(struct ff_import *im, const Onnx__NodeProto *n)
{
	const char *text = NULL, *begin[2];
	int len[2];

	if (ff_onnx_metadata(im, &n->base, OF_NODE, SCOPES, &text) < 0 || !text)
		return NULL;
	last_two(text, begin, len);
	return len[0] ? ff_arena_printf(im->arena, "%.*s", len[0], begin[0]) : NULL;
}

const char *ff_onnx_scoped_name(struct ff_import *im, const Onnx__NodeProto *n)
{
	const char *text = NULL, *begin[2];
	int len[2];

	if (ff_onnx_metadata(im, &n->base, OF_NODE, SCOPES, &text) < 0 || !text)
		return NULL;
	last_two(text, begin, len);
	return len[1] ? ff_arena_printf(im->arena, "%.*s%s%.*s", len[0], begin[0],
					len[0] ? "." : "", len[1], begin[1])
		      : NULL;
}
