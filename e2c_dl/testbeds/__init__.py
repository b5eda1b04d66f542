"""Where hosts come from. The only room that imports E2Clab and EnOSlib (with layers_services/)."""
