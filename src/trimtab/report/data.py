"""What a report says: plain frozen dataclasses, no tensors.

Anything that another room measured with the same field names fits (`evaluate.measure.Measure` does); it is read by
field name when the report is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SHARE = "share"
"""The unit of a metric that lies between 0 and 1 and is shown in per cent."""


@dataclass(frozen=True)
class Measure:
    """A measured value, its 95 % interval [low, high], and how many things it was measured on."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class ProjectionRow:
    """One projection, before and after.

    `rank` is None where the projection stayed dense; `layer` is None outside the decoder layers. `predicted_loss` and
    `measured_loss` are shares (0 to 1) of the projection's output energy that the compression drops: as the factorizer
    expected it, and as seen in the saved weights.
    """

    name: str
    layer: int | None
    kind: str
    out_features: int
    in_features: int
    rank: int | None
    parameters_before: int
    parameters_after: int
    importance: float | None = None
    predicted_loss: float | None = None
    measured_loss: float | None = None

    @property
    def kept(self) -> float:
        """Share of this projection's parameters that is left."""
        return self.parameters_after / self.parameters_before if self.parameters_before else 1.0


@dataclass(frozen=True)
class Sizes:
    """Parameters (numbers) and bytes, of the projections and of the whole model file."""

    projection_parameters_before: int
    projection_parameters_after: int
    total_parameters_before: int
    total_parameters_after: int
    projection_bytes_before: int
    projection_bytes_after: int
    file_bytes_before: int
    file_bytes_after: int


@dataclass(frozen=True)
class Metric:
    """One measured quality of the model before and after; `text` says what it was measured on.

    `unit` is shown after the value; the unit "share" is shown in per cent.
    """

    name: str
    unit: str
    better: Literal["lower", "higher", "none"]
    text: str
    before: Measure | None
    after: Measure | None


@dataclass(frozen=True)
class Sample:
    """What the model answered to the same prompt, before and after."""

    prompt: str
    before: str
    after: str


@dataclass(frozen=True)
class Stage:
    """One stage of the run and how long it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class RunReport:
    """Everything that the report of one compression run shows.

    `requested` is what the user asked for, in the user's words ("--remove 0.2"); `realised` is the share of projection
    parameters that was removed; `coverage` is the share of all parameters that the compressor can touch.
    `peak_memory_bytes` is 0 where it was not measured.
    """

    title: str
    model: str
    command: str
    created: str
    method: str
    factorizer: str
    allocator: str
    requested: str
    realised: float
    coverage: float
    sizes: Sizes
    projections: list[ProjectionRow]
    metrics: list[Metric] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    calibration: dict[str, str] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)
    peak_memory_bytes: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
