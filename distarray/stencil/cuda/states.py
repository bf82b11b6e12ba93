"""Fused reductions on a device: what a thread gathers, and the kernel that merges it. Pure.

No thread waits for another. Each gathers a state for every accumulator in a fixed order and writes
it to scratch memory; launches of a second kernel merge `FAN` states at a time, and at last with
the results, which are laid out as the accumulators of C text one after another. So equal boxes give
equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distarray.stencil import printing
from distarray.stencil.accumulators import Accumulator
from distarray.stencil.cuda import exact
from distarray.stencil.cuda.tiles import THREADS
from distarray.stencil.printing import Text
from distarray.stencil.writing import Lines

#: States that a thread of the merging kernel takes at most.
FAN = 64
#: States that it loads before it merges the first of them.
_AT_ONCE = 8

_MEMBERS = {"f": "real", "i": "integer", "u": "natural"}


def words(accumulators: Sequence[Accumulator]) -> int:
    """Words of 8 bytes that the states of one thread take."""
    return sum(map(_words, accumulators))


def _words(accumulator: Accumulator) -> int:
    return exact.WORDS if accumulator.exact else accumulator.length


def declarations(accumulators: Sequence[Accumulator]) -> list[str]:
    """The thread's number and its empty states, at the head of a kernel."""
    if not accumulators:
        return []
    lines = [
        f"const int64_t thread = (int64_t)blockIdx.x * {THREADS} + threadIdx.x;",
        f"const int64_t threads = (int64_t)gridDim.x * {THREADS};",
    ]
    place = 0
    for number, accumulator in enumerate(accumulators):
        lines.append(
            _empty(number, accumulator, f"scratch + {place} * threads + thread", "threads")
        )
        place += _words(accumulator)
    return lines


def _empty(number: int, accumulator: Accumulator, state: str, stride: str) -> str:
    """A state before any value; the limbs of an exact sum lie behind its first words in memory."""
    if accumulator.exact:
        limbs = f"{state} + {exact.HEAD} * {stride}"
        return f"struct exact part{number} = {{0, 0, {limbs}, {stride}, false}};"
    (start,) = printing.literal(accumulator.start, accumulator.dtype)
    start_code = "0" if accumulator.kind == "sum" else f"{start.code}, 0"
    return f"{accumulator.c_type} part{number}[{accumulator.length}] = {{{start_code}}};"


def taken(number: int, accumulator: Accumulator, value: Text) -> list[str]:
    """Let a value enter a state."""
    if accumulator.exact:
        return [f"exact_take(part{number}, {value.code});"]
    c_type, name = accumulator.c_type, f"value{number}"
    lines = [f"{c_type} {name}[{accumulator.length}];", f"{name}[0] = {value.code};"]
    if accumulator.kind != "sum":
        lines.append(f"{name}[1] = {name}[0] != {name}[0] ? 1 : 0;")
    return ["{", *lines, *accumulator.merge(f"part{number}", name), "}"]


def written(accumulators: Sequence[Accumulator]) -> list[str]:
    """Write the states of the thread to scratch memory."""
    return _to_memory(accumulators, "scratch", "threads")


def _to_memory(accumulators: Sequence[Accumulator], memory: str, stride: str) -> list[str]:
    lines, place = [], 0
    for number, a in enumerate(accumulators):
        if a.exact:
            lines.append(f"exact_write(part{number}, {memory} + {place} * {stride} + thread);")
        else:
            member = _MEMBERS[a.dtype.kind]
            lines += [
                f"{memory}[{place + word} * {stride} + thread].{member} = part{number}[{word}];"
                for word in range(a.length)
            ]
        place += _words(a)
    return lines


# ---- the kernel that merges

COMBINE_STRUCTURE = "struct combine { int64_t source, sources, target, targets; };"
COMBINE_PARAMETERS = (
    ("union number *", "scratch"),
    ("union number *", "results"),
    ("struct combine", "combine"),
)


def combine_symbol(accumulators: Sequence[Accumulator]) -> str:
    """A name that tells what is merged."""
    kinds = ("exact" if a.exact else f"{a.kind}_{a.dtype.name}" for a in accumulators)
    return "_".join(["combine", *kinds])


