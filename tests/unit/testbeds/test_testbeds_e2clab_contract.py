"""What of E2Clab, EnOSlib and Ansible is relied upon, and what breaks when a new version moves it.

Each row: where it is, its parameters as this project calls them ("" for what is no function), what rests on it.
"""

import importlib
import inspect
import re

import pytest

USED = [
    # what is replaced or read while a session lasts: e2c_dl/testbeds/e2clab/upstream.py
    ("e2clab.providers.provider:Provider._loaded_providers", "", "hosts from elsewhere answer for `g5k:`"),
    ("e2clab.providers.provider:Provider.__init__", "self infra_config optimization_id", "our provider is made"),
    ("e2clab.providers.provider:Provider.init", "self", "our hosts are handed over"),
    ("e2clab.providers.provider:Provider.destroy", "self", "our hosts are released"),
    ("e2clab.services.utils:get_available_services", "", "our services are found without being installed"),
    ("e2clab.services:get_available_services", "", "our services are found without being installed"),
    ("e2clab.config:get_available_services", "", "our services are found without being installed"),
    ("e2clab.services:Service.get_loaded_subservices", "", "the next session imports our services anew"),
    ("e2clab.services.plugins:__path__", "", "our services are imported from their own folder"),
    ("enoslib.config:_config", "", "EnOSlib's settings are put back"),
    ("enoslib.config:get_config", "", "EnOSlib's settings are put back"),
    ("enoslib.config:set_config", "ansible_forks ansible_stdout", "a launch has a fork per host"),
    ("enoslib.api:NoopCallback", "", "it is told which task runs, host by host"),
    # E2Clab's acts, driven one by one: experiment.py
    ("e2clab.experiment:Experiment.__init__", "self scenario_dir artifacts_dir repeat", "a session begins"),
    ("e2clab.experiment:Experiment.infrastructure", "self", "services are deployed"),
    ("e2clab.experiment:Experiment.application", "self task app_conf", "the workflow's steps run"),
    ("e2clab.constants:WorkflowTasks", "", "the workflow's steps run"),
    # hosts and services: hosts.py, trainer.py, layers_services/
    ("e2clab.services:Service.register_service", "self hosts extra", "`_self` is published to the workflow"),
    ("enoslib:StaticConf.from_dictionary", "dictionary", "hosts that are there are handed over"),
    ("enoslib:Static.init", "self", "hosts that are there are handed over"),
    ("enoslib:wait_for", "roles retries interval", "a host that never answers is given up"),
    ("enoslib:run_ansible", "playbooks roles extra_vars", "this program is installed on hosts"),
    ("enoslib.objects:Host.set_extra", "self", "each host is told its own values"),
    ("enoslib.objects:Host.net_devices", "", "the training address is found"),
    ("enoslib.objects:NetDevice", "name addresses", "E2Clab's validation knows the hosts' addresses"),
    ("enoslib.objects:IPAddress", "address network", "it is known which device is of the reserved network"),
    # nodes reserved on Grid'5000: reservation.py
    ("e2clab.config:InfrastructureConfig", "", "nodes are reserved as E2Clab asks for them"),
    ("e2clab.providers.plugins.G5k:G5k._provider_g5k", "self optimization_id", "waits for nodes end"),
    (
        "enoslib.infra.enos_g5k.provider:G5k.reserve",
        "self need_redeployment",
        "a job is on record before it is waited for",
    ),
    ("enoslib.infra.enos_g5k.provider:G5k.wait", "self", "a job that is over ends the wait"),
    ("enoslib.infra.enos_g5k.provider:G5k.deploy", "self", "nodes that fail to deploy are named"),
    ("enoslib.infra.enos_g5k.provider:G5k._verify_environment_consistency", "self", "new nodes are deployed"),
    ("enoslib.infra.enos_g5k.configuration:ClusterConfiguration.get_demands", "self", "nodes that lack are counted"),
    ("enoslib.infra.enos_g5k.configuration:ServersConfiguration.get_demands", "self", "nodes that lack are counted"),
    ("enoslib.infra.enos_g5k.driver:Driver.jobs", "", "the jobs that are waited for are known"),
    ("enoslib.infra.enos_g5k.objects:G5kHost._where", "", "nodes are deployed at their site"),
    ("enoslib.objects:NetDevice.filter_addresses", "self", "the device that was reserved is found"),
    ("enoslib.infra.enos_g5k.provider:PROD_VLAN_ID", "", "nodes are deployed in their network"),
    ("enoslib.infra.enos_g5k.provider:deploy_with_retries", "", "no deployed node is forgotten"),
    ("enoslib.infra.enos_g5k.g5k_api_utils:_api_client", "", "every call to the API has a time-out"),
    ("enoslib.infra.enos_g5k.g5k_api_utils:Client", "", "every call to the API has a time-out"),
    ("enoslib.infra.enos_g5k.g5k_api_utils:get_api_client", "", "deployments are asked for"),
    (
        "enoslib.infra.enos_g5k.g5k_api_utils:get_all_clusters_sites.cache_clear",
        "",
        "no other account's sites are known",
    ),
    # virtual machines: vagrant_up.py
    ("enoslib:VagrantConf.from_dictionary", "dictionary", "machines are asked for"),
    ("enoslib:Vagrant.init", "self", "machines come up"),
    # the files that `check` agrees with: schemas.py
    ("e2clab.schemas:is_valid_conf", "", "tests compare `check` with E2Clab's own"),
]

