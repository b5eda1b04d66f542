"""GPUs of hosts that train: what NVML tells of them."""
