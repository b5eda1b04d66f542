"""Sources of hosts. The only room that imports E2Clab and EnOSlib (with layers_services/)."""
