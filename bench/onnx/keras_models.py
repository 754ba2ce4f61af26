"""keras_models.py DIR [NAME...]: exports small models of Keras and JAX with random weights to DIR/NAME.

A folder has model.onnx, input_I.pb, and output_I.pb, which ONNX Runtime computes; those of other sizes are in its
folders size1 and size2. Models of Keras are exported by Model.export, which uses tf2onnx, and those of JAX and Flax by
jax2onnx. It needs tensorflow-cpu, keras, keras-hub, tf2onnx, jax, flax, jax2onnx, onnx and onnxruntime.
"""

import os, sys, warnings

os.environ.update(
    KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0"
)
warnings.filterwarnings("ignore")
import numpy as np

import keras
from keras import layers as L

from folders import export_each

# tf2onnx leaves the function erfc of the exact one as it is, and ONNX has no such op.
gelu = lambda x: keras.activations.gelu(x, approximate=True)
NAMED = {"batch": (2, 3, 1), "seq": (12, 13, 6)}


def application(name, size=64, **kw):
    """A model of keras.applications for images of size pixels, which may be any number of images."""
    return lambda: getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, **kw)


def layer_of(*layers, shape, dtype="float32"):
    """Layers one after the other, on an input of a shape without the batch."""

    def make():
        x = keras.Input(shape, dtype=dtype)
        y = x
        for f in layers:
            y = f()(y)
        return keras.Model(x, y)

    return make


def attention(**kw):
    """A layer of MultiHeadAttention to itself, with a residual and a norm."""

    def make():
        x = keras.Input((12, 32))
        causal = kw.pop("causal", False)
        y = L.MultiHeadAttention(4, 8, **kw)(x, x, use_causal_mask=causal)
        return keras.Model(x, L.LayerNormalization()(L.Add()([x, y])))

    return make


def masked_attention():
    """An encoder of token ids. Keras masks the ids 0 by itself."""
    x = keras.Input((None,), dtype="int32")
    y = L.Embedding(50, 32, mask_zero=True)(x)
    for _ in range(2):
        y = L.LayerNormalization()(y + L.MultiHeadAttention(4, 8)(y, y))
        y = L.LayerNormalization()(y + L.Dense(32)(L.Dense(64, activation=gelu)(y)))
    return keras.Model(x, y)


def grouped_attention():
    x = keras.Input((12, 32))
    y = L.GroupQueryAttention(8, 4, 2)(x, x)
    return keras.Model(x, L.RMSNormalization()(x + y))


def cross_attention():
    q, k = keras.Input((5, 32)), keras.Input((9, 24))
    y, p = L.MultiHeadAttention(4, 8)(q, k, return_attention_scores=True)
    return keras.Model([q, k], [y, L.Attention(use_scale=True)([q, L.Dense(32)(k)]), p])


def masked_recurrent():
    """Recurrent layers that skip padding."""
    x = keras.Input((9,), dtype="int32")
    y = L.Embedding(50, 16, mask_zero=True)(x)
    y = L.Bidirectional(L.LSTM(12, return_sequences=True))(y)
    return keras.Model(x, L.GRU(8)(y))


def unet():
    x = keras.Input((32, 48, 3))
    a = L.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = L.BatchNormalization()(L.Conv2D(16, 3, padding="same", activation="silu")(L.MaxPooling2D()(a)))
    u = L.Conv2DTranspose(8, 3, strides=2, padding="same")(b)
    v = L.UpSampling2D(interpolation="bilinear")(b)
    return keras.Model(x, L.Conv2D(2, 1)(L.Concatenate()([a, u, v])))


def hub(backbone, **kw):
    """A backbone of keras-hub."""

    def make():
        import keras_hub

        return getattr(keras_hub.models, backbone)(**kw)

    return make


text = dict(vocabulary_size=100, num_layers=2, num_heads=4, hidden_dim=32, intermediate_dim=64)
llm = dict(
    vocabulary_size=100, num_layers=2, num_query_heads=4, num_key_value_heads=2, hidden_dim=32, intermediate_dim=64
)
SEQUENCE = (9, 16)

