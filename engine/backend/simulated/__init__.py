"""A simulated accelerator: one core of the CPU that plays a graphics card, declared as it likes."""