SAID = [
    # attributes that reservation.py sets or reads
    (
        "e2clab.providers.plugins.G5k:G5kConfig.init",
        "self.job_name = self.opt_job_id(self.job_name",
        "a job has its name",
    ),
    (
        "e2clab.providers.plugins.G5k:G5k.init",
        "provider = self._provider_g5k(self.optimization_id)",
        "waits for nodes end",
    ),
    ("enoslib.infra.enos_g5k.configuration:Configuration.__init__", "self.project = None", "jobs are of the project"),
    ("enoslib.infra.enos_g5k.provider:G5k.__init__", "self.driver = get_driver(", "the jobs are known"),
    ("enoslib.infra.enos_g5k.provider:G5k.__init__", "self.undeployed: ", "nodes that fail to deploy are named"),
    ("enoslib.infra.enos_g5k.provider:G5k.deploy", "deploy_with_retries(", "no deployed node is forgotten"),
    ("enoslib.infra.enos_g5k.provider:G5k.launch", "self._verify_environment_consistency()", "new nodes are deployed"),
    (
        "enoslib.infra.enos_g5k.objects:G5kHost.__init__",
        "self.primary_network = ",
        "nodes are deployed in their network",
    ),
    ("enoslib.infra.enos_vagrant.provider:Enos_vagrant.init", "machine.config_extra_vm", "machines have our network"),
    ("enoslib.infra.enos_vagrant.provider:Enos_vagrant.init", 'os.path.join(os.getcwd(), "Vagrantfile")', "destroyed"),
    # what is read of E2Clab's output, which is no interface: campaign/plain_records.py, campaign/collect.py
    ("e2clab.experiment:Experiment.__init__", '"%Y%m%d-%H%M%S"', "when a run of plain E2Clab began"),
    ("enoslib.infra.enos_g5k.g5k_api_utils:wait_for_jobs", '"Job %s on %s: ', "which OAR jobs its nodes were"),
    (
        "enoslib.infra.enos_g5k.g5k_api_utils:grid_reload_jobs_from_name",
        '"Reloading %s from %s", _jobs',
        "which OAR jobs its nodes were",
    ),
    ("e2clab.log:config_file_logger", '"%(asctime)s - %(name)s - %(levelname)s - %(message)s"', "when it ended"),
    ("e2clab.constants.default:LOG_INFO_FILENAME", "e2clab.log", "E2Clab's log is in the archive"),
    ("e2clab.constants.default:LOG_ERR_FILENAME", "e2clab.err", "E2Clab's errors are in the archive"),
    ("e2clab.constants.default:WORKFLOW_VALIDATE_FILE", "workflow-validate.out", "tasks' results are in the archive"),
    (
        "e2clab.constants.default:LAYERS_SERVICES_VALIDATE_FILE",
        "layers_services-validate.yaml",
        "hosts' names are kept",
    ),
    ("e2clab.constants.default:NET_VALIDATE_DIR", "network-validate", "fping's output is in the archive"),
]


def named(where: str) -> object:
    """What stands at ``module:name.name``."""
    module, _, path = where.partition(":")
    found: object = importlib.import_module(module)
    for name in path.split("."):
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields[name] if name in fields else getattr(found, name)
    return found


@pytest.fixture(autouse=True)
def importable(request) -> None:
    """EnOSlib has its Vagrant provider only where python-vagrant is."""
    if "agrant" in request.node.name:
        pytest.importorskip("vagrant", reason="python-vagrant is not installed; make setup")


def has_moved(where: str, parameters: str) -> str:
    """How what is at ``where`` differs from what is relied upon; "" if it does not."""
    try:
        found = named(where)
    except (ImportError, AttributeError) as error:
        return str(error)
    if not parameters:
        return ""
    takes = inspect.signature(found).parameters  # type: ignore[arg-type]
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values()):
        return ""  # of these names it takes any
    return "".join(f"it takes no {name}" for name in parameters.split() if name not in takes)


@pytest.mark.parametrize(("where", "parameters", "rests"), USED)
def test_what_is_relied_upon_is_where_it_was(where, parameters, rests) -> None:
    moved = has_moved(where, parameters)
    assert not moved, f"{where} has moved ({moved}): {rests} no more"


@pytest.mark.parametrize(("where", "text", "rests"), SAID)
def test_what_is_read_is_still_written(where, text, rests) -> None:
    found = named(where)
    said = found if isinstance(found, str) else inspect.getsource(found)  # type: ignore[arg-type]
    assert text in said, f"{where} says {text!r} no more: {rests} is not known"


def test_a_new_version_that_moves_something_is_told_by_what_breaks() -> None:
    assert has_moved("e2clab.experiment:Experiment.reserve", "") != ""
    assert (
        has_moved("e2clab.experiment:Experiment.application", "self task configuration") == "it takes no configuration"
    )


def test_all_that_is_imported_of_them_is_in_the_list(repository) -> None:
    """Whoever comes to rely on more of them names what breaks without it."""
    known = {where.partition(":")[2].split(".")[0] for where, *_ in [*USED, *SAID]} | {"Roles"}
    text = "".join(path.read_text() for path in (repository / "e2c_dl/testbeds/e2clab").glob("*.py"))
    used = {
        name
        for names in re.findall(r"from (?:e2clab|enoslib)[\w.]* import ([\w, ]+)", text)
        for name in names.split(", ")
    }
    used |= set(re.findall(r"\ben\.(\w+)", text))
    assert used - known == set()
