"""What departs from its reference: series over windows, where their level changes, whom that tells from its peers."""
