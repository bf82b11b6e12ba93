"""The import direction of the package: a module imports from its own layer and from lower ones.

A module that is new must be given a place in LAYERS. Imports for type checkers alone do not count.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import distarray
from tests.harness import ROOT

#: Layers from the lowest to the highest. A name stands for a module or a whole package; the longest
#: name that fits a module counts.
LAYERS = {
    "foundation": ("errors", "launcher", "spans", "progress", "arraylike", "signatures"),
    "pure": (
        "complexmath", "accumulation", "regions", "decomposition", "layout", "geometry", "exact",
        "transfer", "halo", "halo.plan", "stencil",
    ),
    "machine": ("backends", "comm", "stencil.compile"),
    "blocks": (
        "block", "deferred", "fused", "topology", "halo.buffers", "halo.exchange", "transports",
        "halo.shared", "boundary", "pending",
        "resident", "contributions", "block_reductions", "redistribute", "collect",
        "arguments", "tuning.store",
    ),
    "array": (
        "array", "reductions", "elementwise", "functions", "indexing", "placement",
    ),
    "grid": ("grid", "grid_geometry", "profile", "creation", "points", "point_stages"),
    "uses": (
        "random", "pencils", "line_transforms", "lines", "fft", "linalg", "kernels", "graphs",
        "tiling", "tuning", "tuning.steps",
        "iterate", "io", "logging", "report", "tensorboard", "timeline",
    ),
    "package": ("__init__",),
    "programs": (
        "cli", "programs", "bench", "doctor", "view", "panels", "pictures", "selftest",
        "testing", "tuning.command", "tuning.measure", "tuning.kernels", "tuning.options", "model",
        "__main__",
    ),
}  # fmt: skip
LAYER_OF = {name: (i, layer) for i, (layer, names) in enumerate(LAYERS.items()) for name in names}

#: The one place in which each optional or costly package is imported.
HOMES = {
    "mpi4py": ("distarray/comm/mpi.py", "distarray/comm/mpi_files.py"),
    "h5py": ("distarray/io/hdf5.py",),
    "isal": ("distarray/io/crc.py",),
    "cupy": ("distarray/backends/cuda.py",),
    "ducc0": ("distarray/line_transforms.py",),
    "tensorboardX": ("distarray/tensorboard.py",),
    "scipy": ("distarray/line_transforms.py",),
    "matplotlib": (
        "distarray/pictures.py",
        "solvers/plot.py",
        *(f"solvers/{name}/plot.py" for name in ("incompressible", "shallow_water", "wave")),
    ),
    "numpy": ("distarray/", "solvers/", "examples/"),
}

#: What never meets, whatever the layers say.
STRANGERS = (("backends", "comm"), ("comm", "backends"), ("stencil", "comm"), ("stencil", "halo"))

FILES = [
    str(path.relative_to(ROOT))
    for folder in ("distarray", "solvers", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PACKAGE = [file for file in FILES if file.startswith("distarray/")]
USERS = [file for file in FILES if not file.startswith("distarray/")]
SOLVERS = [file for file in FILES if file.startswith("solvers/")]


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a file, but for those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if not for_type_checkers(node):
            yield node
            yield from nodes(node)


@functools.cache
def parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


@functools.cache
def imports(file: str) -> list[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too."""
    found = []
    for node in nodes(parsed(file)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def module_of(name: str) -> str | None:
    """The module of `distarray` that an imported name means, without the package's name."""
    parts = name.split(".")
    if parts[0] != "distarray":
        return None
    for count in range(len(parts), 1, -1):
        path = ROOT.joinpath(*parts[:count])
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return ".".join(parts[1:count])
    return "__init__"


def own_name(file: str) -> str:
    parts = Path(file).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def layer_of(module: str) -> tuple[int, str]:
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        found = LAYER_OF.get(".".join(parts[:count]))
        if found is not None:
            return found
    raise AssertionError(f"distarray.{module} has no layer; give it one in {__file__}.")


def test_imports_come_from_the_same_layer_or_a_lower_one() -> None:
    wrong = []
    for file in PACKAGE:
        level, layer = layer_of(own_name(file))
        for line, name in imports(file):
            if name.startswith("."):
                wrong.append(f"{file}:{line} imports relatively; write the full name.")
            module = module_of(name)
            if module is not None:
                other, other_layer = layer_of(module)
                if other > level:
                    wrong.append(
                        f"{file}:{line}: {layer!r} imports distarray.{module} of {other_layer!r}."
                    )
    assert wrong == []


@pytest.mark.parametrize(("package", "stranger"), STRANGERS)
def test_strangers_do_not_meet(package: str, stranger: str) -> None:
    for file in PACKAGE:
        if own_name(file).split(".")[0] == package:
            for line, name in imports(file):
                module = module_of(name) or ""
                assert module.split(".")[0] != stranger, f"{file}:{line} imports {name}."


def test_other_packages_are_imported_in_their_one_place() -> None:
    """Those that HOMES does not name are not needed."""
    wrong = []
    for file in FILES:
        for line, name in imports(file):
            root = name.split(".")[0]
            if root in sys.stdlib_module_names or root in ("distarray", "solvers"):
                continue
            if not file.startswith(HOMES.get(root, ())):
                wrong.append(f"{file}:{line} imports {root}; see HOMES.")
    assert wrong == []


def test_the_package_does_not_know_its_users() -> None:
    found = [(file, *found) for file in PACKAGE for found in imports(file)]
    users = ("solvers", "examples")
    assert [(file, line) for file, line, name in found if name.split(".")[0] in users] == []


def public_uses(file: str) -> Iterator[tuple[int, str]]:
    """Names of `distarray` that a file uses, as `da.name` or by importing them."""
    aliases = set()
    for node in nodes(parsed(file)):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname for alias in node.names if alias.name == "distarray"}
    for line, name in imports(file):
        if name.startswith("distarray."):
            yield line, name.removeprefix("distarray.")
    for node in nodes(parsed(file)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
        ):
            yield node.lineno, node.attr


def test_solvers_and_examples_use_public_names() -> None:
    """The command line of the solvers has what all programs have in common, too."""
    found = [(file, *found) for file in USERS for found in public_uses(file)]
    wrong = [use for use in found if use[2] not in distarray.__all__]
    assert [(file, name) for file, _, name in wrong] == [("solvers/__main__.py", "programs")]


def test_solvers_do_not_slice_local_blocks() -> None:
    """They write kernels."""
    wrong = []
    for file in SOLVERS:
        for node in nodes(parsed(file)):
            inner = node.value if isinstance(node, ast.Subscript) else node
            if isinstance(inner, ast.Attribute):
                forbidden = ("block", "padded", *(["local"] if inner is not node else []))
                if inner.attr in forbidden:
                    wrong.append(f"{file}:{inner.lineno} uses .{inner.attr}")
    assert wrong == []


def test_public_names_exist_and_are_documented() -> None:
    for name in distarray.__all__:
        value = getattr(distarray, name)
        assert callable(value) is False or value.__doc__, f"distarray.{name} has no docstring."


def test_product_code_has_no_assert() -> None:
    """It raises an error of distarray.errors."""
    found = [(file, node) for file in (*PACKAGE, *SOLVERS) for node in ast.walk(parsed(file))]
    assert [f"{file}:{node.lineno}" for file, node in found if isinstance(node, ast.Assert)] == []
