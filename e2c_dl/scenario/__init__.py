"""E2Clab's scenario folder, plus the optional emulation.yaml, as one frozen value that was checked as a whole."""
