"""The GPU of this rank as NVML sees it, beside the host's own metrics; on a host without, the reason."""

from __future__ import annotations

from typing import Any

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.drivers.live.gpu.nvml import COLUMNS, NoGpu, Nvml


class Gpu:
    """Further columns for metrics.csv, empty until :meth:`begin` says which GPU is meant; none where NVML is not."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self._unknown, self._uuid = "", ""
        try:
            self._nvml = Nvml()
        except NoGpu as reason:
            self._unknown = str(reason)

    @property
    def columns(self) -> tuple[str, ...]:
        return COLUMNS if self._nvml is not None else ()

    def begin(self, records: HostRecords) -> None:
        """Sample the one that the facts of torch name from now on, and add what NVML knows to the facts."""
        facts = records.facts()
        self._uuid = str(facts.torch.get("device_uuid", "")) if facts is not None else ""
        records.amend_facts(gpu=self.facts())

    def sample(self) -> tuple[float | int | str, ...]:
        """A value for each column, now."""
        if self._nvml is None or not self._uuid:
            return ("",) * len(self.columns)
        return self._nvml.sample(self._uuid)

    def facts(self) -> dict[str, Any]:
        """For facts.json: which GPU this rank has, and what GPUs there are or why nobody knows."""
        if self._nvml is None:
            return {"unknown": self._unknown}
        return {"device": self._uuid, "gpus": self._nvml.facts()}

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()