M = {
    "mobilenet_v2": application("MobileNetV2"),
    "mobilenet_v3_small": application("MobileNetV3Small"),
    "efficientnet_b0": application("EfficientNetB0"),
    "efficientnet_v2_b0": application("EfficientNetV2B0"),
    "resnet50_v2": application("ResNet50V2"),
    "densenet121": application("DenseNet121"),
    "convnext_tiny": application("ConvNeXtTiny"),
    "xception": application("Xception", 71),
    "nasnet_mobile": application("NASNetMobile", 96),
    "inception_v3": application("InceptionV3", 96),
    "inception_resnet_v2": application("InceptionResNetV2", 96),
    "vgg16": application("VGG16"),
    "lstm": layer_of(lambda: L.LSTM(12, return_sequences=True), lambda: L.LSTM(8), shape=SEQUENCE),
    "gru": layer_of(lambda: L.GRU(12, return_sequences=True), lambda: L.GRU(8), shape=SEQUENCE),
    "gru_before": layer_of(lambda: L.GRU(12, reset_after=False), shape=SEQUENCE),
    "simple_rnn": layer_of(lambda: L.SimpleRNN(12, return_sequences=True), shape=SEQUENCE),
    "bidirectional": layer_of(
        lambda: L.Bidirectional(L.LSTM(12, return_sequences=True)), lambda: L.Bidirectional(L.GRU(8)), shape=SEQUENCE
    ),
    "masked_recurrent": masked_recurrent,
    "conv_lstm": layer_of(lambda: L.ConvLSTM2D(4, 3, padding="same"), shape=(5, 8, 8, 3)),
    "time_distributed": layer_of(
        lambda: L.TimeDistributed(L.Conv2D(4, 3, strides=2, padding="same")), lambda: L.TimeDistributed(L.Flatten()),
        lambda: L.LSTM(8), shape=(5, 9, 9, 3)
    ),
    "attention": attention(),
    "attention_causal": attention(causal=True),
    "attention_flash": attention(flash_attention=False, dropout=0.1),
    "masked_attention": masked_attention,
    "grouped_attention": grouped_attention,
    "cross_attention": cross_attention,
    "conv1d_transpose": layer_of(
        lambda: L.Conv1D(8, 5, dilation_rate=2, padding="causal"), lambda: L.Conv1DTranspose(6, 4, strides=2),
        lambda: L.Conv1DTranspose(4, 3, strides=3, padding="same"), shape=(17, 3)
    ),
    "conv3d": layer_of(
        lambda: L.Conv3D(4, 3, strides=2, padding="same", activation="elu"), lambda: L.MaxPooling3D(),
        lambda: L.Conv3DTranspose(2, 3, strides=2), shape=(9, 8, 7, 2)
    ),
    "separable": layer_of(
        lambda: L.SeparableConv2D(8, 3, padding="same", depth_multiplier=2), lambda: L.DepthwiseConv2D(5, strides=2),
        lambda: L.LeakyReLU(), lambda: L.AveragePooling2D(2, padding="same"), lambda: L.PReLU(), shape=(15, 14, 3)
    ),
    "images": layer_of(
        lambda: L.Rescaling(1 / 127.5, offset=-1), lambda: L.CenterCrop(20, 20),
        lambda: L.Resizing(16, 24), lambda: L.Resizing(9, 9, interpolation="nearest"),
        lambda: L.Resizing(12, 10, interpolation="bicubic"), shape=(24, 28, 3)
    ),
    "resize_area": layer_of(lambda: L.Resizing(16, 24, crop_to_aspect_ratio=True), shape=(24, 28, 3)),
    "norms": layer_of(
        lambda: L.GroupNormalization(4), lambda: L.LayerNormalization(axis=[1, 2]), lambda: L.UnitNormalization(),
        lambda: L.SpectralNormalization(L.Conv2D(8, 3)), lambda: L.BatchNormalization(), shape=(8, 8, 8)
    ),
    "activations": layer_of(
        *[(lambda a: lambda: L.Dense(16, activation=a))(a) for a in (
            gelu, "selu", "elu", "softplus", "softsign", "hard_sigmoid", "hard_silu", "mish", "swish", "tanh",
            "relu6", "exponential", "log_softmax", "leaky_relu", "hard_tanh", "squareplus", "glu")],
        shape=(16,)
    ),
    "unet": unet,
    "bert": hub("BertBackbone", max_sequence_length=16, **text),
    "roberta": hub("RobertaBackbone", max_sequence_length=16, **text),
    "distil_bert": hub("DistilBertBackbone", max_sequence_length=16, **text),
    "albert": hub("AlbertBackbone", vocabulary_size=100, num_layers=2, num_heads=4, hidden_dim=32, embedding_dim=16,
                  intermediate_dim=64, max_sequence_length=16),
    "gpt2": hub("GPT2Backbone", max_sequence_length=16, **text),
    "deberta": hub("DebertaV3Backbone", max_sequence_length=16, bucket_size=8, **text),
    "f_net": hub("FNetBackbone", vocabulary_size=100, num_layers=2, hidden_dim=32, intermediate_dim=64,
                 max_sequence_length=16),
    "llama": hub("LlamaBackbone", **llm),
    "mistral": hub("MistralBackbone", sliding_window=5, **llm),
    "gemma": hub("GemmaBackbone", head_dim=8, **llm),
    "t5": hub("T5Backbone", **text),
    "bart": hub("BartBackbone", max_sequence_length=16, **text),
    "segformer": hub("MiTBackbone", image_shape=(64, 64, 3), hidden_dims=[16, 32], layerwise_num_layers=[1, 1],
                     num_layers=2, blockwise_num_heads=[1, 2], blockwise_sr_ratios=[2, 1], max_drop_path_rate=0.1,
                     layerwise_patch_sizes=[7, 3], layerwise_strides=[4, 2]),
    "clip_vision": hub("CLIPVisionEncoder", patch_size=8, hidden_dim=32, num_layers=2, num_heads=4,
                       intermediate_dim=64, image_shape=(32, 32, 3)),
    "whisper": hub("WhisperBackbone", vocabulary_size=100, num_layers=2, num_heads=4, hidden_dim=32,
                   intermediate_dim=64, max_encoder_sequence_length=20, max_decoder_sequence_length=16),
}


