print("the stand-in makes its own samples")
