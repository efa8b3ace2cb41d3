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
