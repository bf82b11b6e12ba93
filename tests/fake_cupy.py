"""A stand-in for the calls of CuPy that `backends.cuda` makes, and for the driver's library.

Calls are noted in order with their arguments. Memory is host memory, work is done at once or, while
it is captured, when its graph is launched; kernels do nothing unless `functions` says what.
`tests/nvrtc_child.py` checks that the real CuPy takes the same arguments.
"""

# Names are those of CuPy.
# ruff: noqa: N802, N815

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

UUID = bytes(range(16))


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__(f"cudaError{status}: made up")


class OutOfMemoryError(MemoryError):
    pass


class FakeCupy:
    """What `import cupy` gives; `calls` is what was asked of it.

    `refuse` maps the name of a call to the error that it raises, once for each in a list.
    `functions` maps handles of kernels to what is called with the arguments of a launch, and
    returns what the launch is to do.
    """

    def __init__(self, *, version="14.2.0", runtime_version=12090):
        self.__version__ = version
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: dict[str, list[Exception]] = {}
        self.runtime_version = runtime_version
        self.memory: dict[int, Any] = {}
        self.current = ["null"]
        self.device = 0
        self.owners: dict[int, int] = {}  # devices of memory that is not the current one's
        self.functions: dict[int, Callable[..., Callable[[], None]]] = {}
        self.capture: Capture | None = None
        self.captured_events: set[int] = set()
        self.pending_events: set[int] = set()
        self.numbers = itertools.count(100)
        self.runtime = Runtime(self)
        self.cuda = SimpleNamespace(
            runtime=self.runtime,
            driver=Driver(self),
            nvrtc=Nvrtc(self),
            Stream=lambda **options: Stream(self, options),
            Event=lambda **options: Event(self, options),
            Device=partial(Device, self),
            alloc=self._alloc,
        )
        self.nccl = Nccl(self)
        self.nvtx = Nvtx()

    def note(self, name, *arguments):
        self.calls.append((name, *arguments))
        errors = self.refuse.get(name)
        if errors:
            raise errors.pop(0)

    def give(self, stream, work):
        """Do it, or keep it for a graph."""
        if self.capture is not None and stream in self.capture.counts:
            self.capture.add(stream, work)
        else:
            work()

    def outside_capture(self):
        """What CUDA refuses while it captures."""
        if self.capture is not None:
            raise CUDARuntimeError(900)

    def named(self, *names):
        return [call for call in self.calls if call[0] in names]

    def reserve(self, size):
        """The address of memory aligned as cudaMalloc aligns it."""
        content = ctypes.create_string_buffer(size + 512)
        address = ctypes.addressof(content) + -ctypes.addressof(content) % 512
        self.memory[address] = content
        return address

    def _alloc(self, size):
        self.note("alloc", size, self.current[-1])
        return SimpleNamespace(ptr=self.reserve(size))

    def get_default_memory_pool(self):
        return SimpleNamespace(free_all_blocks=lambda: self.note("free_all_blocks"))

    def install(self, monkeypatch):
        """Make `import cupy` give this."""
        for name, content in (("cupy", self), ("cupy.cuda", self.cuda)):
            module = ModuleType(name)
            module.__spec__ = SimpleNamespace()  # type: ignore[assignment]
            for key in ("__version__", "cuda", "get_default_memory_pool"):
                if hasattr(content, key):
                    setattr(module, key, getattr(content, key))
            monkeypatch.setitem(sys.modules, name, module)
        for name in ("nccl", "nvtx"):
            setattr(sys.modules["cupy.cuda"], name, getattr(self, name))


class Values:
    """An array of CuPy, as far as others see it, made of one of NumPy."""

    def __init__(self, fake, values, *, stream=77):
        self.values = values
        address = fake.reserve(values.size * values.itemsize)
        ctypes.memmove(address, values.tobytes(), values.nbytes)
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": values.shape, "strides": None,
            "typestr": values.dtype.str, "version": 3, "stream": stream,
        }  # fmt: skip

    def __array__(self, *_):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class Capture:
    """Work of the stream that began it, and of those that wait for its events."""

    def __init__(self, origin):
        self.origin = origin
        self.work: list[Callable[[], None]] = []
        self.counts = {origin: 0}  # of what each stream was given
        self.joined: dict[int, int] = {}  # what of it the origin waits for
        self.marks: dict[int, tuple[int, int]] = {}

    def add(self, stream, work):
        self.counts[stream] += 1
        self.work.append(work)

    def wait(self, stream, event):
        source, count = self.marks[event]
        if stream == self.origin:
            self.joined[source] = max(count, self.joined.get(source, 0))
        self.counts.setdefault(stream, 0)
        self.counts[stream] += 1

    def unjoined(self):
        return any(
            self.joined.get(stream, 0) < count
            for stream, count in self.counts.items()
            if stream != self.origin
        )


