"""How busy this node's NVIDIA GPUs are: by NVML (NVML API Reference, "Device Queries"), or by nvidia-smi where there is no library of it."""

import ctypes
import shutil
import subprocess

LIBRARY = "libnvidia-ml.so.1"
UUID_SIZE = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE
SMI = ["nvidia-smi", "--query-gpu=uuid,utilization.gpu", "--format=csv,noheader,nounits"]
SMI_LIMIT = 60.0  # seconds for an answer
NOTHING = ("", "-1", "none", "void", "NoDevFiles")  # CUDA_VISIBLE_DEVICES as Slurm and users set it, NVIDIA_VISIBLE_DEVICES as its container runtime has it
# The first of them that is set names the GPUs of the node. Slurm numbers those of CUDA_VISIBLE_DEVICES as its devices' cgroup shows them, as NVML does.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


class Unreadable(Exception):
    """How busy the GPUs are cannot be measured, for this reason."""


class Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period, 1/6 s to 1 s."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Library:
    """NVML itself. It enumerates the GPUs that this process may use."""

    def __init__(self):
        self._nvml = ctypes.CDLL(LIBRARY)  # OSError: there is none
        self._call("nvmlInit_v2")

    def _call(self, name, *arguments):
        try:
            code = getattr(self._nvml, name)(*arguments)
            self._nvml.nvmlErrorString.restype = ctypes.c_char_p
        except AttributeError as error:  # a stub, or another program's library of that name
            raise Unreadable("%s is no NVML: %s" % (LIBRARY, error))
        if code:
            raise Unreadable("%s of NVML: %s" % (name, (self._nvml.nvmlErrorString(code) or b"").decode("utf-8", "replace")))

    def read(self):
        """[(uuid, percent)] of all; None: NVML has no figure for it, as for a GPU that is divided (MIG)."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._device(index) for index in range(count.value)]

    def _device(self, index):
        device, name, rates = ctypes.c_void_p(), ctypes.create_string_buffer(UUID_SIZE), Utilization()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        self._call("nvmlDeviceGetUUID", device, name, ctypes.c_uint(UUID_SIZE))
        try:
            self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(rates))
        except Unreadable:
            return name.value.decode(), None
        return name.value.decode(), rates.gpu


class Program:
    """nvidia-smi, which needs a second of a processor for each answer."""

    def read(self):
        """As Library's."""
        try:
            ran = subprocess.run(SMI, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SMI_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise Unreadable("nvidia-smi has not answered for %ds" % SMI_LIMIT)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unreadable("nvidia-smi: %s" % error)
        lines = [line.strip() for line in ran.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
        strange = next((line for line in lines if not line.startswith("GPU-")), "")  # nvidia-smi prints its errors on stdout, and "No devices were found"
        if ran.returncode or strange:
            raise Unreadable("nvidia-smi: %s" % (strange[:200] or "it ended with code %d" % ran.returncode))
        found = []
        for line in lines:
            uuid, _, percent = line.partition(",")
            found.append((uuid.strip(), int(percent) if percent.strip().isdecimal() else None))  # [N/A]
        return found


def source():
    """What can be asked on this node. Raises Unreadable."""
    try:
        return Library()
    except OSError:
        if shutil.which(SMI[0]):
            return Program()
    raise Unreadable("there is neither %s nor %s" % (LIBRARY, SMI[0]))


def ours(devices, wanted, environ):
    """Those of the node, out of all that are seen. Raises Unreadable where that is not clear."""
    name = next((n for n in VISIBLE if n in environ), "")
    value = environ.get(name, "all").strip()
    if value in NOTHING:
        raise Unreadable("%s shows it no GPU" % name)
    chosen = devices if value == "all" else _listed(devices, [part.strip() for part in value.split(",") if part.strip()], name)
    if len(chosen) < wanted:
        raise Unreadable("it has %d GPUs, but %d are visible" % (wanted, len(chosen)))
    return chosen[:wanted]


def _listed(devices, parts, name):
    if any(part.startswith("MIG") for part in parts):
        raise Unreadable("%s has parts of GPUs (MIG), for which NVML has no utilization" % name)
    if all(part.isdigit() for part in parts):
        if max(int(part) for part in parts) < len(devices):
            return [devices[int(part)] for part in parts]
        if len(parts) == len(devices):  # numbers of the host, in a container that has these alone
            return devices
        raise Unreadable("%s is %s, but %d GPUs are visible" % (name, ",".join(parts)[:200], len(devices)))
    found = [next((d for d in devices if d[0].startswith(part)), None) for part in parts]  # CUDA takes the beginning of a UUID
    if None in found:
        raise Unreadable("%s names GPUs that are not visible" % name)
    return found
