"""Recurrent layers."""
import onnx
import onnxruntime
import torch
from onnx import helper

from write import F32, case, rand, randint, version


def weights(kind, dirs, hidden, size):
    """A layer of PyTorch and the operands of recurrent that stand for it: PyTorch has the gates in another order."""
    gates, order = {"lstm": (4, (0, 3, 1, 2)), "gru": (3, (1, 0, 2))}.get(kind, (1, (0,)))
    name = {"lstm": "LSTM", "gru": "GRU"}.get(kind, "RNN")
    more = {"nonlinearity": kind[4:]} if name == "RNN" else {}
    layer = getattr(torch.nn, name)(size, hidden, bidirectional=dirs == 2, **more).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_((p * 64).round() / 64)

    def gathered(which):
        each = [getattr(layer, which + "_l0" + s) for s in ("", "_reverse")[:dirs]]
        return torch.stack([torch.cat([p.chunk(gates)[i] for i in order]) for p in each]).detach()

    return layer, gathered


def recurrent(kind, t, b, dirs, hidden, size, states, lengths):
    layer, gathered = weights(kind, dirs, hidden, size)
    x = rand(t, b, size)
    shape = (dirs, b, hidden)
    h, c = (rand(*shape), rand(*shape)) if states else (torch.zeros(shape).double(),) * 2
    first = (h, c) if kind == "lstm" else h
    if lengths:
        lengths = sorted((int(n) for n in randint(1, t, b)), reverse=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        y, last = layer(packed, first)
        y = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=t)[0]
    else:
        y, last = layer(x, first)
    out = [y.reshape(t, b, dirs, hidden)] + list(last if kind == "lstm" else [last])
    products = torch.stack([x @ w.mT + v for w, v in zip(gathered("weight_ih"), gathered("bias_ih"))], 2)
    inputs = {"x": products.reshape(t, b, -1).detach(), "r": gathered("weight_hh"), "bias": gathered("bias_hh")}
    if states:
        inputs["h"] = h
        if kind == "lstm":
            inputs["c"] = c
    if lengths:
        inputs["lengths"] = torch.tensor(lengths)
    line = "recurrent x, r, " + ", ".join("%s=%s" % (k, k) for k in inputs if k not in "xr")
    line += ' {kind="%s"%s}' % (kind, ", reset_after=true" * (kind == "gru"))
    case(line, [v.detach() for v in out], **inputs)


recurrent("lstm", 3, 2, 1, 4, 3, True, False)
recurrent("lstm", 4, 3, 2, 3, 2, True, True)
recurrent("lstm", 2, 1, 2, 5, 3, False, False)
recurrent("gru", 3, 2, 1, 4, 3, True, False)
recurrent("gru", 5, 3, 2, 3, 2, False, True)
recurrent("rnn_tanh", 4, 2, 2, 3, 3, True, True)
recurrent("rnn_relu", 3, 1, 1, 4, 3, False, False)


def recurrent_onnx(operator, kind, t, b, dirs, hidden, reverse=False, **attrs):
    """A node of ONNX with all operands that it can have, which ONNX Runtime computes in f32."""
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    ins = {"X": rand(t, b, 2), "W": rand(dirs, gates * hidden, 2), "R": rand(dirs, gates * hidden, hidden) / 2,
           "B": rand(dirs, 2 * gates * hidden), "lengths": randint(1, t, b), "h": rand(dirs, b, hidden)}
    if kind == "lstm":
        ins.update(c=rand(dirs, b, hidden), P=rand(dirs, 3 * hidden))
    ins = {k: v.float() if v.is_floating_point() else v for k, v in ins.items()}
    names = ["Y", "Y_h", "Y_c"][:3 if kind == "lstm" else 2]
    direction = "bidirectional" if dirs == 2 else "reverse" if reverse else "forward"
    node = helper.make_node(operator, list(ins), names, hidden_size=hidden, direction=direction, **attrs)
    types = {torch.float32: onnx.TensorProto.FLOAT, torch.int32: onnx.TensorProto.INT32}
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(k, types[v.dtype], v.shape)
                                            for k, v in ins.items()],
                              [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, None) for k in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    out = session.run(None, {k: v.numpy() for k, v in ins.items()})
    g = gates * hidden
    products = [ins["X"].double() @ w.double().mT + v[:g].double() for w, v in zip(ins["W"], ins["B"])]
    inputs = {"x": torch.stack(products, 2).reshape(t, b, -1), "r": ins["R"], "bias": ins["B"][:, g:],
              "lengths": ins["lengths"], "h": ins["h"]}
    if kind == "lstm":
        inputs.update(c=ins["c"], p=ins["P"])
    line = "recurrent x, r, " + ", ".join("%s=%s" % (k, k) for k in inputs if k not in "xr")
    line += ' {kind="%s"%s%s}' % (kind, ", reset_after=true" * attrs.get("linear_before_reset", 0),
                                  ", reverse=true" * reverse)
    case(line, [torch.from_numpy(out[0]).double().transpose(1, 2)] + [torch.from_numpy(v).double() for v in out[1:]],
         version("onnxruntime"), tol=F32, **inputs)


recurrent_onnx("LSTM", "lstm", 4, 3, 2, 3)
recurrent_onnx("LSTM", "lstm", 5, 2, 1, 4, reverse=True)
recurrent_onnx("GRU", "gru", 4, 3, 2, 3)
recurrent_onnx("GRU", "gru", 3, 2, 1, 5, reverse=True, linear_before_reset=1)
recurrent_onnx("RNN", "rnn_tanh", 4, 3, 1, 3, reverse=True)