class Nvtx:
    """Ranges for a profiler; `noted` is what it is told, the innermost range being that popped."""

    available = True

    def __init__(self):
        self.noted: list[str] = []
        self._open: list[str] = []
        self._started: dict[int, str] = {}
        self._numbers = itertools.count(1)

    def RangePush(self, message, id_color=-1):
        assert isinstance(message, str)
        self._open.append(message)
        self.noted.append(f"push {message}")

    def RangePop(self):
        self.noted.append(f"pop {self._open.pop()}")

    def RangeStart(self, message, id_color):
        number = next(self._numbers)
        self._started[number] = message
        self.noted.append(f"start {message}")
        return number

    def RangeEnd(self, number):
        self.noted.append(f"end {self._started.pop(number)}")


class Runtime:
    CUDARuntimeError = CUDARuntimeError
    hostAllocPortable = 1
    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2

    def __init__(self, fake):
        self._fake = fake

    def pointerGetAttributes(self, address):
        self._fake.note("pointerGetAttributes", address)
        return SimpleNamespace(device=self._fake.owners.get(address, self._fake.device))

    def runtimeGetVersion(self):
        return self._fake.runtime_version

    def setDevice(self, index):
        self._fake.note("setDevice", index)
        self._fake.device = index

    def memGetInfo(self):
        self._fake.note("memGetInfo")
        return 1000, 2000

    def malloc(self, size):
        self._fake.note("malloc", size)
        return self._fake.reserve(size)

    def free(self, address):
        self._fake.note("free", address)
        del self._fake.memory[address]

    def hostAlloc(self, size, flags):
        self._fake.note("hostAlloc", size, flags)
        address = self._fake.reserve(size)
        ctypes.memset(address, 7, size)
        return address

    def freeHost(self, address):
        self._fake.note("freeHost", address)
        del self._fake.memory[address]

    def deviceSynchronize(self):
        self._fake.note("deviceSynchronize", self._fake.device)
        self._fake.outside_capture()

    def eventRecord(self, event, stream):
        self._fake.note("eventRecord", event, stream)
        capture = self._fake.capture
        if capture is not None and stream in capture.counts:
            capture.marks[event] = (stream, capture.counts[stream])
            self._fake.captured_events.add(event)
        else:
            self._fake.captured_events.discard(event)

    def eventQuery(self, event):
        self._fake.note("eventQuery", event)
        if event in self._fake.captured_events:
            return 907
        return 600 if event in self._fake.pending_events else 0

    def eventSynchronize(self, event):
        self._fake.note("eventSynchronize", event)
        if event in self._fake.captured_events:
            raise CUDARuntimeError(907)

    def streamWaitEvent(self, stream, event):
        self._fake.note("streamWaitEvent", stream, event)
        capture = self._fake.capture
        if capture is not None and event in capture.marks:
            capture.wait(stream, event)
        elif event in self._fake.captured_events:
            raise CUDARuntimeError(907)
        elif capture is not None and stream in capture.counts:
            raise CUDARuntimeError(905)

    def streamSynchronize(self, stream):
        self._fake.note("streamSynchronize", stream)
        self._fake.outside_capture()

    def memsetAsync(self, address, value, size, stream):
        self._fake.note("memsetAsync", address, value, size, stream)
        self._fake.give(stream, partial(ctypes.memset, address, value, size))

    def memcpyAsync(self, target, source, size, kind, stream):
        self._fake.note("memcpyAsync", target, source, size, kind, stream)
        self._fake.give(stream, partial(ctypes.memmove, target, source, size))


