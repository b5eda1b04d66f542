"""``python -m e2c_dl``: the command e2c-dl, where its folder is not on the PATH."""

from e2c_dl.cli.main import main

if __name__ == "__main__":
    main()
