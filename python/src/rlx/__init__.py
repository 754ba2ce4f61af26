"""RLX runs compiled models:

    import rlx
    model = rlx.load("sam.rlx")
    mask = model.encode_image("photo.jpg").masks(points=[(320, 200)])[0]

A process of its own does the work; arrays go to it and back through shared memory.
"""

from . import errors
from ._compile import compile
from ._model import Dim, Method, Model, Result, State, Value, load
from ._segment import Everything, Found, Image, Mask, Region
from ._text import Generator, Message, Token
from ._version import __version__
from .errors import Error

__all__ = ["Dim", "Error", "Everything", "Found", "Generator", "Image", "Mask", "Message", "Method", "Model",
           "Region", "Result", "State", "Token", "Value", "__version__", "compile", "errors", "load"]
