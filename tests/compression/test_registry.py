"""How methods plug in: options, what fits together, methods of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from trimtab.compression import factorizers as factorizers_room
from trimtab.compression.factorizers import Factorize
from trimtab.compression.methods import make_recipe
from trimtab.compression.registry import Registry
from trimtab.errors import OptionError


@dataclass(frozen=True)
class Options:
    fast: bool = False
    name: str = "x"


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        ("flrc", "allocator.min_rank=0"),
        ("flrc", "allocator.power=nan"),
        ("flrc", "allocator.power=-1"),
        ("flrc", "allocator.importance=fischer"),
        ("flrc", "allocator.per=row"),
        ("flrc", "factorizer.floor=-1"),
        ("two-sided", "factorizer.damping=1.5"),
        ("two-sided", "allocator.min_rank=-1"),
        ("svd-llm", "allocator.min_rank=0"),
        ("asvd", "factorizer.alpha=inf"),
        ("asvd", "allocator.windows=0"),
        ("asvd", "allocator.ratios=0.5,7"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_any_work(method: str, setting: str) -> None:
    option = setting.partition(".")[2].partition("=")[0]
    with pytest.raises(OptionError, match=f"option '{option}' is "):
        make_recipe(method, settings=[setting])


@pytest.mark.parametrize("setting", ["power=1", "allocator.power", "allocator=1", "other.power=1", "allocator.=1", ""])
def test_a_setting_of_another_form_is_refused(setting: str) -> None:
    with pytest.raises(OptionError, match="a setting looks like"):
        make_recipe("flrc", settings=[setting])


def test_an_unknown_option_offers_the_nearest() -> None:
    with pytest.raises(OptionError, match="flra has no option 'pover'; did you mean 'power'"):
        make_recipe("flrc", settings=["allocator.pover=1"])


@pytest.mark.parametrize("factorizer", ["svd", "asvd"])
def test_errors_that_cannot_be_compared_are_refused_before_any_work(factorizer: str) -> None:
    with pytest.raises(
        OptionError, match=f"cannot compare the errors of the factorizer {factorizer} .* two-sided or w"
    ):
        make_recipe(factorizer=factorizer, allocator="loss-aware")
    assert make_recipe(factorizer=factorizer, allocator="flra").method == "custom"


def test_truth_is_read_as_a_word() -> None:
    registry: Registry = Registry("thing", (), "trimtab.nothing")
    registry.register("a", options=Options, reference="")(lambda: None)
    make = registry.get("a").make_options
    assert (make({"fast": "True"}).fast, make({"fast": "false"}).fast) == (True, False)
    with pytest.raises(OptionError, match="wants bool, not 'perhaps'"):
        make({"fast": "perhaps"})


def package(folder: Path, name: str, code: str) -> None:
    """Install a package with one entry point in the group of the factorizers."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[trimtab.factorizers]\n{name} = {name}\n")


def test_other_packages_add_methods_and_a_broken_one_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "broken_plugin_of_tests", "import a_module_that_is_not_there")
    package(
        tmp_path,
        "plugin_of_tests",
        "from trimtab.compression.factorizers import factorizers\n"
        "from trimtab.compression.factorizers.svd import SvdOptions, factorize\n"
        "@factorizers.register('theirs', options=SvdOptions, reference='a paper')\n"
        "def theirs(*arguments):\n"
        "    '''Their way.'''\n"
        "    return factorize(*arguments)\n",
    )
    monkeypatch.syspath_prepend(tmp_path)
    fresh: Registry[Factorize] = Registry("factorizer", (), "trimtab.factorizers")
    monkeypatch.setattr(factorizers_room, "factorizers", fresh)
    with pytest.warns(UserWarning, match="'broken_plugin_of_tests' cannot be loaded"):
        method = fresh.get("theirs")
    assert (method.summary, method.reference) == ("Their way.", "a paper")
