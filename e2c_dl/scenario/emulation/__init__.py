"""Reading of emulation.yaml: what E2Clab's files cannot say of network and processors."""
