/* Cells of recurrences: what one step does with one feature, and its gradients, for the kernels
 * of both backends; whoever includes this has functions.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_CELLS_H
#define FF_RUNTIME_CELLS_H

#define FF_MOST_GATES 4

/* A step of one feature.  x: what its gates get of the input; u: of the state before, bias
 * included; both are the gates' in PyTorch's order. */
struct ff_step_in {
	float x[FF_MOST_GATES], u[FF_MOST_GATES];
	float state, cell; /* before */
	float kept[4];     /* of a second half: what the first one kept */
};
struct ff_step_out {
	float state, cell;
	float kept[4]; /* for backward */
};

/* Backward: gradients of the state and of the cell behind it, what forward kept. */
struct ff_slope_in {
	float dstate, dcell;
	float out; /* the state behind it */
	float state, cell, kept[4];
};
struct ff_slope_out {
	float dx[FF_MOST_GATES], du[FF_MOST_GATES];
	float dstate; /* of the state before, but for what goes by way of u */
	float dcell;
};

FF_FUNCTION void ff_step_rnn(const struct ff_step_in *i, struct ff_step_out *o)
{
	o->state = ff_tanh(i->x[0] + i->u[0]);
	o->cell = 0;
}

FF_FUNCTION void ff_slope_rnn(const struct ff_slope_in *i, struct ff_slope_out *o)
{
	o->dx[0] = o->du[0] = i->dstate * (1 - i->out) * (1 + i->out);
	o->dstate = o->dcell = 0;
}

/* Gates: input, forget, cell, output. */
FF_FUNCTION void ff_step_lstm(const struct ff_step_in *i, struct ff_step_out *o)
{
	o->kept[0] = ff_sigmoid(i->x[0] + i->u[0]);
	o->kept[1] = ff_sigmoid(i->x[1] + i->u[1]);
	o->kept[2] = ff_tanh(i->x[2] + i->u[2]);
	o->kept[3] = ff_sigmoid(i->x[3] + i->u[3]);
	o->cell = o->kept[1] * i->cell + o->kept[0] * o->kept[2];
	o->state = o->kept[3] * ff_tanh(o->cell);
}

FF_FUNCTION void ff_slope_lstm(const struct ff_slope_in *i, struct ff_slope_out *o)
{
	float in = i->kept[0], forget = i->kept[1], new_cell = i->kept[2], out = i->kept[3];
	float t = ff_tanh(forget * i->cell + in * new_cell);
	float dcell = i->dcell + i->dstate * out * (1 - t) * (1 + t);

	o->dx[0] = o->du[0] = dcell * new_cell * in * (1 - in);
	o->dx[1] = o->du[1] = dcell * i->cell * forget * (1 - forget);
	o->dx[2] = o->du[2] = dcell * in * (1 - new_cell) * (1 + new_cell);
	o->dx[3] = o->du[3] = i->dstate * t * out * (1 - out);
	o->dcell = dcell * forget;
	o->dstate = 0;
}

/* Gates: reset, update, new; the reset gate takes of the new one's product with the state. */
FF_FUNCTION void ff_step_gru(const struct ff_step_in *i, struct ff_step_out *o)
{
	o->kept[0] = ff_sigmoid(i->x[0] + i->u[0]);
	o->kept[1] = ff_sigmoid(i->x[1] + i->u[1]);
	o->kept[2] = ff_tanh(i->x[2] + o->kept[0] * i->u[2]);
	o->kept[3] = i->u[2];
	o->state = o->kept[2] + o->kept[1] * (i->state - o->kept[2]);
	o->cell = 0;
}

FF_FUNCTION void ff_slope_gru(const struct ff_slope_in *i, struct ff_slope_out *o)
{
	float reset = i->kept[0], update = i->kept[1], fresh = i->kept[2];
	float dfresh = i->dstate * (1 - update) * (1 - fresh) * (1 + fresh);

	o->dx[0] = o->du[0] = dfresh * i->kept[3] * reset * (1 - reset);
	o->dx[1] = o->du[1] = i->dstate * (i->state - fresh) * update * (1 - update);
	o->dx[2] = dfresh;
	o->du[2] = dfresh * reset;
	o->dstate = i->dstate * update;
	o->dcell = 0;
}

/* The same with the state reset before its product, first half: what the second multiplies. */
FF_FUNCTION void ff_step_gru_reset(const struct ff_step_in *i, struct ff_step_out *o)
{
	o->kept[0] = ff_sigmoid(i->x[0] + i->u[0]);
	o->kept[1] = ff_sigmoid(i->x[1] + i->u[1]);
	o->kept[2] = 0;
	o->state = o->kept[0] * i->state;
	o->cell = 0;
}

FF_FUNCTION void ff_step_gru_fresh(const struct ff_step_in *i, struct ff_step_out *o)
{
	o->kept[0] = i->kept[0];
	o->kept[1] = i->kept[1];
	o->kept[2] = ff_tanh(i->x[2] + i->u[2]);
	o->state = o->kept[2] + o->kept[1] * (i->state - o->kept[2]);
	o->cell = 0;
}

/* Of the second half: what goes by way of the product; the state's gradient itself is handed to the
 * first half as that of a cell. */
FF_FUNCTION void ff_slope_gru_fresh(const struct ff_slope_in *i, struct ff_slope_out *o)
{
	float update = i->kept[1], fresh = i->kept[2];

	o->dx[0] = o->du[0] = 0;
	o->dx[1] = o->du[1] = 0;
	o->dx[2] = o->du[2] = i->dstate * (1 - update) * (1 - fresh) * (1 + fresh);
	o->dstate = 0;
	o->dcell = i->dstate;
}

/* Of the first half, where the state's gradient is that of the one which was reset. */
FF_FUNCTION void ff_slope_gru_reset(const struct ff_slope_in *i, struct ff_slope_out *o)
{
	float reset = i->kept[0], update = i->kept[1], fresh = i->kept[2];

	o->dx[0] = o->du[0] = i->dstate * i->state * reset * (1 - reset);
	o->dx[1] = o->du[1] = i->dcell * (i->state - fresh) * update * (1 - update);
	o->dx[2] = i->dcell * (1 - update) * (1 - fresh) * (1 + fresh);
	o->du[2] = 0;
	o->dstate = i->dcell * update + i->dstate * reset;
	o->dcell = 0;
}

/* X(row, gates, numbers kept for backward, whether it has a cell, which half of a step it is or 0)
 */
#define FF_CELLS(X)                                                                                \
	X(rnn, 1, 0, 0, 0)                                                                         \
	X(lstm, 4, 4, 1, 0)                                                                        \
	X(gru, 3, 4, 0, 0)                                                                         \
	X(gru_reset, 3, 3, 0, 1)                                                                   \
	X(gru_fresh, 3, 3, 0, 2)

#endif
