"""HTTPS from end to end: the listener, a client, the command line and an agent, which trust one
certificate that no public authority signed."""

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import berth
import pytest


def certify(path):
    """A new certificate for 127.0.0.1 in path.pem, its key in path-key.pem."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{path}-key.pem", "-out",
                    f"{path}.pem", "-days", "2", "-subj", "/CN=berth-test", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    os.chmod(f"{path}.pem", 0o644)
    os.chmod(f"{path}-key.pem", 0o600)
    shutil.chown(f"{path}-key.pem", berth.SERVICE_USER)


@pytest.fixture(scope="module")
def site(scratch):
    if os.geteuid() != 0:
        pytest.skip("a site for several users needs root")
    folder = f"{scratch}/certificates"
    os.makedirs(folder)
    os.chmod(folder, 0o755)
    berth.slurm.make_users()
    certify(f"{folder}/site")
    tls = {"cert": f"{folder}/site.pem", "key": f"{folder}/site-key.pem"}
    site = berth.Site(f"{scratch}/tls-site", config={"tls": tls})
    site.start()
    site.key("alice", "gaia")
    yield site
    site.close()


def served_certificate(site):
    at = urllib.parse.urlsplit(site.url)
    return ssl.get_server_certificate((at.hostname, at.port))


def test_a_declared_service_registers_and_answers(site):
    path = f"{site.dir}/numbers.yaml"
    with open(path, "w") as f:
        json.dump({"name": "numbers", "engine": "command", "model": site.tools.model,
                   "command": site.tools.engine()[:2] + ["--model", "{model}", "--uds", "{uds}",
                                                         "--served-model-name", "{name}"],
                   "setup": f"export SSL_CERT_FILE={site.authority}"}, f)
    site.cli("alice", "apply", "-f", path)
    site.cli("alice", "wait", "numbers", "--timeout", "60s", timeout=70)
    said = site.cli("alice", "chat", "numbers", "count from 41", "--max-tokens", "3").stdout
    assert said.split() == ["42", "43", "44"]
    name = site.service("alice", "numbers")["name"]
    assert site.models("alice")[name]["state"] == "ready"
    site.cli("alice", "rm", "numbers")


def test_who_does_not_trust_it_says_so(site):
    done = site.cli("alice", "ps", check=False, env={"BERTH_CA_FILE": ""})
    assert done.returncode != 0
    assert "certificate" in done.stderr and "127.0.0.1" in done.stderr


def test_plain_http_gets_no_answer(site):
    plain = urllib.request.Request(site.url.replace("https:", "http:") + "/v1/models")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises((urllib.error.URLError, OSError)):
        opener.open(plain, timeout=10)


def test_a_reload_serves_the_renewed_certificate(site):
    before = served_certificate(site)
    certify(site.authority.removesuffix(".pem"))
    site.process.send_signal(berth.signal.SIGHUP)
    site.wait(lambda: served_certificate(site) != before, 10, "the renewed certificate")
    assert site.request("/v1/models", "alice")[0] == 200
