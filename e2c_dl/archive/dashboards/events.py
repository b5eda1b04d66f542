"""TensorBoard's event files: a folder per host, in each the curves loss, test_loss and accuracy over iterations.

::

    FOLDER/edge-1/events.out.tfevents.RUN      `tensorboard --logdir FOLDER` shows a line per host and curve
    FOLDER/edge-2/events.out.tfevents.RUN
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from e2c_dl.archive.dashboards.curves import began_s, points
from e2c_dl.archive.read import ReadArchive
from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.errors import ArchiveError

_VERSION = "brain.Event:2"  # the first record of every event file


def write(archive: ReadArchive, folder: Path) -> None:
    """Write the curves of ``archive`` into ``folder``; the same archive gives the same bytes.

    Raises: ArchiveError, if there are none or they cannot be written; ModuleNotFoundError without TensorBoard.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    began = began_s(archive)
    for host, own in groupby(points(archive), key=lambda point: point.host):
        place = folder / host / f"events.out.tfevents.{archive.run.run_id}"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(f"{place.parent}: cannot be made: {error.strerror}; {ELSEWHERE}") from error
        with written(place, ELSEWHERE) as path, path.open("wb") as file:
            records = RecordWriter(file)
            records.write(Event(wall_time=began, file_version=_VERSION).SerializeToString())
            for point in own:
                summary = Summary(value=[Summary.Value(tag=point.tag, simple_value=point.value)])
                event = Event(wall_time=began + point.elapsed_s, step=point.iteration, summary=summary)
                records.write(event.SerializeToString())
