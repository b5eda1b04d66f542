"""How long bringing hosts up, services, emulation and release take, beside the same done with EnOSlib alone."""
