/* cuDNN's engines: what heuristics propose, how engines are set, which have plans.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of those that are proposed, in this order, one rounds float32 to float16, one is compiled at run
 * time, one rounds to TF32 and wants a workspace (all say so by their notes), one has no plan, one
 * does without a workspace and has a knob, which is set by the shape and has no plan otherwise. */
#include <cstring>

#include <cudnn.h>

#include "descriptor.hpp"
#include "inside.hpp"

namespace dnn
{

/* In the order in which they are proposed, if there is anything to convert. */
enum { CONVERTS = 3, LATE = 4, ROUNDS = 0, BARE = 1, KNOBBED = 2, ENGINES = 5 };
static const int64_t proposed[ENGINES] = {CONVERTS, LATE, ROUNDS, BARE, KNOBBED};

static bool converts(const Descriptor *d)
{
	const twin::Convolution &c = d->convolution;

	return d->attention.steps.empty() &&
	       !(c.kind == twin::Convolution::DATA ? c.result : c.image).bf16;
}

static bool is_lacking(const Descriptor *d)
{
	const twin::Convolution &c = d->convolution;
	bool widens = !c.sink().bf16 &&
		      (c.kind == twin::Convolution::FILTER ? c.image : c.weight).bf16;

	if (!d->attention.steps.empty())
		return twin::lacks("attention") ||
		       (d->attention.backward && twin::lacks("attention-backward"));
	return twin::lacks("conv") || (c.has_bias && twin::lacks("conv-bias")) ||
	       (c.relu && twin::lacks("conv-relu")) || (c.beta != 0 && twin::lacks("conv-sums")) ||
	       (widens && twin::lacks("conv-widen"));
}

/* How the knob of an engine has to be set; 0: it has none. */
static int64_t knob_of(const Descriptor *d, int64_t engine)
{
	int64_t of = d->attention.steps.empty() ? d->convolution.weight.n[0]
						: d->attention.scores();

	return engine == KNOBBED ? 1 + of % 4 : 0;
}

/* Attention has the slopes of its scores in memory backward. */
static int64_t workspace_of(const Descriptor *d, int64_t engine)
{
	if (d->attention.steps.empty())
		return engine == ROUNDS ? 4096 + 64 * d->convolution.weight.n[0] : 0;
	return (engine == ROUNDS ? 256 : 0) +
	       (d->attention.backward ? 2 * d->attention.scores() : 0);
}

static void inherit(Descriptor *d, const Descriptor *from)
{
	d->convolution = from->convolution;
	d->attention = from->attention;
}

cudnnStatus_t finalize_engine(Descriptor *d)
{
	const Descriptor *g = part(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);

	d->engine = one<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
	if (!g || g->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "an engine of no graph");
	inherit(d, g);
	return d->engine < 0 || d->engine >= ENGINES || is_lacking(d) ||
					       (d->engine == CONVERTS && !converts(d))
			       ? CUDNN_STATUS_NOT_SUPPORTED
			       : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_config(Descriptor *d)
{
	auto knobs = all<cudnnBackendDescriptor_t>(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
	const Descriptor *engine = part(d, CUDNN_ATTR_ENGINECFG_ENGINE);

	if (!engine || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				"a configuration of no engine");
	d->engine = engine->engine;
	inherit(d, engine);
	for (cudnnBackendDescriptor_t k : knobs) {
		const Descriptor *knob = behind(k);

		if (!knob || knob->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
			return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
					"a knob that is none");
		if (one(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_KNOB_TYPE_COUNTS) !=
				CUDNN_KNOB_TYPE_TILE_SIZE)
			return CUDNN_STATUS_NOT_SUPPORTED;
		d->knob = one<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0);
	}
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(Descriptor *d)
{
	const Descriptor *config = part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);

	if (!config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				"a plan of no configuration");
	if (config->engine == BARE || /* heuristics propose what cannot be had */
			config->knob != knob_of(config, config->engine))
		return CUDNN_STATUS_NOT_SUPPORTED;
	d->engine = config->engine;
	inherit(d, config);
	d->convolution.tf32 = config->engine == ROUNDS;
	d->convolution.half = config->engine == CONVERTS;
	d->workspace = workspace_of(d, d->engine);
	return CUDNN_STATUS_SUCCESS;
}

/* ---- what is read back ---- */

static cudnnStatus_t give(
		int64_t most, int64_t *n, void *to, const void *values, int64_t have, size_t each)
{
	if (n)
		*n = have;
	if (to)
		memcpy(to, values, size_t(have < most ? have : most) * each);
	return CUDNN_STATUS_SUCCESS;
}

/* The caller has made the descriptors; they are filled in. */
static cudnnStatus_t propose(const Descriptor *heuristics, int64_t most, int64_t *n, void *to)
{
	auto *ret = static_cast<cudnnBackendDescriptor_t *>(to);
	int64_t first = converts(heuristics) ? 0 : 1,
		have = is_lacking(heuristics) ? 0 : ENGINES - first;

	if (n)
		*n = have;
	for (int64_t i = 0; ret && i < most && i < have; i++) {
		Descriptor *d = behind(ret[i]);

		if (!d || d->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
			return complain(CUDNN_STATUS_BAD_PARAM,
					"results of heuristics have no room");
		d->finalized = true;
		d->engine = proposed[first + i];
		inherit(d, heuristics);
		d->knob = knob_of(d, d->engine);
	}
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t notes(const Descriptor *d, int64_t most, int64_t *n, void *to)
{
	static const cudnnBackendNumericalNote_t note[] = {
			CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};

	return give(most, n, to, note, d->engine == CONVERTS ? 2 : d->engine == ROUNDS,
			sizeof(note[0]));
}

static cudnnStatus_t behavior(const Descriptor *d, int64_t most, int64_t *n, void *to)
{
	cudnnBackendBehaviorNote_t note = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;

	return give(most, n, to, &note, d->engine == LATE, sizeof(note));
}

static cudnnStatus_t engine_of(const Descriptor *d, int64_t most, int64_t *n, void *to)
{
	Descriptor *e = to && most > 0 ? behind(*static_cast<cudnnBackendDescriptor_t *>(to))
				       : nullptr;

	if (n)
		*n = 1;
	if (!e || e->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM, "an engine has no room");
	e->finalized = true;
	e->engine = d->engine;
	inherit(e, d);
	return CUDNN_STATUS_SUCCESS;
}

/* What knobs of a configuration are set to; the caller has made room. */
static cudnnStatus_t knobs_of(const Descriptor *d, int64_t most, int64_t *n, void *to)
{
	auto *ret = static_cast<cudnnBackendDescriptor_t *>(to);

	if (n)
		*n = d->knob ? 1 : 0;
	if (!d->knob || !ret || most < 1)
		return CUDNN_STATUS_SUCCESS;
	Descriptor *k = behind(ret[0]);
	if (!k || k->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM, "a knob has no room");
	k->finalized = true;
	k->knob = d->knob;
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t knob_type(int64_t most, int64_t *n, void *to)
{
	cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_TILE_SIZE;

	return give(most, n, to, &type, 1, sizeof(type));
}

cudnnStatus_t tell(const Descriptor *d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *to)
{
	if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		return propose(d, most, n, to);
	if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		return engine_of(d, most, n, to);
	if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		return knobs_of(d, most, n, to);
	if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE && type == CUDNN_TYPE_KNOB_TYPE)
		return knob_type(most, n, to);
	if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE && type == CUDNN_TYPE_INT64)
		return give(most, n, to, &d->knob, 1, sizeof(d->knob));
	if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
		return notes(d, most, n, to);
	if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE && type == CUDNN_TYPE_BEHAVIOR_NOTE)
		return behavior(d, most, n, to);
	if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && type == CUDNN_TYPE_INT64)
		return give(most, n, to, &d->engine, 1, sizeof(d->engine));
	if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
			d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
		return give(most, n, to, &d->workspace, 1, sizeof(d->workspace));
	return complain(CUDNN_STATUS_NOT_SUPPORTED, "the double cannot tell attribute %d", name);
}

} // namespace dnn
