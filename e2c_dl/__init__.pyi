from e2c_dl.api import ArchivedRun as ArchivedRun
from e2c_dl.api import deploy as deploy
from e2c_dl.api import load as load
from e2c_dl.api import simulate as simulate

__version__: str
