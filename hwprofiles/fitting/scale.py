"""Where the parameters of an unknown device are looked for, from what it was seen to do at most."""

from collections.abc import Mapping
from dataclasses import dataclass

from hwprofiles.fitting.search import Search


@dataclass(frozen=True)
class Scale:
    """The fastest stream and arithmetic, and the shortest kernel, that were measured."""

    memory_bytes_per_s: float
    flop_per_s: float
    launch_s: float
    most_bytes_per_s: float | None = None
    """What a data sheet promises: no kernel streams faster, however well that would fit."""

    def _launch(self, times: float = 1.0) -> Search:
        return Search(times * self.launch_s, self.launch_s / 30, 3e3 * self.launch_s)

    def _memory(self) -> Search:
        """Of what comes from memory."""
        peak = self.memory_bytes_per_s
        most = self.most_bytes_per_s or 1.5 * peak
        return Search(min(0.7 * peak, 0.9 * most), 0.01 * peak, most)

    def _rows(self) -> Search:
        """Of activations, which may lie in a cache."""
        peak = self.memory_bytes_per_s
        return Search(0.7 * peak, 0.01 * peak, 1.5 * peak)

    def _compute(self) -> Search:
        peak = self.flop_per_s
        return Search(0.7 * peak, 0.001 * peak, 1.5 * peak)

    @property
    def launch(self) -> Search:
        """Of a kernel that does next to nothing."""
        return self._launch()

    @property
    def gemm(self) -> Mapping[str, Search]:
        """Of a dense product."""
        return {
            "launch_s": self._launch(),
            "launch_per_k_s": Search(self.launch_s / 4e3, self.launch_s / 4e6, self.launch_s / 1e2),
            "launch_k_limit": Search(4e3, 5e2, 2e4),
            "launch_power": Search(1.2, 1.0, 6.0),
            "roof_power": Search(2.6, 1.0, 12.0),
            "memory_bytes_per_s": self._memory(),
            "flop_per_s": self._compute(),
        }

    @property
    def prefill(self) -> Mapping[str, Search]:
        """Of attention over whole prompts."""
        return {
            "launch_s": self._launch(3.0),
            "wave_s": Search(self.launch_s, self.launch_s / 1e3, 1e3 * self.launch_s),
            "wave_power": Search(1.5, 1.0, 6.0),
            "memory_bytes_per_s": self._memory(),
            "roof_power": Search(1.5, 1.0, 8.0),
            "flop_per_s": self._compute(),
        }

    @property
    def extend(self) -> Mapping[str, Search]:
        """Of attention of few queries over a prefix."""
        return {
            **self.prefill,
            "split_s": Search(self.launch_s, self.launch_s / 1e3, 1e3 * self.launch_s),
            "split_kv_tokens": Search(1e3, 5e1, 2e4),
        }

    @property
    def extend_at_known_rate(self) -> Mapping[str, Search]:
        """The same where few points fill a tile: a sharper roof would hide what full tiles add."""
        soft = {**self.extend, "roof_power": Search(1.5, 1.0, 2.0)}
        return {name: search for name, search in soft.items() if name != "flop_per_s"}

    @property
    def attention_rows(self) -> Mapping[str, Search]:
        """Of attention tabulated by rows, beside its table."""
        return {
            "launch_s": self._launch(),
            "row_s": Search(self.launch_s / 1e2, self.launch_s / 1e6, 10 * self.launch_s),
        }

    @property
    def attention_sequences(self) -> Mapping[str, Search]:
        """The same where every sequence is a call of its own."""
        launch_s = self.launch_s
        return {
            **self.attention_rows,
            "sequence_s": Search(launch_s, launch_s / 1e3, 1e2 * launch_s),
        }

    @property
    def moe(self) -> Mapping[str, Search]:
        """Of a mixture-of-experts module."""
        return {
            "launch_s": self._launch(8.0),
            "expert_s": Search(self.launch_s / 30, self.launch_s / 1e4, 1e3 * self.launch_s),
            "row_bytes_per_s": self._rows(),
            "memory_bytes_per_s": self._memory(),
            "flop_per_s": self._compute(),
            "padding_rows": Search(8.0, 1e-1, 3e2),
            "roof_power": Search(1.8, 1.0, 8.0),
        }

    @property
    def streaming(self) -> Mapping[str, Search]:
        """Of a kernel that streams."""
        return {"launch_s": self._launch(), "memory_bytes_per_s": self._memory()}

    @property
    def rows(self) -> Mapping[str, Search]:
        """Of a kernel that gives each row to one block."""
        peak = self.memory_bytes_per_s
        return {"row_bytes_per_s": Search(0.1 * peak, 1e-4 * peak, 1e2 * peak)}
