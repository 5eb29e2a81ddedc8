"""What --python lines and pools need of pyopencl and pycuda: run by _inside.py in the traced program when one of their modules
has been imported, never imported itself. It is handed `native`, functions of liboccatrace_python.so, and `module` with its
`name`. After a reload it is run again: what it has put there already stays as it is.

Pools are followed by classes of the same name below them, which stand in their place in the module before anybody else has
seen it. A block carries something that ends with it, by which its end is seen whoever causes it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

native: "dict[str, Callable[..., Any]]" = globals()["native"]
name: str = globals()["name"]
module: "ModuleType" = globals()["module"]

_MARK = "_occatrace"
_OURS = "_occatrace_ours"


def _name(of: type) -> str:
    return f"{of.__module__.partition('.')[0]}.{of.__name__}"


def _follow(
    base: "type[Any]", block: str, calls: "tuple[str, ...]", ends: "tuple[str, ...]", host: bool = False
) -> None:
    """A pool's class, the name of that of its blocks, the functions that give one and those of a block that give it back."""
    if _OURS in vars(base):
        return
    now, note, managed = native["now"], native["block"], native["managed"]
    failed = False

    def giving(original: "Callable[..., Any]") -> "Callable[..., Any]":
        def give(self: "Any", *args: "Any", **options: "Any") -> "Any":
            nonlocal failed
            before, start = self.managed_bytes, now()
            given = original(self, *args, **options)
            try:
                after = self.managed_bytes
                # Of pinned memory an array is given, whose memory the block is.
                held = given.base if host else given
                asked = given.nbytes if host else int(args[0] if args else next(iter(options.values())))
                memory = given.ctypes.data if host else _address(given)
                size = self.alloc_size(self.bin_number(asked))
                setattr(held, _MARK, note(getattr(self, _MARK, 0), asked, size, memory, after, after == before, start))
            except Exception as error:
                if not failed:
                    failed = True
                    native["say"](f"blocks of {_name(base)} are not followed: {error}")
            return given

        return give

    def ending(original: "Callable[..., Any]") -> "Callable[..., Any]":
        def end(self: "Any", *args: "Any", **options: "Any") -> "Any":
            result = original(self, *args, **options)
            self.__dict__.pop(_MARK, None)
            return result

        setattr(end, _OURS, True)
        return end

    def shrinking(original: "Callable[..., Any]") -> "Callable[..., Any]":
        def shrink(self: "Any") -> "Any":
            result = original(self)
            managed(getattr(self, _MARK, 0), self.managed_bytes)
            return result

        return shrink

    def __init__(self: "Any", *args: "Any", **options: "Any") -> None:
        base.__init__(self, *args, **options)
        by = args[0] if args else next(iter(options.values()), None)
        setattr(self, _MARK, native["pool"](_name(base), "" if by is None else _name(type(by))))

    names: dict[str, Any] = {
        "__init__": __init__,
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        _OURS: True,
    }
    names |= {name: giving(getattr(base, name)) for name in calls if hasattr(base, name)}
    names |= {name: shrinking(getattr(base, name)) for name in ("free_held", "stop_holding") if hasattr(base, name)}
    metaclass: Any = type(base)
    setattr(module, base.__name__, metaclass(base.__name__, (base,), names))
    blocks = getattr(module, block)
    for name in ends:
        if hasattr(blocks, name) and not hasattr(getattr(blocks, name), _OURS):
            setattr(blocks, name, ending(getattr(blocks, name)))


def _address(block: "Any") -> int:
    """Handle or address of a block's memory."""
    for name in ("int_ptr", "svm_ptr", "_ptr"):
        value = getattr(block, name, None)
        if value is not None:
            return int(value)
    return int(block)


def _pools(*pools: "tuple[Any, ...]") -> None:
    for name, *how in pools:
        base = getattr(module, name, None)
        if base is not None and hasattr(base, "managed_bytes"):
            _follow(base, *how)
        elif base is not None:
            native["say"](f"{_name(base)} does not state what it holds: it is not followed")


def _kernels(source: object) -> str:
    import re

    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else str(source)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    # Attributes stand before or behind the type, launch bounds behind it.
    between = r"(?:__launch_bounds__\s*\([^)]*\)\s*|__attribute__\s*\(\(.*?\)\)\s*)*"
    return ", ".join(
        dict.fromkeys(re.findall(rf"\b(?:__kernel|kernel|__global__)\b[^;{{}}]*?\bvoid\s+{between}(\w+)\s*\(", text))
    )


