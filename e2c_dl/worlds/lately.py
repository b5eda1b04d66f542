"""What "lately" means of a link that is judged by what it carried: the one rule of both worlds."""

LAST = 4  # messages; of fewer, those that there are
