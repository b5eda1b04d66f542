"""Configurations of a workflow, E2Clab's ``--app_conf``: what it uses of one, asked before a run.

E2Clab prepares once for all of them: ``{{ app_conf }}`` and ``{{ env_x }}``, which workflow_env.yaml has, are known
from launch on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from e2c_dl.errors import InputError
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.documents.field import Field
from e2c_dl.scenario.load import WORKFLOW, WORKFLOW_ENV
from e2c_dl.scenario.workflow import uses_variable


def check_app_conf(path: Path, app_conf: str | None) -> None:
    """Does nothing; a scenario is as valid without one. To be asked before a run.

    Raises: InputError, ScenarioError, if the workflow asks for one and there is none, or no such one.
    """
    if app_conf is not None and not re.fullmatch(r"\w[\w.-]{0,99}", app_conf):
        raise InputError(f"--app_conf: {app_conf[:101]!r} cannot name a folder; use up to 100 letters, digits, _ - .")
    workflow = read(path / WORKFLOW)
    env = read(path / WORKFLOW_ENV) if os.path.lexists(path / WORKFLOW_ENV) else None
    if env is not None and app_conf is not None:
        Field(document=env, value=env.value).required(app_conf)
    confs = env.value.values() if env is not None and isinstance(env.value, dict) else ()
    top = Field(document=workflow, value=workflow.value)
    for name in ("app_conf", *sorted({f"env_{key}" for conf in confs if isinstance(conf, dict) for key in conf})):
        if app_conf is None and uses_variable(workflow, name):
            raise top.error(
                f"uses {{{{ {name} }}}}, and no configuration was named", "add --app_conf NAME to the command"
            )
        if uses_variable(workflow, name, "prepare"):
            problem = f"prepare uses {{{{ {name} }}}}: E2Clab prepares before it knows the configuration"
            raise top.error(problem, "use it in launch and finalize")
