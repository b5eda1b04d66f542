"""Programs of the user's own that train: what a host must have so that horovodrun and torchrun find the others."""

DIRECTORY_VARIABLE = "E2CDL_RUN_DIR"
"""In the environment of all that a run starts on a host: its directory there, which ``destroy`` goes by."""

KEY = "ranks.key"
"""In the run's directory on the controller: the key between its hosts."""

IMAGE_VARIABLE = "E2CDL_IMAGE"
"""The image of the services' containers, in place of the scenario's: a name, or a file of `docker save`, NAME.tar."""
