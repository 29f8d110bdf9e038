"""What the documentation says is there, is there: links, commands, options, packaged files."""

import os
import re
import subprocess

import pytest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BERTH = os.environ.get("BERTH_TEST_PROGRAM", f"{ROOT}/build/release/berth")
PAGES = subprocess.run(
    ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    capture_output=True, text=True, check=True).stdout.split()


def text_of(page):
    with open(f"{ROOT}/{page}", encoding="utf-8") as f:
        return f.read()


def need_build():
    if not os.path.exists(BERTH):
        pytest.skip(f"{BERTH} is not built: ./dev build")


def berth(*words):
    need_build()
    return subprocess.run([BERTH, *words], capture_output=True, text=True, timeout=30,
                          env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})


def anchors(page):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-")
            for h in re.findall(r"^#+ (.+)$", text_of(page), re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        assert os.path.exists(f"{ROOT}/{there}"), f"{page}: {target}"
        if anchor and there.endswith(".md"):
            assert anchor in anchors(there), f"{page}: no heading for {target}"


def reference():
    """Command to its section in docs/ref/cli.md, which a unit test holds against the code."""
    parts = re.split(r"^## berth (.+)$", text_of("docs/ref/cli.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def mentioned(page):
    """Calls of berth in code of a page: the words after "berth"."""
    text = text_of(page)
    code = re.findall(r"^```(?:sh|bash|ini)?\n(.*?)^```", text, re.M | re.S)
    code += re.findall(r"`(berth [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    for piece in code:
        for line in piece.replace("\\\n", " ").splitlines():
            line = line.split(" #")[0]
            for call in re.findall(r"(?:^|[\s(&|/])berth ([a-z][^|;&)]*)", line):
                yield call.split(" -- ")[0].split()


GUIDES = [p for p in PAGES if p.startswith(("docs/users", "docs/operators", "README"))]


@pytest.mark.parametrize("page", GUIDES)
def test_commands_and_options_exist(page):
    known = reference()
    for words in mentioned(page):
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        if name not in known and any(k.startswith(name + " ") for k in known):
            continue  # a group, such as "key"
        assert name in known, f"{page}: no command berth {' '.join(words)}"
        for option in words:
            if option.startswith("--"):
                option = option.split("=")[0]
                assert f"`{option}" in known[name] or f", {option}" in known[name], \
                    f"{page}: berth {name} has no {option}"


SERVICE_MEMBERS = {"slurm.mem", "slurm.time", "slurm.account"}  # of service files, not options


def test_options_of_the_configuration_exist():
    known = set(re.findall(r"^\| `([^`]+)` \|", text_of("docs/ref/config.md"), re.M))
    groups = {name.split(".")[0] for name in known if "." in name}
    for page in GUIDES:
        for name in re.findall(r"`([a-z_]+\.[a-z_.]+[a-z])`", text_of(page)):
            if name.split(".")[0] in groups:
                assert name in known | SERVICE_MEMBERS, f"{page}: no option {name}"


def test_the_packaged_configuration_is_accepted():
    checked = berth("config", "check", f"{ROOT}/packaging/config/berth.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_mistake_in_it_would_be_seen(tmp_path):
    with open(f"{ROOT}/packaging/config/berth.yaml", encoding="utf-8") as f:
        text = f.read()
    (tmp_path / "berth.yaml").write_text(text.replace("body_limit", "body_limits"))
    checked = berth("config", "check", str(tmp_path / "berth.yaml"))
    assert checked.returncode == 1 and "body_limit" in checked.stdout + checked.stderr


def test_install_puts_everything_where_the_unit_looks(tmp_path):
    need_build()
    tree = f"{ROOT}/build/release"
    done = subprocess.run(["cmake", "--install", tree, "--prefix", "/usr"], timeout=120,
                          env=os.environ | {"DESTDIR": str(tmp_path)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "usr/lib/systemd/system/berth.service", encoding="utf-8") as f:
        unit = f.read()
    start = re.search(r"^ExecStart=(\S+) serve --config (\S+)$", unit, re.M)
    for path in start.groups():
        assert (tmp_path / path[1:]).is_file(), path
    for path in ("usr/lib/sysusers.d/berth.conf", "usr/lib/tmpfiles.d/berth.conf",
                 "etc/logrotate.d/berth", "usr/share/doc/berth/LICENSE",
                 "usr/share/doc/berth/docs/README.md", "usr/share/doc/berth/examples/services",
                 "usr/share/bash-completion/completions/berth",
                 "usr/share/zsh/site-functions/_berth"):
        assert (tmp_path / path).exists(), path
    with open(tmp_path / "usr/share/bash-completion/completions/berth", encoding="utf-8") as f:
        assert "complete" in f.read()
    # What an operator has written stays.
    config = tmp_path / "etc/berth/berth.yaml"
    config.write_text("scheduler: slurm\n")
    subprocess.run(["cmake", "--install", tree, "--prefix", "/usr"], timeout=120, check=True,
                   env=os.environ | {"DESTDIR": str(tmp_path)}, capture_output=True)
    assert config.read_text() == "scheduler: slurm\n"
