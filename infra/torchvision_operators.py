"""Let PyPI's torchvision, which is built for CUDA's torch, be imported beside a CPU build of torch.

Its compiled operators cannot be loaded there, and its import ends at their names. vLLM and transformers prepare images without them, so
that two definitions are enough. `infra/install.sh` copies this file into the environment, where a `.pth` file imports it at each start of
Python; it does nothing until torchvision is imported.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_kept: list[object] = []
"""Definitions end with the object that made them."""


class _BeforeTorchvision:
    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """Define the operators; other finders find the module."""
        if name == "torchvision":
            import importlib.util  # noqa: PLC0415 - other programs start without it

            sys.meta_path.remove(_BeforeTorchvision)  # type: ignore[arg-type]  # a class is a finder, too
            found = importlib.util.find_spec(name)
            for folder in (found.submodule_search_locations if found else None) or ():
                _define(folder)
        return None


def _define(folder: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - as above

    import torch  # noqa: PLC0415 - most programs never import torchvision

    try:
        for library in sorted(Path(folder).glob("_C*.so")):
            torch.ops.load_library(str(library))
    except OSError:
        definitions = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            definitions.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(definitions)


sys.meta_path.insert(0, _BeforeTorchvision)  # type: ignore[arg-type]
