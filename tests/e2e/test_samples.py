"""Every sample is accepted by the API server as it stands; the job ones are run by the demo's tests."""

import hashlib
from pathlib import Path

import pytest
import yaml

from controller.sandbox.controlplane import Cluster
from controller.sandbox.controlplane.keeper import SharedControlPlane
from tests.e2e.running import ROOT, SAMPLES


@pytest.fixture
def cluster(shared_control_plane: SharedControlPlane, binaries: None) -> Cluster:
    found = shared_control_plane.cluster(sorted((ROOT / "crds").glob("*.yaml")))
    found.request("POST", "/api/v1/namespaces", {"metadata": {"name": "brev-operator"}})
    return found


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_api_server_accepts_the_sample(cluster: Cluster, sample: Path) -> None:
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", str(sample), check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "a warning is a misspelt or a deprecated field"


def test_the_iris_data_are_fishers() -> None:
    """150 flowers, 50 of each species; the digest is of what was compared with scikit-learn's copy."""
    [config_map, _] = yaml.safe_load_all((SAMPLES / "iris.yaml").read_text())
    text: str = config_map["data"]["iris.csv"]
    header, *rows = text.splitlines()
    assert header == "sepal_length,sepal_width,petal_length,petal_width,species"
    assert len(rows) == 150
    species = [row.rsplit(",", 1)[1] for row in rows]
    assert {name: species.count(name) for name in species} == {"setosa": 50, "versicolor": 50, "virginica": 50}
    assert rows[34] == "4.9,3.1,1.5,0.2,setosa"
    assert rows[37] == "4.9,3.6,1.4,0.1,setosa"
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "9cc1c345c71bcc9b486b74cbf6063fa66f4bb5e0f603a4b3c3471ec2e5e8e355"
    )