def inputs(session, k):
    """Returns inputs of the kth sizes: open axes are a batch first, and then a length."""
    rng = np.random.default_rng(k + 1)
    feed = {}
    for x in session.get_inputs():
        shape = []
        for axis, d in enumerate(x.shape):
            spatial = len(x.shape) == 4
            size = NAMED["batch" if axis == 0 else "seq"][k]
            shape.append(d if isinstance(d, int) else 16 + 8 * k if axis and spatial else size)
        if x.type == "tensor(float)":
            feed[x.name] = rng.standard_normal(shape).astype(np.float32)
        elif x.type == "tensor(bool)":
            feed[x.name] = (np.arange(int(np.prod(shape))).reshape(shape) % 3 != 1)
        elif "mask" in x.name:
            length = rng.integers(1, shape[-1] + 1, shape[:-1] + [1])
            feed[x.name] = (np.arange(shape[-1]) < length).astype(np.int32)
        elif "segment" in x.name:
            feed[x.name] = rng.integers(0, 2, shape).astype(np.int32)
        else:
            high = 50
            feed[x.name] = rng.integers(1, high, shape).astype(np.int64 if "int64" in x.type else np.int32)
    return feed


def feeds(session):
    """Returns inputs of one size, and of two others if an axis is open."""
    open_axes = any(not isinstance(s, int) for x in session.get_inputs() for s in x.shape)
    return [inputs(session, k) for k in range(3 if open_axes else 1)]


def export(name, path):
    keras.utils.set_random_seed(1)
    keras.backend.clear_session()
    if name in M:
        m = M[name]()
        m._called = True  # export asks for a call, although a functional model needs none
        m.export(path, format="onnx", verbose=False)
    else:
        jax_models.export(name, path)
    return feeds


if __name__ == "__main__":
    import jax_models

    export_each(sys.argv[1], sys.argv[2:] or list(M) + list(jax_models.M), export)
