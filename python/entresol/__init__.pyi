"""What `import entresol as es` offers; the names are loaded when they are first used."""

from entresol import figures as figures
from entresol import workload as workload
from entresol.api.design import Design as Design
from entresol.api.design import design as design
from entresol.api.design import designs as designs
from entresol.api.design import parameters as parameters
from entresol.api.results import Results as Results
from entresol.api.run import run as run
from entresol.api.run import sweep as sweep
from entresol.core import EntresolError as EntresolError
from entresol.errors import Failed as Failed
from entresol.errors import UserError as UserError

__all__: list[str]
