"""What batch controllers gain over equal batches, where ranks differ in speed and speeds change."""
