"""Memory of graphics cards as Vulkan's driver tells it: WebGPU keeps it to itself."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping

_LIBRARY = "vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1"
_INSTANCE_CREATE_INFO = 1
_DEVICE_LOCAL = 1
_PROPERTIES = 4096
"""Bytes, more than VkPhysicalDeviceProperties has in any version."""


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


class _Heap(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint64), ("flags", ctypes.c_uint32))


class _MemoryProperties(ctypes.Structure):
    _fields_ = (
        ("type_count", ctypes.c_uint32),
        ("types", ctypes.c_uint32 * 2 * 32),
        ("heap_count", ctypes.c_uint32),
        ("heaps", _Heap * 16),
    )


def card_memory() -> Mapping[tuple[int, int], int]:
    """Return the bytes of each card's own memory, by its PCI vendor and device ids.

    Of a card with several heaps the largest counts: a small one is often a window into it. Empty
    where there is no Vulkan. Starts the drivers, which may crash: for a process of its own.
    """
    try:
        vulkan = ctypes.CDLL(_LIBRARY)
    except OSError:
        return {}
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    if vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        return {}
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    devices = (ctypes.c_void_p * count.value)()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
    found = {}
    for device in map(ctypes.c_void_p, devices):
        properties = (ctypes.c_uint32 * (_PROPERTIES // 4))()
        vulkan.vkGetPhysicalDeviceProperties(device, properties)
        _api, _driver, vendor, model = properties[:4]
        memory = _MemoryProperties()
        vulkan.vkGetPhysicalDeviceMemoryProperties(device, ctypes.byref(memory))
        heaps = memory.heaps[: memory.heap_count]
        own = (heap.size for heap in heaps if heap.flags & _DEVICE_LOCAL)
        found[vendor, model] = max(own, default=0)
    vulkan.vkDestroyInstance(instance, None)
    return found
