"""Python 3.6 for machines that have none, by a newer one: `newer-python THIS PROGRAM [OPTIONS] -c CODE | -m MODULE | FILE | - [ARGUMENT...]`.

It copies of 3.6 (docs.python.org, "What's New in Python" 3.7 and 3.8): its version, the syntax that it rejects, the modules that it lacks, and the functions and
arguments of MISSING and of subprocess. That holds for what runs by it, not for the newer Python's own library. It does not copy other behaviour, methods of built-in
types (str.removeprefix), and f"{x=}". TestStandIn compares it with a real one."""

import ast
import builtins
import collections
import importlib.machinery
import os
import runpy
import subprocess
import sys
import sysconfig
import zipimport

VERSION = (3, 6)
LIBRARY = tuple(os.path.join(os.path.realpath(sysconfig.get_path(name)), "") for name in ("stdlib", "platstdlib"))
MODULES = {"contextvars", "dataclasses", "graphlib", "importlib.metadata", "importlib.resources", "multiprocessing.shared_memory", "tomllib", "zoneinfo"}
MISSING = {
    "asyncio": ("run", "get_running_loop"), "functools": ("cache", "cached_property", "singledispatchmethod"), "http.server": ("ThreadingHTTPServer",),
    "math": ("dist", "isqrt", "prod"), "os": ("copy_file_range", "memfd_create", "pidfd_open", "posix_spawn", "waitstatus_to_exitcode"), "shlex": ("join",),
    "signal": ("raise_signal", "strsignal"), "socket": ("create_server",), "time": ("monotonic_ns", "thread_time", "time_ns"),
}


def check(source, name):
    """Raises SyntaxError for what 3.6 cannot parse."""
    for node in ast.walk(ast.parse(source, name, feature_version=VERSION)):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and any(alias.name == "annotations" for alias in node.names):
            raise SyntaxError("future feature annotations is not defined", (name, node.lineno, 1, None))


def newer(space):
    """Whether a module, by its names, is of the newer Python itself."""
    file = space.get("__file__") or ""
    return space.get("__name__") == __name__ and file == __file__ or os.path.realpath(file).startswith(LIBRARY) or space.get("__name__", "").startswith("_frozen_importlib")


class Lacking:
    """A module as 3.6 has it, for others than the newer Python's own."""

    def __init__(self, module, names):
        self.__dict__.update(_module=module, _names=names)

    def __getattr__(self, name):
        if name in self._names:
            raise AttributeError("module %r has no attribute %r" % (self._module.__name__, name))
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        setattr(self._module, name, value)


def imports(original):
    def importing(name, space=None, local=None, names=(), level=0):
        if level or newer(space or {}):
            return original(name, space, local, names, level)
        wanted = [name] + ["%s.%s" % (name, one) for one in names or ()]
        for one in wanted:
            if one in MODULES:
                raise ModuleNotFoundError("No module named %r" % one, name=one)
        for one in names or ():
            if one in MISSING.get(name, ()):
                raise ImportError("cannot import name %r" % one, name=name)
        found = original(name, space, local, names, level)
        return Lacking(found, MISSING[name]) if name in MISSING and (names or "." not in name) else found
    return importing


def without_new_arguments(function):
    def call(*args, **kwargs):
        new = [name for name in ("capture_output", "text") if name in kwargs]
        if new and not newer(sys._getframe(1).f_globals):
            raise TypeError("__init__() got an unexpected keyword argument %r" % new[0])
        return function(*args, **kwargs)
    return call


def become(program):
    version = collections.namedtuple("version_info", "major minor micro releaselevel serial")(3, 6, 8, "final", 0)
    sys.version_info, sys.hexversion, sys.version, sys.executable = version, 0x030608f0, "3.6.8 (a stand-in)", program
    sys.dont_write_bytecode = True
    loader, compiled = importlib.machinery.SourceFileLoader, importlib.machinery.SourceFileLoader.get_code

    def get_code(self, name):
        if os.path.realpath(self.path).startswith(LIBRARY):
            return compiled(self, name)
        source = self.get_data(self.path)
        check(source, self.path)
        return compile(source, self.path, "exec", dont_inherit=True)
    loader.get_code = get_code
    zipped = zipimport._compile_source

    def compile_zipped(path, source):
        check(source, path)
        return zipped(path, source)
    zipimport._compile_source = compile_zipped
    for name in ("run", "check_output"):
        setattr(subprocess, name, without_new_arguments(getattr(subprocess, name)))
    subprocess.Popen.__init__ = without_new_arguments(subprocess.Popen.__init__)
    builtins.__import__ = imports(builtins.__import__)


def run(source, name):
    check(source, name)
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    if name[0] != "<":
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


def start(program, args):
    while args and args[0][0] == "-" and args[0] not in ("-", "-c", "-m"):
        option = args.pop(0)
        if option in ("-V", "--version"):
            return print("Python 3.6.8")
        if option in ("-W", "-X"):
            args.pop(0)
        if "u" in option:
            sys.stdout.reconfigure(write_through=True)
    become(program)
    what = args[0] if args else "-"
    if what == "-c":
        sys.argv, sys.path[0] = ["-c"] + args[2:], ""
        return run(args[1], "<string>")
    if what == "-m":
        sys.argv, sys.path[0] = args[1:], os.getcwd()
        return runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    sys.argv = args or [""]
    if what == "-":
        sys.path[0] = ""
        return run(sys.stdin.read(), "<stdin>")
    if os.path.isdir(what) or not what.endswith(".py") and zipimport_can(what):
        sys.path.pop(0)
        return runpy.run_path(what, run_name="__main__")
    sys.path[0] = os.path.dirname(os.path.realpath(what))
    with open(what, "rb") as f:
        source = f.read()
    return run(source, what)


def zipimport_can(path):
    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2:])
