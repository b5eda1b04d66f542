"""Everything that reaches into E2Clab, EnOSlib and Ansible: their private names, scoped and put back."""