class Driver:
    def __init__(self, fake):
        self._fake = fake

    def moduleLoadData(self, image):
        self._fake.note("moduleLoadData", image)
        return next(self._fake.numbers)

    def moduleGetFunction(self, module, name):
        self._fake.note("moduleGetFunction", module, name)
        return next(self._fake.numbers)

    def launchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        self._fake.note(
            "launchKernel", function, (gx, gy, gz), (bx, by, bz), shared, stream, params, extra
        )
        if function in self._fake.functions:
            work = self._fake.functions[function]((gx, gy, gz), (bx, by, bz), params)
            self._fake.give(stream, work)


class Nvrtc:
    """Its machine code is the options and the text."""

    def __init__(self, fake):
        self._fake = fake
        self.archs = (50, 80, 86, 90, 100)
        self.version = (12, 9)
        self.log = ""
        self._programs = {}

    def getVersion(self):
        self._fake.note("getVersion")
        return self.version

    def getSupportedArchs(self):
        return self.archs

    def createProgram(self, text, name, headers, include_names):
        program = next(self._fake.numbers)
        self._programs[program] = [text, ()]
        self._fake.note("createProgram", name, headers, include_names)
        return program

    def compileProgram(self, program, options):
        self._programs[program][1] = options
        self._fake.note("compileProgram", options)

    def _code(self, kind, program):
        text, options = self._programs[program]
        return "\n".join([kind, *options, text]).encode()

    def getCUBIN(self, program):
        return self._code("cubin", program)

    def getPTX(self, program):
        return self._code("ptx", program)

    def getProgramLog(self, program):
        return self.log

    def destroyProgram(self, program):
        self._fake.note("destroyProgram")
        del self._programs[program]


class Device:
    """The current one within a `with` statement."""

    compute_capability = "90"

    def __init__(self, fake, index):
        self._fake, self._index = fake, index
        self._before = []

    def __enter__(self):
        self._before.append(self._fake.device)
        self._fake.device = self._index
        return self

    def __exit__(self, *error):
        self._fake.device = self._before.pop()


class Stream:
    def __init__(self, fake, options):
        self._fake = fake
        self._device = fake.device
        self.ptr = next(fake.numbers)
        fake.note("Stream", self.ptr, options)

    def __enter__(self):
        if self._device != self._fake.device:
            raise RuntimeError("The device that the stream is created on is not the current one")
        self._fake.current.append(self.ptr)
        return self

    def __exit__(self, *error):
        self._fake.current.pop()

    def begin_capture(self):
        self._fake.note("begin_capture", self.ptr)
        self._fake.capture = Capture(self.ptr)

    def end_capture(self):
        capture, self._fake.capture = self._fake.capture, None
        self._fake.note("end_capture", self.ptr)
        if capture.unjoined():
            raise CUDARuntimeError(904)
        return Graph(self._fake, capture.work)


class Graph:
    def __init__(self, fake, work):
        self._fake = fake
        self._work = work

    def launch(self, stream):
        self._fake.note("graphLaunch", stream.ptr)
        for work in self._work:
            work()


class Event:
    def __init__(self, fake, options):
        self.ptr = next(fake.numbers)
        fake.note("Event", self.ptr, options)


class Nccl:
    available = True
    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
    NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
    NCCL_FLOAT32, NCCL_FLOAT64 = 7, 8

    def __init__(self, fake):
        self._fake = fake

    def get_version(self):
        return 23004

    def get_unique_id(self):
        return bytes(128)

    def groupStart(self):
        self._fake.note("groupStart")

    def groupEnd(self):
        self._fake.note("groupEnd")

    def NcclCommunicator(self, size, identity, rank):
        self._fake.note("NcclCommunicator", size, identity, rank)
        return NcclCommunicator(self._fake)


class NcclCommunicator:
    def __init__(self, fake):
        self._fake = fake

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self._fake.note(name, *arguments)


class FakeLibrary:
    """The driver's library: how many GPUs, the CUDA it supports, and the status of its start."""

    def __init__(self, *, devices=1, cuda=12040, status=0):
        self.devices, self.cuda, self.status = devices, cuda, status

    def cuInit(self, flags):
        return self.status

    def cuGetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_NO_DEVICE" if status == 100 else None
        return 0 if status == 100 else 1

    def cuDriverGetVersion(self, version):
        version._obj.value = self.cuda
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = self.devices
        return 0

    def cuDeviceGet(self, device, index):
        device._obj.value = index
        return 0 if index < self.devices else 101

    def cuDeviceGetUuid_v2(self, name, device):
        name[:] = UUID[:-1] + bytes([device.value])
        return 0
