"""Stand-in for the server of the published Flower scenarios: the same command line, FedAvg, losses kept as JSON."""

import argparse
import json
from pathlib import Path

import flwr
from flwr.server.strategy import FedAvg

KNOWN = (
    "--strategy", "--model", "--dataset", "--compression", "--transforms", "--local_epochs", "--n_clusters",
    "--total_num_clients",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server_address", required=True)
    parser.add_argument("--num_rounds", type=int, required=True)
    parser.add_argument("--min_available_clients", type=int, required=True)
    parser.add_argument("--min_fit_clients", type=int, required=True)
    parser.add_argument("--fraction_fit", type=float, required=True)
    for name in KNOWN:
        parser.add_argument(name, required=True)
    said = parser.parse_args()
    strategy = FedAvg(
        fraction_fit=said.fraction_fit,
        min_fit_clients=said.min_fit_clients,
        min_evaluate_clients=said.min_fit_clients,
        min_available_clients=said.min_available_clients,
    )
    history = flwr.server.start_server(
        server_address=said.server_address,
        config=flwr.server.ServerConfig(num_rounds=said.num_rounds),
        strategy=strategy,
    )
    place = Path("/app/fl_logs")
    place.mkdir(parents=True, exist_ok=True)
    (place / "history.json").write_text(json.dumps({"losses": history.losses_distributed}))


if __name__ == "__main__":
    main()