_BUILT, _CACHED, _UNCACHED, _FAILED = range(4)
_MISS, _HIT, _NOT_KNOWN = range(3)


def _built(library: str, source: object, how: int, start: int, driver: int = _NOT_KNOWN) -> None:
    """Notes a build; what goes wrong with that is not the program's."""
    try:
        from hashlib import sha256

        text = source if isinstance(source, bytes) else str(source).encode()
        native["build"](library, _kernels(source), sha256(text).hexdigest()[:16], how, driver, start)
    except Exception as error:
        native["say"](f"a build of {library} is not recorded: {error}")


def _pocl_cache(program: "Any") -> "str | None":
    """The folder of PoCL's cache of programs; None: the program is for another platform."""
    import os

    try:
        context = getattr(program, "_context", None) or program.context
        if "Portable Computing Language" not in context.devices[0].platform.name:
            return None
    except Exception:
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("POCL_CACHE_DIR") or os.path.join(cache, "pocl", "kcache")


def _state(cache: "str | None") -> "set[tuple[str, int]]":
    """A program that PoCL's cache lacks gets a folder in one of 256, which thereby changes."""
    import os

    try:
        with os.scandir(cache) as entries:
            return {(entry.name, entry.stat().st_mtime_ns) for entry in entries if len(entry.name) == 2}
    except OSError:
        return set()


def _builds_of_pyopencl() -> None:
    build: Callable[..., Any] = module.Program.build
    if hasattr(build, _OURS):
        return

    def followed(self: "Any", *args: "Any", **options: "Any") -> "Any":
        # A program made of binaries has no source, and one that is built knows nothing new.
        source = getattr(self, "_source", None)
        cache = _pocl_cache(self) if source is not None else None
        start, before = native["now"](), _state(cache) if cache else None
        try:
            result = build(self, *args, **options)
        except Exception:
            if source is not None:
                _built("pyopencl", source, _FAILED, start)
            raise
        if source is not None:
            told, hit, *_ = getattr(self, "_build_duration_info", None) or ("uncached", False)
            how = _UNCACHED if told.startswith("uncached") else _CACHED if hit else _BUILT
            driver = _NOT_KNOWN if before is None or how == _CACHED else _HIT if _state(cache) == before else _MISS
            _built("pyopencl", source, how, start, driver)
        return result

    followed.__doc__ = build.__doc__
    setattr(followed, _OURS, True)
    module.Program.build = followed


def _builds_of_pycuda() -> None:
    from threading import local

    compile_plain, run = getattr(module, "compile_plain", None), getattr(module, "call_capture_output", None)
    if compile_plain is None or run is None or hasattr(compile_plain, _OURS):
        return
    compiled = local()

    def running(command: "Any", *args: "Any", **options: "Any") -> "Any":
        # The cache's key may need the preprocessor, which is the same compiler.
        compiled.by_now = getattr(compiled, "by_now", 0) + (
            "--preprocess" not in command and "--version" not in command
        )
        return run(command, *args, **options)

    def followed(
        source: "Any", options: "Any", keep: "Any", nvcc: "Any", cache_dir: "Any", *more: "Any", **named: "Any"
    ) -> "Any":
        before, start = getattr(compiled, "by_now", 0), native["now"]()
        try:
            result = compile_plain(source, options, keep, nvcc, cache_dir, *more, **named)
        except Exception:
            _built("pycuda", source, _FAILED, start)
            raise
        how = _UNCACHED if not cache_dir else _CACHED if getattr(compiled, "by_now", 0) == before else _BUILT
        _built("pycuda", source, how, start)
        return result

    setattr(followed, _OURS, True)
    vars(module).update(call_capture_output=running, compile_plain=followed)


if name == "pyopencl._cl":
    _pools(
        ("MemoryPool", "PooledBuffer", ("allocate", "__call__"), ("release",)),
        ("SVMPool", "PooledSVM", ("__call__",), ("release", "enqueue_release")),
    )
elif name == "pycuda._driver":
    _pools(
        ("DeviceMemoryPool", "PooledDeviceAllocation", ("allocate",), ("free",)),
        ("PageLockedMemoryPool", "PooledHostAllocation", ("allocate",), ("free",), True),
    )
elif name == "pyopencl":
    _builds_of_pyopencl()
elif name == "pycuda.compiler":
    _builds_of_pycuda()
