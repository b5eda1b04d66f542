"""Scenarios as they were written for earlier versions of E2Clab, of every trait that published ones have."""

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

IMAGE = "https://api.grid5000.fr/sid/sites/lyon/public/somebody/debian11-x64-big.yaml"


@dataclass(frozen=True, kw_only=True)
class Old:
    """What one is like."""

    flat: bool = True
    flow: bool = False  # the environment in braces
    job_type: str = "none"  # none, beside (the environment's keys), text, other (without deploy)
    image: bool = True
    servers: int = 1
    quantity: int = 1
    comments: bool = True
    flower: bool = False
    last_line: bool = True  # whether the last line ends
    rules: bool = False  # of today's kind, behind the defaults
    loss: str = "0.1"
    copy: str = "cp"

    @property
    def hosts(self) -> int:
        return self.quantity + 1 if self.flower else self.servers

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        texts = {
            "layers_services.yaml": self.layers(),
            "network.yaml": self.network(),
            "workflow.yaml": self.workflow(),
        }
        for name, text in texts.items():
            (folder / name).write_text(text if self.last_line else text.rstrip("\n"))
        return folder

    def environment(self) -> list[tuple[str, str]]:
        pairs = [("name", "g5k")] if self.flat else []
        pairs += [("cluster", "chifflot"), *([("env_name", IMAGE)] if self.image else [])]
        types = {"beside": '["exotic", "deploy"]', "text": "deploy", "other": "[exotic]"}
        return pairs + ([("job_type", types[self.job_type])] if self.job_type in types else [])

    def layers(self) -> str:
        pairs = self.environment()
        common = [("job_name", "of-before"), ("walltime", '"01:00:00"')]
        if self.flow:
            inner = ", ".join(f"{key}: {value}" for key, value in pairs)
            both = ", ".join(f"{key}: {value}" for key, value in common)
            text = f"environment: {{{inner}, {both}}}" if self.flat else f"environment: {{{both}, g5k: {{{inner}}}}}"
        else:
            shift = "  " if self.flat else "    "
            lines = [f"{shift}{key}: {value}{'  # as it was' if self.comments else ''}" for key, value in pairs]
            if self.comments:
                lines.insert(1, f"{shift}# which cluster")
            lines = lines if self.flat else ["  g5k:", *lines]
            text = "\n".join(["environment:", *lines, *(f"  {key}: {value}" for key, value in common)])
        head = "---\n# Of before\n" if self.comments else ""
        between = "#monitoring:\n#  type: tig\n" if self.comments else ""
        return f"{head}{text}\n{between}layers:\n{self.services()}"

    def services(self) -> str:
        if self.flower:
            return (
                "- name: cloud\n  services:\n  - name: FLServer\n    quantity: 1\n"
                f"- name: edge\n  services:\n  - name: FLClient\n    quantity: {self.quantity}\n"
            )
        servers = ", ".join(f'"chifflot-{i}.lille.grid5000.fr"' for i in range(1, self.servers + 1))
        return f"- name: cloud\n  services:\n  - name: Horovod\n    docker: False\n    servers: [{servers}]\n"

    def network(self) -> str:
        text = f'networks:\n- default_loss: {self.loss}\n  default_delay: "2ms"  # one way\n  default_rate: "10gbit"\n'
        return text + ("- {src: cloud.*, dst: edge.*, delay: 5ms, rate: 1gbit}\n" if self.rules and self.flower else "")

    def workflow(self) -> str:
        hosts = "cloud.FLServer.*" if self.flower else "cloud.horovod.*"
        text = (
            f"# All\n- hosts: {hosts}\n  launch:\n"
            '    - shell: "horovodrun --output-filename /tmp/run/logs"  # it trains\n'
            f'  finalize:\n    - shell: "mkdir -p /srv/out"\n    - shell: "{self.copy} /tmp/run/logs /srv/out/."\n'
            '    - shell: "cp /tmp/run/time.json /srv/out/. || true"\n    - find:\n        paths: "/srv/out/logs/"\n'
        )
        if self.flower:
            text += (
                "- hosts: edge.FLClient.*\n  # whom it serves\n  depends_on:\n"
                '    service_selector: "cloud.FLServer.*"\n'
                '    # in turns\n    grouping: "round_robin"\n    prefix: "server"\n  launch:\n'
                '    - debug:\n        msg: "{{ server.url }}"\n'
            )
        return text


OLDS = st.builds(
    Old,
    flat=st.booleans(),
    flow=st.booleans(),
    job_type=st.sampled_from(["none", "beside", "text", "other"]),
    image=st.booleans(),
    servers=st.integers(1, 4),
    quantity=st.integers(1, 4),
    comments=st.booleans(),
    flower=st.booleans(),
    last_line=st.booleans(),
    rules=st.booleans(),
    loss=st.sampled_from(["0.1", "5", '"1%"', "0"]),
    copy=st.sampled_from(["cp", "cp -r", "cp -a", "docker cp"]),
)