def combine(accumulators: Sequence[Accumulator]) -> list[str]:
    """The merging kernel: thread n of `targets` merges the states n, n + targets, ... of `sources`;
    without targets one thread merges all with the results.
    """
    text = Lines()
    names = ", ".join(f"{'const ' if ' *' not in t else ''}{t} {n}" for t, n in COMBINE_PARAMETERS)
    names = names.replace("* ", "*")
    text.open(f'extern "C" __global__ void {combine_symbol(accumulators)}({names})')
    text.add(
        "const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
        "const int64_t sources = combine.sources, targets = combine.targets;",
        "const int64_t step = targets > 0 ? targets : 1;",
        "if (thread >= step) return;",
        "const union number *source = scratch + combine.source;",
        "union number *target = scratch + combine.target;",
    )
    place = 0
    for number, accumulator in enumerate(accumulators):
        text.add(_empty(number, accumulator, f"target + {place} * step + thread", "step"))
        place += _words(accumulator)
    _merge_all(text, accumulators)
    text.open("if (targets > 0)")
    text.add(*_to_memory(accumulators, "target", "step"))
    text.add("return;")
    text.close()
    text.add(*_to_results(accumulators))
    text.close()
    return text.lines


def _merge_all(text: Lines, accumulators: Sequence[Accumulator]) -> None:
    """The loops over the states of other threads. Some are loaded before the first is merged, since
    a compiler that cannot tell limbs from states would let each load wait for the merging before.
    """
    text.open(f"for (int64_t group = thread; group < sources; group += {_AT_ONCE} * step)")
    words = [f"{_word_type(a, w)} {_word_name(n, w)}" for n, a, w, _ in _states(accumulators)]
    text.add(*(f"{word}[{_AT_ONCE}];" for word in words), "#pragma unroll")
    text.open(f"for (int n = 0; n < {_AT_ONCE}; n++)")
    text.add("const int64_t other = group + n * step < sources ? group + n * step : thread;")
    for number, accumulator, word, place in _states(accumulators):
        member = _word_member(accumulator, word)
        name = _word_name(number, word)
        text.add(f"{name}[n] = source[{place} * sources + other].{member};")
    text.close()
    text.add("#pragma unroll")
    text.open(f"for (int n = 0; n < {_AT_ONCE}; n++)")
    text.add("if (group + n * step >= sources) break;")
    place = 0
    for number, accumulator in enumerate(accumulators):
        text.add(*_merged(number, accumulator, place))
        place += _words(accumulator)
    text.close(2)


def _states(accumulators: Sequence[Accumulator]) -> Iterator[tuple[int, Accumulator, int, int]]:
    """Number and accumulator, and each word but limbs, with its place in a state."""
    place = 0
    for number, accumulator in enumerate(accumulators):
        for word in range(exact.HEAD if accumulator.exact else accumulator.length):
            yield number, accumulator, word, place + word
        place += _words(accumulator)


def _word_member(accumulator: Accumulator, word: int) -> str:
    if accumulator.exact:
        return exact.HEAD_MEMBERS[word]
    return _MEMBERS[accumulator.dtype.kind]


def _word_type(accumulator: Accumulator, word: int) -> str:
    types = {"real": "double", "integer": "int64_t", "natural": "uint64_t"}
    return types[_word_member(accumulator, word)]


def _word_name(number: int, word: int) -> str:
    return f"value{number}_{word}"


def _merged(number: int, accumulator: Accumulator, place: int) -> list[str]:
    """Merge the loaded state `n`."""
    if accumulator.exact:
        head = ", ".join(f"{_word_name(number, word)}[n]" for word in range(exact.HEAD))
        limbs = f"source + {place + exact.HEAD} * sources + group + n * step"
        return [f"exact_merge(part{number}, {head}, {limbs}, sources);"]
    values = ", ".join(f"{_word_name(number, word)}[n]" for word in range(accumulator.length))
    name = f"value{number}"
    return [
        f"const {accumulator.c_type} {name}[{accumulator.length}] = {{{values}}};",
        *accumulator.merge(f"part{number}", name),
    ]


def _to_results(accumulators: Sequence[Accumulator]) -> list[str]:
    lines, place = [], 0
    for number, a in enumerate(accumulators):
        if a.exact:
            lines += [
                f"exact_put(results + {place}, 1, part{number}.high);",
                f"exact_put(results + {place}, 1, part{number}.low);",
                f"if (part{number}.used)",
                f"  for (int digit = 0; digit < {a.length}; digit++)",
                f"    results[{place} + digit].integer"
                f" += part{number}.limbs[digit * step].integer;",
                f"exact_carry(results + {place}, 1);",
            ]
        else:
            member = _MEMBERS[a.dtype.kind]
            values = ", ".join(f"results[{place + word}].{member}" for word in range(a.length))
            lines.append(f"{a.c_type} total{number}[{a.length}] = {{{values}}};")
            lines += a.merge(f"total{number}", f"part{number}")
            lines += [
                f"results[{place + word}].{member} = total{number}[{word}];"
                for word in range(a.length)
            ]
        place += a.length
    return lines
