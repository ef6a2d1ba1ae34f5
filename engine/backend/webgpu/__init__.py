"""Any GPU through WebGPU: wgpu-py on Vulkan, Metal or DirectX, shaders in files of their own."""
