"""The documentation is true: code in docs/adding.md runs, links lead to files, names in docs/walk.md exist."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import runner
from openjepa import checks
from openjepa.checks.monitors import one_view
from openjepa.core import contracts, schema
from openjepa.core.types import Grid
from openjepa.evaluation.tasks.definition import tasks
from openjepa.evaluation.tasks.task import open_task
from openjepa.masks.statistics import occupancy

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(
    r"## A (\w+): `openjepa/(\S+)\.py`\n\n```python\n(.*?)```", (ROOT / "docs/adding.md").read_text(), re.S
)
REGISTRIES = {
    "mask": contracts.mask_strategies,
    "method": contracts.methods,
    "source": contracts.sources,
    "probe": contracts.probes,
    "monitor": contracts.monitors,
    "task": tasks,
}


@pytest.fixture
def part(request, tmp_path: Path):
    """The part that a documentation block registers; taken out again afterwards."""
    kind, path, code = request.param
    registry = REGISTRIES[kind]
    known = set(registry.names())
    file = tmp_path / f"{Path(path).name}.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(f"documented_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    (name,) = set(registry.names()) - known
    yield registry[name]
    del registry._parts[name], sys.modules[spec.name]


def blocks(kind: str) -> list:
    chosen = [block for block in BLOCKS if block[0] == kind]
    assert len(chosen) == 1
    return chosen


@pytest.mark.parametrize("part", blocks("mask"), indirect=True, ids=["mask"])
def test_the_documented_mask_keeps_the_contract(part) -> None:
    checks.mask(part())
    masks = part()(16, Grid(8, 8), torch.Generator().manual_seed(0))
    context, target = occupancy(masks, Grid(8, 8))
    assert not (context & target).any() and context.any(dim=0).all() and target.any(dim=0).all()


@pytest.mark.parametrize("part", blocks("method"), indirect=True, ids=["method"])
def test_the_documented_method_keeps_the_contract(part, tiny_encoder) -> None:
    checks.method(part, {"weight": 2})
    assert part(tiny_encoder).encoder is tiny_encoder


@pytest.mark.parametrize("part", blocks("source"), indirect=True, ids=["source"])
def test_the_documented_source_keeps_the_contract(part) -> None:
    source = part(contracts.SourceRequest(image_size=(8, 12)))
    checks.source(source, changed=part(contracts.SourceRequest(image_size=(8, 8))))
    assert source[3].image.shape == (3, 8, 12) and not torch.equal(source[3].image, source[4].image)


@pytest.mark.parametrize("part", blocks("probe"), indirect=True, ids=["probe"])
def test_the_documented_probe_keeps_the_contract(part) -> None:
    checks.probe(part)


@pytest.mark.parametrize("part", blocks("task"), indirect=True, ids=["task"])
def test_the_documented_task_opens_class_folders(part, tmp_path: Path) -> None:
    for name in ("Forest", "River"):
        runner.make_images(tmp_path / "EuroSAT_RGB" / name, number=5)
    checks.task(part)
    task = open_task("eurosat", image_size=(8, 8), root=tmp_path)
    assert task.definition is part and task.test.labels.tolist() == [0, 1]


@pytest.mark.parametrize("part", blocks("monitor"), indirect=True, ids=["monitor"])
def test_the_documented_monitor_keeps_the_contract(part) -> None:
    checks.monitor(part)
    one = part(**schema.resolve(part, {"every": "1 epoch"}, where="monitors"))
    ((name, value),) = one(one_view())
    assert name == "weights/norm" and value > 0


@pytest.mark.slow
def test_the_one_file_example_learns_more_than_random_weights_know() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/train_in_one_file.py")],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    before, after = (
        float(re.search(rf"{name}:\s+([\d.]+) %", done.stdout)[1]) for name in ("random weights", "I-JEPA")
    )
    assert after > before + 4 > 25


@pytest.mark.slow
def test_the_example_measures_a_module_of_somebody_elses() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/measure_another_encoder.py")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"scenes-colour +(\S+(?: encoder)?) +([\d.]+) %", done.stdout)
    scores = {name: float(value) for name, value in rows}
    assert scores["trained"] > scores["pixels"] > 15, done.stdout  # a palette knows colours; chance is 12.5


PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
LONGEST_WALK = {"Training": 14, "Evaluation": 8, "Report": 5}  # hops
DIALECT = (
    r"\b(pictures?|mend(?:ed)?|asked|goes on|go on|content with|for want of|stands in|lies in|is said|remembered"
    r"|kept|wanted|beware)\b"
)
WRAPPED = [*PAGES, *sorted((ROOT / "openjepa").rglob("*.yaml"))]
HOP = re.compile(r"^\| (\d+) \| `([\w/]+\.py): ([\w.]+)` \|", re.M)


@EVERY_PAGE
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http", "mailto")):
            assert (page.parent / target).exists(), target
            is_on_the_site = (ROOT / "docs") in (page.parent / target).resolve().parents
            assert is_on_the_site or (ROOT / "docs") not in page.parents, f"{target} is not part of the site"


@pytest.mark.parametrize("file", WRAPPED, ids=lambda file: str(file.relative_to(ROOT)))
def test_lines_fit_in_a_window(file: Path) -> None:
    long = [line for line in file.read_text(encoding="utf-8").splitlines() if len(line) > 160]
    assert not long, f"{len(long)} lines are longer than 160 characters; the first: {long[0]}"


@EVERY_PAGE
def test_pages_use_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.stem == "CHANGELOG":
        text = re.sub(r"`[^`\n]*`", "", text)  # it names options as they were
    dialect = re.findall(DIALECT, text, re.I)
    assert not dialect, f"{dialect}: see the glossary in AGENTS.md"


@EVERY_PAGE
def test_files_named_in_pages_exist(page: Path) -> None:
    if (
        page.stem in ("log", "adding", "CHANGELOG") or page.parent.name == "decisions"
    ):  # the past, or a reader's own files
        return
    for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|yaml))", page.read_text(encoding="utf-8")):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "openjepa")), name


def test_the_navigation_lists_every_page_once() -> None:
    (nav,) = re.findall(r"^nav:\n(.*?)^\S", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M | re.S)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(re.findall(r": (\S+\.md)$", nav, re.M)) == sorted(pages)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def names_defined_in(file: Path) -> set[str]:
    """Functions, classes and Class.method of a file."""
    names = set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, kinds):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, kinds)}
    return names


@pytest.mark.parametrize("table", LONGEST_WALK)
def test_the_walk_is_short_and_its_names_exist(table: str) -> None:
    (section,) = re.findall(rf"^## {table}\n(.*?)(?=^## |\Z)", (ROOT / "docs/walk.md").read_text("utf-8"), re.M | re.S)
    hops = HOP.findall(section)
    num_rows = len(re.findall(r"^\|", section, re.M)) - 2  # without the head of the table
    assert [int(number) for number, _, _ in hops] == list(range(1, num_rows + 1)), (
        "a row is not `number | file: function`"
    )
    assert num_rows <= LONGEST_WALK[table]
    for _, file, name in hops:
        assert name in names_defined_in(ROOT / "openjepa" / file), f"{file} does not define {name}"
