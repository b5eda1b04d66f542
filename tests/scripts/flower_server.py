"""A server of Flower's for tests: two clients, two rounds, then it ends."""

import flwr

flwr.server.start_server(
    server_address="0.0.0.0:8080",
    config=flwr.server.ServerConfig(num_rounds=2),
    strategy=flwr.server.strategy.FedAvg(min_fit_clients=2, min_evaluate_clients=2, min_available_clients=2),
)
