"""Let PyPI's torchvision, which is built for CUDA's torch, be imported beside a CPU build of torch.

Its compiled operators cannot be loaded there, and its import ends at their names. vLLM and transformers prepare images without them, so
that two definitions are enough. `infra/install.sh` copies this file into the environment, where a `.pth` file imports it at each start of
Python; it does nothing until torchvision is imported.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_kept: list[object] = []
"""Definitions end with the object that made them."""


class _OfTorchvision:
    @staticmethod
    def find_spec(name: str, path: object = None, _target: object = None) -> "ModuleSpec | None":
        """Find torchvision; its operators are defined when it is imported, not when a program asks whether it is there."""
        if name != "torchvision":
            return None
        from importlib.machinery import PathFinder, SourceFileLoader  # noqa: PLC0415 - other programs start without it

        class WithOperators(SourceFileLoader):
            def exec_module(self, module: "ModuleType") -> None:
                for folder in module.__path__:
                    _define(folder)
                super().exec_module(module)

        found = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = WithOperators(name, found.loader.path)
        return found


def _define(folder: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - other programs start without it

    import torch  # noqa: PLC0415 - most programs never import torchvision

    try:
        for library in sorted(Path(folder).glob("_C*.so")):
            torch.ops.load_library(str(library))
    except OSError:
        definitions = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            definitions.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(definitions)


sys.meta_path.insert(0, _OfTorchvision)
